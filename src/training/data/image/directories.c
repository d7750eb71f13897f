/* SPDX-License-Identifier: Apache-2.0 */
/* Images in a directory per class: below train/ and val/, or in one place. */
#include "training/data/image/internal/image_set.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>

/* The sorted names in a directory that are directories, or images. */
static weft_status list_class_names(const char *directory, bool directories, struct string_list *names,
                                    struct error *error)
{
    DIR *listing = file_listing_open(AT_FDCWD, directory, 0);
    if (!listing)
        return error_system(error, "cannot read the directory '%s'", directory);
    weft_status status = WEFT_OK;
    const char *name;
    while (status == WEFT_OK && (name = file_listing_next(listing))) {
        char path[FILE_PATH_BYTES];
        if (name[0] == '.' || (!directories && !image_has_ending(name)))
            continue;
        if (directories) {
            status = file_join(path, directory, name, error);
            if (status != WEFT_OK || !file_is_directory(path))
                continue;
        }
        status = string_list_add(names, name, error);
    }
    if (status == WEFT_OK && errno)
        status = error_system(error, "cannot read the directory '%s'", directory);
    file_listing_close(listing);
    string_list_sort(names);
    return status;
}

/* Add the images of one class. */
static weft_status read_class(struct image_set *set, enum dataset_split split, const char *directory, size_t label,
                              struct error *error)
{
    struct string_list names = {0};
    weft_status status = list_class_names(directory, false, &names, error);
    if (status == WEFT_OK && names.count == 0)
        status = error_set(error, WEFT_ERROR_DATA,
                           "the directory of a class '%s' has no .jpg, .jpeg or .png files; add some or remove it",
                           directory);
    if (status == WEFT_OK)
        status = string_list_add(&set->files, directory, error);
    const struct image_entry entry = {.file = (uint32_t)set->files.count - 1, .label = (int32_t)label};
    for (size_t i = 0; i < names.count && status == WEFT_OK; i++)
        status = image_set_add(set, split, entry, names.items[i], error);
    string_list_free(&names);
    return status;
}

/* Read a directory per class. The first such place names the classes; another one must have the same. */
static weft_status read_class_directories(struct image_set *set, enum dataset_split split, const char *root,
                                          struct error *error)
{
    struct string_list names = {0};
    const bool first = set->classes.count == 0;
    weft_status status = list_class_names(root, true, &names, error);
    for (size_t i = 0; i < names.count && status == WEFT_OK; i++) {
        char directory[FILE_PATH_BYTES];
        if (first)
            status = string_list_add(&set->classes, names.items[i], error);
        const size_t label = string_list_find(&set->classes, names.items[i]);
        if (status == WEFT_OK && label == set->classes.count)
            status = error_set(error, WEFT_ERROR_DATA,
                               "'%s' has a class '%s' that the training images lack; remove it or add images of it",
                               root, names.items[i]);
        if (status == WEFT_OK)
            status = file_join(directory, root, names.items[i], error);
        if (status == WEFT_OK)
            status = read_class(set, split, directory, label, error);
    }
    string_list_free(&names);
    return status;
}

/* Read the first of val/, valid/, validation/ and test/ that there is, with a directory per class. */
static weft_status read_held_out_directory(struct image_set *set, struct error *error)
{
    static const char *const names[] = {"val", "valid", "validation", "test"};
    weft_status status = WEFT_OK;
    for (size_t i = 0; i < ARRAY_SIZE(names) && !set->by_name && status == WEFT_OK; i++) {
        char path[FILE_PATH_BYTES];
        struct string_list classes = {0};
        status = file_join(path, set->path, names[i], error);
        if (status == WEFT_OK && file_is_directory(path))
            status = list_class_names(path, true, &classes, error);
        if (status == WEFT_OK && classes.count > 0) {
            set->by_name = true;
            status = read_class_directories(set, DATASET_HELD_OUT, path, error);
        }
        string_list_free(&classes);
    }
    return status;
}

weft_status image_set_read_directories(struct image_set *set, struct error *error)
{
    char path[FILE_PATH_BYTES];
    weft_status status = file_join(path, set->path, "train", error);
    if (status != WEFT_OK)
        return status;
    const bool has_train = file_is_directory(path);
    if (has_train)
        status = read_class_directories(set, DATASET_TRAIN, path, error);
    if (status == WEFT_OK && (!has_train || set->classes.count > 0))
        status = read_held_out_directory(set, error);
    set->held_out_only = !has_train && set->by_name;
    if (status != WEFT_OK || has_train || set->by_name)
        return status;
    status = read_class_directories(set, DATASET_TRAIN, set->path, error);
    if (status == WEFT_OK && set->classes.count == 0)
        status = error_set(error, WEFT_ERROR_DATA,
                           "'%s' is no data set of images: it has neither directories for classes, nor train/ and "
                           "val/ with such directories, nor .tar shards, nor idx files",
                           set->path);
    return status;
}
