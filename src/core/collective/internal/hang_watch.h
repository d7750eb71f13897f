/* SPDX-License-Identifier: Apache-2.0 */
/**
 * The watch for a hang of this rank: weft_progress() begins it, and the helper thread keeps it.
 *
 * A rank hangs if its program makes no progress although it does not wait for another rank. Only the program's own
 * threads make progress: by weft_progress(), and by other calls of Weft. A call that has not returned waits, for others
 * or for the data of others, and is never a hang: its limit is WEFT_TIME_LIMIT, and the diagnosis finds whom it waits
 * for. A program that could run, but gets no processor, does not hang either. So each rank needs to know only itself, and no rank that waits is blamed.
 */
#ifndef WEFT_CORE_COLLECTIVE_INTERNAL_HANG_WATCH_H
#define WEFT_CORE_COLLECTIVE_INTERNAL_HANG_WATCH_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

struct weft_context;

struct hang_watch {
    double limit;            /**< seconds; 0: no watch */
    _Atomic bool on;         /**< weft_progress() was called, and not with NULL since */
    _Atomic uint32_t paused; /**< calls in progress that wait without the progress lock */

    /* The helper's own. */
    uint64_t progress, calls; /**< counters when it last looked: of weft_progress(), and of calls */
    uint64_t looked, used;    /**< clock_now() then, and the process's processor time */
    uint64_t still;           /**< nanoseconds without progress */
    uint64_t end_at;          /**< clock_now() at which the process is killed; 0: it does not hang */
};

/** A call that waits for other ranks without the progress lock begins (`pause`) or ends. */
void hang_watch_pause(struct hang_watch *watch, bool pause);

/**
 * The helper thread's part: look for progress. A rank that hangs fails the job with PEER, and kills its process after a
 * fraction of a second, by when the message has left. Returns milliseconds until it must be called again, or -1.
 */
int hang_watch_progress(struct weft_context *context);

#endif
