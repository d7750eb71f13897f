/* SPDX-License-Identifier: Apache-2.0 */
/** What the files of the HTTP server share: platform/http/server.c (listening, the thread), platform/http/admission.c (which
 * connections and bodies have room), platform/http/connection.c (reading), and platform/http/reply.c (answering). Everything here belongs
 * to the server's thread unless it says otherwise. */
#ifndef WEFT_PLATFORM_HTTP_INTERNAL_SERVER_STATE_H
#define WEFT_PLATFORM_HTTP_INTERNAL_SERVER_STATE_H

#include "core/control/wire/address.h"
#include "platform/http/http.h"
#include "platform/http/message.h"
#include "platform/http/tls.h"

#include <event2/buffer.h>
#include <event2/bufferevent.h>
#include <event2/event.h>
#include <event2/listener.h>
#include <netinet/in.h>
#include <pthread.h>
#include <stdatomic.h>
#include <sys/queue.h>
#include <sys/socket.h>

#define HTTP_SWEEP_SECONDS  0.25  /* how often deadlines are looked at */
#define HTTP_INPUT_MOST     65536 /* bytes read ahead of a connection */
#define HTTP_STILL_SECONDS  2.0   /* how often the application is asked whether a stream may go on */
#define HTTP_SHARES         4096  /* two names that fall on the same one share it */
#define HTTP_LINGER_SECONDS 2.0   /* how long a client that is still sending has to read its refusal */

/* Of events of the loop: what is asked goes before what is written to streams, so that an event for a thousand
 * subscribers keeps no request waiting for all of them: with 1,000 of them, requests' p99 is 11 ms instead of 35
 * (bench/http_load). */
#define HTTP_PRIORITIES      3
#define HTTP_PRIORITY_USUAL  1 /* libevent's default, the middle one */
#define HTTP_PRIORITY_STREAM 2
#define HTTP_STREAMS_A_TURN  64 /* writes to streams between two looks at what has come */

enum http_state {
    HTTP_IDLE,      /* between two requests: nothing has come yet */
    HTTP_HEAD,      /* some of a head has come, or has to come after connecting */
    HTTP_BODY,      /* the head was read, the body comes */
    HTTP_HANDLING,  /* the application works on it */
    HTTP_REPLYING,  /* the answer is whole and on its way */
    HTTP_STREAMING, /* the answer is on its way and not whole */
    HTTP_LINGERING, /* answered and to be closed: what the client still sends is thrown away */
};

/* How many connections an address has, or a user of this machine; gone with the last. */
struct http_client_count {
    LIST_ENTRY(http_client_count) entry;
    char whose[INET6_ADDRSTRLEN]; /* the address, or "user 1000" */
    uint32_t count;
};

/* A port that is listened at, and what answers there. */
struct http_listener {
    struct http_listener *next;
    struct http_server *server;
    struct http_application application;
    struct evconnlistener *listener;
};

struct http_connection {
    TAILQ_ENTRY(http_connection) entry;
    struct http_server *server;
    const struct http_application *application;
    struct bufferevent *bufferevent;
    struct http_client_count *client;
    char peer[INET6_ADDRSTRLEN];  /* the client's address */
    struct http_request *request; /* the one that is being read or answered */
    enum http_state state;
    uint64_t since;    /* when the state began, clock_now() */
    uint64_t progress; /* when bytes last moved the way that is waited for */
    uint64_t moved;    /* how many have in this state */
    bool input_ended;  /* the client will send no more */
    bool close_after;  /* this answer is the last */
    bool peer_known;   /* `peer_user` is the user at the other end */
    uid_t peer_user;
    bool pumping; /* requests are being taken from the input: do not begin again */
};

struct http_request {
    struct http_server *server;
    struct http_connection *connection; /* NULL: gone */
    LIST_ENTRY(http_request) entry;     /* of those without an answer, for http_stop() */
    char *head;
    struct message message;
    char *path;
    const char *query;
    char peer[INET6_ADDRSTRLEN];
    struct chunks chunks;
    struct evbuffer *body; /* as it comes */
    char *body_text;       /* when it is whole */
    size_t body_size, body_most;
    uint32_t share;           /* whose room for bodies it has: an index of the server's shares */
    size_t claimed;           /* of that */
    struct evbuffer *headers; /* of the answer */
    struct http_stream_events events;
    void (*readable)(void *context); /* of a connection that the application has taken over, else NULL */
    struct http_posted lost;         /* of a stream that nobody reads */
    uint64_t asked;                  /* of a stream: when the application was asked last whether it may go on */
    unsigned status;                 /* of the answer; 0: none was sent */
    bool encrypted, answered, streaming, chunked, ended;
    void *data;
    void (*release)(void *data);
};

struct http_server {
    struct http_limits limits;
    struct http_application application; /* of http_open() */
    struct tls *tls;                     /* NULL: none */
    char host[ADDRESS_TEXT_BYTES];
    uint16_t port;
    bool local;      /* it listens at loopback */
    bool limits_own; /* the limit of an address holds for users of this machine, too */
    int wake;        /* an eventfd */
    struct event_base *base;
    struct http_listener *listeners; /* that of http_open() is the last */
    struct event *wake_event, *sweep_event, *resume_event;
    pthread_t thread;
    bool running;
    TAILQ_HEAD(, http_connection) connections; /* those that waited longest first, by their last change of state */
    LIST_HEAD(, http_client_count) clients[256];
    LIST_HEAD(, http_request) requests;
    uint32_t connection_count;
    size_t claimed;             /* of the room for bodies */
    size_t shares[HTTP_SHARES]; /* of that, by whose requests it is */
    char date[40];
    time_t date_second;
    pthread_mutex_t lock; /* of `posted` and `stopping` */
    struct http_posted *posted, **last_posted;
    bool stopping;
    _Atomic uint64_t now_connections, most_connections, accepted, refused, count_requests, errors, timeouts, streams,
        body_bytes;
};

/* platform/http/server.c */

/** All of http_open() but the listener: a fuzzer hands connections in and turns the loop itself. */
weft_status http_server_prepare(const struct http_config *config, struct http_server **server, struct error *error);

/* platform/http/connection.c */

/** Take charge of a connected socket, for an application of the server's; closes it where that fails. */
void http_connection_open(struct http_server *server, const struct http_application *application, int descriptor,
                          const char *address);
void http_connection_close(struct http_connection *connection);
void http_connection_enter(struct http_connection *connection, enum http_state state);
void http_connection_sweep(struct http_connection *connection, uint64_t now);

/* platform/http/admission.c */

/** Whether a new connection is let in: then it counts for its client until http_leave(). An idle one may end for that.
 */
bool http_admit(struct http_connection *connection, int descriptor);
void http_leave(struct http_client_count *client);

/** Whether so many more bytes of its body have room now. */
bool http_body_has_room(const struct http_request *request, size_t bytes);
/** So many more bytes of its body are kept, until the request is freed: false where there is no room for them. */
bool http_body_claim(struct http_request *request, size_t bytes);
void http_body_release(struct http_request *request);

/* platform/http/reply.c */

struct http_request *http_request_new(struct http_connection *connection);
void http_request_free(struct http_request *request);
/** The client is gone: a stream ends, what is not answered yet stays until it is. */
void http_request_lost(struct http_request *request);

#endif
