/* SPDX-License-Identifier: Apache-2.0 */
#include "training/data/image/images.h"
#include "base/hash.h"
#include "base/random.h"
#include "training/data/image/internal/pool.h"
#include "training/data/image/internal/read_pattern.h"
#include "training/data/internal/permutation.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Streams of random numbers from the run's seed, independent of each other and of others'. */
#define STREAM_IMAGES   0x696d61676573u
#define STREAM_AUGMENT  0x6175676d656e74u
#define STREAM_MIXUP    0x6d69787570u
#define STREAM_HELD_OUT 0x68656c646f7574u /* the order of held-out images, of no run's seed */

#define IMAGES_MEMORY     ((uint64_t)1 << 30) /* bytes decoded ahead, where the options have 0 */
#define IMAGES_SKIPS_MOST 1000u               /* images that may be replaced before one sample is found */
#define IMAGES_AHEAD      2u                  /* reads that are expected */
#define IDENTITY_IMAGES   1024u               /* images whose bytes are hashed */

struct images {
    struct sample_source source; /* first: a source is cast to it */
    struct images_options options;
    struct image_set set;
    struct image_pool *pool;
    struct read_pattern patterns[2];
    uint64_t samples[2]; /* of the last read of each split */
    uint64_t skipped;
    uint32_t group; /* samples that are made together */
    char description[512];
};

static const struct images *images_of(const struct sample_source *source)
{
    return (const struct images *)source;
}

/* ---- samples ---- */

/* The place in its split's list of sample `number`, counted over all epochs. */
static uint64_t image_place(const struct images *images, enum dataset_split split, uint64_t number)
{
    const uint64_t count = images->set.splits[split].count, epoch = number / count;
    const uint64_t key =
        split == DATASET_TRAIN ? random_bits(images->options.seed ^ STREAM_IMAGES, epoch) : STREAM_HELD_OUT;
    return permutation_at(key, count, number % count);
}

/* Make one sample; `pixels` may be NULL where nothing is skipped. Sets its label. */
static weft_status make_sample(const struct images *images, struct image_maker *maker, enum dataset_split split,
                               uint64_t number, float *pixels, int32_t *label, uint64_t *skipped, struct error *error)
{
    const struct image_list *list = &images->set.splits[split];
    const uint64_t place = image_place(images, split, number);
    const struct image_recipe recipe = {
        .options = &images->options,
        .training = split == DATASET_TRAIN,
        .key = random_bits(images->options.seed ^ STREAM_AUGMENT, number),
    };
    for (uint64_t i = 0;; i++) {
        const struct image_entry *entry = &list->entries[(place + i) % list->count];
        *label = entry->label;
        if (!pixels)
            return WEFT_OK;
        struct error found = {0};
        weft_status status = image_maker_make(maker, &images->set, entry, &recipe, pixels, &found);
        if (status == WEFT_OK)
            return WEFT_OK;
        if (status != WEFT_ERROR_DATA || !images->options.skip)
            return error_set(error, status, "%s", found.text);
        ++*skipped;
        if (i + 1 == list->count || i + 1 == IMAGES_SKIPS_MOST)
            return error_set(error, WEFT_ERROR_DATA, "%" PRIu64 " images in a row cannot be decoded; the last: %s",
                             i + 1, found.text);
    }
}

/* Mix both samples of a group: each keeps `share` of itself. */
static void mix_group(const struct images *images, float share, const int32_t labels[2], bool pixels,
                      struct image_group *group)
{
    const size_t count = (size_t)images->options.size * images->options.size * images->options.channels;
    float *one = group->pixels, *other = group->pixels + count;
    for (size_t i = 0; pixels && i < count; i++) {
        const float a = one[i], b = other[i];
        one[i] = share * a + (1 - share) * b;
        other[i] = share * b + (1 - share) * a;
    }
    for (unsigned i = 0; i < 2; i++)
        for (unsigned j = 0; j < 2; j++) {
            group->targets[i][j] = labels[i ^ j];
            group->shares[i][j] = j ? 1 - share : share;
        }
}

/* Make a group; without pixels where `group` has none. */
static weft_status make_image_group(const void *context, struct image_maker *maker, enum dataset_split split,
                                    uint64_t number, struct image_group *group, struct error *error)
{
    const struct images *images = context;
    const size_t floats = (size_t)images->options.size * images->options.size * images->options.channels;
    const uint64_t first = number * images->group;
    int32_t labels[IMAGE_GROUP_MOST];
    group->skipped = 0;
    for (uint32_t i = 0; i < images->group; i++) {
        weft_status status =
            make_sample(images, maker, split, first + i, group->pixels ? group->pixels + i * floats : NULL, &labels[i],
                        &group->skipped, error);
        if (status != WEFT_OK)
            return status;
        group->targets[i][0] = group->targets[i][1] = labels[i];
        group->shares[i][0] = 1;
        group->shares[i][1] = 0;
    }
    if (images->group == 2 && split == DATASET_TRAIN) {
        const uint64_t key = random_bits(images->options.seed ^ STREAM_MIXUP, number);
        mix_group(images, (float)image_mixup_share(images->options.augment.mixup, key), labels, group->pixels != NULL,
                  group);
    }
    return WEFT_OK;
}

