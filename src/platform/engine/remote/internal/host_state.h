/* SPDX-License-Identifier: Apache-2.0 */
/** State of the process on a host (host.c) that its commands (host_command.c) need, too. One thread. */
#ifndef WEFT_PLATFORM_ENGINE_REMOTE_INTERNAL_HOST_STATE_H
#define WEFT_PLATFORM_ENGINE_REMOTE_INTERNAL_HOST_STATE_H

#include "base/file/file.h"
#include "launch/order.h"
#include "platform/engine/engine.h"
#include "platform/engine/remote/host.h"
#include "platform/engine/remote/internal/frames.h"
#include "platform/engine/remote/internal/stream.h"

struct host_command;

struct remote_host {
    struct remote_host_config config;
    char instance[33]; /* what tells this process from others that the same job may have started */
    struct event_base *base;
    SSL_CTX *tls;
    struct engine *engine; /* the local one */
    struct event *tick, *records;
    struct stream *stream; /* NULL: not connected */
    bool checked;          /* the server's certificate is the right one */
    uint64_t heard_at, connect_at, began_at;
    double nap;

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

/** A frame about a command has come; commands of a broken connection are over; free all. */
void host_command_hear(struct remote_host *host, const struct frame *frame);
void host_commands_free(struct remote_host *host);

#endif
