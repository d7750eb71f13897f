/* SPDX-License-Identifier: Apache-2.0 */
#include "platform/service/internal/exec_session.h"

#include "base/format/json_put.h"

#include <errno.h>
#include <fcntl.h>
#include <sodium.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <termios.h>
#include <unistd.h>

#define PIECE_BYTES  49152 /* of output in a line, a multiple of three */
#define QUEUED_MOST  ((size_t)64 << 10)
#define QUIET_TICKS  60 /* quarters of a second */
#define LINGER_TICKS 2  /* for output of a command that has ended, while others hold its ends open */
#define END_OF_INPUT "\004"

static void close_end(int *descriptor)
{
    if (*descriptor >= 0)
        close(*descriptor);
    *descriptor = -1;
}

static bool is_terminal(const struct exec_session *session)
{
    return session->order.terminal;
}

/* ---- ends ---- */

static weft_status open_terminal(struct exec_session *session, unsigned rows, unsigned columns, struct error *error)
{
    char name[128];
    struct winsize size = {.ws_row = (unsigned short)rows, .ws_col = (unsigned short)columns};
    int own = posix_openpt(O_RDWR | O_NOCTTY | O_CLOEXEC);
    session->input = session->outputs[0] = own;
    if (own < 0 || grantpt(own) != 0 || unlockpt(own) != 0 || ptsname_r(own, name, sizeof name) != 0 ||
        (session->given[0] = open(name, O_RDWR | O_NOCTTY | O_CLOEXEC)) < 0 || ioctl(own, TIOCSWINSZ, &size) != 0 ||
        fcntl(own, F_SETFL, O_RDWR | O_NONBLOCK) != 0)
        return error_system(error, "cannot make a terminal");
    for (int i = 0; i < 3; i++)
        session->order.descriptors[i] = session->given[0];
    return WEFT_OK;
}

weft_status exec_pipes_open(int given[3], int own[3], struct error *error)
{
    for (int i = 0; i < 3; i++) {
        int ends[2];
        if (pipe2(ends, O_CLOEXEC) != 0)
            return error_system(error, "cannot make a pipe to a command");
        given[i] = ends[i > 0];
        own[i] = ends[i == 0];
        if (fcntl(own[i], F_SETFL, O_NONBLOCK) != 0)
            return error_system(error, "cannot set a pipe to a command");
    }
    return WEFT_OK;
}

static weft_status open_pipes(struct exec_session *session, struct error *error)
{
    int own[3] = {-1, -1, -1};
    weft_status status = exec_pipes_open(session->given, own, error);
    session->input = own[0];
    memcpy(session->outputs, own + 1, sizeof session->outputs);
    memcpy(session->order.descriptors, session->given, sizeof session->given);
    return status;
}

static void close_output(struct exec_session *session, int index)
{
    http_watch_free(session->output_watches[index]);
    session->output_watches[index] = NULL;
    if (is_terminal(session)) { /* which is the input too, and is closed with the session */
        session->outputs[index] = -1;
        return;
    }
    close_end(&session->outputs[index]);
}

static void answer_writing(struct exec_session *session, bool taken)
{
    struct route_call *call = session->writing;
    session->writing = NULL;
    http_watch_pause(session->input_watch, true);
    if (!call)
        return;
    if (taken)
        http_reply(call->request, 204, NULL, NULL, 0);
    else
        http_fail(call->request, 409, "the command has ended");
}

static void close_input(struct exec_session *session)
{
    http_watch_free(session->input_watch);
    session->input_watch = NULL;
    close_end(&session->input);
}

/* End what runs; the stream is the caller's. */
static void exec_session_stop(struct exec_session *session)
{
    if (session->stopped)
        return;
    session->stopped = true;
    answer_writing(session, false);
    http_watch_free(session->exec_watch);
    session->exec_watch = NULL;
    for (int i = 0; i < 2; i++)
        close_output(session, i);
    close_input(session);
    for (int i = 0; i < 3; i++)
        close_end(&session->given[i]);
    node_exec_close(&session->exec);
}

/* ---- the stream ---- */

