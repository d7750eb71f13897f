/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Chains of the kernels for images against central differences of their forward pass, in double precision: convolutions with
 * batch norms between them and at the end, and pools. The scalar that is differentiated is the output's product with fixed
 * random numbers, which are then the gradient of the output.
 */
#include "tensor_support.h"

#define TOLERANCE 1e-7
#define STEP      1e-5 /* so small that few rectifiers bend within it */

#define MOST_INPUTS 8

static struct device *device;

/* An array that the output depends on, and the gradient that the kernels give. */
struct differentiated {
    const char *name;
    double *values, *gradient;
    size_t count;
};

struct chain {
    void (*forward)(struct chain *chain);
    void (*backward)(struct chain *chain);
    struct convolution first, second;
    struct max_pool largest;
    struct average_pool mean;
    struct batch_norm norms[2];
    double *x, *weights[2], *y[2], *to_x, *to_weights[2], *slopes[2], *residual;
    uint8_t *places;
    double *out, *gradient; /* of out */
    size_t count;           /* of out */
};

static double *numbers(size_t count, uint64_t seed)
{
    return make_random(device, count, 1, seed);
}

static struct batch_norm norm_of(size_t channels, enum rectifier rectifier, bool frozen, uint64_t seed)
{
    struct batch_norm norm = {.channels = channels,
                              .epsilon = 1e-3,
                              .rectifier = rectifier,
                              .frozen = frozen,
                              .gain = numbers(channels, seed),
                              .bias = numbers(channels, seed + 1),
                              .means = numbers(channels, seed + 2),
                              .variances = numbers(channels, seed + 3),
                              .reciprocals = numbers(channels, seed + 4),
                              .gradient_gain = numbers(channels, seed + 5),
                              .gradient_bias = numbers(channels, seed + 6)};
    for (size_t j = 0; j < channels; j++)
        ((double *)norm.variances)[j] = fabs(((double *)norm.variances)[j]);
    device->batch_norm_reciprocals(device, channels, norm.epsilon, norm.variances, norm.reciprocals);
    return norm;
}

static void norm_free(struct batch_norm *norm)
{
    void *all[] = {(void *)(uintptr_t)norm->gain,
                   (void *)(uintptr_t)norm->bias,
                   norm->means,
                   norm->variances,
                   norm->reciprocals,
                   norm->gradient_gain,
                   norm->gradient_bias};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        device->release(device, all[i]);
}

static double value_of(struct chain *chain)
{
    double value = 0;
    chain->forward(chain);
    for (size_t i = 0; i < chain->count; i++)
        value += chain->out[i] * chain->gradient[i];
    return value;
}

static void expect_gradients(struct chain *chain, const struct differentiated *inputs, size_t count)
{
    static const double at[] = {-2, -1, 1, 2}, weight[] = {1.0 / 12, -8.0 / 12, 8.0 / 12, -1.0 / 12};
    double *kept = make_array(device, chain->count);
    memcpy(kept, chain->gradient, chain->count * sizeof *kept);
    chain->forward(chain);
    chain->backward(chain);
    memcpy(chain->gradient, kept, chain->count * sizeof *kept); /* some kernels work in place */
    device->release(device, kept);
    for (size_t k = 0; k < count; k++) {
        double worst = 0, largest = 0;
        for (size_t i = 0; i < inputs[k].count; i++) {
            const double value = inputs[k].values[i];
            double slope = 0;
            for (size_t j = 0; j < 4; j++) {
                inputs[k].values[i] = value + at[j] * STEP;
                slope += weight[j] * value_of(chain) / STEP;
            }
            inputs[k].values[i] = value;
            worst = fmax(worst, fabs(slope - inputs[k].gradient[i]));
            largest = fmax(largest, fabs(slope));
        }
        if (!(worst <= TOLERANCE * fmax(largest, 1)))
            fail_msg("the gradient of %s is off by %g of %g", inputs[k].name, worst, largest);
    }
}

/* ---- two convolutions, and a residual ---- */

static void block_forward(struct chain *chain)
{
    device->convolution_forward(device, &chain->first, chain->x, NULL, chain->weights[0], chain->y[0],
                                &chain->norms[0]);
    device->convolution_forward(device, &chain->second, chain->y[0], &chain->norms[0], chain->weights[1], chain->y[1],
                                &chain->norms[1]);
    device->batch_norm_forward(device, &chain->norms[1], convolution_rows_out(&chain->second), chain->y[1],
                               chain->residual, chain->out);
}

