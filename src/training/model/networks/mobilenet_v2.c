/* SPDX-License-Identifier: Apache-2.0 */
/*
 * MobileNetV2 (Sandler et al. 2018, "MobileNetV2: inverted residuals and linear bottlenecks"), as torchvision has it:
 *
 *     x = relu6(norm(3 x 3 convolution(pixels)))
 *     each block:  h = relu6(norm(1 x 1 convolution(x)))             of `expansion` times as many channels; not in the first
 *                  h = relu6(norm(depthwise 3 x 3 convolution(h)))
 *                  x = x + norm(1 x 1 convolution(h))                without x where the shape changes
 *     logits = classifier(mean over positions of relu6(norm(1 x 1 convolution(x))))
 *
 * Names are torchvision's.
 */
#include "training/model/networks/networks.h"

#include <stdio.h>

/* Of stages: table 2 of the paper. */
static const struct {
    unsigned expansion, outputs, blocks, stride;
} stages[] = {{1, 16, 1, 1}, {6, 24, 2, 2},  {6, 32, 3, 2}, {6, 64, 4, 2},
              {6, 96, 3, 1}, {6, 160, 3, 2}, {6, 320, 1, 1}};

/* The rows that enter a block, and what it makes of them. */
struct inverted {
    size_t size, inputs, expansion, outputs, stride;
};

static weft_status mobilenet_v2_add_block(struct model_description *description, size_t number,
                                          const struct inverted *inverted, struct error *error)
{
    const struct model_shape *shape = &description->shape;
    const size_t hidden = inverted->inputs * inverted->expansion, size = (inverted->size - 1) / inverted->stride + 1;
    char layer[24], prefix[24];
    snprintf(layer, sizeof layer, "features.%zu", number);
    snprintf(prefix, sizeof prefix, "features.%zu.conv.", number);
    struct convolution_block block = {.kind = BLOCK_INVERTED,
                                      .adds_input = inverted->stride == 1 && inverted->inputs == inverted->outputs};
    struct convolution_block_names names = {.layer = layer};
    if (inverted->expansion > 1) {
        names.units[0] = image_network_names(prefix, "0.0", "0.1");
        block.units[block.count++] =
            image_network_unit(shape, inverted->size, inverted->inputs, hidden, 1, 1, RECTIFIER_RELU6);
    }
    names.units[block.count] =
        inverted->expansion > 1 ? image_network_names(prefix, "1.0", "1.1") : image_network_names(prefix, "0.0", "0.1");
    block.units[block.count++] =
        image_network_depthwise(shape, inverted->size, hidden, inverted->stride, RECTIFIER_RELU6);
    names.units[block.count] =
        inverted->expansion > 1 ? image_network_names(prefix, "2", "3") : image_network_names(prefix, "1", "2");
    block.units[block.count++] = image_network_unit(shape, size, hidden, inverted->outputs, 1, 1, RECTIFIER_NONE);
    return convolution_block_add(description, &block, &names, error);
}

static weft_status mobilenet_v2_add_stages(struct model_description *description, size_t *size, size_t *inputs,
                                           size_t *number, struct error *error)
{
    const struct model_shape *shape = &description->shape;
    bool keeps = model_has_small_images(shape); /* the first stage that would halve */
    weft_status status = WEFT_OK;
    for (size_t s = 0; s < ARRAY_SIZE(stages); s++) {
        const size_t stride = keeps ? 1 : stages[s].stride;
        keeps = keeps && stages[s].stride == 1;
        for (size_t i = 0; status == WEFT_OK && i < stages[s].blocks; i++) {
            const struct inverted inverted = {.size = *size,
                                              .inputs = *inputs,
                                              .expansion = stages[s].expansion,
                                              .outputs = image_network_channels(stages[s].outputs, shape->multiplier),
                                              .stride = i ? 1 : stride};
            status = mobilenet_v2_add_block(description, (*number)++, &inverted, error);
            *size = (*size - 1) / inverted.stride + 1;
            *inputs = inverted.outputs;
        }
    }
    return status;
}

static weft_status mobilenet_v2_describe(struct model_description *description, struct error *error)
{
    const struct model_shape *shape = &description->shape;
    const size_t stride = model_has_small_images(shape) ? 1 : 2,
                 last = image_network_channels(1280, shape->multiplier > 1 ? shape->multiplier : 1);
    size_t size = shape->image, inputs = image_network_channels(32, shape->multiplier), number = 1;
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
    if (status == WEFT_OK)
        status = mobilenet_v2_add_stages(description, &size, &inputs, &number, error);
    if (status != WEFT_OK)
        return status;
    char prefix[24];
    snprintf(prefix, sizeof prefix, "features.%zu.", number);
    const struct classifier classifier = {.positions = size * size,
                                          .channels = last,
                                          .has_unit = true,
                                          .unit = image_network_unit(shape, size, inputs, last, 1, 1, RECTIFIER_RELU6),
                                          .drops = true};
    return classifier_add(description, &classifier, shape->classes,
                          &(struct classifier_names){.unit = image_network_names(prefix, "0", "1"),
                                                     .weight = "classifier.1.weight",
                                                     .bias = "classifier.1.bias"},
                          0.01, error);
}

static const char *const numbers[] = {"image", "channels", "classes", "multiplier", "norm_epsilon", NULL};

const struct network mobilenet_v2_network = {
    .kind = "mobilenet-v2",
    .reads_images = true,
    .numbers = numbers,
    .complete = image_network_complete,
    .inputs = image_network_inputs,
    .describe = mobilenet_v2_describe,
};
