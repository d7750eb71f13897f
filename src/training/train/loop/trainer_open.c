/* SPDX-License-Identifier: Apache-2.0 */
/* Prepares a trainer for its first step: check the configuration, open, read, report. */
#include "core/topology/limits.h"
#include "training/model/shape.h"
#include "training/optimizer/learning_rate.h"
#include "training/parallel/training.h"
#include "training/train/loop/internal/trainer_parts.h"
#include "training/train/loop/memory.h"
#include "training/train/report/profile.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

static weft_status trainer_check_config(const struct train_config *config, struct error *error)
{
    if (config->batch % config->micro_batch)
        return error_set(error, WEFT_ERROR_ARGUMENT,
                         "--batch %" PRId64 " cannot be divided into micro-batches of %" PRId64
                         " sequences; choose a multiple of --micro-batch",
                         config->batch, config->micro_batch);
    if (config->batch / config->micro_batch > INT32_MAX)
        return error_set(error, WEFT_ERROR_ARGUMENT, "--batch %" PRId64 " has more than 2^31 micro-batches",
                         config->batch);
    if ((uint64_t)config->sequence > config->shape.context)
        return error_set(error, WEFT_ERROR_ARGUMENT,
                         "--sequence %" PRId64 " is longer than the model's context of %zu tokens", config->sequence,
                         config->shape.context);
    if (config->zero > 0 && config->optimizer.kind != OPTIMIZER_ADAMW && config->optimizer.kind != OPTIMIZER_SGD)
        return error_set(error, WEFT_ERROR_ARGUMENT,
                         "--zero %" PRId64
                         " cuts tensors into shards, but %s needs the norm of whole ones; use adamw or "
                         "sgd, or --zero 0",
                         config->zero, optimizer_names[config->optimizer.kind]);
    if (config->patience && (!config->evaluate_every || !config->evaluate_sequences))
        return error_set(error, WEFT_ERROR_ARGUMENT,
                         "--patience %" PRId64 " counts evaluations; give --evaluate-every, and --evaluate-sequences",
                         config->patience);
    if (config->warmup > config->steps)
        return error_set(error, WEFT_ERROR_ARGUMENT, "--warmup %" PRId64 " is longer than the run of %" PRId64 " steps",
                         config->warmup, config->steps);
    return settings_check_names(config->resume_change, error);
}

/* Check that this node has enough memory for its ranks. */
static weft_status trainer_check_memory(const struct trainer *trainer, struct error *error)
{
    struct limits limits;
    weft_status status = limits_read(&limits, error);
    return status == WEFT_OK
               ? memory_check(&trainer->config, trainer->description, trainer->comm, limits_touchable(&limits), error)
               : status;
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
    const weft_type activations = trainer->config.mixed ? WEFT_BF16 : WEFT_F32;
    weft_status status = kernel_choice_reach(trainer->context, trainer->comm, trainer->config.kernels, activations,
                                             &trainer->kernels, speaks, error);
    trainer->agreed = status != WEFT_OK;
    return status;
}

/* Local preparation, before memory is allocated. */
static weft_status trainer_open_prepare(struct trainer *trainer, struct error *error)
{
    struct train_config *config = &trainer->config;
    if (!config->sequence)
        config->sequence = (int64_t)config->shape.context;
    weft_status status = trainer_check_config(config, error);
    if (status == WEFT_OK && trainer->rank == 0 && config->checkpoint_dir)
        status = checkpoint_claim(config->checkpoint_dir, &trainer->claim, error);
    if (status != WEFT_OK)
        return status;
    if ((status = device_open_with(config->mixed ? "cpu-bf16" : "cpu", trainer->kernels.set, (int)config->threads,
                                   &trainer->device, error)) != WEFT_OK)
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
    if (config->profile && ((status = profile_describe(config->profile, trainer->description, error)) != WEFT_OK ||
                            (status = profile_measure(config->profile, &trainer->device, error)) != WEFT_OK))
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
    if (status == WEFT_OK && trainer->rank == 0 && (config->checkpoint_dir || config->resume))
        status = dataset_identify(trainer->dataset, &trainer->identity, error);
    return status == WEFT_OK ? trainer_check_memory(trainer, error) : status;
}

