/* SPDX-License-Identifier: Apache-2.0 */
/* `weft metrics`: what a run of the platform has reported and used, as a list, as curves, as points. */
#include "base/file/named_output.h"
#include "base/format/json.h"
#include "base/terminal.h"
#include "base/text.h"
#include "cli/frame/command.h"
#include "cli/frame/moments.h"
#include "cli/frame/table.h"
#include "cli/platform/client/client.h"
#include "cli/platform/client/metric_value.h"
#include "cli/platform/client/run_reference.h"
#include "platform/metrics/chart/chart.h"
#include "platform/metrics/chart/text_chart.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define NAMES_MOST    16
#define PLOT_ROWS     12
#define PLOT_COLUMNS  100 /* a wider terminal is not filled */
#define QUIET_SECONDS 60.0

static struct {
    int64_t rank, attempt;
    const char *svg;
    const char *search, *after;
    bool times, csv, json, log;
} chosen;

static const struct cli_option options[] = {
    CLI_INTEGER("rank", 'r', "N", &chosen.rank, "-1", -1, 4294967295.0, "only this rank", .default_text = "all"),
    CLI_INTEGER("attempt", 'a', "N", &chosen.attempt, "0", 0, 1e15, "only this attempt",
                .default_text = "all; each step from the newest attempt that has it"),
    CLI_TEXT("search", 0, "TEXT", &chosen.search, NULL, "list only metrics whose names contain TEXT"),
    CLI_TEXT("after", 0, "NAME", &chosen.after, NULL, "list only metrics after NAME, the last of the page before"),
    CLI_FLAG("times", 't', &chosen.times, "draw over time instead of steps; machine metrics are always over time"),
    CLI_TEXT("svg", 0, "FILE", &chosen.svg, NULL, "draw the curves to FILE as SVG; -: standard output"),
    CLI_FLAG("log", 'l', &chosen.log, "with --svg: logarithmic axis"),
    CLI_FLAG("csv", 0, &chosen.csv, "print every point: rank, attempt, step, time in seconds since 1970, value"),
    CLI_FLAG("json", 0, &chosen.json, "print the server's reply: the list, or a line per curve"),
};

/* ---- asking ---- */

static void metrics_query(struct platform_path *path, const char *name, int64_t number)
{
    char text[32];
    snprintf(text, sizeof text, "%" PRId64, number);
    platform_path_query(path, name, text);
}

/* The path of a question about a metric: /api/v1/runs/12/metrics/curve?name=train%2Floss. */
static void metric_path(struct platform_path *path, int64_t run, const char *what, const char *name)
{
    platform_path_run(path, run, "metrics");
    platform_path_part(path, what);
    platform_path_query(path, "name", name);
    if (chosen.rank >= 0)
        metrics_query(path, "rank", chosen.rank);
    if (chosen.attempt > 0)
        metrics_query(path, "attempt", chosen.attempt);
}

static weft_status too_long(const char *name, struct error *error)
{
    return error_set(error, WEFT_ERROR_ARGUMENT, "'%.40s...' is too long for the name of a metric", name);
}

/* ---- the list ---- */

/* Missing numbers are NAN and missing strings "": an older or newer server may not send them. */
static double metrics_number(const cJSON *object, const char *key)
{
    const cJSON *value = cJSON_GetObjectItemCaseSensitive(object, key);
    return cJSON_IsNumber(value) ? value->valuedouble : NAN;
}

static const char *metrics_text(const cJSON *object, const char *key)
{
    const cJSON *value = cJSON_GetObjectItemCaseSensitive(object, key);
    return cJSON_IsString(value) ? text_printable(value->valuestring) : "";
}

static const struct table_column columns[] = {{.title = "name", .least = 24},
                                              {.title = "last", .right = true},
                                              {.title = "lowest", .right = true},
                                              {.title = "highest", .right = true},
                                              {.title = "step", .right = true},
                                              {.title = "ranks", .right = true},
                                              {.title = "when"}};
