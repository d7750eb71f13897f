/* SPDX-License-Identifier: Apache-2.0 */
/**
 * Fabric: messages over libfabric. One code path, FI_EP_RDM with FI_MSG | FI_RMA, for every provider.
 *
 * Small messages go into receive buffers posted ahead; large ones are written straight into the receiver's buffer
 * (fi_writedata) after the receiver has announced it. No assumption is made about the order of anything between two messages:
 * the 32-bit immediate is a lane that the receiver assigned and a chunk index, and a transfer is complete when all its
 * chunks have been counted. A dead peer is *not* reported here (no RDM provider does so reliably): liveness is control/'s.
 */
#ifndef WEFT_TRANSPORT_FABRIC_H
#define WEFT_TRANSPORT_FABRIC_H

#include "base/error.h"
#include "transport/heap.h"
#include "transport/transport.h"

struct fabric;

#define FABRIC_ADDRESS_BYTES 64

/** A rank's endpoint: travels in its card. */
struct fabric_card {
    uint32_t address_bytes;
    uint8_t address[FABRIC_ADDRESS_BYTES];
    char provider[32]; /**< all ranks must have opened the same */
};

struct fabric_config {
    const char *provider;  /**< NULL: best of efa, verbs;ofi_rxm, net or tcp (by version), tcp;ofi_rxm */
    const char *interface; /**< NULL: best that is up; "lo" when `loopback_only` */
    bool loopback_only;    /**< all ranks are known to be on this machine */
    uint32_t rank, ranks;
    struct heap *heap;     /**< borrowed; registered as a whole so that scratch and weft_alloc() memory go in place */
};

weft_status fabric_open(const struct fabric_config *config, struct fabric **fabric, struct error *error);
void fabric_close(struct fabric *fabric);
void fabric_card(const struct fabric *fabric, struct fabric_card *card);

/** Learn the address of `rank`. */
weft_status fabric_connect(struct fabric *fabric, uint32_t rank, const struct fabric_card *card, struct error *error);

/** Register foreign memory for sending in place, and undo it. */
weft_status fabric_register(struct fabric *fabric, void *pointer, uint64_t bytes, struct error *error);
weft_status fabric_deregister(struct fabric *fabric, void *pointer, struct error *error);

/** A sentence about what was chosen and why: provider, interface, address, version. Owned by `fabric`. */
const char *fabric_description(const struct fabric *fabric);

/** Messages over the network. Owned by `fabric`. */
struct transport *fabric_transport(struct fabric *fabric);

#endif
