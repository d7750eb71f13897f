/* SPDX-License-Identifier: Apache-2.0 */
/** How a run reads images. */
#ifndef WEFT_TRAINING_TRAIN_STATE_IMAGE_CHOICE_H
#define WEFT_TRAINING_TRAIN_STATE_IMAGE_CHOICE_H

#include <stdbool.h>
#include <stdint.h>

/** Random changes of training images (training/data/image/augment.h). */
enum image_changes {
    IMAGE_CHANGES_AUTO,  /**< by the size of the network's images */
    IMAGE_CHANGES_NONE,  /**< a square in the center */
    IMAGE_CHANGES_SMALL, /**< mirrored, and moved by up to an eighth of their size */
    IMAGE_CHANGES_LARGE, /**< mirrored, a random part resized, colors changed */
};

/** "auto", "none", "small", "large", in that order; ends with NULL. */
extern const char *const image_changes_names[];

/** A zeroed struct: auto, in the thread that computes, a damaged image is an error. */
struct image_choice {
    enum image_changes changes;
    double mixup;    /**< pairs are mixed by shares from a Beta(mixup, mixup) distribution; 0: not */
    double erase;    /**< probability that a box of an image becomes 0 */
    int64_t threads; /**< that decode ahead; 0: none */
    bool skip;       /**< images that cannot be decoded, instead of an error */
};

#endif
