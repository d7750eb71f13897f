/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Copies of a training's state on other ranks (state_copies.h), for ZeRO, where each rank alone has its part: after every
 * so many steps, as the configuration says, and always before ranks leave.
 */
#include "training/parallel/training.h"

#include "training/parallel/agreement.h"

#include <stdlib.h>

static weft_status open_copies(weft_training *training, struct error *error)
{
    uint32_t *nodes = calloc(training->ranks, sizeof *nodes);
    bool speaks;
    weft_status status =
        nodes ? WEFT_OK : error_memory(error, training->ranks * sizeof *nodes, "the nodes of the ranks");
    for (uint32_t r = 0; nodes && r < training->ranks; r++)
        nodes[r] = (uint32_t)weft_comm_node_of(training->comm, (int)r);
    status = agreement_reach(training->context, training->comm, status, error, &speaks);
    if (status == WEFT_OK)
        status = training_open_layout(training, &training->layout, error);
    if (status == WEFT_OK)
        status = state_copies_open(training->layout, nodes, &training->copies, &speaks, error);
    if (status != WEFT_OK) {
        state_layout_close(training->layout);
        training->layout = NULL;
    }
    free(nodes);
    return status;
}

static bool wants_copies(const weft_training *training)
{
    const weft_training_config *config = &training->config;
    return training->zero > 0 && training->is_over_world && config->copy_every > 0 &&
           config->optimizer != WEFT_OPTIMIZER_OWN;
}

/* Of the present state, on all ranks. */
static weft_status copy_all(weft_training *training, struct error *error)
{
    bool speaks;
    weft_status status = agreement_reach(training->context, training->comm,
                                         state_copies_begin(training->copies, training->steps, error), error, &speaks);
    if (status == WEFT_OK)
        status = state_copies_finish(training->copies, error);
    return agreement_reach(training->context, training->comm, status, error, &speaks);
}

weft_status training_open_copies(weft_training *training, struct error *error)
{
    weft_status status = wants_copies(training) ? open_copies(training, error) : WEFT_OK;
    return status == WEFT_OK && training->layout && training->steps ? copy_all(training, error) : status;
}

static bool has_copies(const weft_training *training)
{
    uint64_t steps[2];
    state_copies_steps(training->copies, false, steps);
    return steps[0] != UINT64_MAX || steps[1] != UINT64_MAX;
}

weft_status training_begin_copy(weft_training *training, struct error *error)
{
    if (!training->layout || !wants_copies(training) ||
        (training->steps % (uint64_t)training->config.copy_every && has_copies(training)))
        return WEFT_OK;
    weft_status status = state_copies_begin(training->copies, training->steps, error);
    if (status == WEFT_OK && training->waiting) /* the program may call weft_grow(), with nothing under way */
        status = state_copies_finish(training->copies, error);
    return status;
}

weft_status training_finish_copy(weft_training *training, struct error *error)
{
    return training->layout ? state_copies_finish(training->copies, error) : WEFT_OK;
}

weft_status training_copy_parts(weft_training *training, struct error *error)
{
    const weft_status status = training->layout ? training_finish_copy(training, error) : open_copies(training, error);
    return status == WEFT_OK ? copy_all(training, error) : status;
}

void training_forget_copies(weft_training *training)
{
    struct error ignored = {0};
    if (!training->layout)
        return;
    (void)state_copies_finish(training->copies, &ignored);
    state_copies_keep(training->copies, UINT64_MAX);
}
