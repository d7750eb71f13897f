/* SPDX-License-Identifier: Apache-2.0 */
/* What is done to runs: submitted, stopped, forked, promoted, discarded. */
#include "platform/registry_projects.h"
#include "platform/registry_run_discard.h"
#include "platform/run_owner.h"
#include "service/accounts.h"
#include "service/run_json.h"
#include "service/run_origin.h"
#include "service/schema_text.h"
#include "service/service_state.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* What a submission is about: its specification as JSON, and what it has led to. */
struct submission {
    cJSON *wanted;
    const char *project, *owner;
    int64_t run;
    int64_t resumes; /* the run that it goes on with: one at a time may; 0: none */
    bool again, project_made;
    char limited[REGISTRY_DETAIL_BYTES]; /* to less time than it asks for: a sentence; "" if it is not */
};

/* What a call brings along that asks for a run: call->kept. */
struct order {
    struct registry_key key;                    /* text: NULL where there is none */
    char snapshot[RUN_SNAPSHOT_BYTES];          /* of the code that was tried by hand; "" */
    char checkpoint[RUN_CHECKPOINT_NAME_BYTES]; /* of the parent, by its own name; "" */
};

static bool set_text(cJSON *object, const char *key, const char *value)
{
    cJSON_DeleteItemFromObjectCaseSensitive(object, key);
    return cJSON_AddStringToObject(object, key, value) != NULL;
}

/* Runs are named by either: who means one run by its number is not to hit another one by its name. */
static weft_status check_name(const struct run_specification *specification, struct error *error)
{
    const char *name = specification->name;
    if (!*name || name[strspn(name, "0123456789")])
        return WEFT_OK;
    return error_set(error, WEFT_ERROR_ARGUMENT,
                     "the run's name is '%s', and what has digits alone is the number of a run: put a letter to it",
                     name);
}

static weft_status check_kind(const struct run_specification *specification, const struct keeper_slots *slots,
                              struct error *error)
{
    if (specification->slot_kind == slots->kind)
        return WEFT_OK;
    return slots->kind == SLOT_CPU
               ? error_set(error, WEFT_ERROR_STATE,
                           "the run asks for GPUs, and there are none here: the %" PRId64
                           " slots of this cluster are processors; ask for them with --slots %" PRId64,
                           slots->slots, specification->slots)
               : error_set(error, WEFT_ERROR_STATE, "the run asks for CPU slots, and all slots here are GPUs");
}

/* Read what is wanted, with what follows from who asks and from what this cluster has. */
static weft_status read_wanted(struct keeper *keeper, const struct submission *submission,
                               struct run_specification *specification, struct error *error)
{
    cJSON *wanted = submission->wanted;
    struct keeper_slots slots = keeper_slots(keeper);
    bool chosen = cJSON_HasObjectItem(wanted, "slot_kind");
    if (!set_text(wanted, "project", submission->project) || !set_text(wanted, "owner", submission->owner) ||
        (!chosen && !set_text(wanted, "slot_kind", slot_kind_name(slots.kind))))
        return error_memory(error, 64, "a run");
    weft_status status = run_specification_read(wanted, "the run", specification, error);
    if (status != WEFT_OK)
        return status;
    if (slots.pretended)
        specification->slot_kind = slots.kind; /* what would be GPUs elsewhere */
    status = check_name(specification, error);
    if (status == WEFT_OK)
        status = check_kind(specification, &slots, error);
    if (status != WEFT_OK)
        run_specification_free(specification);
    return status;
}

/* Where one person has the server for themselves, a project is made when it is first named. */
static weft_status make_project(struct keeper *keeper, struct submission *submission, struct error *error)
{
    struct registry_project project;
    if (registry_project_get(keeper_registry(keeper), submission->project, &project, NULL) == WEFT_OK)
        return WEFT_OK;
    submission->project_made = true;
    return registry_project_make(keeper_registry(keeper), submission->project, "", submission->owner, keeper_now(),
                                 error);
}