/* Allocate this rank's own memory. */
static weft_status trainer_take_memory(struct trainer *trainer, struct error *error)
{
    const struct train_config *config = &trainer->config;
    weft_status status;
    if ((status = model_open(trainer->description, trainer->device,
                             &(struct model_options){.batch = (size_t)config->micro_batch,
                                                     .sequence = (size_t)config->sequence,
                                                     .training = true,
                                                     .recompute = config->recompute,
                                                     .label_smoothing = config->label_smoothing,
                                                     .dropout = config->dropout},
                             &trainer->model, error)) != WEFT_OK)
        return status;
    if (config->profile)
        model_watch(trainer->model, profile_watch, config->profile);
    size_t length = (size_t)(config->micro_batch * config->sequence);
    trainer->tokens = malloc(length * sizeof *trainer->tokens);
    trainer->targets = malloc(length * sizeof *trainer->targets);
    if (!trainer->tokens || !trainer->targets)
        return error_memory(error, length * sizeof *trainer->tokens, "a micro-batch of tokens");
    const struct report_options reports = report_options_of(trainer);
    return report_open(&trainer->report, trainer->rank == 0 ? &reports : &(struct report_options){0}, error);
}

/* Open the training, which owns weights, gradients and moments in the model's layout. Collective. */
static weft_status open_training(struct trainer *trainer, struct error *error)
{
    static const weft_optimizer optimizers[] = {[OPTIMIZER_ADAMW] = WEFT_OPTIMIZER_ADAMW,
                                                [OPTIMIZER_SGD] = WEFT_OPTIMIZER_SGD,
                                                [OPTIMIZER_LAMB] = WEFT_OPTIMIZER_LAMB,
                                                [OPTIMIZER_LARS] = WEFT_OPTIMIZER_LARS};
    const struct train_config *config = &trainer->config;
    const struct model_description *description = trainer->description;
    weft_training_config options = WEFT_TRAINING_CONFIG_DEFAULT;
    options.micro_batches = (int)(config->batch / config->micro_batch);
    options.optimizer = optimizers[config->optimizer.kind];
    options.beta1 = config->optimizer.beta1;
    options.beta2 = config->optimizer.beta2;
    options.epsilon = config->optimizer.epsilon;
    options.momentum = config->optimizer.momentum;
    options.trust = config->optimizer.trust;
    options.weight_decay = config->optimizer.weight_decay;
    options.clip = config->clip;
    options.rate_scaling = config->scaling;
    options.shard_optimizer = config->zero > 0;
    options.bucket_bytes = config->bucket_bytes;
    options.threads = (int)config->threads;
    options.gradient_type = config->gradients;
    weft_status status = weft_training_open(trainer->context, trainer->comm, &options, &trainer->training);
    for (size_t i = 0; status == WEFT_OK && i < description->parameter_count; i++) {
        const struct model_parameter *from = &description->parameters[i];
        weft_parameter parameter = {.name = from->name,
                                    .no_decay = !from->decay,
                                    .frozen = from->frozen,
                                    .rate_factor = from->rate_factor > 0 ? from->rate_factor : -1};
        memcpy(parameter.shape, from->shape, from->dimensions * sizeof *from->shape);
        if (weft_training_parameter(trainer->training, &parameter) < 0)
            status = WEFT_ERROR_ARGUMENT;
    }
    if (status == WEFT_OK && config->profile &&
        (status = profile_measure(config->profile, training_device(trainer->training), error)) != WEFT_OK)
        return status;
    if (status == WEFT_OK) {
        training_follow_model(trainer->training, description);
        status = weft_training_start(trainer->training);
    }
    if (status != WEFT_OK)
        return error_set(error, status, "%s", weft_message(trainer->context));
    weft_training_arrays arrays;
    weft_training_get_arrays(trainer->training, &arrays);
    trainer->parameters = arrays.values;
    trainer->gradients = arrays.gradients;
    trainer->state = (struct training_state){.description = description,
                                             .kernels = kernel_set_names[trainer->kernels.set],
                                             .text = &trainer->text,
                                             .data = &trainer->identity};
    return WEFT_OK;
}

static weft_status trainer_open_resume(struct trainer *trainer, bool *speaks, struct error *error)
{
    weft_status status =
        training_state_load(&trainer->state, &trainer->config, trainer->config.resume, trainer->changes, speaks, error);
    trainer->agreed = status != WEFT_OK;
    training_set_steps(trainer->training, trainer->state.step);
    return status;
}

