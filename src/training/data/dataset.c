/* SPDX-License-Identifier: Apache-2.0 */
#include "training/data/dataset.h"
#include "base/hash.h"
#include "base/random.h"
#include "base/text.h"
#include "training/data/files.h"
#include "training/data/internal/permutation.h"
#include "training/data/shard.h"
#include "training/data/tokenizer/tokenizer.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#define SEQUENCE_MOST ((uint64_t)1 << 31)

/* Streams of random numbers from the run's seed, independent of each other and of others'. */
#define STREAM_ORDER  0x6f72646572u
#define STREAM_OFFSET 0x6f6666736574u
#define STREAM_TOKENS 0x746f6b656e73u

/* Which tokens are hashed for an identity. */
#define IDENTITY_BLOCK  4096 /* tokens */
#define IDENTITY_BLOCKS 1024 /* of all files */

/* Neighboring tokens of one file that belong to one split. */
struct dataset_segment {
    size_t shard;
    uint64_t first, count; /* tokens */
    uint64_t samples;      /* whole samples an epoch takes from it */
    uint64_t before;       /* samples of the segments before it */
};

struct split {
    struct dataset_segment *segments;
    size_t count;
    uint64_t tokens, samples;
};

struct dataset {
    struct sample_source source;
    struct dataset_options options;
    struct shard *shards;
    size_t shard_count; /* 0: random tokens */
    struct split splits[2];
    double bytes_per_token; /* of the held-out text; 0: not known */
    char description[1024];
};

/* ---- opening ---- */

static weft_status open_shards(struct dataset *dataset, const struct string_list *files, struct error *error)
{
    dataset->shards = calloc(files->count, sizeof *dataset->shards);
    if (!dataset->shards)
        return error_memory(error, files->count * sizeof *dataset->shards, "a list of shards");
    for (size_t i = 0; i < files->count; i++) {
        weft_status status = shard_open(files->items[i], &dataset->shards[i], error);
        if (status != WEFT_OK)
            return status;
        dataset->shard_count++;
        enum shard_format first = dataset->shards[0].layout.format, format = dataset->shards[i].layout.format;
        if (format != first)
            return error_set(error, WEFT_ERROR_ARGUMENT,
                             "'%s' holds %s, but '%s' holds %s; the files of a dataset must be of one format",
                             files->items[0], shard_format_name(first), files->items[i], shard_format_name(format));
    }
    return WEFT_OK;
}

/* Text becomes tokens. */
static weft_status encode_shards(struct dataset *dataset, struct error *error)
{
    const struct tokenizer *tokenizer = dataset->options.tokenizer;
    struct encoder *encoder;
    dataset->options.tokenizer = NULL;
    if (!tokenizer || dataset->shards[0].layout.format != SHARD_BYTES)
        return WEFT_OK;
    const uint32_t tokens = tokenizer_vocabulary(tokenizer);
    if (dataset->options.vocabulary == 0)
        dataset->options.vocabulary = tokens;
    if (tokens > dataset->options.vocabulary)
        return error_set(error, WEFT_ERROR_ARGUMENT,
                         "the tokenizer has %" PRIu32 " tokens, but the model has a vocabulary of %" PRIu64
                         "; give the model's own tokenizer, or --vocabulary to a new model",
                         tokens, dataset->options.vocabulary);
    weft_status status = encoder_open(tokenizer, &encoder, error);
    if (status != WEFT_OK)
        return status;
    for (size_t i = 0; status == WEFT_OK && i < dataset->shard_count; i++)
        status = shard_encode(&dataset->shards[i], tokenizer, encoder, error);
    encoder_close(encoder);
    return status;
}

/* Count the bytes of text that the held-out tokens stand for. */
static weft_status measure_bytes(struct dataset *dataset, const struct tokenizer *tokenizer, struct error *error)
{
    const struct split *split = &dataset->splits[DATASET_HELD_OUT];
    uint64_t tokens = 0, bytes = 0;
    weft_status status = WEFT_OK;
    for (size_t i = 0; i < split->count; i++) {
        const struct dataset_segment *segment = &split->segments[i];
        for (uint64_t n = 0; n < segment->count && status == WEFT_OK; n++, tokens++) {
            int32_t token;
            uint32_t highest;
            size_t size;
            status = shard_read(&dataset->shards[segment->shard], segment->first + n, 1, &token, &highest, error);
            tokenizer_decode(tokenizer, token, &size);
            bytes += token == tokenizer_end_of_text(tokenizer) ? 0 : size;
        }
    }
    dataset->bytes_per_token = tokens ? (double)bytes / (double)tokens : 0;
    return status;
}

