/* SPDX-License-Identifier: Apache-2.0 */
#include "predict.h"

#include <math.h>

#define DROPOUT     0.1  /* of rows, Megatron-LM's default */
#define STAGES_MOST 1024 /* blocks of a network (training/model/shape.c) */

/* ---- opening ---- */

static struct work_settings settings_of(const struct row *row, uint32_t micro_batch)
{
    return (struct work_settings){.implementation = row->implementation,
                                  .batch = micro_batch,
                                  .sequence = row->shape.context,
                                  .divides_rows = row->divides_rows,
                                  .recompute = row->recompute,
                                  .dropout = DROPOUT};
}

/* Find the micro-batch and the virtual stages that the authors do not give: the fastest. */
static weft_status choose_schedule(struct prediction *prediction, struct error *error)
{
    const struct row *row = prediction->row;
    const uint32_t blocks = (uint32_t)row->shape.layers / row->pipeline, share = row->global_batch / row->data,
                   micro_first = row->micro_batch ? row->micro_batch : 1,
                   micro_last = row->micro_batch ? row->micro_batch : 8,
                   turns_first = row->virtual_stages ? row->virtual_stages : 1,
                   turns_last = row->virtual_stages ? row->virtual_stages : blocks;
    double parameters[PARAMETERS], fastest = INFINITY;
    struct prediction tried = *prediction;
    parameters_reset(parameters);
    for (tried.micro_batch = micro_first; tried.micro_batch <= micro_last; tried.micro_batch *= 2)
        for (tried.virtual_stages = turns_first; tried.virtual_stages <= turns_last; tried.virtual_stages++) {
            struct step_result result;
            if (share % tried.micro_batch || blocks % tried.virtual_stages ||
                (tried.virtual_stages > 1 && share / tried.micro_batch % row->pipeline))
                continue;
            weft_status status = prediction_simulate(&tried, parameters, &result, error);
            if (status != WEFT_OK)
                return status;
            if (result.seconds < fastest) {
                fastest = result.seconds;
                prediction->micro_batch = tried.micro_batch;
                prediction->virtual_stages = tried.virtual_stages;
            }
        }
    return WEFT_OK;
}

weft_status prediction_open(const struct row *row, struct published_cluster *cluster, struct prediction *prediction,
                            struct error *error)
{
    *prediction = (struct prediction){
        .row = row, .cluster = cluster, .micro_batch = row->micro_batch, .virtual_stages = row->virtual_stages};
    weft_status status = model_describe(&row->shape, &prediction->whole, error);
    if (status == WEFT_OK)
        status = model_description_copy(prediction->whole, &prediction->description, error);
    if (status == WEFT_OK && row->tensor > 1)
        status = model_divide(prediction->description, row->tensor, 0, error);
    if (status == WEFT_OK && (!row->micro_batch || !row->virtual_stages))
        status = choose_schedule(prediction, error);
    return status;
}

void prediction_close(struct prediction *prediction)
{
    model_description_free(prediction->description);
    model_description_free(prediction->whole);
}

/* ---- an iteration ---- */

/* Megatron-LM gives each stage equally many blocks; the embedding is in the first one and the head in the last. A layer
 * of the description is half of a block. */
static void cut_stages(const struct row *row, uint32_t stages, uint32_t *first_unit)
{
    for (uint32_t s = 0; s <= stages; s++)
        first_unit[s] = s == 0 ? 0 : 1 + 2 * (uint32_t)row->shape.layers * s / stages;
    first_unit[stages] = 2 * (uint32_t)row->shape.layers + 2;
}

weft_status prediction_simulate(const struct prediction *prediction, const double parameters[PARAMETERS],
                                struct step_result *result, struct error *error)
{
    struct published_cluster *cluster = prediction->cluster;
    const struct row *row = prediction->row;
    const uint32_t stages = row->pipeline * prediction->virtual_stages;
    uint32_t first_unit[STAGES_MOST + 1];
    cut_stages(row, stages, first_unit);
    const struct executor_config config = {
        .description = prediction->whole,
        .model = {.batch = prediction->micro_batch,
                  .sequence = row->shape.context,
                  .recompute = row->recompute,
                  .dropout = DROPOUT},
        .mesh = {{[MESH_DATA] = row->data, [MESH_PIPELINE] = row->pipeline, [MESH_TENSOR] = row->tensor}},
        .placement = {{MESH_TENSOR, MESH_DATA, MESH_PIPELINE}},
        .schedule = prediction->virtual_stages > 1 ? STEP_INTERLEAVED : STEP_1F1B,
        .stages = stages,
        .sequence_parallel = row->divides_rows,
        .zero = row->zero,
        .micro_batches = row->global_batch / prediction->micro_batch,
        .gradients = WEFT_F32,
        .bucket_bytes = SIZE_MAX,
    };
    const struct step_setting setting = {
        .config = &config, .first_unit = first_unit, .implementation = row->implementation, .cluster = &cluster->step};
    struct step_costs costs;
    weft_status status = published_cluster_apply(cluster, parameters, error);
    if (status == WEFT_OK)
        status = step_costs_of(&setting, cluster->prices, &costs, error);
    if (status != WEFT_OK)
        return status;
    status = step_simulate(&costs, &(struct step_options){0}, result, error);
    step_costs_free(&costs);
    return status;
}

/* ---- memory ---- */

double prediction_memory(const struct prediction *prediction, struct described_memory *of_largest)
{
    const struct row *row = prediction->row;
    const uint32_t micro_batches = row->global_batch / row->data / prediction->micro_batch;
    uint32_t first_unit[STAGES_MOST + 1];
    const struct work_settings settings = settings_of(row, prediction->micro_batch);
    double largest = 0;
    cut_stages(row, row->pipeline, first_unit);
    for (uint32_t s = 0; s < row->pipeline; s++) {
        struct described_stage stage = {
            .description = prediction->description,
            .settings = &settings,
            .first_layer = first_unit[s],
            .layer_end = first_unit[s + 1],
            .under_way = described_under_way(row->pipeline, s, prediction->virtual_stages, micro_batches),
            .data = row->data,
            .zero = row->zero};
        const struct described_memory memory = described_memory_of(&stage);
        const double bytes = described_memory_total(&memory);
        if (bytes > largest) {
            largest = bytes;
            *of_largest = memory;
        }
    }
    return largest;
}
