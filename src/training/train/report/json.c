/* SPDX-License-Identifier: Apache-2.0 */
/*
 * JSON lines for programs: an object a line, with "event" first: "start", "step", "evaluation", "checkpoint",
 * "copy", "recovery", "straggler", "end". They are appended, so that a resumed run continues its file. docs/tutorials/insight.md lists the keys.
 * The events of a job (weft run --job-dir) get the same lines, but for steps and evaluations.
 */
#include "base/format/json_put.h"
#include "training/train/report/internal/sink.h"
#include "training/train/report/names.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#define LINE_BYTES 65536

struct json_file {
    FILE *file;
    const char *path;
    char buffer[LINE_BYTES]; /* a line is one write: several processes append to a job's events */
};

/* A process that died while it wrote leaves an incomplete line, to which ours must not be appended. */
static bool ends_within_line(const char *path)
{
    FILE *file = fopen(path, "r");
    const bool within = file && fseek(file, -1, SEEK_END) == 0 && fgetc(file) != '\n';
    if (file)
        fclose(file);
    return within;
}

/* `flags`: those of open(), besides those for appending. */
static weft_status json_open_file(const char *path, int flags, void **state, struct error *error)
{
    struct json_file *json = malloc(sizeof *json);
    if (!json)
        return error_memory(error, sizeof *json, "the metrics file");
    const bool within = ends_within_line(path);
    const int descriptor = open(path, O_WRONLY | O_APPEND | O_CLOEXEC | flags, 0666);
    json->path = path;
    json->file = descriptor >= 0 ? fdopen(descriptor, "a") : NULL;
    if (!json->file) {
        free(json);
        return error_system(error, "cannot write metrics to '%s'", path);
    }
    setvbuf(json->file, json->buffer, _IOFBF, sizeof json->buffer);
    if (within)
        fputc('\n', json->file);
    *state = json;
    return WEFT_OK;
}

static weft_status json_open(const struct report_options *options, void **state, struct error *error)
{
    return options->metrics ? json_open_file(options->metrics, O_CREAT, state, error) : WEFT_OK;
}

/* The launcher has made the file, which rank 0's host may lack. */
static weft_status json_open_events(const struct report_options *options, void **state, struct error *error)
{
    if (!options->events || json_open_file(options->events, 0, state, error) == WEFT_OK)
        return WEFT_OK;
    if (options->warnings)
        fprintf(options->warnings, "weft: %s; the job's events lack those of the training\n", error->text);
    error_clear(error);
    return WEFT_OK;
}

/* Print and flush the object, so that readers see every step. */
static weft_status json_put_line(const struct json_file *json, struct json_writer *writer, struct error *error)
{
    json_close(writer);
    weft_status status = WEFT_OK;
    if (!json_text(writer))
        status = error_memory(error, json_size(writer), "a line of metrics");
    else if (json_print(writer, json->file, NULL) != WEFT_OK || fflush(json->file) != 0)
        status = error_system(error, "the metrics file '%s' cannot be written", json->path);
    json_end(writer);
    return status;
}

/* Nine digits represent every float exactly. Time has milliseconds. */
static void put_figure(struct json_writer *writer, const char *key, double value)
{
    char digits[40];
    snprintf(digits, sizeof digits, "%.9g", value);
    json_put_number(writer, key, strtod(digits, NULL));
}

static void put_time(struct json_writer *writer, double time)
{
    json_put_number(writer, "time", round(time * 1e3) / 1e3);
}

static void json_begin_event(struct json_writer *writer, const char *event)
{
    json_begin_line(writer);
    json_put_text(writer, "event", event);
}

