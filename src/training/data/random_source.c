/* SPDX-License-Identifier: Apache-2.0 */
#include "training/data/random_source.h"

#include "base/random.h"

#include <stdlib.h>

struct random_source {
    struct sample_source source;
    struct model_inputs inputs;
    uint64_t seed;
};

static const struct random_source *random_source_of(const struct sample_source *source)
{
    return (const struct random_source *)source;
}

static void random_integers(int64_t least, int64_t most, uint64_t stream, size_t count, int32_t *to)
{
    for (size_t i = 0; i < count; i++)
        to[i] = (int32_t)(least + (int64_t)random_below(stream, i, (uint64_t)(most - least) + 1));
}

static void random_input(const struct model_inputs *inputs, enum model_input input, uint64_t stream, void *to)
{
    const size_t count = inputs->elements[input];
    const int64_t most = inputs->most[input], least = inputs->least[input];
    float *reals = to;
    switch (input) {
    case INPUT_SHARES:
        for (size_t i = 0; i < count; i++)
            reals[i] = i == 0;
        return;
    case INPUT_PIXELS:
        for (size_t i = 0; i < count; i++)
            reals[i] = (float)random_normal(stream, i);
        return;
    case INPUT_LENGTHS:
        random_integers(most, most, stream, count, to);
        return;
    default: /* targets below 0 are not used */
        random_integers(least > 0 ? least : 0, most, stream, count, to);
        return;
    }
}

static weft_status random_source_read(struct sample_source *source, enum dataset_split split, uint64_t first,
                                      uint64_t samples, const struct model_arrays *arrays, struct error *error)
{
    const struct random_source *random = random_source_of(source);
    for (enum model_input input = 0; input < MODEL_INPUTS; input++) {
        const size_t bytes = model_input_bytes(&random->inputs, input, 1);
        const uint64_t stream = random_bits(random_bits(random->seed, (uint64_t)split), (uint64_t)input);
        for (uint64_t i = 0; arrays->of[input] && i < samples; i++)
            random_input(&random->inputs, input, random_bits(stream, first + i), (char *)arrays->of[input] + i * bytes);
    }
    return WEFT_OK;
}

static uint64_t random_source_samples(const struct sample_source *source, enum dataset_split split)
{
    return UINT64_MAX;
}

static const char *random_source_describe(const struct sample_source *source)
{
    return "random samples, to measure speed";
}

static weft_status random_source_identify(const struct sample_source *source, struct dataset_identity *identity,
                                          struct error *error)
{
    *identity = (struct dataset_identity){0};
    return WEFT_OK;
}

static void random_source_close(struct sample_source *source)
{
    free(source);
}

static const struct sample_source_kind random_source_kind = {
    .read = random_source_read,
    .samples = random_source_samples,
    .describe = random_source_describe,
    .identify = random_source_identify,
    .close = random_source_close,
};

weft_status random_source_open(const struct model_inputs *inputs, uint64_t seed, struct sample_source **source,
                               struct error *error)
{
    struct random_source *random = malloc(sizeof *random);
    if (!random)
        return error_memory(error, sizeof *random, "a source of random samples");
    *random = (struct random_source){.source.kind = &random_source_kind, .inputs = *inputs, .seed = seed};
    *source = &random->source;
    return WEFT_OK;
}
