/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The backward pass of a whole model against central differences of its loss, in double precision, for every parameter.
 * And the proof that this check can fail: backward passes that are wrong by little are caught.
 */
#include "../bert_support.h"
#include "training/model/model.h"

#include "tensor_support.h"

#define VOCABULARY 11
#define BATCH      2
#define SEQUENCE   5

static const struct model_shape gpt = {
    .kind = "gpt", .layers = 2, .heads = 2, .width = 6, .context = 7, .vocabulary = VOCABULARY};
static const struct model_shape llama = {.kind = "llama",
                                         .layers = 2,
                                         .heads = 4,
                                         .kv_heads = 2,
                                         .width = 8,
                                         .hidden = 5,
                                         .context = 7,
                                         .vocabulary = VOCABULARY,
                                         .rotary_base = 20,
                                         .untied = true};
static const struct model_shape tied_llama = {
    .kind = "llama", .layers = 1, .heads = 1, .width = 4, .hidden = 3, .context = 7, .vocabulary = VOCABULARY};
/* The second sees further back than a sequence is long. */
static const struct model_shape mlp = {
    .kind = "mlp", .layers = 3, .width = 4, .window = 3, .hidden = 6, .context = 7, .vocabulary = VOCABULARY};
static const struct model_shape wide_mlp = {
    .kind = "mlp", .layers = 1, .width = 5, .window = 7, .hidden = 3, .context = 7, .vocabulary = VOCABULARY};

static const struct model_shape bert = {
    .kind = "bert", .layers = 2, .heads = 2, .width = 6, .context = 7, .vocabulary = VOCABULARY};
static const struct model_shape bert_classes = {
    .kind = "bert", .layers = 1, .heads = 2, .width = 6, .context = 7, .vocabulary = VOCABULARY, .classes = 3};

struct fixture {
    struct device *device;
    struct model_description *description;
    struct model *model;
    double *parameters, *gradients;
    int32_t tokens[BATCH * SEQUENCE], targets[BATCH * SEQUENCE];
    struct bert_sample_arrays samples;
    struct model_batch batch;
};

static void fixture_open(struct fixture *fixture, const struct model_shape *shape, enum model_recompute recompute,
                         double dropout)
{
    fixture->device = open_device("reference", 1);
    assert_int_equal(model_describe(shape, &fixture->description, NULL), WEFT_OK);
    assert_int_equal(model_open(fixture->description, fixture->device,
                                &(struct model_options){.batch = BATCH,
                                                        .sequence = SEQUENCE,
                                                        .training = true,
                                                        .recompute = recompute,
                                                        .label_smoothing = 0.1,
                                                        .dropout = dropout},
                                &fixture->model, NULL),
                     WEFT_OK);
    const double deviation = shape == &gpt || shape == &bert || shape == &bert_classes
                                 ? 0.3
                                 : 0.7; /* so that no gradient is next to nothing */
    fixture->parameters = make_random(fixture->device, fixture->description->elements, deviation, 1);
    fixture->gradients = make_random(fixture->device, fixture->description->gradient_elements, 1, 2);
    for (size_t i = 0; i < BATCH * SEQUENCE; i++) {
        fixture->tokens[i] = (int32_t)random_below(3, i, VOCABULARY);
        fixture->targets[i] = (int32_t)random_below(4, i, VOCABULARY);
    }
    fixture->batch = (struct model_batch){.tokens = fixture->tokens, .targets = fixture->targets};
    if (strcmp(shape->kind, "bert") == 0)
        fixture->batch = bert_batch_make(&fixture->samples, 3, BATCH, SEQUENCE, VOCABULARY, shape->classes);
    fixture->batch.seed = 5;
    fixture->batch.sample = 6;
}

static void fixture_close(struct fixture *fixture)
{
    fixture->device->release(fixture->device, fixture->parameters);
    fixture->device->release(fixture->device, fixture->gradients);
    model_close(fixture->model);
    model_description_free(fixture->description);
    fixture->device->close(fixture->device);
}

