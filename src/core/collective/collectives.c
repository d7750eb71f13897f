/* SPDX-License-Identifier: Apache-2.0 */
/* The public collectives. Each is described once, as a call, from which the blocking and the started form are made. */
#include "core/collective/call.h"
#include "core/collective/internal/request.h"

#define PARAMETERS(...) __VA_ARGS__

/* Define `name` and `name_start`: `parameters` in parentheses, then the members of struct call. */
#define COLLECTIVE(name, parameters, ...)                                                                              \
    weft_status name(PARAMETERS parameters)                                                                            \
    {                                                                                                                  \
        const struct call call = {__VA_ARGS__};                                                                        \
        return request_run(comm, &call);                                                                               \
    }                                                                                                                  \
    weft_status name##_start(PARAMETERS parameters, weft_request **request)                                            \
    {                                                                                                                  \
        const struct call call = {__VA_ARGS__};                                                                        \
        return request_start(comm, &call, request);                                                                    \
    }

/* A rank in a call. Negative numbers become one that no communicator has, so that call_check() refuses them. */
static uint32_t rank_or_invalid(int rank)
{
    return rank < 0 ? UINT32_MAX : (uint32_t)rank;
}

static uint32_t own_rank(const weft_comm *comm)
{
    return comm ? (uint32_t)weft_comm_rank(comm) : 0;
}

COLLECTIVE(weft_allreduce, (const void *input, void *output, size_t count, weft_type type, weft_op op, weft_comm *comm),
           .collective = COLLECTIVE_ALLREDUCE, .input = input, .output = output, .count = count, .type = type, .op = op)

COLLECTIVE(weft_reduce_scatter,
           (const void *input, void *output, size_t count, weft_type type, weft_op op, weft_comm *comm),
           .collective = COLLECTIVE_REDUCE_SCATTER, .input = input, .output = output, .count = count, .type = type,
           .op = op)

COLLECTIVE(weft_allgather, (const void *input, void *output, size_t count, weft_type type, weft_comm *comm),
           .collective = COLLECTIVE_ALLGATHER, .input = input, .output = output, .count = count, .type = type)

COLLECTIVE(weft_broadcast, (void *buffer, size_t count, weft_type type, int root, weft_comm *comm),
           .collective = COLLECTIVE_BROADCAST, .input = buffer, .output = buffer, .count = count, .type = type,
           .root = rank_or_invalid(root))

COLLECTIVE(weft_reduce,
           (const void *input, void *output, size_t count, weft_type type, weft_op op, int root, weft_comm *comm),
           .collective = COLLECTIVE_REDUCE, .input = input, .output = output, .count = count, .type = type, .op = op,
           .root = rank_or_invalid(root))

COLLECTIVE(weft_scan, (const void *input, void *output, size_t count, weft_type type, weft_op op, weft_comm *comm),
           .collective = COLLECTIVE_SCAN, .input = input, .output = output, .count = count, .type = type, .op = op)

COLLECTIVE(weft_exscan, (const void *input, void *output, size_t count, weft_type type, weft_op op, weft_comm *comm),
           .collective = COLLECTIVE_EXSCAN, .input = input, .output = output, .count = count, .type = type, .op = op)

COLLECTIVE(weft_alltoall, (const void *input, void *output, size_t count, weft_type type, weft_comm *comm),
           .collective = COLLECTIVE_ALLTOALL, .input = input, .output = output, .count = count, .type = type)

COLLECTIVE(weft_gather, (const void *input, void *output, size_t count, weft_type type, int root, weft_comm *comm),
           .collective = COLLECTIVE_GATHER, .input = input, .output = output, .count = count, .type = type,
           .root = rank_or_invalid(root))

COLLECTIVE(weft_scatter, (const void *input, void *output, size_t count, weft_type type, int root, weft_comm *comm),
           .collective = COLLECTIVE_SCATTER, .input = input, .output = output, .count = count, .type = type,
           .root = rank_or_invalid(root))

COLLECTIVE(weft_allgatherv,
           (const void *input, void *output, const size_t *counts, const size_t *displacements, weft_type type,
            weft_comm *comm),
           .collective = COLLECTIVE_ALLGATHERV, .input = input, .output = output, .type = type,
           .vectors = &(struct call_vectors){.output_counts = counts, .output_displacements = displacements})

COLLECTIVE(weft_gatherv,
           (const void *input, void *output, const size_t *counts, const size_t *displacements, weft_type type,
            int root, weft_comm *comm),
           .collective = COLLECTIVE_GATHERV, .input = input, .output = output, .type = type,
           .root = rank_or_invalid(root),
           .vectors = &(struct call_vectors){.output_counts = counts, .output_displacements = displacements})

COLLECTIVE(weft_scatterv,
           (const void *input, const size_t *counts, const size_t *displacements, void *output, weft_type type,
            int root, weft_comm *comm),
           .collective = COLLECTIVE_SCATTERV, .input = input, .output = output, .type = type,
           .root = rank_or_invalid(root),
           .vectors = &(struct call_vectors){.input_counts = counts, .input_displacements = displacements})

COLLECTIVE(weft_alltoallv,
           (const void *input, const size_t *send_counts, const size_t *send_displacements, void *output,
            const size_t *receive_counts, const size_t *receive_displacements, weft_type type, weft_comm *comm),
           .collective = COLLECTIVE_ALLTOALLV, .input = input, .output = output, .type = type,
           .vectors = &(struct call_vectors){.input_counts = send_counts,
                                             .input_displacements = send_displacements,
                                             .output_counts = receive_counts,
                                             .output_displacements = receive_displacements})

COLLECTIVE(weft_barrier, (weft_comm * comm), .collective = COLLECTIVE_BARRIER)

COLLECTIVE(weft_send, (const void *input, size_t count, weft_type type, int peer, weft_comm *comm),
           .collective = COLLECTIVE_SENDRECEIVE, .input = input, .count = count, .type = type, .root = own_rank(comm),
           .peer = rank_or_invalid(peer))

COLLECTIVE(weft_receive, (void *output, size_t count, weft_type type, int peer, weft_comm *comm),
           .collective = COLLECTIVE_SENDRECEIVE, .output = output, .count = count, .type = type,
           .root = rank_or_invalid(peer), .peer = own_rank(comm))
