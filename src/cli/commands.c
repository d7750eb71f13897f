/* SPDX-License-Identifier: Apache-2.0 */
/* The table of commands, made from commands.def. */
#include "cli/command.h"

#define COMMAND(name) extern const struct command command_##name;
#include "cli/commands.def"
#undef COMMAND

const struct command *const command_table[] = {
#define COMMAND(name) &command_##name,
#include "cli/commands.def"
#undef COMMAND
};

const size_t command_table_count = sizeof command_table / sizeof *command_table;