/* Whether the run has less time than it asks for. */
static weft_status say_limited(struct database *registry, int64_t asked, struct submission *submission,
                               struct error *error)
{
    struct registry_run run;
    weft_status status = registry_run_get(registry, submission->run, &run, error);
    if (status == WEFT_OK && run.time_limit < asked)
        controller_limit_say(run.time_limit, run.class_name, submission->limited, sizeof submission->limited);
    return status;
}

/* Two runs that go on with the same one would do the same work twice. */
static weft_status check_resumed(struct database *registry, const struct submission *submission, struct error *error)
{
    int64_t other = 0;
    weft_status status = submission->resumes && !submission->again
                             ? registry_run_twin(registry, submission->run, &other, error)
                             : WEFT_OK;
    return status != WEFT_OK || !other
               ? status
               : error_set(error, WEFT_ERROR_STATE,
                           "run %" PRId64 " goes on already, as run %" PRId64 ": stop that first, or fork run %" PRId64
                           " to have another one beside it",
                           submission->resumes, other, submission->resumes);
}

static weft_status submit_wanted(struct keeper *keeper, struct route_call *call, struct submission *submission,
                                 struct error *error)
{
    struct database *registry = keeper_registry(keeper);
    const struct order *order = call->kept;
    struct run_specification specification;
    int64_t now = keeper_now();
    char account[REGISTRY_ACCOUNT_BYTES];
    weft_status status =
        run_owner_of_user(registry, submission->owner, accounts_own_user(service_of(call)), account, error);
    if (status == WEFT_OK)
        status = read_wanted(keeper, submission, &specification, error);
    if (status != WEFT_OK)
        return status;
    status = run_origin_check(keeper_folders(keeper), &specification, error);
    if (status == WEFT_OK)
        status = database_begin(registry, DATABASE_DURABLE, error);
    if (status == WEFT_OK) {
        if (strcmp(submission->project, submission->owner) == 0)
            status = registry_project_personal(registry, submission->owner, now, error);
        else if (!service_of(call)->tokens)
            status = make_project(keeper, submission, error);
        if (status == WEFT_OK)
            status = controller_check(keeper_controller(keeper), &specification, error);
        if (status == WEFT_OK)
            status = registry_run_submit(registry, &specification, order->key.text ? &order->key : NULL, now,
                                         &submission->run, &submission->again, error);
        if (status == WEFT_OK)
            status = check_resumed(registry, submission, error);
        status = database_end(registry, status, error);
    }
    const int64_t asked = specification.time_limit;
    run_specification_free(&specification);
    /* It is in the registry, and will be run: nobody is to be told otherwise. */
    struct error trouble = {0};
    if (status == WEFT_OK && !submission->again &&
        controller_submitted(keeper_controller(keeper), submission->run, now, &trouble) != WEFT_OK)
        keeper_doubt(keeper, &trouble);
    return status == WEFT_OK ? say_limited(registry, asked, submission, error) : status;
}

static void put_submission(struct json_writer *answer, const struct submission *submission)
{
    json_open_object(answer, NULL);
    json_put_integer(answer, "run", submission->run);
    json_put_bool(answer, "again", submission->again);
    json_put_bool(answer, "project_made", submission->project_made);
    if (*submission->limited)
        json_put_text(answer, "limited", submission->limited);
    json_close(answer);
}

/* ---- before the keeper is asked --------------------------------------------------------------------------------- */

/* The digest of what is asked for: not of what that means now, which may be something else when it is asked again. */
static weft_status read_key(struct route_call *call, struct registry_key *key, struct error *error)
{
    struct json_writer asked;
    weft_status status = WEFT_OK;
    if (!call->idempotency_key)
        return WEFT_OK;
    json_begin(&asked, JSON_LINE);
    json_open_object(&asked, NULL);
    json_put_text(&asked, "path", http_request_path(call->request));
    json_put_tree(&asked, "body", call->body);
    json_close(&asked);
    status = json_text(&asked) ? registry_key_make(call->idempotency_key, asked.text, asked.length, key, error)
                               : error_memory(error, asked.room, "a request");
    json_end(&asked);
    return status;
}

