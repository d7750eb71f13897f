/* SPDX-License-Identifier: Apache-2.0 */
/* Hierarchies of more than two levels: the least bytes cross every level, in the canonical order where units are
 * subtrees. */
#include "core/schedule/verify/sweep.h"
#include "core/schedule/verify/verify.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#define MOST 64

/* `ranks` ranks on nodes of `node`, leaves of `leaf` nodes, pods of `pod` leaves (0: no pods). */
struct place {
    uint32_t ranks, node, leaf, pod;
    uint32_t nodes[MOST], leaves[MOST], pods[MOST];
};

static struct schedule_shape shape_on(struct place *place, enum collective collective, uint64_t block_bytes)
{
    for (uint32_t i = 0; i < place->ranks; i++) {
        place->nodes[i] = i / place->node;
        place->leaves[i] = i / place->leaf;
        place->pods[i] = place->pod ? i / place->pod : 0;
    }
    return (struct schedule_shape){.collective = collective,
                                   .ranks = place->ranks,
                                   .nodes = place->nodes,
                                   .above = {place->leaves, place->pod ? place->pods : NULL},
                                   .block_bytes = block_bytes};
}

/* Bytes of messages that leave (or enter) a unit of a level. */
static uint64_t bytes_across(struct schedule **schedules, const struct schedule_shape *shape, uint32_t level,
                             uint32_t unit, bool leaving)
{
    uint64_t bytes = 0;
    for (uint32_t rank = 0; rank < shape->ranks; rank++) {
        const struct schedule *schedule = schedules[rank];
        for (uint32_t i = 0; i < schedule->step_count; i++) {
            const struct step *step = &schedule->steps[i];
            if (step->kind != STEP_SEND)
                continue;
            uint32_t from = shape_unit(shape, level, rank), to = shape_unit(shape, level, step->peer);
            if (from != to && (leaving ? from : to) == unit)
                bytes += schedule->parts == 1
                             ? shape->block_bytes * step->chunks
                             : schedule_parts(shape->block_bytes, schedule->parts, step->value, step->chunks).bytes;
        }
    }
    return bytes;
}

static struct schedule **schedules_by(const char *algorithm, const struct schedule_shape *shape)
{
    struct schedule **schedules = NULL;
    struct error error = {0};
    if (sweep_generate(algorithm_find(shape->collective, algorithm, &error), shape, &schedules, &error) != WEFT_OK)
        fail_msg("%s", error.text);
    return schedules;
}

static const struct place places[] = {
    {.ranks = 4, .node = 1, .leaf = 2},
    {.ranks = 8, .node = 2, .leaf = 2},
    {.ranks = 12, .node = 2, .leaf = 3},
    {.ranks = 24, .node = 2, .leaf = 4},
    {.ranks = 16, .node = 2, .leaf = 2, .pod = 2},
    {.ranks = 54, .node = 3, .leaf = 3, .pod = 3},
};

/* 2 (N - 1) / N of the data leave and enter each of the N units of every level; (N - 1) / N in its two halves. */
static void every_level_carries_the_least_bytes(void **state)
{
    static const struct {
        enum collective collective;
        uint64_t times;
    } cases[] = {{COLLECTIVE_ALLREDUCE, 2}, {COLLECTIVE_REDUCE_SCATTER, 1}, {COLLECTIVE_ALLGATHER, 1}};
    for (size_t p = 0; p < sizeof places / sizeof *places; p++) {
        for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
            struct place place = places[p];
            uint64_t whole = (uint64_t)64 * place.ranks * 6;
            bool in_blocks = cases[i].collective != COLLECTIVE_ALLREDUCE;
            struct schedule_shape shape =
                shape_on(&place, cases[i].collective, in_blocks ? whole / place.ranks : whole);
            struct schedule **schedules = schedules_by("multi-level", &shape);
            for (uint32_t level = 0; level < shape_levels(&shape); level++) {
                uint32_t units = shape_units(&shape, level);
                for (uint32_t unit = 0; unit < units; unit++)
                    for (int leaving = 0; leaving < 2; leaving++)
                        assert_true(bytes_across(schedules, &shape, level, unit, leaving) * units ==
                                    cases[i].times * (units - 1) * whole);
            }
            sweep_free(schedules, place.ranks);
        }
    }
}

/* Over a spine between two leaves of two nodes, others carry more: what this is for. */
static void two_levels_carry_more_over_the_spine(void **state)
{
    static const struct {
        const char *algorithm;
        uint64_t halves; /* of the data that leave each leaf */
    } cases[] = {{"multi-level", 2}, {"two-level", 4}, {"two-level-ring", 3}};
    struct place place = {.ranks = 8, .node = 2, .leaf = 2};
    uint64_t bytes = 1 << 16;
    struct schedule_shape shape = shape_on(&place, COLLECTIVE_ALLREDUCE, bytes);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct schedule **schedules = schedules_by(cases[i].algorithm, &shape);
        assert_true(bytes_across(schedules, &shape, 1, 0, true) == cases[i].halves * bytes / 2);
        sweep_free(schedules, place.ranks);
    }
}

