/* SPDX-License-Identifier: Apache-2.0 */
/* The launcher's loop. What it starts is in agent.c, what the ranks print goes through output.c. */
#include "launch/launch.h"

#include "base/clock.h"
#include "launch/agent.h"
#include "launch/meeting_server.h"
#include "launch/output.h"

#include <errno.h>
#include <limits.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

#define PIECE_BYTES      65536
#define INPUT_WINDOW     (256u << 10) /* bytes of input on their way to rank 0 */
#define WORDS_BYTES      400          /* of what an agent said last */
#define GATHER_SECONDS   0.25         /* ends of ranks that come so close are judged together: see judge() */
#define KILL_SECONDS     0.5          /* from SIGTERM to SIGKILL */
#define PATIENCE_SECONDS 10.0         /* for ranks to end after a signal of the user */

extern char **environ;

/* A host and our connection to its helper. */
struct station {
    const struct host *host;
    bool local;
    struct agent_process agent;
    struct buffer in, out;
    char words[WORDS_BYTES]; /* what the agent said, for the sentence if it fails */
    uint32_t cores;          /* that its helper may use */
    bool greeted, ordered, done;
};

struct launch {
    const struct launch_config *config;
    struct station *stations;
    uint32_t count, open; /* stations, and those that are not done */
    struct output output;
    struct texts environment; /* what every rank gets */
    int signals;
    uint64_t start_deadline;
    uint32_t threads;    /* compute threads a rank */
    size_t input_window; /* bytes of input that may still be sent */
    bool input_open;

    uint32_t alive;       /* ranks that have not ended */
    int *ends;            /* wait statuses by rank; -1: runs */
    uint64_t judge_at;    /* when the first failure is judged; 0: there is none */
    uint32_t last;        /* rank that ended last */
    int64_t culprit;      /* rank that failed first; -1: none */
    char reason[512];     /* the sentence about it */
    uint64_t next_blow;   /* when the ranks that are left get the next signal; 0: never */
    int blows;            /* SIGTERM, then SIGKILL, have been sent */
    int user_signal;      /* the last one passed on */
    struct error failure; /* the job could not be started, or a host was lost */
};

static uint64_t after(double seconds)
{
    return clock_now() + (uint64_t)(seconds * 1e9);
}

/* ---- speaking to helpers ---------------------------------------------------------------------------------------- */

static void send_station(struct station *station)
{
    while (buffer_size(&station->out) > 0 && station->agent.input >= 0) {
        ssize_t n = write(station->agent.input, buffer_begin(&station->out), buffer_size(&station->out));
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0 && errno == EAGAIN)
            return;
        if (n < 0) { /* its end is handled where it is read */
            buffer_consume(&station->out, buffer_size(&station->out));
            return;
        }
        buffer_consume(&station->out, (size_t)n);
    }
}

static void signal_ranks(struct launch *launch, int number)
{
    struct buffer payload = {0};
    buffer_put_u32(&payload, (uint32_t)number);
    for (uint32_t i = 0; i < launch->count; i++) {
        struct station *station = &launch->stations[i];
        if (station->done || !station->ordered)
            continue;
        frame_put(&station->out, ORDER_SIGNAL, buffer_begin(&payload), buffer_size(&payload));
        send_station(station);
    }
    buffer_free(&payload);
}

static void send_order(struct launch *launch, struct station *station, const char *folder)
{
    const struct launch_config *config = launch->config;
    const struct host *host = station->host;
    struct order order = {.folder = (char *)folder,
                          .host = (char *)(station->local ? "" : host->name),
                          .first = host->first,
                          .count = host->ranks,
                          .ranks = config->hosts.ranks,
                          .threads = launch->threads,
                          .threads_chosen = config->threads > 0,
                          .bind = config->bind,
                          .input = config->input,
                          .environment = launch->environment,
                          .program = config->program};
    struct buffer payload = {0};
    order_pack(&order, &payload);
    station->ordered = true;
    frame_put(&station->out, ORDER_START, buffer_begin(&payload), buffer_size(&payload));
    buffer_free(&payload);
    send_station(station);
}

