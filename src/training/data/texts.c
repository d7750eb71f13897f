/* SPDX-License-Identifier: Apache-2.0 */
#include "training/data/texts.h"
#include "training/data/shard.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static weft_status look_at_text(const char *path, uint64_t *size, struct error *error)
{
    size_t length = strlen(path);
    uint8_t header[SHARD_HEADER_BYTES];
    struct shard_layout layout;
    int descriptor;
    weft_status status = file_open(path, &descriptor, size, error);
    if (status != WEFT_OK)
        return status;
    status = file_read_at(descriptor, path, *size, 0, header, *size < sizeof header ? *size : sizeof header, error);
    close(descriptor);
    if (status != WEFT_OK)
        return status;
    if (*size == 0)
        return error_set(error, WEFT_ERROR_DATA, "'%s' is empty; there is no text in it", path);
    bool named_so = length > 4 && strcmp(path + length - 4, ".bin") == 0;
    if (named_so || shard_recognise(path, header, *size, &layout, NULL) != WEFT_OK || layout.format != SHARD_BYTES)
        return error_set(error, WEFT_ERROR_DATA,
                         "'%s' holds tokens, not text (%s); name the text that they were made of", path,
                         named_so ? "its name ends in .bin" : "it begins with the magic number of a token shard");
    return WEFT_OK;
}

weft_status texts_open(const char *const *paths, size_t count, struct data_texts *texts, struct error *error)
{
    *texts = (struct data_texts){0};
    weft_status status = data_files_find(paths, count, &texts->files, error);
    if (status != WEFT_OK)
        return status;
    texts->sizes = calloc(texts->files.count, sizeof *texts->sizes);
    if (!texts->sizes)
        status = error_memory(error, texts->files.count * sizeof *texts->sizes, "a list of texts");
    for (size_t i = 0; i < texts->files.count && status == WEFT_OK; i++) {
        status = look_at_text(texts->files.paths[i], &texts->sizes[i], error);
        texts->count++;
        texts->bytes += texts->sizes[i];
    }
    if (status != WEFT_OK)
        texts_close(texts);
    return status;
}

void texts_close(struct data_texts *texts)
{
    free(texts->sizes);
    data_files_free(&texts->files);
    *texts = (struct data_texts){0};
}
