/* SPDX-License-Identifier: Apache-2.0 */
/* What waits, why, and until when. */
#include "base/format/json_put.h"
#include "platform/service/internal/collector.h"
#include "platform/service/internal/service_state.h"
#include "platform/service/runs/run_json.h"

#include <stdio.h>
#include <stdlib.h>

/* ---- one run ---- */

/* The expected start of a waiting run; 0: it does not wait, or the start is unknown. */
static int64_t expected_start(const struct controller_plan *plan, int64_t run)
{
    for (size_t i = 0; i < plan->waiting_count; i++)
        if (plan->waiting[i].run == run)
            return plan->waiting[i].expected_start;
    return 0;
}

static weft_status tell_why(struct route_call *call, struct json_writer *answer, struct error *error)
{
    struct writer *writer = service_of(call)->writer;
    struct controller *controller = writer_controller(writer);
    int64_t number = route_value(call, "run")->integer, now = writer_now(), expected = 0;
    char why[1024], idle[RUN_USE_SENTENCE_BYTES], progress[RUN_PROGRESS_BYTES];
    const struct controller_plan *plan;
    struct registry_run run;
    weft_status status = registry_run_get(writer_registry(writer), number, &run, error);
    if (status == WEFT_OK)
        status = controller_plan(controller, now, &plan, error);
    if (status == WEFT_OK) {
        expected = expected_start(plan, number);
        status = controller_why(controller, number, now, why, sizeof why, error);
    }
    if (status != WEFT_OK)
        return status;
    if (!*why && run.idle_since && run_use_say(collector_use(writer_collector(writer)), number, run.epoch, idle))
        snprintf(why, sizeof why, "runs idle: %s", idle);
    else if (!*why && run.state == RUN_RUNNING && run.progress.reported)
        snprintf(why, sizeof why, "it reports that it is %s", run_progress_say(&run.progress, now, progress));
    JSON_PUT_OBJECT(answer, NULL, "run", number, "state", run_state_name(run.state), "why",
                    *why ? why : run_json_reason(&run), "expected_start", json_time(expected));
    return WEFT_OK;
}

/* ---- the queue ---- */

static void routes_queue_put_name(struct json_writer *writer, const struct sight *sight, int64_t number, bool seen)
{
    struct registry_run run;
    bool known = seen && registry_run_get(sight->registry, number, &run, NULL) == WEFT_OK;
    json_put_text(writer, "name", known ? run.name : NULL);
}

/* A waiting or running run. Its identity is shown only if the caller may see its project; returns whether they may. */
static bool put_planned(struct json_writer *writer, struct sight *sight, const struct controller_plan_run *planned)
{
    bool seen = sight_has(sight, planned->project);
    json_open_object(writer, NULL);
    JSON_PUT(writer, "run", json_known(seen, planned->run), "project", seen ? planned->project : NULL, "owner",
             seen ? planned->owner : NULL);
    routes_queue_put_name(writer, sight, planned->run, seen);
    JSON_PUT(writer, "nodes", planned->nodes, "slots", planned->slots, "size", (int64_t)planned->nodes * planned->slots,
             "since", json_time(planned->since));
    return seen;
}

static void routes_queue_put_waiting(struct json_writer *answer, struct sight *sight,
                                     const struct controller *controller, const struct controller_plan *plan,
                                     size_t place, int64_t now)
{
    char reason[1024];
    const bool seen = put_planned(answer, sight, &plan->waiting[place]);
    JSON_PUT(answer, "place", (int64_t)place + 1, "reason",
             controller_plan_reason(controller, &plan->waiting[place], seen, now, reason, sizeof reason),
             "expected_start", json_time(plan->waiting[place].expected_start));
    json_close(answer);
}

static void put_running(struct json_writer *answer, struct sight *sight, const struct controller_plan_run *running)
{
    put_planned(answer, sight, running);
    JSON_PUT(answer, "ends_before", json_time(running->ends_before));
    json_close(answer);
}

static int routes_queue_compare_numbers(const void *left, const void *right)
{
    const int64_t a = *(const int64_t *)left, b = *(const int64_t *)right;
    return a < b ? -1 : a > b;
}

/*
 * The page after run `after`, by number. Waiting and running runs are counted together, so that a run that starts
 * between two pages is listed once. *last is its last run, *more whether another page follows.
 */
static weft_status choose_page(const struct controller_plan *plan, int64_t after, size_t most, int64_t *last,
                               bool *more, struct error *error)
{
    size_t count = 0;
    const size_t room = (plan->waiting_count + plan->running_count + 1) * sizeof(int64_t);
    int64_t *numbers = malloc(room);
    if (!numbers)
        return error_memory(error, room, "a page of the queue");
    for (size_t i = 0; i < plan->waiting_count; i++)
        if (plan->waiting[i].run > after)
            numbers[count++] = plan->waiting[i].run;
    for (size_t i = 0; i < plan->running_count; i++)
        if (plan->running[i].run > after)
            numbers[count++] = plan->running[i].run;
    qsort(numbers, count, sizeof *numbers, routes_queue_compare_numbers);
    *more = count > most;
    *last = *more ? numbers[most - 1] : INT64_MAX;
    free(numbers);
    return WEFT_OK;
}

static int64_t routes_queue_slots_of(const struct controller_plan_run *runs, size_t count)
{
    int64_t slots = 0;
    for (size_t i = 0; i < count; i++)
        slots += (int64_t)runs[i].nodes * runs[i].slots;
    return slots;
}

