/* SPDX-License-Identifier: Apache-2.0 */
/* The training loop: steps, evaluations, checkpoints, the end. */
#include "base/clock.h"
#include "training/parallel/state_transfer.h"
#include "training/train/loop/internal/divergence.h"
#include "training/train/loop/internal/recovery.h"
#include "training/train/loop/internal/spares.h"
#include "training/train/loop/internal/trainer_parts.h"
#include "training/train/loop/run_data.h"
#include "training/train/report/profile.h"
#include "training/train/state/generation.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* ---- what the executor calls ---- */

static weft_status read_micro_batch(struct trainer *trainer, enum dataset_split split, uint64_t number,
                                    const struct model_arrays *arrays, struct error *error)
{
    const uint64_t sequences = (uint64_t)trainer->config.micro_batch, begin = clock_now();
    weft_progress(trainer->context, "reading micro-batch", (int64_t)number);
    weft_status status = sample_source_read(trainer->source, split, number * sequences, sequences, arrays, error);
    weft_progress(trainer->context, "the first layer for micro-batch", (int64_t)number);
    trainer->read_time += clock_now() - begin;
    return status;
}

static weft_status read_for_training(void *context, uint64_t number, const struct model_arrays *arrays,
                                     struct error *error)
{
    return read_micro_batch(context, DATASET_TRAIN, number, arrays, error);
}

static weft_status read_held_out(void *context, uint64_t number, const struct model_arrays *arrays, struct error *error)
{
    return read_micro_batch(context, DATASET_HELD_OUT, number, arrays, error);
}

/* Once all ranks have the norm, they may begin the next copy of the state. */
static weft_status finish_copy(void *context, struct error *error)
{
    struct state_copies *copies = ((struct trainer *)context)->world.copies;
    return copies ? state_copies_finish(copies, error) : WEFT_OK;
}

/* The step changes weights that are being written. */
static void release_weights(void *context)
{
    checkpoint_writer_release(((struct trainer *)context)->world.writer);
}

/* ---- a step ---- */

/* A step that was not taken because its numbers are not finite. All ranks are here. */
static weft_status explain_divergence(struct trainer *trainer, const struct executor_input *input,
                                      const struct executor_result *result, bool *speaks, struct error *error)
{
    const struct divergence divergence = {
        .context = trainer->context,
        .comm = trainer->world.comm,
        .executor = trainer->world.executor,
        .device = trainer->device,
        .description = trainer->world.own,
        .input = input,
        .micro_batches = trainer->world.parallel.micro_batches,
        .step = trainer->state.step,
        .loss = result->loss,
        .norm = result->gradient_norm,
    };
    trainer->agreed = true;
    error_clear(error);
    return divergence_explain(&divergence, speaks, error);
}

/* The rate of the step after `taken` steps. */
static double rate_after(const struct trainer *trainer, uint64_t taken)
{
    return learning_rate_scaled(learning_rate_at(&trainer->schedule, taken), trainer->config.scaling,
                                trainer->rate_ranks);
}

void trainer_report_step(struct trainer *trainer)
{
    const struct trainer_course *course = &trainer->course;
    const struct executor_result *last = &course->last;
    struct report_step report = {
        .step = trainer->state.step,
        .loss = last->loss,
        .rate = rate_after(trainer, trainer->state.step - 1),
        .gradient_norm = fabs(last->gradient_norm), /* no "-nan" */
        .loss_scale = course->loss_scale,
        .skipped = last->skipped,
        .seconds = (double)(clock_now() - course->step_began) * 1e-9,
        .wait_seconds = last->seconds.wait,
        .tensor_wait_seconds = last->seconds.tensor_wait,
        .data_wait_seconds = last->seconds.data_wait,
        .compute_seconds = last->seconds.pass - last->seconds.tensor_wait,
        .optimizer_seconds = last->seconds.optimizer,
        .pass_seconds = last->seconds.pass,
        .norm_seconds = last->seconds.norm,
        .beside = checkpoint_writer_is_busy(trainer->world.writer),
        .data_seconds = (double)(trainer->read_time - course->read_time) * 1e-9,
    };
    report_step(&trainer->report, &report);
    if (trainer->config.observe)
        trainer->config.observe(trainer->config.observer, &report);
}

