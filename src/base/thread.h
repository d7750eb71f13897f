/* SPDX-License-Identifier: Apache-2.0 */
/** Threads that handle no signals, and condition variables that wait until a time of clock_now(). Thread-safe. */
#ifndef WEFT_BASE_THREAD_H
#define WEFT_BASE_THREAD_H

#include "base/clock.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>

/** pthread_create() of a thread that blocks all signals, which other threads then handle. Returns its error number. */
static inline int thread_start(pthread_t *thread, void *(*function)(void *context), void *context)
{
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    const int code = pthread_create(thread, NULL, function, context);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return code;
}

/** Initialize a mutex, and a condition for thread_wait_until(). */
static inline void thread_condition_init(pthread_mutex_t *mutex, pthread_cond_t *condition)
{
    pthread_condattr_t monotonic;
    pthread_mutex_init(mutex, NULL);
    pthread_condattr_init(&monotonic);
    pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
    pthread_cond_init(condition, &monotonic);
    pthread_condattr_destroy(&monotonic);
}

/** Wait for the condition, at most until `time` of clock_now(). False: that time has come. */
static inline bool thread_wait_until(pthread_cond_t *condition, pthread_mutex_t *mutex, uint64_t time)
{
    const struct timespec until = {(time_t)(time / 1000000000u), (long)(time % 1000000000u)};
    return pthread_cond_timedwait(condition, mutex, &until) != ETIMEDOUT;
}

/** Seconds of processor time that the calling thread has used. */
static inline double thread_processor_seconds(void)
{
    struct timespec used = {0};
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &used);
    return (double)used.tv_sec + (double)used.tv_nsec * 1e-9;
}

#endif
