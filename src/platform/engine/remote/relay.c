/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Commands in nodes of other hosts. The caller of exec() has three descriptors of the command's, as if it ran here, and a
 * connection that speaks as an agent does (platform/agent/link.h). A relay holds the other sides and passes everything on.
 */
#include "platform/engine/remote/internal/state.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <termios.h>
#include <unistd.h>

#define SIZE_SECONDS 1 /* between two looks at the size of a terminal */

struct remote_relay {
    struct remote *remote;
    struct remote_node *node;
    uint32_t number;
    struct buffer asked; /* the payload of REMOTE_EXEC; empty once it was sent */
    bool terminal;
    struct winsize size;
    int link;        /* our end of the connection */
    int input;       /* what the command reads is read here; -1: closed */
    int outputs[2];  /* what it prints is written there; -1: closed */
    uint32_t credit; /* bytes of input that may be sent */
    struct buffer waiting[2];
    bool output_ends[2];
    struct buffer told, heard; /* frames to and from the caller */
    struct event *link_event, *input_event, *output_events[2], *size_event;
    struct remote_relay *next;
};

static void relay_free_event(struct event **event)
{
    if (*event)
        event_free(*event);
    *event = NULL;
}

static void relay_free(struct remote_relay *relay)
{
    struct remote_relay **at = &relay->remote->relays;
    while (*at != relay)
        at = &(*at)->next;
    *at = relay->next;
    relay_free_event(&relay->link_event);
    relay_free_event(&relay->input_event);
    relay_free_event(&relay->size_event);
    file_close(relay->link);
    file_close(relay->input);
    for (int i = 0; i < 2; i++) {
        relay_free_event(&relay->output_events[i]);
        file_close(relay->outputs[i]);
        buffer_free(&relay->waiting[i]);
    }
    buffer_free(&relay->asked);
    buffer_free(&relay->told);
    buffer_free(&relay->heard);
    free(relay);
}

void remote_relays_free(struct remote *remote)
{
    while (remote->relays)
        relay_free(remote->relays);
}

void remote_relays_lose(struct remote *remote, struct remote_node *node)
{
    for (struct remote_relay *relay = remote->relays, *next; relay; relay = next) {
        next = relay->next;
        if (relay->node == node)
            relay_free(
                relay); /* the caller reads the end of the connection: the node has ended, or cannot be reached */
    }
}

static void relay_send(struct remote_relay *relay, enum remote_frame kind, struct buffer *payload)
{
    if (relay->node->link)
        remote_link_send(relay->node->link, (uint16_t)kind, payload);
    else
        buffer_free(payload);
}

/* ---- to the command ---- */

static void relay_say(struct remote_relay *relay, enum remote_frame kind, uint32_t first, uint32_t second)
{
    struct buffer payload = {0};
    buffer_put_u32(&payload, relay->number);
    buffer_put_u32(&payload, first);
    if (kind != REMOTE_SIGNAL)
        buffer_put_u32(&payload, second);
    relay_send(relay, kind, &payload);
}

/* The caller has gone: so does the command. */
static void relay_end(struct remote_relay *relay)
{
    struct buffer payload = {0};
    buffer_put_u32(&payload, relay->number);
    relay_send(relay, REMOTE_CLOSE, &payload);
    relay_free(relay);
}

static void relay_link_ready(evutil_socket_t descriptor, short what, void *context)
{
    struct remote_relay *relay = context;
    struct remote *remote = relay->remote;
    struct frame frame;
    int found = 0;
    (void)what;
    pthread_mutex_lock(&remote->lock);
    uint8_t *place = buffer_reserve(&relay->heard, 512);
    const ssize_t n = place ? recv(descriptor, place, 512, MSG_DONTWAIT) : 0;
    if (n > 0) {
        relay->heard.end += (size_t)n;
        while ((found = frame_peek(&relay->heard, NODE_FRAME_MOST, &frame)) > 0) {
            struct reader reader = {frame.payload, frame.size, false};
            if (frame.kind == NODE_SIGNAL)
                relay_say(relay, REMOTE_SIGNAL, reader_u32(&reader), 0);
            frame_drop(&relay->heard, &frame);
        }
    }
    if (n == 0 || found < 0 || (n < 0 && errno != EAGAIN && errno != EINTR))
        relay_end(relay);
    pthread_mutex_unlock(&remote->lock);
}

