/* SPDX-License-Identifier: Apache-2.0 */
#include "platform/agent/internal/process.h"

#include "launch/spawn.h"
#include "platform/agent/internal/environment.h"
#include "platform/agent/limits.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <linux/close_range.h>
#include <pwd.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <unistd.h>

#define DIRECTORY_VARIABLE "WEFT_NODE_DIRECTORY="
#define ENVIRONMENT_MOST   ((size_t)8 << 20)

/* ---- starting ---- */

/* What the child needs, prepared before fork(): the child has only the forking thread, so a lock that another thread
 * held (of the allocator or the user database) is never released in it. */
struct process_beginning {
    const struct passwd *user; /* NULL: this process's own */
    gid_t *groups;             /* all groups of that user */
    int group_count;
    struct node_environment environment;
};

static void free_beginning(struct process_beginning *beginning)
{
    free(beginning->groups);
    node_environment_free(&beginning->environment);
}

static weft_status find_groups(struct process_beginning *beginning, struct error *error)
{
    const struct passwd *user = beginning->user;
    int room = 64, count = room;
    for (;; room = count > room ? count : 2 * room, count = room) {
        gid_t *grown = realloc(beginning->groups, (size_t)room * sizeof *grown);
        if (!grown)
            return error_memory(error, (size_t)room * sizeof *grown, "the groups of an account");
        beginning->groups = grown;
        if (getgrouplist(user->pw_name, user->pw_gid, grown, &count) >= 0)
            break;
    }
    const long most = sysconf(_SC_NGROUPS_MAX); /* beyond that, extra groups are dropped */
    beginning->group_count = most > 0 && count > most ? (int)most : count;
    return WEFT_OK;
}

static weft_status make_beginning(const struct node_place *place, char *const *more,
                                  struct process_beginning *beginning, struct error *error)
{
    const char *name = place->order->user;
    *beginning = (struct process_beginning){0};
    if (*name && !(beginning->user = getpwnam(name)))
        return error_set(error, WEFT_ERROR_ARGUMENT, "there is no user '%s' on host %s", name, place->order->host);
    if (beginning->user && beginning->user->pw_uid == geteuid())
        beginning->user = NULL;
    weft_status status = beginning->user ? find_groups(beginning, error) : WEFT_OK;
    if (status == WEFT_OK)
        status = node_environment_make(place, more, beginning->user, &beginning->environment, error);
    if (status != WEFT_OK)
        free_beginning(beginning);
    return status;
}

/* Become another user permanently: real, effective and saved ids, groups and descriptors. */
static void become_user(const struct process_beginning *beginning, int report, pid_t parent)
{
    const struct passwd *user = beginning->user;
    const uid_t own = geteuid();
    close_range(3, ~0u, CLOSE_RANGE_CLOEXEC);
    if (setgroups((size_t)beginning->group_count, beginning->groups) != 0 ||
        setresgid(user->pw_gid, user->pw_gid, user->pw_gid) != 0 ||
        setresuid(user->pw_uid, user->pw_uid, user->pw_uid) != 0)
        spawn_give_up(report, 'u');
    if (setuid(own) == 0) {
        errno = EPERM;
        spawn_give_up(report, 'u');
    }
    prctl(PR_SET_PDEATHSIG, SIGKILL); /* changing the user clears it */
    if (getppid() != parent)
        _exit(127);
}

static void become(const struct node_place *place, char *const *command, const struct process_beginning *beginning,
                   bool terminal, const int descriptors[3], int report, pid_t parent)
{
    if (terminal)
        setsid();
    spawn_settle(parent, SIGKILL, descriptors[0], descriptors[1], descriptors[2]);
    if (terminal)
        ioctl(STDIN_FILENO, TIOCSCTTY, 0);
    if (!node_limits_enter(place->order, place->cgroup, beginning->user != NULL))
        spawn_give_up(report, 'l');
    if (beginning->user)
        become_user(beginning, report, parent);
    node_environment_enter(&beginning->environment);
    if (chdir(place->order->directory) != 0)
        spawn_give_up(report, 'f');
    execvp(command[0], command);
    spawn_give_up(report, 'p');
}