/* Samples that an epoch takes from `count` tokens. Training leaves room to begin anywhere within the first sample. */
static uint64_t samples_of(uint64_t count, uint64_t sequence, enum dataset_split split)
{
    if (count < sequence + 1)
        return 0;
    if (split == DATASET_HELD_OUT)
        return (count - 1) / sequence;
    return count < 2 * sequence ? 1 : (count - sequence) / sequence;
}

static void dataset_add_segment(struct dataset *dataset, enum dataset_split which, size_t shard, uint64_t first,
                                uint64_t count)
{
    struct split *split = &dataset->splits[which];
    uint64_t samples = samples_of(count, dataset->options.sequence, which);
    split->tokens += count;
    if (samples == 0)
        return;
    split->segments[split->count++] = (struct dataset_segment){shard, first, count, samples, split->samples};
    split->samples += samples;
}

/* Files with such a name are held out, the others are trained on. */
static void split_by_name(struct dataset *dataset, enum data_file_split names)
{
    for (size_t i = 0; i < dataset->shard_count; i++)
        dataset_add_segment(dataset,
                            data_file_is_split_off(names, dataset->shards[i].path) ? DATASET_HELD_OUT : DATASET_TRAIN,
                            i, 0, dataset->shards[i].layout.count);
}

/* The last tenth of all tokens is held out, and at least one sample. */
static void split_by_place(struct dataset *dataset)
{
    uint64_t total = 0;
    for (size_t i = 0; i < dataset->shard_count; i++)
        total += dataset->shards[i].layout.count;
    uint64_t held = total / 10, least = dataset->options.sequence + 1;
    if (held < least)
        held = least < total ? least : total;
    uint64_t left = total - held; /* tokens still to be assigned to training */
    for (size_t i = 0; i < dataset->shard_count; i++) {
        uint64_t count = dataset->shards[i].layout.count, train = count < left ? count : left;
        if (train > 0)
            dataset_add_segment(dataset, DATASET_TRAIN, i, 0, train);
        if (train < count)
            dataset_add_segment(dataset, DATASET_HELD_OUT, i, train, count - train);
        left -= train;
    }
}

static weft_status check_samples(const struct dataset *dataset, enum data_file_split by, struct error *error)
{
    const bool by_name = by != DATA_FILES_UNNAMED;
    static const char *const names[] = {[DATASET_TRAIN] = "train on", [DATASET_HELD_OUT] = "hold out for evaluation"};
    uint64_t needed = dataset->options.sequence + 1;
    for (int which = 0; which < 2; which++) {
        const struct split *split = &dataset->splits[which];
        if (split->samples > 0 || (which == DATASET_TRAIN && by == DATA_FILES_HELD_OUT))
            continue;
        if (by_name)
            return error_set(error, WEFT_ERROR_DATA,
                             "the files of '%s' to %s have %" PRIu64 " tokens, but a sequence of %" PRIu64
                             " needs one with at least %" PRIu64 "; use a shorter sequence or more data",
                             dataset->shards[0].path, names[which], split->tokens, dataset->options.sequence, needed);
        return error_set(error, WEFT_ERROR_DATA,
                         "'%s' is too short: it has %" PRIu64 " tokens, but a sequence of %" PRIu64
                         " needs at least %" PRIu64
                         " in one file to train on and as many to hold out for evaluation, %" PRIu64
                         " together; use a shorter sequence or more data",
                         dataset->shards[0].path, dataset->splits[0].tokens + dataset->splits[1].tokens,
                         dataset->options.sequence, needed, 2 * needed);
    }
    return WEFT_OK;
}

