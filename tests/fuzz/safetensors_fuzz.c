/* SPDX-License-Identifier: Apache-2.0 */
/* The safetensors parser takes any bytes: it refuses with a message, or what it hands out lies within the file. */
#include "training/checkpoint/safetensors.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* With an even first byte the rest is a file as it is; else the header's size is put right first, which chance rarely
 * does. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size < 1)
        return 0;
    size_t length = size - 1;
    uint8_t *bytes = malloc(length + !length);
    memcpy(bytes, data + 1, length);
    if (data[0] % 2 == 1 && length > 8) {
        const uint8_t *end = memrchr(bytes + 8, '}', length - 8);
        uint64_t header = end ? (uint64_t)(end - bytes) - 7 : 0;
        memcpy(bytes, &header, 8);
    }
    struct safetensors *file = NULL;
    struct error error = {0};
    if (safetensors_parse(bytes, length, "input", &file, &error) != WEFT_OK) {
        if (error.text[0] == '\0' || file)
            abort();
    } else {
        for (size_t i = 0; i < safetensors_count(file); i++) {
            const struct named_tensor *tensor = safetensors_tensor(file, i);
            const uint8_t *begin = tensor->data;
            uint64_t held = named_tensor_held(tensor) * weft_type_size(tensor->type);
            if (begin < bytes || held > length || (size_t)(begin - bytes) > length - held)
                abort();
        }
        safetensors_close(file);
    }
    free(bytes);
    return 0;
}
