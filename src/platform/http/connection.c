/* SPDX-License-Identifier: Apache-2.0 */
/* A connection: from the bytes of its requests to the application, one request after another. */
#include "platform/http/internal/server_state.h"

#include "base/clock.h"

#include <event2/bufferevent_ssl.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define UNSENT_MOST (128 << 10) /* bytes that the kernel takes of an answer before the client does */

void http_connection_enter(struct http_connection *connection, enum http_state state)
{
    struct http_server *server = connection->server;
    connection->state = state;
    connection->since = connection->progress = clock_now();
    connection->moved = 0;
    TAILQ_REMOVE(&server->connections, connection, entry);
    TAILQ_INSERT_TAIL(&server->connections, connection, entry);
}

static void end_tls(struct bufferevent *bufferevent)
{
    SSL *ssl = bufferevent_openssl_get_ssl(bufferevent);
    if (ssl && SSL_is_init_finished(ssl)) {
        SSL_set_shutdown(ssl, SSL_get_shutdown(ssl) | SSL_RECEIVED_SHUTDOWN);
        SSL_shutdown(ssl);
    }
}

void http_connection_close(struct http_connection *connection)
{
    struct http_server *server = connection->server;
    struct http_request *request = connection->request;
    TAILQ_REMOVE(&server->connections, connection, entry);
    server->connection_count--;
    atomic_store_explicit(&server->now_connections, server->connection_count, memory_order_relaxed);
    http_leave(connection->client);
    if (server->tls)
        end_tls(connection->bufferevent);
    bufferevent_free(connection->bufferevent);
    if (request) {
        request->connection = NULL;
        if (connection->state == HTTP_HANDLING || connection->state == HTTP_STREAMING)
            http_request_lost(request);
        else
            http_request_free(request);
    }
    free(connection);
}

/* Answer with an error that ends the connection: what follows on it cannot be understood or is not wanted. */
static void connection_refuse(struct http_connection *connection, unsigned status, const char *reason)
{
    connection->close_after = true;
    http_fail_parameter(connection->request, status, NULL, reason);
}

static void refuse_for_room(struct http_connection *connection)
{
    http_reply_header(connection->request, "Retry-After", "2");
    connection_refuse(connection, 503, "other requests fill the room for bodies at the moment: try again soon");
}

static bool connection_begin_request(struct http_connection *connection)
{
    if (!connection->request)
        connection->request = http_request_new(connection);
    return connection->request;
}

/* Refuse what never became a request. */
static void refuse_early(struct http_connection *connection, unsigned status, const char *reason)
{
    connection->close_after = true;
    if (connection_begin_request(connection))
        connection_refuse(connection, status, reason);
}

static void connection_handle(struct http_connection *connection)
{
    struct http_request *request = connection->request;
    const struct http_application *application = connection->application;
    request->body_size = evbuffer_get_length(request->body);
    if (request->body_size > 0 && evbuffer_add(request->body, "", 1) == 0)
        request->body_text = (char *)evbuffer_pullup(request->body, -1);
    http_connection_enter(connection, HTTP_HANDLING);
    if (request->body_size > 0 && !request->body_text)
        connection_refuse(connection, 503, "the server has no memory for the body at the moment");
    else
        application->handle(application->context, request);
}

/* The head was understood: ask the application, and decide about the body. */
static void connection_begin(struct http_connection *connection)
{
    struct http_server *server = connection->server;
    struct http_request *request = connection->request;
    const struct message *message = &request->message;
    bool body = message->framing == MESSAGE_CHUNKED || (message->framing == MESSAGE_LENGTH && message->length > 0);
    request->body_most = server->limits.body_bytes;
    http_connection_enter(connection, HTTP_HANDLING);
    connection->close_after = body || !message->keep_alive; /* answered here, the body stays unread */
    connection->application->begin(connection->application->context, request, &request->body_most);
    if (request->answered)
        return;
    connection->close_after = !message->keep_alive;
    if (!body) {
        connection_handle(connection);
        return;
    }
    if (message->framing == MESSAGE_LENGTH && message->length > request->body_most) {
        char reason[160];
        snprintf(reason, sizeof reason, "the body has %llu bytes; here it may have %zu",
                 (unsigned long long)message->length, request->body_most);
        connection_refuse(connection, 413, reason);
        return;
    }
    if (message->framing == MESSAGE_LENGTH && !http_body_has_room(request, (size_t)message->length)) {
        refuse_for_room(connection);
        return;
    }
    if (message->expects_continue && evbuffer_get_length(bufferevent_get_input(connection->bufferevent)) == 0)
        bufferevent_write(connection->bufferevent, "HTTP/1.1 100 Continue\r\n\r\n", 25);
    http_connection_enter(connection, HTTP_BODY);
}

