/* SPDX-License-Identifier: Apache-2.0 */
#include "platform/service/internal/port_connection.h"

#include "base/clock.h"
#include "base/text.h"
#include "platform/service/internal/accounts.h"
#include "platform/service/internal/exec_session.h"
#include "platform/service/internal/service_state.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define PIECE_BYTES     16384
#define QUEUED_MOST     ((size_t)64 << 10) /* bytes that the browser has not taken yet */
#define REPLY_HEAD_MOST ((size_t)32 << 10)
#define QUIET_SECONDS   600
#define LINGER_TICKS    8 /* quarters of a second, for the last words of a command that has ended */

/* Belongs to the writer's thread from writer_post() to http_post(), apart from `request`. */
struct port_connection {
    struct port_connection *next; /* of the service's list */
    struct service *service;
    char user[PLATFORM_NAME_BYTES]; /* of the opening, which may end before the connection */
    struct http_request *request;   /* NULL: the browser is gone */
    struct port_opening *opening;
    uint64_t serial; /* of the opening */
    struct port_ends ends;
    bool to_head, upgrades, upgraded, replied;
    /* The command in the node, and our ends of its pipes (-1: closed): input, output, errors. */
    struct attempt attempt;
    struct port_target target;
    char program[8], tunnel[16], port[8]; /* its words */
    char *command[4];
    struct node_exec_order order;
    struct node_exec exec;
    int given[3], own[3];
    struct http_watch *watches[3], *exec_watch;
    struct http_posted posted;
    bool at_work; /* the writer has it */
    weft_status status;
    struct error error;
    /* Towards the node. */
    enum message_framing framing; /* of the body */
    uint64_t left;                /* of the body, by its length */
    struct chunks chunks;
    struct buffer sending;
    /* Towards the browser. */
    struct buffer reply; /* until its head is whole */
    char complaint[256]; /* what the command has printed as errors */
    uint64_t moved;      /* when bytes moved last, clock_now() */
    unsigned ended_ticks;
};

static void port_close_end(struct port_connection *connection, int index)
{
    http_watch_free(connection->watches[index]);
    connection->watches[index] = NULL;
    if (connection->own[index] >= 0)
        close(connection->own[index]);
    connection->own[index] = -1;
}

static void port_close_given(struct port_connection *connection)
{
    for (int i = 0; i < 3; i++) {
        if (connection->given[i] >= 0)
            close(connection->given[i]);
        connection->given[i] = -1;
    }
}

static void port_connection_free(struct port_connection *connection)
{
    if (connection->request)
        http_request_attach(connection->request, NULL, NULL);
    http_watch_free(connection->exec_watch);
    for (int i = 0; i < 3; i++)
        port_close_end(connection, i);
    port_close_given(connection);
    node_exec_close(&connection->exec);
    struct port_connection **at = &connection->service->port_connections;
    while (*at != connection)
        at = &(*at)->next;
    *at = connection->next;
    if (connection->opening->serial == connection->serial)
        connection->opening->connections--;
    buffer_free(&connection->sending);
    buffer_free(&connection->reply);
    free(connection);
}

/* End it, with an answer if there was none; it is freed. */
static void port_connection_end(struct port_connection *connection, unsigned status, const char *text)
{
    struct buffer answer = {0};
    if (!connection->replied) {
        buffer_print(&answer,
                     "HTTP/1.1 %u %s\r\nContent-Type: text/plain; charset=utf-8\r\nContent-Length: %zu\r\n"
                     "Cache-Control: no-store\r\nX-Content-Type-Options: nosniff\r\nConnection: close\r\n\r\n%s%s",
                     status, message_reason(status), strlen(text) + 1, connection->to_head ? "" : text,
                     connection->to_head ? "" : "\n");
        http_stream_write(connection->request, buffer_begin(&answer), buffer_size(&answer));
    }
    buffer_free(&answer);
    http_stream_end(connection->request);
    port_connection_free(connection);
}

