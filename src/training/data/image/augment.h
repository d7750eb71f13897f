/* SPDX-License-Identifier: Apache-2.0 */
/**
 * Random changes of training images, and what is done to images for evaluation.
 *
 * A plan has all that is random about a sample. It is a function of the settings, a key and the size of the image alone.
 * The geometry is made first, while the image is decoded and resized (resample.h); image_adjust() does the rest.
 * In training, in this order:
 *   - random resized crop: a box with a share of the area and an aspect ratio that are random, at a random place
 *     (Szegedy et al. 2014, "Going deeper with convolutions"; the procedure is torchvision's RandomResizedCrop);
 *     without it, the largest square in the center;
 *   - a mirror image;
 *   - brightness, contrast and saturation by random factors in random order (torchvision's ColorJitter);
 *   - padding with black and a crop at a random place (He et al. 2015);
 *   - normalization: (value / 255 - mean) / deviation of the channel;
 *   - random erasing: a box becomes 0 (Zhong et al. 2017; torchvision's RandomErasing with its ranges).
 * For evaluation: a square in the center, and normalization.
 *
 * Thread-safe.
 */
#ifndef WEFT_TRAINING_DATA_IMAGE_AUGMENT_H
#define WEFT_TRAINING_DATA_IMAGE_AUGMENT_H

#include "training/data/image/resample.h"

/** A zeroed struct changes nothing. */
struct image_augment {
    double scale_least, scale_most; /**< shares of the area of a random resized crop, such as 0.08 and 1; 0: none */
    double ratio_least, ratio_most; /**< width over height; 0: 3/4 and 4/3 */
    double mirror;                  /**< probability */
    double brightness, contrast, saturation; /**< factors are in [1 - this, 1 + this]; at most 1 */
    uint32_t pad;                            /**< pixels on each side, before a crop of the same size */
    double erase;                            /**< probability */
    double mixup; /**< mix pairs by shares from a Beta(mixup, mixup) distribution; at most 1; 0: no */
};

/** Mean and standard deviation of each channel, of values from 0 to 1. */
struct image_normalization {
    double mean[3], deviation[3];
};

struct image_plan {
    struct resample_box box; /**< in pixels of the image */
    bool mirrored;
    double factors[3];          /**< of brightness, contrast, saturation; 1: none */
    uint8_t order[3];           /**< in which they apply */
    int32_t right, down;        /**< by which the image moves */
    struct image_region erased; /**< width 0: none */
};

/** Check the settings. Errors: ARGUMENT, with the setting and its bounds. */
weft_status image_augment_check(const struct image_augment *augment, struct error *error);

/** The plan of a training sample whose image becomes `size` x `size`. */
struct image_plan image_plan_training(const struct image_augment *augment, uint64_t key, struct image_size image,
                                      uint32_t size);

/** The plan for evaluation: the square in the center whose side is `share` of the shorter side. */
struct image_plan image_plan_evaluation(struct image_size image, double share);

/** The whole pixels that a plan's box touches, which must be decoded. */
struct image_region image_plan_region(const struct image_plan *plan, struct image_size image);

/** Apply the rest of a plan to `size` x `size` x `channels` numbers from 0 to 255, and normalize them. */
void image_adjust(const struct image_plan *plan, const struct image_normalization *normalization, uint32_t size,
                  uint32_t channels, float *pixels);

/** The share of the first of two mixed samples, at least a half: the larger of a Beta variate and 1 minus it. */
double image_mixup_share(double alpha, uint64_t key);

#endif
