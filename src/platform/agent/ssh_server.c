/* SPDX-License-Identifier: Apache-2.0 */
#include "platform/agent/ssh_server.h"

#include "base/buffer.h"
#include "base/error.h"

#include <errno.h>
#include <pwd.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#define NO_SERVER       127
#define PLACE_BYTES     64
#define SSHD_PRIVILEGES "/run/sshd" /* sshd of root refuses to start without it */

/* ---- the environment of sessions ---- */

/* What a session has of its own, and what it must not have. */
static bool is_passed_on(const char *entry)
{
    static const char *const own[] = {"HOME=",
                                      "USER=",
                                      "LOGNAME=",
                                      "SHELL=",
                                      "PWD=",
                                      "OLDPWD=",
                                      "SHLVL=",
                                      "_=",
                                      "TERM=",
                                      "MAIL=",
                                      "SSH_",
                                      SSH_HOST_KEY_VARIABLE "=",
                                      SSH_USER_KEY_VARIABLE "=",
                                      SSH_LOGIN_VARIABLE "="};
    for (size_t i = 0; i < sizeof own / sizeof *own; i++)
        if (strncmp(entry, own[i], strlen(own[i])) == 0)
            return false;
    for (const char *byte = entry; *byte; byte++)
        if (((unsigned char)*byte < ' ' && *byte != '\t') || *byte == 127) /* no line of sshd_config holds it */
            return false;
    return strchr(entry, '=') > entry;
}

/* One line: sshd takes the first SetEnv only. */
static void put_session_environment(struct buffer *text, char *const *entries)
{
    bool any = false;
    for (char *const *entry = entries; entry && *entry; entry++) {
        if (!is_passed_on(*entry))
            continue;
        buffer_put_string(text, any ? " \"" : "SetEnv \"");
        for (const char *byte = *entry; *byte; byte++) {
            if (*byte == '"' || *byte == '\\')
                buffer_put_string(text, "\\");
            buffer_put(text, byte, 1);
        }
        buffer_put_string(text, "\"");
        any = true;
    }
    buffer_put_string(text, "\n");
}

/* ---- the server's files ---- */

/*
 * Keep `text` in memory, as a file that only this user can open, at `place`, while this process lives. On disk it could
 * survive the node, whose processes are killed at its end.
 */
static weft_status keep_file(const char *name, const char *text, char place[PLACE_BYTES], struct error *error)
{
    const size_t size = strlen(text);
    const int file = memfd_create(name, MFD_CLOEXEC);
    if (file < 0 || fchmod(file, 0600) != 0 || write(file, text, size) != (ssize_t)size)
        return error_system(error, "cannot keep %s in memory", name);
    snprintf(place, PLACE_BYTES, "/proc/%d/fd/%d", (int)getpid(), file);
    return WEFT_OK;
}

static weft_status keep_settings(const char *host_key, const char *user_key, char place[PLACE_BYTES],
                                 struct error *error)
{
    struct buffer text = {0};
    buffer_print(&text,
                 "HostKey %s\n"
                 "AuthorizedKeysFile %s\n"
                 "PidFile none\n"
                 "LogLevel ERROR\n"
                 "UsePAM no\n"
                 "StrictModes no\n" /* the directories above the files are not this user's */
                 "PasswordAuthentication no\n"
                 "KbdInteractiveAuthentication no\n"
                 "PermitRootLogin prohibit-password\n"
                 "PrintMotd no\n"
                 "PrintLastLog no\n"
                 "UseDNS no\n"
                 "Subsystem sftp internal-sftp\n",
                 host_key, user_key);
    put_session_environment(&text, environ);
    const char *whole = buffer_string(&text);
    const weft_status status =
        whole ? keep_file("sshd_config", whole, place, error) : error_memory(error, text.room, "the settings of sshd");
    buffer_free(&text);
    return status;
}

