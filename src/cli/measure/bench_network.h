/* SPDX-License-Identifier: Apache-2.0 */
/**
 * What a call of a collective moves between nodes, counted twice: the payload, by the transport that sent it, and all
 * that passed the network interfaces, by the kernel. The first is compared with what an algorithm must move at the
 * least, the second shows that nothing else moved.
 */
#ifndef WEFT_CLI_MEASURE_BENCH_NETWORK_H
#define WEFT_CLI_MEASURE_BENCH_NETWORK_H

#include "base/error.h"

#include <stdint.h>

/** Counters of one rank, or of its node's interfaces, at one time. */
struct bench_traffic {
    uint64_t sent, received;
};

/** Bytes a call, of the node and direction with most, and of those with least. All 0 on one node. */
struct bench_network {
    double payload_most, payload_least;
    double wire_most, wire_least; /**< headers and answers included, as the kernel counts them; loopback is left out */
};

/** What this rank has exchanged with other nodes so far: payload of messages. */
struct bench_traffic bench_network_payload(weft_context *context);

/** What has passed the network interfaces of this rank's node so far; nothing where the kernel does not tell. */
struct bench_traffic bench_network_wire(void);

/** From what `calls` calls added on every rank to what nodes exchange in one. Collective; the same on every rank. */
weft_status bench_network_sum(weft_comm *comm, struct bench_traffic payload, struct bench_traffic wire, size_t calls,
                              struct bench_network *network, struct error *error);

#endif
