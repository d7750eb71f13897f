/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The kernels of an image network, forward and backward of all its layers, by time: for bench/image_kernels.
 *
 *     image_kernels_bench NETWORK IMAGE BATCH DEVICE THREADS ROUNDS [layers]
 *
 * NETWORK is mobilenet-v2 or resnet-50. Every layer has its own activations, as in training, so nothing is in the cache that
 * would not be there. Prints the milliseconds of each kind of kernel, best of so many rounds, and their sum; with `layers`,
 * of each convolution as well.
 */
#include "base/clock.h"
#include "base/random.h"
#include "training/tensor/device.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CONVOLUTIONS_MOST 64

enum kind { DENSE, DEPTHWISE, KINDS };
enum pass { FORWARD, TO_INPUT, TO_WEIGHTS, PASSES };

/* A convolution with its batch norm. */
struct stage {
    struct convolution shape;
    enum rectifier rectifier;
    int from; /* the stage whose output is its input; -1: an array without a batch norm */
    bool end; /* of a block: the batch norm is computed, and something added */
    void *x, *y, *weights, *gradient_weights;
    struct batch_norm norm;
    double best[PASSES], best_end[2];
};

struct network {
    struct device *device;
    struct stage stages[CONVOLUTIONS_MOST];
    size_t count, image, batch;
    void *slopes[2], *stream, *gradient, *pooled;
    uint8_t *places;
    double best_pools[2];
    bool pools;
};

static void add_stage(struct network *network, size_t inputs, size_t outputs, size_t kernel, size_t stride,
                      bool depthwise, enum rectifier rectifier, bool begins, bool end)
{
    network->stages[network->count] = (struct stage){.shape = {.batch = network->batch,
                                                               .height = network->image,
                                                               .width = network->image,
                                                               .inputs = inputs,
                                                               .outputs = outputs,
                                                               .kernel = kernel,
                                                               .stride = stride,
                                                               .padding = kernel / 2,
                                                               .depthwise = depthwise},
                                                     .rectifier = rectifier,
                                                     .from = begins ? -1 : (int)network->count - 1,
                                                     .end = end};
    network->image = convolution_height(&network->stages[network->count++].shape);
}

/* Sandler et al. 2018, "MobileNetV2", table 2: expansion, channels, blocks, stride. */
static void make_mobilenet_v2(struct network *network)
{
    static const size_t table[][4] = {{1, 16, 1, 1}, {6, 24, 2, 2},  {6, 32, 3, 2}, {6, 64, 4, 2},
                                      {6, 96, 3, 1}, {6, 160, 3, 2}, {6, 320, 1, 1}};
    size_t channels = 32;
    add_stage(network, 3, 32, 3, 2, false, RECTIFIER_RELU6, true, false);
    for (size_t i = 0; i < sizeof table / sizeof *table; i++)
        for (size_t k = 0; k < table[i][2]; k++) {
            const size_t inner = channels * table[i][0];
            if (table[i][0] > 1)
                add_stage(network, channels, inner, 1, 1, false, RECTIFIER_RELU6, true, false);
            add_stage(network, inner, inner, 3, k ? 1 : table[i][3], true, RECTIFIER_RELU6, false, false);
            add_stage(network, inner, table[i][1], 1, 1, false, RECTIFIER_NONE, false, true);
            channels = table[i][1];
        }
    add_stage(network, 320, 1280, 1, 1, false, RECTIFIER_RELU6, true, false);
}

/* He et al. 2016, "Deep residual learning", table 1; the stride is that of the 3 x 3 convolution, as in torchvision. */
static void make_resnet_50(struct network *network)
{
    static const size_t blocks[] = {3, 4, 6, 3};
    size_t channels = 64;
    network->pools = true;
    add_stage(network, 3, 64, 7, 2, false, RECTIFIER_RELU, true, false);
    network->image = window_count(network->image, 3, 2, 1);
    for (size_t i = 0; i < 4; i++)
        for (size_t k = 0; k < blocks[i]; k++) {
            const size_t inner = (size_t)64 << i, stride = i > 0 && k == 0 ? 2 : 1, image = network->image;
            add_stage(network, channels, inner, 1, 1, false, RECTIFIER_RELU, true, false);
            add_stage(network, inner, inner, 3, stride, false, RECTIFIER_RELU, false, false);
            add_stage(network, inner, 4 * inner, 1, 1, false, RECTIFIER_RELU, false, true);
            if (k == 0) {
                network->image = image;
                add_stage(network, channels, 4 * inner, 1, stride, false, RECTIFIER_NONE, true, true);
            }
            channels = 4 * inner;
        }
}

