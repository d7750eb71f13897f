/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The newest figures in Prometheus's text exposition format (version 0.0.4), as its node exporter's textfile collector
 * reads them: a file that is replaced atomically, so that no reader sees half of one. Names follow Prometheus's rules:
 * base units, _total for counters, _ratio for shares.
 */
#include "training/train/report/internal/sink.h"

#include "base/clock.h"
#include "base/file/file.h"
#include "base/text.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <sys/stat.h>

#define REWRITE_NANOSECONDS 1000000000u /* scrapes are seconds apart */
#define LABEL_BYTES         512

struct prometheus_file {
    const char *path;
    char temporary[FILE_PATH_BYTES]; /* does not end in .prom, so that collectors pass over it */
    char labels[2 * LABEL_BYTES + 32];
    uint64_t written; /* clock_now() */
    bool running, stepped, evaluated;
    double began;
    struct report_run run;
    struct report_figures figures;
    struct report_held_out held_out;
};

/* Whether the file can be made is tried before the run begins. */
static weft_status try_path(struct prometheus_file *prometheus, struct error *error)
{
    const size_t room = sizeof prometheus->temporary;
    struct stat there;
    if ((size_t)snprintf(prometheus->temporary, room, "%s.tmp", prometheus->path) >= room)
        return error_set(error, WEFT_ERROR_ARGUMENT,
                         "cannot write Prometheus metrics: the path is longer than %zu bytes", room);
    if (stat(prometheus->path, &there) == 0 && !S_ISREG(there.st_mode)) /* it would be replaced */
        return error_set(error, WEFT_ERROR_ARGUMENT,
                         "cannot write Prometheus metrics to '%s': it is not a regular file; name one in a directory",
                         prometheus->path);
    FILE *file = fopen(prometheus->temporary, "w");
    if (!file)
        return error_system(error, "cannot write Prometheus metrics to '%s'", prometheus->path);
    fclose(file);
    remove(prometheus->temporary);
    return WEFT_OK;
}

static weft_status prometheus_open(const struct report_options *options, void **state, struct error *error)
{
    if (!options->prometheus)
        return WEFT_OK;
    struct prometheus_file *prometheus = calloc(1, sizeof *prometheus);
    if (!prometheus)
        return error_memory(error, sizeof *prometheus, "the Prometheus file");
    prometheus->path = options->prometheus;
    const weft_status status = try_path(prometheus, error);
    if (status == WEFT_OK)
        *state = prometheus;
    else
        free(prometheus);
    return status;
}

/* A label's value: printable, with \ and " escaped, cut where it is very long. */
static void escape_label(const char *text, char escaped[LABEL_BYTES])
{
    char printable[LABEL_BYTES / 2];
    size_t length = 0;
    snprintf(printable, sizeof printable, "%s", text);
    text_printable(printable);
    for (const char *letter = printable; *letter; letter++) {
        if (*letter == '\\' || *letter == '"')
            escaped[length++] = '\\';
        escaped[length++] = *letter;
    }
    escaped[length] = 0;
}

struct prometheus_metric {
    const char *name, *type, *help;
    double value;
};

/* Each has one sample. Not a number is written as NaN, which the format has. */
static void put_metrics(const struct prometheus_file *prometheus, FILE *file, const struct prometheus_metric *metrics,
                        size_t count)
{
    for (const struct prometheus_metric *metric = metrics; metric < metrics + count; metric++) {
        const double value = metric->value;
        fprintf(file, "# HELP weft_train_%s %s\n# TYPE weft_train_%s %s\nweft_train_%s%s ", metric->name, metric->help,
                metric->name, metric->type, metric->name, prometheus->labels);
        if (isfinite(value))
            fprintf(file, "%.15g\n", value);
        else
            fprintf(file, "%s\n", isnan(value) ? "NaN" : value > 0 ? "+Inf" : "-Inf");
    }
}

