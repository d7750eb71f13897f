/* SPDX-License-Identifier: Apache-2.0 */
/* A sparse gradient of a table has the bits of one that is whole: every micro-batch's table, summed by the tree. */
#include "../world.h"
#include "training/parallel/sharding/sparse_gradient.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

enum { VOCABULARY = 40, MOST_ROWS = 9, MOST_BATCHES = 13, MOST_WIDTH = 33, STEPS = 2 };

struct sparse_case {
    uint32_t micro_batches, zero;
    size_t width;
    weft_type type;
};

/* How often token t occurs in micro-batch m of a step: in some everywhere, in some nowhere. */
static bool token_occurs(uint32_t step, uint32_t m, int32_t token)
{
    return token == 3 || (token * 7 + (int32_t)(m * 13 + step * 5)) % 11 == 0 || (m == 1 && token > VOCABULARY - 4);
}

static float value_of(uint32_t step, uint32_t m, int32_t token, size_t element)
{
    const uint32_t mixed = (uint32_t)token * 2654435761u ^ (m + 17 * step) * 40503u ^ (uint32_t)element * 9973u;
    return (float)(mixed % 100003) * 1.00017e-3f - 40;
}

static float rounded(weft_type type, float value)
{
    uint32_t bits;
    if (type != WEFT_BF16)
        return value;
    memcpy(&bits, &value, sizeof bits);
    bits = (bits + 0x7fff + (bits >> 16 & 1)) & 0xffff0000;
    memcpy(&value, &bits, sizeof bits);
    return value;
}

/* The tree by its definition. */
static float sum_of_tree(const struct sparse_case *config, uint32_t step, int32_t token, size_t element, uint32_t first,
                         uint32_t count)
{
    uint32_t left = 1;
    if (count == 1)
        return token_occurs(step, first, token) ? rounded(config->type, value_of(step, first, token, element)) : 0;
    while (left * 2 < count)
        left *= 2;
    return rounded(config->type, sum_of_tree(config, step, token, element, first, left) +
                                     sum_of_tree(config, step, token, element, first + left, count - left));
}

static size_t put_micro_batch(struct sparse_gradient *gradient, const struct sparse_case *config, uint32_t step,
                              uint32_t number, uint32_t m)
{
    int32_t tokens[MOST_ROWS];
    size_t count = 0;
    float *rows = sparse_gradient_place(gradient, number);
    for (int32_t token = 0; token < VOCABULARY; token++) {
        if (!token_occurs(step, m, token))
            continue;
        for (size_t i = 0; i < config->width; i++)
            rows[count * config->width + i] = value_of(step, m, token, i);
        tokens[count++] = token;
    }
    sparse_gradient_put(gradient, number, tokens, count);
    return count;
}

static bool total_is_right(struct sparse_gradient *gradient, const struct sparse_case *config, uint32_t step,
                           struct group_slice slice)
{
    float total[VOCABULARY * MOST_WIDTH];
    for (size_t i = 0; i < slice.count; i++)
        total[i] = rounded(config->type, 0.7f + (float)i);
    sparse_gradient_add_to(gradient, slice, total);
    for (size_t i = 0; i < slice.count; i++) {
        const size_t element = slice.first + i;
        const float sum = sum_of_tree(config, step, (int32_t)(element / config->width), element % config->width, 0,
                                      config->micro_batches);
        if (total[i] != rounded(config->type, rounded(config->type, 0.7f + (float)i) + sum))
            return false;
    }
    return true;
}

static int sum_case(weft_context *context, int rank, const struct sparse_case *config)
{
    const uint32_t ranks = (uint32_t)weft_comm_size(weft_world(context));
    const size_t all = VOCABULARY * config->width;
    struct device *device;
    struct sparse_gradient *gradient;
    struct error error = {0};
    CHECK(device_open("cpu-bf16", 1, &device, &error) == WEFT_OK);
    const struct sparse_gradient_config open = {.context = context,
                                                .comm = weft_world(context),
                                                .device = device,
                                                .width = config->width,
                                                .rows = MOST_ROWS,
                                                .micro_batches = config->micro_batches,
                                                .zero = config->zero,
                                                .type = config->type};
    CHECK(sparse_gradient_open(&open, &gradient, &error) == WEFT_OK);
    const struct micro_batch_division division = {.total = config->micro_batches, .ranks = ranks};
    const struct micro_batch_share share = micro_batch_share_of(config->zero, &division, (uint32_t)rank);
    for (uint32_t step = 0; step < STEPS; step++) {
        /* A slice that begins and ends within rows. */
        const size_t first = (size_t)rank * (all / ranks), count = all / ranks;
        for (uint32_t i = 0; i < share.count; i++)
            CHECK(put_micro_batch(gradient, config, step, i, share.first + i * share.stride) <= MOST_ROWS);
        CHECK(sparse_gradient_gather_start(gradient, &error) == WEFT_OK);
        CHECK(sparse_gradient_gather_finish(gradient, &error) == WEFT_OK);
        CHECK(total_is_right(gradient, config, step,
                             config->zero ? (struct group_slice){.first = first, .count = count}
                                          : (struct group_slice){.count = all}));
        CHECK(weft_barrier(weft_world(context)) == WEFT_OK);
    }
    sparse_gradient_close(gradient);
    device->close(device);
    return 0;
}

