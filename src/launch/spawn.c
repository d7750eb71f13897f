/* SPDX-License-Identifier: Apache-2.0 */
#include "launch/spawn.h"

#include "base/clock.h"
#include "base/file/file.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

uint32_t spawn_cores(cpu_set_t *set)
{
    if (sched_getaffinity(0, sizeof *set, set) != 0)
        return 1;
    int count = CPU_COUNT(set);
    return count > 0 ? (uint32_t)count : 1;
}

static void spawn_set_number(const char *name, uint32_t value)
{
    char text[16];
    snprintf(text, sizeof text, "%u", value);
    setenv(name, text, 1);
}

static void spawn_environment_set(const struct order *order, const struct rank_process *rank, uint32_t cores,
                                  uint32_t threads)
{
    for (uint32_t i = 0; i < order->environment.count; i++) {
        char *entry = order->environment.items[i], *equals = strchr(entry, '=');
        if (!equals)
            continue;
        *equals = '\0';
        setenv(entry, equals + 1, 1);
        *equals = '=';
    }
    spawn_set_number("WEFT_RANK", rank->number);
    spawn_set_number("WEFT_RANKS", order->ranks);
    spawn_set_number("WEFT_LOCAL_RANK", rank->place);
    /* The first ranks of a host wait for one another at the rendezvous: places that are still free do not count. */
    spawn_set_number("WEFT_LOCAL_RANKS", rank->number < order->ranks ? order->count : order->places);
    if (*order->host)
        setenv("WEFT_HOST", order->host, 1);
    char text[16];
    snprintf(text, sizeof text, "%u", threads);
    setenv("OMP_NUM_THREADS", text, order->threads_chosen != 0);
    if (threads * order->places > cores)
        setenv("OMP_WAIT_POLICY", "passive", 0);
}

/* Give this process its own share of the cores. */
static void spawn_cores_bind(const cpu_set_t *all, uint32_t place, uint32_t threads)
{
    cpu_set_t own;
    CPU_ZERO(&own);
    uint32_t seen = 0;
    for (int core = 0; core < CPU_SETSIZE; core++) {
        if (!CPU_ISSET(core, all))
            continue;
        if (seen / threads == place)
            CPU_SET(core, &own);
        seen++;
    }
    sched_setaffinity(0, sizeof own, &own);
}

void spawn_settle(pid_t parent, int death, int input, int output, int errors)
{
    setpgid(0, 0);
    prctl(PR_SET_PDEATHSIG, death);
    if (getppid() != parent)
        _exit(127); /* it died before the line above */
    dup2(input, STDIN_FILENO);
    dup2(output, STDOUT_FILENO);
    if (errors >= 0)
        dup2(errors, STDERR_FILENO);
    for (int number = 1; number < NSIG; number++)
        if (number != SIGKILL && number != SIGSTOP)
            signal(number, SIG_DFL);
    sigset_t none;
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
}

_Noreturn void spawn_give_up(int report, char what)
{
    const int code = errno ? errno : EIO; /* 0 would mean that the program has started */
    char message[sizeof code + 1] = {what};
    memcpy(message + 1, &code, sizeof code);
    (void)!write(report, message, sizeof message);
    _exit(127);
}

int spawn_hear(int report, char *what)
{
    int code;
    char message[sizeof code + 1];
    ssize_t n;
    do
        n = read(report, message, sizeof message);
    while (n < 0 && errno == EINTR);
    if (n != (ssize_t)sizeof message)
        return 0;
    *what = message[0];
    memcpy(&code, message + 1, sizeof code);
    return code;
}

/* In the child: everything up to exec; `report` takes errno (4 bytes) and 'd' for the directory or 'p' for the program. */
static void spawn_rank_exec(const struct order *order, const struct rank_process *rank, int input, int output,
                            int errors, int report, pid_t parent)
{
    spawn_settle(parent, SIGKILL, input, output, errors);
    cpu_set_t set;
    uint32_t cores = spawn_cores(&set), threads = order->threads ? order->threads : 1;
    spawn_environment_set(order, rank, cores, threads);
    if (order->bind && threads * order->places <= cores)
        spawn_cores_bind(&set, rank->place, threads);
    if (chdir(order->directory) != 0)
        spawn_give_up(report, 'd');
    execvp(order->program.items[0], order->program.items);
    spawn_give_up(report, 'p');
}

static void spawn_close_pair(int pair[2])
{
    for (int i = 0; i < 2; i++) {
        file_close(pair[i]);
        pair[i] = -1;
    }
}

