/* SPDX-License-Identifier: Apache-2.0 */
/* Messages in slots: the pool of slots, posted receive buffers, sends, and messages that wait for credit. */
#include "core/transport/fabric/internal/state.h"

#include "base/crc32c.h"

#include <stddef.h>
#include <stdlib.h>
#include <sys/mman.h>

#define SLAB_SLOTS  32
#define SLAB_WRITES 64

/** Slots and write operations are allocated in slabs, kept until the fabric closes. */
struct slab {
    struct slab *next;
    struct fabric_region *region;
    uint64_t bytes;
    char *memory;
};

/* ---- the pools ---- */

static void *slab_open(struct fabric *fabric, uint64_t bytes, bool registered, struct slab **result,
                       struct error *error)
{
    struct slab *slab = calloc(1, sizeof *slab);
    if (!slab) {
        error_memory(error, sizeof *slab, "message buffers");
        return NULL;
    }
    /* Fresh pages: unused slots are never touched. */
    slab->bytes = bytes;
    slab->memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (slab->memory == MAP_FAILED) {
        error_memory(error, bytes, "message buffers");
        goto fail_slab;
    }
    if (registered && region_open(fabric, slab->memory, bytes, &slab->region, error) != WEFT_OK)
        goto fail_memory;
    slab->next = fabric->slabs;
    fabric->slabs = slab;
    *result = slab;
    return slab->memory;

fail_memory:
    munmap(slab->memory, bytes);
fail_slab:
    free(slab);
    return NULL;
}

void fabric_slabs_close(struct fabric *fabric)
{
    while (fabric->slabs) {
        struct slab *slab = fabric->slabs;
        fabric->slabs = slab->next;
        if (slab->region)
            region_close(fabric, slab->region);
        munmap(slab->memory, slab->bytes);
        free(slab);
    }
}

struct slot *slot_take(struct fabric *fabric, struct error *error)
{
    if (!fabric->free_slots) {
        struct slab *slab = NULL;
        struct slot *slots = slab_open(fabric, SLAB_SLOTS * sizeof *slots, fabric->mr_mode & FI_MR_LOCAL, &slab, error);
        if (!slots)
            return NULL;
        for (size_t i = SLAB_SLOTS; i-- > 0;) {
            slots[i].region = slab->region;
            slot_give(fabric, &slots[i]);
        }
    }
    struct slot *slot = fabric->free_slots;
    fabric->free_slots = slot->next;
    slot->next = NULL;
    return slot;
}

void slot_give(struct fabric *fabric, struct slot *slot)
{
    slot->next = fabric->free_slots;
    fabric->free_slots = slot;
}

struct operation *write_take(struct fabric *fabric, struct error *error)
{
    if (!fabric->free_writes) {
        struct slab *slab = NULL;
        struct operation *operations = slab_open(fabric, SLAB_WRITES * sizeof *operations, false, &slab, error);
        if (!operations)
            return NULL;
        for (size_t i = SLAB_WRITES; i-- > 0;)
            write_give(fabric, &operations[i]);
    }
    struct operation *operation = fabric->free_writes;
    fabric->free_writes = operation->next;
    operation->kind = OPERATION_WRITE;
    return operation;
}

void write_give(struct fabric *fabric, struct operation *operation)
{
    operation->next = fabric->free_writes;
    fabric->free_writes = operation;
}

/* ---- receiving ---- */

static void *slot_descriptor(const struct slot *slot, uint32_t rail)
{
    return slot->region ? slot->region->rail[rail].descriptor : NULL;
}

