/* SPDX-License-Identifier: Apache-2.0 */
/*
 * For collectors of metrics such as the platform: the curves written for TensorBoard, and the run's progress, through
 * weft/report.h, which never waits for a reader. They are optional, so a failure is reported once and does not end a
 * run.
 */
#include "training/train/report/internal/sink.h"
#include "training/train/report/names.h"
#include "weft/report.h"

#include <math.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#define PROGRESS_SECONDS 1.0 /* between two reports of progress */

struct collected {
    weft_reporter *reporter;
    bool only_progress;    /* the curves are collected anyway */
    double progress_after; /* the next one is due: seconds since 1970 */
    FILE *warnings;        /* NULL: none, or reported already */
};

/* Whether the requested metrics file is collected anyway: it is the same file, or standard output. */
static bool is_collected_anyway(const struct report_options *options)
{
    struct stat asked, other;
    if (!options->metrics || stat(options->metrics, &asked) != 0)
        return false;
    if (stat(options->collected, &other) == 0 && asked.st_dev == other.st_dev && asked.st_ino == other.st_ino)
        return true;
    return fstat(STDOUT_FILENO, &other) == 0 && !S_ISREG(other.st_mode) && asked.st_dev == other.st_dev &&
           asked.st_ino == other.st_ino;
}

static void collected_tell(FILE *warnings, const char *what)
{
    if (!warnings)
        return;
    fprintf(warnings, "weft: %s%s; the run goes on without\n", what, weft_message(NULL));
    fflush(warnings);
}

static weft_status collected_open(const struct report_options *options, void **state, struct error *error)
{
    if (!options->collected)
        return WEFT_OK;
    struct collected *collected = malloc(sizeof *collected);
    if (!collected)
        return error_memory(error, sizeof *collected, "the metrics that are collected");
    *collected = (struct collected){.warnings = options->warnings, .only_progress = is_collected_anyway(options)};
    if (weft_reporter_open(options->collected, &collected->reporter) != WEFT_OK) {
        collected_tell(collected->warnings, "WEFT_METRICS: ");
        free(collected);
        return WEFT_OK;
    }
    *state = collected;
    return WEFT_OK;
}

static void collected_note(struct collected *collected, weft_status status)
{
    if (status == WEFT_OK)
        return;
    collected_tell(collected->warnings, "");
    collected->warnings = NULL;
}

/* A full disk may have space again, so every value is tried. */
static void collected_put(struct collected *collected, const char *name, uint64_t step, double value)
{
    if (!collected->only_progress)
        collected_note(collected, weft_report(collected->reporter, name, (int64_t)step, value));
}

static void put_progress(struct collected *collected, uint64_t step, uint64_t end, double left)
{
    if (end > 0 && step <= end)
        collected_note(collected, weft_report_progress(collected->reporter, (double)step, (double)end, left));
}

/* Once a second, and at the last step, after which only an evaluation and a checkpoint remain. */
static void put_progress_in_time(struct collected *collected, const struct report_figures *figures)
{
    const struct report_run *run = figures->run;
    if (figures->time < collected->progress_after && figures->step.step != run->end)
        return;
    collected->progress_after = figures->time + PROGRESS_SECONDS;
    put_progress(collected, figures->step.step, run->end, figures->left);
}

static weft_status collected_step(void *state, const struct report_figures *figures, struct error *error)
{
    const struct report_step *step = &figures->step;
    collected_put(state, report_name_curves[REPORT_NAME_LOSS], step->step, step->loss);
    collected_put(state, report_name_curves[REPORT_NAME_RATE], step->step, step->rate);
    collected_put(state, report_name_curves[REPORT_NAME_GRADIENT_NORM], step->step, step->gradient_norm);
    collected_put(state, report_name_curves[REPORT_NAME_SECONDS], step->step, step->seconds);
    collected_put(state, report_name_curves[REPORT_NAME_DATA_SECONDS], step->step, step->data_seconds);
    collected_put(state, report_name_curves[REPORT_NAME_TOKENS_PER_SECOND], step->step, figures->speed.tokens);
    collected_put(state, REPORT_NAME_WAIT_SHARE, step->step, figures->speed.wait);
    if (isfinite(figures->speed.share))
        collected_put(state, report_name_curves[REPORT_NAME_UTILIZATION], step->step, figures->speed.share);
    if (step->loss_scale > 0) {
        collected_put(state, report_name_curves[REPORT_NAME_LOSS_SCALE], step->step, step->loss_scale);
        collected_put(state, report_name_curves[REPORT_NAME_SKIPPED], step->step, step->skipped);
    }
    put_progress_in_time(state, figures);
    return WEFT_OK;
}

static weft_status collected_evaluation(void *state, const struct report_held_out *held_out, struct error *error)
{
    collected_put(state, REPORT_NAME_HELD_OUT "/loss", held_out->step, held_out->loss);
    if (!isnan(held_out->accuracy))
        collected_put(state, REPORT_NAME_HELD_OUT "/accuracy", held_out->step, held_out->accuracy);
    if (held_out->run->bytes_per_token > 0)
        collected_put(state, REPORT_NAME_HELD_OUT "/bits_per_byte", held_out->step, held_out->bits_per_byte);
    return WEFT_OK;
}

static weft_status collected_checkpoint(void *state, const struct report_checkpoint *checkpoint, double time,
                                        struct error *error)
{
    if (checkpoint->problem)
        return WEFT_OK;
    collected_put(state, report_event_curves[REPORT_NAME_CHECKPOINT_SECONDS], checkpoint->step, checkpoint->seconds);
    collected_put(state, report_event_curves[REPORT_NAME_CHECKPOINT_PAUSE], checkpoint->step,
                  checkpoint->pause_seconds);
    return WEFT_OK;
}

static weft_status collected_recovery(void *state, const struct report_recovery *recovery, double time,
                                      struct error *error)
{
    collected_put(state, report_event_curves[REPORT_NAME_RECOVERY_RANKS], recovery->step, recovery->ranks);
    collected_put(state, report_event_curves[REPORT_NAME_RECOVERY_AGREE], recovery->step, recovery->agree_seconds);
    collected_put(state, report_event_curves[REPORT_NAME_RECOVERY_REBUILD], recovery->step, recovery->rebuild_seconds);
    collected_put(state, report_event_curves[REPORT_NAME_RECOVERY_RESTORE], recovery->step, recovery->restore_seconds);
    return WEFT_OK;
}

static weft_status collected_end(void *state, const struct report_last *last, struct error *error)
{
    struct collected *collected = state;
    if (last->ending != REPORT_FAILED)
        put_progress(collected, last->step, last->run->end, 0);
    collected_note(collected, weft_reporter_flush(collected->reporter));
    return WEFT_OK;
}

static void collected_close(void *state)
{
    struct collected *collected = state;
    (void)weft_reporter_close(collected->reporter);
    free(collected);
}

const struct report_sink report_sink_collected = {
    .name = "the destination in WEFT_METRICS",
    .open = collected_open,
    .step = collected_step,
    .evaluation = collected_evaluation,
    .checkpoint = collected_checkpoint,
    .recovery = collected_recovery,
    .end = collected_end,
    .close = collected_close,
};
