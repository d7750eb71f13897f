/* SPDX-License-Identifier: Apache-2.0 */
#include "launch/internal/stations.h"

#include "base/clock.h"

#include <errno.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define PIECE_BYTES  65536
#define INPUT_WINDOW (256u << 10)

/* ---- speaking to helpers ---- */

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

void stations_signal(struct stations *stations, int number)
{
    struct buffer payload = {0};
    buffer_put_u32(&payload, (uint32_t)number);
    for (uint32_t i = 0; i < stations->count; i++) {
        struct station *station = &stations->all[i];
        if (station->done || !station->ordered)
            continue;
        frame_put(&station->out, ORDER_SIGNAL, buffer_begin(&payload), buffer_size(&payload));
        send_station(station);
    }
    buffer_free(&payload);
}

size_t stations_input_room(const struct stations *stations)
{
    const struct station *first = &stations->all[0];
    return first->greeted && !first->done ? stations->input_window : 0;
}

void stations_input(struct stations *stations, const uint8_t *bytes, size_t size)
{
    frame_put(&stations->all[0].out, ORDER_INPUT, bytes, size);
    stations->input_window -= size;
    send_station(&stations->all[0]);
}

static void send_order(struct stations *stations, struct station *station)
{
    const struct launch_config *config = stations->config;
    const struct host *host = station->host;
    struct order order = {.directory = stations->directory,
                          .host = (char *)(station->local ? "" : host->name),
                          .first = host->first,
                          .count = host->ranks,
                          .ranks = config->hosts.ranks,
                          .threads = stations->threads,
                          .threads_chosen = config->threads > 0,
                          .bind = config->bind,
                          .input = config->input,
                          .environment = *stations->environment,
                          .program = config->program};
    struct buffer payload = {0};
    order_pack(&order, &payload);
    station->ordered = true;
    frame_put(&station->out, ORDER_START, buffer_begin(&payload), buffer_size(&payload));
    buffer_free(&payload);
    send_station(station);
}

/* Order all hosts to start once every one has answered, so that nothing runs anywhere if one cannot be reached. */
static void order_all(struct stations *stations)
{
    uint32_t least = UINT32_MAX;
    for (uint32_t i = 0; i < stations->count; i++) {
        const struct station *station = &stations->all[i];
        if (!station->greeted || stations->verdict->failure.status != WEFT_OK)
            return;
        uint32_t share = station->cores / station->host->ranks;
        least = share < least ? share : least;
    }
    /* The same number on every host: how many threads work on a sum may show in its bits. */
    stations->threads = stations->config->threads ? stations->config->threads : least > 0 ? least : 1;
    for (uint32_t i = 0; i < stations->count; i++)
        send_order(stations, &stations->all[i]);
}

/* ---- losing helpers ---- */

static const char *agent_of(const struct stations *stations)
{
    return stations->config->agent ? stations->config->agent : AGENT_DEFAULT;
}

static void station_done(struct stations *stations, struct station *station)
{
    station->done = true;
    stations->open--;
}

/* How the agent ended, if it does so within a second: " (exit code 255)". */
static const char *agent_end(struct station *station, char *text, size_t room)
{
    int end = 0;
    text[0] = '\0';
    for (uint64_t limit = clock_after(1); clock_now() < limit; poll(NULL, 0, 5)) {
        if (waitpid(station->agent.process, &end, WNOHANG) != station->agent.process)
            continue;
        station->agent.process = 0;
        if (WIFEXITED(end))
            snprintf(text, room, " (exit code %d)", WEXITSTATUS(end));
        else
            snprintf(text, room, " (signal %d)", WTERMSIG(end));
        break;
    }
    return text;
}

/* The connection to a helper has ended before it was done. */
static void lose_station(struct stations *stations, struct station *station)
{
    char message[1024], how[64];
    const char *name = station->host->name;
    char *words = station->words;
    size_t length = strlen(words);
    while (length > 0 && (words[length - 1] == '\n' || words[length - 1] == ' '))
        words[--length] = '\0';
    agent_end(station, how, sizeof how);
    if (!station->greeted)
        snprintf(message, sizeof message,
                 "cannot start ranks on host %s: the %s ended%s%s%s; check that host and agent work: %s", name,
                 station->local ? "helper" : "agent", how, *words ? ", saying: " : ", saying nothing", words,
                 agent_of(stations));
    else
        snprintf(message, sizeof message, "the connection to host %s was lost%s%s%s; its ranks are gone", name, how,
                 *words ? ", its agent saying: " : "", words);
    station_done(stations, station);
    verdict_lose_host(stations->verdict, station->host, message);
}

