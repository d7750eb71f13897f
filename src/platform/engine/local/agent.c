/* SPDX-License-Identifier: Apache-2.0 */
/* Starting agents, each in its own session. */
#include "platform/engine/local/internal/state.h"

#include "base/clock.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

void local_agent_wait(struct local_node *node, int options)
{
    pid_t ended = -1;
    while (node->starter && (ended = waitpid(node->starter, NULL, options)) < 0 && errno == EINTR)
        ;
    if (ended != 0)
        node->starter = 0;
}

/* Attributes for posix_spawn(): a new session, default signals, no descriptors; only the environment is inherited. */
static int prepare_spawn(posix_spawnattr_t *attributes, posix_spawn_file_actions_t *actions, const char *log)
{
    sigset_t none, all;
    sigemptyset(&none);
    sigfillset(&all);
    int failure = posix_spawnattr_setsigmask(attributes, &none);
    failure = failure ? failure : posix_spawnattr_setsigdefault(attributes, &all);
    failure = failure ? failure
                      : posix_spawnattr_setflags(attributes,
                                                 POSIX_SPAWN_SETSID | POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);
    failure = failure ? failure : posix_spawn_file_actions_addopen(actions, STDIN_FILENO, "/dev/null", O_RDWR, 0);
    failure = failure ? failure : posix_spawn_file_actions_adddup2(actions, STDIN_FILENO, STDOUT_FILENO);
    failure = failure
                  ? failure
                  : posix_spawn_file_actions_addopen(actions, STDERR_FILENO, log, O_WRONLY | O_CREAT | O_APPEND, 0600);
    /* Close all others, such as sockets of libraries. */
    return failure ? failure : posix_spawn_file_actions_addclosefrom_np(actions, STDERR_FILENO + 1);
}

/*
 * Unlike fork(), posix_spawn() does not copy page tables or make later writes of this process's threads copy pages.
 */
weft_status local_agent_start(struct engine_local *local, struct local_node *node, struct error *error)
{
    char log[FILE_PATH_BYTES];
    posix_spawnattr_t attributes;
    posix_spawn_file_actions_t actions;
    local_agent_wait(node, WNOHANG);
    if (node->starter) { /* the last one has not even reached exec() */
        node->started_at = clock_now();
        return WEFT_OK;
    }
    if (strchr(local->agent.items[0], '/') && access(local->agent.items[0], X_OK) != 0)
        return error_system(error, "cannot run the agent '%s'", local->agent.items[0]);
    weft_status status = file_join(log, node->directory, "agent.log", error);
    if (status != WEFT_OK)
        return status;
    char **command = calloc(local->agent.count + 2, sizeof *command);
    if (!command)
        return error_memory(error, sizeof *command, "an agent");
    memcpy(command, local->agent.items, local->agent.count * sizeof *command);
    command[local->agent.count] = node->directory;
    posix_spawnattr_init(&attributes);
    posix_spawn_file_actions_init(&actions);
    pid_t process = 0;
    errno = prepare_spawn(&attributes, &actions, log);
    if (errno == 0)
        errno = posix_spawnp(&process, command[0], &actions, &attributes, command, environ);
    if (errno != 0)
        status = error_system(error, "cannot start an agent, '%s', in '%s'", command[0], node->directory);
    else
        node->starter = process;
    posix_spawn_file_actions_destroy(&actions);
    posix_spawnattr_destroy(&attributes);
    free(command);
    node->started_at = clock_now();
    node->starts++;
    return status;
}