/* Wait for the child's exec: the pipe closes without data when it succeeds. */
static weft_status spawn_hear_report(const struct order *order, int report, struct error *error)
{
    char what, name[256] = "";
    const int code = spawn_hear(report, &what);
    if (code == 0)
        return WEFT_OK;
    gethostname(name, sizeof name - 1);
    const char *host = *order->host ? order->host : name, *program = order->program.items[0];
    if (what == 'd')
        return error_set(error, WEFT_ERROR_ARGUMENT, "cannot enter the directory '%s' on host %s: %s", order->directory,
                         host, strerror(code));
    if (code == ENOENT && !strchr(program, '/'))
        return error_set(
            error, WEFT_ERROR_ARGUMENT,
            "cannot run '%s' on host %s: no program of that name is in PATH; write ./%s if it is in this directory",
            program, host, program);
    return error_set(error, WEFT_ERROR_ARGUMENT, "cannot run '%s' on host %s: %s", program, host, strerror(code));
}

weft_status spawn_rank(const struct order *order, struct rank_process *rank, struct error *error)
{
    *rank = (struct rank_process){.number = rank->number, .place = rank->place, .input = -1, .streams = {-1, -1}};
    int input[2] = {-1, -1}, output[2] = {-1, -1}, errors[2] = {-1, -1}, report[2] = {-1, -1};
    bool takes_input = order->input && rank->number == 0;
    weft_status status = WEFT_OK;
    if ((takes_input ? pipe2(input, O_CLOEXEC) : (input[0] = open("/dev/null", O_RDONLY | O_CLOEXEC)) < 0) ||
        pipe2(output, O_CLOEXEC) || pipe2(errors, O_CLOEXEC) || pipe2(report, O_CLOEXEC)) {
        status = error_system(error, "cannot make the pipes of rank %u", rank->number);
    } else {
        pid_t parent = getpid(), process = fork();
        if (process == 0)
            spawn_rank_exec(order, rank, input[0], output[1], errors[1], report[1], parent);
        close(report[1]);
        report[1] = -1;
        if (process < 0) {
            status = error_system(error, "cannot start rank %u", rank->number);
        } else {
            setpgid(process, process);
            rank->process = process;
            rank->input = input[1];
            rank->streams[0] = output[0];
            rank->streams[1] = errors[0];
            status = spawn_hear_report(order, report[0], error);
            input[1] = output[0] = errors[0] = -1;
        }
    }
    spawn_close_pair(input);
    spawn_close_pair(output);
    spawn_close_pair(errors);
    spawn_close_pair(report);
    if (status == WEFT_OK) {
        const int ours[] = {rank->input, rank->streams[0], rank->streams[1]};
        for (int i = 0; i < 3; i++)
            if (ours[i] >= 0)
                fcntl(ours[i], F_SETFL, O_NONBLOCK);
    }
    return status;
}

/* ---- ending ---- */

char *spawn_end_describe(int end, char text[SPAWN_END_BYTES])
{
    if (WIFSIGNALED(end))
        snprintf(text, SPAWN_END_BYTES, "was killed by signal %d (%s)%s", WTERMSIG(end), strsignal(WTERMSIG(end)),
                 WCOREDUMP(end) ? ", core dumped" : "");
    else
        snprintf(text, SPAWN_END_BYTES, "ended with exit code %d", WEXITSTATUS(end));
    return text;
}

static void spawn_children_kill(void)
{
    char path[64], list[4096] = "";
    snprintf(path, sizeof path, "/proc/self/task/%d/children", (int)getpid());
    int file = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t n = file >= 0 ? read(file, list, sizeof list - 1) : 0;
    file_close(file);
    list[n > 0 ? n : 0] = '\0';
    char *last = strrchr(list, ' '), *rest = NULL;
    if (last)
        *last = '\0'; /* a number cut short by the end of `list` is another's */
    for (char *word = strtok_r(list, " ", &rest); word; word = strtok_r(NULL, " ", &rest)) {
        int process = atoi(word);
        if (process > 1)
            kill(process, SIGKILL);
    }
}

bool spawn_descendants_kill(double seconds)
{
    uint64_t end = clock_after(seconds);
    do {
        spawn_children_kill();
        while (waitpid(-1, NULL, WNOHANG) > 0)
            ;
        if (waitpid(-1, NULL, WNOHANG) < 0 && errno == ECHILD)
            return true;
        poll(NULL, 0, 2);
    } while (clock_now() < end);
    return false;
}
