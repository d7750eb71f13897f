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

static weft_status tell_place(const struct divergence *divergence, uint64_t micro_batch, const struct not_finite *found,
                              struct error *error)
{
    char figure[FIGURE_BYTES];
    tell_figure(divergence, figure);
    const char *where = found->where == NOT_FINITE_IN_OUTPUT ? "in the output" : "among the gradients";
    const int rank = weft_comm_rank(divergence->comm);
    if (found->weights)
        return error_set(error, WEFT_ERROR_DATA,
                         "%s: the first numbers that are not finite are %s of layer %s, on rank %d in micro-batch "
                         "%" PRIu64 " of %" PRIu32 ", and %s is not finite itself; go on from an older checkpoint",
                         figure, where, found->layer, rank, micro_batch + 1, divergence->micro_batches, found->weights);
    return error_set(error, WEFT_ERROR_DATA,
                     "%s: the first numbers that are not finite are %s of layer %s, on rank %d in micro-batch %" PRIu64
                     " of %" PRIu32 REMEDY,
                     figure, where, found->layer, rank, micro_batch + 1, divergence->micro_batches);
}

/* ---- the search ---- */

struct divergence_search {
    const struct divergence *divergence;
    struct not_finite_search layers;
    uint64_t micro_batch; /* of what was found */
    uint64_t key;         /* orders findings of all ranks; UINT64_MAX: none */
};

/* By micro-batch; then forward before backward; then in the order in which layers are computed. */
static uint64_t key_of(const struct divergence_search *search, const struct model_turn *turn)
{
    const bool backward = turn->direction == MODEL_BACKWARD;
    const uint64_t layers = search->divergence->description->layer_count;
    return search->micro_batch << 32 | (uint64_t)backward << 31 | (backward ? layers - 1 - turn->layer : turn->layer);
}

/* A model_watcher. A rank may compute a later micro-batch first, so the first finding need not be the one. */
static void divergence_look(void *context, const struct model_turn *turn)
{
    struct divergence_search *search = context;
    struct executor *executor = search->divergence->executor;
    struct not_finite_search here = search->layers;
    here.found = (struct not_finite){.where = NOT_FINITE_NOWHERE};
    not_finite_look(&here, turn, executor_arrays(executor, turn->layer));
    if (here.found.where == NOT_FINITE_NOWHERE)
        return;
    struct divergence_search found = *search;
    found.micro_batch = executor_micro_batch(executor) - search->divergence->step * search->divergence->micro_batches;
    found.layers = here;
    found.key = key_of(&found, turn);
    if (found.key < search->key)
        *search = found;
}

/* Fails on the rank whose finding is the first of all. */
static weft_status divergence_search_all(const struct divergence *divergence, struct error *error)
{
    struct divergence_search search = {
        .divergence = divergence,
        .layers = {.device = divergence->device, .description = divergence->description},
        .key = UINT64_MAX,
    };
    struct executor_result result;
    struct error repeated = {0};
    executor_watch(divergence->executor, divergence_look, &search);
    weft_status status =
        executor_step(divergence->executor, divergence->input, divergence->step + 1, 0, &result, &repeated);
    executor_watch(divergence->executor, NULL, NULL);
    if (status != WEFT_ERROR_DATA) /* it was refused for the same reason as before */
        return status == WEFT_OK ? error_set(error, WEFT_ERROR_DATA, "the step has other numbers when it is repeated")
                                 : error_set(error, status, "%s", repeated.text);
    uint64_t first = search.key;
    status = weft_allreduce(&first, &first, 1, WEFT_U64, WEFT_MIN, divergence->comm);
    if (status != WEFT_OK)
        return error_set(error, status, "%s", weft_message(divergence->context));
    return search.key == first && first != UINT64_MAX
               ? tell_place(divergence, search.micro_batch, &search.layers.found, error)
               : WEFT_OK;
}

weft_status divergence_explain(const struct divergence *divergence, bool *speaks, struct error *error)
{
    weft_status status =
        agreement_reach(divergence->context, divergence->comm, divergence_search_all(divergence, error), error, speaks);
    if (status != WEFT_OK)
        return status;
    char figure[FIGURE_BYTES];
    tell_figure(divergence, figure);
    *speaks = weft_comm_rank(divergence->comm) == 0;
    return error_set(error, WEFT_ERROR_DATA,
                     "%s, though every micro-batch's own numbers are finite: their sum is too large for f32" REMEDY,
                     figure);
}