/* Once every host has answered, so that nothing runs anywhere when one cannot be reached, all are told to start. */
static void order_all(struct launch *launch, const char *folder)
{
    uint32_t least = UINT32_MAX;
    for (uint32_t i = 0; i < launch->count; i++) {
        const struct station *station = &launch->stations[i];
        if (!station->greeted || launch->failure.status != WEFT_OK)
            return;
        uint32_t share = station->cores / station->host->ranks;
        least = share < least ? share : least;
    }
    /* The same number on every host: how many threads work on a sum may show in its bits. */
    launch->threads = launch->config->threads ? launch->config->threads : least > 0 ? least : 1;
    for (uint32_t i = 0; i < launch->count; i++)
        send_order(launch, &launch->stations[i], folder);
}

/* ---- failure ---------------------------------------------------------------------------------------------------- */

static const struct host *host_of(const struct launch *launch, uint32_t rank)
{
    for (uint32_t i = 0; i + 1 < launch->count; i++)
        if (rank < launch->stations[i + 1].host->first)
            return launch->stations[i].host;
    return launch->stations[launch->count - 1].host;
}

/* "rank 2 on host hostb": what a sentence about a rank begins with. */
static char *rank_name(const struct launch *launch, uint32_t rank, char *text, size_t room)
{
    const char *host = host_of(launch, rank)->name;
    char own[256] = "";
    if (strcmp(host, "localhost") == 0 && gethostname(own, sizeof own - 1) == 0)
        host = own;
    snprintf(text, room, "rank %u on host %s", rank, host);
    return text;
}

static void end_the_rest(struct launch *launch, double seconds)
{
    if (launch->next_blow == 0)
        launch->next_blow = after(seconds);
}

/* The whole job fails for a reason that is no rank's end; the first one counts. */
static void fail(struct launch *launch, weft_status status, const char *sentence)
{
    if (launch->failure.status == WEFT_OK && launch->culprit < 0)
        error_set(&launch->failure, status, "%s", sentence);
    end_the_rest(launch, 0);
}

static bool failed(int end)
{
    return end != -1 && !(WIFEXITED(end) && WEXITSTATUS(end) == 0);
}

/* "rank 2 on host hostb was killed by signal 9 (Killed)" */
static void name_end(const struct launch *launch, uint32_t rank, char *text, size_t room)
{
    char name[320], reason[128];
    int end = launch->ends[rank];
    if (WIFSIGNALED(end))
        snprintf(reason, sizeof reason, "was killed by signal %d (%s)%s", WTERMSIG(end), strsignal(WTERMSIG(end)),
                 WCOREDUMP(end) ? ", core dumped" : "");
    else
        snprintf(reason, sizeof reason, "ended with exit code %d", WEXITSTATUS(end));
    snprintf(text, room, "%s %s", rank_name(launch, rank, name, sizeof name), reason);
}

/*
 * Which rank failed first? One rank's death makes the others fail within milliseconds, and over a network their ends
 * may be told before its own. So the ends of a quarter of a second are taken together, and a death by a signal comes
 * before an exit.
 */
static void judge(struct launch *launch)
{
    for (uint32_t rank = 0; rank < launch->config->hosts.ranks; rank++)
        if (failed(launch->ends[rank]) && WIFSIGNALED(launch->ends[rank]) &&
            !WIFSIGNALED(launch->ends[launch->culprit]))
            launch->culprit = rank;
    launch->judge_at = 0;
    if (launch->user_signal)
        return; /* they do as they are told */
    char line[640];
    name_end(launch, (uint32_t)launch->culprit, launch->reason, sizeof launch->reason);
    snprintf(line, sizeof line, "weft run: %s%s", launch->reason, launch->alive ? "; ending the other ranks" : "");
    output_say(&launch->output, line);
}