static void block_backward(struct chain *chain)
{
    device->batch_norm_backward(device, &chain->norms[1], convolution_rows_out(&chain->second), chain->y[1],
                                chain->residual, chain->gradient, chain->slopes[1]);
    memcpy(chain->to_x + convolution_rows_in(&chain->first) * chain->first.inputs, chain->gradient,
           chain->count * sizeof *chain->gradient);
    device->convolution_backward_input(device, &chain->second, chain->weights[1], chain->slopes[1], chain->y[1],
                                       &chain->norms[1], chain->y[0], &chain->norms[0], chain->slopes[0]);
    device->convolution_backward_weights(device, &chain->second, chain->y[0], &chain->norms[0], chain->slopes[1],
                                         chain->y[1], &chain->norms[1], chain->to_weights[1]);
    device->convolution_backward_input(device, &chain->first, chain->weights[0], chain->slopes[0], chain->y[0],
                                       &chain->norms[0], NULL, NULL, chain->to_x);
    device->convolution_backward_weights(device, &chain->first, chain->x, NULL, chain->slopes[0], chain->y[0],
                                         &chain->norms[0], chain->to_weights[0]);
}

static void check_block(const struct convolution *first, const struct convolution *second, enum rectifier rectifier,
                        bool frozen)
{
    const size_t in = convolution_rows_in(first) * first->inputs,
                 between = convolution_rows_out(first) * first->outputs,
                 out = convolution_rows_out(second) * second->outputs;
    struct chain chain = {
        .forward = block_forward,
        .backward = block_backward,
        .first = *first,
        .second = *second,
        .norms = {norm_of(first->outputs, RECTIFIER_RELU6, frozen, 10),
                  norm_of(second->outputs, rectifier, frozen, 20)},
        .x = numbers(in, 1),
        .weights = {numbers(convolution_weights(first), 2), numbers(convolution_weights(second), 3)},
        .y = {numbers(between, 4), numbers(out, 5)},
        .to_x = numbers(in + out, 6),
        .to_weights = {numbers(convolution_weights(first), 7), numbers(convolution_weights(second), 8)},
        .slopes = {numbers(between, 9), numbers(out, 10)},
        .residual = numbers(out, 11),
        .out = numbers(out, 12),
        .gradient = numbers(out, 13),
        .count = out,
    };
    const struct differentiated inputs[MOST_INPUTS] = {
        {"the input", chain.x, chain.to_x, in},
        {"the residual", chain.residual, chain.to_x + in, out},
        {"the first weights", chain.weights[0], chain.to_weights[0], convolution_weights(first)},
        {"the second weights", chain.weights[1], chain.to_weights[1], convolution_weights(second)},
        {"the first gain", (void *)(uintptr_t)chain.norms[0].gain, chain.norms[0].gradient_gain, first->outputs},
        {"the first bias", (void *)(uintptr_t)chain.norms[0].bias, chain.norms[0].gradient_bias, first->outputs},
        {"the second gain", (void *)(uintptr_t)chain.norms[1].gain, chain.norms[1].gradient_gain, second->outputs},
        {"the second bias", (void *)(uintptr_t)chain.norms[1].bias, chain.norms[1].gradient_bias, second->outputs},
    };
    expect_gradients(&chain, inputs, MOST_INPUTS);
    void *all[] = {chain.x,        chain.weights[0],    chain.weights[1],    chain.y[0],      chain.y[1],
                   chain.to_x,     chain.to_weights[0], chain.to_weights[1], chain.slopes[0], chain.slopes[1],
                   chain.residual, chain.out,           chain.gradient};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        device->release(device, all[i]);
    norm_free(&chain.norms[0]);
    norm_free(&chain.norms[1]);
}

static void blocks(void **state)
{
    static const struct convolution chains[][2] = {
        {{2, 4, 3, 2, 3, 1, 1, 0, false}, {2, 4, 3, 3, 2, 3, 1, 1, false}},
        {{2, 5, 4, 2, 4, 3, 2, 1, false}, {2, 3, 2, 4, 4, 3, 1, 1, true}},
        {{2, 5, 5, 3, 3, 3, 2, 1, true}, {2, 3, 3, 3, 2, 2, 1, 0, false}},
    };
    for (size_t i = 0; i < 3; i++) {
        check_block(&chains[i][0], &chains[i][1], RECTIFIER_NONE, false);
        check_block(&chains[i][0], &chains[i][1], RECTIFIER_RELU, i == 1);
    }
}

/* ---- pools of a batch norm ---- */

