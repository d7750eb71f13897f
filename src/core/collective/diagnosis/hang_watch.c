/* SPDX-License-Identifier: Apache-2.0 */
#include "core/collective/internal/hang_watch.h"

#include "base/clock.h"
#include "core/collective/communicator/context.h"
#include "core/control/wire/process_state.h"

#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <time.h>
#include <unistd.h>

#define LOOK_NS     100000000u /* between looks; a longer time between two was none of the program's: all was stopped */
#define FAREWELL_NS 50000000u  /* for the message to reach the neighbors before the process is killed */

void hang_watch_pause(struct hang_watch *watch, bool pause)
{
    if (pause)
        atomic_fetch_add(&watch->paused, 1);
    else
        atomic_fetch_sub(&watch->paused, 1);
}

void weft_progress(weft_context *context, const char *doing, int64_t number)
{
    if (!context)
        return;
    if (context->log)
        operation_log_progress(context->log, doing ? doing : "", number);
    if (context->hang_watch.limit > 0)
        atomic_store_explicit(&context->hang_watch.on, doing != NULL, memory_order_release);
}

/* Whether a thread of the program is in a call: it has the progress lock, or waits through the control plane. */
static bool hang_watch_is_in_call(const weft_context *context)
{
    return atomic_load_explicit(&context->progress.progress_lock, memory_order_relaxed) ||
           atomic_load_explicit(&context->hang_watch.paused, memory_order_relaxed) ||
           control_is_waited_in(context->control);
}

/* Whether the program has made progress since the last look, or need not. */
static bool hang_watch_sees_progress(weft_context *context)
{
    struct hang_watch *watch = &context->hang_watch;
    const uint64_t calls = atomic_load_explicit(&context->progress.calls, memory_order_relaxed);
    const uint64_t progress = atomic_load_explicit(&context->log->progress, memory_order_acquire);
    const bool moved = calls != watch->calls || progress != watch->progress;
    watch->calls = calls;
    watch->progress = progress;
    return moved || !atomic_load_explicit(&watch->on, memory_order_acquire) || hang_watch_is_in_call(context) ||
           control_failed(context->control);
}

static uint64_t used_by_process(void)
{
    struct timespec used;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &used);
    return (uint64_t)used.tv_sec * 1000000000u + (uint64_t)used.tv_nsec;
}

/* Nanoseconds since the last look in which the program could have made progress. If it waits for a processor, none are
 * lost but those that it got. */
static uint64_t hang_watch_time(struct hang_watch *watch, uint64_t now)
{
    const uint64_t used = used_by_process();
    uint64_t since = now - watch->looked, got = used - watch->used;
    watch->looked = now;
    watch->used = used;
    since = since < 2 * LOOK_NS ? since : 2 * LOOK_NS;
    return got < since && process_state((int)getpid()) == 'R' ? got : since;
}

static const char *state_name(char state)
{
    return state == 'R'   ? "runs"
           : state == 'D' ? "waits for a device or file system"
           : state == 'S' ? "sleeps"
                          : "does not run";
}

/* The program may hang because nobody reads its output, and then holds the lock of stderr. */
static void print_if_possible(const char *message)
{
    char line[ERROR_TEXT_BYTES + 8];
    struct pollfd output = {STDERR_FILENO, POLLOUT, 0};
    const int length = snprintf(line, sizeof line, "weft: %s\n", message);
    if (poll(&output, 1, 0) == 1 && (output.revents & POLLOUT))
        (void)!write(STDERR_FILENO, line, (size_t)length < sizeof line ? (size_t)length : sizeof line - 1);
}

static void hang_watch_end_rank(weft_context *context, uint64_t now)
{
    struct hang_watch *watch = &context->hang_watch;
    const struct endpoint_info *own = &context->endpoints[context->rank];
    char message[ERROR_TEXT_BYTES], doing[2 * OPERATION_TEXT_BYTES];
    operation_log_describe(context->log, doing, sizeof doing);
    snprintf(message, sizeof message,
             "rank %u on host %s (process %d) hangs, and is killed: for %.3g s, its hang limit, it has neither made "
             "progress nor waited for another rank; its main thread %s; it was %s",
             context->rank, own->host, own->process, watch->limit, state_name(process_state((int)getpid())), doing);
    watch->end_at = now + FAREWELL_NS;
    control_abort(context->control, WEFT_ERROR_PEER, message);
    print_if_possible(message);
}

int hang_watch_progress(weft_context *context)
{
    struct hang_watch *watch = &context->hang_watch;
    const uint64_t now = clock_now();
    if (!(watch->limit > 0) || !context->log)
        return -1;
    if (watch->end_at) {
        if (now >= watch->end_at)
            kill(getpid(), SIGKILL);
        return 10;
    }
    const uint64_t lost = hang_watch_time(watch, now);
    watch->still = hang_watch_sees_progress(context) ? 0 : watch->still + lost;
    if ((double)watch->still * 1e-9 >= watch->limit)
        hang_watch_end_rank(context, now);
    return (int)(LOOK_NS / 1000000);
}
