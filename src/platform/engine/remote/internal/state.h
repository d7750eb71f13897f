/* SPDX-License-Identifier: Apache-2.0 */
/** What the two threads of a server share: the engine's, and the one that speaks to hosts (listener.c). */
#ifndef WEFT_PLATFORM_ENGINE_REMOTE_INTERNAL_STATE_H
#define WEFT_PLATFORM_ENGINE_REMOTE_INTERNAL_STATE_H

#include "base/string_list.h"
#include "platform/agent/journal/file.h"
#include "platform/engine/directory.h"
#include "platform/engine/remote/internal/certificate.h"
#include "platform/engine/remote/internal/frames.h"
#include "platform/engine/remote/internal/tls_stream.h"
#include "platform/engine/remote/remote.h"
#include "platform/snapshot/snapshot.h"

#include <event2/event.h>
#include <pthread.h>

#define REMOTE_HOST_BYTES     256
#define REMOTE_INSTANCE_BYTES 33

struct remote_link;
struct remote_relay;

/* A node that has not ended, or is still read. Made by the engine's thread, or by the listener's when a host connects. */
struct remote_node {
    struct attempt attempt;
    uint32_t node;
    char directory[FILE_PATH_BYTES];
    char host[REMOTE_HOST_BYTES];
    char instance[REMOTE_INSTANCE_BYTES]; /* "": no host has connected yet */
    struct journal_writer journal;
    struct remote_link *link;     /* its host's connection; NULL: none */
    uint64_t silent_at;           /* when it is lost unless it is heard; 0: nothing is waited for */
    bool news;                    /* the journal may have more than was polled */
    bool to_stop, to_remark;      /* the listener has to say so */
    bool to_refuse;               /* it has to be killed */
    bool read_end;                /* its last record was visited */
    struct journal_reader reader; /* the engine's thread's alone, which also frees nodes */
    struct remote_node *next;
};

/* Where hosts have the files of an attempt from. */
struct remote_files {
    enum remote_storage storage;
    char text[FILE_PATH_BYTES];  /* as in REMOTE_ORDER */
    char store[FILE_PATH_BYTES]; /* of REMOTE_SENT */
};

struct remote {
    char directory[FILE_PATH_BYTES], platform[NODE_PLATFORM_BYTES];
    char shared[FILE_PATH_BYTES]; /* "": nothing is */
    struct string_list run;
    uint16_t port;
    char print[REMOTE_PRINT_BYTES];
    int bell; /* eventfd: readable while nodes have news */
    uint64_t opened_at;
    SSL_CTX *tls;
    int listening;

    pthread_mutex_t lock;        /* of what follows */
    struct remote_node *nodes;   /* a list */
    uint32_t news;               /* nodes with news */
    struct remote_relay *relays; /* commands in nodes: a list, by number */
    uint32_t relay_count;        /* numbers given so far */
    bool stopping;

    /* The listener's. */
    pthread_t thread;
    bool started;
    struct event_base *base;
    int wake; /* eventfd: there is something to say */
    struct event *wake_event, *accept_event, *tick_event;
    struct remote_link *links; /* all connections */
    uint64_t ticked_at;
};

/* ---- nodes (nodes.c); under the lock ---- */

/** The node, loaded from its directory if it is there. Errors: STATE, SYSTEM, DATA, MEMORY. */
weft_status remote_node_find(struct remote *remote, const struct attempt *attempt, uint32_t number,
                             struct remote_node **node, struct error *error);

/** Take it out and free it. */
void remote_node_remove(struct remote *remote, struct remote_node *node);

/** The engine is to look at its journal. */
void remote_node_tell(struct remote *remote, struct remote_node *node);

/** It need not look. */
void remote_node_quiet(struct remote *remote, struct remote_node *node);

/** End its journal. `record` has kind and cause; the text is `reason`. A node that has ended stays as it is. */
weft_status remote_node_end(struct remote *remote, struct remote_node *node, const struct journal_record *record,
                            const char *reason, struct error *error);

/** The journal on disk has its end: note that beside it. */
void remote_node_note_end(const struct remote_node *node);

/** Remember the process that has it. Errors: SYSTEM. */
weft_status remote_node_bind(struct remote_node *node, const char *instance, struct error *error);

/* ---- files of runs (files.c); without the lock ---- */

/** Write down which files an attempt needs; nothing for an order without any. Errors: ARGUMENT, SYSTEM. */
weft_status remote_files_save(const struct remote *remote, const struct engine_order *order, struct error *error);

/** Read it. Errors: SYSTEM, DATA. */
weft_status remote_files_load(const struct remote *remote, const struct attempt *attempt, struct remote_files *files,
                              struct error *error);

/** Append the answer to REMOTE_WANT to an empty buffer. Reads at most one piece of a file. */
void remote_files_answer(const struct remote_files *files, struct reader *want, struct buffer *piece);

/* ---- the listener (listener.c) ---- */

/** Bind and listen; remembers the port for the next time. Errors: SYSTEM. */
weft_status remote_listen(struct remote *remote, const char *host, uint16_t port, struct error *error);

weft_status remote_listener_start(struct remote *remote, struct error *error);
void remote_listener_stop(struct remote *remote);

/** Have it look at what there is to say; from any thread. */
void remote_listener_wake(struct remote *remote);

/** Send to a host, and free the payload; under the lock, on the listener's thread. */
void remote_link_send(struct remote_link *link, uint16_t kind, struct buffer *payload);

/* ---- commands in nodes (relay.c); on the listener's thread, under the lock ---- */

/** Begin those that were asked for. */
void remote_relays_begin(struct remote *remote);

/** A host has sent a frame about a command of this node. */
void remote_relay_hear(struct remote *remote, struct remote_node *node, const struct frame *frame);

/** The connection of a node's host has gone: its commands are over. */
void remote_relays_lose(struct remote *remote, struct remote_node *node);
void remote_relays_free(struct remote *remote);

#endif
