/* SPDX-License-Identifier: Apache-2.0 */
/* The metrics of a run: which there are, curves of them, and every point (metric_export.c). */
#include "base/format/json_put.h"
#include "observe/telemetry/metric_unit.h"
#include "platform/metrics/query/draw.h"
#include "platform/metrics/read/text.h"
#include "platform/metrics/run_metrics.h"
#include "platform/metrics/store/latest.h"
#include "platform/metrics/store/names.h"
#include "platform/service/internal/service_state.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define PREFIXES_MOST 500 /* of the answer */

/* Times are milliseconds here, microseconds in the store. */
static int64_t milliseconds_of(int64_t time)
{
    return time / 1000;
}

/* ---- which there are ---- */

/* JSON has no numbers that are not finite: they are texts. */
static void metric_put_value(struct json_writer *answer, const char *key, double value)
{
    char number[TEXT_NUMBER_BYTES];
    if (isfinite(value))
        json_put_number(answer, key, value);
    else
        json_put_text(answer, key, metric_text_number(value, number));
}

static weft_status metric_put_name(struct json_writer *answer, struct metric_store *store, int64_t run,
                                   const struct metric_name *name, struct error *error)
{
    struct metric_latest latest;
    bool found;
    char group[METRIC_NAME_MOST + 1];
    weft_status status = metric_latest(store, run, name->name, &latest, &found, error);
    if (status != WEFT_OK)
        return status;
    memcpy(group, name->name, name->group);
    group[name->group] = 0;
    json_open_object(answer, NULL);
    JSON_PUT(answer, "name", name->name, "group", group, "unit", metric_unit(name->name), "ranks", name->ranks,
             "attempts", name->attempts);
    if (found) {
        json_open_object(answer, "last");
        JSON_PUT(answer, "step", latest.step, "time", milliseconds_of(latest.time));
        metric_put_value(answer, "value", latest.mean);
        metric_put_value(answer, "lowest", latest.lowest);
        metric_put_value(answer, "highest", latest.highest);
        json_put_integer(answer, "ranks", latest.ranks);
        json_close(answer);
    } else {
        json_put_tree(answer, "last", NULL);
    }
    json_close(answer);
    return WEFT_OK;
}

/* Which of the names are asked for. */
struct metric_own_choice {
    const char *search, *prefix, *after; /* NULL: any */
    size_t most;
};

/* The bytes of a name before its first slash. */
static size_t metric_prefix_of(const char *name)
{
    const char *slash = strchr(name, '/');
    return slash ? (size_t)(slash - name) : 0;
}

static bool is_sought(const struct metric_own_choice *choice, const char *name)
{
    return !choice->search || strcasestr(name, choice->search);
}

static bool is_chosen(const struct metric_own_choice *choice, const char *name)
{
    const size_t prefix = metric_prefix_of(name);
    return is_sought(choice, name) &&
           (!choice->prefix || (strlen(choice->prefix) == prefix && memcmp(choice->prefix, name, prefix) == 0));
}

/* The prefixes of the names that are sought, with how many names each has. Names come in the order of the alphabet, and
 * so do prefixes, but for the empty one, whose names are among the others. */
static void put_prefixes(struct json_writer *answer, const struct metric_name *names, size_t count,
                         const struct metric_own_choice *choice)
{
    int64_t without = 0, members = 0, shown = 0, left_out = 0;
    const char *last = NULL;
    char prefix[METRIC_NAME_MOST + 1];
    json_open_array(answer, "prefixes");
    for (size_t i = 0; i <= count; i++) {
        const char *name = i < count ? names[i].name : NULL;
        if (name && !is_sought(choice, name))
            continue;
        const size_t length = name ? metric_prefix_of(name) : 0;
        if (name && length == 0) {
            without++;
            continue;
        }
        if (last && name && metric_prefix_of(last) == length && memcmp(last, name, length) == 0) {
            members++;
            continue;
        }
        if (last && shown < PREFIXES_MOST) {
            snprintf(prefix, sizeof prefix, "%.*s", (int)metric_prefix_of(last), last);
            JSON_PUT_OBJECT(answer, NULL, "prefix", prefix, "metrics", members);
            shown++;
        } else if (last) {
            left_out++;
        }
        last = name;
        members = 1;
    }
    if (without)
        JSON_PUT_OBJECT(answer, NULL, "prefix", "", "metrics", without);
    json_close(answer);
    json_put_integer(answer, "prefixes_left_out", left_out);
}

