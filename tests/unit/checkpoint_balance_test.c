/* SPDX-License-Identifier: Apache-2.0 */
/* Every element has one writer, which holds it if it can, and the load is balanced. */
#include "training/train/state/internal/checkpoint_parts.h"

#include "base/random.h"

#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

#define MOST  40
#define RANKS 8

static const uint32_t everybody[RANKS] = {0, 1, 2, 3, 4, 5, 6, 7};

/* A layout in which every rank holds `count` tensors of some size. */
static struct state_layout make(struct state_cell *cells, size_t count, uint32_t ranks, uint64_t seed)
{
    for (size_t i = 0; i < count; i++)
        cells[i] = (struct state_cell){.array = STATE_VALUES,
                                       .parameter = (uint32_t)i,
                                       .count = 1 + random_below(seed, i, 1000),
                                       .holders = everybody,
                                       .holder_count = ranks};
    return (struct state_layout){.ranks = ranks, .arrays = 1, .cells = cells, .cell_count = count};
}

static void assign(const struct state_layout *layout, const bool *allowed, uint64_t *loads, struct state_range *ranges,
                   size_t count)
{
    struct state_ranges result = {.ranges = ranges};
    static const bool all[RANKS] = {true, true, true, true, true, true, true, true};
    assert_int_equal(checkpoint_parts_assign(layout, allowed ? allowed : all, loads, &result, NULL), WEFT_OK);
    assert_int_equal(result.count, count);
}

static void every_tensor_has_one_writer_and_loads_are_even(void **state)
{
    struct state_cell cells[MOST];
    for (uint64_t seed = 0; seed < 50; seed++) {
        const size_t count = 1 + random_below(seed, 1000, MOST);
        for (uint32_t writers = 1; writers <= RANKS; writers++) {
            struct state_range ranges[MOST];
            const struct state_layout layout = make(cells, count, writers, seed);
            uint64_t loads[RANKS] = {0}, sums[RANKS] = {0}, all = 0, largest = 0, heaviest = 0;
            bool written[MOST] = {false};
            assign(&layout, NULL, loads, ranges, count);
            for (size_t i = 0; i < count; i++) {
                const struct state_cell *cell = &cells[ranges[i].parameter];
                const uint64_t bytes = 4 * cell->count;
                assert_true(ranges[i].rank < writers);
                assert_false(written[ranges[i].parameter]);
                written[ranges[i].parameter] = true;
                assert_int_equal(ranges[i].count, cell->count);
                sums[ranges[i].rank] += bytes;
                all += bytes;
                largest = bytes > largest ? bytes : largest;
            }
            for (uint32_t writer = 0; writer < writers; writer++) {
                assert_int_equal(sums[writer], loads[writer]);
                heaviest = sums[writer] > heaviest ? sums[writer] : heaviest;
            }
            /* Graham's bound, against what no division can beat. */
            const double best = (double)(all / writers > largest ? all / writers : largest);
            assert_true((double)heaviest <= best + (double)largest);
            if (writers == 1)
                assert_int_equal(heaviest, all);
        }
    }
}

static void it_depends_on_the_layout_alone(void **state)
{
    struct state_cell cells[MOST], copies[MOST];
    struct state_range first[MOST], again[MOST];
    uint64_t loads[RANKS] = {0}, same[RANKS] = {0};
    struct state_layout layout = make(cells, MOST, 4, 7);
    for (int i = 10; i < 30; i++)
        cells[i].count = 500; /* equal ones go by their place in the list */
    assign(&layout, NULL, loads, first, MOST);
    memcpy(copies, cells, sizeof copies);
    layout.cells = copies;
    layout.rank = 3;
    assign(&layout, NULL, same, again, MOST);
    for (int i = 0; i < MOST; i++) {
        assert_int_equal(first[i].parameter, again[i].parameter);
        assert_int_equal(first[i].rank, again[i].rank);
    }
}

static void what_a_writer_has_already_counts(void **state)
{
    struct state_cell cells[3];
    struct state_range ranges[3];
    uint64_t loads[RANKS] = {1000000, 0};
    const struct state_layout layout = make(cells, 3, 2, 1);
    assign(&layout, NULL, loads, ranges, 3);
    for (int i = 0; i < 3; i++)
        assert_int_equal(ranges[i].rank, 1);
    assert_int_equal(loads[0], 1000000);
}

