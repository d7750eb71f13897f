/* SPDX-License-Identifier: Apache-2.0 */
#include "training/data/packed.h"
#include "base/format/json_put.h"
#include "training/data/files.h"
#include "training/data/shard.h"

#include <string.h>

static const char *const split_names[] = {[DATASET_TRAIN] = "train", [DATASET_HELD_OUT] = "held_out"};

static weft_status packed_find_directory(const char *path, char directory[FILE_PATH_BYTES], struct error *error)
{
    if (file_is_directory(path))
        return file_join(directory, path, "", error);
    size_t length = (size_t)(file_name(path) - path);
    if (length == 0)
        return file_join(directory, ".", "", error);
    if (length >= FILE_PATH_BYTES)
        return error_set(error, WEFT_ERROR_ARGUMENT, "the path '%.200s...' is too long", path);
    memcpy(directory, path, length);
    directory[length] = '\0';
    return WEFT_OK;
}

weft_status packed_find(const char *path, char directory[FILE_PATH_BYTES], bool *are_tokens, struct error *error)
{
    struct string_list files;
    struct shard shard;
    weft_status status = data_files_find(&path, 1, false, &files, error);
    if (status != WEFT_OK)
        return status;
    status = shard_open(files.items[0], &shard, error);
    string_list_free(&files);
    if (status != WEFT_OK)
        return status;
    *are_tokens = shard.layout.format != SHARD_BYTES;
    shard_close(&shard);
    return packed_find_directory(path, directory, error);
}

bool packed_is_in(const char *directory)
{
    char path[FILE_PATH_BYTES];
    return file_join(path, directory, PACKED_DESCRIPTION, NULL) == WEFT_OK && file_exists(path);
}

static weft_status read_split(const cJSON *root, const char *name, const char *where, struct packed_split *split,
                              struct error *error)
{
    const cJSON *object;
    weft_status status = json_get_object(root, name, where, &object, error);
    if (status == WEFT_OK)
        status = json_get_unsigned(object, "tokens", where, &split->tokens, error);
    if (status == WEFT_OK)
        status = json_get_unsigned(object, "bytes", where, &split->bytes, error);
    if (status == WEFT_OK)
        status = json_get_unsigned(object, "files", where, &split->files, error);
    return status;
}

static weft_status read_identity(const cJSON *root, const char *where, char identity[TOKENIZER_IDENTITY_BYTES],
                                 struct error *error)
{
    const char *text;
    uint8_t digest[SHA256_BYTES];
    weft_status status = json_get_text(root, "tokenizer", where, &text, error);
    if (status == WEFT_OK && !sha256_parse(text, digest))
        status = error_set(error, WEFT_ERROR_DATA, "the 'tokenizer' of %s is not 64 hexadecimal digits", where);
    if (status == WEFT_OK)
        sha256_text(digest, identity);
    return status;
}

weft_status packed_read(const char *directory, struct packed *packed, struct error *error)
{
    char path[FILE_PATH_BYTES], where[FILE_PATH_BYTES + 2];
    cJSON *root;
    struct packed read = {0};
    weft_status status = file_join(path, directory, PACKED_DESCRIPTION, error);
    if (status == WEFT_OK)
        status = json_read(path, &root, error);
    if (status != WEFT_OK)
        return status;
    snprintf(where, sizeof where, "'%s'", path);
    status = json_get_unsigned(root, "vocabulary", where, &read.vocabulary, error);
    if (status == WEFT_OK && cJSON_GetObjectItemCaseSensitive(root, "tokenizer"))
        status = read_identity(root, where, read.tokenizer, error);
    for (int i = 0; i < 2 && status == WEFT_OK; i++)
        status = read_split(root, split_names[i], where, &read.splits[i], error);
    cJSON_Delete(root);
    if (status == WEFT_OK)
        *packed = read;
    return status;
}

weft_status packed_write(const char *directory, const struct packed *packed, struct error *error)
{
    char path[FILE_PATH_BYTES];
    struct json_writer json;
    json_begin(&json, JSON_INDENTED);
    json_open_object(&json, NULL);
    JSON_PUT(&json, "weft", weft_version(), "vocabulary", packed->vocabulary);
    if (*packed->tokenizer)
        json_put_text(&json, "tokenizer", packed->tokenizer);
    for (int i = 0; i < 2; i++)
        JSON_PUT_OBJECT(&json, split_names[i], "tokens", packed->splits[i].tokens, "bytes", packed->splits[i].bytes,
                        "files", packed->splits[i].files);
    json_close(&json);
    const char *text = json_text(&json);
    weft_status status = text ? file_join(path, directory, PACKED_DESCRIPTION, error)
                              : error_memory(error, json_size(&json), "a description of a dataset");
    if (text && status == WEFT_OK)
        status = file_write(path, text, strlen(text), error);
    json_end(&json);
    return status;
}
