/* SPDX-License-Identifier: Apache-2.0 */
/* Submit, stop, fork, promote and discard runs. */
#include "base/format/json_put.h"
#include "platform/registry/run/runs.h"
#include "platform/service/internal/run_submission.h"
#include "platform/service/internal/service_state.h"
#include "platform/service/runs/run_json.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/* ---- submit ---- */

static weft_status run_order_submit(struct route_call *call, struct json_writer *answer, struct error *error)
{
    struct run_submission submission = {.wanted = call->body, .project = call->project, .owner = call->who.user};
    weft_status status = run_submission_enter(call, &submission, error);
    if (status == WEFT_OK)
        run_submission_put(answer, &submission);
    return status;
}

static void submit_run(struct route_call *call)
{
    if (run_order_begin(call))
        service_write(call);
}

/* ---- fork and promote ---- */

/* The specification of a run as JSON that can be changed. */
static weft_status read_parent(struct database *registry, int64_t run, cJSON **wanted, struct error *error)
{
    struct run_specification specification;
    struct json_writer text;
    weft_status status = registry_run_specification(registry, run, &specification, error);
    if (status != WEFT_OK)
        return status;
    json_begin(&text, JSON_LINE);
    run_specification_write(&text, NULL, &specification);
    run_specification_free(&specification);
    status = json_text(&text) ? json_parse(json_text(&text), json_size(&text), "the run", wanted, error)
                              : error_memory(error, json_size(&text), "a run");
    json_end(&text);
    return status;
}

/* "arguments" replace all of the command except the program. */
static bool replace_arguments(cJSON *wanted, const cJSON *arguments)
{
    cJSON *command = cJSON_GetObjectItemCaseSensitive(wanted, "command"), *copy = cJSON_Duplicate(arguments, true);
    if (!copy)
        return false;
    while (cJSON_GetArraySize(command) > 1)
        cJSON_DeleteItemFromArray(command, 1);
    while (cJSON_GetArraySize(copy) > 0)
        cJSON_AddItemToArray(command, cJSON_DetachItemFromArray(copy, 0));
    cJSON_Delete(copy);
    return true;
}

static double run_order_number(const cJSON *wanted, const char *name)
{
    return cJSON_GetNumberValue(cJSON_GetObjectItemCaseSensitive(wanted, name)); /* NaN: it has none */
}

/* Settings in the body replace those of the parent. */
static weft_status replace(cJSON *wanted, const cJSON *body, int64_t parent, struct error *error)
{
    const cJSON *item;
    bool fits = true;
    cJSON_ArrayForEach(item, body) {
        if (strcmp(item->string, "arguments") == 0) {
            fits = fits && replace_arguments(wanted, item);
            continue;
        }
        if (strcmp(item->string, "resume") == 0) /* no setting */
            continue;
        cJSON *copy = cJSON_Duplicate(item, true);
        cJSON_DeleteItemFromObjectCaseSensitive(wanted, item->string);
        fits = fits && copy && cJSON_AddItemToObject(wanted, item->string, copy);
    }
    if (!cJSON_HasObjectItem(body, "min_nodes") &&
        run_order_number(wanted, "min_nodes") > run_order_number(wanted, "nodes"))
        cJSON_DeleteItemFromObjectCaseSensitive(wanted, "min_nodes"); /* on fewer nodes than the parent needed */
    cJSON_DeleteItemFromObjectCaseSensitive(wanted, "parent");
    fits = fits && cJSON_AddNumberToObject(wanted, "parent", (double)parent);
    return fits ? WEFT_OK : error_memory(error, 1024, "a run");
}

/* The planned run of an interactive one called NAME is NAME-planned, so that either can be called by its name. */
static bool name_planned(cJSON *wanted)
{
    char name[RUN_NAME_BYTES];
    const cJSON *old = cJSON_GetObjectItemCaseSensitive(wanted, "name");
    if (!cJSON_IsString(old) || !*old->valuestring ||
        snprintf(name, sizeof name, "%s-planned", old->valuestring) >= (int)sizeof name)
        return true;
    return run_wanted_set(wanted, "name", name);
}

/* The checkpoint of the parent that the body names; "": none. */
static const char *run_order_checkpoint_of(const struct route_call *call)
{
    const char *checkpoint = "";
    json_get_text(call->body, "checkpoint", "the body", &checkpoint, NULL);
    return checkpoint;
}

/* A checkpoint of the parent can be begun from as long as the parent has any. */
static weft_status check_checkpoint(struct database *registry, const struct route_call *call, struct error *error)
{
    struct registry_run run;
    weft_status status = registry_run_get(registry, route_value(call, "run")->integer, &run, error);
    if (status != WEFT_OK || !run.discarded || !*run_order_checkpoint_of(call))
        return status;
    return error_set(error, WEFT_ERROR_STATE, "run %" PRId64 " has no checkpoints any more: they were thrown away",
                     run.run);
}

