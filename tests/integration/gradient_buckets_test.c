/* SPDX-License-Identifier: Apache-2.0 */
/* Buckets sum what is ready, in any order, whatever their size, and leave frozen ranges alone. */
#include "../world.h"

#include "base/random.h"
#include "training/parallel/internal/gradient_buckets.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>

#include <cmocka.h>

#define RANKS 3

static const struct {
    size_t first, count;
    bool frozen;
} ranges[] = {
    {0, 16, true},    {16, 500, false}, {516, 1, false},  {517, 3000, true},
    {3517, 20, true}, {3537, 7, false}, {3544, 40, true}, {3584, 4096, false},
};
#define COUNT    ARRAY_SIZE(ranges)
#define ELEMENTS 7680

static float value_of(int rank, size_t element)
{
    return (float)(rank + 1) * (float)(element % 1000);
}

/* A pass in an order of this rank's own. */
static int pass(weft_context *context, int rank, struct gradient_buckets *buckets, float *array, uint64_t round)
{
    uint32_t order[COUNT];
    for (size_t e = 0; e < ELEMENTS; e++)
        array[e] = value_of(rank, e);
    for (uint32_t i = 0; i < COUNT; i++) {
        const uint32_t other = (uint32_t)random_below(round * RANKS + (uint64_t)rank, i, (uint64_t)i + 1);
        order[i] = order[other];
        order[other] = i;
    }
    gradient_buckets_begin(buckets);
    for (uint32_t i = 0; i < COUNT; i++)
        gradient_buckets_ready(buckets, order[i]);
    CHECK(gradient_buckets_finish(buckets) == WEFT_OK);
    for (size_t i = 0; i < COUNT; i++)
        for (size_t e = ranges[i].first; e < ranges[i].first + ranges[i].count; e++)
            CHECK(array[e] == (ranges[i].frozen ? value_of(rank, e) : 6 * value_of(0, e)));
    return 0;
}

static int body(weft_context *context, int rank, void *argument)
{
    const size_t *bucket_bytes = argument;
    struct gradient_buckets buckets;
    struct error error = {0};
    float *array = weft_alloc(context, ELEMENTS * sizeof *array);
    struct gradient_range *of_array = calloc(COUNT, sizeof *of_array);
    CHECK(array && of_array);
    for (size_t i = 0; i < COUNT; i++)
        of_array[i] = (struct gradient_range){
            .begin = (char *)(array + ranges[i].first), .count = ranges[i].count, .frozen = ranges[i].frozen};
    CHECK(gradient_buckets_open(&buckets, weft_world(context), WEFT_F32, of_array, COUNT, *bucket_bytes, &error) ==
          WEFT_OK);
    for (uint64_t round = 0; round < 8; round++) {
        CHECK(pass(context, rank, &buckets, array, round) == 0);
        CHECK(gradient_buckets_agree(&buckets) == WEFT_OK);
    }
    gradient_buckets_close(&buckets);
    return 0;
}

static void frozen_ranges_are_not_summed(void **state)
{
    static const size_t sizes[] = {4, 1024, 1 << 20};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        size_t bytes = sizes[i];
        assert_int_equal(world_run(&(struct world){.ranks = RANKS}, body, &bytes), 0);
        assert_int_equal(world_run(&(struct world){.ranks = RANKS, .ranks_per_node = 2}, body, &bytes), 0);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(frozen_ranges_are_not_summed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
