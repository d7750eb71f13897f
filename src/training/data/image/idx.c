/* SPDX-License-Identifier: Apache-2.0 */
#include "training/data/image/idx.h"
#include "base/file/file.h"

#include <inttypes.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include <zlib.h>

#define IDX_FILE_MOST   ((size_t)16 << 30) /* bytes */
#define IDX_TYPE_BYTES  8                  /* the type of unsigned bytes */
#define IDX_EXPANSION   1032u              /* zlib's technical notes: deflate makes at most so many bytes of one */
#define IDX_GZIP_WINDOW (15 + 16)          /* zlib's: the largest window, with gzip's header */
#define IDX_CHUNK       (1u << 30)         /* bytes that zlib is given at once */

/* Bytes in sequence, from memory or from zlib. */
struct idx_input {
    const uint8_t *bytes;
    size_t size, at;
    bool compressed;
    z_stream stream;
    const char *path;
};

static weft_status idx_cut(const struct idx_input *input, struct error *error)
{
    return error_set(error, WEFT_ERROR_DATA, "the idx file '%s' is truncated; get it again", input->path);
}

static bool idx_is_gzip(const uint8_t *bytes, size_t size)
{
    return size >= 2 && bytes[0] == 0x1f && bytes[1] == 0x8b;
}

/* Take up to `size` bytes; `*taken` is less at the end of the input. */
static weft_status idx_take(struct idx_input *input, void *into, size_t size, size_t *taken, struct error *error)
{
    if (!input->compressed) {
        *taken = size < input->size - input->at ? size : input->size - input->at;
        memcpy(into, input->bytes + input->at, *taken);
        input->at += *taken;
        return WEFT_OK;
    }
    z_stream *stream = &input->stream;
    int code = Z_OK;
    *taken = 0;
    while (*taken < size && code == Z_OK) {
        const size_t left = input->size - input->at, room = size - *taken;
        const uInt in = left < IDX_CHUNK ? (uInt)left : IDX_CHUNK, out = room < IDX_CHUNK ? (uInt)room : IDX_CHUNK;
        stream->next_in = (Bytef *)(input->bytes + input->at);
        stream->avail_in = in;
        stream->next_out = (Bytef *)into + *taken;
        stream->avail_out = out;
        code = inflate(stream, Z_NO_FLUSH);
        input->at += in - stream->avail_in;
        *taken += out - stream->avail_out;
        /* A file may have several compressed parts, one after another. */
        if (code == Z_STREAM_END && idx_is_gzip(input->bytes + input->at, input->size - input->at))
            code = inflateReset(stream);
    }
    if (code == Z_BUF_ERROR)
        return idx_cut(input, error);
    if (code != Z_OK && code != Z_STREAM_END)
        return error_set(error, WEFT_ERROR_DATA, "cannot decompress '%s': %s; get it again", input->path,
                         stream->msg ? stream->msg : "it is damaged");
    return WEFT_OK;
}

static uint32_t idx_number(const uint8_t *bytes)
{
    return (uint32_t)bytes[0] << 24 | (uint32_t)bytes[1] << 16 | (uint32_t)bytes[2] << 8 | bytes[3];
}

/* The header, and how many values follow it. */
static weft_status idx_read_header(struct idx_input *input, struct idx *idx, uint64_t *count, struct error *error)
{
    uint8_t magic[4], sizes[4 * IDX_DIMENSIONS_MOST] = {0};
    size_t taken;
    weft_status status = idx_take(input, magic, sizeof magic, &taken, error);
    if (status != WEFT_OK)
        return status;
    if (taken < sizeof magic || magic[0] || magic[1] || magic[2] != IDX_TYPE_BYTES || magic[3] == 0 ||
        magic[3] > IDX_DIMENSIONS_MOST)
        return error_set(
            error, WEFT_ERROR_DATA,
            "'%s' is not an idx file of bytes with 1 to %u dimensions, which would begin with 00 00 08; get "
            "it again",
            input->path, IDX_DIMENSIONS_MOST);
    idx->dimensions = magic[3];
    const size_t bytes = (size_t)idx->dimensions * 4;
    status = idx_take(input, sizes, bytes, &taken, error);
    if (status == WEFT_OK && taken < bytes)
        status = idx_cut(input, error);
    const uint64_t most = (uint64_t)input->size * (input->compressed ? IDX_EXPANSION : 1);
    *count = 1;
    for (uint32_t i = 0; i < idx->dimensions && status == WEFT_OK; i++) {
        idx->sizes[i] = idx_number(sizes + (size_t)i * 4);
        if (idx->sizes[i] == 0)
            status = error_set(error, WEFT_ERROR_DATA, "dimension %" PRIu32 " of the idx file '%s' is 0; get it again",
                               i + 1, input->path);
        else if (idx->sizes[i] > most / *count)
            status = error_set(error, WEFT_ERROR_DATA,
                               "the header of the idx file '%s' gives more values than its %zu bytes can hold; get it "
                               "again",
                               input->path, input->size);
        else
            *count *= idx->sizes[i];
    }
    return status;
}

static weft_status idx_read_values(struct idx_input *input, struct idx *idx, struct error *error)
{
    uint64_t count = 1;
    size_t taken;
    uint8_t more;
    weft_status status = idx_read_header(input, idx, &count, error);
    if (status != WEFT_OK)
        return status;
    idx->values = malloc(count);
    if (!idx->values)
        return error_memory(error, count, "the values of an idx file");
    status = idx_take(input, idx->values, count, &taken, error);
    if (status == WEFT_OK && taken < count)
        status = idx_cut(input, error);
    if (status == WEFT_OK)
        status = idx_take(input, &more, 1, &taken, error);
    if (status == WEFT_OK && taken > 0)
        status = error_set(error, WEFT_ERROR_DATA,
                           "the idx file '%s' has more than the %" PRIu64 " values that its header gives; get it again",
                           input->path, count);
    return status;
}

weft_status idx_parse(const void *bytes, size_t size, const char *path, struct idx *idx, struct error *error)
{
    struct idx_input input = {.bytes = bytes, .size = size, .path = path};
    *idx = (struct idx){0};
    input.compressed = idx_is_gzip(bytes, size);
    if (input.compressed && inflateInit2(&input.stream, IDX_GZIP_WINDOW) != Z_OK)
        return error_set(error, WEFT_ERROR_MEMORY, "no memory to decompress '%s'", path);
    weft_status status = idx_read_values(&input, idx, error);
    if (input.compressed)
        inflateEnd(&input.stream);
    if (status != WEFT_OK)
        idx_free(idx);
    return status;
}

weft_status idx_read(const char *path, struct idx *idx, struct error *error)
{
    char *content;
    size_t size;
    weft_status status = file_read(path, IDX_FILE_MOST, &content, &size, error);
    if (status != WEFT_OK)
        return status;
    status = idx_parse(content, size, path, idx, error);
    free(content);
    return status;
}

void idx_free(struct idx *idx)
{
    free(idx->values);
    *idx = (struct idx){0};
}
