/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/bench_measure.h"

#include "base/clock.h"
#include "cli/bench_values.h"

#include <stdlib.h>
#include <string.h>

#define SETS 2 /* most sets of buffers that calls alternate between */

/* One set of buffers of one rank. `input` and `output` are what the call gets; the allocations are behind them. */
struct buffers {
    char *input, *output;
    void *input_allocation, *output_allocation;
};

/* A case with its numbers worked out. */
struct job {
    const struct bench_case *what;
    struct bench_values values;
    int rank, ranks;
    size_t size;            /* bytes of an element */
    size_t block;           /* the count argument of a call */
    size_t inputs, outputs; /* elements */
    struct buffers sets[SETS];
    size_t set_count;
};

/* How many elements a side has, in blocks. */
enum extent { NOTHING, ONE_BLOCK, BLOCK_A_RANK };

/* What the bench must know of a collective. */
struct bench_collective {
    const char *name;
    enum extent input, output;
    bool reduces, has_root;
    double (*bus_factor)(int ranks);
    weft_status (*call)(const struct job *job, const struct buffers *set);
    /* Wrong elements of this rank's output. */
    size_t (*check)(const struct job *job, const struct buffers *set);
};

/* ---- the collectives -------------------------------------------------------------------------------------------- */

static double factor_one(int ranks)
{
    return 1;
}

static double factor_share(int ranks)
{
    return (double)(ranks - 1) / ranks;
}

static double factor_twice_share(int ranks)
{
    return 2.0 * (ranks - 1) / ranks;
}

static weft_status call_allreduce(const struct job *job, const struct buffers *set)
{
    const struct bench_case *what = job->what;
    return weft_allreduce(set->input, set->output, job->block, what->type, what->op, what->comm);
}

static size_t check_allreduce(const struct job *job, const struct buffers *set)
{
    return bench_check_reduced(&job->values, 0, set->output, job->block);
}

static weft_status call_reduce_scatter(const struct job *job, const struct buffers *set)
{
    const struct bench_case *what = job->what;
    return weft_reduce_scatter(set->input, set->output, job->block, what->type, what->op, what->comm);
}

static size_t check_reduce_scatter(const struct job *job, const struct buffers *set)
{
    return bench_check_reduced(&job->values, (size_t)job->rank * job->block, set->output, job->block);
}

static weft_status call_allgather(const struct job *job, const struct buffers *set)
{
    return weft_allgather(set->input, set->output, job->block, job->what->type, job->what->comm);
}

static size_t check_allgather(const struct job *job, const struct buffers *set)
{
    size_t wrong = 0;
    for (int rank = 0; rank < job->ranks; rank++)
        wrong +=
            bench_check_moved(&job->values, rank, 0, set->output + (size_t)rank * job->block * job->size, job->block);
    return wrong;
}

static weft_status call_broadcast(const struct job *job, const struct buffers *set)
{
    return weft_broadcast(set->output, job->block, job->what->type, job->what->root, job->what->comm);
}

static size_t check_broadcast(const struct job *job, const struct buffers *set)
{
    return bench_check_moved(&job->values, job->what->root, 0, set->output, job->block);
}

static weft_status call_reduce(const struct job *job, const struct buffers *set)
{
    const struct bench_case *what = job->what;
    return weft_reduce(set->input, set->output, job->block, what->type, what->op, what->root, what->comm);
}

static size_t check_reduce(const struct job *job, const struct buffers *set)
{
    return job->rank == job->what->root ? check_allreduce(job, set) : 0;
}

static weft_status call_alltoall(const struct job *job, const struct buffers *set)
{
    return weft_alltoall(set->input, set->output, job->block, job->what->type, job->what->comm);
}

static size_t check_alltoall(const struct job *job, const struct buffers *set)
{
    size_t wrong = 0;
    for (int rank = 0; rank < job->ranks; rank++)
        wrong += bench_check_moved(&job->values, rank, (size_t)job->rank * job->block,
                                   set->output + (size_t)rank * job->block * job->size, job->block);
    return wrong;
}

