/* SPDX-License-Identifier: Apache-2.0 */
/* The checkpoints of runs. */
#include "base/format/json_put.h"
#include "platform/runs/checkpoints.h"
#include "platform/runs/directory.h"
#include "platform/service/internal/service_state.h"
#include "platform/service/runs/run_json.h"

#include <stdlib.h>

static weft_status read_checkpoints(struct route_call *call, struct json_writer *answer, struct error *error)
{
    struct run_checkpoint *list = NULL;
    size_t count = 0;
    char directory[FILE_PATH_BYTES];
    weft_status status = run_directory_path(writer_directories(service_of(call)->writer)->runs,
                                            route_value(call, "run")->integer, "checkpoints", directory, error);
    if (status == WEFT_OK)
        status = run_checkpoints_list(directory, &list, &count, error);
    if (status != WEFT_OK)
        return status;
    json_open_list(answer, "checkpoints");
    for (size_t i = 0; i < count; i++)
        JSON_PUT_OBJECT(answer, NULL, "name", list[i].name, "time", json_time(list[i].time), "bytes", list[i].bytes,
                        "step", json_known(list[i].step >= 0, list[i].step), "best", list[i].best);
    json_close_list(answer);
    free(list);
    return WEFT_OK;
}

static void list_checkpoints(struct route_call *call)
{
    struct registry_run run;
    if (service_run(call, &run) && service_has_files(call, &run))
        background_do(service_of(call)->reading, call, read_checkpoints, NULL);
}

static const struct route routes[] = {
    {.method = "GET",
     .path = "/api/v1/runs/{run}/checkpoints",
     .operation = "listCheckpoints",
     .summary = "The checkpoints that a run has written, newest first.",
     .permission = ROUTE_VIEWER,
     SERVICE_OF_RUN,
     .response = "Checkpoints",
     .handler = list_checkpoints},
};

/* clang-format off */
static const struct schema schemas[] = {
    {"Checkpoints", SCHEMA({"type": "object", "required": ["checkpoints"], "properties": {
        "checkpoints": {"type": "array", "items": {"type": "object", "properties": {
            "name": {"type": "string"}, "time": {"type": "integer", "nullable": true}, "bytes": {"type": "integer"},
            "step": {"type": "integer", "nullable": true, "description": "The step in its name; null: there is none."},
            "best": {"type": "boolean", "description": "The program has marked it as its best one."}}}}}})},
};
/* clang-format on */

const struct route_table run_file_routes = ROUTE_TABLE("runs");
