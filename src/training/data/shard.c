/* SPDX-License-Identifier: Apache-2.0 */
#include "training/data/shard.h"

#include <endian.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define LLMC_MAGIC        20240520u
#define LLMC_VERSION      1u
#define LLMC_WIDE_MAGIC   20240801u
#define LLMC_WIDE_VERSION 7u

static const struct {
    const char *name, *reason;
    uint64_t vocabulary;
} formats[] = {
    [SHARD_BYTES] = {"bytes", "the name does not end in .bin and there is no shard header", 256},
    [SHARD_NANOGPT] = {"nanoGPT's 16-bit token shards", "the name ends in .bin and there is no shard header", 50257},
    [SHARD_LLMC] = {"llm.c's 16-bit token shards", "the header has magic number 20240520", 50257},
    [SHARD_TEXT] = {"text", "it is encoded with the model's tokenizer", 0},
    [SHARD_LLMC_WIDE] = {"llm.c's 32-bit token shards", "the header has magic number 20240801", 128256},
};

const char *shard_format_name(enum shard_format format)
{
    return formats[format].name;
}

const char *shard_format_reason(enum shard_format format)
{
    return formats[format].reason;
}

uint64_t shard_format_vocabulary(enum shard_format format)
{
    return formats[format].vocabulary;
}

/* Word `index` of an llm.c header. */
static uint32_t header_word(const uint8_t *bytes, size_t index)
{
    uint32_t word;
    memcpy(&word, bytes + index * sizeof word, sizeof word);
    return le32toh(word);
}

/* A file that begins with one of llm.c's magic numbers. */
static weft_status recognise_llmc(const char *path, const uint8_t *bytes, uint64_t size, struct shard_layout *layout,
                                  struct error *error)
{
    uint32_t magic = header_word(bytes, 0);
    bool wide = magic == LLMC_WIDE_MAGIC;
    if (size < SHARD_HEADER_BYTES)
        return error_set(error, WEFT_ERROR_DATA,
                         "'%s' begins like a token shard of llm.c (magic number %u) but ends after %" PRIu64
                         " bytes, within its header of %d; it is truncated",
                         path, magic, size, SHARD_HEADER_BYTES);
    uint32_t version = header_word(bytes, 1), expected = wide ? LLMC_WIDE_VERSION : LLMC_VERSION;
    if (version != expected)
        return error_set(
            error, WEFT_ERROR_DATA,
            "'%s' is a token shard of llm.c with magic number %u and version %u, but only version %u is known", path,
            magic, version, expected);
    unsigned width = wide ? 4 : 2;
    uint64_t count = header_word(bytes, 2), held = size - SHARD_HEADER_BYTES;
    if (count * width != held)
        return error_set(error, WEFT_ERROR_DATA,
                         "the header of '%s' states %" PRIu64 " tokens of %u bytes, but %" PRIu64
                         " bytes follow it instead of %" PRIu64 "; it is truncated or damaged",
                         path, count, width, held, count * width);
    *layout = (struct shard_layout){wide ? SHARD_LLMC_WIDE : SHARD_LLMC, width, SHARD_HEADER_BYTES, count};
    return WEFT_OK;
}

weft_status shard_recognize(const char *path, const uint8_t *bytes, uint64_t size, struct shard_layout *layout,
                            struct error *error)
{
    if (size == 0)
        return error_set(error, WEFT_ERROR_DATA, "'%s' is empty; a dataset needs tokens", path);
    if (size >= sizeof(uint32_t)) {
        uint32_t magic = header_word(bytes, 0);
        if (magic == LLMC_MAGIC || magic == LLMC_WIDE_MAGIC)
            return recognise_llmc(path, bytes, size, layout, error);
    }
    size_t length = strlen(path);
    if (length < 4 || strcmp(path + length - 4, ".bin") != 0) {
        *layout = (struct shard_layout){SHARD_BYTES, 1, 0, size};
        return WEFT_OK;
    }
    if (size % 2 != 0)
        return error_set(
            error, WEFT_ERROR_DATA,
            "'%s' ends in .bin and has no header, so it should hold 16-bit tokens, but its size of %" PRIu64
            " bytes is odd; it is truncated, or it is text and should have another name",
            path, size);
    *layout = (struct shard_layout){SHARD_NANOGPT, 2, 0, size / 2};
    return WEFT_OK;
}

void shard_header_write(uint8_t header[SHARD_HEADER_BYTES], enum shard_format format, uint64_t count)
{
    bool wide = format == SHARD_LLMC_WIDE;
    const uint32_t words[] = {
        htole32(wide ? LLMC_WIDE_MAGIC : LLMC_MAGIC),
        htole32(wide ? LLMC_WIDE_VERSION : LLMC_VERSION),
        htole32((uint32_t)count),
    };
    memset(header, 0, SHARD_HEADER_BYTES);
    memcpy(header, words, sizeof words);
}

weft_status shard_open(const char *path, struct shard *shard, struct error *error)
{
    struct shard opened = {0};
    uint8_t header[SHARD_HEADER_BYTES];
    uint64_t size;
    weft_status status = file_open(path, &opened.descriptor, &size, error);
    if (status != WEFT_OK)
        return status;
    status = file_read_at(opened.descriptor, path, size, 0, header, size < sizeof header ? size : sizeof header, error);
    if (status == WEFT_OK)
        status = shard_recognize(path, header, size, &opened.layout, error);
    if (status == WEFT_OK && !(opened.path = strdup(path)))
        status = error_memory(error, strlen(path) + 1, "a path");
    if (status != WEFT_OK) {
        close(opened.descriptor);
        return status;
    }
    *shard = opened;
    return WEFT_OK;
}

void shard_close(struct shard *shard)
{
    if (shard->path && shard->descriptor >= 0)
        close(shard->descriptor);
    if (shard->layout.format == SHARD_TEXT)
        free((void *)(uintptr_t)shard->bytes);
    free(shard->path);
    shard->path = NULL;
}

/* `from` may be the end of `output`: the write position never overtakes the read position. */
static uint32_t decode_tokens(const uint8_t *from, unsigned width, uint64_t count, int32_t *output)
{
    uint32_t highest = 0, token;
    uint16_t half;
    for (uint64_t i = 0; i < count; i++) {
        if (width == 1) {
            token = from[i];
        } else if (width == 2) {
            memcpy(&half, from + 2 * i, sizeof half);
            token = le16toh(half);
        } else {
            memcpy(&token, from + 4 * i, sizeof token);
            token = le32toh(token);
        }
        output[i] = (int32_t)token;
        highest = token > highest ? token : highest;
    }
    return highest;
}

weft_status shard_read(const struct shard *shard, uint64_t first, uint64_t count, int32_t *output, uint32_t *highest,
                       struct error *error)
{
    const struct shard_layout *layout = &shard->layout;
    const uint64_t offset = layout->offset + first * layout->width, bytes = count * layout->width;
    const uint8_t *from = shard->bytes ? shard->bytes + offset : NULL;
    if (!from) {
        uint8_t *end = (uint8_t *)(output + count) - bytes;
        weft_status status = file_read_at(shard->descriptor, shard->path,
                                          layout->offset + layout->count * layout->width, offset, end, bytes, error);
        if (status != WEFT_OK)
            return status;
        from = end;
    }
    *highest = decode_tokens(from, layout->width, count, output);
    return WEFT_OK;
}
