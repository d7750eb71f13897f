/* SPDX-License-Identifier: Apache-2.0 */
/* The work of layers: what is recorded is what the formulas of the literature say, whole and divided. */
#include "training/model/layers/layers.h"
#include "training/simulate/device_time.h"
#include "training/simulate/internal/work_record.h"

#include "base/array.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

static const struct model_shape shapes[] = {
    {.kind = "gpt", .layers = 3, .heads = 4, .width = 64, .context = 32, .vocabulary = 100},
    {.kind = "llama", .layers = 2, .heads = 4, .kv_heads = 2, .width = 64, .context = 32, .vocabulary = 100},
    {.kind = "mlp", .layers = 2, .width = 16, .context = 32, .vocabulary = 100, .window = 3},
    {.kind = "mlp", .layers = 1, .width = 16, .context = 32, .vocabulary = 100, .window = 32},
    {.kind = "bert", .layers = 2, .heads = 4, .width = 64, .context = 32, .vocabulary = 100},
    {.kind = "bert", .layers = 2, .heads = 4, .width = 64, .context = 32, .vocabulary = 100, .classes = 5},
};

static const struct implementation *find_implementation(const char *name)
{
    const struct implementation *implementation = NULL;
    assert_int_equal(implementation_find(name, &implementation, NULL), WEFT_OK);
    return implementation;
}

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

static struct model_work *open_work(const struct model_description *description, const struct work_settings *settings)
{
    struct model_work *work;
    struct error error = {0};
    if (model_work_open(description, settings, &work, &error) != WEFT_OK)
        fail_msg("%s", error.text);
    return work;
}

static double total_flops(const struct model_work *work, const struct model_description *description,
                          enum work_pass pass)
{
    double flops = 0;
    for (size_t i = 0; i < description->layer_count; i++)
        flops += layer_work_flops(model_work_of(work, i, pass));
    return flops;
}

static bool are_close(double a, double b)
{
    return fabs(a - b) <= 1e-9 * fabs(b);
}

static void products_are_those_of_the_formula(void **state)
{
    for (size_t i = 0; i < ARRAY_SIZE(shapes); i++) {
        struct model_description *description = describe(&shapes[i], 1);
        struct model_work *work = open_work(
            description, &(struct work_settings){
                             .implementation = find_implementation("megatron-2022"), .batch = 2, .sequence = 32});
        const double forward = model_flops_per_token(description, 32) / 3 * 2 * 32,
                     inputs = total_flops(work, description, WORK_BACKWARD_INPUT),
                     weights = total_flops(work, description, WORK_BACKWARD_WEIGHTS);
        /* The formula gives an mlp's first rows a whole window; the layer skips rows before the sequence. */
        const double window = (double)shapes[i].window,
                     skipped = window > 0 ? 2 * 2 * window * (window - 1) / 2 * 16 * 64 : 0;
        assert_true(are_close(total_flops(work, description, WORK_FORWARD), forward - skipped));
        assert_true(are_close(inputs + weights, 2 * (forward - skipped)));
        assert_true(total_flops(work, description, WORK_RECOMPUTE) == 0);
        model_work_close(work);
        model_description_free(description);
    }
}

/* The ranks of a tensor axis share the products evenly, and nothing else changes but the rows between layers. */
static void ranks_of_a_tensor_axis_share_products(void **state)
{
    struct model_description *whole = describe(&shapes[0], 1), *part = describe(&shapes[0], 4);
    struct work_settings settings = {
        .implementation = find_implementation("megatron-2022"), .batch = 2, .sequence = 32};
    struct model_work *alone = open_work(whole, &settings), *divided = open_work(part, &settings);
    settings.divides_rows = true;
    struct model_work *by_rows = open_work(part, &settings);
    for (enum work_pass pass = WORK_FORWARD; pass <= WORK_BACKWARD_WEIGHTS; pass++) {
        assert_true(4 * total_flops(divided, part, pass) == total_flops(alone, whole, pass));
        assert_true(total_flops(by_rows, part, pass) == total_flops(divided, part, pass));
    }
    /* Megatron-LM: an all-reduce of the rows in each direction, batch x sequence x width elements of 2 bytes. */
    const double rows = 2 * 32 * 64 * 2;
    for (enum work_pass pass = WORK_FORWARD; pass <= WORK_BACKWARD_INPUT; pass++) {
        const struct layer_work *attention = model_work_of(divided, 1, pass);
        assert_int_equal(attention->exchange_count, 1);
        assert_int_equal(attention->exchanges[0].collective, COLLECTIVE_ALLREDUCE);
        assert_true(attention->exchanges[0].bytes == rows);
        assert_int_equal(model_work_of(alone, 1, pass)->exchange_count, 0);
    }
    /* With rows divided, too: gather them, and reduce-scatter the sums; the same bytes. */
    const struct layer_work *forward = model_work_of(by_rows, 2, WORK_FORWARD);
    assert_int_equal(forward->exchange_count, 2);
    assert_int_equal(forward->exchanges[0].collective, COLLECTIVE_ALLGATHER);
    assert_int_equal(forward->exchanges[1].collective, COLLECTIVE_REDUCE_SCATTER);
    assert_true(forward->exchanges[0].bytes == rows && forward->exchanges[1].bytes == rows);
    assert_true(forward->bytes < model_work_of(divided, 2, WORK_FORWARD)->bytes);
    assert_true(model_work_output_bytes(by_rows, 1) == rows / 4);
    model_work_close(alone);
    model_work_close(divided);
    model_work_close(by_rows);
    model_description_free(whole);
    model_description_free(part);
}

