/* SPDX-License-Identifier: Apache-2.0 */
/* Prepares a trainer for its first step: check the configuration, open, read, report. */
#include "core/topology/limits.h"
#include "training/model/shape.h"
#include "training/optimizer/learning_rate.h"
#include "training/train/loop/internal/initial_state.h"
#include "training/train/loop/internal/recovery.h"
#include "training/train/loop/internal/trainer_parts.h"
#include "training/train/report/profile.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

static weft_status trainer_check_config(const struct train_config *config, struct error *error)
{
    if ((uint64_t)config->sequence > config->shape.context)
        return error_set(error, WEFT_ERROR_ARGUMENT,
                         "--sequence %" PRId64 " is longer than the model's context of %zu tokens", config->sequence,
                         config->shape.context);
    if (config->patience && (!config->evaluate_every || !config->evaluate_sequences))
        return error_set(error, WEFT_ERROR_ARGUMENT,
                         "--patience %" PRId64 " counts evaluations; give --evaluate-every, and --evaluate-sequences",
                         config->patience);
    if (config->warmup > config->steps)
        return error_set(error, WEFT_ERROR_ARGUMENT, "--warmup %" PRId64 " is longer than the run of %" PRId64 " steps",
                         config->warmup, config->steps);
    return settings_check_names(config->resume_change, error);
}

static struct report_options report_options_of(const struct trainer *trainer)
{
    const struct train_config *config = &trainer->config;
    return (struct report_options){.out = trainer->out,
                                   .warnings = config->warnings,
                                   .every = (uint64_t)config->log_every,
                                   .metrics = config->metrics,
                                   .prometheus = config->prometheus,
                                   .tensorboard = config->tensorboard,
                                   .collected = config->collected};
}

static struct text_sources sources_of(const struct train_config *config)
{
    return (struct text_sources){.resume = config->resume,
                                 .from = config->from,
                                 .tokenizer = config->tokenizer,
                                 .data = config->data,
                                 .vocabulary = config->shape.vocabulary};
}

/* The same kernels on all ranks, before any of them runs. */
static weft_status choose_kernels(struct trainer *trainer, bool *speaks, struct error *error)
{
    const weft_type activations = trainer->config.activations;
    weft_status status = kernel_choice_reach(trainer->context, trainer->world.comm, trainer->config.kernels,
                                             activations, &trainer->kernels, speaks, error);
    trainer->agreed = status != WEFT_OK;
    return status;
}

static weft_status read_limits(struct trainer *trainer, struct error *error)
{
    struct limits limits;
    const weft_status status = limits_read(&limits, error);
    trainer->touchable = status == WEFT_OK ? limits_touchable(&limits) : 0;
    return status;
}

weft_status trainer_prepare_model(struct trainer *trainer, struct error *error)
{
    struct train_config *config = &trainer->config;
    if (!config->sequence)
        config->sequence = (int64_t)config->shape.context;
    weft_status status = trainer_check_config(config, error);
    if (status != WEFT_OK)
        return status;
    if ((status = device_open_with(device_cpu_name(config->activations), trainer->kernels.set, (int)config->threads,
                                   &trainer->device, error)) != WEFT_OK ||
        (status = device_open("cpu-bf16", (int)config->threads, &trainer->sums, error)) != WEFT_OK)
        return status;
    const struct text_sources sources = sources_of(config);
    if ((status = text_match_data(&sources, &trainer->text, error)) != WEFT_OK)
        return status;
    if (!config->vocabulary_chosen)
        config->shape.vocabulary = text_vocabulary(&trainer->text, config->shape.vocabulary);
    text_settle(&trainer->text, config->shape.vocabulary);
    if ((status = model_describe(&config->shape, &trainer->description, error)) != WEFT_OK)
        return status;
    if ((status = parameter_rules_apply(&config->rules, trainer->description, error)) != WEFT_OK)
        return status;
    return read_limits(trainer, error);
}

static weft_status choose_first_mesh(struct trainer *trainer, struct error *error)
{
    const struct train_config *config = &trainer->config;
    weft_status status = trainer_world_choose(trainer, error);
    if (status != WEFT_OK)
        return status;
    trainer->first_mesh = trainer->world.parallel.mesh;
    trainer->rate_ranks = trainer->world.parallel.mesh.extent[MESH_DATA];
    /* Only now, so that a run that cannot be leaves no directory. */
    return trainer->world.rank == 0 && config->checkpoint_dir
               ? checkpoint_claim(config->checkpoint_dir, &trainer->claim, error)
               : WEFT_OK;
}

