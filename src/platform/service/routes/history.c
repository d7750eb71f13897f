/* SPDX-License-Identifier: Apache-2.0 */
/* The cluster over time: how full it was, and who had which slots when. */
#include "base/format/json_put.h"
#include "platform/metrics/cluster_history.h"
#include "platform/registry/run/list.h"
#include "platform/service/internal/service_state.h"
#include "platform/service/runs/run_json.h"

#include <math.h>
#include <stdlib.h>

#define DAY INT64_C(86400000) /* milliseconds: the default span */

/* The span that is asked for: the last day if it is not given. */
static void find_span(const struct route_call *call, int64_t *from, int64_t *to)
{
    const struct route_value *first = route_value(call, "from"), *last = route_value(call, "to");
    *to = last->given ? last->integer : writer_now();
    *from = first->given ? first->integer : *to - DAY;
}

/* False: it ends before it begins, which is answered. */
static bool span_is_good(struct route_call *call)
{
    int64_t from, to;
    find_span(call, &from, &to);
    if (from > to)
        http_fail_parameter(call->request, 400, "from", "'from' must not be later than 'to'");
    return from <= to;
}

/* ---- history ---- */

enum routes_history_column { TIME, SLOTS, TAKEN, WAITING, FREE, HOLE };

static void routes_history_put_column(struct json_writer *answer, const char *key,
                                      const struct cluster_history *history, enum routes_history_column column)
{
    json_open_array(answer, key);
    for (size_t i = 0; i < history->count; i++) {
        const struct cluster_part *part = &history->parts[i];
        if (column == TIME)
            json_put_integer(answer, NULL, part->time);
        else
            json_put_number(answer, NULL,
                            column == SLOTS     ? part->slots
                            : column == TAKEN   ? part->taken
                            : column == WAITING ? part->waiting
                            : column == FREE    ? part->idle
                                                : part->largest_hole);
    }
    json_close(answer);
}

static weft_status tell_history(struct route_call *call, struct json_writer *answer, struct error *error)
{
    int64_t from, to;
    struct cluster_history history;
    find_span(call, &from, &to);
    weft_status status = cluster_history_draw(writer_metrics(service_of(call)->writer), from, to,
                                              (size_t)route_value(call, "most")->integer, &history, error);
    if (status != WEFT_OK)
        return status;
    json_open_object(answer, NULL);
    routes_history_put_column(answer, "time", &history, TIME);
    routes_history_put_column(answer, "slots", &history, SLOTS);
    routes_history_put_column(answer, "taken", &history, TAKEN);
    routes_history_put_column(answer, "waiting", &history, WAITING);
    routes_history_put_column(answer, "free", &history, FREE);
    routes_history_put_column(answer, "largest_hole", &history, HOLE);
    JSON_PUT(answer, "idle_while_queued", history.idle_while_queued, "utilization", history.utilization);
    json_close(answer);
    cluster_history_free(&history);
    return WEFT_OK;
}

static void show_history(struct route_call *call)
{
    if (span_is_good(call))
        service_write(call);
}

/* ---- timeline ---- */

static void put_bar(struct json_writer *writer, struct sight *sight, const struct registry_bar *bar)
{
    const bool seen = sight_has(sight, bar->project);
    JSON_PUT_OBJECT(writer, NULL, "host", bar->host, "slots", bar->slots, "run", json_known(seen, bar->run), "epoch",
                    json_known(seen, bar->epoch), "node", json_known(seen, bar->node), "project",
                    seen ? bar->project : NULL, "owner", seen ? bar->owner : NULL, "from", json_time(bar->from), "to",
                    json_time(bar->to), "cause", bar->over ? run_cause_name(bar->cause) : NULL);
}

static weft_status tell_timeline(struct route_call *call, struct json_writer *answer, struct error *error)
{
    const size_t most = (size_t)route_value(call, "most")->integer;
    struct sight sight = {.registry = service_of(call)->reader, .who = &call->who};
    struct registry_bar *bars = NULL;
    size_t count = 0;
    int64_t from, to;
    find_span(call, &from, &to);
    weft_status status = registry_timeline(service_of(call)->reader, from, to, most + 1, &bars, &count, error);
    json_open_list(answer, "bars");
    for (size_t i = 0; status == WEFT_OK && i < count && i < most; i++)
        put_bar(answer, &sight, &bars[i]);
    json_close_page(answer, count > most);
    free(bars);
    return status;
}

