/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The tensor axis: the collectives within layers. Sums are in the canonical order of the axis's coordinates on any
 * placement. A failure is kept until the pass is over, as layers cannot return it; later collectives do nothing.
 */
#include "base/array.h"
#include "training/parallel/execute/internal/executor_parts.h"

#include <stdlib.h>

bool executor_begin_exchange(struct executor *executor)
{
    struct device *device = executor->config.device;
    struct error *failure = &executor->layer_failure;
    return failure->status == WEFT_OK && device->finish(device, failure) == WEFT_OK;
}

void executor_end_exchange(struct executor *executor, uint64_t begin, weft_status status)
{
    library_error(executor->config.context, status, &executor->layer_failure);
    waiting_add(&executor->seconds.wait, begin);
}

/* Note a collective of the pass under way, if it is recorded. */
static void note_move(struct executor *executor, struct pass_move move)
{
    struct pass_moves *recorded = executor->recorded;
    if (recorded && ARRAY_RESERVE(recorded->moves, recorded->room, recorded->count + 1, "the collectives of a pass",
                                  &executor->layer_failure) == WEFT_OK)
        recorded->moves[recorded->count++] = move;
}

static void tensor_sum(void *context, weft_type type, size_t count, void *array)
{
    struct executor *executor = context;
    note_move(executor, (struct pass_move){.kind = MOVE_SUM, .type = type, .elements = count});
    if (!executor_begin_exchange(executor))
        return;
    const uint64_t begin = clock_now();
    executor_end_exchange(executor, begin, weft_allreduce(array, array, count, type, WEFT_SUM, executor->layers));
}

static void tensor_sum_part(void *context, weft_type type, size_t count, void *array)
{
    struct executor *executor = context;
    note_move(executor, (struct pass_move){.kind = MOVE_SUM_PART, .type = type, .elements = count});
    if (!executor_begin_exchange(executor))
        return;
    const uint64_t begin = clock_now();
    char *own = (char *)array + executor->tensor_rank * count * weft_type_size(type);
    executor_end_exchange(executor, begin, weft_reduce_scatter(array, own, count, type, WEFT_SUM, executor->layers));
}

static void tensor_gather(void *context, size_t bytes, void *array)
{
    struct executor *executor = context;
    note_move(executor, (struct pass_move){.kind = MOVE_GATHER, .type = WEFT_U8, .elements = bytes});
    if (!executor_begin_exchange(executor))
        return;
    const uint64_t begin = clock_now();
    const char *own = (const char *)array + executor->tensor_rank * bytes;
    executor_end_exchange(executor, begin, weft_allgather(own, array, bytes, WEFT_U8, executor->layers));
}

static void *tensor_allocate(void *context, size_t bytes)
{
    struct executor *executor = context;
    return weft_alloc(executor->config.context, bytes);
}

static void tensor_release(void *context, void *memory)
{
    struct executor *executor = context;
    weft_free(executor->config.context, memory);
}

weft_status executor_open_tensor(struct executor *executor, struct error *error)
{
    const struct executor_config *config = &executor->config;
    executor->tensor_group = (struct tensor_group){.ranks = executor->tensor,
                                                   .rank = executor->tensor_rank,
                                                   .divides_rows = config->sequence_parallel && executor->tensor > 1,
                                                   .context = executor,
                                                   .allocate = tensor_allocate,
                                                   .release = tensor_release,
                                                   .sum = tensor_sum,
                                                   .sum_part = tensor_sum_part,
                                                   .gather = tensor_gather};
    if (executor->tensor == 1)
        return WEFT_OK;
    weft_status status = weft_comm_duplicate(executor->comms.axes[MESH_TENSOR], &executor->layers);
    if (status == WEFT_OK)
        status = weft_comm_set_reproducible(executor->layers, true);
    return library_error(config->context, status, error);
}

weft_status executor_finish_pass(struct executor *executor, struct error *error)
{
    struct device *device = executor->config.device;
    if (executor->recorded)
        executor->recorded->known = true;
    executor->recorded = NULL;
    if (executor->layer_failure.status != WEFT_OK)
        return error_set(error, executor->layer_failure.status, "%s", executor->layer_failure.text);
    return device->finish(device, error);
}

/* ---- passes that something stands in for ---- */

static size_t all_passes(const struct executor *executor)
{
    return executor->description->layer_count * EXECUTOR_PASS_KINDS;
}

bool executor_knows_moves(struct executor *executor, enum step_operation_kind kind, uint32_t unit)
{
    if (executor->tensor == 1)
        return true;
    if (!executor->pass_moves)
        executor->pass_moves = calloc(all_passes(executor), sizeof *executor->pass_moves);
    if (!executor->pass_moves) {
        error_memory(&executor->layer_failure, all_passes(executor) * sizeof *executor->pass_moves, "collectives");
        return true;
    }
    struct pass_moves *moves = &executor->pass_moves[unit * EXECUTOR_PASS_KINDS + kind];
    executor->recorded = moves->known ? NULL : moves;
    return moves->known;
}

static bool has_room_for_moves(struct executor *executor, size_t bytes)
{
    weft_context *context = executor->config.context;
    if (bytes <= executor->moved_bytes)
        return true;
    weft_free(context, executor->moved);
    executor->moved = weft_alloc(context, bytes);
    if (!executor->moved)
        library_error(context, WEFT_ERROR_MEMORY, &executor->layer_failure);
    executor->moved_bytes = executor->moved ? bytes : 0;
    return executor->moved;
}

void executor_repeat_moves(struct executor *executor, enum step_operation_kind kind, uint32_t unit)
{
    if (!executor->pass_moves)
        return;
    const struct pass_moves *moves = &executor->pass_moves[unit * EXECUTOR_PASS_KINDS + kind];
    for (size_t i = 0; i < moves->count; i++) {
        const struct pass_move *move = &moves->moves[i];
        const size_t bytes = move->elements * weft_type_size(move->type);
        if (!has_room_for_moves(executor, bytes * executor->tensor))
            return;
        if (move->kind == MOVE_GATHER)
            tensor_gather(executor, bytes, executor->moved);
        else
            (move->kind == MOVE_SUM ? tensor_sum : tensor_sum_part)(executor, move->type, move->elements,
                                                                    executor->moved);
    }
}

void executor_free_moves(struct executor *executor)
{
    for (size_t i = 0; executor->pass_moves && i < all_passes(executor); i++)
        free(executor->pass_moves[i].moves);
    free(executor->pass_moves);
    weft_free(executor->config.context, executor->moved);
}