static void exec_session_write_frame(struct exec_session *session, struct json_writer *writer)
{
    json_close(writer);
    session->quiet = 0;
    if (json_text(writer)) {
        http_stream_write(session->call->request, json_text(writer), json_size(writer));
        http_stream_write(session->call->request, "\n", 1);
    }
    json_end(writer);
}

/* All is over: say how, once. */
static void exec_session_finish(struct exec_session *session)
{
    struct json_writer writer;
    if (session->stopped)
        return;
    json_begin_line(&writer);
    if (session->status != WEFT_OK) {
        json_put_text(&writer, "error", session->error.text);
        if (session->exec.code)
            json_put_integer(&writer, "exit", session->exec.code);
    } else {
        JSON_PUT(&writer, "exit", session->exec.code, "signal", session->exec.signal);
    }
    exec_session_write_frame(session, &writer);
    exec_session_stop(session);
    http_stream_end(session->call->request);
}

static void finish_if_over(struct exec_session *session)
{
    if (session->ended && ((session->outputs[0] < 0 && session->outputs[1] < 0) ||
                           session->ended_ticks >= LINGER_TICKS || session->status != WEFT_OK))
        exec_session_finish(session);
}

/* Pass on what the command has printed. */
static void read_output(struct exec_session *session, int index)
{
    uint8_t piece[PIECE_BYTES];
    char text[PIECE_BYTES / 3 * 4 + 4];
    if (http_stream_queued(session->call->request) >= QUEUED_MOST) { /* until it is drained */
        http_watch_pause(session->output_watches[index], true);
        return;
    }
    ssize_t n = read(session->outputs[index], piece, sizeof piece);
    if (n < 0 && (errno == EAGAIN || errno == EINTR))
        return;
    if (n <= 0) { /* EIO: nobody has the terminal open any more */
        close_output(session, index);
        finish_if_over(session);
        return;
    }
    struct json_writer writer;
    sodium_bin2base64(text, sizeof text, piece, (size_t)n, sodium_base64_VARIANT_ORIGINAL);
    json_begin_line(&writer);
    JSON_PUT(&writer, "stream", index + 1, "data", text);
    session->ended_ticks = 0;
    exec_session_write_frame(session, &writer);
}

static void output_ready(void *context)
{
    read_output(context, 0);
}

static void errors_ready(void *context)
{
    read_output(context, 1);
}

static void exec_ready(void *context)
{
    struct exec_session *session = context;
    session->status = node_exec_hear(&session->exec, false, &session->error);
    session->ended = session->status != WEFT_OK || session->exec.ended;
    if (!session->ended)
        return;
    http_watch_free(session->exec_watch);
    session->exec_watch = NULL;
    finish_if_over(session);
}

static void exec_session_drained(void *context)
{
    struct exec_session *session = context;
    for (int i = 0; i < 2; i++)
        http_watch_pause(session->output_watches[i], false);
}

static void exec_session_idle(void *context)
{
    struct exec_session *session = context;
    if (++session->quiet % QUIET_TICKS == 0)
        http_stream_write(session->call->request, "\n", 1);
    if (http_stream_queued(session->call->request) < QUEUED_MOST) {
        exec_session_drained(session);
        session->ended_ticks += session->ended; /* while the client is slow, there may be more in the pipes */
    }
    finish_if_over(session);
}

static void exec_session_closed(void *context)
{
    exec_session_stop(context);
}

/* ---- input ---- */

static void exec_session_write_input(void *context)
{
    struct exec_session *session = context;
    size_t size;
    const char *body = http_request_body(session->writing->request, &size);
    while (session->written < size) {
        ssize_t n = write(session->input, body + session->written, size - session->written);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0 && errno == EAGAIN) {
            http_watch_pause(session->input_watch, false);
            return;
        }
        if (n < 0) { /* it does not read any more, which is its own business */
            if (!is_terminal(session))
                close_input(session);
            break;
        }
        session->written += (size_t)n;
    }
    if (route_value(session->writing, "end")->truth && session->input >= 0) {
        if (!is_terminal(session))
            close_input(session);
        else if (write(session->input, END_OF_INPUT, 1) < 0 && errno == EAGAIN) {
            http_watch_pause(session->input_watch, false);
            return;
        }
    }
    answer_writing(session, true);
}