static void show_timeline(struct route_call *call)
{
    if (span_is_good(call))
        service_read(call);
}

/* ---- tables ---- */

/* clang-format off */
#define SPAN \
    ROUTE_NUMBERED("from", 0, 8e12, NULL, "The beginning, milliseconds since 1970; a day before the end if it is not given."), \
    ROUTE_NUMBERED("to", 0, 8e12, NULL, "The end; now if it is not given.")
static const struct route_parameter history_parameters[] = {
    SPAN, ROUTE_NUMBERED("most", 1, 5000, "500", "Parts at most."), {0}};
static const struct route_parameter timeline_parameters[] = {
    SPAN, ROUTE_NUMBERED("most", 1, 20000, "5000", "Bars at most, the newest."), {0}};

static const struct route routes[] = {
    {.method = "GET",
     .path = "/api/v1/cluster/history",
     .operation = "showClusterHistory",
     .summary = "The occupancy of the cluster over time: slots in total, in use, idle and waited for, and the largest hole.",
     .permission = ROUTE_USER,
     .parameters = history_parameters,
     .response = "ClusterHistory",
     .handler = show_history,
     .work = tell_history},
    {.method = "GET",
     .path = "/api/v1/cluster/timeline",
     .operation = "showClusterTimeline",
     .summary = "The runs on each host's slots over time, as the bars of a Gantt chart.",
     .permission = ROUTE_USER,
     .parameters = timeline_parameters,
     .response = "ClusterTimeline",
     .handler = show_timeline,
     .work = tell_timeline},
};

static const struct schema schemas[] = {
    {"ClusterHistory", SCHEMA({"type": "object", "required": ["time", "slots", "taken", "waiting"], "properties": {
        "time": {"type": "array", "items": {"type": "integer"}},
        "slots": {"type": "array", "items": {"type": "number", "nullable": true},
                  "description": "Slots of hosts that are not lost: means over the intervals whose middles are in time, like the next four."},
        "taken": {"type": "array", "items": {"type": "number", "nullable": true}},
        "waiting": {"type": "array", "items": {"type": "number", "nullable": true},
                    "description": "Slots requested by waiting runs."},
        "free": {"type": "array", "items": {"type": "number", "nullable": true},
                 "description": "Free slots on which a run could start, without those of drained hosts."},
        "largest_hole": {"type": "array", "items": {"type": "number", "nullable": true},
                         "description": "Slots of the largest run that could start at once without moving another: the free slots of one host, or of all empty hosts of one Pod."},
        "idle_while_queued": {"type": "number", "nullable": true,
                              "description": "Mean share of slots that were free while runs waited."},
        "utilization": {"type": "number", "nullable": true, "description": "Mean share of slots in use."}}})},
    {"ClusterTimeline", SCHEMA({"type": "object", "required": ["bars"], "properties": {
        "bars": {"type": "array", "items": {"type": "object", "properties": {
            "host": {"type": "string"}, "slots": {"type": "string", "description": "Their numbers: 0-3,6"},
            "run": {"type": "integer", "nullable": true,
                    "description": "null, like the next four, if you may not see the project."},
            "epoch": {"type": "integer", "nullable": true}, "node": {"type": "integer", "nullable": true},
            "project": {"type": "string", "nullable": true}, "owner": {"type": "string", "nullable": true},
            "from": {"type": "integer", "nullable": true},
            "to": {"type": "integer", "nullable": true, "description": "null: the run still has them."},
            "cause": {"type": "string", "nullable": true, "description": "The cause of the attempt's end."}}}},
        "more": {"type": "boolean", "description": "There are more bars than requested."}}})},
};
/* clang-format on */

const struct route_table history_routes = ROUTE_TABLE("cluster");