void stations_give_up(struct stations *stations)
{
    if (stations->deadline == 0)
        return;
    uint32_t waiting = 0;
    for (uint32_t i = 0; i < stations->count; i++)
        waiting += !stations->all[i].ordered && !stations->all[i].done;
    if (waiting == 0) {
        stations->deadline = 0;
        return;
    }
    bool late = clock_now() >= stations->deadline;
    if (!late && stations->verdict->next_blow == 0)
        return;
    for (uint32_t i = 0; i < stations->count; i++) {
        struct station *station = &stations->all[i];
        if (station->ordered || station->done)
            continue;
        char message[900];
        snprintf(message, sizeof message, "host %s did not answer within %g s%s%s; check that host and agent work: %s",
                 station->host->name, stations->config->start_limit, *station->words ? ", its agent saying: " : "",
                 station->words, agent_of(stations));
        if (late && !station->greeted)
            verdict_fail(stations->verdict, WEFT_ERROR_TIMEOUT, message);
        kill(-station->agent.process, SIGKILL);
        station_done(stations, station);
    }
}

/* ---- hearing helpers ---- */

/* Skip to the greeting and check the version; false: it is not here yet. */
static bool take_greeting(struct stations *stations, struct station *station)
{
    size_t size = buffer_size(&station->in), mark = sizeof ORDER_GREETING - 1;
    uint8_t *begin = buffer_begin(&station->in), *found = memmem(begin, size, ORDER_GREETING, mark);
    uint8_t *end = found ? memchr(found, '\n', size - (size_t)(found - begin)) : NULL;
    if (!end) {
        /* So far it is what the login shell says: the words of the agent. */
        size_t kept = size < sizeof station->words - 1 ? size : sizeof station->words - 1;
        if (kept && !found) {
            memcpy(station->words, begin + size - kept, kept);
            station->words[kept] = '\0';
        }
        if (!found && size > PIECE_BYTES)
            buffer_consume(&station->in, size - mark);
        return false;
    }
    char line[64], version[32] = "", message[512];
    snprintf(line, sizeof line, "%.*s", (int)(end - found - (ptrdiff_t)mark), (char *)found + mark);
    if (sscanf(line, "%31s %u", version, &station->cores) < 1)
        version[0] = '\0';
    buffer_consume(&station->in, (size_t)(end + 1 - begin));
    station->greeted = true;
    station->words[0] = '\0';
    if (strcmp(version, weft_version()) != 0) {
        snprintf(message, sizeof message,
                 "host %s has Weft %s, but the launcher is Weft %s; install the same version on both",
                 station->host->name, version, weft_version());
        verdict_fail(stations->verdict, WEFT_ERROR_RENDEZVOUS, message);
    }
    order_all(stations);
    return true;
}

static void obey_frame(struct stations *stations, struct station *station, const struct frame *frame)
{
    struct reader reader = {frame->payload, frame->size, false};
    char message[ERROR_TEXT_BYTES];
    uint32_t rank, value;
    switch (frame->kind) {
    case ORDER_OUTPUT:
        rank = reader_u32(&reader);
        value = reader_u32(&reader);
        if (!reader.bad && reader.left > 0)
            output_take(stations->output, rank, value, reader.bytes, reader.left);
        break;
    case ORDER_EXIT:
        rank = reader_u32(&reader);
        value = reader_u32(&reader);
        if (!reader.bad)
            verdict_rank_ended(stations->verdict, rank, (int)value);
        break;
    case ORDER_TAKEN:
        stations->input_window += reader_u32(&reader);
        break;
    case ORDER_REFUSED:
        verdict_fail(stations->verdict, WEFT_ERROR_ARGUMENT, reader_text(&reader, message, sizeof message));
        break;
    case ORDER_DONE:
        station_done(stations, station);
        break;
    default:
        break;
    }
}

