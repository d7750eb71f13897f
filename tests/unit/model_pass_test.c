/* SPDX-License-Identifier: Apache-2.0 */
/* The contract of forward, backward, evaluation and extension: what is reported, overwritten, refused. */
#include "training/model/model.h"
#include "training/model/not_finite.h"
#include "training/optimizer/optimizer.h"

#include "tensor_support.h"

#define VOCABULARY 33
#define BATCH      2
#define SEQUENCE   9
#define TOKENS     (BATCH * SEQUENCE)

static const struct model_shape gpt = {
    .kind = "gpt", .layers = 3, .heads = 3, .width = 21, .context = 12, .vocabulary = VOCABULARY};
static const struct model_shape llama = {.kind = "llama",
                                         .layers = 3,
                                         .heads = 6,
                                         .kv_heads = 3,
                                         .width = 36,
                                         .context = 12,
                                         .vocabulary = VOCABULARY,
                                         .untied = true};
static const struct model_shape mlp = {
    .kind = "mlp", .layers = 2, .width = 10, .window = 4, .hidden = 30, .context = 12, .vocabulary = VOCABULARY};
static const struct model_shape *shape; /* of the tests that run */

struct fixture {
    struct device *device;
    struct model_description *description;
    struct model *model;
    float *parameters, *gradients;
    int32_t tokens[TOKENS + 1];
    struct model_batch batch;
};

static int fixture_open(void **state)
{
    struct fixture *fixture = calloc(1, sizeof *fixture);
    struct error error = {0};
    fixture->device = open_device("cpu", 1);
    if (model_describe(shape, &fixture->description, &error) != WEFT_OK ||
        model_open(fixture->description, fixture->device,
                   &(struct model_options){.batch = BATCH, .sequence = SEQUENCE, .training = true}, &fixture->model,
                   &error) != WEFT_OK)
        fail_msg("%s", error.text);
    fixture->parameters = make_array(fixture->device, fixture->description->elements);
    fixture->gradients = make_random(fixture->device, fixture->description->gradient_elements, 1, 2);
    assert_int_equal(model_initialize(fixture->description, fixture->device, fixture->parameters, 5, NULL), WEFT_OK);
    for (size_t i = 0; i < fixture->description->elements; i++)
        fixture->parameters[i] *= 5; /* far from uniform logits */
    for (size_t i = 0; i <= TOKENS; i++)
        fixture->tokens[i] = (int32_t)random_below(3, i, shape->vocabulary);
    fixture->batch = (struct model_batch){.tokens = fixture->tokens, .targets = fixture->tokens + 1};
    *state = fixture;
    return 0;
}

static int fixture_close(void **state)
{
    struct fixture *fixture = *state;
    fixture->device->release(fixture->device, fixture->parameters);
    fixture->device->release(fixture->device, fixture->gradients);
    model_close(fixture->model);
    model_description_free(fixture->description);
    fixture->device->close(fixture->device);
    free(fixture);
    return 0;
}

static double forward(struct fixture *fixture)
{
    double loss;
    assert_int_equal(model_forward(fixture->model, fixture->parameters, &fixture->batch, &loss, NULL), WEFT_OK);
    return loss;
}

/* ---- looking at a pass ---- */

struct looking {
    struct fixture *fixture;
    struct not_finite_search search;
};

static void look(void *context, const struct model_turn *turn)
{
    struct looking *looking = context;
    const struct fixture *fixture = looking->fixture;
    const struct layer_arrays arrays = model_layer_arrays(fixture->description, fixture->device, turn->layer,
                                                          fixture->parameters, NULL, fixture->gradients);
    not_finite_look(&looking->search, turn, &arrays);
}

/* Forward and backward, with an eye on every layer. */
static struct not_finite look_at_a_pass(struct fixture *fixture)
{
    struct looking looking = {.fixture = fixture,
                              .search = {.device = fixture->device, .description = fixture->description}};
    model_watch(fixture->model, look, &looking);
    forward(fixture);
    assert_int_equal(model_backward(fixture->model, fixture->parameters, fixture->gradients, NULL, NULL, NULL),
                     WEFT_OK);
    model_watch(fixture->model, NULL, NULL);
    return looking.search.found;
}

static void a_healthy_pass_has_nothing_that_is_not_finite(void **state)
{
    assert_int_equal(look_at_a_pass(*state).where, NOT_FINITE_NOWHERE);
}