weft_status trainer_prepare_data(struct trainer *trainer, struct error *error)
{
    const struct train_config *config = &trainer->config;
    weft_status status = WEFT_OK;
    if (config->profile && ((status = profile_describe(config->profile, trainer->description, error)) != WEFT_OK ||
                            (status = profile_measure(config->profile, &trainer->device, error)) != WEFT_OK ||
                            (status = profile_measure(config->profile, &trainer->sums, error)) != WEFT_OK))
        return status;
    struct dataset_options options = {
        .sequence = (uint64_t)config->sequence,
        .seed = (uint64_t)config->seed,
        .vocabulary = config->shape.vocabulary,
        .tokenizer = trainer->text.tokenizer,
    };
    status = strcmp(config->data, "random") == 0 ? dataset_open_random(&options, &trainer->dataset, error)
                                                 : dataset_open(&config->data, 1, &options, &trainer->dataset, error);
    if (status == WEFT_OK && trainer->text.tokenizer && dataset_bytes_per_token(trainer->dataset) > 0)
        trainer->text.bytes_per_token = dataset_bytes_per_token(trainer->dataset);
    if (status == WEFT_OK && trainer->world.rank == 0 && (config->checkpoint_dir || config->resume))
        status = dataset_identify(trainer->dataset, &trainer->identity, error);
    return status;
}

/* Local preparation, before memory is allocated. */
static weft_status prepare_run(struct trainer *trainer, struct error *error)
{
    weft_status status = trainer_prepare_model(trainer, error);
    if (status == WEFT_OK)
        status = choose_first_mesh(trainer, error);
    return status == WEFT_OK ? trainer_prepare_data(trainer, error) : status;
}

weft_status trainer_open_report(struct trainer *trainer, struct error *error)
{
    const struct report_options reports = report_options_of(trainer);
    trainer->reports = trainer->world.rank == 0;
    return report_open(&trainer->report, trainer->reports ? &reports : &(struct report_options){0}, error);
}

static void trainer_open_describe(const struct trainer *trainer)
{
    const struct train_config *config = &trainer->config;
    const struct parallel_choice *parallel = &trainer->world.parallel;
    const struct micro_batch_division division = parallel_choice_division(parallel);
    const uint32_t data = division.ranks, total = division.total, rounds = micro_batch_rounds(&division);
    char choice[PARALLEL_CHOICE_TEXT_BYTES];
    char shape[SHAPE_TEXT_BYTES];
    int nodes = weft_comm_nodes(trainer->world.comm);
    if (!trainer->out)
        return;
    fprintf(trainer->out, "data   %s\n", dataset_describe(trainer->dataset));
    fprintf(trainer->out, "model  %s: %s; %.2fM parameters\n", config->model,
            shape_text(&trainer->description->shape, shape), (double)trainer->description->weights * 1e-6);
    fprintf(trainer->out,
            "plan   %s on %d node%s; a step is %u micro-batch%s of %" PRId64 " x %" PRId64 " tokens, %u%s a rank",
            parallel_choice_describe(parallel, choice), nodes, nodes == 1 ? "" : "s", total, total == 1 ? "" : "es",
            config->micro_batch, config->sequence, rounds, rounds > total / data ? " at most" : "");
    if (data > 1)
        fprintf(trainer->out, "; %.1f MiB of %s gradients summed while backward goes on",
                (double)(executor_gradient_elements(trainer->world.executor) * weft_type_size(config->gradients)) /
                    1048576.0,
                weft_type_name(config->gradients));
    fprintf(trainer->out, "; %" PRId64 " compute thread%s a rank (%s), %s%s\n", config->threads,
            config->threads == 1 ? "" : "s", trainer->device->kernels, weft_type_name(config->activations),
            config->activations == WEFT_F32 ? "" : " with f32 weights");
    char why[KERNEL_CHOICE_TEXT_BYTES];
    if (*kernel_choice_describe(&trainer->kernels, trainer->world.comm, why))
        fprintf(trainer->out, "kernels %s\n", why);
    char parts[MEMORY_TEXT_BYTES];
    fprintf(trainer->out, "memory %s\n", memory_estimate_describe(&trainer->world.memory, parts));
    if (trainer->description->frozen_weights)
        fprintf(trainer->out, "frozen %.2fM of the parameters\n", (double)trainer->description->frozen_weights * 1e-6);
    if (config->pretrained && !trainer->state.step)
        fprintf(trainer->out, "from   %s\n", pretrained_describe(config->pretrained));
    if (trainer->state.step)
        fprintf(trainer->out, "resume after step %" PRIu64 " from %s\n", trainer->state.step, config->resume);
    if (*trainer->changes)
        fprintf(trainer->out, "changes %s; the result differs from that of an uninterrupted run\n", trainer->changes);
    fflush(trainer->out);
}