/* Ranks that wait to join wait at rank 0, which also knows which ones are to leave. */
static bool must_regroup(const struct trainer *trainer)
{
    return trainer->config.min_ranks && trainer->world.rank == 0 && weft_waiting(trainer->context) > 0;
}

static weft_status trainer_take_step(struct trainer *trainer, bool *speaks, struct error *error)
{
    const uint64_t number = trainer->state.step + 1;
    struct trainer_course *course = &trainer->course;
    weft_progress(trainer->context, "step", (int64_t)number);
    course->step_began = clock_now();
    course->read_time = trainer->read_time;
    course->loss_scale = trainer->state.loss_scale.scale;
    const struct executor_input input = {.context = trainer,
                                         .read = read_for_training,
                                         .seed = (uint64_t)trainer->config.seed,
                                         .loss_scale = course->loss_scale,
                                         .stop = trainer->stop,
                                         .pause = must_regroup(trainer),
                                         .before_norm = finish_copy,
                                         .before_update = release_weights};
    struct executor_result result;
    weft_status status =
        executor_step(trainer->world.executor, &input, number, rate_after(trainer, number - 1), &result, error);
    const double seconds = (double)(clock_now() - course->step_began) * 1e-9;
    if (status == WEFT_ERROR_DATA && result.diverged)
        return explain_divergence(trainer, &input, &result, speaks, error);
    if (status != WEFT_OK)
        return status;
    trainer->state.step = number;
    loss_scale_note(&trainer->state.loss_scale, result.skipped);
    course->stopping = result.stop;
    course->joining = result.pause;
    course->last = result;
    trainer_report_step(trainer);
    status = trainer_world_copy(trainer, false, error);
    return status == WEFT_OK ? stragglers_note_step(trainer, seconds, error) : status;
}

/* Whether the run evaluates after `step` steps, wherever it is interrupted. */
static bool is_scheduled(const struct train_config *config, uint64_t step)
{
    return step == (uint64_t)config->steps ||
           (config->evaluate_every && step && step % (uint64_t)config->evaluate_every == 0);
}

/* An evaluation that is interrupted leaves no trace: the resumed run repeats it. */
static weft_status trainer_evaluate(struct trainer *trainer, struct error *error)
{
    const struct train_config *config = &trainer->config;
    struct early_stopping *stopping = &trainer->state.early_stopping;
    const uint64_t step = trainer->state.step;
    int64_t count = (config->evaluate_sequences + config->micro_batch - 1) / config->micro_batch;
    if (!count)
        return WEFT_OK;
    const struct executor_input input = {.context = trainer, .read = read_held_out, .stop = trainer->stop};
    struct executor_scores scores;
    weft_status status = executor_evaluate(trainer->world.executor, &input, 0, (uint32_t)count, &scores,
                                           &trainer->course.stopping, error);
    if (status != WEFT_OK || trainer->course.stopping)
        return status;
    trainer->course.evaluated = step;
    report_evaluation(&trainer->report, step, scores.loss, scores.accuracy);
    /* A run that ends at --stop-at evaluates there too, but an uninterrupted run would not. */
    if (!is_scheduled(config, step))
        return WEFT_OK;
    if (config->patience)
        trainer->course.is_best = early_stopping_note(stopping, step, scores.loss);
    stopping->last_step = step;
    return WEFT_OK;
}

/* A failed checkpoint fails on all ranks. */
static weft_status note_agreed(struct trainer *trainer, weft_status status)
{
    trainer->agreed = trainer->agreed || status != WEFT_OK;
    return status;
}

/* All weights on rank 0: in place, or gathered into *memory. Collective. */
static weft_status gather_weights(struct trainer *trainer, float **weights, float **memory, struct error *error)
{
    const weft_status status = executor_settle(trainer->world.executor, error);
    *weights = executor_flat_values(trainer->world.executor);
    if (status != WEFT_OK || *weights)
        return status;
    const struct model_description *whole = trainer->description;
    /* The others send before they hear of a failure here, so rank 0 ends the job. */
    if (trainer->world.rank == 0 && !(*memory = malloc(whole->elements * sizeof **memory)))
        return error_memory(error, whole->elements * sizeof **memory, "the weights of a sample");
    *weights = *memory;
    return state_layout_gather_values(trainer->world.layout, whole, *memory, error);
}

