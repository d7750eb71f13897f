/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The ranks of a job change: after a failure the survivors go on (weft_shrink()), between operations newcomers are
 * admitted (weft_grow()), and a newcomer waits for that (context_join()). In each case ranks agree on the new membership
 * (regroup.h), fence their memory off from all other ranks, and open everything that ranks share again. State local to
 * this rank stays: memory and requests, and the tuner's numbers unless ranks join. A rank that the agreement releases
 * closes its part of the epoch and opens no other.
 */
#include "core/collective/communicator/context.h"

#include "base/clock.h"
#include "core/collective/internal/execution.h"
#include "core/collective/internal/trace.h"

#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#define ATTEMPTS         16   /* at most; each further failure during the call costs one */
#define CONNECT_SECONDS  3.0  /* for the ranks to connect, having just agreed; else they regroup */
#define FENCE_SECONDS    5.0  /* for a process that was killed to end */
#define LEAVE_SECONDS    10.0 /* for the process of a rank that leaves to end by itself */
#define PATIENCE_SECONDS 1e6  /* a newcomer waits for the others to admit it */

static void warn_of_missing(void *argument, const char *message)
{
    const weft_context *context = argument;
    char name[128];
    fprintf(stderr, "weft: warning: %s waits for the other ranks: %s\n",
            context_rank_name(context, context->rank, name, sizeof name), message);
}

/* ---- leaving an epoch ---- */

/* Wait for the ranks that leave, so that they end by themselves: those that have not are killed with the lost ones. */
static void await_released(weft_context *context, const struct regroup_table *table)
{
    const uint64_t deadline = clock_after(LEAVE_SECONDS);
    for (uint32_t r = 0, next = 0; context->shm && r < context->ranks && next < table->released_count; r++) {
        while (next < table->released_count && table->released[next] < context->first[r]) /* both ascend */
            next++;
        if (next < table->released_count && table->released[next] == context->first[r])
            shm_await_end(context->shm, r, deadline);
    }
}

/* Only the ranks of the table access this rank's memory from now on. */
static weft_status fence(weft_context *context, const struct regroup_table *table, struct error *error)
{
    uint32_t *gone = malloc(context->ranks * sizeof *gone), *kept = malloc(context->ranks * sizeof *kept);
    uint32_t gone_count = 0, kept_count = 0;
    weft_status status = WEFT_OK;
    if (!gone || !kept)
        status = error_memory(error, 2 * context->ranks * sizeof *gone, "the ranks that are lost");
    for (uint32_t r = 0, next = 0; status == WEFT_OK && r < context->ranks; r++) { /* both ascend */
        while (next < table->ranks && table->first[next] < context->first[r])
            next++;
        if (next < table->ranks && table->first[next] == context->first[r])
            kept[kept_count++] = r;
        else
            gone[gone_count++] = r;
    }
    await_released(context, table);
    if (status == WEFT_OK && context->shm)
        status = shm_evict(context->shm, gone, gone_count, FENCE_SECONDS, error);
    if (status == WEFT_OK && kept_count == table->ranks)
        tuner_keep(&context->tuner, kept, kept_count);
    else if (status == WEFT_OK) /* it does not describe newcomers */
        context_close_tuner(context);
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

/* The others have released this rank, and wait until it has ended. */
static void leave_job(weft_context *context, struct control *control)
{
    struct error error = {0};
    control_abandon(control);
    progress_detach(context);
    fabric_abandon(context->fabric);
    close_epoch(context);
    if (context->fabric)
        fabric_close(context->fabric);
    context->fabric = NULL;
    context->world = NULL;
    context->has_left = true;
    error_set(&error, WEFT_ERROR_STATE, "rank %u has left the job; call weft_finalize()",
              context->first[context->rank]);
    context_break_replace(context, &error);
}

/* ---- entering the next one ---- */

/* No rank begins before all are ready, and have killed the local processes that are left out. Where some rank has no
 * numbers for its tuner, all measure. */
static weft_status begin_together(weft_context *context, struct error *error)
{
    const uint8_t lacks_numbers = !context->is_tuned;
    uint8_t *all = NULL;
    bool measure = false;
    weft_status status = context_allgather(context, "regrouped", &lacks_numbers, 1, (void **)&all, error);
    for (uint32_t r = 0; status == WEFT_OK && r < context->ranks; r++)
        measure |= all[r];
    free(all);
    if (status != WEFT_OK || !measure)
        return status;
    context_repair(context); /* it measures with operations, which a broken context refuses */
    return context_open_tuner(context, error);
}

/* Open what the ranks share; the control plane is theirs already. */
static weft_status open_epoch(weft_context *context, struct control *control, struct regroup_table *table,
                              struct error *error)
{
    struct fabric *former = context->fabric;
    const bool is_first = !context->first;
    context->fabric = NULL;
    free(context->endpoints);
    free(context->first);
    context->endpoints = table->endpoints;
    context->first = table->first;
    table->endpoints = NULL; /* the context's now */
    table->first = NULL;
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
    if (status == WEFT_OK && !context->heap)
        status = context_open_memory(context, error);
    if (status == WEFT_OK)
        status = context_open_epoch(context, former, error);
    context->startup = startup;
    if (former)
        fabric_close(former);
    if (status == WEFT_OK)
        status = begin_together(context, error);
    if (status != WEFT_OK) /* what a newcomer lacks is no failure of the others, who go on without it */
        control_abort(control, is_first ? WEFT_ERROR_PEER : status, error->text);
    return status;
}

/* ---- attending to the others ---- */

/* While this rank closes one epoch and opens the next, before its helper runs again, others that regroup already must find
 * it alive. */
struct attendant {
    struct regroup *regroup;
    int stop;
    pthread_t thread;
    bool running;
};

static void *attend(void *argument)
{
    struct attendant *attendant = argument;
    struct pollfd waits[2] = {{regroup_descriptor(attendant->regroup), POLLIN, 0}, {attendant->stop, POLLIN, 0}};
    while (!waits[1].revents) {
        const int next = regroup_progress(attendant->regroup, false);
        (void)poll(waits, 2, next);
    }
    return NULL;
}

/* Without a thread the others may give this rank up. */
static void attendant_start(struct attendant *attendant, struct regroup *regroup)
{
    *attendant = (struct attendant){.regroup = regroup, .stop = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)};
    attendant->running = attendant->stop >= 0 && pthread_create(&attendant->thread, NULL, attend, attendant) == 0;
}

