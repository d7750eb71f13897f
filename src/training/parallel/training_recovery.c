/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A training goes on after its ranks have changed.
 *
 * The survivors of a failure are at most one step apart: a rank that has the sums of a step needs no other rank to
 * complete it without ZeRO, and no step is summed without all ranks. Those that have completed it send their values
 * and moments to the others and to newcomers. With ZeRO, parts of the state are lost with a rank: they come from copies
 * that ranks keep for each other (training_copies.c), or all ranks read the training's last checkpoint.
 */
#include "training/parallel/training.h"

#include "base/file/file.h"
#include "base/library_error.h"
#include "training/parallel/agreement.h"
#include "training/parallel/state_transfer.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define RECOVERY_ATTEMPTS 16 /* at most; each further failure during the call costs one */

/* ---- how far the ranks have come ---- */

struct training_standing training_describe_standing(const weft_training *training)
{
    const weft_training *former = training->former;
    struct training_standing standing;
    memset(&standing, 0, sizeof standing); /* and what lies between its members */
    standing.known = training->known;
    standing.copied[0] = standing.copied[1] = UINT64_MAX;
    standing.checkpoint = training->directory ? training->checkpoint : UINT64_MAX;
    standing.rate_ranks = training->rate_ranks;
    standing.micro_batches = (uint32_t)training->config.micro_batches;
    if (!former || !former->steps) /* initial values are set again: some may not have come */
        return standing;
    standing.steps = former->steps;
    if (former->copies)
        state_copies_steps(former->copies, false, standing.copied);
    standing.has_state = !former->is_updating;
    return standing;
}

/* How far the training had come; 0: it is new. *held: how far, on a rank that still has its state; 0: none has. */
static uint64_t find_farthest(const struct training_standing *all, uint32_t ranks, uint64_t *held)
{
    uint64_t steps = 0;
    *held = 0;
    for (uint32_t r = 0; r < ranks; r++) {
        const uint64_t known = all[r].known > all[r].steps ? all[r].known : all[r].steps;
        steps = known > steps ? known : steps;
        *held = all[r].has_state && all[r].steps > *held ? all[r].steps : *held;
    }
    return steps;
}

void training_note_standings(weft_training *training, const struct training_standing *all)
{
    const struct training_standing *own = &all[training->rank];
    uint64_t held;
    training->known = find_farthest(all, training->ranks, &held);
    training->is_behind = !own->has_state || own->steps < held;
}

weft_status training_share_checkpoint(weft_training *training, const struct training_standing *all, struct error *error)
{
    const uint64_t own = all[training->rank].checkpoint;
    char directory[FILE_PATH_BYTES] = "";
    uint32_t owner = training->ranks; /* the lowest rank with the newest */
    bool all_know = true, speaks;
    for (uint32_t r = 0; r < training->ranks; r++) {
        all_know &= all[r].checkpoint == own;
        if (all[r].checkpoint != UINT64_MAX && (owner == training->ranks || all[r].checkpoint > all[owner].checkpoint))
            owner = r;
    }
    if (all_know || owner == training->ranks)
        return WEFT_OK;
    if (owner == training->rank)
        snprintf(directory, sizeof directory, "%s", training->directory);
    weft_status status = library_error(
        training->context, weft_broadcast(directory, sizeof directory, WEFT_U8, (int)owner, training->comm), error);
    if (status == WEFT_OK && own != all[owner].checkpoint) {
        char *copy = strdup(directory);
        if (copy)
            training_remember_checkpoint(training, copy, all[owner].checkpoint);
        else
            status = error_memory(error, strlen(directory), "the name of a directory");
    }
    return agreement_reach(training->context, training->comm, status, error, &speaks);
}

static bool standing_has_copy(const struct training_standing *standing, uint64_t step)
{
    return standing->copied[0] == step || standing->copied[1] == step;
}

/* Whether every rank that has a state has copies of this step. */
static bool all_have_copies(const struct training_standing *all, uint32_t ranks, uint64_t step)
{
    for (uint32_t r = 0; r < ranks; r++)
        if (all[r].has_state && !standing_has_copy(&all[r], step))
            return false;
    return true;
}

/* The newest step before `before` of which some rank has a copy; 0: there is none. */
static uint64_t find_copied_step(const struct training_standing *all, uint32_t ranks, uint64_t before)
{
    uint64_t newest = 0;
    for (uint32_t r = 0; r < ranks; r++)
        for (int i = 0; i < 2; i++)
            if (all[r].copied[i] < before && all[r].copied[i] > newest)
                newest = all[r].copied[i];
    return newest;
}

