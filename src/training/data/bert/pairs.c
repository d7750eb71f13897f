/* SPDX-License-Identifier: Apache-2.0 */
#include "training/data/bert/pairs.h"
#include "base/hash.h"
#include "base/random.h"
#include "training/data/bert/internal/documents.h"
#include "training/data/bert/internal/masking.h"
#include "training/data/internal/permutation.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SHARE_SHORT  0.1 /* of the samples */
#define SHARE_RANDOM 0.5

/* Streams of random numbers from the run's seed, independent of each other and of others'. */
#define STREAM_ORDER    0x70616972736f72u
#define STREAM_SAMPLES  0x70616972736d70u
#define STREAM_HELD_OUT 0x7061697273686fu /* with no seed */

/* Numbers in the stream of a sample. */
enum pair_choice {
    PAIR_IS_SHORT,
    PAIR_SHORT_LENGTH,
    PAIR_START,
    PAIR_LABEL,
    PAIR_SPLIT,
    PAIR_OTHER_DOCUMENT,
    PAIR_OTHER_START,
    PAIR_CUT_ONE,
    PAIR_CUT_OTHER,
    PAIR_MASKING,
};

/* A part of a document that fills a sample. */
struct pair_part {
    uint64_t first;    /* sentence */
    uint32_t count;    /* sentences */
    uint32_t document; /* its number */
};

struct pairs {
    struct sample_source source;
    uint64_t sequence, seed;
    size_t room; /* tokens of a sample that are not special */
    struct special_tokens specials;
    struct documents documents;
    struct pair_part *parts; /* those to train on first */
    size_t part_count, part_room;
    size_t train_parts;
    struct masking masking;
    int32_t *row, *positions, *targets; /* of a sample */
    char description[1024];
};

/* The texts of a sample, before they are shortened. */
struct pair_texts {
    struct token_span one, other;
    int32_t label;
};

/* ---- opening ---- */

static weft_status pairs_cut_document(struct pairs *pairs, size_t document, struct error *error)
{
    const struct documents *documents = &pairs->documents;
    const uint64_t end = documents->documents[document];
    for (uint64_t first = documents_first_sentence(documents, document), next; first < end; first = next) {
        for (next = first + 1; next < end && documents_span(documents, first, next).count < pairs->room;)
            next++;
        weft_status status =
            ARRAY_RESERVE(pairs->parts, pairs->part_room, pairs->part_count + 1, "the samples of a text", error);
        if (status != WEFT_OK)
            return status;
        pairs->parts[pairs->part_count++] = (struct pair_part){first, (uint32_t)(next - first), (uint32_t)document};
    }
    return WEFT_OK;
}

static void pairs_describe_files(struct pairs *pairs, const char *path, size_t count)
{
    const struct documents *documents = &pairs->documents;
    char more[64] = "";
    if (count > 1)
        snprintf(more, sizeof more, " and %zu more", count - 1);
    snprintf(pairs->description, sizeof pairs->description,
             "'%.500s'%s: read as text of %zu sentences in %zu documents, %zu tokens; pairs of %" PRIu64
             " tokens: %zu to train on, %zu held out (%s)",
             path, more, documents->sentence_count, documents->document_count, documents->tokens.count, pairs->sequence,
             pairs->train_parts, pairs->part_count - pairs->train_parts,
             documents->by_name ? "the files called val" : "the last tenth of the documents");
}

static weft_status pairs_fill(struct pairs *pairs, const char *const *paths, size_t count,
                              const struct bert_data_options *options, struct error *error)
{
    weft_status status = masking_open(options, &pairs->specials, &pairs->masking, error);
    if (status == WEFT_OK)
        status = documents_open(paths, count, options->tokenizer, &pairs->documents, error);
    for (size_t i = 0; status == WEFT_OK && i < pairs->documents.document_count; i++) {
        if (i == pairs->documents.held_out)
            pairs->train_parts = pairs->part_count;
        status = pairs_cut_document(pairs, i, error);
    }
    if (status != WEFT_OK)
        return status;
    const size_t numbers = pairs->sequence + 2 * pairs->masking.predictions;
    if (!(pairs->row = malloc(numbers * sizeof *pairs->row)))
        return error_memory(error, numbers * sizeof *pairs->row, "a sample");
    pairs->positions = pairs->row + pairs->sequence;
    pairs->targets = pairs->positions + pairs->masking.predictions;
    pairs_describe_files(pairs, paths[0], count);
    return WEFT_OK;
}

