/* SPDX-License-Identifier: Apache-2.0 */
#include "training/train/loop/internal/begin.h"

#include "base/hash.h"
#include "base/library_error.h"
#include "training/model/shape.h"
#include "training/optimizer/learning_rate.h"
#include "training/train/loop/internal/initial_state.h"
#include "training/train/loop/internal/recovery_parts.h"
#include "training/train/loop/internal/trainer_parts.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- preparing ---- */

/* The same kernels on all ranks, before any of them runs. */
static weft_status choose_kernels(struct trainer *trainer, bool *speaks, struct error *error)
{
    const weft_type activations = trainer->config.activations;
    weft_status status = kernel_choice_reach(trainer->context, trainer->world.comm, trainer->config.kernels,
                                             activations, &trainer->kernels, speaks, error);
    trainer->agreed = status != WEFT_OK;
    return status;
}

/* What was prepared for another beginning, or for joining a run, is read again: ranks may have changed. */
static weft_status prepare_to_begin(struct trainer *trainer, bool *speaks, struct error *error)
{
    struct train_config *config = &trainer->config;
    weft_status status = trainer_prepare_again(trainer, true, speaks, error);
    if (status == WEFT_OK)
        status = choose_kernels(trainer, speaks, error);
    if (status == WEFT_OK)
        status = initial_state_find(trainer, config->resume, trainer->resume, speaks, error);
    config->resume = *trainer->resume ? trainer->resume : NULL;
    const struct text_sources sources = trainer_text_sources(config);
    if (status == WEFT_OK)
        status = text_open_together(&sources, trainer->context, trainer->world.comm, &trainer->text, speaks, error);
    if (status == WEFT_OK)
        status = trainer_agree(trainer, trainer_prepare_model(trainer, error), speaks, error);
    return status;
}

/* ---- the mesh ---- */

/* That of the ranks which the job began with, because the learning rate that is derived from it must not depend on a loss.
 * --mesh auto has chosen one for the ranks that are left. */
static weft_status find_first_mesh(struct trainer *trainer, struct error *error)
{
    const char *words = trainer->config.mesh;
    const uint32_t ranks = trainer->world.job_ranks;
    weft_status status = mesh_parse(words, trainer->first_ranks, &trainer->first_mesh, error);
    if (status != WEFT_OK && ranks != trainer->first_ranks) {
        error_clear(error);
        status = mesh_parse(words, ranks, &trainer->first_mesh, error);
    }
    trainer->rate_ranks = trainer->first_mesh.extent[MESH_DATA];
    return status;
}

static weft_status choose_first_mesh(struct trainer *trainer, struct recovery *recovery, bool *speaks,
                                     struct error *error)
{
    weft_status status = trainer_agree(trainer, find_first_mesh(trainer, error), speaks, error);
    if (status != WEFT_OK)
        return status;
    if (mesh_ranks(&trainer->first_mesh) == trainer->world.job_ranks)
        return trainer_world_settle(trainer, speaks, error);
    return recovery_choose_ranks(trainer, recovery, speaks, error);
}

/* ---- opening ---- */

/* What this rank needs besides the mesh. A run that cannot be leaves no directory of checkpoints. Local. */
static weft_status open_inputs(struct trainer *trainer, struct error *error)
{
    weft_status status = trainer_prepare_profile(trainer, error);
    initial_state_clear(trainer);
    if (status == WEFT_OK)
        status = trainer_open_checkpoints(trainer, error);
    return status == WEFT_OK ? trainer_open_report(trainer, error) : status;
}

/* How many samples there are, and what their classes are. */
static uint64_t hash_samples(const struct sample_source *source)
{
    uint64_t hash = hash_number(sample_source_samples(source, DATASET_HELD_OUT),
                                hash_number(sample_source_samples(source, DATASET_TRAIN), 0));
    for (size_t i = 0; i < sample_source_classes(source); i++)
        hash = hash_text(sample_source_class_name(source, i), hash);
    return hash;
}

/* Every rank has read the data by itself. Collective. */
static weft_status compare_samples(struct trainer *trainer, bool *speaks, struct error *error)
{
    const struct trainer_world *world = &trainer->world;
    const uint64_t own = hash_samples(trainer->source);
    uint64_t *all = calloc(world->job_ranks, sizeof *all);
    uint32_t different = 0;
    weft_status status = all ? WEFT_OK : error_memory(error, world->job_ranks * sizeof *all, "hashes of samples");
    status = trainer_agree_in_job(trainer, status, speaks, error);
    if (status == WEFT_OK)
        status = library_error(trainer->context, weft_allgather(&own, all, 1, WEFT_U64, world->job), error);
    while (status == WEFT_OK && different < world->job_ranks && all[different] == all[0])
        different++;
    free(all);
    if (status != WEFT_OK || different == world->job_ranks)
        return status;
    return error_set(error, WEFT_ERROR_DATA,
                     "rank %u finds other samples or classes at '%s' than rank 0; every rank must read the same files",
                     different, trainer->config.data);
}

