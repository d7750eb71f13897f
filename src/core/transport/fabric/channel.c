/* SPDX-License-Identifier: Apache-2.0 */
/* Matching: message n of a channel matches receive n, in any order of arrival. */
#include "core/transport/fabric/internal/state.h"

#include <stdlib.h>

/* ---- the table of channels ---- */

static uint32_t channel_hash(uint32_t peer, uint32_t communicator, uint8_t number)
{
    uint64_t x = ((uint64_t)peer << 32 | communicator) * 0x9e3779b97f4a7c15u + number * 0xd1342543de82ef95u;
    return (uint32_t)((x ^ (x >> 29)) * 0x94d049bb133111ebu >> 32);
}

static bool channel_is(const struct fabric_channel *channel, uint32_t peer, uint32_t communicator, uint8_t number)
{
    return channel->peer == peer && channel->communicator == communicator && channel->number == number;
}

static void channel_insert(struct fabric *fabric, struct fabric_channel *channel)
{
    uint32_t mask = fabric->channel_size - 1;
    uint32_t place = channel_hash(channel->peer, channel->communicator, channel->number) & mask;
    while (fabric->channels[place])
        place = (place + 1) & mask;
    fabric->channels[place] = channel;
}

static bool channels_grow(struct fabric *fabric)
{
    uint32_t old_size = fabric->channel_size;
    struct fabric_channel **old = fabric->channels;
    uint32_t size = old_size ? 2 * old_size : 256;
    struct fabric_channel **channels = calloc(size, sizeof(struct fabric_channel *));
    if (!channels)
        return false;
    fabric->channels = channels;
    fabric->channel_size = size;
    for (uint32_t i = 0; i < old_size; i++)
        if (old[i])
            channel_insert(fabric, old[i]);
    free(old);
    return true;
}

/** The channel's state, NULL when there is none. */
static struct fabric_channel *fabric_channel_find(struct fabric *fabric, uint32_t peer, uint32_t communicator,
                                                  uint8_t number)
{
    struct fabric_channel *channel = fabric->channel_last;
    if (channel && channel_is(channel, peer, communicator, number))
        return channel;
    uint32_t mask = fabric->channel_size - 1;
    if (fabric->channel_size)
        for (uint32_t place = channel_hash(peer, communicator, number) & mask; fabric->channels[place];
             place = (place + 1) & mask)
            if (channel_is(fabric->channels[place], peer, communicator, number))
                return fabric->channel_last = fabric->channels[place];
    return NULL;
}

static struct fabric_channel *channel_get(struct fabric *fabric, uint32_t peer, uint32_t communicator, uint8_t number)
{
    struct fabric_channel *channel = fabric_channel_find(fabric, peer, communicator, number);
    if (channel)
        return channel;
    if (4 * (fabric->channel_count + 1) > 3 * fabric->channel_size && !channels_grow(fabric))
        goto no_memory;
    channel = calloc(1, sizeof *channel);
    if (!channel)
        goto no_memory;
    channel->peer = peer;
    channel->communicator = communicator;
    channel->number = number;
    fabric->channel_count++;
    channel_insert(fabric, channel);
    return fabric->channel_last = channel;

no_memory:
    error_memory(&fabric->failure, sizeof *channel, "a channel");
    return NULL;
}

static void slots_give(struct fabric *fabric, struct slot *slot)
{
    while (slot) {
        struct slot *next = slot->next;
        slot_give(fabric, slot);
        slot = next;
    }
}

void channels_forget(struct fabric *fabric, uint32_t communicator)
{
    struct fabric_channel **old = fabric->channels,
                          **kept = calloc(fabric->channel_size + 1, sizeof(struct fabric_channel *));
    if (!kept)
        return; /* fabric_channels_close() frees them */
    fabric->channels = kept;
    fabric->channel_last = NULL;
    for (uint32_t i = 0; i < fabric->channel_size; i++) {
        struct fabric_channel *channel = old[i];
        if (channel && channel->communicator == communicator) {
            slots_give(fabric, channel->unexpected);
            slots_give(fabric, channel->announced);
            free(channel);
            fabric->channel_count--;
        } else if (channel) {
            channel_insert(fabric, channel);
        }
    }
    free(old);
}

void fabric_channels_close(struct fabric *fabric)
{
    for (uint32_t i = 0; i < fabric->channel_size; i++)
        free(fabric->channels[i]);
    free(fabric->channels);
}