static void the_layer_of_a_spoilt_weight_is_found(void **state)
{
    struct fixture *fixture = *state;
    const size_t layer = fixture->description->layer_count / 2;
    const struct model_group *group = &fixture->description->groups[model_layer_group(fixture->description, layer)];
    float *weight = (float *)fixture->parameters + group->offset, healthy = *weight;
    *weight = NAN;
    const struct not_finite found = look_at_a_pass(fixture);
    *weight = healthy;
    assert_int_equal(found.where, NOT_FINITE_IN_OUTPUT);
    assert_string_equal(found.layer, model_layer_name(fixture->description, layer));
    assert_string_equal(found.weights, fixture->description->parameters[group->parameter].name);
}

struct seen {
    size_t next; /* call */
    size_t layers;
    bool within;
};

static void see(void *context, const struct model_turn *turn)
{
    struct seen *seen = context;
    assert_true(turn->begins != seen->within);
    seen->within = turn->begins;
    if (turn->begins)
        return;
    const size_t call = seen->next++;
    const bool backward = turn->direction == MODEL_BACKWARD; /* each layer's in two passes */
    assert_int_equal(backward, call >= seen->layers);
    assert_int_equal(turn->weights, backward && (call - seen->layers) % 2);
    assert_int_equal(turn->layer, backward ? seen->layers - 1 - (call - seen->layers) / 2 : call);
    assert_true((turn->values == NULL) == (turn->count == 0));
}

static void a_watcher_sees_every_layer_until_it_leaves(void **state)
{
    struct fixture *fixture = *state;
    struct seen seen = {.layers = fixture->description->layer_count};
    model_watch(fixture->model, see, &seen);
    forward(fixture);
    assert_int_equal(model_backward(fixture->model, fixture->parameters, fixture->gradients, NULL, NULL, NULL),
                     WEFT_OK);
    assert_int_equal(seen.next, 3 * seen.layers);
    model_watch(fixture->model, NULL, NULL);
    forward(fixture);
    assert_int_equal(seen.next, 3 * seen.layers);
}

/* ---- what backward reports ---- */

struct reported {
    struct fixture *fixture;
    size_t next; /* parameters that are not ready yet */
    float *copy; /* of the gradients, as they were when they were reported */
};

static void take_ready(void *context, size_t parameter)
{
    struct reported *reported = context;
    const struct model_description *description = reported->fixture->description;
    const size_t first = description->parameters[parameter].offset, end = model_parameter_end(description, parameter);
    assert_int_equal(parameter, --reported->next);
    memcpy(reported->copy + first, reported->fixture->gradients + first, (end - first) * sizeof *reported->copy);
}

static void gradients_are_reported_from_last_to_first_when_they_are_final(void **state)
{
    struct fixture *fixture = *state;
    size_t elements = fixture->description->elements;
    struct reported reported = {fixture, fixture->description->parameter_count, make_array(fixture->device, elements)};
    forward(fixture);
    assert_int_equal(
        model_backward(fixture->model, fixture->parameters, fixture->gradients, take_ready, &reported, NULL), WEFT_OK);
    assert_int_equal(reported.next, 0);
    assert_memory_equal(reported.copy, fixture->gradients, elements * sizeof *reported.copy);
    fixture->device->release(fixture->device, reported.copy);
}

static void backward_overwrites_and_clears_the_gaps(void **state)
{
    struct fixture *fixture = *state;
    size_t elements = fixture->description->elements;
    float *other = make_array(fixture->device, fixture->description->gradient_elements);
    for (size_t i = 0; i < elements; i++)
        other[i] = NAN;
    forward(fixture);
    assert_int_equal(model_backward(fixture->model, fixture->parameters, fixture->gradients, NULL, NULL, NULL),
                     WEFT_OK);
    forward(fixture);
    assert_int_equal(model_backward(fixture->model, fixture->parameters, other, NULL, NULL, NULL), WEFT_OK);
    assert_memory_equal(other, fixture->gradients, elements * sizeof *other);
    for (size_t i = 0, end = 0; i <= fixture->description->parameter_count; i++) {
        const struct model_parameter *parameter = &fixture->description->parameters[i];
        size_t next = i < fixture->description->parameter_count ? parameter->offset : elements;
        for (; end < next; end++)
            assert_true(other[end] == 0);
        end = i < fixture->description->parameter_count ? parameter->offset + parameter->count : end;
    }
    const struct model_parameter *positions = model_parameter_find(fixture->description, "wpe.weight");
    for (size_t i = SEQUENCE * shape->width; positions && i < positions->count; i++) /* that no sequence reached */
        assert_true(other[positions->offset + i] == 0);
    fixture->device->release(fixture->device, other);
}