static void data_dataset_describe(struct dataset *dataset, enum data_file_split by)
{
    static const char *const held_out[] = {[DATA_FILES_SPLIT] = "the files called val",
                                           [DATA_FILES_HELD_OUT] = "all files are called val or test",
                                           [DATA_FILES_UNNAMED] = "the last tenth"};
    enum shard_format format = dataset->shards[0].layout.format;
    char more[64] = "";
    if (dataset->shard_count > 1)
        snprintf(more, sizeof more, " and %zu more", dataset->shard_count - 1);
    snprintf(dataset->description, sizeof dataset->description,
             "'%.500s'%s: read as %s (%s), vocabulary %" PRIu64 "; %" PRIu64 " tokens to train on, %" PRIu64
             " held out (%s)",
             dataset->shards[0].path, more, shard_format_name(format), shard_format_reason(format),
             dataset->options.vocabulary, dataset->splits[DATASET_TRAIN].tokens,
             dataset->splits[DATASET_HELD_OUT].tokens, held_out[by]);
}

static weft_status dataset_fill(struct dataset *dataset, const struct string_list *files, struct error *error)
{
    const struct tokenizer *tokenizer = dataset->options.tokenizer;
    weft_status status = open_shards(dataset, files, error);
    if (status == WEFT_OK)
        status = encode_shards(dataset, error);
    if (status != WEFT_OK)
        return status;
    if (dataset->options.vocabulary == 0)
        dataset->options.vocabulary = shard_format_vocabulary(dataset->shards[0].layout.format);
    for (int which = 0; which < 2; which++) {
        size_t bytes = dataset->shard_count * sizeof(struct dataset_segment);
        if (!(dataset->splits[which].segments = malloc(bytes)))
            return error_memory(error, bytes, "a list of segments");
    }
    const enum data_file_split by = data_files_split(files);
    if (by != DATA_FILES_UNNAMED)
        split_by_name(dataset, by);
    else
        split_by_place(dataset);
    data_dataset_describe(dataset, by);
    if (dataset->shards[0].layout.format == SHARD_BYTES)
        dataset->bytes_per_token = 1;
    else if (dataset->shards[0].layout.format == SHARD_TEXT)
        status = measure_bytes(dataset, tokenizer, error);
    return status == WEFT_OK ? check_samples(dataset, by, error) : status;
}

static weft_status check_options(const struct dataset_options *options, struct error *error)
{
    if (options->sequence == 0 || options->sequence > SEQUENCE_MOST)
        return error_set(error, WEFT_ERROR_ARGUMENT,
                         "the sequence is %" PRIu64 " tokens, but must be from 1 to %" PRIu64, options->sequence,
                         SEQUENCE_MOST);
    if (options->vocabulary > INT32_MAX)
        return error_set(error, WEFT_ERROR_ARGUMENT, "the vocabulary is %" PRIu64 " tokens, but must be at most %d",
                         options->vocabulary, INT32_MAX);
    return WEFT_OK;
}

weft_status dataset_open_random(const struct dataset_options *options, struct dataset **dataset, struct error *error)
{
    weft_status status = check_options(options, error);
    if (status != WEFT_OK)
        return status;
    struct dataset *opened = calloc(1, sizeof *opened);
    if (!opened)
        return error_memory(error, sizeof *opened, "a dataset");
    opened->options = *options;
    if (opened->options.vocabulary == 0)
        opened->options.vocabulary = 256;
    for (int which = 0; which < 2; which++)
        opened->splits[which] = (struct split){.tokens = UINT64_MAX, .samples = UINT64_MAX};
    snprintf(opened->description, sizeof opened->description,
             "random tokens of a vocabulary of %" PRIu64 ", to measure speed", opened->options.vocabulary);
    *dataset = opened;
    return WEFT_OK;
}

weft_status dataset_open(const char *const *paths, size_t count, const struct dataset_options *options,
                         struct dataset **dataset, struct error *error)
{
    struct string_list files;
    weft_status status = check_options(options, error);
    if (status == WEFT_OK)
        status = data_files_find(paths, count, false, &files, error);
    if (status != WEFT_OK)
        return status;
    struct dataset *opened = calloc(1, sizeof *opened);
    if (opened) {
        opened->options = *options;
        status = dataset_fill(opened, &files, error);
    } else {
        status = error_memory(error, sizeof *opened, "a dataset");
    }
    string_list_free(&files);
    if (status != WEFT_OK) {
        dataset_close(opened);
        return status;
    }
    *dataset = opened;
    return WEFT_OK;
}

void dataset_close(struct dataset *dataset)
{
    if (!dataset)
        return;
    for (size_t i = 0; i < dataset->shard_count; i++)
        shard_close(&dataset->shards[i]);
    free(dataset->shards);
    for (int which = 0; which < 2; which++)
        free(dataset->splits[which].segments);
    free(dataset);
}