/* The code was changed by hand, so it may differ from its commit. */
static bool set_code(cJSON *wanted, const char *snapshot)
{
    const char *before = cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(wanted, "snapshot"));
    const char *commit = cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(wanted, "commit"));
    if (commit && *commit && (!before || strcmp(before, snapshot) != 0)) {
        cJSON_DeleteItemFromObjectCaseSensitive(wanted, "commit_changed");
        if (!cJSON_AddTrueToObject(wanted, "commit_changed"))
            return false;
    }
    return run_wanted_set(wanted, "snapshot", snapshot);
}

/* A new run with the code and settings of another one. It starts from the beginning unless the body names a checkpoint. */
static weft_status derive(struct route_call *call, bool planned, struct json_writer *answer, struct error *error)
{
    int64_t parent = route_value(call, "run")->integer;
    const struct run_order *order = call->kept;
    struct run_submission submission = {.project = call->project, .owner = call->who.user, .secrets = order->secrets};
    if (cJSON_IsTrue(cJSON_GetObjectItemCaseSensitive(call->body, "resume")))
        submission.resumes = parent;
    weft_status status = check_checkpoint(service_registry(call), call, error);
    if (status == WEFT_OK)
        status = read_parent(service_registry(call), parent, &submission.wanted, error);
    if (status != WEFT_OK)
        return status;
    cJSON *wanted = submission.wanted, *interactive = cJSON_GetObjectItemCaseSensitive(wanted, "interactive");
    if (planned && !cJSON_IsTrue(interactive))
        status = error_set(error, WEFT_ERROR_STATE, "run %" PRId64 " is already a planned run: fork it", parent);
    if (planned && interactive)
        cJSON_ReplaceItemInObjectCaseSensitive(wanted, "interactive", cJSON_CreateFalse());
    if (status == WEFT_OK && planned && !name_planned(wanted))
        status = error_memory(error, RUN_NAME_BYTES, "a run");
    if (!run_wanted_set(wanted, "checkpoint", "") || (*order->snapshot && !set_code(wanted, order->snapshot)))
        status = error_memory(error, 64, "a run");
    if (status == WEFT_OK)
        status = replace(wanted, call->body, parent, error);
    if (status == WEFT_OK && *order->checkpoint && !run_wanted_set(wanted, "checkpoint", order->checkpoint))
        status = error_memory(error, sizeof order->checkpoint, "a run");
    if (status == WEFT_OK)
        status = run_submission_enter(call, &submission, error);
    if (status == WEFT_OK)
        run_submission_put(answer, &submission);
    cJSON_Delete(submission.wanted);
    return status;
}

static weft_status fork_it(struct route_call *call, struct json_writer *answer, struct error *error)
{
    return derive(call, false, answer, error);
}

static weft_status promote_it(struct route_call *call, struct json_writer *answer, struct error *error)
{
    return derive(call, true, answer, error);
}

static weft_status prepare_fork(struct route_call *call, struct json_writer *answer, struct error *error)
{
    struct run_order *order = call->kept;
    const char *named = run_order_checkpoint_of(call);
    return *named ? run_origin_find(writer_directories(service_of(call)->writer), route_value(call, "run")->integer,
                                    named, order->checkpoint, error)
                  : WEFT_OK;
}

static void order_prepared(struct route_call *call, weft_status status, const struct error *error)
{
    if (status != WEFT_OK)
        http_fail_error(call->request, error);
    else
        service_write(call);
}

static void fork_run(struct route_call *call)
{
    struct error error = {0};
    if (!run_order_begin(call))
        return;
    if (!*run_order_checkpoint_of(call))
        service_write(call);
    else if (check_checkpoint(service_of(call)->reader, call, &error) != WEFT_OK)
        http_fail_error(call->request, &error);
    else
        background_do(service_of(call)->reading, call, prepare_fork, order_prepared);
}

/* The code of an interactive run is what its directory holds now. */
static weft_status prepare_promotion(struct route_call *call, struct json_writer *answer, struct error *error)
{
    struct run_order *order = call->kept;
    struct snapshot taken = {.id = ""};
    weft_status status = prepare_fork(call, answer, error);
    if (status == WEFT_OK && writer_engine(service_of(call)->writer)->sends_files)
        status = error_set(error, WEFT_ERROR_STATE,
                           "the cluster has no shared directory: what was changed in the directory of run %" PRId64
                           " is on its node's own disk; fork the run, or submit that directory from there",
                           route_value(call, "run")->integer);
    if (status == WEFT_OK)
        status = run_origin_take(writer_directories(service_of(call)->writer), call->project,
                                 route_value(call, "run")->integer, order->owner, call->who.user, &taken, error);
    if (status == WEFT_OK) {
        snprintf(order->snapshot, sizeof order->snapshot, "%s", taken.id);
        order->secrets = taken.secrets;
    }
    return status;
}

