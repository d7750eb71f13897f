/* SPDX-License-Identifier: Apache-2.0 */
#include "training/data/bert/internal/masking.h"
#include "base/random.h"
#include "training/model/inputs.h"

#include <stdlib.h>
#include <string.h>

#define SHARE_MASKED 0.8 /* of the chosen tokens */
#define SHARE_RANDOM 0.1

/* Streams of random numbers within that of a sample. */
enum masking_stream {
    MASKING_ORDER,
    MASKING_KIND,
    MASKING_TOKEN,
};

weft_status masking_open(const struct bert_data_options *options, const struct special_tokens *specials,
                         struct masking *masking, struct error *error)
{
    const size_t sequence = options->sequence, vocabulary = tokenizer_vocabulary(options->tokenizer);
    *masking = (struct masking){.specials = *specials,
                                .vocabulary = (uint32_t)vocabulary,
                                .predictions = model_masked_predictions(sequence),
                                .groups = malloc(sequence * sizeof *masking->groups),
                                .chosen = malloc(sequence)};
    if (options->whole_words)
        masking->continues = malloc(vocabulary);
    if (!masking->groups || !masking->chosen || (options->whole_words && !masking->continues)) {
        masking_close(masking);
        return error_memory(error, sequence * sizeof *masking->groups + vocabulary, "the masking of samples");
    }
    for (size_t i = 0; masking->continues && i < vocabulary; i++)
        masking->continues[i] = tokenizer_continues_word(options->tokenizer, (int32_t)i);
    for (int i = 0; i < TOKENIZER_SPECIALS; i++) {
        int at = i;
        for (; at > 0 && masking->sorted[at - 1] > specials->of[i]; at--)
            masking->sorted[at] = masking->sorted[at - 1];
        masking->sorted[at] = specials->of[i];
    }
    return WEFT_OK;
}

void masking_close(struct masking *masking)
{
    free(masking->continues);
    free(masking->groups);
    free(masking->chosen);
    *masking = (struct masking){0};
}

static bool is_special(const struct masking *masking, int32_t token)
{
    for (int i = 0; i < TOKENIZER_SPECIALS; i++)
        if (token == masking->sorted[i])
            return true;
    return false;
}

/* Find where the tokens or words that may be chosen begin. */
static size_t find_maskable(const struct masking *masking, const int32_t *row, size_t length)
{
    size_t count = 0;
    for (size_t i = 1; i < length; i++) {
        const bool joins = masking->continues && masking->continues[row[i]] && !is_special(masking, row[i - 1]);
        if (!is_special(masking, row[i]) && !joins)
            masking->groups[count++] = (uint32_t)i;
    }
    return count;
}

static size_t group_size(const struct masking *masking, const int32_t *row, size_t length, size_t first)
{
    size_t end = first + 1;
    while (masking->continues && end < length && masking->continues[row[end]])
        end++;
    return end - first;
}

/* Mark `wanted` tokens or fewer: the groups in a random order (Fisher and Yates), as far as they fit. */
static void choose_tokens(struct masking *masking, uint64_t stream, const int32_t *row, size_t length, size_t wanted)
{
    const size_t count = find_maskable(masking, row, length);
    size_t marked = 0;
    memset(masking->chosen, 0, length);
    for (size_t i = 0; i < count && marked < wanted; i++) {
        const size_t other = i + random_below(stream, i, count - i);
        const uint32_t first = masking->groups[other];
        masking->groups[other] = masking->groups[i];
        const size_t size = group_size(masking, row, length, first);
        if (marked + size > wanted)
            continue;
        memset(masking->chosen + first, 1, size);
        marked += size;
    }
}

/* A token that is not special. There are none if the vocabulary has no other: it stays a mask. */
static int32_t random_token(const struct masking *masking, uint64_t stream, uint64_t index)
{
    const uint32_t others = masking->vocabulary - TOKENIZER_SPECIALS;
    if (others == 0)
        return masking->specials.of[TOKENIZER_MASK];
    int32_t token = (int32_t)random_below(stream, index, others);
    for (int i = 0; i < TOKENIZER_SPECIALS; i++)
        token += token >= masking->sorted[i];
    return token;
}

size_t masking_apply(struct masking *masking, uint64_t stream, int32_t *row, size_t length, int32_t *positions,
                     int32_t *targets)
{
    const uint64_t kinds = random_bits(stream, MASKING_KIND), tokens = random_bits(stream, MASKING_TOKEN);
    size_t wanted = (length * 15 + 50) / 100, count = 0;
    if (wanted < 1)
        wanted = 1;
    if (wanted > masking->predictions)
        wanted = masking->predictions;
    choose_tokens(masking, random_bits(stream, MASKING_ORDER), row, length, wanted);
    for (size_t i = 0; i < length; i++) {
        if (!masking->chosen[i])
            continue;
        positions[count] = (int32_t)i;
        targets[count++] = row[i];
        const double kind = random_uniform(kinds, i);
        if (kind < SHARE_MASKED)
            row[i] = masking->specials.of[TOKENIZER_MASK];
        else if (kind < SHARE_MASKED + SHARE_RANDOM)
            row[i] = random_token(masking, tokens, i);
    }
    for (size_t i = count; i < masking->predictions; i++) {
        positions[i] = 0;
        targets[i] = -1;
    }
    return count;
}
