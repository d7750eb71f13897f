/* SPDX-License-Identifier: Apache-2.0 */
/** The orders of nodes (platform/agent/order.h) from that of their attempt; the same for every engine. Thread-safe. */
#ifndef WEFT_PLATFORM_ENGINE_ORDER_H
#define WEFT_PLATFORM_ENGINE_ORDER_H

#include "platform/agent/order.h"
#include "platform/engine/engine.h"

/** Whether an attempt can be started at all, on whatever hosts. `run`: the words of `weft run` on the nodes; an empty list:
 * ENGINE_RANKS is unsupported. Errors: ARGUMENT. */
weft_status engine_order_check(const struct engine_order *order, const struct string_list *run, struct error *error);

/**
 * The order of node `number`: its command (none if it only waits), environment, secrets, slots and hosts. Its limits are
 * those that the attempt asks for, and the number of slots as its weight; platform and boot id are empty.
 * node_order_free() frees it. Errors: MEMORY.
 */
weft_status engine_order_of_node(const struct engine_order *order, uint32_t number, const struct string_list *run,
                                 struct node_order *made, struct error *error);

/** The stop that a node gets for stop(): its signal, and the grace period (0: that of its order). */
struct node_stop engine_order_stop(const struct node_order *order, enum engine_end how, uint64_t grace);

#endif
