/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Passes layer by layer: a network is cut into stages, which are dealt out to ranks. Each rank has a restricted
 * description, its own arrays and a model with several slots. Micro-batches are computed in random order, with rows and
 * gradients handed over between stages. Every loss, gradient and weight must have the bits of the whole network's.
 */
#include "../bert_support.h"
#include "training/model/passes.h"
#include "training/optimizer/optimizer.h"

#include "tensor_support.h"

#define VOCABULARY    33
#define BATCH         2
#define SEQUENCE      9
#define TOKENS        (BATCH * SEQUENCE)
#define MICRO_BATCHES 3
#define LAYERS_MOST   8
#define FROZEN        5 /* parameters, in the variant with frozen ones */

static const struct model_shape shapes[] = {
    {.kind = "gpt", .layers = 2, .heads = 3, .width = 21, .context = 12, .vocabulary = VOCABULARY},
    {.kind = "llama",
     .layers = 2,
     .heads = 6,
     .kv_heads = 3,
     .width = 36,
     .context = 12,
     .vocabulary = VOCABULARY,
     .untied = true},
    {.kind = "llama", .layers = 2, .heads = 4, .width = 24, .context = 12, .vocabulary = VOCABULARY},
    {.kind = "mlp", .layers = 3, .width = 10, .window = 4, .hidden = 30, .context = 12, .vocabulary = VOCABULARY},
    {.kind = "bert", .layers = 2, .heads = 3, .width = 24, .context = 12, .vocabulary = VOCABULARY},
    {.kind = "bert", .layers = 2, .heads = 3, .width = 24, .context = 12, .vocabulary = VOCABULARY, .classes = 3},
};

/* How a network is computed. Stage s belongs to rank s % ranks. */
struct variant {
    const char *device;
    enum model_recompute recompute;
    uint32_t recompute_layers;
    double dropout;
    bool split, frozen;
    size_t stages, ranks;
};

/* A description with flat arrays. */
struct network_arrays {
    struct model_description *description;
    void *values, *activations;
    void *gradients[MICRO_BATCHES];
};

struct whole {
    struct network_arrays arrays;
    double losses[MICRO_BATCHES];
    double evaluated;
};

struct rank {
    struct network_arrays arrays;
    bool layers[LAYERS_MOST];
    size_t slots;
    struct model *model;
};

struct fixture {
    struct variant variant;
    struct device *device;
    size_t layers;
    size_t stage_of[LAYERS_MOST];
    int32_t tokens[MICRO_BATCHES][TOKENS + 1];
    struct bert_sample_arrays samples[MICRO_BATCHES];
    struct model_batch batches[MICRO_BATCHES];
    struct whole whole;
    struct rank ranks[LAYERS_MOST];
    void *rows[MICRO_BATCHES][LAYERS_MOST]; /* that enter a stage */
    void *gradients[MICRO_BATCHES];         /* of the rows between two layers */
};

static struct model_batch batch_of(const struct fixture *fixture, size_t micro_batch)
{
    struct model_batch batch = fixture->batches[micro_batch];
    batch.seed = 7;
    batch.sample = micro_batch * BATCH;
    return batch;
}

/* ---- the whole network ---- */

static struct model_options options_of(const struct variant *variant)
{
    return (struct model_options){.batch = BATCH,
                                  .sequence = SEQUENCE,
                                  .training = true,
                                  .recompute = variant->recompute,
                                  .recompute_layers = variant->recompute_layers,
                                  .label_smoothing = 0.1,
                                  .dropout = variant->dropout};
}

