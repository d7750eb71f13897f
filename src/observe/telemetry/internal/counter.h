/* SPDX-License-Identifier: Apache-2.0 */
/**
 * Counters that only grow (bytes, ticks, joules), read now and then: by how much, and in how many seconds.
 *
 * What was not seen is not made up. A counter that has fallen has wrapped, where it is known to do so, or else was
 * begun again (an interface that was taken away and came back): then there is no increase until it is read once more.
 * Thread-safe; a struct belongs to one thread at a time. A zeroed struct is a counter that was not read yet.
 */
#ifndef WEFT_OBSERVE_TELEMETRY_INTERNAL_COUNTER_H
#define WEFT_OBSERVE_TELEMETRY_INTERNAL_COUNTER_H

#include <stdbool.h>
#include <stdint.h>

struct counter {
    uint64_t value; /**< when it was read last */
    uint64_t at;    /**< time of that, in nanoseconds */
    bool known;     /**< it was read */
};

/** By how much a counter has grown, and in which time. */
struct counter_step {
    uint64_t increase;
    double seconds; /**< above 0 */
};

/**
 * Note that `counter` reads `value` at the moment `now` (nanoseconds of a clock that does not go back). `range`: values
 * are below it, and 0 follows the last of them; 0: a counter of 64 bits, which no machine's life wraps. A value that is
 * not within its range counts as none. Returns whether `step` is known: not at the first reading, not when no time has
 * passed, not after a fall without a range.
 */
static inline bool counter_read(struct counter *counter, uint64_t value, uint64_t range, uint64_t now,
                                struct counter_step *step)
{
    const struct counter before = *counter;
    const bool valid = !range || value < range;
    *counter = (struct counter){value, now, valid};
    if (!valid || !before.known || now <= before.at || (value < before.value && !range))
        return false;
    step->increase = value >= before.value ? value - before.value : range - before.value + value;
    step->seconds = (double)(now - before.at) * 1e-9;
    return true;
}

#endif
