/* SPDX-License-Identifier: Apache-2.0 */
/* Commands in the node, for somebody at the server: their ends are pipes or a terminal here. */
#include "platform/engine/remote/internal/host_state.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <termios.h>
#include <unistd.h>

#define LINGER_SECONDS 0.5 /* for output of a command that has ended, while others hold its ends open */

struct host_command {
    struct remote_host *host;
    uint32_t number;
    struct node_exec exec;
    bool terminal, told; /* the server has the number of its process */
    bool ended;
    int input, outputs[2]; /* our ends; -1: closed. Of a terminal input and outputs[0] are one */
    struct buffer waiting; /* input that it has not read */
    bool input_ends;
    uint32_t credit[2]; /* bytes of output that may be sent */
    struct event *input_event, *output_events[2], *exec_event, *linger;
    struct host_command *next;
};

static void free_event_of(struct event **event)
{
    if (*event)
        event_free(*event);
    *event = NULL;
}

static void close_own(int *descriptor)
{
    if (*descriptor >= 0)
        close(*descriptor);
    *descriptor = -1;
}

static void close_command_output(struct host_command *command, int index)
{
    free_event_of(&command->output_events[index]);
    if (command->terminal)
        command->outputs[index] = -1; /* which is the input, too */
    else
        close_own(&command->outputs[index]);
}

static void close_command_input(struct host_command *command)
{
    free_event_of(&command->input_event);
    if (!command->terminal || command->outputs[0] < 0)
        close_own(&command->input);
}

static void command_free(struct host_command *command)
{
    struct host_command **at = &command->host->commands;
    while (*at != command)
        at = &(*at)->next;
    *at = command->next;
    for (int i = 0; i < 2; i++)
        close_command_output(command, i);
    close_command_input(command);
    free_event_of(&command->exec_event);
    free_event_of(&command->linger);
    node_exec_close(&command->exec);
    buffer_free(&command->waiting);
    free(command);
}

void host_commands_free(struct remote_host *host)
{
    while (host->commands)
        command_free(host->commands);
}

/* ---- to the server ---- */

static void tell(struct host_command *command, enum node_frame kind, struct buffer *rest)
{
    struct buffer payload = {0};
    buffer_put_u32(&payload, command->number);
    buffer_put_u32(&payload, kind);
    buffer_put(&payload, buffer_begin(rest), buffer_size(rest));
    payload.failed = payload.failed || rest->failed;
    buffer_free(rest);
    tls_stream_send_buffer(command->host->stream, REMOTE_TOLD, &payload);
}

static void tell_refused(struct remote_host *host, uint32_t number, const struct error *error, int code)
{
    struct host_command command = {.host = host, .number = number};
    struct buffer rest = {0};
    buffer_put_text(&rest, error->text);
    buffer_put_u32(&rest, (uint32_t)code);
    tell(&command, NODE_REFUSED, &rest);
}

/* The command has ended, and so has its output: that is all. */
static void command_over(struct host_command *command)
{
    struct buffer rest = {0};
    buffer_put_u32(&rest, (uint32_t)command->exec.code);
    buffer_put_u32(&rest, (uint32_t)command->exec.signal);
    tell(command, NODE_EXITED, &rest);
    command_free(command);
}

static bool command_is_over(const struct host_command *command)
{
    return command->ended && command->outputs[0] < 0 && command->outputs[1] < 0;
}

/* False: the command is gone. */
static bool pass_output(struct host_command *command, int index)
{
    uint8_t piece[REMOTE_PIECE];
    struct buffer payload = {0};
    const size_t most = command->credit[index] < sizeof piece ? command->credit[index] : sizeof piece;
    if (most == 0) { /* until the server says REMOTE_MORE */
        event_del(command->output_events[index]);
        return true;
    }
    const ssize_t n = read(command->outputs[index], piece, most);
    if (n < 0 && (errno == EAGAIN || errno == EINTR))
        return true;
    buffer_put_u32(&payload, command->number);
    buffer_put_u32(&payload, (uint32_t)index + 1);
    if (n > 0)
        buffer_put(&payload, piece, (size_t)n);
    else /* EIO: nobody has the terminal open any more */
        close_command_output(command, index);
    tls_stream_send_buffer(command->host->stream, REMOTE_OUTPUT, &payload);
    command->credit[index] -= n > 0 ? (uint32_t)n : 0;
    if (!command_is_over(command))
        return true;
    command_over(command);
    return false;
}

