/* SPDX-License-Identifier: Apache-2.0 */
/** `weft sim collective`, for the table of `weft sim`. */
#ifndef WEFT_CLI_UNDERSTAND_SIM_COLLECTIVE_H
#define WEFT_CLI_UNDERSTAND_SIM_COLLECTIVE_H

#include "cli/frame/command.h"

extern const struct command command_sim_collective;

#endif
