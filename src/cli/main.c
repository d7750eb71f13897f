/* SPDX-License-Identifier: Apache-2.0 */
/* The `weft` command: finds the subcommand and hands it its arguments. */
#include "cli/frame/command.h"
#include "platform/agent/agent.h"
#include "platform/agent/reach.h"
#include "platform/agent/ssh_server.h"
#include "platform/agent/tunnel.h"
#include "platform/engine/remote/host.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

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

/* The words are server, certificate, run, epoch, directory and platform (platform/engine/remote/host.h). Each account has a
 * directory of its own on the host. */
static int be_host(char *const *words)
{
    char program[PATH_MAX], directory[PATH_MAX], files[24], own[256] = "";
    char *agent[] = {program, "node-agent", files, NULL}, *reach[] = {program, "node-reach", NULL};
    const char *token = getenv("WEFT_HOST_TOKEN"), *host = getenv("SLURMD_NODENAME");
    const ssize_t length = readlink("/proc/self/exe", program, sizeof program - 1);
    struct rlimit limit = {0};
    if (length < 0 || !token || gethostname(own, sizeof own) != 0)
        return fprintf(stderr, "weft: node-host is started by the server's jobs, which give it a token\n"), 1;
    program[length] = '\0';
    getrlimit(RLIMIT_NOFILE, &limit);
    snprintf(files, sizeof files, "%llu", (unsigned long long)limit.rlim_cur);
    if (snprintf(directory, sizeof directory, "%s-%u/%s", words[4], (unsigned)geteuid(), words[5]) >=
        (int)sizeof directory)
        return fprintf(stderr, "weft: the path '%.200s' is too long\n", words[4]), 1;
    char *kept = strdup(token);
    unsetenv("WEFT_HOST_TOKEN"); /* the run need not know it */
    struct remote_host_config config = {.server = words[0],
                                        .print = words[1],
                                        .token = kept ? kept : "",
                                        .attempt = {.epoch = strtoull(words[3], NULL, 10)},
                                        .host = host ? host : own,
                                        .directory = directory,
                                        .agent = agent,
                                        .reach = reach};
    snprintf(config.attempt.run, sizeof config.attempt.run, "%s", words[2]);
    const int code = remote_host_run(&config);
    free(kept);
    return code;
}

int main(int argc, char **argv)
{
    /* Internal: started by the control plane and in the nodes of runs. */
    if (argc == 4 && strcmp(argv[1], "node-agent") == 0)
        return be_agent(argv[2], argv[3]);
    if (argc >= 4 && strcmp(argv[1], "node-reach") == 0)
        return node_reach_main(argv[2], argv[3], argv + 4);
    if (argc == 8 && strcmp(argv[1], "node-host") == 0)
        return be_host(argv + 2);
    if (argc == 3 && strcmp(argv[1], "node-tunnel") == 0)
        return node_tunnel_main(argv[2]);
    if (argc == 2 && strcmp(argv[1], "node-ssh") == 0)
        return node_ssh_main();
    return command_main(command_table, command_table_count, argc, argv, stdout, stderr);
}