/* What has no directory any more, or is no interactive run, the writer answers. */
static void promote_run(struct route_call *call)
{
    struct registry_run run;
    if (!run_order_begin(call) || !service_run(call, &run))
        return;
    struct run_order *order = call->kept;
    snprintf(order->owner, sizeof order->owner, "%s", run.owner);
    if (run.interactive && !run.discarded)
        background_do(service_of(call)->storing, call, prepare_promotion, order_prepared);
    else
        service_write(call);
}

/* ---- stop ---- */

static weft_status run_order_stop(struct route_call *call, struct json_writer *answer, struct error *error)
{
    int64_t number = route_value(call, "run")->integer;
    struct registry_run run;
    weft_status status =
        controller_cancel(writer_controller(service_of(call)->writer), number, call->who.user, writer_now(), error);
    if (status == WEFT_OK)
        status = registry_run_get(service_registry(call), number, &run, error);
    if (status != WEFT_OK)
        return status;
    JSON_PUT_OBJECT(answer, NULL, "run", number, "state", run_state_name(run.state));
    return WEFT_OK;
}

static void run_order_stop_run(struct route_call *call)
{
    struct registry_run run;
    if (service_run(call, &run) && service_may_change(call, &run))
        service_write(call);
}

/* ---- discard ---- */

static weft_status discard(struct route_call *call, struct json_writer *answer, struct error *error)
{
    int64_t number = route_value(call, "run")->integer;
    struct database *registry = service_registry(call);
    weft_status status = database_begin(registry, DATABASE_DURABLE, error);
    if (status != WEFT_OK)
        return status;
    status = registry_run_discard(registry, number, call->who.user,
                                  "what it left was thrown away: its directory, checkpoints and output", writer_now(),
                                  error);
    return database_end(registry, status, error);
}

static void discarded(struct route_call *call, weft_status status, const struct error *error)
{
    struct registry_run run;
    struct json_writer writer;
    if (status != WEFT_OK) {
        http_fail_error(call->request, error);
        return;
    }
    retention_look(service_of(call)->retention);
    if (!service_run(call, &run))
        return;
    json_begin(&writer, JSON_LINE);
    JSON_PUT_OBJECT(&writer, NULL, "run", run.run, "discarded", json_time(run.discarded));
    route_reply(call, &writer);
}

static void run_order_discard_run(struct route_call *call)
{
    struct registry_run run;
    if (service_run(call, &run) && service_may_change(call, &run))
        writer_do(service_of(call)->writer, call, discard, discarded);
}

/* ---- tables ---- */

static const struct route_parameter submit_parameters[] = {ROUTE_NAMED("project", "The project of the run."), {0}};

#define SUBMITS .response = "Submitted", .status = 201, .body_most = (size_t)4 << 20, .idempotent_key = true

static const struct route routes[] = {
    {.method = "POST",
     .path = "/api/v1/projects/{project}/runs",
     .operation = "submitRun",
     .summary = "Submit a run. The response is sent when the run is on disk.",
     .permission = ROUTE_MEMBER,
     .project_may_be_new = true,
     .parameters = submit_parameters,
     .request = "RunRequest",
     SUBMITS,
     .handler = submit_run,
     .work = run_order_submit},
    {.method = "POST",
     .path = "/api/v1/runs/{run}/stop",
     .operation = "stopRun",
     .summary = "End a run for good: SIGTERM, its grace period, SIGKILL.",
     .permission = ROUTE_MEMBER,
     SERVICE_OF_RUN,
     .response = "Stopped",
     .handler = run_order_stop_run,
     .work = run_order_stop},
    {.method = "POST",
     .path = "/api/v1/runs/{run}/discard",
     .operation = "discardRun",
     .summary = "Delete the files of an ended run: its directory, checkpoints and output. Its metrics and events "
                "stay.",
     .permission = ROUTE_MEMBER,
     SERVICE_OF_RUN,
     .response = "Discarded",
     .handler = run_order_discard_run},
    {.method = "POST",
     .path = "/api/v1/runs/{run}/fork",
     .operation = "forkRun",
     .summary = "Submit a new run with the code and the settings of this one, except for those in the body.",
     .permission = ROUTE_MEMBER,
     SERVICE_OF_RUN,
     .request = "RunChange",
     SUBMITS,
     .handler = fork_run,
     .work = fork_it},
    {.method = "POST",
     .path = "/api/v1/runs/{run}/promote",
     .operation = "promoteRun",
     .summary =
         "Submit a planned run with the settings of this interactive run and the code that is now in its directory.",
     .permission = ROUTE_MEMBER,
     SERVICE_OF_RUN,
     .request = "RunChange",
     SUBMITS,
     .handler = promote_run,
     .work = promote_it},
};

