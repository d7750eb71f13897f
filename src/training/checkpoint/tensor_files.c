/* SPDX-License-Identifier: Apache-2.0 */
#include "training/checkpoint/tensor_files.h"

#include "base/file/file.h"
#include "base/format/json.h"
#include "base/text.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SINGLE_NAME "model.safetensors"
#define INDEX_NAME  "model.safetensors.index.json"
#define FILE_ENDING ".safetensors"
#define INDEX_MOST  ((size_t)64 << 20)

struct tensor_files {
    struct safetensors **files;
    size_t file_count;
    const struct named_tensor **tensors; /* of all files, sorted by name */
    size_t tensor_count;
};

/* ---- the index ---- */

/* A plain file name: no index reaches out of its directory. */
static bool is_good_name(const char *name)
{
    if (*name == '.' || strchr(name, '/') || strlen(name) > NAME_MAX || !text_ends_in(name, FILE_ENDING))
        return false;
    for (const char *letter = name; *letter; letter++)
        if ((unsigned char)*letter < ' ' || *letter == 0x7f)
            return false;
    return true;
}

/* Both lists of an index begin with a pointer to the name that they are sorted by. */
static int by_first_name(const void *left, const void *right)
{
    return strcmp(*(const char *const *)left, *(const char *const *)right);
}

static weft_status fill_index(struct tensor_index *index, const cJSON *map, const char *where, struct error *error)
{
    size_t room = (size_t)cJSON_GetArraySize(map);
    if (room == 0)
        return error_set(error, WEFT_ERROR_DATA, "the 'weight_map' of %s names no tensors", where);
    index->entries = calloc(room, sizeof *index->entries);
    index->files = calloc(room, sizeof *index->files);
    if (!index->entries || !index->files)
        return error_memory(error, room * (sizeof *index->entries + sizeof *index->files), "an index of tensors");
    for (const cJSON *item = map->child; item; item = item->next) {
        const char *file = cJSON_GetStringValue(item);
        if (!*item->string || !file || !is_good_name(file))
            return error_set(error, WEFT_ERROR_DATA,
                             "the 'weight_map' of %s puts tensor '%.200s' into '%.200s', which is not the name of a "
                             "safetensors file in the same directory",
                             where, item->string, file ? file : "a value that is not a string");
        index->entries[index->count].tensor = item->string;
        index->entries[index->count].file = file;
        index->files[index->count++] = file;
    }
    qsort(index->entries, index->count, sizeof *index->entries, by_first_name);
    for (size_t i = 1; i < index->count; i++)
        if (strcmp(index->entries[i - 1].tensor, index->entries[i].tensor) == 0)
            return error_set(error, WEFT_ERROR_DATA, "the 'weight_map' of %s has tensor '%.200s' twice", where,
                             index->entries[i].tensor);
    qsort((void *)index->files, index->count, sizeof *index->files, by_first_name);
    for (size_t i = 0; i < index->count; i++)
        if (i == 0 || strcmp(index->files[i - 1], index->files[i]) != 0)
            index->file_count++;
    if (index->file_count > TENSOR_FILES_MOST)
        return error_set(error, WEFT_ERROR_DATA, "%s names %zu files, more than the %d that can be opened", where,
                         index->file_count, TENSOR_FILES_MOST);
    size_t kept = 0;
    for (size_t i = 0; i < index->count; i++)
        if (kept == 0 || strcmp(index->files[kept - 1], index->files[i]) != 0)
            index->files[kept++] = index->files[i];
    return WEFT_OK;
}

weft_status tensor_index_parse(const char *text, size_t size, const char *where, struct tensor_index *index,
                               struct error *error)
{
    struct tensor_index made = {0};
    cJSON *root = NULL;
    const cJSON *map;
    weft_status status = json_parse(text, size, where, &root, error);
    if (status != WEFT_OK)
        return status;
    made.root = root;
    if (!cJSON_IsObject(root))
        status = error_set(error, WEFT_ERROR_DATA, "%s is not an object", where);
    if (status == WEFT_OK)
        status = json_get_object(root, "weight_map", where, &map, error);
    if (status == WEFT_OK)
        status = fill_index(&made, map, where, error);
    if (status != WEFT_OK) {
        tensor_index_free(&made);
        return status;
    }
    *index = made;
    return WEFT_OK;
}

