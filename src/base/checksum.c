/* SPDX-License-Identifier: Apache-2.0 */
/* SHA-256 and CRC-32C. */
#include "base/sha256.h"

#include "base/crc32c.h"
#include "base/internal/crc32c_sse42.h"

#include <openssl/evp.h>
#include <stdio.h>
#include <string.h>

static weft_status library_failed(struct error *error)
{
    return error_set(error, WEFT_ERROR_SYSTEM, "libcrypto refused to compute a SHA-256; is its configuration broken?");
}

weft_status sha256_begin(struct sha256 *hash, struct error *error)
{
    *hash = (struct sha256){0};
    EVP_MD_CTX *context = EVP_MD_CTX_new();
    if (!context)
        return error_memory(error, 0, "a SHA-256");
    if (EVP_DigestInit_ex(context, EVP_sha256(), NULL) != 1) {
        EVP_MD_CTX_free(context);
        return library_failed(error);
    }
    hash->context = context;
    return WEFT_OK;
}

void sha256_update(struct sha256 *hash, const void *bytes, size_t size)
{
    if (size > 0 && EVP_DigestUpdate(hash->context, bytes, size) != 1)
        hash->status = WEFT_ERROR_SYSTEM;
}

weft_status sha256_end(struct sha256 *hash, uint8_t digest[SHA256_BYTES], struct error *error)
{
    unsigned size = 0;
    if (digest && (EVP_DigestFinal_ex(hash->context, digest, &size) != 1 || size != SHA256_BYTES))
        hash->status = WEFT_ERROR_SYSTEM;
    EVP_MD_CTX_free(hash->context);
    hash->context = NULL;
    return hash->status == WEFT_OK ? WEFT_OK : library_failed(error);
}

weft_status sha256_of(const void *bytes, size_t size, uint8_t digest[SHA256_BYTES], struct error *error)
{
    struct sha256 hash;
    weft_status result = sha256_begin(&hash, error);
    if (result != WEFT_OK)
        return result;
    sha256_update(&hash, bytes, size);
    return sha256_end(&hash, digest, error);
}

char *sha256_text(const uint8_t digest[SHA256_BYTES], char text[SHA256_TEXT_BYTES])
{
    for (int i = 0; i < SHA256_BYTES; i++)
        snprintf(text + 2 * (size_t)i, 3, "%02x", digest[i]);
    return text;
}

bool sha256_parse(const char *text, uint8_t digest[SHA256_BYTES])
{
    static const char digits[] = "0123456789abcdef";
    if (strlen(text) != SHA256_TEXT_BYTES - 1 || strspn(text, digits) != SHA256_TEXT_BYTES - 1)
        return false;
    for (size_t i = 0; i < SHA256_BYTES; i++, text += 2)
        digest[i] = (uint8_t)((strchr(digits, text[0]) - digits) << 4 | (strchr(digits, text[1]) - digits));
    return true;
}

/*
 * The contribution of each value of the four lowest bits when they are shifted out, by the reflected polynomial
 * 0x82f63b78.
 */
static const uint32_t shifted_out[16] = {
    0x00000000, 0x105ec76f, 0x20bd8ede, 0x30e349b1, 0x417b1dbc, 0x5125dad3, 0x61c69362, 0x7198540d,
    0x82f63b78, 0x92a8fc17, 0xa24bb5a6, 0xb21572c9, 0xc38d26c4, 0xd3d3e1ab, 0xe330a81a, 0xf36e6f75,
};

uint32_t crc32c_plain(uint32_t crc, const void *bytes, size_t size)
{
    const uint8_t *byte = bytes;
    crc = ~crc;
    for (size_t i = 0; i < size; i++) {
        crc ^= byte[i];
        crc = crc >> 4 ^ shifted_out[crc & 15];
        crc = crc >> 4 ^ shifted_out[crc & 15];
    }
    return ~crc;
}

uint32_t crc32c_extend(uint32_t crc, const void *bytes, size_t size)
{
    return crc32c_sse42_is_usable() ? ~crc32c_sse42(~crc, bytes, size) : crc32c_plain(crc, bytes, size);
}

uint32_t crc32c(const void *bytes, size_t size)
{
    return crc32c_extend(0, bytes, size);
}

uint32_t crc32c_masked(const void *bytes, size_t size)
{
    const uint32_t crc = crc32c(bytes, size);
    return (crc >> 15 | crc << 17) + 0xa282ead8u;
}
