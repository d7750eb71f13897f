/* SPDX-License-Identifier: Apache-2.0 */
/* Shares of micro-batches and slices of groups cover everything once; partial sums add up to the canonical tree. */
#include "training/parallel/sharding/canonical_runs.h"
#include "training/parallel/sharding/slices.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

enum { MOST = 33 };

/* ---- sums, as hashes that depend on what is added to what ---- */

static uint64_t leaf_hash(uint32_t micro_batch)
{
    return (micro_batch + 1) * 0x9e3779b97f4a7c15u;
}

static uint64_t sum_hash(uint64_t left, uint64_t right)
{
    const uint64_t mixed = (left ^ (left >> 29)) * 0xbf58476d1ce4e5b9u + right;
    return (mixed ^ (mixed >> 32)) * 0x94d049bb133111ebu;
}

/* T(first, count) by its definition. */
static uint64_t tree_hash(uint32_t first, uint32_t count)
{
    uint32_t half = 1;
    if (count == 1)
        return leaf_hash(first);
    while (half * 2 < count)
        half *= 2;
    return sum_hash(tree_hash(first, half), tree_hash(first + half, count - half));
}

struct hash_stack {
    struct canonical_stack stack;
    uint64_t sums[CANONICAL_ROOTS_MOST];
};

static void push_hash(struct hash_stack *sums, struct canonical_root root, uint64_t sum)
{
    sums->sums[sums->stack.depth] = sum;
    canonical_stack_push(&sums->stack, root);
    for (; canonical_stack_can_merge(&sums->stack); canonical_stack_merge(&sums->stack)) {
        uint64_t *left = &sums->sums[sums->stack.depth - 2];
        *left = sum_hash(left[0], left[1]);
    }
}

static uint64_t fold_hash(struct hash_stack *sums)
{
    for (; sums->stack.depth > 1; sums->stack.depth--) {
        uint64_t *left = &sums->sums[sums->stack.depth - 2];
        *left = sum_hash(left[0], left[1]);
    }
    return sums->sums[0];
}

/* Every rank sums its run; the roots of all ranks, in order, are added last. */
static uint64_t sum_of_runs(const struct micro_batch_division *division)
{
    struct hash_stack all = {0};
    for (uint32_t r = 0; r < division->ranks; r++) {
        const struct micro_batch_share run = micro_batch_run(division, r);
        struct hash_stack own = {0};
        struct canonical_stack roots;
        for (uint32_t i = 0; i < run.count; i++)
            push_hash(&own, (struct canonical_root){.start = run.first + i}, leaf_hash(run.first + i));
        canonical_stack_of_run(run.first, run.count, &roots);
        assert_int_equal(roots.depth, own.stack.depth);
        for (uint32_t i = 0; i < roots.depth; i++) {
            assert_int_equal(roots.roots[i].level, own.stack.roots[i].level);
            assert_int_equal(roots.roots[i].start, own.stack.roots[i].start);
            push_hash(&all, roots.roots[i], own.sums[i]);
        }
    }
    return fold_hash(&all);
}

static void runs_add_up_to_the_canonical_tree(void **state)
{
    for (uint32_t total = 1; total <= MOST; total++)
        for (uint32_t ranks = 1; ranks <= total; ranks++)
            assert_true(sum_of_runs(&(struct micro_batch_division){total, ranks, NULL}) == tree_hash(0, total));
}

/* All ways to give `total` micro-batches to ranks, one at least each. */
static void unequal_runs_add_up_to_the_canonical_tree(void **state)
{
    enum { TOTAL = 12 };
    for (uint32_t cuts = 0; cuts < 1u << (TOTAL - 1); cuts++) { /* bit i: a rank's run ends after micro-batch i */
        uint32_t counts[TOTAL] = {1}, ranks = 1, most = 0, deepest = 1;
        for (uint32_t m = 1; m < TOTAL; m++)
            if (cuts >> (m - 1) & 1)
                counts[ranks++] = 1;
            else
                counts[ranks - 1]++;
        const struct micro_batch_division division = {TOTAL, ranks, counts};
        bool subtrees = true;
        for (uint32_t r = 0; r < ranks; r++) {
            const struct micro_batch_share run = micro_batch_run(&division, r);
            struct canonical_stack roots;
            canonical_stack_of_run(run.first, run.count, &roots);
            most = counts[r] > most ? counts[r] : most;
            deepest = roots.depth > deepest ? roots.depth : deepest;
            subtrees &= roots.depth == 1 && counts[r] == counts[0];
        }
        assert_true(sum_of_runs(&division) == tree_hash(0, TOTAL));
        assert_int_equal(micro_batch_rounds(&division), most);
        assert_int_equal(micro_batch_runs_are_subtrees(&division), subtrees);
        assert_int_equal(canonical_roots_of_runs(&division), deepest);
    }
}