static void relay_input_ready(evutil_socket_t descriptor, short what, void *context)
{
    struct remote_relay *relay = context;
    uint8_t piece[REMOTE_PIECE];
    struct buffer payload = {0};
    (void)what;
    pthread_mutex_lock(&relay->remote->lock);
    const size_t most = relay->credit < sizeof piece ? relay->credit : sizeof piece;
    const ssize_t n = most ? read(descriptor, piece, most) : -1;
    if (most == 0) { /* until REMOTE_MORE */
        event_del(relay->input_event);
    } else if (n >= 0 || (errno != EAGAIN && errno != EINTR)) {
        buffer_put_u32(&payload, relay->number);
        if (n > 0)
            buffer_put(&payload, piece, (size_t)n);
        relay_send(relay, REMOTE_INPUT, &payload);
        relay->credit -= n > 0 ? (uint32_t)n : 0;
        if (n <= 0) {
            relay_free_event(&relay->input_event);
            file_close(relay->input);
            relay->input = -1;
        }
    }
    pthread_mutex_unlock(&relay->remote->lock);
}

/* No signal says that the caller's terminal has another size. */
static void relay_look_at_size(evutil_socket_t none, short what, void *context)
{
    struct remote_relay *relay = context;
    struct winsize now;
    (void)none;
    (void)what;
    pthread_mutex_lock(&relay->remote->lock);
    if (relay->input >= 0 && ioctl(relay->input, TIOCGWINSZ, &now) == 0 &&
        (now.ws_row != relay->size.ws_row || now.ws_col != relay->size.ws_col)) {
        relay->size = now;
        relay_say(relay, REMOTE_SIZE, now.ws_row, now.ws_col);
    }
    pthread_mutex_unlock(&relay->remote->lock);
}

/* ---- from the command ---- */

static void relay_close_output(struct remote_relay *relay, int index)
{
    relay_free_event(&relay->output_events[index]);
    file_close(relay->outputs[index]);
    relay->outputs[index] = -1;
}

/* Write what waits, and let the host send as much again. */
static void relay_pass_output(struct remote_relay *relay, int index)
{
    struct buffer *waiting = &relay->waiting[index];
    size_t done = 0;
    while (buffer_size(waiting) > 0 && relay->outputs[index] >= 0) {
        const ssize_t n = write(relay->outputs[index], buffer_begin(waiting), buffer_size(waiting));
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0 && errno == EAGAIN)
            break;
        const size_t gone = n < 0 ? buffer_size(waiting) : (size_t)n; /* nobody reads any more */
        done += gone;
        buffer_consume(waiting, gone);
    }
    if (done > 0)
        relay_say(relay, REMOTE_MORE, (uint32_t)index + 1, (uint32_t)done);
    if (buffer_size(waiting) > 0 && relay->output_events[index])
        event_add(relay->output_events[index], NULL);
    else if (relay->output_ends[index])
        relay_close_output(relay, index);
}

static void relay_output_ready(evutil_socket_t descriptor, short what, void *context)
{
    struct remote_relay *relay = context;
    (void)what;
    pthread_mutex_lock(&relay->remote->lock);
    relay_pass_output(relay, descriptor == relay->outputs[0] ? 0 : 1);
    pthread_mutex_unlock(&relay->remote->lock);
}

/* Frames to the caller are few and short, so they fit the socket's buffer; if not, the connection has failed. */
static bool relay_tell(struct remote_relay *relay, uint16_t kind, const void *payload, size_t size)
{
    buffer_consume(&relay->told, buffer_size(&relay->told));
    frame_put(&relay->told, kind, payload, size);
    return !relay->told.failed && send(relay->link, buffer_begin(&relay->told), buffer_size(&relay->told),
                                       MSG_NOSIGNAL | MSG_DONTWAIT) == (ssize_t)buffer_size(&relay->told);
}

void remote_relay_hear(struct remote *remote, struct remote_node *node, const struct frame *frame)
{
    struct reader reader = {frame->payload, frame->size, false};
    const uint32_t number = reader_u32(&reader), second = reader_u32(&reader);
    struct remote_relay *relay = remote->relays;
    while (relay && (relay->number != number || relay->node != node))
        relay = relay->next;
    if (!relay || reader.bad)
        return;
    if (frame->kind == REMOTE_OUTPUT && (second == 1 || second == 2)) {
        const int index = (int)second - 1;
        relay->output_ends[index] = relay->output_ends[index] || reader.left == 0;
        buffer_put(&relay->waiting[index], reader.bytes, reader.left);
        if (buffer_size(&relay->waiting[index]) > REMOTE_WINDOW) /* more than it may send */
            relay_end(relay);
        else
            relay_pass_output(relay, index);
    } else if (frame->kind == REMOTE_MORE) {
        if (relay->credit == 0 && relay->input_event)
            event_add(relay->input_event, NULL);
        relay->credit += reader_u32(&reader);
    } else if (frame->kind == REMOTE_TOLD) {
        if (!relay_tell(relay, (uint16_t)second, reader.bytes, reader.left))
            relay_end(relay);
    }
}

/* ---- beginning ---- */