static void rank_ended(struct launch *launch, uint32_t rank, int end)
{
    if (rank >= launch->config->hosts.ranks || launch->ends[rank] != -1)
        return;
    launch->ends[rank] = end;
    launch->alive--;
    launch->last = rank;
    if (!failed(end) || launch->failure.status != WEFT_OK)
        return;
    if (launch->config->survive) {
        char text[512], line[640];
        name_end(launch, rank, text, sizeof text);
        snprintf(line, sizeof line, "weft run: %s%s", text, launch->alive ? "; the others may go on" : "");
        output_say(&launch->output, line);
    } else if (launch->culprit < 0) {
        launch->culprit = rank;
        launch->judge_at = after(GATHER_SECONDS);
        end_the_rest(launch, launch->config->grace);
    }
}

/* The connection to a helper has ended before it was done. */
static void lose_station(struct launch *launch, struct station *station)
{
    char sentence[1024];
    const char *name = station->host->name;
    char *words = station->words;
    size_t length = strlen(words);
    while (length > 0 && (words[length - 1] == '\n' || words[length - 1] == ' '))
        words[--length] = '\0';
    int end = 0;
    char how[64] = "";
    for (uint64_t limit = after(1); clock_now() < limit; poll(NULL, 0, 5))
        if (waitpid(station->agent.process, &end, WNOHANG) == station->agent.process) {
            station->agent.process = 0;
            if (WIFEXITED(end))
                snprintf(how, sizeof how, " (exit code %d)", WEXITSTATUS(end));
            else
                snprintf(how, sizeof how, " (signal %d)", WTERMSIG(end));
            break;
        }
    if (!station->greeted)
        snprintf(sentence, sizeof sentence,
                 "cannot start ranks on host %s: the %s ended%s%s%s; check that host and agent work: %s", name,
                 station->local ? "helper" : "agent", how, *words ? ", saying: " : ", saying nothing", words,
                 launch->config->agent ? launch->config->agent : AGENT_DEFAULT);
    else
        snprintf(sentence, sizeof sentence, "the connection to host %s was lost%s%s%s; its ranks are gone", name, how,
                 *words ? ", its agent saying: " : "", words);
    /* Nobody will tell of its ranks any more. */
    for (uint32_t i = 0; i < station->host->ranks; i++) {
        if (launch->ends[station->host->first + i] != -1)
            continue;
        launch->ends[station->host->first + i] = SIGKILL;
        launch->alive--;
    }
    station->done = true;
    launch->open--;
    fail(launch, WEFT_ERROR_PEER, sentence);
}

/* ---- hearing helpers -------------------------------------------------------------------------------------------- */

/* Skip to the greeting and check the version; false: it is not here yet. */
static bool take_greeting(struct launch *launch, struct station *station, const char *folder)
{
    size_t size = buffer_size(&station->in), mark = sizeof ORDER_GREETING - 1;
    uint8_t *begin = buffer_begin(&station->in), *found = memmem(begin, size, ORDER_GREETING, mark);
    uint8_t *end = found ? memchr(found, '\n', size - (size_t)(found - begin)) : NULL;
    if (!end) {
        /* So far it is what the login shell says: the words of the agent. */
        size_t kept = size < WORDS_BYTES - 1 ? size : WORDS_BYTES - 1;
        if (kept && !found) {
            memcpy(station->words, begin + size - kept, kept);
            station->words[kept] = '\0';
        }
        if (!found && size > PIECE_BYTES)
            buffer_consume(&station->in, size - mark);
        return false;
    }
    char line[64], version[32] = "", sentence[512];
    snprintf(line, sizeof line, "%.*s", (int)(end - found - (ptrdiff_t)mark), (char *)found + mark);
    if (sscanf(line, "%31s %u", version, &station->cores) < 1)
        version[0] = '\0';
    buffer_consume(&station->in, (size_t)(end + 1 - begin));
    station->greeted = true;
    station->words[0] = '\0';
    if (strcmp(version, weft_version()) != 0) {
        snprintf(sentence, sizeof sentence,
                 "host %s has Weft %s, but the launcher is Weft %s; install the same version on both",
                 station->host->name, version, weft_version());
        fail(launch, WEFT_ERROR_RENDEZVOUS, sentence);
    }
    order_all(launch, folder);
    return true;
}

