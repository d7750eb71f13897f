/* SPDX-License-Identifier: Apache-2.0 */
/**
 * The context: one rank's end of a job. It owns what ranks share (memory, transports, control plane) and whoever drives
 * them.
 */
#ifndef WEFT_CORE_COLLECTIVE_COMMUNICATOR_CONTEXT_H
#define WEFT_CORE_COLLECTIVE_COMMUNICATOR_CONTEXT_H

#include "core/collective/communicator/comm.h"
#include "core/collective/diagnosis/operation_log.h"
#include "core/collective/internal/diagnosis.h"
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
    uint32_t cores; /**< that the ranks of this machine have together */
    struct bootstrap *bootstrap;
    struct control *control;
    struct endpoint_info *endpoints;
    uint8_t secret[SECRET_BYTES]; /**< of this epoch */

    /* Across failures (shrink.c). An epoch is the time between two losses of ranks; the number says how many there
     * were. */
    struct regroup *regroup; /**< NULL: this rank has always been alone */
    uint32_t epoch;
    uint32_t *first;    /**< first[r]: the number that rank r had when the context was opened */
    weft_config config; /**< as it was completed; its texts are in config_texts */
    char *config_texts[3];

    struct heap *heap;
    bool heap_is_own;
    struct shm *shm;
    struct fabric *fabric; /**< NULL when all ranks are near */
    struct transport *transports[CONTEXT_TRANSPORTS];
    uint32_t transfers[CONTEXT_TRANSPORTS]; /**< in flight */
    const struct reduction *reduction;
    uint64_t streaming_bytes; /**< operations that touch more are stored past the caches */
    uint64_t kept_bytes;      /**< of staging that other cores' private caches may keep */
    double rendezvous_limit, time_limit, late_seconds;

    struct weft_comm *world;
    struct weft_comm *comms;              /**< all of them */
    _Atomic(struct weft_comm *) released; /**< freed here, but local ranks may still look at their memory */
    uint32_t next_id;                     /**< of a communicator: larger than any this rank is part of */
    struct tuner tuner;

    struct startup startup;
    struct progress progress;
    struct trace *trace;       /**< NULL: off */
    struct operation_log *log; /**< on the status page */
    struct status_page_keeper status_page;
    struct diagnosis diagnosis;

    /* Operations, guarded by the progress_lock. */
    struct weft_comm *active;                /**< communicators with a collective that is not complete */
    struct weft_request *messages;           /**< sends and receives that are not complete */
    struct weft_request *idle;               /**< free requests, kept with their scratch */
    struct weft_request *all;                /**< every request there is, for the end */
    bool grouping;                           /**< between group start and end */
    struct weft_request *group, **group_end; /**< begun at its end */

    /* What went wrong. */
    _Atomic int broken; /**< weft_status; not WEFT_OK: every operation returns it */
    pthread_mutex_t message_lock;
    char message[ERROR_TEXT_BYTES];
};

/* ---- messages (message.c) ---- */

/** The message of `error` becomes weft_message(NULL) of the calling thread: for calls that have no context. Returns its
 * status. */
weft_status context_note_thread(const struct error *error);

/**
 * `function` was given NULL as its `what` ("communicator"). There is no context to keep the message, so the thread
 * keeps it: until a later call of the thread fails, weft_message() returns it for every context that is not broken.
 * Returns WEFT_ERROR_ARGUMENT.
 */
weft_status context_missing(const char *function, const char *what);

/** Keep the message of `error` for weft_message(), unless the context is broken already; returns its status. */
weft_status context_note(weft_context *context, const struct error *error);

/** Keep `error` for good: every later operation fails with it. */
void context_break(weft_context *context, const struct error *error);

/** The status that every operation returns by now; WEFT_OK while all is well. */
static inline weft_status context_status(const weft_context *context)
{
    return (weft_status)atomic_load_explicit(&context->broken, memory_order_acquire);
}

/** Whether a rank of this job traces (trace.h). */
bool context_rank_traces(const weft_context *context, uint32_t world_rank);

/** For good, in place of what it is broken by. */
void context_break_anew(weft_context *context, const struct error *error);

/** The ranks have lost some of their number and go on: the context is whole. */
void context_mend(weft_context *context);

/** What this rank tells the others of itself, with the listener of a control plane to be. */
weft_status context_make_card(weft_context *context, struct control **control, struct endpoint_info *endpoint,
                              struct error *error);

/**
 * With rank, ranks, endpoint infos, secret and a connected control plane: start the helper, open the transports and the world.
 * `former`: the network of before a failure, or NULL.
 */
weft_status context_open_epoch(weft_context *context, const struct fabric *former, struct error *error);

/** "rank 3 on host alpha" */
char *context_rank_name(const weft_context *context, uint32_t world_rank, char *text, size_t size);

/** Whether two ranks run on one kernel, whatever else keeps them apart: containers, namespaces. They share its cores.
 */
bool context_same_kernel(const struct endpoint_info *a, const struct endpoint_info *b);

/** All ranks tell one another `bytes` bytes, once for each `what`; *result (ranks x bytes) is the caller's to free.
 * Collective. */
weft_status context_tell_all(weft_context *context, const char *what, const void *mine, uint32_t bytes, void **result,
                             struct error *error);

/** What the transports have moved since the context was opened. Takes the progress_lock. */
void context_counters(weft_context *context, struct transport_counters counters[CONTEXT_TRANSPORTS]);

#endif