static void arrays_open(const struct fixture *fixture, const struct model_shape *shape, const bool *kept,
                        struct network_arrays *arrays)
{
    struct device *device = fixture->device;
    assert_int_equal(model_describe(shape, &arrays->description, NULL), WEFT_OK);
    struct model_description *description = arrays->description;
    for (size_t i = 0; fixture->variant.frozen && i < FROZEN; i++)
        description->parameters[i].frozen = true;
    model_lay_out_parameters(description);
    if (kept)
        model_keep_layers(description, kept);
    arrays->values = make_array(device, description->elements);
    arrays->activations = make_array(device, description->elements);
    for (size_t m = 0; m < MICRO_BATCHES; m++) {
        arrays->gradients[m] = make_array(device, description->gradient_elements);
        device->fill(device, description->gradient_elements, NAN, arrays->gradients[m]);
    }
    assert_int_equal(model_initialize(description, device, arrays->values, 5, NULL), WEFT_OK);
    device->scale(device, description->elements, 5, arrays->values); /* far from uniform logits */
    device->to_activations(device, description->elements, arrays->values, arrays->activations);
}

static void arrays_close(const struct fixture *fixture, struct network_arrays *arrays)
{
    for (size_t m = 0; m < MICRO_BATCHES; m++)
        fixture->device->release(fixture->device, arrays->gradients[m]);
    fixture->device->release(fixture->device, arrays->values);
    fixture->device->release(fixture->device, arrays->activations);
    model_description_free(arrays->description);
}

static void whole_open(struct fixture *fixture, const struct model_shape *shape)
{
    struct whole *whole = &fixture->whole;
    const struct model_options options = options_of(&fixture->variant);
    struct model *model;
    arrays_open(fixture, shape, NULL, &whole->arrays);
    assert_int_equal(model_open(whole->arrays.description, fixture->device, &options, &model, NULL), WEFT_OK);
    for (size_t m = 0; m < MICRO_BATCHES; m++) {
        const struct model_batch batch = batch_of(fixture, m);
        assert_int_equal(model_forward(model, whole->arrays.values, &batch, &whole->losses[m], NULL), WEFT_OK);
        assert_int_equal(model_backward(model, whole->arrays.values, whole->arrays.gradients[m], NULL, NULL, NULL),
                         WEFT_OK);
    }
    const struct model_batch first = batch_of(fixture, 0);
    assert_int_equal(model_evaluate(model, whole->arrays.values, &first, &whole->evaluated, NULL), WEFT_OK);
    model_close(model);
}

/* ---- ranks with stages ---- */

static void rank_open(struct fixture *fixture, const struct model_shape *shape, size_t number)
{
    const struct variant *variant = &fixture->variant;
    struct rank *rank = &fixture->ranks[number];
    for (size_t i = 0; i < fixture->layers; i++)
        rank->layers[i] = fixture->stage_of[i] % variant->ranks == number;
    for (size_t s = number; s < variant->stages; s += variant->ranks)
        rank->slots += MICRO_BATCHES;
    arrays_open(fixture, shape, rank->layers, &rank->arrays);
    struct model_options options = options_of(variant);
    options.layers = rank->layers;
    options.slots = rank->slots;
    options.split = variant->split;
    assert_int_equal(model_open(rank->arrays.description, fixture->device, &options, &rank->model, NULL), WEFT_OK);
}

static void fixture_open(struct fixture *fixture, const struct model_shape *shape, const struct variant *variant)
{
    *fixture = (struct fixture){.variant = *variant, .device = open_device(variant->device, 1)};
    for (size_t m = 0; m < MICRO_BATCHES; m++) {
        int32_t *tokens = fixture->tokens[m];
        fill_below(tokens, TOKENS + 1, m, VOCABULARY);
        fixture->batches[m] = (struct model_batch){.tokens = tokens, .targets = tokens + 1};
        if (strcmp(shape->kind, "bert") == 0)
            fixture->batches[m] =
                bert_batch_make(&fixture->samples[m], 100 * m, BATCH, SEQUENCE, VOCABULARY, shape->classes);
    }
    whole_open(fixture, shape);
    const struct model_description *description = fixture->whole.arrays.description;
    const size_t widest = TOKENS * description->widest;
    fixture->layers = description->layer_count;
    assert_in_range(fixture->layers, variant->stages, LAYERS_MOST);
    for (size_t i = 0; i < fixture->layers; i++)
        fixture->stage_of[i] = i * variant->stages / fixture->layers;
    for (size_t r = 0; r < variant->ranks; r++)
        rank_open(fixture, shape, r);
    for (size_t m = 0; m < MICRO_BATCHES; m++) {
        fixture->gradients[m] = make_array(fixture->device, widest);
        for (size_t s = 1; s < variant->stages; s++)
            fixture->rows[m][s] = make_array(fixture->device, widest);
    }
}

