/* SPDX-License-Identifier: Apache-2.0 */
#include "training/data/bert/labeled.h"
#include "base/hash.h"
#include "training/data/bert/internal/labeled_texts.h"
#include "training/data/internal/permutation.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define STREAM_ORDER 0x6c6162656c6f72u

struct labeled {
    struct sample_source source;
    uint64_t sequence, seed;
    struct special_tokens specials;
    struct labeled_texts texts;
    int32_t *row; /* of a sample whose tokens nobody reads */
    char description[1024];
};

/* ---- reading ---- */

static weft_status labeled_read(struct sample_source *source, enum dataset_split split, uint64_t first,
                                uint64_t samples, const struct model_arrays *arrays, struct error *error)
{
    const struct labeled *labeled = (const struct labeled *)source;
    const struct labeled_texts *texts = &labeled->texts;
    const uint64_t sequence = labeled->sequence, train = texts->held_out, held_out = texts->count - train;
    for (uint64_t i = 0; i < samples; i++) {
        const uint64_t number = first + i;
        const uint64_t index =
            split == DATASET_TRAIN
                ? permutation_at(random_bits(labeled->seed ^ STREAM_ORDER, number / train), train, number % train)
                : train + number % held_out;
        const struct labeled_text *text = &texts->texts[index];
        const struct token_span one = {texts->tokens.tokens + text->first, text->one};
        const struct token_span other = {text->is_pair ? one.tokens + text->one : NULL, text->other};
        int32_t *row = arrays->tokens ? arrays->tokens + i * sequence : labeled->row;
        const size_t length = sample_put_tokens(&labeled->specials, one, other, row, sequence);
        if (arrays->segments)
            sample_put_segments(one.count, other.count, arrays->segments + i * sequence, sequence);
        if (arrays->lengths)
            arrays->lengths[i] = (int32_t)length;
        if (arrays->labels)
            arrays->labels[i] = text->label;
    }
    return WEFT_OK;
}

static uint64_t labeled_samples(const struct sample_source *source, enum dataset_split split)
{
    const struct labeled_texts *texts = &((const struct labeled *)source)->texts;
    return split == DATASET_TRAIN ? texts->held_out : texts->count - texts->held_out;
}

static const char *labeled_describe(const struct sample_source *source)
{
    return ((const struct labeled *)source)->description;
}

static weft_status labeled_identify(const struct sample_source *source, struct dataset_identity *identity,
                                    struct error *error)
{
    const struct labeled_texts *texts = &((const struct labeled *)source)->texts;
    *identity = (struct dataset_identity){texts->encoded, hash_number(texts->held_out, texts->hash)};
    return WEFT_OK;
}

static uint64_t labeled_bytes(const struct sample_source *source)
{
    const struct labeled_texts *texts = &((const struct labeled *)source)->texts;
    return texts->tokens.room * sizeof *texts->tokens.tokens + texts->room * sizeof *texts->texts;
}

static void labeled_close(struct sample_source *source)
{
    struct labeled *labeled = (struct labeled *)source;
    labeled_texts_close(&labeled->texts);
    free(labeled->row);
    free(labeled);
}

static const struct sample_source_kind labeled_kind = {
    .read = labeled_read,
    .samples = labeled_samples,
    .describe = labeled_describe,
    .classes = labeled_classes,
    .class_name = labeled_class_name,
    .identify = labeled_identify,
    .bytes = labeled_bytes,
    .close = labeled_close,
};

/* ---- opening ---- */

static void labeled_describe_files(struct labeled *labeled, const char *path, size_t count)
{
    const struct labeled_texts *texts = &labeled->texts;
    char more[64] = "";
    if (count > 1)
        snprintf(more, sizeof more, " and %zu more", count - 1);
    snprintf(labeled->description, sizeof labeled->description,
             "'%.500s'%s: read as labeled texts of %zu classes, %zu tokens; %zu to train on, %zu held out (%s)", path,
             more, texts->classes.count, texts->tokens.count, texts->held_out, texts->count - texts->held_out,
             texts->by_name ? "the files called val or test" : "a random tenth");
}

weft_status labeled_open(const char *const *paths, size_t count, const struct bert_data_options *options,
                         struct sample_source **source, struct error *error)
{
    struct special_tokens specials;
    weft_status status = sample_check_options(options, &specials, error);
    if (status != WEFT_OK)
        return status;
    struct labeled *labeled = calloc(1, sizeof *labeled);
    if (!labeled)
        return error_memory(error, sizeof *labeled, "a source of samples");
    *labeled = (struct labeled){.source = {&labeled_kind},
                                .sequence = options->sequence,
                                .seed = options->seed,
                                .specials = specials,
                                .row = malloc(options->sequence * sizeof *labeled->row)};
    status = labeled->row ? labeled_texts_open(paths, count, options, &labeled->texts, error)
                          : error_memory(error, options->sequence * sizeof *labeled->row, "a sample");
    if (status != WEFT_OK) {
        labeled_close(&labeled->source);
        return status;
    }
    labeled_describe_files(labeled, paths[0], count);
    *source = &labeled->source;
    return WEFT_OK;
}

size_t labeled_classes(const struct sample_source *source)
{
    return ((const struct labeled *)source)->texts.classes.count;
}

const char *labeled_class_name(const struct sample_source *source, size_t number)
{
    return ((const struct labeled *)source)->texts.classes.items[number];
}
