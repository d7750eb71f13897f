/* SPDX-License-Identifier: Apache-2.0 */
/* Reading from an opened checkpoint: state, ranges of tensors, the hash; checks against what the caller expects. */
#include "base/format/json.h"
#include "training/checkpoint/internal/opened.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

const char *checkpoint_directory(const struct checkpoint *checkpoint)
{
    return checkpoint->directory;
}

const struct checkpoint_state *checkpoint_get_state(const struct checkpoint *checkpoint)
{
    return &checkpoint->manifest.state;
}

const char *checkpoint_library(const struct checkpoint *checkpoint)
{
    return checkpoint->manifest.library;
}

const struct checkpoint_record *checkpoint_files(const struct checkpoint *checkpoint, size_t *count)
{
    *count = checkpoint->manifest.count;
    return checkpoint->manifest.records;
}

const struct named_tensor *checkpoint_tensors(const struct checkpoint *checkpoint, size_t *count)
{
    *count = checkpoint->tensor_count;
    return checkpoint->tensors;
}

const char *checkpoint_where(const struct checkpoint *checkpoint, const char *name)
{
    for (size_t i = 0; i < checkpoint->manifest.count; i++) {
        const struct safetensors *file = checkpoint->files[i].tensors;
        for (size_t j = 0; file && j < safetensors_count(file); j++)
            if (strcmp(safetensors_tensor(file, j)->name, name) == 0)
                return safetensors_where(file);
    }
    return NULL;
}

/* ---- comparing ---- */

/* The first key of `object` whose value in `other` differs or is missing. */
static const cJSON *first_difference(const cJSON *object, const cJSON *other)
{
    for (const cJSON *item = object->child; item; item = item->next)
        if (!cJSON_Compare(item, cJSON_GetObjectItemCaseSensitive(other, item->string), true))
            return item;
    return NULL;
}

weft_status checkpoint_match_model(const struct checkpoint *checkpoint, const cJSON *model, struct error *error)
{
    const cJSON *stored = checkpoint->manifest.state.model;
    const cJSON *different = first_difference(model, stored);
    if (!different)
        different = first_difference(stored, model);
    if (!different)
        return WEFT_OK;
    const char *key = different->string;
    char *there = cJSON_PrintUnformatted(cJSON_GetObjectItemCaseSensitive(stored, key));
    char *here = cJSON_PrintUnformatted(cJSON_GetObjectItemCaseSensitive(model, key));
    error_set(error, WEFT_ERROR_DATA, "the checkpoint '%s' is of another model: its %s is %s, but here it is %s",
              checkpoint->directory, key, there ? there : "not set", here ? here : "not set");
    cJSON_free(there);
    cJSON_free(here);
    return WEFT_ERROR_DATA;
}

static int checkpoint_read_by_name(const void *key, const void *tensor)
{
    return strcmp(key, ((const struct named_tensor *)tensor)->name);
}

/* The checkpoint's tensor that `wanted` asks for, compared with it. */
static weft_status checkpoint_find_tensor(const struct checkpoint *checkpoint, const struct named_tensor *wanted,
                                          size_t *index, struct error *error)
{
    const struct named_tensor *found = NULL;
    if (checkpoint->tensor_count > 0)
        found = bsearch(wanted->name, checkpoint->tensors, checkpoint->tensor_count, sizeof *found,
                        checkpoint_read_by_name);
    if (!found)
        return error_set(error, WEFT_ERROR_DATA, "the checkpoint '%s' is of another model: it has no tensor '%s'",
                         checkpoint->directory, wanted->name);
    char there[256], here[256];
    if (found->type != wanted->type || !named_tensor_same_shape(found, wanted))
        return error_set(error, WEFT_ERROR_DATA,
                         "the checkpoint '%s' is of another model: its tensor '%s' is %s %s, but here it is %s %s",
                         checkpoint->directory, wanted->name, weft_type_name(found->type),
                         named_tensor_shape_text(found, there, sizeof there), weft_type_name(wanted->type),
                         named_tensor_shape_text(wanted, here, sizeof here));
    uint64_t elements = named_tensor_elements(found);
    if (wanted->first > elements || wanted->count > elements - wanted->first)
        return error_set(error, WEFT_ERROR_ARGUMENT,
                         "elements %" PRIu64 " to %" PRIu64 " of tensor '%s' are wanted, but it has %" PRIu64,
                         wanted->first, wanted->first + wanted->count, wanted->name, elements);
    *index = (size_t)(found - checkpoint->tensors);
    return WEFT_OK;
}

/* ---- copying ---- */

/* Copy the intersection of `piece` and `wanted`. */
static void copy_common(const struct named_tensor *piece, const struct named_tensor *wanted)
{
    uint64_t piece_end = piece->first + named_tensor_held(piece),
             wanted_end = wanted->first + named_tensor_held(wanted);
    uint64_t begin = piece->first > wanted->first ? piece->first : wanted->first;
    uint64_t end = piece_end < wanted_end ? piece_end : wanted_end;
    if (begin >= end)
        return;
    size_t width = weft_type_size(piece->type);
    memcpy((char *)wanted->data + (begin - wanted->first) * width,
           (const char *)piece->data + (begin - piece->first) * width, (end - begin) * width);
}

weft_status checkpoint_read(const struct checkpoint *checkpoint, const struct named_tensor *wanted, size_t count,
                            struct error *error)
{
    size_t index = 0;
    for (size_t i = 0; i < count; i++) {
        weft_status status = checkpoint_find_tensor(checkpoint, &wanted[i], &index, error);
        if (status != WEFT_OK)
            return status;
    }
    for (size_t i = 0; i < count; i++) {
        checkpoint_find_tensor(checkpoint, &wanted[i], &index, NULL);
        for (size_t p = checkpoint->first_pieces[index]; p < checkpoint->first_pieces[index + 1]; p++)
            copy_common(checkpoint->pieces[p], &wanted[i]);
    }
    return WEFT_OK;
}

/* ---- the hash ---- */

#define HASH_HEADING "weft tensors 1\n"

static void tensor_hash_put_number(struct sha256 *hash, uint64_t number)
{
    sha256_update(hash, &number, sizeof number);
}

static void tensor_hash_put_text(struct sha256 *hash, const char *text)
{
    tensor_hash_put_number(hash, strlen(text));
    sha256_update(hash, text, strlen(text));
}

static void tensor_hash_describe(struct sha256 *hash, const struct named_tensor *tensor)
{
    tensor_hash_put_text(hash, tensor->name);
    tensor_hash_put_text(hash, weft_type_name(tensor->type));
    tensor_hash_put_number(hash, tensor->dimensions);
    for (unsigned i = 0; i < tensor->dimensions; i++)
        tensor_hash_put_number(hash, tensor->shape[i]);
}

weft_status checkpoint_hash(const struct checkpoint *checkpoint, uint8_t digest[SHA256_BYTES], struct error *error)
{
    struct sha256 hash;
    weft_status status = sha256_begin(&hash, error);
    if (status != WEFT_OK)
        return status;
    sha256_update(&hash, HASH_HEADING, strlen(HASH_HEADING));
    for (size_t i = 0; i < checkpoint->tensor_count; i++) {
        tensor_hash_describe(&hash, &checkpoint->tensors[i]);
        for (size_t p = checkpoint->first_pieces[i]; p < checkpoint->first_pieces[i + 1]; p++) {
            const struct named_tensor *piece = checkpoint->pieces[p];
            sha256_update(&hash, piece->data, named_tensor_held(piece) * weft_type_size(piece->type));
        }
    }
    return sha256_end(&hash, digest, error);
}
