/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Commands in the nodes of runs, for the owner of the run and the managers of its project: started here, used while
 * they run. Only the user who began one may use it, with the same token.
 */
#include "platform/access/access.h"
#include "platform/service/internal/accounts.h"
#include "platform/service/internal/exec_session.h"
#include "platform/service/internal/service_state.h"

#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SESSIONS_MOST 256
#define INPUT_MOST    ((size_t)1 << 20)
#define WORDS_MOST    4096

/* What is kept with a call that begins a command. */
struct routes_exec_beginning {
    struct service *service;
    struct attempt attempt;
    uint32_t node;
    char **command, **environment; /* end with NULL; the texts of the first are the body's */
    struct exec_session *session;
    char words[AUDIT_TARGET_BYTES]; /* of the command, as far as there is room */
};

static void free_texts(char **texts)
{
    for (char **text = texts; texts && *text; text++)
        free(*text);
    free(texts);
}

/* The call is over, and the command with it. */
static void routes_exec_release(void *kept)
{
    struct routes_exec_beginning *beginning = kept;
    struct service *service = beginning->service;
    for (struct exec_session **at = &service->sessions; *at; at = &(*at)->next)
        if (*at == beginning->session) {
            *at = beginning->session->next;
            service->session_count--;
            break;
        }
    exec_session_free(beginning->session);
    free(beginning->command);
    free_texts(beginning->environment);
    free(beginning);
}

/* ---- what is asked for ---- */

static weft_status routes_exec_read_environment(struct routes_exec_beginning *beginning, const cJSON *given,
                                                struct error *error)
{
    int count = cJSON_GetArraySize(given), used = 0;
    const cJSON *item;
    if (count > WORDS_MOST)
        return error_set(error, WEFT_ERROR_ARGUMENT, "there are %d environment variables, but at most %d are allowed",
                         count, WORDS_MOST);
    beginning->environment = calloc((size_t)count + 1, sizeof(char *));
    if (!beginning->environment)
        return error_memory(error, (size_t)count * sizeof(char *), "a command");
    cJSON_ArrayForEach(item, given) {
        size_t name = strlen(item->string), value = strlen(item->valuestring);
        if (name == 0 || strchr(item->string, '='))
            return error_set(error, WEFT_ERROR_ARGUMENT, "'%.80s' cannot be the name of an environment variable",
                             item->string);
        char *text = malloc(name + value + 2);
        if (!text)
            return error_memory(error, name + value + 2, "a command");
        memcpy(text, item->string, name);
        text[name] = '=';
        memcpy(text + name + 1, item->valuestring, value + 1);
        beginning->environment[used++] = text;
    }
    return WEFT_OK;
}

static weft_status routes_exec_read_body(struct route_call *call, struct routes_exec_beginning *beginning,
                                         struct error *error)
{
    const cJSON *body = call->body, *command = cJSON_GetObjectItemCaseSensitive(body, "command"), *item;
    const cJSON *rows = cJSON_GetObjectItemCaseSensitive(body, "rows"),
                *columns = cJSON_GetObjectItemCaseSensitive(body, "columns");
    int used = 0;
    beginning->command = calloc((size_t)cJSON_GetArraySize(command) + 1, sizeof(char *));
    if (!beginning->command)
        return error_memory(error, (size_t)cJSON_GetArraySize(command) * sizeof(char *), "a command");
    cJSON_ArrayForEach(item, command) {
        const size_t length = strlen(beginning->words);
        snprintf(beginning->words + length, sizeof beginning->words - length, "%s%s", used ? " " : "",
                 item->valuestring);
        beginning->command[used++] = item->valuestring;
    }
    call->detail = beginning->words;
    weft_status status =
        routes_exec_read_environment(beginning, cJSON_GetObjectItemCaseSensitive(body, "environment"), error);
    if (status != WEFT_OK)
        return status;
    const struct node_exec_order order = {.command = beginning->command,
                                          .environment = beginning->environment,
                                          .terminal = cJSON_IsTrue(cJSON_GetObjectItemCaseSensitive(body, "terminal"))};
    status = exec_session_new(call, &order, rows ? (unsigned)rows->valuedouble : 24,
                              columns ? (unsigned)columns->valuedouble : 80, &beginning->session, error);
    if (status == WEFT_OK)
        accounts_give_ends(writer_directories(beginning->service->writer)->runs, route_value(call, "run")->integer,
                           beginning->session->given, 3);
    return status;
}

/* ---- beginning ---- */

