/* SPDX-License-Identifier: Apache-2.0 */
/**
 * An HTTP/1.1 server: listening, connections, their limits, TLS, replies and streams. It knows nothing of what is
 * served: an `http_application` answers (route.h makes one of a table of routes).
 *
 * One thread runs everything: libevent's loop, and on it each function of the application. So these functions must not
 * block: slow work is given to another thread, which answers through http_post().
 *
 * A request is answered once, at once or later, by http_reply(), http_fail() or a stream, and is gone with that. A
 * client that goes away does not end its request: the answer is then thrown away. Where a client may be slow, memory is
 * bounded: one request of a connection is worked on at a time, bodies have a limit each and together, and the queue of
 * a stream is reported (http_stream_queued), so that its writer stops.
 *
 * Strangers: all limits of http_limits hold before a token is looked at. A head or body that does not come, or come
 * fast enough, ends with 408; a reply that is not read, with the end of the connection. Bytes that are not strictly
 * HTTP (message.h) end with 400. Errors are JSON: {"error": {"status": 413, "message": "a message"}}.
 */
#ifndef WEFT_PLATFORM_HTTP_HTTP_H
#define WEFT_PLATFORM_HTTP_HTTP_H

#include "base/error.h"
#include "base/format/json.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#define HTTP_PORT 8400
#define HTTP_HOST "127.0.0.1"

#define HTTP_FILES_KEPT 128 /**< descriptors of a process that serves, besides its connections */

struct http_server;
struct http_request;
struct message;

/** What a stranger may take. Zero stands for the default in brackets. */
struct http_limits {
    uint32_t connections;         /**< [4096, less where the process may not open as many files] */
    uint32_t address_connections; /**< of one address [512; a user of this machine: as many as are left free] */
    uint32_t files_kept;          /**< descriptors that are for other things than connections [HTTP_FILES_KEPT] */
    size_t head_bytes;            /**< first line and headers [16 KiB] */
    size_t body_bytes;            /**< of a request, unless the application says otherwise [1 MiB] */
    size_t bodies_bytes;          /**< of all requests together, from when they come until the answer [512 MiB];
                                       nobody (http_request_share) may have more than what then is left */
    double head_seconds;          /**< from the connection, or the first byte, to the end of the head [10] */
    double idle_seconds;          /**< between two requests [60] */
    double stall_seconds;         /**< without progress: a body, a reply, a stream that is not read [30] */
    double bytes_per_second;      /**< a body or reply may take stall_seconds, and by this rate longer [4096] */
};

/** What answers. Its functions run on the server's thread. */
struct http_application {
    /**
     * The head has come. Answer at once (who may not, what is not there), or return with `*body_most` set to the most
     * bytes that the body may have (it comes in as http_limits' body_bytes).
     */
    void (*begin)(void *context, struct http_request *request, size_t *body_most);
    /** The request is whole. Answer now or later. */
    void (*handle)(void *context, struct http_request *request);
    /** Of an answer without a known end, every two seconds: whether it may go on. False: the connection ends, as if the
     * client had gone. NULL: it may. */
    bool (*still)(void *context, struct http_request *request);
    void *context;
};

struct http_config {
    const char *host;              /**< digits or a name; NULL: loopback */
    uint16_t port;                 /**< 0: any free one */
    const char *certificate, *key; /**< PEM files; both or none */
    bool tokens;                   /**< the application lets nobody in without a token */
    struct http_limits limits;
    struct http_application application;
};

/**
 * Listen; clients that come wait until http_start(). A host that is not this machine's loopback is refused without TLS
 * and tokens. What the config points to is copied but the application's context, which must outlive the server.
 * Errors: ARGUMENT, SYSTEM, RENDEZVOUS (the port is in use), DATA (certificate and key).
 */
weft_status http_open(const struct http_config *config, struct http_server **server, struct error *error);

/**
 * Listen at another port of the same host, too, for another application: with the same TLS, limits and thread. Before
 * http_start(). The application is copied but its context, which must outlive the server. Errors: SYSTEM, RENDEZVOUS (the
 * port is in use).
 */
weft_status http_listen(struct http_server *server, uint16_t port, const struct http_application *application,
                        struct error *error);

/** Start the thread that serves. Once. */
weft_status http_start(struct http_server *server, struct error *error);

/** End all connections and the thread. Requests that are not answered yet are freed: nobody may answer them any more.
 * NULL is allowed. */
void http_stop(struct http_server *server);

/** "http://127.0.0.1:8400", as a client may call it; `text` has room for 320 bytes. Returns `text`. */
char *http_address(const struct http_server *server, char *text, size_t room);

/** What there is at the moment; from any thread. */
struct http_counts {
    uint64_t connections, most_connections, accepted, refused, requests, errors, timeouts, streams, body_bytes;
};
struct http_counts http_counts(struct http_server *server);

/** An entry in the queue of functions that the server's thread calls. The caller of http_post() provides it, so that no
 * answer is lost for lack of memory, and owns it again when `function` is called. */
struct http_posted {
    struct http_posted *next;
    void (*function)(void *context);
    void *context;
};

/** Have the server's thread call `function` soon, in the order of calls; from any thread. False: the server is
 * stopping, and never will; requests are freed by that. */
