/* SPDX-License-Identifier: Apache-2.0 */
/**
 * The job's secret: keys derived from it, and proofs (HMAC-SHA256) that a process holds it without revealing it.
 * Thread-safe.
 */
#ifndef WEFT_CORE_CONTROL_WIRE_SECRET_H
#define WEFT_CORE_CONTROL_WIRE_SECRET_H

#include "base/error.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define SECRET_BYTES      32
#define SECRET_TEXT_BYTES (2 * SECRET_BYTES + 1)

/** Random bytes from the operating system. */
weft_status secret_random(void *bytes, size_t size, struct error *error);

/** A new secret as hexadecimal digits, as in WEFT_SECRET. */
weft_status secret_make_text(char text[SECRET_TEXT_BYTES], struct error *error);

/** The key for a secret's text: SHA-256 over a label and the text. */
weft_status secret_from_text(const char *text, uint8_t key[SECRET_BYTES], struct error *error);

/** HMAC-SHA256 (RFC 2104) of `size` bytes under `key`; also derives keys from keys. False (and a random proof) if it
 * failed. */
bool secret_sign(const uint8_t key[SECRET_BYTES], const void *bytes, size_t size, uint8_t proof[SECRET_BYTES]);

/** Whether two proofs are equal, in constant time. */
bool secret_equal(const uint8_t a[SECRET_BYTES], const uint8_t b[SECRET_BYTES]);

#endif