/* The step of the newest checkpoint; 0: there is none. */
static uint64_t find_saved_step(const struct training_standing *all, uint32_t ranks)
{
    uint64_t newest = 0;
    for (uint32_t r = 0; r < ranks; r++)
        if (all[r].checkpoint != UINT64_MAX && all[r].checkpoint > newest)
            newest = all[r].checkpoint;
    return newest;
}

/* ---- the state ---- */

/* Own and, as far as it has come, that of the rank before. */
static weft_status list_copied_pieces(struct state_copies *copies, uint64_t step, struct state_pieces *pieces,
                                      struct error *error)
{
    uint64_t of_previous[2];
    state_copies_steps(copies, true, of_previous);
    return state_copies_pieces(copies, step, of_previous[0] == step || of_previous[1] == step, pieces, error);
}

/* What this rank has of the former world's state; `copied`: of the copies of that step, 0: of the state itself. */
static weft_status list_former_pieces(const weft_training *training, uint64_t copied, struct state_pieces *pieces,
                                      struct error *error)
{
    const weft_training *former = training->former;
    weft_status status = copied ? list_copied_pieces(former->copies, copied, pieces, error)
                                : training_list_pieces(former, pieces, error);
    pieces->description = &training->description;
    for (size_t i = 0; status == WEFT_OK && i < pieces->count; i++) { /* the order of parameters may be another one */
        const char *name = former->description.parameters[pieces->pieces[i].parameter].name;
        pieces->pieces[i].parameter =
            (uint32_t)(model_parameter_find(&training->description, name) - training->description.parameters);
    }
    return status;
}

/* From the ranks that have it (`has`: this one) to all; `copied` as above. *moved: no part of it is missing. */
static weft_status move_training_state(weft_training *training, bool has, uint64_t copied, bool *moved,
                                       struct error *error)
{
    struct state_pieces pieces = {.description = &training->description};
    struct state_layout *source = NULL, *target = NULL;
    bool speaks;
    weft_status status = has ? list_former_pieces(training, copied, &pieces, error) : WEFT_OK;
    status = agreement_reach(training->context, training->comm, status, error, &speaks);
    if (status == WEFT_OK)
        status = training_open_layout(training, &target, error);
    if (status == WEFT_OK)
        status = state_layout_open(training->context, training->comm, &pieces, &source, &speaks, error);
    *moved = status == WEFT_OK && source->arrays == target->arrays;
    if (status == WEFT_ERROR_ARGUMENT) { /* no rank holds some element */
        error_clear(error);
        status = WEFT_OK;
    }
    if (*moved)
        status = state_layout_move(source, target, error);
    state_layout_close(source);
    state_layout_close(target);
    free(pieces.pieces);
    return status;
}

static weft_status read_lost_state(weft_training *training, uint64_t step, struct error *error)
{
    bool found = false;
    if (training->former)
        training->former->is_updating = true; /* its arrays may be those of the new world */
    if (training->directory)                  /* not the newest one there, which may be another run's */
        return training_load_checkpoint(training, training->directory, training->checkpoint, &found, error);
    if (training->config.zero || training->config.shard_optimizer)
        return error_set(
            error, WEFT_ERROR_DATA,
            "the state after step %" PRIu64
            " is lost with a rank that held a part of it, and this training has saved no checkpoint to go back "
            "to; set copy_every, call weft_training_save() now and then, or use zero 0",
            step);
    return error_set(error, WEFT_ERROR_DATA,
                     "all ranks that had the state after step %" PRIu64
                     " were lost before they had sent it to the others, and this training has saved no checkpoint to "
                     "go back to; call weft_training_save() now and then",
                     step);
}

void training_close_former(weft_training *training)
{
    weft_training *former = training->former;
    if (!former)
        return;
    training_close_layout(former);
    free(former->description.parameters);
    free(former);
    training->former = NULL;
}

/* From copies: the newest that are whole, as ranks have lost each other at different steps. */
static weft_status restore_copies(weft_training *training, const struct training_standing *all, uint64_t *step,
                                  bool *moved, struct error *error)
{
    const uint64_t saved = find_saved_step(all, training->ranks);
    weft_status status = WEFT_OK;
    for (*step = UINT64_MAX; status == WEFT_OK && !*moved;) {
        *step = find_copied_step(all, training->ranks, *step);
        if (!*step || *step < saved)
            break;
        const bool has = standing_has_copy(&all[training->rank], *step);
        if (training->former)
            training->former->is_updating = true; /* its arrays may be those of the new world */
        status = move_training_state(training, has, *step, moved, error);
    }
    return status;
}

