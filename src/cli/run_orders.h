/* SPDX-License-Identifier: Apache-2.0 */
/** One order to each of the RUNs on a command line: `weft stop`, `weft discard`. */
#ifndef WEFT_CLI_RUN_ORDERS_H
#define WEFT_CLI_RUN_ORDERS_H

#include "cli/command.h"
#include "cli/platform_client.h"

/** Tell in a line what has become of the order: `reply` is the server's. */
typedef void run_order_tell(int64_t run, const cJSON *reply, FILE *output);

/**
 * POST /runs/N/`order` for each word of the call; what came back goes to `tell`, or is printed as a line of JSON. One
 * that is refused keeps no other from it: the last refusal is the error, those before it are told on standard error.
 */
weft_status run_orders_give(const struct command_call *call, const char *order, bool json, run_order_tell *tell,
                            struct error *error);

#endif
