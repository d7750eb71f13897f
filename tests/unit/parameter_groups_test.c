/* SPDX-License-Identifier: Apache-2.0 */
/* Groups of parameters: which tensors a pattern names, and that each optimizer treats every group as its own step. */
#include "training/optimizer/optimizer.h"

#include "tensor_support.h"

static const struct model_shape shape = {
    .kind = "gpt", .layers = 12, .heads = 1, .width = 6, .context = 5, .vocabulary = 9};

static struct device *device;
static struct model_description *description;

static int set_up(void **state)
{
    device = open_device("cpu", 1);
    return model_describe(&shape, &description, NULL);
}

static int tear_down(void **state)
{
    model_description_free(description);
    device->close(device);
    return 0;
}

static void patterns(void **state)
{
    static const struct {
        const char *pattern, *name;
        bool matches;
    } cases[] = {
        {"wte.weight", "wte.weight", true},
        {"wte", "wte.weight", true},
        {"wt", "wte.weight", false},
        {"weight", "wte.weight", false},
        {"h.1", "h.1.ln_1.bias", true},
        {"h.1", "h.10.ln_1.bias", false},
        {"h.1", "h.11.ln_1.bias", false},
        {"h.1.ln_1", "h.1.ln_1.bias", true},
        {"h.0-5", "h.0.ln_1.bias", true},
        {"h.0-5", "h.5.ln_1.bias", true},
        {"h.0-5", "h.6.ln_1.bias", false},
        {"h.0-5", "h.10.ln_1.bias", false},
        {"h.9-11", "h.10.ln_1.bias", true},
        {"h.5-0", "h.3.ln_1.bias", false},
        {"h.2-3.mlp", "h.3.mlp.c_fc.weight", true},
        {"h.2-3.mlp", "h.3.attn.c_attn.weight", false},
        {"model.layers.0-1.self_attn", "model.layers.1.self_attn.q_proj.weight", true},
        {"*.bias", "h.3.attn.c_attn.bias", true},
        {"*.bias", "h.3.attn.c_attn.weight", false},
        {"h.*.ln_[12]", "h.3.ln_2.bias", true},
        {"h.[02]", "h.2.ln_2.bias", true},
        {"h.[02]", "h.1.ln_2.bias", false},
        {"h.?", "h.10.ln_2.bias", false},
        {"*", "ln_f.bias", true},
        {"0-5", "h.3.ln_2.bias", false},
        {"99999999999999999999-5", "h.3.ln_2.bias", false},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        if (parameter_pattern_matches(cases[i].pattern, cases[i].name) != cases[i].matches)
            fail_msg("'%s' should %smatch '%s'", cases[i].pattern, cases[i].matches ? "" : "not ", cases[i].name);
}

/* A copy of the description with rules applied; model_description_free() frees it. */
static struct model_description *describe_with(const struct parameter_rules *rules)
{
    struct model_description *ruled;
    assert_int_equal(model_describe(&description->shape, &ruled, NULL), WEFT_OK);
    assert_int_equal(parameter_rules_apply(rules, ruled, NULL), WEFT_OK);
    return ruled;
}

static void rules(void **state)
{
    struct model_description *ruled = describe_with(&(struct parameter_rules){0});
    assert_int_equal(ruled->first_trainable, 0);
    assert_int_equal(ruled->frozen_weights, 0);
    for (size_t i = 0; i < description->parameter_count; i++) {
        const struct model_parameter *parameter = &ruled->parameters[i];
        assert_true(parameter->rate_factor == 1 && !parameter->frozen);
        assert_true(parameter->decay == description->parameters[i].decay);
    }
    model_description_free(ruled);
    const struct parameter_rules some = {.freeze = "wte,wpe,h.0",
                                         .no_decay = "h.3",
                                         .rates = {"h=0.5", "h.4-5,h.0=0.25", "h.5.ln_1=2"},
                                         .rate_count = 3};
    ruled = describe_with(&some);
    assert_true(model_parameter_find(ruled, "wte.weight")->frozen);
    assert_true(model_parameter_find(ruled, "h.0.ln_1.bias")->frozen);
    assert_int_equal(ruled->first_trainable, model_parameter_find(ruled, "h.1.ln_1.weight") - ruled->parameters);
    assert_true(model_parameter_find(ruled, "h.1.mlp.c_fc.weight")->rate_factor == 0.5);
    assert_true(model_parameter_find(ruled, "h.1.mlp.c_fc.weight")->decay);
    assert_true(model_parameter_find(ruled, "h.4.mlp.c_fc.weight")->rate_factor == 0.25); /* the last one counts */
    assert_true(model_parameter_find(ruled, "h.5.ln_1.weight")->rate_factor == 2);
    assert_true(model_parameter_find(ruled, "ln_f.weight")->rate_factor == 1);
    assert_false(model_parameter_find(ruled, "h.3.mlp.c_fc.weight")->decay);
    model_description_free(ruled);
}

static void rules_that_cannot_be(void **state)
{
    static const struct {
        struct parameter_rules rules;
        const char *words;
    } cases[] = {
        {{.freeze = "wte,hh.0"}, "--freeze: the model has no tensor 'hh.0'; the nearest is 'h.0'"},
        {{.no_decay = "h.12"}, "--no-decay: the model has no tensor 'h.12'; the nearest is 'h.1"},
        {{.freeze = "zzzzzzzzzzzzzz"}, "the nearest is 'wte.weight'"},
        {{.freeze = ""}, "pattern of 0 letters"},
        {{.freeze = "wte,,wpe"}, "pattern of 0 letters"},
        {{.freeze = "wte,"}, "pattern of 0 letters"},
        {{.freeze = "h,w*,ln_f"}, "nothing is left to train"},
        {{.rates = {"wte"}, .rate_count = 1}, "has no factor"},
        {{.rates = {"wte="}, .rate_count = 1}, "--rate-for"},
        {{.rates = {"wte=nan"}, .rate_count = 1}, "--rate-for"},
        {{.rates = {"wte=-1"}, .rate_count = 1}, "--rate-for"},
        {{.rates = {"=1"}, .rate_count = 1}, "pattern of 0 letters"},
    };
    struct model_description *unchanged = describe_with(&(struct parameter_rules){0});
    for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
        struct error error = {0};
        assert_int_equal(parameter_rules_apply(&cases[i].rules, unchanged, &error), WEFT_ERROR_ARGUMENT);
        assert_int_equal(unchanged->first_trainable, 0);
        for (size_t j = 0; j < description->parameter_count; j++)
            assert_false(unchanged->parameters[j].frozen || unchanged->parameters[j].rate_factor != 1 ||
                         unchanged->parameters[j].decay != description->parameters[j].decay);
        if (!strstr(error.text, cases[i].words))
            fail_msg("expected '%s', got '%s'", cases[i].words, error.text);
    }
    char longest[400];
    memset(longest, 'w', sizeof longest - 1);
    longest[sizeof longest - 1] = '\0';
    const struct parameter_rules too_long = {.freeze = longest};
    assert_int_equal(parameter_rules_apply(&too_long, unchanged, NULL), WEFT_ERROR_ARGUMENT);
    model_description_free(unchanged);
}

