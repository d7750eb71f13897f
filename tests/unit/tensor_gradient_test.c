/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Each backward kernel against central differences of its forward kernel, in double precision. The scalar that is
 * differentiated is the output's product with fixed random numbers, which are then the gradient of the output.
 */
#include "tensor_support.h"

#define TOLERANCE 1e-8

static struct device *device;

/* Makes the output from the inputs of a test. */
typedef void (*forward)(void *test);

/* The slope of output . weights as input[i] changes: fourth-order central differences. */
static double slope_at(forward run, void *test, double *input, size_t i, const double *output, const double *weights,
                       size_t count)
{
    static const double at[] = {-2, -1, 1, 2}, weight[] = {1.0 / 12, -8.0 / 12, 8.0 / 12, -1.0 / 12};
    const double step = 1e-3;
    double value = input[i], slope = 0;
    for (size_t k = 0; k < 4; k++) {
        input[i] = value + at[k] * step;
        run(test);
        for (size_t j = 0; j < count; j++)
            slope += weight[k] * output[j] * weights[j] / step;
    }
    input[i] = value;
    return slope;
}

static void expect_slopes(const char *what, forward run, void *test, double *input, const double *gradient,
                          size_t input_count, const double *output, const double *weights, size_t count)
{
    double worst = 0, largest = 0;
    for (size_t i = 0; i < input_count; i++) {
        double slope = slope_at(run, test, input, i, output, weights, count);
        worst = fmax(worst, fabs(slope - gradient[i]));
        largest = fmax(largest, fabs(slope));
    }
    if (!(worst <= TOLERANCE * fmax(largest, 1e-3)))
        fail_msg("the gradient of %s is off by %g of %g", what, worst, largest);
}

/* ---- layer norm ---- */

#define ROWS  3
#define WIDTH 7
#define COUNT (ROWS * WIDTH)

struct norm {
    double *x, *gain, *bias, *out, *means, *reciprocals;
};

static void norm_forward(void *test)
{
    struct norm *norm = test;
    device->layer_norm_forward(device, ROWS, WIDTH, 1e-5, norm->x, norm->gain, norm->bias, norm->out, norm->means,
                               norm->reciprocals);
}

static void layer_norm(void **state)
{
    struct norm norm = {make_random(device, COUNT, 1, 1), make_random(device, WIDTH, 1, 2),
                        make_random(device, WIDTH, 1, 3), make_array(device, COUNT),
                        make_array(device, ROWS),         make_array(device, ROWS)};
    double *weights = make_random(device, COUNT, 1, 4), *to_x = make_random(device, COUNT, 1, 5);
    double *to_gain = make_random(device, WIDTH, 1, 6), *to_bias = make_random(device, WIDTH, 1, 7);
    norm_forward(&norm);
    device->layer_norm_backward(device, ROWS, WIDTH, weights, norm.x, norm.gain, norm.means, norm.reciprocals, false,
                                to_x, to_gain, to_bias);
    expect_slopes("layer norm to x", norm_forward, &norm, norm.x, to_x, COUNT, norm.out, weights, COUNT);
    expect_slopes("layer norm to gain", norm_forward, &norm, norm.gain, to_gain, WIDTH, norm.out, weights, COUNT);
    expect_slopes("layer norm to bias", norm_forward, &norm, norm.bias, to_bias, WIDTH, norm.out, weights, COUNT);

    double *added = make_array(device, COUNT);
    device->fill(device, COUNT, 10, added);
    norm_forward(&norm);
    device->layer_norm_backward(device, ROWS, WIDTH, weights, norm.x, norm.gain, norm.means, norm.reciprocals, true,
                                added, to_gain, to_bias);
    for (size_t i = 0; i < COUNT; i++)
        assert_true(fabs(added[i] - 10 - to_x[i]) < 1e-12);
    void *all[] = {norm.x,  norm.gain, norm.bias, norm.out, norm.means, norm.reciprocals,
                   weights, to_x,      to_gain,   to_bias,  added};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        device->release(device, all[i]);
}

