/* SPDX-License-Identifier: Apache-2.0 */
/* Ranks of the data axis compare what they hold alike: the rank on which one bit was flipped is named on all of them. */
#include "small_training.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

enum flipped { NOTHING, WEIGHT, MOMENT };

struct comparison {
    struct mesh mesh;
    uint32_t zero;
    int flips; /* this rank */
    enum flipped what;
    const char *expected; /* in the message; NULL: no difference */
};

static void flip_lowest_bit(float *number)
{
    uint32_t bits;
    memcpy(&bits, number, sizeof bits);
    bits ^= 1;
    memcpy(number, &bits, sizeof bits);
}

/* The first group that this rank has. */
static uint32_t first_group(const struct model_description *own)
{
    uint32_t group = 0;
    while (!own->groups[group].count)
        group++;
    return group;
}

static void flip(struct executor *executor, uint32_t group, enum flipped what)
{
    struct value_groups *values = executor_values(executor);
    if (what == WEIGHT)
        flip_lowest_bit(value_groups_values(values, group, UINT32_MAX, 0) + 5);
    else if (what == MOMENT)
        flip_lowest_bit(value_groups_slice(values, group).second_moments + 3);
}

static int compare(weft_context *context, int rank, void *argument)
{
    const struct comparison *comparison = argument;
    struct small_training training = {.context = context, .rank = rank, .zero = comparison->zero};
    struct model_description *own;
    struct executor *executor;
    struct executor_result result;
    struct error error = {0};
    bool speaks;
    if (small_training_open(&training) || small_training_executor(&training, &comparison->mesh, &own, &executor) ||
        small_training_begin(&training, executor, own))
        return 1;
    CHECK(small_training_step(executor, 0, &result, &error) == WEFT_OK);
    CHECK(executor_compare_replicas(executor, &speaks, &error) == WEFT_OK);
    CHECK(executor_settle(executor, &error) == WEFT_OK);
    if (rank == comparison->flips)
        flip(executor, first_group(own), comparison->what);
    const weft_status status = executor_compare_replicas(executor, &speaks, &error);
    CHECK(status == (comparison->expected ? WEFT_ERROR_DATA : WEFT_OK));
    if (comparison->expected && !strstr(error.text, comparison->expected)) {
        fprintf(stderr, "'%s' is not in: %s\n", comparison->expected, error.text);
        return 1;
    }
    executor_close(executor);
    model_description_free(own);
    small_training_close(&training);
    return 0;
}

static void the_rank_that_differs_is_named(void **state)
{
    static const struct comparison comparisons[] = {
        {{{3, 1, 1}}, 0, 1, NOTHING, NULL},
        {{{3, 1, 1}}, 0, 2, WEIGHT, "rank 2 on host"},
        {{{3, 1, 1}}, 0, 0, WEIGHT, "rank 0 on host"},
        {{{3, 1, 1}}, 0, 1, MOMENT, "its moments differ from those of 2 other ranks"},
        {{{4, 1, 1}}, 1, 3, WEIGHT, "rank 3 on host"},
        {{{3, 1, 1}}, 2, 1, WEIGHT, "rank 1 on host"},
        {{{2, 1, 1}}, 0, 1, WEIGHT, "with no majority"},
        {{{2, 2, 1}}, 0, 3, MOMENT, "the moments of rank"},
    };
    for (size_t i = 0; i < sizeof comparisons / sizeof *comparisons; i++) {
        struct comparison comparison = comparisons[i];
        assert_int_equal(world_run(&(struct world){.ranks = (int)mesh_ranks(&comparison.mesh)}, compare, &comparison),
                         0);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(the_rank_that_differs_is_named)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
