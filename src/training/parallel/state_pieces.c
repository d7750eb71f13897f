/* SPDX-License-Identifier: Apache-2.0 */
#include "training/parallel/state_pieces.h"

#include "base/library_error.h"
#include "training/parallel/agreement.h"

#include <stdlib.h>
#include <string.h>

/* A range of one array's tensor on a rank. Ranks exchange these as bytes. */
struct state_record {
    uint64_t first, count;
    uint32_t array, parameter, rank, unused;
};
_Static_assert(sizeof(struct state_record) == STATE_RECORD_BYTES, "as state_pieces.h has it");

/* ---- the list of records ---- */

static float *piece_array(const struct state_piece *piece, enum state_array array)
{
    float *const arrays[STATE_ARRAYS] = {piece->values, piece->first_moments, piece->second_moments};
    return arrays[array];
}

/* Write the records of this rank's pieces; returns how many there are. `records` may be NULL. */
static size_t list_own_records(const struct state_layout *layout, struct state_record *records)
{
    size_t count = 0;
    for (size_t i = 0; i < layout->own.count; i++) {
        const struct state_piece *piece = &layout->own.pieces[i];
        for (int array = 0; array < STATE_ARRAYS; array++) {
            if (!piece->count || !piece_array(piece, (enum state_array)array))
                continue;
            if (records)
                records[count] = (struct state_record){.first = piece->first,
                                                       .count = piece->count,
                                                       .array = (uint32_t)array,
                                                       .parameter = piece->parameter,
                                                       .rank = layout->rank};
            count++;
        }
    }
    return count;
}

static int records_by_tensor(const void *left, const void *right)
{
    const struct state_record *a = left, *b = right;
    if (a->array != b->array)
        return a->array < b->array ? -1 : 1;
    if (a->parameter != b->parameter)
        return a->parameter < b->parameter ? -1 : 1;
    if (a->rank != b->rank)
        return a->rank < b->rank ? -1 : 1;
    return a->first < b->first ? -1 : a->first > b->first;
}

/* The records of all ranks, sorted. Collective. */
static weft_status exchange_records(const struct state_layout *layout, struct state_record **records, size_t *count,
                                    bool *speaks, struct error *error)
{
    const size_t own = list_own_records(layout, NULL), size = sizeof **records;
    struct state_record *mine = calloc(own + 1, size), *all = NULL;
    size_t *sizes = calloc(2 * (size_t)layout->ranks, sizeof *sizes), *places = sizes + layout->ranks, bytes = 0;
    uint64_t own_bytes = own * size;
    weft_status status = mine && sizes ? WEFT_OK : error_memory(error, (own + 1) * size, "a list of pieces");
    status = agreement_reach(layout->context, layout->comm, status, error, speaks);
    if (status == WEFT_OK)
        status = library_error(layout->context, weft_allgather(&own_bytes, sizes, 1, WEFT_U64, layout->comm), error);
    if (status != WEFT_OK)
        goto done;
    for (uint32_t rank = 0; rank < layout->ranks; rank++) {
        places[rank] = bytes;
        bytes += sizes[rank];
    }
    all = calloc(1, bytes + size);
    status = all ? WEFT_OK : error_memory(error, bytes, "the pieces of all ranks");
    status = agreement_reach(layout->context, layout->comm, status, error, speaks);
    if (status != WEFT_OK)
        goto done;
    list_own_records(layout, mine);
    status = library_error(layout->context, weft_allgatherv(mine, all, sizes, places, WEFT_U8, layout->comm), error);
    if (status != WEFT_OK)
        goto done;
    *count = bytes / size;
    qsort(all, *count, size, records_by_tensor);
    *records = all;
    all = NULL;

done:
    free(all);
    free(sizes);
    free(mine);
    return status;
}

/* ---- cells ---- */

static int bounds_ascending(const void *left, const void *right)
{
    const size_t a = *(const size_t *)left, b = *(const size_t *)right;
    return a < b ? -1 : a > b;
}

static weft_status report_missing(const struct state_layout *layout, enum state_array array, uint32_t parameter,
                                  size_t element, struct error *error)
{
    static const char *const names[STATE_ARRAYS] = {"value", "first moment", "second moment"};
    return error_set(error, WEFT_ERROR_ARGUMENT, "no rank holds the %s of element %zu of '%s'", names[array], element,
                     layout->own.description->parameters[parameter].name);
}

