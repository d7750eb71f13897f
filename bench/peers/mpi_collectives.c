/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The peer of `weft bench`: an MPI library's collectives, timed by the very same code (src/cli/measure/bench_timing.h), results
 * checked. Prints the same line of JSON for each size.
 *
 *     mpirun -n 2 mpi_collectives NAME COLLECTIVE MIN MAX FACTOR in|out|both     sizes in bytes, of the larger side
 */
#include "base/clock.h"
#include "line.h"

#include <mpi.h>

enum extent { NOTHING, ONE_BLOCK, BLOCK_A_RANK };

/* One rank's side of a call: blocks of `count` floats. */
struct call {
    float *input, *output;
    size_t count;
};

struct collective {
    const char *name;
    enum extent input, output;
    int in_place_only;
    double bus_shares, bus_plus; /* the bus bandwidth's factor is shares x (ranks - 1) / ranks + plus */
    void (*run)(const struct call *call);
    float (*expected)(size_t index, size_t count); /* element of this rank's output */
};

static int rank, ranks;

static float summed(size_t index)
{
    float sum = 0;
    for (int r = 0; r < ranks; r++)
        sum += element(r, index);
    return sum;
}

/* ---- the collectives: root 0; in place where input and output are the same memory ---- */

static void run_allreduce(const struct call *call)
{
    MPI_Allreduce(call->input == call->output ? MPI_IN_PLACE : (const void *)call->input, call->output,
                  (int)call->count, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
}

static float expect_sum(size_t index, size_t count)
{
    return summed(index);
}

static void run_reduce_scatter(const struct call *call)
{
    MPI_Reduce_scatter_block(call->input == call->output ? MPI_IN_PLACE : (const void *)call->input, call->output,
                             (int)call->count, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
}

static float expect_own_sum(size_t index, size_t count)
{
    return summed((size_t)rank * count + index);
}

static void run_allgather(const struct call *call)
{
    int in_place = call->input == call->output;
    MPI_Allgather(in_place ? MPI_IN_PLACE : (const void *)call->input, (int)call->count, MPI_FLOAT, call->output,
                  (int)call->count, MPI_FLOAT, MPI_COMM_WORLD);
}

static float expect_gathered(size_t index, size_t count)
{
    return element((int)(index / count), index % count);
}

static void run_broadcast(const struct call *call)
{
    MPI_Bcast(call->output, (int)call->count, MPI_FLOAT, 0, MPI_COMM_WORLD);
}

static float expect_root(size_t index, size_t count)
{
    return element(0, index);
}

static void run_reduce(const struct call *call)
{
    const void *input = call->input == call->output && rank == 0 ? MPI_IN_PLACE : (const void *)call->input;
    MPI_Reduce(input, call->output, (int)call->count, MPI_FLOAT, MPI_SUM, 0, MPI_COMM_WORLD);
}

static void run_alltoall(const struct call *call)
{
    MPI_Alltoall(call->input == call->output ? MPI_IN_PLACE : (const void *)call->input, (int)call->count, MPI_FLOAT,
                 call->output, (int)call->count, MPI_FLOAT, MPI_COMM_WORLD);
}

static float expect_transposed(size_t index, size_t count)
{
    return element((int)(index / count), (size_t)rank * count + index % count);
}

/* Every rank sends to the next and receives from the one before. */
static void run_sendreceive(const struct call *call)
{
    MPI_Sendrecv(call->input, (int)call->count, MPI_FLOAT, (rank + 1) % ranks, 0, call->output, (int)call->count,
                 MPI_FLOAT, (rank + ranks - 1) % ranks, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
}

static float expect_before(size_t index, size_t count)
{
    return element((rank + ranks - 1) % ranks, index);
}

static void run_barrier(const struct call *call)
{
    MPI_Barrier(MPI_COMM_WORLD);
}

static const struct collective collectives[] = {
    {"allreduce", ONE_BLOCK, ONE_BLOCK, 0, 2, 0, run_allreduce, expect_sum},
    {"reduce_scatter", BLOCK_A_RANK, ONE_BLOCK, 0, 1, 0, run_reduce_scatter, expect_own_sum},
    {"allgather", ONE_BLOCK, BLOCK_A_RANK, 0, 1, 0, run_allgather, expect_gathered},
    {"broadcast", NOTHING, ONE_BLOCK, 1, 0, 1, run_broadcast, expect_root},
    {"reduce", ONE_BLOCK, ONE_BLOCK, 0, 0, 1, run_reduce, expect_sum},
    {"alltoall", BLOCK_A_RANK, BLOCK_A_RANK, 0, 1, 0, run_alltoall, expect_transposed},
    {"sendreceive", ONE_BLOCK, ONE_BLOCK, 0, 0, 1, run_sendreceive, expect_before},
    {"barrier", NOTHING, NOTHING, 1, 0, 0, run_barrier, NULL},
};

/* ---- measuring ---- */

/* What is measured at present. */
static struct {
    const struct collective *collective;
    struct call calls[BENCH_SETS];
    size_t sets;
} present;

static size_t elements(enum extent extent, size_t count)
{
    return extent == NOTHING ? 0 : extent == ONE_BLOCK ? count : count * (size_t)ranks;
}

static double check(const struct call *call)
{
    const struct collective *collective = present.collective;
    double wrong = 0, all = 0;
    size_t outputs = collective->expected ? elements(collective->output, call->count) : 0;
    if (collective->run == run_reduce && rank != 0)
        outputs = 0;
    for (size_t i = 0; i < outputs; i++)
        wrong += call->output[i] != collective->expected(i, call->count);
    MPI_Allreduce(&wrong, &all, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
    return all;
}

static bool run_calls(void *subject, size_t calls, double *seconds, double *cpu)
{
    MPI_Barrier(MPI_COMM_WORLD);
    uint64_t cpu_begin = clock_process_cpu(), begin = clock_now();
    for (size_t i = 0; i < calls; i++)
        present.collective->run(&present.calls[i % present.sets]);
    double taken[] = {(double)(clock_now() - begin), (double)(clock_process_cpu() - cpu_begin)}, sums[2];
    MPI_Allreduce(taken, sums, 2, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
    *seconds = sums[0] * 1e-9 / (double)calls / ranks;
    *cpu = sums[1] * 1e-9 / (double)calls / ranks;
    return true;
}

/* Numbers into the input; one call, checked; then the timing. */
static void do_size(const struct words *words, float *const (*memory)[2], size_t bytes, int in_place)
{
    const struct collective *collective = present.collective;
    size_t blocks = collective->input == BLOCK_A_RANK || collective->output == BLOCK_A_RANK ? (size_t)ranks : 1;
    struct bench_times times;
    double wrong = 0;
    present.sets = bytes >= BENCH_ALTERNATE_BYTES ? BENCH_SETS : 1;
    for (size_t i = 0; i < present.sets; i++) {
        struct call call = {memory[i][0], memory[i][1], bytes / blocks / sizeof(float)};
        float *input = call.input;
        if (in_place || collective->input == NOTHING) {
            call.input = input = call.output;
            if (collective->input < collective->output && collective->input != NOTHING)
                input += (size_t)rank * call.count;
        }
        size_t inputs = elements(collective->input == NOTHING ? collective->output : collective->input, call.count);
        for (size_t k = 0; k < inputs; k++)
            input[k] = element(rank, k);
        present.calls[i] = call;
        collective->run(&call);
        wrong += check(&call);
    }
    bench_time(&(struct bench_timed){run_calls, NULL, present.sets}, &times);
    if (rank == 0)
        print_line(words, ranks, in_place || collective->in_place_only, present.calls[0].count * blocks * sizeof(float),
                   collective->bus_shares * (ranks - 1) / ranks + collective->bus_plus, &times, wrong);
}

static int do_sizes(const struct words *words)
{
    const struct collective *collective = present.collective;
    size_t granule = sizeof(float), bytes = words->least;
    float *memory[BENCH_SETS][2];
    if (collective->input == BLOCK_A_RANK || collective->output == BLOCK_A_RANK)
        granule *= (size_t)ranks;
    if (collective->output == NOTHING)
        bytes = 0;
    else if (bytes < granule)
        bytes = granule;
    for (size_t i = 0; i < (words->most >= BENCH_ALTERNATE_BYTES ? BENCH_SETS : 1); i++)
        for (int side = 0; side < 2; side++) {
            void *place = NULL;
            if (posix_memalign(&place, 64, words->most) != 0)
                return 0;
            memory[i][side] = place;
        }
    do {
        if (words->out_of_place && !collective->in_place_only)
            do_size(words, (float *const(*)[2])memory, bytes, 0);
        if (collective->in_place_only || (words->in_place && collective->run != run_sendreceive))
            do_size(words, (float *const(*)[2])memory, bytes, 1);
        bytes *= words->factor;
    } while (bytes && bytes <= words->most);
    return 1;
}

int main(int argc, char **argv)
{
    struct words words;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    int known = read_words(argc, argv, &words);
    for (size_t i = 0; known && i < sizeof collectives / sizeof *collectives; i++)
        if (strcmp(collectives[i].name, words.collective) == 0)
            present.collective = &collectives[i];
    if (!present.collective) {
        if (rank == 0)
            fprintf(stderr, "usage: mpi_collectives NAME COLLECTIVE MIN MAX FACTOR in|out|both\n");
        MPI_Finalize();
        return 2;
    }
    if (!do_sizes(&words))
        MPI_Abort(MPI_COMM_WORLD, 1);
    MPI_Finalize();
    return 0;
}
