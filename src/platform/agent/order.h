/* SPDX-License-Identifier: Apache-2.0 */
/**
 * The directory of a node, with the orders for its agent:
 *
 *     ROOT/RUN/fence               the newest epoch of the run; agents of older ones end their nodes
 *     ROOT/RUN/EPOCH/NODE/order    what to run (below), written once, before the agent is started
 *                        /stop     how to end, once ordered; the last order counts
 *                        /stop.spare  space for the same file on a full disk
 *                        /remark   a message for the journal, until the agent has put it there
 *                        /lock     held by the agent while it lives; contains its process id
 *                        /kills    the count of out-of-memory kills when the agent began, and where it is counted
 *                        /socket   wakes the agent and carries requests (platform/agent/link.h)
 *                        /journal/ what happened (platform/agent/journal/file.h)
 *                        /metrics  lines that the program appends (WEFT_METRICS)
 *                        /agent.log  messages of the agent itself
 *
 * Orders are files, so they take effect even if the server or the agent is down when they are given. The socket only
 * saves the delay until the agent looks (a second).
 *
 * An order names its platform, so that runs of two platforms with the same number, as after the loss of a database, are
 * not confused.
 *
 * The files have this host's byte order and this version; orders of version 3 (without secrets), 2 (also without
 * limits) and 1 (also without the platform) can be read too. Anything else is refused with DATA.
 * Thread-safe; a struct belongs to one thread at a time.
 */
#ifndef WEFT_PLATFORM_AGENT_ORDER_H
#define WEFT_PLATFORM_AGENT_ORDER_H

#include "base/file/file.h"
#include "launch/order.h"
#include "platform/agent/journal/journal.h"

#include <stdbool.h>
#include <stdint.h>

#define NODE_ORDER_MOST     ((size_t)4 << 20) /**< bytes of an order: command and environment */
#define NODE_HEARTBEAT      10000             /**< milliseconds, where an order has none */
#define NODE_BOOT_BYTES     40
#define NODE_PLATFORM_BYTES 40

/** Limits for all processes of a node together; 0: no limit. */
struct node_limits {
    uint64_t memory;        /**< bytes, swap included */
    uint64_t memory_of_all; /**< bytes of all nodes on this machine */
    uint64_t processes;     /**< threads count */
    uint64_t file_bytes;    /**< the largest file that they may write */
    uint32_t quota;         /**< processors' worth of time */
    uint32_t weight;        /**< share of busy processors: its slots */
    bool memory_asked;      /**< the run asked for this memory; otherwise it follows from the slots */
    char *processors;       /**< processors that it runs on, "0-3"; "" or NULL: all */
};

/** Times are in milliseconds; 0: none, or the value in brackets. */
struct node_order {
    struct attempt attempt;
    uint32_t node, nodes;  /**< which of how many */
    uint32_t gpus;         /**< 1: the slots are GPUs */
    uint64_t grace;        /**< from a stop to SIGKILL (30,000) */
    uint64_t time_limit;   /**< from the start; then the node is stopped */
    uint64_t lease;        /**< without contact to the server; then the node is stopped */
    uint64_t heartbeat;    /**< between two JOURNAL_HEARTBEAT; upper bound between two JOURNAL_USAGE (NODE_HEARTBEAT) */
    uint64_t output_bytes; /**< output that the journal keeps (platform/agent/journal/file.h) */
    char platform[NODE_PLATFORM_BYTES]; /**< its platform; "": not known */
    char boot[NODE_BOOT_BYTES];         /**< boot id of the host when it was written */
    char *directory;                    /**< where the command runs; every path is absolute */
    char *host;                         /**< its own name among `hosts` */
    char *slots;                        /**< "0,1,2": numbers of slots on the host */
    char *hosts; /**< "a:8,b:8": all nodes' hosts and their slots, as `weft run --hosts` takes them */
    char *user;  /**< user of the processes; "": the agent's */
    struct node_limits limits;
    char *secret_directory;         /**< the store of `secrets` (secret_store.h); "": none */
    struct string_list secrets;     /**< "VARIABLE=PLACE"; the agent looks up the values, which are in no order */
    struct string_list environment; /**< "NAME=VALUE", overrides the agent's */
    struct string_list command;     /**< empty: the node only serves `exec` until it is stopped */
};

/** Append the order; read it (node_order_free() frees it). Errors: DATA, MEMORY. */
void node_order_pack(const struct node_order *order, struct buffer *buffer);
weft_status node_order_unpack(const uint8_t *bytes, size_t size, const char *where, struct node_order *order,
                              struct error *error);
void node_order_free(struct node_order *order);

/** Write it to, or read it from, a node's directory. */
weft_status node_order_save(const struct node_order *order, const char *directory, struct error *error);
weft_status node_order_load(const char *directory, struct node_order *order, struct error *error);

/** The platform of the order in a node's directory; reads only its first bytes. Errors: SYSTEM if there is none; DATA. */
weft_status node_order_platform(const char *directory, char platform[NODE_PLATFORM_BYTES], struct error *error);

/** The directory of a node; with `node` ATTEMPT_NODES_MOST that of the attempt, with epoch 0 that of the run. */
weft_status node_directory(char path[FILE_PATH_BYTES], const char *root, const struct attempt *attempt, uint32_t node,
                           struct error *error);

/** How a node is to end. */
struct node_stop {
    int signal;     /**< SIGTERM; SIGUSR1: write a checkpoint and end with exit code 75; SIGKILL: at once */
    uint64_t grace; /**< milliseconds until what is left is killed */
};

/** Write the order to the node's directory; read it (`*found`). On a full disk it is written to the file that
 * node_stop_reserve() made before, which needs no further space. */
weft_status node_stop_reserve(const char *directory, struct error *error);
weft_status node_stop_save(const struct node_stop *stop, const char *directory, struct error *error);
weft_status node_stop_load(const char *directory, struct node_stop *stop, bool *found, struct error *error);

/** Write a message for the journal to the node's directory; take it (`*found`), truncated to `size` bytes. */
weft_status node_remark_save(const char *message, const char *directory, struct error *error);
weft_status node_remark_take(const char *directory, char *message, size_t size, bool *found, struct error *error);

/** Raise the fence of the run in `root` to the attempt's epoch; read it (0: none). STATE if it is higher already. */
weft_status node_fence_raise(const char *root, const struct attempt *attempt, struct error *error);
weft_status node_fence_read(const char *root, const char *run, uint64_t *epoch, struct error *error);

/** The boot id of this host; "" if it cannot be read. */
void node_boot(char boot[NODE_BOOT_BYTES]);

#endif