static void pairs_close(struct sample_source *source)
{
    struct pairs *pairs = (struct pairs *)source;
    documents_close(&pairs->documents);
    masking_close(&pairs->masking);
    free(pairs->parts);
    free(pairs->row);
    free(pairs);
}

/* ---- reading ---- */

/* Sentences of `document` from `first` on, at least `least`, until they have `tokens` tokens. Returns their end. */
static uint64_t pairs_take(const struct documents *documents, uint64_t document, uint64_t first, uint64_t least,
                           size_t tokens)
{
    const uint64_t last = documents->documents[document];
    uint64_t end = first + least;
    while (end < last && documents_span(documents, first, end).count < tokens)
        end++;
    return end;
}

/* Move a place for `tokens` tokens towards its document's beginning, until the rest of the document has so many. */
static uint64_t pairs_move_back(const struct documents *documents, uint64_t document, uint64_t first, size_t tokens)
{
    const uint64_t begin = documents_first_sentence(documents, document), last = documents->documents[document];
    while (first > begin && documents_span(documents, first, last).count < tokens)
        first--;
    return first;
}

/* A number in [0, bound) other than `not`, which is below `bound`. */
static uint64_t random_other(uint64_t stream, uint64_t index, uint64_t bound, uint64_t not )
{
    const uint64_t number = random_below(stream, index, bound - 1);
    return number + (number >= not );
}

static struct pair_texts pairs_choose(const struct pairs *pairs, enum dataset_split split, uint64_t stream,
                                      const struct pair_part *part)
{
    const struct documents *documents = &pairs->documents;
    const uint64_t last = documents->documents[part->document];
    size_t target = pairs->room;
    if (random_uniform(stream, PAIR_IS_SHORT) < SHARE_SHORT)
        target = 2 + random_below(stream, PAIR_SHORT_LENGTH, pairs->room - 1);
    uint64_t first = part->first;
    if (split == DATASET_TRAIN)
        first += random_below(stream, PAIR_START, part->count);
    if (first > last - 2)
        first = last - 2;
    first = pairs_move_back(documents, part->document, first, target);
    const uint64_t end = pairs_take(documents, part->document, first, 2, target);
    const uint64_t middle = first + 1 + random_below(stream, PAIR_SPLIT, end - first - 1);
    struct pair_texts texts = {.one = documents_span(documents, first, middle)};
    texts.label = random_uniform(stream, PAIR_LABEL) < SHARE_RANDOM;
    if (texts.label == 0) {
        texts.other = documents_span(documents, middle, end);
        return texts;
    }
    const uint64_t base = split == DATASET_TRAIN ? 0 : documents->held_out,
                   count = split == DATASET_TRAIN ? documents->held_out : documents->document_count - base;
    const uint64_t other = base + random_other(stream, PAIR_OTHER_DOCUMENT, count, part->document - base);
    const uint64_t other_first = documents_first_sentence(documents, other);
    const size_t left = target > texts.one.count ? target - texts.one.count : 1;
    const uint64_t place =
        other_first + random_below(stream, PAIR_OTHER_START, documents->documents[other] - other_first);
    const uint64_t start = pairs_move_back(documents, other, place, left);
    texts.other = documents_span(documents, start, pairs_take(documents, other, start, 1, left));
    return texts;
}

/* A random part of `count` tokens of a text. */
static struct token_span span_cut(struct token_span span, size_t count, uint64_t stream, uint64_t index)
{
    return (struct token_span){span.tokens + random_below(stream, index, span.count - count + 1), count};
}