/* ---- reading ---- */

/* Copy what the caller wants of those samples of a group that it asked for. */
static void copy_group(const struct images *images, const struct image_group *group, uint64_t number, uint64_t first,
                       uint64_t samples, const struct model_arrays *arrays)
{
    const size_t floats = (size_t)images->options.size * images->options.size * images->options.channels;
    for (uint32_t i = 0; i < images->group; i++) {
        const uint64_t sample = number * images->group + i;
        if (sample < first || sample >= first + samples)
            continue;
        const uint64_t at = sample - first;
        if (arrays->pixels)
            memcpy(arrays->pixels + at * floats, group->pixels + i * floats, floats * sizeof *arrays->pixels);
        for (unsigned j = 0; j < 2; j++) {
            if (arrays->targets)
                arrays->targets[2 * at + j] = group->targets[i][j];
            if (arrays->shares)
                arrays->shares[2 * at + j] = group->shares[i][j];
        }
    }
}

/* Which image a label belongs to is known without decoding it, if none is ever replaced. */
static weft_status read_targets(const struct images *images, enum dataset_split split, uint64_t first, uint64_t samples,
                                const struct model_arrays *arrays, struct error *error)
{
    weft_status status = WEFT_OK;
    for (uint64_t number = first / images->group; status == WEFT_OK && number <= (first + samples - 1) / images->group;
         number++) {
        struct image_group group = {0};
        status = make_image_group(images, NULL, split, number, &group, error);
        if (status == WEFT_OK)
            copy_group(images, &group, number, first, samples, arrays);
    }
    return status;
}

/* Have samples made that will be read soon. */
static void expect_samples(const struct images *images, enum dataset_split split, uint64_t first, uint64_t samples)
{
    const uint64_t group = first / images->group;
    if (samples > 0)
        image_pool_expect(images->pool, split, group, (first + samples - 1) / images->group + 1 - group);
}

static weft_status images_read(struct sample_source *source, enum dataset_split split, uint64_t first, uint64_t samples,
                               const struct model_arrays *arrays, struct error *error)
{
    struct images *images = (struct images *)source;
    struct read_pattern *pattern = &images->patterns[split];
    weft_status status = WEFT_OK;
    if (samples == 0)
        return WEFT_OK;
    if (!arrays->pixels && !images->options.skip)
        return read_targets(images, split, first, samples, arrays, error);
    const uint64_t begin = first / images->group, end = (first + samples - 1) / images->group + 1;
    image_pool_begin(images->pool, end - begin);
    expect_samples(images, split, first, samples);
    read_pattern_add(pattern, first);
    for (uint32_t ahead = 1; ahead <= IMAGES_AHEAD; ahead++)
        expect_samples(images, split, read_pattern_predict(pattern, ahead, samples), samples);
    for (uint64_t number = begin; number < end && status == WEFT_OK; number++) {
        const struct image_group *group;
        status = image_pool_take(images->pool, split, number, &group, error);
        if (status != WEFT_OK)
            break;
        images->skipped += group->skipped;
        copy_group(images, group, number, first, samples, arrays);
        /* The other sample of a pair that is cut here is likely to be read next. */
        image_pool_release(images->pool, number + 1 == end && (first + samples) % images->group != 0);
    }
    return status;
}

static uint64_t images_samples(const struct sample_source *source, enum dataset_split split)
{
    return images_of(source)->set.splits[split].count;
}

static const char *images_describe(const struct sample_source *source)
{
    return images_of(source)->description;
}

/* ---- identity ---- */

/* Hash the bytes of an image, or its pixels in an idx file. */
static weft_status hash_image(const struct image_set *set, const struct image_entry *entry, struct image_fetch *fetch,
                              uint64_t *hash, struct error *error)
{
    if (set->layout == LAYOUT_IDX) {
        const struct idx *idx = &set->pixels[entry->file];
        const size_t size = (size_t)idx->sizes[1] * idx->sizes[2] * (idx->dimensions == 4 ? idx->sizes[3] : 1);
        *hash = hash_bytes(idx->values + entry->offset * size, size, *hash);
        return WEFT_OK;
    }
    weft_status status = image_set_fetch(set, entry, fetch, error);
    if (status == WEFT_OK)
        *hash = hash_bytes(fetch->bytes, fetch->size, *hash);
    return status;
}

