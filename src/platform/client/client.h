/* SPDX-License-Identifier: Apache-2.0 */
/**
 * The client side of the HTTP interface: requests with JSON, streams of lines, over HTTP or HTTPS.
 *
 *     struct client *client;
 *     struct client_reply reply;
 *     status = client_open(&(struct client_config){0}, &client, error);
 *     const struct client_request request = {.method = "GET", .path = "/api/v1/runs"};
 *     if (status == WEFT_OK)
 *         status = client_ask(client, &request, &reply, error);
 *     ... reply.json ...
 *     client_reply_free(&reply);
 *     client_close(client);
 *
 * The server is WEFT_SERVER ("http://127.0.0.1:8400" by default). The token comes from the token file (token_file.h), if
 * it exists. It is sent over TLS, and without TLS only to this machine, to a server that belongs to root, to the caller
 * or to WEFT_SERVER_USER (trust.h). The connection is kept for the next request. Redirects are refused. A client
 * belongs to one thread at a time.
 *
 * Errors are messages for the user. RENDEZVOUS: no server answers, or it is not trusted. NETWORK: the reply is not HTTP,
 * or the connection was cut. TIMEOUT. ARGUMENT: the server refused the request (3xx, 4xx); the message is the server's.
 * SYSTEM: the server failed (5xx).
 */
#ifndef WEFT_PLATFORM_CLIENT_CLIENT_H
#define WEFT_PLATFORM_CLIENT_CLIENT_H

#include "base/error.h"
#include "base/format/json.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define CLIENT_REPLY_MOST ((size_t)256 << 20) /**< bytes of a reply that is kept whole */

struct client;

struct client_config {
    const char *server;     /**< "http://host:port" or "https://..."; NULL: WEFT_SERVER, or this machine's */
    const char *token;      /**< NULL: that of the token file; "": none */
    const char *authority;  /**< PEM file of the authority that signed the server's certificate; NULL:
                                 WEFT_SERVER_CERTIFICATE, or the authorities that the system trusts */
    double connect_seconds; /**< [5] */
    double reply_seconds;   /**< longest time without a byte of the reply [60] */
};

weft_status client_open(const struct client_config *config, struct client **client, struct error *error);

/** NULL is allowed. */
void client_close(struct client *client);

/** The server's address, as messages show it. */
const char *client_server(const struct client *client);

struct client_request {
    const char *method, *path;   /**< path: with %XX and the query, see client_path_add() */
    const char *body;            /**< NULL: none */
    size_t size;                 /**< of the body; 0: it is a string */
    const char *type;            /**< of the body [application/json] */
    const char *idempotency_key; /**< NULL: none; with one, a request is repeated if its connection was cut */
};

struct client_reply {
    unsigned status;
    cJSON *json; /**< NULL if the reply is not JSON */
    char *text;  /**< the body, with a NUL after it */
    size_t size;
};

/** Send a request and wait for the reply. A refusal is an error, with reply->status set and nothing to free. */
weft_status client_ask(struct client *client, const struct client_request *request, struct client_reply *reply,
                       struct error *error);
void client_reply_free(struct client_reply *reply);

/**
 * Read a reply as it comes, in pieces of any size, until it ends or `take` returns false. After `quiet_seconds` without
 * a byte the connection counts as cut (0: never).
 */
weft_status client_bytes(struct client *client, const struct client_request *request, double quiet_seconds,
                         bool (*take)(void *context, const char *bytes, size_t size), void *context,
                         struct error *error);

/**
 * The same line by line, until the reply ends or `line` returns false. Lines are given without their end. Lines of more
 * than 1 MiB come in pieces.
 */
weft_status client_lines(struct client *client, const struct client_request *request, double quiet_seconds,
                         bool (*line)(void *context, const char *line, size_t size), void *context,
                         struct error *error);

/** Make a random key, 32 hexadecimal digits. Call it after client_open(). */
#define CLIENT_KEY_BYTES 33
void client_make_key(char key[CLIENT_KEY_BYTES]);

/** Append `text` to a path; characters with a meaning there become %XX. False: there is no room. */
bool client_path_add(char *path, size_t room, const char *text);

#endif
