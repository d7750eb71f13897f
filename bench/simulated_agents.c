/* SPDX-License-Identifier: Apache-2.0 */
/*
 * `weft`, but with agents that are all one process: for bench/control_plane, on machines that have no room for a
 * thousand. The server cannot tell: each node's lock is held, its socket answers, and its journal gets what an agent
 * writes, by the same code: heartbeats, samples of what the node uses, lines of output and of metrics, the end.
 *
 *     PROGRAM serve ...                 the server, unchanged; the variable WEFT_BENCH_AGENTS names a FIFO
 *     PROGRAM node-agent FILES DIRECTORY   what the server starts for a node: writes DIRECTORY to the FIFO, no more, if
 *                                       the command is `true` or `sleep ...`; for any other a real agent
 *     PROGRAM simulate-agents FIFO      be the agents of all directories that come; until SIGTERM, at which all nodes end
 * well
 *
 * A node whose command is `true` ends after 50 ms, any other when it is asked to. What is not simulated is what agents
 * and programs take of the machine: measure that with real ones.
 */
#include "base/clock.h"
#include "base/random.h"
#include "cli/frame/command.h"
#include "platform/agent/agent.h"
#include "platform/agent/cgroup/cgroup.h"
#include "platform/agent/internal/connections.h"
#include "platform/agent/internal/life.h"
#include "platform/agent/journal/file.h"
#include "platform/metrics/read/text.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define AGENTS_MOST    8192
#define TURN_SECONDS   0.02 /* all agents are looked at so often, for what has come and what is due */
#define LOOK_SECONDS   4.0  /* as platform/agent/agent.c and sampler.c have it */
#define BEAT_SECONDS   10.0
#define SAMPLE_SECONDS 4.0
#define LINE_SECONDS   10.0 /* from one line of the program to the next */
#define SHORT_SECONDS  0.05 /* a command that ends at once */
#define STOP_SECONDS   0.1  /* from an order to end to the end */

struct agent {
    char directory[FILE_PATH_BYTES];
    struct node_order order;
    struct node_place place;
    struct node_connections connections;
    struct journal_writer journal;
    int lock;
    uint64_t look_at, beat_at, sample_at, line_at, end_at; /* clock_now(); an end of 0 is not known yet */
    enum journal_cause cause;
    uint64_t step;
};

struct simulation {
    struct agent *agents[AGENTS_MOST];
    uint32_t count;
    struct pollfd *polls; /* 1 + NODE_CONNECTIONS_MOST of each agent, those that are open */
    uint32_t *places;     /* which of its agent's that is */
    struct metric_text line;
    char came[2 * FILE_PATH_BYTES]; /* of the FIFO, not ended by a newline yet */
    size_t came_size;
};

static volatile sig_atomic_t stopping;

static void note_stop(int number)
{
    stopping = 1;
}

/* ---- what is written ---- */

static void put(struct agent *agent, struct journal_record *record)
{
    struct error error = {0};
    if (journal_append(&agent->journal, record, &error) != WEFT_OK)
        fprintf(stderr, "%s\n", error.text);
}

static void put_line(struct agent *agent, struct metric_text *line, uint32_t stream)
{
    metric_text_end(line);
    put(agent, &(struct journal_record){.kind = JOURNAL_METRICS,
                                        .output = {stream, JOURNAL_NO_RANK},
                                        .text = json_text(&line->line),
                                        .size = (uint32_t)json_size(&line->line)});
}

static double some(const struct agent *agent, uint64_t which)
{
    return random_uniform((uint64_t)agent->order.node + 1, agent->step * 64 + which);
}

static void put_sample(struct simulation *simulation, struct agent *agent)
{
    static const char *const names[] = {
        "system/node/cpu",
        "system/machine/cpu/used",
        "system/machine/cpu/waiting",
        "system/machine/cpu/stolen",
        "system/machine/memory/used",
        "system/machine/memory/total",
        "system/machine/network/eth0/received",
        "system/machine/network/eth0/sent",
        "system/machine/network/lo/received",
        "system/machine/network/lo/sent",
        "system/machine/disk/vda/read",
        "system/machine/disk/vda/written",
    };
    struct journal_record use = {.kind = JOURNAL_USAGE};
    agent->step++;
    use.usage.processor_time = agent->step * 1000000;
    use.usage.memory = (uint64_t)(1e9 * some(agent, 0));
    use.usage.processes = 3;
    put(agent, &use);
    metric_text_begin(&simulation->line, (int64_t)time(NULL), -1);
    for (uint64_t i = 0; i < sizeof names / sizeof *names; i++)
        metric_text_put(&simulation->line, names[i], some(agent, i));
    put_line(agent, &simulation->line, JOURNAL_MEASURED);
}

