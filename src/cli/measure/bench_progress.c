/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/measure/bench_progress.h"

#include "base/clock.h"
#include "base/format/json_put.h"
#include "cli/frame/command.h"
#include "cli/measure/bench_timing.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define REPETITIONS          15
#define WARM_UPS             2
#define CALIBRATIONS         5
#define CALIBRATION          1000000u /* iterations of the computation */
#define SHORT_WAIT           0.1      /* seconds */
#define LONG_WAIT            1.1
#define WAIT_MESSAGE         8 /* bytes */
#define SECONDS_OF(from, to) ((double)((to) - (from)) * 1e-9)

/* ---- computing ---- */

/* Work that takes a known time on an idle core; the result keeps the compiler from removing it. */
static double compute(uint64_t iterations)
{
    double sum = 0;
    for (uint64_t i = 0; i < iterations; i++)
        sum = sum * 0.999 + (double)i;
    return sum;
}

static uint64_t iterations_for(double seconds)
{
    double best = 1e9;
    volatile double sink;
    for (int i = 0; i < CALIBRATIONS; i++) {
        uint64_t began = clock_now();
        sink = compute(CALIBRATION);
        double took = SECONDS_OF(began, clock_now());
        best = took < best ? took : best;
    }
    (void)sink;
    return (uint64_t)(seconds / best * CALIBRATION);
}

/* ---- overlap ---- */

/* Seconds, of the slowest rank. */
struct overlap {
    double blocking, compute, total, wait;
};

static weft_status overlap_once(const struct bench_progress *what, float *input, float *output, size_t count,
                                uint64_t iterations, struct overlap *result, struct error *error)
{
    weft_comm *world = weft_world(what->context);
    weft_request *request = NULL;
    struct overlap mine;
    volatile double sink;
    weft_status status = weft_barrier(world);
    uint64_t began = clock_now();
    if (status == WEFT_OK)
        status = weft_allreduce(input, output, count, WEFT_F32, WEFT_SUM, world);
    mine.blocking = SECONDS_OF(began, clock_now());
    if (status == WEFT_OK)
        status = weft_barrier(world);
    began = clock_now();
    if (status == WEFT_OK)
        status = weft_allreduce_start(input, output, count, WEFT_F32, WEFT_SUM, world, &request);
    uint64_t started = clock_now();
    sink = compute(iterations);
    uint64_t computed = clock_now();
    if (status == WEFT_OK)
        status = weft_wait(&request);
    uint64_t ended = clock_now();
    (void)sink;
    mine.compute = SECONDS_OF(started, computed);
    mine.total = SECONDS_OF(began, ended);
    mine.wait = SECONDS_OF(computed, ended);
    if (status == WEFT_OK)
        status = weft_allreduce(&mine, result, sizeof mine / sizeof(double), WEFT_F64, WEFT_MAX, world);
    return command_check(what->context, status, error);
}

/* The median of the field at `offset`. */
static double progress_median(const struct overlap *runs, size_t offset)
{
    double values[REPETITIONS];
    for (int i = 0; i < REPETITIONS; i++)
        memcpy(&values[i], (const char *)&runs[i] + offset, sizeof *values);
    return bench_median(values, REPETITIONS);
}

static weft_status print_overlap(const struct bench_progress *what, size_t bytes, const struct overlap *median,
                                 struct error *error)
{
    if (!what->json) {
        fprintf(what->output, "%12zu %12.1f %12.1f %12.1f %12.1f\n", bytes, median->blocking * 1e6,
                median->compute * 1e6, median->total * 1e6, median->wait * 1e6);
        return WEFT_OK;
    }
    return JSON_PRINT(what->output, error, "bytes", bytes, "blocking_us", median->blocking * 1e6, "compute_us",
                      median->compute * 1e6, "total_us", median->total * 1e6, "wait_us", median->wait * 1e6);
}

static weft_status overlap_size(const struct bench_progress *what, float *input, float *output, size_t bytes,
                                uint64_t iterations, struct error *error)
{
    struct overlap runs[REPETITIONS];
    weft_status status = WEFT_OK;
    for (int i = -WARM_UPS; i < REPETITIONS && status == WEFT_OK; i++)
        status = overlap_once(what, input, output, bytes / sizeof *input, iterations, &runs[i < 0 ? 0 : i], error);
    if (status != WEFT_OK || weft_comm_rank(weft_world(what->context)) != 0)
        return status;
    const struct overlap median = {
        progress_median(runs, offsetof(struct overlap, blocking)),
        progress_median(runs, offsetof(struct overlap, compute)),
        progress_median(runs, offsetof(struct overlap, total)),
        progress_median(runs, offsetof(struct overlap, wait)),
    };
    status = print_overlap(what, bytes, &median, error);
    fflush(what->output);
    return status;
}

