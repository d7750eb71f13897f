/* SPDX-License-Identifier: Apache-2.0 */
/* Descriptions of the ranks of a tensor axis: together they have every element of the whole network, with its initial
 * value. */
#include "tensor_support.h"
#include "training/model/model.h"
#include "training/model/tensor_group.h"

#define RANKS_MOST 4

static const struct model_shape shapes[] = {
    {.kind = "gpt", .layers = 2, .heads = 4, .width = 32, .context = 12, .vocabulary = 301},
    {.kind = "llama", .layers = 2, .heads = 8, .kv_heads = 4, .width = 64, .context = 12, .vocabulary = 303},
    {.kind = "llama", .layers = 1, .heads = 4, .width = 32, .context = 12, .vocabulary = 70, .untied = true},
    {.kind = "mlp", .layers = 3, .width = 16, .window = 3, .hidden = 64, .context = 12, .vocabulary = 301},
    {.kind = "bert", .layers = 2, .heads = 4, .width = 32, .context = 12, .vocabulary = 301},
    {.kind = "bert", .layers = 2, .heads = 4, .width = 32, .context = 12, .vocabulary = 301, .classes = 3},
};

static struct model_description *describe(const struct model_shape *shape, size_t ranks, size_t rank)
{
    struct model_description *description;
    struct error error = {0};
    if (model_describe(shape, &description, &error) != WEFT_OK ||
        (ranks && model_divide(description, ranks, rank, &error) != WEFT_OK))
        fail_msg("%s", error.text);
    return description;
}

/* The part of one rank has the whole tensor's values; count how often each of its elements occurs. */
static void compare_parameter(const struct model_description *whole, const float *values,
                              const struct model_description *part, const float *own, size_t p, unsigned *counts)
{
    size_t local = 0, end = 0;
    const struct model_parameter *parameter = &part->parameters[p];
    for (size_t r = 0; r < model_range_count(part, p); r++) {
        const struct model_range range = model_get_range(part, p, r);
        assert_int_equal(range.local, local);
        assert_true(range.first >= end && range.first + range.count <= whole->parameters[p].count);
        assert_memory_equal(own + parameter->offset + local, values + whole->parameters[p].offset + range.first,
                            range.count * sizeof *own);
        for (size_t i = 0; i < range.count; i++)
            counts[range.first + i]++;
        local += range.count;
        end = range.first + range.count;
    }
    assert_int_equal(local, parameter->count);
    for (size_t d = 0; d < parameter->dimensions; d++)
        assert_int_equal(model_whole_length(part, p, d), whole->parameters[p].shape[d]);
}

static float *initialize(const struct model_description *description, struct device *device)
{
    float *values = calloc(description->elements, sizeof *values);
    assert_int_equal(model_initialize(description, device, values, 7, NULL), WEFT_OK);
    return values;
}

static void ranks_have_the_whole_network(void **state)
{
    struct device *device = open_device("cpu", 1);
    for (size_t s = 0; s < ARRAY_SIZE(shapes); s++)
        for (size_t ranks = 1; ranks <= RANKS_MOST; ranks *= 2) {
            struct model_description *whole = describe(&shapes[s], 0, 0), *parts[RANKS_MOST];
            float *values = initialize(whole, device), *own[RANKS_MOST];
            for (size_t r = 0; r < ranks; r++) {
                parts[r] = describe(&shapes[s], ranks, r);
                own[r] = initialize(parts[r], device);
                assert_int_equal(parts[r]->weights, whole->weights);
                assert_int_equal(parts[r]->blocks, parts[0]->blocks);
            }
            for (size_t p = 0; p < whole->parameter_count; p++) {
                unsigned *counts = calloc(whole->parameters[p].count, sizeof *counts);
                for (size_t r = 0; r < ranks; r++)
                    compare_parameter(whole, values, parts[r], own[r], p, counts);
                const bool divided = whole->parameters[p].division.segments;
                for (size_t i = 0; i < whole->parameters[p].count; i++)
                    assert_int_equal(counts[i], divided ? 1 : ranks);
                free(counts);
            }
            for (size_t r = 0; r < ranks; r++) {
                model_description_free(parts[r]);
                free(own[r]);
            }
            model_description_free(whole);
            free(values);
        }
    device->close(device);
}

