/* SPDX-License-Identifier: Apache-2.0 */
#include "launch/internal/host_helpers.h"

#include "base/clock.h"
#include "base/file/file.h"
#include "launch/takeover/succession.h"

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

/* ---- sending to helpers ---- */

static void host_helper_send(struct host_helper *helper)
{
    while (buffer_size(&helper->out) > 0 && helper->agent.input >= 0) {
        ssize_t n = write(helper->agent.input, buffer_begin(&helper->out), buffer_size(&helper->out));
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0 && errno == EAGAIN)
            return;
        if (n < 0) { /* host_helper_receive() handles its end */
            buffer_consume(&helper->out, buffer_size(&helper->out));
            return;
        }
        buffer_consume(&helper->out, (size_t)n);
    }
}

void host_helpers_beat(struct host_helpers *helpers)
{
    for (uint32_t i = 0; i < helpers->count; i++) {
        struct host_helper *helper = &helpers->all[i];
        if (helper->done || !helper->ordered)
            continue;
        frame_put(&helper->out, ORDER_ALIVE, NULL, 0);
        host_helper_send(helper);
    }
}

void host_helpers_signal(struct host_helpers *helpers, int number)
{
    struct buffer payload = {0};
    buffer_put_u32(&payload, (uint32_t)number);
    for (uint32_t i = 0; i < helpers->count; i++) {
        struct host_helper *helper = &helpers->all[i];
        if (helper->done || !helper->ordered)
            continue;
        frame_put(&helper->out, ORDER_SIGNAL, buffer_begin(&payload), buffer_size(&payload));
        host_helper_send(helper);
    }
    buffer_free(&payload);
}

uint32_t host_helper_free_slots(const struct host_helper *helper)
{
    const bool can_start = helper->stays && !helper->done && helper->running < helper->slots;
    return can_start ? helper->slots - helper->running : 0;
}

void host_helper_add(struct host_helper *helper, uint32_t rank, uint32_t place)
{
    struct buffer payload = {0};
    buffer_put_u32(&payload, rank);
    buffer_put_u32(&payload, place);
    frame_put(&helper->out, ORDER_ADD, buffer_begin(&payload), buffer_size(&payload));
    buffer_free(&payload);
    helper->running++; /* the frame is sent with the next turn: first the start is recorded (job_record.h) */
}

void host_helpers_kill_stopped(struct host_helpers *helpers)
{
    for (uint32_t i = 0; i < helpers->count; i++) {
        struct host_helper *helper = &helpers->all[i];
        if (!helper->ordered || helper->done)
            continue;
        frame_put(&helper->out, ORDER_STOPPED, NULL, 0);
        host_helper_send(helper);
    }
}

static void host_helper_done(struct host_helpers *helpers, struct host_helper *helper)
{
    helper->done = true;
    helpers->open--;
}

void host_helpers_finish(struct host_helpers *helpers)
{
    for (uint32_t i = 0; i < helpers->count; i++) {
        struct host_helper *helper = &helpers->all[i];
        if (helper->late && !helper->ordered && !helper->done && !helper->attaches) { /* it has not answered yet */
            if (helper->agent.process > 0)
                kill(-helper->agent.process, SIGKILL);
            host_helper_done(helpers, helper);
        }
        if (!helper->stays || helper->done)
            continue;
        helper->stays = false;
        frame_put(&helper->out, ORDER_FINISH, NULL, 0);
        host_helper_send(helper);
    }
}

size_t host_helpers_input_room(const struct host_helpers *helpers)
{
    const struct host_helper *first = &helpers->all[0];
    return first->greeted && !first->done ? helpers->input_window : 0;
}

void host_helpers_input(struct host_helpers *helpers, const uint8_t *bytes, size_t size)
{
    frame_put(&helpers->all[0].out, ORDER_INPUT, bytes, size);
    helpers->input_window -= size;
    host_helper_send(&helpers->all[0]);
}

