/* SPDX-License-Identifier: Apache-2.0 */
#include "training/train/loop/internal/trainer_world.h"

#include "base/library_error.h"
#include "training/parallel/execute/costs.h"
#include "training/train/loop/internal/trainer_parts.h"
#include "training/train/report/profile.h"

#include <math.h>
#include <stdlib.h>

void trainer_world_enter(struct trainer *trainer, weft_comm *job)
{
    const uint32_t ranks = (uint32_t)weft_comm_size(job);
    trainer->world = (struct trainer_world){
        .job = job, .job_ranks = ranks, .comm = job, .rank = (uint32_t)weft_comm_rank(job), .ranks = ranks};
    trainer->out = trainer->world.rank == 0 ? trainer->user_output : NULL;
}

weft_status trainer_world_divide(struct trainer *trainer, uint32_t ranks, struct error *error)
{
    struct trainer_world *world = &trainer->world;
    world->comm = world->job;
    world->ranks = ranks;
    if (ranks == world->job_ranks)
        return WEFT_OK;
    const int color = trainer_world_is_spare(world) ? -1 : 0;
    weft_status status = weft_comm_split(world->job, color, 0, &world->comm);
    if (status == WEFT_OK && !world->commands)
        status = weft_comm_duplicate(world->job, &world->commands);
    if (status == WEFT_OK)
        status = weft_comm_set_time_limit(world->commands, INFINITY); /* commands come now and then */
    return library_error(trainer->context, status, error);
}

/* ---- the choice ---- */

static weft_status world_choose(struct trainer *trainer, struct error *error)
{
    const struct train_config *config = &trainer->config;
    struct trainer_world *world = &trainer->world;
    free(world->nodes);
    world->nodes = calloc(world->ranks, sizeof *world->nodes);
    if (!world->nodes)
        return error_memory(error, world->ranks * sizeof *world->nodes, "the nodes of the ranks");
    for (uint32_t r = 0; r < world->ranks; r++)
        world->nodes[r] = (uint32_t)weft_comm_node_of(world->comm, (int)r);
    weft_status status = parallel_choice_of(config, trainer->description, world->ranks, &world->parallel, error);
    return status == WEFT_OK
               ? parallel_choice_place(config, trainer->description, world->nodes, &world->parallel, error)
               : status;
}

static weft_status world_measure(struct trainer *trainer, bool *speaks, struct error *error)
{
    const size_t layers = trainer->description->layer_count;
    struct trainer_world *world = &trainer->world;
    struct executor_config executor = parallel_choice_executor(&trainer->config, &world->parallel);
    weft_status status = WEFT_OK;
    if (world->parallel.mesh.extent[MESH_PIPELINE] == 1 || world->parallel.first_unit)
        return WEFT_OK;
    if (trainer->config.costs) {
        world->parallel.costs = trainer->config.costs;
        return WEFT_OK;
    }
    executor.description = trainer->description;
    executor.model.sparse_table = executor_wants_sparse_table(&executor);
    if (!trainer->costs && !(trainer->costs = calloc(layers, sizeof *trainer->costs)))
        status = error_memory(error, layers * sizeof *trainer->costs, "the costs of layers");
    else if (world->rank == 0 && !trainer->costs[0])
        status = costs_measure(trainer->description, trainer->device, &executor.model, trainer->costs, error);
    world->parallel.costs = trainer->costs;
    status = trainer_agree(trainer, status, speaks, error);
    if (status == WEFT_OK)
        status =
            library_error(trainer->context, weft_broadcast(trainer->costs, layers, WEFT_F64, 0, world->comm), error);
    return status;
}

/* Check that this node has enough memory for its ranks. */
static weft_status check_memory(struct trainer *trainer, struct error *error)
{
    struct trainer_world *world = &trainer->world;
    const struct memory_ranks ranks = {.count = world->ranks,
                                       .nodes = world->nodes,
                                       .data = sample_source_bytes(trainer->source),
                                       .casts_bf16 = kernel_set_casts(WEFT_BF16, trainer->kernels.set)};
    return memory_check(&trainer->config, trainer->description, &world->parallel, &ranks, world->rank,
                        trainer->touchable, &world->memory, error);
}

weft_status trainer_world_settle(struct trainer *trainer, bool *speaks, struct error *error)
{
    weft_status status = trainer_agree(trainer, world_choose(trainer, error), speaks, error);
    if (status == WEFT_OK)
        status = world_measure(trainer, speaks, error);
    return status == WEFT_OK ? trainer_agree(trainer, check_memory(trainer, error), speaks, error) : status;
}