static void pools_forward(struct chain *chain)
{
    device->convolution_forward(device, &chain->first, chain->x, NULL, chain->weights[0], chain->y[0],
                                &chain->norms[0]);
    if (chain->places)
        device->max_pool_forward(device, &chain->largest, chain->y[0], &chain->norms[0], chain->out, chain->places);
    else
        device->average_pool_forward(device, &chain->mean, chain->y[0], &chain->norms[0], chain->out);
}

static void pools_backward(struct chain *chain)
{
    if (chain->places)
        device->max_pool_backward(device, &chain->largest, chain->gradient, chain->places, chain->y[0],
                                  &chain->norms[0], chain->slopes[0]);
    else
        device->average_pool_backward(device, &chain->mean, chain->gradient, chain->y[0], &chain->norms[0],
                                      chain->slopes[0]);
    device->convolution_backward_input(device, &chain->first, chain->weights[0], chain->slopes[0], chain->y[0],
                                       &chain->norms[0], NULL, NULL, chain->to_x);
    device->convolution_backward_weights(device, &chain->first, chain->x, NULL, chain->slopes[0], chain->y[0],
                                         &chain->norms[0], chain->to_weights[0]);
}

static void pools(void **state)
{
    const struct convolution shape = {2, 5, 4, 2, 3, 3, 1, 1, false};
    const size_t in = convolution_rows_in(&shape) * 2, between = convolution_rows_out(&shape) * 3;
    for (int largest = 0; largest < 2; largest++) {
        const size_t out = largest ? 2 * 3 * 2 * 3 : 2 * 3;
        struct chain chain = {
            .forward = pools_forward,
            .backward = pools_backward,
            .first = shape,
            .largest = {2, 5, 4, 3, 3, 2, 1},
            .mean = {2, 20, 3},
            .norms = {norm_of(3, RECTIFIER_RELU, false, 10)},
            .x = numbers(in, 1),
            .weights = {numbers(convolution_weights(&shape), 2)},
            .y = {numbers(between, 4)},
            .to_x = numbers(in, 6),
            .to_weights = {numbers(convolution_weights(&shape), 7)},
            .slopes = {numbers(between, 9)},
            .places = largest ? malloc(out) : NULL,
            .out = numbers(out, 12),
            .gradient = numbers(out, 13),
            .count = out,
        };
        const struct differentiated inputs[] = {
            {"the input", chain.x, chain.to_x, in},
            {"the weights", chain.weights[0], chain.to_weights[0], convolution_weights(&shape)},
            {"the gain", (void *)(uintptr_t)chain.norms[0].gain, chain.norms[0].gradient_gain, 3},
            {"the bias", (void *)(uintptr_t)chain.norms[0].bias, chain.norms[0].gradient_bias, 3},
        };
        expect_gradients(&chain, inputs, 4);
        void *all[] = {chain.x,         chain.weights[0], chain.y[0],    chain.to_x, chain.to_weights[0],
                       chain.slopes[0], chain.out,        chain.gradient};
        for (size_t i = 0; i < sizeof all / sizeof *all; i++)
            device->release(device, all[i]);
        free(chain.places);
        norm_free(&chain.norms[0]);
    }
}

/* ---- the loss of mixed samples ---- */

static void mixed_loss(void **state)
{
    enum { ROWS = 3, CLASSES = 5 };
    const int32_t targets[2 * ROWS] = {0, 4, 2, 2, 3, 1};
    const float shares[2 * ROWS] = {0.25f, 0.75f, 0.5f, 0.5f, 1, 0};
    double *x = numbers(ROWS * CLASSES, 1), losses[ROWS], gradient[ROWS * CLASSES];
    memcpy(gradient, x, sizeof gradient);
    device->mixed_cross_entropy(device, ROWS, CLASSES, CLASSES, targets, shares, 0.1, 2, gradient, losses, NULL);
    for (size_t i = 0; i < ROWS * CLASSES; i++) {
        double slope = 0;
        for (int side = -1; side <= 1; side += 2) {
            const double value = x[i];
            x[i] = value + side * STEP;
            device->mixed_cross_entropy(device, ROWS, CLASSES, CLASSES, targets, shares, 0.1, 0, x, losses, NULL);
            x[i] = value;
            for (size_t row = 0; row < ROWS; row++)
                slope += side * losses[row] / (2 * STEP);
        }
        assert_true(fabs(2 * slope - gradient[i]) < TOLERANCE);
    }
    device->release(device, x);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(blocks),
        cmocka_unit_test(pools),
        cmocka_unit_test(mixed_loss),
    };
    device = open_device("reference", 1);
    const int failed = cmocka_run_group_tests(tests, NULL, NULL);
    device->close(device);
    return failed;
}