/* Recomputation uses the same numbers: not a bit differs. */
static void recomputation_gives_the_same_gradients(void **state)
{
    struct fixture *fixture = *state;
    const size_t bytes = fixture->description->elements * sizeof(float);
    float *again = make_array(fixture->device, fixture->description->gradient_elements);
    double loss = forward(fixture), loss_again;
    assert_int_equal(model_backward(fixture->model, fixture->parameters, fixture->gradients, NULL, NULL, NULL),
                     WEFT_OK);
    for (enum model_recompute recompute = MODEL_RECOMPUTE_ATTENTION; recompute <= MODEL_RECOMPUTE_ALL; recompute++) {
        struct model *model;
        const struct model_options options = {
            .batch = BATCH, .sequence = SEQUENCE, .training = true, .recompute = recompute};
        assert_int_equal(model_open(fixture->description, fixture->device, &options, &model, NULL), WEFT_OK);
        assert_int_equal(model_forward(model, fixture->parameters, &fixture->batch, &loss_again, NULL), WEFT_OK);
        assert_int_equal(model_backward(model, fixture->parameters, again, NULL, NULL, NULL), WEFT_OK);
        assert_true(loss == loss_again);
        assert_memory_equal(again, fixture->gradients, bytes);
        model_close(model);
    }
    fixture->device->release(fixture->device, again);
}

static void note_ready(void *context, size_t parameter)
{
    size_t *next = context;
    assert_int_equal(parameter, --*next);
}

/* Backward ends at the first parameter that is trained: what comes after has the same bits, what lies before is 0. */
static void layers_before_the_trained_ones_are_passed_over(void **state)
{
    struct fixture *fixture = *state;
    struct model_description *description; /* the same network, with other parameters frozen */
    assert_int_equal(model_describe(&fixture->description->shape, &description, NULL), WEFT_OK);
    float *again = make_array(fixture->device, description->gradient_elements);
    double loss = forward(fixture), loss_again;
    assert_int_equal(model_backward(fixture->model, fixture->parameters, fixture->gradients, NULL, NULL, NULL),
                     WEFT_OK);
    for (size_t trained = 0; trained <= description->parameter_count; trained++) {
        struct model *model;
        const struct model_options options = {
            .batch = BATCH, .sequence = SEQUENCE, .training = true, .recompute = trained % 3};
        size_t next = description->parameter_count;
        description->first_trainable = trained;
        for (size_t i = 0; i < description->elements; i++)
            again[i] = 7;
        assert_int_equal(model_open(description, fixture->device, &options, &model, NULL), WEFT_OK);
        assert_int_equal(model_forward(model, fixture->parameters, &fixture->batch, &loss_again, NULL), WEFT_OK);
        assert_int_equal(model_backward(model, fixture->parameters, again, note_ready, &next, NULL), WEFT_OK);
        assert_true(loss == loss_again);
        assert_int_equal(next, 0);
        model_close(model);
        const size_t first =
            trained < description->parameter_count ? description->parameters[trained].offset : description->elements;
        assert_memory_equal(again + first, fixture->gradients + first, (description->elements - first) * sizeof *again);
        /* The tables' layer has two parameters at most. */
        for (size_t i = 0; trained > 1 && i < description->parameters[1].offset; i++)
            assert_true(again[i] == 0);
        if (trained == description->parameter_count)
            for (size_t i = 0; i < description->elements; i++)
                assert_true(again[i] == 0);
        const size_t memory = model_memory(description, WEFT_F32, WEFT_F32, &options);
        description->first_trainable = 0;
        assert_true(memory <= model_memory(description, WEFT_F32, WEFT_F32, &options));
    }
    model_description_free(description);
    fixture->device->release(fixture->device, again);
}

/* ---- what is refused ---- */

static void backward_needs_its_own_forward(void **state)
{
    struct fixture *fixture = *state;
    struct error error = {0};
    assert_int_equal(model_backward(fixture->model, fixture->parameters, fixture->gradients, NULL, NULL, &error),
                     WEFT_ERROR_STATE);
    forward(fixture);
    assert_int_equal(model_backward(fixture->model, fixture->parameters, fixture->gradients, NULL, NULL, NULL),
                     WEFT_OK);
    assert_int_equal(model_backward(fixture->model, fixture->parameters, fixture->gradients, NULL, NULL, NULL),
                     WEFT_ERROR_STATE);
    double loss;
    forward(fixture);
    assert_int_equal(model_evaluate(fixture->model, fixture->parameters, &fixture->batch, &loss, NULL), WEFT_OK);
    assert_int_equal(model_backward(fixture->model, fixture->parameters, fixture->gradients, NULL, NULL, NULL),
                     WEFT_ERROR_STATE);
}