/* Ranks that may run on a host at a time. */
static uint32_t host_helper_places(const struct host_helpers *helpers, const struct host *host)
{
    return helpers->config->additions > 0 ? host->slots : host->ranks;
}

static void host_helper_order(struct host_helpers *helpers, struct host_helper *helper)
{
    const struct launch_config *config = helpers->config;
    const struct host *host = helper->host;
    char name[SUCCESSION_NAME_BYTES] = "";
    if (*helpers->job)
        succession_name(helpers->job, (uint32_t)(helper - helpers->all), name);
    struct order order = {.directory = helpers->directory,
                          .host = (char *)(helper->local ? "" : host->name),
                          .name = (char *)host->name,
                          .first = host->first,
                          .count = host->ranks,
                          .ranks = config->hosts.ranks,
                          .places = host_helper_places(helpers, host),
                          .stays = config->additions > 0,
                          .threads = helpers->threads,
                          .threads_chosen = config->threads > 0,
                          .bind = config->bind,
                          .input = config->input,
                          .job = name,
                          .loss = config->launcher_loss,
                          .stop_ms = (uint32_t)(config->stop_grace * 1e3),
                          .alone = config->hosts.count == 1 && !config->hosts_command,
                          .min_ranks = config->min_ranks,
                          .environment = *helpers->environment,
                          .program = config->program};
    struct buffer payload = {0};
    order_pack(&order, &payload);
    helper->ordered = true;
    helper->stays = order.stays;
    helper->running = host->ranks;
    frame_put(&helper->out, ORDER_START, buffer_begin(&payload), buffer_size(&payload));
    buffer_free(&payload);
    host_helper_send(helper);
}

/* Order all hosts to start once every one has answered, so that nothing runs anywhere if one cannot be reached. */
static void host_helpers_order_all(struct host_helpers *helpers)
{
    uint32_t least = UINT32_MAX;
    if (helpers->threads > 0) /* they have begun */
        return;
    for (uint32_t i = 0; i < helpers->count; i++) {
        const struct host_helper *helper = &helpers->all[i];
        if (!helper->greeted || helpers->verdict->failure.status != WEFT_OK)
            return;
        uint32_t share = helper->cores / host_helper_places(helpers, helper->host);
        least = share < least ? share : least;
    }
    /* The same number on every host, because the number of threads may affect the bits of a sum. */
    helpers->threads = helpers->config->threads ? helpers->config->threads : least > 0 ? least : 1;
    for (uint32_t i = 0; i < helpers->count; i++)
        host_helper_order(helpers, &helpers->all[i]);
}

/* ---- losing helpers ---- */

static const char *host_helper_agent(const struct host_helpers *helpers)
{
    return helpers->config->agent ? helpers->config->agent : AGENT_DEFAULT;
}

/* A host that was added later cannot be used. */
static void host_helper_drop(struct host_helpers *helpers, struct host_helper *helper, const char *message)
{
    char line[1100];
    snprintf(line, sizeof line, "weft run: %s; the job goes on without it", message);
    output_say(helpers->output, line);
    if (helper->agent.process > 0)
        kill(-helper->agent.process, SIGKILL);
    host_helper_done(helpers, helper);
}

/* How the agent ended, if it does so within a second: " (exit code 255)". */
static const char *host_helper_agent_end(struct host_helper *helper, char *text, size_t room)
{
    int end = 0;
    text[0] = '\0';
    for (uint64_t limit = clock_after(1); helper->agent.process > 0 && clock_now() < limit; poll(NULL, 0, 5)) {
        if (waitpid(helper->agent.process, &end, WNOHANG) != helper->agent.process)
            continue;
        helper->agent.process = 0;
        if (WIFEXITED(end))
            snprintf(text, room, " (exit code %d)", WEXITSTATUS(end));
        else
            snprintf(text, room, " (signal %d)", WTERMSIG(end));
        break;
    }
    return text;
}