static void rms_norm_forward(void *test)
{
    struct norm *norm = test;
    device->rms_norm_forward(device, ROWS, WIDTH, 1e-5, norm->x, norm->gain, norm->out, norm->reciprocals);
}

static void rms_norm(void **state)
{
    struct norm norm = {.x = make_random(device, COUNT, 1, 1),
                        .gain = make_random(device, WIDTH, 1, 2),
                        .out = make_array(device, COUNT),
                        .reciprocals = make_array(device, ROWS)};
    double *weights = make_random(device, COUNT, 1, 4), *to_x = make_random(device, COUNT, 1, 5);
    double *to_gain = make_random(device, WIDTH, 1, 6), *added = make_array(device, COUNT);
    rms_norm_forward(&norm);
    device->rms_norm_backward(device, ROWS, WIDTH, weights, norm.x, norm.gain, norm.reciprocals, false, to_x, to_gain);
    expect_slopes("rms norm to x", rms_norm_forward, &norm, norm.x, to_x, COUNT, norm.out, weights, COUNT);
    expect_slopes("rms norm to gain", rms_norm_forward, &norm, norm.gain, to_gain, WIDTH, norm.out, weights, COUNT);

    device->fill(device, COUNT, 10, added);
    rms_norm_forward(&norm);
    device->rms_norm_backward(device, ROWS, WIDTH, weights, norm.x, norm.gain, norm.reciprocals, true, added, to_gain);
    for (size_t i = 0; i < COUNT; i++)
        assert_true(fabs(added[i] - 10 - to_x[i]) < 1e-12);
    void *all[] = {norm.x, norm.gain, norm.out, norm.reciprocals, weights, to_x, to_gain, added};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        device->release(device, all[i]);
}

/* ---- GELU, with the bias in front of it ---- */

struct gelu {
    double *x, *bias, *sum, *out;
    bool by_erf;
};

static void gelu_forward(void *test)
{
    struct gelu *gelu = test;
    for (size_t i = 0; i < ROWS; i++)
        device->add(device, WIDTH, gelu->x + i * WIDTH, gelu->bias, gelu->sum + i * WIDTH);
    if (gelu->by_erf)
        device->gelu_erf_forward(device, COUNT, gelu->sum, gelu->out);
    else
        device->gelu_forward(device, COUNT, gelu->sum, gelu->out);
}

static void expect_gelu_slopes(bool by_erf)
{
    struct gelu gelu = {make_random(device, COUNT, 2, 1), make_random(device, WIDTH, 1, 2), make_array(device, COUNT),
                        make_array(device, COUNT), by_erf};
    double *weights = make_random(device, COUNT, 1, 3), *to_x = make_array(device, COUNT),
           *to_bias = make_array(device, WIDTH);
    gelu_forward(&gelu);
    memcpy(to_x, weights, COUNT * sizeof *to_x);
    if (by_erf)
        device->gelu_erf_backward(device, ROWS, WIDTH, gelu.sum, to_x, to_bias);
    else
        device->gelu_backward(device, ROWS, WIDTH, gelu.sum, to_x, to_bias);
    expect_slopes("gelu to x", gelu_forward, &gelu, gelu.x, to_x, COUNT, gelu.out, weights, COUNT);
    expect_slopes("gelu to bias", gelu_forward, &gelu, gelu.bias, to_bias, WIDTH, gelu.out, weights, COUNT);
    void *all[] = {gelu.x, gelu.bias, gelu.sum, gelu.out, weights, to_x, to_bias};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        device->release(device, all[i]);
}

static void gelu(void **state)
{
    expect_gelu_slopes(false);
}

static void gelu_by_erf(void **state)
{
    expect_gelu_slopes(true);
}

struct turned {
    double *x, *out;
};

static void turned_forward(void *test)
{
    struct turned *turned = test;
    memcpy(turned->out, turned->x, COUNT * sizeof *turned->x);
    device->tanh_forward(device, COUNT, turned->out);
}

