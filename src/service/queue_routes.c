/* SPDX-License-Identifier: Apache-2.0 */
/* What waits, why, and until when. */
#include "service/schema_text.h"
#include "service/service_state.h"

#include <stdlib.h>

static weft_status tell_why(struct keeper *keeper, struct route_call *call, struct json_writer *answer,
                            struct error *error)
{
    int64_t number = route_value(call, "run")->integer;
    char why[1024];
    struct registry_run run;
    weft_status status = registry_run_get(keeper_registry(keeper), number, &run, error);
    if (status == WEFT_OK)
        status = controller_why(keeper_controller(keeper), number, keeper_now(), why, sizeof why, error);
    if (status != WEFT_OK)
        return status;
    json_open_object(answer, NULL);
    json_put_integer(answer, "run", number);
    json_put_text(answer, "state", run_state_name(run.state));
    json_put_text(answer, "why", *why ? why : *run.detail ? run.detail : run_cause_text(run.cause));
    json_put_tree(answer, "expected_start", NULL);
    json_close(answer);
    return WEFT_OK;
}

static void show_why(struct route_call *call)
{
    keeper_do(service_of(call)->keeper, call, tell_why);
}

static const struct route_parameter run_parameters[] = {SERVICE_RUN_PARAMETER, {0}};

static const struct route routes[] = {
    {.method = "GET",
     .path = "/api/v1/runs/{run}/why",
     .operation = "explainRun",
     .tag = "queue",
     .summary = "Why a run is in its state: what it waits for, and when it is expected to start.",
     .permission = ROUTE_VIEWER,
     .parameters = run_parameters,
     .project_of = service_project_of_run,
     .response = "Why",
     .handler = show_why},
};

/* clang-format off */
static const struct schema schemas[] = {
    {"Why", SCHEMA({"type": "object", "required": ["state", "why"], "properties": {
        "run": {"type": "integer"}, "state": {"type": "string"}, "why": {"type": "string"},
        "expected_start": {"type": "integer", "nullable": true,
                           "description": "A plan, not a promise; null where the run does not wait."}}})},
};
/* clang-format on */

const struct route_table queue_routes = {.routes = routes,
                                         .route_count = sizeof routes / sizeof *routes,
                                         .schemas = schemas,
                                         .schema_count = sizeof schemas / sizeof *schemas};
