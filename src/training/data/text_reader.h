/* SPDX-License-Identifier: Apache-2.0 */
/**
 * A range of a text file in pieces that can be encoded alone (text_pieces.h), read as they are asked for: the same
 * pieces that the range would have in memory. Belongs to one thread at a time.
 */
#ifndef WEFT_TRAINING_DATA_TEXT_READER_H
#define WEFT_TRAINING_DATA_TEXT_READER_H

#include "base/error.h"
#include "training/data/internal/text_pieces.h"

struct text_reader {
    const char *path; /**< borrowed */
    int descriptor;
    uint64_t size;    /**< of the file */
    uint64_t at, end; /**< what is still to be read */
    uint8_t *window;
    uint64_t room;
};

/** Open bytes [first, end) of the file at `path`, which has `size` bytes. Errors: those of file_open(). */
weft_status text_reader_open(struct text_reader *reader, const char *path, uint64_t size, uint64_t first, uint64_t end,
                             struct error *error);

/**
 * The next piece, valid until the next call; *more is false after the last. Errors: MEMORY; those of file_read_at(), as
 * for a file that was truncated meanwhile.
 */
weft_status text_reader_next(struct text_reader *reader, struct text_piece *piece, bool *more, struct error *error);

void text_reader_close(struct text_reader *reader);

#endif
