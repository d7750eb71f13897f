/* SPDX-License-Identifier: Apache-2.0 */
/** The subcommands of `weft plan`. */
#ifndef WEFT_CLI_UNDERSTAND_PLAN_SHOW_H
#define WEFT_CLI_UNDERSTAND_PLAN_SHOW_H

#include "cli/frame/command.h"

extern const struct command command_plan_show, command_plan_compare;

#endif
