/* SPDX-License-Identifier: Apache-2.0 */
#include "training/data/image/internal/maker.h"

#include <stdlib.h>

#define CROP_CENTER 0.875 /* what evaluation keeps of images whose parts are trained on: 224 of 256 */

static struct image_plan make_plan(const struct image_recipe *recipe, struct image_size size)
{
    const struct images_options *options = recipe->options;
    return recipe->training ? image_plan_training(&options->augment, recipe->key, size, options->size)
                            : image_plan_evaluation(size, options->augment.scale_most > 0 ? CROP_CENTER : 1);
}

static weft_status make_pixels(struct image_maker *maker, const struct image *image, const struct image_plan *plan,
                               const struct images_options *options, float *pixels, struct error *error)
{
    const struct image_size size = {options->size, options->size};
    weft_status status = image_resample(&maker->resampler, image, &plan->box, size, plan->mirrored, pixels, error);
    if (status == WEFT_OK)
        image_adjust(plan, &options->normalization, options->size, options->channels, pixels);
    return status;
}

static weft_status make_fetched(struct image_maker *maker, const struct image_recipe *recipe, float *pixels,
                                struct error *error)
{
    const struct image_fetch *fetch = &maker->fetch;
    const struct images_options *options = recipe->options;
    struct image_size size;
    weft_status status = image_measure(fetch->bytes, fetch->size, fetch->name, &size, error);
    if (status != WEFT_OK)
        return status;
    const struct image_plan plan = make_plan(recipe, size);
    const struct image_request request = {
        .channels = options->channels,
        .region = image_plan_region(&plan, size),
        .wanted = options->size,
    };
    status = image_decode(fetch->bytes, fetch->size, fetch->name, &request, &maker->image, error);
    return status == WEFT_OK ? make_pixels(maker, &maker->image, &plan, options, pixels, error) : status;
}

/* Copy pixels with other channels than the samples have. */
static weft_status convert_channels(const uint8_t *from, uint32_t has, uint32_t channels, struct image_size size,
                                    struct image *image, struct error *error)
{
    weft_status status = image_allocate(image, size.height, size.width, channels, error);
    const size_t count = (size_t)size.height * size.width;
    for (size_t i = 0; i < count && status == WEFT_OK; i++)
        for (uint32_t c = 0; c < channels; c++) {
            const uint8_t *pixel = from + i * has;
            image->pixels[i * channels + c] =
                has == 1 ? pixel[0] : (uint8_t)((299 * pixel[0] + 587 * pixel[1] + 114 * pixel[2] + 500) / 1000);
        }
    return status;
}

/* An image of an idx file is in memory as it is. */
static weft_status make_idx(struct image_maker *maker, const struct image_set *set, const struct image_entry *entry,
                            const struct image_recipe *recipe, float *pixels, struct error *error)
{
    const struct idx *idx = &set->pixels[entry->file];
    const struct image_size size = {idx->sizes[1], idx->sizes[2]};
    const uint32_t has = idx->dimensions == 4 ? idx->sizes[3] : 1, channels = recipe->options->channels;
    uint8_t *from = idx->values + entry->offset * size.height * size.width * has;
    const struct image_plan plan = make_plan(recipe, size);
    const struct image same = {size.height, size.width, has, from, 0, 0, 0, 1};
    if (has == channels)
        return make_pixels(maker, &same, &plan, recipe->options, pixels, error);
    weft_status status = convert_channels(from, has, channels, size, &maker->image, error);
    return status == WEFT_OK ? make_pixels(maker, &maker->image, &plan, recipe->options, pixels, error) : status;
}

weft_status image_maker_make(struct image_maker *maker, const struct image_set *set, const struct image_entry *entry,
                             const struct image_recipe *recipe, float *pixels, struct error *error)
{
    if (set->layout == LAYOUT_IDX)
        return make_idx(maker, set, entry, recipe, pixels, error);
    weft_status status = image_set_fetch(set, entry, &maker->fetch, error);
    return status == WEFT_OK ? make_fetched(maker, recipe, pixels, error) : status;
}

weft_status image_maker_make_file(struct image_maker *maker, const char *path, const struct image_recipe *recipe,
                                  float *pixels, struct error *error)
{
    weft_status status = image_fetch_file(&maker->fetch, path, error);
    return status == WEFT_OK ? make_fetched(maker, recipe, pixels, error) : status;
}

void image_maker_free(struct image_maker *maker)
{
    free(maker->fetch.bytes);
    image_free(&maker->image);
    resampler_free(&maker->resampler);
    *maker = (struct image_maker){0};
}