void tensor_index_free(struct tensor_index *index)
{
    free(index->entries);
    free((void *)index->files);
    cJSON_Delete(index->root);
    *index = (struct tensor_index){0};
}

/* ---- files ---- */

static int by_tensor_name(const void *left, const void *right)
{
    return strcmp((*(const struct named_tensor *const *)left)->name,
                  (*(const struct named_tensor *const *)right)->name);
}

/* What the opened files hold, as one sorted list. */
static weft_status tensor_files_join(struct tensor_files *files, const char *path, struct error *error)
{
    size_t room = 0;
    for (size_t i = 0; i < files->file_count; i++)
        room += safetensors_count(files->files[i]);
    files->tensors = calloc(room + 1, sizeof *files->tensors);
    if (!files->tensors)
        return error_memory(error, room * sizeof *files->tensors, "a list of tensors");
    for (size_t i = 0; i < files->file_count; i++)
        for (size_t j = 0; j < safetensors_count(files->files[i]); j++)
            files->tensors[files->tensor_count++] = safetensors_tensor(files->files[i], j);
    qsort((void *)files->tensors, files->tensor_count, sizeof *files->tensors, by_tensor_name);
    for (size_t i = 0; i < files->tensor_count; i++) {
        const struct named_tensor *tensor = files->tensors[i];
        if (i && strcmp(files->tensors[i - 1]->name, tensor->name) == 0)
            return error_set(error, WEFT_ERROR_DATA, "the files of '%s' have tensor '%.200s' twice", path,
                             tensor->name);
        if (!named_tensor_is_whole(tensor))
            return error_set(error, WEFT_ERROR_DATA,
                             "'%s' holds only a piece of tensor '%.200s'; give the directory of the whole checkpoint",
                             path, tensor->name);
    }
    return WEFT_OK;
}

/* Every file must hold the tensors that the index assigns to it. It may hold others, too. */
static weft_status check_against_index(const struct tensor_files *files, const struct tensor_index *index,
                                       const char *where, struct error *error)
{
    const char **names = NULL;
    for (size_t f = 0; f < index->file_count; f++) {
        const struct safetensors *file = files->files[f];
        size_t count = safetensors_count(file);
        free((void *)names);
        names = calloc(count + 1, sizeof *names);
        if (!names)
            return error_memory(error, count * sizeof *names, "a list of tensors");
        for (size_t i = 0; i < count; i++)
            names[i] = safetensors_tensor(file, i)->name;
        qsort((void *)names, count, sizeof *names, by_first_name);
        for (size_t i = 0; i < index->count; i++) {
            if (strcmp(index->entries[i].file, index->files[f]) != 0 ||
                bsearch(&index->entries[i].tensor, names, count, sizeof *names, by_first_name))
                continue;
            free((void *)names);
            return error_set(error, WEFT_ERROR_DATA, "%s lists tensor '%.200s' in '%s', which does not have it", where,
                             index->entries[i].tensor, index->files[f]);
        }
    }
    free((void *)names);
    return WEFT_OK;
}

static weft_status open_index(struct tensor_files *files, const char *path, struct error *error)
{
    char where[FILE_PATH_BYTES + 2], directory[FILE_PATH_BYTES], one[FILE_PATH_BYTES];
    char *text = NULL;
    size_t size;
    struct tensor_index index = {0};
    snprintf(where, sizeof where, "'%s'", path);
    snprintf(directory, sizeof directory, "%.*s", (int)(file_name(path) - path), path);
    weft_status status = file_read(path, INDEX_MOST, &text, &size, error);
    if (status == WEFT_OK)
        status = tensor_index_parse(text, size, where, &index, error);
    free(text);
    if (status != WEFT_OK)
        return status;
    files->files = calloc(index.file_count, sizeof *files->files);
    if (!files->files)
        status = error_memory(error, index.file_count * sizeof *files->files, "a list of files");
    for (size_t i = 0; status == WEFT_OK && i < index.file_count; i++) {
        status = file_join(one, *directory ? directory : ".", index.files[i], error);
        if (status == WEFT_OK)
            status = safetensors_open(one, &files->files[i], error);
        files->file_count += status == WEFT_OK;
    }
    if (status == WEFT_OK)
        status = check_against_index(files, &index, where, error);
    tensor_index_free(&index);
    return status;
}

