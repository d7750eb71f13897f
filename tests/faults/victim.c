/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A rank among which faults happen: it works through a mix of collectives, the same on all ranks; at a random time
 * one of them suffers a fault; the others note what they learn and how soon, shrink, check a sum, and go on to the
 * next. faults starts such ranks, reads what they have noted, and judges it.
 *
 *     victim FAULT SEED EVENTS FILE
 *
 * FAULT is kill, stop, exit, collective, count, type, root, late, or cut (which happens outside). Noted in FILE, a line
 * each, by tabs: time, first rank, event, what, then
 *     fault   victim in the present world
 *     error   status, message
 *     shrunk  ranks, seconds, sums that are wrong
 *     lost    status, message: this rank cannot go on
 *     begin, end
 */
#include "../canonical.h"
#include "base/clock.h"
#include "base/random.h"

#include <fcntl.h>
#include <inttypes.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>

#define COUNT_MOST    65536
#define BLOCK_MOST    2048 /* elements, of what moves a block for each rank */
#define SUMS          3000
#define LATE_SECONDS  0.4
#define LIMIT_SECONDS 1.0
#define SLEEP_SECONDS 1.6 /* of a rank that is late */

static struct {
    const char *fault;
    uint64_t seed;
    int events, file, first, event;
} job;

static void note(const char *what, const char *format, ...)
{
    char line[2048];
    int used = snprintf(line, sizeof line, "%.6f\t%d\t%d\t%s\t", clock_now() * 1e-9, job.first, job.event, what);
    va_list arguments;
    va_start(arguments, format);
    used += vsnprintf(line + used, sizeof line - (size_t)used - 1, format, arguments);
    va_end(arguments);
    line[used] = '\n';
    if (write(job.file, line, (size_t)used + 1) < 0)
        _exit(9);
}

static bool fault_is(const char *name)
{
    return strcmp(job.fault, name) == 0;
}

/* ---- the mix ---- */

enum { ALLREDUCE, REDUCE_SCATTER, ALLGATHER, ALLTOALL, BARRIER, BROADCAST, REDUCE, KINDS };

struct operation {
    int kind, root;
    size_t count;
    weft_type type;
    bool requested; /* as a request, waited for at once */
};

/* Operation `n` of an event: the same on all ranks, and of every kind and size. */
static struct operation operation_of(int n, int ranks)
{
    uint64_t seed = random_bits(job.seed, (uint64_t)job.event + 1000);
    struct operation operation = {.kind = (int)random_below(seed, 4 * (uint64_t)n, KINDS),
                                  .root = (int)random_below(seed, 4 * (uint64_t)n + 1, (uint64_t)ranks),
                                  .type = WEFT_F32};
    double exponent = random_uniform(seed, 4 * (uint64_t)n + 2);
    bool blocks = operation.kind >= REDUCE_SCATTER && operation.kind <= ALLTOALL;
    for (operation.count = 1; exponent > 0 && operation.count < (blocks ? BLOCK_MOST : COUNT_MOST); exponent -= 0.06)
        operation.count *= 2;
    operation.requested = random_below(seed, 4 * (uint64_t)n + 3, 4) == 0;
    return operation;
}

static weft_status run(const struct operation *operation, float *input, float *output, weft_comm *world)
{
    weft_request *request = NULL;
    const size_t count = operation->count;
    const weft_type type = operation->type;
    switch (operation->kind) {
    case ALLREDUCE:
        if (!operation->requested)
            return weft_allreduce(input, output, count, type, WEFT_SUM, world);
        weft_status status = weft_allreduce_start(input, output, count, type, WEFT_SUM, world, &request);
        return status == WEFT_OK ? weft_wait(&request) : status;
    case REDUCE_SCATTER:
        return weft_reduce_scatter(input, output, count, type, WEFT_SUM, world);
    case ALLGATHER:
        return weft_allgather(input, output, count, type, world);
    case ALLTOALL:
        return weft_alltoall(input, output, count, type, world);
    case BROADCAST:
        return weft_broadcast(output, count, type, operation->root, world);
    case REDUCE:
        return weft_reduce(input, output, count, type, WEFT_SUM, operation->root, world);
    default:
        return weft_barrier(world);
    }
}

/* ---- the faults ---- */

/* A fault that strikes from outside of the calls, in whatever they do then. */
static void *strike(void *argument)
{
    usleep(*(const useconds_t *)argument);
    note("fault", "%s", "");
    if (fault_is("kill"))
        kill(getpid(), SIGKILL);
    else if (fault_is("stop"))
        kill(getpid(), SIGSTOP);
    else
        _exit(0);
    return NULL;
}

