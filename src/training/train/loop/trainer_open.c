/* SPDX-License-Identifier: Apache-2.0 */
/* What a rank prepares alone for a run, whether it begins it (begin.c) or joins it (newcomers.c); opening and closing. */
#include "core/topology/limits.h"
#include "training/train/loop/internal/begin.h"
#include "training/train/loop/internal/recovery_parts.h"
#include "training/train/loop/internal/trainer_parts.h"
#include "training/train/loop/run_data.h"
#include "training/train/report/profile.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#define EVALUATED_TOKENS 64 /* sequences of an evaluation, where the user does not say */

/* Options that the network's samples do not have. */
static weft_status check_sample_options(const struct train_config *config, struct error *error)
{
    const struct image_choice *images = &config->images;
    const enum model_samples samples = model_samples_of(&config->shape);
    const char *option = NULL;
    if (samples == SAMPLES_OF_IMAGES)
        option = config->classify            ? "--task classify"
                 : config->tokenizer         ? "--tokenizer"
                 : config->sequence > 1      ? "--sequence"
                 : config->shape.context > 1 ? "--context"
                                             : NULL;
    else
        option = images->changes != IMAGE_CHANGES_AUTO ? "--augment"
                 : images->mixup > 0                   ? "--mixup"
                 : images->erase > 0                   ? "--erase"
                 : images->skip                        ? "--corrupt"
                                                       : NULL;
    if (option)
        return error_set(error, WEFT_ERROR_ARGUMENT, "%s is for models that read %s, and a %s reads %s; leave it out",
                         option, samples == SAMPLES_OF_IMAGES ? "text" : "images", config->shape.kind,
                         samples == SAMPLES_OF_IMAGES ? "images" : "text");
    if (config->classify && strcmp(config->data, "random") == 0)
        return error_set(error, WEFT_ERROR_ARGUMENT,
                         "--task classify needs labeled texts, not random ones; pre-training can read --data random");
    return WEFT_OK;
}

static weft_status trainer_check_config(const struct train_config *config, struct error *error)
{
    const weft_status status = check_sample_options(config, error);
    if (status != WEFT_OK)
        return status;
    if ((uint64_t)config->sequence > config->shape.context)
        return error_set(error, WEFT_ERROR_ARGUMENT,
                         "--sequence %" PRId64 " is longer than the model's context of %zu tokens", config->sequence,
                         config->shape.context);
    if (config->patience && (!config->evaluate_every || !config->evaluate_sequences))
        return error_set(error, WEFT_ERROR_ARGUMENT,
                         "--patience %" PRId64 " counts evaluations; give --evaluate-every, and --evaluate-sequences",
                         config->patience);
    if (config->checkpoint_copy && !config->checkpoint_dir)
        return error_set(error, WEFT_ERROR_ARGUMENT,
                         "--checkpoint-copy '%s' needs the checkpoints that are copied: give --checkpoint-dir",
                         config->checkpoint_copy);
    if (config->warmup > config->steps)
        return error_set(error, WEFT_ERROR_ARGUMENT, "--warmup %" PRId64 " is longer than the run of %" PRId64 " steps",
                         config->warmup, config->steps);
    return settings_check_names(config->resume_change, error);
}

struct text_sources trainer_text_sources(const struct train_config *config)
{
    return (struct text_sources){.resume = config->resume,
                                 .from = config->from,
                                 .tokenizer = config->tokenizer,
                                 .data = config->data,
                                 .vocabulary = config->shape.vocabulary};
}

struct report_options trainer_report_options(const struct trainer *trainer)
{
    const struct train_config *config = &trainer->config;
    return (struct report_options){.out = trainer->out,
                                   .warnings = config->warnings,
                                   .every = (uint64_t)config->log_every,
                                   .metrics = config->metrics,
                                   .prometheus = config->prometheus,
                                   .tensorboard = config->tensorboard,
                                   .events = config->events,
                                   .collected = config->collected};
}

static weft_status read_limits(struct trainer *trainer, struct error *error)
{
    struct limits limits;
    const weft_status status = limits_read(&limits, error);
    trainer->touchable = status == WEFT_OK ? limits_touchable(&limits) : 0;
    return status;
}