static float *progress_allocate(const struct bench_progress *what)
{
    float *memory = what->registered ? weft_alloc(what->context, what->most) : malloc(what->most);
    if (memory)
        memset(memory, 0, what->most);
    return memory;
}

static void progress_release(const struct bench_progress *what, float *memory)
{
    if (what->registered)
        weft_free(what->context, memory);
    else
        free(memory);
}

weft_status bench_overlap(const struct bench_progress *what, struct error *error)
{
    weft_comm *world = weft_world(what->context);
    uint64_t iterations = iterations_for(what->compute_seconds);
    float *input = progress_allocate(what), *output = progress_allocate(what);
    weft_status status = input && output ? WEFT_OK : error_memory(error, 2 * what->most, "the buffers");
    if (status == WEFT_OK && !what->json && weft_comm_rank(world) == 0)
        fprintf(what->output,
                "# all-reduce of floats, %d ranks on %d nodes: blocking; started, computing, waited for (slowest rank, "
                "us)\n#%11s %12s %12s %12s %12s\n",
                weft_comm_size(world), weft_comm_nodes(world), "bytes", "blocking", "compute", "total", "wait");
    for (size_t bytes = what->least; status == WEFT_OK && bytes <= what->most; bytes *= what->factor)
        status = overlap_size(what, input, output, bytes, iterations, error);
    progress_release(what, input);
    progress_release(what, output);
    return status;
}

/* ---- waiting ---- */

/* Wait for rank 0, which is late by `seconds`, in a barrier or for a message; *used is this rank's processor time. */
static weft_status progress_wait_for(const struct bench_progress *what, double seconds, bool message, double *used,
                                     struct error *error)
{
    weft_comm *world = weft_world(what->context);
    int rank = weft_comm_rank(world), ranks = weft_comm_size(world);
    uint8_t bytes[WAIT_MESSAGE] = {0};
    weft_status status = weft_barrier(world);
    uint64_t began = clock_process_cpu();
    if (rank == 0) {
        struct timespec nap = {(time_t)seconds, (long)(fmod(seconds, 1) * 1e9)};
        nanosleep(&nap, NULL);
    }
    if (!message && status == WEFT_OK)
        status = weft_barrier(world);
    else if (rank > 0 && status == WEFT_OK)
        status = weft_receive(bytes, sizeof bytes, WEFT_U8, 0, world);
    for (int peer = 1; message && rank == 0 && peer < ranks && status == WEFT_OK; peer++)
        status = weft_send(bytes, sizeof bytes, WEFT_U8, peer, world);
    *used = SECONDS_OF(began, clock_process_cpu());
    return command_check(what->context, status, error);
}

static weft_status bench_progress_print_waiting(const struct bench_progress *what, const char *in, double share,
                                                double first, struct error *error)
{
    if (!what->json) {
        fprintf(what->output, "%12s %18.2f %18.2f\n", in, first * 1e3, share * 100);
        return WEFT_OK;
    }
    return JSON_PRINT(what->output, error, "waits_in", in, "first_cpu_ms", first * 1e3, "core_percent", share * 100);
}

weft_status bench_waiting(const struct bench_progress *what, struct error *error)
{
    static const char *const names[] = {"barrier", "receive"};
    weft_comm *world = weft_world(what->context);
    weft_status status = WEFT_OK;
    int rank = weft_comm_rank(world);
    if (rank == 0 && !what->json)
        fprintf(
            what->output,
            "# %d ranks on %d nodes wait for rank 0: processor time of the costliest, in the first 0.1 s and from then "
            "on\n#%11s %18s %18s\n",
            weft_comm_size(world), weft_comm_nodes(world), "waits in", "first 0.1 s, ms", "then, % of a core");
    for (int message = 0; message < 2 && status == WEFT_OK; message++) {
        double used[2] = {0}, most[2] = {0};
        status = progress_wait_for(what, SHORT_WAIT, message, &used[0], error);
        if (status == WEFT_OK)
            status = progress_wait_for(what, LONG_WAIT, message, &used[1], error);
        used[1] = (used[1] - used[0]) / (LONG_WAIT - SHORT_WAIT);
        if (rank == 0)
            used[0] = used[1] = 0;
        if (status == WEFT_OK)
            status = command_check(what->context, weft_allreduce(used, most, 2, WEFT_F64, WEFT_MAX, world), error);
        if (status == WEFT_OK && rank == 0)
            status = bench_progress_print_waiting(what, names[message], most[1], most[0], error);
    }
    return status;
}