/* What this rank does instead of `operation`, or to itself. */
static void suffer(struct operation *operation, int ranks)
{
    static useconds_t delay;
    pthread_t thread;
    if (fault_is("kill") || fault_is("stop") || fault_is("exit")) {
        delay = (useconds_t)random_below(job.seed, 3 * (uint64_t)job.event + 2, 3000);
        pthread_create(&thread, NULL, strike, &delay);
        pthread_detach(thread);
        return;
    }
    note("fault", "%s", "");
    if (fault_is("collective"))
        operation->kind = operation->kind == ALLREDUCE ? REDUCE : ALLREDUCE;
    else if (fault_is("count"))
        operation->count += operation->count > 1 ? -1 : 1;
    else if (fault_is("type"))
        operation->type = operation->count % 2 ? WEFT_I32 : WEFT_U32;
    else if (fault_is("root"))
        operation->root = (operation->root + 1) % ranks;
    else if (fault_is("late"))
        usleep((useconds_t)(SLEEP_SECONDS * 1e6));
}

/* The operation in which the fault happens must be one that it can happen in. */
static void make_fit(struct operation *operation)
{
    if (fault_is("root") && operation->kind != REDUCE)
        operation->kind = BROADCAST;
    else if (operation->kind == BARRIER)
        operation->kind = ALLGATHER;
    if (operation->kind == ALLGATHER && operation->count > BLOCK_MOST)
        operation->count = BLOCK_MOST;
}

/* ---- the rank ---- */

/* Work until something fails. */
static weft_status work(weft_comm *world, float *input, float *output, int *victim)
{
    int ranks = weft_comm_size(world), at = 40 + (int)random_below(job.seed, 3 * (uint64_t)job.event + 1, 300);
    weft_status status = WEFT_OK;
    *victim = (int)random_below(job.seed, 3 * (uint64_t)job.event, (uint64_t)ranks);
    for (int n = 0; status == WEFT_OK; n++) {
        struct operation operation = operation_of(n, ranks);
        if (n == at && !fault_is("cut")) {
            make_fit(&operation);
            if (*victim == weft_comm_rank(world))
                suffer(&operation, ranks);
        }
        status = run(&operation, input, output, world);
    }
    return status;
}

static int live(weft_context *context, float *input, float *output)
{
    for (job.event = 0; job.event < job.events; job.event++) {
        int victim = 0, wrong = 0;
        weft_status status = work(weft_world(context), input, output, &victim);
        note("error", "%d\t%s\t%s", victim, weft_status_name(status), weft_message(context));
        uint64_t began = clock_now();
        status = weft_shrink(context);
        double seconds = (clock_now() - began) * 1e-9;
        if (status != WEFT_OK) {
            note("lost", "%s\t%s", weft_status_name(status), weft_message(context));
            return 3;
        }
        weft_comm *world = weft_world(context);
        weft_comm_set_reproducible(world, true); /* the dead leave nodes with unequal numbers of ranks */
        status = canonical_check(world, output, SUMS, &wrong);
        weft_comm_set_reproducible(world, false);
        if (status != WEFT_OK)
            wrong = SUMS;
        note("shrunk", "%d\t%.6f\t%d\t%s", weft_comm_size(world), seconds, wrong, weft_message(context));
        if (status != WEFT_OK || weft_comm_size(world) == 1)
            break;
    }
    return 0;
}

int main(int argc, char **argv)
{
    weft_context *context = NULL;
    weft_config config = WEFT_CONFIG_DEFAULT;
    if (argc != 5)
        return fprintf(stderr, "usage: victim FAULT SEED EVENTS FILE\n"), 2;
    prctl(PR_SET_PDEATHSIG, SIGKILL); /* in a session of its own, it would outlive who has started it */
    job.fault = argv[1];
    job.seed = strtoull(argv[2], NULL, 10);
    job.events = atoi(argv[3]);
    job.file = open(argv[4], O_WRONLY | O_CREAT | O_APPEND, 0600);
    if (fault_is("late")) {
        config.late_seconds = LATE_SECONDS;
        config.time_limit = LIMIT_SECONDS;
    }
    if (weft_init(&config, &context) != WEFT_OK)
        return fprintf(stderr, "victim: %s\n", weft_message(NULL)), 1;
    job.first = weft_comm_rank(weft_world(context));
    note("begin", "%s", "");
    size_t bytes = (size_t)COUNT_MOST * sizeof(float);
    float *input = calloc(1, bytes), *output = weft_alloc(context, bytes);
    int code = input && output ? live(context, input, output) : 4;
    free(input);
    weft_finalize(context);
    note("end", "%s", "");
    return code;
}