static weft_status relay_copy_ends(struct remote_relay *relay, const struct node_exec_order *order, struct error *error)
{
    struct termios mode;
    for (int i = 0; i < 3; i++) {
        int *own = i == 0 ? &relay->input : &relay->outputs[i - 1];
        if (relay->terminal && i == 2)
            break; /* of a terminal, all are one */
        *own = fcntl(order->descriptors[i], F_DUPFD_CLOEXEC, 3);
        if (*own < 0)
            return error_system(error, "cannot copy the descriptors of a command");
    }
    if (relay->terminal) {
        if (tcgetattr(relay->input, &mode) != 0 || ioctl(relay->input, TIOCGWINSZ, &relay->size) != 0)
            return error_system(error, "cannot read how the terminal of a command is set");
        cfmakeraw(&mode); /* the terminal on the host does what a terminal does */
        tcsetattr(relay->input, TCSANOW, &mode);
    }
    return WEFT_OK;
}

static void put_words(struct buffer *payload, char *const *words)
{
    struct string_list list = {.items = (char **)words};
    while (words && words[list.count])
        list.count++;
    order_strings_put(payload, &list);
}

weft_status remote_exec(struct remote *remote, const struct attempt *attempt, uint32_t number,
                        const struct node_exec_order *order, struct node_exec *exec, struct error *error)
{
    int ends[2] = {-1, -1};
    struct remote_relay *relay = calloc(1, sizeof *relay);
    if (!relay)
        return error_memory(error, sizeof *relay, "a command");
    *relay = (struct remote_relay){.remote = remote,
                                   .terminal = order->terminal,
                                   .link = -1,
                                   .input = -1,
                                   .outputs = {-1, -1},
                                   .credit = REMOTE_WINDOW};
    pthread_mutex_lock(&remote->lock);
    relay->number = ++remote->relay_count;
    relay->next = remote->relays;
    remote->relays = relay;
    weft_status status = remote_node_find(remote, attempt, number, &relay->node, error);
    if (status == WEFT_OK && (!relay->node->link || relay->node->journal.ended))
        status = error_set(error, WEFT_ERROR_STATE, "node %u of run %s does not run, or its host cannot be reached",
                           number, attempt->run);
    if (status == WEFT_OK)
        status = relay_copy_ends(relay, order, error);
    if (status == WEFT_OK && socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0)
        status = error_system(error, "cannot make the connection of a command");
    relay->link = ends[0];
    buffer_put_u32(&relay->asked, relay->number);
    buffer_put_u32(&relay->asked, order->terminal);
    buffer_put_u32(&relay->asked, relay->size.ws_row);
    buffer_put_u32(&relay->asked, relay->size.ws_col);
    put_words(&relay->asked, order->command);
    put_words(&relay->asked, order->environment);
    if (status == WEFT_OK && buffer_size(&relay->asked) > NODE_FRAME_MOST)
        status = error_set(error, WEFT_ERROR_ARGUMENT, "the command and its environment are longer than %zu bytes",
                           NODE_FRAME_MOST);
    if (status != WEFT_OK)
        relay_free(relay);
    else
        *exec = (struct node_exec){.descriptor = ends[1]};
    pthread_mutex_unlock(&remote->lock);
    if (status == WEFT_OK)
        remote_listener_wake(remote);
    return status;
}

/* Watch its ends, and ask the host for it. */
static bool relay_begin(struct remote_relay *relay)
{
    static const struct timeval period = {SIZE_SECONDS, 0};
    struct event_base *base = relay->remote->base;
    relay->link_event = event_new(base, relay->link, EV_READ | EV_PERSIST, relay_link_ready, relay);
    relay->input_event = event_new(base, relay->input, EV_READ | EV_PERSIST, relay_input_ready, relay);
    bool good = relay->link_event && relay->input_event && event_add(relay->link_event, NULL) == 0 &&
                event_add(relay->input_event, NULL) == 0;
    for (int i = 0; i < 2 && good; i++)
        if (relay->outputs[i] >= 0) {
            fcntl(relay->outputs[i], F_SETFL, fcntl(relay->outputs[i], F_GETFL) | O_NONBLOCK);
            relay->output_events[i] = event_new(base, relay->outputs[i], EV_WRITE, relay_output_ready, relay);
            good = relay->output_events[i] != NULL;
        }
    if (good && relay->terminal) {
        relay->size_event = event_new(base, -1, EV_PERSIST, relay_look_at_size, relay);
        good = relay->size_event && event_add(relay->size_event, &period) == 0;
    }
    if (good)
        relay_send(relay, REMOTE_EXEC, &relay->asked);
    relay->asked = (struct buffer){0};
    return good;
}

void remote_relays_begin(struct remote *remote)
{
    for (struct remote_relay *relay = remote->relays, *next; relay; relay = next) {
        next = relay->next;
        if (!relay->link_event && (!relay->node->link || !relay_begin(relay)))
            relay_free(relay);
    }
}