/* Not for spares. */
static weft_status open_state(struct trainer *trainer, double *peak, bool *speaks, struct error *error)
{
    struct report_options wanted = trainer_report_options(trainer);
    wanted.out = trainer->user_output; /* the same on every rank */
    weft_status status = initial_state_set(trainer, trainer->config.resume, speaks, error);
    if (status == WEFT_OK)
        status = trainer_world_open_copies(trainer, speaks, error);
    if (status == WEFT_OK)
        status = trainer_world_open_writer(trainer, speaks, error);
    if (status == WEFT_OK && report_wants_peak(&wanted))
        status = trainer_measure_peak(trainer, peak, error);
    return status;
}

/* ---- reports ---- */

/* "4 x 128 tokens", "32 images"; returns `text`. */
static char *describe_micro_batch(const struct train_config *config, char *text, size_t size)
{
    if (model_samples_of(&config->shape) == SAMPLES_OF_IMAGES)
        snprintf(text, size, "%" PRId64 " images", config->micro_batch);
    else
        snprintf(text, size, "%" PRId64 " x %" PRId64 " tokens", config->micro_batch, config->sequence);
    return text;
}

static void describe_run(const struct trainer *trainer, const char *reason)
{
    const struct train_config *config = &trainer->config;
    const struct parallel_choice *parallel = &trainer->world.parallel;
    if (!trainer->out) /* nor has a spare rank a division */
        return;
    const struct micro_batch_division division = parallel_choice_division(parallel);
    const uint32_t data = division.ranks, total = division.total, rounds = micro_batch_rounds(&division);
    char choice[PARALLEL_CHOICE_TEXT_BYTES];
    char shape[SHAPE_TEXT_BYTES], micro_batch[64];
    int nodes = weft_comm_nodes(trainer->world.comm);
    if (*reason)
        fprintf(trainer->out, "begin  again, with %u ranks in place of %u: %s\n", trainer->world.ranks,
                trainer->first_ranks, reason);
    fprintf(trainer->out, "data   %s\n", sample_source_describe(trainer->source));
    fprintf(trainer->out, "model  %s: %s; %.2fM parameters\n", config->model,
            shape_text(&trainer->description->shape, shape), (double)trainer->description->weights * 1e-6);
    fprintf(trainer->out, "plan   %s on %d node%s; a step is %u micro-batch%s of %s, %u%s a rank",
            parallel_choice_describe(parallel, choice), nodes, nodes == 1 ? "" : "s", total, total == 1 ? "" : "es",
            describe_micro_batch(config, micro_batch, sizeof micro_batch), rounds,
            rounds > total / data ? " at most" : "");
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

void trainer_begin_report(struct trainer *trainer, double peak)
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
        .unit = model_samples_of(&config->shape) == SAMPLES_OF_IMAGES ? "images" : NULL,
        .tokens = (double)(config->batch * config->sequence),
        .flops = trainer_step_flops(trainer),
        .peak = peak,
        .bytes_per_token = trainer->text.bytes_per_token,
    };
    report_begin(&trainer->report, &run);
}

/* ---- all of it ---- */

weft_status trainer_begin(struct trainer *trainer, struct recovery *recovery, bool *speaks, struct error *error)
{
    double peak = 0;
    weft_status status = prepare_to_begin(trainer, speaks, error);
    if (status == WEFT_OK)
        status = choose_first_mesh(trainer, recovery, speaks, error);
    if (status == WEFT_OK)
        status = trainer_agree_in_job(trainer, open_inputs(trainer, error), speaks, error);
    if (status == WEFT_OK)
        status = compare_samples(trainer, speaks, error);
    if (status == WEFT_OK)
        status = recovery_open_world(trainer, speaks, error);
    if (status == WEFT_OK && !trainer_world_is_spare(&trainer->world))
        status = open_state(trainer, &peak, speaks, error);
    status = trainer_agree_in_job(trainer, status, speaks, error);
    if (status != WEFT_OK)
        return status;
    trainer->world.is_whole = true;
    trainer->is_new = false;
    trainer->course.begin = trainer->state.step;
    trainer_begin_report(trainer, peak);
    describe_run(trainer, recovery->report.reason);
    return WEFT_OK;
}
