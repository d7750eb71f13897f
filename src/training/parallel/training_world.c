/* SPDX-License-Identifier: Apache-2.0 */
/* The ranks of a training come together: at its start, and again after they have changed. */
#include "training/parallel/training.h"

#include "base/library_error.h"
#include "training/parallel/agreement.h"
#include "training/parallel/internal/tensor_names.h"

#include <stdlib.h>
#include <string.h>

/* ---- leaving the former world ---- */

void training_close_layout(weft_training *training)
{
    state_copies_close(training->copies);
    state_layout_close(training->layout);
    training->copies = NULL;
    training->layout = NULL;
    training_close_gradients(training);
    training_close_values(training);
    free(training->segments);
    free(training->groups);
    free((void *)training->order);
    free(training->positions);
    free(training->group_of);
    free(training->ready);
    free(training->missing);
}

/* Everything that depends on the ranks is to be laid out again. */
static void forget_layout(weft_training *training)
{
    const weft_training kept = *training;
    *training = (weft_training){
        .context = kept.context,
        .comm = kept.comm,
        .config = kept.config,
        .optimizer = kept.optimizer,
        .device = kept.device,
        .is_over_world = kept.is_over_world,
        .epoch = kept.epoch,
        .rank = kept.rank,
        .ranks = kept.ranks,
        .zero = kept.zero,
        .rate_ranks = kept.rate_ranks,
        .description = kept.description,
        .index_of = kept.index_of,
        .directory = kept.directory,
        .checkpoint = kept.checkpoint,
        .last = kept.last,
        .known = kept.known,
        .former = kept.former,
    };
}

weft_status training_leave_world(weft_training *training, struct error *error)
{
    const size_t bytes = training->description.parameter_count * sizeof *training->description.parameters;
    if (!training->started || training->former) { /* it has no state, or was still being brought to it */
        training_close_layout(training);
        forget_layout(training);
        return WEFT_OK;
    }
    weft_training *former = malloc(sizeof *former);
    struct model_parameter *parameters = malloc(bytes);
    if (!former || !parameters) {
        free(former);
        free(parameters);
        return error_memory(error, sizeof *former + bytes, "the state of a training");
    }
    state_layout_close(training->layout);
    training->layout = NULL;
    training_close_gradients(training);
    memcpy(parameters, training->description.parameters, bytes);
    *former = *training;
    former->description.parameters = parameters;
    training->former = former;
    forget_layout(training);
    return WEFT_OK;
}

void training_take_ranks(weft_training *training, weft_comm *comm)
{
    const weft_training_config *config = &training->config;
    training->comm = comm;
    training->epoch = weft_epoch(training->context);
    training->rank = (uint32_t)weft_comm_rank(comm);
    training->ranks = (uint32_t)weft_comm_size(comm);
    training->zero = training->ranks == 1 ? 0
                     : config->zero       ? (uint32_t)config->zero
                                          : (uint32_t)config->shard_optimizer;
}

/* ---- what all ranks must have alike ---- */

/* Put the parameters into rank 0's order. */
static weft_status agree_names(weft_training *training, struct error *error)
{
    struct model_description *description = &training->description;
    const size_t count = description->parameter_count;
    uint32_t *places = calloc(count, sizeof *places);
    if (!places)
        return error_memory(error, count * sizeof *places, "the list of parameters");
    for (size_t i = 0; i < count; i++) /* ranks compare every byte, and newcomers have not laid them out */
        description->parameters[i].count = description->parameters[i].offset = 0;
    weft_status status =
        tensor_names_agree(training->context, training->comm, description->parameters, (uint32_t)count, places, error);
    if (status != WEFT_OK) {
        free(places);
        return status;
    }
    for (size_t i = 0; training->index_of && i < count; i++)
        training->index_of[i] = places[training->index_of[i]];
    if (training->index_of)
        free(places);
    else
        training->index_of = places;
    return WEFT_OK;
}

/* Newcomers take what the others have had from the beginning. */
static void take_settings_of_ranks(weft_training *training, const struct training_standing *all)
{
    training_note_standings(training, all);
    for (uint32_t r = 0; r < training->ranks; r++)
        if (all[r].rate_ranks) {
            training->rate_ranks = all[r].rate_ranks;
            training->config.micro_batches = (int)all[r].micro_batches;
            return;
        }
}

static weft_status exchange_standings(const weft_training *training, struct training_standing **all,
                                      struct error *error)
{
    const struct training_standing own = training_describe_standing(training);
    bool speaks;
    *all = calloc(training->ranks, sizeof **all);
    weft_status status =
        *all ? WEFT_OK : error_memory(error, training->ranks * sizeof **all, "the states of the ranks");
    status = agreement_reach(training->context, training->comm, status, error, &speaks);
    if (status == WEFT_OK)
        status =
            library_error(training->context, weft_allgather(&own, *all, sizeof own, WEFT_U8, training->comm), error);
    return status;
}

/* ---- entering ---- */

static weft_status settle_micro_batches(weft_training *training, struct error *error)
{
    weft_training_config *config = &training->config;
    training->rate_ranks = training->rate_ranks ? training->rate_ranks : training->ranks;
    config->micro_batches = config->micro_batches ? config->micro_batches : (int)training->ranks;
    if ((uint32_t)config->micro_batches >= training->ranks)
        return WEFT_OK;
    return error_set(error, WEFT_ERROR_ARGUMENT,
                     "a global batch of %d micro-batches cannot be divided over %u ranks; use at least %u "
                     "micro-batches, or fewer ranks",
                     config->micro_batches, training->ranks, training->ranks);
}

/* A failure on one rank is a failure on all, so that no rank waits for one that has exited. */
static weft_status open_on_all_ranks(weft_training *training, struct error *error)
{
    weft_status (*const parts[])(weft_training *, struct error *) = {settle_micro_batches, training_lay_out,
                                                                     training_open_values, training_open_gradients};
    bool speaks;
    weft_status status = WEFT_OK;
    for (size_t i = 0; status == WEFT_OK && i < ARRAY_SIZE(parts); i++)
        status = agreement_reach(training->context, training->comm, parts[i](training, error), error, &speaks);
    return status;
}

weft_status training_enter_world(weft_training *training, struct error *error)
{
    const bool ranks_have_changed = training->is_over_world && training->epoch > 0;
    struct training_standing *all = NULL;
    weft_status status = agree_names(training, error);
    if (status == WEFT_OK && ranks_have_changed)
        status = exchange_standings(training, &all, error);
    if (status == WEFT_OK && all)
        take_settings_of_ranks(training, all);
    if (status == WEFT_OK && all)
        status = training_share_checkpoint(training, all, error);
    if (status == WEFT_OK)
        status = open_on_all_ranks(training, error);
    training->started |= status == WEFT_OK;
    if (status == WEFT_OK && all)
        status = training_restore(training, all, error);
    if (status == WEFT_OK)
        status = training_open_copies(training, error);
    if (status == WEFT_OK) /* its copies were needed until there are others */
        training_close_former(training);
    free(all);
    return status;
}