static void roots_fit_into_the_room(void **state)
{
    for (uint32_t first = 0; first <= MOST; first++)
        for (uint32_t count = 1; count <= MOST; count++) {
            struct canonical_stack stack = {0};
            uint32_t arrays = 0;
            for (uint32_t m = first; m < first + count; m++) {
                const struct canonical_root leaf = {.start = m};
                const uint32_t depth = stack.depth + !canonical_stack_continues(&stack, leaf);
                arrays = depth > arrays ? depth : arrays;
                canonical_stack_push(&stack, leaf);
                while (canonical_stack_can_merge(&stack))
                    canonical_stack_merge(&stack);
            }
            assert_int_equal(canonical_stack_room(first, count), arrays);
        }
    assert_int_equal(canonical_stack_room(0, 0), 0);
    assert_int_equal(canonical_stack_room(0, 1024), 10);
    assert_true(canonical_stack_room(UINT32_MAX / 2, UINT16_MAX) <= CANONICAL_ROOTS_MOST);
}

/* ---- shares ---- */

static void each_micro_batch_is_computed_once(void **state)
{
    for (uint32_t total = 1; total <= MOST; total++)
        for (uint32_t ranks = 1; ranks <= total; ranks++) {
            const struct micro_batch_division division = {total, ranks, NULL};
            uint32_t in_runs[MOST] = {0}, in_turns[MOST] = {0}, next = 0;
            for (uint32_t r = 0; r < ranks; r++) {
                const struct micro_batch_share run = micro_batch_run(&division, r),
                                               turns = micro_batch_turns(&division, r);
                assert_int_equal(run.count, total / ranks + (r < total % ranks));
                assert_int_equal(turns.count, run.count);
                assert_int_equal(run.first, next);
                next += run.count;
                for (uint32_t i = 0; i < run.count; i++) {
                    in_runs[run.first + i * run.stride]++;
                    in_turns[turns.first + i * turns.stride]++;
                }
            }
            for (uint32_t m = 0; m < total; m++) {
                assert_int_equal(in_runs[m], 1);
                assert_int_equal(in_turns[m], 1);
            }
        }
}

static void subtrees_are_runs_of_one_root(void **state)
{
    for (uint32_t total = 1; total <= MOST; total++)
        for (uint32_t ranks = 1; ranks <= total; ranks++) {
            const struct micro_batch_division division = {total, ranks, NULL};
            bool subtrees = total % ranks == 0;
            uint32_t most = 1;
            for (uint32_t r = 0; r < ranks; r++) {
                const struct micro_batch_share run = micro_batch_run(&division, r);
                struct canonical_stack roots;
                canonical_stack_of_run(run.first, run.count, &roots);
                subtrees &= roots.depth == 1;
                most = roots.depth > most ? roots.depth : most;
            }
            assert_int_equal(canonical_roots_of_runs(&division), most);
            assert_int_equal(micro_batch_runs_are_subtrees(&division), subtrees);
        }
}

/* ---- slices ---- */

static void slices_are_whole_blocks_that_cover_the_group(void **state)
{
    static const size_t counts[] = {0, 1, 16, 4095, 4096, 4097, 3 * 4096, 4097 * 16, 100 * 4096 + 48};
    for (size_t i = 0; i < ARRAY_SIZE(counts); i++)
        for (uint32_t turn = 0; turn < 5; turn++)
            for (uint32_t ranks = 1; ranks <= 7; ranks++) {
                const struct group_range range = {.count = counts[i], .turn = turn};
                const size_t all = tree_blocks(counts[i]), most = (all + ranks - 1) / ranks,
                             even = group_even_slice(&range, ranks);
                assert_int_equal(even, all < GROUP_EVEN_BLOCKS * ranks ? 0 : most * DEVICE_SQUARES_BLOCK);
                size_t next = 0;
                for (uint32_t r = 0; r < ranks; r++) {
                    const struct group_slice slice = group_slice_of(&range, r, ranks);
                    const size_t blocks = tree_blocks(slice.count);
                    assert_int_equal(slice.first, next);
                    assert_true(!slice.count || slice.first % DEVICE_SQUARES_BLOCK == 0);
                    assert_true(blocks <= most && (even || blocks + 1 >= most));
                    assert_true(!even || !slice.count || slice.first == r * even);
                    next += slice.count;
                }
                assert_int_equal(next, counts[i]);
            }
}

/* Many groups of one block: no rank has all of them. */
static void the_ranks_take_turns_with_blocks_left_over(void **state)
{
    size_t owned[4] = {0};
    for (uint32_t g = 0; g < 20; g++)
        for (uint32_t r = 0; r < 4; r++)
            owned[r] += group_slice_of(&(struct group_range){.count = DEVICE_SQUARES_BLOCK, .turn = g}, r, 4).count;
    for (uint32_t r = 0; r < 4; r++)
        assert_int_equal(owned[r], 5 * DEVICE_SQUARES_BLOCK);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(runs_add_up_to_the_canonical_tree),
        cmocka_unit_test(unequal_runs_add_up_to_the_canonical_tree),
        cmocka_unit_test(roots_fit_into_the_room),
        cmocka_unit_test(each_micro_batch_is_computed_once),
        cmocka_unit_test(subtrees_are_runs_of_one_root),
        cmocka_unit_test(slices_are_whole_blocks_that_cover_the_group),
        cmocka_unit_test(the_ranks_take_turns_with_blocks_left_over),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
