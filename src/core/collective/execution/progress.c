/* SPDX-License-Identifier: Apache-2.0 */
#include "core/collective/internal/progress.h"

#include "base/clock.h"
#include "core/collective/communicator/context.h"
#include "core/collective/internal/execution.h"

#include <errno.h>
#include <poll.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#define SPIN_ROUNDS 100u
#define FABRIC_ROUNDS                                                                                                  \
    10u /* of spinning with messages in a network: each makes a system call, and takes as long as ten */
#define YIELD_ROUNDS   20u         /* when ranks outnumber cores */
#define SWITCH_TIME    1500u       /* ns: during a yield that takes longer another thread ran */
#define SHARED_YIELDS  64u         /* without other threads until a core counts as this rank's alone again */
#define NETWORK_TIME   200000u     /* ns of yielding with messages in a network, when they do */
#define YIELD_TIME     100000u     /* ns; when they do not */
#define SLEEP_MOST     50          /* ms: then look at limits again */
#define WATCH_INTERVAL 50000000u   /* ns */
#define HELD_TIME      2000000000u /* ns that an error of the network waits for its cause to be named */
#define HELPER_ROUNDS  50u         /* without anything that moves, before the helper sleeps */
#define HELPER_TIME    20000000u   /* ns that it drives what moves before heartbeats get their turn */

/* ---- the progress lock ---- */

static bool progress_lock_try(struct progress *progress)
{
    uint32_t is_free = 0;
    return atomic_compare_exchange_strong_explicit(&progress->progress_lock, &is_free, 1, memory_order_acquire,
                                                   memory_order_relaxed);
}

static void progress_lock_give(struct progress *progress)
{
    atomic_store_explicit(&progress->progress_lock, 0, memory_order_release);
}

static void progress_lock_take_slowly(struct progress *progress)
{
    atomic_fetch_add(&progress->wanted, 1);
    for (unsigned tries = 0; !progress_lock_try(progress); tries++) {
        if (atomic_load(&progress->sleeping))
            eventfd_write(progress->caller_wake, 1);
        if (tries < 200)
            sched_yield();
        else
            nanosleep(&(struct timespec){.tv_nsec = 50000}, NULL);
    }
    atomic_fetch_sub(&progress->wanted, 1);
}

static void progress_lock_take(struct progress *progress)
{
    if (!progress_lock_try(progress))
        progress_lock_take_slowly(progress);
}

/* Give waiting threads a chance to take the lock. */
static void progress_lock_lend(struct progress *progress)
{
    progress_lock_give(progress);
    for (unsigned tries = 0; tries < 100 && atomic_load_explicit(&progress->wanted, memory_order_relaxed); tries++)
        sched_yield();
    progress_lock_take(progress);
}

/* ---- failure ---- */

static void note_awaited(const struct weft_request *request)
{
    if (request->awaited)
        operation_log_await(request, request->awaited - 1, request->moved_ticks ? request->moved_ticks : clock_ticks());
}

/* A death or abort is the same for all ranks; what this rank was doing is added here. */
static void add_own_part(const weft_context *context, struct error *error)
{
    size_t used = strlen(error->text);
    char doing[OPERATION_TEXT_BYTES];
    if (!context->log || (error->status != WEFT_ERROR_PEER && error->status != WEFT_ERROR_ABORTED))
        return;
    for (const struct weft_comm *comm = context->active; comm; comm = comm->next_active)
        note_awaited(comm->head);
    for (const struct weft_request *message = context->messages; message; message = message->next)
        note_awaited(message);
    if (*operation_log_describe(context->log, doing, sizeof doing))
        snprintf(error->text + used, sizeof error->text - used, "; rank %u here was %s", context->rank, doing);
}

/* The job has failed: complete everything that is in flight. */
static void end_everything(weft_context *context)
{
    struct error error;
    error_clear(&error);
    if (control_failure(context->control, &error) == WEFT_OK)
        return;
    add_own_part(context, &error);
    context_break(context, &error);
    weft_status status = context_status(context);
    while (context->messages)
        execution_cancel(context->messages, status);
    while (context->active)
        execution_cancel(context->active->head, status);
}

