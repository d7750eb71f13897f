/* SPDX-License-Identifier: Apache-2.0 */
/* The `weft` command: finds the subcommand and hands it its arguments. */
#include "cli/command.h"

int main(int argc, char **argv)
{
    return command_main(command_table, command_table_count, argc, argv, stdout, stderr);
}
