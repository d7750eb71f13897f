/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Whatever strangers send to the HTTP server, in two pieces: it answers with whole HTTP, the first refusal is the last
 * answer, and nothing is left of the connection. The first byte says where the pieces are divided and whether the
 * client stays.
 */
#include "platform/http/events_stream.h"
#include "platform/http/internal/server_state.h"
#include "platform/http/route/route.h"

#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static struct http_server *server;
static struct router *router;
static struct events_stream *events;

static void echo(struct route_call *call)
{
    struct json_writer writer;
    json_begin(&writer, JSON_LINE);
    json_open_object(&writer, NULL);
    json_put_text(&writer, "text", route_value(call, "text")->text);
    json_put_tree(&writer, "body", call->body);
    json_close(&writer);
    route_reply(call, &writer);
}

static void keep(struct route_call *call)
{
    size_t size;
    const char *body = http_request_body(call->request, &size);
    if (size > 0 && body[size] != '\0')
        abort();
    http_reply(call->request, 204, NULL, NULL, 0);
}

static void subscribe(struct route_call *call)
{
    events_subscribe(events, call->request, route_value(call, "text")->text, NULL, NULL, NULL);
}

static void prepare(void)
{
    static const char *const colors[] = {"red", NULL};
    static const struct route_parameter parameters[] = {
        {.name = "text", .meaning = "A text."},
        {.name = "n", .type = ROUTE_INTEGER, .least = 0, .most = 9, .meaning = "A number."},
        {.name = "c", .type = ROUTE_CHOICE, .choices = colors, .fallback = "red", .meaning = "A choice."},
        {.name = "b", .type = ROUTE_BOOL, .meaning = "A truth."},
        {0}};
    static const struct route_parameter named[] = {{.name = "text", .type = ROUTE_NAME, .meaning = "A name."}, {0}};
    static const struct route routes[] = {
        {.method = "GET",
         .path = "/e",
         .operation = "e",
         .summary = "s",
         .parameters = parameters,
         .response = "Thing",
         .handler = echo},
        {.method = "POST",
         .path = "/e",
         .operation = "pe",
         .summary = "s",
         .parameters = parameters,
         .request = "Thing",
         .idempotent_key = true,
         .response = "Thing",
         .handler = echo},
        {.method = "PUT",
         .path = "/n/{text}",
         .operation = "n",
         .summary = "s",
         .parameters = named,
         .consumes = "text/plain",
         .response = "Thing",
         .handler = keep},
        {.method = "GET",
         .path = "/v",
         .operation = "v",
         .summary = "s",
         .parameters = parameters,
         .produces = "text/event-stream",
         .handler = subscribe},
    };
    static const struct schema schemas[] = {
        {"Thing", "{\"type\":\"object\",\"required\":[\"a\"],\"additionalProperties\":false,\"properties\":{\"a\":{"
                  "\"type\":\"string\",\"maxLength\":5},\"n\":{\"type\":\"integer\",\"minimum\":0},\"t\":{\"type\":"
                  "\"array\",\"items\":{\"$ref\":\"#/components/schemas/Thing\"}}}}"},
    };
    signal(SIGPIPE, SIG_IGN); /* the server's own thread blocks it */
    const struct route_table table = ROUTE_TABLE("t");
    const struct router_config routing = {.rate = -1, .access.local = {.user = "u", .most = ROLE_MANAGER}};
    if (events_new(&(struct events_config){0}, &events, NULL) != WEFT_OK ||
        router_new(&routing, &router, NULL) != WEFT_OK || router_add(router, &table, NULL) != WEFT_OK ||
        router_finish(router, NULL) != WEFT_OK ||
        http_server_prepare(&(struct http_config){.limits = {.head_bytes = 2048, .body_bytes = 2048},
                                                  .application = router_application(router)},
                            &server, NULL) != WEFT_OK)
        abort();
    events_attach(events, server);
}

static void turn(void)
{
    for (int i = 0; i < 6; i++)
        event_base_loop(server->base, EVLOOP_NONBLOCK);
}

/* What comes back is replies of HTTP/1.1, whole and one after another, except for a stream, which goes on. */
static void check(char *bytes, size_t size)
{
    bool last = false;
    while (size > 0) {
        struct message message;
        char *end = memmem(bytes, size, "\r\n\r\n", 4);
        if (!end || last)
            abort();
        size_t head = (size_t)(end + 4 - bytes);
        char *copy = malloc(head);
        memcpy(copy, bytes, head);
        if (message_read_reply(copy, head, false, &message, NULL) != WEFT_OK)
            abort();
        bool refused = message.status >= 400, stream = message.framing == MESSAGE_CHUNKED;
        bool until_close = message.framing == MESSAGE_UNTIL_CLOSE;
        bool close = message_has_word(message_header(&message, "Connection"), "close");
        size_t body = message.framing == MESSAGE_LENGTH ? (size_t)message.length : 0;
        last = close;
        free(copy);
        bytes += head;
        size -= head;
        /* To HEAD the body is missing: what follows is then the next reply, or nothing. */
        bool missing = size == 0 || (size >= 9 && memcmp(bytes, "HTTP/1.1 ", 9) == 0);
        if (stream || (until_close && !missing))
            return;
        if (body > 0 && missing)
            continue;
        if (body > size || (refused && memcmp(bytes, "{\"error\":{\"status\":", 19) != 0))
            abort();
        bytes += body;
        size -= body;
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static char answer[1 << 20];
    int pair[2];
    size_t answered = 0;
    if (!server)
        prepare();
    if (size < 1 || size > 60000)
        return 0;
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, pair) != 0)
        abort();
    size_t first = size > 1 ? 1 + data[0] % 128 * (size - 1) / 128 : 1;
    http_connection_open(server, &server->application, pair[0], "127.0.0.1");
    if (first > 1 && send(pair[1], data + 1, first - 1, MSG_NOSIGNAL) < 0)
        abort();
    turn();
    if (first < size)
        (void)!send(pair[1], data + first, size - first, MSG_NOSIGNAL);
    if (data[0] < 128)
        shutdown(pair[1], SHUT_WR);
    turn();
    /* An event that is kept looks like a leak to libFuzzer, which then looks through all memory: 10 ms. */
    if (events_counts(events).subscribers > 0)
        events_publish(events, "", "k", "d", NULL);
    for (int quiet = 0; quiet < 3;) {
        ssize_t got = recv(pair[1], answer + answered, sizeof answer - answered, 0);
        answered += got > 0 ? (size_t)got : 0;
        quiet = got > 0 ? 0 : quiet + 1;
        event_base_loop(server->base, EVLOOP_NONBLOCK);
    }
    check(answer, answered);
    close(pair[1]);
    turn();
    for (int i = 0; i < 100 && server->connection_count > 0; i++) {
        if (i > 10)
            http_connection_close(TAILQ_FIRST(&server->connections)); /* lingers, or waits for what does not come */
        turn();
    }
    if (server->connection_count > 0 || server->claimed > 0 || !LIST_EMPTY(&server->requests) ||
        events_counts(events).subscribers > 0)
        abort();
    return 0;
}
