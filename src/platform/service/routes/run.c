/* SPDX-License-Identifier: Apache-2.0 */
/* Runs, to be looked at. */
#include "platform/registry/run/list.h"
#include "platform/service/internal/schema_text.h"
#include "platform/service/internal/service_state.h"
#include "platform/service/internal/table_answer.h"
#include "platform/service/runs/run_json.h"

#include <stdlib.h>
#include <string.h>

/* What it takes on disk, and may take; null where it was not measured. */
static void routes_run_put_disk(struct json_writer *writer, const struct route_call *call, int64_t run)
{
    uint64_t bytes, quota;
    const bool measured = disk_use_run(writer_disk(service_of(call)->writer)->use, run, &bytes, &quota);
    if (measured)
        json_put_unsigned(writer, "disk_bytes", bytes);
    else
        json_put_tree(writer, "disk_bytes", NULL);
    if (quota)
        json_put_unsigned(writer, "disk_quota", quota);
    else
        json_put_tree(writer, "disk_quota", NULL);
}

/* ---- the list ---- */

static void put_counts(struct json_writer *writer, const int64_t counts[RUN_STATES])
{
    json_open_object(writer, "counts");
    for (int state = 0; state < RUN_STATES; state++)
        json_put_integer(writer, run_state_name((enum run_state)state), counts[state]);
    json_close(writer);
}

static unsigned states_of(const struct route_value *value)
{
    enum run_state state;
    if (!value->given)
        return 0;
    return run_state_find(value->text, &state) ? REGISTRY_STATE(state)
           : strcmp(value->text, "live") == 0  ? REGISTRY_LIVE
                                               : ((1u << RUN_STATES) - 1) & ~REGISTRY_LIVE;
}

static const char *text_or_null(const struct route_call *call, const char *name)
{
    const struct route_value *value = route_value(call, name);
    return value->given ? value->text : NULL;
}

static void routes_run_list_runs(struct route_call *call)
{
    struct service *service = service_of(call);
    struct registry_filter filter = {.viewer = service_viewer(call),
                                     .project = text_or_null(call, "project"),
                                     .owner = text_or_null(call, "owner"),
                                     .class_name = text_or_null(call, "class"),
                                     .search = text_or_null(call, "search"),
                                     .states = states_of(route_value(call, "state")),
                                     .beyond = route_value(call, "before")->integer,
                                     .most = (size_t)route_value(call, "most")->integer};
    struct registry_run *runs = NULL;
    int64_t counts[RUN_STATES] = {0};
    struct json_writer writer;
    struct error error = {0};
    size_t count = 0;
    bool more = false;
    if (*call->who.project && !filter.project)
        filter.project = call->who.project;
    weft_status status = WEFT_OK;
    if (!*call->who.project || strcmp(filter.project, call->who.project) == 0) {
        status = registry_run_list(service->reader, &filter, &runs, &count, &more, &error);
        if (status == WEFT_OK)
            status = registry_run_counts(service->reader, &filter, counts, &error);
    }
    json_begin(&writer, JSON_LINE);
    json_open_object(&writer, NULL);
    json_open_array(&writer, "runs");
    for (size_t i = 0; i < count; i++) {
        json_open_object(&writer, NULL);
        run_json_put(&writer, &runs[i]);
        routes_run_put_disk(&writer, call, runs[i].run);
        json_close(&writer);
    }
    json_close(&writer);
    json_put_bool(&writer, "more", more);
    put_counts(&writer, counts);
    service_put_trouble(&writer, service);
    json_close(&writer);
    free(runs);
    table_answer(call, status, &writer, "runs", run_json_columns, &error);
}

/* ---- one of them ---- */

static void routes_run_show_run(struct route_call *call)
{
    struct database *reader = service_of(call)->reader;
    struct run_specification specification;
    struct registry_run run;
    struct json_writer writer;
    struct error error = {0};
    if (!service_run(call, &run))
        return;
    json_begin(&writer, JSON_LINE);
    json_open_object(&writer, NULL);
    run_json_put(&writer, &run);
    routes_run_put_disk(&writer, call, run.run);
    weft_status status = registry_run_specification(reader, run.run, &specification, &error);
    if (status == WEFT_OK) {
        run_specification_write(&writer, "specification", &specification);
        run_specification_free(&specification);
        status = run_json_put_attempts(&writer, "attempts", reader, run.run, &error);
    }
    json_close(&writer);
    service_answer(call, status, &writer, &error);
}