static void tokens_outside_the_vocabulary_are_refused(void **state)
{
    struct fixture *fixture = *state;
    static const int32_t bad[] = {-1, 33, INT32_MAX};
    for (size_t i = 0; i < 3; i++)
        for (size_t place = 0; place <= TOKENS; place += TOKENS) { /* the first input, the last target */
            struct error error = {0};
            double loss = 7;
            int32_t kept = fixture->tokens[place];
            fixture->tokens[place] = bad[i];
            assert_int_equal(model_forward(fixture->model, fixture->parameters, &fixture->batch, &loss, &error),
                             WEFT_ERROR_DATA);
            assert_non_null(strstr(error.text, "vocabulary"));
            assert_true(loss == 7);
            fixture->tokens[place] = kept;
        }
}

static void micro_batches_that_do_not_fit_are_refused(void **state)
{
    struct fixture *fixture = *state;
    static const size_t bad[][2] = {{0, 5}, {5, 0}, {1, 13}, {SIZE_MAX, 12}, {SIZE_MAX / 4, 4}};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        struct model *model = NULL;
        struct error error = {0};
        assert_int_equal(
            model_open(fixture->description, fixture->device,
                       &(struct model_options){.batch = bad[i][0], .sequence = bad[i][1], .training = true}, &model,
                       &error),
            WEFT_ERROR_ARGUMENT);
        assert_null(model);
    }
}

/* ---- evaluation and extension ---- */

static void evaluation_gives_the_loss_of_forward(void **state)
{
    struct fixture *fixture = *state;
    double trained = forward(fixture), evaluated;
    assert_int_equal(model_evaluate(fixture->model, fixture->parameters, &fixture->batch, &evaluated, NULL), WEFT_OK);
    assert_true(trained == evaluated);
    struct model *reader;
    assert_int_equal(model_open(fixture->description, fixture->device,
                                &(struct model_options){.batch = BATCH, .sequence = SEQUENCE}, &reader, NULL),
                     WEFT_OK);
    assert_int_equal(model_evaluate(reader, fixture->parameters, &fixture->batch, &evaluated, NULL), WEFT_OK);
    assert_true(fabs(trained - evaluated) < 1e-6);
    struct error error = {0};
    assert_int_equal(model_forward(reader, fixture->parameters, &fixture->batch, &evaluated, &error), WEFT_ERROR_STATE);
    model_close(reader);
}

/* The loss of one sequence, from logits that were made token by token, or in pieces, or all at once. */
static void extension_gives_the_logits_of_forward(void **state)
{
    struct fixture *fixture = *state;
    struct model *reader;
    assert_int_equal(model_open(fixture->description, fixture->device,
                                &(struct model_options){.batch = 1, .sequence = SEQUENCE}, &reader, NULL),
                     WEFT_OK);
    double right, logits[VOCABULARY], sum = 0;
    assert_int_equal(model_evaluate(reader, fixture->parameters, &fixture->batch, &right, NULL), WEFT_OK);
    for (size_t t = 0; t < SEQUENCE; t++) {
        assert_int_equal(model_extend(reader, fixture->parameters, t, fixture->tokens + t, 1, logits, NULL), WEFT_OK);
        double total = 0;
        for (size_t i = 0; i < shape->vocabulary; i++)
            total += exp(logits[i]);
        sum += log(total) - logits[fixture->tokens[t + 1]];
    }
    assert_true(fabs(sum / SEQUENCE - right) < 1e-5);

    double whole[VOCABULARY], pieces[VOCABULARY];
    assert_int_equal(model_extend(reader, fixture->parameters, 0, fixture->tokens, 8, whole, NULL), WEFT_OK);
    assert_int_equal(model_extend(reader, fixture->parameters, 0, fixture->tokens, 3, pieces, NULL), WEFT_OK);
    assert_int_equal(model_extend(reader, fixture->parameters, 3, fixture->tokens + 3, 5, pieces, NULL), WEFT_OK);
    for (size_t i = 0; i < VOCABULARY; i++)
        assert_true(fabs(whole[i] - pieces[i]) < 1e-4);
    assert_int_equal(model_extend(reader, fixture->parameters, 5, fixture->tokens, 5, whole, NULL),
                     WEFT_ERROR_ARGUMENT);
    assert_int_equal(model_extend(fixture->model, fixture->parameters, 0, fixture->tokens, 1, whole, NULL),
                     WEFT_ERROR_STATE);
    model_close(reader);
}