const char *dataset_describe(const struct dataset *dataset)
{
    return dataset->description;
}

uint64_t dataset_vocabulary(const struct dataset *dataset)
{
    return dataset->options.vocabulary;
}

double dataset_bytes_per_token(const struct dataset *dataset)
{
    return dataset->bytes_per_token;
}

uint64_t dataset_tokens(const struct dataset *dataset, enum dataset_split split)
{
    return dataset->splits[split].tokens;
}

uint64_t dataset_samples(const struct dataset *dataset, enum dataset_split split)
{
    return dataset->splits[split].samples;
}

/* ---- reading ---- */

/* The segment of a split that has sample `index` of an epoch. */
static const struct dataset_segment *dataset_find_segment(const struct split *split, uint64_t index)
{
    size_t low = 0, high = split->count;
    while (high - low > 1) {
        size_t middle = low + (high - low) / 2;
        if (split->segments[middle].before <= index)
            low = middle;
        else
            high = middle;
    }
    return &split->segments[low];
}

/* Where in its segment the cut into samples begins in this epoch. */
static uint64_t epoch_offset(const struct dataset *dataset, const struct dataset_segment *segment, uint64_t epoch)
{
    uint64_t slack = segment->count - 1 - segment->samples * dataset->options.sequence;
    uint64_t most = slack < dataset->options.sequence - 1 ? slack : dataset->options.sequence - 1;
    uint64_t stream = random_bits(dataset->options.seed ^ STREAM_OFFSET, epoch);
    return random_below(stream, segment->shard, most + 1);
}

/* The place of sample `number`, counted over all epochs: its first token in its shard. */
static const struct shard *find_sample(const struct dataset *dataset, enum dataset_split which, uint64_t number,
                                       uint64_t *first)
{
    const struct split *split = &dataset->splits[which];
    uint64_t epoch = number / split->samples, index = number % split->samples;
    if (which == DATASET_TRAIN)
        index = permutation_at(random_bits(dataset->options.seed ^ STREAM_ORDER, epoch), split->samples, index);
    const struct dataset_segment *segment = dataset_find_segment(split, index);
    *first = segment->first + (index - segment->before) * dataset->options.sequence;
    if (which == DATASET_TRAIN)
        *first += epoch_offset(dataset, segment, epoch);
    return &dataset->shards[segment->shard];
}

static weft_status token_too_high(const struct dataset *dataset, const struct shard *shard, uint64_t first,
                                  struct error *error)
{
    int32_t token;
    uint32_t highest;
    weft_status status;
    while ((status = shard_read(shard, first, 1, &token, &highest, error)) == WEFT_OK &&
           highest < dataset->options.vocabulary)
        first++;
    if (status != WEFT_OK)
        return status;
    return error_set(error, WEFT_ERROR_DATA,
                     "token %" PRIu64 " of '%s' is %" PRIu32 ", but the vocabulary has %" PRIu64
                     " tokens; give the model a larger one, or check what tokenizer and format the file is in",
                     first, shard->path, (uint32_t)token, dataset->options.vocabulary);
}

static void random_sample(const struct dataset *dataset, enum dataset_split split, uint64_t number, int32_t *tokens,
                          int32_t *targets)
{
    uint64_t sequence = dataset->options.sequence;
    uint64_t stream = random_bits(random_bits(dataset->options.seed ^ STREAM_TOKENS, (uint64_t)split), number);
    for (uint64_t i = 0; i < sequence; i++) {
        if (tokens)
            tokens[i] = (int32_t)random_below(stream, i, dataset->options.vocabulary);
        if (targets)
            targets[i] = (int32_t)random_below(stream, i + 1, dataset->options.vocabulary);
    }
}

