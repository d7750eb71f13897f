/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Shrinking after a failure: the survivors agree on the new membership (regroup.h), fence their memory off from all
 * other ranks, and reopen everything that ranks share. State local to this rank stays: memory, requests, the tuner's
 * numbers.
 */
#include "core/collective/communicator/context.h"
#include "core/collective/internal/execution.h"
#include "core/collective/internal/trace.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define ATTEMPTS        16  /* failures while shrinking that are survived */
#define CONNECT_SECONDS 3.0 /* for the survivors to connect, having just agreed; else they regroup */
#define FENCE_SECONDS   5.0 /* for a process that was killed to end */

static void shrink_warn(void *argument, const char *message)
{
    const weft_context *context = argument;
    char name[128];
    fprintf(stderr, "weft: warning: %s waits in weft_shrink(): %s\n",
            context_rank_name(context, context->rank, name, sizeof name), message);
}

/* Only the survivors access this rank's memory from now on. */
static weft_status shrink_fence(weft_context *context, const struct regroup_table *table, struct error *error)
{
    uint32_t *gone = malloc(context->ranks * sizeof *gone), *kept = malloc(context->ranks * sizeof *kept);
    uint32_t gone_count = 0, kept_count = 0;
    weft_status status = WEFT_OK;
    if (!gone || !kept)
        status = error_memory(error, 2 * context->ranks * sizeof *gone, "the ranks that are lost");
    for (uint32_t r = 0; status == WEFT_OK && r < context->ranks; r++) {
        if (kept_count < table->ranks && table->first[kept_count] == context->first[r])
            kept[kept_count++] = r;
        else
            gone[gone_count++] = r;
    }
    if (status == WEFT_OK && context->shm)
        status = shm_evict(context->shm, gone, gone_count, FENCE_SECONDS, error);
    if (status == WEFT_OK)
        tuner_keep(&context->tuner, kept, kept_count);
    free(gone);
    free(kept);
    progress_detach(context);
    fabric_abandon(context->fabric);
    return status;
}

/*
 * Close everything that the epoch's ranks shared, except the network: the next one reuses its provider and interface.
 */
static void close_epoch(weft_context *context)
{
    progress_close(context);
    comm_discard_released(context);
    for (struct weft_request *request = context->all; request; request = request->next_of_all)
        request->log = NULL; /* it goes with the status page */
    context->log = NULL;
    status_page_close(&context->status_page);
    for (struct weft_comm *comm = context->comms; comm; comm = comm->next)
        if (!comm->retired)
            comm_retire(comm);
    if (context->shm) {
        shm_mark_quiescent(context->shm);
        shm_destroy(context->shm);
    }
    context->shm = NULL;
    memset(context->transports, 0, sizeof context->transports);
    memset(context->transfers, 0, sizeof context->transfers);
    control_abandon(context->control);
    context->control = NULL;
    error_clear(&context->progress.held);
    context->progress.asleep = false;
    memset(&context->diagnosis, 0, sizeof context->diagnosis);
}

/* Open what the survivors share; the control plane is theirs already. */
static weft_status open_epoch(weft_context *context, struct control *control, struct regroup_table *table,
                              struct error *error)
{
    struct fabric *former = context->fabric;
    context->fabric = NULL;
    free(context->endpoints);
    free(context->first);
    context->endpoints = table->endpoints;
    context->first = table->first;
    context->rank = table->rank;
    context->ranks = table->ranks;
    context->epoch = table->epoch;
    memcpy(context->secret, table->secret, sizeof context->secret);
    context->control = control;
    control_renumber(control, context->rank, context->ranks,
                     CONNECT_SECONDS < context->rendezvous_limit ? CONNECT_SECONDS : context->rendezvous_limit);
    weft_status status = control_connect(control, context->endpoints, context->secret, error);
    int listener = control_take_listener(control);
    if (listener >= 0)
        close(listener);
    const struct startup startup = context->startup; /* the report shows the times of weft_init() */
    if (status == WEFT_OK)
        status = context_open_epoch(context, former, error);
    context->startup = startup;
    if (former)
        fabric_close(former);
    /* No rank begins before all are ready, and have killed the local processes that are left out. */
    uint8_t nothing = 0;
    void *all = NULL;
    if (status == WEFT_OK)
        status = context_allgather(context, "shrunk", &nothing, 1, &all, error);
    free(all);
    if (status != WEFT_OK)
        control_abort(control, status, error->text);
    return status;
}

/* One attempt. *again is set if another failure interrupted it and the remaining ranks may retry. */
static weft_status try_to_shrink(weft_context *context, bool *again, struct error *error)
{
    struct control *control = NULL;
    struct regroup_table table = {0};
    struct endpoint_info endpoint;
    const struct regroup_wait wait = {context->rendezvous_limit, context->late_seconds, shrink_warn, context};
    *again = false;
    weft_status status = context_make_endpoint(context, &control, &endpoint, error);
    if (status == WEFT_OK)
        status = regroup_agree(context->regroup, &endpoint, &wait, &table, error);
    if (status == WEFT_OK)
        status = shrink_fence(context, &table, error);
    if (status != WEFT_OK) {
        control_abandon(control);
        free(table.endpoints);
        free(table.first);
        return status;
    }
    close_epoch(context);
    status = open_epoch(context, control, &table, error);
    *again = status == WEFT_ERROR_PEER || status == WEFT_ERROR_TIMEOUT || status == WEFT_ERROR_NETWORK;
    return status;
}

/* Everything in flight has ended, and nothing new begins: the context is broken. */
static weft_status come_to_rest(weft_context *context, struct error *error)
{
    if (context->grouping)
        return error_set(error, WEFT_ERROR_STATE, "weft_shrink() was called in a group; end it with weft_group_end()");
    if (!control_failed(context->control))
        return error_set(error, WEFT_ERROR_STATE, "weft_shrink() was called, but nothing has failed");
    progress_enter(context);
    progress_round(context);
    progress_leave(context);
    return WEFT_OK;
}

weft_status weft_shrink(weft_context *context)
{
    struct error error;
    error_clear(&error);
    if (!context)
        return context_missing("weft_shrink()", "context");
    weft_status status = come_to_rest(context, &error);
    if (status != WEFT_OK)
        return context_note(context, &error);
    if (!context->regroup) {
        error_set(&error, WEFT_ERROR_STATE, "weft_shrink() was called by a rank that is alone in its job");
        return context_note(context, &error);
    }
    if (context->trace) { /* later events have other ranks, and perhaps another first one */
        struct error ignored;
        error_clear(&ignored);
        (void)trace_write(context, &ignored);
    }
    bool again = true;
    for (int attempt = 0; attempt < ATTEMPTS && again; attempt++) {
        error_clear(&error);
        status = try_to_shrink(context, &again, &error);
    }
    if (status != WEFT_OK)
        context_break_replace(context, &error);
    else
        context_repair(context);
    return status;
}
