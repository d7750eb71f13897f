/* SPDX-License-Identifier: Apache-2.0 */
/* The index of a directory of safetensors files may be any text: it is refused with a message, or names sorted tensors,
 * each in one of its files, whose names lead nowhere else. */
#include "training/checkpoint/tensor_files.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check(const struct tensor_index *index)
{
    if (index->count == 0 || index->file_count == 0 || index->file_count > index->count)
        abort();
    for (size_t i = 0; i < index->file_count; i++)
        if (strchr(index->files[i], '/') || index->files[i][0] == '.' ||
            (i && strcmp(index->files[i - 1], index->files[i]) >= 0))
            abort();
    for (size_t i = 0; i < index->count; i++) {
        size_t file = 0;
        while (file < index->file_count && strcmp(index->files[file], index->entries[i].file) != 0)
            file++;
        if (file == index->file_count || (i && strcmp(index->entries[i - 1].tensor, index->entries[i].tensor) >= 0))
            abort();
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char *text = malloc(size + !size);
    struct tensor_index index;
    struct error error = {0};
    memcpy(text, data, size);
    if (tensor_index_parse(text, size, "input", &index, &error) == WEFT_OK) {
        check(&index);
        tensor_index_free(&index);
    } else if (error.text[0] == '\0') {
        abort();
    }
    free(text);
    return 0;
}