/* A page of the names that are chosen, and how many there are. */
static weft_status put_page(struct json_writer *answer, struct metric_store *store, int64_t run,
                            const struct metric_name *names, size_t count, const struct metric_own_choice *choice,
                            struct error *error)
{
    weft_status status = WEFT_OK;
    size_t matching = 0, shown = 0;
    bool more = false;
    json_open_array(answer, "metrics");
    for (size_t i = 0; i < count && status == WEFT_OK; i++) {
        if (!is_chosen(choice, names[i].name))
            continue;
        matching++;
        if (choice->after && strcmp(names[i].name, choice->after) <= 0)
            continue;
        if (shown < choice->most)
            status = metric_put_name(answer, store, run, &names[i], error);
        else
            more = true;
        shown += shown < choice->most;
    }
    json_close(answer);
    JSON_PUT(answer, "matching", (int64_t)matching, "total", (int64_t)count, "more", more);
    return status;
}

static weft_status tell_names(struct route_call *call, struct json_writer *answer, struct error *error)
{
    const int64_t run = route_value(call, "run")->integer;
    const char *prefix = service_text_given(call, "prefix");
    const struct metric_own_choice choice = {
        service_text_given(call, "search"), prefix && strcmp(prefix, "/") == 0 ? "" : prefix,
        service_text_given(call, "after"), (size_t)route_value(call, "most")->integer};
    struct metric_store *store = writer_metrics(service_of(call)->writer);
    struct metric_name *names = NULL;
    size_t count = 0;
    double joules = 0;
    bool known = false;
    weft_status status = metric_names(store, run, &names, &count, error);
    json_open_object(answer, NULL);
    if (status == WEFT_OK)
        status = put_page(answer, store, run, names, count, &choice, error);
    if (status == WEFT_OK)
        put_prefixes(answer, names, count, &choice);
    if (status == WEFT_OK)
        status = run_metrics_energy(store, run, &joules, &known, error);
    json_put_number(answer, "energy", known ? joules : NAN);
    json_close(answer);
    free(names);
    return status;
}

/* ---- curves ---- */

static int64_t metric_choice_of(const struct route_call *call, const char *name)
{
    const struct route_value *value = route_value(call, name);
    return value->given ? value->integer : METRIC_ANY;
}

/* A bound of the axis; times are given in milliseconds. */
static int64_t bound_of(const struct route_call *call, const char *name, bool times, int64_t otherwise)
{
    const struct route_value *value = route_value(call, name);
    if (!value->given)
        return otherwise;
    return times ? value->integer * 1000 + (otherwise == INT64_MAX ? 999 : 0) : value->integer;
}

enum metric_column { COLUMN_X, COLUMN_MEAN, COLUMN_LOWEST, COLUMN_HIGHEST };

static void metric_put_column(struct json_writer *answer, const char *key, const struct metric_curve *curve, bool times,
                              enum metric_column column)
{
    json_open_array(answer, key);
    for (size_t i = 0; i < curve->count; i++) {
        const struct metric_summary *part = &curve->parts[i];
        const struct metric_spread spread = metric_curve_spread(curve, i);
        const int64_t *ends = times ? part->times : part->steps, middle = ends[0] + (ends[1] - ends[0]) / 2;
        if (column == COLUMN_X)
            json_put_integer(answer, NULL, times ? milliseconds_of(middle) : middle);
        else
            json_put_number(answer, NULL,
                            column == COLUMN_MEAN     ? spread.mean
                            : column == COLUMN_LOWEST ? spread.lowest
                                                      : spread.highest);
    }
    json_close(answer);
}

static weft_status put_curve(struct json_writer *answer, struct metric_store *store, const struct metric_query *query,
                             const struct metric_curve *curve, struct error *error)
{
    const bool times = query->axis == METRIC_TIMES;
    int64_t *ranks;
    size_t count;
    weft_status status = metric_ranks(store, query->run, query->name, &ranks, &count, error);
    if (status != WEFT_OK)
        return status;
    json_open_object(answer, NULL);
    JSON_PUT(answer, "name", query->name, "axis", times ? "times" : "steps", "points", (int64_t)curve->points, "nan",
             (int64_t)(curve->nan + curve->infinite[0] + curve->infinite[1]), "infinite",
             (int64_t)(curve->infinite[0] + curve->infinite[1]), "whole", curve->whole);
    json_open_array(answer, "ranks");
    for (size_t i = 0; i < count; i++)
        json_put_integer(answer, NULL, ranks[i]);
    json_close(answer);
    metric_put_column(answer, "x", curve, times, COLUMN_X);
    metric_put_column(answer, "mean", curve, times, COLUMN_MEAN);
    metric_put_column(answer, "lowest", curve, times, COLUMN_LOWEST);
    metric_put_column(answer, "highest", curve, times, COLUMN_HIGHEST);
    json_close(answer);
    free(ranks);
    return WEFT_OK;
}