void exec_session_write(struct exec_session *session, struct route_call *call, bool end)
{
    size_t size;
    http_request_body(call->request, &size);
    if (session->writing) {
        http_fail(call->request, 409, "input of the command is still on its way: send one piece after the other");
    } else if (session->stopped || session->ended) {
        http_fail(call->request, 409, "the command has ended");
    } else if (session->input < 0 || (size == 0 && !end)) {
        http_reply(call->request, 204, NULL, NULL, 0);
    } else {
        session->writing = call;
        session->written = 0;
        exec_session_write_input(session);
    }
}

weft_status exec_session_resize(struct exec_session *session, unsigned rows, unsigned columns, struct error *error)
{
    struct winsize size = {.ws_row = (unsigned short)rows, .ws_col = (unsigned short)columns};
    if (session->stopped)
        return error_set(error, WEFT_ERROR_STATE, "the command has ended");
    if (!is_terminal(session))
        return error_set(error, WEFT_ERROR_STATE, "the command has no terminal that could have a size");
    return ioctl(session->input, TIOCSWINSZ, &size) == 0 ? WEFT_OK
                                                         : error_system(error, "cannot set the size of a terminal");
}

weft_status exec_session_signal(struct exec_session *session, int number, struct error *error)
{
    if (session->stopped || session->ended)
        return error_set(error, WEFT_ERROR_STATE, "the command has ended");
    return node_exec_signal(&session->exec, number, error);
}

/* ---- beginning and end ---- */

weft_status exec_session_new(struct route_call *call, const struct node_exec_order *order, unsigned rows,
                             unsigned columns, struct exec_session **session, struct error *error)
{
    uint8_t random[(EXEC_SESSION_BYTES - 1) / 2];
    struct exec_session *made = calloc(1, sizeof *made);
    if (!made)
        return error_memory(error, sizeof *made, "a command");
    *made = (struct exec_session){.call = call,
                                  .order = *order,
                                  .given = {-1, -1, -1},
                                  .exec = {.descriptor = -1},
                                  .input = -1,
                                  .outputs = {-1, -1}};
    randombytes_buf(random, sizeof random);
    sodium_bin2hex(made->name, sizeof made->name, random, sizeof random);
    snprintf(made->user, sizeof made->user, "%s", call->who.user);
    snprintf(made->token, sizeof made->token, "%s", call->who.token);
    weft_status status = order->terminal ? open_terminal(made, rows, columns, error) : open_pipes(made, error);
    if (status != WEFT_OK) {
        exec_session_free(made);
        return status;
    }
    *session = made;
    return WEFT_OK;
}

void exec_session_begin(struct exec_session *session)
{
    struct http_request *request = session->call->request;
    struct http_server *server = http_request_server(request);
    struct json_writer writer;
    for (int i = 0; i < 3; i++)
        close_end(&session->given[i]);
    session->exec_watch = http_watch_new(server, session->exec.descriptor, false, exec_ready, session);
    session->output_watches[0] = http_watch_new(server, session->outputs[0], false, output_ready, session);
    if (!is_terminal(session))
        session->output_watches[1] = http_watch_new(server, session->outputs[1], false, errors_ready, session);
    session->input_watch = http_watch_new(server, session->input, true, exec_session_write_input, session);
    http_watch_pause(session->input_watch, true);
    if (!session->exec_watch || !session->output_watches[0] || !session->input_watch ||
        (!is_terminal(session) && !session->output_watches[1])) {
        exec_session_stop(session);
        http_fail(request, 503, "the server is out of memory at the moment");
        return;
    }
    session->begun = true;
    http_stream_begin(
        request, 200, "application/x-ndjson",
        &(struct http_stream_events){exec_session_drained, exec_session_idle, exec_session_closed, session});
    json_begin_line(&writer);
    json_put_text(&writer, "session", session->name);
    exec_session_write_frame(session, &writer);
}

void exec_session_free(struct exec_session *session)
{
    if (!session)
        return;
    exec_session_stop(session);
    free(session);
}
