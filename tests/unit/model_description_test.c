/* SPDX-License-Identifier: Apache-2.0 */
/* What networks are made of: published sizes, names and shapes of tensors, places in the flat array, initial values. */
#include "training/model/model.h"

#include "training/tensor/tree.h"

#include "tensor_support.h"

static struct model_description *describe(const char *name)
{
    struct model_shape shape;
    struct model_description *description = NULL;
    struct error error = {0};
    if (model_shape_find(name, &shape, &error) != WEFT_OK || model_describe(&shape, &description, &error) != WEFT_OK)
        fail_msg("%s", error.text);
    return description;
}

static void published_sizes(void **state)
{
    static const struct {
        const char *name;
        size_t weights;
    } published[] = {{"gpt2", 124439808},       {"gpt2-medium", 354823168}, {"gpt2-large", 774030080},
                     {"gpt2-xl", 1557611200},   {"smollm-135m", 134515008}, {"llama-160m", 162417408},
                     {"tinyllama", 1100048384}, {"bert-base", 110106428},   {"bert-large", 336226108}};
    for (size_t i = 0; i < sizeof published / sizeof *published; i++) {
        struct model_description *description = describe(published[i].name);
        assert_int_equal(description->weights, published[i].weights);
        model_description_free(description);
    }
}

/* The encoder with its pooler, and a linear map to the classes. */
static void published_sizes_of_classifiers(void **state)
{
    static const struct {
        const char *name;
        size_t width, encoder;
    } published[] = {{"bert-base", 768, 109482240}, {"bert-large", 1024, 335141888}};
    for (size_t i = 0; i < sizeof published / sizeof *published; i++) {
        struct model_shape shape;
        struct model_description *description;
        assert_int_equal(model_shape_find(published[i].name, &shape, NULL), WEFT_OK);
        shape.classes = 2;
        assert_int_equal(model_describe(&shape, &description, NULL), WEFT_OK);
        assert_int_equal(description->weights, published[i].encoder + 2 * (published[i].width + 1));
        model_description_free(description);
    }
}

static void every_named_size_can_be_described(void **state)
{
    size_t count, before = 0;
    const struct model_size *sizes = model_sizes(&count);
    for (size_t i = 0; i < count; i++) {
        struct model_description *description = describe(sizes[i].name);
        if (i > 0 && strcmp(sizes[i].shape.kind, sizes[i - 1].shape.kind) != 0)
            before = 0;
        assert_true(description->weights > before);
        before = description->weights;
        model_description_free(description);
    }
}

static void expect_parameter(const struct model_description *description, const char *name, size_t rows, size_t columns,
                             bool decay)
{
    const struct model_parameter *parameter = model_parameter_find(description, name);
    assert_non_null(parameter);
    assert_int_equal(parameter->dimensions, columns ? 2 : 1);
    assert_int_equal(parameter->shape[0], rows);
    assert_int_equal(parameter->shape[1], columns);
    assert_int_equal(parameter->decay, decay);
}

static void tensors_are_called_and_shaped_as_in_the_public_files(void **state)
{
    struct model_description *gpt2 = describe("gpt2");
    expect_parameter(gpt2, "wte.weight", 50257, 768, true);
    expect_parameter(gpt2, "wpe.weight", 1024, 768, true);
    expect_parameter(gpt2, "h.0.ln_1.weight", 768, 0, false);
    expect_parameter(gpt2, "h.0.ln_1.bias", 768, 0, false);
    expect_parameter(gpt2, "h.11.attn.c_attn.weight", 768, 2304, true);
    expect_parameter(gpt2, "h.11.attn.c_attn.bias", 2304, 0, false);
    expect_parameter(gpt2, "h.5.attn.c_proj.weight", 768, 768, true);
    expect_parameter(gpt2, "h.5.mlp.c_fc.weight", 768, 3072, true);
    expect_parameter(gpt2, "h.5.mlp.c_fc.bias", 3072, 0, false);
    expect_parameter(gpt2, "h.5.mlp.c_proj.weight", 3072, 768, true);
    expect_parameter(gpt2, "ln_f.bias", 768, 0, false);
    assert_null(model_parameter_find(gpt2, "h.12.ln_1.weight"));
    assert_null(model_parameter_find(gpt2, "lm_head.weight")); /* tied to wte */
    assert_int_equal(gpt2->parameter_count, 2 + 12 * 12 + 2);
    model_description_free(gpt2);
}

/* A group begins at a block, and its tensors follow each other at multiples of 16 elements. */
static void tensors_follow_each_other_at_aligned_places(void **state)
{
    struct model_shape shape = {.kind = "gpt", .layers = 2, .heads = 1, .width = 5, .context = 3, .vocabulary = 7};
    const size_t block = DEVICE_SQUARES_BLOCK;
    struct model_description *description;
    assert_int_equal(model_describe(&shape, &description, NULL), WEFT_OK);
    size_t end = 0, weights = 0, next = 0;
    for (size_t i = 0; i < description->group_count; i++) {
        const struct model_group *group = &description->groups[i];
        assert_int_equal(group->parameter, next);
        assert_int_equal(group->offset % block, 0);
        assert_int_equal(group->offset, group->block * block);
        assert_true(group->offset >= end && group->offset < end + block);
        end = group->offset;
        for (next = group->parameter; next < group->parameter + group->parameter_count; next++) {
            const struct model_parameter *parameter = &description->parameters[next];
            assert_int_equal(parameter->offset % 16, 0);
            assert_true(parameter->offset >= end && parameter->offset < end + 16);
            end = parameter->offset + parameter->count;
            weights += parameter->count;
        }
        assert_int_equal(group->count, tree_blocks(end - group->offset) * block);
    }
    assert_int_equal(next, description->parameter_count);
    assert_true(description->elements >= end && description->elements < end + block);
    assert_int_equal(description->elements, description->blocks * block);
    assert_int_equal(description->weights, weights);
    assert_int_equal(description->gradient_elements, description->elements + description->groups[0].count);
    model_description_free(description);
}

