/* SPDX-License-Identifier: Apache-2.0 */
/* Large transfers: the receiver announces its memory, the sender writes into it chunk by chunk, the receiver counts. */
#include "core/transport/fabric/internal/state.h"

#include "base/clock.h"
#include "base/crc32c.h"

static uint32_t chunks_of(uint64_t bytes, uint32_t chunk_bytes)
{
    return (uint32_t)((bytes + chunk_bytes - 1) / chunk_bytes);
}

/** The chunk size of a message from `peer`: rails can share it only in pieces. */
static uint32_t chunk_bytes_for(const struct peer *peer, uint64_t bytes)
{
    if (peer->path_count == 1)
        return FABRIC_CHUNK_BYTES;
    uint64_t share = (bytes / FABRIC_SHARES + 4095) & ~(uint64_t)4095;
    return share < FABRIC_LEAST_CHUNK   ? FABRIC_LEAST_CHUNK
           : share > FABRIC_CHUNK_BYTES ? FABRIC_CHUNK_BYTES
                                        : (uint32_t)share;
}

static uint64_t bytes_of_chunk(const struct transfer *transfer, const struct flight *flight, uint32_t chunk)
{
    uint64_t left = transfer->bytes - (uint64_t)chunk * flight->chunk_bytes;
    return left < flight->chunk_bytes ? left : flight->chunk_bytes;
}

/* ---- the receiver ---- */

void bulk_announce(struct fabric *fabric, struct transfer *transfer)
{
    struct flight *flight = flight_of(transfer);
    if (!fabric->free_lane_count) {
        waiting_append(&fabric->laneless, transfer);
        return;
    }
    if (region_find(fabric, transfer->data, transfer->bytes, &flight->region, &fabric->failure) != WEFT_OK) {
        transfer_list_remove(&flight->channel->receives, transfer);
        transfer_end(fabric, transfer, TRANSFER_FAILED);
        return;
    }
    const struct peer *peer = &fabric->peers[transfer->peer];
    flight->lane = fabric->free_lanes[--fabric->free_lane_count];
    flight->chunk_bytes = chunk_bytes_for(peer, transfer->bytes);
    flight->chunks = chunks_of(transfer->bytes, flight->chunk_bytes);
    fabric->lanes[flight->lane] = (struct fabric_lane){.transfer = transfer};
    struct fabric_announcement announcement = {
        .address = region_remote_address(fabric, flight->region, transfer->data),
        .lane = flight->lane,
        .chunk_bytes = flight->chunk_bytes,
    };
    for (uint32_t i = 0; i < fabric->rail_count; i++)
        announcement.rail[i].key = flight->region->rail[i].key;
    for (uint8_t i = 0; i < peer->path_count; i++)
        announcement.rail[peer->paths[i].rail].rate = peer->paths[i].arrival_rate;
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
    fabric->lanes[flight->lane].transfer = NULL;
    fabric->free_lanes[fabric->free_lane_count++] = flight->lane;
    flight->lane = FABRIC_NO_LANE;
    if (fabric->laneless) {
        struct transfer *next = fabric->laneless;
        fabric->laneless = flight_of(next)->next_waiting;
        bulk_announce(fabric, next);
    }
}

/** Record the arrival of a chunk and its rail. */
static void count_chunk(struct fabric_lane *lane, struct peer *peer, uint32_t rail, uint64_t bytes)
{
    struct path *path = path_by_rail(peer, rail);
    peer->events++;
    if (!path)
        return;
    path->bytes_received += bytes;
    if (peer->path_count == 1)
        return;
    struct arrivals *arrivals = &lane->rail[rail];
    arrivals->last = clock_now();
    arrivals->last_bytes = path->bytes_received;
    if (arrivals->first)
        return;
    arrivals->first = arrivals->last;
    arrivals->first_bytes = arrivals->last_bytes;
}

/** All has come. */
static void end_receive(struct fabric *fabric, struct transfer *transfer)
{
    struct flight *flight = flight_of(transfer);
    const uint32_t found = fabric->checks ? crc32c(transfer->data, transfer->bytes) : 0;
    const bool is_whole = !fabric->checks || found == flight->checksum;
    if (!is_whole)
        fabric_fail_damaged(fabric, transfer->peer, "a large message", transfer->bytes, flight->checksum, found);
    transfer_list_remove(&flight->channel->receives, transfer);
    bulk_retire(fabric, transfer);
    transfer_end(fabric, transfer, is_whole ? TRANSFER_COMPLETE : TRANSFER_FAILED);
}

void bulk_take_checksum(struct fabric *fabric, struct transfer *transfer, uint32_t checksum)
{
    struct flight *flight = flight_of(transfer);
    flight->checksum = checksum;
    flight->posted = 1;
    if (flight->done == flight->chunks)
        end_receive(fabric, transfer);
}

