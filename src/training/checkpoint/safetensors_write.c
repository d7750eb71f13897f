/* SPDX-License-Identifier: Apache-2.0 */
/* Writing a safetensors file: header, then the elements, hashed while they are written. */
#include "base/file/file.h"
#include "base/format/json.h"
#include "training/checkpoint/safetensors.h"

#include <inttypes.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "elements are stored as they lie in memory: little-endian");

#define NAME_MOST 255 /* bytes of a tensor's name */

#define CHUNK ((uint64_t)16 << 20) /* bytes hashed between two checks for cancellation */

static uint64_t held_bytes(const struct named_tensor *tensor)
{
    return named_tensor_held(tensor) * weft_type_size(tensor->type);
}

static weft_status safetensors_write_check_tensor(const char *path, const struct named_tensor *tensor,
                                                  struct error *error)
{
    size_t width = weft_type_size(tensor->type);
    if (!tensor->name || !*tensor->name || strlen(tensor->name) > NAME_MOST ||
        strcmp(tensor->name, "__metadata__") == 0)
        return error_set(error, WEFT_ERROR_ARGUMENT, "a tensor for '%s' is called '%s', which is not a valid name",
                         path, tensor->name ? tensor->name : "(null)");
    if (width == 0)
        return error_set(error, WEFT_ERROR_ARGUMENT, "tensor '%s' for '%s' has type number %d, which does not exist",
                         tensor->name, path, (int)tensor->type);
    if (tensor->dimensions > NAMED_TENSOR_DIMENSIONS)
        return error_set(error, WEFT_ERROR_ARGUMENT,
                         "tensor '%s' for '%s' has %u dimensions, but at most %d can be stored", tensor->name, path,
                         tensor->dimensions, NAMED_TENSOR_DIMENSIONS);
    uint64_t elements = named_tensor_elements(tensor);
    if (elements > (uint64_t)JSON_EXACT / width)
        return error_set(error, WEFT_ERROR_ARGUMENT, "tensor '%s' for '%s' is too large: its shape overflows",
                         tensor->name, path);
    if (tensor->first > elements || tensor->count > elements - tensor->first)
        return error_set(error, WEFT_ERROR_ARGUMENT,
                         "elements %" PRIu64 " to %" PRIu64 " of tensor '%s' for '%s' do not exist: it has %" PRIu64,
                         tensor->first, tensor->first + tensor->count, tensor->name, path, elements);
    if (!tensor->data && named_tensor_held(tensor) > 0)
        return error_set(error, WEFT_ERROR_ARGUMENT, "tensor '%s' for '%s' has no data", tensor->name, path);
    return WEFT_OK;
}

/* The order in the file: larger element types first, so that each type is aligned; then by name. */
static int by_place(const void *left, const void *right)
{
    const struct named_tensor *a = *(const struct named_tensor *const *)left,
                              *b = *(const struct named_tensor *const *)right;
    size_t a_width = weft_type_size(a->type), b_width = weft_type_size(b->type);
    if (a_width != b_width)
        return a_width > b_width ? -1 : 1;
    return strcmp(a->name, b->name);
}

/* Check all tensors and put them in the order of the file. */
static weft_status put_in_order(const char *path, const struct named_tensor *tensors, size_t count,
                                const struct named_tensor **order, struct error *error)
{
    for (size_t i = 0; i < count; i++) {
        weft_status status = safetensors_write_check_tensor(path, &tensors[i], error);
        if (status != WEFT_OK)
            return status;
    }
    const char *twice = named_tensors_sort(tensors, count, order);
    if (twice)
        return error_set(error, WEFT_ERROR_ARGUMENT, "two tensors for '%s' are called '%s'", path, twice);
    qsort((void *)order, count, sizeof *order, by_place);
    return WEFT_OK;
}

/* "__metadata__": the entry that transformers requires, and the places of pieces. */
static void put_metadata(struct json_writer *header, const struct named_tensor *const *order, size_t count)
{
    json_open_object(header, "__metadata__");
    json_put_text(header, "format", "pt");
    for (size_t i = 0; i < count; i++) {
        const struct named_tensor *tensor = order[i];
        if (named_tensor_is_whole(tensor))
            continue;
        char key[512], place[32 * (NAMED_TENSOR_DIMENSIONS + 1)];
        snprintf(key, sizeof key, "piece %s", tensor->name);
        int length = snprintf(place, sizeof place, "%" PRIu64, tensor->first);
        for (unsigned d = 0; d < tensor->dimensions; d++)
            length += snprintf(place + length, sizeof place - (size_t)length, " %" PRIu64, tensor->shape[d]);
        json_put_text(header, key, place);
    }
    json_close(header);
}

