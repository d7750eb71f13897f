/* SPDX-License-Identifier: Apache-2.0 */
#include "training/data/files.h"
#include "base/file/file.h"
#include "base/text.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The first `word` in `name` with no letter before or after it, or NULL. */
static const char *find_word(const char *name, const char *word)
{
    size_t length = strlen(word);
    for (const char *at = name; (at = strstr(at, word)) != NULL; at++)
        if ((at == name || !isalpha((unsigned char)at[-1])) && !isalpha((unsigned char)at[length]))
            return at;
    return NULL;
}

bool data_file_is_held_out(const char *path)
{
    const char *name = file_name(path);
    return find_word(name, "val") || find_word(name, "valid") || find_word(name, "validation");
}

bool data_file_is_test(const char *path)
{
    return find_word(file_name(path), "test");
}

enum data_file_split data_files_split(const struct string_list *files)
{
    size_t held_out = 0, others = 0;
    for (size_t i = 0; i < files->count; i++) {
        held_out += data_file_is_held_out(files->items[i]);
        others += !data_file_is_held_out(files->items[i]) && !data_file_is_test(files->items[i]);
    }
    if (files->count > 0 && others == 0)
        return DATA_FILES_HELD_OUT;
    return held_out > 0 && held_out < files->count ? DATA_FILES_SPLIT : DATA_FILES_UNNAMED;
}

bool data_file_is_split_off(enum data_file_split split, const char *file)
{
    return split == DATA_FILES_HELD_OUT || (split == DATA_FILES_SPLIT && data_file_is_held_out(file));
}

/* The file that is called as `path` with "val" in place of "train", if it is there. */
static weft_status add_sibling(struct string_list *files, const char *path, struct error *error)
{
    const char *word = find_word(file_name(path), "train");
    if (!word)
        return WEFT_OK;
    char sibling[FILE_PATH_BYTES];
    int length = snprintf(sibling, sizeof sibling, "%.*sval%s", (int)(word - path), path, word + strlen("train"));
    if (length >= (int)sizeof sibling || !file_exists(sibling))
        return WEFT_OK;
    return string_list_add(files, sibling, error);
}

/* Add the entries of a directory's sorted list that end in `ending`. */
static weft_status files_add_entries(struct string_list *files, const char *directory, struct dirent *const *entries,
                                     int count, const char *ending, struct error *error)
{
    for (int i = 0; i < count; i++) {
        const char *name = entries[i]->d_name;
        if (name[0] == '.' || !text_ends_in(name, ending))
            continue;
        char path[FILE_PATH_BYTES];
        weft_status status = file_join(path, directory, name, error);
        if (status == WEFT_OK && !file_is_directory(path))
            status = string_list_add(files, path, error);
        if (status != WEFT_OK)
            return status;
    }
    return WEFT_OK;
}

static int files_by_name(const struct dirent **a, const struct dirent **b)
{
    return strcmp((*a)->d_name, (*b)->d_name);
}

static weft_status files_add_directory(struct string_list *files, const char *directory, bool labeled,
                                       struct error *error)
{
    struct dirent **entries;
    int count = scandir(directory, &entries, NULL, files_by_name);
    if (count < 0)
        return error_system(error, "cannot read the directory '%s'", directory);
    size_t before = files->count;
    weft_status status = files_add_entries(files, directory, entries, count, ".bin", error);
    if (status == WEFT_OK && files->count == before)
        status = files_add_entries(files, directory, entries, count, ".txt", error);
    if (status == WEFT_OK && files->count == before)
        status = files_add_entries(files, directory, entries, count, ".tsv", error);
    if (status == WEFT_OK && files->count == before)
        status = error_set(error, WEFT_ERROR_DATA,
                           "the directory '%s' has neither .bin nor .txt nor .tsv files; name the files of the dataset "
                           "themselves",
                           directory);
    else if (status == WEFT_OK && !labeled && text_ends_in(files->items[before], ".tsv"))
        status = error_set(error, WEFT_ERROR_DATA,
                           "the directory '%s' has .tsv files, which hold labeled texts, and neither .bin nor .txt "
                           "files; classify them with a bert and --task classify, or name a file itself to read it as "
                           "plain text",
                           directory);
    for (int i = 0; i < count; i++)
        free(entries[i]);
    free(entries);
    return status;
}

weft_status data_files_find(const char *const *paths, size_t count, bool labeled, struct string_list *files,
                            struct error *error)
{
    *files = (struct string_list){0};
    weft_status status = WEFT_OK;
    if (count == 0)
        status = error_set(error, WEFT_ERROR_ARGUMENT, "a dataset needs at least one file or directory");
    for (size_t i = 0; i < count && status == WEFT_OK; i++)
        status = file_is_directory(paths[i]) ? files_add_directory(files, paths[i], labeled, error)
                                             : string_list_add(files, paths[i], error);
    if (status == WEFT_OK && count == 1 && files->count == 1 && !file_is_directory(paths[0]))
        status = add_sibling(files, paths[0], error);
    if (status != WEFT_OK)
        string_list_free(files);
    return status;
}