/* ---- lists ---- */

void transfer_list_remove(struct transfer_list *list, struct transfer *transfer)
{
    for (struct transfer **place = &list->first; *place; place = &(*place)->next) {
        if (*place != transfer)
            continue;
        *place = transfer->next;
        if (!transfer->next)
            list->last = place;
        return;
    }
}

void waiting_append(struct transfer **list, struct transfer *transfer)
{
    while (*list)
        list = &flight_of(*list)->next_waiting;
    flight_of(transfer)->next_waiting = NULL;
    *list = transfer;
}

void waiting_remove(struct transfer **list, struct transfer *transfer)
{
    while (*list && *list != transfer)
        list = &flight_of(*list)->next_waiting;
    if (*list)
        *list = flight_of(transfer)->next_waiting;
}

static struct transfer *transfer_list_find(const struct transfer_list *list, uint32_t sequence)
{
    struct transfer *transfer = list->first;
    while (transfer && flight_of(transfer)->sequence != sequence)
        transfer = transfer->next;
    return transfer;
}

/** Take message `sequence` out of a list of messages that came early; NULL if it is not there. */
static struct slot *channel_early_take(struct slot **list, uint32_t sequence)
{
    for (struct slot **place = list; *place; place = &(*place)->next) {
        struct slot *slot = *place;
        if (slot->header.sequence != sequence)
            continue;
        *place = slot->next;
        return slot;
    }
    return NULL;
}

/** Queue a message that came early, after those before it, so that they are found first. */
static void early_put(struct slot **list, struct slot *slot)
{
    while (*list && (int32_t)((*list)->header.sequence - slot->header.sequence) < 0)
        list = &(*list)->next;
    slot->next = *list;
    *list = slot;
}

/* ---- ends ---- */

static bool same_operation(const struct transfer *transfer, const struct fabric_header *header)
{
    return transfer->tag == header->tag && transfer->bytes == header->bytes;
}

static void channel_mismatch(struct fabric *fabric, struct transfer *transfer, uint64_t tag, uint64_t bytes)
{
    if (!transfer->is_send)
        bulk_retire(fabric, transfer);
    transfer->peer_tag = tag;
    transfer->peer_bytes = bytes;
    transfer_end(fabric, transfer, TRANSFER_MISMATCH);
}

/** End a send that matches another operation's receive, and that receive. */
static void refuse_send(struct fabric *fabric, struct fabric_channel *channel, struct transfer *transfer,
                        const struct fabric_header *header)
{
    message_control(fabric, channel, MESSAGE_REFUSE_RECEIVE, header->sequence, transfer->tag, transfer->bytes, NULL);
    channel_mismatch(fabric, transfer, header->tag, header->bytes);
}

/** End a receive that matches another operation's send; a send that has been announced to detects it itself. */
static void refuse_receive(struct fabric *fabric, struct fabric_channel *channel, struct transfer *transfer,
                           const struct fabric_header *header)
{
    if (header->kind == MESSAGE_REQUEST && flight_of(transfer)->lane == FABRIC_NO_LANE)
        message_control(fabric, channel, MESSAGE_REFUSE_SEND, header->sequence, transfer->tag, transfer->bytes, NULL);
    channel_mismatch(fabric, transfer, header->tag, header->bytes);
}

static void deliver_eager(struct fabric *fabric, struct fabric_channel *channel, struct transfer *transfer,
                          const struct slot *slot)
{
    if (!same_operation(transfer, &slot->header)) {
        refuse_receive(fabric, channel, transfer, &slot->header);
        return;
    }
    if (transfer->bytes)
        memcpy(transfer->data, slot->payload, transfer->bytes);
    transfer_end(fabric, transfer, TRANSFER_COMPLETE);
    if (slot->header.sequence % FABRIC_PROOF == FABRIC_PROOF - 1) /* tell the sender now and then how far it got */
        message_control(fabric, channel, MESSAGE_CONSUMED, slot->header.sequence, 0, 0, NULL);
}

/** A large send has begun and been announced to; keeps or frees the announcement's slot. */
static void meet_announcement(struct fabric *fabric, struct fabric_channel *channel, struct transfer *transfer,
                              struct slot *slot)
{
    if (same_operation(transfer, &slot->header)) {
        bulk_write(fabric, transfer, slot);
        return;
    }
    refuse_send(fabric, channel, transfer, &slot->header);
    slot_give(fabric, slot);
}