static weft_status images_identify(const struct sample_source *source, struct dataset_identity *identity,
                                   struct error *error)
{
    const struct image_set *set = &images_of(source)->set;
    struct dataset_identity found = {0};
    struct image_fetch *fetch = calloc(1, sizeof *fetch);
    weft_status status = WEFT_OK;
    if (!fetch)
        return error_memory(error, sizeof *fetch, "the bytes of an image");
    for (int split = 0; split < 2 && status == WEFT_OK; split++) {
        const struct image_list *list = &set->splits[split];
        const size_t images = list->count < IDENTITY_IMAGES ? list->count : IDENTITY_IMAGES;
        found.tokens += list->count;
        found.hash = hash_number(list->count, found.hash);
        for (size_t i = 0; i < list->count; i++) {
            found.hash = hash_number((uint64_t)list->entries[i].label, found.hash);
            found.hash = hash_text(set->names + list->entries[i].name, found.hash);
        }
        for (size_t i = 0; i < images && status == WEFT_OK; i++)
            status = hash_image(set, &list->entries[i * list->count / images], fetch, &found.hash, error);
    }
    if (status == WEFT_OK)
        *identity = found;
    free(fetch->bytes);
    free(fetch);
    return status;
}

/* ---- memory ---- */

/* The list of images, and the pixels of idx files. */
static uint64_t images_bytes(const struct sample_source *source)
{
    const struct image_set *set = &images_of(source)->set;
    uint64_t bytes = set->name_room;
    for (int split = 0; split < 2; split++) {
        uint64_t pixels = set->pixels[split].values != NULL;
        for (uint32_t i = 0; i < set->pixels[split].dimensions; i++)
            pixels *= set->pixels[split].sizes[i];
        bytes += pixels + set->splits[split].room * sizeof *set->splits[split].entries;
    }
    return bytes;
}

/* ---- opening ---- */

static void images_close(struct sample_source *source)
{
    struct images *images = (struct images *)source;
    image_pool_close(images->pool);
    image_set_close(&images->set);
    free(images);
}

static size_t images_source_classes(const struct sample_source *source)
{
    return images_classes(source);
}

static const char *images_source_class_name(const struct sample_source *source, size_t number)
{
    return images_class_name(source, (uint32_t)number);
}

static const struct sample_source_kind images_kind = {
    .read = images_read,
    .samples = images_samples,
    .describe = images_describe,
    .classes = images_source_classes,
    .class_name = images_source_class_name,
    .identify = images_identify,
    .bytes = images_bytes,
    .close = images_close,
};

static weft_status check_images_options(const struct images_options *options, struct error *error)
{
    if (options->size < 1 || options->size > IMAGES_SIZE_MOST)
        return error_set(error, WEFT_ERROR_ARGUMENT, "the size of images is %" PRIu32 "; it must be from 1 to %u",
                         options->size, IMAGES_SIZE_MOST);
    if (options->channels != 0 && options->channels != 1 && options->channels != 3)
        return error_set(error, WEFT_ERROR_ARGUMENT,
                         "images cannot have %" PRIu32 " channels; give 1 (gray) or 3 (colors)", options->channels);
    if (options->augment.pad >= options->size)
        return error_set(error, WEFT_ERROR_ARGUMENT,
                         "the padding of training images is %" PRIu32 ", not below their size %" PRIu32,
                         options->augment.pad, options->size);
    for (int i = 0; i < 3; i++)
        if (!isfinite(options->normalization.mean[i]) || !(options->normalization.deviation[i] >= 0))
            return error_set(error, WEFT_ERROR_ARGUMENT,
                             "the mean and deviation of channel %d are %g and %g; the deviation must be above 0", i,
                             options->normalization.mean[i], options->normalization.deviation[i]);
    return image_augment_check(&options->augment, error);
}

/* Those that are usual for photos, from ImageNet (as in torchvision); for gray ones their means. */
static void set_usual_normalization(struct images_options *options)
{
    static const struct image_normalization colors = {{0.485, 0.456, 0.406}, {0.229, 0.224, 0.225}},
                                            gray = {{0.449, 0.449, 0.449}, {0.226, 0.226, 0.226}};
    if (!(options->normalization.deviation[0] > 0))
        options->normalization = options->channels == 1 ? gray : colors;
}

