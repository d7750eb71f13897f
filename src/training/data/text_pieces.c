/* SPDX-License-Identifier: Apache-2.0 */
#include "training/data/internal/text_pieces.h"
#include "training/data/tokenizer/tokenizer.h"

#include <string.h>

#define PIECE_LEAST ((uint64_t)1 << 20)
#define PIECE_MOST  ((uint64_t)256 << 20)
#define MARK        TOKENIZER_END_OF_TEXT
#define MARK_BYTES  (sizeof MARK - 1)

/* ASCII that prints; beyond ASCII there is white space too. */
static bool text_pieces_is_plain(uint8_t byte)
{
    return byte > ' ' && byte < 0x7f;
}

/* Where a piece that begins at `text` ends. */
static uint64_t text_pieces_find_end(const uint8_t *text, uint64_t size)
{
    uint64_t most = size < PIECE_MOST ? size : PIECE_MOST;
    for (uint64_t at = PIECE_LEAST; at + 1 < most; at++) {
        const uint8_t *newline = memchr(text + at, '\n', most - at - 1);
        if (!newline)
            break;
        at = (uint64_t)(newline - text);
        if (text_pieces_is_plain(newline[-1]) && text_pieces_is_plain(newline[1]))
            return at + 1;
    }
    if (most < size)
        for (int i = 0; i < 4 && (text[most] & 0xc0) == 0x80; i++)
            most--;
    return most;
}

bool text_pieces_next(struct text_pieces *pieces, struct text_piece *piece)
{
    if (pieces->at == pieces->size)
        return false;
    const uint8_t *begin = pieces->text + pieces->at;
    uint64_t left = pieces->size - pieces->at, end = left < PIECE_LEAST ? left : PIECE_LEAST;
    const uint8_t *mark = memmem(begin, end, MARK, MARK_BYTES);
    if (!mark && end < left) {
        end = text_pieces_find_end(begin, left);
        mark = memmem(begin, end, MARK, MARK_BYTES);
    }
    *piece = (struct text_piece){.bytes = begin, .size = mark ? (size_t)(mark - begin) : end, .end_of_text = mark};
    pieces->at += piece->size + (mark ? MARK_BYTES : 0);
    return true;
}
