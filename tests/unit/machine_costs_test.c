/* SPDX-License-Identifier: Apache-2.0 */
/* Layers are measured on micro-batches that end in seconds: of texts by their tokens, of images by the numbers between layers. */
#include "training/model/shape.h"
#include "training/plan/machine_costs.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>

#include <cmocka.h>

static uint32_t largest_of(const char *name, size_t sequence)
{
    struct model_shape shape;
    struct model_description *description;
    assert_int_equal(model_shape_find(name, &shape, NULL), WEFT_OK);
    assert_int_equal(model_describe(&shape, &description, NULL), WEFT_OK);
    const struct machine_costs costs = {.description = description, .sequence = sequence};
    const uint32_t largest = machine_costs_largest(&costs);
    model_description_free(description);
    return largest;
}

static void texts_are_measured_by_tokens(void **state)
{
    assert_int_equal(largest_of("gpt2-124m", 64), 16);
    assert_int_equal(largest_of("gpt2-124m", 1024), 1);
}

/* 5 images of 224 x 224 pixels: between layers, one has up to 32 x 112 x 112 numbers. */
static void large_images_are_measured_in_small_numbers(void **state)
{
    assert_int_equal(largest_of("mobilenet-v2", 1), 5);
    assert_in_range(largest_of("mobilenet-v2-micro", 1), 32, 1024);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(texts_are_measured_by_tokens),
        cmocka_unit_test(large_images_are_measured_in_small_numbers),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