void progress_fail(weft_context *context, const struct error *error)
{
    struct progress *progress = &context->progress;
    if (context_status(context) != WEFT_OK || progress->held.status != WEFT_OK)
        return;
    if (error->status == WEFT_ERROR_NETWORK) {
        progress->held = *error;
        progress->held_since = clock_now();
        return;
    }
    control_abort(context->control, error->status, error->text);
}

/* ---- rounds ---- */

static void move_transports(weft_context *context)
{
    for (uint32_t i = 0; i < CONTEXT_TRANSPORTS; i++) {
        struct transport *transport = context->transports[i];
        struct error error;
        error_clear(&error);
        if (context->transfers[i] && transport->progress(transport, &error) != WEFT_OK)
            progress_fail(context, &error);
    }
}

bool progress_round(weft_context *context)
{
    if (control_failed(context->control)) {
        end_everything(context);
        return true;
    }
    if (context->progress.held.status != WEFT_OK) {
        /* Nothing moves until the cause is named, or its time is over and the error itself is reported. */
        if (clock_now() - context->progress.held_since > HELD_TIME)
            control_abort(context->control, context->progress.held.status, context->progress.held.text);
        return false;
    }
    bool moved = false;
    if (context->transfers[CONTEXT_SHM] | context->transfers[CONTEXT_FABRIC])
        move_transports(context);
    for (struct weft_comm *comm = context->active, *next; comm; comm = next) {
        next = comm->next_active;
        moved |= execution_advance(comm->head);
    }
    for (struct weft_request *message = context->messages, *next; message; message = next) {
        next = message->next;
        moved |= execution_advance(message);
    }
    return moved;
}

void progress_count(struct progress *progress, int change)
{
    uint32_t now = atomic_load_explicit(&progress->operations, memory_order_relaxed);
    atomic_store_explicit(&progress->operations, now + (uint32_t)change, memory_order_relaxed);
}

/* Watch an operation that may be stalled: record which rank it waits for, and for how long. */
static void watch_one(struct weft_request *request, uint64_t now)
{
    if (!request->moved_at || request->steps_taken != request->steps_seen) {
        request->moved_at = now;
        request->moved_ticks = clock_ticks();
        request->steps_seen = request->steps_taken;
        operation_log_move(request);
        return;
    }
    note_awaited(request);
    diagnosis_watch(request, (now - request->moved_at) * 1e-9);
}

static void progress_watch(weft_context *context)
{
    uint64_t now = clock_now();
    if (now - context->progress.watched < WATCH_INTERVAL)
        return;
    context->progress.watched = now;
    comm_reclaim(context);
    for (struct weft_comm *comm = context->active; comm; comm = comm->next_active)
        watch_one(comm->head, now);
    for (struct weft_request *message = context->messages; message; message = message->next)
        watch_one(message, now);
}

/* ---- sleeping ---- */

static void wake_up(weft_context *context)
{
    if (!context->progress.asleep)
        return;
    shm_sleep_end(context->shm);
    context->progress.asleep = false;
}

static void fall_asleep(weft_context *context)
{
    shm_sleep_begin(context->shm);
    context->progress.asleep = true;
}

static bool transport_may_sleep(weft_context *context, uint32_t which)
{
    struct transport *transport = context->transports[which];
    return !transport || !context->transfers[which] || !transport->may_sleep || transport->may_sleep(transport);
}

static bool transports_may_sleep(weft_context *context)
{
    for (uint32_t i = 0; i < CONTEXT_TRANSPORTS; i++)
        if (!transport_may_sleep(context, i))
            return false;
    return true;
}

static int fabric_descriptor(const weft_context *context)
{
    const struct transport *transport = context->transports[CONTEXT_FABRIC];
    return transport && transport->wait_descriptor ? transport->wait_descriptor(transport) : -1;
}

/*
 * A last check before sleep: whether there is nothing to do. Shared memory that already has data for this rank, or the
 * rest of a copy, will not ring the doorbell; and events that the network has queued since the last poll (an answer to
 * this rank's own message, for example) no longer make its descriptor ready.
 */