enum { PARAMETERS, GRADIENTS, FIRST, SECOND, ARRAYS };

static void fill(float *arrays[ARRAYS])
{
    for (uint64_t i = 0; i < ARRAYS; i++) {
        memset(arrays[i], 0, description->elements * sizeof(float));
        for (size_t j = 0; j < description->parameter_count; j++)
            for (size_t k = 0; k < description->parameters[j].count; k++) {
                size_t at = description->parameters[j].offset + k;
                double value = random_normal(i, at);
                arrays[i][at] = (float)(i == SECOND ? value * value : value);
            }
    }
}

static void update(const struct model_description *of, const struct optimizer *optimizer, double rate,
                   float *arrays[ARRAYS], size_t first, size_t count, double *sums)
{
    const struct optimizer_step step = {.number = 3, .rate = rate, .gradient_scale = 0.5};
    const struct optimizer_arrays range = {.parameters = arrays[PARAMETERS] + first,
                                           .gradients = arrays[GRADIENTS] + first,
                                           .first_moments = arrays[FIRST] + first,
                                           .second_moments = arrays[SECOND] + first,
                                           .sums = sums};
    optimizer_update(of, device, optimizer, &step, first, count, &range);
    finish_device(device);
}

/* Each tensor ends as it would if its rate and decay were everybody's; a frozen one stays; any cut gives the same. */
static void every_group_takes_its_own_step(void **state)
{
    const struct parameter_rules some = {
        .freeze = "wpe,h.3.ln_1,h.10-11", .no_decay = "h.1.mlp", .rates = {"h.2=0.25", "ln_f=0"}, .rate_count = 2};
    struct model_description *ruled = describe_with(&some);
    const size_t elements = description->elements;
    double *sums = calloc(tree_blocks(elements), sizeof *sums);
    float *found[ARRAYS], *before[ARRAYS], *expected[ARRAYS];
    for (size_t i = 0; i < ARRAYS; i++) {
        found[i] = make_array(device, elements);
        before[i] = make_array(device, elements);
        expected[i] = make_array(device, elements);
    }
    fill(before);
    for (enum optimizer_kind kind = OPTIMIZER_ADAMW; kind <= OPTIMIZER_LARS; kind++) {
        struct optimizer optimizer = {.kind = kind,
                                      .beta1 = 0.9,
                                      .beta2 = 0.95,
                                      .epsilon = 1e-8,
                                      .momentum = 0.8,
                                      .trust = 0.01,
                                      .weight_decay = 0.1};
        const bool elementwise = kind == OPTIMIZER_ADAMW || kind == OPTIMIZER_SGD;
        fill(found);
        for (size_t first = 0, count; first < elements; first += count) {
            count = elementwise && elements - first > 1008 ? 1008 : elements - first;
            update(ruled, &optimizer, 0.02, found, first, count, sums);
        }
        for (size_t j = 0; j < description->parameter_count; j++) {
            const struct model_parameter *parameter = &description->parameters[j];
            const struct model_parameter *treated = &ruled->parameters[j];
            const struct optimizer without_decay = {
                .kind = kind, .beta1 = 0.9, .beta2 = 0.95, .epsilon = 1e-8, .momentum = 0.8, .trust = 0.01};
            fill(expected);
            /* lamb and lars do not scale by norms where a tensor has no decay, so they get it by a rule alone. */
            const bool decay_taken_away = parameter->decay && !treated->decay && !treated->frozen;
            if (decay_taken_away && !elementwise)
                continue;
            if (!treated->frozen)
                update(description, decay_taken_away ? &without_decay : &optimizer, 0.02 * treated->rate_factor,
                       expected, parameter->offset, parameter->count, sums);
            static const size_t compared[] = {PARAMETERS, FIRST, SECOND};
            for (size_t i = 0; i < 3; i++)
                if (memcmp(found[compared[i]] + parameter->offset, expected[compared[i]] + parameter->offset,
                           parameter->count * sizeof(float)) != 0)
                    fail_msg("%s: array %zu of '%s' differs", optimizer_names[kind], compared[i], parameter->name);
            if (treated->frozen)
                assert_memory_equal(found[PARAMETERS] + parameter->offset, before[PARAMETERS] + parameter->offset,
                                    parameter->count * sizeof(float));
        }
    }
    for (size_t i = 0; i < ARRAYS; i++) {
        device->release(device, found[i]);
        device->release(device, before[i]);
        device->release(device, expected[i]);
    }
    model_description_free(ruled);
    free(sums);
}

