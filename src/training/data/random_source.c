/* SPDX-License-Identifier: Apache-2.0 */
#include "training/data/random_source.h"

#include "base/random.h"

#include <stdlib.h>

#define STREAM_INPUT 0x52616e646f6d496eu

struct random_source {
    struct sample_source source;
    struct model_inputs inputs;
    uint64_t seed;
};

static void random_integers(const struct model_inputs *inputs, enum model_input input, uint64_t stream, int32_t *to)
{
    const int64_t least = inputs->least[input] > 0 ? inputs->least[input] : 0, most = inputs->most[input];
    for (size_t i = 0; i < inputs->elements[input]; i++)
        to[i] =
            (int32_t)(input == INPUT_LENGTHS ? most
                                             : least + (int64_t)random_below(stream, i, (uint64_t)(most - least) + 1));
}

static void random_reals(const struct model_inputs *inputs, enum model_input input, uint64_t stream, float *to)
{
    for (size_t i = 0; i < inputs->elements[input]; i++)
        to[i] = input == INPUT_SHARES ? (i == 0 ? 1.0F : 0.0F) : (float)(4 * random_uniform(stream, i) - 2);
}

static weft_status random_source_read(struct sample_source *source, enum dataset_split split, uint64_t first,
                                      uint64_t samples, const struct model_arrays *arrays, struct error *error)
{
    const struct random_source *random = (struct random_source *)source;
    for (enum model_input input = 0; input < MODEL_INPUTS; input++) {
        const size_t bytes = model_input_bytes(&random->inputs, input, 1);
        for (uint64_t i = 0; arrays->of[input] && i < samples; i++) {
            const uint64_t split_stream = random_bits(random->seed ^ STREAM_INPUT, 2 * (uint64_t)input + split),
                           stream = random_bits(split_stream, first + i);
            void *to = (char *)arrays->of[input] + i * bytes;
            if (model_input_kinds[input].type == WEFT_I32)
                random_integers(&random->inputs, input, stream, to);
            else
                random_reals(&random->inputs, input, stream, to);
        }
    }
    return WEFT_OK;
}

static uint64_t random_source_samples(const struct sample_source *source, enum dataset_split split)
{
    return UINT64_C(1) << 40;
}

static const char *random_source_describe(const struct sample_source *source)
{
    return "random samples, without end; only for measuring speed";
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
    *random = (struct random_source){.source = {&random_source_kind}, .inputs = *inputs, .seed = seed};
    *source = &random->source;
    return WEFT_OK;
}
