/* SPDX-License-Identifier: Apache-2.0 */
/* Images in MNIST's four files. */
#include "training/data/image/image.h"
#include "training/data/image/internal/image_set.h"

#include <inttypes.h>
#include <stdio.h>

/* Find "PART-images-idx3-ubyte" or the like: with a dot, or compressed. */
static weft_status find_idx(const struct image_set *set, const char *part, const char *what, unsigned dimensions,
                            char path[FILE_PATH_BYTES], struct error *error)
{
    static const char *const forms[] = {"%s-%s-idx%u-ubyte", "%s-%s-idx%u-ubyte.gz", "%s-%s.idx%u-ubyte",
                                        "%s-%s.idx%u-ubyte.gz"};
    for (size_t i = 0; i < ARRAY_SIZE(forms); i++) {
        char name[64];
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
        snprintf(name, sizeof name, forms[i], part, what, dimensions);
#pragma GCC diagnostic pop
        weft_status status = file_join(path, set->path, name, error);
        if (status != WEFT_OK || file_exists(path))
            return status;
    }
    return error_set(error, WEFT_ERROR_DATA, "'%s' has no %s-%s-idx%u-ubyte, plain or .gz; add it", set->path, part,
                     what, dimensions);
}

static weft_status check_pixels(const struct idx *pixels, const char *path, struct error *error)
{
    const uint32_t channels = pixels->dimensions == 4 ? pixels->sizes[3] : 1;
    if (pixels->dimensions < 3 || (channels != 1 && channels != 3))
        return error_set(error, WEFT_ERROR_DATA,
                         "the idx file '%s' has %" PRIu32
                         " dimensions, not those of images: number, height, width, and 1 or 3 channels",
                         path, pixels->dimensions);
    if ((uint64_t)pixels->sizes[1] * pixels->sizes[2] > IMAGE_PIXELS_MOST)
        return error_set(error, WEFT_ERROR_DATA,
                         "the images of '%s' have %" PRIu32 " x %" PRIu32 " pixels, and at most %" PRIu64 " are read",
                         path, pixels->sizes[2], pixels->sizes[1], IMAGE_PIXELS_MOST);
    return WEFT_OK;
}

static weft_status add_labels(struct image_set *set, enum dataset_split split, const struct idx *labels,
                              const char *path, struct error *error)
{
    const struct idx *pixels = &set->pixels[split];
    const char *images = set->files.items[split];
    if (labels->dimensions != 1 || labels->sizes[0] != pixels->sizes[0])
        return error_set(error, WEFT_ERROR_DATA,
                         "'%s' has %" PRIu32 " images, but '%s' has %" PRIu32 " labels; get both again", images,
                         pixels->sizes[0], path, labels->sizes[0]);
    weft_status status = WEFT_OK;
    for (uint32_t i = 0; i < labels->sizes[0] && status == WEFT_OK; i++)
        status = image_set_add(set, split,
                               (struct image_entry){.offset = i, .file = (uint32_t)split, .label = labels->values[i]},
                               "", error);
    return status;
}

static weft_status read_part(struct image_set *set, enum dataset_split split, const char *part, struct error *error)
{
    char path[FILE_PATH_BYTES];
    struct idx labels = {0};
    weft_status status = find_idx(set, part, "images", 3, path, error);
    if (status == WEFT_OK)
        status = string_list_add(&set->files, path, error);
    if (status == WEFT_OK)
        status = idx_read(path, &set->pixels[split], error);
    if (status == WEFT_OK)
        status = check_pixels(&set->pixels[split], path, error);
    if (status == WEFT_OK)
        status = find_idx(set, part, "labels", 1, path, error);
    if (status == WEFT_OK)
        status = idx_read(path, &labels, error);
    if (status == WEFT_OK)
        status = add_labels(set, split, &labels, path, error);
    idx_free(&labels);
    return status;
}

/* Labels of the held-out split beyond those of the training split are an error of their own. */
static weft_status check_labels(const struct image_set *set, struct error *error)
{
    int32_t highest[2] = {-1, -1};
    for (int split = 0; split < 2; split++)
        for (size_t i = 0; i < set->splits[split].count; i++)
            if (set->splits[split].entries[i].label > highest[split])
                highest[split] = set->splits[split].entries[i].label;
    if (highest[DATASET_HELD_OUT] <= highest[DATASET_TRAIN])
        return WEFT_OK;
    return error_set(error, WEFT_ERROR_DATA,
                     "the labels of '%s' go up to %" PRId32 ", but those of training up to %" PRId32
                     "; get the files again",
                     set->files.items[DATASET_HELD_OUT], highest[DATASET_HELD_OUT], highest[DATASET_TRAIN]);
}

weft_status image_set_read_idx(struct image_set *set, struct error *error)
{
    set->by_name = true;
    weft_status status = read_part(set, DATASET_TRAIN, "train", error);
    if (status == WEFT_OK)
        status = read_part(set, DATASET_HELD_OUT, "t10k", error);
    const struct idx *train = &set->pixels[DATASET_TRAIN], *held_out = &set->pixels[DATASET_HELD_OUT];
    for (uint32_t i = 1; i < 4 && status == WEFT_OK; i++)
        if (train->dimensions != held_out->dimensions ||
            (i < train->dimensions && train->sizes[i] != held_out->sizes[i]))
            status = error_set(error, WEFT_ERROR_DATA,
                               "the images of '%s' have another size than those of '%s'; get both again",
                               set->files.items[DATASET_TRAIN], set->files.items[DATASET_HELD_OUT]);
    return status == WEFT_OK ? check_labels(set, error) : status;
}