static weft_status write_sample(struct trainer *trainer, const float *weights, struct error *error)
{
    const struct train_config *config = &trainer->config;
    const struct generation_options options = {
        .prompt = config->prompt,
        .prompt_size = strlen(config->prompt),
        .tokens = (size_t)config->sample,
        .window = config->shape.context,
        .echo = true,
        .sampling = {.temperature = config->temperature, .seed = (uint64_t)config->seed},
    };
    struct generation *generation;
    struct generation_result result;
    weft_status status =
        generation_open(trainer->description, trainer->device, weights, &trainer->text, &options, &generation, error);
    if (status != WEFT_OK)
        return status;
    fprintf(trainer->out, "\nsampled after \"%s\":\n", config->prompt);
    status = generation_write(generation, 0, trainer->out, isatty(fileno(trainer->out)), &result, error);
    fputc('\n', trainer->out);
    generation_close(generation);
    return status;
}

/* Print the prompt and the text that the model generates after it. Collective. */
static weft_status trainer_sample(struct trainer *trainer, struct error *error)
{
    float *weights = NULL, *memory = NULL;
    const bool writes = model_samples_of(&trainer->description->shape) == SAMPLES_OF_TOKENS;
    uint32_t samples = trainer->config.sample && trainer->out && writes && text_is_known(&trainer->text);
    weft_status status = weft_broadcast(&samples, 1, WEFT_U32, 0, trainer->world.comm);
    if (status != WEFT_OK)
        return error_set(error, status, "%s", weft_message(trainer->context));
    if (!samples)
        return WEFT_OK;
    status = gather_weights(trainer, &weights, &memory, error);
    if (status == WEFT_OK && trainer->world.rank == 0)
        status = write_sample(trainer, weights, error);
    free(memory);
    return status;
}

/* Some rank received a request to stop: share the signal's number. */
static weft_status report_stopped(struct trainer *trainer, struct error *error)
{
    int32_t number = trainer->stop ? (int32_t)*trainer->stop : 0;
    weft_status status = weft_allreduce(&number, &number, 1, WEFT_I32, WEFT_MAX, trainer->world.comm);
    if (status != WEFT_OK)
        return error_set(error, status, "%s", weft_message(trainer->context));
    trainer->stopped_by = number;
    report_say(&trainer->report, "stopped after step %" PRIu64 " as asked; %s", trainer->state.step,
               trainer->config.checkpoint_dir ? "go on with --resume" : "without --checkpoint-dir nothing is kept");
    return WEFT_OK;
}

/* Report the best evaluation. */
static void report_best(struct trainer *trainer)
{
    const struct early_stopping *stopping = &trainer->state.early_stopping;
    const char *directory = trainer->config.checkpoint_dir;
    char best[FILE_PATH_BYTES];
    if (early_stopping_is_due(stopping, (uint64_t)trainer->config.patience))
        report_say(&trainer->report, "early stop after step %" PRIu64 ": %" PRIu64 " evaluations brought nothing",
                   trainer->state.step, stopping->since_best);
    if (!stopping->best_step)
        return;
    /* A run that was resumed in another directory may have left its best checkpoint there. */
    const bool kept = directory && file_join(best, directory, CHECKPOINT_BEST, NULL) == WEFT_OK && file_exists(best);
    report_say(&trainer->report, "best   step %" PRIu64 ", loss %.4f%s%s", stopping->best_step, stopping->best_loss,
               kept ? ", kept as " : "", kept ? best : "");
}

/* Damaged images must not go unnoticed. Collective. */
static weft_status report_skipped(struct trainer *trainer, struct error *error)
{
    uint64_t skipped = run_data_skipped(trainer->source, &trainer->config.shape);
    if (!trainer->config.images.skip)
        return WEFT_OK;
    const weft_status status = weft_allreduce(&skipped, &skipped, 1, WEFT_U64, WEFT_SUM, trainer->world.comm);
    if (status != WEFT_OK)
        return error_set(error, status, "%s", weft_message(trainer->context));
    if (skipped)
        report_say(&trainer->report, "damaged images were replaced by others %" PRIu64 " times", skipped);
    return WEFT_OK;
}

