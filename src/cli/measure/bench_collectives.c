/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/measure/bench_collectives.h"

#include <string.h>

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

static weft_status run_allreduce(const struct bench_call *call)
{
    return weft_allreduce(call->input, call->output, call->block, call->values.type, call->values.op, call->comm);
}

static size_t check_allreduce(const struct bench_call *call)
{
    return bench_check_reduced(&call->values, call->ranks, 0, call->output, call->block);
}

static weft_status run_reduce_scatter(const struct bench_call *call)
{
    return weft_reduce_scatter(call->input, call->output, call->block, call->values.type, call->values.op, call->comm);
}

static size_t check_reduce_scatter(const struct bench_call *call)
{
    return bench_check_reduced(&call->values, call->ranks, (size_t)call->rank * call->block, call->output, call->block);
}

/* Block r of the output against elements from `first` on of rank r's input, for all r. */
static size_t check_blocks(const struct bench_call *call, size_t first)
{
    size_t wrong = 0;
    for (int rank = 0; rank < call->ranks; rank++)
        wrong += bench_check_moved(&call->values, rank, first, call->output + (size_t)rank * call->block * call->size,
                                   call->block);
    return wrong;
}

static weft_status run_allgather(const struct bench_call *call)
{
    return weft_allgather(call->input, call->output, call->block, call->values.type, call->comm);
}

static size_t check_allgather(const struct bench_call *call)
{
    return check_blocks(call, 0);
}

static weft_status run_broadcast(const struct bench_call *call)
{
    return weft_broadcast(call->output, call->block, call->values.type, call->root, call->comm);
}

static size_t check_broadcast(const struct bench_call *call)
{
    return bench_check_moved(&call->values, call->root, 0, call->output, call->block);
}

static weft_status run_reduce(const struct bench_call *call)
{
    return weft_reduce(call->input, call->output, call->block, call->values.type, call->values.op, call->root,
                       call->comm);
}

static size_t check_reduce(const struct bench_call *call)
{
    return call->rank == call->root ? check_allreduce(call) : 0;
}

static weft_status run_scan(const struct bench_call *call)
{
    return weft_scan(call->input, call->output, call->block, call->values.type, call->values.op, call->comm);
}

static size_t check_scan(const struct bench_call *call)
{
    return bench_check_reduced(&call->values, call->rank + 1, 0, call->output, call->block);
}

static weft_status run_exscan(const struct bench_call *call)
{
    return weft_exscan(call->input, call->output, call->block, call->values.type, call->values.op, call->comm);
}

static size_t check_exscan(const struct bench_call *call)
{
    return call->rank == 0 ? 0 : bench_check_reduced(&call->values, call->rank, 0, call->output, call->block);
}

static weft_status run_alltoall(const struct bench_call *call)
{
    return weft_alltoall(call->input, call->output, call->block, call->values.type, call->comm);
}

static size_t check_alltoall(const struct bench_call *call)
{
    return check_blocks(call, (size_t)call->rank * call->block);
}

/* Every rank sends to the next and receives from the one before. */
static weft_status run_sendreceive(const struct bench_call *call)
{
    int next = (call->rank + 1) % call->ranks, before = (call->rank + call->ranks - 1) % call->ranks;
    weft_status status = weft_group_start(call->context);
    if (status == WEFT_OK)
        status = weft_send(call->input, call->block, call->values.type, next, call->comm);
    if (status == WEFT_OK)
        status = weft_receive(call->output, call->block, call->values.type, before, call->comm);
    return status == WEFT_OK ? weft_group_end(call->context) : status;
}

static size_t check_sendreceive(const struct bench_call *call)
{
    return bench_check_moved(&call->values, (call->rank + call->ranks - 1) % call->ranks, 0, call->output, call->block);
}

static weft_status run_barrier(const struct bench_call *call)
{
    return weft_barrier(call->comm);
}

static size_t check_nothing(const struct bench_call *call)
{
    return 0;
}

static const struct bench_collective collectives[] = {
    {"allreduce", BENCH_ONE_BLOCK, BENCH_ONE_BLOCK, true, false, BENCH_EITHER_PLACE, factor_twice_share, run_allreduce,
     check_allreduce},
    {"reduce_scatter", BENCH_BLOCK_A_RANK, BENCH_ONE_BLOCK, true, false, BENCH_EITHER_PLACE, factor_share,
     run_reduce_scatter, check_reduce_scatter},
    {"allgather", BENCH_ONE_BLOCK, BENCH_BLOCK_A_RANK, false, false, BENCH_EITHER_PLACE, factor_share, run_allgather,
     check_allgather},
    {"broadcast", BENCH_NOTHING, BENCH_ONE_BLOCK, false, true, BENCH_IN_PLACE_ONLY, factor_one, run_broadcast,
     check_broadcast},
    {"reduce", BENCH_ONE_BLOCK, BENCH_ONE_BLOCK, true, true, BENCH_EITHER_PLACE, factor_one, run_reduce, check_reduce},
    {"scan", BENCH_ONE_BLOCK, BENCH_ONE_BLOCK, true, false, BENCH_EITHER_PLACE, factor_one, run_scan, check_scan},
    {"exscan", BENCH_ONE_BLOCK, BENCH_ONE_BLOCK, true, false, BENCH_EITHER_PLACE, factor_one, run_exscan, check_exscan},
    {"alltoall", BENCH_BLOCK_A_RANK, BENCH_BLOCK_A_RANK, false, false, BENCH_EITHER_PLACE, factor_share, run_alltoall,
     check_alltoall},
    {"sendreceive", BENCH_ONE_BLOCK, BENCH_ONE_BLOCK, false, false, BENCH_OUT_OF_PLACE_ONLY, factor_one,
     run_sendreceive, check_sendreceive},
    {"barrier", BENCH_NOTHING, BENCH_NOTHING, false, false, BENCH_IN_PLACE_ONLY, factor_one, run_barrier,
     check_nothing},
};

const char *const bench_collective_names[] = {"allreduce",   "reduce_scatter", "allgather", "broadcast",
                                              "reduce",      "scan",           "exscan",    "alltoall",
                                              "sendreceive", "barrier",        NULL};

const struct bench_collective *bench_collective_find(const char *name)
{
    for (size_t i = 0; i < sizeof collectives / sizeof *collectives; i++)
        if (strcmp(collectives[i].name, name) == 0)
            return &collectives[i];
    return NULL;
}

bool bench_collective_has_data(const struct bench_collective *collective)
{
    return collective->output != BENCH_NOTHING;
}

size_t bench_collective_blocks(const struct bench_collective *collective, int ranks)
{
    bool many = collective->input == BENCH_BLOCK_A_RANK || collective->output == BENCH_BLOCK_A_RANK;
    return many ? (size_t)ranks : 1;
}

size_t bench_collective_granule(const struct bench_collective *collective, weft_type type, int ranks)
{
    return weft_type_size(type) * bench_collective_blocks(collective, ranks);
}