/* Rank 0 initializes or reads the weights; the moments are 0 everywhere. */
static weft_status begin_afresh(struct trainer *trainer, bool *speaks, struct error *error)
{
    const struct train_config *config = &trainer->config;
    float *parameters = trainer->parameters;
    weft_status status = WEFT_OK;
    if (trainer->rank == 0 && config->pretrained)
        status = pretrained_read(config->pretrained, trainer->description, parameters, error);
    else if (trainer->rank == 0)
        status = model_initialize(trainer->description, trainer->device, parameters, (uint64_t)config->seed, error);
    status = trainer_agree(trainer, status, speaks, error);
    if (status == WEFT_OK && (status = weft_training_share(trainer->training)) != WEFT_OK)
        error_set(error, status, "%s", weft_message(trainer->context));
    return status;
}

static weft_status begin_state(struct trainer *trainer, bool *speaks, struct error *error)
{
    weft_status status = training_state_layout_open(trainer->training, &trainer->layout, speaks, error);
    trainer->state.layout = trainer->layout;
    if (status == WEFT_OK)
        status =
            trainer->config.resume ? trainer_open_resume(trainer, speaks, error) : begin_afresh(trainer, speaks, error);
    if (status != WEFT_OK)
        return status;
    status = weft_training_keep_bf16(trainer->training, model_weights_as_activations(trainer->model));
    return status == WEFT_OK ? WEFT_OK : error_set(error, status, "%s", weft_message(trainer->context));
}

static weft_status trainer_open_writer(struct trainer *trainer, bool *speaks, struct error *error)
{
    const struct checkpoint_writer_setup setup = {
        .context = trainer->context,
        .comm = trainer->comm,
        .config = &trainer->config,
        .state = &trainer->state,
        .report = &trainer->report,
    };
    return checkpoint_writer_open(&setup, &trainer->writer, speaks, error);
}

static void trainer_open_describe(const struct trainer *trainer)
{
    const struct train_config *config = &trainer->config;
    const struct micro_batches *layout = training_layout(trainer->training);
    char shape[SHAPE_TEXT_BYTES];
    int nodes = weft_comm_nodes(trainer->comm);
    if (!trainer->out)
        return;
    fprintf(trainer->out, "data   %s\n", dataset_describe(trainer->dataset));
    fprintf(trainer->out, "model  %s: %s; %.2fM parameters\n", config->model,
            shape_text(&trainer->description->shape, shape), (double)trainer->description->weights * 1e-6);
    fprintf(trainer->out,
            "plan   data parallel over %u rank%s on %d node%s; a step is %u micro-batch%s of %" PRId64 " x %" PRId64
            " tokens, %u a rank in %s",
            trainer->ranks, trainer->ranks == 1 ? "" : "s", nodes, nodes == 1 ? "" : "s", layout->total,
            layout->total == 1 ? "" : "es", config->micro_batch, config->sequence, layout->share,
            layout->layout == MICRO_BATCHES_IN_RUNS ? "runs" : "turns");
    if (trainer->ranks > 1)
        fprintf(trainer->out, "; %.1f MiB of %s gradients all-reduced in buckets of %.2f MiB while backward goes on",
                (double)(trainer->description->elements * weft_type_size(config->gradients)) / 1048576.0,
                weft_type_name(config->gradients), (double)training_bucket_bytes(trainer->training) / 1048576.0);
    if (training_shards(trainer->training)->sharded)
        fprintf(trainer->out, "; optimizer state in %u shards", trainer->ranks);
    fprintf(trainer->out, "; %" PRId64 " compute thread%s a rank (%s), %s\n", config->threads,
            config->threads == 1 ? "" : "s", trainer->device->kernels, config->mixed ? "bf16 with f32 weights" : "f32");
    char why[KERNEL_CHOICE_TEXT_BYTES];
    if (*kernel_choice_describe(&trainer->kernels, trainer->comm, why))
        fprintf(trainer->out, "kernels %s\n", why);
    char parts[MEMORY_TEXT_BYTES];
    const struct memory_estimate memory =
        memory_estimate_of(config, trainer->description, trainer->rank, trainer->ranks, (uint32_t)nodes);
    fprintf(trainer->out, "memory %s\n", memory_estimate_describe(&memory, parts));
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
    const weft_comm *comm = trainer->comm;
    struct limits limits;
    struct processors mine = {0}, *all = calloc(trainer->ranks, sizeof *all);
    uint32_t sharing = 0;
    if (limits_read(&limits, NULL) == WEFT_OK)
        mine = (struct processors){limits.processor_set, limits_processors(&limits)};
    uint32_t failed = !all || !mine.count;
    weft_status status = weft_allreduce(&failed, &failed, 1, WEFT_U32, WEFT_MAX, trainer->comm);
    if (status == WEFT_OK && !failed)
        status = weft_allgather(&mine, all, sizeof mine, WEFT_U8, trainer->comm);
    for (uint32_t r = 0; status == WEFT_OK && !failed && r < trainer->ranks; r++)
        sharing += all[r].set == mine.set && weft_comm_node_of(comm, (int)r) == weft_comm_node(comm);
    free(all);
    if (status != WEFT_OK)
        return error_set(error, status, "%s", weft_message(trainer->context));
    const double threads = (double)sharing * (double)trainer->config.threads;
    *share = (double)mine.count < threads ? (double)mine.count / threads : 1;
    return WEFT_OK;
}

