/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/measure/bench_steps.h"

#include "base/library_error.h"
#include "cli/measure/bench_timing.h"
#include "training/parallel/execute/executor.h"
#include "training/parallel/step/play.h"

#include <stdlib.h>

enum { STEP_SECONDS, NORM_SECONDS, WAIT_SECONDS, PASS_SECONDS, OPTIMIZER_SECONDS, STEP_SERIES };

struct bench_steps {
    size_t warm, count, room;
    double *series[STEP_SERIES]; /* a number for each step; those of the first allocate all */
};

weft_status bench_steps_open(size_t warm, size_t count, struct bench_steps **result, struct error *error)
{
    struct bench_steps *steps = calloc(1, sizeof *steps);
    double *numbers = calloc(STEP_SERIES * count, sizeof *numbers);
    if (!steps || !numbers) {
        free(steps);
        free(numbers);
        return error_memory(error, STEP_SERIES * count * sizeof *numbers, "times of steps");
    }
    *steps = (struct bench_steps){.warm = warm, .room = count};
    for (size_t i = 0; i < STEP_SERIES; i++)
        steps->series[i] = numbers + i * count;
    *result = steps;
    return WEFT_OK;
}

void bench_steps_close(struct bench_steps *steps)
{
    if (steps)
        free(steps->series[0]);
    free(steps);
}

void bench_steps_note(void *observer, const struct report_step *step)
{
    struct bench_steps *steps = observer;
    if (step->step <= steps->warm || steps->count == steps->room)
        return;
    const double numbers[STEP_SERIES] = {[STEP_SECONDS] = step->seconds,
                                         [NORM_SECONDS] = step->norm_seconds,
                                         [WAIT_SECONDS] = step->wait_seconds,
                                         [PASS_SECONDS] = step->pass_seconds,
                                         [OPTIMIZER_SECONDS] = step->optimizer_seconds};
    for (size_t i = 0; i < STEP_SERIES; i++)
        steps->series[i][steps->count] = numbers[i];
    steps->count++;
}

/* ---- the schedule alone ---- */

#define PASS_KINDS (OPERATION_BACKWARD_WEIGHTS + 1)

static double pass_duration(void *context, const struct step_operation *operation)
{
    const double *seconds = context;
    return step_operation_computes(operation->kind) ? seconds[operation->unit * PASS_KINDS + operation->kind] : 0;
}

/* Mean seconds of a pass of each unit and kind, from all ranks that have it. `seconds` has room for twice as many. */
static weft_status gather_passes(const struct executor *executor, uint32_t units, weft_context *context,
                                 double *seconds, struct error *error)
{
    const size_t passes = (size_t)units * PASS_KINDS;
    double *counts = seconds + passes;
    for (uint32_t unit = 0; unit < units; unit++)
        for (uint32_t kind = 0; kind < PASS_KINDS; kind++) {
            const struct executor_passes mine = executor_passes_of(executor, (enum step_operation_kind)kind, unit);
            seconds[unit * PASS_KINDS + kind] = mine.seconds;
            counts[unit * PASS_KINDS + kind] = mine.count;
        }
    weft_status status = library_error(
        context, weft_allreduce(seconds, seconds, 2 * passes, WEFT_F64, WEFT_SUM, weft_world(context)), error);
    for (size_t i = 0; i < passes; i++)
        if (counts[i] > 0)
            seconds[i] /= counts[i];
    return status;
}

static weft_status play_schedules(const struct step_shape *shape, double *pass_seconds,
                                  struct bench_steps_figures *figures, struct error *error)
{
    struct step_schedule *schedules = calloc(shape->pipeline, sizeof *schedules);
    struct step_times times;
    if (!schedules)
        return error_memory(error, shape->pipeline * sizeof *schedules, "the schedules of a step");
    weft_status status = WEFT_OK;
    for (uint32_t rank = 0; status == WEFT_OK && rank < shape->pipeline; rank++)
        status = step_write(shape, rank, &schedules[rank], error);
    if (status == WEFT_OK)
        status = step_play(shape, schedules, pass_duration, pass_seconds, &times, error);
    if (status == WEFT_OK) {
        figures->predicted_bubble = step_bubble(shape, schedules, &times);
        figures->predicted_wait_seconds = figures->predicted_bubble * times.seconds;
        step_times_free(shape, &times);
    }
    for (uint32_t rank = 0; rank < shape->pipeline; rank++)
        step_free(&schedules[rank]);
    free(schedules);
    return status;
}

static weft_status predict(const struct executor *executor, weft_context *context, struct bench_steps_figures *figures,
                           struct error *error)
{
    const struct step_shape *shape = executor_shape(executor);
    const uint32_t units = shape->first_unit[shape->stages];
    double *seconds = calloc((size_t)units * PASS_KINDS * 2, sizeof *seconds);
    /* A rank without this little memory ends the job. */
    if (!seconds)
        return error_memory(error, (size_t)units * PASS_KINDS * 2 * sizeof *seconds, "the times of passes");
    weft_status status = gather_passes(executor, units, context, seconds, error);
    if (status == WEFT_OK)
        status = play_schedules(shape, seconds, figures, error);
    free(seconds);
    return status;
}

/* ---- all ranks ---- */

weft_status bench_steps_gather(struct bench_steps *steps, const struct trainer *trainer, weft_context *context,
                               struct bench_steps_figures *figures, struct error *error)
{
    weft_comm *world = weft_world(context);
    const double ranks = weft_comm_size(world);
    double **series = steps->series;
    *figures = (struct bench_steps_figures){0};
    weft_status status = WEFT_OK;
    for (size_t i = 0; status == WEFT_OK && i < STEP_SERIES; i++)
        status = library_error(context,
                               weft_allreduce(series[i], series[i], steps->count, WEFT_F64,
                                              i <= NORM_SECONDS ? WEFT_MAX : WEFT_SUM, world),
                               error);
    if (status == WEFT_OK)
        status = predict(trainer_executor(trainer), context, figures, error);
    for (size_t i = 0; i < steps->count; i++) /* the series of the norm becomes that of the bubble */
        series[NORM_SECONDS][i] = 1 - series[PASS_SECONDS][i] / (ranks * series[NORM_SECONDS][i]);
    figures->seconds = bench_median(series[STEP_SECONDS], steps->count);
    figures->wait_seconds = bench_median(series[WAIT_SECONDS], steps->count) / ranks;
    figures->optimizer_seconds = bench_median(series[OPTIMIZER_SECONDS], steps->count) / ranks;
    figures->bubble = bench_median(series[NORM_SECONDS], steps->count);
    return status;
}
