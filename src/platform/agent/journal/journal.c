/* SPDX-License-Identifier: Apache-2.0 */
#include "platform/agent/journal/journal.h"

#include "base/hash.h"

#include <endian.h>
#include <stddef.h>
#include <string.h>

#define CHECKED_BYTES 24 /* of the header, without the check */

struct journal_field {
    uint16_t offset; /* in struct journal_record */
    uint8_t size;    /* 4 or 8 bytes; 0 ends a list */
};

#define FIELD(name)                                                                                                    \
    {                                                                                                                  \
        offsetof(struct journal_record, name), sizeof(((struct journal_record *)0)->name)                              \
    }

/* The payload of each kind: its fields in the order of the bytes, then a text. */
static const struct journal_layout {
    const char *name;
    uint32_t text_most; /* bytes of the text; 0: it has none */
    struct journal_field fields[5];
} layouts[] = {
    [JOURNAL_STARTED] = {"started", 0, {FIELD(started.process)}},
    [JOURNAL_HEARTBEAT] = {"heartbeat", 0, {{0}}},
    [JOURNAL_OUTPUT] = {"output", JOURNAL_TEXT_MOST, {FIELD(output.stream), FIELD(output.rank)}},
    [JOURNAL_METRICS] = {"metrics", JOURNAL_TEXT_MOST, {FIELD(output.stream), FIELD(output.rank)}},
    [JOURNAL_USAGE] = {"usage", 0, {FIELD(usage.processor_time), FIELD(usage.memory), FIELD(usage.processes)}},
    [JOURNAL_NOTE] = {"note", JOURNAL_SENTENCE_MOST, {{0}}},
    [JOURNAL_DROPPED] = {"dropped",
                         0,
                         {FIELD(dropped.bytes), FIELD(dropped.records), FIELD(dropped.first), FIELD(dropped.last)}},
    [JOURNAL_EXITED] = {"exited",
                        JOURNAL_SENTENCE_MOST,
                        {FIELD(exited.code), FIELD(exited.signal), FIELD(exited.cause), FIELD(exited.killed)}},
    [JOURNAL_LOST] = {"lost", JOURNAL_SENTENCE_MOST, {{0}}},
    [JOURNAL_UNFIT] = {"unfit", JOURNAL_SENTENCE_MOST, {{0}}},
};
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

/* NULL: an unknown kind. */
static const struct journal_layout *layout_of(uint32_t kind)
{
    return kind > 0 && kind < ARRAY_SIZE(layouts) ? &layouts[kind] : NULL;
}

const char *journal_kind_name(uint32_t kind)
{
    const struct journal_layout *layout = layout_of(kind);
    return layout ? layout->name : "unknown";
}

const char *journal_cause_name(uint32_t cause)
{
    return cause < JOURNAL_CAUSES ? cause_names[cause] : "unknown";
}

static uint64_t check_of(const uint8_t *header, const uint8_t *payload, size_t size)
{
    return hash_bytes(payload, size, hash_bytes(header, CHECKED_BYTES, 0));
}

/* ---- writing ---- */

void journal_put(struct buffer *buffer, const struct journal_record *record)
{
    static const struct journal_layout unknown = {.name = "unknown"};
    const struct journal_layout *known = layout_of(record->kind), *layout = known ? known : &unknown;
    const uint32_t given = record->text ? record->size : 0,
                   text = given < layout->text_most ? given : layout->text_most;
    uint32_t size = text;
    for (const struct journal_field *field = layout->fields; field->size; field++)
        size += field->size;
    uint8_t *place = buffer_reserve(buffer, JOURNAL_HEADER_BYTES + size); /* nothing below can fail then */
    if (!place)
        return;
    size_t begin = buffer->end;
    buffer_put_u32(buffer, size);
    buffer_put_u32(buffer, record->kind);
    buffer_put_u64(buffer, record->sequence);
    buffer_put_u64(buffer, record->time);
    buffer_put_u64(buffer, 0);
    for (const struct journal_field *field = layout->fields; field->size; field++) {
        const void *value = (const uint8_t *)record + field->offset;
        if (field->size == sizeof(uint64_t))
            buffer_put_u64(buffer, *(const uint64_t *)value);
        else
            buffer_put_u32(buffer, *(const uint32_t *)value);
    }
    buffer_put(buffer, record->text, text);
    uint8_t *header = buffer->bytes + begin;
    uint64_t check = htole64(check_of(header, header + JOURNAL_HEADER_BYTES, size));
    memcpy(header + CHECKED_BYTES, &check, sizeof check);
}

/* ---- reading ---- */

static void get_fields(struct reader *reader, const struct journal_field *field, struct journal_record *record)
{
    for (; field->size; field++) {
        void *value = (uint8_t *)record + field->offset;
        if (field->size == sizeof(uint64_t))
            *(uint64_t *)value = reader_u64(reader);
        else
            *(uint32_t *)value = reader_u32(reader);
    }
}

/* Whether an agent can have written these values. */
static bool makes_sense(const struct journal_record *record)
{
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
    const struct journal_layout *layout = layout_of(read.kind);
    if (layout) {
        struct reader inner = {bytes + JOURNAL_HEADER_BYTES, payload, false};
        get_fields(&inner, layout->fields, &read);
        if (inner.bad || inner.left > layout->text_most)
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