/* Cut a tensor wherever one of its `count` records begins or ends. `bounds` has room for twice as many. */
static weft_status cut_tensor(struct state_layout *layout, enum state_array array, uint32_t parameter,
                              const struct state_record *records, size_t count, size_t *bounds, struct error *error)
{
    const struct model_parameter *tensor = &layout->own.description->parameters[parameter];
    for (size_t i = 0; i < count; i++) {
        const struct state_record *record = &records[i], *before = i ? record - 1 : NULL;
        if (record->first > tensor->count || record->count > tensor->count - record->first)
            return error_set(error, WEFT_ERROR_ARGUMENT, "rank %u holds elements of '%s' beyond its %zu", record->rank,
                             tensor->name, tensor->count);
        if (before && before->rank == record->rank && record->first < before->first + before->count)
            return error_set(error, WEFT_ERROR_ARGUMENT, "rank %u holds element %zu of '%s' twice", record->rank,
                             (size_t)record->first, tensor->name);
        bounds[2 * i] = record->first;
        bounds[2 * i + 1] = record->first + record->count;
    }
    qsort(bounds, 2 * count, sizeof *bounds, bounds_ascending);
    size_t end = 0;
    for (size_t i = 0; i < 2 * count; i++) {
        if (bounds[i] == end)
            continue;
        layout->cells[layout->cell_count++] =
            (struct state_cell){.array = array, .parameter = parameter, .first = end, .count = bounds[i] - end};
        end = bounds[i];
    }
    return end == tensor->count ? WEFT_OK : report_missing(layout, array, parameter, end, error);
}

static weft_status cut_tensors(struct state_layout *layout, const struct state_record *records, size_t count,
                               struct error *error)
{
    const uint32_t parameters = (uint32_t)layout->own.description->parameter_count;
    layout->arrays = count ? records[count - 1].array + 1 : 1;
    layout->cells = calloc(2 * count + 1, sizeof *layout->cells);
    size_t *bounds = calloc(2 * count + 1, sizeof *bounds), from = 0, to = 0;
    weft_status status =
        layout->cells && bounds ? WEFT_OK : error_memory(error, 2 * count * sizeof *layout->cells, "a list of pieces");
    for (unsigned array = 0; status == WEFT_OK && array < layout->arrays; array++)
        for (uint32_t parameter = 0; status == WEFT_OK && parameter < parameters; parameter++, from = to) {
            while (to < count && records[to].array == array && records[to].parameter == parameter)
                to++;
            status = cut_tensor(layout, (enum state_array)array, parameter, records + from, to - from, bounds, error);
        }
    free(bounds);
    if (status == WEFT_OK && to < count)
        return error_set(error, WEFT_ERROR_ARGUMENT, "rank %u holds elements of parameter %u, but there are %u",
                         records[to].rank, records[to].parameter, parameters);
    struct state_cell *fitting =
        status == WEFT_OK ? realloc(layout->cells, (layout->cell_count + 1) * sizeof *fitting) : NULL;
    layout->cells = fitting ? fitting : layout->cells;
    return status;
}

/* Append the rank of each record to the holders of its cells, or count them while there is no room. */
static void add_holders(struct state_layout *layout, const struct state_record *records, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        const struct state_record *record = &records[i];
        const struct state_cell *found =
            state_layout_cell(layout, (enum state_array)record->array, record->parameter, record->first);
        struct state_cell *cell = &layout->cells[found - layout->cells];
        for (uint64_t held = 0; held < record->count; held += cell++->count) {
            if (layout->holders)
                layout->holders[(size_t)(cell->holders - layout->holders) + cell->holder_count] = record->rank;
            cell->holder_count++;
        }
    }
}

static weft_status list_holders(struct state_layout *layout, const struct state_record *records, size_t count,
                                struct error *error)
{
    size_t room = 0;
    add_holders(layout, records, count);
    for (size_t i = 0; i < layout->cell_count; i++)
        room += layout->cells[i].holder_count;
    layout->holders = calloc(room + 1, sizeof *layout->holders);
    if (!layout->holders)
        return error_memory(error, room * sizeof *layout->holders, "a list of pieces");
    size_t place = 0;
    for (size_t i = 0; i < layout->cell_count; i++) {
        struct state_cell *cell = &layout->cells[i];
        if (!cell->holder_count)
            return report_missing(layout, cell->array, cell->parameter, cell->first, error);
        cell->holders = layout->holders + place;
        place += cell->holder_count;
        cell->holder_count = 0;
    }
    add_holders(layout, records, count);
    return WEFT_OK;
}