static weft_status agent_process_hear_report(const struct node_place *place, const char *program, int report,
                                             struct error *error)
{
    char what;
    const int code = spawn_hear(report, &what);
    if (code == 0)
        return WEFT_OK;
    const char *host = place->order->host;
    if (what == 'f') /* the run's fault, not the host's */
        return error_set(error, *place->order->user ? WEFT_ERROR_DATA : WEFT_ERROR_ARGUMENT,
                         "cannot enter the directory '%s' on host %s: %s", place->order->directory, host,
                         strerror(code));
    if (what == 'l')
        return error_set(error, WEFT_ERROR_SYSTEM, "cannot enter the control group of the run on host %s: %s", host,
                         strerror(code));
    if (what == 'u')
        return error_set(error, WEFT_ERROR_ARGUMENT, "cannot become the user '%s' on host %s: %s", place->order->user,
                         host, strerror(code));
    if (code == ENOENT && !strchr(program, '/'))
        return error_set(error, WEFT_ERROR_DATA,
                         "cannot run '%s' on host %s: no program of that name is in PATH; write ./%s if it is in the "
                         "directory that was submitted",
                         program, host, program);
    return error_set(error, WEFT_ERROR_DATA, "cannot run '%s' on host %s: %s", program, host, strerror(code));
}

uid_t node_process_user(const struct node_place *place)
{
    const struct passwd *user = *place->order->user ? getpwnam(place->order->user) : NULL;
    return user ? user->pw_uid : geteuid();
}

void node_process_give(const struct node_place *place, int pipe)
{
    uid_t user = node_process_user(place);
    if (user != geteuid())
        (void)!fchown(pipe, user, (gid_t)-1);
}

weft_status node_process_start(const struct node_place *place, char *const *command, char *const *more, bool terminal,
                               const int descriptors[3], pid_t *process, struct error *error)
{
    int report[2];
    struct process_beginning beginning;
    weft_status status = make_beginning(place, more, &beginning, error);
    if (status != WEFT_OK)
        return status;
    if (pipe2(report, O_CLOEXEC) != 0) {
        status = error_system(error, "cannot make a pipe");
        free_beginning(&beginning);
        return status;
    }
    pid_t parent = getpid(), child = fork();
    if (child == 0)
        become(place, command, &beginning, terminal, descriptors, report[1], parent);
    close(report[1]);
    if (child < 0) {
        status = error_system(error, "cannot start a process");
    } else {
        if (!terminal) /* a group leader cannot call setsid() */
            setpgid(child, child);
        status = agent_process_hear_report(place, command[0], report[0], error);
        *process = child;
    }
    close(report[0]);
    free_beginning(&beginning);
    return status;
}

/* ---- finding ---- */

/* Whether the initial environment of `process` has this entry. */
static bool has_entry(const char *process, const char *wanted)
{
    char path[64], *text;
    size_t size;
    bool found = false;
    snprintf(path, sizeof path, "/proc/%.20s/environ", process);
    if (file_read(path, ENVIRONMENT_MOST, &text, &size, NULL) != WEFT_OK)
        return false;
    for (const char *entry = text; entry < text + size && !found; entry += strlen(entry) + 1)
        found = strcmp(entry, wanted) == 0;
    free(text);
    return found;
}

bool node_process_may_be_of(const char *directory, pid_t process)
{
    char wanted[FILE_PATH_BYTES + sizeof DIRECTORY_VARIABLE], number[24], path[64], first[2];
    snprintf(wanted, sizeof wanted, DIRECTORY_VARIABLE "%s", directory);
    snprintf(number, sizeof number, "%d", (int)process);
    snprintf(path, sizeof path, "/proc/%d/cmdline", (int)process);
    const bool there = file_read_small(AT_FDCWD, path, first, sizeof first) > 0; /* of a zombie it is empty */
    return !there || has_entry(number, wanted);
}

int node_process_sweep(const char *directory)
{
    char wanted[FILE_PATH_BYTES + sizeof DIRECTORY_VARIABLE];
    int killed = 0, now = 1;
    snprintf(wanted, sizeof wanted, DIRECTORY_VARIABLE "%s", directory);
    for (int pass = 0; pass < 10 && now > 0; pass++) { /* processes forked meanwhile are found in the next pass */
        DIR *listing = opendir("/proc");
        now = 0;
        for (const char *name; (name = file_listing_next(listing));) {
            const int process = atoi(name);
            now += process > 1 && process != getpid() && has_entry(name, wanted) && kill(process, SIGKILL) == 0;
        }
        file_listing_close(listing);
        killed += now;
    }
    return killed;
}
