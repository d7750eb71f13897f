/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/measure/bench_measure.h"

#include "base/clock.h"
#include "cli/frame/command.h"
#include "cli/measure/bench_timing.h"

#include <stdlib.h>

#define COUNTED_BYTES ((size_t)4 << 20) /* between nodes, traffic is counted over calls of this many bytes in total */

/* Memory for one call, of the largest size. In place only the larger of the two is used. */
struct buffers {
    void *input, *output;
};

struct bench {
    const struct bench_case *what;
    struct buffers sets[BENCH_SETS];
    /* of the current size */
    struct bench_call calls[BENCH_SETS];
    size_t set_count;
    struct error *error; /* of a call that failed */
};

/* ---- buffers ---- */

/* Bytes of a side, of a size of `bytes`. */
static size_t side_bytes(const struct bench_case *what, enum bench_extent extent, size_t bytes)
{
    size_t blocks = bench_collective_blocks(what->collective, weft_comm_size(what->comm));
    return extent == BENCH_NOTHING ? 0 : extent == BENCH_ONE_BLOCK ? bytes / blocks : bytes;
}

static weft_status bench_measure_allocate(const struct bench_case *what, size_t bytes, void **allocation,
                                          struct error *error)
{
    if (!bytes)
        return WEFT_OK;
    if (what->registered) {
        *allocation = weft_alloc(what->context, bytes);
        return *allocation ? WEFT_OK : error_set(error, WEFT_ERROR_MEMORY, "%s", weft_message(what->context));
    }
    /* Its pages are touched as sizes grow: first by the numbers that are filled in and by the call that is checked. */
    if (posix_memalign(allocation, 64, bytes) != 0)
        return error_memory(error, bytes, "the benchmark's buffers");
    return WEFT_OK;
}

static void bench_measure_release(const struct bench_case *what, void *allocation)
{
    if (what->registered)
        weft_free(what->context, allocation);
    else
        free(allocation);
}

weft_status bench_open(const struct bench_case *what, struct bench **result, struct error *error)
{
    struct bench *bench = calloc(1, sizeof *bench);
    if (!bench)
        return error_memory(error, sizeof *bench, "the benchmark");
    bench->what = what;
    size_t input = side_bytes(what, what->collective->input, what->most_bytes);
    size_t output = side_bytes(what, what->collective->output, what->most_bytes);
    if (what->in_place && input > output)
        output = input;
    if (!what->out_of_place)
        input = 0;
    weft_status status = WEFT_OK;
    size_t sets = what->most_bytes >= BENCH_ALTERNATE_BYTES ? BENCH_SETS : 1;
    for (size_t i = 0; i < sets && status == WEFT_OK; i++) {
        status = bench_measure_allocate(what, output, &bench->sets[i].output, error);
        if (status == WEFT_OK)
            status = bench_measure_allocate(what, input, &bench->sets[i].input, error);
    }
    if (status != WEFT_OK) {
        bench_close(bench);
        return status;
    }
    *result = bench;
    return WEFT_OK;
}

void bench_close(struct bench *bench)
{
    for (size_t i = 0; bench && i < BENCH_SETS; i++) {
        bench_measure_release(bench->what, bench->sets[i].input);
        bench_measure_release(bench->what, bench->sets[i].output);
    }
    free(bench);
}

/* Prepare the calls of a size. */
static void bench_measure_bind(struct bench *bench, size_t bytes, bool in_place)
{
    const struct bench_case *what = bench->what;
    const struct bench_collective *collective = what->collective;
    struct bench_call call = {
        .context = what->context,
        .comm = what->comm,
        .rank = weft_comm_rank(what->comm),
        .ranks = weft_comm_size(what->comm),
        .root = what->root,
        .size = weft_type_size(what->type),
    };
    call.values = (struct bench_values){what->type, collective->reduces ? what->op : WEFT_MAX, call.ranks};
    if (bench_collective_has_data(collective))
        call.block = bytes / call.size / bench_collective_blocks(collective, call.ranks);
    size_t own = (size_t)call.rank * call.block * call.size;
    bench->set_count = bytes >= BENCH_ALTERNATE_BYTES ? BENCH_SETS : 1;
    for (size_t i = 0; i < bench->set_count; i++) {
        call.output = bench->sets[i].output;
        call.input = collective->input == BENCH_NOTHING ? NULL : in_place ? call.output : bench->sets[i].input;
        /* In place the smaller side is this rank's block of the larger one. */
        if (in_place && call.input && collective->input < collective->output)
            call.input += own;
        else if (in_place && call.input && collective->input > collective->output)
            call.output += own;
        bench->calls[i] = call;
    }
}

/* Write this rank's numbers, as before a call. */
static void bench_measure_fill(const struct bench_collective *collective, const struct bench_call *call)
{
    bool has_input = collective->input != BENCH_NOTHING;
    enum bench_extent extent = has_input ? collective->input : collective->output;
    size_t blocks = extent == BENCH_NOTHING ? 0 : extent == BENCH_ONE_BLOCK ? 1 : (size_t)call->ranks;
    bench_fill(&call->values, call->rank, 0, has_input ? call->input : call->output, blocks * call->block);
}

