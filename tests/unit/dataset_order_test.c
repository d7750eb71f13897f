/* SPDX-License-Identifier: Apache-2.0 */
/* The order of samples: each once an epoch, another order in each, a function of (seed, number) alone. */
#include "temporary.h"
#include "training/data/dataset.h"
#include "training/data/internal/permutation.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

#define SEQUENCE 8

static const char *directory;

/* A shard of 16-bit tokens where token i has value i: a sample then tells where it came from. */
static const char *counting_shard(const char *name, unsigned first, unsigned count)
{
    uint16_t *tokens = malloc(count * sizeof *tokens);
    for (unsigned i = 0; i < count; i++)
        tokens[i] = (uint16_t)(first + i);
    const char *path = temporary_file(directory, name, tokens, count * sizeof *tokens);
    free(tokens);
    return path;
}

static struct dataset *open_with_seed(const char *path, uint64_t seed)
{
    struct error error = {0};
    struct dataset *dataset = NULL;
    struct dataset_options options = {.sequence = SEQUENCE, .seed = seed, .vocabulary = 65536};
    if (dataset_open(&path, 1, &options, &dataset, &error) != WEFT_OK)
        fail_msg("%s", error.text);
    return dataset;
}

static int32_t first_token(const struct dataset *dataset, enum dataset_split split, uint64_t number)
{
    int32_t tokens[SEQUENCE], targets[SEQUENCE];
    assert_int_equal(dataset_batch(dataset, split, number, 1, tokens, targets, NULL), WEFT_OK);
    for (int i = 0; i < SEQUENCE; i++) {
        assert_int_equal(tokens[i], tokens[0] + i);
        assert_int_equal(targets[i], tokens[i] + 1);
    }
    return tokens[0];
}

static void a_permutation_of_any_size(void **state)
{
    for (uint64_t count = 1; count <= 300; count++) {
        unsigned char seen[300] = {0};
        for (uint64_t i = 0; i < count; i++) {
            uint64_t place = permutation_at(count * 77, count, i);
            assert_true(place < count);
            assert_int_equal(seen[place]++, 0);
        }
    }
}

static void permutations_are_even(void **state)
{
    /* Over many keys every place of 0..4 is taken equally often by number 0: 5000 +- 5 standard deviations (63 each).
     */
    unsigned taken[5] = {0};
    for (uint64_t key = 0; key < 25000; key++)
        taken[permutation_at(key << 32, 5, 0)]++;
    for (int i = 0; i < 5; i++)
        assert_in_range(taken[i], 5000 - 320, 5000 + 320);
}

static void the_permutation_stays_what_it_is(void **state)
{
    /* A resumed run of a newer version must go on in the same order: these numbers must never change. */
    static const uint64_t expected[] = {164165, 90703, 447142, 873359, 789447, 682066};
    for (uint64_t i = 0; i < sizeof expected / sizeof *expected; i++)
        assert_int_equal(permutation_at(1337, 1000000, i), expected[i]);
}

static void every_sample_once_an_epoch(void **state)
{
    struct dataset *dataset = open_with_seed(counting_shard("once.bin", 0, 5000), 1);
    uint64_t samples = dataset_samples(dataset, DATASET_TRAIN);
    assert_int_equal(samples, (4500 - SEQUENCE) / SEQUENCE);
    int in_order = 0, same_offset = 0;
    for (uint64_t epoch = 0; epoch < 4; epoch++) {
        unsigned char seen[4500] = {0};
        int32_t offset = first_token(dataset, DATASET_TRAIN, epoch * samples) % SEQUENCE;
        same_offset += offset == first_token(dataset, DATASET_TRAIN, 0) % SEQUENCE;
        for (uint64_t i = 0; i < samples; i++) {
            int32_t first = first_token(dataset, DATASET_TRAIN, epoch * samples + i);
            assert_true(first + SEQUENCE < 4500);
            assert_int_equal(first % SEQUENCE, offset);
            assert_int_equal(seen[first]++, 0);
            in_order += (uint64_t)first / SEQUENCE == i;
        }
    }
    assert_in_range(in_order, 0, 40);
    assert_in_range(same_offset, 1, 3);
    dataset_close(dataset);
}

static void seeds_differ(void **state)
{
    const char *path = counting_shard("seeds.bin", 0, 5000);
    struct dataset *one = open_with_seed(path, 1), *two = open_with_seed(path, 2);
    int same = 0;
    for (uint64_t i = 0; i < 400; i++)
        same += first_token(one, DATASET_TRAIN, i) / SEQUENCE == first_token(two, DATASET_TRAIN, i) / SEQUENCE;
    assert_in_range(same, 0, 10);
    dataset_close(one);
    dataset_close(two);
}

