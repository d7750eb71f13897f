/* SPDX-License-Identifier: Apache-2.0 */
/**
 * Fabric: messages over libfabric. One code path, FI_EP_RDM with FI_MSG | FI_RMA, for every provider.
 *
 * Small messages go into receive buffers posted ahead; large ones are written straight into the receiver's buffer
 * (fi_writedata) after the receiver has announced it. No assumption is made about the order of anything between two
 * messages: the 32-bit immediate is a lane that the receiver assigned and a chunk index, and a transfer is complete
 * when all its chunks have been counted. A dead peer is *not* reported here (no RDM provider does so reliably):
 * liveness is control/'s, and an error of this transport is often only the echo of a death that control will name.
 *
 * A send of at most FABRIC_EAGER_BYTES may be complete before the peer has begun its receive; a larger one is not.
 *
 * Where hosts have several interfaces, each is a *rail*, and a pair of rails, one at each end, a *path*. Paths are
 * proven before they are used: a probe goes out at the first contact, and who answers is reached. Messages take the
 * fastest proven path, chunks of large ones all of them, in shares that follow what each has been seen to carry. A path
 * that falls silent while another one of the same peer answers fails the transport with a message that names the
 * interface.
 *
 * Threat model: the provider's frames carry no authentication. Endpoints are bound to the chosen interfaces alone,
 * everything that comes from the wire is checked against bounds, and memory can be written only under a random 64-bit
 * key (where the provider lets us choose it) that is sent to the one peer concerned. A network that others can listen
 * to needs encryption below.
 */
#ifndef WEFT_CORE_TRANSPORT_FABRIC_FABRIC_H
#define WEFT_CORE_TRANSPORT_FABRIC_FABRIC_H

#include "base/error.h"
#include "core/transport/heap/heap.h"
#include "core/transport/transport.h"

struct fabric;

#define FABRIC_ADDRESS_BYTES 64

/** Largest message that goes into a receive buffer posted ahead. */
#define FABRIC_EAGER_BYTES 16384

/** Interfaces that a rank uses side by side, at most. */
#define FABRIC_RAILS 4

/** Where a rank takes messages on one interface, and where large ones are written (the same endpoint, but over TCP). */
struct fabric_rail_endpoint {
    uint32_t address_bytes;
    uint8_t address[FABRIC_ADDRESS_BYTES];
    uint8_t bulk_address[FABRIC_ADDRESS_BYTES];
    uint8_t network[16];       /**< what the hosts on the same network have in common; zeros where nobody knows */
    uint64_t bytes_per_second; /**< what the link says of itself; 0: it does not say */
    char interface[32];
};

/** How a rank is reached over the network: travels in its endpoint. */
struct fabric_endpoint {
    char provider[32]; /**< all ranks must have opened the same */
    uint32_t rails;
    struct fabric_rail_endpoint rail[FABRIC_RAILS];
};

struct fabric_config {
    const char *provider;  /**< NULL: best of efa, verbs;ofi_rxm, net or tcp (by version), tcp;ofi_rxm */
    const char *interface; /**< name or address, or several with commas between; NULL: "lo" when `loopback_only`, else
                              the one of `reachable` (or the best) first and the other real ones beside it */
    const char *reachable; /**< address of this host that is known to reach the others, for TCP; NULL: unknown */
    bool loopback_only;    /**< all ranks are known to be on this machine */
    uint32_t rank, ranks;
    struct heap *heap;           /**< borrowed; its memory needs no fabric_register(). NULL: there is none */
    const struct fabric *former; /**< of before a failure: take its provider and interface without a new look */
};

weft_status fabric_open(const struct fabric_config *config, struct fabric **fabric, struct error *error);
void fabric_close(struct fabric *fabric);

/** After a failure: nothing arrives here any more, and nothing is waited for when it is closed. */
void fabric_abandon(struct fabric *fabric);

void fabric_endpoint_info(const struct fabric *fabric, struct fabric_endpoint *endpoint);

/** Learn the addresses of `rank`. */
weft_status fabric_connect(struct fabric *fabric, uint32_t rank, const struct fabric_endpoint *endpoint,
                           struct error *error);

/**
 * Register foreign memory, so that it need not be registered anew for every large message, and undo it. Memory must not
 * be unmapped before it is deregistered, nor deregistered while a transfer uses it.
 */
weft_status fabric_register(struct fabric *fabric, void *pointer, uint64_t bytes, struct error *error);
weft_status fabric_deregister(struct fabric *fabric, void *pointer, struct error *error);

/** A message about what was chosen and why: provider, version, interfaces and their addresses. Owned by `fabric`. */
const char *fabric_description(const struct fabric *fabric);

/** Whether peers may ask at any time which paths still lead here (there are several): it has to be driven now and then,
 * also when nothing is in flight. NULL is allowed. */
bool fabric_is_asked(const struct fabric *fabric);

/**
 * Messages over the network. Owned by `fabric`.
 *
 * Cancelling a transfer whose memory the network may still read or write closes the endpoint at once, so that nothing
 * can land there later: the fabric is then of no further use but to cancel the rest and to be closed.
 */
struct transport *fabric_transport(struct fabric *fabric);

#endif
