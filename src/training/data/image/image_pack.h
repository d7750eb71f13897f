/* SPDX-License-Identifier: Apache-2.0 */
/**
 * Packs labeled images into tar shards of WebDataset, once, so that training reads few large files.
 *
 * Images come from directories of classes or from shards (images.h). The output is a directory with train_000000.tar ...,
 * val_000000.tar ... and classes.txt. It appears atomically. In shards the images of a split are in a fixed
 * pseudo-random order: each shard has images of all classes. Every image is decoded whole, so that training will not meet a damaged one.
 * Those whose shorter side is above `size` are made smaller and encoded again, JPEG as JPEG and PNG as PNG; the bytes
 * of others are kept.
 */
#ifndef WEFT_TRAINING_DATA_IMAGE_IMAGE_PACK_H
#define WEFT_TRAINING_DATA_IMAGE_IMAGE_PACK_H

#include "training/data/source.h"

#include <signal.h>
#include <stdbool.h>

struct image_pack_options {
    const char *output;                /**< the directory to make */
    uint32_t size;                     /**< longest that the shorter side may be; 0: any */
    int quality;                       /**< of JPEG images that are made smaller, 1 to 100 */
    uint64_t shard_bytes;              /**< most bytes in a shard, unless one image has more */
    bool skip;                         /**< leave out images that cannot be decoded; false: an error */
    const volatile sig_atomic_t *stop; /**< if it becomes non-zero, packing stops and nothing is written; may be NULL */
};

struct image_packed {
    struct {
        uint64_t images, bytes, files;
    } splits[2]; /**< by enum dataset_split */
    uint64_t classes, resized, skipped;
};

/** Whether `path` is a directory with directories in it, as images are kept, and unlike texts. */
bool image_pack_is_for(const char *path);

/**
 * Pack the images at `path`. Errors: SYSTEM; DATA for images that are damaged, for a class whose images of a split are all
 * left out, for names of classes with control characters, for idx files, and those of images_open(); ARGUMENT for an
 * output that exists already; ABORTED when stopped.
 */
weft_status image_pack(const char *path, const struct image_pack_options *options, struct image_packed *packed,
                       struct error *error);

#endif
