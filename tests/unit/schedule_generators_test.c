/* SPDX-License-Identifier: Apache-2.0 */
/* What schedules promise: parts that cover a block, the canonical order, the fewest bytes; messages for what cannot be. */
#include "core/schedule/generators/generate.h"
#include "core/schedule/simulate/simulate.h"
#include "core/schedule/verify/sweep.h"
#include "core/schedule/verify/verify.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

/* Parts cover a block exactly, in order, beginning on cache lines. */
static void parts_cover_their_block(void **state)
{
    static const uint64_t sizes[] = {0, 1, 2, 4, 8, 63, 64, 65, 100, 4095, 4096, 1000003};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        for (uint32_t parts = 1; parts <= 67; parts++) {
            uint64_t next = 0;
            for (uint32_t part = 0; part < parts; part++) {
                struct schedule_range range = schedule_parts(sizes[i], parts, part, 1);
                assert_true(range.offset == next);
                assert_true(range.offset % 64 == 0 || range.bytes == 0);
                next = range.offset + range.bytes;
                struct schedule_range rest = schedule_parts(sizes[i], parts, part, parts - part);
                assert_true(rest.offset == range.offset && rest.offset + rest.bytes == sizes[i]);
            }
            assert_true(next == sizes[i]);
        }
    }
}

/* Every algorithm that sums keeps the canonical order where it says so, and none but the documented ones says it does
 * not. */
static void the_canonical_order_is_the_rule(void **state)
{
    uint32_t nodes[24];
    for (uint32_t width = 1; width <= 8; width *= 2) {
        for (uint32_t rank = 0; rank < 24; rank++)
            nodes[rank] = rank / width;
        for (unsigned collective = 0; collective < COLLECTIVES; collective++) {
            size_t count;
            const struct algorithm *algorithms = algorithms_of((enum collective)collective, &count);
            struct schedule_shape shape = {.collective = (enum collective)collective, .ranks = 24, .nodes = nodes};
            for (size_t i = 0; i < count; i++) {
                bool exception = strstr(algorithms[i].name, "ring") || strstr(algorithms[i].name, "double-tree");
                bool moves_only = collective == COLLECTIVE_ALLGATHER || collective == COLLECTIVE_ALLGATHERV ||
                                  collective == COLLECTIVE_BROADCAST;
                assert_int_equal(algorithms[i].canonical(&shape), moves_only || !exception);
            }
        }
    }
}

static void a_reproducible_communicator_refuses_other_orders(void **state)
{
    uint32_t nodes[6] = {0, 0, 0, 1, 1, 1};
    struct schedule_shape shape = {.collective = COLLECTIVE_ALLREDUCE, .ranks = 6, .nodes = nodes, .block_bytes = 4096};
    const struct algorithm *two_level = algorithm_find(COLLECTIVE_ALLREDUCE, "two-level", NULL);
    assert_null(algorithm_refuses(two_level, &shape));
    shape.reproducible = true;
    struct error error = {0};
    struct schedule *schedule = NULL;
    assert_int_equal(schedule_generate(two_level, &shape, 0, &schedule, &error), WEFT_ERROR_ARGUMENT);
    assert_null(schedule);
    assert_non_null(strstr(error.text, "reproducible"));
    assert_null(algorithm_refuses(algorithm_find(COLLECTIVE_ALLREDUCE, "pairwise-tree", NULL), &shape));
}

/* What the tuner may choose by itself: any placement on nodes of 1, 2, 4 or 8 ranks gives the canonical sum. */
static void exceptions_are_made_on_request_only(void **state)
{
    uint32_t aligned[8] = {0, 0, 1, 1, 2, 2, 3, 3}, in_turn[8] = {0, 1, 2, 3, 0, 1, 2, 3},
             uneven[8] = {0, 0, 0, 1, 1, 1, 1, 1};
    struct schedule_shape shape = {.collective = COLLECTIVE_ALLREDUCE, .ranks = 8, .block_bytes = 1 << 20};
    const struct algorithm *two_level = algorithm_find(COLLECTIVE_ALLREDUCE, "two-level", NULL);
    const struct algorithm *exception = algorithm_find(COLLECTIVE_ALLREDUCE, "two-level-ring", NULL);
    shape.nodes = aligned;
    assert_null(algorithm_only_on_request(two_level, &shape));
    assert_non_null(algorithm_only_on_request(exception, &shape));
    shape.nodes = in_turn;
    assert_non_null(algorithm_only_on_request(two_level, &shape));
    assert_null(algorithm_refuses(two_level, &shape));
    shape.nodes = uneven;
    assert_null(algorithm_only_on_request(two_level, &shape));
    assert_non_null(algorithm_only_on_request(exception, &shape));
}

