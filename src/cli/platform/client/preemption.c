/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/platform/client/preemption.h"

#include "base/clock.h"
#include "base/file/file.h"
#include "base/text.h"
#include "training/checkpoint/checkpoint.h"

#include <errno.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define GRACE_DEFAULT 30.0
#define GRACE_LEAST   0.001
#define GRACE_MOST    1e6
#define ONE_EVENT     UINT64_C(1000000000) /* nanoseconds in which a second SIGTERM or SIGUSR1 belongs to the first */

/* For the handlers. All but the three atomics are set before the handlers are installed. */
static struct {
    atomic_uint_least64_t came; /* when the first signal came, by clock_now(); 0: none yet */
    atomic_int number;          /* its number; set shortly after `came` */
    atomic_size_t length;       /* of the message */
    struct timespec grace;
    timer_t timer;
    bool has_timer;
    char message[256];
} watched;

weft_status preemption_grace(double option, double *seconds, struct error *error)
{
    const char *text = getenv("WEFT_GRACE");
    if (option > 0 || !text || !*text) {
        *seconds = option > 0 ? option : GRACE_DEFAULT;
        return WEFT_OK;
    }
    return text_parse_number(text, "WEFT_GRACE", GRACE_LEAST, GRACE_MOST, seconds, error);
}

int preemption_exit_code(int number)
{
    return number == SIGINT ? 128 + SIGINT : PREEMPTION_EXIT_CODE;
}

/* Async-signal-safe (signal-safety(7)). Two signals may be handled at the same time in two threads: one of them is the
 * first. */
static void preemption_hear(int number)
{
    const int error = errno;
    const uint64_t now = clock_now();
    uint_least64_t first = 0;
    if (atomic_compare_exchange_strong(&watched.came, &first, now)) {
        const struct itimerspec end = {.it_value = watched.grace};
        atomic_store(&watched.number, number);
        if (watched.has_timer && number != SIGINT)
            timer_settime(watched.timer, 0, &end, NULL);
    } else if (number == SIGINT || atomic_load(&watched.number) == SIGINT || now > first + ONE_EVENT) {
        signal(number, SIG_DFL); /* a second signal ends the process */
        raise(number);
    }
    errno = error;
}

static void end_now(int number)
{
    ssize_t written = write(STDERR_FILENO, watched.message, atomic_load(&watched.length));
    (void)written;
    _exit(PREEMPTION_EXIT_CODE);
}

static void preemption_handle(int number, void (*handler)(int))
{
    struct sigaction action = {.sa_handler = handler, .sa_flags = SA_RESTART};
    sigfillset(&action.sa_mask); /* one at a time in each thread */
    sigaction(number, &action, NULL);
}

const atomic_int *preemption_watch(double grace)
{
    watched.grace.tv_sec = (time_t)grace;
    watched.grace.tv_nsec = (long)((grace - (double)watched.grace.tv_sec) * 1e9);
    snprintf(
        watched.message, sizeof watched.message,
        "weft: no checkpoint was complete %g s after the signal to end (--grace, WEFT_GRACE), or no copy of it: ending "
        "without it; "
        "older checkpoints are whole\n",
        grace);
    atomic_store(&watched.length, strlen(watched.message));
    struct sigevent event = {.sigev_notify = SIGEV_SIGNAL, .sigev_signo = SIGALRM};
    watched.has_timer = timer_create(CLOCK_MONOTONIC, &event, &watched.timer) == 0;
    preemption_handle(SIGALRM, end_now);
    preemption_handle(SIGINT, preemption_hear);
    preemption_handle(SIGTERM, preemption_hear);
    preemption_handle(SIGUSR1, preemption_hear);
    return &watched.number;
}

void preemption_be_silent(void)
{
    atomic_store(&watched.length, 0);
}

weft_status preemption_find_checkpoint(struct train_config *config, bool *fresh, struct error *error)
{
    const char *standard = getenv("WEFT_CHECKPOINT_DIR");
    *fresh = false;
    if (!config->checkpoint_dir && standard && *standard) {
        config->checkpoint_dir = standard;
        if (!config->resume)
            config->resume = "auto";
    }
    if (!config->resume || strcmp(config->resume, "auto") != 0)
        return WEFT_OK;
    if (!config->checkpoint_dir)
        return error_set(
            error, WEFT_ERROR_ARGUMENT,
            "--resume auto continues from the directory in --checkpoint-dir or WEFT_CHECKPOINT_DIR, but neither "
            "is given");
    size_t count = 0;
    config->resume = NULL;
    if (file_is_directory(config->checkpoint_dir)) {
        weft_status status = checkpoint_list(config->checkpoint_dir, NULL, 0, &count, error);
        if (status != WEFT_OK)
            return status;
    }
    if (count == 0 && config->checkpoint_copy && file_is_directory(config->checkpoint_copy) &&
        checkpoint_list(config->checkpoint_copy, NULL, 0, &count, error) != WEFT_OK)
        return WEFT_ERROR_SYSTEM;
    if (count > 0)
        config->resume = config->checkpoint_dir;
    *fresh = count == 0;
    return WEFT_OK;
}
