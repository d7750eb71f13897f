/* SPDX-License-Identifier: Apache-2.0 */
#include "platform/node_process.h"

#include "launch/spawn.h"
#include "platform/cgroup.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <inttypes.h>
#include <limits.h>
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

#define FOLDER_VARIABLE  "WEFT_NODE_FOLDER="
#define ENVIRONMENT_MOST ((size_t)8 << 20)

/* ---- starting --------------------------------------------------------------------------------------------------- */

static void set_number(const char *name, uint64_t value)
{
    char text[24];
    snprintf(text, sizeof text, "%" PRIu64, value);
    setenv(name, text, 1);
}

/* Strings that putenv() can keep: this process becomes another one, or ends. */
static void set_entries(char *const *entries)
{
    for (; entries && *entries; entries++)
        if (strchr(*entries, '='))
            putenv(*entries);
}

/* Whether another account's processes may know an entry of the agent's own environment. */
static bool is_shared(const char *entry)
{
    static const char *const shared[] = {"PATH=", "LANG=", "LANGUAGE=", "LC_", "TZ=", "LD_LIBRARY_PATH="};
    for (size_t i = 0; i < sizeof shared / sizeof *shared; i++)
        if (strncmp(entry, shared[i], strlen(shared[i])) == 0)
            return true;
    return false;
}

/* The environment that an account begins with: who started the server has secrets in theirs. */
static void become_at_home(const struct passwd *user)
{
    size_t kept = 0;
    for (char **entry = environ; entry && *entry; entry++)
        if (is_shared(*entry))
            environ[kept++] = *entry;
    if (environ)
        environ[kept] = NULL;
    setenv("HOME", user->pw_dir, 1);
    setenv("USER", user->pw_name, 1);
    setenv("LOGNAME", user->pw_name, 1);
    setenv("SHELL", *user->pw_shell ? user->pw_shell : "/bin/sh", 1);
}

/* Whether `folders`, as PATH has them, are `folder` too. */
static bool is_among(const char *folders, const char *folder)
{
    const size_t length = strlen(folder);
    for (const char *at = folders; at; at = strchr(at, ':') ? strchr(at, ':') + 1 : NULL)
        if (strncmp(at, folder, length) == 0 && (at[length] == ':' || at[length] == '\0'))
            return true;
    return false;
}

/* Let `weft` be found where nobody has installed it: the folder of this executable comes last in PATH. */
static void add_own_folder(void)
{
    char own[PATH_MAX], standard[256] = "", *path;
    const char *before = getenv("PATH");
    const ssize_t length = readlink("/proc/self/exe", own, sizeof own - 1);
    if (length <= 0)
        return;
    own[length] = '\0';
    *strrchr(own, '/') = '\0';
    if (!before) { /* what is searched then */
        confstr(_CS_PATH, standard, sizeof standard);
        before = standard;
    }
    /* A folder that this user may not enter would only make every mistyped name a want of permission. */
    if (!*own || strchr(own, ':') || is_among(before, own) || access(own, X_OK) != 0 ||
        asprintf(&path, "%s:%s", before, own) < 0)
        return;
    setenv("PATH", path, 1);
    free(path);
}

static void set_environment(const struct node_place *place, char *const *more, const struct passwd *user)
{
    const struct node_order *order = place->order;
    char text[FILE_PATH_BYTES];
    unsetenv("WEFT_GRACE");
    if (user)
        become_at_home(user);
    set_entries(order->environment.items);
    set_entries(more);
    setenv("WEFT_RUN", order->attempt.run, 1);
    set_number("WEFT_ATTEMPT", order->attempt.epoch);
    set_number("WEFT_NODE", order->node);
    set_number("WEFT_NODES", order->nodes);
    setenv("WEFT_NODE_HOSTS", order->hosts, 1);
    setenv("WEFT_SLOTS", order->slots, 1);
    setenv("CUDA_VISIBLE_DEVICES", order->gpus ? order->slots : "", 1);
    if (order->gpus)
        setenv("CUDA_DEVICE_ORDER", "PCI_BUS_ID", 1);
    snprintf(text, sizeof text, "%.1f", (double)order->grace * 0.8e-3);
    setenv("WEFT_GRACE", text, 0);
    setenv("WEFT_NODE_FOLDER", place->folder, 1);
    if (file_join(text, place->folder, "metrics", NULL) == WEFT_OK)
        setenv("WEFT_METRICS", text, 1);
    add_own_folder();
}

/* Send errno and what failed ('f'older, 'p'rogram, 'u'ser) to the parent, and end. */
static void give_up(int report, char what)
{
    char message[1 + sizeof(int)] = {what};
    int code = errno;
    memcpy(message + 1, &code, sizeof code);
    (void)!write(report, message, sizeof message);
    _exit(127);
}