/* ---- opening ---- */

/* The executor owns weights, gradients, moments and activations. */
static weft_status open_executor(struct trainer *trainer, bool *speaks, struct error *error)
{
    const struct train_config *config = &trainer->config;
    struct trainer_world *world = &trainer->world;
    struct executor_config options = parallel_choice_executor(config, &world->parallel);
    options.context = trainer->context;
    options.comm = world->comm;
    options.device = trainer->device;
    options.sums = trainer->sums;
    options.pace = config->pace;
    options.former = trainer->former.executor;
    weft_status status =
        trainer_agree(trainer, model_description_copy(trainer->description, &world->own, error), speaks, error);
    options.description = world->own;
    if (status == WEFT_OK)
        status = executor_open(&options, &world->executor, speaks, error);
    trainer->agreed = status != WEFT_OK;
    if (status == WEFT_OK && config->profile)
        executor_watch(world->executor, profile_watch, config->profile);
    return status;
}

static weft_status open_state_layout(struct trainer *trainer, bool *speaks, struct error *error)
{
    struct trainer_world *world = &trainer->world;
    struct state_pieces pieces = {0};
    weft_status status = trainer_agree(
        trainer, executor_state_pieces(world->executor, trainer->description, &pieces, error), speaks, error);
    if (status == WEFT_OK)
        status = state_layout_open(trainer->context, world->comm, &pieces, &world->layout, speaks, error);
    free(pieces.pieces);
    trainer->state.layout = world->layout;
    return status;
}

weft_status trainer_world_open(struct trainer *trainer, bool *speaks, struct error *error)
{
    weft_status status = open_executor(trainer, speaks, error);
    return status == WEFT_OK ? open_state_layout(trainer, speaks, error) : status;
}

/* ---- copies ---- */

struct training_progress trainer_progress(const struct trainer *trainer)
{
    const struct training_state *state = &trainer->state;
    return (struct training_progress){.step = state->step,
                                      .early_stopping = state->early_stopping,
                                      .loss_scale = state->loss_scale,
                                      .last = trainer->course.last};
}

void trainer_set_progress(struct trainer *trainer, const struct training_progress *progress)
{
    struct training_state *state = &trainer->state;
    state->step = progress->step;
    state->early_stopping = progress->early_stopping;
    state->loss_scale = progress->loss_scale;
    trainer->course.last = progress->last;
}

static weft_status begin_copy(struct trainer *trainer, struct error *error)
{
    struct trainer_world *world = &trainer->world;
    world->copied[0] = world->copied[1];
    world->copied[1] = trainer_progress(trainer);
    return state_copies_begin(world->copies, trainer->state.step, error);
}

weft_status trainer_world_open_copies(struct trainer *trainer, bool *speaks, struct error *error)
{
    struct trainer_world *world = &trainer->world;
    if (!parallel_choice_needs_copies(&trainer->config, &world->parallel))
        return WEFT_OK;
    weft_status status = state_copies_open(world->layout, world->nodes, &world->copies, speaks, error);
    trainer->agreed = status != WEFT_OK;
    if (status != WEFT_OK)
        return status;
    world->previous = weft_comm_first_rank(world->comm, (int)state_copies_previous(world->copies));
    return trainer_agree(trainer, begin_copy(trainer, error), speaks, error);
}

weft_status trainer_world_copy(struct trainer *trainer, bool now, struct error *error)
{
    const struct trainer_world *world = &trainer->world;
    const uint64_t step = trainer->state.step;
    if (!world->copies)
        return WEFT_OK;
    const bool is_due = now ? world->copied[1].step != step : step % (uint64_t)trainer->config.copy_every == 0;
    return is_due ? begin_copy(trainer, error) : WEFT_OK;
}

/* ---- checkpoints ---- */

weft_status trainer_world_open_writer(struct trainer *trainer, bool *speaks, struct error *error)
{
    struct trainer_world *world = &trainer->world;
    const struct checkpoint_writer_setup setup = {
        .context = trainer->context,
        .comm = world->comm,
        .config = &trainer->config,
        .state = &trainer->state,
        .report = &trainer->report,
        .uncopied = trainer->course.uncopied,
    };
    return trainer->config.checkpoint_dir ? checkpoint_writer_open(&setup, &world->writer, speaks, error) : WEFT_OK;
}

void trainer_world_close(struct trainer_world *world)
{
    checkpoint_writer_close(world->writer);
    state_copies_close(world->copies);
    state_layout_close(world->layout);
    executor_close(world->executor);
    model_description_free(world->own);
    free(world->nodes);
    *world = (struct trainer_world){0};
}
