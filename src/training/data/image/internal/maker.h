/* SPDX-License-Identifier: Apache-2.0 */
/** Makes samples: fetches, decodes, resizes and adjusts one image. A maker belongs to one thread at a time. */
#ifndef WEFT_TRAINING_DATA_IMAGE_INTERNAL_MAKER_H
#define WEFT_TRAINING_DATA_IMAGE_INTERNAL_MAKER_H

#include "training/data/image/images.h"
#include "training/data/image/internal/image_set.h"

/** Memory for the work, kept from sample to sample. A zeroed struct has nothing. */
struct image_maker {
    struct image_fetch fetch;
    struct image image;
    struct resampler resampler;
};

/** What happens to an image. */
struct image_recipe {
    const struct images_options *options; /**< with channels, center and normalization filled in */
    bool training;
    uint64_t key; /**< of a training sample */
};

/**
 * Make the sample of an entry: `pixels` receives size x size x channels numbers. Errors: SYSTEM; DATA for an image that
 * cannot be decoded; MEMORY.
 */
weft_status image_maker_make(struct image_maker *maker, const struct image_set *set, const struct image_entry *entry,
                             const struct image_recipe *recipe, float *pixels, struct error *error);

/** The same of a file. */
weft_status image_maker_make_file(struct image_maker *maker, const char *path, const struct image_recipe *recipe,
                                  float *pixels, struct error *error);

void image_maker_free(struct image_maker *maker);

#endif