/* On the writer's thread, whose the engine is. */
static weft_status ask_engine(struct route_call *call, struct json_writer *answer, struct error *error)
{
    struct routes_exec_beginning *beginning = call->kept;
    struct engine *engine = writer_engine(service_of(call)->writer);
    return engine->exec(engine, &beginning->attempt, beginning->node, &beginning->session->order,
                        &beginning->session->exec, error);
}

static void asked(struct route_call *call, weft_status status, const struct error *error)
{
    struct routes_exec_beginning *beginning = call->kept;
    struct service *service = beginning->service;
    if (status != WEFT_OK) {
        http_fail_error(call->request, error);
        return;
    }
    beginning->session->next = service->sessions;
    service->sessions = beginning->session;
    service->session_count++;
    route_note(call, 200);
    exec_session_begin(beginning->session);
}

bool service_may_enter_node(struct route_call *call, struct registry_run *run)
{
    const int64_t node = route_value(call, "node")->integer;
    if (!service_run(call, run) || !service_may_change(call, run))
        return false;
    if (node >= run->nodes) {
        http_fail(call->request, 404, "run %" PRId64 " has no node %" PRId64 ": its last one is %" PRId64, run->run,
                  node, run->nodes - 1);
        return false;
    }
    if (run_state_is_active(run->state) && run->state != RUN_PLACED)
        return true;
    http_fail(call->request, 409, "run %" PRId64 " does not run: it %s %s", run->run,
              run->state == RUN_SUCCEEDED || run->state == RUN_FAILED ? "has" : "is", run_state_name(run->state));
    return false;
}

static void exec_in_node(struct route_call *call)
{
    struct service *service = service_of(call);
    struct registry_run run;
    struct error error = {0};
    const int64_t node = route_value(call, "node")->integer;
    if (!service_may_enter_node(call, &run))
        return;
    if (service->session_count >= SESSIONS_MOST) {
        http_fail(call->request, 503, "%u commands are already running in nodes; end one, or try again later",
                  service->session_count);
        return;
    }
    struct routes_exec_beginning *beginning = calloc(1, sizeof *beginning);
    if (!beginning) {
        http_fail(call->request, 503, "the server is out of memory at the moment");
        return;
    }
    *beginning = (struct routes_exec_beginning){
        .service = service, .attempt = {.epoch = (uint64_t)run.epoch}, .node = (uint32_t)node};
    snprintf(beginning->attempt.run, sizeof beginning->attempt.run, "%" PRId64, run.run);
    call->kept = beginning;
    call->release = routes_exec_release;
    if (routes_exec_read_body(call, beginning, &error) != WEFT_OK)
        http_fail_error(call->request, &error);
    else
        writer_do(service->writer, call, ask_engine, asked);
}

static bool still_in_node(const struct route_call *call)
{
    struct registry_run run;
    return registry_run_get(service_of(call)->reader, route_value(call, "run")->integer, &run, NULL) == WEFT_OK &&
           service_is_changer(call, &run);
}

/* ---- speaking to it ---- */

/* NULL: answered. */
static struct exec_session *routes_exec_find(struct route_call *call)
{
    const char *name = route_value(call, "session")->text;
    for (struct exec_session *session = service_of(call)->sessions; session; session = session->next)
        if (strcmp(session->name, name) == 0 && strcmp(session->user, call->who.user) == 0 &&
            strcmp(session->token, call->who.token) == 0)
            return session;
    http_fail(call->request, 404, "you have no such session: its command has ended");
    return NULL;
}

static void routes_exec_write_input(struct route_call *call)
{
    struct exec_session *session = routes_exec_find(call);
    if (session)
        exec_session_write(session, call, route_value(call, "end")->truth);
}

static unsigned routes_exec_number_of(const struct route_call *call, const char *key)
{
    return (unsigned)cJSON_GetObjectItemCaseSensitive(call->body, key)->valuedouble;
}

static void resize(struct route_call *call)
{
    struct error error = {0};
    struct exec_session *session = routes_exec_find(call);
    if (session)
        service_answer_done(call,
                            exec_session_resize(session, routes_exec_number_of(call, "rows"),
                                                routes_exec_number_of(call, "columns"), &error),
                            &error);
}

static void send_signal(struct route_call *call)
{
    static const struct {
        const char *name;
        int number;
    } signals[] = {{"INT", SIGINT},   {"TERM", SIGTERM}, {"HUP", SIGHUP},   {"QUIT", SIGQUIT}, {"KILL", SIGKILL},
                   {"USR1", SIGUSR1}, {"USR2", SIGUSR2}, {"TSTP", SIGTSTP}, {"CONT", SIGCONT}};
    struct error error = {0};
    const char *wanted = cJSON_GetObjectItemCaseSensitive(call->body, "signal")->valuestring;
    int number = 0;
    for (size_t i = 0; i < ARRAY_SIZE(signals); i++)
        number = strcmp(signals[i].name, wanted) == 0 ? signals[i].number : number;
    struct exec_session *session = routes_exec_find(call);
    if (session)
        service_answer_done(call, exec_session_signal(session, number, &error), &error);
}