/* Make the order of a call. False: it is answered, with an error or with the run that the same key has made. */
static bool begin_order(struct route_call *call)
{
    struct order *order = calloc(1, sizeof *order);
    struct submission submission = {.again = true};
    struct json_writer writer;
    struct error error = {0};
    if (!order) {
        http_fail(call->request, 503, "the server is out of memory at the moment");
        return false;
    }
    call->kept = order;
    call->release = free;
    weft_status status = read_key(call, &order->key, &error);
    if (status == WEFT_OK && order->key.text)
        status = registry_key_find(service_of(call)->reader, call->who.user, &order->key, &submission.run, &error);
    if (status != WEFT_OK) {
        http_fail_error(call->request, &error);
        return false;
    }
    if (!submission.run)
        return true;
    json_begin(&writer, JSON_LINE);
    put_submission(&writer, &submission);
    route_reply(call, &writer);
    return false;
}

/* ---- submit ----------------------------------------------------------------------------------------------------- */

static weft_status submit(struct keeper *keeper, struct route_call *call, struct json_writer *answer,
                          struct error *error)
{
    struct submission submission = {.wanted = call->body, .project = call->project, .owner = call->who.user};
    weft_status status = submit_wanted(keeper, call, &submission, error);
    if (status == WEFT_OK)
        put_submission(answer, &submission);
    return status;
}

static void submit_run(struct route_call *call)
{
    if (begin_order(call))
        keeper_do(service_of(call)->keeper, call, submit);
}

/* ---- fork and promote ------------------------------------------------------------------------------------------- */

/* The specification of a run as JSON that can be changed. */
static weft_status read_parent(struct keeper *keeper, int64_t run, cJSON **wanted, struct error *error)
{
    struct run_specification specification;
    struct json_writer text;
    weft_status status = registry_run_specification(keeper_registry(keeper), run, &specification, error);
    if (status != WEFT_OK)
        return status;
    json_begin(&text, JSON_LINE);
    run_specification_write(&text, NULL, &specification);
    run_specification_free(&specification);
    status = json_text(&text) ? json_parse(text.text, text.length, "the run", wanted, error)
                              : error_memory(error, text.room, "a run");
    json_end(&text);
    return status;
}

/* "arguments" stand for all of the command but the program. */
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

/* What the body says goes before what the parent was. */
static weft_status replace(cJSON *wanted, const cJSON *body, int64_t parent, struct error *error)
{
    const cJSON *item;
    bool fits = true;
    cJSON_ArrayForEach(item, body)
    {
        if (strcmp(item->string, "arguments") == 0) {
            fits = fits && replace_arguments(wanted, item);
            continue;
        }
        if (strcmp(item->string, "resume") == 0) /* says how, not what */
            continue;
        cJSON *copy = cJSON_Duplicate(item, true);
        cJSON_DeleteItemFromObjectCaseSensitive(wanted, item->string);
        fits = fits && copy && cJSON_AddItemToObject(wanted, item->string, copy);
    }
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
    return set_text(wanted, "name", name);
}

/* The checkpoint of the parent that the body names; "": none. */
static const char *checkpoint_of(const struct route_call *call)
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
    if (status != WEFT_OK || !run.discarded || !*checkpoint_of(call))
        return status;
    return error_set(error, WEFT_ERROR_STATE, "run %" PRId64 " has no checkpoints any more: they were thrown away",
                     run.run);
}

/* The code is what was made of it by hand: no longer what the commit has. */
static bool set_code(cJSON *wanted, const char *snapshot)
{
    const char *before = cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(wanted, "snapshot"));
    const char *commit = cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(wanted, "commit"));
    if (commit && *commit && (!before || strcmp(before, snapshot) != 0)) {
        cJSON_DeleteItemFromObjectCaseSensitive(wanted, "commit_changed");
        if (!cJSON_AddTrueToObject(wanted, "commit_changed"))
            return false;
    }
    return set_text(wanted, "snapshot", snapshot);
}

