/* SPDX-License-Identifier: Apache-2.0 */
/* A measuring device passes every function on, gives the same bits, and its counts are those of the shapes. */
#include "training/tensor/profiled.h"

#include "tensor_support.h"
#include "training/model/model.h"
#include "training/optimizer/optimizer.h"

static struct device *open_profiled(const char *name)
{
    struct device *device = open_device(name, 1);
    assert_int_equal(profiled_wrap(&device, NULL), WEFT_OK);
    return device;
}

/* From peak() on, struct device is functions only. One that the measuring device has not is NULL or the other's. */
static void every_function_of_the_table_is_its_own(void **state)
{
    struct device *plain = open_device("cpu", 1), *profiled = open_profiled("cpu");
    const size_t first = offsetof(struct device, peak), size = sizeof(void (*)(void));
    assert_int_equal((sizeof(struct device) - first) % size, 0);
    for (size_t at = first; at < sizeof(struct device); at += size) {
        void (*mine)(void), (*other)(void);
        memcpy(&mine, (const char *)profiled + at, size);
        memcpy(&other, (const char *)plain + at, size);
        if (!mine || mine == other)
            fail_msg("function %zu of struct device is not in training/tensor/profiled.c", (at - first) / size);
    }
    /* peak, close, finish, allocate and release are not counted. */
    assert_int_equal((sizeof(struct device) - first) / size, PROFILED_KERNELS + 5);
    for (size_t k = 0; k < PROFILED_KERNELS; k++)
        assert_non_null(profiled_names[k]);
    assert_string_equal(profiled->name, plain->name);
    assert_string_equal(profiled->kernels, plain->kernels);
    assert_int_equal(profiled->type, plain->type);
    assert_int_equal(profiled->activations, plain->activations);
    assert_int_equal(profiled->threads, plain->threads);
    plain->close(plain);
    profiled->close(profiled);
}

static void counts_are_those_of_the_shapes(void **state)
{
    struct device *device = open_profiled("cpu");
    float *a = make_random(device, 6 * 4, 1, 1), *b = make_random(device, 4 * 5, 1, 2), *c = make_array(device, 6 * 5);
    float *qkv = make_random(device, 2 * 3 * 24, 1, 3), *out = make_array(device, 2 * 3 * 8);
    const struct profiled_count *counts = profiled_counts(device);
    device->matmul(device, &(struct matmul){.rows = 6, .columns = 5, .inner = 4, .a = a, .b = b, .c = c});
    device->matmul(device,
                   &(struct matmul){.rows = 6, .columns = 5, .inner = 4, .a = a, .b = b, .c = c, .accumulate = true});
    device->add(device, 20, a, b, c);
    const struct attention shape = {
        .batch = 2, .sequence = 3, .heads = 2, .kv_heads = 2, .head_width = 4, .causal = true};
    device->attention_forward(device, &shape, qkv, out, NULL);
    finish_device(device);
    assert_int_equal(counts[PROFILED_MATMUL].calls, 2);
    assert_true(counts[PROFILED_MATMUL].flops == 2 * 2 * 6 * 5 * 4);
    assert_true(counts[PROFILED_MATMUL].bytes == 4 * (2 * (24 + 20) + 3 * 30));
    assert_true(counts[PROFILED_MATMUL].seconds > 0);
    assert_int_equal(counts[PROFILED_ADD].calls, 1);
    assert_true(counts[PROFILED_ADD].bytes == 4 * 3 * 20);
    assert_true(counts[PROFILED_ADD].flops == 0);
    /* Of 3 positions each sees itself and those before: 6 pairs, in 2 heads of 2 sequences, of 4 elements. */
    assert_true(counts[PROFILED_ATTENTION_FORWARD].flops == 4 * 6 * 2 * 2 * 4);
    for (size_t k = 0; k < PROFILED_KERNELS; k++)
        if (k != PROFILED_MATMUL && k != PROFILED_ADD && k != PROFILED_ATTENTION_FORWARD)
            assert_int_equal(counts[k].calls, 0);
    device->release(device, a);
    device->release(device, b);
    device->release(device, c);
    device->release(device, qkv);
    device->release(device, out);
    device->close(device);
}

