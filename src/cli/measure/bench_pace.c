/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/measure/bench_pace.h"

#include "base/clock.h"
#include "base/library_error.h"
#include "cli/measure/bench_timing.h"
#include "training/model/tensor_group.h"
#include "training/parallel/execute/costs.h"
#include "training/train/loop/parallel_choice.h"
#include "training/train/loop/trainer.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/prctl.h>

#define PACE_WARM  2 /* steps that are not measured */
#define PACE_STEPS 5
#define PACE_KINDS (OPERATION_BACKWARD_WEIGHTS + 1)

struct bench_pace {
    struct executor_pace hook;
    weft_comm *world;
    size_t units;
    double scale;
    double *seconds;       /* of each unit's pass of each kind; rank 0 has one for each step until it has the medians */
    int64_t late;          /* nanoseconds by which the last pass ended too late */
    size_t step;           /* that is measured, warm-up included */
    uint64_t began;        /* of the pass under way */
    uint64_t (*now)(void); /* nanoseconds, to measure passes with */
};

const struct executor_pace *bench_pace_hook(const struct bench_pace *pace)
{
    return &pace->hook;
}

void bench_pace_close(struct bench_pace *pace)
{
    if (pace)
        free(pace->seconds);
    free(pace);
}

/* ---- sleeping ---- */

static void sleep_until(uint64_t end)
{
    const struct timespec time = {.tv_sec = (time_t)(end / 1000000000u), .tv_nsec = (long)(end % 1000000000u)};
    while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &time, NULL) == EINTR)
        ;
}

/* A pass that follows one that woke up late is as much shorter. */
static void pace_pass(void *context, enum step_operation_kind kind, uint32_t unit)
{
    struct bench_pace *pace = context;
    const double seconds = pace->seconds[unit * PACE_KINDS + kind] * pace->scale;
    const int64_t begin = (int64_t)clock_now(), end = begin + (int64_t)(seconds * 1e9) - pace->late;
    if (end > begin)
        sleep_until((uint64_t)end);
    pace->late = (int64_t)clock_now() - end;
}

/* ---- measuring ---- */

static void pace_watch(void *context, const struct model_turn *turn)
{
    struct bench_pace *pace = context;
    const enum step_operation_kind kind = turn->direction == MODEL_FORWARD ? OPERATION_FORWARD
                                          : turn->weights                  ? OPERATION_BACKWARD_WEIGHTS
                                                                           : OPERATION_BACKWARD_INPUT;
    if (turn->begins)
        pace->began = pace->now();
    else if (pace->step >= PACE_WARM)
        pace->seconds[(turn->layer * PACE_KINDS + kind) * PACE_STEPS + pace->step - PACE_WARM] =
            (double)(pace->now() - pace->began) * 1e-9;
}

/* Ranks that wait hear of every step, or they would complain that rank 0 is late. */
static weft_status say_more(weft_comm *world, uint32_t more)
{
    return weft_broadcast(&more, 1, WEFT_U32, 0, world);
}

static weft_status wait_for_steps(weft_comm *world)
{
    uint32_t more = 1;
    weft_status status = WEFT_OK;
    while (status == WEFT_OK && more)
        status = weft_broadcast(&more, 1, WEFT_U32, 0, world);
    return status;
}

static void pace_note_step(void *context, const struct report_step *step)
{
    struct bench_pace *pace = context;
    pace->step = step->step;
    say_more(pace->world, 1); /* an error stays with the context: the next call reports it */
}

/* Steps of one micro-batch on this rank alone. */
static weft_status take_steps(struct bench_pace *pace, const struct train_config *config, weft_context *context,
                              weft_comm *alone, struct error *error)
{
    struct train_config steps = *config;
    struct trainer *trainer;
    bool speaks;
    steps.mesh = steps.placement = NULL;
    steps.sequence_parallel = false;
    steps.schedule = STEP_1F1B;
    steps.stages = steps.zero = 0;
    steps.batch = steps.micro_batch;
    steps.steps = PACE_WARM + PACE_STEPS;
    steps.observe = pace_note_step;
    steps.observer = pace;
    weft_status status = trainer_open(&steps, context, alone, NULL, NULL, &trainer, &speaks, error);
    if (status != WEFT_OK)
        return status;
    executor_watch(trainer_executor(trainer), pace_watch, pace);
    status = trainer_run(trainer, &speaks, error);
    trainer_close(trainer);
    for (size_t pass = 0; status == WEFT_OK && pass < pace->units * PACE_KINDS; pass++)
        pace->seconds[pass] = bench_median(pace->seconds + pass * PACE_STEPS, PACE_STEPS);
    return status;
}

/* ---- a tensor axis ---- */

static void sum_nothing(void *context, weft_type type, size_t count, void *array)
{
}

static void gather_nothing(void *context, size_t bytes, void *array)
{
}