/* ---- the layout ---- */

static int pieces_by_parameter(const void *left, const void *right)
{
    const struct state_piece *a = left, *b = right;
    return a->parameter < b->parameter ? -1 : a->parameter > b->parameter;
}

static struct state_layout *layout_allocate(weft_context *context, weft_comm *comm, const struct state_pieces *own)
{
    struct state_layout *layout = calloc(1, sizeof *layout);
    struct state_piece *pieces = calloc(own->count + 1, sizeof *pieces);
    if (!layout || !pieces) {
        free(pieces);
        free(layout);
        return NULL;
    }
    if (own->count) {
        memcpy(pieces, own->pieces, own->count * sizeof *pieces);
        qsort(pieces, own->count, sizeof *pieces, pieces_by_parameter);
    }
    *layout = (struct state_layout){
        .context = context,
        .comm = comm,
        .rank = (uint32_t)weft_comm_rank(comm),
        .ranks = (uint32_t)weft_comm_size(comm),
        .own = {.description = own->description, .pieces = pieces, .count = own->count},
    };
    return layout;
}

weft_status state_layout_open(weft_context *context, weft_comm *comm, const struct state_pieces *own,
                              struct state_layout **result, bool *speaks, struct error *error)
{
    struct state_record *records = NULL;
    size_t count = 0;
    struct state_layout *layout = layout_allocate(context, comm, own);
    weft_status status = layout ? WEFT_OK : error_memory(error, own->count * sizeof *own->pieces, "a list of pieces");
    status = agreement_reach(context, comm, status, error, speaks);
    if (status == WEFT_OK)
        status = exchange_records(layout, &records, &count, speaks, error);
    if (status == WEFT_OK) {
        status = cut_tensors(layout, records, count, error);
        if (status == WEFT_OK)
            status = list_holders(layout, records, count, error);
        status = agreement_reach(context, comm, status, error, speaks);
    }
    free(records);
    if (status != WEFT_OK) {
        state_layout_close(layout);
        return status;
    }
    *result = layout;
    return WEFT_OK;
}

void state_layout_close(struct state_layout *layout)
{
    if (!layout)
        return;
    free(layout->own.pieces);
    free(layout->cells);
    free(layout->holders);
    free(layout);
}

static int compare_rank(const void *key, const void *element)
{
    const uint32_t rank = *(const uint32_t *)key, holder = *(const uint32_t *)element;
    return rank < holder ? -1 : rank > holder;
}

bool state_cell_is_held(const struct state_cell *cell, uint32_t rank)
{
    return bsearch(&rank, cell->holders, cell->holder_count, sizeof rank, compare_rank) != NULL;
}

static int compare_cell(const void *key, const void *element)
{
    const struct state_cell *wanted = key, *cell = element;
    if (wanted->array != cell->array)
        return wanted->array < cell->array ? -1 : 1;
    if (wanted->parameter != cell->parameter)
        return wanted->parameter < cell->parameter ? -1 : 1;
    return wanted->first < cell->first ? -1 : wanted->first >= cell->first + cell->count;
}

const struct state_cell *state_layout_cell(const struct state_layout *layout, enum state_array array,
                                           uint32_t parameter, size_t element)
{
    const struct state_cell wanted = {.array = array, .parameter = parameter, .first = element};
    return bsearch(&wanted, layout->cells, layout->cell_count, sizeof wanted, compare_cell);
}

bool state_layout_continues(const struct state_layout *layout, const struct state_cell *cell, enum state_array array,
                            uint32_t parameter)
{
    return cell < layout->cells + layout->cell_count && cell->array == array && cell->parameter == parameter;
}

float *state_layout_find(const struct state_layout *layout, enum state_array array, uint32_t parameter, size_t first,
                         size_t count)
{
    size_t low = 0, high = layout->own.count;
    while (low < high) { /* the parameter's first piece */
        const size_t middle = low + (high - low) / 2;
        if (layout->own.pieces[middle].parameter < parameter)
            low = middle + 1;
        else
            high = middle;
    }
    for (; low < layout->own.count && layout->own.pieces[low].parameter == parameter; low++) {
        const struct state_piece *piece = &layout->own.pieces[low];
        float *data = piece_array(piece, array);
        if (data && piece->first <= first && first + count <= piece->first + piece->count)
            return data + (first - piece->first);
    }
    return NULL;
}
