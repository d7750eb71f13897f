/* SPDX-License-Identifier: Apache-2.0 */
/* Images in tar shards of WebDataset: NAME.jpg and NAME.cls are neighbors. An index is made at opening. */
#include "base/text.h"
#include "training/data/files.h"
#include "training/data/image/internal/image_set.h"
#include "training/data/image/tar.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#define SHARD_LABEL_BYTES 16 /* of the text in a .cls file */
#define SHARD_LABEL_MOST  ((int64_t)1 << 24)

/* A shard while its members are visited, and the sample whose members those last visited were. */
struct shard_index {
    struct image_set *set;
    enum dataset_split split;
    uint32_t file;
    char key[TAR_NAME_BYTES];
    struct image_entry entry;
    bool has_image, has_label;
};

/* The length of a sample's key: the path of a member up to the first dot of its last part. */
static size_t key_length(const char *name)
{
    const char *dot = strchr(file_name(name), '.');
    return dot ? (size_t)(dot - name) : strlen(name);
}

static weft_status finish_sample(struct shard_index *index, struct error *error)
{
    if (!index->has_image && !index->has_label)
        return WEFT_OK;
    if (!index->has_image || !index->has_label)
        return error_set(error, WEFT_ERROR_DATA, "the sample '%s' of the shard '%s' has no %s; write the shard again",
                         index->key, index->set->files.items[index->file],
                         index->has_image ? ".cls with its label" : ".jpg, .jpeg or .png");
    return image_set_add(index->set, index->split, index->entry, index->key, error);
}

static weft_status read_label(struct shard_index *index, const struct tar_member *member, struct error *error)
{
    const char *path = index->set->files.items[index->file];
    char text[SHARD_LABEL_BYTES + 1] = "", *end;
    const uint64_t size = member->size < SHARD_LABEL_BYTES ? member->size : SHARD_LABEL_BYTES;
    weft_status status = file_read_at(index->set->descriptors[index->file], path, index->set->sizes[index->file],
                                      member->offset, text, size, error);
    if (status != WEFT_OK)
        return status;
    const long label = strtol(text, &end, 10);
    if (end == text || end[strspn(end, " \r\n")] || label < 0 || label >= SHARD_LABEL_MOST)
        return error_set(error, WEFT_ERROR_DATA,
                         "the label of '%s' in the shard '%s' is not a number from 0 to %" PRId64
                         "; write the shard again",
                         member->name, path, SHARD_LABEL_MOST - 1);
    index->entry.label = (int32_t)label;
    index->has_label = true;
    return WEFT_OK;
}

static weft_status shard_index_visit(void *context, const struct tar_member *member, struct error *error)
{
    struct shard_index *index = context;
    if (file_name(member->name)[0] == '.') /* such as "._1.jpg", which macOS adds to 1.jpg */
        return WEFT_OK;
    const size_t length = key_length(member->name);
    const char *ending = member->name + length;
    if (strlen(index->key) != length || memcmp(index->key, member->name, length) != 0) {
        weft_status status = finish_sample(index, error);
        if (status != WEFT_OK)
            return status;
        snprintf(index->key, sizeof index->key, "%.*s", (int)length, member->name);
        index->entry = (struct image_entry){.file = index->file};
        index->has_image = index->has_label = false;
    }
    if (strcasecmp(ending, ".cls") == 0)
        return read_label(index, member, error);
    if (strcasecmp(ending, ".jpg") != 0 && strcasecmp(ending, ".jpeg") != 0 && strcasecmp(ending, ".png") != 0)
        return WEFT_OK;
    if (member->size > UINT32_MAX)
        return error_set(error, WEFT_ERROR_DATA, "'%s' in the shard '%s' has %" PRIu64 " bytes; remove it",
                         member->name, index->set->files.items[index->file], member->size);
    index->entry.offset = member->offset;
    index->entry.size = (uint32_t)member->size;
    index->has_image = true;
    return WEFT_OK;
}

static weft_status index_shard(struct image_set *set, size_t file, enum dataset_split split, struct error *error)
{
    struct shard_index *index = calloc(1, sizeof *index);
    if (!index)
        return error_memory(error, sizeof *index, "the index of a shard");
    *index = (struct shard_index){.set = set, .split = split, .file = (uint32_t)file};
    const struct tar_visitor visitor = {shard_index_visit, index};
    weft_status status = tar_read(set->descriptors[file], set->files.items[file], set->sizes[file], &visitor, error);
    if (status == WEFT_OK)
        status = finish_sample(index, error);
    free(index);
    return status;
}

static weft_status list_shards(struct image_set *set, struct error *error)
{
    if (!file_is_directory(set->path))
        return string_list_add(&set->files, set->path, error);
    DIR *listing = file_listing_open(AT_FDCWD, set->path, 0);
    if (!listing)
        return error_system(error, "cannot read the directory '%s'", set->path);
    weft_status status = WEFT_OK;
    const char *name;
    while (status == WEFT_OK && (name = file_listing_next(listing))) {
        char path[FILE_PATH_BYTES];
        if (name[0] == '.' || !text_ends_in(name, ".tar"))
            continue;
        status = file_join(path, set->path, name, error);
        if (status == WEFT_OK)
            status = string_list_add(&set->files, path, error);
    }
    if (status == WEFT_OK && errno)
        status = error_system(error, "cannot read the directory '%s'", set->path);
    file_listing_close(listing);
    string_list_sort(&set->files);
    return status;
}

weft_status image_set_read_shards(struct image_set *set, struct error *error)
{
    weft_status status = list_shards(set, error);
    if (status != WEFT_OK)
        return status;
    const size_t count = set->files.count;
    set->descriptors = malloc((count + 1) * sizeof *set->descriptors);
    set->sizes = malloc((count + 1) * sizeof *set->sizes);
    if (!set->descriptors || !set->sizes)
        return error_memory(error, count * sizeof *set->sizes, "a list of shards");
    const enum data_file_split by = data_files_split(&set->files);
    set->by_name = by != DATA_FILES_UNNAMED;
    set->held_out_only = by == DATA_FILES_HELD_OUT;
    for (size_t i = 0; i < count && status == WEFT_OK; i++) {
        status = file_open(set->files.items[i], &set->descriptors[i], &set->sizes[i], error);
        set->opened += status == WEFT_OK;
        if (status == WEFT_OK)
            status = index_shard(
                set, i, data_file_is_split_off(by, set->files.items[i]) ? DATASET_HELD_OUT : DATASET_TRAIN, error);
    }
    return status;
}