/* Bytes that leave `node` over the network. */
static uint64_t bytes_leaving(struct schedule **schedules, const struct schedule_shape *shape, uint32_t node)
{
    uint64_t bytes = 0;
    for (uint32_t rank = 0; rank < shape->ranks; rank++) {
        const struct schedule *schedule = schedules[rank];
        for (uint32_t i = 0; i < schedule->step_count && shape->nodes[rank] == node; i++) {
            const struct step *step = &schedule->steps[i];
            if (step->kind == STEP_SEND && shape->nodes[step->peer] != node)
                bytes += schedule->parts == 1
                             ? shape->block_bytes * step->chunks
                             : schedule_parts(shape->block_bytes, schedule->parts, step->value, step->chunks).bytes;
        }
    }
    return bytes;
}

/* 2 (N - 1) / N of the data leaves each node, the least there can be; (N - 1) / N for its two halves. */
static void two_levels_carry_the_least_bytes(void **state)
{
    static const struct {
        enum collective collective;
        uint64_t blocks, times;
    } cases[] = {{COLLECTIVE_ALLREDUCE, 1, 2},
                 {COLLECTIVE_REDUCE_SCATTER, 1, 1},
                 {COLLECTIVE_ALLGATHER, 1, 1},
                 {COLLECTIVE_ALLGATHERV, 1, 1}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        for (uint32_t count = 2; count <= 8; count++) {
            uint32_t nodes[32], width = 4, ranks = count * width;
            for (uint32_t rank = 0; rank < ranks; rank++)
                nodes[rank] = rank / width;
            uint64_t whole = 64 * 4 * 840; /* divides evenly by all numbers of parts here */
            bool in_blocks = cases[i].collective != COLLECTIVE_ALLREDUCE;
            struct schedule_shape shape = {.collective = cases[i].collective,
                                           .ranks = ranks,
                                           .nodes = nodes,
                                           .block_bytes = in_blocks ? whole / ranks : whole};
            struct schedule **schedules;
            const struct algorithm *algorithm = algorithm_find(cases[i].collective, "two-level", NULL);
            assert_int_equal(sweep_generate(algorithm, &shape, &schedules, NULL), WEFT_OK);
            uint64_t data = in_blocks ? shape.block_bytes * ranks : whole;
            for (uint32_t node = 0; node < count; node++)
                assert_true(bytes_leaving(schedules, &shape, node) * count == cases[i].times * (count - 1) * data);
            sweep_free(schedules, ranks);
        }
    }
}

static void corrupt_schedules_are_refused_by_a_message(void **state)
{
    struct schedule_shape shape = {.collective = COLLECTIVE_ALLREDUCE, .ranks = 4, .block_bytes = 4096};
    struct schedule *schedule;
    const struct algorithm *ring = algorithm_find(COLLECTIVE_ALLREDUCE, "ring", NULL);
    assert_int_equal(schedule_generate(ring, &shape, 1, &schedule, NULL), WEFT_OK);
    assert_int_equal(schedule_check(schedule, NULL), WEFT_OK);
    struct error error = {0};
    schedule->steps[0].peer = 1;
    assert_int_equal(schedule_check(schedule, &error), WEFT_ERROR_SCHEDULE);
    assert_string_equal(error.text,
                        "allreduce by ring, rank 1, lane 0, step 0 (send): names a peer that is not another rank");
    schedule->steps[0].peer = 2;
    schedule->steps[0].kind = 99;
    assert_int_equal(schedule_check(schedule, NULL), WEFT_ERROR_SCHEDULE);
    schedule->steps[0].kind = STEP_SEND;
    schedule->lane_first[1] = 1000;
    assert_int_equal(schedule_check(schedule, NULL), WEFT_ERROR_SCHEDULE);
    schedule_free(schedule);
}

static void names_are_found_and_mistyped_ones_corrected(void **state)
{
    struct error error = {0};
    assert_null(algorithm_find(COLLECTIVE_ALLREDUCE, "rnig", &error));
    assert_non_null(strstr(error.text, "did you mean 'ring'"));
    assert_non_null(strstr(error.text, "recursive-doubling"));
    enum collective collective;
    error_clear(&error);
    assert_int_equal(collective_parse("allreduse", &collective, &error), WEFT_ERROR_ARGUMENT);
    assert_non_null(strstr(error.text, "did you mean 'allreduce'"));
    assert_int_equal(collective_parse("reduce_scatter", &collective, NULL), WEFT_OK);
    assert_int_equal(collective, COLLECTIVE_REDUCE_SCATTER);
}