static void *array_of(struct network *network, size_t count, size_t size, double deviation, uint64_t seed)
{
    struct device *device = network->device;
    struct error error = {0};
    char *array = device->allocate(device, count * size + 64, "a benchmark", &error);
    float numbers[4096];
    if (!array) {
        fprintf(stderr, "image_kernels_bench: %s\n", error.text);
        exit(1);
    }
    for (size_t i = 0; i < 4096; i++)
        numbers[i] = (float)(deviation * random_normal(seed, i));
    for (size_t done = 0; done < count; done += 4096) {
        const size_t now = count - done < 4096 ? count - done : 4096;
        if (size == weft_type_size(device->type))
            memcpy(array + done * size, numbers, now * size);
        else
            device->to_activations(device, now, numbers, array + done * size);
    }
    return array;
}

static void make_arrays(struct network *network)
{
    const size_t narrow = weft_type_size(network->device->activations), wide = weft_type_size(network->device->type);
    size_t most = 0;
    for (size_t i = 0; i < network->count; i++) {
        struct stage *stage = &network->stages[i];
        const size_t in = convolution_rows_in(&stage->shape) * stage->shape.inputs,
                     out = convolution_rows_out(&stage->shape) * stage->shape.outputs;
        most = in > most ? in : most;
        most = out > most ? out : most;
        stage->x = stage->from < 0 ? array_of(network, in, narrow, 1, i) : network->stages[stage->from].y;
        stage->y = array_of(network, out, narrow, 1, i);
        stage->weights = array_of(network, convolution_weights(&stage->shape), narrow, 0.1, i);
        stage->gradient_weights = array_of(network, convolution_weights(&stage->shape), wide, 0, i);
        stage->norm =
            (struct batch_norm){.channels = stage->shape.outputs, .epsilon = 1e-5, .rectifier = stage->rectifier};
        void **arrays[] = {&stage->norm.means, &stage->norm.variances, &stage->norm.reciprocals,
                           &stage->norm.gradient_gain, &stage->norm.gradient_bias};
        for (size_t k = 0; k < 5; k++)
            *arrays[k] = array_of(network, stage->shape.outputs, wide, 0.01, k);
        stage->norm.gain = array_of(network, stage->shape.outputs, wide, 1, 7);
        stage->norm.bias = array_of(network, stage->shape.outputs, wide, 1, 8);
    }
    for (size_t i = 0; i < 2; i++)
        network->slopes[i] = array_of(network, most, narrow, 1, i);
    network->stream = array_of(network, most, wide, 1, 3);
    network->gradient = array_of(network, most, wide, 1, 4);
    network->pooled = array_of(network, most, wide, 1, 5);
    network->places = calloc(most, 1);
}

/* Of one thread the time that it computes, whatever else the machine does. */
static uint64_t time_of(const struct network *network)
{
    return network->device->threads == 1 ? clock_thread_cpu() : clock_now();
}

static uint64_t keep_best(const struct network *network, double *best, uint64_t begin)
{
    const uint64_t now = time_of(network);
    const double taken = (double)(now - begin) * 1e-6;
    *best = *best == 0 || taken < *best ? taken : *best;
    return now;
}

