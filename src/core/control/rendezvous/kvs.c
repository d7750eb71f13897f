/* SPDX-License-Identifier: Apache-2.0 */
#include "core/control/rendezvous/internal/kvs.h"

#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define VALUE_BYTES (2 * KVS_PLACE_BYTES) /* a place in digits, and a NUL */
_Static_assert(VALUE_BYTES <= 2 * SECRET_TEXT_BYTES, "where a secret fits, a place does");

/* The store keeps all values while the process lives, so each exchange has keys of its own. */
static atomic_uint exchanges;

static void write_digits(const uint8_t *bytes, size_t size, char *text)
{
    for (size_t i = 0; i < size; i++)
        snprintf(text + 2 * i, 3, "%02x", bytes[i]);
}

/* Undo write_digits(); false unless `text` is whole bytes, fewer than `room`. */
static bool read_digits(const char *text, uint8_t *bytes, size_t room)
{
    size_t size = strlen(text) / 2;
    if (strlen(text) % 2 || size >= room)
        return false;
    for (size_t i = 0; i < size; i++) {
        unsigned value = 0;
        if (sscanf(text + 2 * i, "%2x", &value) != 1)
            return false;
        bytes[i] = (uint8_t)value;
    }
    bytes[size] = 0;
    return true;
}

/* The key under which a rank publishes its place. */
static char *place_key(unsigned exchange, uint32_t rank, char key[64])
{
    snprintf(key, 64, "weft-%u-place-%u", exchange, rank);
    return key;
}

weft_status kvs_exchange(struct kvs *kvs, const char *place, uint32_t other, char others[KVS_PLACE_BYTES],
                         char secret[2 * SECRET_TEXT_BYTES], double limit_seconds, struct error *error)
{
    unsigned exchange = atomic_fetch_add(&exchanges, 1);
    char key[64], secret_key[64], value[VALUE_BYTES] = "";
    if (kvs->value_most < 2 * SECRET_TEXT_BYTES)
        return error_set(error, WEFT_ERROR_RENDEZVOUS, "%s takes values of %zu characters, too short for Weft",
                         kvs->name, kvs->value_most);
    if (strlen(place) >= KVS_PLACE_BYTES)
        return error_set(error, WEFT_ERROR_RENDEZVOUS, "the address '%s' is longer than %d characters", place,
                         KVS_PLACE_BYTES - 1);
    snprintf(secret_key, sizeof secret_key, "weft-%u-secret", exchange);
    write_digits((const uint8_t *)place, strlen(place), value);
    weft_status status = *place ? kvs->put(kvs, place_key(exchange, kvs->rank, key), value, error) : WEFT_OK;
    if (status == WEFT_OK && kvs->rank == 0)
        status = kvs->put(kvs, secret_key, secret, error);
    if (status == WEFT_OK)
        status = kvs->fence(kvs, limit_seconds, error);
    if (status == WEFT_OK && kvs->rank != 0)
        status = kvs->get(kvs, 0, secret_key, secret, 2 * SECRET_TEXT_BYTES, error);
    if (status == WEFT_OK && !*secret) /* an empty secret is easily guessed */
        status = error_set(error, WEFT_ERROR_RENDEZVOUS, "%s returned an empty secret for rank 0", kvs->name);
    if (status != WEFT_OK || other == kvs->rank)
        return status;
    status = kvs->get(kvs, other, place_key(exchange, other, key), value, sizeof value, error);
    if (status == WEFT_OK && !read_digits(value, (uint8_t *)others, KVS_PLACE_BYTES))
        status = error_set(error, WEFT_ERROR_RENDEZVOUS,
                           "the address of rank %u from %s is malformed; do all hosts have the same build of Weft?",
                           other, kvs->name);
    return status;
}