static void sum_bytes(void *context, const struct matmul *product, double bytes)
{
    double *sum = context;
    *sum += bytes;
}

/* A counting device counts the same, touches no array, and reports products. */
static void a_counting_device_executes_nothing(void **state)
{
    struct device *device;
    struct error error = {0};
    double bytes = 0;
    const struct profiled_watcher watcher = {.context = &bytes, .product = sum_bytes};
    if (profiled_open_counting(WEFT_F32, WEFT_BF16, &watcher, &device, &error) != WEFT_OK)
        fail_msg("%s", error.text);
    const size_t large = (size_t)1 << 40; /* more than a machine has */
    char *a = device->allocate(device, large, "a test", &error), *c = a + large / 2;
    assert_non_null(a);
    device->matmul(device, &(struct matmul){.rows = 6, .columns = 5, .inner = 4, .a = a, .b = a, .c = c, .wide = true});
    device->add(device, large / 8, a, a, c);
    assert_int_equal(device->finish(device, &error), WEFT_OK);
    const struct profiled_count *counts = profiled_counts(device);
    assert_int_equal(counts[PROFILED_MATMUL].calls, 1);
    assert_true(counts[PROFILED_MATMUL].flops == 2 * 6 * 5 * 4);
    assert_true(counts[PROFILED_MATMUL].bytes == 2 * (24 + 20) + 4 * 30);
    assert_true(counts[PROFILED_ADD].bytes == 4.0 * 3 * (double)(large / 8));
    assert_true(bytes == counts[PROFILED_MATMUL].bytes);
    device->release(device, a);
    device->close(device);
}

/* ---- a model of each kind, trained for two steps ---- */

static const struct model_shape shapes[] = {
    {.kind = "gpt", .layers = 2, .heads = 2, .width = 16, .context = 12, .vocabulary = 20},
    {.kind = "llama", .layers = 2, .heads = 4, .kv_heads = 2, .width = 16, .context = 12, .vocabulary = 20},
};
#define LAYERS_MOST 8

/* Reports of layers must be forward from the first to the last, then backward in two passes each, never one within
 * another. */
struct watcher {
    size_t layers, told;
    bool within;
};

static void watch(void *context, const struct model_turn *turn)
{
    struct watcher *watcher = context;
    const size_t layers = watcher->layers, place = watcher->told / 2 % (3 * layers);
    assert_true(turn->begins != watcher->within);
    assert_int_equal(turn->direction, place < layers ? MODEL_FORWARD : MODEL_BACKWARD);
    assert_int_equal(turn->weights, place >= layers && (place - layers) % 2);
    assert_int_equal(turn->layer, place < layers ? place : layers - 1 - (place - layers) / 2);
    watcher->within = turn->begins;
    watcher->told++;
}

/* The weights after two steps on `device`; the caller releases them. */
static float *train(struct device *device, const struct model_description *description, enum model_recompute recompute,
                    struct watcher *watcher)
{
    const size_t elements = description->elements;
    struct model *model;
    struct error error = {0};
    int32_t tokens[2 * 12], targets[2 * 12];
    for (int i = 0; i < 2 * 12; i++) {
        tokens[i] = i * 7 % 20;
        targets[i] = i * 11 % 20;
    }
    if (model_open(description, device,
                   &(struct model_options){.batch = 2, .sequence = 12, .training = true, .recompute = recompute},
                   &model, &error) != WEFT_OK)
        fail_msg("%s", error.text);
    model_watch(model, watcher ? watch : NULL, watcher);
    float *weights = make_array(device, elements), *gradients = make_array(device, description->gradient_elements);
    float *first = make_array(device, elements), *second = make_array(device, elements);
    double sums[64];
    assert_true(elements <= 64 * DEVICE_SQUARES_BLOCK);
    assert_int_equal(model_initialize(description, device, weights, 5, &error), WEFT_OK);
    const struct optimizer optimizer = {
        .kind = OPTIMIZER_ADAMW, .beta1 = 0.9, .beta2 = 0.95, .epsilon = 1e-8, .weight_decay = 0.1};
    for (uint64_t number = 1; number <= 2; number++) {
        double loss;
        assert_int_equal(
            model_forward(model, weights, &(struct model_batch){.tokens = tokens, .targets = targets}, &loss, &error),
            WEFT_OK);
        assert_int_equal(model_backward(model, weights, gradients, NULL, NULL, &error), WEFT_OK);
        const struct optimizer_step step = {.number = number, .rate = 1e-2, .gradient_scale = 1};
        const struct optimizer_arrays arrays = {.parameters = weights,
                                                .gradients = gradients,
                                                .first_moments = first,
                                                .second_moments = second,
                                                .as_activations = model_weights_as_activations(model),
                                                .sums = sums};
        optimizer_update(description, device, &optimizer, &step, 0, elements, &arrays);
        finish_device(device);
    }
    model_close(model);
    device->release(device, gradients);
    device->release(device, first);
    device->release(device, second);
    return weights;
}