/* Another user for good: none of the three numbers, no group and no descriptor leads back. */
static void become_user(const struct passwd *user, int report, pid_t parent)
{
    const uid_t own = geteuid();
    close_range(3, ~0u, CLOSE_RANGE_CLOEXEC);
    if (initgroups(user->pw_name, user->pw_gid) != 0 || setresgid(user->pw_gid, user->pw_gid, user->pw_gid) != 0 ||
        setresuid(user->pw_uid, user->pw_uid, user->pw_uid) != 0)
        give_up(report, 'u');
    if (setuid(own) == 0) {
        errno = EPERM;
        give_up(report, 'u');
    }
    prctl(PR_SET_PDEATHSIG, SIGKILL); /* which another user takes away */
    if (getppid() != parent)
        _exit(127);
}

static void become(const struct node_place *place, char *const *command, char *const *more, bool terminal,
                   const int descriptors[3], const struct passwd *user, int report, pid_t parent)
{
    if (terminal)
        setsid();
    spawn_settle(parent, SIGKILL, descriptors[0], descriptors[1], descriptors[2]);
    if (terminal)
        ioctl(STDIN_FILENO, TIOCSCTTY, 0);
    cgroup_enter(place->cgroup);
    if (user)
        become_user(user, report, parent);
    set_environment(place, more, user);
    if (chdir(place->order->folder) != 0)
        give_up(report, 'f');
    execvp(command[0], command);
    give_up(report, 'p');
}

static weft_status hear_report(const struct node_place *place, const char *program, int report, struct error *error)
{
    char message[1 + sizeof(int)];
    ssize_t n;
    int code;
    do
        n = read(report, message, sizeof message);
    while (n < 0 && errno == EINTR);
    if (n != (ssize_t)sizeof message)
        return WEFT_OK;
    memcpy(&code, message + 1, sizeof code);
    const char *host = place->order->host;
    if (message[0] == 'f') /* what an account has made of its own folder is its affair, and no fault of the host */
        return error_set(error, *place->order->user ? WEFT_ERROR_DATA : WEFT_ERROR_ARGUMENT,
                         "cannot enter the folder '%s' on host %s: %s", place->order->folder, host, strerror(code));
    if (message[0] == 'u')
        return error_set(error, WEFT_ERROR_ARGUMENT, "cannot become the user '%s' on host %s: %s", place->order->user,
                         host, strerror(code));
    if (code == ENOENT && !strchr(program, '/'))
        return error_set(error, WEFT_ERROR_DATA,
                         "cannot run '%s' on host %s: no program of that name is in PATH; write ./%s if it is in the "
                         "folder that was submitted",
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
    const struct passwd *user = NULL;
    const char *name = place->order->user;
    if (*name && !(user = getpwnam(name)))
        return error_set(error, WEFT_ERROR_ARGUMENT, "there is no user '%s' on host %s", name, place->order->host);
    if (user && user->pw_uid == geteuid())
        user = NULL;
    if (pipe2(report, O_CLOEXEC) != 0)
        return error_system(error, "cannot make a pipe");
    pid_t parent = getpid(), child = fork();
    if (child == 0)
        become(place, command, more, terminal, descriptors, user, report[1], parent);
    close(report[1]);
    weft_status status = WEFT_OK;
    if (child < 0) {
        status = error_system(error, "cannot start a process");
    } else {
        if (!terminal) /* a leader of a group cannot begin a session any more */
            setpgid(child, child);
        status = hear_report(place, command[0], report[0], error);
        *process = child;
    }
    close(report[0]);
    return status;
}

/* ---- finding ---------------------------------------------------------------------------------------------------- */

/* Whether the environment that `process` began with has this entry. */
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

int node_process_sweep(const char *folder)
{
    char wanted[FILE_PATH_BYTES + sizeof FOLDER_VARIABLE];
    int killed = 0, now;
    snprintf(wanted, sizeof wanted, FOLDER_VARIABLE "%s", folder);
    for (int pass = 0; pass < 10; pass++) { /* a process that forks meanwhile is met in the next pass */
        DIR *listing = opendir("/proc");
        now = 0;
        for (struct dirent *entry; listing && (entry = readdir(listing));) {
            int process = atoi(entry->d_name);
            if (process > 1 && process != getpid() && has_entry(entry->d_name, wanted) && kill(process, SIGKILL) == 0)
                now++;
        }
        if (listing)
            closedir(listing);
        killed += now;
        if (now == 0)
            break;
    }
    return killed;
}
