/* SPDX-License-Identifier: Apache-2.0 */
#include "training/checkpoint/manifest.h"

#include "base/format/json_put.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define FORMAT          "weft-checkpoint"
#define FILE_ENDING     ".safetensors"
#define CHECKSUM_BEFORE ",\n  \"checksum\": \""
#define CHECKSUM_AFTER  "\"\n}\n"
#define CHECKSUM_BYTES  (sizeof CHECKSUM_BEFORE - 1 + SHA256_TEXT_BYTES - 1 + sizeof CHECKSUM_AFTER - 1)

bool manifest_file_has_tensors(const char *name)
{
    static const char *const others[] = {CHECKPOINT_INDEX, CHECKPOINT_VOCABULARY, CHECKPOINT_MERGES,
                                         CHECKPOINT_WORDPIECES, CHECKPOINT_TOKENIZER_CONFIG};
    for (size_t i = 0; i < ARRAY_SIZE(others); i++)
        if (strcmp(name, others[i]) == 0)
            return false;
    return true;
}

bool manifest_file_name_is_good(const char *name)
{
    size_t length = strlen(name), ending = strlen(FILE_ENDING);
    if (!manifest_file_has_tensors(name))
        return true;
    return length > ending && length < CHECKPOINT_FILE_NAME_BYTES && strcmp(name + length - ending, FILE_ENDING) == 0 &&
           strspn(name, "abcdefghijklmnopqrstuvwxyz0123456789-") == length - ending;
}

/* ---- writing ---- */

void manifest_put_files(struct json_writer *writer, const struct checkpoint_record *records, size_t count)
{
    char digest[SHA256_TEXT_BYTES];
    json_open_array(writer, "files");
    for (size_t i = 0; i < count; i++)
        JSON_PUT_OBJECT(writer, NULL, "name", records[i].name, "bytes", records[i].digest.bytes, "sha256",
                        sha256_text(records[i].digest.sha256, digest));
    json_close(writer);
}

/* The text up to where the checksum goes: the outermost object is still open. */
static void manifest_put_body(struct json_writer *body, const struct checkpoint_state *state,
                              const struct checkpoint_record *records, size_t count)
{
    json_open_object(body, NULL);
    JSON_PUT(body, "format", FORMAT, "version", CHECKPOINT_MANIFEST_VERSION, "library", weft_version(), "step",
             state->step, "position", state->position, "seed", state->seed);
    json_put_tree(body, "model", state->model);
    if (state->training)
        json_put_tree(body, "training", state->training);
    manifest_put_files(body, records, count);
}

weft_status manifest_seal(const char *body, size_t size, char **text, struct error *error)
{
    uint8_t digest[SHA256_BYTES];
    char digits[SHA256_TEXT_BYTES];
    weft_status status = sha256_of(body, size, digest, error);
    if (status != WEFT_OK)
        return status;
    char *sealed = malloc(size + CHECKSUM_BYTES + 1);
    if (!sealed)
        return error_memory(error, size + CHECKSUM_BYTES + 1, "a checkpoint's manifest");
    memcpy(sealed, body, size);
    snprintf(sealed + size, CHECKSUM_BYTES + 1, "%s%s%s", CHECKSUM_BEFORE, sha256_text(digest, digits), CHECKSUM_AFTER);
    *text = sealed;
    return WEFT_OK;
}

weft_status manifest_format(const struct checkpoint_state *state, const struct checkpoint_record *records, size_t count,
                            char **text, struct error *error)
{
    if (!cJSON_IsObject(state->model) || (state->training && !cJSON_IsObject(state->training)))
        return error_set(error, WEFT_ERROR_ARGUMENT, "the configuration of a checkpoint's %s is not a JSON object",
                         cJSON_IsObject(state->model) ? "training" : "model");
    struct json_writer body;
    json_begin(&body, JSON_INDENTED);
    manifest_put_body(&body, state, records, count);
    weft_status status = json_text(&body) ? manifest_seal(json_text(&body), json_size(&body), text, error)
                                          : error_memory(error, json_size(&body), "a checkpoint's manifest");
    json_end(&body);
    return status;
}

/* ---- reading ---- */

static weft_status check_checksum(const char *text, size_t size, const char *where, struct error *error)
{
    if (size < CHECKSUM_BYTES)
        return error_set(error, WEFT_ERROR_DATA, "%s has only %zu bytes and no checksum; it is truncated", where, size);
    const char *end = text + size - CHECKSUM_BYTES;
    const char *digits = end + sizeof CHECKSUM_BEFORE - 1, *after = digits + SHA256_TEXT_BYTES - 1;
    if (memcmp(end, CHECKSUM_BEFORE, sizeof CHECKSUM_BEFORE - 1) != 0 ||
        memcmp(after, CHECKSUM_AFTER, sizeof CHECKSUM_AFTER - 1) != 0)
        return error_set(error, WEFT_ERROR_DATA,
                         "%s does not end in its checksum; it is truncated, damaged or was edited", where);
    uint8_t digest[SHA256_BYTES];
    char computed[SHA256_TEXT_BYTES];
    weft_status status = sha256_of(text, (size_t)(end - text), digest, error);
    if (status != WEFT_OK)
        return status;
    if (memcmp(sha256_text(digest, computed), digits, SHA256_TEXT_BYTES - 1) != 0)
        return error_set(error, WEFT_ERROR_DATA,
                         "%s is damaged or was edited: its SHA-256 is %s, but its last line says %.64s", where,
                         computed, digits);
    return WEFT_OK;
}

