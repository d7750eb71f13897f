/* SPDX-License-Identifier: Apache-2.0 */
#include "training/parallel/state_copies.h"

#include "base/library_error.h"
#include "training/parallel/agreement.h"

#include <stdlib.h>
#include <string.h>

/* Elements of a tensor, with their moments, that one rank copies. */
struct copied_range {
    uint32_t parameter;
    size_t first, count;
    uint32_t rank;
};

/* What one rank copies. */
struct copied_part {
    struct copied_range *ranges;
    size_t count;
    size_t elements; /* of each array */
};

/* One copy. Its memory has the arrays one after the other, each with the ranges one after the other. */
struct copied_state {
    uint64_t step;     /* UINT64_MAX: none yet */
    bool has_previous; /* all of it */
    float *own, *previous;
};

struct state_copies {
    weft_context *context;
    weft_comm *comm; /* a duplicate, so that nothing else comes between its messages */
    const struct state_layout *layout;
    const struct model_description *description;
    unsigned arrays;
    uint32_t next, previous;
    struct copied_part own, of_previous;
    struct copied_state copies[2];
    unsigned newest; /* the one that was begun last */
    weft_request *sent, *received;
};

/* ---- who copies what ---- */

static int ascending_sizes(const void *left, const void *right)
{
    const size_t a = *(const size_t *)left, b = *(const size_t *)right;
    return (a > b) - (a < b);
}

/* The rank with the smallest load that holds an element in all arrays. */
static uint32_t choose_rank(const struct state_layout *layout, uint32_t parameter, size_t element,
                            const uint64_t *loads)
{
    const struct state_cell *values = state_layout_cell(layout, STATE_VALUES, parameter, element);
    uint32_t best = values->holders[0];
    bool found = false;
    for (uint32_t i = 0; i < values->holder_count; i++) {
        const uint32_t rank = values->holders[i];
        bool holds = true;
        for (unsigned array = STATE_FIRST_MOMENTS; holds && array < layout->arrays; array++)
            holds = state_cell_is_held(state_layout_cell(layout, (enum state_array)array, parameter, element), rank);
        if (holds && (!found || loads[rank] < loads[best]))
            best = rank;
        found |= holds;
    }
    return best;
}

/* Cut a tensor wherever its holders change in some array; returns the number of bounds, the end included. */
static size_t cut_parameter(const struct state_layout *layout, uint32_t parameter, size_t *bounds)
{
    size_t count = 0, kept = 0;
    for (unsigned array = 0; array < layout->arrays; array++)
        for (const struct state_cell *cell = state_layout_cell(layout, (enum state_array)array, parameter, 0);
             state_layout_continues(layout, cell, (enum state_array)array, parameter); cell++)
            bounds[count++] = cell->first;
    bounds[count++] = layout->own.description->parameters[parameter].count;
    qsort(bounds, count, sizeof *bounds, ascending_sizes);
    for (size_t i = 0; i < count; i++)
        if (i == 0 || bounds[i] != bounds[kept - 1])
            bounds[kept++] = bounds[i];
    return kept;
}

/* All ranges, of all ranks; the same on all of them. */
static weft_status divide(const struct state_layout *layout, struct copied_range **result, size_t *result_count,
                          struct error *error)
{
    const size_t parameters = layout->own.description->parameter_count, room = layout->cell_count + parameters + 1;
    struct copied_range *ranges = calloc(room, sizeof *ranges);
    size_t *bounds = calloc(room, sizeof *bounds), count = 0;
    uint64_t *loads = calloc(layout->ranks, sizeof *loads);
    weft_status status = WEFT_OK;
    if (!ranges || !bounds || !loads)
        status = error_memory(error, room * (sizeof *ranges + sizeof *bounds), "a list of pieces");
    for (uint32_t p = 0; status == WEFT_OK && p < parameters; p++) {
        const size_t cuts = layout->own.description->parameters[p].count ? cut_parameter(layout, p, bounds) : 0;
        for (size_t i = 0; i + 1 < cuts; i++) {
            const uint32_t rank = choose_rank(layout, p, bounds[i], loads);
            ranges[count++] = (struct copied_range){p, bounds[i], bounds[i + 1] - bounds[i], rank};
            loads[rank] += bounds[i + 1] - bounds[i];
        }
    }
    free(bounds);
    free(loads);
    *result = ranges;
    *result_count = count;
    return status;
}