/* Of layers that are alike, those that are recomputed repeat the forward pass, and the others do not. */
static void some_layers_recompute(void **state)
{
    const struct model_shape shape = {
        .kind = "gpt", .layers = 6, .heads = 4, .width = 64, .context = 32, .vocabulary = 64};
    struct model_description *description = describe(&shape, 1);
    for (uint32_t count = 1; count <= 6; count++) {
        struct model_work *work =
            open_work(description, &(struct work_settings){.implementation = find_implementation("weft"),
                                                           .batch = 2,
                                                           .sequence = 32,
                                                           .recompute = MODEL_RECOMPUTE_ATTENTION,
                                                           .recompute_layers = count});
        for (size_t layer = 0; layer < description->layer_count; layer++)
            assert_int_equal(layer_work_flops(model_work_of(work, layer, WORK_RECOMPUTE)) > 0,
                             model_recomputes_layer(description, MODEL_RECOMPUTE_ATTENTION, count, layer));
        model_work_close(work);
    }
    model_description_free(description);
}

/* What a block recomputes: nothing, scores and softmax, all but its last product, or all. */
static void recomputation_repeats_the_forward_pass(void **state)
{
    struct model_description *description = describe(&shapes[0], 1);
    static const struct {
        const char *implementation;
        enum model_recompute recompute;
        double attention, feed_forward; /* products in units of rows x width x width, and of scores */
        double scores;
    } cases[] = {
        {"weft", MODEL_RECOMPUTE_NOTHING, 0, 0, 0},      {"weft", MODEL_RECOMPUTE_ATTENTION, 3, 0, 0.5},
        {"weft", MODEL_RECOMPUTE_ALL, 3, 4, 0.5},        {"megatron-2022", MODEL_RECOMPUTE_ATTENTION, 0, 0, 1},
        {"megatron-2022", MODEL_RECOMPUTE_ALL, 4, 8, 1},
    };
    for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
        const struct implementation *implementation = find_implementation(cases[i].implementation);
        struct model_work *work = open_work(description, &(struct work_settings){.implementation = implementation,
                                                                                 .batch = 2,
                                                                                 .sequence = 32,
                                                                                 .recompute = cases[i].recompute});
        const double unit = 2.0 * 64 * 64 * 64, pairs = implementation->skips_masked ? 33 / 32.0 : 1,
                     scores = 2 * 2.0 * 2 * 32 * 32 * 64 * pairs * cases[i].scores;
        assert_true(layer_work_flops(model_work_of(work, 1, WORK_RECOMPUTE)) == cases[i].attention * unit + scores);
        assert_true(layer_work_flops(model_work_of(work, 2, WORK_RECOMPUTE)) == cases[i].feed_forward * unit);
        assert_int_equal(model_work_of(work, 0, WORK_RECOMPUTE)->kernels, 0);
        model_work_close(work);
    }
    model_description_free(description);
}

