/* SPDX-License-Identifier: Apache-2.0 */
#include "training/data/text_reader.h"

#include "base/file/file.h"

#include <stdlib.h>
#include <unistd.h>

#define WINDOW_LEAST ((uint64_t)2 << 20) /* nearly always enough for a piece */

weft_status text_reader_open(struct text_reader *reader, const char *path, uint64_t size, uint64_t first, uint64_t end,
                             struct error *error)
{
    uint64_t now;
    *reader = (struct text_reader){.path = path, .size = size, .at = first, .end = end};
    return file_open(path, &reader->descriptor, &now, error);
}

static weft_status read_window(struct text_reader *reader, uint64_t bytes, struct error *error)
{
    if (bytes > reader->room) {
        free(reader->window);
        reader->window = malloc(bytes);
        reader->room = reader->window ? bytes : 0;
        if (!reader->window)
            return error_memory(error, bytes, "a piece of text");
    }
    return file_read_at(reader->descriptor, reader->path, reader->size, reader->at, reader->window, bytes, error);
}

weft_status text_reader_next(struct text_reader *reader, struct text_piece *piece, bool *more, struct error *error)
{
    const uint64_t left = reader->end - reader->at;
    *more = left > 0;
    for (uint64_t bytes = WINDOW_LEAST; left > 0; bytes *= 2) {
        const uint64_t size = bytes < left ? bytes : left;
        weft_status status = read_window(reader, size, error);
        if (status != WEFT_OK)
            return status;
        struct text_pieces pieces = {.text = reader->window, .size = size};
        text_pieces_next(&pieces, piece);
        if (pieces.at == size && size < left)
            continue; /* it ends where the window does: it would be longer in a larger one */
        reader->at += pieces.at;
        return WEFT_OK;
    }
    return WEFT_OK;
}

void text_reader_close(struct text_reader *reader)
{
    close(reader->descriptor);
    free(reader->window);
}