/* The command is over: end the connection once all that it has printed is here. Then true: it is freed. */
static bool port_end_if_over(struct port_connection *connection)
{
    char text[512];
    const bool late = connection->ended_ticks >= LINGER_TICKS;
    if (!late && (connection->own[1] >= 0 || (!connection->replied && connection->own[2] >= 0)))
        return false;
    const char *complaint = text_printable(connection->complaint);
    complaint += strncmp(complaint, "weft: ", 6) == 0 ? 6 : 0;
    snprintf(text, sizeof text, "port %u of node %" PRIu32 " of run %" PRId64 " gives no answer%s%s",
             connection->ends.port, connection->target.node, connection->target.run, *complaint ? ": " : "", complaint);
    port_connection_end(connection, 502, text);
    return true;
}

/* ---- towards the node ---- */

/* Of `size` bytes of chunks that have come: how many belong to the body. */
static size_t port_take_chunks(struct port_connection *connection, const char *bytes, size_t size)
{
    size_t at = 0;
    while (at < size) {
        size_t taken = 0, data_size;
        const char *data;
        const enum chunks_result result =
            chunks_read(&connection->chunks, bytes + at, size - at, &taken, &data, &data_size);
        at += taken;
        if (result == CHUNKS_END || result == CHUNKS_WRONG)
            connection->framing = MESSAGE_NO_BODY;
        if (result == CHUNKS_WRONG)
            port_close_end(connection, 0); /* the server in the run sees that the body is cut */
        if (result == CHUNKS_END || result == CHUNKS_WRONG)
            break;
    }
    return at;
}

/* Take more of what the browser sends, as far as it belongs to the request. False: there is none at present. */
static bool port_take_body(struct port_connection *connection)
{
    size_t room = PIECE_BYTES;
    if (connection->framing == MESSAGE_LENGTH && connection->left < room)
        room = (size_t)connection->left;
    if (!connection->upgraded && connection->framing == MESSAGE_NO_BODY)
        room = 0;
    uint8_t *place = room > 0 ? buffer_reserve(&connection->sending, room) : NULL;
    size_t size = place ? http_raw_read(connection->request, place, room) : 0;
    if (!connection->upgraded && connection->framing == MESSAGE_CHUNKED)
        size = port_take_chunks(connection, (const char *)place, size);
    connection->left -= !connection->upgraded && connection->framing == MESSAGE_LENGTH ? size : 0;
    connection->sending.end += size;
    return size > 0;
}

static void port_feed(void *context)
{
    struct port_connection *connection = context;
    if (connection->at_work)
        return;
    while (connection->own[0] >= 0 && (buffer_size(&connection->sending) > 0 || port_take_body(connection))) {
        const ssize_t n =
            write(connection->own[0], buffer_begin(&connection->sending), buffer_size(&connection->sending));
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0 && errno == EAGAIN) {
            http_watch_pause(connection->watches[0], false);
            return;
        }
        if (n < 0) { /* the server in the run reads no more; it may still answer */
            port_close_end(connection, 0);
            return;
        }
        connection->moved = clock_now();
        buffer_consume(&connection->sending, (size_t)n);
    }
    http_watch_pause(connection->watches[0], true);
}

/* ---- towards the browser ---- */

/* Rewrite the head of the reply in `connection->reply`. `*size`: of the head; 0: it is not whole yet. */
static weft_status port_rewrite_head(struct port_connection *connection, struct buffer *out, size_t *size,
                                     struct error *error)
{
    struct message message = {0};
    char *head = (char *)buffer_begin(&connection->reply);
    const char *end = memmem(head, buffer_size(&connection->reply), "\r\n\r\n", 4);
    *size = end ? (size_t)(end + 4 - head) : 0;
    if (*size > REPLY_HEAD_MOST || (!end && buffer_size(&connection->reply) > REPLY_HEAD_MOST))
        return error_set(error, WEFT_ERROR_DATA, "its headers are longer than %zu bytes", REPLY_HEAD_MOST);
    if (!end)
        return WEFT_OK;
    weft_status status = port_head_reply(head, *size, connection->to_head, &connection->ends, &message, out, error);
    connection->upgraded = status == WEFT_OK && message.status == 101;
    if (connection->upgraded && !connection->upgrades)
        return error_set(error, WEFT_ERROR_DATA, "it changes to a protocol that was not asked for");
    return status == WEFT_OK && out->failed ? error_memory(error, *size, "a reply") : status;
}