#define LOWEST_COLUMN  2 /* this and the next one are shown if a metric is of several ranks */
#define HIGHEST_COLUMN 3

static bool is_of_several(const cJSON *metric)
{
    return metrics_number(cJSON_GetObjectItemCaseSensitive(metric, "last"), "ranks") > 1;
}

static void metrics_put_value(struct table *table, const cJSON *metric, const char *key)
{
    const cJSON *last = cJSON_GetObjectItemCaseSensitive(metric, "last");
    char value[METRIC_VALUE_BYTES];
    metric_value_text(metrics_text(metric, "unit"), metric_value_of(cJSON_GetObjectItemCaseSensitive(last, key)),
                      value);
    table_put(table, "%s", value);
}

static void put_metric(struct table *table, const cJSON *metric)
{
    const cJSON *last = cJSON_GetObjectItemCaseSensitive(metric, "last");
    const double step = metrics_number(last, "step"), moment = metrics_number(last, "time");
    const int64_t now = moment_now(); /* the server's clock may be ahead */
    char ago[MOMENT_BYTES] = "";
    if (isfinite(moment))
        moment_ago(moment < (double)now ? (int64_t)moment : now, now, ago);
    table_put(table, "%s", metrics_text(metric, "name"));
    metrics_put_value(table, metric, "value");
    if (is_of_several(metric)) {
        metrics_put_value(table, metric, "lowest");
        metrics_put_value(table, metric, "highest");
    } else {
        table_put(table, "-");
        table_put(table, "-");
    }
    if (isfinite(step) && strncmp(metrics_text(metric, "name"), "system/", 7) != 0) /* whose steps are seconds */
        table_put(table, "%.0f", step);
    else
        table_put(table, "-");
    table_put(table, "%.0f", metrics_number(metric, "ranks"));
    table_put(table, "%s", ago);
}

static weft_status print_list(const cJSON *reply, int64_t run, FILE *output, struct error *error)
{
    const cJSON *metrics = cJSON_GetObjectItemCaseSensitive(reply, "metrics"), *metric;
    const double joules = metrics_number(reply, "energy");
    char energy[METRIC_VALUE_BYTES];
    struct table table;
    bool spread = false;
    if (!cJSON_GetArraySize(metrics)) {
        fprintf(output, "run %" PRId64 " has no metrics%s\n", run,
                chosen.after    ? " after that one"
                : chosen.search ? " whose names contain that"
                                : " yet");
        return WEFT_OK;
    }
    table_begin(&table, columns, ARRAY_SIZE(columns));
    cJSON_ArrayForEach(metric, metrics) {
        spread = spread || is_of_several(metric);
        put_metric(&table, metric);
    }
    table.hidden[LOWEST_COLUMN] = table.hidden[HIGHEST_COLUMN] = !spread;
    weft_status status = table_print(&table, output, error);
    table_end(&table);
    if (status == WEFT_OK && field_true(reply, "more"))
        fprintf(output,
                "\n%d of %.0f metrics are shown: --search TEXT narrows the list, '--after %s' shows the next ones\n",
                cJSON_GetArraySize(metrics), metrics_number(reply, "matching"),
                field_text(cJSON_GetArrayItem(metrics, cJSON_GetArraySize(metrics) - 1), "name"));
    if (status == WEFT_OK && isfinite(joules))
        fprintf(output, "\nenergy: %s\n", metric_energy_text(joules, energy));
    return status;
}

/* The reply with the names after `after`, NULL: from the first. */
static weft_status ask_names(struct platform *platform, int64_t run, const char *after, cJSON **reply,
                             struct error *error)
{
    struct platform_path path;
    platform_path_run(&path, run, "metrics");
    platform_path_query(&path, "most", "1000");
    platform_path_query(&path, "search", chosen.search);
    platform_path_query(&path, "after", after);
    return platform_get(platform, &path, reply, error);
}

