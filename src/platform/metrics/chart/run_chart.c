/* SPDX-License-Identifier: Apache-2.0 */
#include "platform/metrics/chart/run_chart.h"

#include "platform/metrics/chart/chart.h"
#include "platform/metrics/chart/internal/curve.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define POINTS_MOST 2000 /* of a curve: more than a screen has columns */
#define LABEL_BYTES 160

/* Copies of curves, and their labels. */
struct drawing {
    struct chart_curve loss[3 * RUN_CHART_MOST], rate[RUN_CHART_MOST], speed[RUN_CHART_MOST];
    size_t loss_count, rate_count, speed_count;
    char labels[3 * RUN_CHART_MOST][LABEL_BYTES];
    double *arrays[12 * RUN_CHART_MOST];
    size_t array_count;
};

static double *make_array(struct drawing *drawing, size_t count, struct error *error)
{
    double *array = calloc(count + 1, sizeof *array);
    if (!array)
        error_memory(error, (count + 1) * sizeof *array, "a curve");
    else
        drawing->arrays[drawing->array_count++] = array;
    return array;
}

/* A copy that is smooth if `reach` is not 0, with as many points as can be seen. `end` receives its last value. */
static weft_status make_curve(struct drawing *drawing, const struct metrics_values *values, size_t reach,
                              struct chart_curve *curve, double *end, struct error *error)
{
    double *x = make_array(drawing, values->count, error), *y = x ? make_array(drawing, values->count, error) : NULL;
    if (!y)
        return WEFT_ERROR_MEMORY;
    if (values->count == 0) {
        *end = NAN;
        return WEFT_OK;
    }
    memcpy(x, values->steps, values->count * sizeof *x);
    if (reach > 0) {
        weft_status status = curve_smooth(values->values, values->count, reach, y, error);
        if (status != WEFT_OK)
            return status;
    } else {
        memcpy(y, values->values, values->count * sizeof *y);
    }
    *end = y[values->count - 1];
    *curve = (struct chart_curve){
        .x = x, .y = y, .count = curve_thin(x, y, values->count, POINTS_MOST), .style = curve->style};
    return WEFT_OK;
}

static bool any_finite(const struct metrics_values *values)
{
    for (size_t i = 0; i < values->count; i++)
        if (isfinite(values->values[i]))
            return true;
    return false;
}

static void run_chart_append(struct chart_curve *curves, size_t *count, struct chart_curve curve,
                             enum chart_style style, unsigned color, const char *label)
{
    curve.style = style;
    curve.color = color;
    curve.label = label;
    curves[(*count)++] = curve;
}

/* The mean of the last values, as many as smoothing looks at: one step says little. */
static double run_chart_last_of(const struct metrics_values *values, size_t reach)
{
    double sum = 0;
    size_t number = 0;
    for (size_t i = values->count > 2 * reach ? values->count - 2 * reach - 1 : 0; i < values->count; i++)
        if (isfinite(values->values[i])) {
            sum += values->values[i];
            number++;
        }
    return sum / (double)number;
}

/* "train: 1.25"; without the number where there is none. */
static void write_label(char label[LABEL_BYTES], const char *name, const char *of, double value)
{
    char number[32] = "";
    if (isfinite(value))
        snprintf(number, sizeof number, ": %.4g", value);
    snprintf(label, LABEL_BYTES, "%.100s%s%s", name, of, number);
}

