/* SPDX-License-Identifier: Apache-2.0 */
/** An agent's lock, and the agents of older attempts: what the agent itself needs. What others may ask: platform/agent/agent.h.
 */
#ifndef WEFT_PLATFORM_AGENT_INTERNAL_LIFE_H
#define WEFT_PLATFORM_AGENT_INTERNAL_LIFE_H

#include "platform/agent/order.h"

#include <stdbool.h>

/**
 * Try to take the lock of a node: `*taken` is false if another holds it. `*begun` tells whether an agent has begun with
 * the node before. Closing the descriptor gives it back.
 */
weft_status node_lock_take(const char *directory, int *lock, bool *taken, bool *begun, struct error *error);

/** Write the agent's process number, or "ended", to the lock. */
void node_lock_write(int lock, const char *text);

/** What the cgroup of a node is called: no two nodes of this machine share it. */
void node_cgroup_name(const struct attempt *attempt, uint32_t node, const char *directory, char *name, size_t room);

/** Before anything of the run begins: keep in `directory` how many processes the kernel has killed so far for want of
 * memory where the agent is. */
void node_kills_note(const char *directory);

/** See that all agents below `root` of older attempts of the run have ended, by killing them if need be. */
void node_life_end_older(const char *root, const struct attempt *attempt);

#endif