void bulk_take_chunk(struct fabric *fabric, uint32_t rail, uint32_t immediate)
{
    struct fabric_lane *lane = &fabric->lanes[immediate >> FABRIC_LANE_SHIFT];
    struct transfer *transfer = lane->transfer;
    uint32_t chunk = immediate & ((1u << FABRIC_LANE_SHIFT) - 1);
    if (!transfer || chunk >= flight_of(transfer)->chunks)
        return; /* of a lane that has ended: no rank sends such a chunk */
    struct flight *flight = flight_of(transfer);
    struct peer *peer = &fabric->peers[transfer->peer];
    count_chunk(lane, peer, rail, bytes_of_chunk(transfer, flight, chunk));
    if (++flight->done < flight->chunks)
        return;
    paths_learn(peer, lane);
    if (!fabric->checks || flight->posted)
        end_receive(fabric, transfer);
}

/* ---- the sender ---- */

bool bulk_is_sound(const struct fabric_announcement *announcement, uint64_t bytes)
{
    return announcement->lane < FABRIC_LANES && announcement->chunk_bytes >= FABRIC_LEAST_CHUNK &&
           bytes <= (uint64_t)announcement->chunk_bytes << FABRIC_LANE_SHIFT;
}

void bulk_write(struct fabric *fabric, struct transfer *transfer, struct slot *slot)
{
    struct flight *flight = flight_of(transfer);
    struct peer *peer = &fabric->peers[transfer->peer];
    if (fabric->mr_mode & FI_MR_LOCAL &&
        region_find(fabric, transfer->data, transfer->bytes, &flight->region, &fabric->failure) != WEFT_OK) {
        slot_give(fabric, slot);
        transfer_end(fabric, transfer, TRANSFER_FAILED);
        return;
    }
    flight->announced = slot;
    flight->lane = slot->announcement.lane;
    flight->chunk_bytes = slot->announcement.chunk_bytes;
    flight->chunks = chunks_of(transfer->bytes, flight->chunk_bytes);
    flight->phase = FLIGHT_WRITING;
    paths_take_rates(peer, &slot->announcement);
    transfer_list_append(&peer->writing, transfer);
    if (peer->writing.first != transfer || !bulk_flush(fabric, peer))
        peer_is_busy(fabric, peer);
}

void bulk_forget(struct fabric *fabric, struct transfer *transfer)
{
    struct flight *flight = flight_of(transfer);
    region_release(fabric, flight->region);
    slot_give(fabric, flight->announced);
}

/** Post the next chunk of `transfer` on `path`; false when the provider had no room. */
static bool write_chunk(struct fabric *fabric, struct peer *peer, struct path *path, struct transfer *transfer)
{
    struct flight *flight = flight_of(transfer);
    struct rail *rail = &fabric->rails[path->rail];
    const struct fabric_announcement *announcement = &flight->announced->announcement;
    uint32_t chunk = flight->posted;
    uint64_t offset = (uint64_t)chunk * flight->chunk_bytes, bytes = bytes_of_chunk(transfer, flight, chunk);

    struct operation *operation = write_take(fabric, &fabric->failure);
    if (!operation)
        return false;
    operation->transfer = transfer;
    operation->peer = transfer->peer;
    operation->rail = path->rail;
    operation->bytes = (uint32_t)bytes;
    ssize_t status =
        fi_writedata(rail->bulk, (char *)transfer->data + offset, bytes,
                     flight->region ? flight->region->rail[path->rail].descriptor : NULL,
                     flight->lane << FABRIC_LANE_SHIFT | chunk, path->bulk_address, announcement->address + offset,
                     announcement->rail[path->peer_rail].key, &operation->context);
    if (status != 0) {
        write_give(fabric, operation);
        if (status != -FI_EAGAIN)
            fabric_fail(fabric, rail, transfer->peer, "writing a message", (int)-status, NULL);
        return false;
    }
    if (fabric->checks)
        flight->checksum = crc32c_extend(flight->checksum, (char *)transfer->data + offset, bytes);
    flight->posted++;
    fabric->posts++;
    path_take_chunk(fabric, peer, path, bytes);
    return true;
}

bool bulk_flush(struct fabric *fabric, struct peer *peer)
{
    while (peer->writing.first) {
        struct transfer *transfer = peer->writing.first;
        struct path *path = path_for_chunk(fabric, peer, flight_of(transfer)->chunk_bytes);
        if (!path)
            break; /* until a chunk has left */
        if (!write_chunk(fabric, peer, path, transfer))
            return false;
        if (flight_of(transfer)->posted == flight_of(transfer)->chunks) {
            transfer_list_take_first(&peer->writing);
            flight_of(transfer)->phase = FLIGHT_COMPLETING;
            if (fabric->checks)
                message_control(fabric, flight_of(transfer)->channel, MESSAGE_CHECKSUM, flight_of(transfer)->sequence,
                                flight_of(transfer)->checksum, transfer->bytes, NULL);
        }
    }
    return true;
}

void bulk_chunk_written(struct fabric *fabric, struct operation *operation)
{
    struct transfer *transfer = operation->transfer;
    struct flight *flight = flight_of(transfer);
    struct peer *peer = &fabric->peers[operation->peer];

    struct path *path = path_by_rail(peer, operation->rail);
    path->bytes_in_flight -= operation->bytes;
    write_give(fabric, operation);
    peer->events++;
    if (peer->writing.first)
        peer_is_busy(fabric, peer);
    if (++flight->done < flight->chunks)
        return;
    bulk_forget(fabric, transfer);
    transfer_end(fabric, transfer, TRANSFER_COMPLETE);
}