/* ---- beginning ---- */

static bool window_is_open(const struct fabric_channel *channel, uint32_t sequence)
{
    return (int32_t)(sequence - channel->send_consumed) < FABRIC_WINDOW;
}

weft_status channel_begin_send(struct fabric *fabric, struct transfer *transfer, struct error *error)
{
    struct fabric_channel *channel = channel_get(fabric, transfer->peer, transfer->communicator, transfer->channel);
    if (!channel)
        return error_memory(error, sizeof *channel, "a channel");
    struct flight *flight = flight_of(transfer);
    *flight = (struct flight){.channel = channel, .sequence = channel->send_next++, .lane = FABRIC_NO_LANE};
    transfer->state = TRANSFER_ACTIVE;

    if (channel->announced) {
        struct slot *early = channel_early_take(&channel->announced, flight->sequence);
        if (early) {
            meet_announcement(fabric, channel, transfer, early);
            return WEFT_OK;
        }
    }
    if (transfer->bytes > FABRIC_EAGER_BYTES) {
        flight->phase = FLIGHT_SEND;
        transfer_list_append(&channel->sends, transfer);
        if (!fabric->unrequested)
            fabric->patience = FABRIC_PATIENCE;
        waiting_append(&fabric->unrequested, transfer);
    } else if (window_is_open(channel, flight->sequence)) {
        message_eager(fabric, transfer);
    } else {
        flight->phase = FLIGHT_HELD;
        transfer_list_append(&channel->held, transfer);
    }
    return WEFT_OK;
}

void channel_request(struct fabric *fabric)
{
    while (fabric->unrequested) {
        struct transfer *transfer = fabric->unrequested;
        struct flight *flight = flight_of(transfer);
        fabric->unrequested = flight->next_waiting;
        message_control(fabric, flight->channel, MESSAGE_REQUEST, flight->sequence, transfer->tag, transfer->bytes,
                        NULL);
    }
}

weft_status channel_begin_receive(struct fabric *fabric, struct transfer *transfer, struct error *error)
{
    struct fabric_channel *channel = channel_get(fabric, transfer->peer, transfer->communicator, transfer->channel);
    if (!channel)
        return error_memory(error, sizeof *channel, "a channel");
    struct flight *flight = flight_of(transfer);
    *flight = (struct flight){.channel = channel, .sequence = channel->receive_next++, .lane = FABRIC_NO_LANE};
    transfer->state = TRANSFER_ACTIVE;

    if (channel->unexpected) {
        struct slot *early = channel_early_take(&channel->unexpected, flight->sequence);
        if (early) {
            if (early->header.kind == MESSAGE_EAGER)
                deliver_eager(fabric, channel, transfer, early);
            else if (!same_operation(transfer, &early->header))
                refuse_receive(fabric, channel, transfer, &early->header);
            slot_give(fabric, early);
            if (transfer->state != TRANSFER_ACTIVE)
                return WEFT_OK;
        }
    }
    flight->phase = FLIGHT_RECEIVE;
    transfer_list_append(&channel->receives, transfer);
    if (transfer->bytes > FABRIC_EAGER_BYTES)
        bulk_announce(fabric, transfer);
    return WEFT_OK;
}

/* ---- messages ---- */

/** An EAGER or REQUEST has come. */
static bool take_for_receive(struct fabric *fabric, struct fabric_channel *channel, struct slot *slot)
{
    struct fabric_header *header = &slot->header;
    struct transfer *transfer = transfer_list_find(&channel->receives, header->sequence);
    if (!transfer) {
        if ((int32_t)(header->sequence - channel->receive_next) < 0)
            return false; /* of a receive that is over: cancelled, or refused */
        early_put(&channel->unexpected, slot);
        return true;
    }
    if (header->kind == MESSAGE_REQUEST && same_operation(transfer, header))
        return false; /* it has been announced, or will be */
    transfer_list_remove(&channel->receives, transfer);
    if (header->kind == MESSAGE_EAGER)
        deliver_eager(fabric, channel, transfer, slot);
    else
        refuse_receive(fabric, channel, transfer, header);
    return false;
}

static void take_consumed(struct fabric *fabric, struct fabric_channel *channel, uint32_t sequence)
{
    if ((int32_t)(sequence + 1 - channel->send_consumed) <= 0)
        return;
    channel->send_consumed = sequence + 1;
    while (channel->held.first && window_is_open(channel, flight_of(channel->held.first)->sequence)) {
        struct transfer *transfer = channel->held.first;
        transfer_list_take_first(&channel->held);
        message_eager(fabric, transfer);
    }
}

