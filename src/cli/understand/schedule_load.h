/* SPDX-License-Identifier: Apache-2.0 */
/** `weft schedule load`. */
#ifndef WEFT_CLI_UNDERSTAND_SCHEDULE_LOAD_H
#define WEFT_CLI_UNDERSTAND_SCHEDULE_LOAD_H

#include "cli/frame/command.h"

extern const struct command command_schedule_load;

#endif
