/* SPDX-License-Identifier: Apache-2.0 */
#include "platform/agent/agent.h"

#include "base/clock.h"
#include "base/text.h"
#include "launch/spawn.h"
#include "platform/agent/internal/connections.h"
#include "platform/agent/internal/life.h"
#include "platform/agent/internal/process.h"
#include "platform/agent/internal/sampler.h"
#include "platform/agent/limits.h"
#include "platform/agent/link.h"
#include "platform/agent/output.h"
#include "platform/registry/secret_store.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <poll.h>
#include <signal.h>
#include <sodium.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <sysexits.h>
#include <unistd.h>

#define LOOK_SECONDS    4.0 /* between two looks at the orders; normally the server wakes the agent */
#define DRAIN_SECONDS   1.0 /* for output after the end: a process that could not be killed may keep a pipe open */
#define KILL_SECONDS    5.0
#define SAMPLER_SECONDS 1.0 /* for the last sample of what the node uses */
#define SAMPLE_MOST     4.0 /* seconds between two samples of what the node uses; less if heartbeats are faster */

struct agent {
    const char *directory;
    char root[FILE_PATH_BYTES];
    struct node_order order;
    struct string_list secrets; /* "VARIABLE=VALUE" */
    struct node_place place;
    struct cgroup cgroup;
    struct cgroup_events limited; /* limits reported so far */
    char limit[ERROR_TEXT_BYTES]; /* the last such report */
    int lock, signals;
    struct journal_writer journal;
    struct node_output output;
    struct node_connections connections;
    struct node_sampler *sampler; /* NULL: it could not be started */
    bool begun;                   /* the journal has JOURNAL_STARTED, or there is no command */
    pid_t command;                /* 0: no command, or it was reaped */
    bool ended;                   /* nothing more to wait for */
    int status;                   /* the command's wait status */
    bool more;                    /* the journal has grown since the last nudge */

    uint64_t look_at, beat_at;
    uint64_t limit_at, lease_at; /* 0: never */

    struct node_stop obeyed; /* the last stop that was read */
    enum journal_cause cause;
    uint64_t kill_at; /* 0: no end is ordered */
    bool killed;
    char why[ERROR_TEXT_BYTES];
};

/* ---- the journal ---- */

static void record(struct agent *agent, struct journal_record *what)
{
    struct error error = {0};
    if (journal_append(&agent->journal, what, &error) == WEFT_OK)
        agent->more = true;
    else
        fprintf(stderr, "weft agent: %s\n", error.text);
}

static void agent_note(struct agent *agent, const char *message)
{
    record(agent, &(struct journal_record){.kind = JOURNAL_NOTE, .text = message, .size = (uint32_t)strlen(message)});
}

static void record_sample(void *context, struct journal_record *what)
{
    record(context, what);
}

static uint64_t after(uint64_t milliseconds)
{
    return clock_now() + (milliseconds < UINT64_MAX / 4000000u ? milliseconds * 1000000u : UINT64_MAX / 4);
}

/* ---- the end ---- */

/*
 * End the command: the signal now, and SIGKILL after `grace` milliseconds. The first cause stays, except that being
 * fenced overrides it. A later call can only shorten the remaining time.
 */
static void want_end(struct agent *agent, enum journal_cause cause, int number, uint64_t grace, const char *why)
{
    uint64_t kill_at = after(number == SIGKILL ? 0 : grace);
    if (agent->kill_at == 0 || cause == JOURNAL_FENCED) {
        agent->cause = cause;
        snprintf(agent->why, sizeof agent->why, "%s", why);
    }
    if (agent->kill_at == 0 || kill_at < agent->kill_at)
        agent->kill_at = kill_at;
    if (agent->command > 0) {
        kill(-agent->command, number);
        if (number != SIGKILL)
            kill(-agent->command, SIGCONT); /* a stopped process does not handle signals */
    } else {
        /* The command never ran, so it has not succeeded and must run again. */
        if (!agent->begun && agent->order.command.count > 0)
            agent->status = W_EXITCODE(EX_TEMPFAIL, 0);
        agent->ended = true;
    }
    /* The note appears in the program's output. Nodes that only wait for others have no output, and would all repeat
     * it. */
    if (agent->order.command.count > 0)
        agent_note(agent, why);
}

