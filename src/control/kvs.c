/* SPDX-License-Identifier: Apache-2.0 */
#include "control/kvs.h"

#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define VALUE_MOST 1000 /* characters: a value of MPICH's mpirun takes 1024 with its end */

/* The store forgets nothing while the process lives: each exchange has keys of its own. */
static atomic_uint exchanges;

static void write_digits(const uint8_t *bytes, size_t size, char *text)
{
    for (size_t i = 0; i < size; i++)
        snprintf(text + 2 * i, 3, "%02x", bytes[i]);
}

/* Undo write_digits(); false unless `text` is exactly `size` bytes. */
static bool read_digits(const char *text, uint8_t *bytes, size_t size)
{
    if (strlen(text) != 2 * size)
        return false;
    for (size_t i = 0; i < size; i++) {
        unsigned value = 0;
        if (sscanf(text + 2 * i, "%2x", &value) != 1)
            return false;
        bytes[i] = (uint8_t)value;
    }
    return true;
}

/* Bytes that one value holds. */
static size_t piece_bytes(const struct kvs *kvs)
{
    size_t most = kvs->value_most - 1 < VALUE_MOST ? kvs->value_most - 1 : VALUE_MOST;
    return most / 2;
}

static weft_status put_blob(struct kvs *kvs, unsigned exchange, const uint8_t *blob, size_t size, struct error *error)
{
    char key[64], value[VALUE_MOST + 1];
    size_t most = piece_bytes(kvs);
    for (size_t at = 0, part = 0; at < size; at += most, part++) {
        size_t piece = size - at < most ? size - at : most;
        write_digits(blob + at, piece, value);
        snprintf(key, sizeof key, "weft-%u-card-%u-%zu", exchange, kvs->rank, part);
        weft_status status = kvs->put(kvs, key, value, error);
        if (status != WEFT_OK)
            return status;
    }
    return WEFT_OK;
}

static weft_status get_blob(struct kvs *kvs, unsigned exchange, uint32_t rank, uint8_t *blob, size_t size,
                            struct error *error)
{
    char key[64], value[VALUE_MOST + 1];
    size_t most = piece_bytes(kvs);
    for (size_t at = 0, part = 0; at < size; at += most, part++) {
        size_t piece = size - at < most ? size - at : most;
        snprintf(key, sizeof key, "weft-%u-card-%u-%zu", exchange, rank, part);
        weft_status status = kvs->get(kvs, rank, key, value, sizeof value, error);
        if (status != WEFT_OK)
            return status;
        if (!read_digits(value, blob + at, piece))
            return error_set(error, WEFT_ERROR_RENDEZVOUS,
                             "the card of rank %u came damaged through %s; do all hosts have the same build of Weft?",
                             rank, kvs->name);
    }
    return WEFT_OK;
}

weft_status kvs_exchange(struct kvs *kvs, const void *blob, size_t size, void *blobs,
                         char secret[2 * SECRET_TEXT_BYTES], double limit_seconds, struct error *error)
{
    unsigned exchange = atomic_fetch_add(&exchanges, 1);
    char key[64];
    if (kvs->value_most < 2 * SECRET_TEXT_BYTES)
        return error_set(error, WEFT_ERROR_RENDEZVOUS, "%s takes values of %zu characters, too short for Weft",
                         kvs->name, kvs->value_most);
    snprintf(key, sizeof key, "weft-%u-secret", exchange);
    weft_status status = put_blob(kvs, exchange, blob, size, error);
    if (status == WEFT_OK && kvs->rank == 0)
        status = kvs->put(kvs, key, secret, error);
    if (status == WEFT_OK)
        status = kvs->fence(kvs, limit_seconds, error);
    if (status == WEFT_OK && kvs->rank != 0)
        status = kvs->get(kvs, 0, key, secret, 2 * SECRET_TEXT_BYTES, error);
    if (status == WEFT_OK && !*secret) /* which anybody could guess */
        status = error_set(error, WEFT_ERROR_RENDEZVOUS, "rank 0's secret came empty through %s", kvs->name);
    for (uint32_t rank = 0; status == WEFT_OK && rank < kvs->ranks; rank++)
        status = get_blob(kvs, exchange, rank, (uint8_t *)blobs + rank * size, size, error);
    return status;
}
