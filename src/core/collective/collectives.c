/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The public collectives: each fills in a call and hands it to request.c. Blocking and started forms stand together, so
 * that they cannot differ.
 */
#include "core/collective/call.h"
#include "core/collective/internal/request.h"

/* A communicator's rank as a call has it: a negative number becomes one that no communicator has. */
static uint32_t collectives_rank_of(int rank)
{
    return rank < 0 ? UINT32_MAX : (uint32_t)rank;
}

static uint32_t own_rank(const weft_comm *comm)
{
    return comm ? (uint32_t)weft_comm_rank(comm) : 0;
}

weft_status weft_allreduce(const void *input, void *output, size_t count, weft_type type, weft_op op, weft_comm *comm)
{
    const struct call call = {
        .collective = COLLECTIVE_ALLREDUCE, .input = input, .output = output, .count = count, .type = type, .op = op};
    return request_run(comm, &call);
}

weft_status weft_allreduce_start(const void *input, void *output, size_t count, weft_type type, weft_op op,
                                 weft_comm *comm, weft_request **request)
{
    const struct call call = {
        .collective = COLLECTIVE_ALLREDUCE, .input = input, .output = output, .count = count, .type = type, .op = op};
    return request_start(comm, &call, request);
}

weft_status weft_reduce_scatter(const void *input, void *output, size_t count, weft_type type, weft_op op,
                                weft_comm *comm)
{
    const struct call call = {.collective = COLLECTIVE_REDUCE_SCATTER,
                              .input = input,
                              .output = output,
                              .count = count,
                              .type = type,
                              .op = op};
    return request_run(comm, &call);
}

weft_status weft_reduce_scatter_start(const void *input, void *output, size_t count, weft_type type, weft_op op,
                                      weft_comm *comm, weft_request **request)
{
    const struct call call = {.collective = COLLECTIVE_REDUCE_SCATTER,
                              .input = input,
                              .output = output,
                              .count = count,
                              .type = type,
                              .op = op};
    return request_start(comm, &call, request);
}

weft_status weft_allgather(const void *input, void *output, size_t count, weft_type type, weft_comm *comm)
{
    const struct call call = {
        .collective = COLLECTIVE_ALLGATHER, .input = input, .output = output, .count = count, .type = type};
    return request_run(comm, &call);
}

weft_status weft_allgather_start(const void *input, void *output, size_t count, weft_type type, weft_comm *comm,
                                 weft_request **request)
{
    const struct call call = {
        .collective = COLLECTIVE_ALLGATHER, .input = input, .output = output, .count = count, .type = type};
    return request_start(comm, &call, request);
}

weft_status weft_broadcast(void *buffer, size_t count, weft_type type, int root, weft_comm *comm)
{
    const struct call call = {.collective = COLLECTIVE_BROADCAST,
                              .input = buffer,
                              .output = buffer,
                              .count = count,
                              .type = type,
                              .root = collectives_rank_of(root)};
    return request_run(comm, &call);
}

weft_status weft_broadcast_start(void *buffer, size_t count, weft_type type, int root, weft_comm *comm,
                                 weft_request **request)
{
    const struct call call = {.collective = COLLECTIVE_BROADCAST,
                              .input = buffer,
                              .output = buffer,
                              .count = count,
                              .type = type,
                              .root = collectives_rank_of(root)};
    return request_start(comm, &call, request);
}

weft_status weft_reduce(const void *input, void *output, size_t count, weft_type type, weft_op op, int root,
                        weft_comm *comm)
{
    const struct call call = {.collective = COLLECTIVE_REDUCE,
                              .input = input,
                              .output = output,
                              .count = count,
                              .type = type,
                              .op = op,
                              .root = collectives_rank_of(root)};
    return request_run(comm, &call);
}

weft_status weft_reduce_start(const void *input, void *output, size_t count, weft_type type, weft_op op, int root,
                              weft_comm *comm, weft_request **request)
{
    const struct call call = {.collective = COLLECTIVE_REDUCE,
                              .input = input,
                              .output = output,
                              .count = count,
                              .type = type,
                              .op = op,
                              .root = collectives_rank_of(root)};
    return request_start(comm, &call, request);
}

weft_status weft_alltoall(const void *input, void *output, size_t count, weft_type type, weft_comm *comm)
{
    const struct call call = {
        .collective = COLLECTIVE_ALLTOALL, .input = input, .output = output, .count = count, .type = type};
    return request_run(comm, &call);
}

weft_status weft_alltoall_start(const void *input, void *output, size_t count, weft_type type, weft_comm *comm,
                                weft_request **request)
{
    const struct call call = {
        .collective = COLLECTIVE_ALLTOALL, .input = input, .output = output, .count = count, .type = type};
    return request_start(comm, &call, request);
}

weft_status weft_gather(const void *input, void *output, size_t count, weft_type type, int root, weft_comm *comm)
{
    const struct call call = {.collective = COLLECTIVE_GATHER,
                              .input = input,
                              .output = output,
                              .count = count,
                              .type = type,
                              .root = collectives_rank_of(root)};
    return request_run(comm, &call);
}

weft_status weft_gather_start(const void *input, void *output, size_t count, weft_type type, int root, weft_comm *comm,
                              weft_request **request)
{
    const struct call call = {.collective = COLLECTIVE_GATHER,
                              .input = input,
                              .output = output,
                              .count = count,
                              .type = type,
                              .root = collectives_rank_of(root)};
    return request_start(comm, &call, request);
}