weft_status host_helper_start(struct host_helpers *helpers, struct host_helper *helper, struct error *error)
{
    const struct launch_config *config = helpers->config;
    char own[PATH_MAX];
    ssize_t length = readlink("/proc/self/exe", own, sizeof own - 1);
    own[length > 0 ? length : 0] = '\0';
    const char *agent = helper->local ? NULL : host_helper_agent(helpers);
    const char *executable = helper->local || !config->executable ? own : config->executable;
    char attach[SUCCESSION_NAME_BYTES];
    succession_name(helpers->job, (uint32_t)(helper - helpers->all), attach);
    weft_status status = agent_start(agent, helper->host->name, executable, "run", !helpers->began,
                                     helper->attaches ? attach : NULL, &helper->agent, error);
    if (status != WEFT_OK)
        return status;
    helpers->open++;
    helpers->deadline = clock_after(config->start_limit);
    return WEFT_OK;
}

/* A connection was lost to a helper that may go on without it: connect again. False: it does not, or that fails. */
static bool host_helper_reach_again(struct host_helpers *helpers, struct host_helper *helper)
{
    const int descriptors[] = {helper->agent.input, helper->agent.output, helper->agent.errors};
    char line[HOST_NAME_BYTES + 96];
    if (!*helpers->job || !helper->ordered)
        return false;
    snprintf(line, sizeof line, "weft run: the connection to host %s was lost; connecting again", helper->host->name);
    output_say(helpers->output, line);
    for (int i = 0; i < 3; i++)
        file_close(descriptors[i]);
    if (helper->agent.process > 0) { /* an agent ends; a helper, whose parent we may be, does not hear this signal */
        kill(-helper->agent.process, SIGTERM);
        waitpid(helper->agent.process, NULL, WNOHANG);
    }
    helper->agent = (struct agent_process){0, -1, -1, -1};
    buffer_free(&helper->in);
    buffer_free(&helper->out);
    helper->words[0] = '\0';
    helper->greeted = helper->ordered = helper->stays = false;
    helper->attaches = true;
    helpers->open--; /* which host_helper_start() adds again */
    if (host_helper_start(helpers, helper, NULL) == WEFT_OK)
        return true;
    helpers->open++;
    return false;
}

/* The connection to a helper ended before the helper was done. */
static void host_helper_lose(struct host_helpers *helpers, struct host_helper *helper)
{
    char message[1024], how[64];
    const char *name = helper->host->name;
    char *words = helper->words;
    size_t length = strlen(words);
    while (length > 0 && (words[length - 1] == '\n' || words[length - 1] == ' '))
        words[--length] = '\0';
    host_helper_agent_end(helper, how, sizeof how);
    if (helper->attaches && !helper->ordered)
        snprintf(message, sizeof message,
                 "host %s has no helper of the job that waits for a launcher%s%s%s; its ranks are gone", name, how,
                 *words ? "; output of its agent: " : "", words);
    else if (!helper->greeted)
        snprintf(message, sizeof message,
                 "cannot start ranks on host %s: the %s ended%s%s%s; check that host and agent work: %s", name,
                 helper->local ? "helper" : "agent", how, *words ? ", saying: " : " without output", words,
                 host_helper_agent(helpers));
    else
        snprintf(message, sizeof message, "the connection to host %s was lost%s%s%s; %s", name, how,
                 *words ? "; output of its agent: " : "", words,
                 helper->ordered && helper->running == 0 ? "no rank was running there" : "its ranks are gone");
    if (helper->late && !helper->ordered && !helper->attaches) {
        host_helper_drop(helpers, helper, message);
        return;
    }
    if (host_helper_reach_again(helpers, helper))
        return;
    host_helper_done(helpers, helper);
    verdict_lose_host(helpers->verdict, helper->host, helper->ordered || helper->attaches, message);
}