static void a_measured_model_has_the_same_bits(void **state)
{
    static const char *const names[] = {"cpu", "cpu-bf16", "cpu-f16", "reference-f32"};
    for (size_t shape = 0; shape < 2; shape++)
        for (size_t i = 0; i < 4; i++) {
            struct model_description *description;
            struct device *plain = NULL;
            if (device_open(names[i], 1, &plain, NULL) != WEFT_OK)
                continue; /* no such instructions here */
            struct device *profiled = open_profiled(names[i]);
            assert_int_equal(model_describe(&shapes[shape], &description, NULL), WEFT_OK);
            struct watcher watcher = {.layers = description->layer_count};
            assert_in_range(watcher.layers, 4, LAYERS_MOST);
            const enum model_recompute recompute = i ? MODEL_RECOMPUTE_ALL : MODEL_RECOMPUTE_NOTHING;
            float *expected = train(plain, description, recompute, NULL);
            float *measured = train(profiled, description, recompute, &watcher);
            assert_memory_equal(measured, expected, description->elements * sizeof *expected);
            assert_int_equal(watcher.told, 2 * 2 * 3 * watcher.layers);
            assert_false(watcher.within);
            assert_true(profiled_counts(profiled)[PROFILED_MATMUL].calls > 2 * watcher.layers);
            assert_true(profiled_counts(profiled)[PROFILED_CROSS_ENTROPY].calls == 2);
            for (size_t layer = 0; layer < watcher.layers; layer++) {
                assert_true(*model_layer_name(description, layer));
                assert_true(*model_layer_kind(description, layer));
            }
            plain->release(plain, expected);
            profiled->release(profiled, measured);
            model_description_free(description);
            plain->close(plain);
            profiled->close(profiled);
        }
}

/* Every kernel is waited for, so the measuring device must keep what finish() would have told later. */
static weft_status failing_finish(struct device *device, struct error *error)
{
    return error_set(error, WEFT_ERROR_MEMORY, "the scratch is gone");
}

static void a_failure_is_kept_until_finish(void **state)
{
    struct device *inner = open_device("cpu", 1), *device = inner;
    weft_status (*finish)(struct device *, struct error *) = inner->finish;
    float x[4] = {1, 2, 3, 4};
    struct error error = {0};
    assert_int_equal(profiled_wrap(&device, NULL), WEFT_OK);
    inner->finish = failing_finish;
    device->scale(device, 4, 2, x);
    inner->finish = finish;
    device->scale(device, 4, 2, x);
    assert_int_equal(device->finish(device, &error), WEFT_ERROR_MEMORY);
    assert_string_equal(error.text, "the scratch is gone");
    assert_int_equal(device->finish(device, NULL), WEFT_OK);
    assert_true(x[3] == 16);
    device->close(device);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_function_of_the_table_is_its_own), cmocka_unit_test(counts_are_those_of_the_shapes),
        cmocka_unit_test(a_counting_device_executes_nothing),     cmocka_unit_test(a_measured_model_has_the_same_bits),
        cmocka_unit_test(a_failure_is_kept_until_finish),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