static void hear_station(struct stations *stations, struct station *station)
{
    uint8_t *place = buffer_reserve(&station->in, PIECE_BYTES);
    ssize_t n = place ? read(station->agent.output, place, PIECE_BYTES) : 0;
    if (n < 0 && (errno == EAGAIN || errno == EINTR))
        return;
    if (n > 0)
        station->in.end += (size_t)n;
    struct frame frame;
    int found = 0;
    if (station->greeted || take_greeting(stations, station))
        while (!station->done && (found = frame_peek(&station->in, ORDER_FRAME_MOST, &frame)) == 1) {
            obey_frame(stations, station, &frame);
            frame_drop(&station->in, &frame);
        }
    if (!station->done && (n <= 0 || found < 0))
        lose_station(stations, station);
}

/* What the agent itself says: passed on once the host runs, kept for the message until then. */
static void hear_agent(struct stations *stations, struct station *station)
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
        output_say(stations->output, text);
    }
}

void stations_watch(const struct stations *stations, bool full, struct pollfd *polls)
{
    for (uint32_t i = 0; i < stations->count; i++) {
        const struct station *station = &stations->all[i];
        bool waiting = buffer_size(&station->out) > 0;
        polls[3 * i] = (struct pollfd){station->done ? -1 : station->agent.errors, POLLIN, 0};
        polls[3 * i + 1] = (struct pollfd){!station->done && waiting ? station->agent.input : -1, POLLOUT, 0};
        polls[3 * i + 2] = (struct pollfd){station->done || full ? -1 : station->agent.output, POLLIN, 0};
    }
}

void stations_turn(struct stations *stations, const struct pollfd *polls)
{
    for (uint32_t i = 0; i < stations->count; i++) {
        struct station *station = &stations->all[i];
        if (polls[3 * i].revents)
            hear_agent(stations, station);
        if (polls[3 * i + 1].revents)
            send_station(station);
        if (polls[3 * i + 2].revents)
            hear_station(stations, station);
    }
}

/* ---- begin and end ---- */

weft_status stations_open(struct stations *stations, const struct launch_config *config,
                          const struct texts *environment, struct output *output, struct verdict *verdict,
                          struct error *error)
{
    const struct host_list *hosts = &config->hosts;
    *stations = (struct stations){.config = config,
                                  .environment = environment,
                                  .output = output,
                                  .verdict = verdict,
                                  .input_window = INPUT_WINDOW};
    stations->all = calloc(hosts->count, sizeof *stations->all);
    if (!stations->all)
        return error_memory(error, hosts->count * sizeof *stations->all, "the launcher");
    stations->count = hosts->count;
    for (uint32_t i = 0; i < stations->count; i++) {
        struct station *station = &stations->all[i];
        station->host = &hosts->hosts[i];
        station->local = agent_is_local(station->host->name, config->agent != NULL);
        station->agent = (struct agent_process){0, -1, -1, -1};
        stations->remote = stations->remote || !station->local;
    }
    stations->directory = getcwd(NULL, 0);
    return stations->directory ? WEFT_OK : error_system(error, "cannot tell the working directory");
}

weft_status stations_start(struct stations *stations, struct error *error)
{
    const struct launch_config *config = stations->config;
    char own[PATH_MAX];
    ssize_t length = readlink("/proc/self/exe", own, sizeof own - 1);
    own[length > 0 ? length : 0] = '\0';
    for (uint32_t i = 0; i < stations->count; i++) {
        struct station *station = &stations->all[i];
        const char *agent = station->local ? NULL : agent_of(stations);
        const char *executable = station->local || !config->executable ? own : config->executable;
        weft_status status = agent_start(agent, station->host->name, executable, "run", &station->agent, error);
        if (status != WEFT_OK)
            return status;
        stations->open++;
    }
    stations->deadline = clock_after(config->start_limit);
    return WEFT_OK;
}

/* The agents end by themselves when their helpers have. */
void stations_close(struct stations *stations)
{
    for (uint32_t i = 0; i < stations->count; i++) {
        struct station *station = &stations->all[i];
        const int descriptors[] = {station->agent.input, station->agent.output, station->agent.errors};
        for (int j = 0; j < 3; j++)
            if (descriptors[j] >= 0)
                close(descriptors[j]);
        buffer_free(&station->in);
        buffer_free(&station->out);
    }
    uint64_t limit = clock_after(2);
    for (uint32_t i = 0; i < stations->count; i++) {
        pid_t process = stations->all[i].agent.process;
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
    free(stations->directory);
    free(stations->all);
}