weft_status message_post_receives(struct fabric *fabric, struct rail *rail, uint32_t wanted, struct error *error)
{
    uint32_t number = (uint32_t)(rail - fabric->rails);
    while (rail->receive_have < wanted) {
        struct slot *slot = slot_take(fabric, error);
        if (!slot)
            return WEFT_ERROR_MEMORY;
        slot->operation.kind = OPERATION_RECEIVE;
        slot->operation.peer = UINT32_MAX;
        slot->operation.rail = (uint8_t)number;
        ssize_t status = fi_recv(rail->endpoint, &slot->header, sizeof slot->header + sizeof slot->payload,
                                 slot_descriptor(slot, number), FI_ADDR_UNSPEC, &slot->operation.context);
        if (status != 0) {
            slot_give(fabric, slot);
            if (status == -FI_EAGAIN)
                return WEFT_OK; /* the next progress tries again */
            return error_set(error, WEFT_ERROR_NETWORK, "%s: cannot post a receive buffer: %s", fabric->name,
                             fabric->library.strerror((int)-status));
        }
        rail->receive_have++;
    }
    return WEFT_OK;
}

/* ---- sending ---- */

void peer_is_busy(struct fabric *fabric, struct peer *peer)
{
    if (peer->busy)
        return;
    peer->busy = true;
    peer->next_busy = fabric->busy_peers;
    fabric->busy_peers = peer;
}

static uint32_t message_checksum(const struct slot *slot, size_t payload)
{
    return crc32c_extend(crc32c(&slot->header, sizeof slot->header), slot->payload, payload);
}

bool message_verify(struct fabric *fabric, struct slot *slot)
{
    uint32_t expected = 0;
    if (!fabric->checks)
        return true;
    if (slot->bytes < sizeof slot->header + MESSAGE_CHECK_BYTES)
        return false; /* not from a rank */
    slot->bytes -= MESSAGE_CHECK_BYTES;
    const size_t payload = slot->bytes - sizeof slot->header;
    const uint32_t found = message_checksum(slot, payload);
    memcpy(&expected, slot->payload + payload, sizeof expected);
    if (expected != found)
        fabric_fail_damaged(fabric, slot->header.source, "a message", payload, expected, found);
    return expected == found;
}

/**
 * Post header and payload on `path`; false when the provider has no room now. `transfer`, if any, is complete when the
 * message has left: a caller that waits for it drives the provider until then. (That is why fi_inject is not used:
 * messages that it leaves in a provider's queue, when a socket is full, could not be tracked.)
 */
static bool post(struct fabric *fabric, struct peer *peer, const struct path *path, const struct fabric_header *header,
                 const void *payload, size_t bytes, struct transfer *transfer)
{
    struct slot *slot = slot_take(fabric, &fabric->failure);
    if (!slot)
        return false;
    struct rail *rail = &fabric->rails[path->rail];
    slot->operation.kind = OPERATION_SEND;
    slot->operation.peer = (uint32_t)(peer - fabric->peers);
    slot->operation.rail = path->rail;
    slot->operation.is_probe = header->kind == MESSAGE_PROBE || header->kind == MESSAGE_PROBED;
    slot->operation.transfer = transfer;
    slot->header = *header;
    if (bytes)
        memcpy(slot->payload, payload, bytes);
    if (fabric->checks) {
        const uint32_t check = message_checksum(slot, bytes);
        memcpy(slot->payload + bytes, &check, sizeof check);
        bytes += sizeof check;
    }
    ssize_t status = fi_send(rail->endpoint, &slot->header, sizeof *header + bytes, slot_descriptor(slot, path->rail),
                             path->address, &slot->operation.context);
    if (status != 0) {
        bool is_probe = slot->operation.is_probe;
        slot_give(fabric, slot);
        if (status != -FI_EAGAIN && is_probe)
            path_refuse_probe(peer, path->rail);
        else if (status != -FI_EAGAIN)
            fabric_fail(fabric, rail, (uint32_t)(peer - fabric->peers), "sending a message", (int)-status, NULL);
        return false;
    }
    fabric->sends++;
    fabric->posts++;
    if (transfer)
        flight_of(transfer)->slot = slot;
    return true;
}

bool message_post_probe(struct fabric *fabric, struct peer *peer, const struct path *path,
                        const struct fabric_header *header)
{
    return post(fabric, peer, path, header, NULL, 0, NULL);
}

