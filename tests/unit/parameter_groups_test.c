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

static const struct parameter_group *group_of(const struct parameter_groups *groups, const char *name)
{
    return &groups->of[model_parameter_find(description, name) - description->parameters];
}

static void rules(void **state)
{
    struct parameter_groups groups;
    const struct parameter_rules nothing = {0};
    assert_int_equal(parameter_groups_open(&groups, description, &nothing, NULL), WEFT_OK);
    assert_int_equal(groups.first_trainable, 0);
    assert_int_equal(groups.frozen_weights, 0);
    for (size_t i = 0; i < description->parameter_count; i++) {
        assert_true(groups.of[i].rate == 1 && !groups.of[i].frozen);
        assert_true(groups.of[i].decays == description->parameters[i].decay);
    }
    parameter_groups_close(&groups);
    const struct parameter_rules some = {.freeze = "wte,wpe,h.0",
                                         .no_decay = "h.3",
                                         .rates = {"h=0.5", "h.4-5,h.0=0.25", "h.5.ln_1=2"},
                                         .rate_count = 3};
    assert_int_equal(parameter_groups_open(&groups, description, &some, NULL), WEFT_OK);
    assert_true(group_of(&groups, "wte.weight")->frozen && group_of(&groups, "h.0.ln_1.bias")->frozen);
    assert_int_equal(groups.first_trainable,
                     model_parameter_find(description, "h.1.ln_1.weight") - description->parameters);
    assert_true(group_of(&groups, "h.1.mlp.c_fc.weight")->rate == 0.5);
    assert_true(group_of(&groups, "h.1.mlp.c_fc.weight")->decays);
    assert_true(group_of(&groups, "h.4.mlp.c_fc.weight")->rate == 0.25); /* the last one counts */
    assert_true(group_of(&groups, "h.5.ln_1.weight")->rate == 2);
    assert_true(group_of(&groups, "ln_f.weight")->rate == 1);
    assert_false(group_of(&groups, "h.3.mlp.c_fc.weight")->decays);
    parameter_groups_close(&groups);
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
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct parameter_groups groups = {.first_trainable = 77};
        struct error error = {0};
        assert_int_equal(parameter_groups_open(&groups, description, &cases[i].rules, &error), WEFT_ERROR_ARGUMENT);
        assert_int_equal(groups.first_trainable, 77);
        if (!strstr(error.text, cases[i].words))
            fail_msg("expected '%s', got '%s'", cases[i].words, error.text);
    }
    char longest[400];
    memset(longest, 'w', sizeof longest - 1);
    longest[sizeof longest - 1] = '\0';
    struct parameter_groups groups;
    const struct parameter_rules too_long = {.freeze = longest};
    assert_int_equal(parameter_groups_open(&groups, description, &too_long, NULL), WEFT_ERROR_ARGUMENT);
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

static void update(const struct optimizer *optimizer, double rate, float *arrays[ARRAYS], size_t first, size_t count,
                   double *sums)
{
    const struct optimizer_step step = {.number = 3, .rate = rate, .gradient_scale = 0.5};
    const struct optimizer_arrays range = {.parameters = arrays[PARAMETERS] + first,
                                           .gradients = arrays[GRADIENTS] + first,
                                           .first_moments = arrays[FIRST] + first,
                                           .second_moments = arrays[SECOND] + first,
                                           .sums = sums};
    model_update(description, device, optimizer, &step, first, count, &range);
    finish_device(device);
}

/* Each tensor ends as it would if its rate and decay were everybody's; a frozen one stays; any cut gives the same. */
static void every_group_takes_its_own_step(void **state)
{
    const struct parameter_rules some = {
        .freeze = "wpe,h.3.ln_1,h.10-11", .no_decay = "h.1.mlp", .rates = {"h.2=0.25", "ln_f=0"}, .rate_count = 2};
    struct parameter_groups groups;
    const size_t elements = description->elements;
    double *sums = calloc(tree_blocks(elements), sizeof *sums);
    float *found[ARRAYS], *before[ARRAYS], *expected[ARRAYS];
    assert_int_equal(parameter_groups_open(&groups, description, &some, NULL), WEFT_OK);
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
                                      .weight_decay = 0.1,
                                      .groups = &groups};
        const bool elementwise = kind == OPTIMIZER_ADAMW || kind == OPTIMIZER_SGD;
        fill(found);
        for (size_t first = 0, count; first < elements; first += count) {
            count = elementwise && elements - first > 1008 ? 1008 : elements - first;
            update(&optimizer, 0.02, found, first, count, sums);
        }
        optimizer.groups = NULL;
        for (size_t j = 0; j < description->parameter_count; j++) {
            const struct model_parameter *parameter = &description->parameters[j];
            const struct parameter_group *group = &groups.of[j];
            const struct optimizer without_decay = {
                .kind = kind, .beta1 = 0.9, .beta2 = 0.95, .epsilon = 1e-8, .momentum = 0.8, .trust = 0.01};
            fill(expected);
            /* lamb and lars do not scale by norms where a tensor has no decay, so they get it by a rule alone. */
            const bool decay_taken_away = parameter->decay && !group->decays && !group->frozen;
            if (decay_taken_away && !elementwise)
                continue;
            if (!group->frozen)
                update(decay_taken_away ? &without_decay : &optimizer, 0.02 * group->rate, expected, parameter->offset,
                       parameter->count, sums);
            static const size_t compared[] = {PARAMETERS, FIRST, SECOND};
            for (size_t i = 0; i < 3; i++)
                if (memcmp(found[compared[i]] + parameter->offset, expected[compared[i]] + parameter->offset,
                           parameter->count * sizeof(float)) != 0)
                    fail_msg("%s: array %zu of '%s' differs", optimizer_names[kind], compared[i], parameter->name);
            if (group->frozen)
                assert_memory_equal(found[PARAMETERS] + parameter->offset, before[PARAMETERS] + parameter->offset,
                                    parameter->count * sizeof(float));
        }
    }
    for (size_t i = 0; i < ARRAYS; i++) {
        device->release(device, found[i]);
        device->release(device, before[i]);
        device->release(device, expected[i]);
    }
    parameter_groups_close(&groups);
    free(sums);
}

/* Whatever the shards are, frozen elements and no others become 0. */
static void frozen_gradients_are_cleared(void **state)
{
    const struct parameter_rules some = {.freeze = "wpe,h.3.ln_1,h.10-11"};
    struct parameter_groups groups;
    const size_t elements = description->elements;
    float *gradients = make_array(device, elements);
    assert_int_equal(parameter_groups_open(&groups, description, &some, NULL), WEFT_OK);
    for (size_t shard = 1; shard <= elements; shard = shard * 3 + 1) {
        for (size_t i = 0; i < elements; i++)
            gradients[i] = 1;
        for (size_t first = 0; first < elements; first += shard)
            parameter_groups_clear_frozen(&groups, description, device, first,
                                          elements - first < shard ? elements - first : shard, gradients + first);
        finish_device(device);
        for (size_t j = 0; j < description->parameter_count; j++)
            for (size_t k = 0; k < description->parameters[j].count; k++)
                if (gradients[description->parameters[j].offset + k] != !groups.of[j].frozen)
                    fail_msg("element %zu of '%s', shards of %zu", k, description->parameters[j].name, shard);
    }
    parameter_groups_close(&groups);
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