static void attendant_stop(struct attendant *attendant)
{
    if (attendant->running) {
        eventfd_write(attendant->stop, 1);
        pthread_join(attendant->thread, NULL);
    }
    if (attendant->stop >= 0)
        close(attendant->stop);
}

/* ---- regrouping ---- */

/* One attempt. *again is set if another failure interrupted it and the remaining ranks may retry. */
static weft_status try_to_regroup(weft_context *context, double limit_seconds, bool *again, struct error *error)
{
    struct control *control = NULL;
    struct regroup_table table = {0};
    struct endpoint_info endpoint;
    const struct regroup_wait wait = {limit_seconds, context->late_seconds, context->first ? warn_of_missing : NULL,
                                      context};
    *again = false;
    weft_status status = context_make_endpoint(context, &control, &endpoint, error);
    if (status == WEFT_OK)
        status = regroup_agree(context->regroup, &endpoint, &wait, &table, error);
    if (status != WEFT_OK) {
        control_abandon(control);
        return status;
    }
    if (table.leaves) {
        regroup_table_free(&table);
        leave_job(context, control);
        return WEFT_OK;
    }
    struct attendant attendant;
    attendant_start(&attendant, context->regroup);
    if (context->first) /* not a newcomer's first epoch */
        status = fence(context, &table, error);
    if (status == WEFT_OK) {
        close_epoch(context);
        status = open_epoch(context, control, &table, error);
    } else {
        control_abandon(control);
    }
    regroup_table_free(&table);
    attendant_stop(&attendant);
    if (status == WEFT_OK)
        context_leave_members(context);
    *again = status == WEFT_ERROR_PEER || status == WEFT_ERROR_TIMEOUT || status == WEFT_ERROR_NETWORK;
    return status;
}

static weft_status regroup(weft_context *context, double limit_seconds, struct error *error)
{
    bool again = true;
    weft_status status = WEFT_OK;
    for (int attempt = 0; attempt < ATTEMPTS && again; attempt++) {
        error_clear(error);
        status = try_to_regroup(context, context->first ? context->rendezvous_limit : limit_seconds, &again, error);
    }
    return status;
}

static weft_status check_regroups(const weft_context *context, const char *function, struct error *error)
{
    return context->regroup
               ? WEFT_OK
               : error_set(error, WEFT_ERROR_STATE,
                           "%s was called by a rank that is alone in its job, which no other can join", function);
}

/* Everything in flight has ended, and nothing new begins. */
static weft_status regroup_running(weft_context *context, struct error *error)
{
    hang_watch_pause(&context->hang_watch, true); /* this rank waits for others */
    if (context->trace) {                         /* later events have other ranks, and perhaps another first one */
        struct error ignored;
        error_clear(&ignored);
        (void)trace_write(context, &ignored);
    }
    weft_status status = regroup(context, context->rendezvous_limit, error);
    hang_watch_pause(&context->hang_watch, false);
    if (status != WEFT_OK)
        context_break_replace(context, error);
    else if (!context->has_left)
        context_repair(context);
    return context_report(context, status);
}