static void put_all(const struct prometheus_file *prometheus, FILE *file)
{
    const struct report_run *run = &prometheus->run;
    const struct report_figures *figures = &prometheus->figures;
    const struct report_step *step = &figures->step;
    const struct report_held_out *held_out = &prometheus->held_out;
    const struct prometheus_metric of_run[] = {
        {"running", "gauge", "1 while the run takes steps, 0 when it has ended.", prometheus->running ? 1 : 0},
        {"start_time_seconds", "gauge", "When the run began or went on, since 1970.", prometheus->began},
        {"ranks", "gauge", "Ranks that train.", (double)run->ranks},
        {"target_steps", "gauge", "Steps of the whole run.", (double)run->steps},
        {"peak_flops", "gauge", "Floating-point operations a second that all ranks could do.", run->peak},
        {"step", "gauge", "Steps done, those before the run went on included.",
         (double)(prometheus->stepped ? step->step : run->step)},
    };
    const struct prometheus_metric of_steps[] = {
        {"last_step_time_seconds", "gauge", "When the last step ended, since 1970.", figures->time},
        {"loss", "gauge", "Mean loss over the last step's batch, natural logarithm.", step->loss},
        {"learning_rate", "gauge", "Learning rate of the last step.", step->rate},
        {"gradient_norm", "gauge", "Norm of the last step's gradient, before clipping.", step->gradient_norm},
        {"step_seconds", "gauge", "Wall time of the last step.", step->seconds},
        {"tokens_per_second", "gauge", "Tokens a second in recent steps.", figures->recent.tokens},
        {"wait_ratio", "gauge", "Share of recent steps spent waiting for other ranks.", figures->recent.wait},
        {"model_flops_utilization_ratio", "gauge", "Share of the peak that the model's arithmetic is in recent steps.",
         figures->recent.share},
        {"remaining_seconds", "gauge", "Time to the end of the run at the recent speed.", figures->left},
        {"steps_total", "counter", "Steps taken since the run began or went on.", (double)figures->taken},
        {"tokens_total", "counter", "Tokens trained on since the run began or went on.",
         (double)figures->taken * run->tokens},
        {"seconds_total", "counter", "Wall time of these steps.", figures->seconds},
        {"wait_seconds_total", "counter", "Of these, waiting for other ranks.", figures->wait_seconds},
    };
    const struct prometheus_metric of_scaling[] = {
        {"loss_scale", "gauge", "Factor that the last step's gradient was computed with.", step->loss_scale},
        {"step_skipped", "gauge", "1 if the last step was skipped, as its gradient was not finite.", step->skipped},
    };
    const struct prometheus_metric of_held_out[] = {
        {"held_out_loss", "gauge", "Loss on held-out data at the last evaluation.", held_out->loss},
        {"held_out_step", "gauge", "Step of the last evaluation.", (double)held_out->step},
    };
    const struct prometheus_metric of_classes[] = {
        {"held_out_accuracy", "gauge", "Share of right predictions on held-out data at the last evaluation.",
         held_out->accuracy},
    };
    put_metrics(prometheus, file, of_run, ARRAY_SIZE(of_run));
    put_metrics(prometheus, file, of_steps, prometheus->stepped ? ARRAY_SIZE(of_steps) : 0);
    put_metrics(prometheus, file, of_scaling, step->loss_scale > 0 ? ARRAY_SIZE(of_scaling) : 0);
    put_metrics(prometheus, file, of_held_out, prometheus->evaluated ? ARRAY_SIZE(of_held_out) : 0);
    put_metrics(prometheus, file, of_classes,
                prometheus->evaluated && !isnan(held_out->accuracy) ? ARRAY_SIZE(of_classes) : 0);
}

/* Not synced to disk: after a power cut nobody misses it. */
static bool replace_file(const struct prometheus_file *prometheus, const char *text, size_t size)
{
    FILE *file = fopen(prometheus->temporary, "w");
    if (!file)
        return false;
    const bool whole = fwrite(text, 1, size, file) == size && fflush(file) == 0;
    const int cause = errno;
    fclose(file);
    if (whole && rename(prometheus->temporary, prometheus->path) == 0)
        return true;
    const int other = errno;
    remove(prometheus->temporary);
    errno = whole ? other : cause;
    return false;
}

static weft_status rewrite(struct prometheus_file *prometheus, struct error *error)
{
    char *text = NULL;
    size_t size = 0;
    FILE *memory = open_memstream(&text, &size);
    if (memory)
        put_all(prometheus, memory);
    if (!memory || fclose(memory) != 0) {
        free(text);
        return error_memory(error, size, "the Prometheus file");
    }
    const bool replaced = replace_file(prometheus, text, size);
    const int cause = errno;
    free(text);
    errno = cause;
    if (!replaced)
        return error_system(error, "the Prometheus file '%s' cannot be written", prometheus->path);
    prometheus->written = clock_now();
    return WEFT_OK;
}

static weft_status prometheus_begin(void *state, const struct report_run *run, double time, struct error *error)
{
    struct prometheus_file *prometheus = state;
    prometheus->run = *run;
    prometheus->running = true;
    prometheus->began = time;
    char name[LABEL_BYTES], model[LABEL_BYTES];
    escape_label(run->name, name);
    escape_label(run->model, model);
    snprintf(prometheus->labels, sizeof prometheus->labels, "{run=\"%s\",model=\"%s\"}", name, model);
    return rewrite(prometheus, error);
}

static weft_status prometheus_step(void *state, const struct report_figures *figures, struct error *error)
{
    struct prometheus_file *prometheus = state;
    prometheus->figures = *figures;
    const bool due = !prometheus->stepped || clock_now() - prometheus->written >= REWRITE_NANOSECONDS;
    prometheus->stepped = true;
    return due ? rewrite(prometheus, error) : WEFT_OK;
}

static weft_status prometheus_evaluation(void *state, const struct report_held_out *held_out, struct error *error)
{
    struct prometheus_file *prometheus = state;
    prometheus->held_out = *held_out;
    prometheus->evaluated = true;
    return rewrite(prometheus, error);
}

static weft_status prometheus_end(void *state, const struct report_last *last, struct error *error)
{
    struct prometheus_file *prometheus = state;
    prometheus->running = false;
    return rewrite(prometheus, error);
}

const struct report_sink report_sink_prometheus = {
    .name = "the Prometheus file",
    .open = prometheus_open,
    .begin = prometheus_begin,
    .step = prometheus_step,
    .evaluation = prometheus_evaluation,
    .end = prometheus_end,
    .close = free,
};