/* Sample `number`, counted over all epochs, as row `place` of the arrays. */
static void pairs_make(struct pairs *pairs, enum dataset_split split, uint64_t number, uint64_t place,
                       const struct model_arrays *arrays)
{
    const uint64_t sequence = pairs->sequence, train = pairs->train_parts, held_out = pairs->part_count - train;
    const size_t predictions = pairs->masking.predictions;
    uint64_t index, stream;
    if (split == DATASET_TRAIN) {
        index = permutation_at(random_bits(pairs->seed ^ STREAM_ORDER, number / train), train, number % train);
        stream = random_bits(pairs->seed ^ STREAM_SAMPLES, number);
    } else {
        index = train + number % held_out;
        stream = random_bits(STREAM_HELD_OUT, number % held_out);
    }
    struct pair_texts texts = pairs_choose(pairs, split, stream, &pairs->parts[index]);
    size_t one = texts.one.count, other = texts.other.count;
    sample_fit(pairs->room, &one, &other);
    texts.one = span_cut(texts.one, one, stream, PAIR_CUT_ONE);
    texts.other = span_cut(texts.other, other, stream, PAIR_CUT_OTHER);
    const size_t length = sample_put_tokens(&pairs->specials, texts.one, texts.other, pairs->row, sequence);
    masking_apply(&pairs->masking, random_bits(stream, PAIR_MASKING), pairs->row, length, pairs->positions,
                  pairs->targets);
    if (arrays->tokens)
        memcpy(arrays->tokens + place * sequence, pairs->row, sequence * sizeof *pairs->row);
    if (arrays->segments)
        sample_put_segments(one, other, arrays->segments + place * sequence, sequence);
    if (arrays->lengths)
        arrays->lengths[place] = (int32_t)length;
    if (arrays->positions)
        memcpy(arrays->positions + place * predictions, pairs->positions, predictions * sizeof *pairs->row);
    if (arrays->targets)
        memcpy(arrays->targets + place * predictions, pairs->targets, predictions * sizeof *pairs->row);
    if (arrays->labels)
        arrays->labels[place] = texts.label;
}

static weft_status pairs_read(struct sample_source *source, enum dataset_split split, uint64_t first, uint64_t samples,
                              const struct model_arrays *arrays, struct error *error)
{
    for (uint64_t i = 0; i < samples; i++)
        pairs_make((struct pairs *)source, split, first + i, i, arrays);
    return WEFT_OK;
}

static uint64_t pairs_samples(const struct sample_source *source, enum dataset_split split)
{
    const struct pairs *pairs = (const struct pairs *)source;
    return split == DATASET_TRAIN ? pairs->train_parts : pairs->part_count - pairs->train_parts;
}

static const char *pairs_describe(const struct sample_source *source)
{
    return ((const struct pairs *)source)->description;
}

static weft_status pairs_identify(const struct sample_source *source, struct dataset_identity *identity,
                                  struct error *error)
{
    const struct documents *documents = &((const struct pairs *)source)->documents;
    uint64_t hash = hash_bytes(documents->tokens.tokens, documents->tokens.count * sizeof *documents->tokens.tokens, 0);
    hash = hash_bytes(documents->sentences, documents->sentence_count * sizeof *documents->sentences, hash);
    hash = hash_bytes(documents->documents, documents->document_count * sizeof *documents->documents, hash);
    *identity = (struct dataset_identity){documents->tokens.count, hash_number(documents->held_out, hash)};
    return WEFT_OK;
}

static uint64_t pairs_bytes(const struct sample_source *source)
{
    const struct pairs *pairs = (const struct pairs *)source;
    const struct documents *documents = &pairs->documents;
    return documents->tokens.room * sizeof *documents->tokens.tokens +
           documents->sentence_room * sizeof *documents->sentences +
           documents->document_room * sizeof *documents->documents + pairs->part_room * sizeof *pairs->parts;
}

static const struct sample_source_kind pairs_kind = {
    .read = pairs_read,
    .samples = pairs_samples,
    .describe = pairs_describe,
    .identify = pairs_identify,
    .bytes = pairs_bytes,
    .close = pairs_close,
};

weft_status pairs_open(const char *const *paths, size_t count, const struct bert_data_options *options,
                       struct sample_source **source, struct error *error)
{
    struct special_tokens specials;
    weft_status status = sample_check_options(options, &specials, error);
    if (status != WEFT_OK)
        return status;
    struct pairs *pairs = calloc(1, sizeof *pairs);
    if (!pairs)
        return error_memory(error, sizeof *pairs, "a source of samples");
    pairs->source.kind = &pairs_kind;
    pairs->sequence = options->sequence;
    pairs->seed = options->seed;
    pairs->room = sample_room(options->sequence, 2);
    pairs->specials = specials;
    status = pairs_fill(pairs, paths, count, options, error);
    if (status != WEFT_OK) {
        pairs_close(&pairs->source);
        return status;
    }
    *source = &pairs->source;
    return WEFT_OK;
}