static weft_status call_barrier(const struct job *job, const struct buffers *set)
{
    return weft_barrier(job->what->comm);
}

static size_t check_nothing(const struct job *job, const struct buffers *set)
{
    return 0;
}

/* Every rank sends to the next and receives from the one before. */
static weft_status call_sendreceive(const struct job *job, const struct buffers *set)
{
    const struct bench_case *what = job->what;
    int next = (job->rank + 1) % job->ranks, before = (job->rank + job->ranks - 1) % job->ranks;
    weft_status status = weft_group_start(what->context);
    if (status == WEFT_OK)
        status = weft_send(set->input, job->block, what->type, next, what->comm);
    if (status == WEFT_OK)
        status = weft_receive(set->output, job->block, what->type, before, what->comm);
    return status == WEFT_OK ? weft_group_end(what->context) : status;
}

static size_t check_sendreceive(const struct job *job, const struct buffers *set)
{
    return bench_check_moved(&job->values, (job->rank + job->ranks - 1) % job->ranks, 0, set->output, job->block);
}

static const struct bench_collective collectives[] = {
    {"allreduce", ONE_BLOCK, ONE_BLOCK, true, false, factor_twice_share, call_allreduce, check_allreduce},
    {"reduce_scatter", BLOCK_A_RANK, ONE_BLOCK, true, false, factor_share, call_reduce_scatter, check_reduce_scatter},
    {"allgather", ONE_BLOCK, BLOCK_A_RANK, false, false, factor_share, call_allgather, check_allgather},
    {"broadcast", NOTHING, ONE_BLOCK, false, true, factor_one, call_broadcast, check_broadcast},
    {"reduce", ONE_BLOCK, ONE_BLOCK, true, true, factor_one, call_reduce, check_reduce},
    {"alltoall", BLOCK_A_RANK, BLOCK_A_RANK, false, false, factor_share, call_alltoall, check_alltoall},
    {"sendreceive", ONE_BLOCK, ONE_BLOCK, false, false, factor_one, call_sendreceive, check_sendreceive},
    {"barrier", NOTHING, NOTHING, false, false, factor_one, call_barrier, check_nothing},
};

const char *const bench_collective_names[] = {"allreduce", "reduce_scatter", "allgather", "broadcast", "reduce",
                                              "alltoall",  "sendreceive",    "barrier",   NULL};

const struct bench_collective *bench_collective_find(const char *name)
{
    for (size_t i = 0; i < sizeof collectives / sizeof *collectives; i++)
        if (strcmp(collectives[i].name, name) == 0)
            return &collectives[i];
    return NULL;
}

bool bench_collective_reduces(const struct bench_collective *collective)
{
    return collective->reduces;
}

bool bench_collective_has_root(const struct bench_collective *collective)
{
    return collective->has_root;
}

bool bench_collective_has_data(const struct bench_collective *collective)
{
    return collective->output != NOTHING;
}

/* By how many blocks the bytes of a size are divided. */
static size_t blocks(const struct bench_collective *collective, int ranks)
{
    return collective->input == BLOCK_A_RANK || collective->output == BLOCK_A_RANK ? (size_t)ranks : 1;
}

size_t bench_collective_granule(const struct bench_collective *collective, weft_type type, int ranks)
{
    return weft_type_size(type) * blocks(collective, ranks);
}

/* ---- buffers ---------------------------------------------------------------------------------------------------- */

static size_t elements(const struct job *job, enum extent extent)
{
    return extent == NOTHING ? 0 : extent == ONE_BLOCK ? job->block : job->block * (size_t)job->ranks;
}

static weft_status allocate(const struct job *job, size_t count, void **allocation, struct error *error)
{
    size_t bytes = count * job->size;
    if (!bytes)
        return WEFT_OK;
    if (job->what->registered) {
        *allocation = weft_alloc(job->what->context, bytes);
        if (!*allocation)
            return error_set(error, WEFT_ERROR_MEMORY, "%s", weft_message(job->what->context));
        return WEFT_OK;
    }
    if (posix_memalign(allocation, 64, bytes) != 0)
        return error_memory(error, bytes, "the benchmark's buffers");
    memset(*allocation, 0, bytes);
    return WEFT_OK;
}