/* Helpers that run already: they are needed for the end of a job that has failed, too. */
static void host_helpers_give_up_attaching(struct host_helpers *helpers, bool late)
{
    for (uint32_t i = 0; late && i < helpers->count; i++) {
        struct host_helper *helper = &helpers->all[i];
        if (!helper->attaches || helper->ordered || helper->done)
            continue;
        if (helper->agent.process > 0)
            kill(-helper->agent.process, SIGKILL);
        host_helper_lose(helpers, helper);
    }
}

void host_helpers_give_up(struct host_helpers *helpers)
{
    if (helpers->deadline == 0)
        return;
    uint32_t waiting = 0;
    for (uint32_t i = 0; i < helpers->count; i++)
        waiting += !helpers->all[i].ordered && !helpers->all[i].done;
    if (waiting == 0) {
        helpers->deadline = 0;
        return;
    }
    bool late = clock_now() >= helpers->deadline;
    if (!late && helpers->verdict->next_kill == 0)
        return;
    host_helpers_give_up_attaching(helpers, late);
    for (uint32_t i = 0; i < helpers->count; i++) {
        struct host_helper *helper = &helpers->all[i];
        if (helper->ordered || helper->done || helper->attaches)
            continue;
        char message[900];
        snprintf(message, sizeof message, "host %s did not answer within %g s%s%s; check that host and agent work: %s",
                 helper->host->name, helpers->config->start_limit, *helper->words ? "; output of its agent: " : "",
                 helper->words, host_helper_agent(helpers));
        if (helper->late) {
            host_helper_drop(helpers, helper, message);
            continue;
        }
        if (late && !helper->greeted)
            verdict_fail(helpers->verdict, WEFT_ERROR_TIMEOUT, message);
        kill(-helper->agent.process, SIGKILL);
        host_helper_done(helpers, helper);
    }
}

/* ---- receiving from helpers ---- */

/* Skip to the greeting and check the version; false: it has not arrived yet. */
static bool host_helper_greeting_take(struct host_helpers *helpers, struct host_helper *helper)
{
    size_t size = buffer_size(&helper->in), mark = sizeof ORDER_GREETING - 1;
    uint8_t *begin = buffer_begin(&helper->in), *found = memmem(begin, size, ORDER_GREETING, mark);
    uint8_t *end = found ? memchr(found, '\n', size - (size_t)(found - begin)) : NULL;
    if (!end) {
        /* So far it is output of the login shell: keep it as output of the agent. */
        size_t kept = size < sizeof helper->words - 1 ? size : sizeof helper->words - 1;
        if (kept && !found) {
            memcpy(helper->words, begin + size - kept, kept);
            helper->words[kept] = '\0';
        }
        if (!found && size > PIECE_BYTES)
            buffer_consume(&helper->in, size - mark);
        return false;
    }
    char line[128], version[32] = "", draw[SUCCESSION_DRAW_BYTES] = "", message[512];
    snprintf(line, sizeof line, "%.*s", (int)(end - found - (ptrdiff_t)mark), (char *)found + mark);
    if (sscanf(line, "%31s %u %32s", version, &helper->cores, draw) < 1)
        version[0] = '\0';
    buffer_consume(&helper->in, (size_t)(end + 1 - begin));
    helper->greeted = true;
    helper->words[0] = '\0';
    if (strcmp(version, weft_version()) != 0) {
        snprintf(message, sizeof message,
                 "host %s has Weft %s, but the launcher is Weft %s; install the same version on both",
                 helper->host->name, version, weft_version());
        if (helper->late && !helper->attaches) {
            host_helper_drop(helpers, helper, message);
            return false;
        }
        verdict_fail(helpers->verdict, WEFT_ERROR_RENDEZVOUS, message);
    }
    if (helper->attaches) {
        host_helper_prove(helpers, helper, draw);
        return true;
    }
    host_helpers_order_all(helpers);
    if (helper->late)
        host_helper_order(helpers, helper);
    return true;
}

