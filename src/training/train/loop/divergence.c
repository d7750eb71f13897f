/* SPDX-License-Identifier: Apache-2.0 */
#include "training/train/loop/internal/divergence.h"

#include "training/model/not_finite.h"
#include "training/parallel/agreement.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>

#define FIGURE_BYTES 64
#define REMEDY                                                                                                         \
    "; the step was not taken: lower --learning-rate, lengthen --warmup or lower --clip, and go on from a checkpoint " \
    "(--resume-change)"

/* "the loss of step 13 is nan", of the first of the two that is not finite. */
static void tell_figure(const struct divergence *divergence, char figure[FIGURE_BYTES])
{
    const bool loss = !isfinite(divergence->loss);
    snprintf(figure, FIGURE_BYTES, "the %s of step %" PRIu64 " is %g", loss ? "loss" : "gradient's norm",
             divergence->step + 1, fabs(loss ? divergence->loss : divergence->norm)); /* no "-nan" */
}

static weft_status tell_place(const struct divergence *divergence, uint32_t micro_batch, const struct not_finite *found,
                              struct error *error)
{
    char figure[FIGURE_BYTES];
    tell_figure(divergence, figure);
    const char *where = found->where == NOT_FINITE_IN_OUTPUT ? "in the output" : "among the gradients";
    const int rank = weft_comm_rank(divergence->comm);
    if (found->weights)
        return error_set(error, WEFT_ERROR_DATA,
                         "%s: the first numbers that are not finite are %s of layer %s, on rank %d in micro-batch "
                         "%" PRIu32 " of %" PRIu32 ", and %s is not finite itself; go on from an older checkpoint",
                         figure, where, found->layer, rank, micro_batch + 1, divergence->layout->total, found->weights);
    return error_set(error, WEFT_ERROR_DATA,
                     "%s: the first numbers that are not finite are %s of layer %s, on rank %d in micro-batch %" PRIu32
                     " of %" PRIu32 REMEDY,
                     figure, where, found->layer, rank, micro_batch + 1, divergence->layout->total);
}

/* This rank's first micro-batch with such a number. */
static weft_status divergence_search(const struct divergence *divergence, struct error *error)
{
    const struct micro_batches *layout = divergence->layout;
    const uint64_t sequences = model_get_batch(divergence->model);
    for (uint32_t i = 0; i < layout->share; i++) {
        const uint32_t micro_batch = micro_batches_number(layout, i);
        const uint64_t first = (divergence->step * layout->total + micro_batch) * sequences;
        const struct model_batch batch = {
            .tokens = divergence->tokens, .targets = divergence->targets, .seed = divergence->seed, .sample = first};
        struct not_finite found;
        weft_status status = dataset_batch(divergence->dataset, DATASET_TRAIN, first, sequences, divergence->tokens,
                                           divergence->targets, error);
        if (status == WEFT_OK)
            status = not_finite_find(divergence->model, divergence->parameters, divergence->gradients, &batch, &found,
                                     error);
        if (status != WEFT_OK)
            return status;
        if (found.where != NOT_FINITE_NOWHERE)
            return tell_place(divergence, micro_batch, &found, error);
    }
    return WEFT_OK;
}

weft_status divergence_explain(const struct divergence *divergence, bool *speaks, struct error *error)
{
    weft_status status =
        agreement_reach(divergence->context, divergence->comm, divergence_search(divergence, error), error, speaks);
    if (status != WEFT_OK)
        return status;
    char figure[FIGURE_BYTES];
    tell_figure(divergence, figure);
    *speaks = weft_comm_rank(divergence->comm) == 0;
    return error_set(error, WEFT_ERROR_DATA,
                     "%s, though every micro-batch's own numbers are finite: their sum is too large for f32" REMEDY,
                     figure);
}