/* Begin to pass on the reply as soon as its head is whole. */
static void port_begin_reply(struct port_connection *connection)
{
    size_t size = 1;
    while (!connection->replied && size > 0) {
        struct buffer out = {0};
        struct error error = {0};
        if (port_rewrite_head(connection, &out, &size, &error) != WEFT_OK) {
            char text[ERROR_TEXT_BYTES + 64];
            buffer_free(&out);
            snprintf(text, sizeof text, "the reply of the server in the run cannot be passed on: %s", error.text);
            port_connection_end(connection, 502, text);
            return;
        }
        buffer_consume(&connection->reply, size);
        connection->replied = buffer_size(&out) > 0; /* else it was a head before the real one, or is not whole */
        http_stream_write(connection->request, buffer_begin(&out), buffer_size(&out));
        buffer_free(&out);
    }
    if (!connection->replied)
        return;
    http_stream_write(connection->request, buffer_begin(&connection->reply), buffer_size(&connection->reply));
    buffer_free(&connection->reply);
    if (connection->upgraded)
        port_feed(connection);
}

static void port_output_ready(void *context)
{
    struct port_connection *connection = context;
    char piece[PIECE_BYTES];
    if (http_stream_queued(connection->request) >= QUEUED_MOST) { /* until it is drained */
        http_watch_pause(connection->watches[1], true);
        return;
    }
    const ssize_t n = read(connection->own[1], piece, sizeof piece);
    if (n < 0 && (errno == EAGAIN || errno == EINTR))
        return;
    connection->moved = clock_now();
    if (n <= 0) {
        port_close_end(connection, 1);
        port_end_if_over(connection);
    } else if (connection->replied) {
        http_stream_write(connection->request, piece, (size_t)n);
    } else {
        buffer_put(&connection->reply, piece, (size_t)n);
        port_begin_reply(connection);
    }
}

static void port_errors_ready(void *context)
{
    struct port_connection *connection = context;
    char piece[256];
    const ssize_t n = read(connection->own[2], piece, sizeof piece);
    if (n < 0 && (errno == EAGAIN || errno == EINTR))
        return;
    if (n > 0) {
        const size_t length = strlen(connection->complaint);
        snprintf(connection->complaint + length, sizeof connection->complaint - length, "%.*s",
                 (int)(piece[n - 1] == '\n' ? n - 1 : n), piece);
        return;
    }
    port_close_end(connection, 2);
    port_end_if_over(connection);
}

static void port_exec_ready(void *context)
{
    struct port_connection *connection = context;
    if (node_exec_hear(&connection->exec, false, &connection->error) != WEFT_OK) {
        port_connection_end(connection, 502, connection->error.text);
        return;
    }
    if (!connection->exec.ended)
        return;
    http_watch_free(connection->exec_watch);
    connection->exec_watch = NULL;
    port_end_if_over(connection);
}

/* ---- the stream ---- */

static void port_drained(void *context)
{
    struct port_connection *connection = context;
    http_watch_pause(connection->watches[1], false);
}

static void port_idle(void *context)
{
    struct port_connection *connection = context;
    if (connection->at_work)
        return;
    if (http_stream_queued(connection->request) < QUEUED_MOST) {
        port_drained(connection);
        connection->ended_ticks +=
            connection->exec.ended; /* while the browser is slow, there may be more in the pipes */
    }
    if (port_end_if_over(connection))
        return;
    if (clock_now() > connection->moved + PORT_NANOSECONDS(QUIET_SECONDS))
        port_connection_end(connection, 504, "the server in the run has not answered for ten minutes");
}

static void port_closed(void *context)
{
    struct port_connection *connection = context;
    connection->request = NULL;
    if (!connection->at_work)
        port_connection_free(connection);
}

/* ---- beginning ---- */

static bool port_watch_ends(struct port_connection *connection)
{
    struct http_server *server = connection->service->server;
    connection->exec_watch = http_watch_new(server, connection->exec.descriptor, false, port_exec_ready, connection);
    connection->watches[0] = http_watch_new(server, connection->own[0], true, port_feed, connection);
    connection->watches[1] = http_watch_new(server, connection->own[1], false, port_output_ready, connection);
    connection->watches[2] = http_watch_new(server, connection->own[2], false, port_errors_ready, connection);
    return connection->exec_watch && connection->watches[0] && connection->watches[1] && connection->watches[2];
}