/* The header with its size before it, padded so that the elements begin at a multiple of 8. */
static weft_status make_header(const struct named_tensor *const *order, size_t count, char **bytes, uint64_t *size,
                               struct error *error)
{
    struct json_writer header;
    json_begin_line(&header);
    put_metadata(&header, order, count);
    uint64_t offset = 0;
    for (size_t i = 0; i < count; i++) {
        const struct named_tensor *tensor = order[i];
        json_open_object(&header, tensor->name);
        json_put_text(&header, "dtype", safetensors_type_name(tensor->type));
        json_open_array(&header, "shape");
        if (named_tensor_is_whole(tensor))
            for (unsigned d = 0; d < tensor->dimensions; d++)
                json_put_unsigned(&header, NULL, tensor->shape[d]);
        else
            json_put_unsigned(&header, NULL, named_tensor_held(tensor));
        json_close(&header);
        json_open_array(&header, "data_offsets");
        json_put_unsigned(&header, NULL, offset);
        offset += held_bytes(tensor);
        json_put_unsigned(&header, NULL, offset);
        json_close(&header);
        json_close(&header);
    }
    json_close(&header);
    uint64_t padded = (json_size(&header) + 7) / 8 * 8;
    char *made = json_text(&header) ? malloc(8 + padded) : NULL;
    if (made) {
        memcpy(made, &padded, 8);
        memcpy(made + 8, json_text(&header), json_size(&header));
        memset(made + 8 + json_size(&header), ' ', padded - json_size(&header));
        *bytes = made;
        *size = 8 + padded;
    }
    json_end(&header);
    return made ? WEFT_OK : error_memory(error, padded, "the header of a safetensors file");
}

/* ---- elements ---- */

/* The contents of a file, read by both the writer and the hasher. */
struct safetensors_write_content {
    const char *header;
    uint64_t header_size;
    const struct named_tensor *const *order;
    size_t count;
};

/* Hashing takes as long as writing to memory or a fast disk, so it runs in parallel on its own thread. */
struct hasher {
    const struct safetensors_write_content *content;
    atomic_bool stop; /* writing failed: the digest is not needed */
    weft_status status;
    uint8_t digest[SHA256_BYTES];
    struct error error;
};

static void *hash_content(void *argument)
{
    struct hasher *hasher = argument;
    const struct safetensors_write_content *content = hasher->content;
    struct sha256 hash;
    hasher->status = sha256_begin(&hash, &hasher->error);
    if (hasher->status != WEFT_OK)
        return NULL;
    sha256_update(&hash, content->header, content->header_size);
    for (size_t i = 0; i < content->count; i++) {
        const char *bytes = content->order[i]->data;
        uint64_t size = held_bytes(content->order[i]);
        for (uint64_t done = 0; done < size && !atomic_load(&hasher->stop); done += CHUNK)
            sha256_update(&hash, bytes + done, size - done < CHUNK ? size - done : CHUNK);
    }
    hasher->status = sha256_end(&hash, hasher->digest, &hasher->error);
    return NULL;
}

static weft_status write_content(const char *path, const struct safetensors_write_content *content, uint64_t *size,
                                 struct error *error)
{
    uint64_t expected = content->header_size;
    for (size_t i = 0; i < content->count; i++)
        expected += held_bytes(content->order[i]);
    struct file_writer writer;
    weft_status status = file_writer_open(&writer, path, expected, error);
    if (status != WEFT_OK)
        return status;
    status = file_writer_append(&writer, content->header, content->header_size, error);
    for (size_t i = 0; i < content->count && status == WEFT_OK; i++)
        status = file_writer_append(&writer, content->order[i]->data, held_bytes(content->order[i]), error);
    if (status != WEFT_OK) {
        file_writer_discard(&writer);
        return status;
    }
    *size = expected;
    return file_writer_close(&writer, error);
}