static weft_status manifest_read_record(const cJSON *entry, const char *where, struct checkpoint_record *record,
                                        struct error *error)
{
    const char *name, *digest;
    char what[512];
    snprintf(what, sizeof what, "a file's entry in %s", where);
    weft_status status = json_get_text(entry, "name", what, &name, error);
    if (status == WEFT_OK)
        status = json_get_unsigned(entry, "bytes", what, &record->digest.bytes, error);
    if (status == WEFT_OK)
        status = json_get_text(entry, "sha256", what, &digest, error);
    if (status != WEFT_OK)
        return status;
    if (!manifest_file_name_is_good(name))
        return error_set(error, WEFT_ERROR_DATA,
                         "%s lists a file '%.100s', which is not a valid name for a checkpoint's file", where, name);
    if (!sha256_parse(digest, record->digest.sha256))
        return error_set(error, WEFT_ERROR_DATA, "the SHA-256 of '%s' in %s is not 64 hexadecimal digits", name, where);
    snprintf(record->name, sizeof record->name, "%s", name);
    return WEFT_OK;
}

static weft_status read_records(const cJSON *files, const char *where, struct manifest *manifest, struct error *error)
{
    size_t count = (size_t)cJSON_GetArraySize(files);
    if (count == 0)
        return error_set(error, WEFT_ERROR_DATA, "%s lists no files", where);
    manifest->records = calloc(count, sizeof *manifest->records);
    if (!manifest->records)
        return error_memory(error, count * sizeof *manifest->records, "a list of files");
    for (const cJSON *entry = files->child; entry; entry = entry->next) {
        struct checkpoint_record *record = &manifest->records[manifest->count];
        weft_status status = manifest_read_record(entry, where, record, error);
        if (status != WEFT_OK)
            return status;
        for (size_t i = 0; i < manifest->count; i++)
            if (strcmp(manifest->records[i].name, record->name) == 0)
                return error_set(error, WEFT_ERROR_DATA, "%s lists '%s' twice", where, record->name);
        manifest->count++;
    }
    return WEFT_OK;
}

static weft_status manifest_read_state(const cJSON *root, const char *where, struct checkpoint_state *state,
                                       struct error *error)
{
    weft_status status = json_get_unsigned(root, "step", where, &state->step, error);
    if (status == WEFT_OK)
        status = json_get_unsigned(root, "position", where, &state->position, error);
    if (status == WEFT_OK)
        status = json_get_unsigned(root, "seed", where, &state->seed, error);
    if (status == WEFT_OK)
        status = json_get_object(root, "model", where, &state->model, error);
    if (status == WEFT_OK && cJSON_GetObjectItemCaseSensitive(root, "training"))
        status = json_get_object(root, "training", where, &state->training, error);
    return status;
}

static weft_status manifest_read_root(const char *where, struct manifest *manifest, struct error *error)
{
    const char *format;
    int64_t version;
    const cJSON *files;
    weft_status status = json_get_text(manifest->root, "format", where, &format, error);
    if (status != WEFT_OK)
        return status;
    if (strcmp(format, FORMAT) != 0)
        return error_set(error, WEFT_ERROR_DATA, "%s has format '%.100s', not '%s'; it is not a Weft checkpoint", where,
                         format, FORMAT);
    status = json_get_integer(manifest->root, "version", where, 1, JSON_EXACT, &version, error);
    if (status != WEFT_OK)
        return status;
    if (version != CHECKPOINT_MANIFEST_VERSION)
        return error_set(error, WEFT_ERROR_DATA,
                         "%s has version %lld, but this Weft (%s) reads version %d; use a newer Weft", where,
                         (long long)version, weft_version(), CHECKPOINT_MANIFEST_VERSION);
    status = json_get_text(manifest->root, "library", where, &manifest->library, error);
    if (status == WEFT_OK)
        status = manifest_read_state(manifest->root, where, &manifest->state, error);
    if (status == WEFT_OK)
        status = json_get_array(manifest->root, "files", where, &files, error);
    if (status == WEFT_OK)
        status = read_records(files, where, manifest, error);
    return status;
}

weft_status manifest_parse(const char *text, size_t size, const char *where, struct manifest *manifest,
                           struct error *error)
{
    struct manifest parsed = {0};
    weft_status status = check_checksum(text, size, where, error);
    if (status == WEFT_OK)
        status = json_parse(text, size, where, &parsed.root, error);
    if (status == WEFT_OK)
        status = manifest_read_root(where, &parsed, error);
    if (status != WEFT_OK) {
        manifest_free(&parsed);
        return status;
    }
    *manifest = parsed;
    return WEFT_OK;
}

void manifest_free(struct manifest *manifest)
{
    free(manifest->records);
    cJSON_Delete(manifest->root);
    *manifest = (struct manifest){0};
}