static void equal_layers_share_their_work(void **state)
{
    const struct model_shape large = {
        .kind = "gpt", .layers = 96, .heads = 96, .width = 12288, .context = 2048, .vocabulary = 51200};
    struct model_description *description = describe(&large, 8);
    struct model_work *work =
        open_work(description, &(struct work_settings){.implementation = find_implementation("megatron-2021"),
                                                       .batch = 4,
                                                       .sequence = 2048,
                                                       .divides_rows = true,
                                                       .recompute = MODEL_RECOMPUTE_ALL,
                                                       .dropout = 0.1});
    assert_ptr_equal(model_work_of(work, 1, WORK_FORWARD), model_work_of(work, 191, WORK_FORWARD));
    assert_ptr_not_equal(model_work_of(work, 1, WORK_FORWARD), model_work_of(work, 2, WORK_FORWARD));
    assert_true(model_work_kinds(work) <= 16);
    model_work_close(work);
    model_description_free(description);
}

/* ---- layers that are alike are recorded once ---- */

static bool works_are_the_same(const struct layer_work *a, const struct layer_work *b)
{
    bool same = a->precision == b->precision && a->bytes == b->bytes && a->kernels == b->kernels &&
                a->product_count == b->product_count && a->exchange_count == b->exchange_count &&
                memcmp(a->products, b->products, a->product_count * sizeof *a->products) == 0;
    for (uint32_t i = 0; same && i < a->exchange_count; i++)
        same =
            a->exchanges[i].collective == b->exchanges[i].collective && a->exchanges[i].bytes == b->exchanges[i].bytes;
    return same;
}

/* Whether `work` is what each layer does when it is recorded by itself. */
static void expect_own_recordings(const struct model_description *description, const struct work_settings *settings,
                                  const struct model_work *work, const char *what)
{
    struct work_recorder recorder;
    assert_int_equal(work_recorder_open(&recorder, description, NULL, settings, NULL), WEFT_OK);
    for (size_t i = 0; i < description->layer_count; i++) {
        struct layer_work passes[WORK_PASSES];
        assert_int_equal(work_recorder_layer(&recorder, i, passes, NULL), WEFT_OK);
        for (enum work_pass pass = 0; pass < WORK_PASSES; pass++)
            if (!works_are_the_same(&passes[pass], model_work_of(work, i, pass)))
                fail_msg("%s: pass %d of %s has the work of another layer", what, (int)pass,
                         model_layer_name(description, i));
    }
    work_recorder_close(&recorder);
}

static void every_layer_has_the_work_that_it_records(void **state)
{
    static const char *const implementations[] = {"weft", "weft-bf16", "megatron-2021", "megatron-2022"};
    for (size_t i = 0; i < ARRAY_SIZE(shapes) * ARRAY_SIZE(implementations); i++)
        for (unsigned variant = 0; variant < 3 * 2 * 3 * 2; variant++) {
            const char *implementation = implementations[i / ARRAY_SIZE(shapes)];
            const struct model_shape *shape = &shapes[i % ARRAY_SIZE(shapes)];
            const size_t tensor = (size_t)1 << variant / 6 % 3;
            const struct work_settings settings = {.implementation = find_implementation(implementation),
                                                   .batch = 2,
                                                   .sequence = 32,
                                                   .divides_rows = tensor > 1 && variant % 2,
                                                   .recompute = (enum model_recompute)(variant / 2 % 3),
                                                   .dropout = variant / 18 * 0.1};
            if (shape->kv_heads % tensor)
                continue;
            struct model_description *description = describe(shape, tensor);
            struct model_work *work = open_work(description, &settings);
            expect_own_recordings(description, &settings, work, implementation);
            model_work_close(work);
            model_description_free(description);
        }
}

/* A network of two blocks and what is changed in the second of each kind. */
struct changed_member {
    const char *name;
    size_t shape, layer, offset, bytes;
    union {
        size_t number;
        double real;
        bool flag;
    } value;
};

#define NUMBER(shape, layer, type, member, to)                                                                         \
    {                                                                                                                  \
#type "." #member, shape, layer, offsetof(struct type, member), sizeof(size_t),                                \
        {                                                                                                              \
            .number = to                                                                                               \
        }                                                                                                              \
    }
#define FLAG(shape, layer, type, member, to)                                                                           \
    {                                                                                                                  \
#type "." #member, shape, layer, offsetof(struct type, member), sizeof(bool),                                  \
        {                                                                                                              \
            .flag = to                                                                                                 \
        }                                                                                                              \
    }
#define LINEAR(shape, layer, type, linear)                                                                             \
    NUMBER(shape, layer, type, linear.inputs, 48), NUMBER(shape, layer, type, linear.outputs, 48)