static double loss_of(struct fixture *fixture)
{
    double loss;
    assert_int_equal(model_forward(fixture->model, fixture->parameters, &fixture->batch, &loss, NULL), WEFT_OK);
    return loss;
}

/* The largest error of the gradients of one tensor, relative to the largest gradient in it. */
static double tensor_error(struct fixture *fixture, const struct model_parameter *parameter)
{
    const double step = 1e-4;
    double worst = 0, largest = 0;
    for (size_t i = parameter->offset; i < parameter->offset + parameter->count; i++) {
        /* Fourth order: error of step^4 from the formula, 1e-16 / step from rounding. */
        static const double at[] = {-2, -1, 1, 2}, weight[] = {1.0 / 12, -8.0 / 12, 8.0 / 12, -1.0 / 12};
        double value = fixture->parameters[i], slope = 0;
        for (size_t k = 0; k < 4; k++) {
            fixture->parameters[i] = value + at[k] * step;
            slope += weight[k] * loss_of(fixture) / step;
        }
        fixture->parameters[i] = value;
        worst = fmax(worst, fabs(slope - fixture->gradients[i]));
        largest = fmax(largest, fabs(slope));
    }
    return worst / fmax(largest, 1e-3); /* a bias of all keys has no slope */
}

/* The largest error over all tensors, and where it is. */
static double model_error(struct fixture *fixture, const char **name)
{
    double worst = -1;
    loss_of(fixture);
    assert_int_equal(model_backward(fixture->model, fixture->parameters, fixture->gradients, NULL, NULL, NULL),
                     WEFT_OK);
    for (size_t i = 0; i < fixture->description->parameter_count; i++) {
        double error = tensor_error(fixture, &fixture->description->parameters[i]);
        if (error > worst) {
            worst = error;
            *name = fixture->description->parameters[i].name;
        }
    }
    return worst;
}

#define TOLERANCE 1e-8

static void every_gradient_is_the_slope_of_the_loss(void **state)
{
    static const struct model_shape *const shapes[] = {&gpt,      &llama, &tied_llama,  &mlp,
                                                       &wide_mlp, &bert,  &bert_classes};
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++)
        for (enum model_recompute recompute = 0; recompute <= MODEL_RECOMPUTE_ALL; recompute++)
            for (int dropping = 0; dropping < 2; dropping++) {
                struct fixture fixture;
                const char *name = NULL;
                fixture_open(&fixture, shapes[i], recompute, dropping ? 0.2 : 0);
                double error = model_error(&fixture, &name);
                if (!(error < TOLERANCE))
                    fail_msg("%s%s: relative error %g in %s", shapes[i]->kind, dropping ? ", dropout" : "", error,
                             name);
                fixture_close(&fixture);
            }
}

/* ---- mutants: a kernel of the table is replaced by one that is a little wrong ---- */

static struct device original;

/* One slope is off by a ten-thousandth. */
static void wrong_gelu(struct device *device, size_t rows, size_t width, const void *x, void *gradient,
                       void *gradient_bias)
{
    original.gelu_backward(device, rows, width, x, gradient, gradient_bias);
    ((double *)gradient)[0] *= 1.0001;
}

/* So is one key's gradient. */
static void wrong_attention(struct device *device, const struct attention *shape, const void *qkv, const void *out,
                            const void *logsums, const void *gradient_out, void *gradient_qkv)
{
    original.attention_backward(device, shape, qkv, out, logsums, gradient_out, gradient_qkv);
    ((double *)gradient_qkv)[shape->heads * shape->head_width] *= 1.0001;
}

/* Overwrites where it should add. */
static void wrong_norm(struct device *device, size_t rows, size_t width, const void *gradient_out, const void *x,
                       const void *gain, const void *means, const void *reciprocals, bool accumulate, void *gradient_x,
                       void *gradient_gain, void *gradient_bias)
{
    original.layer_norm_backward(device, rows, width, gradient_out, x, gain, means, reciprocals, false, gradient_x,
                                 gradient_gain, gradient_bias);
}

