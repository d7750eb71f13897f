/* SPDX-License-Identifier: Apache-2.0 */
#include "training/parallel/state_transfer.h"

#include "base/library_error.h"
#include "training/parallel/agreement.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- cells ---- */

static float *find_cell(const struct state_layout *layout, const struct state_cell *cell)
{
    return state_layout_find(layout, cell->array, cell->parameter, cell->first, cell->count);
}

#define MOVES_MOST 32 /* under way at once, so that all ranks and links are busy */

struct state_moves {
    weft_request *requests[MOVES_MOST];
    size_t count;
};

static weft_status finish_moves(const struct state_layout *layout, struct state_moves *moves, struct error *error)
{
    weft_status status = WEFT_OK;
    for (size_t i = 0; i < moves->count; i++) {
        const weft_status one = weft_wait(&moves->requests[i]);
        status = status == WEFT_OK ? one : status;
    }
    moves->count = 0;
    return library_error(layout->context, status, error);
}

/* Move `count` elements from one rank to another; called by both of them. It may be under way until finish_moves(). All ranks
 * start the moves between two of them in the same order. */
static weft_status start_move(const struct state_layout *layout, const float *from, float *to, size_t count,
                              uint32_t sender, uint32_t receiver, struct state_moves *moves, struct error *error)
{
    weft_request **request = &moves->requests[moves->count];
    weft_status status = WEFT_OK;
    if (layout->rank != sender && layout->rank != receiver)
        return WEFT_OK;
    if (layout->rank == sender)
        status = weft_send_start(from, count, WEFT_F32, (int)receiver, layout->comm, request);
    else
        status = weft_receive_start(to, count, WEFT_F32, (int)sender, layout->comm, request);
    if (status != WEFT_OK)
        return library_error(layout->context, status, error);
    return ++moves->count == MOVES_MOST ? finish_moves(layout, moves, error) : WEFT_OK;
}

/* The same, to its end. All ranks go through the cells in the same order, so the first transfer that is not complete has both
 * its ranks waiting in it, or on their way to it. */
static weft_status move_elements(const struct state_layout *layout, const float *from, float *to, size_t count,
                                 uint32_t sender, uint32_t receiver, struct error *error)
{
    struct state_moves moves = {.count = 0};
    const weft_status status = start_move(layout, from, to, count, sender, receiver, &moves, error);
    return status == WEFT_OK ? finish_moves(layout, &moves, error) : status;
}

/* Copy rank 0's `data` to the pieces of all holders but those that have it (`has`, by rank; NULL: none has it). */
static weft_status scatter_cell(const struct state_layout *layout, const struct state_cell *cell, float *data,
                                const bool *has, struct error *error)
{
    float *own = find_cell(layout, cell);
    weft_status status = WEFT_OK;
    if (layout->rank == 0 && own && own != data)
        memcpy(own, data, cell->count * sizeof *own);
    if (cell->holder_count == layout->ranks)
        return library_error(layout->context, weft_broadcast(own, cell->count, WEFT_F32, 0, layout->comm), error);
    for (uint32_t i = 0; status == WEFT_OK && i < cell->holder_count; i++) {
        const uint32_t holder = cell->holders[i];
        if (holder != 0 && !(has && has[holder]))
            status = move_elements(layout, data, own, cell->count, 0, holder, error);
    }
    return status;
}

/* ---- values ---- */

weft_status state_layout_scatter_values(const struct state_layout *layout, const struct model_description *whole,
                                        const float *values, struct error *error)
{
    weft_status status = WEFT_OK;
    for (size_t i = 0; status == WEFT_OK && i < layout->cell_count; i++) {
        const struct state_cell *cell = &layout->cells[i];
        if (cell->array != STATE_VALUES)
            break;
        float *data = layout->rank == 0
                          ? (float *)(uintptr_t)values + whole->parameters[cell->parameter].offset + cell->first
                          : NULL;
        status = scatter_cell(layout, cell, data, NULL, error);
    }
    return status;
}

weft_status state_layout_gather_values(const struct state_layout *layout, const struct model_description *whole,
                                       float *values, struct error *error)
{
    weft_status status = WEFT_OK;
    for (size_t i = 0; status == WEFT_OK && i < layout->cell_count; i++) {
        const struct state_cell *cell = &layout->cells[i];
        if (cell->array != STATE_VALUES)
            break;
        const float *own = find_cell(layout, cell);
        float *to = layout->rank == 0 ? values + whole->parameters[cell->parameter].offset + cell->first : NULL;
        if (!state_cell_is_held(cell, 0))
            status = move_elements(layout, own, to, cell->count, cell->holders[0], 0, error);
        else if (to && to != own)
            memcpy(to, own, cell->count * sizeof *to);
    }
    return status;
}

