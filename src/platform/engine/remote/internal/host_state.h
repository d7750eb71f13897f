/* SPDX-License-Identifier: Apache-2.0 */
/** State of the process on a host, for host.c, host_order.c and host_command.c. One thread. */
#ifndef WEFT_PLATFORM_ENGINE_REMOTE_INTERNAL_HOST_STATE_H
#define WEFT_PLATFORM_ENGINE_REMOTE_INTERNAL_HOST_STATE_H

#include "base/file/file.h"
#include "launch/order.h"
#include "platform/agent/order.h"
#include "platform/engine/engine.h"
#include "platform/engine/remote/host.h"
#include "platform/engine/remote/internal/frames.h"
#include "platform/engine/remote/internal/host_files.h"
#include "platform/engine/remote/internal/tls_stream.h"

struct host_command;

struct remote_host {
    struct remote_host_config config;
    char instance[33]; /* what tells this process from others that the same job may have started */
    struct event_base *base;
    SSL_CTX *tls;
    struct engine *engine; /* the local one */
    struct event *tick, *records;
    struct tls_stream *stream; /* NULL: not connected */
    bool checked;              /* the server's certificate is the right one */
    bool welcomed;             /* it has given the order on this connection */
    uint64_t heard_at, connect_at;
    uint64_t spoken_at; /* when the server was heard last; at first when this process began */
    double nap;
    unsigned tries; /* to connect */

    struct node_order order; /* until the node is started, as its secrets */
    struct string_list secret_values;
    enum remote_storage storage;
    struct host_files *files;       /* being prepared; NULL: not */
    char failure[ERROR_TEXT_BYTES]; /* why the node was not started; "" */
    bool stopped;                   /* because it was asked to stop */

    uint32_t node;
    bool ordered; /* there is a node */
    bool wiped;   /* its secrets are no longer on disk */
    char secrets[FILE_PATH_BYTES];
    char fences[FILE_PATH_BYTES]; /* the root of shared fences; "": none */
    uint64_t sent;                /* the last sequence that was sent on this connection */
    bool sending;                 /* records are on their way, and the answer is waited for */
    bool ended;                   /* the last record was sent */
    uint64_t ended_at;
    bool killing, forgetting;
    int code;                      /* of the process */
    struct host_command *commands; /* a list */
};

/** REMOTE_ORDER has come; there will be no node (or, if it `stopped`, none is to be); wipe and free the order. */
void host_order_hear(struct remote_host *host, struct reader *reader);
void host_order_fail(struct remote_host *host, bool stopped, const char *why);
void host_order_drop(struct remote_host *host);

/** A frame about a command has come; commands of a broken connection are over; free all. */
void host_command_hear(struct remote_host *host, const struct frame *frame);
void host_commands_free(struct remote_host *host);

#endif
