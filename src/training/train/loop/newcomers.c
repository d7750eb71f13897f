/* SPDX-License-Identifier: Apache-2.0 */
#include "training/train/loop/internal/newcomers.h"

#include "base/library_error.h"
#include "training/train/loop/internal/initial_state.h"
#include "training/train/loop/internal/recovery_parts.h"
#include "training/train/loop/internal/trainer_parts.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define KIND_BYTES 16

/* Settings that the command line leaves open and that a plan, a checkpoint or the first ranks have decided. Sent as bytes. */
struct run_settings {
    struct model_shape shape;
    char kind[KIND_BYTES]; /* shape.kind */
    bool vocabulary_chosen, sync_batch_norm, sequence_parallel, parameter_server;
    int64_t batch, micro_batch, sequence, stages, zero, recompute_layers;
    enum step_pipeline schedule;
    enum model_recompute recompute;
    enum optimizer_kind optimizer;
    weft_type activations, gradients;
    uint64_t bucket_bytes;
    char placement[MESH_TEXT_BYTES], resume[FILE_PATH_BYTES]; /* "": none */
    struct mesh first_mesh;
    struct kernel_choice kernels;
    uint32_t rate_ranks;
    double peak;        /* of all ranks together; 0: not measured */
    uint64_t touchable; /* on the newcomer's node, before the run; 0: it has no other ranks */
};

static void describe_settings(const struct trainer *trainer, struct run_settings *settings)
{
    const struct train_config *config = &trainer->config;
    memset(settings, 0, sizeof *settings); /* and what lies between its members */
    settings->shape = config->shape;
    snprintf(settings->kind, sizeof settings->kind, "%s", config->shape.kind);
    settings->vocabulary_chosen = true; /* by the first ranks */
    settings->sync_batch_norm = config->sync_batch_norm;
    settings->sequence_parallel = config->sequence_parallel;
    settings->parameter_server = config->parameter_server;
    settings->batch = config->batch;
    settings->micro_batch = config->micro_batch;
    settings->sequence = config->sequence;
    settings->stages = config->stages;
    settings->zero = config->zero;
    settings->recompute_layers = config->recompute_layers;
    settings->schedule = config->schedule;
    settings->recompute = config->recompute;
    settings->optimizer = config->optimizer.kind;
    settings->activations = config->activations;
    settings->gradients = config->gradients;
    settings->bucket_bytes = config->bucket_bytes;
    snprintf(settings->placement, sizeof settings->placement, "%s", config->placement ? config->placement : "");
    snprintf(settings->resume, sizeof settings->resume, "%s", config->resume ? config->resume : "");
    settings->first_mesh = trainer->first_mesh;
    settings->kernels = trainer->kernels;
    settings->rate_ranks = trainer->rate_ranks;
    settings->peak = trainer->report.run.peak;
}

static void leave_plan(struct trainer *trainer)
{
    trainer->config.first_unit = trainer->config.shares = NULL;
    trainer->left_plan = true;
}

/* A static string. */
static const char *static_kind(const char *name)
{
    size_t count = 0;
    const struct model_size *sizes = model_sizes(&count);
    for (size_t i = 0; i < count; i++)
        if (strcmp(sizes[i].shape.kind, name) == 0)
            return sizes[i].shape.kind;
    return NULL;
}

static weft_status take_settings(struct trainer *trainer, const struct run_settings *settings, struct error *error)
{
    struct train_config *config = &trainer->config;
    config->shape = settings->shape;
    config->shape.kind = static_kind(settings->kind);
    if (!config->shape.kind)
        return error_set(error, WEFT_ERROR_DATA,
                         "the run trains a network of kind '%.16s', which this rank's Weft does "
                         "not know; install the same version on all hosts",
                         settings->kind);
    config->vocabulary_chosen = settings->vocabulary_chosen;
    config->sync_batch_norm = settings->sync_batch_norm;
    config->sequence_parallel = settings->sequence_parallel;
    config->parameter_server = settings->parameter_server;
    config->batch = settings->batch;
    config->micro_batch = settings->micro_batch;
    config->sequence = settings->sequence;
    config->stages = settings->stages;
    config->zero = settings->zero;
    config->recompute_layers = settings->recompute_layers;
    config->schedule = settings->schedule;
    config->recompute = settings->recompute;
    config->optimizer.kind = settings->optimizer;
    config->activations = settings->activations;
    config->gradients = settings->gradients;
    config->bucket_bytes = settings->bucket_bytes;
    snprintf(trainer->placement, sizeof trainer->placement, "%s", settings->placement);
    config->placement = *trainer->placement ? trainer->placement : NULL;
    snprintf(trainer->resume, sizeof trainer->resume, "%s", settings->resume);
    config->resume = *trainer->resume ? trainer->resume : NULL;
    leave_plan(trainer);
    trainer->first_mesh = settings->first_mesh;
    trainer->kernels = settings->kernels;
    trainer->rate_ranks = settings->rate_ranks;
    return WEFT_OK;
}

