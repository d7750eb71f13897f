/* SPDX-License-Identifier: Apache-2.0 */
#include "training/data/image/image_pack.h"
#include "training/data/image/internal/image_set.h"
#include "training/data/image/resample.h"
#include "training/data/image/tar.h"
#include "training/data/internal/permutation.h"
#include "training/data/new_directory.h"

#include <fcntl.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define PACK_ORDER    0x7061636bu /* the key of the order in the shards */
#define PACK_OVERHEAD 4096u       /* most bytes of headers, padding and the label beside an image */
#define PACK_PNG      0           /* the "quality" of images that are encoded as PNG */

struct image_packing {
    const struct image_pack_options *options;
    struct image_set set;
    struct image_fetch fetch;
    struct image image, smaller;
    struct resampler resampler;
    float *pixels; /* of an image that is being made smaller */
    size_t pixel_room;
    struct new_directory directory;
    struct file_writer writer; /* of the shard that is open */
    bool writing;
    struct image_packed packed;
};

bool image_pack_is_for(const char *path)
{
    DIR *listing = file_is_directory(path) ? file_listing_open(AT_FDCWD, path, 0) : NULL;
    const char *name;
    bool found = false;
    while (!found && (name = file_listing_next(listing))) {
        char entry[FILE_PATH_BYTES];
        found = name[0] != '.' && file_join(entry, path, name, NULL) == WEFT_OK && file_is_directory(entry);
    }
    file_listing_close(listing);
    return found;
}

/* ---- shards ---- */

static weft_status close_shard(struct image_packing *packing, struct error *error)
{
    if (!packing->writing)
        return WEFT_OK;
    weft_status status = tar_finish(&packing->writer, error);
    if (status == WEFT_OK)
        status = file_writer_close(&packing->writer, error);
    packing->writing = status != WEFT_OK;
    return status;
}

/* Have a shard open that has room for `size` more bytes. */
static weft_status reserve_in_shard(struct image_packing *packing, enum dataset_split split, size_t size,
                                    struct error *error)
{
    static const char *const names[] = {[DATASET_TRAIN] = "train", [DATASET_HELD_OUT] = "val"};
    char name[64], path[FILE_PATH_BYTES];
    weft_status status = WEFT_OK;
    if (packing->writing && packing->writer.written + size + PACK_OVERHEAD > packing->options->shard_bytes)
        status = close_shard(packing, error);
    if (status != WEFT_OK || packing->writing)
        return status;
    snprintf(name, sizeof name, "%s_%06" PRIu64 ".tar", names[split], packing->packed.splits[split].files);
    status = file_join(path, packing->directory.partial, name, error);
    if (status == WEFT_OK)
        status = file_writer_open(&packing->writer, path, 0, error);
    packing->writing = status == WEFT_OK;
    packing->packed.splits[split].files += status == WEFT_OK;
    return status;
}

static weft_status append_sample(struct image_packing *packing, enum dataset_split split, const uint8_t *bytes,
                                 size_t size, bool is_png, int32_t label, struct error *error)
{
    const uint64_t number = packing->packed.splits[split].images++;
    char name[64], text[16];
    weft_status status = reserve_in_shard(packing, split, size, error);
    snprintf(name, sizeof name, "%09" PRIu64 ".%s", number, is_png ? "png" : "jpg");
    if (status == WEFT_OK)
        status = tar_append(&packing->writer, name, bytes, size, error);
    snprintf(name, sizeof name, "%09" PRIu64 ".cls", number);
    snprintf(text, sizeof text, "%" PRId32, label);
    if (status == WEFT_OK)
        status = tar_append(&packing->writer, name, text, strlen(text), error);
    packing->packed.splits[split].bytes += size;
    return status;
}

/* ---- images ---- */

static uint32_t scaled_side(uint32_t side, uint32_t shorter, uint32_t size)
{
    const double scaled = round((double)side * size / shorter);
    return scaled < 1 ? 1 : (uint32_t)scaled;
}

