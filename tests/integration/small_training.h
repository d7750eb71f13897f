/* SPDX-License-Identifier: Apache-2.0 */
/** A small training for tests of executors: a GPT of four blocks, random tokens, the same steps on every mesh. */
#ifndef WEFT_TESTS_SMALL_TRAINING_H
#define WEFT_TESTS_SMALL_TRAINING_H

#include "../world.h"
#include "base/error.h"
#include "training/parallel/execute/executor.h"

#define SMALL_BATCH         2
#define SMALL_SEQUENCE      8
#define SMALL_VOCABULARY    320
#define SMALL_MICRO_BATCHES 8

/** A rank's part. */
struct small_training {
    weft_context *context;
    int rank;
    enum optimizer_kind optimizer;
    uint32_t zero;
    struct device *device, *sums;
    struct model_description *whole;
};

static inline weft_status small_training_read(void *context, uint64_t number, const struct model_arrays *arrays,
                                              struct error *error)
{
    for (uint64_t i = 0; i < SMALL_BATCH * SMALL_SEQUENCE; i++) {
        if (arrays->tokens)
            arrays->tokens[i] = (int32_t)((number * 7919 + i * i * 31 + 5) % SMALL_VOCABULARY);
        if (arrays->targets)
            arrays->targets[i] = (int32_t)((number * 104729 + i * 57 + 11) % SMALL_VOCABULARY);
    }
    return WEFT_OK;
}

/** Open devices and network; context, rank, optimizer and ZeRO stage are set. 0, or 1 after a message, as the next. */
static inline int small_training_open(struct small_training *training)
{
    const struct model_shape network = {
        .kind = "gpt", .layers = 4, .heads = 2, .width = 32, .context = 8, .vocabulary = SMALL_VOCABULARY};
    weft_context *context = training->context;
    const int rank = training->rank;
    struct error error = {0};
    CHECK(device_open("cpu", 1, &training->device, &error) == WEFT_OK);
    CHECK(device_open("cpu-bf16", 1, &training->sums, &error) == WEFT_OK);
    CHECK(model_describe(&network, &training->whole, &error) == WEFT_OK);
    return 0;
}

static inline void small_training_close(struct small_training *training)
{
    model_description_free(training->whole);
    training->device->close(training->device);
    training->sums->close(training->sums);
}

/** The executor of a mesh, in the context's world; *own is its part of the network. Weights are 0. */
static inline int small_training_executor(const struct small_training *training, const struct mesh *mesh,
                                          struct model_description **own, struct executor **executor)
{
    weft_context *context = training->context;
    const int rank = training->rank;
    struct error error = {0};
    bool speaks;
    CHECK(model_description_copy(training->whole, own, &error) == WEFT_OK);
    struct executor_config config = {
        .context = context,
        .comm = weft_world(context),
        .device = training->device,
        .sums = training->sums,
        .description = *own,
        .model = {.batch = SMALL_BATCH, .sequence = SMALL_SEQUENCE},
        .optimizer = {.kind = training->optimizer,
                      .beta1 = 0.9,
                      .beta2 = 0.99,
                      .epsilon = 1e-8,
                      .momentum = 0.9,
                      .trust = 0.02,
                      .weight_decay = 0.1},
        .clip = 0.5,
        .mesh = *mesh,
        .schedule = STEP_1F1B,
        .stages = mesh->extent[MESH_PIPELINE],
        .zero = training->zero,
        .micro_batches = SMALL_MICRO_BATCHES,
        .gradients = WEFT_F32,
        .bucket_bytes = 20000,
    };
    CHECK(mesh_placement_parse("data,pipeline,tensor", &config.placement, &error) == WEFT_OK);
    if (executor_open(&config, executor, &speaks, &error) != WEFT_OK)
        fprintf(stderr, "%s\n", error.text);
    CHECK(error.status == WEFT_OK);
    return 0;
}

/** The weights before the first step. */
static inline int small_training_begin(const struct small_training *training, struct executor *executor,
                                       const struct model_description *own)
{
    weft_context *context = training->context;
    const int rank = training->rank;
    struct error error = {0};
    float *values = calloc(training->whole->elements, sizeof *values);
    CHECK(model_initialize(training->whole, training->device, values, 3, &error) == WEFT_OK);
    for (uint32_t g = 0; g < training->whole->group_count; g++)
        if (own->groups[g].count)
            value_groups_store(executor_values(executor), g, values + training->whole->groups[g].offset);
    free(values);
    return 0;
}

/** Step `step`, from 0. */
static inline weft_status small_training_step(struct executor *executor, unsigned step, struct executor_result *result,
                                              struct error *error)
{
    const struct executor_input input = {.read = small_training_read, .seed = 9};
    return executor_step(executor, &input, step + 1, 0.01, result, error);
}

#endif
