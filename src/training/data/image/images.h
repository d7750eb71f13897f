/* SPDX-License-Identifier: Apache-2.0 */
/**
 * Labeled images as a source of samples (source.h), for networks that read pixels, targets and shares.
 *
 * Layouts, recognized by what is in the directory:
 *   - train/ and val/ (or valid/, validation/, test/), each with a directory per class; .jpg, .jpeg and .png files in it;
 *     without train/, there are only held-out images;
 *   - a directory per class alone. Of each class, a tenth is held out, chosen by hashes of the names;
 *   - MNIST's idx files: train-images-idx3-ubyte, train-labels-idx1-ubyte and the same of t10k, plain or .gz;
 *   - .tar shards of WebDataset: NAME.jpg (or .jpeg, .png) and NAME.cls with the number of the class, side by side. Shards
 *     with the word "val" in their names are held out; without such a name a tenth of each class is. Where all names have
 *     "val" or "test", there are only held-out images. Also a single shard.
 * Classes are numbered in the order of their directories' names. Where there are only numbers, the lines of a file
 * classes.txt name them.
 *
 * The order. In each epoch the training images are read in another pseudo-random permutation. The held-out images are read in one
 * fixed permutation, so that a part of them has images of all classes; it depends on no seed. All that is random
 * about sample n of a run (augment.h) is a function of (seed, n). With mixup, samples 2i and 2i+1 of the run are
 * mixed: each is the share of itself and the rest of the other one, so a sample is the same however samples are
 * divided over micro-batches and ranks.
 *
 * Targets. Sample n has targets (its class, its partner's class) and shares (s, 1 - s). Without mixup the shares are (1, 0).
 *
 * Threads. With `threads` above 0, that many threads decode samples ahead of read(): those that the pattern of past calls
 * lets expect, for ranks that read every R-th micro-batch too. The samples do not depend on it. One thread at a time calls
 * these functions.
 */
#ifndef WEFT_TRAINING_DATA_IMAGE_IMAGES_H
#define WEFT_TRAINING_DATA_IMAGE_IMAGES_H

#include "training/data/image/augment.h"
#include "training/data/source.h"

#define IMAGES_SIZE_MOST 4096u

struct images_options {
    uint32_t size;     /**< height and width of the samples, 1 to IMAGES_SIZE_MOST */
    uint32_t channels; /**< 1 or 3; 0: those of idx files, otherwise 3 */
    uint64_t seed;     /**< of the order and of all that is random */
    struct image_augment augment;
    /** deviation[0] 0: those of the training images for idx files, otherwise those usual for ImageNet. */
    struct image_normalization normalization;
    uint32_t threads; /**< that decode ahead; 0: read() decodes */
    uint64_t memory;  /**< most bytes of samples that are decoded ahead; 0: 1 GiB */
    bool skip;        /**< replace images that cannot be decoded by the next ones of the data set; false: an error */
};

/**
 * Open the images at `path`. Errors: ARGUMENT for options out of bounds; SYSTEM; DATA for a place without images, with
 * fewer than two classes, with a class that one of the splits lacks, for idx files that are damaged, whose counts or
 * sizes differ, for shards that are cut or have samples without a label, for a label not below the number of images. Also
 * decodes the first image of each split, so that data sets of the wrong kind fail here.
 */
weft_status images_open(const char *path, const struct images_options *options, struct sample_source **source,
                        struct error *error);

/** These take a source that images_open() made. */
uint32_t images_classes(const struct sample_source *source);
uint32_t images_channels(const struct sample_source *source);

/** The name of a class; lives as long as the source. */
const char *images_class_name(const struct sample_source *source, uint32_t label);

/** Mean and deviation by which samples are normalized. Prediction needs the same. */
struct image_normalization images_normalization(const struct sample_source *source);

/** Images that could not be decoded and were replaced, each time that read() met one. */
uint64_t images_skipped(const struct sample_source *source);

/**
 * Read a single image as evaluation does, for a prediction: `pixels` receives size x size x channels numbers. The options'
 * channels 0 are 3, and deviation[0] 0 means ImageNet's. Errors: SYSTEM; DATA for a malformed image; ARGUMENT.
 */
weft_status images_read_file(const char *path, const struct images_options *options, float *pixels,
                             struct error *error);

#endif
