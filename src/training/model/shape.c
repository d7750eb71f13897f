/* SPDX-License-Identifier: Apache-2.0 */
#include "training/model/shape.h"

#include <stdio.h>

#define NUMBER(member, of_kind, minimum, maximum, tells, ...)                                                          \
    {                                                                                                                  \
        .name = #member, .kind = of_kind, .offset = offsetof(struct model_shape, member), .least = minimum,            \
        .most = maximum, .about = tells, __VA_ARGS__                                                                   \
    }

/* The products of the largest stay within 64 bits. */
const struct shape_number shape_numbers[] = {
    NUMBER(layers, SHAPE_WHOLE, 1, 1024, "blocks, or hidden layers", .of_all = true),
    NUMBER(heads, SHAPE_WHOLE, 1, 4096, "attention heads", ),
    NUMBER(kv_heads, SHAPE_WHOLE, 1, 4096, "heads of keys and values", .may_be_usual = true),
    NUMBER(width, SHAPE_WHOLE, 1, 131072, "elements of a row between two blocks, of an embedding", .of_all = true),
    NUMBER(hidden, SHAPE_WHOLE, 1, 1048576, "width within the feed-forward layers, of hidden layers",
           .may_be_usual = true),
    NUMBER(window, SHAPE_WHOLE, 1, 4096, "tokens that a prediction is made from", ),
    NUMBER(context, SHAPE_WHOLE, 1, 16777216, "longest sequence, tokens", .of_all = true),
    NUMBER(vocabulary, SHAPE_WHOLE, 1, 16777216, "number of different tokens; 256 for bytes", .of_all = true),
    NUMBER(rotary_base, SHAPE_REAL, 1, 1e12, "of rotary positions", .may_be_usual = true),
    NUMBER(norm_epsilon, SHAPE_REAL, 1e-12, 0.1, "added to the variance by norms", .of_all = true,
           .may_be_usual = true),
    NUMBER(classes, SHAPE_WHOLE, 2, 1000000, "classes of a whole sample", .may_be_usual = true, .is_newer = true),
    NUMBER(image, SHAPE_WHOLE, 8, 4096, "height and width of an image, pixels", .is_newer = true),
    NUMBER(channels, SHAPE_WHOLE, 1, 3, "of an image: 1 (gray) or 3", .is_newer = true),
    NUMBER(multiplier, SHAPE_REAL, 0.125, 4, "of the channels of all layers", .may_be_usual = true, .is_newer = true),
    NUMBER(untied, SHAPE_FLAG, 0, 1, "the head has a matrix of its own, not the embedding table", ),
};
const size_t shape_number_count = ARRAY_SIZE(shape_numbers);

double shape_number_get(const struct model_shape *shape, const struct shape_number *number)
{
    const char *place = (const char *)shape + number->offset;
    switch (number->kind) {
    case SHAPE_WHOLE:
        return (double)*(const size_t *)place;
    case SHAPE_REAL:
        return *(const double *)place;
    case SHAPE_FLAG:
        break;
    }
    return *(const bool *)place;
}

void shape_number_set(struct model_shape *shape, const struct shape_number *number, double value)
{
    char *place = (char *)shape + number->offset;
    switch (number->kind) {
    case SHAPE_WHOLE:
        *(size_t *)place = (size_t)value;
        break;
    case SHAPE_REAL:
        *(double *)place = value;
        break;
    case SHAPE_FLAG:
        *(bool *)place = value != 0;
        break;
    }
}

static char *image_shape_text(const struct model_shape *shape, char text[SHAPE_TEXT_BYTES])
{
    int length = 0;
    if (shape->layers)
        length = snprintf(text, SHAPE_TEXT_BYTES, "%zu layers, ", shape->layers);
    snprintf(text + length, SHAPE_TEXT_BYTES - (size_t)length,
             "images of %zu x %zu pixels, %zu channel%s, %zu classes, multiplier %g", shape->image, shape->image,
             shape->channels, shape->channels > 1 ? "s" : "", shape->classes,
             shape->multiplier > 0 ? shape->multiplier : 1);
    return text;
}

char *shape_text(const struct model_shape *shape, char text[SHAPE_TEXT_BYTES])
{
    if (shape->image)
        return image_shape_text(shape, text);
    int length = snprintf(text, SHAPE_TEXT_BYTES, "%zu layers", shape->layers);
    if (shape->heads)
        length += snprintf(text + length, SHAPE_TEXT_BYTES - (size_t)length, ", %zu heads", shape->heads);
    length += snprintf(text + length, SHAPE_TEXT_BYTES - (size_t)length, ", width %zu", shape->width);
    if (shape->window)
        length += snprintf(text + length, SHAPE_TEXT_BYTES - (size_t)length, ", window %zu, hidden %zu", shape->window,
                           shape->hidden);
    length += snprintf(text + length, SHAPE_TEXT_BYTES - (size_t)length, ", context %zu, vocabulary %zu",
                       shape->context, shape->vocabulary);
    if (shape->classes)
        snprintf(text + length, SHAPE_TEXT_BYTES - (size_t)length, ", %zu classes", shape->classes);
    return text;
}
