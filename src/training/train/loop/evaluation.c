/* SPDX-License-Identifier: Apache-2.0 */
#include "training/train/loop/internal/evaluation.h"

#include <stdlib.h>

/* All ranks: whether one of them was told to stop. */
static weft_status agree_to_stop(const struct evaluation *evaluation, bool *stopped, struct error *error)
{
    int32_t told = evaluation->stop && *evaluation->stop;
    weft_status status = WEFT_OK;
    if (evaluation->stop && weft_comm_size(evaluation->comm) > 1)
        status = weft_allreduce(&told, &told, 1, WEFT_I32, WEFT_MAX, evaluation->comm);
    *stopped = told;
    return status == WEFT_OK ? WEFT_OK : error_set(error, status, "%s", weft_message(evaluation->context));
}

weft_status evaluation_run(const struct evaluation *evaluation, const float *parameters, double *loss, bool *stopped,
                           struct error *error)
{
    bool told = false;
    uint32_t rank = (uint32_t)weft_comm_rank(evaluation->comm), ranks = (uint32_t)weft_comm_size(evaluation->comm);
    uint32_t share = (evaluation->micro_batches + ranks - 1) / ranks;
    uint64_t batch = model_get_batch(evaluation->model);
    double *mine = calloc((size_t)share * (ranks + 1), sizeof *mine), *all = mine + share;
    if (!mine)
        return error_memory(error, (size_t)share * (ranks + 1) * sizeof *mine, "the losses of an evaluation");

    /* Micro-batch i is rank (i mod ranks)'s, so that no rank has two more than another. */
    weft_status status = WEFT_OK;
    for (uint32_t n = 0; n < share && status == WEFT_OK; n++) {
        const uint32_t i = n * ranks + rank;
        struct model_batch input = {.tokens = evaluation->tokens, .targets = evaluation->targets};
        if ((status = agree_to_stop(evaluation, &told, error)) != WEFT_OK || told)
            break;
        if (i >= evaluation->micro_batches)
            continue;
        status = dataset_batch(evaluation->dataset, DATASET_HELD_OUT, evaluation->first + i * batch, batch,
                               evaluation->tokens, evaluation->targets, error);
        if (status == WEFT_OK)
            status = model_evaluate(evaluation->model, parameters, &input, &mine[n], error);
    }
    if (stopped)
        *stopped = told;
    if (status == WEFT_OK && !told) {
        status = weft_allgather(mine, all, share, WEFT_F64, evaluation->comm);
        if (status != WEFT_OK)
            error_set(error, status, "%s", weft_message(evaluation->context));
    }
    if (status == WEFT_OK && !told) {
        double sum = 0;
        for (uint32_t i = 0; i < evaluation->micro_batches; i++)
            sum += all[(size_t)(i % ranks) * share + i / ranks];
        *loss = sum / evaluation->micro_batches;
    }
    free(mine);
    return status;
}