static weft_status tell_curve(struct route_call *call, struct json_writer *answer, struct error *error)
{
    const bool times = strcmp(route_value(call, "axis")->text, "times") == 0;
    const struct metric_query query = {.run = route_value(call, "run")->integer,
                                       .name = route_value(call, "name")->text,
                                       .rank = metric_choice_of(call, "rank"),
                                       .attempt = metric_choice_of(call, "attempt"),
                                       .axis = times ? METRIC_TIMES : METRIC_STEPS,
                                       .from = bound_of(call, "from", times, INT64_MIN),
                                       .to = bound_of(call, "to", times, INT64_MAX),
                                       .together = true,
                                       .most = (size_t)route_value(call, "most")->integer};
    struct metric_curve curve;
    weft_status status = metric_draw(writer_metrics(service_of(call)->writer), &query, &curve, error);
    if (status != WEFT_OK)
        return status;
    status = put_curve(answer, writer_metrics(service_of(call)->writer), &query, &curve, error);
    metric_curve_free(&curve);
    return status;
}

/* ---- tables ---- */

/* clang-format off */
#define NAME    {.name = "name", .type = ROUTE_TEXT, .least = 1, .most = METRIC_NAME_MOST, .required = true, \
                 .meaning = "The name of the metric: train/loss."}
#define RANK    {.name = "rank", .type = ROUTE_INTEGER, .least = 0, .most = 4294967295, \
                 .meaning = "Only this rank; default: all ranks."}
#define ATTEMPT {.name = "attempt", .type = ROUTE_INTEGER, .least = 1, .most = 1e15, \
                 .meaning = "Only this attempt; default: all attempts, with the newest one for each step."}
#define BOUND(key, what) {.name = key, .type = ROUTE_INTEGER, .least = -8e12, .most = 8e12, \
                          .meaning = what " of the axis: a step, or milliseconds since 1970."}

static const char *const axes[] = {"steps", "times", NULL}, *const formats[] = {"csv", "json", NULL};
static const struct route_parameter list_parameters[] = {
    SERVICE_RUN_PARAMETER,
    {.name = "search", .type = ROUTE_TEXT, .least = 1, .most = METRIC_NAME_MOST,
     .meaning = "Only names that contain this, ignoring case."},
    {.name = "prefix", .type = ROUTE_TEXT, .least = 1, .most = METRIC_NAME_MOST,
     .meaning = "Only names with this before their first slash; '/': only names without one."},
    {.name = "after", .type = ROUTE_TEXT, .least = 1, .most = METRIC_NAME_MOST,
     .meaning = "Only names after this one: the last name of the previous page."},
    {.name = "most", .type = ROUTE_INTEGER, .least = 1, .most = 2000, .fallback = "500",
     .meaning = "The maximum number of names; 'more' is true if there are others."},
    {0}};
static const struct route_parameter curve_parameters[] = {
    SERVICE_RUN_PARAMETER, NAME, RANK, ATTEMPT,
    {.name = "axis", .type = ROUTE_CHOICE, .choices = axes, .fallback = "steps", .meaning = "The x axis."},
    BOUND("from", "The beginning"), BOUND("to", "The end"),
    {.name = "most", .type = ROUTE_INTEGER, .least = 2, .most = 20000, .fallback = "2000",
     .meaning = "The maximum number of points; an interval with a lowest and a highest value counts as two."},
    {0}};
static const struct route_parameter point_parameters[] = {
    SERVICE_RUN_PARAMETER, NAME, RANK, ATTEMPT,
    {.name = "format", .type = ROUTE_CHOICE, .choices = formats, .fallback = "csv", .meaning = "The format of the response."},
    {0}};