/* A layer of one rank of a tensor axis takes the share of a whole one's time that the two take by themselves. The
 * collectives within it are the executor's. */
static weft_status divide_seconds(struct bench_pace *pace, const struct train_config *config,
                                  const struct parallel_choice *choice, struct model_description *description,
                                  struct device *device, double *costs, struct error *error)
{
    const uint32_t ranks = choice->mesh.extent[MESH_TENSOR];
    const struct tensor_group alone = {.ranks = ranks,
                                       .divides_rows = config->sequence_parallel,
                                       .sum = sum_nothing,
                                       .sum_part = sum_nothing,
                                       .gather = gather_nothing};
    struct model_options options = parallel_choice_executor(config, choice).model;
    weft_status status = costs_measure(description, device, &options, costs, error);
    if (status == WEFT_OK)
        status = model_divide(description, ranks, 0, error);
    options.tensor = &alone;
    if (status == WEFT_OK)
        status = costs_measure(description, device, &options, costs + pace->units, error);
    for (size_t unit = 0; status == WEFT_OK && unit < pace->units; unit++)
        for (size_t kind = 0; kind < PACE_KINDS; kind++)
            pace->seconds[unit * PACE_KINDS + kind] *= costs[pace->units + unit] / costs[unit];
    return status;
}

static weft_status divide_passes(struct bench_pace *pace, const struct train_config *config, struct error *error)
{
    struct model_description *description = NULL;
    struct parallel_choice choice;
    struct device *device = NULL;
    double *costs = calloc(2 * pace->units, sizeof *costs);
    weft_status status = costs ? model_describe(&config->shape, &description, error)
                               : error_memory(error, 2 * pace->units * sizeof *costs, "the costs of layers");
    if (status == WEFT_OK)
        status = parallel_choice_of(config, description, (uint32_t)weft_comm_size(pace->world), &choice, error);
    if (status == WEFT_OK && choice.mesh.extent[MESH_TENSOR] > 1)
        status = device_open(device_cpu_name(config->activations), (int)config->threads, &device, error);
    if (device) {
        if (status == WEFT_OK)
            status = divide_seconds(pace, config, &choice, description, device, costs, error);
        device->close(device);
    }
    model_description_free(description);
    free(costs);
    return status;
}

static weft_status pace_new(const struct train_config *config, double scale, weft_comm *world,
                            struct bench_pace **result, struct error *error)
{
    struct model_description *description;
    weft_status status = model_describe(&config->shape, &description, error);
    if (status != WEFT_OK)
        return status;
    const size_t units = description->layer_count, numbers = units * PACE_KINDS * PACE_STEPS;
    model_description_free(description);
    struct bench_pace *pace = calloc(1, sizeof *pace);
    if (!pace || !(pace->seconds = calloc(numbers, sizeof *pace->seconds))) {
        free(pace);
        return error_memory(error, numbers * sizeof(double), "the times of passes");
    }
    pace->world = world;
    pace->hook = (struct executor_pace){.pass = pace_pass, .context = pace};
    pace->units = units;
    /* Processor time is the same under any load, but with several threads it is not the time of the pass. */
    pace->now = config->threads == 1 ? clock_thread_cpu : clock_now;
    pace->scale = scale;
    *result = pace;
    return WEFT_OK;
}

static weft_status measure_alone(struct bench_pace *pace, const struct train_config *config, weft_context *context,
                                 bool *speaks, struct error *error)
{
    weft_comm *world = pace->world, *alone = NULL;
    const int rank = weft_comm_rank(world);
    weft_status status = library_error(context, weft_comm_split(world, rank ? -1 : 0, 0, &alone), error);
    if (status != WEFT_OK)
        return status;
    if (rank == 0) {
        status = take_steps(pace, config, context, alone, error);
        if (status == WEFT_OK)
            status = divide_passes(pace, config, error);
        say_more(world, 0);
    } else {
        status = library_error(context, wait_for_steps(world), error);
    }
    status = agreement_reach(context, world, status, error, speaks);
    if (alone)
        weft_comm_free(alone);
    if (status != WEFT_OK)
        return status;
    return library_error(context, weft_broadcast(pace->seconds, pace->units * PACE_KINDS, WEFT_F64, 0, world), error);
}

weft_status bench_pace_open(const struct train_config *config, double scale, weft_context *context,
                            struct bench_pace **result, bool *speaks, struct error *error)
{
    struct bench_pace *pace = NULL;
    weft_comm *world = weft_world(context);
    weft_status status = agreement_reach(context, world, pace_new(config, scale, world, &pace, error), error, speaks);
    if (status == WEFT_OK)
        status = measure_alone(pace, config, context, speaks, error);
    if (status != WEFT_OK) {
        bench_pace_close(pace);
        return status;
    }
    prctl(PR_SET_TIMERSLACK, 1000ul, 0ul, 0ul, 0ul); /* otherwise a sleep may take 50 us longer */
    *result = pace;
    return WEFT_OK;
}
