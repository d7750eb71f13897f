/* SPDX-License-Identifier: Apache-2.0 */
#include "training/data/bert/internal/sample.h"

#include <inttypes.h>
#include <string.h>

#define SEQUENCE_MOST ((uint64_t)1 << 24)

weft_status sample_check_options(const struct bert_data_options *options, struct special_tokens *specials,
                                 struct error *error)
{
    const struct tokenizer *tokenizer = options->tokenizer;
    if (options->sequence < BERT_SEQUENCE_LEAST || options->sequence > SEQUENCE_MOST)
        return error_set(error, WEFT_ERROR_ARGUMENT,
                         "the sequence is %" PRIu64 " tokens, but for BERT it must be from %d to %" PRIu64,
                         options->sequence, BERT_SEQUENCE_LEAST, SEQUENCE_MOST);
    if (!tokenizer || tokenizer_get_kind(tokenizer) != TOKENIZER_WORDPIECE)
        return error_set(error, WEFT_ERROR_ARGUMENT,
                         "BERT reads text with a WordPiece tokenizer, a directory with %s; weft data tokenizer --kind "
                         "wordpiece makes one",
                         TOKENIZER_WORDPIECES);
    if (options->vocabulary && options->vocabulary < tokenizer_vocabulary(tokenizer))
        return error_set(error, WEFT_ERROR_DATA,
                         "the tokenizer has %" PRIu32 " tokens, but the model has a vocabulary of %" PRIu64
                         "; give the model a larger one, or learn a smaller tokenizer",
                         tokenizer_vocabulary(tokenizer), options->vocabulary);
    for (int i = 0; i < TOKENIZER_SPECIALS; i++)
        specials->of[i] = tokenizer_special(tokenizer, (enum tokenizer_special)i);
    return WEFT_OK;
}

size_t sample_room(uint64_t sequence, int texts)
{
    return (size_t)sequence - 1 - (size_t)texts;
}

void sample_fit(size_t room, size_t *one, size_t *other)
{
    if (*one + *other <= room)
        return;
    if (*other <= room / 2)
        *one = room - *other;
    else if (*one <= room - room / 2)
        *other = room - *one;
    else
        *one = room - room / 2, *other = room / 2;
}

size_t sample_put_tokens(const struct special_tokens *specials, struct token_span one, struct token_span other,
                         int32_t *row, size_t sequence)
{
    size_t at = 0;
    row[at++] = specials->of[TOKENIZER_CLASS];
    memcpy(row + at, one.tokens, one.count * sizeof *row);
    at += one.count;
    row[at++] = specials->of[TOKENIZER_SEPARATOR];
    if (other.tokens) {
        memcpy(row + at, other.tokens, other.count * sizeof *row);
        at += other.count;
        row[at++] = specials->of[TOKENIZER_SEPARATOR];
    }
    for (size_t i = at; i < sequence; i++)
        row[i] = specials->of[TOKENIZER_PADDING];
    return at;
}

void sample_put_segments(size_t one, size_t other, int32_t *row, size_t sequence)
{
    const size_t first = 1 + one + 1, end = other ? first + other + 1 : first;
    for (size_t i = 0; i < sequence; i++)
        row[i] = i >= first && i < end;
}