/* A new run with the code and settings of another one. Begun anew unless the body names a checkpoint. */
static weft_status derive(struct keeper *keeper, struct route_call *call, bool planned, struct json_writer *answer,
                          struct error *error)
{
    int64_t parent = route_value(call, "run")->integer;
    const struct order *order = call->kept;
    struct submission submission = {.project = call->project, .owner = call->who.user};
    if (cJSON_IsTrue(cJSON_GetObjectItemCaseSensitive(call->body, "resume")))
        submission.resumes = parent;
    weft_status status = check_checkpoint(keeper_registry(keeper), call, error);
    if (status == WEFT_OK)
        status = read_parent(keeper, parent, &submission.wanted, error);
    if (status != WEFT_OK)
        return status;
    cJSON *wanted = submission.wanted, *interactive = cJSON_GetObjectItemCaseSensitive(wanted, "interactive");
    if (planned && !cJSON_IsTrue(interactive))
        status = error_set(error, WEFT_ERROR_STATE, "run %" PRId64 " is a planned one already: fork it", parent);
    if (planned && interactive)
        cJSON_ReplaceItemInObjectCaseSensitive(wanted, "interactive", cJSON_CreateFalse());
    if (status == WEFT_OK && planned && !name_planned(wanted))
        status = error_memory(error, RUN_NAME_BYTES, "a run");
    if (!set_text(wanted, "checkpoint", "") || (*order->snapshot && !set_code(wanted, order->snapshot)))
        status = error_memory(error, 64, "a run");
    if (status == WEFT_OK)
        status = replace(wanted, call->body, parent, error);
    if (status == WEFT_OK && *order->checkpoint && !set_text(wanted, "checkpoint", order->checkpoint))
        status = error_memory(error, sizeof order->checkpoint, "a run");
    if (status == WEFT_OK)
        status = submit_wanted(keeper, call, &submission, error);
    if (status == WEFT_OK)
        put_submission(answer, &submission);
    cJSON_Delete(submission.wanted);
    return status;
}

static weft_status fork_it(struct keeper *keeper, struct route_call *call, struct json_writer *answer,
                           struct error *error)
{
    return derive(keeper, call, false, answer, error);
}

static weft_status promote_it(struct keeper *keeper, struct route_call *call, struct json_writer *answer,
                              struct error *error)
{
    return derive(keeper, call, true, answer, error);
}

static weft_status find_checkpoint(struct route_call *call, struct error *error)
{
    struct order *order = call->kept;
    const char *named = checkpoint_of(call);
    return *named ? run_origin_find(keeper_folders(service_of(call)->keeper), route_value(call, "run")->integer, named,
                                    order->checkpoint, error)
                  : WEFT_OK;
}

static weft_status prepare_fork(struct route_call *call, struct json_writer *answer, struct error *error)
{
    return find_checkpoint(call, error);
}

static void fork_prepared(struct route_call *call, weft_status status, const struct error *error)
{
    if (status != WEFT_OK)
        http_fail_error(call->request, error);
    else
        keeper_do(service_of(call)->keeper, call, fork_it);
}

static void fork_run(struct route_call *call)
{
    struct error error = {0};
    if (!begin_order(call))
        return;
    if (!*checkpoint_of(call))
        keeper_do(service_of(call)->keeper, call, fork_it);
    else if (check_checkpoint(service_of(call)->reader, call, &error) != WEFT_OK)
        http_fail_error(call->request, &error);
    else
        background_do(service_of(call)->reading, call, prepare_fork, fork_prepared);
}

/* What was tried by hand is in the folder of the interactive run: its code as it is now. */
static weft_status prepare_promotion(struct route_call *call, struct json_writer *answer, struct error *error)
{
    struct order *order = call->kept;
    weft_status status = find_checkpoint(call, error);
    return status == WEFT_OK ? run_origin_take(keeper_folders(service_of(call)->keeper), call->project,
                                               route_value(call, "run")->integer, order->snapshot, error)
                             : status;
}

static void promotion_prepared(struct route_call *call, weft_status status, const struct error *error)
{
    if (status != WEFT_OK)
        http_fail_error(call->request, error);
    else
        keeper_do(service_of(call)->keeper, call, promote_it);
}

/* What has no folder any more, or is no interactive run, the keeper answers. */
static void promote_run(struct route_call *call)
{
    struct registry_run run;
    if (!begin_order(call) || !service_run(call, &run))
        return;
    if (run.interactive && !run.discarded)
        background_do(service_of(call)->storing, call, prepare_promotion, promotion_prepared);
    else
        keeper_do(service_of(call)->keeper, call, promote_it);
}

