/* SPDX-License-Identifier: Apache-2.0 */
/* Large transfers: the receiver announces its memory, the sender writes into it chunk by chunk, the receiver counts. */
#include "transport/fabric_internal.h"

static uint32_t chunks_of(uint64_t bytes)
{
    return (uint32_t)((bytes + FABRIC_CHUNK_BYTES - 1) / FABRIC_CHUNK_BYTES);
}

/* ---- the receiver ----------------------------------------------------------------------------------------------- */

void bulk_announce(struct fabric *fabric, struct transfer *transfer)
{
    struct flight *flight = flight_of(transfer);
    if (!fabric->free_lane_count) {
        waiting_append(&fabric->laneless, transfer);
        return;
    }
    if (region_find(fabric, transfer->data, transfer->bytes, &flight->region, &fabric->failure) != WEFT_OK) {
        transfer_list_remove(&flight->channel->receives, transfer);
        transfer->state = TRANSFER_FAILED;
        return;
    }
    flight->lane = fabric->free_lanes[--fabric->free_lane_count];
    flight->chunks = chunks_of(transfer->bytes);
    fabric->lanes[flight->lane] = transfer;
    struct fabric_announcement announcement = {
        .address = region_remote_address(fabric, flight->region, transfer->data),
        .key = flight->region->key,
        .lane = flight->lane,
    };
    message_control(fabric, flight->channel, MESSAGE_ANNOUNCE, flight->sequence, transfer->tag, transfer->bytes,
                    &announcement);
}

void bulk_retire(struct fabric *fabric, struct transfer *transfer)
{
    struct flight *flight = flight_of(transfer);
    if (flight->lane == FABRIC_NO_LANE) {
        waiting_remove(&fabric->laneless, transfer);
        return;
    }
    region_release(fabric, flight->region);
    fabric->lanes[flight->lane] = NULL;
    fabric->free_lanes[fabric->free_lane_count++] = flight->lane;
    flight->lane = FABRIC_NO_LANE;
    if (fabric->laneless) {
        struct transfer *next = fabric->laneless;
        fabric->laneless = flight_of(next)->next_waiting;
        bulk_announce(fabric, next);
    }
}

void bulk_take_chunk(struct fabric *fabric, uint32_t immediate)
{
    uint32_t lane = immediate >> FABRIC_LANE_SHIFT;
    struct transfer *transfer = fabric->lanes[lane];
    if (!transfer)
        return; /* of a lane that is over: no rank sends such */
    struct flight *flight = flight_of(transfer);
    if (++flight->done < flight->chunks)
        return;
    transfer_list_remove(&flight->channel->receives, transfer);
    bulk_retire(fabric, transfer);
    flight->phase = FLIGHT_NOTHING;
    fabric->counters.messages_received++;
    fabric->counters.bytes_received += transfer->bytes;
    transfer->state = TRANSFER_COMPLETE;
}

/* ---- the sender ------------------------------------------------------------------------------------------------- */

void bulk_write(struct fabric *fabric, struct transfer *transfer, const struct fabric_announcement *announcement)
{
    struct flight *flight = flight_of(transfer);
    struct peer *peer = &fabric->peers[transfer->peer];
    if (fabric->mr_mode & FI_MR_LOCAL &&
        region_find(fabric, transfer->data, transfer->bytes, &flight->region, &fabric->failure) != WEFT_OK) {
        transfer->state = TRANSFER_FAILED;
        return;
    }
    flight->address = announcement->address;
    flight->key = announcement->key;
    flight->lane = announcement->lane;
    flight->chunks = chunks_of(transfer->bytes);
    flight->phase = FLIGHT_WRITING;
    transfer_list_append(&peer->writing, transfer);
    if (peer->writing.first != transfer || !bulk_flush(fabric, peer))
        peer_is_busy(fabric, peer);
}

/** Post the next chunk of `transfer`; false when the provider had no room. */
static bool write_chunk(struct fabric *fabric, struct peer *peer, struct transfer *transfer)
{
    struct flight *flight = flight_of(transfer);
    uint32_t chunk = flight->posted;
    if (fabric->shuffle)
        chunk = shuffle_chunk(fabric->shuffle, chunk, flight->chunks);
    uint64_t offset = (uint64_t)chunk * FABRIC_CHUNK_BYTES;
    uint64_t bytes = transfer->bytes - offset;
    if (bytes > FABRIC_CHUNK_BYTES)
        bytes = FABRIC_CHUNK_BYTES;

    struct operation *operation = write_take(fabric, &fabric->failure);
    if (!operation)
        return false;
    operation->transfer = transfer;
    operation->peer = transfer->peer;
    ssize_t status =
        fi_writedata(fabric->bulk, (char *)transfer->data + offset, bytes,
                     flight->region ? flight->region->descriptor : NULL, flight->lane << FABRIC_LANE_SHIFT | chunk,
                     peer->bulk_address, flight->address + offset, flight->key, &operation->context);
    if (status != 0) {
        write_give(fabric, operation);
        if (status != -FI_EAGAIN)
            fabric_fail(fabric, transfer->peer, "writing a message", (int)-status, NULL);
        return false;
    }
    flight->posted++;
    peer->writes++;
    return true;
}

bool bulk_flush(struct fabric *fabric, struct peer *peer)
{
    while (peer->writing.first && peer->writes < FABRIC_CHUNKS_IN_FLIGHT) {
        struct transfer *transfer = peer->writing.first;
        if (!write_chunk(fabric, peer, transfer))
            return false;
        if (flight_of(transfer)->posted == flight_of(transfer)->chunks) {
            transfer_list_take_first(&peer->writing);
            flight_of(transfer)->phase = FLIGHT_COMPLETING;
        }
    }
    return true;
}

void bulk_chunk_written(struct fabric *fabric, struct operation *operation)
{
    struct transfer *transfer = operation->transfer;
    struct flight *flight = flight_of(transfer);
    struct peer *peer = &fabric->peers[operation->peer];

    write_give(fabric, operation);
    peer->writes--;
    if (peer->writing.first)
        peer_is_busy(fabric, peer);
    if (++flight->done < flight->chunks)
        return;
    region_release(fabric, flight->region);
    flight->phase = FLIGHT_NOTHING;
    fabric->counters.messages_sent++;
    fabric->counters.bytes_sent += transfer->bytes;
    transfer->state = TRANSFER_COMPLETE;
}