static void put_output(struct simulation *simulation, struct agent *agent)
{
    char text[64];
    agent->step++;
    const int size = snprintf(text, sizeof text, "step %llu of many", (unsigned long long)agent->step);
    put(agent, &(struct journal_record){
                   .kind = JOURNAL_OUTPUT, .output = {1, JOURNAL_NO_RANK}, .text = text, .size = (uint32_t)size});
    metric_text_begin(&simulation->line, (int64_t)agent->step, -1);
    metric_text_put(&simulation->line, "loss", 1 / (1 + (double)agent->step) + 0.01 * some(agent, 1));
    metric_text_put(&simulation->line, "learning_rate", 1e-3);
    put_line(agent, &simulation->line, 1);
}

/* ---- an agent ---- */

static void agent_free(struct agent *agent)
{
    node_connections_close(&agent->connections);
    journal_writer_close(&agent->journal);
    node_order_free(&agent->order);
    close(agent->lock);
    free(agent);
}

static void agent_begin(struct simulation *simulation, const char *directory)
{
    struct error error = {0};
    struct agent *agent = calloc(1, sizeof *agent);
    char path[FILE_PATH_BYTES], number[24];
    bool taken = false, begun = false;
    if (!agent || simulation->count == AGENTS_MOST) {
        fprintf(stderr, "no room for another agent\n");
        free(agent);
        return;
    }
    snprintf(agent->directory, sizeof agent->directory, "%s", directory);
    agent->connections.listener = -1;
    static const struct cgroup no_group; /* the programs are simulated as well */
    agent->place = (struct node_place){&agent->order, agent->directory, &no_group, NULL};
    if (node_lock_take(directory, &agent->lock, &taken, &begun, &error) != WEFT_OK || !taken || begun) {
        if (taken)
            close(agent->lock);
        free(agent);
        return;
    }
    weft_status status = node_order_load(directory, &agent->order, &error);
    if (status == WEFT_OK)
        status = file_join(path, directory, "journal", &error);
    if (status == WEFT_OK)
        status = journal_writer_open(&agent->journal, path, NULL, &error);
    if (status == WEFT_OK)
        status = node_connections_open(&agent->connections, &agent->place, &error);
    if (status != WEFT_OK) {
        fprintf(stderr, "%s\n", error.text);
        agent_free(agent);
        return;
    }
    snprintf(number, sizeof number, "%d\n", (int)getpid());
    node_lock_write(agent->lock, number);
    put(agent, &(struct journal_record){.kind = JOURNAL_STARTED, .started = {getpid()}});
    journal_sync(&agent->journal, NULL);
    const bool is_short = agent->order.command.count == 1 && strcmp(agent->order.command.items[0], "true") == 0;
    const double phase = (double)(simulation->count % 97) / 97;
    agent->look_at = clock_after(LOOK_SECONDS * phase);
    agent->beat_at = clock_after(BEAT_SECONDS);
    agent->sample_at = clock_after(SAMPLE_SECONDS * (0.5 + 0.5 * phase));
    agent->line_at = clock_after(phase); /* soon, as most programs do */
    agent->end_at = is_short ? clock_after(SHORT_SECONDS) : 0;
    simulation->agents[simulation->count++] = agent;
}

static void agent_end(struct simulation *simulation, uint32_t index)
{
    struct agent *agent = simulation->agents[index];
    struct journal_record exited = {.kind = JOURNAL_EXITED};
    exited.exited.cause = agent->cause;
    exited.exited.signal = agent->cause == JOURNAL_STOPPED ? SIGTERM : 0;
    exited.exited.code = agent->cause == JOURNAL_CHECKPOINTED ? 75 : 0;
    put_sample(simulation, agent);
    put(agent, &exited);
    journal_sync(&agent->journal, NULL);
    node_lock_write(agent->lock, "ended\n");
    node_connections_nudge(&agent->connections);
    agent_free(agent);
    simulation->agents[index] = simulation->agents[--simulation->count];
}

static void agent_look(struct agent *agent, uint64_t now)
{
    struct node_stop stop;
    bool found = false;
    agent->connections.woken = false;
    agent->look_at = now + (uint64_t)(LOOK_SECONDS * 1e9);
    if (agent->end_at || node_stop_load(agent->directory, &stop, &found, NULL) != WEFT_OK || !found)
        return;
    agent->cause = stop.signal == SIGUSR1 ? JOURNAL_CHECKPOINTED : JOURNAL_STOPPED;
    agent->end_at = now + (uint64_t)(STOP_SECONDS * 1e9);
}

/* Whether `*at` is over; it is then set to the next time. */
static bool is_due(uint64_t *at, uint64_t now, double seconds)
{
    if (now < *at)
        return false;
    *at += (uint64_t)(seconds * 1e9);
    return true;
}

static void agent_turn(struct simulation *simulation, uint32_t index, uint64_t now)
{
    struct agent *agent = simulation->agents[index];
    const uint64_t before = agent->journal.next;
    if (now >= agent->look_at || agent->connections.woken)
        agent_look(agent, now);
    if (is_due(&agent->beat_at, now, BEAT_SECONDS))
        put(agent, &(struct journal_record){.kind = JOURNAL_HEARTBEAT});
    if (is_due(&agent->sample_at, now, SAMPLE_SECONDS))
        put_sample(simulation, agent);
    if (is_due(&agent->line_at, now, LINE_SECONDS))
        put_output(simulation, agent);
    if (agent->journal.next != before)
        node_connections_nudge(&agent->connections);
    if (stopping && !agent->end_at)
        agent->end_at = now;
    if (agent->end_at && now >= agent->end_at)
        agent_end(simulation, index);
}

