/* SPDX-License-Identifier: Apache-2.0 */
/*
 * All-gather of small blobs: members send theirs to the first member, which sends the table to all. When all ranks are
 * members, control_gather.c passes both through the tree.
 */
#include "base/clock.h"
#include "core/control/internal/plane.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define HURRY_SECONDS 0.5 /* for blobs held in subtrees to arrive, after the time limit */
#define GRACE_SECONDS                                                                                                  \
    2.0 /* members wait a little longer than the gathering one, whose message names the missing ones */

/* An exchange in which this rank takes part, or for which a blob has come before this rank has called. */
struct exchange {
    struct exchange *next;
    uint64_t key;
    uint32_t count, size;
    const uint32_t *members; /* of the waiting caller; NULL: it has not called yet */
    uint8_t *table;          /* count x size */
    bool *given;
    uint32_t missing;
    bool among_all; /* this rank has called, and for all ranks in their order */
    bool hurried;
    bool ended;
    struct error outcome;
};

static struct exchange *control_exchange_find(struct control *control, uint64_t key)
{
    struct exchange *exchange = control->exchanges;
    while (exchange && exchange->key != key)
        exchange = exchange->next;
    return exchange;
}

static struct exchange *control_exchange_find_or_make(struct control *control, uint64_t key, uint32_t count,
                                                      uint32_t size)
{
    struct exchange *exchange = control_exchange_find(control, key);
    if (exchange)
        return exchange;
    exchange = calloc(1, sizeof *exchange);
    if (!exchange)
        return NULL;
    *exchange = (struct exchange){.key = key, .count = count, .size = size, .missing = count};
    exchange->table = calloc(count, size ? size : 1);
    exchange->given = calloc(count, sizeof *exchange->given);
    if (!exchange->table || !exchange->given) {
        free(exchange->table);
        free(exchange->given);
        free(exchange);
        return NULL;
    }
    exchange->next = control->exchanges;
    control->exchanges = exchange;
    return exchange;
}

static void control_exchange_free(struct control *control, struct exchange *exchange)
{
    struct exchange **place = &control->exchanges;
    while (*place && *place != exchange)
        place = &(*place)->next;
    if (*place)
        *place = exchange->next;
    free(exchange->table);
    free(exchange->given);
    free(exchange);
}

void exchange_free_all(struct control *control)
{
    while (control->exchanges)
        control_exchange_free(control, control->exchanges);
}

/* The content of CONTROL_TABLE and CONTROL_SPREAD. */
static void control_exchange_outcome_put(const struct exchange *exchange, struct buffer *payload)
{
    buffer_put_u64(payload, exchange->key);
    buffer_put_u32(payload, (uint32_t)exchange->outcome.status);
    buffer_put_text(payload, exchange->outcome.text);
    if (exchange->outcome.status == WEFT_OK)
        buffer_put(payload, exchange->table, (size_t)exchange->count * exchange->size);
}

/* The gathering member has a result: send it to the members. */
static void control_exchange_conclude(struct control *control, struct exchange *exchange)
{
    if (exchange->ended)
        return;
    exchange->ended = true;
    struct buffer payload = {0};
    if (exchange->among_all) {
        control_exchange_outcome_put(exchange, &payload);
        plane_flood(control, CONTROL_SPREAD, buffer_begin(&payload), buffer_size(&payload), NULL);
        gather_forget(control, exchange->key);
    }
    for (uint32_t i = 1; i < exchange->count && !exchange->among_all; i++) {
        buffer_consume(&payload, buffer_size(&payload));
        buffer_put_u32(&payload, exchange->members[i]);
        buffer_put_u32(&payload, control->config.rank);
        control_exchange_outcome_put(exchange, &payload);
        plane_route(control, CONTROL_TABLE, buffer_begin(&payload), buffer_size(&payload));
    }
    buffer_free(&payload);
    pthread_cond_broadcast(&control->changed);
}

/* Fail the exchange if a member left without giving its blob, or (`late`) has not given it in time. */
static void control_exchange_conclude_missing(struct control *control, struct exchange *exchange, bool late,
                                              double limit_seconds)
{
    for (uint32_t i = 0; i < exchange->count && !exchange->ended; i++) {
        uint32_t rank = exchange->members[i];
        if (exchange->given[i] || !(late || control->left[rank]))
            continue;
        if (control->left[rank])
            error_set(&exchange->outcome, WEFT_ERROR_PEER,
                      "rank %u on host %s has left while %u ranks wait for it; it called weft_finalize() too early",
                      rank, control->endpoints[rank].host, exchange->count);
        else
            error_set(&exchange->outcome, WEFT_ERROR_TIMEOUT,
                      "rank %u on host %s has not joined an exchange among the ranks within %g s; %u ranks take part",
                      rank, control->endpoints[rank].host, limit_seconds, exchange->count);
        control_exchange_conclude(control, exchange);
    }
}

