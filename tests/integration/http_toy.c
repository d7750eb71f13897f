/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A server with toy routes, for the tests and the bench of the HTTP server: prints its address, a JSON line of tokens
 * where it was asked for them, and serves until its standard input ends.
 */
#include "base/clock.h"
#include "platform/access/tokens.h"
#include "platform/http/events_stream.h"
#include "platform/http/route/route.h"

#include <malloc.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define TOKENS_MOST 16

static struct {
    struct events_stream *events;
    struct http_server *server;
    struct token_record tokens[TOKENS_MOST];
    size_t token_count;
    _Atomic unsigned audited, late;
    struct route_call *held; /* NULL: none */
} toy;

static void reply_text(struct route_call *call, const char *key, const char *text)
{
    struct json_writer writer;
    json_begin(&writer, JSON_LINE);
    json_open_object(&writer, NULL);
    json_put_text(&writer, key, text);
    json_close(&writer);
    route_reply(call, &writer);
}

static void echo(struct route_call *call)
{
    struct json_writer writer;
    json_begin(&writer, JSON_LINE);
    json_open_object(&writer, NULL);
    json_put_text(&writer, "text", route_value(call, "text")->text);
    json_put_integer(&writer, "count", route_value(call, "count")->integer);
    json_put_bool(&writer, "loud", route_value(call, "loud")->truth);
    json_put_text(&writer, "color", route_value(call, "color")->text);
    json_put_text(&writer, "user", call->who.user);
    json_close(&writer);
    route_reply(call, &writer);
}

static void show_thing(struct route_call *call)
{
    reply_text(call, "name", route_value(call, "thing")->text);
}

static void special_thing(struct route_call *call)
{
    reply_text(call, "name", "the special one");
}

static void make_thing(struct route_call *call)
{
    const char *name = NULL;
    struct error error = {0};
    if (json_get_text(call->body, "name", "the body", &name, &error) != WEFT_OK)
        http_fail_error(call->request, &error);
    else
        reply_text(call, "name", call->idempotency_key ? call->idempotency_key : name);
}

static void remove_thing(struct route_call *call)
{
    http_reply(call->request, 204, NULL, NULL, 0);
}

static void keep_blob(struct route_call *call)
{
    size_t size;
    struct json_writer writer;
    if (route_value(call, "held")->truth && toy.held != call) { /* answered when somebody says so */
        toy.held = call;
        return;
    }
    http_request_body(call->request, &size);
    json_begin(&writer, JSON_LINE);
    json_open_object(&writer, NULL);
    json_put_unsigned(&writer, "bytes", size);
    json_close(&writer);
    route_reply(call, &writer);
}

/* Answered by another thread, later. */
struct late {
    struct route_call *call;
    struct http_posted posted;
};

static void finish_late(void *context)
{
    struct late *late = context;
    reply_text(late->call, "name", "late");
    free(late);
}

static void *wait_then_answer(void *context)
{
    struct late *late = context;
    usleep(200000);
    if (!http_post(toy.server, &late->posted, finish_late, late))
        free(late);
    toy.late--;
    return NULL;
}

static void answer_late(struct route_call *call)
{
    pthread_t thread;
    struct late *late = calloc(1, sizeof *late);
    if (!late)
        exit(1);
    late->call = call;
    toy.late++;
    if (pthread_create(&thread, NULL, wait_then_answer, late) == 0)
        pthread_detach(thread);
    else
        exit(1);
}

static void let_blob_go(struct route_call *call)
{
    if (toy.held)
        keep_blob(toy.held);
    toy.held = NULL;
    remove_thing(call);
}

static void send_bytes(struct route_call *call)
{
    size_t size = (size_t)route_value(call, "bytes")->integer;
    char *bytes = malloc(size);
    memset(bytes, 'x', size);
    http_reply_kept(call->request, 200, "application/octet-stream", bytes, size, free, bytes);
}

/* A stream of `bytes` zeros, written as they are read. */
struct flow {
    struct http_request *request;
    int64_t left;
};

static void flow_on(void *context)
{
    static const char zeros[16384];
    struct flow *flow = context;
    while (flow->left > 0 && http_stream_queued(flow->request) < 65536) {
        size_t size = flow->left < (int64_t)sizeof zeros ? (size_t)flow->left : sizeof zeros;
        flow->left -= (int64_t)size;
        http_stream_write(flow->request, zeros, size);
    }
    if (flow->left == 0) {
        http_stream_end(flow->request);
        free(flow);
    }
}