/* A tensor on rank 1 alone goes first, so that the two others, smaller together, go to rank 0. */
static void those_who_hold_it_write_it(void **state)
{
    struct state_cell cells[3];
    struct state_range ranges[3];
    uint64_t loads[RANKS] = {0};
    const struct state_layout layout = make(cells, 3, 2, 1);
    for (int i = 0; i < 3; i++)
        cells[i].count = 100;
    cells[2].count = 300;
    cells[2].holders = &everybody[1];
    cells[2].holder_count = 1;
    assign(&layout, NULL, loads, ranges, 3);
    assert_int_equal(loads[0], 800);
    assert_int_equal(loads[1], 1200);
    assert_int_equal(ranges[0].parameter, 2);
    assert_int_equal(ranges[0].rank, 1);
}

/* Two ranks hold a half each. */
static void moments_may_be_cut_and_values_may_not(void **state)
{
    for (int array = 0; array < STATE_ARRAYS; array++) {
        struct state_cell cells[2];
        struct state_range ranges[2];
        uint64_t loads[RANKS] = {0};
        const struct state_layout layout = make(cells, 2, 2, 1);
        for (size_t i = 0; i < 2; i++)
            cells[i] = (struct state_cell){.array = (enum state_array)array,
                                           .first = i * 10,
                                           .count = 10,
                                           .holders = &everybody[i],
                                           .holder_count = 1};
        assign(&layout, NULL, loads, ranges, array == STATE_VALUES ? 1 : 2);
        assert_int_equal(ranges[0].rank, 0);
        assert_int_equal(ranges[0].count, array == STATE_VALUES ? 20 : 10);
        assert_int_equal(loads[0] + loads[1], 80);
    }
}

/* Rank 0 has two parts of it, with one of rank 1 between them. */
static void no_file_has_two_ranges_of_a_tensor(void **state)
{
    struct state_cell cells[3];
    struct state_range ranges[3];
    uint64_t loads[RANKS] = {0};
    const struct state_layout layout = make(cells, 3, 2, 1);
    for (size_t i = 0; i < 3; i++)
        cells[i] = (struct state_cell){.array = STATE_FIRST_MOMENTS,
                                       .first = i * 10,
                                       .count = 10,
                                       .holders = &everybody[i % 2],
                                       .holder_count = 1};
    assign(&layout, NULL, loads, ranges, 1);
    assert_int_equal(ranges[0].count, 30);
    assert_int_equal(loads[0] + loads[1], 120);
}

/* Rank 0 alone may write, and does not hold it. */
static void the_only_writer_collects(void **state)
{
    static const bool first[RANKS] = {true};
    struct state_cell cells[3];
    struct state_range ranges[3];
    uint64_t loads[RANKS] = {0};
    const struct state_layout layout = make(cells, 3, 2, 1);
    for (size_t i = 0; i < 3; i++) {
        cells[i].holders = &everybody[1];
        cells[i].holder_count = 1;
    }
    assign(&layout, first, loads, ranges, 3);
    assert_int_equal(loads[1], 0);
}

static void small_checkpoints_are_one_file(void **state)
{
    assert_int_equal(checkpoint_parts_writers(0, 64, 8), 1);
    assert_int_equal(checkpoint_parts_writers(127, 64, 8), 1);
    assert_int_equal(checkpoint_parts_writers(128, 64, 8), 2);
    assert_int_equal(checkpoint_parts_writers(1 << 20, 64, 8), 8);
    assert_int_equal(checkpoint_parts_writers(1 << 20, 64, 1), 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_tensor_has_one_writer_and_loads_are_even),
        cmocka_unit_test(it_depends_on_the_layout_alone),
        cmocka_unit_test(what_a_writer_has_already_counts),
        cmocka_unit_test(those_who_hold_it_write_it),
        cmocka_unit_test(moments_may_be_cut_and_values_may_not),
        cmocka_unit_test(no_file_has_two_ranges_of_a_tensor),
        cmocka_unit_test(the_only_writer_collects),
        cmocka_unit_test(small_checkpoints_are_one_file),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
