/* SPDX-License-Identifier: Apache-2.0 */
/** One file of tokens: which format it is in, and where its tokens lie. See dataset.h for the formats. */
#ifndef WEFT_TRAINING_DATA_SHARD_H
#define WEFT_TRAINING_DATA_SHARD_H

#include "base/error.h"
#include "base/file/file.h"
#include "training/data/tokenizer/tokenizer.h"

#include <stdint.h>

#define SHARD_HEADER_BYTES 1024 /* of an llm.c shard */

enum shard_format {
    SHARD_BYTES,
    SHARD_NANOGPT,
    SHARD_LLMC,
    SHARD_LLMC_WIDE,
    SHARD_TEXT, /**< text that was encoded by shard_encode() */
};

/** Where the tokens of a file lie. */
struct shard_layout {
    enum shard_format format;
    unsigned width;  /**< bytes of a token: 1, 2 or 4 */
    uint64_t offset; /**< of the first token, in bytes */
    uint64_t count;  /**< tokens */
};

/**
 * Recognize the format of a file of `size` bytes by its first SHARD_HEADER_BYTES `bytes`, or all of a shorter file.
 * Errors: DATA for an empty file, a magic number with an unknown version, a count that differs from the file's
 * contents, an odd size of 16-bit tokens.
 */
weft_status shard_recognize(const char *path, const uint8_t *bytes, uint64_t size, struct shard_layout *layout,
                            struct error *error);

/** Write the header of an llm.c shard (SHARD_LLMC, SHARD_LLMC_WIDE) of `count` tokens. */
void shard_header_write(uint8_t header[SHARD_HEADER_BYTES], enum shard_format format, uint64_t count);

/** The format's name for messages; how a file of it is recognized. Static strings. */
const char *shard_format_name(enum shard_format format);
const char *shard_format_reason(enum shard_format format);

/** Different tokens that the format's usual tokenizer has: 256, 50257 (GPT-2) or 128256 (Llama 3). */
uint64_t shard_format_vocabulary(enum shard_format format);

/** An open file of tokens. It may have been truncated since. */
struct shard {
    char *path;
    int descriptor;       /**< of the file; not used where `bytes` are */
    const uint8_t *bytes; /**< the whole content in memory; NULL: it is read from the file */
    struct shard_layout layout;
};

weft_status shard_open(const char *path, struct shard *shard, struct error *error);
void shard_close(struct shard *shard);

#define SHARD_TEXT_MOST ((uint64_t)256 << 20) /**< bytes of a text that is encoded when it is opened */

/**
 * Encode a shard of text (text_reader.h) in memory: 2 bytes per token, or 4 where the vocabulary is larger than
 * 65,536. Errors: MEMORY; SYSTEM; DATA for a text longer than SHARD_TEXT_MOST.
 */
weft_status shard_encode(struct shard *shard, const struct tokenizer *tokenizer, struct encoder *encoder,
                         struct error *error);

/**
 * Copy tokens [first, first + count) to `output`; `*highest` receives the highest of them. Any number of threads may
 * read. Errors: SYSTEM; DATA if the file was truncated since it was opened.
 */
weft_status shard_read(const struct shard *shard, uint64_t first, uint64_t count, int32_t *output, uint32_t *highest,
                       struct error *error);

#endif
