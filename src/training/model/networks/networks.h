/* SPDX-License-Identifier: Apache-2.0 */
/**
 * The kinds of networks. A new kind is a file in this directory that lists its layers, a line in networks.def and, for
 * named sizes, lines in sizes.c.
 */
#ifndef WEFT_TRAINING_MODEL_NETWORKS_NETWORKS_H
#define WEFT_TRAINING_MODEL_NETWORKS_NETWORKS_H

#include "training/model/layers/layers.h"
#include "training/model/shape.h"

struct network {
    const char *kind;  /**< "gpt" */
    bool reads_images; /**< its numbers are those listed only; its `sequence` and context are 1: a row is an image */
    /** Numbers of a shape (training/model/shape.h) that this kind has, after those that all have; ends with NULL. */
    const char *const *numbers;
    /** Fill in the defaults of those numbers of the shape that are 0. */
    void (*complete)(struct model_shape *shape);
    /** What such a network reads of a micro-batch: fills in what is not 0. NULL: tokens and targets of a language
     * model. */
    void (*inputs)(const struct model_shape *shape, size_t sequence, struct model_inputs *inputs);
    /** Append the layers of description->shape, which is complete and whose numbers are each within their bounds. */
    weft_status (*describe)(struct model_description *description, struct error *error);
};

/** All kinds; ends with NULL. */
extern const struct network *const networks[];

/** The kind of this name, or NULL with a message. */
const struct network *network_find(const char *kind, struct error *error);

/** Whether shapes of this kind have that number: some are common to all kinds, and each kind lists the others. */
bool network_has(const struct network *network, const struct shape_number *number);

/** Whether each number is one that the kind has and is within its bounds; a message names the first that is not. */
weft_status network_check(const struct network *network, const struct model_shape *shape, struct error *error);

/** Whether the numbers that transformers share are consistent; a message names the first that is not. */
weft_status transformer_check(const struct model_shape *shape, struct error *error);

/** Kinds that read images share their defaults, inputs and checks. */
void image_network_complete(struct model_shape *shape);
void image_network_inputs(const struct model_shape *shape, size_t sequence, struct model_inputs *inputs);
weft_status image_network_check(const struct model_shape *shape, struct error *error);

/** `count` times the multiplier, as a multiple of 8 and never below nine tenths (as torchvision's _make_divisible()). */
size_t image_network_channels(double count, double multiplier);

/** A unit whose output has the size of its input of size x size, divided by the stride. */
struct convolution_unit image_network_unit(const struct model_shape *shape, size_t size, size_t inputs, size_t outputs,
                                           size_t kernel, size_t stride, enum rectifier rectifier);

/** The depthwise one of `channels`, 3 x 3. */
struct convolution_unit image_network_depthwise(const struct model_shape *shape, size_t size, size_t channels,
                                                size_t stride, enum rectifier rectifier);

/** The names of a unit: "features.3.conv." and "0.0", "0.1". */
struct convolution_unit_names image_network_names(const char *prefix, const char *convolution, const char *norm);

/** "gpt, llama or mlp", for messages; returns `text`. */
char *network_kinds(char *text, size_t size);

#define NETWORK(kind) extern const struct network kind##_network;
#include "training/model/networks/networks.def"
#undef NETWORK

#endif