static void parameters_are_divided_by_their_kind(void **state)
{
    static const struct {
        const char *name;
        size_t shape[2];
    } expected[] = {{"wte.weight", {151, 32}},         {"wpe.weight", {12, 32}},
                    {"h.0.ln_1.weight", {32, 0}},      {"h.0.attn.c_attn.weight", {32, 48}},
                    {"h.0.attn.c_attn.bias", {48, 0}}, {"h.0.attn.c_proj.weight", {16, 32}},
                    {"h.0.attn.c_proj.bias", {32, 0}}, {"h.0.mlp.c_fc.weight", {32, 64}},
                    {"h.0.mlp.c_fc.bias", {64, 0}},    {"h.0.mlp.c_proj.weight", {64, 32}},
                    {"h.0.mlp.c_proj.bias", {32, 0}},  {"ln_f.bias", {32, 0}}};
    struct model_description *description = describe(&shapes[0], 2, 1);
    for (size_t i = 0; i < ARRAY_SIZE(expected); i++) {
        const struct model_parameter *parameter = model_parameter_find(description, expected[i].name);
        assert_int_equal(parameter->shape[0], expected[i].shape[0]);
        assert_int_equal(parameter->shape[1], expected[i].shape[1]);
    }
    /* The second half of the queries, then of the keys and of the values. */
    const size_t qkv = (size_t)(model_parameter_find(description, "h.0.attn.c_attn.weight") - description->parameters);
    assert_int_equal(model_range_count(description, qkv), 32 * 3);
    const struct model_range range = model_get_range(description, qkv, 4);
    assert_int_equal(range.first, 96 + 32 + 16);
    assert_int_equal(range.local, 48 + 16);
    assert_int_equal(range.count, 16);
    model_description_free(description);
}

static void what_cannot_be_divided_is_named(void **state)
{
    static const struct {
        struct model_shape shape;
        size_t ranks;
        const char *message;
    } refused[] = {
        {{.kind = "gpt", .layers = 1, .heads = 4, .width = 32, .context = 12, .vocabulary = 70}, 3, "heads is 4"},
        {{.kind = "llama", .layers = 1, .heads = 4, .kv_heads = 2, .width = 32, .context = 12, .vocabulary = 70},
         4,
         "kv_heads is 2"},
        {{.kind = "mlp", .layers = 1, .width = 16, .window = 2, .hidden = 63, .context = 12, .vocabulary = 70},
         2,
         "hidden is 63"},
        {{.kind = "mlp", .layers = 1, .width = 16, .window = 2, .hidden = 64, .context = 12, .vocabulary = 3},
         4,
         "vocabulary of 3"},
    };
    for (size_t i = 0; i < ARRAY_SIZE(refused); i++) {
        struct model_description *description = describe(&refused[i].shape, 0, 0);
        struct error error = {0};
        assert_int_equal(model_divide(description, refused[i].ranks, 0, &error), WEFT_ERROR_ARGUMENT);
        if (!strstr(error.text, refused[i].message))
            fail_msg("%s", error.text);
        model_description_free(description);
    }
}

/* Without its group, a part of a model would compute numbers that mean nothing. */
static void a_divided_model_needs_its_group(void **state)
{
    struct device *device = open_device("cpu", 1);
    struct model_description *description = describe(&shapes[0], 2, 0);
    const struct model_options options = {.batch = 1, .sequence = 8, .training = true, .slots = 1};
    struct model *model;
    struct error error = {0};
    assert_int_equal(model_open(description, device, &options, &model, &error), WEFT_ERROR_ARGUMENT);
    assert_non_null(strstr(error.text, "2 tensor ranks"));
    model_description_free(description);
    device->close(device);
}

/* Memory of a group that has room for some arrays. */
struct group_memory {
    size_t room, taken;
};

static void *take_from_group(void *context, size_t bytes)
{
    struct group_memory *memory = context;
    if (!memory->room)
        return NULL;
    memory->room--;
    memory->taken++;
    return calloc(1, bytes);
}

static void give_to_group(void *context, void *memory)
{
    ((struct group_memory *)context)->taken--;
    free(memory);
}

/* Ranks read each other's activations where they sum them; without room the device's memory does. */
static void activations_come_from_the_group(void **state)
{
    struct device *device = open_device("cpu", 1);
    struct model_description *part = describe(&shapes[0], 2, 0);
    for (size_t room = 0; room < 2; room++) {
        struct group_memory memory = {.room = room};
        const struct tensor_group group = {
            .ranks = 2, .context = &memory, .allocate = take_from_group, .release = give_to_group};
        const struct model_options options = {
            .batch = 2, .sequence = 6, .training = true, .slots = 1, .tensor = &group};
        struct model *model;
        struct error error = {0};
        if (model_open(part, device, &options, &model, &error) != WEFT_OK)
            fail_msg("%s", error.text);
        assert_int_equal(memory.taken, room);
        model_close(model);
        assert_int_equal(memory.taken, 0);
    }
    model_description_free(part);
    device->close(device);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ranks_have_the_whole_network),    cmocka_unit_test(parameters_are_divided_by_their_kind),
        cmocka_unit_test(what_cannot_be_divided_is_named), cmocka_unit_test(a_divided_model_needs_its_group),
        cmocka_unit_test(activations_come_from_the_group),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
