/* SPDX-License-Identifier: Apache-2.0 */
/**
 * A text of any length in pieces that can be encoded one by one, to the same tokens as the whole: a piece ends behind a
 * line's end that has no white space before or behind it, where GPT-2's pattern always ends a pre-token. (A text with
 * no such place in 256 MiB is cut there all the same, between two characters.)
 *
 * The letters "<|endoftext|>" in a text end a document: they are no part of a piece, and are told by `end_of_text`.
 */
#ifndef WEFT_TRAINING_DATA_INTERNAL_TEXT_PIECES_H
#define WEFT_TRAINING_DATA_INTERNAL_TEXT_PIECES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct text_pieces {
    const uint8_t *text; /**< set by the caller, as is `size` */
    uint64_t size, at;   /**< `at` 0 to begin */
};

struct text_piece {
    const uint8_t *bytes;
    size_t size; /**< may be 0 before an end of text */
    bool end_of_text;
};

/** The next piece, of about a MiB; false after the last. */
bool text_pieces_next(struct text_pieces *pieces, struct text_piece *piece);

#endif
