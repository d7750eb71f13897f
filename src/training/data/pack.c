/* SPDX-License-Identifier: Apache-2.0 */
#include "training/data/pack.h"
#include "training/data/new_directory.h"
#include "training/data/shard_writer.h"
#include "training/data/text_reader.h"
#include "training/data/tokenizer/tokenizer.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct packing {
    const struct pack_options *options;
    struct text_files texts;
    struct tokenizer *tokenizer;
    struct encoder *encoder;
    struct new_directory directory;
    struct shard_writer *writers; /* of the two splits */
    struct packed packed;
};

/* Where the tokens of a part go. */
struct pack_sink {
    const struct pack_options *options;
    struct shard_writer *writer;
};

static weft_status pack_append(void *context, const int32_t *tokens, size_t count, struct error *error)
{
    const struct pack_sink *sink = context;
    if (sink->options->stop && *sink->options->stop)
        return error_set(error, WEFT_ERROR_ABORTED, "stopped as asked; '%s' was not written", sink->options->output);
    return shard_writer_append(sink->writer, tokens, count, error);
}

/* Encode bytes [first, end) of a text into the shards of a split. */
static weft_status pack_part(struct packing *packing, size_t text, uint64_t first, uint64_t end,
                             enum dataset_split split, struct error *error)
{
    const struct text_files *texts = &packing->texts;
    struct pack_sink to = {packing->options, &packing->writers[split]};
    const struct token_sink sink = {pack_append, &to};
    struct text_reader reader;
    weft_status status = text_reader_open(&reader, texts->paths.items[text], texts->sizes[text], first, end, error);
    if (status != WEFT_OK)
        return status;
    packing->packed.splits[split].bytes += end - first;
    status = text_reader_encode(&reader, packing->tokenizer, packing->encoder, &sink, error);
    text_reader_close(&reader);
    return status;
}

/* ---- the split ---- */

#define CUT_BYTES 4096u /* read at once to find a line's end */

/* The beginning of the first line at or after `place` of a text; if there is none, of a character near it. */
static weft_status find_cut(const struct text_files *texts, size_t text, uint64_t place, uint64_t *cut,
                            struct error *error)
{
    const char *path = texts->paths.items[text];
    const uint64_t size = texts->sizes[text];
    uint64_t now;
    uint8_t bytes[CUT_BYTES];
    int descriptor;
    weft_status status = file_open(path, &descriptor, &now, error);
    if (status != WEFT_OK)
        return status;
    *cut = size;
    for (uint64_t at = place; at < size && *cut == size && status == WEFT_OK; at += CUT_BYTES) {
        const uint64_t count = size - at < CUT_BYTES ? size - at : CUT_BYTES;
        status = file_read_at(descriptor, path, size, at, bytes, count, error);
        const uint8_t *newline = status == WEFT_OK ? memchr(bytes, '\n', count) : NULL;
        *cut = newline ? at + (uint64_t)(newline - bytes) + 1 : *cut;
    }
    if (status == WEFT_OK && *cut == size && text + 1 == texts->count) {
        const uint64_t first = place < 3 ? 0 : place - 3;
        status = file_read_at(descriptor, path, size, first, bytes, place - first + 1, error);
        while (status == WEFT_OK && place > first && (bytes[place - first] & 0xc0) == 0x80)
            place--;
        *cut = place;
    }
    close(descriptor);
    return status;
}

static weft_status pack_by_name(struct packing *packing, enum data_file_split names, struct error *error)
{
    const struct text_files *texts = &packing->texts;
    weft_status status = WEFT_OK;
    for (size_t i = 0; i < texts->count && status == WEFT_OK; i++)
        status =
            pack_part(packing, i, 0, texts->sizes[i],
                      data_file_is_split_off(names, texts->paths.items[i]) ? DATASET_HELD_OUT : DATASET_TRAIN, error);
    return status;
}