/* The peak of all ranks together, which may be on machines of different kinds. */
static weft_status measure_peak(struct trainer *trainer, double *peak, struct error *error)
{
    double share = 1;
    weft_status status = share_processors(trainer, &share, error);
    if (status != WEFT_OK)
        return status;
    *peak = trainer->device->peak(trainer->device) * share;
    status = weft_allreduce(peak, peak, 1, WEFT_F64, WEFT_SUM, trainer->comm);
    return status == WEFT_OK ? WEFT_OK : error_set(error, status, "%s", weft_message(trainer->context));
}

/* Begin the report. */
static weft_status begin_report(struct trainer *trainer, bool wants_peak, struct error *error)
{
    const struct train_config *config = &trainer->config;
    double peak = 0;
    weft_status status = wants_peak ? measure_peak(trainer, &peak, error) : WEFT_OK;
    if (status != WEFT_OK)
        return status;
    const struct report_run run = {
        .name = config->run_name ? config->run_name : config->model,
        .model = config->model,
        .data = config->data,
        .precision = config->mixed ? "bf16" : "f32",
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
        .ranks = trainer->ranks,
        .nodes = (uint64_t)weft_comm_nodes(trainer->comm),
        .threads = (uint64_t)config->threads,
        .rate = learning_rate_scaled(config->rate, config->scaling, trainer->ranks),
        .tokens = (double)(config->batch * config->sequence),
        .flops = trainer_step_flops(trainer),
        .peak = peak,
        .bytes_per_token = trainer->text.bytes_per_token,
    };
    report_begin(&trainer->report, &run);
    return WEFT_OK;
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
    trainer->comm = comm;
    trainer->stop = stop;
    trainer->rank = (uint32_t)weft_comm_rank(comm);
    trainer->ranks = (uint32_t)weft_comm_size(comm);
    trainer->out = trainer->rank == 0 ? out : NULL;

    const struct text_sources sources = sources_of(config);
    weft_status status = choose_kernels(trainer, speaks, error);
    if (status == WEFT_OK)
        status = text_open_together(&sources, context, comm, &trainer->text, speaks, error);
    if (status == WEFT_OK)
        status = trainer_agree(trainer, trainer_open_prepare(trainer, error), speaks, error);
    if (status != WEFT_OK)
        goto fail;
    status = trainer_agree(trainer, trainer_take_memory(trainer, error), speaks, error);
    if (status != WEFT_OK)
        goto fail;
    status = trainer_agree(trainer, open_training(trainer, error), speaks, error);
    if (status != WEFT_OK)
        goto fail;
    status = begin_state(trainer, speaks, error);
    if (status == WEFT_OK && config->checkpoint_dir)
        status = trainer_open_writer(trainer, speaks, error);
    if (status != WEFT_OK)
        goto fail;

    trainer->schedule = (struct learning_rate){
        .shape = config->rate_shape,
        .peak = config->rate,
        .floor = config->rate * config->floor_share,
        .warmup = (uint64_t)config->warmup,
        .steps = (uint64_t)config->steps,
    };
    struct report_options wanted = report_options_of(trainer);
    wanted.out = out; /* the same on every rank */
    if ((status = begin_report(trainer, report_wants_peak(&wanted), error)) != WEFT_OK)
        goto fail;
    trainer_open_describe(trainer);
    trainer->config.pretrained = NULL; /* it has been read */
    *result = trainer;
    return WEFT_OK;

fail:
    trainer_close(trainer);
    return status;
}

void trainer_close(struct trainer *trainer)
{
    if (!trainer)
        return;
    checkpoint_writer_close(trainer->writer);
    state_layout_close(trainer->layout);
    weft_training_close(trainer->training);
    report_close(&trainer->report);
    free(trainer->tokens);
    free(trainer->targets);
    model_close(trainer->model);
    dataset_close(trainer->dataset);
    text_close(&trainer->text);
    model_description_free(trainer->description);
    if (trainer->device)
        trainer->device->close(trainer->device);
    checkpoint_release(trainer->claim);
    free(trainer);
}
