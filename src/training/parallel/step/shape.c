/* SPDX-License-Identifier: Apache-2.0 */
/* What follows from the shape of a step alone. */
#include "training/parallel/step/internal/order.h"

static uint32_t smaller(uint32_t a, uint32_t b)
{
    return a < b ? a : b;
}

uint32_t step_warm_up(const struct step_shape *shape, uint32_t pipeline_rank)
{
    const uint32_t following = shape->pipeline - 1 - pipeline_rank, local_stages = shape->stages / shape->pipeline;
    switch (shape->order) {
    case STEP_GPIPE:
        return shape->micro_batches;
    case STEP_INTERLEAVED:
        return smaller(2 * following + (local_stages - 1) * shape->pipeline, shape->micro_batches * local_stages);
    default:
        return smaller(following, shape->micro_batches);
    }
}

uint32_t step_slots_bound(const struct step_shape *shape, uint32_t pipeline_rank)
{
    const uint32_t total = shape->micro_batches * (shape->stages / shape->pipeline);
    if (shape->order == STEP_ZERO_BUBBLE_H1)
        return smaller(shape->pipeline, total);
    return smaller(step_warm_up(shape, pipeline_rank) + 1, total);
}

weft_status step_check_shape(const struct step_shape *shape, struct error *error)
{
    const char *name = step_pipeline_name(shape->order);
    if (shape->pipeline < 1 || shape->micro_batches < 1 || shape->data < 1 || shape->zero > 3 || shape->prefetch < 1)
        return error_set(error, WEFT_ERROR_ARGUMENT,
                         "a step of %u micro-batches on %u x %u ranks with ZeRO-%u and %u units ahead is impossible",
                         shape->micro_batches, shape->data, shape->pipeline, shape->zero, shape->prefetch);
    if (shape->stages < shape->pipeline || shape->stages % shape->pipeline)
        return error_set(error, WEFT_ERROR_ARGUMENT, "%u stages do not divide among %u pipeline ranks", shape->stages,
                         shape->pipeline);
    if (shape->stages > shape->pipeline &&
        ((shape->order != STEP_INTERLEAVED && shape->order != STEP_EVALUATION) || shape->pipeline == 1))
        return error_set(error, WEFT_ERROR_ARGUMENT,
                         "%s has one stage on each of %u ranks, not %u stages; several on a rank need 'interleaved'",
                         name, shape->pipeline, shape->stages);
    if (shape->order == STEP_INTERLEAVED && shape->micro_batches % shape->pipeline)
        return error_set(error, WEFT_ERROR_ARGUMENT,
                         "interleaved needs a multiple of %u micro-batches, one for each pipeline rank, not %u",
                         shape->pipeline, shape->micro_batches);
    for (uint32_t s = 0; s < shape->stages; s++)
        if (shape->first_unit[s] >= shape->first_unit[s + 1] || shape->first_unit[0] != 0)
            return error_set(error, WEFT_ERROR_ARGUMENT, "stage %u of %u has no layers", s, shape->stages);
    return WEFT_OK;
}

bool step_stage_is_local(const struct step_shape *shape, uint32_t pipeline_rank, uint32_t stage)
{
    return stage % shape->pipeline == pipeline_rank;
}

uint32_t step_unit_stage(const struct step_shape *shape, uint32_t unit)
{
    uint32_t stage = 0;
    while (shape->first_unit[stage + 1] <= unit)
        stage++;
    return stage;
}

bool step_shares(const struct step_shape *shape)
{
    return shape->data > 1 && (shape->zero == 1 || shape->zero == 2) && shape->order != STEP_EVALUATION;
}

bool step_shares_move_on(const struct step_shape *shape)
{
    return step_shares(shape) && !shape->shares_within;
}

bool step_unit_adds_tied(const struct step_shape *shape, uint32_t unit)
{
    return shape->tied && (unit == 0 || (shape->pipeline > 1 && unit + 1 == shape->first_unit[shape->stages]));
}
