/* SPDX-License-Identifier: Apache-2.0 */
#include "training/train/state/internal/checkpoint_parts.h"

#include <stdlib.h>
#include <string.h>

const char *const part_kind_names[PART_KINDS] = {"model", "optimizer"};

static enum part_kind part_kind_of(enum state_array array)
{
    return array == STATE_VALUES ? PART_MODEL : PART_OPTIMIZER;
}

/* ---- tensors ---- */

/* A tensor of one array, to be assigned. */
struct part_tensor {
    const struct state_cell *cells; /* consecutive, and whole tensors together */
    size_t cell_count, elements;
    uint32_t candidates; /* ranks that may write it whole */
    bool cut;            /* moments that no rank may write whole */
};

/* The allowed rank with the smallest load: one that holds all of the tensor, else one that holds some, else any. `held`
 * is scratch, one number for each rank. */
static uint32_t least_loaded(const struct state_layout *layout, const struct part_tensor *tensor, const bool *allowed,
                             const uint64_t *loads, size_t *held)
{
    uint32_t all = UINT32_MAX, some = UINT32_MAX, any = UINT32_MAX;
    memset(held, 0, layout->ranks * sizeof *held);
    for (size_t i = 0; i < tensor->cell_count; i++)
        for (uint32_t holder = 0; holder < tensor->cells[i].holder_count; holder++)
            held[tensor->cells[i].holders[holder]]++;
    for (uint32_t rank = 0; rank < layout->ranks; rank++) {
        if (!allowed[rank])
            continue;
        if (held[rank] == tensor->cell_count && (all == UINT32_MAX || loads[rank] < loads[all]))
            all = rank;
        if (held[rank] && (some == UINT32_MAX || loads[rank] < loads[some]))
            some = rank;
        if (any == UINT32_MAX || loads[rank] < loads[any])
            any = rank;
    }
    return all != UINT32_MAX ? all : some != UINT32_MAX ? some : any;
}

/* The lowest holder of the cell in `ranks`, or UINT32_MAX. */
static uint32_t lowest_holder(const struct state_cell *cell, const bool *ranks)
{
    for (uint32_t i = 0; i < cell->holder_count; i++)
        if (ranks[cell->holders[i]])
            return cell->holders[i];
    return UINT32_MAX;
}

static bool is_held_whole(const struct part_tensor *tensor, uint32_t rank)
{
    size_t i = 0;
    while (i < tensor->cell_count && state_cell_is_held(&tensor->cells[i], rank))
        i++;
    return i == tensor->cell_count;
}

static struct part_tensor describe_tensor(const struct state_layout *layout, const struct state_cell *cell,
                                          const bool *allowed)
{
    struct part_tensor tensor = {.cells = cell};
    bool covered = true;
    for (; state_layout_continues(layout, cell, tensor.cells->array, tensor.cells->parameter); cell++) {
        covered = covered && lowest_holder(cell, allowed) != UINT32_MAX;
        tensor.cell_count++;
        tensor.elements += cell->count;
    }
    for (uint32_t i = 0; i < tensor.cells->holder_count; i++) {
        const uint32_t rank = tensor.cells->holders[i];
        tensor.candidates += allowed[rank] && is_held_whole(&tensor, rank);
    }
    tensor.cut = tensor.cells->array != STATE_VALUES && !tensor.candidates && covered;
    return tensor;
}

/* Tensors that leave no choice, cut moments among them; then weights; then moments. Largest first; ties are in the
 * order of the layout. */
static int in_order_of_assignment(const void *left, const void *right)
{
    const struct part_tensor *a = left, *b = right;
    const bool a_free = !a->cut && a->candidates != 1, b_free = !b->cut && b->candidates != 1;
    if (a_free != b_free)
        return a_free ? 1 : -1;
    const enum part_kind a_kind = part_kind_of(a->cells->array), b_kind = part_kind_of(b->cells->array);
    if (a_kind != b_kind)
        return a_kind < b_kind ? -1 : 1;
    if (a->elements != b->elements)
        return a->elements > b->elements ? -1 : 1;
    return a->cells < b->cells ? -1 : a->cells > b->cells;
}

/* ---- assignment ---- */