static bool is_idle(weft_context *context, bool *network_wakes)
{
    if (progress_round(context) || !transport_may_sleep(context, CONTEXT_SHM))
        return false;
    *network_wakes = transport_may_sleep(context, CONTEXT_FABRIC);
    if (*network_wakes)
        return true;
    if (progress_round(context))
        return false;
    *network_wakes = transport_may_sleep(context, CONTEXT_FABRIC);
    return true;
}

/* Sleep while holding the progress lock, until something may have arrived or another thread wants the lock. */
static void caller_sleep(weft_context *context)
{
    struct progress *progress = &context->progress;
    bool may;
    atomic_store(&progress->sleeping, 1);
    fall_asleep(context);
    if (is_idle(context, &may) && !atomic_load(&progress->wanted)) {
        /* A rank without operations on the fabric leaves early messages where they are, and is not woken for them. */
        int fabric = context->transfers[CONTEXT_FABRIC] ? fabric_descriptor(context) : -1;
        struct pollfd descriptors[] = {
            {shm_doorbell(context->shm), POLLIN, 0}, {progress->caller_wake, POLLIN, 0}, {fabric, POLLIN, 0}};
        /* A network that cannot wake this thread is polled periodically. */
        bool nap = context->transfers[CONTEXT_FABRIC] && (!may || fabric < 0);
        poll(descriptors, fabric >= 0 ? 3 : 2, nap ? 1 : SLEEP_MOST);
        eventfd_t ignored;
        if (descriptors[1].revents)
            eventfd_read(progress->caller_wake, &ignored);
    }
    atomic_store(&progress->sleeping, 0);
    wake_up(context);
}

static void yield(struct progress *progress)
{
    uint64_t begin = clock_now();
    sched_yield();
    if (clock_now() - begin > SWITCH_TIME)
        progress->shared = SHARED_YIELDS;
    else if (progress->shared)
        progress->shared--;
}

void progress_turn(weft_context *context, struct progress_idle *idle, struct weft_request *blocked)
{
    struct progress *progress = &context->progress;
    if (atomic_load_explicit(&progress->wanted, memory_order_relaxed))
        progress_lock_lend(progress);
    if (progress_round(context)) {
        *idle = (struct progress_idle){0};
        return;
    }
    idle->rounds++;
    const bool crowded = progress->crowded || progress->shared; /* other threads want this core too */
    if (!crowded && idle->rounds <= (context->transfers[CONTEXT_FABRIC] ? FABRIC_ROUNDS : SPIN_ROUNDS)) {
        clock_pause();
        return;
    }
    if (!idle->since) {
        idle->since = clock_now();
        if (blocked)
            operation_log_phase(blocked, OPERATION_BLOCKING);
    }
    /* Where a yield was long, other threads have work: then sleeping until a message arrives leaves the core to them. */
    const bool yields_enough = context->transfers[CONTEXT_FABRIC] && clock_now() - idle->since > NETWORK_TIME;
    if (crowded ? idle->rounds <= YIELD_ROUNDS && !yields_enough : clock_now() - idle->since < YIELD_TIME) {
        yield(progress);
        return;
    }
    progress_watch(context);
    caller_sleep(context);
}

/* ---- entering and leaving ---- */

void progress_enter(weft_context *context)
{
    struct progress *progress = &context->progress;
    progress_lock_take(progress);
    atomic_store_explicit(&progress->calls, atomic_load_explicit(&progress->calls, memory_order_relaxed) + 1,
                          memory_order_relaxed);
    wake_up(context);
}

/* The network's descriptor is armed when it is first needed: until then, no message pays for it.
 */
static void arm(weft_context *context)
{
    struct progress *progress = &context->progress;
    int fabric = fabric_descriptor(context);
    struct epoll_event event = {.events = EPOLLIN | EPOLLONESHOT, .data.u32 = 1};
    epoll_ctl(progress->epoll, EPOLL_CTL_MOD, shm_doorbell(context->shm), &event);
    if (fabric >= 0 && context->transfers[CONTEXT_FABRIC] &&
        epoll_ctl(progress->epoll, EPOLL_CTL_MOD, fabric, &event) != 0 && errno == ENOENT)
        epoll_ctl(progress->epoll, EPOLL_CTL_ADD, fabric, &event);
}