static void command_output_ready(evutil_socket_t descriptor, short what, void *context)
{
    struct host_command *command = context;
    (void)what;
    pass_output(command, descriptor == command->outputs[0] ? 0 : 1);
}

static void command_lingered(evutil_socket_t none, short what, void *context)
{
    (void)none;
    (void)what;
    command_over(context);
}

static void command_exec_ready(evutil_socket_t descriptor, short what, void *context)
{
    struct host_command *command = context;
    struct error error = {0};
    struct buffer rest = {0};
    const struct timeval linger = {0, (suseconds_t)(LINGER_SECONDS * 1e6)};
    (void)descriptor;
    (void)what;
    const weft_status status = node_exec_hear(&command->exec, false, &error);
    if (status != WEFT_OK) {
        tell_refused(command->host, command->number, &error, command->exec.code);
        command_free(command);
        return;
    }
    if (command->exec.process && !command->told) {
        command->told = true;
        buffer_put_u64(&rest, (uint64_t)command->exec.process);
        tell(command, NODE_STARTED, &rest);
    }
    if (!command->exec.ended)
        return;
    command->ended = true;
    free_event_of(&command->exec_event);
    if (command_is_over(command))
        command_over(command);
    else if ((command->linger = event_new(command->host->base, -1, 0, command_lingered, command)))
        event_add(command->linger, &linger);
}

/* ---- from the server ---- */

/* Pass on what waits, and let the server send as much again. */
static void pass_input(struct host_command *command)
{
    struct buffer more = {0};
    size_t done = 0;
    while (command->input >= 0 && buffer_size(&command->waiting) > 0) {
        const ssize_t n = write(command->input, buffer_begin(&command->waiting), buffer_size(&command->waiting));
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0 && errno == EAGAIN)
            break;
        if (n < 0) { /* it does not read any more: drop the rest */
            done += buffer_size(&command->waiting);
            buffer_consume(&command->waiting, buffer_size(&command->waiting));
            break;
        }
        done += (size_t)n;
        buffer_consume(&command->waiting, (size_t)n);
    }
    if (done > 0) {
        buffer_put_u32(&more, command->number);
        buffer_put_u32(&more, 0);
        buffer_put_u32(&more, (uint32_t)done);
        tls_stream_send_buffer(command->host->stream, REMOTE_MORE, &more);
    }
    if (buffer_size(&command->waiting) > 0)
        event_add(command->input_event, NULL);
    else if (command->input_ends && !command->terminal)
        close_command_input(command);
}

static void command_input_ready(evutil_socket_t descriptor, short what, void *context)
{
    (void)descriptor;
    (void)what;
    pass_input(context);
}

static weft_status open_command_terminal(struct host_command *command, const struct winsize *size, int given[3],
                                         struct error *error)
{
    char name[128];
    const int own = posix_openpt(O_RDWR | O_NOCTTY | O_CLOEXEC);
    command->input = command->outputs[0] = own;
    if (own < 0 || grantpt(own) != 0 || unlockpt(own) != 0 || ptsname_r(own, name, sizeof name) != 0 ||
        (given[0] = open(name, O_RDWR | O_NOCTTY | O_CLOEXEC)) < 0 || ioctl(own, TIOCSWINSZ, size) != 0 ||
        fcntl(own, F_SETFL, O_RDWR | O_NONBLOCK) != 0)
        return error_system(error, "cannot make a terminal");
    return WEFT_OK;
}

static weft_status open_command_pipes(struct host_command *command, int given[3], struct error *error)
{
    for (int i = 0; i < 3; i++) {
        int ends[2];
        if (pipe2(ends, O_CLOEXEC) != 0)
            return error_system(error, "cannot make a pipe to a command");
        given[i] = ends[i > 0];
        *(i == 0 ? &command->input : &command->outputs[i - 1]) = ends[i == 0];
        if (fcntl(ends[i == 0], F_SETFL, O_NONBLOCK) != 0)
            return error_system(error, "cannot set a pipe to a command");
    }
    return WEFT_OK;
}

