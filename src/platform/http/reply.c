/* SPDX-License-Identifier: Apache-2.0 */
/* What the application sees of a request, and its answer. */
#include "platform/http/internal/server_state.h"

#include "base/clock.h"
#include "base/format/json_put.h"
#include "base/text.h"
#include "platform/access/peer_user.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

struct http_request *http_request_new(struct http_connection *connection)
{
    struct http_request *request = calloc(1, sizeof *request);
    if (!request)
        return NULL;
    request->body = evbuffer_new();
    request->headers = evbuffer_new();
    if (!request->body || !request->headers) {
        if (request->body)
            evbuffer_free(request->body);
        free(request);
        return NULL;
    }
    request->server = connection->server;
    request->connection = connection;
    request->encrypted = connection->server->tls;
    request->message.method = "GET"; /* until it is known */
    request->query = "";
    snprintf(request->peer, sizeof request->peer, "%s", connection->peer);
    http_request_share(request, request->peer);
    LIST_INSERT_HEAD(&connection->server->requests, request, entry);
    atomic_fetch_add_explicit(&connection->server->count_requests, 1, memory_order_relaxed);
    return request;
}

void http_request_free(struct http_request *request)
{
    if (!request)
        return;
    if (request->streaming)
        atomic_fetch_sub_explicit(&request->server->streams, 1, memory_order_relaxed);
    if (request->release)
        request->release(request->data);
    LIST_REMOVE(request, entry);
    http_body_release(request);
    evbuffer_free(request->body);
    evbuffer_free(request->headers);
    free(request->path);
    free(request->head);
    free(request);
}

void http_request_lost(struct http_request *request)
{
    request->connection = NULL;
    if (!request->answered)
        return;
    if (request->events.closed && !request->ended)
        request->events.closed(request->events.context);
    http_request_free(request);
}

struct http_server *http_request_server(const struct http_request *request)
{
    return request->server;
}

const char *http_request_method(const struct http_request *request)
{
    return request->message.method;
}

const char *http_request_path(const struct http_request *request)
{
    return request->path;
}

const char *http_request_query(const struct http_request *request)
{
    return request->query;
}

const char *http_request_header(const struct http_request *request, const char *name)
{
    return message_header(&request->message, name);
}

const char *http_request_peer(const struct http_request *request)
{
    return request->peer;
}

bool http_request_peer_user(const struct http_request *request, uid_t *user)
{
    struct http_connection *connection = request->connection;
    if (!connection)
        return false;
    if (!connection->peer_known)
        connection->peer_known = peer_user(bufferevent_getfd(connection->bufferevent), &connection->peer_user);
    *user = connection->peer_user;
    return connection->peer_known;
}

static bool http_request_is_head(const struct http_request *request)
{
    return strcmp(request->message.method, "HEAD") == 0;
}

const struct message *http_request_message(const struct http_request *request)
{
    return &request->message;
}

bool http_request_is_local(const struct http_request *request)
{
    return request->server->local;
}

/* The host of "host:port" or "[::1]:port": its length. */
static size_t host_length(const char *text)
{
    return text[0] == '[' ? strcspn(text, "]") + 1 : strcspn(text, ":");
}

bool http_request_names_loopback(const struct http_request *request)
{
    const char *host = http_request_header(request, "Host");
    const size_t length = host ? host_length(host) : 0;
    return (length == 9 && strncasecmp(host, "localhost", 9) == 0) || (length == 5 && strncmp(host, "[::1]", 5) == 0) ||
           (length > 4 && strncmp(host, "127.", 4) == 0 && strspn(host, "0123456789.") == length);
}

bool http_request_is_encrypted(const struct http_request *request)
{
    return request->encrypted;
}

const char *http_request_body(const struct http_request *request, size_t *size)
{
    *size = request->body_text ? request->body_size : 0;
    return request->body_text;
}

unsigned http_request_status(const struct http_request *request)
{
    return request->status;
}

void http_request_attach(struct http_request *request, void *data, void (*release)(void *data))
{
    request->data = data;
    request->release = release;
}

void *http_request_attached(const struct http_request *request)
{
    return request->data;
}

/* ---- the answer ---- */

void http_reply_header(struct http_request *request, const char *name, const char *value)
{
    evbuffer_add_printf(request->headers, "%s: %.*s\r\n", name, (int)strcspn(value, "\r\n"), value);
}

static const char *date_now(struct http_server *server)
{
    time_t now = time(NULL);
    struct tm parts;
    if (now != server->date_second && gmtime_r(&now, &parts)) {
        strftime(server->date, sizeof server->date, "%a, %d %b %Y %H:%M:%S GMT", &parts);
        server->date_second = now;
    }
    return server->date;
}

static bool has_header(struct http_request *request, const char *name)
{
    return evbuffer_search(request->headers, name, strlen(name), NULL).pos >= 0;
}

