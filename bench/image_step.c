/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Whole training steps of an image network on random images, for bench/image_steps: forward, backward, SGD with momentum and
 * weight decay. Prints a line of JSON.
 *
 *     image_step MODEL IMAGE BATCH DEVICE THREADS STEPS [layers]     "layers": what passes of each layer take, instead
 */
#include "base/clock.h"
#include "base/random.h"
#include "training/model/model.h"
#include "training/optimizer/optimizer.h"

#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#define WARM        3
#define STEPS_MOST  1000
#define LAYERS_MOST 256

enum { LAYER_FORWARD, LAYER_INPUT, LAYER_WEIGHTS, LAYER_PASSES };

struct bench {
    struct device *device;
    struct model_description *description;
    struct model *model;
    float *parameters, *gradients, *moments;
    struct model_batch batch;
    uint64_t begins;
    double layers[LAYERS_MOST][LAYER_PASSES]; /* seconds of all steps */
};

static const struct optimizer sgd = {.kind = OPTIMIZER_SGD, .momentum = 0.9, .weight_decay = 1e-4};

static _Noreturn void fail(const struct error *error)
{
    fprintf(stderr, "image_step: %s\n", error->text);
    exit(1);
}

static void must(weft_status status, const struct error *error)
{
    if (status != WEFT_OK)
        fail(error);
}

static void *image_bench_array(struct bench *bench, size_t bytes)
{
    struct error error = {0};
    void *array = bench->device->allocate(bench->device, bytes, "a benchmark", &error);
    if (!array)
        fail(&error);
    return array;
}

static void image_bench_open(struct bench *bench, char **words)
{
    struct error error = {0};
    struct model_shape shape;
    must(model_shape_find(words[0], &shape, &error), &error);
    shape.image = strtoul(words[1], NULL, 10);
    const size_t batch = strtoul(words[2], NULL, 10);
    must(device_open(words[3], atoi(words[4]), &bench->device, &error), &error);
    must(model_describe(&shape, &bench->description, &error), &error);
    must(model_open(bench->description, bench->device,
                    &(struct model_options){.batch = batch, .sequence = 1, .training = true}, &bench->model, &error),
         &error);
    const size_t bytes = bench->description->elements * sizeof(float);
    bench->parameters = image_bench_array(bench, bytes);
    bench->gradients = image_bench_array(bench, bytes);
    bench->moments = image_bench_array(bench, bytes);
    must(model_initialize(bench->description, bench->device, bench->parameters, 1, &error), &error);
    struct model_arrays arrays;
    must(model_arrays_allocate(bench->description, NULL, 1, batch, &arrays, &error), &error);
    for (size_t i = 0; i < batch * shape.image * shape.image * shape.channels; i++)
        arrays.pixels[i] = (float)random_normal(2, i);
    for (size_t i = 0; i < 2 * batch; i++) {
        arrays.targets[i] = (int32_t)random_below(3, i, shape.classes);
        arrays.shares[i] = i % 2 ? 0 : 1;
    }
    for (enum model_input input = 0; input < MODEL_INPUTS; input++)
        bench->batch.inputs[input] = arrays.of[input];
}

/* Called before and after each pass of a layer. */
static void note_layer(void *context, const struct model_turn *turn)
{
    struct bench *bench = context;
    const size_t pass = turn->weights ? LAYER_WEIGHTS : turn->direction == MODEL_FORWARD ? LAYER_FORWARD : LAYER_INPUT;
    if (turn->begins)
        bench->begins = clock_now();
    else if (turn->layer < LAYERS_MOST)
        bench->layers[turn->layer][pass] += (double)(clock_now() - bench->begins) * 1e-9;
}

static double image_bench_step(struct bench *bench, uint64_t number)
{
    struct error error = {0};
    double loss;
    must(model_forward(bench->model, bench->parameters, &bench->batch, &loss, &error), &error);
    must(model_backward(bench->model, bench->parameters, bench->gradients, NULL, NULL, &error), &error);
    optimizer_update(bench->description, bench->device, &sgd,
                     &(struct optimizer_step){.number = number, .rate = 0.01, .gradient_scale = 1, .mean = 1}, 0,
                     bench->description->elements,
                     &(struct optimizer_arrays){.parameters = bench->parameters,
                                                .gradients = bench->gradients,
                                                .first_moments = bench->moments,
                                                .as_activations = model_weights_as_activations(bench->model)});
    must(bench->device->finish(bench->device, &error), &error);
    return loss;
}

/* Of all threads. */
static double processor_seconds(void)
{
    struct timespec now;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
    return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

static int compare_seconds(const void *a, const void *b)
{
    const double left = *(const double *)a, right = *(const double *)b;
    return (left > right) - (left < right);
}

static void print_layers(const struct bench *bench, int steps)
{
    double sum[LAYER_PASSES] = {0};
    for (size_t i = 0; i < bench->description->layer_count && i < LAYERS_MOST; i++) {
        printf("%-16s", model_layer_name(bench->description, i));
        for (size_t pass = 0; pass < LAYER_PASSES; pass++) {
            printf(" %9.3f", bench->layers[i][pass] / steps * 1e3);
            sum[pass] += bench->layers[i][pass] / steps * 1e3;
        }
        putchar('\n');
    }
    printf("%-16s %9.3f %9.3f %9.3f ms\n", "all", sum[0], sum[1], sum[2]);
}

int main(int count, char **words)
{
    static struct bench bench;
    static double seconds[STEPS_MOST], processor[STEPS_MOST];
    const int steps = count > 6 ? atoi(words[6]) : 0;
    double loss = 0;
    if (steps < 1 || steps > STEPS_MOST) {
        fprintf(stderr, "image_step MODEL IMAGE BATCH DEVICE THREADS STEPS [layers]\n");
        return 1;
    }
    image_bench_open(&bench, words + 1);
    for (int step = 0; step < WARM + steps; step++) {
        if (step == WARM && count > 7)
            model_watch(bench.model, note_layer, &bench);
        const uint64_t begin = clock_now();
        const double processor_begin = processor_seconds();
        loss = image_bench_step(&bench, (uint64_t)step + 1);
        if (step < WARM)
            continue;
        seconds[step - WARM] = (double)(clock_now() - begin) * 1e-9;
        processor[step - WARM] = processor_seconds() - processor_begin;
    }
    qsort(seconds, (size_t)steps, sizeof *seconds, compare_seconds);
    qsort(processor, (size_t)steps, sizeof *processor, compare_seconds);
    if (count > 7)
        print_layers(&bench, steps);
    else
        printf("{\"step_ms\": %.3f, \"processor_ms\": %.3f, \"loss\": %.6f, \"kernels\": \"%s\"}\n",
               seconds[steps / 2] * 1e3, processor[steps / 2] * 1e3, loss, bench.device->kernels);
    return 0;
}
