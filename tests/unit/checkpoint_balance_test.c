/* SPDX-License-Identifier: Apache-2.0 */
/* Every tensor has one writer, and the load is balanced. */
#include "training/train/state/internal/checkpoint_parts.h"

#include "base/random.h"

#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

#define MOST 40

static void make(struct named_tensor *tensors, size_t count, uint64_t seed)
{
    memset(tensors, 0, count * sizeof *tensors);
    for (size_t i = 0; i < count; i++)
        tensors[i] = (struct named_tensor){
            .name = "t", .type = WEFT_F32, .dimensions = 1, .shape = {1 + random_below(seed, i, 1000)}};
}

static void every_tensor_has_one_writer_and_loads_are_even(void **state)
{
    struct named_tensor tensors[MOST];
    for (uint64_t seed = 0; seed < 50; seed++) {
        const size_t count = 1 + random_below(seed, 1000, MOST);
        make(tensors, count, seed);
        for (unsigned writers = 1; writers <= 8; writers++) {
            unsigned writer_of[MOST];
            uint64_t loads[8] = {0}, sums[8] = {0}, all = 0, largest = 0, heaviest = 0;
            assert_int_equal(checkpoint_parts_balance(tensors, count, writers, loads, writer_of, NULL), WEFT_OK);
            for (size_t i = 0; i < count; i++) {
                const uint64_t bytes = 4 * tensors[i].shape[0];
                assert_true(writer_of[i] < writers);
                sums[writer_of[i]] += bytes;
                all += bytes;
                largest = bytes > largest ? bytes : largest;
            }
            for (unsigned writer = 0; writer < writers; writer++) {
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

static void it_depends_on_shapes_alone(void **state)
{
    struct named_tensor tensors[MOST];
    unsigned first[MOST], again[MOST];
    uint64_t loads[4] = {0}, same[4] = {0};
    make(tensors, MOST, 7);
    for (int i = 10; i < 30; i++)
        tensors[i].shape[0] = 500; /* equal ones go by their place in the list */
    assert_int_equal(checkpoint_parts_balance(tensors, MOST, 4, loads, first, NULL), WEFT_OK);
    for (int i = 0; i < MOST; i++)
        tensors[i].data = tensors;
    assert_int_equal(checkpoint_parts_balance(tensors, MOST, 4, same, again, NULL), WEFT_OK);
    assert_memory_equal(first, again, sizeof first);
}

static void what_a_writer_has_already_counts(void **state)
{
    struct named_tensor tensors[3];
    unsigned writer_of[3];
    uint64_t loads[2] = {1000000, 0};
    make(tensors, 3, 1);
    assert_int_equal(checkpoint_parts_balance(tensors, 3, 2, loads, writer_of, NULL), WEFT_OK);
    for (int i = 0; i < 3; i++)
        assert_int_equal(writer_of[i], 1);
    assert_int_equal(loads[0], 1000000);
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
        cmocka_unit_test(it_depends_on_shapes_alone),
        cmocka_unit_test(what_a_writer_has_already_counts),
        cmocka_unit_test(small_checkpoints_are_one_file),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