static weft_status tensor_files_open_file(struct tensor_files *files, const char *path, struct error *error)
{
    files->files = calloc(1, sizeof *files->files);
    if (!files->files)
        return error_memory(error, sizeof *files->files, "a list of files");
    weft_status status = safetensors_open(path, &files->files[0], error);
    files->file_count = status == WEFT_OK;
    return status;
}

static weft_status tensor_files_open_directory(struct tensor_files *files, const char *path, struct error *error)
{
    char one[FILE_PATH_BYTES];
    weft_status status = file_join(one, path, SINGLE_NAME, error);
    if (status == WEFT_OK && file_exists(one))
        return tensor_files_open_file(files, one, error);
    if (status == WEFT_OK)
        status = file_join(one, path, INDEX_NAME, error);
    if (status == WEFT_OK && file_exists(one))
        return open_index(files, one, error);
    if (status != WEFT_OK)
        return status;
    bool pickled = file_join(one, path, "pytorch_model.bin", NULL) == WEFT_OK && file_exists(one);
    return error_set(error, WEFT_ERROR_DATA, "the directory '%s' has neither " SINGLE_NAME " nor " INDEX_NAME "%s",
                     path,
                     pickled ? "; its pytorch_model.bin can run code when it is read: get it as safetensors" : "");
}

weft_status tensor_files_open(const char *path, struct tensor_files **result, struct error *error)
{
    if (!file_exists(path))
        return error_set(error, WEFT_ERROR_ARGUMENT,
                         "there is nothing at '%s'; give a safetensors file or the directory "
                         "that it was downloaded to",
                         path);
    struct tensor_files *files = calloc(1, sizeof *files);
    if (!files)
        return error_memory(error, sizeof *files, "a list of files");
    weft_status status = file_is_directory(path)       ? tensor_files_open_directory(files, path, error)
                         : text_ends_in(path, ".json") ? open_index(files, path, error)
                                                       : tensor_files_open_file(files, path, error);
    if (status == WEFT_OK)
        status = tensor_files_join(files, path, error);
    if (status != WEFT_OK) {
        tensor_files_close(files);
        return status;
    }
    *result = files;
    return WEFT_OK;
}

void tensor_files_close(struct tensor_files *files)
{
    if (!files)
        return;
    for (size_t i = 0; i < files->file_count; i++)
        safetensors_close(files->files[i]);
    free(files->files);
    free((void *)files->tensors);
    free(files);
}

size_t tensor_files_count(const struct tensor_files *files)
{
    return files->tensor_count;
}

const struct named_tensor *tensor_files_tensor(const struct tensor_files *files, size_t index)
{
    return files->tensors[index];
}

static int tensor_files_find_tensor(const void *name, const void *tensor)
{
    return strcmp(name, (*(const struct named_tensor *const *)tensor)->name);
}

const struct named_tensor *tensor_files_find(const struct tensor_files *files, const char *name)
{
    const struct named_tensor *const *found =
        bsearch(name, files->tensors, files->tensor_count, sizeof *files->tensors, tensor_files_find_tensor);
    return found ? *found : NULL;
}

const char *tensor_files_where(const struct tensor_files *files, const struct named_tensor *tensor)
{
    for (size_t i = 0; i < files->file_count; i++)
        for (size_t j = 0; j < safetensors_count(files->files[i]); j++)
            if (safetensors_tensor(files->files[i], j) == tensor)
                return safetensors_where(files->files[i]);
    return NULL;
}
