/* SPDX-License-Identifier: Apache-2.0 */
/**
 * The images of a source and their labels, as opening finds them: a list for each split, and how to get an image's bytes.
 * Built by one of three readers of layouts (images.h describes the layouts). It never changes afterwards, and any number of
 * threads may fetch from it.
 */
#ifndef WEFT_TRAINING_DATA_IMAGE_INTERNAL_IMAGE_SET_H
#define WEFT_TRAINING_DATA_IMAGE_INTERNAL_IMAGE_SET_H

#include "base/file/file.h"
#include "base/string_list.h"
#include "training/data/image/idx.h"
#include "training/data/source.h"

enum image_layout {
    LAYOUT_DIRECTORIES,
    LAYOUT_IDX,
    LAYOUT_SHARDS,
};

struct image_entry {
    uint64_t offset; /**< in a shard: of the first byte; in an idx file: the image's number */
    uint32_t size;   /**< bytes, in a shard */
    uint32_t file;   /**< index of the directory, shard or idx file */
    uint32_t name;   /**< where its name begins in the set's names */
    int32_t label;
};

struct image_list {
    struct image_entry *entries;
    size_t count, room;
};

struct image_set {
    const char *path; /**< until image_set_open() returns */
    enum image_layout layout;
    struct string_list classes; /**< names by label */
    struct string_list files;   /**< directories of images, shards or idx files */
    int *descriptors;           /**< of shards */
    uint64_t *sizes;            /**< of shards, in bytes */
    size_t opened;              /**< shards that are open */
    char *names;                /**< of images, each with a NUL */
    size_t name_bytes, name_room;
    struct image_list splits[2];
    struct idx pixels[2]; /**< of idx files, by split */
    bool by_name;         /**< files or directories are held out by their names */
    bool held_out_only;   /**< all of them are: there are no images to train on */
};

/** The bytes of one image, and a name for messages. Reused, it keeps its memory. */
struct image_fetch {
    uint8_t *bytes;
    size_t size, room;
    char name[FILE_PATH_BYTES + 256];
};

/** Open the images at `path`. Close it after an error too. Errors: those of images_open() for files. */
weft_status image_set_open(const char *path, struct image_set *set, struct error *error);
void image_set_close(struct image_set *set);

/** Read the file of an image. Not for idx files, whose pixels are in memory. Errors: SYSTEM; DATA; MEMORY. */
weft_status image_set_fetch(const struct image_set *set, const struct image_entry *entry, struct image_fetch *fetch,
                            struct error *error);

/** Write the path of an image, or its file and place in it, for messages. */
void image_set_name(const struct image_set *set, const struct image_entry *entry, char *text, size_t size);

/** Read a whole file. Errors: SYSTEM; DATA. */
weft_status image_fetch_file(struct image_fetch *fetch, const char *path, struct error *error);

/* ---- for the readers of layouts ---- */

weft_status image_set_read_directories(struct image_set *set, struct error *error);
weft_status image_set_read_idx(struct image_set *set, struct error *error);
weft_status image_set_read_shards(struct image_set *set, struct error *error);

/** Append an image to a split; its name is copied, and entry->name set. */
weft_status image_set_add(struct image_set *set, enum dataset_split split, struct image_entry entry, const char *name,
                          struct error *error);

/** Whether a name ends in .jpg, .jpeg or .png, in letters of any case. */
bool image_has_ending(const char *name);

#endif
