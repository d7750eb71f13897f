/* SPDX-License-Identifier: Apache-2.0 */
#include "platform/http/tls.h"

#include <arpa/inet.h>
#include <openssl/err.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

struct tls {
    SSL_CTX *context;
};

const char *tls_reason(char *text, size_t room)
{
    unsigned long code = ERR_get_error();
    const char *reason = code ? ERR_reason_error_string(code) : NULL;
    snprintf(text, room, "%s", reason ? reason : "OpenSSL does not say why");
    ERR_clear_error();
    return text;
}

static weft_status tls_make(const SSL_METHOD *method, struct tls **tls, struct error *error)
{
    struct tls *made = calloc(1, sizeof *made);
    if (!made)
        return error_memory(error, sizeof *made, "TLS");
    made->context = SSL_CTX_new(method);
    if (!made->context) {
        free(made);
        return error_memory(error, sizeof(SSL_CTX *), "TLS");
    }
    SSL_CTX_set_min_proto_version(made->context, TLS1_2_VERSION);
    SSL_CTX_set_options(made->context, SSL_OP_NO_RENEGOTIATION | SSL_OP_NO_COMPRESSION);
    SSL_CTX_set_mode(made->context, SSL_MODE_RELEASE_BUFFERS);
    *tls = made;
    return WEFT_OK;
}

/* A key that others may read or write is no secret. Its group may read it: that is how machines hand keys to servers.
 */
static weft_status check_key(const char *key, struct error *error)
{
    struct stat kind;
    if (stat(key, &kind) != 0)
        return error_system(error, "cannot read the key '%s'", key);
    if (kind.st_mode & 007)
        return error_set(
            error, WEFT_ERROR_DATA,
            "the key '%s' is open to everybody on this machine (mode %04o): chmod o= '%s', and take another "
            "key if somebody may have read it",
            key, (unsigned)(kind.st_mode & 07777), key);
    return WEFT_OK;
}

weft_status tls_server(const char *certificate, const char *key, struct tls **tls, struct error *error)
{
    struct tls *made = NULL;
    char reason[256];
    ERR_clear_error();
    const char *files[] = {certificate, key};
    for (size_t i = 0; i < 2; i++) /* OpenSSL does not say that a file is not there */
        if (access(files[i], R_OK) != 0)
            return error_system(error, "cannot read the %s '%s'", i == 0 ? "certificate" : "key", files[i]);
    weft_status status = tls_make(TLS_server_method(), &made, error);
    if (status != WEFT_OK)
        return status;
    if (SSL_CTX_use_certificate_chain_file(made->context, certificate) != 1)
        status = error_set(error, WEFT_ERROR_DATA, "'%s' holds no certificate in PEM form that can be used: %s",
                           certificate, tls_reason(reason, sizeof reason));
    else if (SSL_CTX_use_PrivateKey_file(made->context, key, SSL_FILETYPE_PEM) != 1)
        status = error_set(error, WEFT_ERROR_DATA, "'%s' is not the key, in PEM form, of the certificate in '%s': %s",
                           key, certificate, tls_reason(reason, sizeof reason));
    else
        status = check_key(key, error);
    if (status != WEFT_OK) {
        tls_free(made);
        return status;
    }
    *tls = made;
    return WEFT_OK;
}

weft_status tls_client(const char *authority, struct tls **tls, struct error *error)
{
    struct tls *made = NULL;
    char reason[256];
    ERR_clear_error();
    weft_status status = tls_make(TLS_client_method(), &made, error);
    if (status != WEFT_OK)
        return status;
    SSL_CTX_set_verify(made->context, SSL_VERIFY_PEER, NULL);
    int loaded = authority ? SSL_CTX_load_verify_locations(made->context, authority, NULL)
                           : SSL_CTX_set_default_verify_paths(made->context);
    if (loaded != 1) {
        status = error_set(error, WEFT_ERROR_DATA, "cannot read the certificates to trust from '%s': %s",
                           authority ? authority : "the system's directory", tls_reason(reason, sizeof reason));
        tls_free(made);
        return status;
    }
    *tls = made;
    return WEFT_OK;
}

SSL *tls_accept(struct tls *tls)
{
    SSL *ssl = SSL_new(tls->context);
    if (ssl)
        SSL_set_accept_state(ssl);
    return ssl;
}

SSL *tls_connect(struct tls *tls, const char *host)
{
    struct in6_addr digits;
    SSL *ssl = SSL_new(tls->context);
    if (!ssl)
        return NULL;
    SSL_set_connect_state(ssl);
    bool is_digits = inet_pton(AF_INET, host, &digits) == 1 || inet_pton(AF_INET6, host, &digits) == 1;
    bool set = is_digits ? X509_VERIFY_PARAM_set1_ip_asc(SSL_get0_param(ssl), host) == 1
                         : SSL_set_tlsext_host_name(ssl, host) == 1 && SSL_set1_host(ssl, host) == 1;
    if (!set) {
        SSL_free(ssl);
        return NULL;
    }
    return ssl;
}

void tls_free(struct tls *tls)
{
    if (!tls)
        return;
    SSL_CTX_free(tls->context);
    free(tls);
}