static weft_status watch_command(struct host_command *command, struct error *error)
{
    struct event_base *base = command->host->base;
    command->input_event = event_new(base, command->input, EV_WRITE, command_input_ready, command);
    command->exec_event = event_new(base, command->exec.descriptor, EV_READ | EV_PERSIST, command_exec_ready, command);
    bool watched = command->input_event && command->exec_event && event_add(command->exec_event, NULL) == 0;
    for (int i = 0; i < 2 && watched; i++) {
        if (command->outputs[i] < 0)
            continue;
        command->output_events[i] =
            event_new(base, command->outputs[i], EV_READ | EV_PERSIST, command_output_ready, command);
        watched = command->output_events[i] && event_add(command->output_events[i], NULL) == 0;
    }
    return watched ? WEFT_OK : error_memory(error, sizeof *command, "a command");
}

static void hear_exec(struct remote_host *host, uint32_t number, struct reader *reader)
{
    struct string_list words = {0}, environment = {0};
    struct error error = {0};
    int given[3] = {-1, -1, -1};
    const bool terminal = reader_u32(reader) != 0;
    const uint32_t rows = reader_u32(reader), columns = reader_u32(reader);
    const struct winsize size = {.ws_row = (unsigned short)rows, .ws_col = (unsigned short)columns};
    const bool good = order_strings_take(reader, &words) && order_strings_take(reader, &environment);
    struct host_command *command = good ? calloc(1, sizeof *command) : NULL;
    weft_status status = WEFT_OK;
    if (!command) {
        error_set(&error, WEFT_ERROR_DATA, "the command is damaged, or memory ran out");
        tell_refused(host, number, &error, 0);
    } else {
        *command = (struct host_command){.host = host,
                                         .number = number,
                                         .exec = {.descriptor = -1},
                                         .terminal = terminal,
                                         .input = -1,
                                         .outputs = {-1, -1},
                                         .credit = {REMOTE_WINDOW, REMOTE_WINDOW},
                                         .next = host->commands};
        host->commands = command;
        status = terminal ? open_command_terminal(command, &size, given, &error)
                          : open_command_pipes(command, given, &error);
        const struct node_exec_order order = {
            .command = words.items,
            .environment = environment.items,
            .descriptors = {given[0], terminal ? given[0] : given[1], terminal ? given[0] : given[2]},
            .terminal = terminal};
        if (status == WEFT_OK)
            status =
                host->engine->exec(host->engine, &host->config.attempt, host->node, &order, &command->exec, &error);
        if (status == WEFT_OK)
            status = watch_command(command, &error);
        for (int i = 0; i < 3; i++)
            close_own(&given[i]);
        if (status != WEFT_OK) {
            tell_refused(host, number, &error, 0);
            command_free(command);
        }
    }
    string_list_free(&words);
    string_list_free(&environment);
}

static void hear_more(struct host_command *command, uint32_t stream, uint32_t bytes)
{
    const int index = stream == 2;
    if (stream < 1 || stream > 2)
        return;
    if (command->credit[index] == 0 && command->output_events[index])
        event_add(command->output_events[index], NULL);
    command->credit[index] += bytes;
}

void host_command_hear(struct remote_host *host, const struct frame *frame)
{
    struct reader reader = {frame->payload, frame->size, false};
    const uint32_t number = reader_u32(&reader);
    struct host_command *command = host->commands;
    if (frame->kind == REMOTE_EXEC) {
        hear_exec(host, number, &reader);
        return;
    }
    while (command && command->number != number)
        command = command->next;
    if (!command)
        return; /* it has just ended */
    if (frame->kind == REMOTE_INPUT) {
        command->input_ends = command->input_ends || reader.left == 0;
        buffer_put(&command->waiting, reader.bytes, reader.left);
        pass_input(command);
    } else if (frame->kind == REMOTE_SIZE) {
        const uint32_t rows = reader_u32(&reader), columns = reader_u32(&reader);
        const struct winsize size = {.ws_row = (unsigned short)rows, .ws_col = (unsigned short)columns};
        if (command->terminal)
            ioctl(command->input, TIOCSWINSZ, &size);
    } else if (frame->kind == REMOTE_SIGNAL) {
        (void)node_exec_signal(&command->exec, (int)reader_u32(&reader), NULL);
    } else if (frame->kind == REMOTE_MORE) {
        const uint32_t stream = reader_u32(&reader);
        hear_more(command, stream, reader_u32(&reader));
    } else if (frame->kind == REMOTE_CLOSE) {
        command_free(command);
    }
}