static void flow(struct route_call *call)
{
    struct flow *made = malloc(sizeof *made);
    *made = (struct flow){call->request, route_value(call, "bytes")->integer};
    http_stream_begin(call->request, 200, "application/octet-stream",
                      &(struct http_stream_events){.drained = flow_on, .closed = free, .context = made});
    flow_on(made);
}

static bool wants_kind(void *context, const char *topic, const char *kind)
{
    return strcmp(context, kind) == 0;
}

static void subscribe(struct route_call *call)
{
    const struct route_value *kind = route_value(call, "kind");
    events_subscribe(toy.events, call->request, route_value(call, "after")->text, kind->given ? wants_kind : NULL,
                     kind->given ? strdup(kind->text) : NULL, free);
}

static void publish(struct route_call *call)
{
    const char *kind = "toy", *data = "";
    char id[EVENTS_ID_BYTES];
    struct error error = {0};
    int64_t count = route_value(call, "count")->integer;
    weft_status status = WEFT_OK;
    json_get_text(call->body, "kind", "", &kind, NULL);
    json_get_text(call->body, "data", "", &data, NULL);
    while (status == WEFT_OK && count-- > 0)
        status = events_publish(toy.events, "", kind, data, &error);
    events_newest(toy.events, id);
    if (status != WEFT_OK)
        http_fail_error(call->request, &error);
    else
        reply_text(call, "id", id);
}

static void show_counts(struct route_call *call)
{
    struct http_counts counts = http_counts(toy.server);
    struct events_counts events = events_counts(toy.events);
    struct json_writer writer;
    json_begin(&writer, JSON_LINE);
    json_open_object(&writer, NULL);
    json_put_unsigned(&writer, "connections", counts.connections);
    json_put_unsigned(&writer, "refused", counts.refused);
    json_put_unsigned(&writer, "timeouts", counts.timeouts);
    json_put_unsigned(&writer, "streams", counts.streams);
    json_put_unsigned(&writer, "body_bytes", counts.body_bytes);
    json_put_unsigned(&writer, "subscribers", events.subscribers);
    json_put_unsigned(&writer, "delivered", events.delivered);
    json_put_unsigned(&writer, "missed", events.missed);
    json_put_unsigned(&writer, "memory",
                      mallinfo2().uordblks); /* bytes in use; resident ones depend on fragmentation */
    json_put_unsigned(&writer, "audited", toy.audited);
    json_put_number(&writer, "cpu_seconds", (double)clock_process_cpu() * 1e-9);
    json_close(&writer);
    route_reply(call, &writer);
}

static void show_project(struct route_call *call)
{
    reply_text(call, "name", call->project);
}

/* Runs named a-N are of project alpha, b-N of beta; there are no others. */
static bool project_of_run(const struct route_call *call, char project[PLATFORM_NAME_BYTES])
{
    const char *run = route_value(call, "run")->text;
    snprintf(project, PLATFORM_NAME_BYTES, "%s", run[0] == 'a' ? "alpha" : "beta");
    return (run[0] == 'a' || run[0] == 'b') && run[1] == '-';
}

static const char *const colors[] = {"red", "green", NULL};
static const struct route_parameter echo_parameters[] = {
    {.name = "text", .required = true, .meaning = "What to say."},
    {.name = "count", .type = ROUTE_INTEGER, .least = 1, .most = 100, .fallback = "3", .meaning = "How often."},
    {.name = "loud", .type = ROUTE_BOOL, .fallback = "false", .meaning = "Whether to shout."},
    {.name = "color", .type = ROUTE_CHOICE, .choices = colors, .meaning = "A color."},
    {0}};
static const struct route_parameter thing_parameters[] = {{.name = "thing", .type = ROUTE_NAME, .meaning = "Its name."},
                                                          {0}};
static const struct route_parameter blob_parameters[] = {
    {.name = "held", .type = ROUTE_BOOL, .fallback = "false", .meaning = "Answer when letBlobGo says so."}, {0}};
static const struct route_parameter bytes_parameters[] = {
    {.name = "bytes", .type = ROUTE_INTEGER, .least = 0, .most = 1e9, .fallback = "1000", .meaning = "How many."}, {0}};