static weft_status take_part(const struct copied_range *ranges, size_t count, uint32_t rank, struct copied_part *part,
                             struct error *error)
{
    part->ranges = calloc(count + 1, sizeof *part->ranges);
    if (!part->ranges)
        return error_memory(error, count * sizeof *part->ranges, "a list of pieces");
    for (size_t i = 0; i < count; i++) {
        if (ranges[i].rank != rank)
            continue;
        part->ranges[part->count++] = ranges[i];
        part->elements += ranges[i].count;
    }
    return WEFT_OK;
}

/* ---- neighbors ---- */

struct circle_place {
    uint32_t number; /* among the ranks of the node */
    uint32_t node, rank;
};

static int compare_circle_places(const void *left, const void *right)
{
    const struct circle_place *a = left, *b = right;
    if (a->number != b->number)
        return a->number < b->number ? -1 : 1;
    return (a->node > b->node) - (a->node < b->node);
}

/* In a circle that takes a rank of each node in turn, a rank sends to the next one. */
static weft_status choose_neighbors(struct state_copies *copies, const uint32_t *nodes, struct error *error)
{
    const uint32_t ranks = copies->layout->ranks;
    struct circle_place *places = calloc(ranks, sizeof *places);
    if (!places)
        return error_memory(error, ranks * sizeof *places, "the neighbors of ranks");
    for (uint32_t r = 0; r < ranks; r++) {
        places[r] = (struct circle_place){.node = nodes[r], .rank = r};
        for (uint32_t q = 0; q < r; q++)
            places[r].number += nodes[q] == nodes[r];
    }
    qsort(places, ranks, sizeof *places, compare_circle_places);
    for (uint32_t i = 0; i < ranks; i++)
        if (places[i].rank == copies->layout->rank) {
            copies->next = places[(i + 1) % ranks].rank;
            copies->previous = places[(i + ranks - 1) % ranks].rank;
        }
    free(places);
    return WEFT_OK;
}

/* ---- opening and closing ---- */

/* The memory of a copy, when it is made for the first time: after a recovery that of the former copies can be used again. */
static weft_status allocate(const struct state_copies *copies, struct copied_state *copy, struct error *error)
{
    const size_t own = copies->own.elements * copies->arrays * sizeof(float),
                 previous = copies->of_previous.elements * copies->arrays * sizeof(float);
    if (!copy->own)
        copy->own = weft_alloc(copies->context, own + 1);
    if (!copy->previous)
        copy->previous = weft_alloc(copies->context, previous + 1);
    return copy->own && copy->previous ? WEFT_OK : library_error(copies->context, WEFT_ERROR_MEMORY, error);
}

static void copied_state_free(const struct state_copies *copies, struct copied_state *copy)
{
    weft_free(copies->context, copy->own);
    weft_free(copies->context, copy->previous);
    *copy = (struct copied_state){.step = UINT64_MAX};
}

static weft_status prepare(struct state_copies *copies, const uint32_t *nodes, struct error *error)
{
    struct copied_range *ranges = NULL;
    size_t count = 0;
    weft_status status = choose_neighbors(copies, nodes, error);
    if (status == WEFT_OK)
        status = divide(copies->layout, &ranges, &count, error);
    if (status == WEFT_OK)
        status = take_part(ranges, count, copies->layout->rank, &copies->own, error);
    if (status == WEFT_OK)
        status = take_part(ranges, count, copies->previous, &copies->of_previous, error);
    free(ranges);
    return status;
}

weft_status state_copies_open(const struct state_layout *layout, const uint32_t *nodes, struct state_copies **result,
                              bool *speaks, struct error *error)
{
    struct state_copies *copies = calloc(1, sizeof *copies);
    weft_status status = WEFT_OK;
    if (copies) {
        *copies = (struct state_copies){.context = layout->context,
                                        .layout = layout,
                                        .description = layout->own.description,
                                        .arrays = layout->arrays,
                                        .copies = {{.step = UINT64_MAX}, {.step = UINT64_MAX}}};
        status = prepare(copies, nodes, error);
        if (status == WEFT_OK) /* before the ranks agree: a rank without memory would receive nothing */
            status = allocate(copies, &copies->copies[!copies->newest], error);
    } else {
        status = error_memory(error, sizeof *copies, "copies of the state");
    }
    status = agreement_reach(layout->context, layout->comm, status, error, speaks);
    if (status == WEFT_OK)
        status = library_error(layout->context, weft_comm_duplicate(layout->comm, &copies->comm), error);
    if (status == WEFT_OK)
        *result = copies;
    else
        state_copies_close(copies);
    return status;
}