/* Write the head. `length` is SIZE_MAX where it is not known. */
static void reply_write_head(struct http_request *request, unsigned status, const char *type, size_t length)
{
    struct http_connection *connection = request->connection;
    struct evbuffer *output = bufferevent_get_output(connection->bufferevent);
    evbuffer_add_printf(output, "HTTP/1.1 %u %s\r\nDate: %s\r\n", status, message_reason(status),
                        date_now(request->server));
    if (type)
        evbuffer_add_printf(output, "Content-Type: %s\r\n", type);
    if (length == SIZE_MAX && request->chunked)
        evbuffer_add_printf(output, "Transfer-Encoding: chunked\r\n");
    else if (length != SIZE_MAX && status != 204 && status != 304)
        evbuffer_add_printf(output, "Content-Length: %zu\r\n", length);
    if (!has_header(request, "Cache-Control:"))
        evbuffer_add_printf(output, "Cache-Control: no-store\r\n");
    evbuffer_add_printf(output, "X-Content-Type-Options: nosniff\r\n");
    if (connection->close_after)
        evbuffer_add_printf(output, "Connection: close\r\n");
    else if (request->message.minor == 0)
        evbuffer_add_printf(output, "Connection: keep-alive\r\n");
    evbuffer_add_buffer(output, request->headers);
    evbuffer_add(output, "\r\n", 2);
    if (status >= 400)
        atomic_fetch_add_explicit(&request->server->errors, 1, memory_order_relaxed);
}

/* The first answer counts; thrown away where nobody waits for it. False: there is nothing to write. */
static bool begin_answer(struct http_request *request, unsigned status)
{
    if (request->answered)
        return false;
    request->answered = true;
    request->status = status;
    if (request->connection)
        return true;
    http_request_free(request);
    return false;
}

static void release_now(void (*release)(void *), void *context)
{
    if (release)
        release(context);
}

struct kept {
    void (*release)(void *context);
    void *context;
};

static void release_kept(const void *bytes, size_t size, void *context)
{
    struct kept kept = *(struct kept *)context;
    free(context);
    release_now(kept.release, kept.context);
}

static void add_kept(struct evbuffer *buffer, const void *bytes, size_t size, void (*release)(void *), void *context)
{
    struct kept *kept = malloc(sizeof *kept);
    if (kept)
        *kept = (struct kept){release, context};
    if (size > 0 && kept && evbuffer_add_reference(buffer, bytes, size, release_kept, kept) == 0)
        return;
    free(kept);
    evbuffer_add(buffer, bytes, size);
    release_now(release, context);
}

void http_reply_kept(struct http_request *request, unsigned status, const char *type, const void *bytes, size_t size,
                     void (*release)(void *context), void *context)
{
    if (!begin_answer(request, status)) {
        release_now(release, context);
        return;
    }
    struct http_connection *connection = request->connection;
    reply_write_head(request, status, type, size);
    if (http_request_is_head(request) || status == 204 || status == 304 || size == 0)
        release_now(release, context);
    else
        add_kept(bufferevent_get_output(connection->bufferevent), bytes, size, release, context);
    http_connection_enter(connection, HTTP_REPLYING);
}

void http_reply(struct http_request *request, unsigned status, const char *type, const void *bytes, size_t size)
{
    if (!begin_answer(request, status))
        return;
    struct http_connection *connection = request->connection;
    reply_write_head(request, status, type, size);
    if (!http_request_is_head(request) && status != 204 && status != 304)
        evbuffer_add(bufferevent_get_output(connection->bufferevent), bytes, size);
    http_connection_enter(connection, HTTP_REPLYING);
}

void http_reply_json(struct http_request *request, unsigned status, const struct json_writer *writer)
{
    static const char failed[] =
        "{\"error\":{\"status\":500,\"message\":\"the server has no memory for its answer\"}}\n";
    const char *text = json_text(writer);
    if (!text) {
        http_reply(request, 500, "application/json", failed, sizeof failed - 1);
        return;
    }
    if (!begin_answer(request, status))
        return;
    struct evbuffer *output = bufferevent_get_output(request->connection->bufferevent);
    reply_write_head(request, status, "application/json", json_size(writer) + 1);
    if (!http_request_is_head(request)) {
        evbuffer_add(output, text, json_size(writer));
        evbuffer_add(output, "\n", 1);
    }
    http_connection_enter(request->connection, HTTP_REPLYING);
}

void http_fail_parameter(struct http_request *request, unsigned status, const char *parameter, const char *message)
{
    struct json_writer writer;
    char printable[ERROR_TEXT_BYTES];
    snprintf(printable, sizeof printable, "%s", message);
    json_begin_line(&writer);
    json_open_object(&writer, "error");
    JSON_PUT(&writer, "status", status, "message", text_printable(printable));
    if (parameter)
        json_put_text(&writer, "parameter", parameter);
    json_close(&writer);
    json_close(&writer);
    http_reply_json(request, status, &writer);
    json_end(&writer);
}

