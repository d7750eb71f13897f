/* SPDX-License-Identifier: Apache-2.0 */
/**
 * The engine of this host: an agent (platform/agent/agent.h) for each node, and directories for orders and journals.
 *
 * It can pretend that its slots belong to several hosts; processors and memory are then divided among them by slots. A
 * CPU slot counts as at least one processor. All state is in the directory, so an engine opened after the death of the
 * previous process continues with its attempts. Two engines may use one directory at a time; each learns of changes
 * only by its own polls.
 *
 * The directory is accessible to the engine's user alone, because it holds output and environments. Another user of a
 * run can reach the file of metrics in it, and the agent's socket to run commands as that user.
 *
 * If another platform left a directory for an attempt, what runs there is killed and the run's directory is renamed: 12
 * becomes 12.PLATFORM.
 *
 * If a node's agent has not begun five seconds after its start (or was never started, because the engine's process
 * died), poll() starts another one; the one that gets the node's lock runs. Nodes that ran when the host went down are
 * lost.
 */
#ifndef WEFT_PLATFORM_ENGINE_LOCAL_LOCAL_H
#define WEFT_PLATFORM_ENGINE_LOCAL_LOCAL_H

#include "platform/agent/order.h"
#include "platform/engine/engine.h"

#define ENGINE_LOCAL_FILES 2 /**< descriptors for each live node: its agent's, and its journal */

struct engine_local_host {
    const char *name;
    uint32_t slots;
    bool gpus;
    const char *pod; /**< NULL: "" */
};

struct engine_local_config {
    const char *directory; /**< an absolute path; created if missing */
    const char *platform;  /**< written to each order: NODE_PLATFORM_BYTES. NULL: none */
    bool adopts;           /**< orders without a platform belong to this one, which is older than such names */
    const struct engine_local_host *hosts; /**< NULL: one, "local", with a slot per processor */
    uint32_t host_count;
    char *const *agent; /**< the program of an agent (node_agent_main()) with arguments; ends with NULL. The node's
                             directory is appended */
    char *const *reach; /**< the program of node_reach_main(); the node's directory, a host and a command are appended.
                             NULL: none. Nodes find it in WEFT_AGENT, so that `weft run --hosts "$WEFT_NODE_HOSTS"` on
                             one of them starts ranks on all */
    char *const *run;   /**< `weft run`, for ENGINE_RANKS; options and the command are appended. NULL: unsupported */
};

/** engine->close() frees it. Errors: SYSTEM, MEMORY. */
weft_status engine_local_open(const struct engine_local_config *config, struct engine **engine, struct error *error);

/**
 * Start one node of an attempt whose other nodes are on other machines; idempotent, as start(). Its host and slots are not
 * looked up, and its limits are those of the order. Fills in the order's platform, boot id and reach. The other functions
 * then know the attempt by this node alone. Errors: as start().
 */
weft_status engine_local_start_node(struct engine *engine, struct node_order *order, struct error *error);

/** Forget one node of such an attempt, once it has ended; others of the attempt that may be here stay. Errors: STATE if it has
 * not ended. */
weft_status engine_local_forget_node(struct engine *engine, const struct attempt *attempt, uint32_t number,
                                     struct error *error);

#endif