static void look_for_stop(struct agent *agent)
{
    struct node_stop stop;
    bool found;
    char why[128], grace[32];
    if (node_stop_load(agent->directory, &stop, &found, NULL) != WEFT_OK || !found ||
        (stop.signal == agent->obeyed.signal && stop.grace == agent->obeyed.grace))
        return;
    agent->obeyed = stop;
    text_seconds((double)stop.grace * 1e-3, grace, sizeof grace);
    bool checkpoint = stop.signal == SIGUSR1;
    snprintf(why, sizeof why, "it was asked to %s within %s", checkpoint ? "write a checkpoint and end" : "stop",
             grace);
    want_end(agent, checkpoint ? JOURNAL_CHECKPOINTED : JOURNAL_STOPPED, stop.signal, stop.grace, why);
}

static void look_for_remark(struct agent *agent)
{
    char message[ERROR_TEXT_BYTES];
    bool found;
    (void)node_remark_take(agent->directory, message, sizeof message, &found, NULL);
    if (found)
        agent_note(agent, message);
}

static void look_for_fence(struct agent *agent)
{
    uint64_t epoch;
    char why[128];
    struct stat status;
    if (agent->cause == JOURNAL_FENCED)
        return;
    if (fstat(agent->lock, &status) == 0 && status.st_nlink == 0)
        want_end(agent, JOURNAL_FENCED, SIGKILL, 0, "its directory was taken away");
    if (node_fence_read(agent->root, agent->order.attempt.run, &epoch, NULL) != WEFT_OK ||
        epoch <= agent->order.attempt.epoch)
        return;
    snprintf(why, sizeof why, "attempt %" PRIu64 " of the run exists", epoch);
    want_end(agent, JOURNAL_FENCED, SIGKILL, 0, why);
}

/* Report each limit once in the run's output, however often it is reached. */
static void look_at_limits(struct agent *agent)
{
    const struct cgroup_events before = agent->limited;
    char message[ERROR_TEXT_BYTES];
    if (!node_limits_tell(&agent->order, &agent->cgroup, &agent->limited, message, sizeof message))
        return;
    const bool memory = agent->limited.memory_kills > before.memory_kills;
    if (memory || !before.memory_kills) /* a killed process explains more than a failed fork() */
        snprintf(agent->limit, sizeof agent->limit, "%s", message);
    if ((!before.memory_kills && memory) || (!before.forks_denied && agent->limited.forks_denied))
        agent_note(agent, message);
}

static void agent_look(struct agent *agent)
{
    agent->look_at = clock_after(LOOK_SECONDS);
    look_at_limits(agent);
    agent->connections.woken = false;
    look_for_remark(agent);
    look_for_stop(agent);
    look_for_fence(agent);
}

static void keep_time(struct agent *agent)
{
    uint64_t now = clock_now();
    char why[128], text[32];
    if (now >= agent->look_at || agent->connections.woken)
        agent_look(agent);
    if (now >= agent->beat_at) {
        agent->beat_at = after(agent->order.heartbeat);
        record(agent, &(struct journal_record){.kind = JOURNAL_HEARTBEAT});
    }
    if (agent->order.lease && node_connections_watched(&agent->connections))
        agent->lease_at = after(agent->order.lease);
    if (agent->limit_at && now >= agent->limit_at) {
        agent->limit_at = 0;
        text_seconds((double)agent->order.time_limit * 1e-3, text, sizeof text);
        snprintf(why, sizeof why, "its time limit of %s is over", text);
        want_end(agent, JOURNAL_TIME_LIMIT, SIGTERM, agent->order.grace, why);
    }
    if (agent->lease_at && now >= agent->lease_at) {
        agent->lease_at = 0;
        text_seconds((double)agent->order.lease * 1e-3, text, sizeof text);
        snprintf(why, sizeof why, "nobody has asked for it in %s, its lease", text);
        want_end(agent, JOURNAL_LEASE, SIGTERM, agent->order.grace, why);
    }
    if (agent->kill_at && now >= agent->kill_at && agent->command > 0 && !agent->killed) {
        agent->killed = true;
        cgroup_kill(&agent->cgroup, 0);
        kill(-agent->command, SIGKILL);
    }
}

/* ---- the loop ---- */

static void agent_reap(struct agent *agent)
{
    int status;
    pid_t process;
    while ((process = waitpid(-1, &status, WNOHANG)) > 0) {
        if (process == agent->command) {
            agent->status = status;
            agent->command = 0;
            agent->ended = true;
        } else {
            node_connections_reap(&agent->connections, process, status);
        }
    }
}

