/* SPDX-License-Identifier: Apache-2.0 */
/** A command that starts itself again in several ranks on this machine. */
#ifndef WEFT_CLI_FRAME_LAUNCH_SELF_H
#define WEFT_CLI_FRAME_LAUNCH_SELF_H

#include "cli/frame/command.h"

/** Replace this process by `weft run -n RANKS`, each rank bound to a core, with the same command. Returns only when
 * that fails: SYSTEM, MEMORY. */
weft_status launch_self(const struct command_call *call, int64_t ranks, struct error *error);

#endif
