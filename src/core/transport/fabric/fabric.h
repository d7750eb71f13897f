/* SPDX-License-Identifier: Apache-2.0 */
/**
 * Fabric: messages over libfabric. One code path, FI_EP_RDM with FI_MSG | FI_RMA, for every provider.
 *
 * Small messages go into receive buffers posted ahead; large ones are written straight into the receiver's buffer
 * (fi_writedata) after the receiver has announced it. No assumption is made about the order of anything between two
 * messages: the 32-bit immediate is a lane that the receiver assigned and a chunk index, and a transfer is complete
 * when all its chunks have been counted. A dead peer is *not* reported here (no RDM provider does so reliably):
 * control/ detects it, and an error of this transport is often only a consequence of a death that control/ will report.
 *
 * A send of at most FABRIC_EAGER_BYTES may be complete before the peer has begun its receive; a larger one is not.
 *
 * Where hosts have several interfaces, each is a *rail*, and a pair of rails, one at each end, a *path*. Paths are
 * verified before they are used: a probe is sent at the first contact, and paths that are answered are used. Messages
 * take the fastest verified path. Chunks of large ones are spread over all verified paths in proportion to their
 * observed rates. A path that stops answering while another one to the same peer answers fails the transport with a
 * message that names the interface.
 *
 * Threat model: the provider's frames carry no authentication. Endpoints are bound to the chosen interfaces alone,
 * everything that comes from the wire is checked against bounds, and memory can be written only under a random 64-bit
 * key (where the provider lets the caller choose it) that is sent to the one peer concerned. A network that others can
 * listen to needs encryption below.
 */
#ifndef WEFT_CORE_TRANSPORT_FABRIC_FABRIC_H
#define WEFT_CORE_TRANSPORT_FABRIC_FABRIC_H

#include "base/error.h"
#include "core/transport/heap/heap.h"
#include "core/transport/transport.h"

struct endpoint_info;
struct fabric;

#define FABRIC_ADDRESS_BYTES 64

/** Largest message that goes into a receive buffer posted ahead. */
#define FABRIC_EAGER_BYTES 16384

/** Interfaces that a rank uses side by side, at most. */
#define FABRIC_RAILS 4

/** A rank's address on one interface, and the one for large writes (the same endpoint, except over TCP). */
struct fabric_rail_endpoint {
    uint32_t address_bytes;
    uint8_t address[FABRIC_ADDRESS_BYTES];
    uint8_t bulk_address[FABRIC_ADDRESS_BYTES];
    uint8_t network[16];       /**< identifies the network; zeros if unknown */
    uint64_t bytes_per_second; /**< the link's nominal rate; 0: unknown */
    char interface[32];
};

/** A rank's network addresses: part of its endpoint info. */
struct fabric_endpoint {
    char provider[32]; /**< all ranks must have opened the same */
    uint32_t rails;
    struct fabric_rail_endpoint rail[FABRIC_RAILS];
};

struct fabric_config {
    const char *provider;  /**< NULL: best of efa, verbs;ofi_rxm, net or tcp (by version), tcp;ofi_rxm */
    const char *interface; /**< name or address, or several with commas between; NULL: "lo" when `loopback_only`, else
                              the one of `reachable` (or the best) first and the other real ones beside it */
    const char *reachable; /**< address of this host that reaches the others, for TCP; NULL: unknown */
    bool loopback_only;    /**< all ranks are known to be on this machine */
    uint32_t rank, ranks;
    bool checks;                           /**< messages carry checksums; equal on all ranks */
    const struct endpoint_info *endpoints; /**< of all ranks, for messages; borrowed; NULL: not known */
    struct heap *heap;                     /**< borrowed; its memory needs no fabric_register(). NULL: none */
    const struct fabric *former;           /**< from before a failure: reuse its provider and interface */
};

weft_status fabric_open(const struct fabric_config *config, struct fabric **fabric, struct error *error);
void fabric_close(struct fabric *fabric);

/** After a failure: stop receiving; fabric_close() then waits for nothing. */
void fabric_abandon(struct fabric *fabric);

void fabric_endpoint_info(const struct fabric *fabric, struct fabric_endpoint *endpoint);

/** Learn the addresses of `rank`. */
weft_status fabric_connect(struct fabric *fabric, uint32_t rank, const struct fabric_endpoint *endpoint,
                           struct error *error);

/**
 * Register memory outside the heap, so that it need not be registered for every large message; deregister it. Memory
 * must not be unmapped before it is deregistered, nor deregistered while a transfer uses it.
 */
weft_status fabric_register(struct fabric *fabric, void *pointer, uint64_t bytes, struct error *error);
weft_status fabric_deregister(struct fabric *fabric, void *pointer, struct error *error);

/** The chosen provider, its version, interfaces and addresses, and the reason. Owned by `fabric`. */
const char *fabric_description(const struct fabric *fabric);

/**
 * Whether peers may probe paths to this rank at any time (there are several): progress must then be made regularly,
 * even when nothing is in flight. NULL is allowed.
 */
bool fabric_is_asked(const struct fabric *fabric);

/**
 * Messages over the network. Owned by `fabric`.
 *
 * Canceling a transfer whose memory the network may still read or write closes the endpoint at once, so that nothing
 * can be written later. After that the fabric can only cancel the rest and be closed.
 */
struct transport *fabric_transport(struct fabric *fabric);

#endif
