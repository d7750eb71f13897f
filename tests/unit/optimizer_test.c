/* SPDX-License-Identifier: Apache-2.0 */
/* One step of each optimizer on a whole network is what its formula says, tensor by tensor, in double precision. */
#include "training/optimizer/optimizer.h"

#include "tensor_support.h"

static const struct model_shape shape = {
    .kind = "gpt", .layers = 1, .heads = 1, .width = 6, .context = 5, .vocabulary = 9};

enum { PARAMETERS, GRADIENTS, FIRST, SECOND, ARRAYS };

static const struct optimizer_step step = {.number = 3, .rate = 0.02, .gradient_scale = 0.25, .mean = 0.5};

static double norm_of(const double *x, size_t count)
{
    double sum = 0;
    for (size_t i = 0; i < count; i++)
        sum += x[i] * x[i];
    return sqrt(sum);
}

/* AdamW's direction and new moments of one element. */
static double adam(const struct optimizer *optimizer, double gradient, double *first, double *second)
{
    *first = optimizer->beta1 * *first + (1 - optimizer->beta1) * gradient;
    *second = optimizer->beta2 * *second + (1 - optimizer->beta2) * gradient * gradient;
    double unbiased_first = *first / (1 - pow(optimizer->beta1, (double)step.number));
    double unbiased_second = *second / (1 - pow(optimizer->beta2, (double)step.number));
    return unbiased_first / (sqrt(unbiased_second) + optimizer->epsilon);
}

/* The formulas of training/optimizer/optimizer.h, one tensor in plain loops; `direction` is scratch. */
static void expected_step(const struct optimizer *optimizer, bool decays, size_t count, double *p, const double *g,
                          double *first, double *second, double *direction)
{
    const double decay = decays ? optimizer->weight_decay : 0;
    const bool is_adam = optimizer_has_second_moments(optimizer->kind);
    for (size_t i = 0; i < count; i++) {
        double gradient = g[i] * step.gradient_scale;
        direction[i] = (is_adam ? adam(optimizer, gradient, &first[i], &second[i]) : gradient) + decay * p[i];
    }
    double ratio = decays ? norm_of(p, count) / norm_of(direction, count) : 1;
    for (size_t i = 0; i < count; i++) {
        switch (optimizer->kind) {
        case OPTIMIZER_ADAMW:
            p[i] -= step.rate * direction[i];
            break;
        case OPTIMIZER_SGD:
            first[i] = optimizer->momentum * first[i] + direction[i];
            p[i] -= step.rate * first[i];
            break;
        case OPTIMIZER_LAMB:
            p[i] -= step.rate * ratio * direction[i];
            break;
        case OPTIMIZER_LARS:
            first[i] =
                optimizer->momentum * first[i] + step.rate * (decays ? optimizer->trust * ratio : 1) * direction[i];
            p[i] -= first[i];
            break;
        }
    }
}

static void every_step_is_its_formula(void **state)
{
    struct device *device = open_device("reference", 1);
    struct model_description *description;
    assert_int_equal(model_describe(&shape, &description, NULL), WEFT_OK);
    description->parameters[3].statistic = true;
    const size_t elements = description->elements;
    double *sums = calloc(tree_blocks(elements), sizeof *sums), *direction = calloc(elements, sizeof *direction);
    for (enum optimizer_kind kind = OPTIMIZER_ADAMW; kind <= OPTIMIZER_LARS; kind++) {
        const struct optimizer optimizer = {.kind = kind,
                                            .beta1 = 0.9,
                                            .beta2 = 0.95,
                                            .epsilon = 1e-8,
                                            .momentum = 0.8,
                                            .trust = 0.01,
                                            .weight_decay = 0.1};
        double *found[ARRAYS], *expected[ARRAYS];
        for (uint64_t i = 0; i < ARRAYS; i++) {
            found[i] = make_array(device, elements);
            expected[i] = make_array(device, elements);
            for (size_t j = 0; j < description->parameter_count; j++) /* gaps are 0 */
                for (size_t k = 0; k < description->parameters[j].count; k++) {
                    size_t at = description->parameters[j].offset + k;
                    double value = random_normal(i, at);
                    found[i][at] = expected[i][at] = i == SECOND ? value * value : value;
                }
        }
        const struct optimizer_arrays arrays = {.parameters = found[PARAMETERS],
                                                .gradients = found[GRADIENTS],
                                                .first_moments = found[FIRST],
                                                .second_moments = found[SECOND],
                                                .sums = sums};
        optimizer_update(description, device, &optimizer, &step, 0, elements, &arrays);
        for (size_t j = 0; j < description->parameter_count; j++) {
            const struct model_parameter *parameter = &description->parameters[j];
            const size_t at = parameter->offset;
            for (size_t k = 0; parameter->statistic && k < parameter->count; k++)
                expected[PARAMETERS][at + k] -= 0.1 * step.mean * expected[GRADIENTS][at + k];
            if (!parameter->statistic)
                expected_step(&optimizer, parameter->decay, parameter->count, expected[PARAMETERS] + at,
                              expected[GRADIENTS] + at, expected[FIRST] + at, expected[SECOND] + at, direction);
        }
        static const size_t compared[] = {PARAMETERS, FIRST, SECOND};
        for (size_t i = 0; i < 3; i++)
            for (size_t k = 0; k < elements; k++)
                if (!(fabs(found[compared[i]][k] - expected[compared[i]][k]) <= 1e-12))
                    fail_msg("%s: array %zu, element %zu is %g, not %g", optimizer_names[kind], compared[i], k,
                             found[compared[i]][k], expected[compared[i]][k]);
        for (size_t i = 0; i < ARRAYS; i++) {
            device->release(device, found[i]);
            device->release(device, expected[i]);
        }
    }
    free(sums);
    free(direction);
    model_description_free(description);
    device->close(device);
}