/* clang-format off */
/* What can be asked for, as properties of both. */
#define SETTINGS SCHEMA("command": {"type": "array", "minItems": 1, "items": {"type": "string"},                      \
    "description": "The program and its arguments."},                                                                 \
    "name": {"type": "string", "description": "A display name: one line, and not digits only, which are a run's number."}, \
    "environment": {"type": "object", "additionalProperties": {"type": "string"}},                                    \
    "secrets": {"type": "array", "items": {"type": "string"},                                                        \
        "description": "Secrets of the owner or the project that become variables: NAME or NAME=VARIABLE."},          \
    "nodes": {"type": "integer", "minimum": 1, "description": "The number of hosts on which it runs."},               \
    "min_nodes": {"type": "integer", "minimum": 0, "description": "So many suffice: the attempt goes on when other nodes are lost. 0: all are needed."}, \
    "slots": {"type": "integer", "minimum": 1, "description": "GPUs, or CPU slots, on each host."},                   \
    "slot_kind": {"type": "string", "enum": ["gpu", "cpu"], "description": "Default, and always on simulated hosts (weft serve --pods): the kind that the cluster has."}, \
    "launch": {"type": "string", "enum": ["ranks", "nodes", "first"],\
               "description": "The command is started as a rank on every slot, on every node, or on the first."},      \
    "processors": {"type": "integer", "minimum": 0, "description": "Processors that each node may use; 0: those of its slots."}, \
    "memory": {"type": "integer", "minimum": 0, "description": "Bytes that each node may use; 0: the share of its slots."}, \
    "processes": {"type": "integer", "minimum": 0, "description": "Processes and threads that each node may have; 0: 1024 per slot."}, \
    "disk": {"type": "integer", "minimum": 0,                                                                         \
             "description": "Bytes that its directories may take on disk; 0: the default of the server."},            \
    "time_limit": {"description": "The time limit of each attempt: 6h, or seconds. Default: a day."},                 \
    "time_slice": {"description": "The time that it may run before others get their turn."},                          \
    "preemptible": {"type": "boolean", "description": "May be stopped at a checkpoint and run again later."},         \
    "may_span_pods": {"type": "boolean"}, "interactive": {"type": "boolean"},                                         \
    "priority": {"type": "integer", "minimum": -100, "maximum": 100},                                                 \
    "retries": {"type": "integer", "minimum": 0,                                                                       \
                "description": "The number of retries after failures of its program: after 1 s, 2 s, 4 s ... at most a minute."}, \
    "class": {"type": "string", "description": "Limits are set by class."},                                           \
    "snapshot": {"type": "string", "description": "The snapshot of the code, as uploaded."},                          \
    "checkpoint": {"type": "string", "description": "The checkpoint of the parent from which it starts."},            \
    "commit": {"type": "string", "description": "The git commit of the code."},                                       \
    "commit_changed": {"type": "boolean", "description": "The code differs from that commit, or has files that are not in it."})

static const struct schema schemas[] = {
    {"RunRequest", "{\"type\": \"object\", \"required\": [\"command\"], \"additionalProperties\": false, \"properties\": {" SETTINGS
                   "}}"},
    {"RunChange", "{\"type\": \"object\", \"additionalProperties\": false, \"properties\": {" SETTINGS ", "
                  SCHEMA("arguments": {"type": "array", "items": {"type": "string"},
                                       "description": "Replaces all arguments of the command."},
                         "resume": {"type": "boolean",
                                    "description": "It continues this run; refused while another run does."}) "}}"},
    {"Submitted", SCHEMA({"type": "object", "required": ["run"], "properties": {
        "run": {"type": "integer"},
        "again": {"type": "boolean", "description": "It was already submitted with the same Idempotency-Key."},
        "project_made": {"type": "boolean", "description": "The project was created by this request."},
        "secrets_left_out": {"type": "integer",
                             "description": "Files in the directory of a promoted run that look like secrets; absent if none."},
        "limited": {"type": "string", "description": "A message if its class allows less time than requested; otherwise absent."},
        "storage": {"type": "string", "description": "A message if hosts share no storage; otherwise absent."}}})},
    {"Discarded", SCHEMA({"type": "object", "properties": {"run": {"type": "integer"}, "discarded": {"type": "integer"}}})},
    {"Stopped", SCHEMA({"type": "object", "properties": {"run": {"type": "integer"}, "state": {"type": "string"}}})},
};
/* clang-format on */

const struct route_table run_order_routes = ROUTE_TABLE("runs");
