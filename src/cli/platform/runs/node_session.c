/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/platform/runs/node_session.h"

#include "base/format/json_put.h"
#include "base/thread.h"
#include "cli/platform/client/client.h"
#include "cli/platform/client/run_reference.h"
#include "cli/platform/runs/raw_terminal.h"
#include "platform/registry/run_specification.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <sodium.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/signalfd.h>
#include <time.h>
#include <unistd.h>

#define INPUT_BYTES   (256 << 10) /* the server accepts 1 MiB */
#define TOO_MANY      429
#define REST_SECONDS  0.05 /* after too many requests */
#define INPUT_SECONDS 1e6
#define JOIN_SECONDS  2 /* for the sender thread, after the command has ended */

struct node_session {
    const struct node_session_config *config; /* not for the sender, which may outlive it */
    int input;
    char name[64]; /* the server's name of it; "": not known yet */
    pthread_t sender;
    bool sends;
    int stop[2]; /* a pipe: the sender ends when the other end is closed */
    int sizes;   /* a signalfd: the size of the terminal changed; -1: not a terminal */
    int *exit_code;
    bool ended;
    weft_status status;
    struct error *error;
};

/* ---- what is typed ---- */

static weft_status node_session_post(struct client *client, const struct node_session *session, const char *what,
                                     const char *body, size_t size, const char *type)
{
    char path[160];
    struct client_reply reply = {0};
    snprintf(path, sizeof path, "/api/v1/sessions/%s/%s", session->name, what);
    const struct client_request request = {
        .method = "POST", .path = path, .body = size ? body : "", .size = size, .type = type};
    for (;;) {
        weft_status status = client_ask(client, &request, &reply, NULL);
        if (status == WEFT_OK)
            client_reply_free(&reply);
        if (status == WEFT_OK || reply.status != TOO_MANY)
            return status;
        nanosleep(&(struct timespec){.tv_nsec = (long)(REST_SECONDS * 1e9)}, NULL);
    }
}

static void send_size(struct client *client, const struct node_session *session)
{
    char body[64];
    unsigned rows, columns;
    raw_terminal_size(&rows, &columns);
    int length = snprintf(body, sizeof body, "{\"rows\":%u,\"columns\":%u}", rows, columns);
    node_session_post(client, session, "resize", body, (size_t)length, "application/json");
}

/* Send standard input, until it ends or the command does. */
static void *send_input(void *context)
{
    struct node_session *session = context;
    struct client *client;
    char *piece = malloc(INPUT_BYTES);
    /* The server answers when the command has read it all, which may be never. */
    if (!piece || client_open(&(struct client_config){.reply_seconds = INPUT_SECONDS}, &client, NULL) != WEFT_OK) {
        free(piece);
        return NULL;
    }
    struct pollfd polled[3] = {{session->input, POLLIN, 0}, {session->stop[0], POLLIN, 0}, {session->sizes, POLLIN, 0}};
    weft_status status = WEFT_OK;
    while (status == WEFT_OK) {
        if (poll(polled, 3, -1) < 0 && errno != EINTR)
            break;
        if (polled[1].revents)
            break;
        if (polled[2].revents) {
            struct signalfd_siginfo told;
            (void)!read(session->sizes, &told, sizeof told);
            send_size(client, session);
        }
        if (!polled[0].revents)
            continue;
        ssize_t n = read(session->input, piece, INPUT_BYTES);
        if (n < 0 && (errno == EINTR || errno == EAGAIN))
            continue;
        if (n > 0) {
            status = node_session_post(client, session, "input", piece, (size_t)n, "application/octet-stream");
            continue;
        }
        node_session_post(client, session, "input?end=true", "", 0, "application/octet-stream");
        polled[0].fd = -1; /* sizes may still change */
    }
    client_close(client);
    free(piece);
    return NULL;
}

/* ---- what comes ---- */

static bool node_session_write_all(int descriptor, const unsigned char *bytes, size_t size)
{
    while (size > 0) {
        ssize_t n = write(descriptor, bytes, size);
        if (n < 0 && errno == EAGAIN) { /* a shared terminal may be non-blocking */
            struct pollfd room = {descriptor, POLLOUT, 0};
            poll(&room, 1, -1);
        } else if (n < 0 && errno != EINTR) {
            return false;
        }
        bytes += n > 0 ? n : 0;
        size -= n > 0 ? (size_t)n : 0;
    }
    return true;
}

static bool take_output(struct node_session *session, const cJSON *frame)
{
    const char *data = field_text(frame, "data");
    size_t length = strlen(data), size = 0;
    unsigned char *bytes = malloc(length + 1);
    bool good = bytes && sodium_base642bin(bytes, length + 1, data, length, NULL, &size, NULL,
                                           sodium_base64_VARIANT_ORIGINAL) == 0;
    const int output = field_integer(frame, "stream") == 2 ? STDERR_FILENO : session->config->output;
    bool more = good;
    if (!good) {
        session->status = error_set(session->error, WEFT_ERROR_NETWORK, "what comes from the command is damaged");
    } else if (!node_session_write_all(output, bytes, size)) {
        more = false;
        session->ended = errno == EPIPE || errno == ECONNRESET; /* nobody reads any more: no error */
        if (!session->ended)
            session->status = error_system(session->error, "cannot write what the command prints");
    }
    free(bytes);
    return more;
}

static void node_session_begin(struct node_session *session, const char *name)
{
    if (*session->name || !*name || strspn(name, "0123456789abcdef") != strlen(name))
        return;
    snprintf(session->name, sizeof session->name, "%s", name);
    if (session->config->terminal)
        raw_terminal_enter();
    session->sends = thread_start(&session->sender, send_input, session) == 0;
}

