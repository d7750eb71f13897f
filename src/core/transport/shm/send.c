/* SPDX-License-Identifier: Apache-2.0 */
/* Records and messages to a peer, through its pipe. */
#include "core/transport/shm/internal/messages.h"

#include <stdlib.h>

#define EAGER_CREDIT 16384u /* lines: 1 MiB */

static void record_write(struct shm_connection *connection, const struct record *record)
{
    struct record *line = pipe_next(&connection->out);
    memcpy((char *)line + sizeof line->stamp, (const char *)record + sizeof line->stamp,
           sizeof *line - sizeof line->stamp);
    pipe_publish(&connection->out, 1);
    connection->wake = true;
}

/* Send a record of one line, now or when there is room. */
static weft_status record_post(struct shm_messages *messages, struct shm_connection *connection,
                               const struct record *record, struct error *error)
{
    if (!connection->first_notice && pipe_has_room(&connection->out, 1)) {
        record_write(connection, record);
        return WEFT_OK;
    }
    struct notice *notice = messages->spare_notices;
    if (notice)
        messages->spare_notices = notice->next;
    else if (!(notice = aligned_alloc(_Alignof(struct notice), sizeof *notice)))
        return messages_no_memory(error);
    notice->next = NULL;
    memcpy(&notice->record, record, sizeof *record);
    if (connection->last_notice)
        connection->last_notice->next = notice;
    else
        connection->first_notice = notice;
    connection->last_notice = notice;
    return WEFT_OK;
}

weft_status shm_send_record(struct shm_messages *messages, const struct transfer *transfer, enum record_kind kind,
                            uint64_t to, uint64_t place, uint64_t count, struct error *error)
{
    struct record record = {
        .tag = transfer->tag,
        .bytes = transfer->bytes,
        .communicator = transfer->communicator,
        .channel = transfer->channel,
        .kind = (uint8_t)kind,
        .to = to,
        .from = traffic_of((struct transfer *)transfer)->handle,
        .place = place,
        .count = count,
    };
    return record_post(messages, connection_of(messages, transfer), &record, error);
}

static bool send_is_eager(struct shm_connection *connection, const struct transfer *send)
{
    if (send->bytes > EAGER_BYTES)
        return false;
    if (connection->eager_sent - connection->eager_seen <= EAGER_CREDIT)
        return true;
    connection->eager_seen = atomic_load_explicit(&connection->peer->theirs->delivered, memory_order_relaxed);
    return connection->eager_sent - connection->eager_seen <= EAGER_CREDIT;
}

/* Put a send's first record into the pipe; false when there is no room now. */
static bool send_try(struct shm_messages *messages, struct shm_connection *connection, struct transfer *send,
                     weft_status *status, struct error *error)
{
    struct traffic *traffic = traffic_of(send);
    bool eager = send_is_eager(connection, send);
    uint32_t lines = eager ? pipe_lines(send->bytes) : 1;
    if (!pipe_has_room(&connection->out, lines))
        return false;
    if (!eager && !(traffic->handle = handle_open(&messages->handles, send))) {
        *status = messages_no_memory(error);
        return true;
    }
    struct record *record = pipe_next(&connection->out);
    record->tag = send->tag;
    record->bytes = send->bytes;
    record->communicator = send->communicator;
    record->channel = send->channel;
    if (eager) {
        record->kind = RECORD_EAGER;
        pipe_fill(&connection->out, send->data, send->bytes);
    } else {
        record->kind = RECORD_OFFER;
        record->from = traffic->handle;
        record->place = transfer_place(messages->shm, connection->peer, send);
        traffic->phase = PHASE_OFFERED;
    }
    pipe_publish(&connection->out, lines);
    connection->wake = true;
    if (eager) {
        connection->eager_sent += lines;
        transfer_complete(messages, send);
    }
    return true;
}

weft_status shm_send_begin(struct shm_messages *messages, struct transfer *send, struct error *error)
{
    struct shm_connection *connection = connection_of(messages, send);
    weft_status status = WEFT_OK;
    transfer_activate(send);
    if (!connection->first_waiting && send_try(messages, connection, send, &status, error)) {
        connection_wake(connection);
        return status;
    }
    traffic_of(send)->phase = PHASE_WAITING;
    transfer_list_push(&connection->first_waiting, &connection->last_waiting, send);
    return status;
}

weft_status shm_send_flush(struct shm_messages *messages, struct shm_connection *connection, struct error *error)
{
    weft_status status = WEFT_OK;
    while (connection->first_notice && pipe_has_room(&connection->out, 1)) {
        struct notice *notice = connection->first_notice;
        record_write(connection, &notice->record);
        if (!(connection->first_notice = notice->next))
            connection->last_notice = NULL;
        notice->next = messages->spare_notices;
        messages->spare_notices = notice;
    }
    while (connection->first_waiting && status == WEFT_OK) {
        struct transfer *send = connection->first_waiting, *next = send->next;
        if (!send_try(messages, connection, send, &status, error))
            break;
        if (!(connection->first_waiting = next))
            connection->last_waiting = NULL;
    }
    return status;
}