static void obey_frame(struct launch *launch, struct station *station, const struct frame *frame)
{
    struct reader reader = {frame->payload, frame->size, false};
    char sentence[ERROR_TEXT_BYTES];
    uint32_t rank, value;
    switch (frame->kind) {
    case ORDER_OUTPUT:
        rank = reader_u32(&reader);
        value = reader_u32(&reader);
        if (!reader.bad && reader.left > 0)
            output_take(&launch->output, rank, value, reader.bytes, reader.left);
        break;
    case ORDER_EXIT:
        rank = reader_u32(&reader);
        value = reader_u32(&reader);
        if (!reader.bad)
            rank_ended(launch, rank, (int)value);
        break;
    case ORDER_TAKEN:
        launch->input_window += reader_u32(&reader);
        break;
    case ORDER_REFUSED:
        fail(launch, WEFT_ERROR_ARGUMENT, reader_text(&reader, sentence, sizeof sentence));
        break;
    case ORDER_DONE:
        station->done = true;
        launch->open--;
        break;
    default:
        break;
    }
}

static void hear_station(struct launch *launch, struct station *station, const char *folder)
{
    uint8_t *place = buffer_reserve(&station->in, PIECE_BYTES);
    ssize_t n = place ? read(station->agent.output, place, PIECE_BYTES) : 0;
    if (n < 0 && (errno == EAGAIN || errno == EINTR))
        return;
    if (n > 0)
        station->in.end += (size_t)n;
    struct frame frame;
    int found = 0;
    if (station->greeted || take_greeting(launch, station, folder))
        while (!station->done && (found = frame_peek(&station->in, ORDER_FRAME_MOST, &frame)) == 1) {
            obey_frame(launch, station, &frame);
            frame_drop(&station->in, &frame);
        }
    if (!station->done && (n <= 0 || found < 0))
        lose_station(launch, station);
}

/* What the agent itself says: passed on once the host runs, kept for the sentence until then. */
static void hear_agent(struct launch *launch, struct station *station)
{
    char bytes[4096];
    ssize_t n = read(station->agent.errors, bytes, sizeof bytes - 1);
    if (n < 0 && (errno == EAGAIN || errno == EINTR))
        return;
    if (n <= 0) {
        close(station->agent.errors);
        station->agent.errors = -1;
        return;
    }
    bytes[n] = '\0';
    size_t used = strlen(station->words);
    snprintf(station->words + used, sizeof station->words - used, "%s", bytes);
    char *rest = NULL;
    for (char *line = station->greeted ? strtok_r(bytes, "\r\n", &rest) : NULL; line;
         line = strtok_r(NULL, "\r\n", &rest)) {
        char text[4096 + HOST_NAME_BYTES + 8];
        snprintf(text, sizeof text, "[%s] %s", station->host->name, line);
        output_say(&launch->output, text);
    }
}

/* ---- our own input and signals ---------------------------------------------------------------------------------- */

/* A background job that reads its terminal would be stopped. */
static bool may_read_input(const struct launch *launch)
{
    if (!launch->input_open || launch->input_window == 0 || !launch->stations[0].greeted || launch->stations[0].done)
        return false;
    return !isatty(STDIN_FILENO) || tcgetpgrp(STDIN_FILENO) == getpgrp();
}

static void hear_input(struct launch *launch)
{
    uint8_t bytes[PIECE_BYTES];
    size_t most = launch->input_window < sizeof bytes ? launch->input_window : sizeof bytes;
    ssize_t n = read(STDIN_FILENO, bytes, most);
    if (n < 0 && (errno == EAGAIN || errno == EINTR))
        return;
    struct station *station = &launch->stations[0];
    frame_put(&station->out, ORDER_INPUT, bytes, n > 0 ? (size_t)n : 0);
    launch->input_window -= n > 0 ? (size_t)n : 0;
    launch->input_open = n > 0;
    send_station(station);
}