static const struct route_parameter event_parameters[] = {
    {.name = "kind", .type = ROUTE_NAME, .meaning = "Only events of this kind."},
    {.name = "after", .meaning = "The id of the last event seen."},
    {0}};
static const struct route_parameter publish_parameters[] = {
    {.name = "count", .type = ROUTE_INTEGER, .least = 1, .most = 100000, .fallback = "1", .meaning = "How often."},
    {0}};
static const struct route_parameter project_parameters[] = {
    {.name = "project", .type = ROUTE_NAME, .meaning = "The project."}, {0}};
static const struct route_parameter run_parameters[] = {{.name = "run", .type = ROUTE_NAME, .meaning = "The run."},
                                                        {0}};

#define TOY(m, p, o, s) .method = (m), .path = (p), .operation = (o), .summary = (s)
static const struct route routes[] = {
    {TOY("GET", "/api/v1/echo", "echo", "Say it again."), .permission = ROUTE_USER, .parameters = echo_parameters,
     .response = "Echo", .handler = echo},
    {TOY("GET", "/api/v1/things/{thing}", "showThing", "A thing."), .permission = ROUTE_USER,
     .parameters = thing_parameters, .response = "Name", .handler = show_thing},
    {TOY("GET", "/api/v1/things/special", "specialThing", "The special thing."), .permission = ROUTE_USER,
     .response = "Name", .handler = special_thing},
    {TOY("POST", "/api/v1/things", "makeThing", "Make a thing."), .permission = ROUTE_USER, .request = "Thing",
     .response = "Name", .status = 201, .idempotent_key = true, .handler = make_thing},
    {TOY("DELETE", "/api/v1/things/{thing}", "removeThing", "Remove a thing."), .permission = ROUTE_USER,
     .parameters = thing_parameters, .status = 204, .handler = remove_thing},
    {TOY("POST", "/api/v1/blobs", "keepBlob", "Keep bytes."), .permission = ROUTE_USER, .parameters = blob_parameters,
     .consumes = "application/octet-stream", .response = "Kept", .body_most = 8 << 20, .handler = keep_blob},
    {TOY("DELETE", "/api/v1/blobs", "letBlobGo", "Answer who keeps bytes that are held."), .permission = ROUTE_USER,
     .status = 204, .handler = let_blob_go},
    {TOY("GET", "/api/v1/late", "answerLate", "Answered after 0.2 s."), .permission = ROUTE_USER, .response = "Name",
     .handler = answer_late},
    {TOY("GET", "/api/v1/bytes", "sendBytes", "Bytes, all at once."), .permission = ROUTE_USER,
     .parameters = bytes_parameters, .produces = "application/octet-stream", .handler = send_bytes},
    {TOY("GET", "/api/v1/flow", "flow", "Bytes, as they are read."), .permission = ROUTE_USER,
     .parameters = bytes_parameters, .produces = "application/octet-stream", .handler = flow},
    {TOY("GET", "/api/v1/events", "readEvents", "Events."), .permission = ROUTE_USER, .parameters = event_parameters,
     .produces = "text/event-stream", .handler = subscribe},
    {TOY("POST", "/api/v1/events", "publishEvent", "Publish an event."), .permission = ROUTE_USER,
     .parameters = publish_parameters, .request = "Event", .response = "Id", .status = 201, .handler = publish},
    {TOY("GET", "/api/v1/counts", "showCounts", "What the server has done."), .permission = ROUTE_OPEN,
     .produces = "application/json", .handler = show_counts},
    {TOY("GET", "/api/v1/projects/{project}", "showProject", "A project."), .permission = ROUTE_VIEWER,
     .parameters = project_parameters, .response = "Name", .handler = show_project},
    {TOY("PUT", "/api/v1/projects/{project}", "changeProject", "Change a project."), .permission = ROUTE_MANAGER,
     .parameters = project_parameters, .request = "Thing", .response = "Name", .handler = show_project},
    {TOY("POST", "/api/v1/runs/{run}/stop", "stopRun", "Stop a run."), .permission = ROUTE_MEMBER,
     .parameters = run_parameters, .response = "Name", .project_of = project_of_run, .handler = show_project},
    {TOY("GET", "/api/v1/users", "listUsers", "All users."), .permission = ROUTE_ADMINISTRATOR, .response = "Name",
     .handler = special_thing},
};