static weft_status run_chart_add_run(struct drawing *drawing, const struct run_chart *chart, size_t i,
                                     struct error *error)
{
    const struct metrics *run = &chart->runs[i];
    const struct metrics_values *loss = &run->figures[METRICS_LOSS], *held_out = &run->held_out;
    const bool several = chart->count > 1;
    const unsigned color = several ? (unsigned)i : 0;
    const size_t reach = (size_t)(chart->smooth * (double)loss->count / 2);
    char(*labels)[LABEL_BYTES] = &drawing->labels[3 * i];
    struct chart_curve curve = {0};
    double end;
    weft_status status;
    if (reach > 0) {
        if ((status = make_curve(drawing, loss, 0, &curve, &end, error)) != WEFT_OK)
            return status;
        run_chart_append(drawing->loss, &drawing->loss_count, curve, CHART_FAINT, color,
                         several ? NULL : "train, each step");
    }
    if ((status = make_curve(drawing, loss, reach, &curve, &end, error)) != WEFT_OK)
        return status;
    write_label(labels[0], several ? chart->names[i] : "train", "", run_chart_last_of(loss, reach));
    run_chart_append(drawing->loss, &drawing->loss_count, curve, CHART_STRONG, color, labels[0]);
    if (any_finite(held_out)) {
        if ((status = make_curve(drawing, held_out, 0, &curve, &end, error)) != WEFT_OK)
            return status;
        write_label(labels[1], several ? chart->names[i] : "held out", several ? ", held out" : "", end);
        run_chart_append(drawing->loss, &drawing->loss_count, curve, CHART_DOTTED, several ? color : 1, labels[1]);
    }
    if (any_finite(&run->figures[METRICS_RATE])) {
        if ((status = make_curve(drawing, &run->figures[METRICS_RATE], 0, &curve, &end, error)) != WEFT_OK)
            return status;
        run_chart_append(drawing->rate, &drawing->rate_count, curve, CHART_STRONG, color, NULL);
    }
    if (any_finite(&run->figures[METRICS_TOKENS_PER_SECOND])) {
        if ((status = make_curve(drawing, &run->figures[METRICS_TOKENS_PER_SECOND], reach / 2, &curve, &end, error)) !=
            WEFT_OK)
            return status;
        run_chart_append(drawing->speed, &drawing->speed_count, curve, CHART_STRONG, color, NULL);
    }
    return WEFT_OK;
}

static void make_titles(const struct run_chart *chart, char title[256], char subtitle[512])
{
    const struct metrics *run = &chart->runs[0];
    const struct metrics_values *loss = &run->figures[METRICS_LOSS];
    snprintf(subtitle, 512, "%s",
             chart->count == 1   ? ""
             : chart->smooth > 0 ? "pale: each step; dots: on held-out text"
                                 : "dots: on held-out text");
    if (chart->title)
        snprintf(title, 256, "%s", chart->title);
    else if (chart->count > 1)
        snprintf(title, 256, "%zu runs", chart->count);
    else
        snprintf(title, 256, "%s", *run->run ? run->run : chart->names[0]);
    if (chart->count > 1 || !*run->model || !(run->batch > 0) || !(run->sequence > 0))
        return;
    snprintf(subtitle, 512, "%s, %.3gM parameters; %.0f steps of %.0f \xc3\x97 %.0f tokens on %.0f rank%s", run->model,
             run->parameters * 1e-6, loss->steps[loss->count - 1], run->batch, run->sequence, run->ranks,
             run->ranks == 1 ? "" : "s");
}

static weft_status chart_run_chart_draw(struct drawing *drawing, const struct run_chart *chart, char **svg,
                                        size_t *size, struct error *error)
{
    char title[256], subtitle[512];
    for (size_t i = 0; i < chart->count; i++) {
        weft_status status = run_chart_add_run(drawing, chart, i, error);
        if (status != WEFT_OK)
            return status;
    }
    make_titles(chart, title, subtitle);
    struct chart_panel panels[3] = {
        {.title = chart->log ? "loss, logarithmic" : "loss",
         .wide = true,
         .log = chart->log,
         .curves = drawing->loss,
         .curve_count = drawing->loss_count},
    };
    size_t count = 1;
    if (drawing->rate_count)
        panels[count++] = (struct chart_panel){
            .title = "learning rate", .zero = true, .curves = drawing->rate, .curve_count = drawing->rate_count};
    if (drawing->speed_count)
        panels[count++] = (struct chart_panel){
            .title = "tokens/s", .zero = true, .curves = drawing->speed, .curve_count = drawing->speed_count};
    return chart_draw(
        &(struct chart){
            .title = title, .subtitle = subtitle, .x_title = "step", .panels = panels, .panel_count = count},
        svg, size, error);
}

weft_status run_chart_draw(const struct run_chart *chart, char **svg, size_t *size, struct error *error)
{
    struct drawing *drawing = calloc(1, sizeof *drawing);
    if (!drawing)
        return error_memory(error, sizeof *drawing, "a chart");
    weft_status status = chart_run_chart_draw(drawing, chart, svg, size, error);
    for (size_t i = 0; i < drawing->array_count; i++)
        free(drawing->arrays[i]);
    free(drawing);
    return status;
}