static void hear_signals(struct launch *launch)
{
    struct signalfd_siginfo info;
    while (read(launch->signals, &info, sizeof info) == (ssize_t)sizeof info) {
        int number = (int)info.ssi_signo;
        if (number == SIGCHLD)
            continue;
        bool again = number == SIGINT && launch->user_signal == SIGINT;
        signal_ranks(launch, again ? SIGKILL : number);
        if (number == SIGUSR1 || number == SIGUSR2)
            continue;
        if (again)
            output_say(&launch->output, "weft run: interrupted again: killing all ranks");
        launch->user_signal = number;
        end_the_rest(launch, PATIENCE_SECONDS);
    }
}

/* ---- the loop --------------------------------------------------------------------------------------------------- */

static void check_clock(struct launch *launch)
{
    uint64_t now = clock_now();
    if (launch->judge_at && (now >= launch->judge_at || launch->alive == 0))
        judge(launch);
    if (launch->next_blow && now >= launch->next_blow) {
        signal_ranks(launch, launch->blows++ ? SIGKILL : SIGTERM);
        launch->next_blow = after(KILL_SECONDS);
    }
    if (launch->start_deadline == 0)
        return;
    uint32_t waiting = 0;
    for (uint32_t i = 0; i < launch->count; i++)
        waiting += !launch->stations[i].ordered && !launch->stations[i].done;
    if (waiting == 0) {
        launch->start_deadline = 0;
        return;
    }
    /* A host that does not answer in time, or that a failed job no longer needs, is given up. */
    bool late = now >= launch->start_deadline;
    if (!late && launch->next_blow == 0)
        return;
    for (uint32_t i = 0; i < launch->count; i++) {
        struct station *station = &launch->stations[i];
        if (station->ordered || station->done)
            continue;
        char sentence[900];
        snprintf(sentence, sizeof sentence,
                 "host %s did not answer within %g s%s%s; check that host and agent work: %s", station->host->name,
                 launch->config->start_limit, *station->words ? ", its agent saying: " : "", station->words,
                 launch->config->agent ? launch->config->agent : AGENT_DEFAULT);
        if (late && !station->greeted)
            fail(launch, WEFT_ERROR_TIMEOUT, sentence);
        kill(-station->agent.process, SIGKILL);
        station->done = true;
        launch->open--;
    }
}

static int time_left(const struct launch *launch)
{
    uint64_t now = clock_now(), next = UINT64_MAX;
    const uint64_t moments[] = {launch->judge_at, launch->next_blow, launch->start_deadline};
    for (size_t i = 0; i < sizeof moments / sizeof *moments; i++)
        if (moments[i] && moments[i] < next)
            next = moments[i];
    return next == UINT64_MAX ? -1 : next > now ? (int)((next - now) / 1000000) + 1 : 0;
}

static weft_status turn(struct launch *launch, struct pollfd *polls, const char *folder, struct error *error)
{
    bool full = output_is_full(&launch->output);
    polls[0] = (struct pollfd){launch->signals, POLLIN, 0};
    polls[1] = (struct pollfd){may_read_input(launch) ? STDIN_FILENO : -1, POLLIN, 0};
    for (int i = 0; i < 2; i++) {
        const struct output_sink *sink = &launch->output.sinks[i];
        polls[2 + i] = (struct pollfd){buffer_size(&sink->waiting) > 0 ? sink->descriptor : -1, POLLOUT, 0};
    }
    for (uint32_t i = 0; i < launch->count; i++) {
        const struct station *station = &launch->stations[i];
        polls[4 + 3 * i] = (struct pollfd){station->done || full ? -1 : station->agent.output, POLLIN, 0};
        polls[5 + 3 * i] = (struct pollfd){station->done ? -1 : station->agent.errors, POLLIN, 0};
        polls[6 + 3 * i] =
            (struct pollfd){!station->done && buffer_size(&station->out) > 0 ? station->agent.input : -1, POLLOUT, 0};
    }
    if (poll(polls, 4 + 3 * launch->count, time_left(launch)) < 0 && errno != EINTR)
        return error_system(error, "the launcher cannot wait for its ranks");
    for (uint32_t i = 0; i < launch->count; i++) {
        struct station *station = &launch->stations[i];
        if (polls[5 + 3 * i].revents)
            hear_agent(launch, station);
        if (polls[6 + 3 * i].revents)
            send_station(station);
        if (polls[4 + 3 * i].revents)
            hear_station(launch, station, folder);
    }
    if (polls[0].revents)
        hear_signals(launch);
    if (polls[1].revents)
        hear_input(launch);
    output_write(&launch->output, (bool[]){polls[2].revents != 0, polls[3].revents != 0});
    if (launch->output.sinks[0].broken && launch->user_signal == 0) {
        /* Whoever read our output has gone: the job ends as a program in a pipeline does. */
        launch->user_signal = SIGPIPE;
        signal_ranks(launch, SIGTERM);
        end_the_rest(launch, launch->config->grace);
    }
    check_clock(launch);
    return WEFT_OK;
}

