/* SPDX-License-Identifier: Apache-2.0 */
/**
 * The engine of this machine: an agent (platform/agent/agent.h) for each node of an attempt, and directories through which both
 * speak.
 *
 * It can pretend that its slots belong to several hosts; the machine's processors and memory are then divided among
 * them by their slots. A CPU slot counts as a processor at least, however few the machine has. Everything that it knows
 * of attempts is in its directory, so that an engine that is opened later, after the death of the process that held the
 * first one at whatever moment, goes on with them. Two engines on one directory at a time do no harm, but each is told by
 * its own polls alone.
 *
 * The directory is for the engine's user alone: it holds what programs print, and their environments. Where a run has
 * another user, that one's processes can reach the file of metrics in it, and the agent's socket for commands that are
 * run as that user; nothing else.
 *
 * Where an attempt is to be started whose directory another platform has left, what runs there is killed and the run's
 * directory set aside: 12 is called 12.PLATFORM then.
 *
 * A node whose agent has not begun five seconds after it was started (or was not, as the engine's process died in
 * between) gets another one, by poll(); whichever takes the node's lock begins. What was running when the machine went
 * down is lost.
 */
#ifndef WEFT_PLATFORM_ENGINE_LOCAL_LOCAL_H
#define WEFT_PLATFORM_ENGINE_LOCAL_LOCAL_H

#include "platform/engine/engine.h"

#define ENGINE_LOCAL_FILES 2 /**< descriptors that it has for a node that lives: its agent's, and its journal */

struct engine_local_host {
    const char *name;
    uint32_t slots;
    bool gpus;
    const char *pod; /**< NULL: "" */
};

struct engine_local_config {
    const char *directory; /**< an absolute path; made if it is missing */
    const char *platform;  /**< whose attempts are started here, in each order: NODE_PLATFORM_BYTES. NULL: nobody's */
    bool adopts;           /**< orders that name no platform are this one's, too: it is older than such names */
    const struct engine_local_host *hosts; /**< NULL: one, "local", with a slot for each processor */
    uint32_t host_count;
    char *const *agent; /**< the program that is an agent (node_agent_main()), and its arguments; ends with NULL. The
                             node's directory comes behind them */
    char *const
        *reach; /**< likewise one that is node_reach_main(); the node's directory, a host and words come behind it.
                             NULL: none. Nodes find it in WEFT_AGENT, so that `weft run --hosts "$WEFT_NODE_HOSTS"` on
                           one of them starts ranks on all */
    char *const *run; /**< likewise `weft run`, for ENGINE_RANKS: options and the command come behind it. NULL: there is
                         no such launch */
};

/** engine->close() frees it. Errors: SYSTEM, MEMORY. */
weft_status engine_local_open(const struct engine_local_config *config, struct engine **engine, struct error *error);

#endif