static void fixture_close(struct fixture *fixture)
{
    struct device *device = fixture->device;
    for (size_t m = 0; m < MICRO_BATCHES; m++) {
        device->release(device, fixture->gradients[m]);
        for (size_t s = 0; s < fixture->variant.stages; s++)
            device->release(device, fixture->rows[m][s]);
    }
    for (size_t r = 0; r < fixture->variant.ranks; r++) {
        model_close(fixture->ranks[r].model);
        arrays_close(fixture, &fixture->ranks[r].arrays);
    }
    arrays_close(fixture, &fixture->whole.arrays);
    device->close(device);
}

static struct rank *rank_of(struct fixture *fixture, size_t layer)
{
    return &fixture->ranks[fixture->stage_of[layer] % fixture->variant.ranks];
}

/* Each stage has a slot of its own for each micro-batch, in an order that mixes stages. */
static size_t slot_of(struct fixture *fixture, size_t layer, size_t micro_batch)
{
    const size_t turn = fixture->stage_of[layer] / fixture->variant.ranks;
    return rank_of(fixture, layer)->slots - 1 - (turn * MICRO_BATCHES + micro_batch);
}

enum pass_kind { PASS_EVALUATE, PASS_FORWARD, PASS_INPUT, PASS_WEIGHTS };

static void run_pass(struct fixture *fixture, enum pass_kind kind, size_t layer, size_t micro_batch)
{
    struct rank *rank = rank_of(fixture, layer);
    const size_t stage = fixture->stage_of[layer], slot = slot_of(fixture, layer, micro_batch);
    const bool first = layer == 0 || fixture->stage_of[layer - 1] != stage;
    const bool last = layer + 1 < fixture->layers && fixture->stage_of[layer + 1] != stage;
    const struct network_arrays *arrays = &rank->arrays;
    const struct layer_arrays parameters =
        model_layer_arrays(arrays->description, fixture->device, layer, arrays->values, arrays->activations,
                           kind == PASS_WEIGHTS ? arrays->gradients[micro_batch] : NULL);
    const struct layer_call call = {.layer = layer,
                                    .slot = slot,
                                    .x = first ? fixture->rows[micro_batch][stage] : NULL,
                                    .y = last && kind <= PASS_FORWARD ? fixture->rows[micro_batch][stage + 1] : NULL,
                                    .arrays = &parameters};
    if (kind <= PASS_FORWARD) {
        const struct model_batch batch = batch_of(fixture, micro_batch);
        if (first)
            assert_int_equal(model_slot_load(rank->model, slot, &batch, NULL), WEFT_OK);
        model_layer_forward(rank->model, &call, kind == PASS_FORWARD);
    } else if (kind == PASS_INPUT) {
        model_layer_backward_input(rank->model, &call, fixture->gradients[micro_batch]);
    } else {
        model_layer_backward_weights(rank->model, &call);
    }
}

/* A micro-batch on its way: forward passes done, then input passes, with weights passes some time after. */
struct course {
    size_t forward, input, weights;
};