static void list_run_events(struct route_call *call)
{
    size_t most = (size_t)route_value(call, "most")->integer, count = 0;
    struct registry_event *events = NULL;
    struct json_writer writer;
    struct error error = {0};
    weft_status status = registry_run_events(service_of(call)->reader, route_value(call, "run")->integer,
                                             route_value(call, "after")->integer, most + 1, &events, &count, &error);
    json_begin(&writer, JSON_LINE);
    json_open_object(&writer, NULL);
    json_open_array(&writer, "events");
    for (size_t i = 0; status == WEFT_OK && i < count && i < most; i++) {
        json_open_object(&writer, NULL);
        run_json_put_event(&writer, &events[i]);
        json_close(&writer);
    }
    json_close(&writer);
    json_put_bool(&writer, "more", count > most);
    json_close(&writer);
    if (status == WEFT_OK)
        free(events);
    service_answer(call, status, &writer, &error);
}

/* ---- tables ---- */

static const struct route_parameter list_parameters[] = {
    {.name = "project", .type = ROUTE_NAME, .meaning = "Only runs of this project."},
    {.name = "owner", .type = ROUTE_NAME, .meaning = "Only runs of this user."},
    {.name = "class", .type = ROUTE_NAME, .meaning = "Only runs of this class."},
    {.name = "state",
     .type = ROUTE_CHOICE,
     .choices = run_state_choices,
     .meaning = "Only runs in this state; live: in any that is not final; over: in one that is."},
    {.name = "search",
     .least = 1,
     .most = 128,
     .meaning = "Only runs with this in their name, project or owner, or of this number."},
    {.name = "before",
     .type = ROUTE_INTEGER,
     .least = 0,
     .most = 1e15,
     .fallback = "0",
     .meaning = "Only runs of smaller numbers: the last of the page before."},
    {.name = "most",
     .type = ROUTE_INTEGER,
     .least = 1,
     .most = REGISTRY_PAGE_MOST,
     .fallback = "100",
     .meaning = "How many at most."},
    TABLE_ANSWER_PARAMETER,
    {0}};
static const struct route_parameter run_parameters[] = {SERVICE_RUN_PARAMETER, {0}};
static const struct route_parameter event_parameters[] = {SERVICE_RUN_PARAMETER,
                                                          {.name = "after",
                                                           .type = ROUTE_INTEGER,
                                                           .least = 0,
                                                           .most = 1e15,
                                                           .fallback = "0",
                                                           .meaning = "Only events of larger numbers."},
                                                          {.name = "most",
                                                           .type = ROUTE_INTEGER,
                                                           .least = 1,
                                                           .most = 1000,
                                                           .fallback = "200",
                                                           .meaning = "How many at most."},
                                                          {0}};

static const struct route routes[] = {
    {.method = "GET",
     .path = "/api/v1/runs",
     .operation = "listRuns",
     .tag = "runs",
     .summary = "Runs of all projects that you may see, newest first.",
     .permission = ROUTE_USER,
     .parameters = list_parameters,
     .response = "Runs",
     .produces_also = TABLE_ANSWER_CSV,
     .handler = routes_run_list_runs},
    {.method = "GET",
     .path = "/api/v1/runs/{run}",
     .operation = "showRun",
     .tag = "runs",
     .summary = "A run: what was asked for, and its attempts.",
     .permission = ROUTE_VIEWER,
     .parameters = run_parameters,
     .project_of = service_project_of_run,
     .response = "Run",
     .handler = routes_run_show_run},
    {.method = "GET",
     .path = "/api/v1/runs/{run}/events",
     .operation = "listRunEvents",
     .tag = "runs",
     .summary = "Every change of a run with its reason, oldest first.",
     .permission = ROUTE_VIEWER,
     .parameters = event_parameters,
     .project_of = service_project_of_run,
     .response = "RunEvents",
     .handler = list_run_events},
};

/* clang-format off */
static const struct schema schemas[] = {
    {"Runs", SCHEMA({"type": "object", "required": ["runs", "more"], "properties": {
        "runs": {"type": "array", "items": {"$ref": "#/components/schemas/Run"}},
        "more": {"type": "boolean", "description": "Whether another page follows."},
        "trouble": {"type": "string", "nullable": true, "description": "Why nothing is started at the moment."},
        "counts": {"type": "object", "description": "How many runs are in each state, of those that the filters let through but for that of states; of all pages.",
                   "additionalProperties": {"type": "integer"}}}})},
    {"RunEvents", SCHEMA({"type": "object", "required": ["events", "more"], "properties": {
        "events": {"type": "array", "items": {"$ref": "#/components/schemas/RunEvent"}},
        "more": {"type": "boolean"}}})},
    {"Run", RUN_JSON_RUN}, {"Attempt", RUN_JSON_ATTEMPT}, {"Node", RUN_JSON_NODE}, {"RunEvent", RUN_JSON_EVENT},
};
/* clang-format on */

const struct route_table run_routes = {.routes = routes,
                                       .route_count = sizeof routes / sizeof *routes,
                                       .schemas = schemas,
                                       .schema_count = sizeof schemas / sizeof *schemas};
