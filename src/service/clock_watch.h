/* SPDX-License-Identifier: Apache-2.0 */
/**
 * Whether the wall clock was set forward: by hand, by a time server, or because the machine slept. It goes with the
 * monotonic clock otherwise, which goes on by what has really passed. Of one thread.
 */
#ifndef WEFT_SERVICE_CLOCK_WATCH_H
#define WEFT_SERVICE_CLOCK_WATCH_H

#include <stdbool.h>
#include <stdint.h>

#define CLOCK_WATCH_LEAST  1000 /**< milliseconds: less is not worth a word */
#define CLOCK_WATCH_BEFORE 100  /**< milliseconds that two looks at the monotonic clock may be apart */

struct clock_watch {
    bool begun;
    int64_t ahead; /**< of the monotonic clock, at the last look */
};

/**
 * By how many milliseconds it was set forward since the last look, 0 if it was not. `wall` was read between `before`
 * and `after`, of the monotonic clock; where these are far apart nothing can be told, until the next look.
 */
static inline int64_t clock_watch_look(struct clock_watch *watch, int64_t before, int64_t wall, int64_t after)
{
    const int64_t ahead = wall - after, by = ahead - watch->ahead;
    if (after - before > CLOCK_WATCH_BEFORE)
        return 0;
    const bool forward = watch->begun && by >= CLOCK_WATCH_LEAST;
    watch->begun = true;
    watch->ahead = ahead;
    return forward ? by : 0;
}

#endif