static void turned(void **state)
{
    struct turned test = {make_random(device, COUNT, 1, 1), make_array(device, COUNT)};
    double *weights = make_random(device, COUNT, 1, 2), *to_x = make_random(device, COUNT, 1, 2);
    turned_forward(&test);
    device->tanh_backward(device, COUNT, test.out, to_x);
    expect_slopes("tanh", turned_forward, &test, test.x, to_x, COUNT, test.out, weights, COUNT);
    void *all[] = {test.x, test.out, weights, to_x};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        device->release(device, all[i]);
}

/* ---- rows by position ---- */

#define CHOSEN 4
static const int32_t positions[CHOSEN] = {2, 2, 0, 1};
static const struct row_choice choice = {
    .batch = 2, .sequence = ROWS, .width = WIDTH, .count = CHOSEN / 2, .positions = positions};

static void rows_forward(void *test)
{
    struct turned *rows = test;
    device->gather_rows(device, &choice, rows->x, rows->out);
}

static void chosen_rows(void **state)
{
    struct turned test = {make_random(device, 2 * COUNT, 1, 1), make_array(device, CHOSEN * WIDTH)};
    double *weights = make_random(device, CHOSEN * WIDTH, 1, 2), *to_x = make_array(device, 2 * COUNT);
    device->scatter_rows(device, &choice, weights, to_x);
    expect_slopes("chosen rows", rows_forward, &test, test.x, to_x, 2 * COUNT, test.out, weights, CHOSEN * WIDTH);
    void *all[] = {test.x, test.out, weights, to_x};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        device->release(device, all[i]);
}

/* ---- SwiGLU and rotary positions ---- */

static void swiglu_forward(void *test)
{
    struct gelu *swiglu = test;
    device->swiglu_forward(device, ROWS, WIDTH, swiglu->x, swiglu->out);
}

static void swiglu(void **state)
{
    struct gelu test = {.x = make_random(device, 2 * COUNT, 2, 1), .out = make_array(device, COUNT)};
    double *weights = make_random(device, COUNT, 1, 3), *to_x = make_array(device, 2 * COUNT);
    device->swiglu_backward(device, ROWS, WIDTH, test.x, weights, to_x);
    expect_slopes("swiglu", swiglu_forward, &test, test.x, to_x, 2 * COUNT, test.out, weights, COUNT);
    void *all[] = {test.x, test.out, weights, to_x};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        device->release(device, all[i]);
}

#define ROTARY_ROW 19 /* three heads of six, and an element that is left alone */

static const struct rotary rotary_shape = {
    .batch = 2, .sequence = 3, .first = 4, .heads = 3, .head_width = 6, .stride = ROTARY_ROW, .base = 100};

static void rotary_forward(void *test)
{
    struct gelu *rotary = test;
    memcpy(rotary->out, rotary->x, 6 * ROTARY_ROW * sizeof(double));
    device->rotary(device, &rotary_shape, rotary->out);
}

static void rotary(void **state)
{
    enum { ALL = 6 * ROTARY_ROW };
    struct gelu test = {.x = make_random(device, ALL, 1, 1), .out = make_array(device, ALL)};
    double *weights = make_random(device, ALL, 1, 2), *to_x = make_array(device, ALL);
    struct rotary back = rotary_shape;
    back.back = true;
    memcpy(to_x, weights, ALL * sizeof *to_x);
    device->rotary(device, &back, to_x);
    expect_slopes("rotary positions", rotary_forward, &test, test.x, to_x, ALL, test.out, weights, ALL);
    assert_true(test.out[ROTARY_ROW - 1] == test.x[ROTARY_ROW - 1]);
    void *all[] = {test.x, test.out, weights, to_x};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        device->release(device, all[i]);
}

/* ---- attention ---- */

struct attention_test {
    struct attention shape;
    double *qkv, *out, *logsums;
};

static void attention_forward(void *test)
{
    struct attention_test *attention = test;
    device->attention_forward(device, &attention->shape, attention->qkv, attention->out, attention->logsums);
}