/* SIGTERM comes from the system at shutdown, or from the run if both have the same user. */
static void agent_hear_end(struct agent *agent, const struct signalfd_siginfo *came)
{
    char why[256];
    snprintf(why, sizeof why, "the run's agent on host %.100s got SIGTERM, by the run itself or its user",
             agent->order.host);
    if (came->ssi_uid == geteuid() && node_process_user(&agent->place) == geteuid() &&
        node_process_may_be_of(agent->directory, (pid_t)came->ssi_pid))
        want_end(agent, JOURNAL_AGENT_KILLED, SIGTERM, agent->order.grace, why);
    else
        want_end(agent, JOURNAL_HOST, SIGTERM, agent->order.grace,
                 "its agent got SIGTERM, as when a host is shut down");
}

static void agent_hear_signals(struct agent *agent)
{
    struct signalfd_siginfo came[8];
    ssize_t n;
    while ((n = read(agent->signals, came, sizeof came)) > 0)
        for (size_t i = 0; i < (size_t)n / sizeof *came; i++)
            if (came[i].ssi_signo == SIGTERM)
                agent_hear_end(agent, &came[i]);
    agent_reap(agent);
}

/* Milliseconds until the next timer. */
static int until_next(const struct agent *agent)
{
    const uint64_t times[] = {agent->look_at,
                              agent->beat_at,
                              agent->limit_at,
                              agent->lease_at,
                              agent->killed ? 0 : agent->kill_at,
                              node_output_next(&agent->output)};
    uint64_t next = UINT64_MAX, now = clock_now();
    for (size_t i = 0; i < ARRAY_SIZE(times); i++)
        if (times[i] && times[i] < next)
            next = times[i];
    return next <= now ? 0 : (int)((next - now) / 1000000u) + 1;
}

static void agent_turn(struct agent *agent, int limit)
{
    struct pollfd polls[4 + 1 + NODE_CONNECTIONS_MOST];
    const bool reads = node_output_is_due(&agent->output);
    polls[0] = (struct pollfd){agent->signals, POLLIN, 0};
    for (int i = 0; i < 2; i++)
        polls[1 + i] = (struct pollfd){reads ? agent->output.streams[i].descriptor : -1, POLLIN, 0};
    polls[3] = (struct pollfd){agent->sampler ? node_sampler_descriptor(agent->sampler) : -1, POLLIN, 0};
    node_connections_watch(&agent->connections, polls + 4);
    if (poll(polls, ARRAY_SIZE(polls), limit) < 0)
        return;
    for (int i = 0; i < 2; i++)
        if (polls[1 + i].revents)
            agent->more |= node_output_read(&agent->output, i);
    if (polls[0].revents)
        agent_hear_signals(agent);
    if (polls[3].revents)
        node_sampler_take(agent->sampler, record_sample, agent);
    node_connections_turn(&agent->connections, polls + 4);
    agent->more |= node_output_tick(&agent->output);
    if (agent->more)
        node_connections_nudge(&agent->connections);
    agent->more = false;
}

/* ---- beginning and ending ---- */

static weft_status start_command(struct agent *agent, struct error *error)
{
    int pipes[2][2] = {{-1, -1}, {-1, -1}}, nothing = open("/dev/null", O_RDONLY | O_CLOEXEC);
    pid_t process = 0;
    weft_status status = WEFT_OK;
    if (nothing < 0 || pipe2(pipes[0], O_CLOEXEC) != 0 || pipe2(pipes[1], O_CLOEXEC) != 0)
        status = error_system(error, "cannot make the pipes of a command");
    const int descriptors[3] = {nothing, pipes[0][1], pipes[1][1]};
    for (int i = 0; i < 2; i++) {
        node_process_give(&agent->place, pipes[i][1]);
        if (pipes[i][0] >= 0)
            fcntl(pipes[i][0], F_SETFL, O_NONBLOCK);
        agent->output.streams[i].descriptor = pipes[i][0];
    }
    if (status == WEFT_OK)
        status =
            node_process_start(&agent->place, agent->order.command.items, NULL, false, descriptors, &process, error);
    for (int i = 0; i < 3; i++)
        file_close(descriptors[i]);
    if (status == WEFT_OK)
        agent->command = process;
    return status;
}

/* Without a sampler the run continues. */
static void start_sampler(struct agent *agent)
{
    const double beats = (double)agent->order.heartbeat * 1e-3;
    struct error error = {0};
    const struct node_sampler_config config = {.order = &agent->order,
                                               .cgroup = cgroup_in_tree(&agent->cgroup),
                                               .ancestor = (int32_t)getpid(),
                                               .seconds = beats < SAMPLE_MOST ? beats : SAMPLE_MOST};
    if (node_sampler_start(&config, &agent->sampler, &error) != WEFT_OK)
        agent_note(agent, error.text);
}