/* Leave operations to doorbells and the helper. Returns false when there is something to do at once. */
static bool leave_to_doorbells(weft_context *context)
{
    fall_asleep(context);
    bool idle = !progress_round(context) && transports_may_sleep(context);
    if (atomic_load_explicit(&context->progress.operations, memory_order_relaxed))
        arm(context);
    else
        wake_up(context);
    return idle;
}

void progress_leave(weft_context *context)
{
    struct progress *progress = &context->progress;
    bool idle = true;
    if (atomic_load_explicit(&progress->operations, memory_order_relaxed))
        idle = leave_to_doorbells(context);
    progress_lock_give(progress);
    if (!idle)
        progress_wake_helper(context);
}

void progress_wake_helper(weft_context *context)
{
    eventfd_write(context->progress.helper_wake, 1);
}

/* ---- the helper ---- */

/*
 * Nothing is in flight here, but a peer that waits for this rank's data may probe which of several paths still work,
 * because data on a dead path is lost. Probes are answered in each round, as often as heartbeats. Errors are ignored
 * until this rank has something to send or receive.
 */
static void answer_probes(weft_context *context)
{
    struct progress *progress = &context->progress;
    struct transport *transport = context->transports[CONTEXT_FABRIC];
    struct error error;
    error_clear(&error);
    if (!progress_lock_try(progress))
        return;
    if (atomic_load_explicit(&progress->asked, memory_order_relaxed) && !control_failed(context->control))
        (void)transport->progress(transport, &error);
    progress_lock_give(progress);
}

/* Drive what is in flight while it moves; milliseconds until the next look, or -1. */
static int help(weft_context *context)
{
    struct progress *progress = &context->progress;
    if (atomic_load_explicit(&context->released, memory_order_relaxed) && progress_lock_try(progress)) {
        comm_reclaim(context);
        progress_lock_give(progress);
    }
    if (!atomic_load_explicit(&progress->operations, memory_order_relaxed)) {
        if (atomic_load_explicit(&progress->asked, memory_order_acquire))
            answer_probes(context);
        return -1;
    }
    if (!progress_lock_try(progress))
        return SLEEP_MOST; /* a caller drives, and will leave the rest to this thread */
    wake_up(context);
    int timeout = -1;
    const uint64_t end = clock_now() + HELPER_TIME;
    bool over = false;
    for (uint32_t idle = 0; idle < HELPER_ROUNDS && !over; idle++) {
        if (atomic_load_explicit(&progress->wanted, memory_order_relaxed))
            break;
        if (!atomic_load_explicit(&progress->operations, memory_order_relaxed))
            break;
        if (progress_round(context)) {
            idle = 0;
            over = clock_now() >= end;
        } else {
            clock_pause(); /* yielding would wait for the end of a computing thread's time slice */
        }
    }
    progress_watch(context);
    if (over) {
        timeout = 0; /* nobody sleeps: this thread comes back at once */
    } else if (atomic_load_explicit(&progress->operations, memory_order_relaxed)) {
        timeout = SLEEP_MOST;
        bool wanted = atomic_load_explicit(&progress->wanted, memory_order_relaxed);
        if (!leave_to_doorbells(context) && !wanted)
            timeout = context->transfers[CONTEXT_FABRIC] ? 1 : 0;
        if (context->transfers[CONTEXT_FABRIC] && fabric_descriptor(context) < 0)
            timeout = timeout ? 1 : 0;
    }
    progress_lock_give(progress);
    return timeout;
}

/* Nothing of this rank is in flight, and nothing will be before it has regrouped. */
static bool is_quiet(const weft_context *context)
{
    return context_status(context) != WEFT_OK &&
           atomic_load_explicit(&context->progress.operations, memory_order_relaxed) == 0;
}