/* The next pass of a micro-batch; with `split`, `random` decides whether weights passes wait. */
static void take_pass(struct fixture *fixture, struct course *course, size_t micro_batch, uint64_t random)
{
    const size_t layers = fixture->layers;
    if (course->forward < layers) {
        run_pass(fixture, PASS_FORWARD, course->forward++, micro_batch);
    } else if (course->input < layers && (course->weights == course->input || random % 3)) {
        run_pass(fixture, PASS_INPUT, layers - 1 - course->input++, micro_batch);
        if (!fixture->variant.split)
            run_pass(fixture, PASS_WEIGHTS, layers - 1 - course->weights++, micro_batch);
    } else if (course->weights < layers) {
        run_pass(fixture, PASS_WEIGHTS, layers - 1 - course->weights++, micro_batch);
    }
}

static void run_step(struct fixture *fixture)
{
    struct course courses[MICRO_BATCHES] = {0};
    size_t done = 0;
    for (uint64_t i = 0; done < MICRO_BATCHES; i++) {
        const size_t m = random_below(11, i, MICRO_BATCHES);
        take_pass(fixture, &courses[m], m, random_bits(12, i));
        done = 0;
        for (size_t k = 0; k < MICRO_BATCHES; k++)
            done += courses[k].weights == fixture->layers;
    }
}

/* ---- what must be equal ---- */

static const void *at(const struct fixture *fixture, const void *array, size_t element)
{
    return (const char *)array + element * weft_type_size(fixture->device->type);
}

static void check_equal(const struct fixture *fixture, const char *what, const struct model_parameter *parameter,
                        const void *array, size_t offset, const void *whole)
{
    if (memcmp(at(fixture, array, offset), at(fixture, whole, parameter->offset),
               parameter->count * weft_type_size(fixture->device->type)) != 0)
        fail_msg("%s of %s: stages %zu on %zu ranks, recompute %d, dropout %g, split %d, frozen %d, %s", what,
                 parameter->name, fixture->variant.stages, fixture->variant.ranks, (int)fixture->variant.recompute,
                 fixture->variant.dropout, fixture->variant.split, fixture->variant.frozen, fixture->variant.device);
}

/* Add the parts of the gradient of a tied table, where its first layer is. */
static void add_tied(struct fixture *fixture, size_t micro_batch)
{
    struct device *device = fixture->device;
    const struct network_arrays *first = &rank_of(fixture, 0)->arrays,
                                *last = &rank_of(fixture, fixture->layers - 1)->arrays;
    const size_t group = model_tied_group(first->description);
    if (group == NO_PARAMETER || fixture->variant.frozen)
        return;
    const size_t offset = first == last ? first->description->elements : last->description->groups[group].offset;
    void *table = (void *)at(fixture, first->gradients[micro_batch], first->description->groups[group].offset);
    device->add(device, first->description->groups[group].count, table,
                at(fixture, last->gradients[micro_batch], offset), table);
}

/* A rank's groups have the whole network's values, gradients and sums of squares, and nothing in their gaps. */
static void check_rank(const struct fixture *fixture, const struct rank *rank)
{
    struct device *device = fixture->device;
    const struct network_arrays *own = &rank->arrays, *whole = &fixture->whole.arrays;
    const struct model_description *description = own->description;
    const bool heads_part = !rank->layers[0]; /* of a tied table's gradient, not the sum */
    double sums[16], expected[16];
    assert_in_range(description->blocks, 1, 16);
    for (size_t m = 0; m < MICRO_BATCHES; m++) {
        device->sum_of_squares(device, whole->description->elements, whole->gradients[m], expected);
        for (size_t g = 0; g < description->group_count; g++) {
            const struct model_group *group = &description->groups[g];
            if (heads_part && g == model_tied_group(description))
                continue;
            for (size_t i = group->parameter; group->count && i < group->parameter + group->parameter_count; i++) {
                const struct model_parameter *parameter = &whole->description->parameters[i];
                check_equal(fixture, "values", parameter, own->values, description->parameters[i].offset,
                            whole->values);
                check_equal(fixture, "gradient", parameter, own->gradients[m], description->parameters[i].offset,
                            whole->gradients[m]);
            }
            device->sum_of_squares(device, group->count, at(fixture, own->gradients[m], group->offset), sums);
            for (size_t b = 0; b < tree_blocks(group->count); b++)
                assert_true(isfinite(sums[b]) && sums[b] == expected[group->block + b]);
        }
    }
}