weft_status dataset_batch(const struct dataset *dataset, enum dataset_split split, uint64_t first, uint64_t samples,
                          int32_t *tokens, int32_t *targets, struct error *error)
{
    uint64_t sequence = dataset->options.sequence;
    for (uint64_t i = 0; i < samples; i++) {
        uint64_t place;
        if (!dataset->shard_count) {
            random_sample(dataset, split, first + i, tokens ? tokens + i * sequence : NULL,
                          targets ? targets + i * sequence : NULL);
            continue;
        }
        const struct shard *shard = find_sample(dataset, split, first + i, &place);
        uint32_t highest = 0, highest_target = 0;
        weft_status status = WEFT_OK;
        if (tokens)
            status = shard_read(shard, place, sequence, tokens + i * sequence, &highest, error);
        if (status == WEFT_OK && targets)
            status = shard_read(shard, place + 1, sequence, targets + i * sequence, &highest_target, error);
        if (status != WEFT_OK)
            return status;
        if (highest >= dataset->options.vocabulary || highest_target >= dataset->options.vocabulary)
            return token_too_high(dataset, shard, place, error);
    }
    return WEFT_OK;
}

/* ---- identity ---- */

/* The hash of a file's tokens, or of `blocks` blocks of them from its first to its last. */
static weft_status hash_tokens(const struct shard *shard, uint64_t blocks, uint64_t *hash, struct error *error)
{
    const uint64_t count = shard->layout.count, all = (count + IDENTITY_BLOCK - 1) / IDENTITY_BLOCK;
    int32_t tokens[IDENTITY_BLOCK];
    weft_status status = WEFT_OK;
    if (blocks > all)
        blocks = all;
    for (uint64_t i = 0; i < blocks && status == WEFT_OK; i++) {
        const uint64_t first = (blocks == all ? i : i * (all - 1) / (blocks - 1)) * IDENTITY_BLOCK,
                       size = count - first < IDENTITY_BLOCK ? count - first : IDENTITY_BLOCK;
        uint32_t highest;
        status = shard_read(shard, first, size, tokens, &highest, error);
        if (status == WEFT_OK)
            *hash = hash_bytes(tokens, size * sizeof *tokens, *hash);
    }
    return status;
}

weft_status dataset_identify(const struct dataset *dataset, struct dataset_identity *identity, struct error *error)
{
    struct dataset_identity found = {0};
    const uint64_t share = dataset->shard_count ? IDENTITY_BLOCKS / dataset->shard_count : 0;
    weft_status status = WEFT_OK;
    for (size_t i = 0; i < dataset->shard_count && status == WEFT_OK; i++) {
        const struct shard *shard = &dataset->shards[i];
        found.tokens += shard->layout.count;
        found.hash = hash_number(shard->layout.count, found.hash);
        found.hash = hash_number(data_file_is_held_out(shard->path), found.hash);
        status = hash_tokens(shard, share > 2 ? share : 2, &found.hash, error);
    }
    if (status == WEFT_OK)
        *identity = found;
    return status;
}

/* ---- as a source of samples ---- */

static weft_status dataset_source_read(struct sample_source *source, enum dataset_split split, uint64_t first,
                                       uint64_t samples, const struct model_arrays *arrays, struct error *error)
{
    return dataset_batch((struct dataset *)source, split, first, samples, arrays->tokens, arrays->targets, error);
}

static uint64_t dataset_source_samples(const struct sample_source *source, enum dataset_split split)
{
    return dataset_samples((const struct dataset *)source, split);
}

static const char *dataset_source_describe(const struct sample_source *source)
{
    return dataset_describe((const struct dataset *)source);
}

static weft_status dataset_source_identify(const struct sample_source *source, struct dataset_identity *identity,
                                           struct error *error)
{
    return dataset_identify((const struct dataset *)source, identity, error);
}

/* Texts that were encoded. */
static uint64_t dataset_source_bytes(const struct sample_source *source)
{
    const struct dataset *dataset = (const struct dataset *)source;
    uint64_t bytes = 0;
    for (size_t i = 0; i < dataset->shard_count; i++)
        if (dataset->shards[i].bytes)
            bytes += dataset->shards[i].layout.count * dataset->shards[i].layout.width;
    return bytes;
}

static void dataset_source_close(struct sample_source *source)
{
    dataset_close((struct dataset *)source);
}

static const struct sample_source_kind dataset_source_kind = {
    .read = dataset_source_read,
    .samples = dataset_source_samples,
    .describe = dataset_source_describe,
    .identify = dataset_source_identify,
    .bytes = dataset_source_bytes,
    .close = dataset_source_close,
};

struct sample_source *dataset_source(struct dataset *dataset)
{
    dataset->source.kind = &dataset_source_kind;
    return &dataset->source;
}