/* ---- tables ---- */

#define SESSION                                                                                                        \
    {                                                                                                                  \
        .name = "session", .least = 32, .most = 32, .meaning = "From the first line of the command's stream."          \
    }
const struct route_parameter service_node_parameters[] = {
    SERVICE_RUN_PARAMETER, ROUTE_NUMBERED("node", 0, 65535, NULL, "Which node, from 0 on."), {0}};
static const struct route_parameter session_parameters[] = {SESSION, {0}};
static const struct route_parameter input_parameters[] = {SESSION, ROUTE_FLAG("end", "The input ends with this."), {0}};

static const struct route routes[] = {
    {.method = "POST",
     .path = "/api/v1/runs/{run}/nodes/{node}/exec",
     .operation = "execInNode",
     .summary =
         "Run a command next to a run's own on one of its nodes. The response streams its output and its exit code.",
     .permission = ROUTE_MEMBER,
     .parameters = service_node_parameters,
     .project_of = service_project_of_run,
     .request = "ExecRequest",
     .response = "ExecFrame",
     .produces = "application/x-ndjson",
     .still = still_in_node,
     .handler = exec_in_node},
    {.method = "POST",
     .path = "/api/v1/sessions/{session}/input",
     .operation = "writeInput",
     .summary = "Write to a command's input. The response is sent when the command has read it.",
     .permission = ROUTE_USER,
     .parameters = input_parameters,
     .consumes = "application/octet-stream",
     .body_most = INPUT_MOST,
     .unnoted = true,
     .handler = routes_exec_write_input},
    {.method = "POST",
     .path = "/api/v1/sessions/{session}/resize",
     .operation = "resizeTerminal",
     .summary = "Resize a command's terminal.",
     .permission = ROUTE_USER,
     .parameters = session_parameters,
     .request = "TerminalSize",
     .unnoted = true,
     .handler = resize},
    {.method = "POST",
     .path = "/api/v1/sessions/{session}/signal",
     .operation = "signalCommand",
     .summary = "Send a signal to a command and its descendants.",
     .permission = ROUTE_USER,
     .parameters = session_parameters,
     .request = "Signal",
     .handler = send_signal},
};

/* clang-format off */
static const struct schema schemas[] = {
    {"ExecRequest", SCHEMA({"type": "object", "required": ["command"], "additionalProperties": false, "properties": {
        "command": {"type": "array", "minItems": 1, "maxItems": 4096, "items": {"type": "string", "maxLength": 131072}},
        "environment": {"type": "object", "additionalProperties": {"type": "string"},
                        "description": "Added to the node's environment."},
        "terminal": {"type": "boolean", "description": "Run it on a terminal, for interactive use."},
        "rows": {"type": "integer", "minimum": 1, "maximum": 10000},
        "columns": {"type": "integer", "minimum": 1, "maximum": 10000}}})},
    {"ExecFrame", SCHEMA({"type": "object", "description": "A line of the stream; empty ones are to be passed over.",
        "properties": {
        "session": {"type": "string", "description": "In the first line: the session's id for further requests."},
        "stream": {"type": "integer", "description": "1: standard output, 2: standard error."},
        "data": {"type": "string", "format": "byte", "description": "Output, in base64."},
        "exit": {"type": "integer", "description": "In the last line: the exit code; 127 together with an error: the command cannot be run."},
        "signal": {"type": "integer", "description": "The signal that ended it; 0: none."},
        "error": {"type": "string", "description": "In the last line instead: the reason for which no exit code is known."}}})},
    {"TerminalSize", SCHEMA({"type": "object", "required": ["rows", "columns"], "additionalProperties": false,
        "properties": {"rows": {"type": "integer", "minimum": 1, "maximum": 10000},
                       "columns": {"type": "integer", "minimum": 1, "maximum": 10000}}})},
    {"Signal", SCHEMA({"type": "object", "required": ["signal"], "additionalProperties": false, "properties": {
        "signal": {"type": "string",
                   "enum": ["INT", "TERM", "HUP", "QUIT", "KILL", "USR1", "USR2", "TSTP", "CONT"]}}})},
};
/* clang-format on */

const struct route_table exec_routes = ROUTE_TABLE("sessions");