static void check_variant(const struct model_shape *shape, const struct variant *variant)
{
    struct fixture fixture;
    double loss;
    fixture_open(&fixture, shape, variant);
    struct rank *last = rank_of(&fixture, fixture.layers - 1);
    for (size_t i = 0; i < fixture.layers; i++)
        run_pass(&fixture, PASS_EVALUATE, i, 0);
    assert_int_equal(model_slot_loss(last->model, slot_of(&fixture, fixture.layers - 1, 0), &loss, NULL), WEFT_OK);
    assert_true(loss == fixture.whole.evaluated);
    run_step(&fixture);
    for (size_t m = 0; m < MICRO_BATCHES; m++) {
        assert_int_equal(model_slot_loss(last->model, slot_of(&fixture, fixture.layers - 1, m), &loss, NULL), WEFT_OK);
        assert_true(loss == fixture.whole.losses[m]);
        add_tied(&fixture, m);
    }
    for (size_t r = 0; r < variant->ranks; r++)
        check_rank(&fixture, &fixture.ranks[r]);
    fixture_close(&fixture);
}

static void stages_compute_what_the_whole_network_computes(void **state)
{
    static const struct {
        size_t stages, ranks;
    } cuts[] = {{1, 1}, {2, 2}, {3, 3}, {5, 5}, {4, 2}, {2, 1}};
    static const char *const devices[] = {"cpu", "cpu-bf16", "cpu-f16"};
    for (size_t i = 0; i < ARRAY_SIZE(shapes) * ARRAY_SIZE(cuts) * ARRAY_SIZE(devices) * 12; i++) {
        const size_t cut = i / 12 % ARRAY_SIZE(cuts), rest = i / 12 / ARRAY_SIZE(cuts);
        check_variant(&shapes[rest / ARRAY_SIZE(devices)],
                      &(struct variant){.device = devices[rest % ARRAY_SIZE(devices)],
                                        .recompute = i % 3,
                                        .recompute_layers = i / 3 % 2 ? 2 : 0,
                                        .dropout = i / 3 % 2 ? 0.2 : 0,
                                        .split = i / 6 % 2,
                                        .stages = cuts[cut].stages,
                                        .ranks = cuts[cut].ranks});
    }
}

static void recomputed_layers_are_spread(void **state)
{
    const struct model_shape shape = {
        .kind = "gpt", .layers = 7, .heads = 2, .width = 16, .context = 16, .vocabulary = 32};
    struct model_description *description;
    assert_int_equal(model_describe(&shape, &description, NULL), WEFT_OK);
    const size_t layers = description->layer_count; /* embedding, 7 x (attention, feed-forward), head */
    for (enum model_recompute what = MODEL_RECOMPUTE_NOTHING; what <= MODEL_RECOMPUTE_ALL; what++) {
        const uint32_t most = model_recompute_most(description, what);
        assert_int_equal(most, what == MODEL_RECOMPUTE_ALL ? layers - 1 : what == MODEL_RECOMPUTE_ATTENTION ? 7 : 0);
        for (uint32_t count = 0; count <= most + 1; count++) {
            uint32_t recomputed = 0, gap = 0, longest = 0;
            for (size_t layer = 0; layer < layers; layer++) {
                const bool again = model_recomputes_layer(description, what, count, layer);
                recomputed += again;
                gap = again ? 0 : gap + model_recomputes_layer(description, what, 0, layer);
                longest = gap > longest ? gap : longest;
            }
            assert_int_equal(recomputed, count && count < most ? count : most);
            assert_true(recomputed == 0 || longest <= (most + recomputed - 1) / recomputed);
        }
    }
    assert_false(model_recomputes_layer(description, MODEL_RECOMPUTE_ALL, 0, layers - 1));
    model_description_free(description);
}

