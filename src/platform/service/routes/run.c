/* SPDX-License-Identifier: Apache-2.0 */
/* Runs: the list, one run, its events. */
#include "base/format/json_put.h"
#include "platform/registry/run/list.h"
#include "platform/service/internal/service_state.h"
#include "platform/service/runs/run_json.h"

#include <stdlib.h>
#include <string.h>

/* Its disk use and quota; null while unknown. */
static void routes_run_put_disk(struct json_writer *writer, const struct route_call *call, int64_t run)
{
    uint64_t bytes, quota;
    const bool measured = disk_use_run(writer_disk(service_of(call)->writer)->use, run, &bytes, &quota);
    JSON_PUT(writer, "disk_bytes", json_known(measured, (int64_t)bytes), "disk_quota",
             json_known(quota != 0, (int64_t)quota));
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

static void routes_run_list_runs(struct route_call *call)
{
    struct service *service = service_of(call);
    struct registry_filter filter = {.viewer = service_viewer(call),
                                     .project = service_text_given(call, "project"),
                                     .owner = service_text_given(call, "owner"),
                                     .class_name = service_text_given(call, "class"),
                                     .search = service_text_given(call, "search"),
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
    json_open_list(&writer, "runs");
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

static weft_status show_run(struct route_call *call, struct json_writer *answer, struct error *error)
{
    struct database *reader = service_of(call)->reader;
    struct run_specification specification;
    struct registry_run run;
    weft_status status = registry_run_get(reader, route_value(call, "run")->integer, &run, error);
    if (status == WEFT_OK)
        status = registry_run_specification(reader, run.run, &specification, error);
    if (status != WEFT_OK)
        return status;
    json_open_object(answer, NULL);
    run_json_put(answer, &run);
    routes_run_put_disk(answer, call, run.run);
    run_specification_write(answer, "specification", &specification);
    run_specification_free(&specification);
    status = run_json_put_attempts(answer, "attempts", reader, run.run, error);
    json_close(answer);
    return status;
}

static weft_status list_run_events(struct route_call *call, struct json_writer *answer, struct error *error)
{
    size_t most = (size_t)route_value(call, "most")->integer, count = 0;
    struct registry_event *events = NULL;
    weft_status status = registry_run_events(service_of(call)->reader, route_value(call, "run")->integer,
                                             route_value(call, "after")->integer, most + 1, &events, &count, error);
    json_open_list(answer, "events");
    for (size_t i = 0; status == WEFT_OK && i < count && i < most; i++) {
        json_open_object(answer, NULL);
        run_json_put_event(answer, &events[i]);
        json_close(answer);
    }
    json_close_page(answer, count > most);
    free(events);
    return status;
}

/* ---- tables ---- */

static const struct route_parameter list_parameters[] = {
    ROUTE_NAMED("project", "Only runs of this project."),
    ROUTE_NAMED("owner", "Only runs of this user."),
    ROUTE_NAMED("class", "Only runs of this class."),
    {.name = "state",
     .type = ROUTE_CHOICE,
     .choices = run_state_choices,
     .meaning = "Only runs in this state; live: in any state that is not final; over: in a final state."},
    {.name = "search",
     .least = 1,
     .most = 128,
     .meaning = "Only runs with this text in their name, project or owner, or with this number."},
    ROUTE_BEFORE("Only runs of smaller numbers: the last of the page before."),
    ROUTE_NUMBERED("most", 1, REGISTRY_PAGE_MOST, "100", "How many at most."),
    TABLE_ANSWER_PARAMETER,
    {0}};
static const struct route_parameter event_parameters[] = {SERVICE_RUN_PARAMETER,
                                                          ROUTE_AFTER("Only events of larger numbers."),
                                                          ROUTE_NUMBERED("most", 1, 1000, "200", "How many at most."),
                                                          {0}};

static const struct route routes[] = {
    {.method = "GET",
     .path = "/api/v1/runs",
     .operation = "listRuns",
     .summary = "The runs of all projects that you may see, newest first.",
     .permission = ROUTE_USER,
     .parameters = list_parameters,
     .response = "Runs",
     .produces_also = TABLE_ANSWER_CSV,
     .handler = routes_run_list_runs},
    {.method = "GET",
     .path = "/api/v1/runs/{run}",
     .operation = "showRun",
     .summary = "A run: its specification and its attempts.",
     .permission = ROUTE_VIEWER,
     SERVICE_OF_RUN,
     .response = "Run",
     .handler = service_read,
     .work = show_run},
    {.method = "GET",
     .path = "/api/v1/runs/{run}/events",
     .operation = "listRunEvents",
     .summary = "Every change of a run with its reason, oldest first.",
     .permission = ROUTE_VIEWER,
     .parameters = event_parameters,
     .project_of = service_project_of_run,
     .response = "RunEvents",
     .handler = service_read,
     .work = list_run_events},
};

/* clang-format off */
static const struct schema schemas[] = {
    {"Runs", SCHEMA({"type": "object", "required": ["runs", "more"], "properties": {
        "runs": {"type": "array", "items": {"$ref": "#/components/schemas/Run"}},
        "more": {"type": "boolean", "description": "Whether another page follows."},
        "trouble": {"type": "string", "nullable": true, "description": "Why no run is started at present; null: runs are started."},
        "counts": {"type": "object", "description": "The number of runs in each state, on all pages, of those that match all filters except the state.",
                   "additionalProperties": {"type": "integer"}}}})},
    {"RunEvents", SCHEMA({"type": "object", "required": ["events", "more"], "properties": {
        "events": {"type": "array", "items": {"$ref": "#/components/schemas/RunEvent"}},
        "more": {"type": "boolean"}}})},
    {"Run", RUN_JSON_RUN}, {"Attempt", RUN_JSON_ATTEMPT}, {"Node", RUN_JSON_NODE}, {"RunEvent", RUN_JSON_EVENT},
};
/* clang-format on */

const struct route_table run_routes = ROUTE_TABLE("runs");