/* Whatever the shards are, frozen elements and no others become 0. */
static void frozen_gradients_are_cleared(void **state)
{
    const struct parameter_rules some = {.freeze = "wpe,h.3.ln_1,h.10-11"};
    struct model_description *ruled = describe_with(&some);
    const size_t elements = description->elements;
    float *gradients = make_array(device, elements);
    for (size_t shard = 1; shard <= elements; shard = shard * 3 + 1) {
        for (size_t i = 0; i < elements; i++)
            gradients[i] = 1;
        for (size_t first = 0; first < elements; first += shard)
            optimizer_clear_frozen(ruled, device, first, elements - first < shard ? elements - first : shard,
                                   gradients + first);
        finish_device(device);
        for (size_t j = 0; j < description->parameter_count; j++)
            for (size_t k = 0; k < description->parameters[j].count; k++)
                if (gradients[description->parameters[j].offset + k] != !ruled->parameters[j].frozen)
                    fail_msg("element %zu of '%s', shards of %zu", k, description->parameters[j].name, shard);
    }
    model_description_free(ruled);
    device->release(device, gradients);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(patterns),
        cmocka_unit_test(rules),
        cmocka_unit_test(rules_that_cannot_be),
        cmocka_unit_test(every_group_takes_its_own_step),
        cmocka_unit_test(frozen_gradients_are_cleared),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