static void any_sharding_reads_the_same(void **state)
{
    enum { STEPS = 30, MICRO_BATCHES = 8, BATCH = 3 };
    struct dataset *whole = open_with_seed(counting_shard("sharding.bin", 0, 3000), 9);
    for (int ranks = 1; ranks <= 8; ranks *= 2) {
        struct dataset *own[8];
        for (int rank = 0; rank < ranks; rank++)
            own[rank] = open_with_seed(temporary_path(directory, "sharding.bin"), 9);
        for (uint64_t step = 0; step < STEPS; step++) {
            for (uint64_t m = 0; m < MICRO_BATCHES; m++) {
                int32_t expected[2][BATCH * SEQUENCE], got[2][BATCH * SEQUENCE];
                uint64_t first = (step * MICRO_BATCHES + m) * BATCH;
                for (uint64_t i = 0; i < BATCH; i++)
                    assert_int_equal(dataset_batch(whole, DATASET_TRAIN, first + i, 1, expected[0] + i * SEQUENCE,
                                                   expected[1] + i * SEQUENCE, NULL),
                                     WEFT_OK);
                assert_int_equal(dataset_batch(own[m % ranks], DATASET_TRAIN, first, BATCH, got[0], got[1], NULL),
                                 WEFT_OK);
                assert_memory_equal(got, expected, sizeof got);
            }
        }
        for (int rank = 0; rank < ranks; rank++)
            dataset_close(own[rank]);
    }
    dataset_close(whole);
}

static void held_out_in_order_and_never_trained_on(void **state)
{
    struct dataset *dataset = open_with_seed(counting_shard("held.bin", 0, 2000), 3);
    assert_int_equal(dataset_tokens(dataset, DATASET_TRAIN), 1800);
    assert_int_equal(dataset_tokens(dataset, DATASET_HELD_OUT), 200);
    uint64_t samples = dataset_samples(dataset, DATASET_HELD_OUT);
    assert_int_equal(samples, 199 / SEQUENCE);
    for (uint64_t i = 0; i < 2 * samples; i++)
        assert_int_equal(first_token(dataset, DATASET_HELD_OUT, i), 1800 + (int32_t)(i % samples) * SEQUENCE);
    for (uint64_t i = 0; i < 2 * dataset_samples(dataset, DATASET_TRAIN); i++)
        assert_true(first_token(dataset, DATASET_TRAIN, i) + SEQUENCE < 1800);
    dataset_close(dataset);
}

static void several_files_are_one_dataset(void **state)
{
    /* Values rise by 10,000 a file, so that a sample across two files would show as a jump within it. */
    const char *paths[] = {counting_shard("a.bin", 0, 1000), counting_shard("b.bin", 10000, 3),
                           counting_shard("c.bin", 20000, 1000), counting_shard("d.bin", 30000, 1000)};
    struct dataset *dataset = NULL;
    struct dataset_options options = {.sequence = SEQUENCE, .seed = 5, .vocabulary = 65536};
    assert_int_equal(dataset_open(paths, 4, &options, &dataset, NULL), WEFT_OK);
    int from[4] = {0};
    for (uint64_t i = 0; i < dataset_samples(dataset, DATASET_TRAIN); i++)
        from[first_token(dataset, DATASET_TRAIN, i) / 10000]++;
    assert_int_equal(from[0], (1000 - SEQUENCE) / SEQUENCE);
    assert_int_equal(from[1], 0);
    assert_int_equal(from[2], (1000 - SEQUENCE) / SEQUENCE);
    assert_int_equal(from[3], (1000 - 300 - SEQUENCE) / SEQUENCE);
    for (uint64_t i = 0; i < dataset_samples(dataset, DATASET_HELD_OUT); i++)
        assert_int_equal(first_token(dataset, DATASET_HELD_OUT, i), 30700 + (int)i * SEQUENCE);
    dataset_close(dataset);
}

static void the_smallest_dataset(void **state)
{
    struct dataset *dataset = open_with_seed(counting_shard("smallest.bin", 0, 2 * (SEQUENCE + 1)), 3);
    assert_int_equal(dataset_samples(dataset, DATASET_TRAIN), 1);
    assert_int_equal(dataset_samples(dataset, DATASET_HELD_OUT), 1);
    for (uint64_t i = 0; i < 20; i++)
        assert_int_equal(first_token(dataset, DATASET_TRAIN, i), 0);
    assert_int_equal(first_token(dataset, DATASET_HELD_OUT, 0), SEQUENCE + 1);
    dataset_close(dataset);
}

int main(void)
{
    directory = temporary_directory();
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_permutation_of_any_size),
        cmocka_unit_test(permutations_are_even),
        cmocka_unit_test(the_permutation_stays_what_it_is),
        cmocka_unit_test(every_sample_once_an_epoch),
        cmocka_unit_test(seeds_differ),
        cmocka_unit_test(any_sharding_reads_the_same),
        cmocka_unit_test(held_out_in_order_and_never_trained_on),
        cmocka_unit_test(several_files_are_one_dataset),
        cmocka_unit_test(the_smallest_dataset),
    };
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    file_remove_tree(directory, NULL);
    return failed;
}