/** Post a message on the path for messages, and return the peer's credits with it. */
static bool message_post(struct fabric *fabric, struct peer *peer, const struct fabric_header *header,
                         const void *payload, size_t bytes, struct transfer *transfer)
{
    const struct path *path = path_of_messages(peer);
    struct fabric_header full = *header;
    full.credits = (uint16_t)peer->owed;
    if (!path || !post(fabric, peer, path, &full, payload, bytes, transfer))
        return false;
    peer->owed = 0;
    return true;
}

void message_sent(struct fabric *fabric, struct slot *slot)
{
    struct transfer *transfer = slot->operation.transfer;
    fabric->sends--;
    slot_give(fabric, slot);
    if (transfer)
        transfer_end(fabric, transfer, TRANSFER_COMPLETE);
}

static bool post_eager(struct fabric *fabric, struct peer *peer, struct transfer *transfer)
{
    struct flight *flight = flight_of(transfer);
    struct fabric_header header = {
        .kind = MESSAGE_EAGER,
        .channel = transfer->channel,
        .source = fabric->rank,
        .communicator = transfer->communicator,
        .sequence = flight->sequence,
        .tag = transfer->tag,
        .bytes = transfer->bytes,
    };
    if (!message_post(fabric, peer, &header, transfer->data, transfer->bytes, transfer))
        return false;
    peer->credits--;
    flight->phase = FLIGHT_LEAVING;
    return true;
}

void message_eager(struct fabric *fabric, struct transfer *transfer)
{
    struct peer *peer = &fabric->peers[transfer->peer];
    if (peer->credits && !peer->control.first && !peer->waiting.first && post_eager(fabric, peer, transfer))
        return;
    flight_of(transfer)->phase = FLIGHT_WAITING;
    transfer_list_append(&peer->waiting, transfer);
    peer_is_busy(fabric, peer);
}

void message_control(struct fabric *fabric, const struct fabric_channel *channel, enum message_kind kind,
                     uint32_t sequence, uint64_t tag, uint64_t bytes, const struct fabric_announcement *announcement)
{
    struct peer *peer = &fabric->peers[channel->peer];
    struct fabric_header header = {
        .kind = (uint8_t)kind,
        .channel = channel->number,
        .source = fabric->rank,
        .communicator = channel->communicator,
        .sequence = sequence,
        .tag = tag,
        .bytes = bytes,
    };
    size_t payload = announcement ? announcement_bytes(fabric->rail_count) : 0;

    if (peer->connected && peer->credits && !peer->control.first &&
        message_post(fabric, peer, &header, announcement, payload, NULL)) {
        peer->credits--;
        return;
    }
    struct slot *slot = slot_take(fabric, &fabric->failure);
    if (!slot)
        return;
    slot->header = header;
    slot->bytes = (uint32_t)(sizeof header + payload);
    if (payload)
        memcpy(slot->payload, announcement, payload);
    if (peer->control.first)
        *peer->control.last = slot;
    else
        peer->control.first = slot;
    peer->control.last = &slot->next;
    peer_is_busy(fabric, peer);
}

void message_read(struct fabric *fabric, struct peer *peer)
{
    peer->owed++;
    if (peer->owed >= (fabric->credits + 1) / 2)
        peer_is_busy(fabric, peer); /* a CREDIT message, unless another message returns the credits first */
}

bool message_flush(struct fabric *fabric, struct peer *peer)
{
    if (!peer->connected || !path_of_messages(peer))
        return true;
    while (peer->control.first && peer->credits) {
        struct slot *slot = peer->control.first;
        if (!message_post(fabric, peer, &slot->header, slot->payload, slot->bytes - sizeof slot->header, NULL))
            return false;
        peer->credits--;
        peer->control.first = slot->next;
        slot_give(fabric, slot);
    }
    while (!peer->control.first && peer->waiting.first && peer->credits) {
        struct transfer *transfer = peer->waiting.first;
        struct transfer *next = transfer->next;
        if (!post_eager(fabric, peer, transfer))
            return false;
        peer->waiting.first = next;
    }
    if (peer->owed >= (fabric->credits + 1) / 2) {
        struct fabric_header header = {.kind = MESSAGE_CREDIT, .source = fabric->rank};
        if (!message_post(fabric, peer, &header, NULL, 0, NULL))
            return false;
    }
    return true;
}
