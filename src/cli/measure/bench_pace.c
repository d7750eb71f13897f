/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/measure/bench_pace.h"

#include "base/clock.h"
#include "base/library_error.h"
#include "training/parallel/agreement.h"
#include "training/plan/run/layer_times.h"
#include "training/train/loop/parallel_choice.h"

#include <errno.h>
#include <sched.h>
#include <stdlib.h>
#include <sys/prctl.h>

#define WAKE_EARLY 150000 /* ns */

struct bench_pace {
    struct executor_pace hook;
    weft_comm *world;
    size_t units;
    double scale;
    double (*seconds)[COSTS_PASSES]; /* of each unit's passes */
    double *costs;                   /* their sums */
    int64_t late;                    /* nanoseconds by which the last pass ended too late */
};

const struct executor_pace *bench_pace_hook(const struct bench_pace *pace)
{
    return &pace->hook;
}

void bench_pace_close(struct bench_pace *pace)
{
    if (pace) {
        free(pace->seconds);
        free(pace->costs);
    }
    free(pace);
}

/* ---- sleeping ---- */

/*
 * A processor that was idle wakes up 20 to 100 us late, and ranks of a tensor axis would wait for the later one after every
 * pass: the last part of the sleep only yields the processor.
 */
static void sleep_until(uint64_t end)
{
    const uint64_t wake = end - WAKE_EARLY;
    const struct timespec time = {.tv_sec = (time_t)(wake / 1000000000u), .tv_nsec = (long)(wake % 1000000000u)};
    while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &time, NULL) == EINTR)
        ;
    while (clock_now() < end)
        sched_yield();
}

/* A pass that follows one that woke up late is as much shorter. */
static void pace_pass(void *context, enum step_operation_kind kind, uint32_t unit)
{
    struct bench_pace *pace = context;
    const double seconds = pace->seconds[unit][kind] * pace->scale;
    const int64_t begin = (int64_t)clock_now(), end = begin + (int64_t)(seconds * 1e9) - pace->late;
    if (end > begin)
        sleep_until((uint64_t)end);
    pace->late = (int64_t)clock_now() - end;
}

/* ---- measuring ---- */

/* Times of a file are without recomputation. */
static weft_status read_passes(struct bench_pace *pace, const struct train_config *config, const char *layer_times,
                               const struct parallel_choice *choice, const struct model_description *description,
                               struct error *error)
{
    struct machine_costs costs = {
        .description = description, .sequence = (size_t)config->sequence, .threads = (int)config->threads};
    const struct strategy strategy = {.mesh = choice->mesh,
                                      .micro_batch = (uint32_t)config->micro_batch,
                                      .precision = config->activations,
                                      .sequence_parallel = config->sequence_parallel};
    if (config->recompute != MODEL_RECOMPUTE_NOTHING)
        return error_set(error, WEFT_ERROR_ARGUMENT,
                         "%s has no times with --recompute %s: leave --layer-times or --recompute out", layer_times,
                         model_recompute_names[config->recompute]);
    weft_status status = layer_times_read(&costs, layer_times, error);
    if (status == WEFT_OK)
        status = machine_costs_measure(&costs, &strategy, pace->seconds, error);
    machine_costs_free(&costs);
    return status;
}

/* Find what the passes of a rank take; the collectives within them are the executor's. */
static weft_status find_passes(struct bench_pace *pace, const struct train_config *config,
                               const struct bench_pace_source *source, struct error *error)
{
    struct model_description *description = NULL;
    struct parallel_choice choice;
    weft_status status = model_describe(&config->shape, &description, error);
    if (status == WEFT_OK)
        status = parallel_choice_of(config, description, (uint32_t)weft_comm_size(pace->world), &choice, error);
    if (status == WEFT_OK && source->layer_times) {
        status = read_passes(pace, config, source->layer_times, &choice, description, error);
    } else if (status == WEFT_OK) {
        const struct costs_setting setting = {.description = description,
                                              .options = parallel_choice_executor(config, &choice).model,
                                              .activations = config->activations,
                                              .threads = (int)config->threads,
                                              .tensor = choice.mesh.extent[MESH_TENSOR],
                                              .divides_rows = config->sequence_parallel,
                                              .together = source->together};
        status = costs_measure_passes(&setting, pace->seconds, error);
    }
    model_description_free(description);
    return status;
}

static weft_status pace_new(const struct train_config *config, double scale, weft_comm *world,
                            struct bench_pace **result, struct error *error)
{
    struct model_description *description;
    weft_status status = model_describe(&config->shape, &description, error);
    if (status != WEFT_OK)
        return status;
    const size_t units = description->layer_count;
    model_description_free(description);
    struct bench_pace *pace = calloc(1, sizeof *pace);
    if (!pace || !(pace->seconds = calloc(units, sizeof *pace->seconds)) ||
        !(pace->costs = calloc(units, sizeof *pace->costs))) {
        bench_pace_close(pace);
        return error_memory(error, units * sizeof *pace->seconds, "the times of passes");
    }
    pace->world = world;
    pace->hook = (struct executor_pace){.pass = pace_pass, .context = pace};
    pace->units = units;
    pace->scale = scale;
    *result = pace;
    return WEFT_OK;
}

weft_status bench_pace_open(const struct train_config *config, const struct bench_pace_source *source,
                            weft_context *context, struct bench_pace **result, bool *speaks, struct error *error)
{
    struct bench_pace *pace = NULL;
    weft_comm *world = weft_world(context);
    weft_status status =
        agreement_reach(context, world, pace_new(config, source->scale, world, &pace, error), error, speaks);
    if (status == WEFT_OK)
        status = agreement_reach(context, world,
                                 weft_comm_rank(world) == 0 ? find_passes(pace, config, source, error) : WEFT_OK, error,
                                 speaks);
    if (status == WEFT_OK)
        status = library_error(context, weft_broadcast(pace->seconds, pace->units * COSTS_PASSES, WEFT_F64, 0, world),
                               error);
    if (status != WEFT_OK) {
        bench_pace_close(pace);
        return status;
    }
    for (size_t unit = 0; unit < pace->units; unit++)
        pace->costs[unit] = pace->seconds[unit][0] + pace->seconds[unit][1] + pace->seconds[unit][2];
    prctl(PR_SET_TIMERSLACK, 1000ul, 0ul, 0ul, 0ul); /* otherwise a sleep may take 50 us longer */
    *result = pace;
    return WEFT_OK;
}

const double *bench_pace_costs(const struct bench_pace *pace)
{
    return pace->costs;
}
