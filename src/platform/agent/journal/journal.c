/* SPDX-License-Identifier: Apache-2.0 */
#include "platform/agent/journal/journal.h"

#include "base/hash.h"

#include <endian.h>
#include <string.h>

#define CHECKED_BYTES 24 /* of the header, without the check */

static const char *const kind_names[] = {"unknown", "started", "heartbeat", "output", "metrics",
                                         "usage",   "note",    "dropped",   "exited", "lost"};
static const char *const cause_names[JOURNAL_CAUSES] = {
    "by itself", "stopped", "checkpointed", "fenced", "time limit", "lease", "host", "not started", "agent killed"};

bool attempt_is_valid(const struct attempt *attempt)
{
    const char *run = attempt->run, *end = memchr(run, 0, sizeof attempt->run);
    static const char letters[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_.";
    return end && end > run && strspn(run, letters) == (size_t)(end - run) && run[0] != '.' && run[0] != '-' &&
           attempt->epoch > 0 && attempt->epoch <= INT64_MAX;
}

bool attempt_same(const struct attempt *left, const struct attempt *right)
{
    return left->epoch == right->epoch && strcmp(left->run, right->run) == 0;
}

const char *journal_kind_name(uint32_t kind)
{
    return kind < ARRAY_SIZE(kind_names) ? kind_names[kind] : kind_names[0];
}

const char *journal_cause_name(uint32_t cause)
{
    return cause < JOURNAL_CAUSES ? cause_names[cause] : "unknown";
}

static uint64_t check_of(const uint8_t *header, const uint8_t *payload, size_t size)
{
    return hash_bytes(payload, size, hash_bytes(header, CHECKED_BYTES, 0));
}

/* Bytes of fields before the text; -1: unknown kind. */
static int fields_of(uint32_t kind)
{
    switch (kind) {
    case JOURNAL_STARTED:
    case JOURNAL_OUTPUT:
    case JOURNAL_METRICS:
        return 8;
    case JOURNAL_USAGE:
        return 20;
    case JOURNAL_DROPPED:
        return 32;
    case JOURNAL_EXITED:
        return 16;
    case JOURNAL_HEARTBEAT:
    case JOURNAL_NOTE:
    case JOURNAL_LOST:
        return 0;
    default:
        return -1;
    }
}

static bool has_text(uint32_t kind)
{
    return kind == JOURNAL_OUTPUT || kind == JOURNAL_METRICS || kind == JOURNAL_NOTE || kind == JOURNAL_EXITED ||
           kind == JOURNAL_LOST;
}

/* ---- writing ---- */

static void put_fields(struct buffer *buffer, const struct journal_record *record)
{
    switch (record->kind) {
    case JOURNAL_STARTED:
        buffer_put_u64(buffer, (uint64_t)record->started.process);
        break;
    case JOURNAL_OUTPUT:
    case JOURNAL_METRICS:
        buffer_put_u32(buffer, record->output.stream);
        buffer_put_u32(buffer, record->output.rank);
        break;
    case JOURNAL_USAGE:
        buffer_put_u64(buffer, record->usage.processor_time);
        buffer_put_u64(buffer, record->usage.memory);
        buffer_put_u32(buffer, record->usage.processes);
        break;
    case JOURNAL_DROPPED:
        buffer_put_u64(buffer, record->dropped.bytes);
        buffer_put_u64(buffer, record->dropped.records);
        buffer_put_u64(buffer, record->dropped.first);
        buffer_put_u64(buffer, record->dropped.last);
        break;
    case JOURNAL_EXITED:
        buffer_put_u32(buffer, record->exited.code);
        buffer_put_u32(buffer, record->exited.signal);
        buffer_put_u32(buffer, record->exited.cause);
        buffer_put_u32(buffer, record->exited.killed);
        break;
    default:
        break;
    }
}

static uint32_t text_size(const struct journal_record *record)
{
    size_t most =
        record->kind == JOURNAL_OUTPUT || record->kind == JOURNAL_METRICS ? JOURNAL_TEXT_MOST : JOURNAL_SENTENCE_MOST;
    if (!has_text(record->kind) || !record->text)
        return 0;
    return record->size < most ? record->size : (uint32_t)most;
}

void journal_put(struct buffer *buffer, const struct journal_record *record)
{
    int fields = fields_of(record->kind);
    uint32_t text = text_size(record), size = (uint32_t)(fields > 0 ? fields : 0) + text;
    uint8_t *place = buffer_reserve(buffer, JOURNAL_HEADER_BYTES + size); /* nothing below can fail then */
    if (!place)
        return;
    size_t begin = buffer->end;
    buffer_put_u32(buffer, size);
    buffer_put_u32(buffer, record->kind);
    buffer_put_u64(buffer, record->sequence);
    buffer_put_u64(buffer, record->time);
    buffer_put_u64(buffer, 0);
    put_fields(buffer, record);
    buffer_put(buffer, record->text, text);
    uint8_t *header = buffer->bytes + begin;
    uint64_t check = htole64(check_of(header, header + JOURNAL_HEADER_BYTES, size));
    memcpy(header + CHECKED_BYTES, &check, sizeof check);
}

/* ---- reading ---- */

static void get_fields(struct reader *reader, struct journal_record *record)
{
    switch (record->kind) {
    case JOURNAL_STARTED:
        record->started.process = (int64_t)reader_u64(reader);
        break;
    case JOURNAL_OUTPUT:
    case JOURNAL_METRICS:
        record->output.stream = reader_u32(reader);
        record->output.rank = reader_u32(reader);
        break;
    case JOURNAL_USAGE:
        record->usage.processor_time = reader_u64(reader);
        record->usage.memory = reader_u64(reader);
        record->usage.processes = reader_u32(reader);
        break;
    case JOURNAL_DROPPED:
        record->dropped.bytes = reader_u64(reader);
        record->dropped.records = reader_u64(reader);
        record->dropped.first = reader_u64(reader);
        record->dropped.last = reader_u64(reader);
        break;
    case JOURNAL_EXITED:
        record->exited.code = reader_u32(reader);
        record->exited.signal = reader_u32(reader);
        record->exited.cause = reader_u32(reader);
        record->exited.killed = reader_u32(reader);
        break;
    default:
        break;
    }
}

/* Whether an agent can have written these values. */
static bool makes_sense(const struct journal_record *record)
{
    if (record->size >
        (record->kind == JOURNAL_OUTPUT || record->kind == JOURNAL_METRICS ? JOURNAL_TEXT_MOST : JOURNAL_SENTENCE_MOST))
        return false;
    if (record->kind == JOURNAL_EXITED)
        return record->exited.code <= 255 && record->exited.signal <= 64 && record->exited.cause < JOURNAL_CAUSES &&
               record->exited.killed <= 1;
    if (record->kind == JOURNAL_OUTPUT)
        return record->output.stream == 1 || record->output.stream == 2;
    if (record->kind == JOURNAL_METRICS)
        return record->output.stream >= 1 && record->output.stream <= JOURNAL_EVENTS;
    if (record->kind == JOURNAL_DROPPED)
        return record->dropped.first <= record->dropped.last && record->dropped.last <= record->sequence;
    return true;
}

enum journal_found journal_get(const uint8_t *bytes, size_t size, struct journal_record *record, size_t *used)
{
    struct reader reader = {bytes, size, false};
    struct journal_record read = {0};
    if (size < JOURNAL_HEADER_BYTES)
        return JOURNAL_MORE;
    uint32_t payload = reader_u32(&reader);
    read.kind = reader_u32(&reader);
    read.sequence = reader_u64(&reader);
    read.time = reader_u64(&reader);
    uint64_t check = reader_u64(&reader);
    if (payload > JOURNAL_PAYLOAD_MOST || read.kind == 0 || read.kind > UINT16_MAX || read.sequence == 0)
        return JOURNAL_DAMAGED;
    if (reader.left < payload)
        return JOURNAL_MORE;
    if (check_of(bytes, bytes + JOURNAL_HEADER_BYTES, payload) != check)
        return JOURNAL_DAMAGED;
    int fields = fields_of(read.kind);
    if (fields >= 0) {
        struct reader inner = {bytes + JOURNAL_HEADER_BYTES, payload, false};
        get_fields(&inner, &read);
        if (inner.bad || (!has_text(read.kind) && inner.left > 0))
            return JOURNAL_DAMAGED;
        read.text = (const char *)inner.bytes;
        read.size = (uint32_t)inner.left;
        if (!makes_sense(&read))
            return JOURNAL_DAMAGED;
    }
    *record = read;
    *used = JOURNAL_HEADER_BYTES + payload;
    return JOURNAL_FOUND;
}
