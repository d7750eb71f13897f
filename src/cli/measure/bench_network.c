/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/measure/bench_network.h"

#include "base/file/file.h"
#include "core/collective/communicator/comm.h"
#include "core/collective/communicator/context.h"
#include "observe/proc/kernel_tables.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>

#define TABLE_BYTES 65536 /* hundreds of interfaces */

struct bench_traffic bench_network_payload(weft_context *context)
{
    struct transport_counters counters[CONTEXT_TRANSPORTS];
    context_counters(context, counters);
    return (struct bench_traffic){counters[CONTEXT_FABRIC].bytes_sent, counters[CONTEXT_FABRIC].bytes_received};
}

/* /proc/self/net/dev shows this process's network namespace; /sys may show another. */
struct bench_traffic bench_network_wire(void)
{
    struct bench_traffic traffic = {0};
    struct kernel_traffic interface;
    char text[TABLE_BYTES];
    const char *rest = text;
    file_read_small(AT_FDCWD, "/proc/self/net/dev", text, sizeof text);
    while (kernel_interface_next(&rest, &interface)) {
        if (strcmp(interface.name, "lo") == 0)
            continue;
        traffic.received += interface.in;
        traffic.sent += interface.out;
    }
    return traffic;
}

static void bench_network_count(double bytes, double *most, double *least, bool first)
{
    *most = first || bytes > *most ? bytes : *most;
    *least = first || bytes < *least ? bytes : *least;
}

weft_status bench_network_sum(weft_comm *comm, struct bench_traffic payload, struct bench_traffic wire, size_t calls,
                              struct bench_network *network, struct error *error)
{
    struct {
        struct bench_traffic payload, wire;
    } mine = {payload, wire}, *all = calloc(comm->size, sizeof mine);
    *network = (struct bench_network){0};
    if (!all)
        return error_memory(error, comm->size * sizeof mine, "the traffic of all ranks");
    weft_status status = weft_allgather(&mine, all, sizeof mine, WEFT_U8, comm);
    if (status != WEFT_OK)
        error_set(error, status, "%s", weft_message(comm->context));
    for (uint32_t node = 0; status == WEFT_OK && node < comm->node_count; node++) {
        struct bench_traffic sum = {0}, passed = {0};
        for (uint32_t rank = 0; rank < comm->size; rank++) {
            if (comm->nodes[rank] != node)
                continue;
            sum.sent += all[rank].payload.sent;
            sum.received += all[rank].payload.received;
            passed = all[rank].wire; /* every rank of a node sees the same interfaces */
        }
        bench_network_count((double)sum.sent / (double)calls, &network->payload_most, &network->payload_least,
                            node == 0);
        bench_network_count((double)sum.received / (double)calls, &network->payload_most, &network->payload_least,
                            false);
        bench_network_count((double)passed.sent / (double)calls, &network->wire_most, &network->wire_least, node == 0);
        bench_network_count((double)passed.received / (double)calls, &network->wire_most, &network->wire_least, false);
    }
    free(all);
    return status;
}