/* ---- from one layout to another ---- */

/* Elements [first, first + count) of a cell of `to`, which the same ranks hold in `from`: `source`. */
static weft_status move_part(const struct state_layout *from, const struct state_cell *source,
                             const struct state_layout *to, const struct state_cell *cell, size_t first, size_t count,
                             size_t *turn, struct state_moves *moves, struct error *error)
{
    const float *have = state_layout_find(from, cell->array, cell->parameter, first, count);
    float *want = state_layout_find(to, cell->array, cell->parameter, first, count);
    weft_status status = WEFT_OK;
    if (have && want && have != want)
        memcpy(want, have, count * sizeof *want);
    for (uint32_t i = 0; status == WEFT_OK && i < cell->holder_count; i++)
        if (!state_cell_is_held(source, cell->holders[i]))
            status = start_move(to, have, want, count, source->holders[(*turn)++ % source->holder_count],
                                cell->holders[i], moves, error);
    return status;
}

weft_status state_layout_move(const struct state_layout *from, const struct state_layout *to, struct error *error)
{
    struct state_moves moves = {.count = 0};
    struct error ignored = {0};
    size_t turn = 0;
    weft_status status = WEFT_OK;
    for (size_t i = 0; status == WEFT_OK && i < to->cell_count; i++) {
        const struct state_cell *cell = &to->cells[i];
        const size_t cell_end = cell->first + cell->count;
        for (const struct state_cell *source = state_layout_cell(from, cell->array, cell->parameter, cell->first);
             status == WEFT_OK && state_layout_continues(from, source, cell->array, cell->parameter) &&
             source->first < cell_end;
             source++) {
            const size_t first = source->first > cell->first ? source->first : cell->first,
                         end = source->first + source->count < cell_end ? source->first + source->count : cell_end;
            status = move_part(from, source, to, cell, first, end - first, &turn, &moves, error);
        }
    }
    const weft_status last = finish_moves(to, &moves, status == WEFT_OK ? error : &ignored);
    return status == WEFT_OK ? last : status;
}

/* ---- named tensors ---- */

static weft_status collection_allocate(struct state_collection *collection, size_t room, struct error *error)
{
    *collection = (struct state_collection){.tensors = calloc(room + 1, sizeof *collection->tensors),
                                            .names = calloc(room + 1, sizeof *collection->names)};
    return collection->tensors && collection->names
               ? WEFT_OK
               : error_memory(error, room * sizeof *collection->tensors, "a list of tensors");
}

/* `name` receives the tensor's name, which `tensor` points to. */
static void describe_elements(const struct state_layout *layout, enum state_array array, uint32_t parameter,
                              size_t first, size_t count, float *data, char name[STATE_NAME_BYTES],
                              struct named_tensor *tensor)
{
    const char *const suffixes[STATE_ARRAYS] = {
        [STATE_VALUES] = "",
        [STATE_FIRST_MOMENTS] = layout->arrays > STATE_SECOND_MOMENTS ? ".exp_avg" : ".momentum_buffer",
        [STATE_SECOND_MOMENTS] = ".exp_avg_sq",
    };
    const struct model_parameter *described = &layout->own.description->parameters[parameter];
    snprintf(name, STATE_NAME_BYTES, "%s%s", described->name, suffixes[array]);
    *tensor = (struct named_tensor){.name = name,
                                    .type = WEFT_F32,
                                    .dimensions = (unsigned)described->dimensions,
                                    .first = first,
                                    .count = count,
                                    .data = data};
    for (size_t d = 0; d < described->dimensions; d++)
        tensor->shape[d] = described->shape[d];
}

static void collection_add(struct state_collection *collection, const struct state_layout *layout,
                           enum state_array array, uint32_t parameter, size_t first, size_t count, float *data)
{
    const size_t i = collection->count++;
    describe_elements(layout, array, parameter, first, count, data, collection->names[i], &collection->tensors[i]);
}