/* ---- the optimizer over ranges ---- */

static void an_update_in_pieces_is_the_update_in_one(void **state)
{
    struct fixture *fixture = *state;
    struct device *device = fixture->device;
    size_t elements = fixture->description->elements;
    const struct optimizer optimizer = {
        .kind = OPTIMIZER_ADAMW, .beta1 = 0.9, .beta2 = 0.95, .epsilon = 1e-8, .weight_decay = 0.5};
    const struct optimizer_step step = {.number = 1, .rate = 1e-2, .gradient_scale = 1};
    float *arrays[2][3];
    forward(fixture);
    assert_int_equal(model_backward(fixture->model, fixture->parameters, fixture->gradients, NULL, NULL, NULL),
                     WEFT_OK);
    for (int run = 0; run < 2; run++) {
        for (size_t i = 0; i < 3; i++)
            arrays[run][i] = make_array(device, elements);
        device->copy(device, arrays[run][0], fixture->parameters, elements * sizeof(float));
        for (size_t first = 0, i = 0; first < elements; i++) {
            size_t count = run == 0 ? elements : 1 + random_below(7, i, 500);
            count = count < elements - first ? count : elements - first;
            const struct optimizer_arrays range = {.parameters = arrays[run][0] + first,
                                                   .gradients = fixture->gradients + first,
                                                   .first_moments = arrays[run][1] + first,
                                                   .second_moments = arrays[run][2] + first};
            optimizer_update(fixture->description, device, &optimizer, &step, first, count, &range);
            first += count;
        }
    }
    for (size_t i = 0; i < 3; i++)
        assert_memory_equal(arrays[0][i], arrays[1][i], elements * sizeof(float));

    /* Without a gradient only decay moves a weight: matrices shrink, gains and biases stay. */
    const char *gain_name = "norm.weight", *matrix_name = "hidden.1.weight";
    if (shape == &gpt)
        gain_name = "ln_f.weight", matrix_name = "h.1.mlp.c_fc.weight";
    if (shape == &llama)
        gain_name = "model.norm.weight", matrix_name = "model.layers.1.mlp.up_proj.weight";
    float *gain = arrays[0][0] + model_parameter_find(fixture->description, gain_name)->offset;
    float *matrix = arrays[0][0] + model_parameter_find(fixture->description, matrix_name)->offset;
    float gain_before = *gain, matrix_before = *matrix;
    device->fill(device, elements, 0, fixture->gradients);
    device->fill(device, elements, 0, arrays[0][1]);
    device->fill(device, elements, 0, arrays[0][2]);
    const struct optimizer_arrays whole = {.parameters = arrays[0][0],
                                           .gradients = fixture->gradients,
                                           .first_moments = arrays[0][1],
                                           .second_moments = arrays[0][2]};
    optimizer_update(fixture->description, device, &optimizer, &step, 0, elements, &whole);
    assert_true(*gain == gain_before);
    assert_true(fabsf(*matrix - matrix_before * (float)(1 - 1e-2 * 0.5)) <= fabsf(matrix_before) * 1e-6f);
    for (int run = 0; run < 2; run++)
        for (size_t i = 0; i < 3; i++)
            device->release(device, arrays[run][i]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_healthy_pass_has_nothing_that_is_not_finite),
        cmocka_unit_test(the_layer_of_a_spoilt_weight_is_found),
        cmocka_unit_test(a_watcher_sees_every_layer_until_it_leaves),
        cmocka_unit_test(gradients_are_reported_from_last_to_first_when_they_are_final),
        cmocka_unit_test(backward_overwrites_and_clears_the_gaps),
        cmocka_unit_test(recomputation_gives_the_same_gradients),
        cmocka_unit_test(layers_before_the_trained_ones_are_passed_over),
        cmocka_unit_test(backward_needs_its_own_forward),
        cmocka_unit_test(tokens_outside_the_vocabulary_are_refused),
        cmocka_unit_test(micro_batches_that_do_not_fit_are_refused),
        cmocka_unit_test(evaluation_gives_the_loss_of_forward),
        cmocka_unit_test(extension_gives_the_logits_of_forward),
        cmocka_unit_test(an_update_in_pieces_is_the_update_in_one),
    };
    static const struct model_shape *const shapes[] = {&gpt, &llama, &mlp};
    int failed = 0;
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) {
        shape = shapes[i];
        printf("a %s\n", shape->kind);
        failed += cmocka_run_group_tests(tests, fixture_open, fixture_close);
    }
    return failed;
}
