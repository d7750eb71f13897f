/* SPDX-License-Identifier: Apache-2.0 */
/* Any bytes as a file of metrics: refused with a message, or a run whose steps rise, and which can be drawn. */
#include "fuzz_file.h"

#include "platform/metrics/chart/run_chart.h"

#include <math.h>
#include <string.h>

static void check_values(const struct metrics_values *values)
{
    for (size_t i = 0; i < values->count; i++)
        if (!isfinite(values->steps[i]) || values->steps[i] < 0 || isinf(values->values[i]) ||
            (i > 0 && values->steps[i] <= values->steps[i - 1]))
            abort();
}

static void check_picture(const struct metrics *metrics)
{
    const char *const name = "run";
    for (int log = 0; log < 2; log++) {
        char *svg;
        size_t size;
        struct error error = {0};
        const struct run_chart chart = {
            .runs = metrics, .names = &name, .count = 1, .log = log != 0, .smooth = log ? 0 : 0.3};
        if (run_chart_draw(&chart, &svg, &size, &error) != WEFT_OK || strlen(svg) != size || strstr(svg, "nan") ||
            strstr(svg, "inf"))
            abort();
        free(svg);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char path[FUZZ_PATH_BYTES];
    struct metrics metrics;
    struct error error = {0};
    int descriptor = fuzz_file(data, size, path);
    weft_status status = metrics_read(path, &metrics, &error);
    close(descriptor);
    if (status != WEFT_OK) {
        if (!*error.text || metrics.figures[0].steps || metrics.held_out.steps)
            abort();
        return 0;
    }
    for (size_t i = 0; i < METRICS_FIGURES; i++) {
        if (metrics.figures[i].count != metrics.figures[0].count)
            abort();
        check_values(&metrics.figures[i]);
    }
    check_values(&metrics.held_out);
    if (!memchr(metrics.run, 0, sizeof metrics.run) || !memchr(metrics.model, 0, sizeof metrics.model))
        abort();
    /* Names may say what they like. */
    strcpy(metrics.run, "run");
    strcpy(metrics.model, "model");
    check_picture(&metrics);
    metrics_free(&metrics);
    return 0;
}