/* Write and hash at the same time, or one after the other if no thread can be created. */
static weft_status write_and_hash(const char *path, const struct safetensors_write_content *content,
                                  struct file_digest *digest, struct error *error)
{
    struct hasher hasher = {.content = content};
    pthread_t thread;
    uint64_t size = 0;
    bool apart = pthread_create(&thread, NULL, hash_content, &hasher) == 0;
    weft_status status = write_content(path, content, &size, error);
    if (status != WEFT_OK)
        atomic_store(&hasher.stop, true);
    if (apart)
        pthread_join(thread, NULL);
    else if (status == WEFT_OK)
        hash_content(&hasher);
    if (status != WEFT_OK)
        return status;
    if (hasher.status != WEFT_OK) {
        unlink(path);
        return error_set(error, hasher.status, "%s", hasher.error.text);
    }
    digest->bytes = size;
    memcpy(digest->sha256, hasher.digest, sizeof hasher.digest);
    return WEFT_OK;
}

/* One tensor, piece by piece. */
static weft_status write_taken(struct file_writer *writer, struct sha256 *hash, const struct named_tensor *tensor,
                               const struct byte_source *source, struct error *error)
{
    const char *bytes = tensor->data;
    uint64_t size = held_bytes(tensor);
    weft_status status = WEFT_OK;
    for (uint64_t done = 0; done < size && status == WEFT_OK; done += SAFETENSORS_PIECE) {
        uint64_t piece = size - done < SAFETENSORS_PIECE ? size - done : SAFETENSORS_PIECE;
        const void *taken = source->acquire(source->owner, bytes + done, piece);
        if (!taken)
            return error_set(error, WEFT_ERROR_ABORTED, "writing '%s' was canceled", writer->path);
        sha256_update(hash, taken, piece);
        status = file_writer_append(writer, taken, piece, error);
        source->release(source->owner, bytes + done, piece);
    }
    return status;
}

/* Alternate between hashing and writing: see safetensors_write_from(). */
static weft_status write_from(const char *path, const struct safetensors_write_content *content,
                              const struct byte_source *source, struct file_digest *digest, struct error *error)
{
    uint64_t expected = content->header_size;
    for (size_t i = 0; i < content->count; i++)
        expected += held_bytes(content->order[i]);
    struct sha256 hash;
    struct file_writer writer;
    struct file_digest made = {.bytes = expected};
    weft_status status = sha256_begin(&hash, error);
    if (status != WEFT_OK)
        return status;
    status = file_writer_open(&writer, path, expected, error);
    if (status != WEFT_OK) {
        sha256_end(&hash, NULL, NULL);
        return status;
    }
    file_writer_bypass_cache(&writer); /* the processor and the memory are training's */
    sha256_update(&hash, content->header, content->header_size);
    status = file_writer_append(&writer, content->header, content->header_size, error);
    for (size_t i = 0; i < content->count && status == WEFT_OK; i++)
        status = write_taken(&writer, &hash, content->order[i], source, error);
    weft_status hashed = sha256_end(&hash, status == WEFT_OK ? made.sha256 : NULL, status == WEFT_OK ? error : NULL);
    status = status == WEFT_OK ? hashed : status;
    if (status != WEFT_OK) {
        file_writer_discard(&writer);
        return status;
    }
    status = file_writer_close(&writer, error);
    if (status == WEFT_OK)
        *digest = made;
    return status;
}

static weft_status safetensors_write_file(const char *path, const struct named_tensor *tensors, size_t count,
                                          const struct byte_source *source, struct file_digest *digest,
                                          struct error *error)
{
    const struct named_tensor **order = malloc((count + 1) * sizeof *order);
    if (!order)
        return error_memory(error, count * sizeof *order, "a list of tensors");
    char *header = NULL;
    struct safetensors_write_content content = {.order = order, .count = count};
    weft_status status = put_in_order(path, tensors, count, order, error);
    if (status == WEFT_OK)
        status = make_header(order, count, &header, &content.header_size, error);
    content.header = header;
    if (status == WEFT_OK)
        status =
            source ? write_from(path, &content, source, digest, error) : write_and_hash(path, &content, digest, error);
    free(header);
    free((void *)order);
    return status;
}

weft_status safetensors_write(const char *path, const struct named_tensor *tensors, size_t count,
                              struct file_digest *digest, struct error *error)
{
    return safetensors_write_file(path, tensors, count, NULL, digest, error);
}

weft_status safetensors_write_from(const char *path, const struct named_tensor *tensors, size_t count,
                                   const struct byte_source *source, struct file_digest *digest, struct error *error)
{
    return safetensors_write_file(path, tensors, count, source, digest, error);
}