/* The processors that a rank computes on. */
struct processors {
    uint64_t set; /* a hash: ranks of one machine with equal sets share them */
    uint64_t count;
};

/* The fraction of a processor that each compute thread of this rank gets when all ranks compute. */
static weft_status share_processors(const struct trainer *trainer, double *share, struct error *error)
{
    const weft_comm *comm = trainer->world.comm;
    struct limits limits;
    struct processors mine = {0}, *all = calloc(trainer->world.ranks, sizeof *all);
    uint32_t sharing = 0;
    if (limits_read(&limits, NULL) == WEFT_OK)
        mine = (struct processors){limits.processor_set, limits_processors(&limits)};
    uint32_t failed = !all || !mine.count;
    weft_status status = weft_allreduce(&failed, &failed, 1, WEFT_U32, WEFT_MAX, trainer->world.comm);
    if (status == WEFT_OK && !failed)
        status = weft_allgather(&mine, all, sizeof mine, WEFT_U8, trainer->world.comm);
    for (uint32_t r = 0; status == WEFT_OK && !failed && r < trainer->world.ranks; r++)
        sharing += all[r].set == mine.set && weft_comm_node_of(comm, (int)r) == weft_comm_node(comm);
    free(all);
    if (status != WEFT_OK)
        return error_set(error, status, "%s", weft_message(trainer->context));
    const double threads = (double)sharing * (double)trainer->config.threads;
    *share = (double)mine.count < threads ? (double)mine.count / threads : 1;
    return WEFT_OK;
}

weft_status trainer_measure_peak(struct trainer *trainer, double *peak, struct error *error)
{
    double share = 1;
    weft_status status = share_processors(trainer, &share, error);
    if (status != WEFT_OK)
        return status;
    if (!trainer->device_peak)
        trainer->device_peak = trainer->device->peak(trainer->device);
    *peak = trainer->device_peak * share;
    status = weft_allreduce(peak, peak, 1, WEFT_F64, WEFT_SUM, trainer->world.comm);
    return status == WEFT_OK ? WEFT_OK : error_set(error, status, "%s", weft_message(trainer->context));
}

static void begin_report(struct trainer *trainer, double peak)
{
    const struct train_config *config = &trainer->config;
    const struct report_run run = {
        .name = config->run_name ? config->run_name : config->model,
        .model = config->model,
        .data = config->data,
        .precision = weft_type_name(config->activations),
        .kernels = trainer->device->kernels,
        .optimizer = optimizer_names[config->optimizer.kind],
        .parameters = trainer->description->weights,
        .step = trainer->state.step,
        .steps = (uint64_t)config->steps,
        .end = (uint64_t)(config->stop_at && config->stop_at < config->steps ? config->stop_at : 0),
        .batch = (uint64_t)config->batch,
        .micro_batch = (uint64_t)config->micro_batch,
        .sequence = (uint64_t)config->sequence,
        .seed = (uint64_t)config->seed,
        .ranks = trainer->world.ranks,
        .nodes = (uint64_t)weft_comm_nodes(trainer->world.job),
        .threads = (uint64_t)config->threads,
        .rate = learning_rate_scaled(config->rate, config->scaling, trainer->rate_ranks),
        .tokens = (double)(config->batch * config->sequence),
        .flops = trainer_step_flops(trainer),
        .peak = peak,
        .bytes_per_token = trainer->text.bytes_per_token,
    };
    report_begin(&trainer->report, &run);
}

/* ---- opening ---- */