/* Make the decoded image smaller and encode it. `*bytes` is to be freed. */
static weft_status shrink_image(struct image_packing *packing, struct image_size from, int quality, uint8_t **bytes,
                                size_t *size, struct error *error)
{
    const uint32_t shorter = from.height < from.width ? from.height : from.width;
    const struct image_size to = {scaled_side(from.height, shorter, packing->options->size),
                                  scaled_side(from.width, shorter, packing->options->size)};
    const struct resample_box whole = {0, 0, from.width, from.height};
    const size_t count = (size_t)to.height * to.width * packing->image.channels;
    weft_status status = ARRAY_RESERVE(packing->pixels, packing->pixel_room, count, "the pixels of an image", error);
    if (status == WEFT_OK)
        status = image_resample(&packing->resampler, &packing->image, &whole, to, false, packing->pixels, error);
    if (status == WEFT_OK)
        status = image_allocate(&packing->smaller, to.height, to.width, packing->image.channels, error);
    for (size_t i = 0; status == WEFT_OK && i < count; i++)
        packing->smaller.pixels[i] = (uint8_t)(packing->pixels[i] + 0.5f);
    return status == WEFT_OK ? image_encode(&packing->smaller, quality, bytes, size, error) : status;
}

/* Decode an image whole. Sets its size, and whether it is to be made smaller. */
static weft_status check_whole_image(struct image_packing *packing, const struct image_entry *entry,
                                     struct image_size *size, bool *shrinks, struct error *error)
{
    const struct image_fetch *fetch = &packing->fetch;
    const uint32_t most = packing->options->size;
    weft_status status = image_set_fetch(&packing->set, entry, &packing->fetch, error);
    if (status == WEFT_OK)
        status = image_measure(fetch->bytes, fetch->size, fetch->name, size, error);
    if (status != WEFT_OK)
        return status;
    *shrinks = most && size->height > most && size->width > most;
    const struct image_request request = {.channels = 3, .wanted = *shrinks ? most : 0};
    return image_decode(fetch->bytes, fetch->size, fetch->name, &request, &packing->image, error);
}

static weft_status pack_image(struct image_packing *packing, enum dataset_split split, const struct image_entry *entry,
                              struct error *error)
{
    struct image_size size;
    struct error found = {0};
    bool shrinks;
    weft_status status = check_whole_image(packing, entry, &size, &shrinks, &found);
    if (status == WEFT_ERROR_DATA && packing->options->skip) {
        packing->packed.skipped++;
        return WEFT_OK;
    }
    if (status != WEFT_OK)
        return error_set(error, status, "%s", found.text);
    const bool is_png = packing->fetch.bytes[0] == 0x89;
    if (!shrinks)
        return append_sample(packing, split, packing->fetch.bytes, packing->fetch.size, is_png, entry->label, error);
    uint8_t *bytes;
    size_t count;
    status = shrink_image(packing, size, is_png ? PACK_PNG : packing->options->quality, &bytes, &count, error);
    if (status != WEFT_OK)
        return status;
    packing->packed.resized++;
    status = append_sample(packing, split, bytes, count, is_png, entry->label, error);
    free(bytes);
    return status;
}

/* ---- all together ---- */

/* The names of classes are lines of classes.txt. */
static weft_status check_class_names(const struct image_set *set, const char *path, struct error *error)
{
    for (size_t i = 0; i < set->classes.count; i++)
        for (const char *c = set->classes.items[i]; *c; c++)
            if ((unsigned char)*c < ' ' || *c == 0x7f)
                return error_set(error, WEFT_ERROR_DATA,
                                 "the name of class %zu of '%s' has the control character %d; rename the class", i,
                                 path, *c);
    return WEFT_OK;
}