static void ranges_add(struct state_ranges *ranges, const struct state_cell *cell, size_t count, uint32_t rank,
                       uint64_t *loads)
{
    struct state_range *last = ranges->count ? &ranges->ranges[ranges->count - 1] : NULL;
    loads[rank] += count * sizeof(float);
    if (last && last->array == cell->array && last->parameter == cell->parameter && last->rank == rank &&
        last->first + last->count == cell->first)
        last->count += count;
    else
        ranges->ranges[ranges->count++] = (struct state_range){
            .array = cell->array, .parameter = cell->parameter, .first = cell->first, .count = count, .rank = rank};
}

static uint32_t least_loaded_holder(const struct state_cell *cell, const bool *allowed, const uint64_t *loads)
{
    uint32_t least = UINT32_MAX;
    for (uint32_t i = 0; i < cell->holder_count; i++) {
        const uint32_t rank = cell->holders[i];
        if (allowed[rank] && (least == UINT32_MAX || loads[rank] < loads[least]))
            least = rank;
    }
    return least;
}

/* Each cell to a rank that holds it. Returns false, and assigns nothing, if some rank would have two ranges: a file has
 * a name only once. */
static bool assign_cut(const struct part_tensor *tensor, const bool *allowed, uint64_t *loads,
                       struct state_ranges *ranges)
{
    const size_t begin = ranges->count;
    uint32_t rank = UINT32_MAX;
    bool once = true;
    for (size_t i = 0; i < tensor->cell_count; i++) {
        const struct state_cell *cell = &tensor->cells[i];
        if (rank == UINT32_MAX || !state_cell_is_held(cell, rank)) /* else the last one's range grows */
            rank = least_loaded_holder(cell, allowed, loads);
        ranges_add(ranges, cell, cell->count, rank, loads);
    }
    for (size_t i = begin; once && i < ranges->count; i++)
        for (size_t j = i + 1; once && j < ranges->count; j++)
            once = ranges->ranges[i].rank != ranges->ranges[j].rank;
    for (size_t i = begin; !once && i < ranges->count; i++)
        loads[ranges->ranges[i].rank] -= ranges->ranges[i].count * sizeof(float);
    if (!once)
        ranges->count = begin;
    return once;
}

weft_status checkpoint_parts_assign(const struct state_layout *layout, const bool *allowed, uint64_t *loads,
                                    struct state_ranges *ranges, struct error *error)
{
    struct part_tensor *tensors = calloc(layout->cell_count + 1, sizeof *tensors);
    size_t *held = calloc(layout->ranks, sizeof *held), count = 0;
    if (!tensors || !held) {
        free(tensors);
        free(held);
        return error_memory(error, layout->cell_count * sizeof *tensors, "a list of tensors");
    }
    for (size_t i = 0; i < layout->cell_count; i += tensors[count++].cell_count)
        tensors[count] = describe_tensor(layout, &layout->cells[i], allowed);
    if (count)
        qsort(tensors, count, sizeof *tensors, in_order_of_assignment);
    ranges->count = 0;
    for (size_t i = 0; i < count; i++)
        if (!tensors[i].cut || !assign_cut(&tensors[i], allowed, loads, ranges))
            ranges_add(ranges, tensors[i].cells, tensors[i].elements,
                       least_loaded(layout, &tensors[i], allowed, loads, held), loads);
    free(held);
    free(tensors);
    return WEFT_OK;
}

/* ---- writers ---- */

unsigned checkpoint_parts_writers(uint64_t bytes, uint64_t least, unsigned most)
{
    uint64_t files = least ? bytes / least : most;
    return files < 1 ? 1 : files < most ? (unsigned)files : most;
}

/* The first ranks that see the directory; then those that others' elements take. */
static void choose_writers(const struct state_layout *layout, const bool *sees, uint64_t bytes, uint64_t least,
                           bool *allowed)
{
    unsigned seeing = 0;
    bool reached = true;
    for (uint32_t rank = 0; rank < layout->ranks; rank++)
        seeing += sees[rank];
    for (size_t i = 0; i < layout->cell_count; i++)
        reached = reached && lowest_holder(&layout->cells[i], sees) != UINT32_MAX;
    const unsigned writers = reached ? checkpoint_parts_writers(bytes, least, seeing) : 1;
    unsigned chosen = 0;
    for (uint32_t rank = 0; chosen < writers; rank++)
        if (sees[rank]) {
            allowed[rank] = true;
            chosen++;
        }
    for (size_t i = 0; writers > 1 && i < layout->cell_count; i++)
        if (lowest_holder(&layout->cells[i], allowed) == UINT32_MAX)
            allowed[lowest_holder(&layout->cells[i], sees)] = true;
}