/* The third layer is the second attention layer of a gpt, the fourth the second feed-forward layer. */
static const struct changed_member changed_members[] = {
    LINEAR(0, 3, attention_layer, qkv),
    LINEAR(0, 3, attention_layer, out),
    LINEAR(1, 3, attention_layer, q),
    LINEAR(1, 3, attention_layer, k),
    LINEAR(1, 3, attention_layer, v),
    LINEAR(0, 4, feed_forward, up),
    LINEAR(0, 4, feed_forward, down),
    LINEAR(1, 4, feed_forward, gate),
    NUMBER(2, 2, dense, linear.outputs, 48),
    NUMBER(0, 3, attention_layer, norm.width, 48),
    NUMBER(0, 3, attention_layer, norm.bias, NO_PARAMETER),
    NUMBER(0, 3, attention_layer, heads, 2),
    NUMBER(1, 3, attention_layer, kv_heads, 1),
    NUMBER(0, 3, attention_layer, head_width, 8),
    NUMBER(0, 3, attention_layer, qkv.bias, NO_PARAMETER),
    FLAG(0, 3, attention_layer, qkv.outputs_first, true),
    {"rotary_base", 1, 3, offsetof(struct attention_layer, rotary_base), sizeof(double), {.real = 0}},
    NUMBER(0, 4, feed_forward, norm.width, 48),
    NUMBER(0, 4, feed_forward, hidden, 32),
    NUMBER(0, 4, feed_forward, up.bias, NO_PARAMETER),
    FLAG(1, 4, feed_forward, gated, false),
    FLAG(0, 4, feed_forward, down.outputs_first, true),
    FLAG(3, 3, attention_layer, norm.after, false),
    FLAG(3, 3, attention_layer, sees_all, false),
    FLAG(3, 4, feed_forward, norm.after, false),
    NUMBER(2, 2, dense, norm.width, 48),
    NUMBER(2, 2, dense, window, 2),
};

static const struct model_shape blocks[] = {
    {.kind = "gpt", .layers = 2, .heads = 4, .width = 64, .context = 32, .vocabulary = 100},
    {.kind = "llama", .layers = 2, .heads = 4, .kv_heads = 2, .width = 64, .context = 32, .vocabulary = 100},
    {.kind = "mlp", .layers = 3, .width = 16, .context = 32, .vocabulary = 100, .window = 3},
    {.kind = "bert", .layers = 2, .heads = 4, .width = 64, .context = 32, .vocabulary = 100},
};

/* Layer `layer` of a changed description does not have the work of the layer that was like it, but what it records. */
static void expect_different_work(const struct model_description *description, size_t layer, size_t alike,
                                  const char *what)
{
    const struct work_settings settings = {.implementation = find_implementation("weft"), .batch = 2, .sequence = 32};
    struct model_work *work = open_work(description, &settings);
    bool differs = false;
    for (enum work_pass pass = 0; pass < WORK_PASSES; pass++)
        differs = differs || model_work_of(work, layer, pass) != model_work_of(work, alike, pass);
    if (!differs)
        fail_msg("%s does not change the work", what);
    expect_own_recordings(description, &settings, work, what);
    model_work_close(work);
}

static void layers_with_other_settings_are_not_alike(void **state)
{
    for (size_t i = 0; i < ARRAY_SIZE(changed_members); i++) {
        const struct changed_member *member = &changed_members[i];
        struct model_description *description = describe(&blocks[member->shape], 1);
        const size_t alike = strcmp(blocks[member->shape].kind, "mlp") == 0 ? 3 : member->layer - 2;
        assert_true(model_layers_are_alike(description, member->layer, alike));
        memcpy((char *)description->layers[member->layer].settings + member->offset, &member->value, member->bytes);
        assert_false(model_layers_are_alike(description, member->layer, alike));
        expect_different_work(description, member->layer, alike, member->name);
        model_description_free(description);
    }
}