/* Open the data of the run. It may decide the network's classes. */
static weft_status open_run_data(struct trainer *trainer, struct error *error)
{
    struct train_config *config = &trainer->config;
    const struct run_data_options options = {.data = config->data,
                                             .sequence = (uint64_t)config->sequence,
                                             .seed = (uint64_t)config->seed,
                                             .text = &trainer->text,
                                             .classify = config->classify,
                                             .whole_words = config->whole_words,
                                             .images = config->images};
    double bytes_per_token = 0;
    const weft_status status = run_data_open(&options, &config->shape, &trainer->source, &bytes_per_token, error);
    if (status == WEFT_OK && sample_source_samples(trainer->source, DATASET_TRAIN) == 0)
        return error_set(error, WEFT_ERROR_DATA,
                         "'%s' has held-out data only, as all of it is called val or test; give data to train on, "
                         "beside it or alone",
                         config->data);
    if (status == WEFT_OK && trainer->text.tokenizer && bytes_per_token > 0)
        trainer->text.bytes_per_token = bytes_per_token;
    return status;
}

/* What the samples of the network are: its vocabulary, or its classes. */
static weft_status settle_samples(struct trainer *trainer, struct error *error)
{
    struct train_config *config = &trainer->config;
    struct model_shape *shape = &config->shape;
    const enum model_samples samples = model_samples_of(shape);
    const struct text_sources sources = trainer_text_sources(config);
    const struct run_data_options options = {.data = config->data, .classify = config->classify};
    weft_status status = WEFT_OK;
    if (samples == SAMPLES_OF_TOKENS) {
        if ((status = text_match_data(&sources, &trainer->text, error)) != WEFT_OK)
            return status;
        if (!config->vocabulary_chosen)
            shape->vocabulary = text_vocabulary(&trainer->text, shape->vocabulary);
    } else if (trainer->text.tokenizer && samples == SAMPLES_OF_TEXTS && !config->vocabulary_chosen) {
        shape->vocabulary = tokenizer_vocabulary(trainer->text.tokenizer);
    }
    text_settle(&trainer->text, shape->vocabulary);
    if (samples == SAMPLES_OF_TEXTS && !config->classify)
        shape->classes = 0;
    if (run_data_decides_classes(&options, shape))
        status = open_run_data(trainer, error);
    if (config->evaluate_sequences < 0)
        config->evaluate_sequences = status == WEFT_OK && trainer->source
                                         ? (int64_t)sample_source_samples(trainer->source, DATASET_HELD_OUT)
                                         : EVALUATED_TOKENS;
    return status;
}

weft_status trainer_prepare_model(struct trainer *trainer, struct error *error)
{
    struct train_config *config = &trainer->config;
    if (!config->sequence && config->shape.context)
        config->sequence = (int64_t)config->shape.context;
    weft_status status = trainer_check_config(config, error);
    if (status != WEFT_OK)
        return status;
    if (model_samples_of(&config->shape) == SAMPLES_OF_IMAGES)
        config->sequence = config->shape.context = 1;
    if ((status = device_open_with(device_cpu_name(config->activations), trainer->kernels.set, (int)config->threads,
                                   &trainer->device, error)) != WEFT_OK ||
        (status = device_open("cpu-bf16", (int)config->threads, &trainer->sums, error)) != WEFT_OK)
        return status;
    if ((status = read_limits(trainer, error)) != WEFT_OK) /* before the data takes memory */
        return status;
    if ((status = settle_samples(trainer, error)) != WEFT_OK)
        return status;
    if ((status = model_describe(&config->shape, &trainer->description, error)) != WEFT_OK)
        return status;
    if ((status = parameter_rules_apply(&config->rules, trainer->description, error)) != WEFT_OK)
        return status;
    return trainer->source ? WEFT_OK : open_run_data(trainer, error); /* its memory is checked with the mesh */
}

weft_status trainer_prepare_profile(struct trainer *trainer, struct error *error)
{
    struct profile *profile = trainer->config.profile;
    weft_status status = WEFT_OK;
    if (!profile)
        return WEFT_OK;
    status = profile_describe(profile, trainer->description, error);
    if (status == WEFT_OK)
        status = profile_measure(profile, &trainer->device, error);
    return status == WEFT_OK ? profile_measure(profile, &trainer->sums, error) : status;
}

weft_status trainer_open_checkpoints(struct trainer *trainer, struct error *error)
{
    const struct train_config *config = &trainer->config;
    weft_status status = WEFT_OK;
    if (trainer->world.rank != 0)
        return WEFT_OK;
    if (config->checkpoint_dir && !trainer->claim)
        status = checkpoint_claim(config->checkpoint_dir, &trainer->claim, error);
    if (status == WEFT_OK && config->checkpoint_copy && file_is_same(config->checkpoint_dir, config->checkpoint_copy))
        return error_set(error, WEFT_ERROR_ARGUMENT,
                         "--checkpoint-copy '%s' is the directory of --checkpoint-dir; copies need another one",
                         config->checkpoint_copy);
    if (status == WEFT_OK && (config->checkpoint_dir || config->resume) && !trainer->identity.hash)
        status = sample_source_identify(trainer->source, &trainer->identity, error);
    return status;
}