void exchange_note_left(struct control *control, uint32_t rank)
{
    (void)rank;
    for (struct exchange *exchange = control->exchanges; exchange; exchange = exchange->next)
        if (exchange->members && exchange->members[0] == control->config.rank)
            control_exchange_conclude_missing(control, exchange, false, 0);
}

bool exchange_receive_routed_blob(struct control *control, uint32_t source, struct reader reader)
{
    uint64_t key = reader_u64(&reader);
    uint32_t index = reader_u32(&reader), count = reader_u32(&reader), size = reader_u32(&reader);
    return exchange_receive_blob(control, source, key, index, count, size, reader_bytes(&reader, size));
}

bool exchange_receive_blob(struct control *control, uint32_t source, uint64_t key, uint32_t index, uint32_t count,
                           uint32_t size, const uint8_t *blob)
{
    if (!blob || count < 2 || count > control->config.ranks || index >= count || size > EXCHANGE_BLOB_MOST)
        return false;
    struct exchange *exchange = control_exchange_find_or_make(control, key, count, size);
    if (!exchange || exchange->ended)
        return true;
    if (exchange->count != count || exchange->size != size || exchange->given[index] ||
        (exchange->members && exchange->members[index] != source)) {
        error_set(&exchange->outcome, WEFT_ERROR_MISMATCH,
                  "rank %u does something else together with %u ranks (%u bytes each) than the others with %u (%u "
                  "bytes); all "
                  "must make the same calls in the same order",
                  source, count, size, exchange->count, exchange->size);
        if (exchange->members)
            control_exchange_conclude(control, exchange);
        return true;
    }
    memcpy(exchange->table + (size_t)index * size, blob, size);
    exchange->given[index] = true;
    exchange->missing--;
    if (exchange->missing == 0 && exchange->members)
        control_exchange_conclude(control, exchange);
    return true;
}

bool exchange_receive_table(struct control *control, struct reader reader)
{
    char message[ERROR_TEXT_BYTES];
    uint64_t key = reader_u64(&reader);
    uint32_t status = reader_u32(&reader);
    reader_text(&reader, message, sizeof message);
    struct exchange *exchange = control_exchange_find(control, key);
    if (reader.bad || (status != WEFT_OK && !*message))
        return false;
    if (!exchange && status != WEFT_OK && (exchange = control_exchange_find_or_make(control, key, 1, 0)) != NULL) {
        /* It has failed before this rank has come to it: kept until then. */
        error_set(&exchange->outcome, stream_failure(status), "%s", message);
        exchange->ended = true;
    }
    if (!exchange || exchange->ended)
        return true; /* it was given up in the meantime */
    if (status == WEFT_OK && !exchange->members)
        return false; /* it cannot have gathered what this rank has not sent */
    size_t size = (size_t)exchange->count * exchange->size;
    const uint8_t *table = status == WEFT_OK ? reader_bytes(&reader, size) : NULL;
    if (status == WEFT_OK && !table)
        return false;
    if (table)
        memcpy(exchange->table, table, size);
    else
        error_set(&exchange->outcome, stream_failure(status), "%s", message);
    exchange->ended = true;
    pthread_cond_broadcast(&control->changed);
    return true;
}

bool exchange_receive_spread(struct control *control, const struct link *from, struct reader reader)
{
    struct reader key = reader;
    gather_forget(control, reader_u64(&key));
    if (key.bad || !exchange_receive_table(control, reader))
        return false; /* so that no other rank takes this rank for its author */
    plane_flood(control, CONTROL_SPREAD, reader.bytes, reader.left, from);
    return true;
}

/* Send this rank's blob to the gathering member. */
static void control_exchange_give(struct control *control, const struct exchange *exchange, uint32_t index,
                                  const void *blob)
{
    struct buffer payload = {0};
    if (exchange->among_all) {
        (void)gather_contribute(control, exchange->key, exchange->count, exchange->size, blob);
        return;
    }
    buffer_put_u32(&payload, exchange->members[0]);
    buffer_put_u32(&payload, control->config.rank);
    buffer_put_u64(&payload, exchange->key);
    buffer_put_u32(&payload, index);
    buffer_put_u32(&payload, exchange->count);
    buffer_put_u32(&payload, exchange->size);
    buffer_put(&payload, blob, exchange->size);
    plane_route(control, CONTROL_BLOB, buffer_begin(&payload), buffer_size(&payload));
    buffer_free(&payload);
}