static weft_status keep_files(char settings[PLACE_BYTES], struct error *error)
{
    const char *host = getenv(SSH_HOST_KEY_VARIABLE), *user = getenv(SSH_USER_KEY_VARIABLE);
    char host_key[PLACE_BYTES], user_key[PLACE_BYTES];
    if (!host || !user)
        return error_set(error, WEFT_ERROR_ARGUMENT,
                         "the keys of the connection are missing; 'weft ssh-config' makes them");
    weft_status status = keep_file("host_key", host, host_key, error);
    if (status == WEFT_OK)
        status = keep_file("authorized_keys", user, user_key, error);
    return status == WEFT_OK ? keep_settings(host_key, user_key, settings, error) : status;
}

/* ---- running it ---- */

/* sshd itself says nothing, or little, about these. */
static weft_status check_login(struct error *error)
{
    const char *login = getenv(SSH_LOGIN_VARIABLE);
    const struct passwd *own = getpwuid(geteuid());
    if (!own)
        return error_set(error, WEFT_ERROR_STATE, "the user of the run, %u, has no account on the node's host",
                         (unsigned)geteuid());
    if (login && *login && strcmp(login, own->pw_name) != 0)
        return error_set(error, WEFT_ERROR_STATE,
                         "the run's processes are those of the account '%s', not '%s': connect as it (ssh %s@NODE)",
                         own->pw_name, login, own->pw_name);
    const char *shell = *own->pw_shell ? own->pw_shell : "/bin/sh", *slash = strrchr(shell, '/');
    if (access(shell, X_OK) != 0 || (slash && (strcmp(slash, "/nologin") == 0 || strcmp(slash, "/false") == 0)))
        return error_set(error, WEFT_ERROR_STATE,
                         "the run's account '%s' has the shell '%s', which lets nobody log in; use weft shell",
                         own->pw_name, shell);
    return WEFT_OK;
}

static const char *find_server(void)
{
    static const char *const places[] = {"/usr/sbin/sshd", "/usr/local/sbin/sshd", "/usr/bin/sshd"};
    const char *given = getenv("WEFT_SSHD");
    if (given && *given == '/')
        return access(given, X_OK) == 0 ? given : NULL;
    for (size_t i = 0; i < sizeof places / sizeof *places; i++)
        if (access(places[i], X_OK) == 0)
            return places[i];
    return NULL;
}

static char *own_variable(const char *name)
{
    for (char **entry = environ; entry && *entry; entry++)
        if (strncmp(*entry, name, strlen(name)) == 0)
            return *entry;
    return NULL;
}

static int run_server(const char *program, const char *settings)
{
    int end = 0;
    /* Little of the run's environment is good for sshd (LD_PRELOAD), but the agent finds its processes by this. */
    char *environment[] = {own_variable("WEFT_NODE_DIRECTORY="), NULL};
    if (geteuid() == 0)
        mkdir(SSHD_PRIVILEGES, 0755);
    const pid_t child = fork();
    if (child == 0) {
        execle(program, program, "-i", "-e", "-f", settings, (char *)NULL, environment);
        fprintf(stderr, "weft: cannot run %s: %s\n", program, strerror(errno));
        _exit(NO_SERVER);
    }
    /* The end of the connection ends sshd too, by the process group; this process keeps the files in memory. */
    signal(SIGHUP, SIG_IGN);
    signal(SIGTERM, SIG_IGN);
    signal(SIGINT, SIG_IGN);
    while (child > 0 && waitpid(child, &end, 0) < 0 && errno == EINTR)
        ;
    if (child < 0)
        return fprintf(stderr, "weft: cannot start sshd on the node: %s\n", strerror(errno)), 1;
    return WIFEXITED(end) ? WEXITSTATUS(end) : 128 + WTERMSIG(end);
}

int node_ssh_main(void)
{
    char settings[PLACE_BYTES];
    struct error error = {0};
    const char *program = find_server();
    if (!program) {
        fprintf(stderr, "weft: the node has no sshd; install openssh-server on its host\n");
        return NO_SERVER;
    }
    if (check_login(&error) == WEFT_OK && keep_files(settings, &error) == WEFT_OK)
        return run_server(program, settings);
    fprintf(stderr, "weft: %s\n", error.text);
    return 1;
}
