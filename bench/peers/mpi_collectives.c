/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The peer of `weft bench`: an MPI library's all-reduce, timed in the very same way (see src/cli/bench_measure.h, whose
 * constants this program takes): a batch aims at the same time, a barrier before each, mean over ranks, median of the
 * batches, two sets of buffers in turn from 16 MiB on, results checked. Prints the same line of JSON for each size.
 *
 *     mpirun -n 2 mpi_collectives NAME MIN MAX FACTOR in-place|out-of-place     sizes in bytes
 */
#include "base/clock.h"
#include "cli/bench_measure.h"

#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SETS 2

static int rank, ranks;

struct set {
    float *input, *output;
};

/* Whole numbers whose sum over the ranks is exact. */
static float element(int of_rank, size_t index)
{
    return (float)((index * 7 + (size_t)of_rank * 13) % 61);
}

static void fill(const struct set *set, size_t count)
{
    for (size_t i = 0; i < count; i++)
        set->input[i] = element(rank, i);
}

static double check(const struct set *set, size_t count)
{
    double wrong = 0, all = 0;
    for (size_t i = 0; i < count; i++) {
        float sum = 0;
        for (int r = 0; r < ranks; r++)
            sum += element(r, i);
        wrong += set->output[i] != sum;
    }
    MPI_Allreduce(&wrong, &all, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
    return all;
}

static void call(const struct set *set, size_t count)
{
    const void *input = set->input == set->output ? MPI_IN_PLACE : (const void *)set->input;
    MPI_Allreduce(input, set->output, (int)count, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
}

static double mean(double value)
{
    double sum = 0;
    MPI_Allreduce(&value, &sum, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
    return sum / ranks;
}

static void run_calls(const struct set *sets, size_t set_count, size_t count, size_t calls, double *seconds,
                      double *cpu)
{
    MPI_Barrier(MPI_COMM_WORLD);
    uint64_t cpu_begin = clock_process_cpu(), begin = clock_now();
    for (size_t i = 0; i < calls; i++)
        call(&sets[i % set_count], count);
    *seconds = (double)(clock_now() - begin) * 1e-9 / (double)calls;
    *cpu = (double)(clock_process_cpu() - cpu_begin) * 1e-9 / (double)calls;
    *seconds = mean(*seconds);
    *cpu = mean(*cpu);
}

static double try_calls(const struct set *sets, size_t set_count, size_t count, size_t calls)
{
    double fastest = 0;
    for (int i = 0; i < BENCH_TRIALS; i++) {
        double seconds, cpu;
        run_calls(sets, set_count, count, calls, &seconds, &cpu);
        if (i == 0 || seconds < fastest)
            fastest = seconds;
    }
    return fastest;
}

static size_t choose_calls(const struct set *sets, size_t set_count, size_t count)
{
    double seconds = try_calls(sets, set_count, count, set_count);
    if (seconds * BENCH_TRIAL_CALLS < BENCH_BATCH_SECONDS)
        seconds = try_calls(sets, set_count, count, BENCH_TRIAL_CALLS);
    double wanted = seconds > 0 ? BENCH_BATCH_SECONDS / seconds : BENCH_CALLS_MOST;
    size_t calls = wanted > BENCH_CALLS_MOST ? BENCH_CALLS_MOST : (size_t)wanted;
    if (calls < set_count)
        calls = set_count;
    MPI_Bcast(&calls, sizeof calls, MPI_BYTE, 0, MPI_COMM_WORLD);
    return calls;
}

static int by_value(const void *first, const void *second)
{
    double a = *(const double *)first, b = *(const double *)second;
    return (a > b) - (a < b);
}

static double median(double *values)
{
    qsort(values, BENCH_BATCHES, sizeof *values, by_value);
    return values[BENCH_BATCHES / 2];
}

static void do_size(const char *name, size_t bytes, int in_place)
{
    size_t count = bytes / sizeof(float);
    size_t set_count = bytes >= BENCH_ALTERNATE_BYTES ? SETS : 1;
    struct set sets[SETS];
    double seconds[BENCH_BATCHES], cpu[BENCH_BATCHES], wrong;
    for (size_t i = 0; i < set_count; i++) {
        void *input = NULL, *output = NULL;
        if (posix_memalign(&output, 64, bytes) != 0 || (!in_place && posix_memalign(&input, 64, bytes) != 0))
            MPI_Abort(MPI_COMM_WORLD, 1);
        sets[i].output = output;
        sets[i].input = in_place ? output : input;
        memset(output, 0, bytes);
        fill(&sets[i], count);
        call(&sets[i], count);
    }
    wrong = 0;
    for (size_t i = 0; i < set_count; i++)
        wrong += check(&sets[i], count);
    size_t calls = choose_calls(sets, set_count, count);
    for (int i = 0; i < BENCH_BATCHES; i++)
        run_calls(sets, set_count, count, calls, &seconds[i], &cpu[i]);
    if (rank == 0) {
        double time = median(seconds), bandwidth = (double)bytes / time;
        printf("{\"collective\":\"allreduce\",\"ranks\":%d,\"buffers\":\"ordinary\",\"in_place\":%s,\"bytes\":%zu,"
               "\"count\":%zu,"
               "\"type\":\"f32\",\"op\":\"sum\",\"algorithm\":\"%s\",\"time_us\":%.6g,\"algbw_gbps\":%.6g,\"busbw_"
               "gbps\":%.6g,"
               "\"cpu_us\":%.6g,\"calls\":%zu,\"errors\":%.0f}\n",
               ranks, in_place ? "true" : "false", bytes, count, name, time * 1e6, bandwidth * 1e-9,
               bandwidth * 1e-9 * 2 * (ranks - 1) / ranks, median(cpu) * 1e6, calls * BENCH_BATCHES, wrong);
        fflush(stdout);
    }
    for (size_t i = 0; i < set_count; i++) {
        if (sets[i].input != sets[i].output)
            free(sets[i].input);
        free(sets[i].output);
    }
}

int main(int argc, char **argv)
{
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    size_t least = argc > 2 ? strtoull(argv[2], NULL, 10) : 0, most = argc > 3 ? strtoull(argv[3], NULL, 10) : 0;
    size_t factor = argc > 4 ? strtoull(argv[4], NULL, 10) : 0;
    if (argc != 6 || least < sizeof(float) || most < least || factor < 2) {
        if (rank == 0)
            fprintf(stderr, "usage: mpi_collectives NAME MIN MAX FACTOR in-place|out-of-place\n");
        MPI_Finalize();
        return 2;
    }
    for (size_t bytes = least; bytes <= most; bytes *= factor)
        do_size(argv[1], bytes, strcmp(argv[5], "in-place") == 0);
    MPI_Finalize();
    return 0;
}