/* Enter this rank's blob and wait for the outcome; with the lock held. */
static weft_status control_exchange_take_part(struct control *control, struct exchange *exchange, uint32_t index,
                                              const void *blob, double limit_seconds, struct error *error)
{
    uint64_t deadline = clock_after(limit_seconds + (index ? GRACE_SECONDS : 0));
    if (index > 0 && exchange->outcome.status != WEFT_OK) {
        exchange->ended = true;
    } else if (index > 0) {
        control_exchange_give(control, exchange, index, blob);
    } else if (!exchange->given[0] && exchange->outcome.status == WEFT_OK) {
        memcpy(exchange->table, blob, exchange->size);
        exchange->given[0] = true;
        exchange->missing--;
    }
    if (index == 0 && (exchange->missing == 0 || exchange->outcome.status != WEFT_OK))
        control_exchange_conclude(control, exchange);
    else if (index == 0)
        control_exchange_conclude_missing(control, exchange, false, 0);
    while (!exchange->ended && control->failure.status == WEFT_OK) {
        if (plane_wait(control, deadline) || exchange->ended)
            continue;
        if (index == 0 && exchange->among_all && !exchange->hurried) {
            exchange->hurried = true;
            deadline += (uint64_t)(HURRY_SECONDS * 1e9);
            gather_flush(control, exchange->key);
            continue;
        }
        if (index == 0) {
            control_exchange_conclude_missing(control, exchange, true, limit_seconds);
            continue;
        }
        uint32_t first = exchange->members[0];
        return error_set(
            error, WEFT_ERROR_TIMEOUT,
            "rank %u on host %s has not joined an exchange among the ranks within %g s; %u ranks take part", first,
            control->endpoints[first].host, limit_seconds, exchange->count);
    }
    if (!exchange->ended)
        return plane_failure(control, error);
    if (exchange->outcome.status != WEFT_OK)
        return error_set(error, exchange->outcome.status, "%s", exchange->outcome.text);
    return WEFT_OK;
}

static bool control_exchange_is_among_all(const struct control *control, const uint32_t *members, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++)
        if (members[i] != i)
            return false;
    return count == control->config.ranks;
}

weft_status control_exchange(struct control *control, uint64_t key, const uint32_t *members, uint32_t count,
                             const void *blob, uint32_t bytes, void *result, double limit_seconds, struct error *error)
{
    uint32_t index = 0;
    while (index < count && members[index] != control->config.rank)
        index++;
    if (index == count || bytes > EXCHANGE_BLOB_MOST)
        return error_set(error, WEFT_ERROR_ARGUMENT, "rank %u cannot exchange %u bytes among %u ranks: %s",
                         control->config.rank, bytes, count, index == count ? "it is not a member" : "too much");
    if (count == 1) {
        memcpy(result, blob, bytes);
        return WEFT_OK;
    }
    pthread_mutex_lock(&control->lock);
    struct exchange *exchange = control_exchange_find_or_make(control, key, count, bytes);
    weft_status status;
    if (!exchange) {
        status = error_memory(error, (size_t)count * bytes, "what ranks exchange");
    } else if (exchange->members) {
        status = error_set(error, WEFT_ERROR_STATE, "two exchanges with the same key at the same time");
        exchange = NULL;
    } else if (exchange->ended) {
        status = error_set(error, exchange->outcome.status, "%s", exchange->outcome.text);
    } else {
        if (exchange->count != count || exchange->size != bytes)
            error_set(&exchange->outcome, WEFT_ERROR_MISMATCH,
                      "rank %u does something together with %u ranks (%u bytes each), others with %u (%u bytes); all "
                      "must make "
                      "the same calls in the same order",
                      control->config.rank, count, bytes, exchange->count, exchange->size);
        exchange->among_all = control_exchange_is_among_all(control, members, count);
        exchange->members = members;
        exchange->count = exchange->outcome.status == WEFT_OK ? count
                          : exchange->count < count           ? exchange->count
                                                              : count;
        status = control_exchange_take_part(control, exchange, index < exchange->count ? index : 0, blob, limit_seconds,
                                            error);
        if (status == WEFT_OK)
            memcpy(result, exchange->table, (size_t)count * bytes);
    }
    if (exchange)
        control_exchange_free(control, exchange);
    pthread_mutex_unlock(&control->lock);
    return status;
}