static bool should_stop_early(const struct trainer *trainer)
{
    return early_stopping_is_due(&trainer->state.early_stopping, (uint64_t)trainer->config.patience);
}

static weft_status save(struct trainer *trainer, bool last, bool *speaks, struct error *error)
{
    const weft_status status = executor_settle(trainer->world.executor, error);
    if (status != WEFT_OK)
        return status;
    trainer->course.saved = trainer->state.step;
    trainer->course.is_best = false;
    weft_progress(trainer->context, "the checkpoint of step", (int64_t)trainer->state.step);
    return note_agreed(trainer, checkpoint_writer_begin(trainer->world.writer, last, speaks, error));
}

/* Before weights are evaluated and written. */
static weft_status verify_replicas(struct trainer *trainer, bool *speaks, struct error *error)
{
    const struct train_config *config = &trainer->config;
    const uint64_t step = trainer->state.step;
    const bool is_time = config->verify_every && step > trainer->course.begin &&
                         (step % (uint64_t)config->verify_every == 0 || step == trainer->course.end);
    return is_time ? note_agreed(trainer, executor_compare_replicas(trainer->world.executor, speaks, error)) : WEFT_OK;
}

/* Verify, evaluate and checkpoint if due. A run that was stopped in an evaluation repeats it. */
static weft_status pause_between_steps(struct trainer *trainer, bool *speaks, struct error *error)
{
    const struct train_config *config = &trainer->config;
    const uint64_t step = trainer->state.step;
    weft_status status = verify_replicas(trainer, speaks, error);
    if (status == WEFT_OK && is_scheduled(config, step) && trainer->state.early_stopping.last_step != step)
        status = trainer_evaluate(trainer, error);
    if (status != WEFT_OK || trainer->course.stopping || !config->checkpoint_dir)
        return status;
    const bool due =
        step != trainer->course.begin && config->checkpoint_every && step % (uint64_t)config->checkpoint_every == 0;
    return due || trainer->course.is_best ? save(trainer, should_stop_early(trainer), speaks, error) : WEFT_OK;
}

/* The last checkpoint is complete before the last evaluation, which may take long. */
static weft_status save_and_evaluate(struct trainer *trainer, bool *speaks, struct error *error)
{
    const struct training_state *state = &trainer->state;
    const uint64_t before = state->early_stopping.last_step;
    weft_status status = WEFT_OK;
    if (trainer->world.writer && (trainer->course.saved != state->step || trainer->course.is_best))
        status = save(trainer, true, speaks, error);
    if (status == WEFT_OK)
        status = note_agreed(trainer, checkpoint_writer_finish(trainer->world.writer, true, speaks, error));
    if (status == WEFT_OK && !trainer->course.stopping && trainer->course.evaluated != state->step)
        status = trainer_evaluate(trainer, error);
    if (status != WEFT_OK)
        return status;
    weft_progress(trainer->context, NULL, 0); /* no hang: the last copies and a long sample */
    if (trainer->world.writer)
        status = note_agreed(trainer, checkpoint_writer_finish_copies(trainer->world.writer, speaks, error));
    if (status == WEFT_OK && trainer->world.writer && state->early_stopping.last_step != before)
        status = note_agreed(trainer, checkpoint_writer_amend(trainer->world.writer, speaks, error));
    return status;
}

/* Nothing is under way when ranks join or leave. A rank that leaves has left a copy of its part of the state. */
static weft_status rest_between_steps(struct trainer *trainer, bool *speaks, struct error *error)
{
    weft_status status = note_agreed(trainer, checkpoint_writer_finish(trainer->world.writer, false, speaks, error));
    if (status == WEFT_OK)
        status = finish_copy(trainer, error);
    if (status == WEFT_OK)
        status = executor_settle(trainer->world.executor, error);
    if (status == WEFT_OK)
        status = trainer_world_copy(trainer, true, error);
    if (status == WEFT_OK)
        status = finish_copy(trainer, error);
    trainer->world.is_settled = status == WEFT_OK;
    return status;
}