weft_status weft_scatter(const void *input, void *output, size_t count, weft_type type, int root, weft_comm *comm)
{
    const struct call call = {.collective = COLLECTIVE_SCATTER,
                              .input = input,
                              .output = output,
                              .count = count,
                              .type = type,
                              .root = collectives_rank_of(root)};
    return request_run(comm, &call);
}

weft_status weft_scatter_start(const void *input, void *output, size_t count, weft_type type, int root, weft_comm *comm,
                               weft_request **request)
{
    const struct call call = {.collective = COLLECTIVE_SCATTER,
                              .input = input,
                              .output = output,
                              .count = count,
                              .type = type,
                              .root = collectives_rank_of(root)};
    return request_start(comm, &call, request);
}

weft_status weft_allgatherv(const void *input, void *output, const size_t *counts, const size_t *displacements,
                            weft_type type, weft_comm *comm)
{
    const struct call_vectors vectors = {.output_counts = counts, .output_displacements = displacements};
    const struct call call = {
        .vectors = &vectors, .collective = COLLECTIVE_ALLGATHERV, .input = input, .output = output, .type = type};
    return request_run(comm, &call);
}

weft_status weft_allgatherv_start(const void *input, void *output, const size_t *counts, const size_t *displacements,
                                  weft_type type, weft_comm *comm, weft_request **request)
{
    const struct call_vectors vectors = {.output_counts = counts, .output_displacements = displacements};
    const struct call call = {
        .vectors = &vectors, .collective = COLLECTIVE_ALLGATHERV, .input = input, .output = output, .type = type};
    return request_start(comm, &call, request);
}

weft_status weft_gatherv(const void *input, void *output, const size_t *counts, const size_t *displacements,
                         weft_type type, int root, weft_comm *comm)
{
    const struct call_vectors vectors = {.output_counts = counts, .output_displacements = displacements};
    const struct call call = {.vectors = &vectors,
                              .collective = COLLECTIVE_GATHERV,
                              .input = input,
                              .output = output,
                              .type = type,
                              .root = collectives_rank_of(root)};
    return request_run(comm, &call);
}

weft_status weft_gatherv_start(const void *input, void *output, const size_t *counts, const size_t *displacements,
                               weft_type type, int root, weft_comm *comm, weft_request **request)
{
    const struct call_vectors vectors = {.output_counts = counts, .output_displacements = displacements};
    const struct call call = {.vectors = &vectors,
                              .collective = COLLECTIVE_GATHERV,
                              .input = input,
                              .output = output,
                              .type = type,
                              .root = collectives_rank_of(root)};
    return request_start(comm, &call, request);
}

weft_status weft_alltoallv(const void *input, const size_t *send_counts, const size_t *send_displacements, void *output,
                           const size_t *receive_counts, const size_t *receive_displacements, weft_type type,
                           weft_comm *comm)
{
    const struct call_vectors vectors = {.input_counts = send_counts,
                                         .input_displacements = send_displacements,
                                         .output_counts = receive_counts,
                                         .output_displacements = receive_displacements};
    const struct call call = {
        .vectors = &vectors, .collective = COLLECTIVE_ALLTOALLV, .input = input, .output = output, .type = type};
    return request_run(comm, &call);
}

weft_status weft_alltoallv_start(const void *input, const size_t *send_counts, const size_t *send_displacements,
                                 void *output, const size_t *receive_counts, const size_t *receive_displacements,
                                 weft_type type, weft_comm *comm, weft_request **request)
{
    const struct call_vectors vectors = {.input_counts = send_counts,
                                         .input_displacements = send_displacements,
                                         .output_counts = receive_counts,
                                         .output_displacements = receive_displacements};
    const struct call call = {
        .vectors = &vectors, .collective = COLLECTIVE_ALLTOALLV, .input = input, .output = output, .type = type};
    return request_start(comm, &call, request);
}

weft_status weft_barrier(weft_comm *comm)
{
    const struct call call = {.collective = COLLECTIVE_BARRIER};
    return request_run(comm, &call);
}

weft_status weft_barrier_start(weft_comm *comm, weft_request **request)
{
    const struct call call = {.collective = COLLECTIVE_BARRIER};
    return request_start(comm, &call, request);
}

weft_status weft_send(const void *input, size_t count, weft_type type, int peer, weft_comm *comm)
{
    const struct call call = {.collective = COLLECTIVE_SENDRECEIVE,
                              .input = input,
                              .count = count,
                              .type = type,
                              .root = own_rank(comm),
                              .peer = collectives_rank_of(peer)};
    return request_run(comm, &call);
}

weft_status weft_send_start(const void *input, size_t count, weft_type type, int peer, weft_comm *comm,
                            weft_request **request)
{
    const struct call call = {.collective = COLLECTIVE_SENDRECEIVE,
                              .input = input,
                              .count = count,
                              .type = type,
                              .root = own_rank(comm),
                              .peer = collectives_rank_of(peer)};
    return request_start(comm, &call, request);
}

weft_status weft_receive(void *output, size_t count, weft_type type, int peer, weft_comm *comm)
{
    const struct call call = {.collective = COLLECTIVE_SENDRECEIVE,
                              .output = output,
                              .count = count,
                              .type = type,
                              .root = collectives_rank_of(peer),
                              .peer = own_rank(comm)};
    return request_run(comm, &call);
}

weft_status weft_receive_start(void *output, size_t count, weft_type type, int peer, weft_comm *comm,
                               weft_request **request)
{
    const struct call call = {.collective = COLLECTIVE_SENDRECEIVE,
                              .output = output,
                              .count = count,
                              .type = type,
                              .root = collectives_rank_of(peer),
                              .peer = own_rank(comm)};
    return request_start(comm, &call, request);
}