static const struct route routes[] = {
    {.method = "GET",
     .path = "/api/v1/runs/{run}/metrics",
     .operation = "listMetrics",
     .summary = "The metrics of a run with their newest values, by name: those that it has reported and the resources that "
                "it has used; and its energy.",
     .permission = ROUTE_VIEWER,
     .parameters = list_parameters,
     .project_of = service_project_of_run,
     .response = "Metrics",
     .handler = service_write,
     .work = tell_names},
    {.method = "GET",
     .path = "/api/v1/runs/{run}/metrics/curve",
     .operation = "drawMetric",
     .summary = "A metric as a curve of a few points, however many it has; the lowest and the highest are kept.",
     .permission = ROUTE_VIEWER,
     .parameters = curve_parameters,
     .project_of = service_project_of_run,
     .response = "Curve",
     .handler = service_write,
     .work = tell_curve},
    {.method = "GET",
     .path = "/api/v1/runs/{run}/metrics/points",
     .operation = "exportMetric",
     .summary = "Every point of a metric: CSV (rank, attempt, step, time in seconds since 1970, value), or JSON with "
                "the same columns and the time in milliseconds, where values that are not finite are the texts NaN, "
                "Infinity and -Infinity.",
     .permission = ROUTE_VIEWER,
     .parameters = point_parameters,
     .project_of = service_project_of_run,
     .produces = "text/csv",
     .handler = metric_export},
};

static const struct schema schemas[] = {
    {"MetricValue", SCHEMA({"description":
        "A number; one that is not finite is the text NaN, Infinity or -Infinity, as JSON has no such numbers."})},
    {"Metrics", SCHEMA({"type": "object", "required": ["metrics"], "properties": {
        "metrics": {"type": "array", "items": {"type": "object", "properties": {
            "name": {"type": "string"},
            "group": {"type": "string", "description": "The part of the name before its last slash."},
            "ranks": {"type": "integer"}, "attempts": {"type": "integer"},
            "unit": {"type": "string", "description": "The unit of a measured value: share (0 to 1), bytes, bytes/s, CPUs, s, J, W, °C; empty for others."},
            "last": {"type": "object", "nullable": true,
                "description": "At the last step that all ranks have reached: the mean, the lowest and the highest of their values.",
                "properties": {
                    "step": {"type": "integer"}, "time": {"type": "integer"},
                    "value": {"$ref": "#/components/schemas/MetricValue"},
                    "lowest": {"$ref": "#/components/schemas/MetricValue"}, "highest": {"$ref": "#/components/schemas/MetricValue"},
                    "ranks": {"type": "integer", "description": "The number of ranks included. Ranks that have been silent for a minute are not waited for."}}}}}},
        "matching": {"type": "integer", "description": "The number of names that match the parameters, on all pages."},
        "total": {"type": "integer", "description": "The number of the run's names."},
        "more": {"type": "boolean", "description": "There are more names after this page."},
        "prefixes": {"type": "array", "description": "The prefixes of all names that match the search.", "items": {"type": "object", "properties": {
            "prefix": {"type": "string", "description": "The part before the first slash; empty: there is none."},
            "metrics": {"type": "integer"}}}},
        "prefixes_left_out": {"type": "integer", "description": "Prefixes beyond the first 500."},
        "energy": {"type": "number", "nullable": true,
                   "description": "Joules used so far by its GPUs and its share of the processors."}}})},
    {"Curve", SCHEMA({"type": "object", "required": ["x", "mean", "lowest", "highest"], "properties": {
        "name": {"type": "string"}, "axis": {"type": "string", "enum": ["steps", "times"]},
        "points": {"type": "integer", "description": "The number of points that it represents."},
        "nan": {"type": "integer", "description": "The number of points that are not finite; no column includes them."},
        "infinite": {"type": "integer", "description": "The number of these that are plus or minus infinity."},
        "whole": {"type": "boolean", "description": "Each entry of x covers a single step or time."},
        "ranks": {"type": "array", "items": {"type": "integer"}, "description": "The ranks that have reported it."},
        "x": {"type": "array", "items": {"type": "integer"},
            "description": "Over time, an interval of several ranks is at least as long as the usual time between two points of a rank, and each rank counts once in it."},
        "mean": {"type": "array", "items": {"type": "number", "nullable": true}},
        "lowest": {"type": "array", "items": {"type": "number", "nullable": true}},
        "highest": {"type": "array", "items": {"type": "number", "nullable": true}}}})},
};
/* clang-format on */

const struct route_table metric_routes = ROUTE_TABLE("metrics");
