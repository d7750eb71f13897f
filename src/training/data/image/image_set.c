/* SPDX-License-Identifier: Apache-2.0 */
#include "training/data/image/internal/image_set.h"
#include "base/hash.h"
#include "base/text.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

#define CLASSES_FILE_MOST ((size_t)16 << 20) /* bytes */
#define IMAGE_FILE_MOST   ((uint64_t)1 << 30)

bool image_has_ending(const char *name)
{
    const char *dot = strrchr(name, '.');
    return dot && (strcasecmp(dot, ".jpg") == 0 || strcasecmp(dot, ".jpeg") == 0 || strcasecmp(dot, ".png") == 0);
}

weft_status image_set_add(struct image_set *set, enum dataset_split split, struct image_entry entry, const char *name,
                          struct error *error)
{
    struct image_list *list = &set->splits[split];
    const size_t bytes = strlen(name) + 1;
    if (set->name_bytes + bytes > UINT32_MAX)
        return error_set(error, WEFT_ERROR_ARGUMENT,
                         "the names of the images in '%s' have more than 4 GiB; divide the images", set->path);
    weft_status status = ARRAY_RESERVE(set->names, set->name_room, set->name_bytes + bytes, "names of images", error);
    if (status == WEFT_OK)
        status = ARRAY_RESERVE(list->entries, list->room, list->count + 1, "a list of images", error);
    if (status != WEFT_OK)
        return status;
    entry.name = (uint32_t)set->name_bytes;
    memcpy(set->names + set->name_bytes, name, bytes);
    set->name_bytes += bytes;
    list->entries[list->count++] = entry;
    return WEFT_OK;
}

/* ---- the split ---- */

/* An image in the order in which those that are held out are chosen. */
struct image_draw {
    uint64_t hash; /* of its name */
    int32_t label;
    uint32_t index;
};

static int compare_draws(const void *a, const void *b)
{
    const struct image_draw *one = a, *other = b;
    if (one->label != other->label)
        return one->label < other->label ? -1 : 1;
    if (one->hash != other->hash)
        return one->hash < other->hash ? -1 : 1;
    return one->index < other->index ? -1 : 1;
}

/* Move the images that `held` marks to the held-out split. */
static weft_status move_held_out(struct image_set *set, const bool *held, size_t count, struct error *error)
{
    struct image_list *train = &set->splits[DATASET_TRAIN], *out = &set->splits[DATASET_HELD_OUT];
    weft_status status = ARRAY_RESERVE(out->entries, out->room, count, "a list of images", error);
    if (status != WEFT_OK)
        return status;
    size_t kept = 0;
    for (size_t i = 0; i < train->count; i++)
        if (held[i])
            out->entries[out->count++] = train->entries[i];
        else
            train->entries[kept++] = train->entries[i];
    train->count = kept;
    return WEFT_OK;
}

/* Of each class, hold out the tenth whose names have the smallest hashes, and at least one of two or more. */
static weft_status hold_out_tenth(struct image_set *set, struct error *error)
{
    const struct image_list *train = &set->splits[DATASET_TRAIN];
    const size_t count = train->count;
    struct image_draw *draws = count <= UINT32_MAX ? malloc((count + 1) * sizeof *draws) : NULL;
    bool *held = calloc(count + 1, sizeof *held);
    if (!draws || !held) {
        free(draws);
        free(held);
        return error_memory(error, count * sizeof *draws, "the choice of held-out images");
    }
    size_t chosen = 0;
    for (size_t i = 0; i < count; i++)
        draws[i] = (struct image_draw){hash_text(set->names + train->entries[i].name, 0), train->entries[i].label,
                                       (uint32_t)i};
    qsort(draws, count, sizeof *draws, compare_draws);
    for (size_t i = 0, end; i < count; i = end) {
        for (end = i; end < count && draws[end].label == draws[i].label; end++)
            ;
        const size_t images = end - i, tenth = images < 10 ? images > 1 : images / 10;
        for (size_t j = 0; j < tenth; j++)
            held[draws[i + j].index] = true;
        chosen += tenth;
    }
    weft_status status = move_held_out(set, held, chosen, error);
    free(draws);
    free(held);
    return status;
}

/* ---- classes ---- */