/* The first layers have no trained parameter: their gradients are 0. */
static void frozen_layers_are_passed_over(void **state)
{
    for (size_t i = 0; i < ARRAY_SIZE(shapes) * 4; i++)
        check_variant(&shapes[i / 4], &(struct variant){.device = "cpu",
                                                        .recompute = i % 3,
                                                        .split = i % 2,
                                                        .frozen = true,
                                                        .stages = 3,
                                                        .ranks = i / 2 % 2 ? 3 : 1});
}

/* ---- restricted descriptions ---- */

/* A step of the optimizer on all arrays, which begin with the same moments of 0. */
static void update(const struct fixture *fixture, const struct network_arrays *arrays, enum optimizer_kind kind)
{
    const size_t elements = arrays->description->elements;
    const struct optimizer optimizer = {
        .kind = kind, .beta1 = 0.9, .beta2 = 0.95, .epsilon = 1e-8, .momentum = 0.9, .trust = 1, .weight_decay = 0.1};
    struct device *device = fixture->device;
    void *first = make_array(device, elements), *second = make_array(device, elements);
    double sums[16];
    optimizer_update(arrays->description, device, &optimizer,
                     &(struct optimizer_step){.number = 1, .rate = 0.01, .gradient_scale = 1}, 0, elements,
                     &(struct optimizer_arrays){.parameters = arrays->values,
                                                .gradients = arrays->gradients[0],
                                                .first_moments = first,
                                                .second_moments = second,
                                                .sums = sums});
    device->release(device, first);
    device->release(device, second);
}

static void ranks_update_what_they_keep_alike(void **state)
{
    for (size_t s = 0; s < ARRAY_SIZE(shapes); s++)
        for (enum optimizer_kind kind = OPTIMIZER_ADAMW; kind <= OPTIMIZER_LARS; kind++) {
            struct fixture fixture;
            fixture_open(&fixture, &shapes[s], &(struct variant){.device = "cpu", .stages = 4, .ranks = 2});
            run_step(&fixture);
            add_tied(&fixture, 0);
            const struct model_description *whole = fixture.whole.arrays.description;
            const struct network_arrays *first = &fixture.ranks[0].arrays, *last = &fixture.ranks[1].arrays;
            if (whole->tied != NO_PARAMETER) /* of which the last rank has a part */
                memcpy((void *)at(&fixture, last->gradients[0], last->description->parameters[whole->tied].offset),
                       first->gradients[0], whole->parameters[whole->tied].count * sizeof(float));
            update(&fixture, &fixture.whole.arrays, kind);
            for (size_t r = 0; r < 2; r++) {
                const struct network_arrays *own = &fixture.ranks[r].arrays;
                update(&fixture, own, kind);
                for (size_t i = 0; i < whole->parameter_count; i++)
                    if (!own->description->parameters[i].absent)
                        check_equal(&fixture, optimizer_names[kind], &whole->parameters[i], own->values,
                                    own->description->parameters[i].offset, fixture.whole.arrays.values);
            }
            fixture_close(&fixture);
        }
}