static void host_helper_frame_handle(struct host_helpers *helpers, struct host_helper *helper,
                                     const struct frame *frame)
{
    struct reader reader = {frame->payload, frame->size, false};
    char message[ERROR_TEXT_BYTES];
    uint32_t rank, value;
    switch (frame->kind) {
    case ORDER_OUTPUT:
        rank = reader_u32(&reader);
        value = reader_u32(&reader);
        if (!reader.bad && reader.left > 0)
            output_take(helpers->output, rank, value, reader.bytes, reader.left);
        break;
    case ORDER_EXIT:
        rank = reader_u32(&reader);
        value = reader_u32(&reader);
        if (reader.bad)
            break;
        helper->running -= helper->running > 0;
        verdict_rank_ended(helpers->verdict, rank, (int)value);
        break;
    case ORDER_RANKS:
        if (helper->attaches && !helper->ordered)
            host_helper_take_ranks(helpers, helper, reader);
        break;
    case ORDER_TAKEN:
        helpers->input_window += reader_u32(&reader);
        break;
    case ORDER_REFUSED:
        verdict_fail(helpers->verdict, WEFT_ERROR_ARGUMENT, reader_text(&reader, message, sizeof message));
        break;
    case ORDER_DONE:
        host_helper_done(helpers, helper);
        break;
    default:
        break;
    }
}

static void host_helper_receive(struct host_helpers *helpers, struct host_helper *helper)
{
    uint8_t *place = buffer_reserve(&helper->in, PIECE_BYTES);
    ssize_t n = place ? read(helper->agent.output, place, PIECE_BYTES) : 0;
    if (n < 0 && (errno == EAGAIN || errno == EINTR))
        return;
    if (n > 0)
        helper->in.end += (size_t)n;
    struct frame frame;
    int found = 0;
    if (helper->greeted || host_helper_greeting_take(helpers, helper))
        while (!helper->done && (found = frame_peek(&helper->in, ORDER_FRAME_MOST, &frame)) == 1) {
            host_helper_frame_handle(helpers, helper, &frame);
            frame_drop(&helper->in, &frame);
        }
    if (!helper->done && (n <= 0 || found < 0))
        host_helper_lose(helpers, helper);
}

/* The agent's own output: kept for the message until the host runs, then passed on. */
static void host_helper_agent_receive(struct host_helpers *helpers, struct host_helper *helper)
{
    char bytes[4096];
    ssize_t n = read(helper->agent.errors, bytes, sizeof bytes - 1);
    if (n < 0 && (errno == EAGAIN || errno == EINTR))
        return;
    if (n <= 0) {
        close(helper->agent.errors);
        helper->agent.errors = -1;
        return;
    }
    bytes[n] = '\0';
    size_t used = strlen(helper->words);
    snprintf(helper->words + used, sizeof helper->words - used, "%s", bytes);
    char *rest = NULL;
    for (char *line = helper->greeted ? strtok_r(bytes, "\r\n", &rest) : NULL; line;
         line = strtok_r(NULL, "\r\n", &rest)) {
        char text[4096 + HOST_NAME_BYTES + 8];
        snprintf(text, sizeof text, "[%s] %s", helper->host->name, line);
        output_say(helpers->output, text);
    }
}

void host_helpers_watch(const struct host_helpers *helpers, bool full, struct pollfd *polls)
{
    for (uint32_t i = 0; i < helpers->count; i++) {
        const struct host_helper *helper = &helpers->all[i];
        bool waiting = buffer_size(&helper->out) > 0;
        polls[3 * i] = (struct pollfd){helper->done ? -1 : helper->agent.errors, POLLIN, 0};
        polls[3 * i + 1] = (struct pollfd){!helper->done && waiting ? helper->agent.input : -1, POLLOUT, 0};
        polls[3 * i + 2] = (struct pollfd){helper->done || full ? -1 : helper->agent.output, POLLIN, 0};
    }
}

