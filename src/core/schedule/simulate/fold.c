/* SPDX-License-Identifier: Apache-2.0 */
#include "core/schedule/simulate/internal/fold.h"

#include "core/schedule/simulate/internal/simulation.h"

#include <stdlib.h>
#include <string.h>

/* Steps of other nodes that are compared with those of the first; beyond them, a sample of nodes. */
#define STEPS_COMPARED 50000

static uint32_t fold_rotation(const struct simulated_fold *fold, uint32_t from_place, uint32_t to_place)
{
    uint32_t difference = 0, scale = 1;
    for (uint32_t level = 0; level <= SHAPE_LEVELS && scale < fold->nodes; level++) {
        uint32_t radix = fold->radix[level], from = from_place % radix, to = to_place % radix;
        difference += (to < from ? to + radix - from : to - from) * scale;
        from_place /= radix;
        to_place /= radix;
        scale *= radix;
    }
    return difference;
}

uint32_t fold_difference(const struct simulated_fold *fold, uint32_t from_place, uint32_t to_place)
{
    return fold->kind == FOLD_EXCLUSIVE_OR ? from_place ^ to_place : fold_rotation(fold, from_place, to_place);
}

void fold_close(struct simulated_fold *fold)
{
    for (uint32_t i = 0; fold->schedules && i < fold->ranks; i++)
        schedule_free(fold->schedules[i]);
    free(fold->schedules);
    free(fold->class_of);
    *fold = (struct simulated_fold){0};
}

/* ---- places ---- */

/* Numbers of `count` members within their units (NULL: all in one), and how many each unit has; 0: not equally many. */
static uint32_t fold_number(const uint32_t *unit_of, uint32_t count, uint32_t *sizes, uint32_t *number)
{
    uint32_t units = 0;
    for (uint32_t i = 0; i < count; i++) {
        uint32_t unit = unit_of ? unit_of[i] : 0;
        for (; units <= unit; units++)
            sizes[units] = 0;
        number[i] = sizes[unit]++;
    }
    for (uint32_t unit = 1; unit < units; unit++)
        if (sizes[unit] != sizes[0])
            return 0;
    return sizes[0];
}

/* The coordinates of all nodes, on levels that have links of their own. False: they are not alike. */
static bool fold_place(struct simulated_fold *fold, const struct schedule_shape *shape,
                       const struct simulated_cluster *cluster, uint32_t *sizes, uint32_t *number)
{
    uint32_t levels = 1, count = shape_units(shape, 0);
    while (levels < shape_levels(shape) && cluster->above[levels - 1].bandwidth > 0)
        levels++;
    fold->nodes = count;
    fold->ranks = fold_number(shape->nodes, shape->ranks, sizes, fold->class_of);
    if (!fold->ranks || fold->ranks > FOLD_RANKS || fold->nodes > FOLD_NODES)
        return false;
    uint32_t scale = 1, *place_of_node = fold->rotated;
    memset(place_of_node, 0, count * sizeof *place_of_node);
    for (uint32_t level = 0; level <= SHAPE_LEVELS; level++) {
        fold->radix[level] = 1;
        if (level >= levels)
            continue;
        uint32_t units = shape_units(shape, level);
        fold->radix[level] = fold_number(level + 1 < levels ? shape->above[level] : NULL, units, sizes, number);
        if (!fold->radix[level])
            return false;
        for (uint32_t node = 0; node < count; node++) {
            uint32_t unit = node;
            for (uint32_t below = 0; below < level; below++)
                unit = shape->above[below][unit];
            place_of_node[node] += scale * number[unit];
        }
        scale *= fold->radix[level];
    }
    for (uint32_t rank = 0; rank < shape->ranks; rank++) {
        fold->place_of[rank] = place_of_node[shape->nodes[rank]];
        fold->rank_at[fold->place_of[rank] * fold->ranks + fold->class_of[rank]] = rank;
    }
    return place_of_node[0] == 0;
}

/* ---- comparing schedules ---- */

/* Bytes of parts of a block in one iteration: schedule_parts() with its division done. */
struct fold_parts {
    uint64_t bytes, width;
};

struct fold_comparison {
    const struct simulated_fold *fold;
    const struct schedule *first, *other; /* of the first node, and of the same rank of another */
    uint32_t place;                       /* of the other node */
    const uint32_t *rotated;              /* by place: where it is seen from there, rotated */
    struct fold_parts parts[2];           /* of a whole iteration, and of the last */
};