static bool take_announcement(struct fabric *fabric, struct fabric_channel *channel, struct slot *slot)
{
    struct fabric_header *header = &slot->header;
    struct transfer *transfer = transfer_list_find(&channel->sends, header->sequence);
    take_consumed(fabric, channel, header->sequence); /* receives begin in order: all before this one have begun */
    if (!transfer) {
        if ((int32_t)(header->sequence - channel->send_next) < 0)
            return false; /* an eager message went instead: its receiver will see that they do not match */
        early_put(&channel->announced, slot);
        return true;
    }
    transfer_list_remove(&channel->sends, transfer);
    waiting_remove(&fabric->unrequested, transfer);
    meet_announcement(fabric, channel, transfer, slot);
    return true;
}

static void take_refusal(struct fabric *fabric, struct transfer_list *list, const struct fabric_header *header)
{
    struct transfer *transfer = transfer_list_find(list, header->sequence);
    if (!transfer)
        return;
    transfer_list_remove(list, transfer);
    channel_mismatch(fabric, transfer, header->tag, header->bytes);
}

static void take_checksum(struct fabric *fabric, struct fabric_channel *channel, const struct fabric_header *header)
{
    struct transfer *transfer = transfer_list_find(&channel->receives, header->sequence);
    if (transfer && transfer->bytes == header->bytes && flight_of(transfer)->lane != FABRIC_NO_LANE)
        bulk_take_checksum(fabric, transfer, (uint32_t)header->tag);
}

/** Whether a message from the wire is well formed. */
static bool message_is_sound(const struct fabric *fabric, const struct slot *slot)
{
    const struct fabric_header *header = &slot->header;
    if (slot->bytes < sizeof *header || header->source >= fabric->ranks || header->kind >= MESSAGE_KINDS)
        return false;
    uint64_t payload = slot->bytes - sizeof *header;
    if (header->kind == MESSAGE_EAGER)
        return payload == header->bytes;
    if (header->kind == MESSAGE_ANNOUNCE)
        return payload == announcement_bytes(fabric->peers[header->source].rails) &&
               bulk_is_sound(&slot->announcement, header->bytes);
    return payload == 0;
}

bool channel_take_message(struct fabric *fabric, struct slot *slot)
{
    const struct fabric_header *header = &slot->header;
    if (!message_verify(fabric, slot) || !message_is_sound(fabric, slot))
        return false; /* not from a rank: no rank sends this */
    struct peer *peer = &fabric->peers[header->source];
    if (header->kind == MESSAGE_PROBE || header->kind == MESSAGE_PROBED) {
        path_take_probe(fabric, peer, slot->operation.rail, header);
        return false;
    }
    peer->events++;
    if (header->credits) {
        peer->credits += header->credits;
        if (peer->control.first || peer->waiting.first)
            peer_is_busy(fabric, peer);
    }
    if (header->kind == MESSAGE_CREDIT)
        return false;
    message_read(fabric, peer);

    /* A reply about one of our messages can come late, when the communicator has been forgotten. */
    bool answers = header->kind == MESSAGE_CONSUMED || header->kind == MESSAGE_REFUSE_SEND ||
                   header->kind == MESSAGE_REFUSE_RECEIVE || header->kind == MESSAGE_CHECKSUM;
    struct fabric_channel *channel =
        (answers ? fabric_channel_find : channel_get)(fabric, header->source, header->communicator, header->channel);
    if (!channel)
        return false;
    switch (header->kind) {
    case MESSAGE_EAGER:
    case MESSAGE_REQUEST:
        return take_for_receive(fabric, channel, slot);
    case MESSAGE_ANNOUNCE:
        return take_announcement(fabric, channel, slot);
    case MESSAGE_REFUSE_SEND:
        take_refusal(fabric, &channel->sends, header);
        return false;
    case MESSAGE_REFUSE_RECEIVE:
        take_refusal(fabric, &channel->receives, header);
        return false;
    case MESSAGE_CONSUMED:
        take_consumed(fabric, channel, header->sequence);
        return false;
    case MESSAGE_CHECKSUM:
        take_checksum(fabric, channel, header);
        return false;
    }
    return false;
}
