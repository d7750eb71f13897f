/* SPDX-License-Identifier: Apache-2.0 */
/** State and internal functions of the local engine. */
#ifndef WEFT_PLATFORM_ENGINE_LOCAL_INTERNAL_STATE_H
#define WEFT_PLATFORM_ENGINE_LOCAL_INTERNAL_STATE_H

#include "platform/agent/journal/file.h"
#include "platform/agent/order.h"
#include "platform/engine/directory.h"
#include "platform/engine/local/local.h"

#include <sched.h>

/* A node that this engine has started or polled. */
struct local_node {
    struct attempt attempt;
    uint32_t node;
    char directory[FILE_PATH_BYTES];
    struct journal_reader reader;
    int watch;               /* its agent's connection; -1: none */
    int notice;              /* until there is one: of its journal's directory, by inotify; -1: none */
    bool ended;              /* its last record was read once */
    uint32_t starts;         /* agents that this engine has started for it */
    uint64_t started_at;     /* when the last one was; 0: none, or by another engine */
    pid_t starter;           /* the process that starts its agent, to be waited for; 0: none */
    struct local_node *next; /* in the list of its place */
};

/* All of them: lists by a hash of run, epoch and number, as many as there may be nodes before there are more lists. */
struct local_nodes {
    struct local_node **lists;
    uint32_t places, count;
};

struct local_host {
    char *name, *pod;
    uint32_t slots, first_slot; /* how many; how many those before it have */
    bool gpus;
    int64_t processors, memory; /* its share of what the machine has for runs; 0: not known */
};

struct engine_local {
    struct engine engine; /* first */
    char directory[FILE_PATH_BYTES];
    struct local_host *hosts;
    uint32_t host_count;
    uint32_t slots, processor_count; /* of all hosts; that this process may use */
    cpu_set_t processors;
    uint64_t memory; /* of the machine, for runs; 0: not known */
    struct string_list agent, reach, run;
    char boot[NODE_BOOT_BYTES], platform[NODE_PLATFORM_BYTES];
    bool adopts;
    struct local_nodes nodes;
    int notices; /* inotify: agents that begin */
};

/** The node, or NULL. */
struct local_node *local_nodes_find(const struct local_nodes *nodes, const struct attempt *attempt, uint32_t number);

/** Add one that is not known; take out one that is. Errors: MEMORY. */
weft_status local_nodes_add(struct local_nodes *nodes, struct local_node *node, struct error *error);
void local_nodes_take_out(struct local_nodes *nodes, struct local_node *node);

/** Iterate over all, in no particular order; NULL after the last one. Get the next node before removing one. */
struct local_node *local_nodes_first(const struct local_nodes *nodes);
struct local_node *local_nodes_next(const struct local_nodes *nodes, const struct local_node *node);

/**
 * Start an agent for a node. It is not waited for: on a busy machine it takes its time to become one, and others want
 * to be started. Whether it has begun its lock tells (node_agent_life()), and what it said is in its log. Errors:
 * SYSTEM, MEMORY.
 */
weft_status local_agent_start(struct engine_local *local, struct local_node *node, struct error *error);

/** The process that was to start an agent has ended, or is at it: it must not stay a zombie. `options`: WNOHANG, 0. */
void local_agent_wait(struct local_node *node, int options);

/** Start or stop receiving notifications from a node's agent. An unreachable agent is not an error. */
void local_watch_start(struct engine_local *local, struct local_node *node);
void local_watch_stop(struct engine_local *local, struct local_node *node);

/** Until its agent can be reached, the journal's directory tells that it has begun. It does not matter if that fails. */
void local_notice_start(struct engine_local *local, struct local_node *node);
void local_notice_stop(struct engine_local *local, struct local_node *node);

/** Of which nodes something was heard (engine.h). */
weft_status local_heard(struct engine *engine, engine_heard_visit *visit, void *context, struct error *error);

/** Whose orders are this engine's. */
struct engine_owner local_owner(const struct engine_local *local);

/** Whether the order in a node's directory is of this engine's platform; so is one that cannot be read, as it is
 * damaged (poll() reports it). */
bool local_order_is_own(const struct engine_local *local, const char *directory);

/** Divide what the machine has for runs among the hosts, by their slots. */
void local_limits_divide(struct engine_local *local);

/** What a node may use; `limits->processors` is to be freed. Errors: MEMORY. */
weft_status local_limits_of_node(const struct engine_local *local, const struct engine_order *order, uint32_t number,
                                 const struct local_host *host, struct node_limits *limits, struct error *error);

/** Make room for a run whose directory another platform has left. Errors: SYSTEM, also while something runs there. */
weft_status local_order_make_room(const struct engine_local *local, const struct attempt *attempt, struct error *error);

/** Whether the engine can start this at all. Errors: ARGUMENT. */
weft_status local_order_check(const struct engine_local *local, const struct engine_order *order, struct error *error);

/** Write the order of a node, if it is not there yet; fills in platform, boot id and how other nodes are reached. */
weft_status local_order_save(const struct engine_local *local, struct node_order *order, struct error *error);

/** Write the orders of all nodes, those that are not there yet. */
weft_status local_order_write(struct engine_local *local, const struct engine_order *order, struct error *error);

#endif