static void agent_begin(struct agent *agent)
{
    struct error error = {0};
    agent_look(agent);
    if (agent->ended)
        return;
    start_sampler(agent);
    node_kills_note(agent->directory);
    if (agent->order.command.count > 0 && start_command(agent, &error) != WEFT_OK) {
        /* A command that cannot be executed is the run's fault, as in a shell; anything else is the host's. */
        agent->cause = error.status == WEFT_ERROR_DATA ? JOURNAL_BY_ITSELF : JOURNAL_NOT_STARTED;
        agent->status = W_EXITCODE(NODE_NOT_RUN, 0);
        snprintf(agent->why, sizeof agent->why, "%s", error.text);
        agent->ended = true;
        return;
    }
    record(agent, &(struct journal_record){.kind = JOURNAL_STARTED, .started = {agent->command}});
    journal_sync(&agent->journal, NULL);
    agent->begun = true;
    agent->limit_at = agent->order.time_limit ? after(agent->order.time_limit) : 0;
    agent->lease_at = agent->order.lease ? after(agent->order.lease) : 0;
}

/* Read what is left in the pipes. */
static void agent_drain(struct agent *agent)
{
    uint64_t end = clock_after(DRAIN_SECONDS);
    while ((agent->output.streams[0].descriptor >= 0 || agent->output.streams[1].descriptor >= 0) && clock_now() < end)
        agent_turn(agent, 20);
}

/* If a program fails after it reached a limit, the limit is the reason. */
static void blame_limits(struct agent *agent)
{
    const bool failed =
        WIFSIGNALED(agent->status) || (WEXITSTATUS(agent->status) != 0 && WEXITSTATUS(agent->status) != EX_TEMPFAIL);
    look_at_limits(agent);
    if (failed && agent->begun && agent->cause == JOURNAL_BY_ITSELF && !*agent->why)
        snprintf(agent->why, sizeof agent->why, "%s", agent->limit);
}

static void agent_finish(struct agent *agent)
{
    blame_limits(agent);
    struct journal_record exited = {.kind = JOURNAL_EXITED, .text = agent->why, .size = (uint32_t)strlen(agent->why)};
    node_sampler_stop(agent->sampler, SAMPLER_SECONDS, record_sample,
                      agent); /* before spawn_descendants_kill(): a thread */
    agent->sampler = NULL;
    cgroup_kill(&agent->cgroup, KILL_SECONDS);
    spawn_descendants_kill(KILL_SECONDS);
    node_output_hurry(&agent->output);
    agent_drain(agent);
    node_output_close(&agent->output);
    if (WIFEXITED(agent->status))
        exited.exited.code = (uint32_t)WEXITSTATUS(agent->status);
    else
        exited.exited.signal = (uint32_t)WTERMSIG(agent->status);
    exited.exited.cause = agent->cause;
    exited.exited.killed = agent->killed;
    struct error error = {0};
    /* The last record must not be lost: on a full disk, wait. */
    while (journal_append(&agent->journal, &exited, &error) != WEFT_OK && error.status == WEFT_ERROR_SYSTEM &&
           access(agent->directory, F_OK) == 0) {
        fprintf(stderr, "weft agent: %s\n", error.text);
        error_clear(&error);
        poll(NULL, 0, 1000);
    }
    journal_sync(&agent->journal, NULL);
    cgroup_remove(&agent->cgroup);
    node_lock_write(agent->lock, "ended\n"); /* last: a reader that finds no end cleans up */
    node_connections_nudge(&agent->connections);
    node_connections_close(&agent->connections);
}

static weft_status agent_watch_signals(struct agent *agent, struct error *error)
{
    sigset_t set;
    signal(SIGPIPE, SIG_IGN);
    signal(SIGHUP, SIG_IGN);
    signal(SIGINT, SIG_IGN);
    sigemptyset(&set);
    sigaddset(&set, SIGCHLD);
    sigaddset(&set, SIGTERM);
    sigprocmask(SIG_SETMASK, &set, NULL);
    prctl(PR_SET_CHILD_SUBREAPER, 1);
    prctl(PR_SET_NAME, "weft-agent");
    agent->signals = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
    return agent->signals < 0 ? error_system(error, "cannot watch for signals") : WEFT_OK;
}