weft_status trainer_open_report(struct trainer *trainer, struct error *error)
{
    const struct report_options reports = trainer_report_options(trainer);
    trainer->reports = trainer->world.rank == 0;
    return report_open(&trainer->report, trainer->reports ? &reports : &(struct report_options){0}, error);
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

/* ---- opening ---- */

static void forget_preparation(struct trainer *trainer)
{
    free(trainer->costs);
    stragglers_close(&trainer->stragglers);
    report_close(&trainer->report);
    sample_source_close(trainer->source);
    text_close(&trainer->text);
    model_description_free(trainer->description);
    if (trainer->device)
        trainer->device->close(trainer->device);
    if (trainer->sums)
        trainer->sums->close(trainer->sums);
    checkpoint_release(trainer->claim);
    trainer->costs = NULL;
    trainer->device_peak = 0;
    trainer->source = NULL;
    trainer->description = NULL;
    trainer->device = trainer->sums = NULL;
    trainer->claim = NULL;
}

weft_status trainer_prepare_again(struct trainer *trainer, bool begins, bool *speaks, struct error *error)
{
    forget_preparation(trainer);
    trainer->config = *trainer->given;
    trainer->left_plan = false;
    trainer->prepares_to_begin = begins;
    if (!trainer->given->settle)
        return WEFT_OK;
    const uint32_t first_ranks = begins ? trainer->first_ranks : 0;
    const weft_status status = trainer->given->settle(trainer->context, first_ranks, &trainer->config, speaks, error);
    trainer->agreed = begins && status != WEFT_OK;
    return status;
}

/* A run that others may have begun, whose job this rank has joined; or that ranks were lost from before its beginning. */
static weft_status join_run(struct trainer *trainer, bool *speaks, struct error *error)
{
    bool begun = false;
    if (!trainer->config.min_ranks)
        return error_set(error, WEFT_ERROR_STATE,
                         "this rank has joined a running job, but its program does not continue with other ranks");
    trainer->is_new = true;
    const weft_status status = recovery_join(trainer, &begun, speaks, error);
    if (status == WEFT_OK && !begun)
        trainer_begin_report(trainer, trainer->report.run.peak);
    return status;
}

static weft_status enter_run(struct trainer *trainer, bool *speaks, struct error *error)
{
    struct recovery recovery = {0};
    if (weft_epoch(trainer->context) > 0)
        return join_run(trainer, speaks, error);
    trainer->first_ranks = trainer->world.job_ranks;
    const weft_status status = trainer_begin(trainer, &recovery, speaks, error);
    return recovery_is_possible(trainer, status) ? join_run(trainer, speaks, error) : status;
}

weft_status trainer_open(const struct train_config *config, weft_context *context, weft_comm *comm, FILE *out,
                         const atomic_int *stop, struct trainer **result, bool *speaks, struct error *error)
{
    *speaks = true;
    struct trainer *trainer = calloc(1, sizeof *trainer);
    if (!trainer)
        return error_memory(error, sizeof *trainer, "the trainer");
    trainer->given = config;
    trainer->config = *config;
    trainer->context = context;
    trainer->stop = stop;
    trainer->user_output = out;
    trainer_world_enter(trainer, comm);
    trainer->course = (struct trainer_course){
        .saved = UINT64_MAX, .evaluated = UINT64_MAX, .checkpoint = UINT64_MAX, .uncopied = UINT64_MAX};
    const weft_status status = enter_run(trainer, speaks, error);
    if (status != WEFT_OK) {
        if (weft_epoch(context) > 0 && !trainer->agreed) /* the others go on without this rank */
            weft_abort(context, error->text);
        trainer_close(trainer);
        return status;
    }
    config = &trainer->config;
    trainer->schedule = (struct learning_rate){
        .shape = config->rate_shape,
        .peak = config->rate,
        .floor = config->rate * config->floor_share,
        .warmup = (uint64_t)config->warmup,
        .steps = (uint64_t)config->steps,
    };
    trainer->config.pretrained = NULL; /* it has been read */
    trainer->given = NULL;
    *result = trainer;
    return WEFT_OK;
}

void trainer_close(struct trainer *trainer)
{
    if (!trainer)
        return;
    trainer_world_close(&trainer->world);
    trainer_world_close(&trainer->former);
    forget_preparation(trainer);
    free(trainer);
}