void host_helpers_turn(struct host_helpers *helpers, const struct pollfd *polls)
{
    for (uint32_t i = 0; i < helpers->count; i++) {
        struct host_helper *helper = &helpers->all[i];
        if (polls[3 * i].revents)
            host_helper_agent_receive(helpers, helper);
        if (polls[3 * i + 1].revents)
            host_helper_send(helper);
        if (polls[3 * i + 2].revents)
            host_helper_receive(helpers, helper);
    }
}

/* ---- begin and end ---- */

static void host_helper_prepare(const struct host_helpers *helpers, struct host_helper *helper, const struct host *host)
{
    *helper = (struct host_helper){.host = host,
                                   .slots = host->slots,
                                   .local = agent_is_local(host->name, helpers->config->agent != NULL),
                                   .agent = {0, -1, -1, -1}};
}

weft_status host_helpers_open(struct host_helpers *helpers, const struct launch_config *config,
                              const struct string_list *environment, struct output *output, struct verdict *verdict,
                              struct error *error)
{
    const struct host_list *hosts = &config->hosts;
    *helpers = (struct host_helpers){.config = config,
                                     .environment = environment,
                                     .output = output,
                                     .verdict = verdict,
                                     .input_window = INPUT_WINDOW};
    helpers->all = calloc(hosts->count, sizeof *helpers->all);
    if (!helpers->all)
        return error_memory(error, hosts->count * sizeof *helpers->all, "the launcher");
    helpers->count = hosts->count;
    helpers->remote = config->hosts_command != NULL; /* others may come */
    for (uint32_t i = 0; i < helpers->count; i++) {
        host_helper_prepare(helpers, &helpers->all[i], &hosts->hosts[i]);
        helpers->remote = helpers->remote || !helpers->all[i].local;
    }
    helpers->directory = getcwd(NULL, 0);
    return helpers->directory ? WEFT_OK : error_system(error, "cannot find the working directory");
}

weft_status host_helpers_start(struct host_helpers *helpers, struct error *error)
{
    weft_status status = WEFT_OK;
    for (uint32_t i = 0; status == WEFT_OK && i < helpers->count; i++)
        if (!helpers->all[i].done)
            status = host_helper_start(helpers, &helpers->all[i], error);
    helpers->began = true;
    return status;
}

weft_status host_helpers_append_late(struct host_helpers *helpers, const struct host *listed, struct error *error)
{
    struct host_helper *grown = realloc(helpers->all, (helpers->count + (size_t)1) * sizeof *grown);
    struct host *host = malloc(sizeof *host);
    helpers->all = grown ? grown : helpers->all;
    if (!grown || !host) {
        free(host);
        return error_memory(error, sizeof *grown, "a host");
    }
    struct host_helper *helper = &grown[helpers->count++];
    *host = *listed;
    host->first = host->ranks = 0;
    host_helper_prepare(helpers, helper, host);
    helper->late = host;
    return WEFT_OK;
}

/* The agents end by themselves when their helpers have. */
void host_helpers_close(struct host_helpers *helpers)
{
    for (uint32_t i = 0; i < helpers->count; i++) {
        struct host_helper *helper = &helpers->all[i];
        const int descriptors[] = {helper->agent.input, helper->agent.output, helper->agent.errors};
        for (int j = 0; j < 3; j++)
            if (descriptors[j] >= 0)
                close(descriptors[j]);
        buffer_free(&helper->in);
        buffer_free(&helper->out);
        free(helper->late);
        helper->host = helper->late = NULL;
    }
    uint64_t limit = clock_after(2);
    for (uint32_t i = 0; i < helpers->count; i++) {
        pid_t process = helpers->all[i].agent.process;
        while (process > 0 && !helpers->resigned && waitpid(process, NULL, WNOHANG) == 0) {
            if (clock_now() < limit) {
                poll(NULL, 0, 2);
                continue;
            }
            kill(-process, SIGKILL);
            waitpid(process, NULL, 0);
            break;
        }
    }
    free(helpers->directory);
    free(helpers->all);
}