/* Where the layout has numbers only: the lines of classes.txt, or the numbers. */
static weft_status name_classes(struct image_set *set, size_t classes, struct error *error)
{
    char path[FILE_PATH_BYTES], *text = NULL, number[32];
    size_t size;
    weft_status status = WEFT_OK;
    if (file_is_directory(set->path))
        status = file_join(path, set->path, "classes.txt", error);
    if (status == WEFT_OK && file_is_directory(set->path) && file_exists(path)) {
        status = file_read(path, CLASSES_FILE_MOST, &text, &size, error);
        char *rest = text;
        for (char *line; status == WEFT_OK && (line = strsep(&rest, "\n"));) {
            const size_t length = strlen(line);
            if (length > 0 && line[length - 1] == '\r')
                line[length - 1] = '\0';
            if (*line)
                status = string_list_add(&set->classes, line, error);
        }
        free(text);
        if (status == WEFT_OK && set->classes.count < classes)
            status = error_set(error, WEFT_ERROR_DATA,
                               "'%s' names %zu classes, but there are labels up to %zu; add the names", path,
                               set->classes.count, classes - 1);
    }
    const bool named = set->classes.count > 0;
    for (size_t i = 0; !named && i < classes && status == WEFT_OK; i++) {
        snprintf(number, sizeof number, "%zu", i);
        status = string_list_add(&set->classes, number, error);
    }
    return status;
}

/* Classes where the layout has numbers only. Each has an image, so a label that is too high is found here. */
static weft_status count_classes(const struct image_set *set, size_t *classes, struct error *error)
{
    const size_t images = set->splits[DATASET_TRAIN].count + set->splits[DATASET_HELD_OUT].count;
    const struct image_entry *highest = NULL;
    for (int split = 0; split < 2; split++)
        for (size_t i = 0; i < set->splits[split].count; i++)
            if (!highest || set->splits[split].entries[i].label > highest->label)
                highest = &set->splits[split].entries[i];
    *classes = highest ? (size_t)highest->label + 1 : 0;
    if (*classes <= images)
        return WEFT_OK;
    char name[FILE_PATH_BYTES + 256];
    image_set_name(set, highest, name, sizeof name);
    return error_set(error, WEFT_ERROR_DATA,
                     "the label of '%s' is %" PRId32 ", but with %zu images in all, labels are below that; correct the "
                     "label or add images",
                     name, highest->label, images);
}

/* Each split has images of every class, unless there is nothing to train on. */
static weft_status check_classes(const struct image_set *set, struct error *error)
{
    static const char *const names[] = {[DATASET_TRAIN] = "training", [DATASET_HELD_OUT] = "held-out"};
    const size_t classes = set->classes.count;
    if (classes < 2)
        return error_set(error, WEFT_ERROR_DATA,
                         "'%s' has images of %zu class%s; to classify images, give at least two classes", set->path,
                         classes, classes == 1 ? "" : "es");
    size_t *counts = calloc(2 * classes, sizeof *counts);
    if (!counts)
        return error_memory(error, 2 * classes * sizeof *counts, "counts of images");
    for (int split = 0; split < 2; split++)
        for (size_t i = 0; i < set->splits[split].count; i++)
            counts[(size_t)split * classes + (size_t)set->splits[split].entries[i].label]++;
    weft_status status = WEFT_OK;
    for (size_t i = 0; i < 2 * classes && status == WEFT_OK; i++)
        if (counts[i] == 0 && !(set->held_out_only && i < classes))
            status = error_set(error, WEFT_ERROR_DATA,
                               "the %s images of '%s' have none of class '%s' (%zu of the other split); add some or "
                               "remove the class",
                               names[i / classes], set->path, set->classes.items[i % classes],
                               counts[(i + classes) % (2 * classes)]);
    free(counts);
    return status;
}

/* ---- opening ---- */

/* Whether a name in a directory matches; false if it cannot be opened, which the readers of layouts report. */
static weft_status directory_has(const char *directory, bool (*matches)(const char *name), bool *found,
                                 struct error *error)
{
    DIR *listing = file_listing_open(AT_FDCWD, directory, 0);
    const char *name;
    *found = false;
    while (!*found && (name = file_listing_next(listing)))
        *found = matches(name);
    weft_status status =
        listing && !*found && errno ? error_system(error, "cannot read the directory '%s'", directory) : WEFT_OK;
    file_listing_close(listing);
    return status;
}

static bool is_idx_name(const char *name)
{
    return strncmp(name, "train-images", strlen("train-images")) == 0;
}

