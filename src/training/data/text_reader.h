/* SPDX-License-Identifier: Apache-2.0 */
/**
 * Reads text, for training a tokenizer or for encoding, in pieces that can be encoded one by one.
 *
 * A piece ends after a newline that has no whitespace before or after it, where GPT-2's pattern always ends a
 * pre-token, so the tokens of the pieces are those of the whole text. (A text without such a place in 256 MiB is cut
 * there anyway, between two characters.) The string "<|endoftext|>" ends a document. It is not part of a piece, which
 * has `end_of_text` set instead.
 */
#ifndef WEFT_TRAINING_DATA_TEXT_READER_H
#define WEFT_TRAINING_DATA_TEXT_READER_H

#include "base/file/file.h"
#include "training/data/files.h"

struct encoder;
struct tokenizer;

/* ---- text files ---- */

struct text_files {
    struct string_list paths;
    uint64_t *sizes; /**< bytes of each */
    size_t count;
    uint64_t bytes; /**< of all together */
};

/**
 * Find and check `count` paths, each a text file or a directory of .txt files, or if `labeled` of .tsv files. Errors: as
 * data_files_find(); DATA for an empty file and for token shards.
 */
weft_status text_files_open(const char *const *paths, size_t count, bool labeled, struct text_files *texts,
                            struct error *error);
void text_files_close(struct text_files *texts);

/* ---- pieces ---- */

struct text_pieces {
    const uint8_t *text; /**< set by the caller, as is `size` */
    uint64_t size, at;   /**< `at` 0 to begin */
};

struct text_piece {
    const uint8_t *bytes;
    size_t size; /**< may be 0 before an end of text */
    bool end_of_text;
};

/** The next piece of a text in memory, of about 1 MiB; false after the last. */
bool text_pieces_next(struct text_pieces *pieces, struct text_piece *piece);

/** Reads the same pieces from a range of a file. Belongs to one thread at a time. */
struct text_reader {
    const char *path; /**< borrowed */
    int descriptor;
    uint64_t size;    /**< of the file */
    uint64_t at, end; /**< the rest to be read */
    uint8_t *window;
    size_t room;
};

/** Open bytes [first, end) of the file at `path`, which has `size` bytes. Errors: those of file_open(). */
weft_status text_reader_open(struct text_reader *reader, const char *path, uint64_t size, uint64_t first, uint64_t end,
                             struct error *error);

/**
 * The next piece, valid until the next call; *more is false after the last. Errors: MEMORY; those of file_read_at(), as
 * for a file that was truncated since it was opened.
 */
weft_status text_reader_next(struct text_reader *reader, struct text_piece *piece, bool *more, struct error *error);

void text_reader_close(struct text_reader *reader);

/* ---- tokens ---- */

/** Where tokens go; an error ends the encoding. */
struct token_sink {
    weft_status (*append)(void *context, const int32_t *tokens, size_t count, struct error *error);
    void *context;
};

/**
 * Encode the rest of `reader` as training reads it: the tokenizer's end-of-text token, if it has one, precedes each
 * document, as in llm.c's data. `weft data pack` and training on text produce the same tokens. An empty text has none.
 * Errors: MEMORY; the reader's; the sink's.
 */
weft_status text_reader_encode(struct text_reader *reader, const struct tokenizer *tokenizer, struct encoder *encoder,
                               const struct token_sink *sink, struct error *error);

#endif