/* Add the pages that follow to `first`, so that JSON has all. */
static weft_status add_pages(struct platform *platform, int64_t run, cJSON *first, struct error *error)
{
    cJSON *metrics = cJSON_GetObjectItemCaseSensitive(first, "metrics");
    bool more = field_true(first, "more");
    while (more && metrics && metrics->child) {
        cJSON *reply = NULL;
        weft_status status =
            ask_names(platform, run, field_text(metrics->child->prev, "name"), &reply, error); /* the last one */
        if (status != WEFT_OK)
            return status;
        cJSON *page = cJSON_GetObjectItemCaseSensitive(reply, "metrics");
        more = field_true(reply, "more") && cJSON_GetArraySize(page) > 0;
        while (page && page->child)
            cJSON_AddItemToArray(metrics, cJSON_DetachItemViaPointer(page, page->child));
        cJSON_Delete(reply);
    }
    if (!more && cJSON_HasObjectItem(first, "more"))
        cJSON_ReplaceItemInObjectCaseSensitive(first, "more", cJSON_CreateFalse());
    return WEFT_OK;
}

static weft_status metrics_list(struct platform *platform, int64_t run, FILE *output, struct error *error)
{
    cJSON *reply = NULL;
    weft_status status = ask_names(platform, run, chosen.after, &reply, error);
    if (status == WEFT_OK && chosen.json) {
        status = add_pages(platform, run, reply, error);
        if (status == WEFT_OK)
            platform_print_json(reply, output);
    } else if (status == WEFT_OK) {
        status = print_list(reply, run, output, error);
    }
    cJSON_Delete(reply);
    return status;
}

/* ---- curves ---- */

struct curve {
    char name[256];
    double *x, *mean, *lowest, *highest; /* one allocation, at `x` */
    size_t count;
    double points, nan, infinite; /* points in total; of these, not drawn */
};

static void read_column(const cJSON *reply, const char *key, double *values, size_t count)
{
    const cJSON *array = cJSON_GetObjectItemCaseSensitive(reply, key);
    const cJSON *value = cJSON_IsArray(array) ? array->child : NULL;
    for (size_t i = 0; i < count; i++, value = value ? value->next : NULL)
        values[i] = cJSON_IsNumber(value) ? value->valuedouble : NAN;
}

static weft_status read_curve(const cJSON *reply, const char *name, struct curve *curve, struct error *error)
{
    const cJSON *x = cJSON_GetObjectItemCaseSensitive(reply, "x");
    const size_t count = cJSON_IsArray(x) ? (size_t)cJSON_GetArraySize(x) : 0;
    double *values = calloc(4 * count + 1, sizeof *values);
    if (!values)
        return error_memory(error, 4 * count * sizeof *values, "a curve");
    *curve = (struct curve){.x = values,
                            .mean = values + count,
                            .lowest = values + 2 * count,
                            .highest = values + 3 * count,
                            .count = count,
                            .points = metrics_number(reply, "points"),
                            .nan = metrics_number(reply, "nan") - metrics_number(reply, "infinite"),
                            .infinite = metrics_number(reply, "infinite")};
    snprintf(curve->name, sizeof curve->name, "%s", name);
    read_column(reply, "x", curve->x, count);
    read_column(reply, "mean", curve->mean, count);
    read_column(reply, "lowest", curve->lowest, count);
    read_column(reply, "highest", curve->highest, count);
    return WEFT_OK;
}

/* Metrics of machines have no steps. */
static bool is_over_times(const char *name)
{
    return chosen.times || strncmp(name, "system/", 7) == 0;
}

