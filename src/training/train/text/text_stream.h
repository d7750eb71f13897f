/* SPDX-License-Identifier: Apache-2.0 */
/**
 * Writes generated text to a stream: as soon as it is certain, up to the first stop string, and in complete UTF-8
 * characters, however the bytes are split.
 *
 * Held back are bytes that may still become a stop string, and incomplete characters. Bytes that are not valid UTF-8,
 * and NUL, are printed as U+FFFD, one each. On a terminal so are control characters except tab and line feed, so that
 * none moves the cursor. Belongs to one thread at a time.
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

/** Add bytes, and print and flush the part that is now certain. Errors: MEMORY; SYSTEM if `output` cannot be
 * written. */
weft_status text_stream_put(struct text_stream *stream, const void *bytes, size_t size, struct error *error);

/** Print the text that was held back, and free it. The next text may begin. */
weft_status text_stream_end(struct text_stream *stream, struct error *error);

#endif