/* Each subset of the layers has the groups that it uses, packed, with the numbers of the whole network. */
static void any_layers_can_be_kept(void **state)
{
    for (size_t s = 0; s < ARRAY_SIZE(shapes); s++) {
        struct model_description *whole, *some;
        assert_int_equal(model_describe(&shapes[s], &whole, NULL), WEFT_OK);
        assert_int_equal(model_describe(&shapes[s], &some, NULL), WEFT_OK);
        const size_t layers = whole->layer_count, tied = model_tied_group(whole);
        for (size_t set = 0; set < (size_t)1 << layers; set++) {
            bool kept[LAYERS_MOST], used[LAYERS_MOST + 1] = {0};
            size_t elements = 0, users = 0;
            for (size_t i = 0; i < layers; i++) {
                const size_t own = model_layer_group(whole, i);
                kept[i] = set >> i & 1;
                users += kept[i] && model_layer_uses_tied(whole, i);
                if (own != NO_PARAMETER)
                    used[own] = kept[i];
            }
            if (tied != NO_PARAMETER)
                used[tied] = users > 0;
            model_keep_layers(some, kept);
            assert_int_equal(some->weights, whole->weights);
            assert_int_equal(some->blocks, whole->blocks);
            for (size_t g = 0; g < whole->group_count; g++) {
                const struct model_group *group = &some->groups[g];
                assert_int_equal(group->block, whole->groups[g].block);
                assert_int_equal(group->count, used[g] ? whole->groups[g].count : 0);
                assert_int_equal(group->offset, elements);
                assert_int_equal(some->parameters[group->parameter].absent, !used[g]);
                elements += group->count;
            }
            assert_int_equal(some->elements, elements);
            assert_int_equal(some->gradient_elements - elements, users == 2 ? whole->groups[tied].count : 0);
        }
        model_description_free(whole);
        model_description_free(some);
    }
}

/* ---- memory and errors ---- */

static void slots_take_memory_for_the_largest_run(void **state)
{
    struct model_description *description;
    assert_int_equal(model_describe(&shapes[0], &description, NULL), WEFT_OK);
    bool layers[LAYERS_MOST] = {0};
    struct model_options options = {.batch = BATCH, .sequence = SEQUENCE, .training = true, .slots = 1};
    const size_t whole = model_memory(description, WEFT_F32, WEFT_F32, &options);
    options.layers = layers;
    layers[1] = true;
    const size_t one = model_memory(description, WEFT_F32, WEFT_F32, &options);
    layers[3] = true; /* a run of its own */
    const size_t two_runs = model_memory(description, WEFT_F32, WEFT_F32, &options);
    layers[2] = true;
    const size_t long_run = model_memory(description, WEFT_F32, WEFT_F32, &options);
    assert_true(one == two_runs && two_runs < long_run && long_run < whole);
    options.slots = 2;
    const size_t two = model_memory(description, WEFT_F32, WEFT_F32, &options);
    options.slots = 3;
    assert_int_equal(model_memory(description, WEFT_F32, WEFT_F32, &options) - two, two - long_run);
    options.split = true;
    assert_true(model_memory(description, WEFT_F32, WEFT_F32, &options) > two + (two - long_run));
    model_description_free(description);
}

static void passes_through_all_layers_are_refused(void **state)
{
    struct device *device = open_device("cpu", 1);
    struct model_description *description;
    struct model *model;
    struct error error = {0};
    int32_t tokens[TOKENS] = {0};
    double loss;
    const struct model_batch batch = {.tokens = tokens, .targets = tokens};
    assert_int_equal(model_describe(&shapes[0], &description, NULL), WEFT_OK);
    float *values = make_array(device, description->elements);
    assert_int_equal(
        model_open(description, device,
                   &(struct model_options){.batch = BATCH, .sequence = SEQUENCE, .training = true, .slots = 1}, &model,
                   NULL),
        WEFT_OK);
    assert_int_equal(model_forward(model, values, &batch, &loss, &error), WEFT_ERROR_STATE);
    assert_non_null(strstr(error.text, "layer by layer"));
    tokens[TOKENS - 1] = VOCABULARY;
    assert_int_equal(model_slot_load(model, 0, &batch, &error), WEFT_ERROR_DATA);
    model_close(model);
    device->release(device, values);
    model_description_free(description);
    device->close(device);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(stages_compute_what_the_whole_network_computes),
        cmocka_unit_test(recomputed_layers_are_spread),
        cmocka_unit_test(frozen_layers_are_passed_over),
        cmocka_unit_test(ranks_update_what_they_keep_alike),
        cmocka_unit_test(any_layers_can_be_kept),
        cmocka_unit_test(slots_take_memory_for_the_largest_run),
        cmocka_unit_test(passes_through_all_layers_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