static void shapes_that_make_no_sense_get_a_message(void **state)
{
    struct error error = {0};
    struct schedule *schedule;
    struct schedule_shape shape = {.collective = COLLECTIVE_BROADCAST, .ranks = 4, .root = 4};
    const struct algorithm *binomial = algorithm_find(COLLECTIVE_BROADCAST, "binomial", NULL);
    assert_int_equal(schedule_generate(binomial, &shape, 0, &schedule, &error), WEFT_ERROR_ARGUMENT);
    error_clear(&error);
    shape = (struct schedule_shape){.collective = COLLECTIVE_ALLREDUCE, .ranks = 6};
    assert_int_equal(
        schedule_generate(algorithm_find(COLLECTIVE_ALLREDUCE, "halving-doubling", NULL), &shape, 0, &schedule, &error),
        WEFT_ERROR_ARGUMENT);
    assert_non_null(strstr(error.text, "power of two"));
}

/* Schedules of two ranks that come from different algorithms are refused by name before they are run. */
static void schedules_that_do_not_fit_together_are_refused(void **state)
{
    struct schedule_shape shape = {.collective = COLLECTIVE_ALLREDUCE, .ranks = 2, .block_bytes = 8};
    struct schedule *schedules[2] = {NULL, NULL};
    struct error error = {0};
    static const char *const names[] = {"binomial", "recursive-doubling"};
    for (uint32_t rank = 0; rank < 2; rank++) {
        const struct algorithm *algorithm = algorithm_find(COLLECTIVE_ALLREDUCE, names[rank], &error);
        assert_non_null(algorithm);
        assert_int_equal(schedule_generate(algorithm, &shape, rank, &schedules[rank], &error), WEFT_OK);
    }
    assert_int_equal(schedule_verify(schedules, 2, &shape, &error), WEFT_ERROR_SCHEDULE);
    assert_non_null(strstr(error.text, "differ in kind"));
    schedule_free(schedules[0]);
    schedule_free(schedules[1]);
}

/* Scratch of a reduce-scatter of ranks that are spread evenly over nodes, by this algorithm. */
static uint64_t scratch_of(const char *name, uint32_t ranks, uint32_t count, uint64_t block_bytes)
{
    uint32_t nodes[128];
    for (uint32_t rank = 0; rank < ranks; rank++)
        nodes[rank] = rank / (ranks / count);
    const struct schedule_shape shape = {.collective = COLLECTIVE_REDUCE_SCATTER,
                                         .ranks = ranks,
                                         .nodes = nodes,
                                         .reproducible = true,
                                         .block_bytes = block_bytes};
    const struct algorithm *algorithm = algorithm_find(COLLECTIVE_REDUCE_SCATTER, name, NULL);
    struct schedule *schedule;
    assert_non_null(algorithm);
    assert_int_equal(schedule_generate(algorithm, &shape, 0, &schedule, NULL), WEFT_OK);
    const uint64_t segment = schedule->segment_bytes ? schedule->segment_bytes : block_bytes,
                   bytes = schedule->scratch_chunks * schedule->slots * schedule_width(segment, 1);
    schedule_free(schedule);
    return bytes;
}

static void the_scratch_of_a_reduce_scatter_is_known(void **state)
{
    static const uint64_t blocks[] = {100, 16 << 10, 128 << 10, 1 << 20, 16 << 20};
    for (size_t i = 0; i < sizeof blocks / sizeof *blocks; i++)
        for (uint32_t ranks = 2; ranks <= 128; ranks *= 2) {
            assert_int_equal(reduce_scatter_scratch(ranks, 1, blocks[i]), 0);
            assert_int_equal(reduce_scatter_scratch(ranks, ranks, blocks[i]),
                             scratch_of("pairwise", ranks, ranks, blocks[i]));
            for (uint32_t nodes = 2; nodes < ranks; nodes *= 2)
                assert_int_equal(reduce_scatter_scratch(ranks, nodes, blocks[i]),
                                 scratch_of("two-level", ranks, nodes, blocks[i]));
        }
    assert_int_equal(reduce_scatter_scratch(12, 4, 1 << 20), scratch_of("pairwise", 12, 4, 1 << 20));
    assert_int_equal(reduce_scatter_scratch(64, 64, 1 << 20), 16 << 20); /* a segment from each rank */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(parts_cover_their_block),
        cmocka_unit_test(the_canonical_order_is_the_rule),
        cmocka_unit_test(a_reproducible_communicator_refuses_other_orders),
        cmocka_unit_test(exceptions_are_made_on_request_only),
        cmocka_unit_test(two_levels_carry_the_least_bytes),
        cmocka_unit_test(the_scratch_of_a_reduce_scatter_is_known),
        cmocka_unit_test(schedules_that_do_not_fit_together_are_refused),
        cmocka_unit_test(corrupt_schedules_are_refused_by_a_message),
        cmocka_unit_test(names_are_found_and_mistyped_ones_corrected),
        cmocka_unit_test(shapes_that_make_no_sense_get_a_message),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