/* One slope is off by a ten-thousandth. */
static void wrong_norm_gradient(struct device *device, size_t rows, size_t width, const void *gradient_out,
                                const void *x, const void *gain, const void *means, const void *reciprocals,
                                bool accumulate, void *gradient_x, void *gradient_gain, void *gradient_bias)
{
    original.layer_norm_backward(device, rows, width, gradient_out, x, gain, means, reciprocals, accumulate, gradient_x,
                                 gradient_gain, gradient_bias);
    ((double *)gradient_x)[0] *= 1.0001;
}

/* Forgets the embedding's share of the tied table. */
static void wrong_embedding(struct device *device, size_t batch, size_t sequence, size_t width, const int32_t *tokens,
                            const void *gradient_out, void *gradient_table, void *gradient_positions)
{
    size_t bytes = VOCABULARY * width * sizeof(double);
    double *table = malloc(bytes);
    memcpy(table, gradient_table, bytes);
    original.embedding_backward(device, batch, sequence, width, tokens, gradient_out, gradient_table,
                                gradient_positions);
    memcpy(gradient_table, table, bytes);
    free(table);
}

/* Leaves out the last row. */
static void wrong_sums(struct device *device, size_t rows, size_t width, const void *x, void *out)
{
    original.column_sums(device, rows - 1, width, x, out);
}

/* Everything is off by a hundred-thousandth. */
static void wrong_loss(struct device *device, size_t rows, size_t classes, size_t stride, const int32_t *targets,
                       double smoothing, double scale, void *logits, double *losses)
{
    original.cross_entropy(device, rows, classes, stride, targets, smoothing, scale * 1.00001, logits, losses);
}

/* As if there were nothing to turn back. */
static void wrong_rotary(struct device *device, const struct rotary *shape, void *x)
{
    if (!shape->back)
        original.rotary(device, shape, x);
}

/* One slope is off by a ten-thousandth. */
static void wrong_swiglu(struct device *device, size_t rows, size_t width, const void *gate_up,
                         const void *gradient_out, void *gradient_gate_up)
{
    original.swiglu_backward(device, rows, width, gate_up, gradient_out, gradient_gate_up);
    ((double *)gradient_gate_up)[width] *= 1.0001;
}

/* Overwrites where it should add. */
static void wrong_rms_norm(struct device *device, size_t rows, size_t width, const void *gradient_out, const void *x,
                           const void *gain, const void *reciprocals, bool accumulate, void *gradient_x,
                           void *gradient_gain)
{
    original.rms_norm_backward(device, rows, width, gradient_out, x, gain, reciprocals, false, gradient_x,
                               gradient_gain);
}

/* Another mask than the forward pass had. */
static void wrong_mask(struct device *device, const struct dropout *dropout, size_t rows, size_t width, const void *x,
                       void *out)
{
    struct dropout other = *dropout;
    other.sample++;
    original.dropout_to_activations(device, &other, rows, width, x, out);
}

/* What stays is not divided by its share. */
static void wrong_factor(struct device *device, const struct dropout *dropout, size_t rows, size_t width, const void *x,
                         void *out)
{
    original.dropout_to_activations(device, dropout, rows, width, x, out);
    original.scale(device, rows * width, 1 - dropout->share, out);
}

/* Each product adds a hundred-thousandth too little to what is there, as if a window's far rows counted less. */
static void wrong_matmul(struct device *device, const struct matmul *arguments)
{
    struct matmul product = *arguments;
    if (product.accumulate && product.transpose_b)
        device->scale(device, product.rows * product.columns, 0.99999, product.c);
    original.matmul(device, &product);
}

/* The slopes of a row are off by a ten-thousandth. */
static void wrong_gelu_by_erf(struct device *device, size_t rows, size_t width, const void *x, void *gradient,
                              void *gradient_bias)
{
    original.gelu_erf_backward(device, rows, width, x, gradient, gradient_bias);
    original.scale(device, width, 1.0001, gradient);
}