static weft_status json_start(void *state, const struct report_run *run, double time, struct error *error)
{
    struct json_writer writer;
    json_begin_event(&writer, "start");
    put_time(&writer, time);
    JSON_PUT(&writer, "run", run->name, "model", run->model, "parameters", run->parameters, "data", run->data, "step",
             run->step, "steps", run->steps, "batch", run->batch, "micro_batch", run->micro_batch, "sequence",
             run->sequence);
    put_figure(&writer, "tokens_per_step", run->tokens);
    JSON_PUT(&writer, "seed", run->seed, "optimizer", run->optimizer);
    put_figure(&writer, "peak_rate", run->rate);
    JSON_PUT(&writer, "precision", run->precision, "kernels", run->kernels, "ranks", run->ranks, "nodes", run->nodes,
             "threads", run->threads);
    put_figure(&writer, "flops_per_step", run->flops);
    put_figure(&writer, "peak_flops", run->peak);
    return json_put_line(state, &writer, error);
}

static weft_status json_step(void *state, const struct report_figures *figures, struct error *error)
{
    const struct report_step *step = &figures->step;
    struct json_writer writer;
    json_begin_event(&writer, "step");
    json_put_unsigned(&writer, "step", step->step);
    put_time(&writer, figures->time);
    put_figure(&writer, report_name_keys[REPORT_NAME_LOSS], step->loss);
    put_figure(&writer, report_name_keys[REPORT_NAME_RATE], step->rate);
    put_figure(&writer, report_name_keys[REPORT_NAME_GRADIENT_NORM], step->gradient_norm);
    put_figure(&writer, report_name_keys[REPORT_NAME_SECONDS], step->seconds);
    put_figure(&writer, report_name_keys[REPORT_NAME_WAIT_SECONDS], step->wait_seconds);
    put_figure(&writer, report_name_keys[REPORT_NAME_TENSOR_WAIT_SECONDS], step->tensor_wait_seconds);
    put_figure(&writer, report_name_keys[REPORT_NAME_DATA_WAIT_SECONDS], step->data_wait_seconds);
    put_figure(&writer, report_name_keys[REPORT_NAME_COMPUTE_SECONDS], step->compute_seconds);
    put_figure(&writer, report_name_keys[REPORT_NAME_OPTIMIZER_SECONDS], step->optimizer_seconds);
    put_figure(&writer, report_name_keys[REPORT_NAME_DATA_SECONDS], step->data_seconds);
    put_figure(&writer, report_name_keys[REPORT_NAME_TOKENS_PER_SECOND], figures->speed.tokens);
    put_figure(&writer, report_name_keys[REPORT_NAME_UTILIZATION], figures->speed.share);
    if (step->loss_scale > 0) {
        put_figure(&writer, report_name_keys[REPORT_NAME_LOSS_SCALE], step->loss_scale);
        put_figure(&writer, report_name_keys[REPORT_NAME_SKIPPED], step->skipped);
    }
    return json_put_line(state, &writer, error);
}

static weft_status json_evaluation(void *state, const struct report_held_out *held_out, struct error *error)
{
    struct json_writer writer;
    json_begin_event(&writer, "evaluation");
    json_put_unsigned(&writer, "step", held_out->step);
    put_time(&writer, held_out->time);
    put_figure(&writer, "loss", held_out->loss);
    if (!isnan(held_out->accuracy))
        put_figure(&writer, "accuracy", held_out->accuracy);
    if (held_out->run->bytes_per_token > 0)
        put_figure(&writer, "bits_per_byte", held_out->bits_per_byte);
    return json_put_line(state, &writer, error);
}

static weft_status json_checkpoint(void *state, const struct report_checkpoint *checkpoint, double time,
                                   struct error *error)
{
    struct json_writer writer;
    json_begin_event(&writer, "checkpoint");
    json_put_unsigned(&writer, "step", checkpoint->step);
    put_time(&writer, time);
    JSON_PUT(&writer, "path", checkpoint->path, "bytes", checkpoint->bytes);
    put_figure(&writer, "seconds", checkpoint->seconds);
    put_figure(&writer, "pause_seconds", checkpoint->pause_seconds);
    put_figure(&writer, "processor_seconds", checkpoint->processor);
    if (checkpoint->problem)
        json_put_text(&writer, "problem", checkpoint->problem);
    return json_put_line(state, &writer, error);
}