void http_fail(struct http_request *request, unsigned status, const char *format, ...)
{
    char message[ERROR_TEXT_BYTES];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(message, sizeof message, format, arguments);
    va_end(arguments);
    http_fail_parameter(request, status, NULL, message);
}

void http_fail_error(struct http_request *request, const struct error *error)
{
    unsigned status = error->status == WEFT_ERROR_ARGUMENT || error->status == WEFT_ERROR_DATA ? 400
                      : error->status == WEFT_ERROR_STATE                                      ? 409
                      : error->status == WEFT_ERROR_TIMEOUT                                    ? 504
                                                                                               : 500;
    http_fail_parameter(request, status, NULL, error->text);
}

/* ---- answers without a known end ---- */

static void end_lost_stream(void *context)
{
    http_request_lost(context);
}

void http_stream_begin(struct http_request *request, unsigned status, const char *type,
                       const struct http_stream_events *events)
{
    bool head = http_request_is_head(request);
    if (request->answered)
        return;
    request->answered = true;
    request->status = status;
    request->events = *events;
    struct http_connection *connection = request->connection;
    if (!connection) { /* told soon, not within this call */
        if (!http_post(request->server, &request->lost, end_lost_stream, request))
            end_lost_stream(request);
        return;
    }
    request->chunked = request->message.minor == 1 && !head;
    connection->close_after |= !request->chunked && !head;
    reply_write_head(request, status, type, SIZE_MAX);
    request->streaming = true;
    request->asked = clock_now();
    atomic_fetch_add_explicit(&request->server->streams, 1, memory_order_relaxed);
    bufferevent_priority_set(connection->bufferevent, HTTP_PRIORITY_STREAM);
    http_connection_enter(connection, HTTP_STREAMING);
    if (head) { /* that was all */
        connection->request = NULL;
        http_connection_enter(connection, HTTP_REPLYING);
        request->connection = NULL;
        if (!http_post(request->server, &request->lost, end_lost_stream, request))
            end_lost_stream(request);
    }
}

/* Before bytes of a stream are queued: where they go, NULL if nowhere. */
static struct evbuffer *stream_output(struct http_request *request)
{
    if (!request->connection || !request->streaming || request->ended)
        return NULL;
    struct evbuffer *output = bufferevent_get_output(request->connection->bufferevent);
    if (evbuffer_get_length(output) == 0)
        request->connection->progress = clock_now(); /* the client's time to read begins */
    return output;
}

void http_stream_write(struct http_request *request, const void *bytes, size_t size)
{
    struct evbuffer *output = stream_output(request);
    if (!output || size == 0)
        return;
    if (request->chunked)
        evbuffer_add_printf(output, "%zx\r\n", size);
    evbuffer_add(output, bytes, size);
    if (request->chunked)
        evbuffer_add(output, "\r\n", 2);
}

void http_stream_write_kept(struct http_request *request, const void *bytes, size_t size,
                            void (*release)(void *context), void *context)
{
    struct evbuffer *output = stream_output(request);
    if (!output || size == 0) {
        release_now(release, context);
        return;
    }
    if (request->chunked)
        evbuffer_add_printf(output, "%zx\r\n", size);
    add_kept(output, bytes, size, release, context);
    if (request->chunked)
        evbuffer_add(output, "\r\n", 2);
}

size_t http_stream_queued(const struct http_request *request)
{
    return request->connection ? evbuffer_get_length(bufferevent_get_output(request->connection->bufferevent)) : 0;
}

void http_stream_end(struct http_request *request)
{
    struct evbuffer *output = stream_output(request);
    request->ended = true;
    if (!output)
        return; /* nobody reads, or HEAD was asked: it is freed soon */
    if (request->chunked)
        evbuffer_add(output, "0\r\n\r\n", 5);
    bufferevent_priority_set(request->connection->bufferevent, HTTP_PRIORITY_USUAL);
    http_connection_enter(request->connection, HTTP_REPLYING);
    if (evbuffer_get_length(output) == 0) /* nothing is left to be written, so nothing would tell that it was */
        bufferevent_trigger(request->connection->bufferevent, EV_WRITE, 0);
}

/* ---- connections that are passed on ---- */

void http_raw_begin(struct http_request *request, const struct http_stream_events *events,
                    void (*readable)(void *context))
{
    struct http_connection *connection = request->connection;
    if (request->answered)
        return;
    request->answered = request->streaming = true;
    request->status = 200;
    request->events = *events;
    request->readable = readable;
    request->asked = clock_now();
    connection->close_after = true;
    atomic_fetch_add_explicit(&request->server->streams, 1, memory_order_relaxed);
    bufferevent_priority_set(connection->bufferevent, HTTP_PRIORITY_STREAM);
    http_connection_enter(connection, HTTP_STREAMING);
}

size_t http_raw_read(struct http_request *request, void *bytes, size_t room)
{
    if (!request->connection)
        return 0;
    const int taken = evbuffer_remove(bufferevent_get_input(request->connection->bufferevent), bytes, room);
    return taken > 0 ? (size_t)taken : 0;
}
