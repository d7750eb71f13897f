/* SPDX-License-Identifier: Apache-2.0 */
#include "platform/engine/remote/internal/certificate.h"

#include "base/file/file.h"

#include <fcntl.h>
#include <openssl/err.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/rand.h>
#include <openssl/x509.h>
#include <sodium.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define DAYS_VALID 36500 /* hosts compare its SHA-256, and no dates */
#define PEM_MOST   ((size_t)16 << 10)

static weft_status openssl_failed(const char *what, struct error *error)
{
    const char *reason = ERR_reason_error_string(ERR_get_error());
    ERR_clear_error();
    return error_set(error, WEFT_ERROR_SYSTEM, "cannot %s: %s", what, reason ? reason : "OpenSSL does not say why");
}

static bool name_certificate(X509 *certificate)
{
    unsigned char serial[8];
    X509_NAME *name = X509_get_subject_name(certificate);
    ASN1_INTEGER *number = X509_get_serialNumber(certificate);
    uint64_t value = 0;
    if (RAND_bytes(serial, sizeof serial) != 1)
        return false;
    memcpy(&value, serial, sizeof value);
    return X509_set_version(certificate, 2) == 1 && ASN1_INTEGER_set_uint64(number, value >> 1) == 1 &&
           X509_NAME_add_entry_by_txt(name, "CN", MBSTRING_ASC, (const unsigned char *)"weft", -1, -1, 0) == 1 &&
           X509_set_issuer_name(certificate, name) == 1 && X509_gmtime_adj(X509_getm_notBefore(certificate), -86400) &&
           X509_time_adj_ex(X509_getm_notAfter(certificate), DAYS_VALID, 0, NULL);
}

/* A new key and its certificate, as PEM. */
static weft_status make_certificate(BIO *pem, struct error *error)
{
    EVP_PKEY *key = EVP_EC_gen("P-256");
    X509 *certificate = X509_new();
    const bool made = key && certificate && name_certificate(certificate) && X509_set_pubkey(certificate, key) == 1 &&
                      X509_sign(certificate, key, EVP_sha256()) > 0 &&
                      PEM_write_bio_PrivateKey(pem, key, NULL, NULL, 0, NULL, NULL) == 1 &&
                      PEM_write_bio_X509(pem, certificate) == 1;
    X509_free(certificate);
    EVP_PKEY_free(key);
    return made ? WEFT_OK : openssl_failed("make a certificate", error);
}

static weft_status make_certificate_file(const char *path, struct error *error)
{
    BIO *pem = BIO_new(BIO_s_mem());
    char *bytes = NULL;
    if (!pem)
        return error_memory(error, PEM_MOST, "a certificate");
    weft_status status = make_certificate(pem, error);
    const long size = status == WEFT_OK ? BIO_get_mem_data(pem, &bytes) : 0;
    const mode_t before = umask(077);
    if (status == WEFT_OK)
        status = file_write(path, bytes, (size_t)size, error);
    umask(before);
    if (bytes)
        sodium_memzero(bytes, (size_t)size);
    BIO_free(pem);
    return status;
}

static void print_certificate(X509 *certificate, char print[REMOTE_PRINT_BYTES])
{
    unsigned char digest[EVP_MAX_MD_SIZE];
    unsigned size = 0;
    print[0] = '\0';
    if (certificate && X509_digest(certificate, EVP_sha256(), digest, &size) == 1 && size == 32)
        sodium_bin2hex(print, REMOTE_PRINT_BYTES, digest, size);
}

static weft_status new_context(const SSL_METHOD *method, SSL_CTX **context, struct error *error)
{
    SSL_CTX *made = SSL_CTX_new(method);
    if (!made)
        return error_memory(error, sizeof made, "TLS");
    SSL_CTX_set_min_proto_version(made, TLS1_3_VERSION);
    SSL_CTX_set_mode(made, SSL_MODE_RELEASE_BUFFERS);
    *context = made;
    return WEFT_OK;
}

weft_status certificate_server(const char *path, SSL_CTX **context, char print[REMOTE_PRINT_BYTES], struct error *error)
{
    struct stat found;
    SSL_CTX *made = NULL;
    weft_status status = file_exists(path) ? WEFT_OK : make_certificate_file(path, error);
    if (status == WEFT_OK && stat(path, &found) != 0)
        status = error_system(error, "cannot find '%s'", path);
    if (status == WEFT_OK && (found.st_mode & 077))
        status =
            error_set(error, WEFT_ERROR_DATA,
                      "'%s' has the key that hosts know this server by, and others may read it (mode %04o): remove "
                      "it, and the server makes another one",
                      path, (unsigned)(found.st_mode & 07777));
    if (status == WEFT_OK)
        status = new_context(TLS_server_method(), &made, error);
    if (status == WEFT_OK && (SSL_CTX_use_certificate_file(made, path, SSL_FILETYPE_PEM) != 1 ||
                              SSL_CTX_use_PrivateKey_file(made, path, SSL_FILETYPE_PEM) != 1)) {
        ERR_clear_error();
        status = error_set(error, WEFT_ERROR_DATA,
                           "'%s' does not have a key and its certificate: remove it, and the server makes another one",
                           path);
    }
    if (status != WEFT_OK) {
        SSL_CTX_free(made);
        return status;
    }
    print_certificate(SSL_CTX_get0_certificate(made), print);
    *context = made;
    return WEFT_OK;
}

weft_status certificate_client(SSL_CTX **context, struct error *error)
{
    weft_status status = new_context(TLS_client_method(), context, error);
    if (status == WEFT_OK) /* certificate_matches() does */
        SSL_CTX_set_verify(*context, SSL_VERIFY_NONE, NULL);
    return status;
}

bool certificate_matches(SSL *ssl, const char *print)
{
    char found[REMOTE_PRINT_BYTES];
    X509 *certificate = SSL_get1_peer_certificate(ssl);
    print_certificate(certificate, found);
    X509_free(certificate);
    return *found && strlen(print) == strlen(found) && sodium_memcmp(found, print, sizeof found - 1) == 0;
}