/* ---- stop ------------------------------------------------------------------------------------------------------- */

static weft_status stop(struct keeper *keeper, struct route_call *call, struct json_writer *answer, struct error *error)
{
    int64_t number = route_value(call, "run")->integer;
    struct registry_run run;
    weft_status status = controller_cancel(keeper_controller(keeper), number, call->who.user, keeper_now(), error);
    if (status == WEFT_OK)
        status = registry_run_get(keeper_registry(keeper), number, &run, error);
    if (status != WEFT_OK)
        return status;
    json_open_object(answer, NULL);
    json_put_integer(answer, "run", number);
    json_put_text(answer, "state", run_state_name(run.state));
    json_close(answer);
    return WEFT_OK;
}

static void stop_run(struct route_call *call)
{
    struct registry_run run;
    if (service_run(call, &run) && service_may_change(call, &run))
        keeper_do(service_of(call)->keeper, call, stop);
}

/* ---- discard ---------------------------------------------------------------------------------------------------- */

static weft_status discard(struct keeper *keeper, struct route_call *call, struct json_writer *answer,
                           struct error *error)
{
    int64_t number = route_value(call, "run")->integer;
    struct database *registry = keeper_registry(keeper);
    weft_status status = database_begin(registry, DATABASE_DURABLE, error);
    if (status != WEFT_OK)
        return status;
    status =
        registry_run_discard(registry, number, call->who.user,
                             "what it left was thrown away: its folder, checkpoints and output", keeper_now(), error);
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
    json_open_object(&writer, NULL);
    json_put_integer(&writer, "run", run.run);
    json_put_time(&writer, "discarded", run.discarded);
    json_close(&writer);
    route_reply(call, &writer);
}

static void discard_run(struct route_call *call)
{
    struct registry_run run;
    if (service_run(call, &run) && service_may_change(call, &run))
        keeper_do_then(service_of(call)->keeper, call, discard, discarded);
}

/* ---- tables ----------------------------------------------------------------------------------------------------- */

static const struct route_parameter submit_parameters[] = {
    {.name = "project", .type = ROUTE_NAME, .meaning = "The project of the run."}, {0}};
static const struct route_parameter run_parameters[] = {SERVICE_RUN_PARAMETER, {0}};

static const struct route routes[] = {
    {.method = "POST",
     .path = "/api/v1/projects/{project}/runs",
     .operation = "submitRun",
     .tag = "runs",
     .summary = "Queue a run. The answer comes when it is on disk.",
     .permission = ROUTE_MEMBER,
     .project_may_be_new = true,
     .parameters = submit_parameters,
     .request = "RunRequest",
     .response = "Submitted",
     .status = 201,
     .body_most = (size_t)4 << 20,
     .idempotent_key = true,
     .handler = submit_run},
    {.method = "POST",
     .path = "/api/v1/runs/{run}/stop",
     .operation = "stopRun",
     .tag = "runs",
     .summary = "End a run for good: SIGTERM, its grace period, SIGKILL.",
     .permission = ROUTE_MEMBER,
     .parameters = run_parameters,
     .project_of = service_project_of_run,
     .response = "Stopped",
     .handler = stop_run},
    {.method = "POST",
     .path = "/api/v1/runs/{run}/discard",
     .operation = "discardRun",
     .tag = "runs",
     .summary =
         "Throw away what an ended run has left on disk: its folder, checkpoints and output. Its metrics and events "
         "stay.",
     .permission = ROUTE_MEMBER,
     .parameters = run_parameters,
     .project_of = service_project_of_run,
     .response = "Discarded",
     .handler = discard_run},
    {.method = "POST",
     .path = "/api/v1/runs/{run}/fork",
     .operation = "forkRun",
     .tag = "runs",
     .summary = "Queue a new run with the code and the settings of this one, but for what the body says.",
     .permission = ROUTE_MEMBER,
     .parameters = run_parameters,
     .project_of = service_project_of_run,
     .request = "RunChange",
     .response = "Submitted",
     .status = 201,
     .body_most = (size_t)4 << 20,
     .idempotent_key = true,
     .handler = fork_run},
    {.method = "POST",
     .path = "/api/v1/runs/{run}/promote",
     .operation = "promoteRun",
     .tag = "runs",
     .summary = "Queue a planned run with the code, as it is in the folder now, and the settings of this interactive "
                "one.",
     .permission = ROUTE_MEMBER,
     .parameters = run_parameters,
     .project_of = service_project_of_run,
     .request = "RunChange",
     .response = "Submitted",
     .status = 201,
     .body_most = (size_t)4 << 20,
     .idempotent_key = true,
     .handler = promote_run},
};

