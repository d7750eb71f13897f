/* SPDX-License-Identifier: Apache-2.0 */
/**
 * SHA-256 (FIPS 180-4) of a stream of bytes, through libcrypto, which uses the processor's SHA instructions: about
 * 2 GB/s where it has them. A struct belongs to one thread at a time.
 */
#ifndef WEFT_BASE_SHA256_H
#define WEFT_BASE_SHA256_H

#include "base/error.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define SHA256_BYTES      32
#define SHA256_TEXT_BYTES 65 /**< 64 hexadecimal digits and a NUL */

/** A hash in progress: begin, update as often as needed (large pieces are faster), end. */
struct sha256 {
    void *context; /**< libcrypto's; owned between begin and end */
    weft_status status;
};

weft_status sha256_begin(struct sha256 *hash, struct error *error);
void sha256_update(struct sha256 *hash, const void *bytes, size_t size);

/** Write the digest and free the memory that begin allocated. `digest` may be NULL to give up. */
weft_status sha256_end(struct sha256 *hash, uint8_t digest[SHA256_BYTES], struct error *error);

/** All in one, of `size` bytes. */
weft_status sha256_of(const void *bytes, size_t size, uint8_t digest[SHA256_BYTES], struct error *error);

/** The digest in lower-case hexadecimal digits; returns `text`. */
char *sha256_text(const uint8_t digest[SHA256_BYTES], char text[SHA256_TEXT_BYTES]);

/** Parse such digits into a digest; false for a text that is not 64 of them. */
bool sha256_parse(const char *text, uint8_t digest[SHA256_BYTES]);

#endif