static weft_status pack_by_share(struct packing *packing, struct error *error)
{
    const struct text_files *texts = &packing->texts;
    uint64_t held = (uint64_t)((double)texts->bytes * packing->options->held_out), train = texts->bytes - held;
    if (packing->options->held_out > 0 && (held == 0 || train == 0))
        return error_set(error, WEFT_ERROR_DATA,
                         "the text has %" PRIu64 " bytes, too few to hold out a share of %g; give more text, or hold "
                         "out nothing (--held-out 0)",
                         texts->bytes, packing->options->held_out);
    weft_status status = WEFT_OK;
    for (size_t i = 0; i < texts->count && status == WEFT_OK; i++) {
        const uint64_t size = texts->sizes[i];
        uint64_t cut = train >= size ? size : train;
        if (cut > 0 && cut < size)
            status = find_cut(texts, i, cut, &cut, error);
        train -= train < size ? train : size;
        if (status == WEFT_OK)
            status = pack_part(packing, i, 0, cut, DATASET_TRAIN, error);
        if (status == WEFT_OK)
            status = pack_part(packing, i, cut, size, DATASET_HELD_OUT, error);
    }
    return status;
}

/* ---- all together ---- */

static weft_status pack_texts(struct packing *packing, struct error *error)
{
    static const char *const names[] = {[DATASET_TRAIN] = "train", [DATASET_HELD_OUT] = "val"};
    uint64_t vocabulary = tokenizer_vocabulary(packing->tokenizer);
    for (int i = 0; i < 2; i++)
        shard_writer_open(&packing->writers[i], packing->directory.partial, names[i], shard_writer_format(vocabulary),
                          packing->options->shard_tokens);
    const enum data_file_split by = data_files_split(&packing->texts.paths);
    weft_status status = by != DATA_FILES_UNNAMED ? pack_by_name(packing, by, error) : pack_by_share(packing, error);
    packing->packed.vocabulary = vocabulary;
    for (int i = 0; i < 2; i++) {
        if (status == WEFT_OK)
            status = shard_writer_close(&packing->writers[i], error);
        shard_writer_discard(&packing->writers[i]);
        packing->packed.splits[i].tokens = packing->writers[i].tokens;
        packing->packed.splits[i].files = packing->writers[i].files;
    }
    if (status == WEFT_OK)
        status = tokenizer_write(packing->tokenizer, packing->directory.partial, error);
    if (status == WEFT_OK)
        status = packed_write(packing->directory.partial, &packing->packed, error);
    return status;
}

static weft_status pack(struct packing *packing, const char *const *paths, size_t count, struct error *error)
{
    const struct pack_options *options = packing->options;
    weft_status status = text_files_open(paths, count, false, &packing->texts, error);
    if (status == WEFT_OK)
        status = tokenizer_open(options->tokenizer, &packing->tokenizer, error);
    if (status == WEFT_OK)
        status = tokenizer_identify(packing->tokenizer, packing->packed.tokenizer, error);
    if (status == WEFT_OK)
        status = encoder_open(packing->tokenizer, &packing->encoder, error);
    if (status == WEFT_OK && !(packing->writers = malloc(2 * sizeof *packing->writers)))
        status = error_memory(error, 2 * sizeof *packing->writers, "buffers of tokens");
    if (status == WEFT_OK)
        status = new_directory_open(&packing->directory, options->output, error);
    if (status != WEFT_OK)
        return status;
    status = pack_texts(packing, error);
    if (status == WEFT_OK)
        return new_directory_close(&packing->directory, error);
    new_directory_discard(&packing->directory);
    return status;
}

weft_status data_pack(const char *const *paths, size_t count, const struct pack_options *options, struct packed *packed,
                      struct error *error)
{
    struct packing *packing = calloc(1, sizeof *packing);
    if (!packing)
        return error_memory(error, sizeof *packing, "packing");
    packing->options = options;
    weft_status status = pack(packing, paths, count, error);
    if (status == WEFT_OK)
        *packed = packing->packed;
    free(packing->writers);
    encoder_close(packing->encoder);
    tokenizer_close(packing->tokenizer);
    text_files_close(&packing->texts);
    free(packing);
    return status;
}
