/* SPDX-License-Identifier: Apache-2.0 */
/* The memory of described implementations: the formulas of Korthikanti et al. 2022, table 2, and the search log of BLOOM. */
#include "training/simulate/described_memory.h"

#include "base/array.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#define GB 1e9

static struct model_description *describe(const struct model_shape *shape, size_t tensor)
{
    struct model_description *description;
    struct error error = {0};
    weft_status status = model_describe(shape, &description, &error);
    if (status == WEFT_OK && tensor > 1)
        status = model_divide(description, tensor, 0, &error);
    if (status != WEFT_OK)
        fail_msg("%s", error.text);
    return description;
}

static void activations_are_those_of_the_table(void **state)
{
    const struct model_shape shape = {
        .kind = "gpt", .layers = 4, .heads = 64, .width = 6144, .context = 2048, .vocabulary = 51200};
    const double t = 8, sbh = 2048 * 4 * 6144.0, scores = 5 * 64 * 2048 / 6144.0;
    const struct {
        bool divides_rows;
        enum model_recompute recompute;
        double expected; /* bytes of a block */
    } cases[] = {
        {false, MODEL_RECOMPUTE_NOTHING, sbh * (10 + 24 / t + scores / t)},
        {true, MODEL_RECOMPUTE_NOTHING, sbh * (34 / t + scores / t)},
        {false, MODEL_RECOMPUTE_ATTENTION, sbh * (10 + 24 / t)},
        {true, MODEL_RECOMPUTE_ATTENTION, sbh * 34 / t},
        {false, MODEL_RECOMPUTE_ALL, sbh * 2},
    };
    struct model_description *description = describe(&shape, 8);
    const struct implementation *implementation = NULL;
    assert_int_equal(implementation_find("megatron-2022", &implementation, NULL), WEFT_OK);
    for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
        const struct work_settings settings = {.implementation = implementation,
                                               .batch = 4,
                                               .sequence = 2048,
                                               .divides_rows = cases[i].divides_rows,
                                               .recompute = cases[i].recompute,
                                               .dropout = 0.1};
        const struct described_memory memory =
            described_memory_of(&(struct described_stage){.description = description,
                                                          .settings = &settings,
                                                          .first_layer = 3,
                                                          .layer_end = 7, /* two blocks */
                                                          .under_way = 3,
                                                          .data = 1});
        assert_true(fabs(memory.activations / (2 * 3 * cases[i].expected) - 1) < 0.01);
    }
    model_description_free(description);
}

static void optimizers_divide_what_zero_says(void **state)
{
    const struct model_shape shape = {
        .kind = "gpt", .layers = 12, .heads = 12, .width = 768, .context = 1024, .vocabulary = 50257};
    struct model_description *description = describe(&shape, 1);
    const struct implementation *implementation = NULL;
    assert_int_equal(implementation_find("megatron-2021", &implementation, NULL), WEFT_OK);
    const struct work_settings settings = {.implementation = implementation, .batch = 1, .sequence = 128};
    struct described_stage stage = {.description = description,
                                    .settings = &settings,
                                    .layer_end = description->layer_count,
                                    .under_way = 1,
                                    .data = 4};
    const double elements = (double)description->weights;
    const double weights[] = {2, 2, 2, 0.5}, gradients[] = {2, 2, 0.5, 0.5}, optimizer[] = {12, 3, 3, 3};
    for (stage.zero = 0; stage.zero < 4; stage.zero++) {
        const struct described_memory memory = described_memory_of(&stage);
        assert_true(memory.weights == elements * weights[stage.zero]);
        assert_true(memory.gradients == elements * gradients[stage.zero]);
        assert_true(memory.optimizer == elements * optimizer[stage.zero]);
        assert_true(described_memory_total(&memory) > memory.weights + memory.gradients + memory.optimizer + 5 * GB);
    }
    /* The last of two stages has the tied table, too. */
    stage.zero = 0;
    stage.first_layer = 13;
    struct described_memory last = described_memory_of(&stage);
    stage.first_layer = 0;
    stage.layer_end = 13;
    assert_true(last.weights + described_memory_of(&stage).weights == 2 * (elements + 50257.0 * 768));
    model_description_free(description);
}

static void as_many_are_under_way_as_stages_follow(void **state)
{
    assert_true(described_under_way(4, 0, 1, 16) == 4);
    assert_true(described_under_way(4, 3, 1, 16) == 1);
    assert_true(described_under_way(4, 0, 1, 2) == 2);
    /* Narayanan et al. 2021: 1 + (p - 1) / pm times the memory with m stages a rank. */
    assert_true(described_under_way(4, 0, 2, 16) == 4 * (1 + 3 / 8.0));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(activations_are_those_of_the_table),
        cmocka_unit_test(optimizers_divide_what_zero_says),
        cmocka_unit_test(as_many_are_under_way_as_stages_follow),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