/* ---- all of them ---- */

static void hear_connections(struct simulation *simulation)
{
    struct pollfd all[1 + NODE_CONNECTIONS_MOST];
    uint32_t count = 0, at = 0;
    for (uint32_t i = 0; i < simulation->count; i++) {
        node_connections_watch(&simulation->agents[i]->connections, all);
        for (uint32_t j = 0; j < sizeof all / sizeof *all; j++)
            if (all[j].fd >= 0) {
                simulation->polls[count] = all[j];
                simulation->places[count++] = i * (uint32_t)(sizeof all / sizeof *all) + j;
            }
    }
    if (poll(simulation->polls, count, 0) <= 0)
        return;
    for (uint32_t i = 0; i < simulation->count; i++) {
        bool any = false;
        for (uint32_t j = 0; j < sizeof all / sizeof *all; j++) {
            all[j] = (struct pollfd){.fd = -1};
            if (at < count && simulation->places[at] == i * (sizeof all / sizeof *all) + j)
                all[j] = simulation->polls[at++];
            any = any || all[j].revents;
        }
        if (any)
            node_connections_turn(&simulation->agents[i]->connections, all);
    }
}

static void hear_directories(struct simulation *simulation, int fifo)
{
    ssize_t got;
    while ((got = read(fifo, simulation->came + simulation->came_size,
                       sizeof simulation->came - 1 - simulation->came_size)) > 0) {
        simulation->came_size += (size_t)got;
        simulation->came[simulation->came_size] = '\0';
        char *begin = simulation->came;
        for (char *end; (end = strchr(begin, '\n')); begin = end + 1) {
            *end = '\0';
            agent_begin(simulation, begin);
        }
        simulation->came_size -= (size_t)(begin - simulation->came);
        memmove(simulation->came, begin, simulation->came_size);
    }
}

static int simulate(const char *path)
{
    struct simulation *simulation = calloc(1, sizeof *simulation);
    const size_t most = (size_t)AGENTS_MOST * (1 + NODE_CONNECTIONS_MOST);
    struct rlimit limit;
    const pid_t parent = getppid();
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    signal(SIGTERM, note_stop);
    signal(SIGPIPE, SIG_IGN);
    if (getrlimit(RLIMIT_NOFILE, &limit) == 0) {
        limit.rlim_cur = limit.rlim_max;
        setrlimit(RLIMIT_NOFILE, &limit);
    }
    const int fifo = open(path, O_RDWR | O_NONBLOCK | O_CLOEXEC); /* to write, too, so that it never ends */
    if (!simulation || fifo < 0 || getppid() != parent) {
        perror(path);
        return 1;
    }
    simulation->polls = malloc(most * sizeof *simulation->polls);
    simulation->places = malloc(most * sizeof *simulation->places);
    if (!simulation->polls || !simulation->places)
        return 1;
    while (!stopping || simulation->count > 0) {
        const struct timespec pause = {0, (long)(TURN_SECONDS * 1e9)};
        nanosleep(&pause, NULL);
        hear_directories(simulation, fifo);
        hear_connections(simulation);
        const uint64_t now = clock_now();
        for (uint32_t i = simulation->count; i-- > 0;)
            agent_turn(simulation, i, now);
    }
    metric_text_free(&simulation->line);
    free(simulation->polls);
    free(simulation->places);
    free(simulation);
    close(fifo);
    return 0;
}

/* Whether the command is one of those that need not be run. */
static bool is_simulated(const char *directory)
{
    struct node_order order;
    if (node_order_load(directory, &order, NULL) != WEFT_OK)
        return false;
    const char *first = order.command.count ? order.command.items[0] : "";
    const bool simulated = strcmp(first, "true") == 0 || strcmp(first, "sleep") == 0;
    node_order_free(&order);
    return simulated;
}

/* Be who the server takes for the agent. A line of a path is less than a pipe writes at once. */
static int hand_over(const char *directory)
{
    const char *path = getenv("WEFT_BENCH_AGENTS");
    char line[FILE_PATH_BYTES + 1];
    if (!is_simulated(directory))
        return node_agent_main(directory);
    const int fifo = path ? open(path, O_WRONLY | O_NONBLOCK | O_CLOEXEC) : -1;
    const int size = snprintf(line, sizeof line, "%s\n", directory);
    return fifo < 0 || write(fifo, line, (size_t)size) != size;
}

int main(int argc, char **argv)
{
    if (argc == 3 && strcmp(argv[1], "simulate-agents") == 0)
        return simulate(argv[2]);
    if (argc == 4 && strcmp(argv[1], "node-agent") == 0)
        return hand_over(argv[3]);
    return command_main(command_table, command_table_count, argc, argv, stdout, stderr);
}