/* Whether what has come cannot become a head, however it goes on. */
static const char *wrong_beginning(struct evbuffer *input)
{
    char first = 0;
    struct evbuffer_ptr newline = evbuffer_search(input, "\n", 1, NULL);
    if (evbuffer_copyout(input, &first, 1) == 1 && first == '\r' && evbuffer_get_length(input) == 1)
        return NULL; /* half of the empty line that some clients append to a body */
    if (first < 'A' || first > 'Z')
        return "this is not HTTP: a request begins with a method such as GET";
    if (newline.pos == 0)
        return "the first line is empty";
    if (newline.pos > 0) {
        struct evbuffer_ptr before = {0};
        char last = 0;
        evbuffer_ptr_set(input, &before, (size_t)newline.pos - 1, EVBUFFER_PTR_SET);
        evbuffer_copyout_from(input, &before, &last, 1);
        if (last != '\r')
            return "the first line does not end in CR LF";
    }
    return NULL;
}

/* Take a head from the input. True: there is something to go on with. */
static bool take_head(struct http_connection *connection)
{
    struct http_server *server = connection->server;
    struct evbuffer *input = bufferevent_get_input(connection->bufferevent);
    char two[2];
    if (evbuffer_copyout(input, two, 2) == 2 && memcmp(two, "\r\n", 2) == 0)
        evbuffer_drain(input, 2); /* some clients append an empty line to a body */
    size_t size = evbuffer_get_length(input);
    if (size > 0 && connection->state == HTTP_IDLE)
        http_connection_enter(connection, HTTP_HEAD);
    struct evbuffer_ptr end = evbuffer_search(input, "\r\n\r\n", 4, NULL);
    const char *wrong = size > 0 ? wrong_beginning(input) : NULL;
    size_t head_size = end.pos >= 0 ? (size_t)end.pos + 4 : size;
    if (wrong) {
        refuse_early(connection, 400, wrong);
        return false;
    }
    if (head_size > server->limits.head_bytes) {
        char reason[160];
        const struct evbuffer_ptr newline = evbuffer_search(input, "\n", 1, NULL);
        const bool line = newline.pos < 0 || (size_t)newline.pos >= server->limits.head_bytes;
        snprintf(reason, sizeof reason, "the %s longer than %zu bytes",
                 line ? "first line is" : "first line and the headers are", server->limits.head_bytes);
        refuse_early(connection, line ? 414 : 431, reason);
        return false;
    }
    if (end.pos < 0) {
        if (connection->input_ended && size == 0)
            connection->close_after = true; /* closed by who called */
        else if (connection->input_ended)
            refuse_early(connection, 400, "the request ends before its headers do");
        return false;
    }
    if (!connection_begin_request(connection))
        return false;
    struct http_request *request = connection->request;
    struct error error = {0};
    unsigned code = 400;
    request->head = malloc(head_size + 1);
    if (!request->head || evbuffer_remove(input, request->head, head_size) != (int)head_size) {
        connection_refuse(connection, 503, "the server has no memory for the request at the moment");
        return false;
    }
    request->head[head_size] = '\0';
    if (memchr(request->head, '\0', head_size))
        connection_refuse(connection, 400, "the request holds a NUL");
    else if (message_read_request(request->head, head_size, &request->message, &code, &error) != WEFT_OK)
        connection_refuse(connection, code, error.text);
    else if (!(request->path = strdup(request->message.target)))
        connection_refuse(connection, 503, "the server has no memory for the request at the moment");
    if (request->answered)
        return false;
    char *query = strchr(request->path, '?');
    request->query = query ? query + 1 : "";
    if (query)
        *query = '\0';
    connection_begin(connection);
    return true;
}