/* What is broadcast enters every other unit once, what is reduced leaves it once. */
static void one_root_needs_each_link_once(void **state)
{
    static const struct {
        enum collective collective;
        const char *algorithm;
    } cases[] = {{COLLECTIVE_BROADCAST, "multi-level"},
                 {COLLECTIVE_BROADCAST, "multi-level-chain"},
                 {COLLECTIVE_REDUCE, "multi-level"}};
    for (size_t p = 0; p < sizeof places / sizeof *places; p++) {
        for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
            struct place place = places[p];
            struct schedule_shape shape = shape_on(&place, cases[i].collective, 1024);
            shape.root = place.ranks / 2 + 1;
            struct schedule **schedules = schedules_by(cases[i].algorithm, &shape);
            bool leaving = cases[i].collective == COLLECTIVE_REDUCE;
            for (uint32_t level = 0; level < shape_levels(&shape); level++)
                for (uint32_t unit = 0; unit < shape_units(&shape, level); unit++)
                    if (unit != shape_unit(&shape, level, shape.root) || !level)
                        assert_true(bytes_across(schedules, &shape, level, unit, leaving) ==
                                    (unit == shape_unit(&shape, level, shape.root) ? 0 : 1024));
            sweep_free(schedules, place.ranks);
        }
    }
}

static void units_that_are_subtrees_keep_the_canonical_order(void **state)
{
    const struct algorithm *algorithm = algorithm_find(COLLECTIVE_ALLREDUCE, "multi-level", NULL);
    struct place aligned = {.ranks = 24, .node = 2, .leaf = 4}, threes = {.ranks = 24, .node = 2, .leaf = 3};
    struct schedule_shape shape = shape_on(&aligned, COLLECTIVE_ALLREDUCE, 1 << 20);
    assert_true(algorithm->canonical(&shape));
    assert_null(algorithm_only_on_request(algorithm, &shape));
    shape = shape_on(&threes, COLLECTIVE_ALLREDUCE, 1 << 20);
    assert_false(algorithm->canonical(&shape));
    assert_null(algorithm_only_on_request(algorithm, &shape)); /* the fewest bytes come first */
    shape.reproducible = true;
    assert_non_null(algorithm_refuses(algorithm, &shape));
    shape = shape_on(&aligned, COLLECTIVE_ALLREDUCE, 1 << 20);
    for (uint32_t node = 0; node < 12; node++)
        aligned.leaves[node] = node % 3;
    assert_false(algorithm->canonical(&shape));
    assert_non_null(algorithm_only_on_request(algorithm, &shape));
}

static void shapes_without_leaves_are_refused_by_a_message(void **state)
{
    const struct algorithm *algorithm = algorithm_find(COLLECTIVE_ALLREDUCE, "multi-level", NULL);
    struct place place = {.ranks = 8, .node = 2, .leaf = 4};
    struct schedule_shape shape = shape_on(&place, COLLECTIVE_ALLREDUCE, 1 << 20);
    assert_string_equal(algorithm_refuses(algorithm, &shape), "all nodes are under one leaf");
    place.leaf = 1;
    shape = shape_on(&place, COLLECTIVE_ALLREDUCE, 1 << 20);
    assert_string_equal(algorithm_refuses(algorithm, &shape), "every leaf has one node only");
    shape.above[0] = NULL;
    assert_non_null(strstr(algorithm_refuses(algorithm, &shape), "leaves"));
}

/* A pod and leaves that do not divide evenly, and a thousand ranks. */
static void odd_and_large_hierarchies_are_proved(void **state)
{
    static uint32_t nodes[1000], leaves[1000], pods[1000];
    static const struct {
        uint32_t ranks, node, leaf, pod;
    } cases[] = {{1000, 8, 8, 4}, {210, 3, 5, 3}, {509, 4, 16, 100}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        for (uint32_t r = 0; r < cases[i].ranks; r++) {
            nodes[r] = r / cases[i].node;
            leaves[r] = r / cases[i].leaf;
            pods[r] = r / cases[i].pod;
        }
        struct schedule_shape shape = {.collective = COLLECTIVE_REDUCE,
                                       .ranks = cases[i].ranks,
                                       .root = 77,
                                       .nodes = nodes,
                                       .above = {leaves, pods},
                                       .block_bytes = 1 << 12};
        struct error error = {0};
        struct schedule **schedules = schedules_by("multi-level", &shape);
        if (schedule_verify(schedules, shape.ranks, &shape, &error) != WEFT_OK)
            fail_msg("%s", error.text);
        sweep_free(schedules, shape.ranks);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_level_carries_the_least_bytes),
        cmocka_unit_test(two_levels_carry_more_over_the_spine),
        cmocka_unit_test(one_root_needs_each_link_once),
        cmocka_unit_test(units_that_are_subtrees_keep_the_canonical_order),
        cmocka_unit_test(shapes_without_leaves_are_refused_by_a_message),
        cmocka_unit_test(odd_and_large_hierarchies_are_proved),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