static weft_status print_curve(const struct curve *curve, FILE *output, struct error *error)
{
    const uint32_t terminal = terminal_columns(STDOUT_FILENO);
    char first[MOMENT_BYTES], last[MOMENT_BYTES], shown[256];
    struct text_chart chart = {.x = curve->x,
                               .mean = curve->mean,
                               .lowest = curve->lowest,
                               .highest = curve->highest,
                               .count = curve->count,
                               .columns = terminal && terminal < PLOT_COLUMNS ? terminal : PLOT_COLUMNS,
                               .rows = PLOT_ROWS};
    if (is_over_times(curve->name) && curve->count) {
        const size_t year = strlen("2026-");
        chart.first = moment_clock((int64_t)curve->x[0], first) + year;
        chart.last = moment_clock((int64_t)curve->x[curve->count - 1], last) + year;
    }
    snprintf(shown, sizeof shown, "%s", curve->name);
    fprintf(output, "%s: %.0f points", text_printable(shown), isfinite(curve->points) ? curve->points : 0);
    if (curve->nan > 0)
        fprintf(output, ", %.0f of them NaN", curve->nan);
    if (curve->infinite > 0)
        fprintf(output, ", %.0f of them infinite", curve->infinite);
    fputc('\n', output);
    return text_chart_print(&chart, output, error);
}

static weft_status write_picture(const struct curve *curves, size_t count, int64_t run, FILE *output,
                                 struct error *error)
{
    struct chart_curve lines[3 * NAMES_MOST];
    struct chart_panel panels[NAMES_MOST];
    char title[64], *svg = NULL;
    size_t size;
    for (size_t i = 0; i < count; i++) {
        struct chart_curve *line = &lines[3 * i];
        line[0] = (struct chart_curve){curves[i].x, curves[i].lowest, curves[i].count, CHART_FAINT, (unsigned)i, NULL};
        line[1] = (struct chart_curve){curves[i].x, curves[i].highest, curves[i].count, CHART_FAINT, (unsigned)i, NULL};
        line[2] = (struct chart_curve){curves[i].x, curves[i].mean, curves[i].count, CHART_STRONG, (unsigned)i, NULL};
        panels[i] = (struct chart_panel){
            .title = curves[i].name, .wide = count < 3, .log = chosen.log, .curves = line, .curve_count = 3};
    }
    bool steps = false, times = false;
    for (size_t i = 0; i < count; i++) {
        if (!is_over_times(curves[i].name)) {
            steps = true;
            continue;
        }
        times = true;
        for (size_t j = curves[i].count; j-- > 0;) /* seconds since the first point */
            curves[i].x[j] = (curves[i].x[j] - curves[i].x[0]) / 1000;
    }
    snprintf(title, sizeof title, "run %" PRId64, run);
    const struct chart chart = {.title = title,
                                .subtitle = "",
                                .x_title = steps && times ? "step, or seconds"
                                           : steps        ? "step"
                                                          : "seconds",
                                .panels = panels,
                                .panel_count = count};
    weft_status status = chart_draw(&chart, &svg, &size, error);
    if (status == WEFT_OK)
        status = named_output_write(chosen.svg, svg, size, error);
    if (status == WEFT_OK && !named_output_is_standard(chosen.svg))
        fprintf(output, "%s\n", chosen.svg);
    free(svg);
    return status;
}

static weft_status ask_curve(struct client *client, int64_t run, const char *name, struct client_reply *reply,
                             struct error *error)
{
    struct platform_path path;
    metric_path(&path, run, "curve", name);
    metrics_query(&path, "most", 2000);
    platform_path_query(&path, "axis", is_over_times(name) ? "times" : NULL);
    if (path.full)
        return too_long(name, error);
    return client_ask(client, &(struct client_request){.method = "GET", .path = path.text}, reply, error);
}

static weft_status metrics_draw(struct client *client, int64_t run, char *const *names, size_t count, FILE *output,
                                struct error *error)
{
    struct curve *curves = calloc(NAMES_MOST, sizeof *curves);
    weft_status status = curves ? WEFT_OK : error_memory(error, NAMES_MOST * sizeof *curves, "curves");
    for (size_t i = 0; i < count && status == WEFT_OK; i++) {
        struct client_reply reply;
        status = ask_curve(client, run, names[i], &reply, error);
        if (status != WEFT_OK)
            break;
        if (chosen.json)
            fprintf(output, "%s", reply.text);
        else
            status = read_curve(reply.json, names[i], &curves[i], error);
        client_reply_free(&reply);
        if (status == WEFT_OK && !chosen.json && !chosen.svg)
            status = print_curve(&curves[i], output, error);
    }
    if (status == WEFT_OK && chosen.svg && !chosen.json)
        status = write_picture(curves, count, run, output, error);
    for (size_t i = 0; curves && i < count; i++)
        free(curves[i].x);
    free(curves);
    return status;
}