static bool same_groups(const struct fold_comparison *with, uint32_t first, uint32_t other)
{
    const struct simulated_fold *fold = with->fold;
    const struct schedule_group *a = &with->first->groups[first], *b = &with->other->groups[other];
    if (a->count != b->count)
        return false;
    for (uint32_t i = 0; i < a->count; i++) {
        uint32_t of_first = with->first->members[a->first + i], of_other = with->other->members[b->first + i];
        if (fold->place_of[of_first] != 0 || fold->place_of[of_other] != with->place ||
            fold->class_of[of_first] != fold->class_of[of_other])
            return false;
    }
    return true;
}

/* The symmetries, of `kinds`, that take the first's peer to the other's. */
static unsigned same_peer(const struct fold_comparison *with, uint32_t first, uint32_t other, unsigned kinds)
{
    const struct simulated_fold *fold = with->fold;
    uint32_t from = fold->place_of[first], to = fold->place_of[other];
    unsigned rotates = with->rotated[to] == from, excludes = (with->place ^ to) == from;
    return fold->class_of[first] == fold->class_of[other]
               ? kinds & (rotates << FOLD_ROTATION | excludes << FOLD_EXCLUSIVE_OR)
               : 0;
}

static unsigned same_peers(const struct fold_comparison *with, const struct step *first, const struct step *other,
                           unsigned kinds)
{
    switch (first->kind) {
    case STEP_COPY:
    case STEP_REDUCE:
    case STEP_FINISH:
    case STEP_EXPOSE:
        return kinds;
    case STEP_SEND:
    case STEP_RECEIVE:
    case STEP_RECEIVE_REDUCE:
    case STEP_READ:
    case STEP_DELIVER:
        return same_peer(with, first->peer, other->peer, kinds);
    case STEP_REDUCE_SPREAD:
        return same_groups(with, first->peer, other->peer) && same_groups(with, first->operands, other->operands)
                   ? kinds
                   : 0;
    default:
        return same_groups(with, first->peer, other->peer) ? kinds : 0;
    }
}

static struct fold_parts fold_parts_of(const struct schedule *schedule, uint64_t block_bytes, uint64_t iteration)
{
    uint64_t bytes = block_bytes;
    if (schedule->segment_bytes && bytes > schedule->segment_bytes) {
        bytes -= iteration * schedule->segment_bytes;
        bytes = bytes < schedule->segment_bytes ? bytes : schedule->segment_bytes;
    }
    return (struct fold_parts){bytes, schedule_width(bytes, schedule->parts)};
}

/* simulation_step_bytes() of an iteration. */
static uint64_t fold_step_bytes(const struct fold_comparison *with, const struct step *step, uint32_t iteration)
{
    const struct fold_parts *parts = &with->parts[iteration];
    if (with->first->parts == 1)
        return parts->bytes * step->chunks;
    uint64_t first = step->value * parts->width, last = first + step->chunks * parts->width;
    return (last < parts->bytes ? last : parts->bytes) - (first < parts->bytes ? first : parts->bytes);
}

/* Whether steps move equal bytes, in whole segments and in the last. */
static bool same_bytes(const struct fold_comparison *with, const struct step *a, const struct step *b)
{
    return (a->chunks == b->chunks && a->value == b->value) ||
           (fold_step_bytes(with, a, 0) == fold_step_bytes(with, b, 0) &&
            fold_step_bytes(with, a, 1) == fold_step_bytes(with, b, 1));
}

static unsigned same_steps(const struct fold_comparison *with, const struct step *a, const struct step *b,
                           unsigned kinds)
{
    bool groups_of_operands = a->kind == STEP_REDUCE_SPREAD;
    if (a->kind != b->kind || (a->flags ^ b->flags) & (unsigned)~STEP_RECEIVED_FIRST || a->wait_lane != b->wait_lane ||
        a->wait_lag != b->wait_lag || a->wait_steps != b->wait_steps || a->channel != b->channel ||
        a->value_lag != b->value_lag || a->stride != b->stride || (!groups_of_operands && a->operands != b->operands) ||
        (a->kind == STEP_AWAIT && a->value != b->value) || !same_bytes(with, a, b))
        return 0;
    return same_peers(with, a, b, kinds);
}

/* The symmetries, of `kinds`, that take the first schedule to the other. */
static unsigned same_schedules(const struct fold_comparison *with, unsigned kinds)
{
    const struct schedule *a = with->first, *b = with->other;
    if (a->input_blocks != b->input_blocks || a->output_blocks != b->output_blocks || a->parts != b->parts ||
        a->segment_bytes != b->segment_bytes || a->lane_count != b->lane_count || a->step_count != b->step_count ||
        memcmp(a->lane_first, b->lane_first, (a->lane_count + 1) * sizeof *a->lane_first) != 0)
        return 0;
    for (uint32_t i = 0; i < a->step_count && kinds; i++)
        kinds = same_steps(with, &a->steps[i], &b->steps[i], kinds);
    return kinds;
}

