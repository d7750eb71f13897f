/* SPDX-License-Identifier: Apache-2.0 */
#include "launch/hosts_command.h"

#include "base/clock.h"
#include "launch/spawn.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define LIMIT_SECONDS 10
#define TEXT_MOST     (1u << 20)
#define PIECE_BYTES   4096

weft_status hosts_command_ask(struct hosts_command *ask, const char *command, struct error *error)
{
    int output[2];
    *ask = (struct hosts_command){.command = command, .descriptor = -1};
    const int nothing = open("/dev/null", O_RDONLY | O_CLOEXEC);
    if (nothing < 0 || pipe2(output, O_CLOEXEC) != 0) {
        if (nothing >= 0)
            close(nothing);
        return error_system(error, "cannot run --hosts-command '%s'", command);
    }
    const pid_t parent = getpid(), process = fork();
    if (process == 0) {
        spawn_settle(parent, SIGKILL, nothing, output[1], -1);
        execl("/bin/sh", "sh", "-c", command, (char *)NULL);
        _exit(127);
    }
    close(nothing);
    close(output[1]);
    if (process < 0) {
        close(output[0]);
        return error_system(error, "cannot run --hosts-command '%s'", command);
    }
    setpgid(process, process);
    fcntl(output[0], F_SETFL, O_NONBLOCK);
    ask->process = process;
    ask->descriptor = output[0];
    ask->deadline = clock_after(LIMIT_SECONDS);
    return WEFT_OK;
}

/* Its wait status. */
static int hosts_command_reap(struct hosts_command *ask)
{
    int status = 0;
    if (ask->process > 0) {
        kill(-ask->process, SIGKILL); /* what it has left behind, too */
        waitpid(ask->process, &status, 0);
    }
    if (ask->descriptor >= 0)
        close(ask->descriptor);
    ask->process = 0;
    ask->descriptor = -1;
    return status;
}

void hosts_command_end(struct hosts_command *ask)
{
    if (ask->process > 0)
        (void)hosts_command_reap(ask);
    buffer_free(&ask->text);
}

/* Whether it has closed its output and ended. */
static bool hosts_command_is_over(struct hosts_command *ask)
{
    uint8_t bytes[PIECE_BYTES];
    ssize_t n;
    siginfo_t info = {0};
    while (ask->descriptor >= 0 && (n = read(ask->descriptor, bytes, sizeof bytes)) != 0) {
        if (n < 0 && (errno == EAGAIN || errno == EINTR))
            return false;
        buffer_put(&ask->text, bytes, n > 0 ? (size_t)n : 0);
        if (n < 0 || buffer_size(&ask->text) >= TEXT_MOST)
            return true;
    }
    if (ask->descriptor >= 0) /* it may run on; nobody is to be woken for it */
        close(ask->descriptor);
    ask->descriptor = -1;
    /* Not reaped yet, so that the number of its group stays its own. */
    return waitid(P_PID, (id_t)ask->process, &info, WEXITED | WNOHANG | WNOWAIT) == 0 && info.si_pid == ask->process;
}

static weft_status hosts_command_result(struct hosts_command *ask, char **text, struct error *error)
{
    const size_t size = buffer_size(&ask->text);
    const int status = hosts_command_reap(ask);
    if (ask->text.failed || size >= TEXT_MOST)
        return error_set(error, WEFT_ERROR_DATA, "--hosts-command '%s' prints too much", ask->command);
    if (WIFSIGNALED(status))
        return error_set(error, WEFT_ERROR_DATA, "--hosts-command '%s' was killed by signal %d", ask->command,
                         WTERMSIG(status));
    if (WEXITSTATUS(status) != 0)
        return error_set(error, WEFT_ERROR_DATA, "--hosts-command '%s' ended with exit code %d", ask->command,
                         WEXITSTATUS(status));
    *text = strndup(size > 0 ? (const char *)buffer_begin(&ask->text) : "", size);
    return *text ? WEFT_OK : error_memory(error, size, "the list of hosts");
}

weft_status hosts_command_take(struct hosts_command *ask, char **text, struct error *error)
{
    weft_status status = WEFT_OK;
    *text = NULL;
    const bool is_over = hosts_command_is_over(ask);
    if (!is_over && clock_now() < ask->deadline)
        return WEFT_OK;
    if (is_over)
        status = hosts_command_result(ask, text, error);
    else
        status = error_set(error, WEFT_ERROR_TIMEOUT, "--hosts-command '%s' has not ended within %d s and was killed",
                           ask->command, LIMIT_SECONDS);
    hosts_command_end(ask);
    return status;
}

weft_status hosts_command_run(const char *command, char **text, struct error *error)
{
    struct hosts_command ask;
    weft_status status = hosts_command_ask(&ask, command, error);
    *text = NULL;
    while (status == WEFT_OK && !*text) {
        (void)poll(&(struct pollfd){ask.descriptor, POLLIN, 0}, 1, 20);
        status = hosts_command_take(&ask, text, error);
    }
    return status;
}