/* ---- points ---- */

static bool metrics_print_bytes(void *context, const char *bytes, size_t size)
{
    return fwrite(bytes, 1, size, context) == size;
}

static weft_status export(struct client *client, int64_t run, const char *name, FILE *output, struct error *error)
{
    struct platform_path path;
    metric_path(&path, run, "points", name);
    if (path.full)
        return too_long(name, error);
    weft_status status = client_bytes(client, &(struct client_request){.method = "GET", .path = path.text},
                                      QUIET_SECONDS, metrics_print_bytes, output, error);
    if (status == WEFT_OK && (fflush(output) != 0 || ferror(output)))
        status = error_system(error, "cannot write the points");
    return status;
}

/* ---- the command ---- */

static weft_status metrics_check(const struct command_call *call, struct error *error)
{
    const size_t names = call->word_count - 1;
    if (chosen.csv && names != 1)
        return error_set(error, WEFT_ERROR_ARGUMENT,
                         "--csv prints the points of one metric: name one; 'weft metrics %s' lists them",
                         call->words[0]);
    if ((chosen.svg || chosen.times) && names == 0)
        return error_set(error, WEFT_ERROR_ARGUMENT, "%s is for curves: name metrics; 'weft metrics %s' lists them",
                         chosen.svg ? "--svg" : "--times", call->words[0]);
    if (chosen.csv && (chosen.svg || chosen.json))
        return error_set(error, WEFT_ERROR_ARGUMENT, "give one of --csv, --json and --svg");
    return WEFT_OK;
}

static weft_status metrics_run(struct command_call *call, struct error *error)
{
    struct platform platform;
    int64_t found;
    weft_status status = command_misused(call, metrics_check(call, error));
    if (status == WEFT_OK)
        status = platform_open(PLATFORM_PATIENCE, &platform, error);
    if (status != WEFT_OK)
        return status;
    status = run_reference_find(&platform, call->words[0], &found, error);
    if (status == WEFT_OK && chosen.csv)
        status = export(platform.client, found, call->words[1], call->output, error);
    else if (status == WEFT_OK && call->word_count == 1)
        status = metrics_list(&platform, found, call->output, error);
    else if (status == WEFT_OK)
        status = metrics_draw(platform.client, found, call->words + 1, call->word_count - 1, call->output, error);
    platform_close(&platform);
    return status;
}

const struct command command_metrics = {
    .name = "metrics",
    .group = COMMAND_PLATFORM,
    .summary = "show what a run of the platform reports and uses: a list, curves, every point",
    .description =
        "Without names: the run's metrics with their newest values (mean, lowest and highest of all ranks), and "
        "its energy. With names: a curve of each; '*' is the mean, and ':' spans the lowest to the highest value "
        "of ranks and neighboring steps.\n\n"
        "A program reports metrics by weft_report(), by lines of JSON on its standard output or in the file that "
        "WEFT_METRICS names ({\"step\": 10, \"train/loss\": 1.25}), or by TensorBoard event files in runs/, logs/, "
        "tensorboard/ or lightning_logs/ of its directory, or in WEFT_TENSORBOARD_DIR. Metrics that begin with "
        "system/ are measured by Weft.",
    .examples = "weft metrics 12\n"
                "weft metrics 12 train/loss system/node/cpu\n"
                "weft metrics 12 train/loss lr --svg run.svg\n"
                "weft metrics 12 train/loss --csv > loss.csv\n",
    .words = "RUN [NAME...]",
    .most_words = 1 + NAMES_MOST,
    COMMAND_OPTIONS(options),
    .run = metrics_run,
};