static void layers_with_other_parameters_are_not_alike(void **state)
{
    struct model_description *description = describe(&blocks[0], 1);
    const struct layer *layer = &description->layers[3];
    struct model_parameter *gain = &description->parameters[layer->parameter];
    gain->shape[0] = 40; /* a longer gap, which is cleared */
    model_lay_out_parameters(description);
    expect_different_work(description, 3, 1, "the shape of a parameter");
    model_description_free(description);

    description = describe(&blocks[0], 1);
    description->parameters[description->layers[3].parameter].absent = true;
    model_lay_out_parameters(description);
    expect_different_work(description, 3, 1, "an absent parameter");
    model_description_free(description);

    description = describe(&blocks[0], 1);
    description->layers[3].width = 48;
    expect_different_work(description, 3, 1, "the width of a layer");
    model_description_free(description);

    description = describe(&blocks[0], 1);
    for (size_t i = 0; i < description->layers[3].parameter; i++)
        description->parameters[i].frozen = true;
    model_lay_out_parameters(description);
    expect_different_work(description, 3, 1, "a layer that is passed over");
    model_description_free(description);
}

/* ---- the time of a device ---- */

static const struct cluster_device device = {
    .kind = "test",
    .memory_bandwidth = 1e9,
    .flops = {[CLUSTER_F32] = 1e12},
    .launch_seconds = 1e-6,
    .product_share = 0.5,
    .product_half = 1e6,
    .memory_share = 0.5,
};

static void a_device_takes_the_longer_of_arithmetic_and_memory(void **state)
{
    struct layer_work work = {
        .bytes = 1e6,
        .kernels = 3,
        .products = {{.rows = 100, .columns = 100, .inner = 100, .batch = 2, .count = 3, .bytes = 1},
                     {.rows = 1, .columns = 100, .inner = 100, .batch = 1, .count = 1, .bytes = 1e6}},
        .product_count = 2};
    const double expected = 1e6 / 5e8 + 3e-6 + 3 * (4e6 + 1e6) / 5e11 + 1e6 / 5e8;
    assert_true(are_close(device_seconds(&device, &work), expected));
    assert_true(device_seconds(&device, &(struct layer_work){0}) == 0);
    assert_true(device_seconds(&device, &(struct layer_work){.bytes = 1}) > 0);
}

static double seconds_of_product(const struct cluster_device *on, double rows, double columns, double batch)
{
    return device_seconds(
        on, &(struct layer_work){
                .products = {{.rows = rows, .columns = columns, .inner = 300, .batch = batch, .count = 1, .bytes = 1}},
                .product_count = 1});
}

static void products_take_whole_waves_of_tiles(void **state)
{
    const struct cluster_device tiled = {.memory_bandwidth = 1e9,
                                         .flops = {[CLUSTER_F32] = 1e12},
                                         .product_share = 0.5,
                                         .processors = 4,
                                         .product_fill = 100};
    const double wave = 2 * 4 * 128.0 * 256 * (300 + 100) / 5e11;
    assert_true(are_close(seconds_of_product(&tiled, 1, 1, 1), wave));
    assert_true(are_close(seconds_of_product(&tiled, 256, 512, 1), wave));
    assert_true(are_close(seconds_of_product(&tiled, 257, 512, 1), 2 * wave));
    assert_true(are_close(seconds_of_product(&tiled, 512, 128, 2), wave)); /* the longer side along the rows */
    assert_true(are_close(seconds_of_product(&tiled, 512, 128, 3), 2 * wave));
}

static void a_device_that_cannot_is_named(void **state)
{
    struct error error = {0};
    assert_int_equal(device_check(&device, find_implementation("weft"), &error), WEFT_OK);
    assert_int_equal(device_check(&device, find_implementation("weft-bf16"), &error), WEFT_ERROR_ARGUMENT);
    assert_non_null(strstr(error.text, "test"));
    assert_non_null(strstr(error.text, "bf16"));
    const struct implementation *none = NULL;
    error_clear(&error);
    assert_int_equal(implementation_find("megatron-2020", &none, &error), WEFT_ERROR_ARGUMENT);
    assert_non_null(strstr(error.text, "did you mean 'megatron-202"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(products_are_those_of_the_formula),
        cmocka_unit_test(ranks_of_a_tensor_axis_share_products),
        cmocka_unit_test(recomputation_repeats_the_forward_pass),
        cmocka_unit_test(some_layers_recompute),
        cmocka_unit_test(equal_layers_share_their_work),
        cmocka_unit_test(every_layer_has_the_work_that_it_records),
        cmocka_unit_test(layers_with_other_settings_are_not_alike),
        cmocka_unit_test(layers_with_other_parameters_are_not_alike),
        cmocka_unit_test(a_device_takes_the_longer_of_arithmetic_and_memory),
        cmocka_unit_test(products_take_whole_waves_of_tiles),
        cmocka_unit_test(a_device_that_cannot_is_named),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