/* ---- agreement between ranks ---- */

static weft_status sum(const struct bench *bench, double *values, size_t count, struct error *error)
{
    return command_check(bench->what->context,
                         weft_allreduce(values, values, count, WEFT_F64, WEFT_SUM, bench->what->comm), error);
}

/* Adds the wrong elements of all ranks' outputs to `errors`. */
static weft_status bench_measure_check(const struct bench *bench, size_t *errors, struct error *error)
{
    double wrong = 0;
    for (size_t i = 0; i < bench->set_count; i++)
        wrong += (double)bench->what->collective->check(&bench->calls[i]);
    weft_status status = sum(bench, &wrong, 1, error);
    *errors += (size_t)wrong;
    return status;
}

/* ---- measuring ---- */

static bool run_calls(void *subject, size_t calls, double *seconds, double *cpu)
{
    struct bench *bench = subject;
    weft_status (*run)(const struct bench_call *) = bench->what->collective->run;
    weft_status status = command_check(bench->what->context, weft_barrier(bench->what->comm), bench->error);
    uint64_t cpu_begin = clock_process_cpu(), begin = clock_now();
    for (size_t i = 0; i < calls && status == WEFT_OK; i++)
        status = command_check(bench->what->context, run(&bench->calls[i % bench->set_count]), bench->error);
    double taken[] = {(double)(clock_now() - begin), (double)(clock_process_cpu() - cpu_begin)};
    if (status == WEFT_OK)
        status = sum(bench, taken, 2, bench->error);
    double over = 1e-9 / (double)calls / weft_comm_size(bench->what->comm);
    *seconds = taken[0] * over;
    *cpu = taken[1] * over;
    return status == WEFT_OK;
}

static weft_status time_it(struct bench *bench, struct bench_result *result, struct error *error)
{
    struct bench_times times;
    bench->error = error;
    if (!bench_time(&(struct bench_timed){run_calls, bench, bench->set_count}, &times))
        return error->status;
    result->seconds = times.seconds;
    result->cpu_seconds = times.cpu_seconds;
    result->calls = times.calls;
    if (result->seconds > 0) {
        result->algorithm_bandwidth = (double)result->bytes / result->seconds;
        result->bus_bandwidth =
            result->algorithm_bandwidth * bench->what->collective->bus_factor(weft_comm_size(bench->what->comm));
    }
    return WEFT_OK;
}

/* Bytes between nodes, over calls with nothing else between them. */
static weft_status bench_measure_count_traffic(const struct bench *bench, struct bench_result *result,
                                               struct error *error)
{
    weft_comm *comm = bench->what->comm;
    size_t calls = 1 + COUNTED_BYTES / (result->bytes + COUNTED_BYTES / 64);
    if (weft_comm_nodes(comm) == 1)
        return WEFT_OK;
    /* The first barrier ends earlier traffic; the second waits for faster ranks that share this node's interface. */
    weft_status status = command_check(bench->what->context, weft_barrier(comm), error);
    struct bench_traffic wire = bench_network_wire();
    if (status == WEFT_OK)
        status = command_check(bench->what->context, weft_barrier(comm), error);
    struct bench_traffic payload = bench_network_payload(bench->what->context);
    for (size_t i = 0; i < calls && status == WEFT_OK; i++)
        status = command_check(bench->what->context, bench->what->collective->run(&bench->calls[i % bench->set_count]),
                               error);
    struct bench_traffic payload_end = bench_network_payload(bench->what->context);
    if (status == WEFT_OK)
        status = command_check(bench->what->context, weft_barrier(comm), error); /* what was sent has arrived */
    struct bench_traffic wire_end = bench_network_wire();
    if (status != WEFT_OK)
        return status;
    payload = (struct bench_traffic){payload_end.sent - payload.sent, payload_end.received - payload.received};
    wire = (struct bench_traffic){wire_end.sent - wire.sent, wire_end.received - wire.received};
    return bench_network_sum(comm, payload, wire, calls, &result->network, error);
}

weft_status bench_measure(struct bench *bench, size_t bytes, bool in_place, struct bench_result *result,
                          struct error *error)
{
    const struct bench_collective *collective = bench->what->collective;
    bench_measure_bind(bench, bytes, in_place);
    const struct bench_call *first = &bench->calls[0];
    *result = (struct bench_result){
        .bytes = first->block * first->size * bench_collective_blocks(collective, first->ranks), .count = first->block};
    for (size_t i = 0; i < bench->set_count; i++)
        bench_measure_fill(collective, &bench->calls[i]);
    weft_status status = command_check(bench->what->context, weft_barrier(bench->what->comm), error);
    for (size_t i = 0; i < bench->set_count && status == WEFT_OK; i++)
        status = command_check(bench->what->context, collective->run(&bench->calls[i]), error);
    if (status == WEFT_OK)
        status = bench_measure_check(bench, &result->errors, error);
    if (status == WEFT_OK)
        status = time_it(bench, result, error);
    if (status == WEFT_OK)
        status = bench_measure_count_traffic(bench, result, error);
    if (status == WEFT_OK && !in_place)
        status = bench_measure_check(bench, &result->errors, error);
    return status;
}
