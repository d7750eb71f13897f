/* SPDX-License-Identifier: Apache-2.0 */
/* What the kinds of networks that read images share. */
#include "training/model/networks/networks.h"

#include <stdio.h>

void image_network_complete(struct model_shape *shape)
{
    if (!shape->context)
        shape->context = 1;
    if (shape->multiplier == 0)
        shape->multiplier = 1;
    if (shape->norm_epsilon == 0)
        shape->norm_epsilon = 1e-5;
}

void image_network_inputs(const struct model_shape *shape, size_t sequence, struct model_inputs *inputs)
{
    inputs->elements[INPUT_PIXELS] = shape->image * shape->image * shape->channels;
    inputs->elements[INPUT_TARGETS] = inputs->elements[INPUT_SHARES] = 2;
    inputs->most[INPUT_TARGETS] = (int64_t)shape->classes - 1;
}

weft_status image_network_check(const struct model_shape *shape, struct error *error)
{
    if (shape->channels == 2)
        return error_set(error, WEFT_ERROR_ARGUMENT, "images have 1 channel (gray) or 3, not %zu", shape->channels);
    return WEFT_OK;
}

size_t image_network_channels(double count, double multiplier)
{
    const double wanted = count * multiplier;
    const size_t nearest = (size_t)(wanted + 4) / 8 * 8, least = nearest ? nearest : 8;
    return (double)least < 0.9 * wanted ? least + 8 : least;
}

struct convolution_unit image_network_unit(const struct model_shape *shape, size_t size, size_t inputs, size_t outputs,
                                           size_t kernel, size_t stride, enum rectifier rectifier)
{
    return (struct convolution_unit){.shape = {.batch = 1,
                                               .height = size,
                                               .width = size,
                                               .inputs = inputs,
                                               .outputs = outputs,
                                               .kernel = kernel,
                                               .stride = stride,
                                               .padding = kernel / 2},
                                     .rectifier = rectifier,
                                     .epsilon = shape->norm_epsilon};
}

struct convolution_unit image_network_depthwise(const struct model_shape *shape, size_t size, size_t channels,
                                                size_t stride, enum rectifier rectifier)
{
    struct convolution_unit unit = image_network_unit(shape, size, channels, channels, 3, stride, rectifier);
    unit.shape.depthwise = true;
    return unit;
}

struct convolution_unit_names image_network_names(const char *prefix, const char *convolution, const char *norm)
{
    struct convolution_unit_names names;
    snprintf(names.convolution, sizeof names.convolution, "%s%s", prefix, convolution);
    snprintf(names.norm, sizeof names.norm, "%s%s", prefix, norm);
    return names;
}