/* Whether the node at `place` does what the first does, under either symmetry: those that hold stay in *kinds. */
static weft_status fold_compare(struct simulated_fold *fold, const struct schedule_generator *generator, uint32_t place,
                                unsigned *kinds, struct error *error)
{
    weft_status status = WEFT_OK;
    for (uint32_t other = 0; other < fold->nodes; other++)
        fold->rotated[other] = fold_rotation(fold, place, other);
    for (uint32_t i = 0; i < fold->ranks && *kinds && status == WEFT_OK; i++) {
        struct schedule *other = NULL;
        const struct schedule *first = fold->schedules[i];
        status = generator_write(generator, fold->rank_at[place * fold->ranks + i], &other, error);
        if (status != WEFT_OK)
            return status;
        uint64_t block = generator->shape->block_bytes, last = schedule_iterations(first, block) - 1;
        const struct fold_comparison with = {
            fold,  first,         other,
            place, fold->rotated, {fold_parts_of(first, block, 0), fold_parts_of(first, block, last)}};
        *kinds = same_schedules(&with, *kinds);
        schedule_free(other);
    }
    return status;
}

/* ---- the whole ---- */

static bool power_of_two(uint32_t n)
{
    return !(n & (n - 1));
}

/* The places to compare: all, or near powers of two, where algorithms change; from `place` on. */
static bool fold_looks_at(const struct simulated_fold *fold, uint32_t place, bool all)
{
    return all || power_of_two(place) || power_of_two(place + 1) || place + 1 == fold->nodes ||
           place == fold->nodes / 2 || place == fold->radix[0] + 1;
}

static weft_status fold_find(struct simulated_fold *fold, const struct algorithm *algorithm,
                             const struct schedule_shape *shape, bool *found, struct error *error)
{
    weft_status status = WEFT_OK;
    uint64_t steps = 0;
    fold->schedules = calloc(fold->ranks, sizeof *fold->schedules);
    if (!fold->schedules)
        return error_memory(error, fold->ranks * sizeof *fold->schedules, "the schedules of a node");
    struct schedule_generator generator;
    status = generator_open(&generator, algorithm, shape, error);
    for (uint32_t i = 0; i < fold->ranks && status == WEFT_OK; i++) {
        status = generator_write(&generator, fold->rank_at[i], &fold->schedules[i], error);
        steps += status == WEFT_OK ? fold->schedules[i]->step_count : 0;
    }
    bool powers = power_of_two(fold->radix[0]) && power_of_two(fold->radix[1]) && power_of_two(fold->radix[2]);
    unsigned kinds = powers ? 3 : 1;
    bool all = steps * fold->nodes <= STEPS_COMPARED;
    for (uint32_t place = 1; place < fold->nodes && kinds && status == WEFT_OK; place++)
        if (fold_looks_at(fold, place, all))
            status = fold_compare(fold, &generator, place, &kinds, error);
    *found = status == WEFT_OK && kinds;
    fold->kind = kinds & 1 ? FOLD_ROTATION : FOLD_EXCLUSIVE_OR;
    return status;
}

weft_status fold_open(struct simulated_fold *fold, const struct algorithm *algorithm,
                      const struct schedule_shape *shape, const struct simulated_cluster *cluster, struct error *error)
{
    *fold = (struct simulated_fold){0};
    bool found = false;
    if (!shape->nodes || shape_units(shape, 0) == 1 || cluster->disturbance || cluster->sharing > 1)
        return WEFT_OK;
    size_t bytes = (size_t)6 * shape->ranks * sizeof(uint32_t);
    uint32_t *maps = fold->class_of = malloc(bytes);
    if (!maps)
        return error_memory(error, bytes, "the places of nodes");
    fold->place_of = maps + shape->ranks;
    fold->rank_at = fold->place_of + shape->ranks;
    fold->rotated = fold->rank_at + shape->ranks;
    weft_status status = WEFT_OK;
    if (fold_place(fold, shape, cluster, fold->rotated + shape->ranks, fold->rotated + (size_t)2 * shape->ranks))
        status = fold_find(fold, algorithm, shape, &found, error);
    if (!found)
        fold_close(fold);
    return status;
}