/* ---- begin and end ---------------------------------------------------------------------------------------------- */

static bool starts_with(const char *text, const char *beginning)
{
    return strncmp(text, beginning, strlen(beginning)) == 0;
}

/* What every rank gets: what other hosts would not have by themselves, the user's own, then the meeting's. */
static weft_status collect_environment(struct launch *launch, struct error *error)
{
    static const char *const carried[] = {"WEFT_", "OMP_", "FI_"};
    struct texts *list = &launch->environment;
    bool good = true;
    for (char **entry = environ; *entry; entry++)
        for (size_t i = 0; i < sizeof carried / sizeof *carried; i++)
            if (starts_with(*entry, carried[i]) && !starts_with(*entry, "WEFT_HOST="))
                good = good && texts_add(list, *entry);
    for (uint32_t i = 0; i < launch->config->environment.count; i++) {
        const char *entry = launch->config->environment.items[i], *value = strchr(entry, '=') ? NULL : getenv(entry);
        char *pair = NULL;
        if (strchr(entry, '='))
            good = good && texts_add(list, entry);
        else if (value && asprintf(&pair, "%s=%s", entry, value) >= 0)
            good = good && texts_add(list, pair);
        free(pair);
    }
    return good ? WEFT_OK : error_memory(error, list->count * 64, "the ranks' environment");
}

static weft_status watch_signals(struct launch *launch, struct error *error)
{
    static const int watched[] = {SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGUSR1, SIGUSR2, SIGCHLD};
    sigset_t set;
    sigemptyset(&set);
    for (size_t i = 0; i < sizeof watched / sizeof *watched; i++)
        sigaddset(&set, watched[i]);
    pthread_sigmask(SIG_BLOCK, &set, NULL);
    signal(SIGPIPE, SIG_IGN);
    launch->signals = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
    return launch->signals >= 0 ? WEFT_OK : error_system(error, "cannot watch for signals");
}

static weft_status start_stations(struct launch *launch, struct error *error)
{
    const struct launch_config *config = launch->config;
    char own[PATH_MAX];
    ssize_t length = readlink("/proc/self/exe", own, sizeof own - 1);
    own[length > 0 ? length : 0] = '\0';
    for (uint32_t i = 0; i < launch->count; i++) {
        struct station *station = &launch->stations[i];
        const char *agent = station->local ? NULL : config->agent ? config->agent : AGENT_DEFAULT;
        const char *executable = station->local || !config->executable ? own : config->executable;
        weft_status status = agent_start(agent, station->host->name, executable, "run", &station->agent, error);
        if (status != WEFT_OK)
            return status;
        launch->open++;
    }
    launch->start_deadline = after(config->start_limit);
    return WEFT_OK;
}

/* The agents end by themselves when their helpers have; who does not is killed. */
static void end_stations(struct launch *launch)
{
    for (uint32_t i = 0; launch->stations && i < launch->count; i++) {
        struct station *station = &launch->stations[i];
        const int descriptors[] = {station->agent.input, station->agent.output, station->agent.errors};
        for (int j = 0; j < 3; j++)
            if (descriptors[j] >= 0)
                close(descriptors[j]);
        buffer_free(&station->in);
        buffer_free(&station->out);
    }
    uint64_t limit = after(2);
    for (uint32_t i = 0; launch->stations && i < launch->count; i++) {
        pid_t process = launch->stations[i].agent.process;
        while (process > 0 && waitpid(process, NULL, WNOHANG) == 0) {
            if (clock_now() < limit) {
                poll(NULL, 0, 2);
                continue;
            }
            kill(-process, SIGKILL);
            waitpid(process, NULL, 0);
            break;
        }
    }
}