static void release(const struct job *job, void *allocation)
{
    if (job->what->registered)
        weft_free(job->what->context, allocation);
    else
        free(allocation);
}

static weft_status open_set(const struct job *job, struct buffers *set, struct error *error)
{
    size_t own = (size_t)job->rank * job->block * job->size;
    bool shared = job->what->in_place && job->inputs;
    weft_status status = allocate(job, job->outputs > job->inputs || !shared ? job->outputs : job->inputs,
                                  &set->output_allocation, error);
    if (status == WEFT_OK && !shared)
        status = allocate(job, job->inputs, &set->input_allocation, error);
    if (status != WEFT_OK)
        return status;
    set->output = set->output_allocation;
    set->input = set->input_allocation;
    if (shared) {
        /* The smaller side is this rank's block of the larger one. */
        set->input = set->output;
        if (job->inputs < job->outputs)
            set->input += own;
        else if (job->outputs < job->inputs)
            set->output += own;
    }
    return WEFT_OK;
}

static void close_sets(struct job *job)
{
    for (size_t i = 0; i < job->set_count; i++) {
        release(job, job->sets[i].input_allocation);
        release(job, job->sets[i].output_allocation);
    }
}

/* Write this rank's numbers into the set, as before a call. */
static void fill(const struct job *job, const struct buffers *set)
{
    if (job->inputs)
        bench_fill(&job->values, job->rank, 0, set->input, job->inputs);
    else if (job->outputs)
        bench_fill(&job->values, job->rank, 0, set->output, job->outputs);
}

/* ---- agreement between ranks ------------------------------------------------------------------------------------ */

static weft_status told(const struct job *job, weft_status status, struct error *error)
{
    return status == WEFT_OK ? status : error_set(error, status, "%s", weft_message(job->what->context));
}

/* `value` becomes its sum or maximum over all ranks. */
static weft_status agree(const struct job *job, double *value, weft_op op, struct error *error)
{
    double result = 0;
    weft_status status = told(job, weft_allreduce(value, &result, 1, WEFT_F64, op, job->what->comm), error);
    *value = result;
    return status;
}

static weft_status check_all(const struct job *job, double *wrong, struct error *error)
{
    *wrong = 0;
    for (size_t i = 0; i < job->set_count; i++)
        *wrong += (double)job->what->collective->check(job, &job->sets[i]);
    return agree(job, wrong, WEFT_SUM, error);
}

/* ---- timing ----------------------------------------------------------------------------------------------------- */

static weft_status run_calls(const struct job *job, size_t calls, double *seconds, double *cpu, struct error *error)
{
    weft_status status = told(job, weft_barrier(job->what->comm), error);
    uint64_t cpu_begin = clock_process_cpu(), begin = clock_now();
    for (size_t i = 0; i < calls && status == WEFT_OK; i++)
        status = told(job, job->what->collective->call(job, &job->sets[i % job->set_count]), error);
    *seconds = (double)(clock_now() - begin) * 1e-9 / (double)calls;
    *cpu = (double)(clock_process_cpu() - cpu_begin) * 1e-9 / (double)calls;
    if (status == WEFT_OK)
        status = agree(job, seconds, WEFT_SUM, error);
    if (status == WEFT_OK)
        status = agree(job, cpu, WEFT_SUM, error);
    *seconds /= job->ranks;
    *cpu /= job->ranks;
    return status;
}

/* The fastest of a few trials of `calls` calls. */
static weft_status try_calls(const struct job *job, size_t calls, double *fastest, struct error *error)
{
    weft_status status = WEFT_OK;
    for (int i = 0; i < BENCH_TRIALS && status == WEFT_OK; i++) {
        double seconds, cpu;
        status = run_calls(job, calls, &seconds, &cpu, error);
        if (i == 0 || seconds < *fastest)
            *fastest = seconds;
    }
    return status;
}