static void port_asked(void *context)
{
    struct port_connection *connection = context;
    connection->at_work = false;
    port_close_given(connection);
    if (!connection->request)
        port_connection_free(connection);
    else if (connection->status != WEFT_OK)
        port_connection_end(connection, 502, connection->error.text);
    else if (!port_watch_ends(connection))
        port_connection_end(connection, 503, "the server has no memory for another connection at present");
    else
        port_feed(connection);
}

/* On the writer's thread, whose the engine is. */
static void port_ask_engine(struct writer *writer, void *context)
{
    struct port_connection *connection = context;
    if (writer) {
        struct engine *engine = writer_engine(writer);
        connection->status = engine->exec(engine, &connection->attempt, connection->target.node, &connection->order,
                                          &connection->exec, &connection->error);
    } else {
        connection->status = error_set(&connection->error, WEFT_ERROR_STATE, "the server is stopping");
    }
    if (!http_post(connection->service->server, &connection->posted, port_asked, connection))
        port_connection_free(connection); /* never: the writer stops before the HTTP server */
}

static void port_prepare_order(struct port_connection *connection)
{
    snprintf(connection->program, sizeof connection->program, "weft");
    snprintf(connection->tunnel, sizeof connection->tunnel, "node-tunnel");
    snprintf(connection->port, sizeof connection->port, "%u", connection->ends.port);
    snprintf(connection->attempt.run, sizeof connection->attempt.run, "%" PRId64, connection->target.run);
    connection->command[0] = connection->program;
    connection->command[1] = connection->tunnel;
    connection->command[2] = connection->port;
    connection->order.command = connection->command;
    memcpy(connection->order.descriptors, connection->given, sizeof connection->given);
    accounts_give_ends(writer_directories(connection->service->writer)->runs, connection->target.run, connection->given,
                       3);
}

void port_connection_begin(struct service *service, struct http_request *request, struct port_opening *opening,
                           int64_t epoch, const struct port_ends *ends)
{
    const struct message *message = http_request_message(request);
    struct error error = {0};
    struct port_connection *made = calloc(1, sizeof *made);
    if (!made) {
        http_fail(request, 503, "the server has no memory for another connection at present");
        return;
    }
    *made = (struct port_connection){.service = service,
                                     .request = request,
                                     .opening = opening,
                                     .serial = opening->serial,
                                     .ends = *ends,
                                     .to_head = strcmp(message->method, "HEAD") == 0,
                                     .upgrades = port_head_upgrades(message),
                                     .attempt = {.epoch = (uint64_t)epoch},
                                     .target = opening->target,
                                     .exec = {.descriptor = -1},
                                     .given = {-1, -1, -1},
                                     .own = {-1, -1, -1},
                                     .framing = message->framing,
                                     .left = message->length,
                                     .moved = clock_now()};
    snprintf(made->user, sizeof made->user, "%s", opening->who.user);
    made->next = service->port_connections;
    service->port_connections = made;
    opening->connections++;
    weft_status status = exec_pipes_open(made->given, made->own, &error);
    if (status == WEFT_OK) {
        port_prepare_order(made);
        port_head_request(message, ends, &made->sending);
        if (made->sending.failed)
            status = error_memory(&error, PIECE_BYTES, "a request");
    }
    made->at_work = status == WEFT_OK && writer_post(service->writer, port_ask_engine, made);
    if (!made->at_work) {
        port_connection_free(made);
        http_fail(request, 503, "%s", status == WEFT_OK ? "the server is stopping" : error.text);
        return;
    }
    http_request_attach(request, made, NULL);
    const struct http_stream_events events = {port_drained, port_idle, port_closed, made};
    http_raw_begin(request, &events, port_feed);
    if (message->expects_continue)
        http_stream_write(request, "HTTP/1.1 100 Continue\r\n\r\n", 25);
}

unsigned port_connections_of(const struct service *service, const char *user, unsigned *all)
{
    unsigned count = 0;
    *all = 0;
    for (const struct port_connection *each = service->port_connections; each; each = each->next) {
        count += strcmp(each->user, user) == 0;
        ++*all;
    }
    return count;
}

struct port_opening *port_connection_opening(const struct http_request *request)
{
    const struct port_connection *connection = http_request_attached(request);
    return connection ? port_openings_same(connection->opening, connection->serial, clock_now()) : NULL;
}