static int exit_code_of(const struct launch *launch)
{
    if (launch->user_signal == SIGPIPE)
        return 128 + SIGPIPE;
    if (launch->culprit < 0 && !launch->config->survive)
        return 0;
    int end = launch->ends[launch->culprit < 0 ? launch->last : (uint32_t)launch->culprit];
    return WIFSIGNALED(end) ? 128 + WTERMSIG(end) : WEXITSTATUS(end);
}

/* The host names that stand before each line of output; NULL when all ranks are on one host. */
static const char **names_of_hosts(const struct launch *launch)
{
    const char **names = launch->count > 1 ? calloc(launch->config->hosts.ranks, sizeof *names) : NULL;
    for (uint32_t rank = 0; names && rank < launch->config->hosts.ranks; rank++)
        names[rank] = host_of(launch, rank)->name;
    return names;
}

static weft_status prepare(struct launch *launch, struct error *error)
{
    const struct launch_config *config = launch->config;
    uint32_t ranks = config->hosts.ranks;
    launch->stations = calloc(launch->count, sizeof *launch->stations);
    launch->ends = malloc(ranks * sizeof *launch->ends);
    if (!launch->stations || !launch->ends)
        return error_memory(error, ranks * sizeof *launch->ends, "the launcher");
    for (uint32_t rank = 0; rank < ranks; rank++)
        launch->ends[rank] = -1;
    for (uint32_t i = 0; i < launch->count; i++) {
        struct station *station = &launch->stations[i];
        station->host = &config->hosts.hosts[i];
        station->local = agent_is_local(station->host->name, config->agent != NULL);
        station->agent = (struct agent_process){0, -1, -1, -1};
    }
    const char **names = names_of_hosts(launch);
    weft_status status =
        output_open(&launch->output, ranks, config->output_folder, config->prefix && ranks > 1, names, error);
    free(names);
    if (status == WEFT_OK)
        status = collect_environment(launch, error);
    return status;
}

weft_status launch_run(const struct launch_config *config, struct launch_result *result, struct error *error)
{
    struct launch launch = {.config = config,
                            .count = config->hosts.count,
                            .alive = config->hosts.ranks,
                            .culprit = -1,
                            .signals = -1,
                            .input_window = INPUT_WINDOW,
                            .input_open = config->input};
    struct meeting_server *server = NULL;
    struct pollfd *polls = calloc(4 + 3 * (size_t)launch.count, sizeof *polls);
    char *folder = getcwd(NULL, 0);
    weft_status status =
        polls && folder ? prepare(&launch, error) : error_system(error, "cannot tell the working directory");
    bool remote = false;
    for (uint32_t i = 0; status == WEFT_OK && i < launch.count; i++)
        remote = remote || !launch.stations[i].local;
    if (status == WEFT_OK)
        status = watch_signals(&launch, error);
    if (status == WEFT_OK)
        status = start_stations(&launch, error);
    if (status == WEFT_OK) /* a thread: after the forks */
        status = meeting_server_start(config, remote, &launch.environment, &server, error);
    while (status == WEFT_OK && launch.open > 0)
        status = turn(&launch, polls, folder, error);
    if (launch.judge_at)
        judge(&launch);
    end_stations(&launch);
    meeting_server_stop(server);
    if (launch.stations)
        output_close(&launch.output);
    if (status == WEFT_OK && launch.failure.status != WEFT_OK)
        status = error_set(error, launch.failure.status, "%s", launch.failure.text);
    if (status == WEFT_OK) {
        result->exit_code = exit_code_of(&launch);
        snprintf(result->reason, sizeof result->reason, "%s", launch.reason);
    }
    if (launch.signals >= 0)
        close(launch.signals);
    texts_free(&launch.environment);
    free(launch.stations);
    free(launch.ends);
    free(folder);
    free(polls);
    return status;
}