weft_status state_collection_open(struct state_collection *collection, const struct state_layout *layout,
                                  const struct state_range *ranges, size_t count, struct error *error)
{
    size_t elements = 0;
    weft_status status = collection_allocate(collection, count, error);
    for (size_t i = 0; status == WEFT_OK && i < count; i++) {
        const struct state_range *range = &ranges[i];
        if (range->rank != layout->rank)
            continue;
        float *data = state_layout_find(layout, range->array, range->parameter, range->first, range->count);
        collection_add(collection, layout, range->array, range->parameter, range->first, range->count, data);
        elements += data ? 0 : range->count;
    }
    if (status != WEFT_OK || !elements)
        return status;
    collection->collected = elements;
    collection->memory = malloc(elements * sizeof(float));
    if (!collection->memory)
        return error_memory(error, elements * sizeof(float), "the state of other ranks");
    float *next = collection->memory;
    for (size_t i = 0; i < collection->count; i++) {
        struct named_tensor *tensor = &collection->tensors[i];
        if (tensor->data)
            continue;
        tensor->data = next;
        next += tensor->count;
    }
    return WEFT_OK;
}

/* `data` is where the range's elements lie on its rank. */
static weft_status fill_range(const struct state_layout *layout, const struct state_range *range, float *data,
                              struct error *error)
{
    const size_t range_end = range->first + range->count;
    weft_status status = WEFT_OK;
    for (const struct state_cell *cell = state_layout_cell(layout, range->array, range->parameter, range->first);
         status == WEFT_OK && state_layout_continues(layout, cell, range->array, range->parameter) &&
         cell->first < range_end;
         cell++) {
        const size_t first = cell->first > range->first ? cell->first : range->first;
        const size_t end = cell->first + cell->count < range_end ? cell->first + cell->count : range_end;
        const float *own = state_layout_find(layout, range->array, range->parameter, first, end - first);
        float *to = data ? data + (first - range->first) : NULL;
        if (!state_cell_is_held(cell, range->rank))
            status = move_elements(layout, own, to, end - first, cell->holders[0], range->rank, error);
        else if (to && to != own)
            memcpy(to, own, (end - first) * sizeof *to);
    }
    return status;
}

weft_status state_collection_fill(const struct state_collection *collection, const struct state_layout *layout,
                                  const struct state_range *ranges, size_t count, struct error *error)
{
    size_t next = 0;
    weft_status status = WEFT_OK;
    for (size_t i = 0; status == WEFT_OK && i < count; i++)
        status = fill_range(layout, &ranges[i],
                            ranges[i].rank == layout->rank ? collection->tensors[next++].data : NULL, error);
    return status;
}

void state_collection_close(struct state_collection *collection)
{
    free(collection->tensors);
    free(collection->names);
    free(collection->memory);
    *collection = (struct state_collection){0};
}

/* ---- reading ---- */

/* Rank 0: whether the checkpoint has all tensors. Nothing is copied. */
static weft_status check_tensors(const struct state_layout *layout, const struct checkpoint *checkpoint,
                                 struct error *error)
{
    const struct model_description *description = layout->own.description;
    struct state_collection all;
    weft_status status = collection_allocate(&all, layout->arrays * description->parameter_count, error);
    for (unsigned array = 0; status == WEFT_OK && array < layout->arrays; array++)
        for (uint32_t i = 0; i < description->parameter_count; i++)
            collection_add(&all, layout, (enum state_array)array, i, description->parameters[i].count, 0, NULL);
    if (status == WEFT_OK)
        status = checkpoint_read(checkpoint, all.tensors, all.count, error);
    state_collection_close(&all);
    return status;
}

/* Read the pieces of this rank. */
static weft_status read_own(const struct state_layout *layout, const struct checkpoint *checkpoint, struct error *error)
{
    struct state_collection own;
    weft_status status = collection_allocate(&own, STATE_ARRAYS * layout->own.count, error);
    for (size_t i = 0; status == WEFT_OK && i < layout->own.count; i++) {
        const struct state_piece *piece = &layout->own.pieces[i];
        float *const arrays[STATE_ARRAYS] = {piece->values, piece->first_moments, piece->second_moments};
        for (unsigned array = 0; piece->count && array < STATE_ARRAYS; array++)
            if (arrays[array])
                collection_add(&own, layout, (enum state_array)array, piece->parameter, piece->first, piece->count,
                               arrays[array]);
    }
    if (status == WEFT_OK)
        status = checkpoint_read(checkpoint, own.tensors, own.count, error);
    state_collection_close(&own);
    return status;
}

