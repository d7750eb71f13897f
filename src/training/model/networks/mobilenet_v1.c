/* SPDX-License-Identifier: Apache-2.0 */
/*
 * MobileNet (Howard et al. 2017, "MobileNets: efficient convolutional neural networks for mobile vision applications"),
 * with ReLU6, as in the authors' implementation:
 *
 *     x = relu6(norm(3 x 3 convolution(pixels)))
 *     each block:  x = relu6(norm(1 x 1 convolution(relu6(norm(depthwise 3 x 3 convolution(x))))))
 *     logits = classifier(mean over positions of x)
 *
 * torchvision does not have it. Names are in the style of its MobileNetV2: "features.3.0.0.weight" is the depthwise
 * convolution of block 3, "features.3.1.0.weight" its 1 x 1 convolution.
 */
#include "training/model/networks/networks.h"

#include <stdio.h>

/* Outputs and stride of each block. */
static const struct {
    unsigned outputs, stride;
} blocks[] = {{64, 1},  {128, 2}, {128, 1}, {256, 2}, {256, 1},  {512, 2}, {512, 1},
              {512, 1}, {512, 1}, {512, 1}, {512, 1}, {1024, 2}, {1024, 1}};

static weft_status mobilenet_v1_add_block(struct model_description *description, size_t number, size_t size,
                                          size_t inputs, size_t outputs, size_t stride, struct error *error)
{
    const struct model_shape *shape = &description->shape;
    char layer[24], prefix[24];
    snprintf(layer, sizeof layer, "features.%zu", number);
    snprintf(prefix, sizeof prefix, "features.%zu.", number);
    const size_t out = (size - 1) / stride + 1;
    const struct convolution_block block = {
        .kind = BLOCK_SEPARABLE,
        .count = 2,
        .units = {image_network_depthwise(shape, size, inputs, stride, RECTIFIER_RELU6),
                  image_network_unit(shape, out, inputs, outputs, 1, 1, RECTIFIER_RELU6)}};
    return convolution_block_add(
        description, &block,
        &(struct convolution_block_names){
            .layer = layer,
            .units = {image_network_names(prefix, "0.0", "0.1"), image_network_names(prefix, "1.0", "1.1")}},
        error);
}

static weft_status mobilenet_v1_describe(struct model_description *description, struct error *error)
{
    const struct model_shape *shape = &description->shape;
    bool keeps = model_has_small_images(shape); /* the first stage that would halve */
    const size_t stride = keeps ? 1 : 2;
    size_t size = shape->image, inputs = image_network_channels(32, shape->multiplier);
    const struct convolution_block stem = {
        .kind = BLOCK_STEM,
        .count = 1,
        .units = {image_network_unit(shape, size, shape->channels, inputs, 3, stride, RECTIFIER_RELU6)}};
    weft_status status = image_network_check(shape, error);
    if (status == WEFT_OK)
        status =
            convolution_block_add(description, &stem,
                                  &(struct convolution_block_names){
                                      .layer = "features.0", .units = {image_network_names("features.", "0.0", "0.1")}},
                                  error);
    size = (size - 1) / stride + 1;
    for (size_t i = 0; status == WEFT_OK && i < ARRAY_SIZE(blocks); i++) {
        const bool halves = blocks[i].stride == 2 && !keeps;
        const size_t outputs = image_network_channels(blocks[i].outputs, shape->multiplier);
        keeps = keeps && blocks[i].stride == 1;
        status = mobilenet_v1_add_block(description, i + 1, size, inputs, outputs, halves ? 2 : 1, error);
        size = halves ? (size + 1) / 2 : size;
        inputs = outputs;
    }
    const struct classifier classifier = {.positions = size * size, .channels = inputs, .drops = true};
    if (status == WEFT_OK)
        status = classifier_add(
            description, &classifier, shape->classes,
            &(struct classifier_names){.weight = "classifier.1.weight", .bias = "classifier.1.bias"}, 0.01, error);
    return status;
}

static const char *const numbers[] = {"image", "channels", "classes", "multiplier", "norm_epsilon", NULL};

const struct network mobilenet_v1_network = {
    .kind = "mobilenet-v1",
    .reads_images = true,
    .numbers = numbers,
    .complete = image_network_complete,
    .inputs = image_network_inputs,
    .describe = mobilenet_v1_describe,
};