static bool add_to_body(struct http_connection *connection, const char *bytes, size_t size)
{
    struct http_request *request = connection->request;
    if (size > request->body_most - evbuffer_get_length(request->body)) {
        char reason[160];
        snprintf(reason, sizeof reason, "the body has more bytes than the %zu that it may have here",
                 request->body_most);
        connection_refuse(connection, 413, reason);
        return false;
    }
    if (!http_body_claim(request, size) || evbuffer_add(request->body, bytes, size) != 0) {
        refuse_for_room(connection);
        return false;
    }
    return true;
}

/* Take what there is of chunks: whether the body is whole. */
static bool take_chunks(struct http_connection *connection)
{
    struct evbuffer *input = bufferevent_get_input(connection->bufferevent);
    struct evbuffer_iovec piece;
    while (evbuffer_peek(input, -1, NULL, &piece, 1) > 0 && piece.iov_len > 0) {
        size_t taken = 0, size = 0;
        const char *data = NULL;
        enum chunks_result result =
            chunks_read(&connection->request->chunks, piece.iov_base, piece.iov_len, &taken, &data, &size);
        if (result == CHUNKS_DATA && !add_to_body(connection, data, size))
            return false;
        evbuffer_drain(input, taken);
        if (result == CHUNKS_END)
            return true;
        if (result == CHUNKS_WRONG) {
            connection_refuse(connection, 400, "the body's chunks are not written as HTTP/1.1 says");
            return false;
        }
    }
    return false;
}

/* Take what there is of the body. True: there is something to go on with. */
static bool take_body(struct http_connection *connection)
{
    struct http_request *request = connection->request;
    struct evbuffer *input = bufferevent_get_input(connection->bufferevent);
    size_t before = evbuffer_get_length(input);
    bool whole;
    if (request->message.framing == MESSAGE_CHUNKED) {
        whole = take_chunks(connection);
    } else {
        const size_t wanted = (size_t)request->message.length - evbuffer_get_length(request->body);
        const size_t taken = before < wanted ? before : wanted;
        if (http_body_claim(request, taken))
            evbuffer_remove_buffer(input, request->body, taken);
        else
            refuse_for_room(connection);
        whole = evbuffer_get_length(request->body) == request->message.length;
    }
    if (request->answered)
        return false;
    connection->moved += before - evbuffer_get_length(input);
    if (whole)
        connection_handle(connection);
    else if (connection->input_ended)
        connection_refuse(connection, 400, "the connection ends before the body does");
    return whole;
}

/* Go on with what has come, as far as it can be gone. */
static void pump(struct http_connection *connection)
{
    bool more = !connection->pumping;
    connection->pumping = true;
    while (more) {
        if (connection->state == HTTP_IDLE || connection->state == HTTP_HEAD)
            more = take_head(connection);
        else if (connection->state == HTTP_BODY)
            more = take_body(connection);
        else
            more = false;
    }
    connection->pumping = false;
    struct evbuffer *input = bufferevent_get_input(connection->bufferevent);
    if (connection->state == HTTP_LINGERING)
        evbuffer_drain(input, evbuffer_get_length(input));
    bool waiting = connection->state == HTTP_IDLE || connection->state == HTTP_HEAD;
    if (waiting && (connection->close_after || connection->input_ended))
        http_connection_close(connection);
}

static void on_read(struct bufferevent *bufferevent, void *context)
{
    struct http_connection *connection = context;
    if (connection->state == HTTP_HEAD || connection->state == HTTP_BODY)
        connection->progress = clock_now();
    if (connection->state == HTTP_STREAMING && connection->request->readable)
        connection->request->readable(connection->request->events.context);
    else
        pump(connection);
}

