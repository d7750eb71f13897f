/* SPDX-License-Identifier: Apache-2.0 */
/*
 * ResNet (He et al. 2015, "Deep residual learning for image recognition"), as torchvision has it, with the stride of a
 * bottleneck in its 3 x 3 convolution:
 *
 *     x = max pool(relu(norm(7 x 7 convolution(pixels))))       small images: relu(norm(3 x 3 convolution(pixels)))
 *     each basic block:   x = relu(norm(3 x 3 convolution(relu(norm(3 x 3 convolution(x))))) + shortcut(x))
 *     each bottleneck:    1 x 1, 3 x 3 and 1 x 1 convolutions in the same way; the last has 4 times as many channels
 *     logits = fc(mean over positions of x)
 *
 * The shortcut is x, or norm(1 x 1 convolution(x)) where the shape changes. Names are torchvision's.
 */
#include "training/model/networks/networks.h"

#include <math.h>
#include <stdio.h>

#define STAGES 4

static const struct resnet_kind {
    size_t layers;
    bool has_bottlenecks;
    unsigned blocks[STAGES];
} kinds[] = {{18, false, {2, 2, 2, 2}},
             {34, false, {3, 4, 6, 3}},
             {50, true, {3, 4, 6, 3}},
             {101, true, {3, 4, 23, 3}},
             {152, true, {3, 8, 36, 3}}};

/* NULL: there is none, which `error` says. */
static const struct resnet_kind *resnet_find(const struct model_shape *shape, struct error *error)
{
    for (size_t i = 0; i < ARRAY_SIZE(kinds); i++)
        if (kinds[i].layers == shape->layers)
            return &kinds[i];
    error_set(error, WEFT_ERROR_ARGUMENT, "a resnet has 18, 34, 50, 101 or 152 layers, not %zu", shape->layers);
    return NULL;
}

static weft_status resnet_add_stem(struct model_description *description, size_t outputs, size_t *size,
                                   struct error *error)
{
    const struct model_shape *shape = &description->shape;
    const bool small = model_has_small_images(shape);
    struct convolution_block stem = {.kind = BLOCK_STEM,
                                     .count = 1,
                                     .units = {image_network_unit(shape, *size, shape->channels, outputs, small ? 3 : 7,
                                                                  small ? 1 : 2, RECTIFIER_RELU)},
                                     .pools = !small};
    if (!small) {
        *size = (*size + 1) / 2;
        stem.pool = (struct max_pool){
            .batch = 1, .height = *size, .width = *size, .channels = outputs, .kernel = 3, .stride = 2, .padding = 1};
        *size = (*size + 1) / 2;
    }
    return convolution_block_add(
        description, &stem,
        &(struct convolution_block_names){.layer = "conv1", .units = {image_network_names("", "conv1", "bn1")}}, error);
}

/* `hidden` channels within. */
static weft_status resnet_add_block(struct model_description *description, bool has_bottlenecks, size_t stage,
                                    size_t number, size_t size, size_t inputs, size_t hidden, size_t stride,
                                    struct error *error)
{
    const struct model_shape *shape = &description->shape;
    const size_t out = (size - 1) / stride + 1, outputs = has_bottlenecks ? 4 * hidden : hidden;
    char layer[24], prefix[24];
    snprintf(layer, sizeof layer, "layer%zu.%zu", stage + 1, number);
    snprintf(prefix, sizeof prefix, "layer%zu.%zu.", stage + 1, number);
    struct convolution_block block = {.kind = has_bottlenecks ? BLOCK_BOTTLENECK : BLOCK_BASIC};
    if (has_bottlenecks) {
        block.units[block.count++] = image_network_unit(shape, size, inputs, hidden, 1, 1, RECTIFIER_RELU);
        block.units[block.count++] = image_network_unit(shape, size, hidden, hidden, 3, stride, RECTIFIER_RELU);
        block.units[block.count++] = image_network_unit(shape, out, hidden, outputs, 1, 1, RECTIFIER_RELU);
    } else {
        block.units[block.count++] = image_network_unit(shape, size, inputs, hidden, 3, stride, RECTIFIER_RELU);
        block.units[block.count++] = image_network_unit(shape, out, hidden, outputs, 3, 1, RECTIFIER_RELU);
    }
    block.adds_shortcut = stride > 1 || inputs != outputs;
    block.adds_input = !block.adds_shortcut;
    if (block.adds_shortcut)
        block.shortcut = image_network_unit(shape, size, inputs, outputs, 1, stride, RECTIFIER_NONE);
    return convolution_block_add(
        description, &block,
        &(struct convolution_block_names){.layer = layer,
                                          .units = {image_network_names(prefix, "conv1", "bn1"),
                                                    image_network_names(prefix, "conv2", "bn2"),
                                                    image_network_names(prefix, "conv3", "bn3")},
                                          .shortcut = image_network_names(prefix, "downsample.0", "downsample.1")},
        error);
}

static weft_status resnet_describe(struct model_description *description, struct error *error)
{
    const struct model_shape *shape = &description->shape;
    const struct resnet_kind *kind = resnet_find(shape, error);
    size_t size = shape->image, inputs = image_network_channels(64, shape->multiplier);
    weft_status status = kind ? image_network_check(shape, error) : WEFT_ERROR_ARGUMENT;
    if (status == WEFT_OK)
        status = resnet_add_stem(description, inputs, &size, error);
    if (status != WEFT_OK)
        return status;
    for (size_t stage = 0; stage < STAGES; stage++) {
        const size_t hidden = image_network_channels((double)(64u << stage), shape->multiplier);
        for (size_t i = 0; status == WEFT_OK && i < kind->blocks[stage]; i++) {
            const size_t stride = stage && !i ? 2 : 1;
            status =
                resnet_add_block(description, kind->has_bottlenecks, stage, i, size, inputs, hidden, stride, error);
            size = (size - 1) / stride + 1;
            inputs = kind->has_bottlenecks ? 4 * hidden : hidden;
        }
    }
    const struct classifier classifier = {.positions = size * size, .channels = inputs};
    if (status == WEFT_OK) /* the deviation of PyTorch's uniform numbers */
        status = classifier_add(description, &classifier, shape->classes,
                                &(struct classifier_names){.weight = "fc.weight", .bias = "fc.bias"},
                                1 / sqrt(3 * (double)inputs), error);
    return status;
}

static const char *const numbers[] = {"layers", "image", "channels", "classes", "multiplier", "norm_epsilon", NULL};

const struct network resnet_network = {
    .kind = "resnet",
    .reads_images = true,
    .numbers = numbers,
    .complete = image_network_complete,
    .inputs = image_network_inputs,
    .describe = resnet_describe,
};