static void attention(void **state)
{
    static const int32_t lengths[] = {3, 5};
    for (int variant = 0; variant < 6; variant++) {
        struct attention shape = {.batch = 2,
                                  .sequence = 5,
                                  .heads = 4,
                                  .kv_heads = variant == 2 || variant == 3 || variant == 5 ? 2 : 4,
                                  .head_width = 3,
                                  .causal = variant < 4 && variant & 1,
                                  .lengths = variant < 4 ? NULL : lengths};
        size_t tokens = 10, width = 12, row = attention_row(&shape);
        struct attention_test test = {shape, make_random(device, tokens * row, 1, 1),
                                      make_array(device, tokens * width), make_array(device, tokens * 4)};
        double *weights = make_random(device, tokens * width, 1, 2), *to_qkv = make_random(device, tokens * row, 1, 3);
        attention_forward(&test);
        device->attention_backward(device, &shape, test.qkv, test.out, test.logsums, weights, to_qkv);
        expect_slopes("attention", attention_forward, &test, test.qkv, to_qkv, tokens * row, test.out, weights,
                      tokens * width);
        void *all[] = {test.qkv, test.out, test.logsums, weights, to_qkv};
        for (size_t i = 0; i < sizeof all / sizeof *all; i++)
            device->release(device, all[i]);
    }
}

/* ---- embedding and loss ---- */

#define TOKENS 4

struct embedding {
    double *table, *positions, *out;
};
static const int32_t tokens[2 * ROWS] = {3, 1, 1, 0, 3, 3};

static void embedding_forward(void *test)
{
    struct embedding *embedding = test;
    device->embedding_forward(device, 2, ROWS, WIDTH, 0, tokens, embedding->table, embedding->positions,
                              embedding->out);
}

static void embedding(void **state)
{
    struct embedding test = {make_random(device, TOKENS * WIDTH, 1, 1), make_random(device, COUNT, 1, 2),
                             make_array(device, 2 * COUNT)};
    double *weights = make_random(device, 2 * COUNT, 1, 3);
    double *to_table = make_array(device, TOKENS * WIDTH), *to_positions = make_random(device, COUNT, 1, 4);
    device->embedding_backward(device, 2, ROWS, WIDTH, tokens, weights, to_table, to_positions);
    expect_slopes("embedding to table", embedding_forward, &test, test.table, to_table, TOKENS * WIDTH, test.out,
                  weights, 2 * COUNT);
    expect_slopes("embedding to positions", embedding_forward, &test, test.positions, to_positions, COUNT, test.out,
                  weights, 2 * COUNT);
    void *all[] = {test.table, test.positions, test.out, weights, to_table, to_positions};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        device->release(device, all[i]);
}

static const int32_t targets[ROWS] = {0, WIDTH - 1, DEVICE_NO_TARGET};

struct loss {
    double smoothing, *logits, losses[ROWS];
};

static void loss_forward(void *test)
{
    struct loss *loss = test;
    device->cross_entropy(device, ROWS, WIDTH, WIDTH, targets, loss->smoothing, 0, loss->logits, loss->losses);
}

static void cross_entropy(void **state)
{
    static const double weights[ROWS] = {0.5, 0.5, 0.5};
    for (int smooth = 0; smooth < 2; smooth++) {
        struct loss loss = {.smoothing = smooth * 0.2, .logits = make_random(device, COUNT, 2, 1)};
        double *to_logits = make_random(device, COUNT, 2, 1);
        device->cross_entropy(device, ROWS, WIDTH, WIDTH, targets, loss.smoothing, 0.5, to_logits, loss.losses);
        expect_slopes("cross entropy", loss_forward, &loss, loss.logits, to_logits, COUNT, loss.losses, weights, ROWS);
        device->release(device, loss.logits);
        device->release(device, to_logits);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(layer_norm),  cmocka_unit_test(rms_norm),      cmocka_unit_test(gelu),
        cmocka_unit_test(gelu_by_erf), cmocka_unit_test(turned),        cmocka_unit_test(chosen_rows),
        cmocka_unit_test(swiglu),      cmocka_unit_test(rotary),        cmocka_unit_test(attention),
        cmocka_unit_test(embedding),   cmocka_unit_test(cross_entropy),
    };
    device = open_device("reference", 1);
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    device->close(device);
    return failed;
}
