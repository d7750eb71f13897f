/* SPDX-License-Identifier: Apache-2.0 */
/* Any bytes as a file of tokens: refused with a message, or all its tokens can be read. */
#include "training/data/shard.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* The first byte chooses the name; headers are mostly zeros, so an input is stretched to a header's size when it is
 * odd. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size < 1)
        return 0;
    const char *name = data[0] & 2 ? "input.bin" : "input.txt";
    size_t given = size - 1, stretched = data[0] & 1 && given > 12 ? given + 1024 - 12 : given;
    uint8_t *bytes = calloc(1, stretched + !stretched);
    if (stretched == given) {
        memcpy(bytes, data + 1, given);
    } else {
        memcpy(bytes, data + 1, 12);
        memcpy(bytes + 1024, data + 13, given - 12);
    }
    struct shard shard = {.path = NULL, .bytes = bytes};
    struct error error = {0};
    if (shard_recognize(name, bytes, stretched, &shard.layout, &error) != WEFT_OK) {
        if (error.text[0] == '\0')
            abort();
    } else {
        int32_t *tokens = malloc((shard.layout.count + 1) * sizeof *tokens);
        uint32_t highest;
        if (shard_read(&shard, 0, shard.layout.count, tokens, &highest, NULL) != WEFT_OK)
            abort();
        free(tokens);
    }
    free(bytes);
    return 0;
}