/* clang-format off */
/* What can be asked for, as properties of both. */
#define SETTINGS SCHEMA("command": {"type": "array", "minItems": 1, "items": {"type": "string"},                      \
    "description": "The program and its arguments."},                                                                 \
    "name": {"type": "string", "description": "For people; one line, not of digits alone: that is a run's number."}, \
    "environment": {"type": "object", "additionalProperties": {"type": "string"}},                                    \
    "nodes": {"type": "integer", "minimum": 1, "description": "Hosts that it runs on at once."},                      \
    "slots": {"type": "integer", "minimum": 1, "description": "GPUs, or CPU slots, on each of them."},                \
    "slot_kind": {"type": "string", "enum": ["gpu", "cpu"], "description": "What the cluster has, if left out, or if its hosts are a pretence (weft serve --pods)."}, \
    "launch": {"type": "string", "enum": ["ranks", "nodes", "first"],\
               "description": "The command is started as a rank on every slot, on every node, or on the first."},      \
    "processors": {"type": "integer", "minimum": 0}, "memory": {"type": "integer", "minimum": 0},                     \
    "time_limit": {"description": "Of each attempt: 6h, or seconds. A day if left out."},                             \
    "time_slice": {"description": "So long it may run before others have their turn."},                               \
    "preemptible": {"type": "boolean", "description": "May be stopped at a checkpoint and run again later."},         \
    "may_span_pods": {"type": "boolean"}, "interactive": {"type": "boolean"},                                         \
    "priority": {"type": "integer", "minimum": -100, "maximum": 100},                                                 \
    "retries": {"type": "integer", "minimum": 0,                                                                       \
                "description": "When its own program fails: after a second, two, four ... a minute at most."},         \
    "class": {"type": "string", "description": "Limits are set by class."},                                           \
    "snapshot": {"type": "string", "description": "Of the code, as it was uploaded."},                                \
    "checkpoint": {"type": "string", "description": "Of the parent, from which it begins."},                          \
    "commit": {"type": "string", "description": "Of git."},                                                           \
    "commit_changed": {"type": "boolean", "description": "The code differs from that commit, or has files that are not in it."})

static const struct schema schemas[] = {
    {"RunRequest", "{\"type\": \"object\", \"required\": [\"command\"], \"additionalProperties\": false, \"properties\": {" SETTINGS
                   "}}"},
    {"RunChange", "{\"type\": \"object\", \"additionalProperties\": false, \"properties\": {" SETTINGS ", "
                  SCHEMA("arguments": {"type": "array", "items": {"type": "string"},
                                       "description": "Instead of all of the command but the program."},
                         "resume": {"type": "boolean",
                                    "description": "It goes on with this run: refused while another one does."}) "}}"},
    {"Submitted", SCHEMA({"type": "object", "required": ["run"], "properties": {
        "run": {"type": "integer"},
        "again": {"type": "boolean", "description": "It was submitted before, with the same Idempotency-Key."},
        "project_made": {"type": "boolean", "description": "There was no such project until now."},
        "limited": {"type": "string", "description": "That its class allows it less time than it asks for; absent if it does not."}}})},
    {"Discarded", SCHEMA({"type": "object", "properties": {"run": {"type": "integer"}, "discarded": {"type": "integer"}}})},
    {"Stopped", SCHEMA({"type": "object", "properties": {"run": {"type": "integer"}, "state": {"type": "string"}}})},
};
/* clang-format on */

const struct route_table run_order_routes = {.routes = routes,
                                             .route_count = sizeof routes / sizeof *routes,
                                             .schemas = schemas,
                                             .schema_count = sizeof schemas / sizeof *schemas};
