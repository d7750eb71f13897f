/* SPDX-License-Identifier: Apache-2.0 */
/* The `weft` command: finds the subcommand and hands it its arguments. */
#include "cli/frame/command.h"
#include "platform/agent/agent.h"
#include "platform/agent/reach.h"
#include "platform/agent/ssh_server.h"
#include "platform/agent/tunnel.h"

#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

/* The agent and the programs it starts get the limit of open files that the control plane was started with, not the
 * higher one that the control plane set for itself. */
static int be_agent(const char *files, const char *directory)
{
    struct rlimit limit;
    const rlim_t wanted = strtoull(files, NULL, 10);
    if (wanted > 0 && getrlimit(RLIMIT_NOFILE, &limit) == 0 && wanted < limit.rlim_cur) {
        limit.rlim_cur = wanted;
        setrlimit(RLIMIT_NOFILE, &limit);
    }
    return node_agent_main(directory);
}

int main(int argc, char **argv)
{
    /* Internal: started by the control plane and in the nodes of runs. */
    if (argc == 4 && strcmp(argv[1], "node-agent") == 0)
        return be_agent(argv[2], argv[3]);
    if (argc >= 4 && strcmp(argv[1], "node-reach") == 0)
        return node_reach_main(argv[2], argv[3], argv + 4);
    if (argc == 3 && strcmp(argv[1], "node-tunnel") == 0)
        return node_tunnel_main(argv[2]);
    if (argc == 2 && strcmp(argv[1], "node-ssh") == 0)
        return node_ssh_main();
    return command_main(command_table, command_table_count, argc, argv, stdout, stderr);
}