static bool is_shard_name(const char *name)
{
    return text_ends_in(name, ".tar");
}

static weft_status image_set_read(struct image_set *set, struct error *error)
{
    const char *path = set->path;
    if (!file_exists(path))
        return error_set(error, WEFT_ERROR_DATA, "there is no '%s'; give a directory of images", path);
    const bool is_directory = file_is_directory(path);
    bool has_idx = false, has_shards = is_shard_name(path);
    weft_status status = is_directory ? directory_has(path, is_idx_name, &has_idx, error) : WEFT_OK;
    if (status == WEFT_OK && is_directory && !has_shards)
        status = directory_has(path, is_shard_name, &has_shards, error);
    if (status != WEFT_OK)
        return status;
    if (has_idx) {
        set->layout = LAYOUT_IDX;
        return image_set_read_idx(set, error);
    }
    if (has_shards) {
        set->layout = LAYOUT_SHARDS;
        return image_set_read_shards(set, error);
    }
    set->layout = LAYOUT_DIRECTORIES;
    return image_set_read_directories(set, error);
}

weft_status image_set_open(const char *path, struct image_set *set, struct error *error)
{
    *set = (struct image_set){.path = path};
    weft_status status = image_set_read(set, error);
    if (status == WEFT_OK && set->layout != LAYOUT_DIRECTORIES) {
        size_t classes;
        status = count_classes(set, &classes, error);
        if (status == WEFT_OK)
            status = name_classes(set, classes, error);
    }
    if (status == WEFT_OK && set->classes.count > 1 && !set->by_name)
        status = hold_out_tenth(set, error);
    if (status == WEFT_OK)
        status = check_classes(set, error);
    set->path = NULL;
    return status;
}

void image_set_close(struct image_set *set)
{
    for (size_t i = 0; i < set->opened; i++)
        file_close(set->descriptors[i]);
    for (int split = 0; split < 2; split++) {
        free(set->splits[split].entries);
        idx_free(&set->pixels[split]);
    }
    free(set->descriptors);
    free(set->sizes);
    free(set->names);
    string_list_free(&set->classes);
    string_list_free(&set->files);
    *set = (struct image_set){0};
}

/* ---- fetching ---- */

void image_set_name(const struct image_set *set, const struct image_entry *entry, char *text, size_t size)
{
    const char *file = set->files.items[entry->file];
    if (set->layout == LAYOUT_IDX)
        snprintf(text, size, "image %" PRIu64 " of %s", entry->offset, file);
    else if (set->layout == LAYOUT_SHARDS)
        snprintf(text, size, "%s of %s", set->names + entry->name, file);
    else
        snprintf(text, size, "%s/%s", file, set->names + entry->name);
}

static weft_status fetch_range(struct image_fetch *fetch, int descriptor, const char *path, uint64_t whole,
                               uint64_t offset, uint64_t size, struct error *error)
{
    fetch->size = 0;
    if (size > IMAGE_FILE_MOST)
        return error_set(error, WEFT_ERROR_DATA,
                         "the image '%s' has %" PRIu64 " bytes, and at most 1 GiB is read; remove it", fetch->name,
                         size);
    weft_status status = ARRAY_RESERVE(fetch->bytes, fetch->room, size + 1, "the bytes of an image", error);
    if (status == WEFT_OK)
        status = file_read_at(descriptor, path, whole, offset, fetch->bytes, size, error);
    if (status == WEFT_OK)
        fetch->size = size;
    return status;
}

weft_status image_fetch_file(struct image_fetch *fetch, const char *path, struct error *error)
{
    int descriptor;
    uint64_t size;
    if (path != fetch->name)
        snprintf(fetch->name, sizeof fetch->name, "%s", path);
    weft_status status = file_open(path, &descriptor, &size, error);
    if (status != WEFT_OK)
        return status;
    status = fetch_range(fetch, descriptor, path, size, 0, size, error);
    file_close(descriptor);
    return status;
}

weft_status image_set_fetch(const struct image_set *set, const struct image_entry *entry, struct image_fetch *fetch,
                            struct error *error)
{
    image_set_name(set, entry, fetch->name, sizeof fetch->name);
    if (set->layout == LAYOUT_DIRECTORIES)
        return image_fetch_file(fetch, fetch->name, error);
    return fetch_range(fetch, set->descriptors[entry->file], set->files.items[entry->file], set->sizes[entry->file],
                       entry->offset, entry->size, error);
}
