/* SPDX-License-Identifier: Apache-2.0 */
/* Computes metrics from the trainer's results and passes them to the sinks. */
#include "training/train/report/report.h"

#include "base/clock.h"
#include "base/text.h"
#include "training/train/report/internal/sink.h"

#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <time.h>

#define FADING 0.9 /* decay of the weight of recent steps */

static const struct report_sink *const kinds[REPORT_SINKS] = {&report_sink_line,       &report_sink_json,
                                                              &report_sink_prometheus, &report_sink_tensorboard,
                                                              &report_sink_collected,  &report_sink_events};
#define LINE 0 /* index of the one for users */

const char *const report_source_names[] = {
    [REPORT_FROM_MEMORY] = "memory", [REPORT_FROM_COPIES] = "copies", [REPORT_FROM_STORAGE] = "storage"};
const char *const report_ending_names[] = {"finished", "stopped", "failed"};

static double time_now(void)
{
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

bool report_wants_peak(const struct report_options *options)
{
    return (options->out && options->every) || options->metrics || options->prometheus || options->tensorboard;
}

weft_status report_open(struct report *report, const struct report_options *options, struct error *error)
{
    *report = (struct report){.options = *options};
    weft_status status = WEFT_OK;
    for (size_t i = 0; i < REPORT_SINKS && status == WEFT_OK; i++)
        status = kinds[i]->open(options, &report->sinks[i], error);
    return status;
}

void report_close(struct report *report)
{
    for (size_t i = 0; i < REPORT_SINKS; i++) {
        if (report->sinks[i])
            kinds[i]->close(report->sinks[i]);
        report->sinks[i] = NULL;
    }
}

static void report_clear(struct report *report)
{
    if (report->sinks[LINE])
        report_line_clear(report->sinks[LINE]);
}

static void report_warn(struct report *report, const char *text)
{
    report_clear(report);
    if (!report->options.warnings)
        return;
    fprintf(report->options.warnings, "weft: %s\n", text);
    fflush(report->options.warnings);
}

/* A failure to write metrics does not end a run. */
static void report_give_up(struct report *report, size_t i, const struct error *error)
{
    char text[ERROR_TEXT_BYTES + 64];
    snprintf(text, sizeof text, "%s; the run goes on without it", error->text);
    kinds[i]->close(report->sinks[i]);
    report->sinks[i] = NULL;
    report->lost[i] = report->step + 1;
    report_warn(report, text);
}

/* Call a function of every open sink that has it, and drop those that fail. */
#define REPORT_TO_SINKS(report, function, ...)                                                                         \
    for (size_t i = 0; i < REPORT_SINKS; i++) {                                                                        \
        struct error error = {0};                                                                                      \
        if (report->sinks[i] && kinds[i]->function &&                                                                  \
            kinds[i]->function(report->sinks[i], __VA_ARGS__, &error) != WEFT_OK)                                      \
            report_give_up(report, i, &error);                                                                         \
    }

void report_begin(struct report *report, const struct report_run *run)
{
    report->run = *run;
    report->run.end = run->end ? run->end : run->steps;
    report->step = run->step;
    const double time = time_now();
    REPORT_TO_SINKS(report, begin, run, time);
}

static struct report_speed speed_of(const struct report_run *run, double steps, double seconds, double wait)
{
    const double rate = steps / seconds, flops = run->flops * rate;
    return (struct report_speed){.tokens = run->tokens * rate,
                                 .flops = flops,
                                 .share = run->peak > 0 ? flops / run->peak : NAN,
                                 .wait = wait / seconds};
}

/* Seconds from a step to the end: the remaining steps, the pauses between them, and the evaluation and checkpoint after
 * the last one, which are assumed to take as long as the longest pause so far. */
static double seconds_left(struct report *report, uint64_t step, double seconds)
{
    const uint64_t now = clock_now(), end = report->run.end;
    if (report->taken == 1)
        report->began = report->stepped = now - (uint64_t)(seconds * 1e9);
    const double pause = (double)(now - report->stepped) * 1e-9 - seconds;
    const double between = (double)(now - report->began) * 1e-9 - report->seconds;
    report->stepped = now;
    report->longest_pause = fmax(report->longest_pause, pause);
    const double each = report->recent_seconds / report->recent_steps + fmax(between, 0) / (double)report->taken;
    return each * (double)(end > step ? end - step : 0) + report->longest_pause;
}

void report_step(struct report *report, const struct report_step *step)
{
    const struct report_run *run = &report->run;
    report->step = step->step;
    report->taken++;
    report->seconds += step->seconds;
    report->wait_seconds += step->wait_seconds;
    goodput_note_step(&report->goodput, step->step, step->seconds, step->beside);
    report->recent_steps = FADING * report->recent_steps + 1;
    report->recent_seconds = FADING * report->recent_seconds + step->seconds;
    report->recent_wait = FADING * report->recent_wait + step->wait_seconds;
    const struct report_figures figures = {
        .run = run,
        .step = *step,
        .time = time_now(),
        .speed = speed_of(run, 1, step->seconds, step->wait_seconds),
        .recent = speed_of(run, report->recent_steps, report->recent_seconds, report->recent_wait),
        .left = seconds_left(report, step->step, step->seconds),
        .taken = report->taken,
        .seconds = report->seconds,
        .wait_seconds = report->wait_seconds,
    };
    REPORT_TO_SINKS(report, step, &figures);
}

void report_evaluation(struct report *report, uint64_t step, double loss, double accuracy)
{
    const double bytes = report->run.bytes_per_token;
    const struct report_held_out held_out = {.run = &report->run,
                                             .step = step,
                                             .loss = loss,
                                             .accuracy = accuracy,
                                             .bits_per_byte = bytes > 0 ? loss / log(2.0) / bytes : 0,
                                             .time = time_now()};
    REPORT_TO_SINKS(report, evaluation, &held_out);
}

void report_end(struct report *report, enum report_ending ending)
{
    if (report->ended)
        return;
    report->ended = true;
    if (report->goodput.recoveries) {
        char account[GOODPUT_TEXT_BYTES];
        report_say(report, "%s", goodput_describe(&report->goodput, account));
    }
    if (report->goodput.checkpoints) {
        char account[GOODPUT_TEXT_BYTES];
        report_say(report, "%s", goodput_describe_checkpoints(&report->goodput, account));
    }
    const struct report_last last = {.run = &report->run,
                                     .goodput = &report->goodput,
                                     .step = report->step,
                                     .taken = report->taken,
                                     .seconds = report->seconds,
                                     .wait_seconds = report->wait_seconds,
                                     .time = time_now(),
                                     .ending = ending};
    for (size_t i = 0; i < REPORT_SINKS; i++) {
        struct error error = {0};
        const bool lost = report->lost[i] > 0;
        if (report->sinks[i] && kinds[i]->end && kinds[i]->end(report->sinks[i], &last, &error) != WEFT_OK)
            report_give_up(report, i, &error);
        if (!lost)
            continue;
        char text[256];
        snprintf(text, sizeof text, "%s has no figures from step %" PRIu64 " on", kinds[i]->name, report->lost[i] - 1);
        report_warn(report, text);
    }
}

void report_say(struct report *report, const char *format, ...)
{
    char text[4096 + 256]; /* a path and some words */
    if (!report->options.out)
        return;
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    report_clear(report);
    fprintf(report->options.out, "%s\n", text);
    fflush(report->options.out);
}

/* For users, on its own line. */
static void say_checkpoint(struct report *report, const struct report_checkpoint *checkpoint)
{
    char bytes[32];
    if (checkpoint->problem)
        report_say(report, "no checkpoint of step %" PRIu64 ", training goes on: %s", checkpoint->step,
                   checkpoint->problem);
    else
        report_say(report, "checkpoint %s  %s in %u file%s, whole after %.2f s; training paused for %.2f s",
                   checkpoint->path, text_bytes(checkpoint->bytes, bytes, sizeof bytes), checkpoint->files,
                   checkpoint->files == 1 ? "" : "s", checkpoint->seconds, checkpoint->pause_seconds);
}

void report_copy(struct report *report, const struct report_copy *copy)
{
    const double time = time_now();
    char text[ERROR_TEXT_BYTES + FILE_PATH_BYTES + 128];
    REPORT_TO_SINKS(report, copy, copy, time);
    if (!copy->problem) {
        report_say(report, "copied %s  every byte verified, whole after %.2f s", copy->path, copy->seconds);
        return;
    }
    snprintf(text, sizeof text,
             "warning: there is no copy '%s' of the checkpoint of step %" PRIu64
             ": %s; training goes on, and the next checkpoint is copied",
             copy->path, copy->step, copy->problem);
    report_warn(report, text);
}

void report_recovery(struct report *report, const struct report_recovery *recovery)
{
    const double time = time_now();
    char back[64] = "", spares[64] = "";
    if (recovery->spares)
        snprintf(spares, sizeof spares, ", %u more wait", recovery->spares);
    if (recovery->step < recovery->before)
        snprintf(back, sizeof back, " (was at step %" PRIu64 ")", recovery->before);
    goodput_note_recovery(&report->goodput,
                          recovery->agree_seconds + recovery->rebuild_seconds + recovery->restore_seconds);
    REPORT_TO_SINKS(report, recovery, recovery, time);
    if (*recovery->reason)
        report_say(report, "lost   %s", recovery->reason);
    report_say(report,
               "continue after step %" PRIu64 "%s with %u ranks in place of %u, state from %s: %s%s; agreed in %.2f s, "
               "rebuilt in %.2f s, restored in %.2f s",
               recovery->step, back, recovery->ranks, recovery->ranks_before, report_source_names[recovery->source],
               recovery->plan, spares, recovery->agree_seconds, recovery->rebuild_seconds, recovery->restore_seconds);
}

void report_straggler(struct report *report, const struct report_straggler *straggler)
{
    const double time = time_now();
    REPORT_TO_SINKS(report, straggler, straggler, time);
    report_say(report,
               "%s rank %u on host %s %s %.2f times as long for a micro-batch as its peers: %.3g ms, and their median "
               "is %.3g ms, over %" PRIu64 " steps",
               straggler->is_over ? "steady" : "slow  ", straggler->rank, straggler->host,
               straggler->is_over ? "now takes" : "takes", straggler->factor, straggler->seconds * 1e3,
               straggler->median_seconds * 1e3, straggler->steps);
}

void report_checkpoint(struct report *report, const struct report_checkpoint *checkpoint)
{
    const double time = time_now();
    if (!checkpoint->last)
        goodput_note_checkpoint(&report->goodput, checkpoint->pause_seconds, checkpoint->between);
    REPORT_TO_SINKS(report, checkpoint, checkpoint, time);
    say_checkpoint(report, checkpoint);
}
