/* SPDX-License-Identifier: Apache-2.0 */
/**
 * The context: one rank's end of a job. It owns what ranks share (memory, transports, control plane) and the helper
 * thread that drives it.
 */
#ifndef WEFT_CORE_COLLECTIVE_COMMUNICATOR_CONTEXT_H
#define WEFT_CORE_COLLECTIVE_COMMUNICATOR_CONTEXT_H

#include "core/collective/communicator/comm.h"
#include "core/collective/diagnosis/operation_log.h"
#include "core/collective/internal/diagnosis.h"
#include "core/collective/internal/hang_watch.h"
#include "core/collective/internal/progress.h"
#include "core/collective/internal/reduction.h"
#include "core/collective/internal/startup.h"
#include "core/collective/internal/trace.h"
#include "core/collective/tuner/tuner.h"
#include "core/control/control.h"
#include "core/control/regroup/regroup.h"
#include "core/control/status/status_page.h"
#include "core/transport/fabric/fabric.h"
#include "core/transport/heap/heap.h"
#include "core/transport/shm/shm.h"

#include <pthread.h>

struct weft_process {
    struct heap *heap;
};

/** Transports by number, for counters and progress. */
enum { CONTEXT_SHM, CONTEXT_FABRIC, CONTEXT_TRANSPORTS };

struct weft_context {
    uint32_t rank, ranks;
    uint32_t cores; /**< shared by the ranks of this machine */
    struct bootstrap *bootstrap;
    struct control *control;
    struct endpoint_info *endpoints;
    uint8_t secret[SECRET_BYTES]; /**< this epoch's */

    /* Across changes of the ranks (membership.c). Each begins a new epoch; epochs are numbered from 0. */
    struct regroup *regroup; /**< NULL: the job has one rank, and no other can join it */
    bool has_left;           /**< this rank was released from the job: it has no world, control plane or transports */
    uint32_t epoch;
    uint32_t *first;    /**< first[r]: the number of rank r in its job: that at the beginning, or a newcomer's */
    weft_config config; /**< completed; its strings are in config_texts */
    char *config_texts[3];

    struct heap *heap;
    bool heap_is_own;
    struct shm *shm;
    struct fabric *fabric; /**< NULL when all ranks are local */
    struct transport *transports[CONTEXT_TRANSPORTS];
    uint32_t transfers[CONTEXT_TRANSPORTS]; /**< in flight */
    const struct reduction *reduction;
    uint64_t streaming_bytes; /**< operations that touch more bytes use non-temporal stores */
    uint64_t kept_bytes;      /**< staging bytes that other cores' private caches may hold */
    double rendezvous_limit, time_limit, late_seconds;

    struct weft_comm *world;
    struct weft_comm *comms;              /**< all of them */
    _Atomic(struct weft_comm *) released; /**< freed here, but local ranks may still look at their memory */
    uint32_t next_id;                     /**< the next communicator's: larger than any of this rank's */
    struct tuner tuner;
    bool is_tuned; /**< the tuner is open: it has the numbers of these ranks */

    struct startup startup;
    struct progress progress;
    struct trace *trace;       /**< NULL: off */
    struct operation_log *log; /**< on the status page */
    struct status_page_writer status_page;
    struct diagnosis diagnosis;
    struct hang_watch hang_watch;

    /* Operations, guarded by the progress lock. */
    struct weft_comm *active;                /**< communicators with an incomplete collective */
    struct weft_request *messages;           /**< incomplete sends and receives */
    struct weft_request *idle;               /**< free requests, kept with their scratch */
    struct weft_request *all;                /**< every request, to free them at the end */
    bool grouping;                           /**< between group start and end */
    struct weft_request *group, **group_end; /**< begun when the group ends */

    /* The failure. */
    _Atomic int broken;    /**< weft_status; unless WEFT_OK, every operation returns it */
    _Atomic bool reported; /**< a call has returned it: otherwise weft_finalize() must */
    pthread_mutex_t message_lock;
    char message[ERROR_TEXT_BYTES];
};

/* ---- messages (message.c) ---- */

/**
 * The message of `error` becomes weft_message(NULL) of the calling thread: for calls without a context. Returns its
 * status.
 */
weft_status context_note_thread(const struct error *error);

/**
 * `function` was given NULL as its `what` ("communicator"). There is no context to keep the message, so the thread
 * keeps it: until a later call of the thread fails, weft_message() returns it for every context that is not broken.
 * Returns WEFT_ERROR_ARGUMENT.
 */
weft_status context_missing(const char *function, const char *what);

/** Keep the message of `error` for weft_message(), unless the context is broken already; returns its status. */
weft_status context_note(weft_context *context, const struct error *error);

/** Keep `error`: every later operation fails with it. */
void context_break(weft_context *context, const struct error *error);

/** The status that every operation now returns; WEFT_OK unless the context is broken. */
static inline weft_status context_status(const weft_context *context)
{
    return (weft_status)atomic_load_explicit(&context->broken, memory_order_acquire);
}

/** What a public call returns: if it is the failure that broke the context, weft_finalize() need not return it. */
static inline weft_status context_report(weft_context *context, weft_status status)
{
    if (status != WEFT_OK && status == context_status(context))
        atomic_store_explicit(&context->reported, true, memory_order_relaxed);
    return status;
}

/** Whether any rank of this job traces (trace.h). */
bool context_rank_traces(const weft_context *context, uint32_t world_rank);

/** Replace the error that broke the context. */
void context_break_replace(weft_context *context, const struct error *error);

/** The survivors have agreed to continue: the context is usable again. */
void context_repair(weft_context *context);

/** Make this rank's endpoint info, and open the listener of the control plane to be. */
weft_status context_make_endpoint(weft_context *context, struct control **control, struct endpoint_info *endpoint,
                                  struct error *error);

/**
 * With rank, ranks, endpoint info, secret and a connected control plane: start the helper, open the transports and the
 * world. `former`: the network from before a failure, or NULL.
 */
weft_status context_open_epoch(weft_context *context, const struct fabric *former, struct error *error);

/** Open this rank's heap, once it is known which ranks share the machine. */
weft_status context_open_memory(weft_context *context, struct error *error);

/** Measure the links, as tuner_open(): also again, with other ranks. Collective. */
weft_status context_open_tuner(weft_context *context, struct error *error);
void context_close_tuner(weft_context *context);

/**
 * For a rank that joins a running job: wait until its ranks admit it, and open everything but the trace. Errors: those of
 * bootstrap_find_members(); PEER if the job has ended.
 */
weft_status context_join(weft_context *context, struct error *error);

/** Tell the launcher where newcomers find the job, if this rank is to do so and newcomers may come. */
void context_leave_members(weft_context *context);

/** "rank 3 on host alpha" */
char *context_rank_name(const weft_context *context, uint32_t world_rank, char *text, size_t size);

/** Whether two ranks run on one kernel and so share its cores, even if containers or namespaces separate them. */
bool context_same_kernel(const struct endpoint_info *a, const struct endpoint_info *b);

/**
 * All-gather `bytes` bytes through the control plane; once for each `what`. *result (ranks x bytes) is malloc'ed, the
 * caller's. Collective.
 */
weft_status context_allgather(weft_context *context, const char *what, const void *mine, uint32_t bytes, void **result,
                              struct error *error);

/** Counters of the transports since the context was opened. Takes the progress lock. */
void context_counters(weft_context *context, struct transport_counters counters[CONTEXT_TRANSPORTS]);

#endif
