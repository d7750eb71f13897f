/* SPDX-License-Identifier: Apache-2.0 */
/**
 * Whether the wall clock was set: by hand, by a time server, or because the machine slept. Otherwise it advances with
 * the monotonic clock, which measures the time that has really passed. Not thread-safe.
 */
#ifndef WEFT_PLATFORM_SERVICE_INTERNAL_CLOCK_WATCH_H
#define WEFT_PLATFORM_SERVICE_INTERNAL_CLOCK_WATCH_H

#include <stdbool.h>
#include <stdint.h>

#define CLOCK_WATCH_LEAST  1000 /**< milliseconds: less is not worth a word */
#define CLOCK_WATCH_BEFORE 100  /**< milliseconds that two looks at the monotonic clock may be apart */

struct clock_watch {
    bool begun;
    int64_t ahead; /**< of the monotonic clock, at the last look */
};

/**
 * By how many milliseconds it was set since the last look: above 0 forward, below 0 back, 0 if it was not. `wall` was
 * read between `before` and `after`, of the monotonic clock; if these are too far apart the next look decides.
 */
static inline int64_t clock_watch_look(struct clock_watch *watch, int64_t before, int64_t wall, int64_t after)
{
    const int64_t ahead = wall - after, by = ahead - watch->ahead;
    if (after - before > CLOCK_WATCH_BEFORE)
        return 0;
    const bool set = watch->begun && (by >= CLOCK_WATCH_LEAST || by <= -CLOCK_WATCH_LEAST);
    if (set || !watch->begun)
        watch->ahead = ahead;
    watch->begun = true;
    return set ? by : 0;
}

#endif