static int sum_all(weft_context *context, int rank, void *argument)
{
    static const uint32_t batches[] = {1, 2, 5, 8, MOST_BATCHES};
    static const size_t widths[] = {1, 16, MOST_WIDTH};
    const uint32_t ranks = (uint32_t)weft_comm_size(weft_world(context));
    int failed = 0;
    for (size_t b = 0; b < ARRAY_SIZE(batches); b++)
        for (size_t w = 0; w < ARRAY_SIZE(widths); w++)
            for (uint32_t zero = 0; zero < 4; zero++)
                for (int type = 0; batches[b] >= ranks && type < 2; type++)
                    failed |= sum_case(context, rank,
                                       &(struct sparse_case){.micro_batches = batches[b],
                                                             .zero = zero,
                                                             .width = widths[w],
                                                             .type = type ? WEFT_BF16 : WEFT_F32});
    return failed;
}

static void the_sum_is_that_of_whole_tables(void **state)
{
    static const int ranks[] = {1, 2, 3, 5, 8};
    for (size_t i = 0; i < ARRAY_SIZE(ranks); i++)
        assert_int_equal(world_run(&(struct world){.ranks = ranks[i]}, sum_all, NULL), 0);
}

/* Ranks 0 and 1 have micro-batches; ranks 2 and 3, another stage of a pipeline, take the rows of theirs. */
static int hand_over(weft_context *context, int rank, void *argument)
{
    const struct sparse_case config = {.micro_batches = 5, .width = 16, .type = WEFT_F32};
    const bool gives = rank < 2;
    weft_comm *stage, *pair;
    struct device *device;
    struct sparse_gradient *gradient;
    weft_request *request = NULL;
    struct error error = {0};
    CHECK(weft_comm_split(weft_world(context), rank / 2, rank, &stage) == WEFT_OK);
    CHECK(weft_comm_split(weft_world(context), rank % 2, rank, &pair) == WEFT_OK);
    CHECK(device_open("cpu-bf16", 1, &device, &error) == WEFT_OK);
    const struct sparse_gradient_config open = {.context = context,
                                                .comm = stage,
                                                .device = device,
                                                .width = config.width,
                                                .rows = MOST_ROWS,
                                                .micro_batches = config.micro_batches,
                                                .type = config.type};
    CHECK(sparse_gradient_open(&open, &gradient, &error) == WEFT_OK);
    const struct micro_batch_division division = {.total = config.micro_batches, .ranks = 2};
    const struct micro_batch_share share = micro_batch_run(&division, (uint32_t)rank % 2);
    for (uint32_t i = 0; gives && i < share.count; i++)
        put_micro_batch(gradient, &config, 0, i, share.first + i);
    if (gives) {
        CHECK(sparse_gradient_gather_start(gradient, &error) == WEFT_OK);
        CHECK(sparse_gradient_gather_finish(gradient, &error) == WEFT_OK);
    }
    CHECK((gives ? sparse_gradient_send_start : sparse_gradient_receive_start)(gradient, gives ? 1 : 0, pair, &request,
                                                                               &error) == WEFT_OK);
    CHECK(weft_wait(&request) == WEFT_OK);
    CHECK(total_is_right(gradient, &config, 0, (struct group_slice){.count = VOCABULARY * config.width}));
    sparse_gradient_close(gradient);
    device->close(device);
    CHECK(weft_comm_free(stage) == WEFT_OK && weft_comm_free(pair) == WEFT_OK);
    return 0;
}

static void another_rank_can_take_the_rows(void **state)
{
    assert_int_equal(world_run(&(struct world){.ranks = 4}, hand_over, NULL), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_sum_is_that_of_whole_tables),
        cmocka_unit_test(another_rank_can_take_the_rows),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