/* How many calls make a batch. All ranks have the same times, being sums over ranks, and agree. */
static weft_status choose_calls(const struct job *job, size_t *calls, struct error *error)
{
    double seconds = 0;
    weft_status status = try_calls(job, job->set_count, &seconds, error);
    if (status == WEFT_OK && seconds * BENCH_TRIAL_CALLS < BENCH_BATCH_SECONDS)
        status = try_calls(job, BENCH_TRIAL_CALLS, &seconds, error);
    double wanted = seconds > 0 ? BENCH_BATCH_SECONDS / seconds : BENCH_CALLS_MOST;
    *calls = wanted > BENCH_CALLS_MOST ? BENCH_CALLS_MOST : (size_t)wanted;
    if (*calls < job->set_count)
        *calls = job->set_count;
    return status;
}

static int by_value(const void *first, const void *second)
{
    double a = *(const double *)first, b = *(const double *)second;
    return (a > b) - (a < b);
}

static double median(double *values, size_t count)
{
    qsort(values, count, sizeof *values, by_value);
    return count % 2 ? values[count / 2] : (values[count / 2 - 1] + values[count / 2]) / 2;
}

static weft_status time_it(const struct job *job, struct bench_result *result, struct error *error)
{
    double seconds[BENCH_BATCHES], cpu[BENCH_BATCHES];
    size_t calls = 0;
    weft_status status = choose_calls(job, &calls, error);
    for (size_t i = 0; i < BENCH_BATCHES && status == WEFT_OK; i++)
        status = run_calls(job, calls, &seconds[i], &cpu[i], error);
    if (status != WEFT_OK)
        return status;
    result->seconds = median(seconds, BENCH_BATCHES);
    result->cpu_seconds = median(cpu, BENCH_BATCHES);
    result->calls = calls * BENCH_BATCHES;
    if (result->seconds > 0) {
        result->algorithm_bandwidth = (double)result->bytes / result->seconds;
        result->bus_bandwidth = result->algorithm_bandwidth * job->what->collective->bus_factor(job->ranks);
    }
    return WEFT_OK;
}

/* Fresh buffers, one call, checked; then the timing; then what it left, checked. */
static weft_status measure(const struct job *job, struct bench_result *result, struct error *error)
{
    double wrong_first = 0, wrong_last = 0;
    for (size_t i = 0; i < job->set_count; i++)
        fill(job, &job->sets[i]);
    weft_status status = told(job, weft_barrier(job->what->comm), error);
    for (size_t i = 0; i < job->set_count && status == WEFT_OK; i++)
        status = told(job, job->what->collective->call(job, &job->sets[i]), error);
    if (status == WEFT_OK)
        status = check_all(job, &wrong_first, error);
    if (status == WEFT_OK)
        status = time_it(job, result, error);
    if (status == WEFT_OK && !job->what->in_place)
        status = check_all(job, &wrong_last, error);
    result->errors = (size_t)(wrong_first + wrong_last);
    return status;
}

weft_status bench_measure(const struct bench_case *what, struct bench_result *result, struct error *error)
{
    const struct bench_collective *collective = what->collective;
    struct job job = {
        .what = what,
        .rank = weft_comm_rank(what->comm),
        .ranks = weft_comm_size(what->comm),
        .size = weft_type_size(what->type),
        .set_count = what->bytes >= BENCH_ALTERNATE_BYTES ? SETS : 1,
    };
    size_t whole = blocks(collective, job.ranks);
    job.values = (struct bench_values){what->type, collective->reduces ? what->op : WEFT_MAX, job.ranks};
    job.block = collective->output == NOTHING ? 0 : what->bytes / job.size / whole;
    job.inputs = elements(&job, collective->input);
    job.outputs = elements(&job, collective->output);
    *result = (struct bench_result){.bytes = job.block * whole * job.size, .count = job.block};

    weft_status status = WEFT_OK;
    for (size_t i = 0; i < job.set_count && status == WEFT_OK; i++)
        status = open_set(&job, &job.sets[i], error);
    if (status == WEFT_OK)
        status = measure(&job, result, error);
    close_sets(&job);
    return status;
}