static const struct schema schemas[] = {
    {"Name", "{\"type\":\"object\",\"required\":[\"name\"],\"properties\":{\"name\":{\"type\":\"string\"}},"
             "\"additionalProperties\":false}"},
    {"Id", "{\"type\":\"object\",\"required\":[\"id\"],\"properties\":{\"id\":{\"type\":\"string\"}}}"},
    {"Kept", "{\"type\":\"object\",\"required\":[\"bytes\"],\"properties\":{\"bytes\":{\"type\":\"integer\"}}}"},
    {"Echo", "{\"type\":\"object\",\"required\":[\"text\",\"count\"],\"properties\":{\"text\":{\"type\":\"string\"},"
             "\"count\":{\"type\":\"integer\"}}}"},
    {"Event", "{\"type\":\"object\",\"required\":[\"kind\",\"data\"],\"properties\":{\"kind\":{\"type\":\"string\","
              "\"minLength\":1,\"maxLength\":63},\"data\":{\"type\":\"string\"}},\"additionalProperties\":false}"},
    {"Size", "{\"type\":\"integer\",\"minimum\":1,\"maximum\":10}"},
    {"Thing",
     "{\"type\":\"object\",\"required\":[\"name\"],\"additionalProperties\":false,\"properties\":{"
     "\"name\":{\"type\":\"string\",\"minLength\":1,\"maxLength\":20},\"size\":{\"$ref\":\"#/components/schemas/"
     "Size\"},"
     "\"color\":{\"type\":\"string\",\"enum\":[\"red\",\"green\"]},\"parts\":{\"type\":\"array\",\"maxItems\":3,"
     "\"items\":{\"$ref\":\"#/components/schemas/Thing\"}},\"note\":{\"type\":\"string\",\"nullable\":true}}}"},
};

/* ---- tokens, in memory ---- */

static weft_status insert_token(void *context, const struct token_record *record, struct error *error)
{
    if (toy.token_count == TOKENS_MOST)
        return error_set(error, WEFT_ERROR_MEMORY, "too many tokens");
    toy.tokens[toy.token_count++] = *record;
    return WEFT_OK;
}

static bool find_token(void *context, const char *id, struct token_record *record)
{
    for (size_t i = 0; i < toy.token_count; i++)
        if (strcmp(toy.tokens[i].id, id) == 0) {
            *record = toy.tokens[i];
            return true;
        }
    return false;
}

static const struct token_store token_store = {.insert = insert_token, .find = find_token};

static bool identify(void *context, const char *token, struct identity *who)
{
    return tokens_identify(&token_store, token, time(NULL), who);
}

static bool still(void *context, struct identity *who)
{
    return tokens_still(&token_store, time(NULL), who);
}

/* anna manages alpha and looks at beta; ben is a member of beta. */
static enum role role_of(void *context, const struct identity *who, const char *project)
{
    bool alpha = strcmp(project, "alpha") == 0, beta = strcmp(project, "beta") == 0;
    if (strcmp(who->user, "anna") == 0)
        return alpha ? ROLE_MANAGER : beta ? ROLE_VIEWER : ROLE_NONE;
    return strcmp(who->user, "ben") == 0 && beta ? ROLE_MEMBER : ROLE_NONE;
}

static bool project_is_there(void *context, const char *project)
{
    return strcmp(project, "nowhere") != 0;
}

static void answered(void *context, const struct route_call *call, unsigned status)
{
    toy.audited++;
}

static void print_tokens(void)
{
    struct token_record wanted[] = {
        {.user = "anna", .most = ROLE_MANAGER},
        {.user = "ben", .most = ROLE_MANAGER},
        {.user = "anna", .most = ROLE_VIEWER, .project = "alpha"},
        {.user = "anna", .most = ROLE_MANAGER, .ends = time(NULL) + 1},
        {.user = "root", .most = ROLE_MANAGER, .administrator = true},
    };
    static const char *const names[] = {"anna", "ben", "anna_alpha_viewer", "anna_ends", "root"};
    struct json_writer writer;
    json_begin(&writer, JSON_LINE);
    json_open_object(&writer, NULL);
    for (size_t i = 0; i < sizeof wanted / sizeof *wanted; i++) {
        char text[TOKEN_TEXT_BYTES];
        struct error error = {0};
        if (tokens_make(&token_store, &wanted[i], time(NULL), text, &error) != WEFT_OK)
            exit(fprintf(stderr, "%s\n", error.text));
        json_put_text(&writer, names[i], text);
    }
    json_close(&writer);
    json_print(&writer, stdout, NULL);
    json_end(&writer);
}

