/* SPDX-License-Identifier: Apache-2.0 */
/* The signals of a preemption, in several threads too: which of them belong to one event, and which end a process. */
#include "cli/platform/client/preemption.h"

#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

static pthread_t other;
static atomic_bool meets; /* the first signal is to meet another */
static atomic_bool waits; /* who is to hear that one is ready */
static atomic_bool heard; /* and has heard it */
static atomic_int later;  /* seconds that the clock is ahead */

/* The clock that the handlers read: the first time, another signal is heard by another thread before it is. */
__attribute__((visibility("default"))) int clock_gettime(clockid_t which, struct timespec *now)
{
    if (atomic_exchange(&meets, false)) {
        pthread_kill(other, SIGUSR1);
        while (!atomic_load(&heard))
            sched_yield();
    }
    const int result = (int)syscall(SYS_clock_gettime, which, now);
    now->tv_sec += atomic_load(&later);
    return result;
}

static void *wait_for_signal(void *context)
{
    sigset_t none;
    sigemptyset(&none);
    atomic_store(&waits, true);
    sigsuspend(&none);                         /* until the handler has returned */
    pthread_sigmask(SIG_SETMASK, &none, NULL); /* and what it may have raised has come */
    atomic_store(&heard, true);
    return NULL;
}

/* What becomes of a process that does this: its status, as waitpid() tells it. */
static int status_of(int (*body)(void))
{
    int status;
    const pid_t process = fork();
    assert_true(process >= 0);
    if (process == 0) {
        alarm(60);
        _exit(body());
    }
    assert_int_equal(waitpid(process, &status, 0), process);
    return status;
}

static int hear_two_at_once(void)
{
    sigset_t own, before;
    const atomic_int *stop = preemption_watch(1000);
    sigemptyset(&own);
    sigaddset(&own, SIGUSR1);
    sigaddset(&own, SIGALRM);
    pthread_sigmask(SIG_BLOCK, &own, &before); /* in the other thread until it waits */
    if (*stop != 0 || pthread_create(&other, NULL, wait_for_signal, NULL) != 0)
        return 1;
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    while (!atomic_load(&waits))
        sched_yield();
    atomic_store(&meets, true);
    raise(SIGTERM);
    pthread_join(other, NULL);
    return *stop == SIGTERM || *stop == SIGUSR1 ? 0 : 2;
}

static int hear_two_soon(void)
{
    const atomic_int *stop = preemption_watch(1000);
    raise(SIGUSR1);
    raise(SIGTERM);
    return *stop == SIGUSR1 ? 0 : 1;
}

static int hear_one_and_later_another(void)
{
    preemption_watch(1000);
    raise(SIGUSR1);
    atomic_store(&later, 2);
    raise(SIGTERM);
    return 0;
}

static int hear_an_interrupt_and_another(void)
{
    preemption_watch(1000);
    raise(SIGINT);
    raise(SIGINT);
    return 0;
}

static void two_at_once_are_one_event(void **state)
{
    assert_int_equal(status_of(hear_two_at_once), 0);
}

static void two_within_a_second_are_one_event(void **state)
{
    assert_int_equal(status_of(hear_two_soon), 0);
}

static void a_second_one_ends_the_process(void **state)
{
    int status = status_of(hear_one_and_later_another);
    assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGTERM);
    status = status_of(hear_an_interrupt_and_another);
    assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGINT);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(two_at_once_are_one_event),
        cmocka_unit_test(two_within_a_second_are_one_event),
        cmocka_unit_test(a_second_one_ends_the_process),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
