/* SPDX-License-Identifier: Apache-2.0 */
/** The local engine's inside, which engine_local.c and engine_local_order.c share. */
#ifndef WEFT_PLATFORM_ENGINE_LOCAL_STATE_H
#define WEFT_PLATFORM_ENGINE_LOCAL_STATE_H

#include "platform/engine_local.h"
#include "platform/journal_file.h"
#include "platform/node_order.h"

/* A node that this engine has started or polled. */
struct local_node {
    struct attempt attempt;
    uint32_t node;
    char folder[FILE_PATH_BYTES];
    struct journal_reader reader;
    int watch;           /* its agent's connection; -1: none */
    int notice;          /* until there is one: of its journal's folder, by inotify; -1: none */
    bool ended;          /* its last record was read once */
    uint32_t starts;     /* agents that this engine has started for it */
    uint64_t started_at; /* when the last one was; 0: none, or by another engine */
    pid_t starter;       /* the process that starts its agent, to be waited for; 0: none */
    struct local_node *next;
};

struct local_host {
    char *name, *pod;
    uint32_t slots;
    bool gpus;
};

struct engine_local {
    struct engine engine; /* first */
    char folder[FILE_PATH_BYTES];
    struct local_host *hosts;
    uint32_t host_count;
    struct texts agent, reach, run;
    char boot[NODE_BOOT_BYTES];
    struct local_node *nodes;
    int notices; /* inotify: agents that begin */
};

/** Whether the engine can start this at all. Errors: ARGUMENT. */
weft_status local_order_check(const struct engine_local *local, const struct engine_order *order, struct error *error);

/** Write the orders of all nodes, those that are not there yet. */
weft_status local_order_write(struct engine_local *local, const struct engine_order *order, struct error *error);

#endif
