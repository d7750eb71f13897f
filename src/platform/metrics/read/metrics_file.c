/* SPDX-License-Identifier: Apache-2.0 */
#include "platform/metrics/read/metrics_file.h"

#include "base/format/json.h"
#include "base/text.h"
#include "training/train/report/names.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define LINE_MOST 65536 /* bytes; ours have some hundred */

static const enum report_name names[METRICS_FIGURES] = {
    [METRICS_LOSS] = REPORT_NAME_LOSS,
    [METRICS_RATE] = REPORT_NAME_RATE,
    [METRICS_GRADIENT_NORM] = REPORT_NAME_GRADIENT_NORM,
    [METRICS_TOKENS_PER_SECOND] = REPORT_NAME_TOKENS_PER_SECOND,
    [METRICS_UTILIZATION] = REPORT_NAME_UTILIZATION,
};

void metrics_free(struct metrics *metrics)
{
    for (size_t i = 0; i < METRICS_FIGURES; i++) {
        free(metrics->figures[i].steps);
        free(metrics->figures[i].values);
    }
    free(metrics->held_out.steps);
    free(metrics->held_out.values);
    *metrics = (struct metrics){0};
}

/* Forget what stands from `step` on. */
static void metrics_file_cut(struct metrics_values *values, double step)
{
    while (values->count > 0 && values->steps[values->count - 1] >= step)
        values->count--;
}

static weft_status metrics_file_append(struct metrics_values *values, double step, double value, struct error *error)
{
    size_t room = values->room;
    if (ARRAY_RESERVE(values->steps, room, values->count + 1, "the metrics of a run", error) != WEFT_OK ||
        ARRAY_RESERVE(values->values, values->room, values->count + 1, "the metrics of a run", error) != WEFT_OK)
        return WEFT_ERROR_MEMORY;
    values->steps[values->count] = step;
    values->values[values->count++] = value;
    return WEFT_OK;
}

/* A number, or NaN where there is none: a loss that is not finite is written as null. */
static double metrics_file_number_of(const cJSON *object, const char *key)
{
    const cJSON *value = cJSON_GetObjectItemCaseSensitive(object, key);
    return cJSON_IsNumber(value) && isfinite(value->valuedouble) ? value->valuedouble : NAN;
}

static double metrics_file_count_of(const cJSON *object, const char *key)
{
    const double number = metrics_file_number_of(object, key);
    return number >= 0 && number <= (double)JSON_EXACT ? number : 0;
}

static void metrics_file_text_of(const cJSON *object, const char *key, char *text, size_t size)
{
    const cJSON *value = cJSON_GetObjectItemCaseSensitive(object, key);
    snprintf(text, size, "%s", cJSON_IsString(value) ? value->valuestring : "");
    text_printable(text);
}

static void take_start(struct metrics *metrics, const cJSON *event)
{
    metrics_file_text_of(event, "run", metrics->run, sizeof metrics->run);
    metrics_file_text_of(event, "model", metrics->model, sizeof metrics->model);
    metrics->parameters = metrics_file_count_of(event, "parameters");
    metrics->batch = metrics_file_count_of(event, "batch");
    metrics->sequence = metrics_file_count_of(event, "sequence");
    metrics->ranks = metrics_file_count_of(event, "ranks");
}

static weft_status metrics_file_take_step(struct metrics *metrics, const cJSON *event, double step, struct error *error)
{
    weft_status status = WEFT_OK;
    metrics_file_cut(&metrics->held_out, step);
    for (size_t i = 0; i < METRICS_FIGURES && status == WEFT_OK; i++) {
        metrics_file_cut(&metrics->figures[i], step);
        status = metrics_file_append(&metrics->figures[i], step,
                                     metrics_file_number_of(event, report_name_keys[names[i]]), error);
    }
    return status;
}

static weft_status metrics_file_take(struct metrics *metrics, const cJSON *event, const char *where, bool *starts,
                                     struct error *error)
{
    const char *kind;
    int64_t step;
    weft_status status = json_get_text(event, "event", where, &kind, error);
    *starts = status == WEFT_OK && strcmp(kind, "start") == 0;
    if (*starts)
        take_start(metrics, event);
    if (status != WEFT_OK || (strcmp(kind, "step") != 0 && strcmp(kind, "evaluation") != 0))
        return status;
    status = json_get_integer(event, "step", where, 0, JSON_EXACT, &step, error);
    if (status != WEFT_OK)
        return status;
    if (strcmp(kind, "step") == 0)
        return metrics_file_take_step(metrics, event, (double)step, error);
    metrics_file_cut(&metrics->held_out, (double)step);
    return metrics_file_append(&metrics->held_out, (double)step, metrics_file_number_of(event, "loss"), error);
}

/* One line. DATA: not a line of weft train, or a truncated one. */
static weft_status metrics_file_take_line(struct metrics *metrics, const char *line, size_t length, const char *where,
                                          bool *starts, struct error *error)
{
    cJSON *event;
    *starts = false;
    if (length > LINE_MOST)
        return error_set(error, WEFT_ERROR_DATA, "%s: a line of %zu bytes was not written by weft train", where,
                         length);
    weft_status status = json_parse(line, length, where, &event, error);
    if (status != WEFT_OK)
        return status;
    status = metrics_file_take(metrics, event, where, starts, error);
    cJSON_Delete(event);
    return status;
}

static weft_status metrics_file_read_lines(FILE *file, const char *path, struct metrics *metrics, struct error *error)
{
    char *line = NULL, where[512];
    size_t room = 0, number = 0;
    ssize_t length;
    struct error torn = {0};
    weft_status status = WEFT_OK;
    errno = 0;
    while (status == WEFT_OK && (length = getline(&line, &room, file)) >= 0) {
        bool starts;
        number++;
        if (strspn(line, " \t\r\n") == (size_t)length)
            continue;
        struct error here = {0};
        snprintf(where, sizeof where, "%.400s, line %zu", path, number);
        const weft_status taken = metrics_file_take_line(metrics, line, (size_t)length, where, &starts, &here);
        if (torn.status != WEFT_OK && !starts)
            status = error_set(error, torn.status, "%s", torn.text);
        else if (taken != WEFT_OK && taken != WEFT_ERROR_DATA)
            status = error_set(error, taken, "%s", here.text);
        torn = here;
    }
    if (status == WEFT_OK && ferror(file))
        status = error_system(error, "cannot read the metrics file '%s'", path);
    free(line);
    return status;
}

weft_status metrics_read(const char *path, struct metrics *metrics, struct error *error)
{
    *metrics = (struct metrics){0};
    FILE *file = fopen(path, "r");
    if (!file)
        return error_system(error, "cannot read the metrics file '%s'", path);
    weft_status status = metrics_file_read_lines(file, path, metrics, error);
    fclose(file);
    if (status == WEFT_OK && metrics->figures[METRICS_LOSS].count == 0)
        status = error_set(error, WEFT_ERROR_DATA,
                           "'%s' has no step; it should be a file written by weft train --metrics", path);
    if (status != WEFT_OK)
        metrics_free(metrics);
    return status;
}