static weft_status tell_queue(struct route_call *call, struct json_writer *answer, struct error *error)
{
    struct writer *writer = service_of(call)->writer;
    struct controller *controller = writer_controller(writer);
    const int64_t now = writer_now(), after = route_value(call, "after")->integer;
    const bool by_number = route_value(call, "after")->given;
    const size_t most = by_number ? SIZE_MAX : (size_t)route_value(call, "most")->integer;
    struct sight sight = {.registry = writer_registry(writer), .who = &call->who};
    const struct controller_plan *plan;
    int64_t last = INT64_MAX;
    bool more = false;
    weft_status status = controller_plan(controller, now, &plan, error);
    if (status == WEFT_OK && by_number)
        status = choose_page(plan, after, (size_t)route_value(call, "most")->integer, &last, &more, error);
    if (status != WEFT_OK)
        return status;
    json_open_object(answer, NULL);
    json_open_array(answer, "queue");
    for (size_t i = 0; i < plan->waiting_count && i < most; i++)
        if (plan->waiting[i].run > after && plan->waiting[i].run <= last)
            routes_queue_put_waiting(answer, &sight, controller, plan, i, now);
    json_close(answer);
    JSON_PUT(answer, "waiting", (int64_t)plan->waiting_count, "paused", exits_why(&service_of(call)->exits),
             "waiting_slots", routes_queue_slots_of(plan->waiting, plan->waiting_count));
    json_open_array(answer, "running");
    for (size_t i = 0; i < plan->running_count && i < most; i++)
        if (plan->running[i].run > after && plan->running[i].run <= last)
            put_running(answer, &sight, &plan->running[i]);
    json_close(answer);
    JSON_PUT(answer, "running_count", (int64_t)plan->running_count, "running_slots",
             routes_queue_slots_of(plan->running, plan->running_count), "more",
             (bool)(more || plan->waiting_count > most || plan->running_count > most));
    if (more)
        json_put_integer(answer, "next", last);
    json_close(answer);
    return WEFT_OK;
}

static weft_status do_resume(struct route_call *call, struct json_writer *answer, struct error *error)
{
    weft_status status = writer_resume(service_of(call)->writer, error);
    if (status == WEFT_OK)
        fprintf(stderr, "weft: '%s' has resumed scheduling\n", call->who.user);
    return status;
}

/* ---- tables ---- */

static const struct route_parameter queue_parameters[] = {
    ROUTE_NUMBERED("most", 1, 10000, "1000", "How many of each list at most; with `after`, of both together."),
    ROUTE_NUMBERED(
        "after", 0, 1e15, NULL,
        "Only runs of larger numbers, page by page in the order of numbers: begin with 0, go on with `next`."),
    {0}};

static const struct route routes[] = {
    {.method = "GET",
     .path = "/api/v1/queue",
     .operation = "showQueue",
     .summary =
         "The plan: the waiting runs in order, with the resource they wait for and their expected start, and the "
         "running ones. Without `after`, the first of each in that order.",
     .permission = ROUTE_USER,
     .parameters = queue_parameters,
     .response = "Queue",
     .handler = service_write,
     .work = tell_queue},
    {.method = "POST",
     .path = "/api/v1/queue/resume",
     .operation = "resumeQueue",
     .summary = "Start runs again, after scheduling was paused because of unclean exits of the server.",
     .permission = ROUTE_ADMINISTRATOR,
     .handler = service_write,
     .work = do_resume},
    {.method = "GET",
     .path = "/api/v1/runs/{run}/why",
     .operation = "explainRun",
     .summary = "Why a run is in its state: the resource it waits for, and its expected start.",
     .permission = ROUTE_VIEWER,
     SERVICE_OF_RUN,
     .response = "Why",
     .handler = service_write,
     .work = tell_why},
};

/* clang-format off */
static const struct schema schemas[] = {
    {"Queue", SCHEMA({"type": "object", "required": ["queue", "running", "more"], "properties": {
        "queue": {"type": "array", "items": {"$ref": "#/components/schemas/Planned"}},
        "waiting": {"type": "integer", "description": "The total number of waiting runs."},
        "paused": {"type": "string", "nullable": true, "description": "Why no run is started at present; null: runs are started."},
        "waiting_slots": {"type": "integer", "description": "The slots of all waiting runs."},
        "running": {"type": "array", "items": {"$ref": "#/components/schemas/Planned"}},
        "running_count": {"type": "integer", "description": "The total number of running runs."},
        "running_slots": {"type": "integer", "description": "The slots of all running runs."},
        "more": {"type": "boolean", "description": "There are waiting or running runs that are not in this response."},
        "next": {"type": "integer", "description": "With after, if more follow: the after of the next page."}}})},
    {"Planned", SCHEMA({"type": "object", "required": ["nodes", "slots"], "properties": {
        "run": {"type": "integer", "nullable": true,
                "description": "null, like the next three, if you may not see the project."},
        "project": {"type": "string", "nullable": true}, "owner": {"type": "string", "nullable": true},
        "name": {"type": "string", "nullable": true}, "nodes": {"type": "integer"}, "slots": {"type": "integer"}, "size": {"type": "integer"},
        "since": {"type": "integer", "nullable": true, "description": "The time since which it waits, or runs."},
        "place": {"type": "integer"},
        "reason": {"type": "string", "description": "Without names and amounts if you may not see the project."},
        "expected_start": {"type": "integer", "nullable": true, "description": "A plan, not a promise."},
        "ends_before": {"type": "integer", "nullable": true, "description": "The latest end by its limits."}}})},
    {"Why", SCHEMA({"type": "object", "required": ["state", "why"], "properties": {
        "run": {"type": "integer"}, "state": {"type": "string"}, "why": {"type": "string"},
        "expected_start": {"type": "integer", "nullable": true,
                           "description": "A plan, not a promise; null if the run does not wait."}}})},
};
/* clang-format on */

const struct route_table queue_routes = ROUTE_TABLE("queue");
