/* SPDX-License-Identifier: Apache-2.0 */
/* Releasing communicators: at the user's request, after a failure, at the end. */
#include "core/collective/communicator/context.h"

#include "base/hash.h"
#include "core/collective/internal/execution.h"
#include "core/collective/internal/request.h"

#include <stdlib.h>

static void free_schedules(weft_comm *comm)
{
    schedule_cache_free(&comm->schedules);
    loaded_schedules_free(&comm->loaded);
}

/* The memory that local ranks read. */
static void free_shared(weft_comm *comm)
{
    struct heap *heap = comm->context->heap;
    staging_free(&comm->staging, heap);
    heap_free(heap, comm->mine);
    comm->mine = NULL;
}

static void free_tables(weft_comm *comm)
{
    free(comm->world);
    free(comm->nodes);
    for (uint32_t level = 0; level < SHAPE_LEVELS; level++)
        free(comm->above[level]);
    free(comm->blocks);
    free(comm->bases);
    free(comm->local_peers);
    free(comm->local_peers_world);
    free(comm->sent);
    free(comm->received);
    free(comm->subsets);
    free(comm->sources);
    free(comm->targets);
}

static void unlink_comm(weft_comm *comm)
{
    for (struct weft_comm **link = &comm->context->comms; *link; link = &(*link)->next)
        if (*link == comm) {
            *link = comm->next;
            break;
        }
}

void comm_retire(struct weft_comm *comm)
{
    free_schedules(comm);
    free_shared(comm);
    comm->retired = true;
    comm->local_peer_count = 0;
    if (comm == comm->context->world)
        comm->context->world = NULL;
}

void comm_discard(struct weft_comm *comm)
{
    if (!comm)
        return;
    unlink_comm(comm);
    free_schedules(comm);
    free_shared(comm);
    free_tables(comm);
    free(comm);
}

/* Log it on this rank. Ranks that wait for it in a later operation of this communicator find the reason there. */
static void log_departure(weft_comm *comm, enum call_purpose purpose)
{
    const struct call call = {.collective = COLLECTIVE_BARRIER, .purpose = purpose};
    comm->tag = hash_number(++comm->sequence, hash_number(purpose, comm->tag));
    operation_log_end(operation_log_add(comm->context->log, comm, &call, comm->sequence, comm->tag));
}

/* Free what only this rank uses, and the rest once all local ranks have released it. With the progress lock. */
static void comm_release(weft_comm *comm)
{
    weft_context *context = comm->context;
    const uint32_t kinds[] = {0, COMM_MESSAGES, COMM_MESSAGES | COMM_SUBSETS};
    for (uint32_t i = 0; i < CONTEXT_TRANSPORTS; i++) {
        struct transport *transport = context->transports[i];
        for (uint32_t kind = 0; transport && kind < ARRAY_SIZE(kinds); kind++)
            transport->forget(transport, comm->id | kinds[kind]);
    }
    log_departure(comm, CALL_FREE);
    /* This rank's last access to their memory. */
    for (uint32_t i = 0; i < comm->local_peer_count; i++)
        atomic_fetch_add_explicit(&comm->blocks[comm->local_peers[i]]->released, 1, memory_order_release);
    unlink_comm(comm);
    free_schedules(comm);
    free_tables(comm);
    comm->next = atomic_load_explicit(&context->released, memory_order_relaxed);
    atomic_store_explicit(&context->released, comm, memory_order_relaxed);
    comm_reclaim(context);
}

static void free_released(weft_context *context, bool all)
{
    weft_comm *kept = NULL;
    for (weft_comm *comm = atomic_load_explicit(&context->released, memory_order_relaxed), *next; comm; comm = next) {
        next = comm->next;
        if (all || atomic_load_explicit(&comm->mine->released, memory_order_acquire) == comm->local_peer_count) {
            free_shared(comm);
            free(comm);
        } else {
            comm->next = kept;
            kept = comm;
        }
    }
    atomic_store_explicit(&context->released, kept, memory_order_relaxed);
}

void comm_reclaim(weft_context *context)
{
    free_released(context, false);
}

void comm_discard_released(weft_context *context)
{
    free_released(context, true);
}

static bool comm_is_busy(const weft_comm *comm)
{
    for (const struct weft_request *request = comm->context->all; request; request = request->next_of_all)
        if (request->comm == comm && request->state != EXECUTION_FREE)
            return true;
    return false;
}

weft_status comm_check_ungrouped(const weft_comm *comm, struct error *error)
{
    if (comm->context->grouping)
        return error_set(error, WEFT_ERROR_STATE,
                         "communicators cannot be made or freed between weft_group_start() and weft_group_end()");
    return WEFT_OK;
}

weft_status weft_comm_free(weft_comm *comm)
{
    struct error error;
    error_clear(&error);
    if (!comm)
        return WEFT_OK;
    weft_context *context = comm->context;
    if (comm_check_ungrouped(comm, &error) != WEFT_OK)
        return context_note(context, &error);
    if (comm == context->world) {
        error_set(&error, WEFT_ERROR_ARGUMENT, "the world is freed by weft_finalize(), not by weft_comm_free()");
        return context_note(context, &error);
    }
    if (comm->retired) { /* no other rank has it any more */
        comm_discard(comm);
        return WEFT_OK;
    }
    progress_enter(context);
    if (control_failed(context->control))
        progress_round(context); /* breaks the context */
    weft_status status = context_status(context);
    if (status == WEFT_OK && comm_is_busy(comm))
        status = error_set(&error, WEFT_ERROR_STATE,
                           "%s has operations that were not waited for; give their requests to weft_wait() before "
                           "weft_comm_free()",
                           comm->name);
    else if (status == WEFT_OK) /* else its memory stays until the end, because others may still read it */
        comm_release(comm);
    progress_leave(context);
    return error.status == WEFT_OK ? context_report(context, status) : context_note(context, &error);
}

weft_status comm_leave_world(weft_context *context)
{
    const struct call call = {.collective = COLLECTIVE_BARRIER, .purpose = CALL_FINALIZE};
    uint32_t noted = 0;
    progress_enter(context);
    for (weft_comm *comm = context->comms; comm && noted < OPERATION_LOG_ENTRIES / 2; comm = comm->next)
        if (comm != context->world && !comm->retired) {
            log_departure(comm, CALL_FINALIZE);
            noted++;
        }
    struct trace *trace = context->trace; /* this is not the program's operation */
    context->trace = NULL;
    progress_leave(context);
    weft_status status = context->world ? request_run(context->world, &call) : WEFT_OK;
    progress_enter(context);
    context->trace = trace;
    progress_leave(context);
    return status;
}
