/* SPDX-License-Identifier: Apache-2.0 */
/* The `weft` command: finds the subcommand and hands it its arguments. */
#include "cli/command.h"
#include "platform/node_agent.h"
#include "platform/node_reach.h"

#include <string.h>

int main(int argc, char **argv)
{
    /* Not for people: what the control plane and the nodes of runs start. */
    if (argc == 3 && strcmp(argv[1], "node-agent") == 0)
        return node_agent_main(argv[2]);
    if (argc >= 4 && strcmp(argv[1], "node-reach") == 0)
        return node_reach_main(argv[2], argv[3], argv + 4);
    return command_main(command_table, command_table_count, argc, argv, stdout, stderr);
}