weft_status training_restore(weft_training *training, const struct training_standing *all, struct error *error)
{
    uint64_t held, brought = 0;
    const uint64_t steps = find_farthest(all, training->ranks, &held);
    bool moved = false, speaks;
    weft_status status = WEFT_OK;
    if (held) {
        status = move_training_state(training, !training->is_behind,
                                     all_have_copies(all, training->ranks, held) ? held : 0, &moved, error);
        brought = held;
    }
    if (status == WEFT_OK && !moved)
        status = restore_copies(training, all, &brought, &moved, error);
    if (status == WEFT_OK && !moved && steps)
        status = read_lost_state(training, steps, error);
    status = agreement_reach(training->context, training->comm, status, error, &speaks);
    if (moved && (status == WEFT_OK || !training->zero)) { /* with zero, a part alone is of no use */
        training->steps = brought;
        training->has_values = true;
    }
    return status;
}

/* ---- the ranks ---- */

static weft_status repeat_last_error(const weft_training *training, struct error *error)
{
    *error = training->last;
    return error->status;
}

/* Nothing has failed, and all ranks are between steps. */
static weft_status change_ranks(weft_training *training, struct error *error)
{
    weft_context *context = training->context;
    weft_status status = WEFT_OK;
    if (!training->waiting) {
        if (training->last.status != WEFT_OK) /* not because of a rank */
            return repeat_last_error(training, error);
        return error_set(error, WEFT_ERROR_STATE,
                         "weft_training_recover() was called, but no rank is lost, and none waits to join or is to "
                         "leave; call it after a call that failed, or if weft_training_waiting() is not 0");
    }
    if (training->zero > 0)
        status = training_copy_parts(training, error);
    if (status == WEFT_OK)
        status = library_error(context, weft_grow(context), error);
    if (status == WEFT_OK || weft_shrink(context) != WEFT_OK) /* a rank may be lost meanwhile */
        return status;
    error_clear(error);
    return WEFT_OK;
}

/* Why the context is broken. The training's last error may be older: a rank may be lost in a call of the program. */
static weft_status reason_of_failure(weft_context *context)
{
    const weft_status status = weft_group_start(context);
    (void)weft_group_end(context);
    return status;
}

/* Another world, unless the program has asked for it already. */
static weft_status change_world(weft_training *training, struct error *error)
{
    weft_context *context = training->context;
    if (training->epoch != weft_epoch(context))
        return WEFT_OK;
    if (training->last.status == WEFT_ERROR_MISMATCH && reason_of_failure(context) == WEFT_ERROR_MISMATCH)
        return repeat_last_error(training, error); /* the program would make the same mistake again */
    const weft_status status = weft_shrink(context);
    return status == WEFT_ERROR_STATE ? change_ranks(training, error) : library_error(context, status, error);
}

static weft_status check_recovers(const weft_training *training, struct error *error)
{
    if (!training->is_over_world)
        return error_set(error, WEFT_ERROR_STATE,
                         "this training is over a part of the ranks, and only one over weft_world() survives their "
                         "loss; close it, and open another one");
    if (training->config.optimizer == WEFT_OPTIMIZER_OWN)
        return error_set(error, WEFT_ERROR_STATE,
                         "the state of an optimizer of the program's own cannot be brought to other ranks; use one of "
                         "Weft's optimizers, or close this training and open another one");
    if (!training->description.parameter_count)
        return error_set(error, WEFT_ERROR_STATE,
                         "there is nothing to recover: register parameters with weft_training_parameter()");
    return WEFT_OK;
}

static weft_status enter_next_world(weft_training *training, struct error *error)
{
    bool speaks;
    weft_status status = training_leave_world(training, error);
    training_take_ranks(training, weft_world(training->context));
    status = agreement_reach(training->context, training->comm, status, error, &speaks);
    return status == WEFT_OK ? training_enter_world(training, error) : status;
}

weft_status weft_training_recover(weft_training *training)
{
    weft_context *context = training->context;
    struct error error = {0};
    weft_status status = change_world(training, &error);
    if (status == WEFT_OK) /* the context is not broken any more, and has no other message */
        status = check_recovers(training, &error);
    for (int attempt = 0; status == WEFT_OK && weft_world(context); attempt++) {
        status = enter_next_world(training, &error);
        if (status == WEFT_OK || attempt == RECOVERY_ATTEMPTS || weft_shrink(context) != WEFT_OK)
            break;
        error_clear(&error); /* a further rank was lost */
        status = WEFT_OK;
    }
    if (status == WEFT_OK)
        error_clear(&training->last);
    return training_note_error(training, status, &error);
}

int weft_training_waiting(const weft_training *training)
{
    return training->waiting;
}

bool weft_training_is_new(const weft_training *training)
{
    return !training->has_values;
}