/* Whether some holder does not see the checkpoint. */
static bool cell_is_sent(const struct state_cell *cell, const bool *sees)
{
    for (uint32_t i = 0; i < cell->holder_count; i++)
        if (!sees[cell->holders[i]])
            return true;
    return false;
}

/* Rank 0's memory for cells that it sends and does not hold. */
static weft_status make_room(const struct state_layout *layout, const bool *sees, float **memory, struct error *error)
{
    size_t most = 0;
    for (size_t i = 0; i < layout->cell_count; i++) {
        const struct state_cell *cell = &layout->cells[i];
        if (cell_is_sent(cell, sees) && !state_cell_is_held(cell, 0) && cell->count > most)
            most = cell->count;
    }
    *memory = most ? malloc(most * sizeof **memory) : NULL;
    return most && !*memory ? error_memory(error, most * sizeof **memory, "a tensor of other ranks") : WEFT_OK;
}

/* Rank 0 reads the cell into `memory`. */
static weft_status read_cell(const struct state_layout *layout, const struct checkpoint *checkpoint,
                             const struct state_cell *cell, float *memory, struct error *error)
{
    char name[STATE_NAME_BYTES];
    struct named_tensor tensor;
    describe_elements(layout, cell->array, cell->parameter, cell->first, cell->count, memory, name, &tensor);
    return checkpoint_read(checkpoint, &tensor, 1, error);
}

/* Rank 0 sends the pieces of ranks that do not see the checkpoint. */
static weft_status send_unseen(const struct state_layout *layout, const struct checkpoint *checkpoint, const bool *sees,
                               float *memory, struct error *error)
{
    weft_status status = WEFT_OK;
    for (size_t i = 0; status == WEFT_OK && i < layout->cell_count; i++) {
        const struct state_cell *cell = &layout->cells[i];
        if (!cell_is_sent(cell, sees))
            continue;
        float *data = layout->rank == 0 ? find_cell(layout, cell) : NULL;
        if (layout->rank == 0 && !data)
            status = read_cell(layout, checkpoint, cell, data = memory, error);
        if (status == WEFT_OK)
            status = scatter_cell(layout, cell, data, sees, error);
    }
    return status;
}

/* This rank's view of the checkpoint that rank 0 has opened; NULL if it has none. Collective. */
static weft_status open_view(const struct state_layout *layout, const struct checkpoint *checkpoint,
                             const char *directory, struct checkpoint **view, bool *speaks, struct error *error)
{
    struct checkpoint_identity identity = {0};
    weft_status status = checkpoint ? checkpoint_identify(checkpoint, &identity, error) : WEFT_OK;
    status = agreement_reach(layout->context, layout->comm, status, error, speaks);
    if (status == WEFT_OK)
        status =
            library_error(layout->context, weft_broadcast(&identity, sizeof identity, WEFT_U8, 0, layout->comm), error);
    if (status == WEFT_OK && layout->rank != 0 && directory)
        status = checkpoint_open_same(directory, &identity, view, error);
    return agreement_reach(layout->context, layout->comm, status, error, speaks);
}

weft_status state_layout_read(const struct state_layout *layout, const struct checkpoint *checkpoint,
                              const char *directory, bool *speaks, struct error *error)
{
    float *memory = NULL;
    struct checkpoint *view = NULL;
    bool *sees = calloc(layout->ranks, sizeof *sees);
    weft_status status = sees ? WEFT_OK : error_memory(error, layout->ranks, "the ranks that see a checkpoint");
    if (status == WEFT_OK && checkpoint)
        status = check_tensors(layout, checkpoint, error);
    status = agreement_reach(layout->context, layout->comm, status, error, speaks);
    if (status == WEFT_OK)
        status = open_view(layout, checkpoint, directory, &view, speaks, error);
    if (status != WEFT_OK)
        goto done;
    const struct checkpoint *seen = checkpoint ? checkpoint : view;
    const bool see = seen != NULL;
    status = library_error(layout->context, weft_allgather(&see, sees, sizeof see, WEFT_U8, layout->comm), error);
    if (status == WEFT_OK && layout->rank == 0)
        status = make_room(layout, sees, &memory, error);
    if (status == WEFT_OK && seen)
        status = read_own(layout, seen, error);
    status = agreement_reach(layout->context, layout->comm, status, error, speaks);
    if (status == WEFT_OK)
        status = send_unseen(layout, checkpoint, sees, memory, error);

done:
    free(memory);
    free(sees);
    checkpoint_close(view);
    return status;
}