static bool node_session_take_line(void *context, const char *line, size_t size)
{
    struct node_session *session = context;
    cJSON *frame = size ? cJSON_ParseWithLength(line, size) : NULL;
    bool more = true;
    if (field_present(frame, "data")) {
        more = take_output(session, frame);
    } else if (field_present(frame, "session")) {
        node_session_begin(session, field_text(frame, "session"));
    } else if (field_present(frame, "error")) {
        session->status = error_set(session->error, WEFT_ERROR_PEER, "%s", field_text(frame, "error"));
        if (field_integer(frame, "exit"))
            *session->exit_code = (int)field_integer(frame, "exit") & 255;
        more = false;
    } else if (field_present(frame, "exit")) {
        int64_t ended_by = field_integer(frame, "signal");
        *session->exit_code = (int)(ended_by ? 128 + ended_by : field_integer(frame, "exit")) & 255;
        session->ended = true;
        more = false;
    }
    cJSON_Delete(frame);
    return more;
}

/* ---- the whole ---- */

static void put_environment(struct json_writer *body, const struct node_session_config *config)
{
    const char *term = getenv("TERM");
    json_open_object(body, "environment");
    if (config->terminal)
        json_put_text(body, "TERM", term && *term ? term : "dumb");
    for (char *const *entry = config->environment; entry && *entry; entry++) {
        const char *equals = strchr(*entry, '=');
        char *name = strndup(*entry, (size_t)(equals - *entry));
        json_put_text(body, name ? name : "", equals + 1);
        free(name);
    }
    json_close(body);
}

static void put_order(struct json_writer *body, const struct node_session_config *config)
{
    unsigned rows, columns;
    json_begin_line(body);
    json_open_array(body, "command");
    for (char *const *word = config->command; *word; word++)
        json_put_text(body, NULL, *word);
    json_close(body);
    json_put_bool(body, "terminal", config->terminal);
    if (config->terminal) {
        raw_terminal_size(&rows, &columns);
        JSON_PUT(body, "rows", rows, "columns", columns);
    }
    put_environment(body, config);
    json_close(body);
}

/* Take SIGWINCH by a descriptor. No other program inherits the mask. */
static int watch_sizes(void)
{
    sigset_t sizes;
    sigemptyset(&sizes);
    sigaddset(&sizes, SIGWINCH);
    pthread_sigmask(SIG_BLOCK, &sizes, NULL);
    return signalfd(-1, &sizes, SFD_CLOEXEC | SFD_NONBLOCK);
}

static void node_session_end_session(struct node_session *session)
{
    struct timespec deadline;
    close(session->stop[1]);
    clock_gettime(CLOCK_MONOTONIC, &deadline);
    deadline.tv_sec += JOIN_SECONDS;
    if (session->sends && pthread_clockjoin_np(session->sender, NULL, CLOCK_MONOTONIC, &deadline) != 0) {
        pthread_detach(session->sender); /* it waits for a server that is gone, and still uses the session */
        return;
    }
    close(session->stop[0]);
    if (session->sizes >= 0)
        close(session->sizes);
    free(session);
}

static weft_status run_session(struct platform *platform, const struct node_session_config *config, int64_t run,
                               int64_t node, int *exit_code, struct error *error)
{
    struct json_writer body;
    struct platform_path path;
    struct node_session *session = calloc(1, sizeof *session); /* the sender may outlive this call */
    if (!session)
        return error_memory(error, sizeof *session, "a session");
    *session = (struct node_session){.config = config,
                                     .input = config->input,
                                     .sizes = -1,
                                     .stop = {-1, -1},
                                     .exit_code = exit_code,
                                     .error = error};
    if (pipe2(session->stop, O_CLOEXEC) != 0) {
        free(session);
        return error_system(error, "cannot make a pipe");
    }
    if (config->terminal)
        session->sizes = watch_sizes();
    platform_path_run(&path, run, "nodes");
    platform_path_number(&path, node);
    platform_path_part(&path, "exec");
    put_order(&body, config);
    const struct client_request request = {.method = "POST", .path = path.text, .body = json_text(&body)};
    weft_status status = request.body
                             ? client_lines(platform->client, &request, 0, node_session_take_line, session, error)
                             : error_memory(error, json_size(&body), "a command");
    raw_terminal_leave();
    json_end(&body);
    if (status == WEFT_OK)
        status = session->status;
    if (status == WEFT_OK && !session->ended)
        status = error_set(error, WEFT_ERROR_NETWORK, "the connection to %s was cut: the command has ended with it",
                           client_server(platform->client));
    node_session_end_session(session);
    return status;
}

weft_status node_session_run(const struct node_session_config *config, int *exit_code, struct error *error)
{
    struct platform platform;
    char name[RUN_NAME_BYTES];
    int64_t run = 0, node = 0;
    *exit_code = NODE_SESSION_FAILED; /* until the command reports its own */
    weft_status status = run_reference_divide(config->place, name, sizeof name, &node, error);
    if (status == WEFT_OK)
        status = platform_open(PLATFORM_PATIENCE, &platform, error);
    if (status != WEFT_OK)
        return status;
    if (node == RUN_NODE_NONE)
        node = 0;
    status = run_reference_find(&platform, name, &run, error);
    if (status == WEFT_OK)
        status = run_session(&platform, config, run, node, exit_code, error);
    platform_close(&platform);
    return status;
}
