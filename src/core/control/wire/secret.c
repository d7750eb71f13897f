/* SPDX-License-Identifier: Apache-2.0 */
#include "core/control/wire/secret.h"

#include "base/sha256.h"

#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>

weft_status secret_random(void *bytes, size_t size, struct error *error)
{
    size_t done = 0;
    while (done < size) {
        ssize_t n = getrandom((char *)bytes + done, size - done, 0);
        if (n < 0)
            return error_system(error, "cannot get random bytes from the operating system");
        done += (size_t)n;
    }
    return WEFT_OK;
}

weft_status secret_make_text(char text[SECRET_TEXT_BYTES], struct error *error)
{
    uint8_t bytes[SECRET_BYTES];
    weft_status status = secret_random(bytes, sizeof bytes, error);
    if (status == WEFT_OK)
        sha256_text(bytes, text);
    return status;
}

weft_status secret_from_text(const char *text, uint8_t key[SECRET_BYTES], struct error *error)
{
    static const char label[] = "weft job secret 1";
    struct sha256 hash;
    weft_status status = sha256_begin(&hash, error);
    if (status != WEFT_OK)
        return status;
    sha256_update(&hash, label, sizeof label);
    sha256_update(&hash, text, strlen(text));
    return sha256_end(&hash, key, error);
}

bool secret_sign(const uint8_t key[SECRET_BYTES], const void *bytes, size_t size, uint8_t proof[SECRET_BYTES])
{
    unsigned length = SECRET_BYTES;
    if (HMAC(EVP_sha256(), key, SECRET_BYTES, bytes, size, proof, &length))
        return true;
    (void)secret_random(proof, SECRET_BYTES, NULL); /* a random proof, which no other end will accept */
    return false;
}

bool secret_equal(const uint8_t a[SECRET_BYTES], const uint8_t b[SECRET_BYTES])
{
    return CRYPTO_memcmp(a, b, SECRET_BYTES) == 0;
}
