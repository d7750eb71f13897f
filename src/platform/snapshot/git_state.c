/* SPDX-License-Identifier: Apache-2.0 */
#include "platform/snapshot/git_state.h"

#include "base/clock.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define LIMIT_SECONDS 10.0

extern char **environ;

/* Read up to `room` - 1 bytes of what comes until `deadline`, and the number of all bytes; -1: it took too long. */
static long git_state_read_all(int descriptor, char *text, size_t room, uint64_t deadline)
{
    char more[4096];
    size_t kept = 0;
    long total = 0;
    for (;;) {
        uint64_t now = clock_now();
        struct pollfd wait = {descriptor, POLLIN, 0};
        if (now >= deadline || poll(&wait, 1, (int)((deadline - now) / 1000000u) + 1) == 0)
            return -1;
        ssize_t n = read(descriptor, more, sizeof more);
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            break;
        size_t part = (size_t)n < room - 1 - kept ? (size_t)n : room - 1 - kept;
        memcpy(text + kept, more, part);
        kept += part;
        total += n;
    }
    text[kept] = '\0';
    return total;
}

/* Run git; returns how much it has printed, -1 if it failed. */
static long run_git(char *const *arguments, char *text, size_t room)
{
    int pipes[2];
    pid_t process;
    posix_spawn_file_actions_t actions;
    if (pipe2(pipes, O_CLOEXEC) != 0)
        return -1;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
    posix_spawn_file_actions_adddup2(&actions, pipes[1], STDOUT_FILENO);
    posix_spawn_file_actions_addopen(&actions, STDERR_FILENO, "/dev/null", O_WRONLY, 0);
    int refused = posix_spawnp(&process, "git", &actions, NULL, arguments, environ);
    posix_spawn_file_actions_destroy(&actions);
    close(pipes[1]);
    long size = refused ? -1 : git_state_read_all(pipes[0], text, room, clock_after(LIMIT_SECONDS));
    close(pipes[0]);
    if (refused)
        return -1;
    if (size < 0)
        kill(process, SIGKILL);
    int status;
    while (waitpid(process, &status, 0) < 0)
        if (errno != EINTR)
            return -1;
    return WIFEXITED(status) && WEXITSTATUS(status) == 0 ? size : -1;
}

void git_state_read(const char *directory, char *commit, size_t room, bool *dirty)
{
    char changes[16], *place = (char *)directory;
    char *ask[] = {"git", "--no-optional-locks", "-C", place, "rev-parse", "--verify", "--quiet", "HEAD", NULL};
    char *look[] = {"git", "--no-optional-locks", "-C", place, "status", "--porcelain", "--", ".", NULL};
    *dirty = false;
    if (run_git(ask, commit, room) <= 0 || strspn(commit, "0123456789abcdef") < 40) {
        commit[0] = '\0';
        return;
    }
    commit[strcspn(commit, "\n")] = '\0';
    *dirty = run_git(look, changes, sizeof changes) != 0; /* an unknown state counts as not clean */
}

/* A path that git prints, made absolute; "" if it prints none. */
static void ask_path(char *const *ask, const char *directory, char *path, size_t room)
{
    char printed[4096];
    long size = run_git(ask, printed, sizeof printed);
    *path = '\0';
    if (size <= 1 || size >= (long)sizeof printed)
        return;
    printed[strcspn(printed, "\n")] = '\0';
    bool absolute = *printed == '/';
    if (snprintf(path, room, "%s%s%s", absolute ? "" : directory, absolute ? "" : "/", printed) >= (int)room)
        *path = '\0';
}

void git_state_excludes(const char *directory, char *exclude, char *global, size_t room)
{
    char *place = (char *)directory;
    char *own[] = {"git", "-C", place, "rev-parse", "--git-path", "info/exclude", NULL};
    char *set[] = {"git", "-C", place, "config", "--type=path", "core.excludesFile", NULL};
    const char *settings = getenv("XDG_CONFIG_HOME"), *home = getenv("HOME");
    ask_path(own, directory, exclude, room);
    ask_path(set, directory, global, room);
    if (*global)
        return;
    bool named = settings && *settings;
    if ((!named && !(home && *home)) ||
        snprintf(global, room, "%s%s/git/ignore", named ? settings : home, named ? "" : "/.config") >= (int)room)
        *global = '\0';
}