void state_copies_close(struct state_copies *copies)
{
    if (!copies)
        return;
    weft_wait(&copies->sent);
    weft_wait(&copies->received);
    if (copies->comm)
        weft_comm_free(copies->comm);
    for (int i = 0; i < 2; i++)
        copied_state_free(copies, &copies->copies[i]);
    free(copies->own.ranges);
    free(copies->of_previous.ranges);
    free(copies);
}

/* ---- copying ---- */

static void copy_own(const struct state_copies *copies, float *to)
{
    for (unsigned array = 0; array < copies->arrays; array++)
        for (size_t i = 0; i < copies->own.count; i++) {
            const struct copied_range *range = &copies->own.ranges[i];
            const float *from = state_layout_find(copies->layout, (enum state_array)array, range->parameter,
                                                  range->first, range->count);
            memcpy(to, from, range->count * sizeof *to);
            to += range->count;
        }
}

weft_status state_copies_begin(struct state_copies *copies, uint64_t step, struct error *error)
{
    struct copied_state *copy = &copies->copies[!copies->newest];
    const size_t own = copies->own.elements * copies->arrays, previous = copies->of_previous.elements * copies->arrays;
    weft_status status = allocate(copies, copy, error);
    if (status != WEFT_OK)
        return status;
    copies->newest = !copies->newest;
    copy->has_previous = false;
    copy->step = step;
    copy_own(copies, copy->own);
    status =
        weft_receive_start(copy->previous, previous, WEFT_F32, (int)copies->previous, copies->comm, &copies->received);
    if (status == WEFT_OK)
        status = weft_send_start(copy->own, own, WEFT_F32, (int)copies->next, copies->comm, &copies->sent);
    return library_error(copies->context, status, error);
}

weft_status state_copies_finish(struct state_copies *copies, struct error *error)
{
    struct copied_state *copy = &copies->copies[copies->newest];
    const bool was_begun = copies->received;
    const weft_status received = weft_wait(&copies->received), sent = weft_wait(&copies->sent);
    copy->has_previous |= was_begun && received == WEFT_OK;
    return library_error(copies->context, received == WEFT_OK ? sent : received, error);
}

/* ---- after a failure ---- */

uint32_t state_copies_previous(const struct state_copies *copies)
{
    return copies->previous;
}

void state_copies_steps(struct state_copies *copies, bool previous, uint64_t steps[2])
{
    struct error ignored = {0};
    (void)state_copies_finish(copies, &ignored);
    for (int i = 0; i < 2; i++) {
        const struct copied_state *copy = &copies->copies[i];
        steps[i] = previous && !copy->has_previous ? UINT64_MAX : copy->step;
    }
}

void state_copies_keep(struct state_copies *copies, uint64_t step)
{
    for (int i = 0; i < 2; i++)
        if (copies->copies[i].step != step)
            copied_state_free(copies, &copies->copies[i]);
}

/* Append a part whose arrays begin at `memory`. */
static void append_part(const struct state_copies *copies, const struct copied_part *part, float *memory,
                        struct state_pieces *pieces)
{
    for (size_t i = 0; i < part->count; i++) {
        const struct copied_range *range = &part->ranges[i];
        struct state_piece *piece = &pieces->pieces[pieces->count++];
        *piece = (struct state_piece){
            .parameter = range->parameter, .first = range->first, .count = range->count, .values = memory};
        if (copies->arrays > STATE_FIRST_MOMENTS)
            piece->first_moments = memory + part->elements;
        if (copies->arrays > STATE_SECOND_MOMENTS)
            piece->second_moments = memory + 2 * part->elements;
        memory += range->count;
    }
}

static int compare_pieces(const void *left, const void *right)
{
    const struct state_piece *a = left, *b = right;
    if (a->parameter != b->parameter)
        return a->parameter < b->parameter ? -1 : 1;
    return (a->first > b->first) - (a->first < b->first);
}

weft_status state_copies_pieces(const struct state_copies *copies, uint64_t step, bool previous,
                                struct state_pieces *pieces, struct error *error)
{
    const struct copied_state *copy = &copies->copies[copies->copies[1].step == step];
    const size_t room = copies->own.count + copies->of_previous.count + 1;
    *pieces = (struct state_pieces){.description = copies->description, .pieces = calloc(room, sizeof *pieces->pieces)};
    if (!pieces->pieces)
        return error_memory(error, room * sizeof *pieces->pieces, "the pieces of a state");
    append_part(copies, &copies->own, copy->own, pieces);
    if (previous)
        append_part(copies, &copies->of_previous, copy->previous, pieces);
    qsort(pieces->pieces, pieces->count, sizeof *pieces->pieces, compare_pieces);
    return WEFT_OK;
}