/* Only what no earlier attempt has prepared. */
static weft_status prepare_newcomer(struct trainer *trainer, const struct run_settings *settings, struct error *error)
{
    weft_status status = WEFT_OK;
    if (trainer->source)
        return WEFT_OK;
    if ((status = trainer_prepare_model(trainer, error)) != WEFT_OK ||
        (status = trainer_prepare_profile(trainer, error)) != WEFT_OK ||
        (status = trainer_open_report(trainer, error)) != WEFT_OK)
        return status;
    if (settings->touchable)
        trainer->touchable = settings->touchable;
    trainer->report.run.peak = settings->peak;
    initial_state_clear(trainer);
    return WEFT_OK;
}

/* From rank `root`, which has the run. */
static weft_status share_settings(struct trainer *trainer, uint32_t root, struct run_settings *settings, bool *speaks,
                                  struct error *error)
{
    struct text ignored = {0};
    struct text *text = &ignored; /* of ranks that have it already: they only take part */
    weft_status status = library_error(
        trainer->context, weft_broadcast(settings, sizeof *settings, WEFT_U8, (int)root, trainer->world.job), error);
    if (status != WEFT_OK)
        return status;
    if (trainer->is_new && (status = take_settings(trainer, settings, error)) != WEFT_OK)
        return status;
    if (trainer->world.rank == root || (trainer->is_new && !trainer->source))
        text = &trainer->text;
    if (trainer->world.rank != root)
        text_close(text); /* of an earlier attempt */
    status = text_share(text, (int)root, trainer->context, trainer->world.job, speaks, error);
    text_close(&ignored);
    return status;
}

/* What was free on a newcomer's node before the others took memory. */
static weft_status share_touchable(struct trainer *trainer, struct run_settings *settings, struct error *error)
{
    weft_comm *job = trainer->world.job;
    const uint32_t ranks = trainer->world.job_ranks;
    const uint64_t own = trainer->is_new ? 0 : trainer->touchable;
    uint64_t *all = calloc(ranks, sizeof *all);
    if (!all)
        return error_memory(error, ranks * sizeof *all, "the memory of the nodes");
    const weft_status status = library_error(trainer->context, weft_allgather(&own, all, 1, WEFT_U64, job), error);
    settings->touchable = 0;
    for (uint32_t r = 0; status == WEFT_OK && r < ranks; r++)
        if (weft_comm_node_of(job, (int)r) == weft_comm_node(job) && all[r] > settings->touchable)
            settings->touchable = all[r];
    free(all);
    return status;
}

/* No rank has the run. */
static weft_status begin_instead(struct trainer *trainer, struct recovery *recovery, uint32_t first_ranks, bool *speaks,
                                 struct error *error)
{
    recovery->begins = first_ranks > 0;
    if (recovery->begins) {
        trainer->first_ranks = first_ranks;
        return WEFT_OK;
    }
    trainer->agreed = true;
    *speaks = trainer->world.rank == 0;
    return error_set(error, WEFT_ERROR_DATA,
                     "all ranks that had the run are lost, and those that have joined since "
                     "do not have its state; run the command again with --resume");
}

weft_status newcomers_welcome(struct trainer *trainer, struct recovery *recovery, bool *speaks, struct error *error)
{
    const struct trainer_world *world = &trainer->world;
    struct run_settings settings;
    enum {
        SOME_ARE_NEW,
        NO_PLAN,
        RANKS_FROM_ROOT,
        FIRST_RANKS,
        FLAGS
    }; /* the root is the lowest rank that is not new */
    uint32_t flags[FLAGS] = {trainer->is_new, trainer->is_new || trainer->left_plan,
                             trainer->is_new ? 0 : world->job_ranks - world->rank, trainer->first_ranks};
    weft_status status =
        library_error(trainer->context, weft_allreduce(flags, flags, FLAGS, WEFT_U32, WEFT_MAX, world->job), error);
    recovery->begins = false;
    if (status == WEFT_OK && !flags[RANKS_FROM_ROOT])
        return begin_instead(trainer, recovery, flags[FIRST_RANKS], speaks, error);
    const uint32_t root = world->job_ranks - flags[RANKS_FROM_ROOT];
    if (status == WEFT_OK && flags[NO_PLAN]) /* newcomers may not have it */
        leave_plan(trainer);
    if (status != WEFT_OK || !flags[SOME_ARE_NEW])
        return status;
    if (trainer->is_new && (!trainer->source || trainer->prepares_to_begin))
        status = trainer_prepare_again(trainer, false, speaks, error);
    if (world->rank == root)
        describe_settings(trainer, &settings);
    if (status == WEFT_OK)
        status = share_settings(trainer, root, &settings, speaks, error);
    if (status == WEFT_OK)
        status = share_touchable(trainer, &settings, error);
    if (status == WEFT_OK && trainer->is_new)
        status = prepare_newcomer(trainer, &settings, error);
    if (status != WEFT_OK && trainer->is_new && !recovery_is_possible(trainer, status))
        weft_abort(trainer->context, error->text);
    return status;
}
