/* SPDX-License-Identifier: Apache-2.0 */
#include "core/schedule/simulate/internal/fold.h"

#include "core/schedule/simulate/internal/simulation.h"

#include <stdlib.h>
#include <string.h>

/* Steps of other nodes that are compared with those of the first; beyond them, a sample of nodes. */
#define STEPS_COMPARED 200000

uint32_t fold_difference(const struct simulated_fold *fold, uint32_t from_place, uint32_t to_place)
{
    if (fold->kind == FOLD_EXCLUSIVE_OR)
        return from_place ^ to_place;
    uint32_t difference = 0, scale = 1;
    for (uint32_t level = 0; level <= SHAPE_LEVELS; level++) {
        uint32_t radix = fold->radix[level];
        difference += (to_place % radix + radix - from_place % radix) % radix * scale;
        from_place /= radix;
        to_place /= radix;
        scale *= radix;
    }
    return difference;
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
    memset(fold->place_of, 0, count * sizeof *fold->place_of);
    uint32_t scale = 1;
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
            fold->place_of[node] += scale * number[unit];
        }
        scale *= fold->radix[level];
    }
    for (uint32_t rank = 0; rank < shape->ranks; rank++)
        fold->rank_at[fold->place_of[shape->nodes[rank]] * fold->ranks + fold->class_of[rank]] = rank;
    return fold->place_of[0] == 0;
}

/* ---- comparing schedules ---- */

struct fold_comparison {
    const struct simulated_fold *fold;
    const struct schedule_shape *shape;
    const struct schedule *first, *other; /* of the first node, and of the same rank of another */
};

static uint32_t fold_place_of(const struct fold_comparison *with, uint32_t rank)
{
    return with->fold->place_of[with->shape->nodes[rank]];
}

static bool same_groups(const struct fold_comparison *with, uint32_t first, uint32_t other)
{
    const struct schedule_group *a = &with->first->groups[first], *b = &with->other->groups[other];
    if (a->count != b->count)
        return false;
    for (uint32_t i = 0; i < a->count; i++) {
        uint32_t of_first = with->first->members[a->first + i], of_other = with->other->members[b->first + i];
        if (fold_place_of(with, of_first) != 0 ||
            fold_place_of(with, of_other) != fold_place_of(with, with->other->rank) ||
            with->fold->class_of[of_first] != with->fold->class_of[of_other])
            return false;
    }
    return true;
}

static bool same_peers(const struct fold_comparison *with, const struct step *first, const struct step *other)
{
    const struct simulated_fold *fold = with->fold;
    switch (first->kind) {
    case STEP_COPY:
    case STEP_REDUCE:
    case STEP_FINISH:
    case STEP_EXPOSE:
        return true;
    case STEP_SEND:
    case STEP_RECEIVE:
    case STEP_RECEIVE_REDUCE:
    case STEP_READ:
    case STEP_DELIVER:
        return fold->class_of[first->peer] == fold->class_of[other->peer] &&
               fold_difference(fold, fold_place_of(with, with->first->rank), fold_place_of(with, first->peer)) ==
                   fold_difference(fold, fold_place_of(with, with->other->rank), fold_place_of(with, other->peer));
    case STEP_REDUCE_SPREAD:
        return same_groups(with, first->peer, other->peer) && same_groups(with, first->operands, other->operands);
    default:
        return same_groups(with, first->peer, other->peer);
    }
}

static bool same_steps(const struct fold_comparison *with, const struct step *a, const struct step *b)
{
    bool groups_of_operands = a->kind == STEP_REDUCE_SPREAD;
    if (a->kind != b->kind || (a->flags ^ b->flags) & (unsigned)~STEP_RECEIVED_FIRST || a->wait_lane != b->wait_lane ||
        a->wait_lag != b->wait_lag || a->wait_steps != b->wait_steps || a->channel != b->channel ||
        a->value_lag != b->value_lag || a->stride != b->stride || (!groups_of_operands && a->operands != b->operands) ||
        (a->kind == STEP_AWAIT && a->value != b->value))
        return false;
    /* Equal bytes, in whole segments and in the last. */
    uint64_t block = with->shape->block_bytes;
    uint32_t last = (uint32_t)schedule_iterations(with->first, block) - 1;
    return simulation_step_bytes(with->first, a, block, 0) == simulation_step_bytes(with->other, b, block, 0) &&
           simulation_step_bytes(with->first, a, block, last) == simulation_step_bytes(with->other, b, block, last) &&
           same_peers(with, a, b);
}

static bool same_schedules(const struct fold_comparison *with)
{
    const struct schedule *a = with->first, *b = with->other;
    if (a->input_blocks != b->input_blocks || a->output_blocks != b->output_blocks || a->parts != b->parts ||
        a->segment_bytes != b->segment_bytes || a->lane_count != b->lane_count || a->step_count != b->step_count ||
        memcmp(a->lane_first, b->lane_first, (a->lane_count + 1) * sizeof *a->lane_first) != 0)
        return false;
    for (uint32_t i = 0; i < a->step_count; i++)
        if (!same_steps(with, &a->steps[i], &b->steps[i]))
            return false;
    return true;
}

/* Whether the node at `place` does what the first does, under either symmetry: those that hold stay in *kinds. */
static weft_status fold_compare(struct simulated_fold *fold, const struct algorithm *algorithm,
                                const struct schedule_shape *shape, uint32_t place, unsigned *kinds,
                                struct error *error)
{
    weft_status status = WEFT_OK;
    for (uint32_t i = 0; i < fold->ranks && *kinds && status == WEFT_OK; i++) {
        struct schedule *other = NULL;
        status = schedule_generate(algorithm, shape, fold->rank_at[place * fold->ranks + i], &other, error);
        for (uint32_t kind = 0; status == WEFT_OK && kind < 2; kind++) {
            const struct fold_comparison with = {fold, shape, fold->schedules[i], other};
            fold->kind = (enum fold_kind)kind;
            if (*kinds & 1u << kind && !same_schedules(&with))
                *kinds &= ~(1u << kind);
        }
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
    for (uint32_t i = 0; i < fold->ranks && status == WEFT_OK; i++) {
        status = schedule_generate(algorithm, shape, fold->rank_at[i], &fold->schedules[i], error);
        steps += status == WEFT_OK ? fold->schedules[i]->step_count : 0;
    }
    bool powers = power_of_two(fold->radix[0]) && power_of_two(fold->radix[1]) && power_of_two(fold->radix[2]);
    unsigned kinds = powers ? 3 : 1;
    bool all = steps * fold->nodes <= STEPS_COMPARED;
    for (uint32_t place = 1; place < fold->nodes && kinds && status == WEFT_OK; place++)
        if (fold_looks_at(fold, place, all))
            status = fold_compare(fold, algorithm, shape, place, &kinds, error);
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
    size_t bytes = (size_t)5 * shape->ranks * sizeof(uint32_t);
    uint32_t *maps = fold->class_of = malloc(bytes);
    if (!maps)
        return error_memory(error, bytes, "the places of nodes");
    fold->place_of = maps + shape->ranks;
    fold->rank_at = fold->place_of + shape->ranks;
    weft_status status = WEFT_OK;
    if (fold_place(fold, shape, cluster, fold->rank_at + shape->ranks, fold->rank_at + (size_t)2 * shape->ranks))
        status = fold_find(fold, algorithm, shape, &found, error);
    if (!found)
        fold_close(fold);
    return status;
}
