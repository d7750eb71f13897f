/* SPDX-License-Identifier: Apache-2.0 */
/* Scalars for TensorBoard: train/... of every step, held-out/... of every evaluation. */
#include "training/train/report/internal/event_file.h"
#include "training/train/report/internal/sink.h"
#include "training/train/report/names.h"

#include <math.h>
#include <stdlib.h>
#include <time.h>

static weft_status tensorboard_open(const struct report_options *options, void **state, struct error *error)
{
    if (!options->tensorboard)
        return WEFT_OK;
    struct event_file *events = malloc(sizeof *events);
    if (!events)
        return error_memory(error, sizeof *events, "the event file");
    weft_status status =
        event_file_open(events, options->tensorboard, (double)time(NULL), options->collected != NULL, error);
    if (status == WEFT_OK)
        *state = events;
    else
        free(events);
    return status;
}

static weft_status tensorboard_step(void *state, const struct report_figures *figures, struct error *error)
{
    struct event_value values[EVENT_VALUES_MOST] = {
        {report_name_curves[REPORT_NAME_LOSS], figures->step.loss},
        {report_name_curves[REPORT_NAME_RATE], figures->step.rate},
        {report_name_curves[REPORT_NAME_GRADIENT_NORM], figures->step.gradient_norm},
        {report_name_curves[REPORT_NAME_SECONDS], figures->step.seconds},
        {report_name_curves[REPORT_NAME_TOKENS_PER_SECOND], figures->speed.tokens},
        {REPORT_NAME_WAIT_SHARE, figures->speed.wait},
    };
    size_t count = 6;
    if (isfinite(figures->speed.share))
        values[count++] = (struct event_value){report_name_curves[REPORT_NAME_UTILIZATION], figures->speed.share};
    if (figures->step.loss_scale > 0) {
        values[count++] = (struct event_value){report_name_curves[REPORT_NAME_LOSS_SCALE], figures->step.loss_scale};
        values[count++] = (struct event_value){report_name_curves[REPORT_NAME_SKIPPED], figures->step.skipped};
    }
    return event_file_put(state, figures->time, figures->step.step, values, count, error);
}

static weft_status tensorboard_evaluation(void *state, const struct report_held_out *held_out, struct error *error)
{
    const struct event_value values[] = {
        {REPORT_NAME_HELD_OUT "/loss", held_out->loss},
        {REPORT_NAME_HELD_OUT "/accuracy", held_out->accuracy},
    };
    return event_file_put(state, held_out->time, held_out->step, values, isnan(held_out->accuracy) ? 1 : 2, error);
}

static weft_status tensorboard_checkpoint(void *state, const struct report_checkpoint *checkpoint, double time,
                                          struct error *error)
{
    const struct event_value values[] = {
        {report_event_curves[REPORT_NAME_CHECKPOINT_SECONDS], checkpoint->seconds},
        {report_event_curves[REPORT_NAME_CHECKPOINT_PAUSE], checkpoint->pause_seconds},
    };
    return checkpoint->problem ? WEFT_OK
                               : event_file_put(state, time, checkpoint->step, values, ARRAY_SIZE(values), error);
}

static weft_status tensorboard_recovery(void *state, const struct report_recovery *recovery, double time,
                                        struct error *error)
{
    const struct event_value values[] = {
        {report_event_curves[REPORT_NAME_RECOVERY_RANKS], recovery->ranks},
        {report_event_curves[REPORT_NAME_RECOVERY_AGREE], recovery->agree_seconds},
        {report_event_curves[REPORT_NAME_RECOVERY_REBUILD], recovery->rebuild_seconds},
        {report_event_curves[REPORT_NAME_RECOVERY_RESTORE], recovery->restore_seconds},
    };
    return event_file_put(state, time, recovery->step, values, ARRAY_SIZE(values), error);
}

static void tensorboard_close(void *state)
{
    event_file_close(state);
    free(state);
}

const struct report_sink report_sink_tensorboard = {
    .name = "the event file",
    .open = tensorboard_open,
    .step = tensorboard_step,
    .evaluation = tensorboard_evaluation,
    .checkpoint = tensorboard_checkpoint,
    .recovery = tensorboard_recovery,
    .close = tensorboard_close,
};