static void http_connection_answered(struct http_connection *connection)
{
    http_request_free(connection->request);
    connection->request = NULL;
    if (!connection->close_after) {
        http_connection_enter(connection, HTTP_IDLE);
        pump(connection);
        return;
    }
    if (connection->input_ended) {
        http_connection_close(connection);
        return;
    }
    /* Closed with input unread, a connection takes the answer away from a client that has not read it yet. */
    http_connection_enter(connection, HTTP_LINGERING);
    if (connection->server->tls) {
        SSL *ssl = bufferevent_openssl_get_ssl(connection->bufferevent);
        if (ssl)
            SSL_shutdown(ssl);
    }
    shutdown(bufferevent_getfd(connection->bufferevent), SHUT_WR);
    pump(connection);
}

static void on_written(struct bufferevent *bufferevent, void *context)
{
    struct http_connection *connection = context;
    if (evbuffer_get_length(bufferevent_get_output(bufferevent)) > 0)
        return;
    struct http_request *request = connection->request;
    if (connection->state == HTTP_REPLYING)
        http_connection_answered(connection);
    else if (connection->state == HTTP_STREAMING && request->events.drained && !request->ended)
        request->events.drained(request->events.context);
}

static void on_event(struct bufferevent *bufferevent, short what, void *context)
{
    struct http_connection *connection = context;
    if (what & BEV_EVENT_CONNECTED)
        return;
    connection->input_ended = true;
    bool half = (what & BEV_EVENT_EOF) && !connection->server->tls; /* it may still read */
    if (half && (connection->state == HTTP_HEAD || connection->state == HTTP_BODY))
        pump(connection);
    else if (!half || (connection->state != HTTP_HANDLING && connection->state != HTTP_REPLYING))
        http_connection_close(connection);
}

static void on_output(struct evbuffer *buffer, const struct evbuffer_cb_info *info, void *context)
{
    struct http_connection *connection = context;
    if (info->n_deleted == 0 && info->orig_size > 0)
        return;
    if (connection->state == HTTP_REPLYING || connection->state == HTTP_STREAMING) {
        connection->progress = clock_now();
        connection->moved += info->n_deleted;
    }
}

/* Without a word where that would take a handshake. */
static void turn_away(struct http_server *server, int descriptor)
{
    static const char body[] =
        "{\"error\":{\"status\":503,\"message\":\"there are too many connections, all in use: try "
        "again in 2 seconds\"}}\n";
    char answer[512];
    int size = snprintf(answer, sizeof answer,
                        "HTTP/1.1 503 Service Unavailable\r\nContent-Type: application/json\r\nContent-Length: %zu\r\n"
                        "Retry-After: 2\r\nConnection: close\r\n\r\n%s",
                        sizeof body - 1, body);
    char waste[4096];
    atomic_fetch_add_explicit(&server->refused, 1, memory_order_relaxed);
    if (!server->tls && send(descriptor, answer, (size_t)size, MSG_NOSIGNAL | MSG_DONTWAIT) > 0) {
        shutdown(descriptor, SHUT_WR);
        while (recv(descriptor, waste, sizeof waste, MSG_DONTWAIT) > 0)
            ;
    }
    close(descriptor);
}

static struct bufferevent *make_bufferevent(struct http_server *server, int descriptor)
{
    const int options = BEV_OPT_CLOSE_ON_FREE | BEV_OPT_DEFER_CALLBACKS;
    if (!server->tls)
        return bufferevent_socket_new(server->base, descriptor, options);
    SSL *ssl = tls_accept(server->tls);
    if (!ssl)
        return NULL;
    struct bufferevent *made =
        bufferevent_openssl_socket_new(server->base, descriptor, ssl, BUFFEREVENT_SSL_ACCEPTING, options);
    if (made)
        bufferevent_openssl_set_allow_dirty_shutdown(made, 1);
    else
        SSL_free(ssl);
    return made;
}

