/* SPDX-License-Identifier: Apache-2.0 */
/**
 * Generated text on its way to a stream: printed as soon as it is certain, up to the first stop string, and in whole
 * UTF-8 characters, however the bytes come in.
 *
 * Held back is what may still become a stop string or is the beginning of a character. Bytes that are no UTF-8, and
 * NUL, are printed as U+FFFD, one each; on a terminal control characters are, too, except tab and line feed: none moves
 * the cursor. Belongs to one thread at a time.
 */
#ifndef WEFT_TRAINING_TRAIN_TEXT_TEXT_STREAM_H
#define WEFT_TRAINING_TRAIN_TEXT_TEXT_STREAM_H

#include "base/error.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

/** To begin, set the first four members; the others are 0. */
struct text_stream {
    FILE *output;
    const char *const *stops; /**< none is empty; they outlive the stream */
    size_t stop_count;
    bool is_terminal; /**< `output` is one */
    bool is_stopped;  /**< a stop string has come: it and what follows are not printed */
    uint8_t *held;
    size_t count, room;
};

/** Add bytes, and print and flush what is certain now. Errors: MEMORY; SYSTEM if `output` cannot be written. */
weft_status text_stream_put(struct text_stream *stream, const void *bytes, size_t size, struct error *error);

/** Print what was held back, and free it: the next text may begin. */
weft_status text_stream_end(struct text_stream *stream, struct error *error);

#endif