bool http_post(struct http_server *server, struct http_posted *posted, void (*function)(void *context), void *context);

/**
 * Have the server's thread call `ready` whenever `descriptor` can be read, or with `writing` written to, until
 * http_watch_free(): for what an application has open besides requests. Paused, it is not called. All on the server's
 * thread; a watch ends before its descriptor is closed and before http_stop() returns. NULL: memory ran out.
 */
struct http_watch;
struct http_watch *http_watch_new(struct http_server *server, int descriptor, bool writing,
                                  void (*ready)(void *context), void *context);
void http_watch_pause(struct http_watch *watch, bool paused); /**< NULL is allowed */
void http_watch_free(struct http_watch *watch);               /**< NULL is allowed */

/* ---- the request ---- */

struct http_server *http_request_server(const struct http_request *request);
const char *http_request_method(const struct http_request *request);
const char *http_request_path(const struct http_request *request);  /**< as it came, %XX and all, without the query */
const char *http_request_query(const struct http_request *request); /**< after the question mark; "" without one */
const char *http_request_header(const struct http_request *request, const char *name); /**< or NULL */
const char *http_request_peer(const struct http_request *request);            /**< the client's address, in digits */
bool http_request_peer_user(const struct http_request *request, uid_t *user); /**< as peer_user() */
/** In begin(): whose share of the room for bodies the request has; the client's address, unless this says somebody. */
void http_request_share(struct http_request *request, const char *name);

/** The head as it was read (message.h); the target with its query, the names and values of headers. */
const struct message *http_request_message(const struct http_request *request);

bool http_request_is_local(const struct http_request *request); /**< the server listens for this machine alone */
/** Whether the Host header has a name of this machine's loopback, which no page can point elsewhere. */
bool http_request_names_loopback(const struct http_request *request);
bool http_request_is_encrypted(const struct http_request *request);

/** The body, in one piece; NULL where there is none. A NUL that is not counted follows it. */
const char *http_request_body(const struct http_request *request, size_t *size);

/** The status it was answered with, whether or not anybody was still there; 0: it was not. */
unsigned http_request_status(const struct http_request *request);

/** Keep something with the request; `release` (may be NULL) is called with it when the request ends. */
void http_request_attach(struct http_request *request, void *data, void (*release)(void *data));
void *http_request_attached(const struct http_request *request);

/* ---- the answer ---- */

/** Add a header to the answer that will be given. CR, LF and NUL end the value. */
void http_reply_header(struct http_request *request, const char *name, const char *value);

/** Answer with `size` bytes, which are copied, of `type` (NULL: no body at all). To HEAD, the head alone is sent. */
void http_reply(struct http_request *request, unsigned status, const char *type, const void *bytes, size_t size);

/** Answer with bytes that are not copied: they stay as they are until `release` (may be NULL) is called. */
void http_reply_kept(struct http_request *request, unsigned status, const char *type, const void *bytes, size_t size,
                     void (*release)(void *context), void *context);

/** Answer with a JSON text and a newline; 500 where the writer has run out of memory. */
void http_reply_json(struct http_request *request, unsigned status, const struct json_writer *writer);

/** Answer with an error: a message, and the name of the parameter that is wrong (NULL: none is). */
void http_fail(struct http_request *request, unsigned status, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
void http_fail_parameter(struct http_request *request, unsigned status, const char *parameter, const char *message);

/** The same of a struct error: ARGUMENT and DATA are 400, STATE 409, TIMEOUT 504, the rest 500. */
void http_fail_error(struct http_request *request, const struct error *error);

/* ---- answers without a known end ---- */

struct http_stream_events {
    void (*drained)(void *context); /**< what was queued is on its way: there is room again. May be NULL */
    void (*idle)(void *context);    /**< called about every quarter of a second. May be NULL */
    void (*closed)(void *context);  /**< the client is gone, or did not read: the request is freed after this call */
    void *context;
};

/**
 * Begin an answer that goes on until http_stream_end(), which is to be called unless `closed` was. To HEAD, the head
 * alone is sent and `closed` is called soon.
 */
void http_stream_begin(struct http_request *request, unsigned status, const char *type,
                       const struct http_stream_events *events);

/** Queue `size` bytes, which are copied; or kept, until `release` is called. */
void http_stream_write(struct http_request *request, const void *bytes, size_t size);
void http_stream_write_kept(struct http_request *request, const void *bytes, size_t size,
                            void (*release)(void *context), void *context);

/** Bytes that the client has not taken yet. Stop writing above some 64 KiB until `drained` is called. */
size_t http_stream_queued(const struct http_request *request);

void http_stream_end(struct http_request *request);

/* ---- connections that are passed on ---- */

/**
 * Take the connection over from begin(): nothing more is read of the request than its head, and the application writes
 * the answer itself, head included. It is written, watched and ended as a stream, and the connection ends with it; no
 * half of it ends before. `readable` is called when the client has sent something; what had come before waits already.
 */
void http_raw_begin(struct http_request *request, const struct http_stream_events *events,
                    void (*readable)(void *context));

/** Take at most `room` bytes of what has followed the head: how many there were. What is not taken slows the client. */
size_t http_raw_read(struct http_request *request, void *bytes, size_t room);

#endif