/* ---- files ---- */

/* Divide the ranges by kind. */
static weft_status split_ranges(struct checkpoint_parts *parts, const struct state_ranges *all, struct error *error)
{
    for (int kind = 0; kind < PART_KINDS; kind++) {
        struct state_ranges *ranges = &parts->ranges[kind];
        ranges->ranges = calloc(all->count + 1, sizeof *ranges->ranges);
        if (!ranges->ranges)
            return error_memory(error, all->count * sizeof *ranges->ranges, "the parts of a checkpoint");
        for (size_t i = 0; i < all->count; i++)
            if (part_kind_of(all->ranges[i].array) == (enum part_kind)kind)
                ranges->ranges[ranges->count++] = all->ranges[i];
    }
    return WEFT_OK;
}

/* Number the files of each kind over the ranks that have anything in it, and list the places of the model's tensors. */
static weft_status number_files(struct checkpoint_parts *parts, const struct state_layout *layout, struct error *error)
{
    const struct state_ranges *model = &parts->ranges[PART_MODEL];
    unsigned *numbers = calloc(layout->ranks, sizeof *numbers);
    parts->places = calloc(model->count + 1, sizeof *parts->places);
    if (!numbers || !parts->places) {
        free(numbers);
        return error_memory(error, model->count * sizeof *parts->places, "the index of a checkpoint");
    }
    for (int kind = PART_KINDS; kind-- > 0;) { /* the model's last: `numbers` stay */
        memset(numbers, 0, layout->ranks * sizeof *numbers);
        for (size_t i = 0; i < parts->ranges[kind].count; i++)
            numbers[parts->ranges[kind].ranges[i].rank] = 1;
        parts->writes[kind] = numbers[layout->rank];
        for (uint32_t rank = 0; rank < layout->ranks; rank++)
            if (numbers[rank])
                numbers[rank] = parts->parts[kind]++;
        parts->number[kind] = numbers[layout->rank];
    }
    for (size_t i = 0; i < model->count; i++)
        parts->places[i] =
            (struct checkpoint_place){.tensor = layout->own.description->parameters[model->ranges[i].parameter].name,
                                      .part = numbers[model->ranges[i].rank]};
    parts->place_count = model->count;
    free(numbers);
    return WEFT_OK;
}

weft_status checkpoint_parts_open(struct checkpoint_parts *parts, const struct state_layout *layout, const bool *sees,
                                  uint64_t least, struct error *error)
{
    *parts = (struct checkpoint_parts){0};
    for (size_t i = 0; i < layout->cell_count; i++) {
        const uint64_t bytes = layout->cells[i].count * sizeof(float);
        parts->bytes += bytes;
        parts->model_bytes += layout->cells[i].array == STATE_VALUES ? bytes : 0;
    }
    struct state_ranges all = {.ranges = calloc(layout->cell_count + 1, sizeof *all.ranges)};
    bool *allowed = calloc(layout->ranks, sizeof *allowed);
    uint64_t *loads = calloc(layout->ranks, sizeof *loads);
    weft_status status = all.ranges && allowed && loads ? WEFT_OK
                                                        : error_memory(error, layout->cell_count * sizeof *all.ranges,
                                                                       "the parts of a checkpoint");
    if (status == WEFT_OK) {
        choose_writers(layout, sees, parts->bytes, least, allowed);
        status = checkpoint_parts_assign(layout, allowed, loads, &all, error);
    }
    if (status == WEFT_OK)
        status = split_ranges(parts, &all, error);
    if (status == WEFT_OK)
        status = number_files(parts, layout, error);
    free(loads);
    free(allowed);
    free(all.ranges);
    return status;
}

void checkpoint_parts_close(struct checkpoint_parts *parts)
{
    for (int kind = 0; kind < PART_KINDS; kind++)
        free(parts->ranges[kind].ranges);
    free(parts->places);
    *parts = (struct checkpoint_parts){0};
}