static void impossible_shapes_get_a_message(void **state)
{
    const struct model_shape good = {
        .kind = "llama", .layers = 1, .heads = 4, .width = 8, .context = 8, .vocabulary = 8, .kv_heads = 2};
    struct model_shape bad[12];
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        bad[i] = good;
    bad[0].layers = 0;
    bad[1].heads = 0;
    bad[2].heads = 3;
    bad[3].context = 0;
    bad[4].vocabulary = 0;
    bad[5].width = (size_t)1 << 40;
    bad[6].kind = "perceptron";
    bad[7].kv_heads = 3;
    bad[8].heads = 8; /* of one element, which has no pair to be turned with */
    bad[9].rotary_base = -1;
    bad[10].norm_epsilon = 2;
    bad[11].kind = "gpt"; /* which has no kv_heads */
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        struct model_description *description = NULL;
        struct error error = {0};
        assert_int_equal(model_describe(&bad[i], &description, &error), WEFT_ERROR_ARGUMENT);
        assert_null(description);
        assert_true(strlen(error.text) > 20);
    }
    struct model_shape shape;
    struct error error = {0};
    assert_int_equal(model_shape_find("gpt-mirco", &shape, &error), WEFT_ERROR_ARGUMENT);
    assert_non_null(strstr(error.text, "gpt-micro"));
}

static void initial_values_are_those_of_gpt2(void **state)
{
    struct device *device = open_device("cpu", 1);
    struct model_description *description = describe("gpt-nano");
    float *parameters = make_random(device, description->elements, 1, 1);
    float *again = make_random(device, description->elements, 1, 2);
    assert_int_equal(model_initialize(description, device, parameters, 7, NULL), WEFT_OK);
    assert_int_equal(model_initialize(description, device, again, 7, NULL), WEFT_OK);
    assert_memory_equal(parameters, again, description->elements * sizeof *again);
    assert_int_equal(model_initialize(description, device, again, 8, NULL), WEFT_OK);
    assert_true(parameters[0] != again[0]);
    for (size_t i = 0; i < description->parameter_count; i++) {
        const struct model_parameter *parameter = &description->parameters[i];
        double mean = 0, square = 0, constant = strstr(parameter->name, ".bias") ? 0 : 1;
        for (size_t k = parameter->offset; k < parameter->offset + parameter->count; k++) {
            mean += parameters[k] / (double)parameter->count;
            square += (double)parameters[k] * parameters[k] / (double)parameter->count;
            assert_true(parameter->dimensions == 2 || parameters[k] == constant);
        }
        if (parameter->dimensions != 2)
            continue;
        double deviation = strstr(parameter->name, "c_proj") ? 0.02 / sqrt(2.0 * 4) : 0.02;
        double expected = deviation / sqrt((double)parameter->count); /* of the mean of that many */
        assert_true(fabs(mean) < 5 * expected);
        assert_true(fabs(sqrt(square) / deviation - 1) < 0.05);
    }
    device->release(device, parameters);
    device->release(device, again);
    model_description_free(description);
    device->close(device);
}

static void costs(void **state)
{
    struct model_description *gpt2 = describe("gpt2");
    double matrices = 124439808.0 - 1024 * 768 - (12 * (4 * 768 + 9 * 768) + 2 * 768);
    assert_true(model_flops_per_token(gpt2, 1024) == 6 * matrices + 12.0 * 12 * 768 * 1024);
    const struct model_options one = {.batch = 1, .sequence = 64, .training = true};
    const struct model_options two = {.batch = 2, .sequence = 64, .training = true};
    const struct model_options reading = {.batch = 1, .sequence = 64};
    const struct model_options attention_again = {
        .batch = 1, .sequence = 64, .training = true, .recompute = MODEL_RECOMPUTE_ATTENTION};
    const struct model_options all_again = {
        .batch = 1, .sequence = 64, .training = true, .recompute = MODEL_RECOMPUTE_ALL};
    size_t small = model_memory(gpt2, WEFT_F32, WEFT_F32, &one), large = model_memory(gpt2, WEFT_F32, WEFT_F32, &two);
    assert_true(large > small * 3 / 2 && large < small * 2);
    assert_true(model_memory(gpt2, WEFT_F32, WEFT_F32, &reading) < small / 2);
    assert_true(model_memory(gpt2, WEFT_F64, WEFT_F64, &one) > small);
    assert_true(model_memory(gpt2, WEFT_F32, WEFT_F32, &attention_again) < small);
    assert_true(model_memory(gpt2, WEFT_F32, WEFT_F32, &all_again) <
                model_memory(gpt2, WEFT_F32, WEFT_F32, &attention_again));
    model_description_free(gpt2);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(published_sizes),
        cmocka_unit_test(published_sizes_of_classifiers),
        cmocka_unit_test(every_named_size_can_be_described),
        cmocka_unit_test(tensors_are_called_and_shaped_as_in_the_public_files),
        cmocka_unit_test(tensors_follow_each_other_at_aligned_places),
        cmocka_unit_test(impossible_shapes_get_a_message),
        cmocka_unit_test(initial_values_are_those_of_gpt2),
        cmocka_unit_test(costs),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
