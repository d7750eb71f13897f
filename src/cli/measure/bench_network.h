/* SPDX-License-Identifier: Apache-2.0 */
/**
 * Bytes that a call of a collective moves between nodes, counted twice: the payload, by the transport, and everything
 * that passes the network interfaces, by the kernel. The first is compared with an algorithm's lower bound; the second
 * shows that nothing else moved.
 */
#ifndef WEFT_CLI_MEASURE_BENCH_NETWORK_H
#define WEFT_CLI_MEASURE_BENCH_NETWORK_H

#include "base/error.h"

#include <stdint.h>

/** Counters of one rank, or of its node's interfaces, at one time. */
struct bench_traffic {
    uint64_t sent, received;
};

/** Bytes per call, of the node and direction with the most and with the least. All 0 on one node. */
struct bench_network {
    double payload_most, payload_least;
    double wire_most, wire_least; /**< with headers and replies, as the kernel counts them, without loopback */
};

/** Payload that this rank has exchanged with other nodes so far. */
struct bench_traffic bench_network_payload(weft_context *context);

/** Bytes that passed the network interfaces of this rank's node so far; 0 if the kernel does not report them. */
struct bench_traffic bench_network_wire(void);

/** Compute the traffic of one call from what `calls` calls added on every rank. Collective; the same on every rank. */
weft_status bench_network_sum(weft_comm *comm, struct bench_traffic payload, struct bench_traffic wire, size_t calls,
                              struct bench_network *network, struct error *error);

#endif
