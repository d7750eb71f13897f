/* SPDX-License-Identifier: Apache-2.0 */
/** TLS for server and client, through OpenSSL: TLS 1.2 and newer, no renegotiation, no compression. */
#ifndef WEFT_PLATFORM_HTTP_TLS_H
#define WEFT_PLATFORM_HTTP_TLS_H

#include "base/error.h"

#include <openssl/ssl.h>

struct tls;

/** For a server: `certificate` (followed by the intermediate certificates) and `key` are PEM files. tls_free() frees
 * it. Errors: DATA, with the file's name and OpenSSL's reason. */
weft_status tls_server(const char *certificate, const char *key, struct tls **tls, struct error *error);

/** For a client: it trusts what the system trusts, or what `authority` (a PEM file; NULL: none) has signed. */
weft_status tls_client(const char *authority, struct tls **tls, struct error *error);

/** A new connection; SSL_free() or a bufferevent frees it. NULL: memory ran out. */
SSL *tls_accept(struct tls *tls);

/** The same of a client, which insists on a certificate for `host` (a name or digits). */
SSL *tls_connect(struct tls *tls, const char *host);

/** NULL is allowed. */
void tls_free(struct tls *tls);

/** OpenSSL's own words for what has just failed on this thread. */
const char *tls_reason(char *text, size_t room);

#endif