static void *helper_main(void *argument)
{
    weft_context *context = argument;
    struct progress *progress = &context->progress;
    while (!atomic_load_explicit(&progress->stopping, memory_order_acquire)) {
        int timeout = control_progress(context->control);
        int soon = diagnosis_progress(context);
        if (soon >= 0 && (timeout < 0 || soon < timeout))
            timeout = soon;
        soon = hang_watch_progress(context);
        if (soon >= 0 && (timeout < 0 || soon < timeout))
            timeout = soon;
        soon = status_page_progress(&context->status_page);
        if (soon >= 0 && (timeout < 0 || soon < timeout))
            timeout = soon;
        if (context->regroup) {
            soon = regroup_progress(context->regroup, is_quiet(context));
            if (soon >= 0 && (timeout < 0 || soon < timeout))
                timeout = soon;
        }
        soon = help(context);
        if (soon >= 0 && (timeout < 0 || soon < timeout))
            timeout = soon;
        struct epoll_event events[5];
        int count = epoll_wait(progress->epoll, events, 5, timeout);
        eventfd_t ignored;
        for (int i = 0; i < count; i++)
            if (events[i].data.u32 == 0)
                eventfd_read(progress->helper_wake, &ignored);
    }
    return NULL;
}

/* Called by the control plane when the job has failed. */
static void on_failure(void *argument)
{
    weft_context *context = argument;
    eventfd_write(context->progress.caller_wake, 1);
    progress_wake_helper(context);
}

static weft_status listen_to(struct progress *progress, int descriptor, uint32_t events, uint32_t what,
                             struct error *error)
{
    struct epoll_event event = {.events = events, .data.u32 = what};
    if (epoll_ctl(progress->epoll, EPOLL_CTL_ADD, descriptor, &event) != 0)
        return error_system(error, "cannot listen to descriptor %d (epoll)", descriptor);
    return WEFT_OK;
}

weft_status progress_open(weft_context *context, struct error *error)
{
    struct progress *progress = &context->progress;
    progress->caller_wake = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    progress->helper_wake = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    progress->epoll = epoll_create1(EPOLL_CLOEXEC);
    if (progress->caller_wake < 0 || progress->helper_wake < 0 || progress->epoll < 0)
        return error_system(error, "cannot open the descriptors of the helper thread");
    weft_status status = listen_to(progress, progress->helper_wake, EPOLLIN, 0, error);
    if (status == WEFT_OK)
        status = listen_to(progress, control_descriptor(context->control), EPOLLIN, 2, error);
    if (status == WEFT_OK && context->regroup)
        status = listen_to(progress, regroup_descriptor(context->regroup), EPOLLIN, 3, error);
    if (status != WEFT_OK)
        return status;
    control_on_failure(context->control, on_failure, context);
    atomic_store_explicit(&progress->stopping, false, memory_order_relaxed);
    atomic_store_explicit(&progress->asked, false, memory_order_relaxed);
    int code = pthread_create(&progress->helper, NULL, helper_main, context);
    if (code != 0)
        return error_set(error, WEFT_ERROR_SYSTEM, "cannot start the helper thread: %s", strerror(code));
    progress->running = true;
    return WEFT_OK;
}

weft_status progress_attach(weft_context *context, struct error *error)
{
    atomic_store_explicit(&context->progress.asked, fabric_is_asked(context->fabric), memory_order_release);
    return listen_to(&context->progress, shm_doorbell(context->shm), EPOLLONESHOT, 1, error);
}

void progress_detach(weft_context *context)
{
    struct progress *progress = &context->progress;
    progress_lock_take(progress);
    atomic_store_explicit(&progress->asked, false, memory_order_relaxed);
    progress_lock_give(progress);
}

void progress_close(weft_context *context)
{
    struct progress *progress = &context->progress;
    if (progress->running) {
        atomic_store_explicit(&progress->stopping, true, memory_order_release);
        progress_wake_helper(context);
        pthread_join(progress->helper, NULL);
        progress->running = false;
    }
    int *descriptors[] = {&progress->caller_wake, &progress->helper_wake, &progress->epoll};
    for (int i = 0; i < 3; i++) {
        if (*descriptors[i] >= 0)
            close(*descriptors[i]);
        *descriptors[i] = -1;
    }
}