static void run_round(struct network *network)
{
    struct device *device = network->device;
    const struct stage *stem = &network->stages[0], *last = &network->stages[network->count - 1];
    const struct max_pool largest = {network->batch,
                                     convolution_height(&stem->shape),
                                     convolution_width(&stem->shape),
                                     stem->shape.outputs,
                                     3,
                                     2,
                                     1};
    const struct average_pool mean = {
        network->batch, convolution_height(&last->shape) * convolution_width(&last->shape), last->shape.outputs};
    const struct batch_norm *of_last = last->end ? NULL : &last->norm;
    for (size_t i = 0; i < network->count; i++) {
        struct stage *stage = &network->stages[i];
        const struct batch_norm *before = stage->from < 0 ? NULL : &network->stages[stage->from].norm;
        uint64_t begin = time_of(network);
        device->convolution_forward(device, &stage->shape, stage->x, before, stage->weights, stage->y, &stage->norm);
        begin = keep_best(network, &stage->best[FORWARD], begin);
        if (stage->end)
            device->batch_norm_forward(device, &stage->norm, convolution_rows_out(&stage->shape), stage->y,
                                       network->stream, network->stream);
        if (stage->end)
            keep_best(network, &stage->best_end[0], begin);
    }
    uint64_t begin = time_of(network);
    if (network->pools)
        device->max_pool_forward(device, &largest, stem->y, &stem->norm, network->pooled, network->places);
    device->average_pool_forward(device, &mean, last->y, of_last, network->pooled);
    begin = keep_best(network, &network->best_pools[0], begin);
    device->average_pool_backward(device, &mean, network->pooled, last->y, of_last, network->slopes[0]);
    if (network->pools)
        device->max_pool_backward(device, &largest, network->gradient, network->places, stem->y, &stem->norm,
                                  network->slopes[0]);
    keep_best(network, &network->best_pools[1], begin);
    for (size_t i = network->count; i-- > 0;) {
        struct stage *stage = &network->stages[i];
        const struct batch_norm *before = stage->from < 0 ? NULL : &network->stages[stage->from].norm;
        begin = time_of(network);
        if (stage->end) {
            device->batch_norm_backward(device, &stage->norm, convolution_rows_out(&stage->shape), stage->y,
                                        stage->rectifier == RECTIFIER_NONE ? NULL : network->stream, network->gradient,
                                        network->slopes[0]);
            begin = keep_best(network, &stage->best_end[1], begin);
        }
        if (i > 0)
            device->convolution_backward_input(device, &stage->shape, stage->weights, network->slopes[0], stage->y,
                                               &stage->norm, stage->x, before, network->slopes[1]);
        if (i > 0 && stage->from < 0) /* to the gradient of the stream */
            device->add_branch(device, convolution_rows_in(&stage->shape) * stage->shape.inputs, network->gradient,
                               network->slopes[1], network->gradient);
        begin = keep_best(network, &stage->best[TO_INPUT], begin);
        device->convolution_backward_weights(device, &stage->shape, stage->x, before, network->slopes[0], stage->y,
                                             &stage->norm, stage->gradient_weights);
        keep_best(network, &stage->best[TO_WEIGHTS], begin);
    }
}

static void print_stage(const struct stage *stage)
{
    const double flops = 2.0 * (double)convolution_rows_out(&stage->shape) * (double)convolution_weights(&stage->shape);
    printf("%4zu x %-4zu %4zu to %-4zu kernel %zu stride %zu %-9s", stage->shape.height, stage->shape.width,
           stage->shape.inputs, stage->shape.outputs, stage->shape.kernel, stage->shape.stride,
           stage->shape.depthwise ? "depthwise" : "");
    for (int pass = 0; pass < PASSES; pass++)
        printf(" %8.2f ms %6.1f GFLOP/s", stage->best[pass], flops / stage->best[pass] * 1e-6);
    if (stage->end)
        printf("  end %.2f, %.2f ms", stage->best_end[0], stage->best_end[1]);
    printf("\n");
}

int main(int count, char **arguments)
{
    struct network network = {0};
    struct error error = {0};
    if (count < 7) {
        fprintf(stderr, "usage: image_kernels_bench NETWORK IMAGE BATCH DEVICE THREADS ROUNDS [layers]\n");
        return 1;
    }
    network.image = strtoul(arguments[2], NULL, 10);
    network.batch = strtoul(arguments[3], NULL, 10);
    if (device_open(arguments[4], atoi(arguments[5]), &network.device, &error) != WEFT_OK) {
        fprintf(stderr, "image_kernels_bench: %s\n", error.text);
        return 1;
    }
    if (strcmp(arguments[1], "resnet-50") == 0)
        make_resnet_50(&network);
    else
        make_mobilenet_v2(&network);
    make_arrays(&network);
    for (int round = atoi(arguments[6]); round > 0; round--)
        run_round(&network);
    double sums[KINDS][PASSES] = {{0}}, ends[2] = {0}, all = network.best_pools[0] + network.best_pools[1];
    for (size_t i = 0; i < network.count; i++) {
        const struct stage *stage = &network.stages[i];
        for (int pass = 0; pass < PASSES; pass++)
            sums[stage->shape.depthwise ? DEPTHWISE : DENSE][pass] += stage->best[pass], all += stage->best[pass];
        for (int k = 0; k < 2; k++)
            ends[k] += stage->best_end[k], all += stage->best_end[k];
        if (count > 7)
            print_stage(stage);
    }
    printf("ms: convolutions %.1f forward, %.1f to input, %.1f to weights; depthwise %.1f, %.1f, %.1f; "
           "ends of blocks %.1f, %.1f; pools %.1f, %.1f; all %.1f\n",
           sums[DENSE][0], sums[DENSE][1], sums[DENSE][2], sums[DEPTHWISE][0], sums[DEPTHWISE][1], sums[DEPTHWISE][2],
           ends[0], ends[1], network.best_pools[0], network.best_pools[1], all);
    network.device->close(network.device);
    return 0;
}