/* ---- what a step moves ---- */

static struct device plain; /* the functions of the device itself */
static double moved;        /* elements that its kernels have read and written */

static void count_adamw(struct device *device, const struct adamw *settings, size_t count, void *parameters,
                        const void *gradients, void *first, void *second, void *as_activations)
{
    moved += 7 * (double)count;
    plain.adamw(device, settings, count, parameters, gradients, first, second, as_activations);
}

static void count_direction(struct device *device, const struct adamw *settings, size_t count, const void *parameters,
                            void *gradients, void *first, void *second)
{
    moved += 7 * (double)count;
    plain.adamw_direction(device, settings, count, parameters, gradients, first, second);
}

static void count_sgd(struct device *device, const struct sgd *settings, size_t count, void *parameters,
                      const void *gradients, void *moments)
{
    moved += 5 * (double)count;
    plain.sgd(device, settings, count, parameters, gradients, moments);
}

static void count_combine(struct device *device, size_t count, double a, const void *x, double b, const void *y,
                          void *out)
{
    moved += 3 * (double)count;
    plain.combine(device, count, a, x, b, y, out);
}

static void count_squares(struct device *device, size_t count, const void *x, double *sums)
{
    moved += (double)count;
    plain.sum_of_squares(device, count, x, sums);
}

/* The table of what steps move is what they do. */
static void steps_move_their_arrays(void **state)
{
    struct device *device = open_device("reference", 1);
    struct model_description *description;
    assert_int_equal(model_describe(&shape, &description, NULL), WEFT_OK);
    const size_t elements = description->elements;
    double *sums = calloc(2 * tree_blocks(elements) + 2, sizeof *sums), *arrays[ARRAYS];
    for (size_t i = 0; i < ARRAYS; i++)
        arrays[i] = make_array(device, elements);
    plain = *device;
    device->adamw = count_adamw;
    device->adamw_direction = count_direction;
    device->sgd = count_sgd;
    device->combine = count_combine;
    device->sum_of_squares = count_squares;
    for (enum optimizer_kind kind = 0; optimizer_names[kind]; kind++) {
        const struct optimizer optimizer = {.kind = kind, .beta1 = 0.9, .beta2 = 0.99, .epsilon = 1e-8};
        const struct optimizer_arrays of = {.parameters = arrays[PARAMETERS],
                                            .gradients = arrays[GRADIENTS],
                                            .first_moments = arrays[FIRST],
                                            .second_moments = arrays[SECOND],
                                            .sums = sums};
        moved = 0;
        optimizer_update(description, device, &optimizer, &step, 0, elements, &of);
        assert_true(moved == optimizer_traffic_of(kind).arrays * (double)elements);
    }
    for (size_t i = 0; i < ARRAYS; i++)
        device->release(device, arrays[i]);
    free(sums);
    model_description_free(description);
    device->close(device);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_step_is_its_formula),
        cmocka_unit_test(steps_move_their_arrays),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