/* ---- survivors and members ---- */

/* Everything in flight has ended, and nothing new begins: the context is broken. */
static weft_status come_to_rest(weft_context *context, struct error *error)
{
    if (context->has_left)
        return error_set(error, WEFT_ERROR_STATE, "weft_shrink() was called by a rank that has left the job");
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
    if (status == WEFT_OK)
        status = check_regroups(context, "weft_shrink()", &error);
    return status == WEFT_OK ? regroup_running(context, &error) : context_note(context, &error);
}

/* Nothing is in flight. */
static weft_status check_idle(weft_context *context, struct error *error)
{
    weft_status status = WEFT_OK;
    progress_enter(context);
    progress_round(context);
    if (context->grouping || atomic_load_explicit(&context->progress.operations, memory_order_relaxed) != 0)
        status = error_set(error, WEFT_ERROR_STATE, "weft_grow() was called with %s; %s first",
                           context->grouping ? "a group of calls open" : "operations in flight",
                           context->grouping ? "call weft_group_end()" : "wait for every request");
    progress_leave(context);
    return status;
}

weft_status weft_grow(weft_context *context)
{
    struct error error;
    error_clear(&error);
    if (!context)
        return context_missing("weft_grow()", "context");
    if (context_status(context) != WEFT_OK) /* weft_shrink() admits those that wait, too */
        return context_report(context, context_status(context));
    weft_status status = check_idle(context, &error);
    if (status == WEFT_OK)
        status = check_regroups(context, "weft_grow()", &error);
    return status == WEFT_OK ? regroup_running(context, &error) : context_note(context, &error);
}

int weft_waiting(weft_context *context)
{
    if (!context) {
        context_missing("weft_waiting()", "context");
        return 0;
    }
    return context->regroup ? (int)regroup_waiting(context->regroup) : 0;
}

int weft_epoch(const weft_context *context)
{
    if (!context) {
        context_missing("weft_epoch()", "context");
        return -1;
    }
    return (int)context->epoch;
}

/* ---- newcomers ---- */

/* A listener that stays open, and this rank's endpoint info with its address. */
static weft_status open_listener(weft_context *context, struct regroup_member *own, int *listener, struct error *error)
{
    struct control *control = NULL;
    weft_status status = context_make_endpoint(context, &control, &own->endpoint, error);
    if (status == WEFT_OK && (*listener = control_take_listener(control)) < 0)
        status = error_set(error, WEFT_ERROR_STATE, "a rank that joins a job has no address that others reach");
    control_abandon(control);
    own->rank = context->rank;
    return status;
}

static weft_status find_members(weft_context *context, struct error *error)
{
    struct regroup_member own, *members = NULL;
    uint8_t *bytes = NULL;
    size_t size = 0;
    int listener = -1;
    weft_status status = bootstrap_find_members(context->bootstrap, &bytes, &size, error);
    if (status == WEFT_OK && (size == 0 || size % sizeof *members))
        status = error_set(error, WEFT_ERROR_DATA,
                           "the launcher's list of the job's members is damaged; install the same build of Weft on all "
                           "hosts");
    if (status == WEFT_OK)
        status = open_listener(context, &own, &listener, error);
    members = (struct regroup_member *)(void *)bytes;
    for (size_t i = 0; status == WEFT_OK && i < size / sizeof *members; i++)
        endpoint_info_end_texts(&members[i].endpoint);
    if (status == WEFT_OK)
        status = regroup_open_newcomer(&own, members, (uint32_t)(size / sizeof *members),
                                       bootstrap_secret(context->bootstrap), listener, &context->regroup, error);
    free(bytes);
    return status;
}

weft_status context_join(weft_context *context, struct error *error)
{
    context->ranks = context->rank + 1; /* until it is known */
    struct error ignored = {0};         /* then this is a failure like others */
    weft_status status = find_members(context, error);
    if (status != WEFT_OK)
        return status;
    status = regroup(context, PATIENCE_SECONDS, error);
    if (status != WEFT_OK && context->regroup && regroup_was_overtaken(context->regroup))
        (void)bootstrap_say_overtaken(context->bootstrap, &ignored);
    return status;
}

void context_leave_members(weft_context *context)
{
    struct regroup_member *members = NULL;
    struct error ignored = {0}; /* without the launcher there will be no newcomers either */
    uint32_t count = 0;
    if (context->rank != 0 || !context->regroup || !bootstrap_grows(context->bootstrap))
        return;
    if (regroup_members(context->regroup, &members, &count, &ignored) == WEFT_OK)
        (void)bootstrap_leave_members(context->bootstrap, members, count * sizeof *members, &ignored);
    free(members);
}
