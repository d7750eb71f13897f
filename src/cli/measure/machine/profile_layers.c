/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/measure/machine/profile_layers.h"

#include "cli/measure/bench_timing.h"
#include "cli/train/training.h"
#include "training/model/file/model_file.h"
#include "training/plan/run/layer_times.h"

#include <inttypes.h>

#define ROUNDS_MOST 99

static struct {
    const char *model, *precision, *output;
    int64_t sequence, micro_batch, tensor, together, threads, rounds;
} chosen;

static const struct cli_option options[] = {
    CLI_TEXT("model", 'm', "NAME", &chosen.model, "gpt2-124m", "a model size by name, or a YAML file"),
    CLI_INTEGER("sequence", 0, "N", &chosen.sequence, "0", 0, 1000000, "tokens in a sequence",
                .default_text = "the model's context"),
    CLI_INTEGER("micro-batch", 0, "N", &chosen.micro_batch, "16", 1, 1e6,
                "measure micro-batches of 1, 2, 4 and so on to N sequences"),
    CLI_INTEGER("tensor", 0, "N", &chosen.tensor, "1", 1, 1024,
                "measure whole layers, and divided over 2, 4 and so on to N ranks of a tensor axis"),
    CLI_CHOICE("precision", 0, "TYPE", &chosen.precision, "f32", training_precisions,
               "type of products and activations"),
    CLI_INTEGER("threads", 't', "N", &chosen.threads, "1", 1, 1024, "compute threads of a rank"),
    CLI_INTEGER("together", 0, "N", &chosen.together, "1", 1, 4096,
                "ranks that compute at the same time and share the memory's bandwidth"),
    CLI_INTEGER("rounds", 0, "N", &chosen.rounds, "3", 1, ROUNDS_MOST,
                "measure everything so many times, and keep medians", .advanced = true),
    CLI_TEXT("output", 'o', "FILE", &chosen.output, NULL, "write the times to FILE"),
};

static weft_status layers_open_model(struct model_description **description, struct error *error)
{
    struct model_shape shape;
    weft_status status = model_shape_load(chosen.model, &shape, error);
    if (status != WEFT_OK)
        return status;
    if (!chosen.sequence)
        chosen.sequence = (int64_t)shape.context;
    if ((size_t)chosen.sequence > shape.context)
        return error_set(error, WEFT_ERROR_ARGUMENT,
                         "--sequence %" PRId64 " is longer than the context of '%s', %zu tokens", chosen.sequence,
                         chosen.model, shape.context);
    return model_describe(&shape, description, error);
}

/* Every micro-batch on every tensor axis. */
static weft_status measure_round(struct machine_costs *costs, struct error *error)
{
    const double(*seconds)[COSTS_PASSES];
    weft_status status = WEFT_OK;
    for (int64_t tensor = 1; tensor <= chosen.tensor; tensor *= 2) {
        for (int64_t micro_batch = 1; status == WEFT_OK && micro_batch <= chosen.micro_batch; micro_batch *= 2) {
            const struct machine_measurement key = {
                .micro_batch = (uint32_t)micro_batch,
                .tensor = (uint32_t)tensor,
                .together = (uint32_t)chosen.together,
                .precision = training_type_of(chosen.precision),
            };
            status = machine_costs_add(costs, &key, &seconds, error);
        }
    }
    return status;
}

/* What the machine does beside lasts longer than a measurement: the medians are over rounds of all of them. */
static void take_medians(struct machine_costs *rounds)
{
    double values[ROUNDS_MOST];
    for (size_t i = 0; i < rounds->count; i++) {
        for (size_t number = 0; number < rounds->description->layer_count * COSTS_PASSES; number++) {
            double *first = &rounds[0].items[i].seconds[number / COSTS_PASSES][number % COSTS_PASSES];
            for (int64_t r = 0; r < chosen.rounds; r++)
                values[r] = rounds[r].items[i].seconds[number / COSTS_PASSES][number % COSTS_PASSES];
            *first = bench_median(values, (size_t)chosen.rounds);
        }
    }
}

static weft_status profile_layers_run(struct command_call *call, struct error *error)
{
    struct model_description *description = NULL;
    struct machine_costs rounds[ROUNDS_MOST] = {{0}};
    if (!chosen.output)
        return error_set(error, WEFT_ERROR_ARGUMENT, "say where the times are to be written: --output FILE");
    weft_status status = layers_open_model(&description, error);
    for (int64_t r = 0; status == WEFT_OK && r < chosen.rounds; r++) {
        rounds[r] = (struct machine_costs){
            .description = description, .sequence = (size_t)chosen.sequence, .threads = (int)chosen.threads};
        status = measure_round(&rounds[r], error);
    }
    if (status == WEFT_OK) {
        take_medians(rounds);
        status = layer_times_save(&rounds[0], chosen.model, chosen.output, error);
    }
    if (status == WEFT_OK)
        fprintf(call->output, "%s: written, %zu measurements of %zu layers\n", chosen.output, rounds[0].count,
                description->layer_count);
    for (int64_t r = 0; r < chosen.rounds; r++)
        machine_costs_free(&rounds[r]);
    model_description_free(description);
    return status;
}

const struct command profile_layers = {
    .name = "layers",
    .summary = "measure what the layers of a model take on this machine",
    .description =
        "Measures each pass of each layer (forward, backward for inputs, backward for weights) for micro-batches of "
        "several sizes, on processors of this machine. Layers that are alike are measured once, with weights that the "
        "cache does not hold, as in a training step.\n\n"
        "The file is for weft plan, weft sim train and weft bench train --paced (--layer-times FILE), here or on "
        "another machine. For micro-batches that were not measured, times in proportion to the next smaller one are "
        "taken; for tensor axes that were not, equal parts of whole layers.",
    .examples = "weft profile layers --model gpt2-124m --sequence 64 -o gpt2.times\n"
                "weft profile layers --model llama --tensor 2 --precision bf16 --together 4 -o llama.times\n"
                "weft plan --model gpt2-124m --sequence 64 --cluster ethernet10-4 --layer-times gpt2.times\n",
    COMMAND_OPTIONS(options),
    .run = profile_layers_run,
};