void http_connection_open(struct http_server *server, const struct http_application *application, int descriptor,
                          const char *address)
{
    int on = 1, unsent = UNSENT_MOST;
    atomic_fetch_add_explicit(&server->accepted, 1, memory_order_relaxed);
    struct http_connection *connection = calloc(1, sizeof *connection);
    if (connection) {
        connection->server = server;
        connection->application = application;
        snprintf(connection->peer, sizeof connection->peer, "%s", address);
    }
    const bool admitted = connection && http_admit(connection, descriptor);
    struct bufferevent *bufferevent = admitted ? make_bufferevent(server, descriptor) : NULL;
    if (!bufferevent) {
        if (admitted)
            http_leave(connection->client);
        free(connection);
        turn_away(server, descriptor);
        return;
    }
    setsockopt(descriptor, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    setsockopt(descriptor, IPPROTO_TCP, TCP_NOTSENT_LOWAT, &unsent, sizeof unsent);
    connection->bufferevent = bufferevent;
    server->connection_count++;
    TAILQ_INSERT_TAIL(&server->connections, connection, entry);
    atomic_store_explicit(&server->now_connections, server->connection_count, memory_order_relaxed);
    if (server->connection_count > atomic_load_explicit(&server->most_connections, memory_order_relaxed))
        atomic_store_explicit(&server->most_connections, server->connection_count, memory_order_relaxed);
    http_connection_enter(connection, HTTP_HEAD);
    bufferevent_setcb(bufferevent, on_read, on_written, on_event, connection);
    bufferevent_setwatermark(bufferevent, EV_READ, 0, HTTP_INPUT_MOST);
    evbuffer_add_cb(bufferevent_get_output(bufferevent), on_output, connection);
    bufferevent_enable(bufferevent, EV_READ | EV_WRITE);
}

static bool later_than(uint64_t now, uint64_t then, double seconds)
{
    return now > then && (double)(now - then) * 1e-9 > seconds;
}

/* Without any progress for too long, or with so little that it would take for ever. */
static bool too_slow(const struct http_connection *connection, uint64_t now)
{
    const struct http_limits *limits = &connection->server->limits;
    return later_than(now, connection->progress, limits->stall_seconds) ||
           later_than(now, connection->since,
                      limits->stall_seconds + (double)connection->moved / limits->bytes_per_second);
}

static bool may_go_on(struct http_connection *connection, uint64_t now)
{
    const struct http_application *application = connection->application;
    struct http_request *request = connection->request;
    if (!application->still || !later_than(now, request->asked, HTTP_STILL_SECONDS))
        return true;
    request->asked = now;
    return application->still(application->context, request);
}

static void time_out(struct http_connection *connection, const char *reason)
{
    atomic_fetch_add_explicit(&connection->server->timeouts, 1, memory_order_relaxed);
    if (reason)
        refuse_early(connection, 408, reason);
    if (!reason || !connection->request)
        http_connection_close(connection);
}

void http_connection_sweep(struct http_connection *connection, uint64_t now)
{
    const struct http_limits *limits = &connection->server->limits;
    switch (connection->state) {
    case HTTP_IDLE:
        if (later_than(now, connection->since, limits->idle_seconds))
            http_connection_close(connection);
        break;
    case HTTP_HEAD:
        if (later_than(now, connection->since, limits->head_seconds)) {
            bool silent = evbuffer_get_length(bufferevent_get_input(connection->bufferevent)) == 0;
            time_out(connection, silent ? NULL : "the head of the request did not come in time");
        }
        break;
    case HTTP_BODY:
        if (too_slow(connection, now))
            time_out(connection, "the body of the request did not come in time");
        break;
    case HTTP_REPLYING:
        if (too_slow(connection, now))
            time_out(connection, NULL);
        break;
    case HTTP_STREAMING:
        if (evbuffer_get_length(bufferevent_get_output(connection->bufferevent)) > 0 &&
            later_than(now, connection->progress, limits->stall_seconds))
            time_out(connection, NULL);
        else if (!may_go_on(connection, now))
            http_connection_close(connection);
        else if (connection->request->events.idle)
            connection->request->events.idle(connection->request->events.context);
        break;
    case HTTP_LINGERING:
        if (later_than(now, connection->since, HTTP_LINGER_SECONDS))
            http_connection_close(connection);
        break;
    case HTTP_HANDLING:
        break;
    }
}