static void wrong_tanh(struct device *device, size_t count, const void *out, void *gradient)
{
    original.tanh_backward(device, count, out, gradient);
    ((double *)gradient)[0] *= 1.0001;
}

/* The padding is seen. */
static void wrong_lengths(struct device *device, const struct attention *shape, const void *qkv, const void *out,
                          const void *logsums, const void *gradient_out, void *gradient_qkv)
{
    struct attention other = *shape;
    other.lengths = NULL;
    original.attention_backward(device, &other, qkv, out, logsums, gradient_out, gradient_qkv);
}

/* The last row goes nowhere. */
static void wrong_scatter(struct device *device, const struct row_choice *choice, const void *gradient, void *x)
{
    struct row_choice other = *choice;
    other.batch--;
    original.scatter_rows(device, &other, gradient, x);
}

/* Everything is off by a hundred-thousandth. */
static void wrong_divided_loss(struct device *device, const struct divided_classes *shape,
                               const struct class_sums *sums, void *logits, double *losses)
{
    struct divided_classes other = *shape;
    other.scale *= 1.00001;
    original.divided_cross_entropy(device, &other, sums, logits, losses);
}

/* Leaves the copy as it was before. */
static void wrong_cast(struct device *device, size_t count, const void *x, void *out)
{
    original.to_activations(device, count - 1, x, out);
}

static void expect_mutants_caught(const struct model_shape *shape, double dropout, const struct device *mutants,
                                  size_t count)
{
    struct fixture fixture;
    const char *name = NULL;
    fixture_open(&fixture, shape, MODEL_RECOMPUTE_NOTHING, dropout);
    for (size_t i = 0; i < count; i++) {
        *fixture.device = mutants[i];
        double error = model_error(&fixture, &name);
        if (!(error > 10 * TOLERANCE))
            fail_msg("mutant %zu of %s was not caught: relative error %g", i, shape->kind, error);
    }
    *fixture.device = original;
    fixture_close(&fixture);
}

static void a_backward_pass_that_is_a_little_wrong_is_caught(void **state)
{
    struct device *device = open_device("reference", 1);
    original = *device;
    device->close(device);
    struct device mutants[6] = {original, original, original, original, original, original};
    mutants[0].gelu_backward = wrong_gelu;
    mutants[1].attention_backward = wrong_attention;
    mutants[2].layer_norm_backward = wrong_norm;
    mutants[3].embedding_backward = wrong_embedding;
    mutants[4].column_sums = wrong_sums;
    mutants[5].cross_entropy = wrong_loss;
    expect_mutants_caught(&gpt, 0, mutants, 6);
    mutants[0] = mutants[1] = original;
    mutants[0].dropout_to_activations = wrong_mask;
    mutants[1].dropout_to_activations = wrong_factor;
    expect_mutants_caught(&gpt, 0.2, mutants, 2);
    mutants[0] = mutants[1] = mutants[2] = original;
    mutants[0].rotary = wrong_rotary;
    mutants[1].swiglu_backward = wrong_swiglu;
    mutants[2].rms_norm_backward = wrong_rms_norm;
    expect_mutants_caught(&llama, 0, mutants, 3);
    mutants[0] = mutants[1] = mutants[2] = original;
    mutants[0].matmul = wrong_matmul;
    mutants[1].to_activations = wrong_cast;
    mutants[2].layer_norm_backward = wrong_norm_gradient;
    expect_mutants_caught(&mlp, 0, mutants, 3);
    for (size_t i = 0; i < 6; i++)
        mutants[i] = original;
    mutants[0].gelu_erf_backward = wrong_gelu_by_erf;
    mutants[1].tanh_backward = wrong_tanh;
    mutants[2].attention_backward = wrong_lengths;
    mutants[3].scatter_rows = wrong_scatter;
    mutants[4].divided_cross_entropy = wrong_divided_loss;
    expect_mutants_caught(&bert, 0, mutants, 5);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_gradient_is_the_slope_of_the_loss),
        cmocka_unit_test(a_backward_pass_that_is_a_little_wrong_is_caught),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