/* ROOT of ROOT/RUN/EPOCH/NODE. */
static weft_status find_root(struct agent *agent, struct error *error)
{
    snprintf(agent->root, sizeof agent->root, "%s", agent->directory);
    for (int i = 0; i < 3; i++) {
        char *slash = strrchr(agent->root, '/');
        if (!slash)
            return error_set(error, WEFT_ERROR_ARGUMENT, "'%s' is no directory of a node", agent->directory);
        *slash = '\0';
    }
    return WEFT_OK;
}

/* Load the run's secrets, for its processes and for redacting its output. A secret that cannot be read, for example
 * because it was removed after the submission, is reported and its variable is not set. */
static weft_status take_secrets(struct agent *agent, struct error *error)
{
    const struct string_list *wanted = &agent->order.secrets;
    for (uint32_t i = 0; i < wanted->count; i++) {
        const char *entry = wanted->items[i], *place = strchr(entry, '=') + 1, *slash = strrchr(place, '/');
        struct error trouble = {0};
        char *value = NULL, *variable = NULL;
        size_t size = 0;
        if (secret_store_get(agent->order.secret_directory, place, &value, &size, &trouble) != WEFT_OK) {
            agent_note(agent, trouble.text);
            continue;
        }
        const bool taken = redactor_add(&agent->output.redactor, slash + 1, value, size) &&
                           asprintf(&variable, "%.*s=%s", (int)(place - 1 - entry), entry, value) >= 0 &&
                           string_list_add(&agent->secrets, variable, NULL) == WEFT_OK;
        if (variable && taken)
            sodium_memzero(variable, strlen(variable));
        free(variable);
        sodium_memzero(value, size);
        free(value);
        if (!taken)
            return error_memory(error, size, "the secrets of a run");
    }
    return WEFT_OK;
}

static void wipe_secrets(struct string_list *secrets)
{
    for (uint32_t i = 0; i < secrets->count; i++)
        if (secrets->items[i])
            sodium_memzero(secrets->items[i], strlen(secrets->items[i]));
    string_list_free(secrets);
}

/* Everything up to the command. The lock comes first, so that the rest happens once. */
static weft_status agent_prepare(struct agent *agent, bool *ours, struct error *error)
{
    char path[FILE_PATH_BYTES], number[24];
    bool taken, begun;
    weft_status status = node_lock_take(agent->directory, &agent->lock, &taken, &begun, error);
    *ours = taken && !begun;
    if (status != WEFT_OK || !*ours)
        return status;
    if ((status = find_root(agent, error)) != WEFT_OK || (status = agent_watch_signals(agent, error)) != WEFT_OK ||
        (status = node_order_load(agent->directory, &agent->order, error)) != WEFT_OK ||
        (status = file_join(path, agent->directory, "journal", error)) != WEFT_OK)
        return status;
    status = journal_writer_open(&agent->journal, path,
                                 &(struct journal_limits){.output_bytes = agent->order.output_bytes}, error);
    if (status != WEFT_OK)
        return status;
    node_limits_make(&agent->order, agent->directory, &agent->cgroup);
    agent->place = (struct node_place){&agent->order, agent->directory, &agent->cgroup, &agent->secrets};
    agent->beat_at = after(agent->order.heartbeat);
    node_output_open(&agent->output, &agent->journal, agent->directory, agent->order.user);
    status = take_secrets(agent, error);
    if (status != WEFT_OK)
        return status;
    status = node_connections_open(&agent->connections, &agent->place, error);
    if (status != WEFT_OK)
        return status;
    snprintf(number, sizeof number, "%d\n", (int)getpid());
    node_lock_write(agent->lock, number); /* from here on the node has begun */
    return WEFT_OK;
}

int node_agent_main(const char *directory)
{
    struct error error = {0};
    bool ours = false;
    /* Adopted by init, so that no parent must wait for it, and not a session leader, so that it cannot acquire a
     * terminal. */
    const pid_t process = fork();
    if (process != 0)
        return process < 0;
    struct agent *agent = calloc(1, sizeof *agent);
    if (!agent)
        return 1;
    agent->directory = directory;
    weft_status status = agent_prepare(agent, &ours, &error);
    if (status == WEFT_OK && ours) {
        node_life_end_older(agent->root, &agent->order.attempt);
        agent_begin(agent);
        while (!agent->ended) {
            agent_turn(agent, until_next(agent));
            keep_time(agent);
        }
        agent_finish(agent);
    }
    if (status != WEFT_OK)
        fprintf(stderr, "weft agent: %s\n", error.text);
    journal_writer_close(&agent->journal);
    wipe_secrets(&agent->secrets);
    node_order_free(&agent->order);
    free(agent);
    return status != WEFT_OK;
}
