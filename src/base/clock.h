/* SPDX-License-Identifier: Apache-2.0 */
/** Time: monotonic nanoseconds for people and limits, the processor's cycle counter for the hot path. Thread-safe. */
#ifndef WEFT_BASE_CLOCK_H
#define WEFT_BASE_CLOCK_H

#include <stdint.h>
#include <time.h>

/** Nanoseconds of CLOCK_MONOTONIC (about 25 ns a call). */
static inline uint64_t clock_now(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

/** clock_now() in `seconds` from now. */
static inline uint64_t clock_after(double seconds)
{
    return clock_now() + (uint64_t)(seconds * 1e9);
}

/** Milliseconds since the epoch of `time`. */
static inline int64_t clock_to_milliseconds(const struct timespec *time)
{
    return (int64_t)time->tv_sec * 1000 + time->tv_nsec / 1000000;
}

/** Nanoseconds of processor time that this process has used, all threads together. */
static inline uint64_t clock_process_cpu(void)
{
    struct timespec now;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

/** The same of the calling thread alone. */
static inline uint64_t clock_thread_cpu(void)
{
    struct timespec now;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

/** Ticks of the cycle counter: cheap, comparable within a machine, of unknown rate (the caller pairs it with
 * clock_now). */
static inline uint64_t clock_ticks(void)
{
#if defined(__x86_64__)
    return __builtin_ia32_rdtsc();
#else
    return clock_now();
#endif
}

/** The same instant on both clocks. */
struct clock_timestamp {
    uint64_t ticks; /**< clock_ticks() */
    uint64_t now;   /**< clock_now() */
};

static inline struct clock_timestamp clock_timestamp(void)
{
    return (struct clock_timestamp){clock_ticks(), clock_now()};
}

/** Nanoseconds that a tick takes, from two timestamps of one machine, at least 2 ms apart; 0 if they are closer. */
static inline double clock_tick_length(struct clock_timestamp first, struct clock_timestamp last)
{
    if (last.now < first.now + 2000000u || last.ticks <= first.ticks)
        return 0;
    return (double)(last.now - first.now) / (double)(last.ticks - first.ticks);
}

/** Hint to the processor that this is a spin loop. */
static inline void clock_pause(void)
{
#if defined(__x86_64__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ volatile("yield");
#endif
}

#endif