static weft_status json_copy(void *state, const struct report_copy *copy, double time, struct error *error)
{
    struct json_writer writer;
    json_begin_event(&writer, "copy");
    json_put_unsigned(&writer, "step", copy->step);
    put_time(&writer, time);
    JSON_PUT(&writer, "path", copy->path);
    put_figure(&writer, "seconds", copy->seconds);
    if (copy->problem)
        json_put_text(&writer, "problem", copy->problem);
    return json_put_line(state, &writer, error);
}

static weft_status json_recovery(void *state, const struct report_recovery *recovery, double time, struct error *error)
{
    struct json_writer writer;
    json_begin_event(&writer, "recovery");
    json_put_unsigned(&writer, "step", recovery->step);
    put_time(&writer, time);
    JSON_PUT(&writer, "reason", recovery->reason, "plan", recovery->plan, "ranks_before", recovery->ranks_before,
             "ranks", recovery->ranks, "spares", recovery->spares, "step_before", recovery->before, "source",
             report_source_names[recovery->source]);
    put_figure(&writer, "agree_seconds", recovery->agree_seconds);
    put_figure(&writer, "rebuild_seconds", recovery->rebuild_seconds);
    put_figure(&writer, "restore_seconds", recovery->restore_seconds);
    return json_put_line(state, &writer, error);
}

static weft_status json_straggler(void *state, const struct report_straggler *straggler, double time,
                                  struct error *error)
{
    struct json_writer writer;
    json_begin_event(&writer, "straggler");
    json_put_unsigned(&writer, "step", straggler->step);
    put_time(&writer, time);
    JSON_PUT(&writer, "rank", straggler->rank, "host", straggler->host, "state", straggler->is_over ? "over" : "slow",
             "steps", straggler->steps);
    put_figure(&writer, "factor", straggler->factor);
    put_figure(&writer, "micro_batch_seconds", straggler->seconds);
    put_figure(&writer, "median_seconds", straggler->median_seconds);
    return json_put_line(state, &writer, error);
}

static weft_status json_last(void *state, const struct report_last *last, struct error *error)
{
    const double tokens = (double)last->taken * last->run->tokens;
    struct json_writer writer;
    json_begin_event(&writer, "end");
    json_put_unsigned(&writer, "step", last->step);
    put_time(&writer, last->time);
    JSON_PUT(&writer, "ending", report_ending_names[last->ending], "steps_taken", last->taken);
    put_figure(&writer, "seconds", last->seconds);
    put_figure(&writer, "wait_seconds", last->wait_seconds);
    put_figure(&writer, "tokens", tokens);
    put_figure(&writer, "tokens_per_second", last->seconds > 0 ? tokens / last->seconds : 0);
    put_figure(&writer, "goodput", goodput_share(last->goodput));
    put_figure(&writer, "recovery_seconds", last->goodput->recovering);
    put_figure(&writer, "repeated_seconds", last->goodput->repeated);
    put_figure(&writer, "checkpoint_wait_seconds", last->goodput->waited);
    put_figure(&writer, "checkpoint_slowdown_seconds", last->goodput->slowed);
    put_figure(&writer, "checkpoint_share",
               goodput_checkpoint_seconds(last->goodput) / fmax(goodput_seconds(last->goodput), 1e-9));
    return json_put_line(state, &writer, error);
}

static void json_finish(void *state)
{
    struct json_file *json = state;
    fclose(json->file); /* every line was flushed */
    free(json);
}

const struct report_sink report_sink_json = {
    .name = "the metrics file",
    .open = json_open,
    .begin = json_start,
    .step = json_step,
    .evaluation = json_evaluation,
    .checkpoint = json_checkpoint,
    .copy = json_copy,
    .recovery = json_recovery,
    .straggler = json_straggler,
    .end = json_last,
    .close = json_finish,
};

const struct report_sink report_sink_events = {
    .name = "the file of the job's events",
    .open = json_open_events,
    .begin = json_start,
    .checkpoint = json_checkpoint,
    .copy = json_copy,
    .recovery = json_recovery,
    .straggler = json_straggler,
    .end = json_last,
    .close = json_finish,
};