/* Mean and deviation of the training images of an idx file, exactly. */
static void measure_normalization(const struct idx *idx, struct images_options *options)
{
    const uint32_t has = idx->dimensions == 4 ? idx->sizes[3] : 1;
    const uint64_t pixels = (uint64_t)idx->sizes[0] * idx->sizes[1] * idx->sizes[2];
    uint64_t sum[3] = {0}, squares[3] = {0};
    if (options->normalization.deviation[0] > 0 || has != options->channels)
        return;
    for (uint64_t i = 0; i < pixels; i++)
        for (uint32_t c = 0; c < has; c++) {
            const uint64_t value = idx->values[i * has + c];
            sum[c] += value;
            squares[c] += value * value;
        }
    for (uint32_t c = 0; c < has; c++) {
        const double mean = (double)sum[c] / (double)pixels;
        const double variance = (double)squares[c] / (double)pixels - mean * mean;
        options->normalization.mean[c] = mean / 255;
        options->normalization.deviation[c] = variance > 0 ? sqrt(variance) / 255 : 1;
    }
}

static void describe_images(struct images *images, const char *path)
{
    static const char *const layouts[] = {
        [LAYOUT_DIRECTORIES] = "a directory per class", [LAYOUT_IDX] = "idx files", [LAYOUT_SHARDS] = "tar shards"};
    const struct image_set *set = &images->set;
    snprintf(images->description, sizeof images->description, "%zu images of %zu classes in %s (%s); %zu held out %s",
             set->splits[DATASET_TRAIN].count, set->classes.count, path, layouts[set->layout],
             set->splits[DATASET_HELD_OUT].count,
             set->by_name ? "by name" : "by hashes of their names, a tenth of each class");
}

/* The first image of each split can be decoded, unless those that cannot are skipped. */
static weft_status try_images(struct images *images, struct error *error)
{
    const uint32_t size = images->options.size;
    struct image_maker maker = {0};
    float *pixels = malloc((size_t)size * size * images->options.channels * sizeof *pixels);
    weft_status status = pixels ? WEFT_OK : error_memory(error, sizeof *pixels * size * size, "an image");
    for (int split = 0; split < 2 && status == WEFT_OK; split++) {
        if (images->set.splits[split].count == 0)
            continue;
        int32_t label;
        uint64_t skipped = 0;
        status = make_sample(images, &maker, (enum dataset_split)split, 0, pixels, &label, &skipped, error);
    }
    image_maker_free(&maker);
    free(pixels);
    return status;
}

static weft_status images_prepare(struct images *images, const char *path, struct error *error)
{
    struct images_options *options = &images->options;
    weft_status status = image_set_open(path, &images->set, error);
    if (status != WEFT_OK)
        return status;
    if (images->set.layout == LAYOUT_IDX) {
        const struct idx *idx = &images->set.pixels[DATASET_TRAIN];
        if (options->channels == 0)
            options->channels = idx->dimensions == 4 ? idx->sizes[3] : 1;
        measure_normalization(idx, options);
    }
    if (options->channels == 0)
        options->channels = 3;
    set_usual_normalization(options);
    images->group = options->augment.mixup > 0 ? 2 : 1;
    describe_images(images, path);
    status = try_images(images, error);
    if (status != WEFT_OK)
        return status;
    const struct image_group_maker maker = {make_image_group, images};
    return image_pool_open(&maker, options->threads,
                           (size_t)options->size * options->size * options->channels * images->group,
                           options->memory ? options->memory : IMAGES_MEMORY, &images->pool, error);
}

weft_status images_open(const char *path, const struct images_options *options, struct sample_source **source,
                        struct error *error)
{
    weft_status status = check_images_options(options, error);
    if (status != WEFT_OK)
        return status;
    struct images *images = calloc(1, sizeof *images);
    if (!images)
        return error_memory(error, sizeof *images, "a source of images");
    images->source.kind = &images_kind;
    images->options = *options;
    status = images_prepare(images, path, error);
    if (status != WEFT_OK) {
        images_close(&images->source);
        return status;
    }
    *source = &images->source;
    return WEFT_OK;
}

weft_status images_read_file(const char *path, const struct images_options *options, float *pixels, struct error *error)
{
    struct images_options chosen = *options;
    struct image_maker maker = {0};
    weft_status status = check_images_options(options, error);
    if (status != WEFT_OK)
        return status;
    if (chosen.channels == 0)
        chosen.channels = 3;
    set_usual_normalization(&chosen);
    const struct image_recipe recipe = {.options = &chosen};
    status = image_maker_make_file(&maker, path, &recipe, pixels, error);
    image_maker_free(&maker);
    return status;
}

/* ---- what is known about it ---- */

uint32_t images_classes(const struct sample_source *source)
{
    return (uint32_t)images_of(source)->set.classes.count;
}

uint32_t images_channels(const struct sample_source *source)
{
    return images_of(source)->options.channels;
}

const char *images_class_name(const struct sample_source *source, uint32_t label)
{
    return images_of(source)->set.classes.items[label];
}

struct image_normalization images_normalization(const struct sample_source *source)
{
    return images_of(source)->options.normalization;
}

uint64_t images_skipped(const struct sample_source *source)
{
    return images_of(source)->skipped;
}