/* A run of which all ranks begin together. */
static weft_status begin_run(struct trainer *trainer, bool *speaks, struct error *error)
{
    const struct train_config *config = &trainer->config;
    const struct text_sources sources = sources_of(config);
    struct report_options wanted = report_options_of(trainer);
    double peak = 0;
    wanted.out = trainer->user_output; /* the same on every rank */
    weft_status status = choose_kernels(trainer, speaks, error);
    if (status == WEFT_OK)
        status = text_open_together(&sources, trainer->context, trainer->world.comm, &trainer->text, speaks, error);
    if (status == WEFT_OK)
        status = trainer_agree(trainer, prepare_run(trainer, error), speaks, error);
    if (status != WEFT_OK)
        return status;
    initial_state_clear(trainer);
    status = trainer_world_measure(trainer, speaks, error);
    if (status == WEFT_OK)
        status = trainer_world_check(trainer, speaks, error);
    if (status == WEFT_OK)
        status = trainer_agree(trainer, trainer_open_report(trainer, error), speaks, error);
    if (status == WEFT_OK)
        status = trainer_world_open(trainer, speaks, error);
    if (status == WEFT_OK)
        status = initial_state_set(trainer, config->resume, speaks, error);
    if (status == WEFT_OK)
        status = trainer_world_open_copies(trainer, speaks, error);
    if (status == WEFT_OK)
        status = trainer_world_open_writer(trainer, speaks, error);
    if (status == WEFT_OK && report_wants_peak(&wanted))
        status = trainer_measure_peak(trainer, &peak, error);
    if (status != WEFT_OK)
        return status;
    trainer->world.is_whole = true;
    trainer->course.begin = trainer->state.step;
    begin_report(trainer, peak);
    trainer_open_describe(trainer);
    return WEFT_OK;
}

/* A run that is under way, whose job this rank has joined. */
static weft_status join_run(struct trainer *trainer, bool *speaks, struct error *error)
{
    if (!trainer->config.min_ranks)
        return error_set(error, WEFT_ERROR_STATE,
                         "this rank has joined a running job, but its program does not continue with other ranks");
    trainer->is_new = true;
    const weft_status status = recovery_join(trainer, speaks, error);
    if (status == WEFT_OK)
        begin_report(trainer, trainer->report.run.peak);
    return status;
}

weft_status trainer_open(const struct train_config *config, weft_context *context, weft_comm *comm, FILE *out,
                         const atomic_int *stop, struct trainer **result, bool *speaks, struct error *error)
{
    *speaks = true;
    struct trainer *trainer = calloc(1, sizeof *trainer);
    if (!trainer)
        return error_memory(error, sizeof *trainer, "the trainer");
    trainer->config = *config;
    trainer->context = context;
    trainer->stop = stop;
    trainer->user_output = out;
    trainer_world_enter(trainer, comm);
    trainer->course = (struct trainer_course){.saved = UINT64_MAX, .checkpoint = UINT64_MAX, .evaluated = UINT64_MAX};
    const weft_status status =
        weft_epoch(context) > 0 ? join_run(trainer, speaks, error) : begin_run(trainer, speaks, error);
    if (status != WEFT_OK) {
        if (weft_epoch(context) > 0 && !trainer->agreed) /* the others go on without this rank */
            weft_abort(context, error->text);
        trainer_close(trainer);
        return status;
    }
    trainer->schedule = (struct learning_rate){
        .shape = config->rate_shape,
        .peak = config->rate,
        .floor = config->rate * config->floor_share,
        .warmup = (uint64_t)config->warmup,
        .steps = (uint64_t)config->steps,
    };
    trainer->config.pretrained = NULL; /* it has been read */
    *result = trainer;
    return WEFT_OK;
}

void trainer_close(struct trainer *trainer)
{
    if (!trainer)
        return;
    trainer_world_close(&trainer->world);
    trainer_world_close(&trainer->former);
    free(trainer->costs);
    report_close(&trainer->report);
    dataset_close(trainer->dataset);
    text_close(&trainer->text);
    model_description_free(trainer->description);
    if (trainer->device)
        trainer->device->close(trainer->device);
    if (trainer->sums)
        trainer->sums->close(trainer->sums);
    checkpoint_release(trainer->claim);
    free(trainer);
}
