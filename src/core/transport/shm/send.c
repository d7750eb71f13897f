/* SPDX-License-Identifier: Apache-2.0 */
/* Records and messages to a peer, through its pipe. */
#include "core/transport/shm/internal/messages.h"

#include <stdlib.h>

#define EAGER_CREDIT 16384u /* lines: 1 MiB */

static void write_record(struct near_dialogue *dialogue, const struct record *record)
{
    struct record *line = pipe_next(&dialogue->out);
    memcpy((char *)line + sizeof line->stamp, (const char *)record + sizeof line->stamp,
           sizeof *line - sizeof line->stamp);
    pipe_publish(&dialogue->out, 1);
    dialogue->wake = true;
}

/* Send a record of one line, now or when there is room. */
static weft_status post(struct near_messages *messages, struct near_dialogue *dialogue, const struct record *record,
                        struct error *error)
{
    if (!dialogue->first_notice && pipe_has_room(&dialogue->out, 1)) {
        write_record(dialogue, record);
        return WEFT_OK;
    }
    struct notice *notice = messages->spare_notices;
    if (notice)
        messages->spare_notices = notice->next;
    else if (!(notice = aligned_alloc(_Alignof(struct notice), sizeof *notice)))
        return no_memory(error);
    notice->next = NULL;
    memcpy(&notice->record, record, sizeof *record);
    if (dialogue->last_notice)
        dialogue->last_notice->next = notice;
    else
        dialogue->first_notice = notice;
    dialogue->last_notice = notice;
    return WEFT_OK;
}

weft_status near_answer(struct near_messages *messages, const struct transfer *transfer, enum record_kind kind,
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
    return post(messages, dialogue_of(messages, transfer), &record, error);
}

static bool eager_is_allowed(struct near_dialogue *dialogue, const struct transfer *send)
{
    if (send->bytes > EAGER_BYTES)
        return false;
    if (dialogue->eager_sent - dialogue->eager_seen <= EAGER_CREDIT)
        return true;
    dialogue->eager_seen = atomic_load_explicit(&dialogue->peer->theirs->delivered, memory_order_relaxed);
    return dialogue->eager_sent - dialogue->eager_seen <= EAGER_CREDIT;
}

/* Put a send's first record into the pipe; false when there is no room now. */
static bool send_now(struct near_messages *messages, struct near_dialogue *dialogue, struct transfer *send,
                     weft_status *status, struct error *error)
{
    struct traffic *traffic = traffic_of(send);
    bool eager = eager_is_allowed(dialogue, send);
    uint32_t lines = eager ? pipe_lines(send->bytes) : 1;
    if (!pipe_has_room(&dialogue->out, lines))
        return false;
    if (!eager && !(traffic->handle = handle_open(&messages->handles, send))) {
        *status = no_memory(error);
        return true;
    }
    struct record *record = pipe_next(&dialogue->out);
    record->tag = send->tag;
    record->bytes = send->bytes;
    record->communicator = send->communicator;
    record->channel = send->channel;
    if (eager) {
        record->kind = RECORD_EAGER;
        pipe_fill(&dialogue->out, send->data, send->bytes);
    } else {
        record->kind = RECORD_OFFER;
        record->from = traffic->handle;
        record->place = place_of(messages->near, dialogue->peer, send);
        traffic->phase = PHASE_OFFERED;
    }
    pipe_publish(&dialogue->out, lines);
    dialogue->wake = true;
    if (eager) {
        dialogue->eager_sent += lines;
        complete(messages, send);
    }
    return true;
}

weft_status near_begin_send(struct near_messages *messages, struct transfer *send, struct error *error)
{
    struct near_dialogue *dialogue = dialogue_of(messages, send);
    weft_status status = WEFT_OK;
    make_active(send);
    if (!dialogue->first_waiting && send_now(messages, dialogue, send, &status, error)) {
        wake_one(dialogue);
        return status;
    }
    traffic_of(send)->phase = PHASE_WAITING;
    list_push(&dialogue->first_waiting, &dialogue->last_waiting, send);
    return status;
}

weft_status near_flush(struct near_messages *messages, struct near_dialogue *dialogue, struct error *error)
{
    weft_status status = WEFT_OK;
    while (dialogue->first_notice && pipe_has_room(&dialogue->out, 1)) {
        struct notice *notice = dialogue->first_notice;
        write_record(dialogue, &notice->record);
        if (!(dialogue->first_notice = notice->next))
            dialogue->last_notice = NULL;
        notice->next = messages->spare_notices;
        messages->spare_notices = notice;
    }
    while (dialogue->first_waiting && status == WEFT_OK) {
        struct transfer *send = dialogue->first_waiting, *next = send->next;
        if (!send_now(messages, dialogue, send, &status, error))
            break;
        if (!(dialogue->first_waiting = next))
            dialogue->last_waiting = NULL;
    }
    return status;
}
