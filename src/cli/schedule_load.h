/* SPDX-License-Identifier: Apache-2.0 */
/** `weft schedule load`. */
#ifndef WEFT_CLI_SCHEDULE_LOAD_H
#define WEFT_CLI_SCHEDULE_LOAD_H

#include "cli/command.h"

extern const struct command command_schedule_load;

#endif
