/* SPDX-License-Identifier: Apache-2.0 */
#include "train/evaluation.h"

#include <stdlib.h>

weft_status evaluation_run(const struct evaluation *evaluation, const float *parameters, double *loss,
                           struct error *error)
{
    uint32_t rank = (uint32_t)weft_comm_rank(evaluation->comm), ranks = (uint32_t)weft_comm_size(evaluation->comm);
    uint32_t share = (evaluation->micro_batches + ranks - 1) / ranks;
    uint64_t batch = model_get_batch(evaluation->model);
    double *mine = calloc((size_t)share * (ranks + 1), sizeof *mine), *all = mine + share;
    if (!mine)
        return error_memory(error, (size_t)share * (ranks + 1) * sizeof *mine, "the losses of an evaluation");

    /* Micro-batch i is rank (i mod ranks)'s, so that no rank has two more than another. */
    weft_status status = WEFT_OK;
    for (uint32_t i = rank; i < evaluation->micro_batches && status == WEFT_OK; i += ranks) {
        struct model_batch input = {.tokens = evaluation->tokens, .targets = evaluation->targets};
        status = dataset_batch(evaluation->dataset, DATASET_HELD_OUT, evaluation->first + i * batch, batch,
                               evaluation->tokens, evaluation->targets, error);
        if (status == WEFT_OK)
            status = model_evaluate(evaluation->model, parameters, &input, &mine[i / ranks], error);
    }
    if (status == WEFT_OK) {
        status = weft_allgather(mine, all, share, WEFT_F64, evaluation->comm);
        if (status != WEFT_OK)
            error_set(error, status, "%s", weft_message(evaluation->context));
    }
    if (status == WEFT_OK) {
        double sum = 0;
        for (uint32_t i = 0; i < evaluation->micro_batches; i++)
            sum += all[(size_t)(i % ranks) * share + i / ranks];
        *loss = sum / evaluation->micro_batches;
    }
    free(mine);
    return status;
}