#define PAGE(path, text)                                                                                               \
    {                                                                                                                  \
        path, text, sizeof text - 1                                                                                    \
    }
static const struct static_file toy_pages[] = {PAGE("/index.html", "<h1>Weft</h1>"), PAGE("/js/app.js", "1"),
                                               PAGE("/a b.txt", "x")};

/* NAME=VALUE ...: what the tests set. */
static void read_option(const char *option, struct http_config *http, struct router_config *routing,
                        struct events_config *events, bool *pages)
{
    const char *value = strchr(option, '=');
    size_t length = value ? (size_t)(value - option) : strlen(option);
    double number = value ? atof(value + 1) : 0;
#define IS(name) (strlen(name) == length && strncmp(option, name, length) == 0)
    if (IS("host"))
        http->host = value + 1;
    else if (IS("certificate"))
        http->certificate = value + 1;
    else if (IS("key"))
        http->key = value + 1;
    else if (IS("tokens"))
        http->tokens = routing->access.tokens = true;
    else if (IS("pages"))
        *pages = true;
    else if (IS("rate"))
        routing->rate = number;
    else if (IS("burst"))
        routing->burst = number;
    else if (IS("connections"))
        http->limits.connections = (uint32_t)number;
    else if (IS("address"))
        http->limits.address_connections = (uint32_t)number;
    else if (IS("bodies"))
        http->limits.bodies_bytes = (size_t)number;
    else if (IS("head"))
        http->limits.head_seconds = number;
    else if (IS("idle"))
        http->limits.idle_seconds = number;
    else if (IS("stall"))
        http->limits.stall_seconds = number;
    else if (IS("heartbeat"))
        events->heartbeat_seconds = number;
    else if (IS("ring"))
        events->count_most = (uint32_t)number;
    else
        exit(fprintf(stderr, "unknown option %s\n", option));
#undef IS
}

int main(int argc, char **argv)
{
    struct error error = {0};
    struct router *router = NULL;
    struct static_files *files = NULL;
    struct events_config events = {0};
    bool pages = false;
    char address[320], byte;
    struct router_config routing = {.access = {.local = {.user = "toy", .most = ROLE_MANAGER, .administrator = true},
                                               .identify = identify,
                                               .still = still,
                                               .role_of = role_of,
                                               .project_is_there = project_is_there,
                                               .answered = answered},
                                    .rate = -1,
                                    .title = "Toys"};
    struct http_config http = {0};
    const struct route_table table = ROUTE_TABLE("toy");
    for (int i = 1; i < argc; i++)
        read_option(argv[i], &http, &routing, &events, &pages);
    weft_status status = events_new(&events, &toy.events, &error);
    if (status == WEFT_OK && pages)
        status = static_files_new(&files, &error);
    for (size_t i = 0; status == WEFT_OK && pages && i < sizeof toy_pages / sizeof *toy_pages; i++)
        status = static_files_add(files, &toy_pages[i], &error);
    routing.pages = files;
    if (status == WEFT_OK)
        status = router_new(&routing, &router, &error);
    if (status == WEFT_OK)
        status = router_add(router, &table, &error);
    if (status == WEFT_OK)
        status = router_finish(router, &error);
    if (status == WEFT_OK) {
        http.application = router_application(router);
        status = http_open(&http, &toy.server, &error);
    }
    if (status == WEFT_OK) {
        events_attach(toy.events, toy.server);
        printf("%s\n", http_address(toy.server, address, sizeof address));
        if (routing.access.tokens)
            print_tokens();
        status = http_start(toy.server, &error);
    }
    if (status == WEFT_OK) {
        fflush(stdout);
        while (read(STDIN_FILENO, &byte, 1) > 0)
            ;
    } else {
        fprintf(stderr, "%s\n", error.text);
    }
    while (toy.late > 0)
        usleep(1000);
    http_stop(toy.server);
    events_free(toy.events);
    router_free(router);
    static_files_free(files);
    return status == WEFT_OK ? 0 : 1;
}
