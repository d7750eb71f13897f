/* SPDX-License-Identifier: Apache-2.0 */
/**
 * The certificate that hosts know the server by: made by the server itself, for itself. A job has its SHA-256 in its
 * script, and hosts insist on it, so no authority is needed. Thread-safe.
 */
#ifndef WEFT_PLATFORM_ENGINE_REMOTE_INTERNAL_CERTIFICATE_H
#define WEFT_PLATFORM_ENGINE_REMOTE_INTERNAL_CERTIFICATE_H

#include "base/error.h"
#include "platform/engine/remote/internal/frames.h"

#include <openssl/ssl.h>

/** For the server: with the key and certificate in the file at `path` (PEM, mode 0600), made if it is missing. SSL_CTX_free()
 * frees it. `print` receives the SHA-256. Errors: SYSTEM, DATA, MEMORY. */
weft_status certificate_server(const char *path, SSL_CTX **context, char print[REMOTE_PRINT_BYTES],
                               struct error *error);

/** For a host. Errors: MEMORY. */
weft_status certificate_client(SSL_CTX **context, struct error *error);

/** Whether the other end of a connection, whose handshake is over, has the certificate with this SHA-256. */
bool certificate_matches(SSL *ssl, const char *print);

#endif