/* Images that are left out must not be all of a class: training would refuse what was packed. */
static weft_status check_packed_classes(const struct image_packing *packing, enum dataset_split split, const bool *has,
                                        struct error *error)
{
    for (size_t i = 0; i < packing->set.classes.count; i++)
        if (!has[i])
            return error_set(error, WEFT_ERROR_DATA,
                             "all %s images of class '%s' are damaged and left out, so '%s' was not written; add some "
                             "or remove the class",
                             split == DATASET_TRAIN ? "training" : "held-out", packing->set.classes.items[i],
                             packing->options->output);
    return WEFT_OK;
}

static weft_status pack_split(struct image_packing *packing, enum dataset_split split, struct error *error)
{
    const volatile sig_atomic_t *stop = packing->options->stop;
    const struct image_list *list = &packing->set.splits[split];
    const uint64_t *packed = &packing->packed.splits[split].images;
    bool *has = calloc(packing->set.classes.count, sizeof *has);
    if (!has)
        return error_memory(error, packing->set.classes.count, "marks of classes");
    weft_status status = WEFT_OK;
    for (size_t i = 0; i < list->count && status == WEFT_OK; i++) {
        const struct image_entry *entry = &list->entries[permutation_at(PACK_ORDER, list->count, i)];
        const uint64_t before = *packed;
        status = stop && *stop ? error_set(error, WEFT_ERROR_ABORTED, "stopped as asked; '%s' was not written",
                                           packing->options->output)
                               : pack_image(packing, split, entry, error);
        has[entry->label] |= *packed > before;
    }
    if (status == WEFT_OK)
        status = check_packed_classes(packing, split, has, error);
    free(has);
    return status == WEFT_OK ? close_shard(packing, error) : status;
}

static weft_status write_classes(const struct image_packing *packing, struct error *error)
{
    const struct string_list *classes = &packing->set.classes;
    char path[FILE_PATH_BYTES];
    struct file_writer writer;
    weft_status status = file_join(path, packing->directory.partial, "classes.txt", error);
    if (status == WEFT_OK)
        status = file_writer_open(&writer, path, 0, error);
    if (status != WEFT_OK)
        return status;
    for (size_t i = 0; i < classes->count && status == WEFT_OK; i++) {
        status = file_writer_append(&writer, classes->items[i], strlen(classes->items[i]), error);
        if (status == WEFT_OK)
            status = file_writer_append(&writer, "\n", 1, error);
    }
    if (status == WEFT_OK)
        return file_writer_close(&writer, error);
    file_writer_discard(&writer);
    return status;
}

static weft_status pack_images(struct image_packing *packing, const char *path, struct error *error)
{
    weft_status status = image_set_open(path, &packing->set, error);
    if (status == WEFT_OK && packing->set.layout == LAYOUT_IDX)
        status = error_set(error, WEFT_ERROR_DATA, "'%s' has idx files, which training reads as they are", path);
    if (status == WEFT_OK)
        status = check_class_names(&packing->set, path, error);
    if (status == WEFT_OK)
        status = new_directory_open(&packing->directory, packing->options->output, error);
    if (status != WEFT_OK)
        return status;
    packing->packed.classes = packing->set.classes.count;
    for (int split = 0; split < 2 && status == WEFT_OK; split++)
        status = pack_split(packing, (enum dataset_split)split, error);
    if (packing->writing)
        file_writer_discard(&packing->writer);
    if (status == WEFT_OK)
        status = write_classes(packing, error);
    if (status == WEFT_OK)
        return new_directory_close(&packing->directory, error);
    new_directory_discard(&packing->directory);
    return status;
}

weft_status image_pack(const char *path, const struct image_pack_options *options, struct image_packed *packed,
                       struct error *error)
{
    struct image_packing *packing = calloc(1, sizeof *packing);
    if (!packing)
        return error_memory(error, sizeof *packing, "packing images");
    packing->options = options;
    weft_status status = pack_images(packing, path, error);
    if (status == WEFT_OK)
        *packed = packing->packed;
    image_set_close(&packing->set);
    free(packing->fetch.bytes);
    image_free(&packing->image);
    image_free(&packing->smaller);
    resampler_free(&packing->resampler);
    free(packing->pixels);
    free(packing);
    return status;
}