/* Until the run ends, or ranks are to join or leave. */
static weft_status run_to_end(struct trainer *trainer, bool *speaks, struct error *error)
{
    const struct train_config *config = &trainer->config;
    struct training_state *state = &trainer->state;
    const struct trainer_course *course = &trainer->course;
    weft_status status = WEFT_OK;
    while (state->step < course->end && !course->stopping && !should_stop_early(trainer)) {
        if ((status = pause_between_steps(trainer, speaks, error)) != WEFT_OK)
            return status;
        if (course->stopping || should_stop_early(trainer))
            break;
        if ((status = trainer_take_step(trainer, speaks, error)) != WEFT_OK)
            return status;
        if ((status = note_agreed(trainer, checkpoint_writer_poll(trainer->world.writer, speaks, error))) != WEFT_OK)
            return status;
        if (course->joining && !course->stopping && state->step < course->end)
            return rest_between_steps(trainer, speaks, error);
    }
    trainer->course.joining = false;
    if ((status = verify_replicas(trainer, speaks, error)) != WEFT_OK ||
        (status = save_and_evaluate(trainer, speaks, error)) != WEFT_OK ||
        (status = executor_settle(trainer->world.executor, error)) != WEFT_OK)
        return status;
    if (config->patience && trainer->out)
        report_best(trainer);
    if ((status = report_skipped(trainer, error)) != WEFT_OK)
        return status;
    if (course->stopping)
        status = report_stopped(trainer, error);
    report_end(&trainer->report,
               course->stopping || state->step < (uint64_t)config->steps ? REPORT_STOPPED : REPORT_FINISHED);
    if (!course->stopping)
        status = trainer_agree(trainer, trainer_sample(trainer, error), speaks, error);
    return status;
}

/* Train, or wait as a spare, through all changes of the ranks. */
static weft_status run_with_changes(struct trainer *trainer, bool *speaks, struct error *error)
{
    for (;;) {
        weft_status status =
            trainer_world_is_spare(&trainer->world) ? spares_wait(trainer, error) : run_to_end(trainer, speaks, error);
        weft_progress(trainer->context, NULL, 0); /* until the next step */
        stragglers_restart(&trainer->stragglers);
        if (status == WEFT_OK ? !trainer->course.joining : !recovery_is_possible(trainer, status))
            return status;
        if ((status = recovery_run(trainer, speaks, error)) != WEFT_OK)
            return status;
    }
}

weft_status trainer_run(struct trainer *trainer, bool *speaks, struct error *error)
{
    const struct train_config *config = &trainer->config;
    struct trainer_course *course = &trainer->course;
    course->end = (uint64_t)(config->stop_at && config->stop_at < config->steps ? config->stop_at : config->steps);
    *speaks = true;
    weft_status status = run_with_changes(trainer, speaks, error);
    if (trainer->has_left) {
        error_clear(error);
        return WEFT_OK;
    }
    struct error ignored = {0}; /* a spare is lost: the run has ended all the same */
    if (status == WEFT_OK || trainer->agreed)
        (void)spares_tell(trainer, status == WEFT_OK ? SPARE_ENDS : SPARE_FAILS, &ignored);
    if (status != WEFT_OK && !trainer->gives_way)
        report_end(&trainer->report, REPORT_FAILED);
    /* A failure on this rank alone aborts the job, because the others would wait for this rank. */
    if (status != WEFT_OK && !trainer->agreed)
        weft_abort(trainer->context, error->text);
    return status;
}

/* ---- accessors ---- */

double trainer_step_flops(const struct trainer *trainer)
{
    const struct train_config *config = &trainer->config;
    return (double)(config->batch * config->sequence) *
           model_flops_per_token(trainer->description, (size_t)config->sequence);
}

const struct model_description *trainer_description(const struct trainer *trainer)
{
    return trainer->description;
}

uint64_t trainer_predicted_memory(const struct trainer *trainer)
{
    return memory_estimate_total(&trainer->world.memory);
}

int trainer_stopped_by(const struct trainer *trainer)
{
    return trainer->stopped_by;
}

struct executor *trainer_executor(const struct trainer *trainer)
{
    return trainer->world.executor;
}

struct device *trainer_device(const struct trainer *trainer)
{
    return trainer->device;
}
