/* SPDX-License-Identifier: Apache-2.0 */
/**
 * GPT-2's byte-level byte-pair encoding (Radford et al. 2019; Sennrich et al. 2016): text to token numbers and back.
 *
 * A text is cut into pre-tokens (pretokens.h); a pre-token begins as one token a byte; then, as long as two
 * neighboring tokens are a pair in the list of merges, all occurrences of the pair that is earliest in that list are
 * merged. The numbers are those of the released code, for any text. Any bytes can be encoded, UTF-8 or not, and
 * decoding gives the same bytes back.
 *
 * A tokenizer is a directory of two files, in the public forms:
 *   vocab.json   (or encoder.json) an object: the token's text, in GPT-2's printable alphabet (byte_alphabet.h), to its
 *                number; the numbers are 0 to one less than the number of tokens, each once; every byte is a token
 *   merges.txt   (or vocab.bpe) a merge a line, two tokens with a space between them, earlier ones first; a first line
 *                that begins with "#version" is left out
 * The token "<|endoftext|>", where the vocabulary has it, stands between documents. A text in which these letters occur
 * is encoded like any other; text_reader_encode() turns them into the token.
 *
 * A tokenizer never changes after it is opened: any number of threads may use it, each with an encoder of its own.
 */
#ifndef WEFT_TRAINING_DATA_TOKENIZER_TOKENIZER_H
#define WEFT_TRAINING_DATA_TOKENIZER_TOKENIZER_H

#include "base/error.h"
#include "base/sha256.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define TOKENIZER_VOCABULARY      "vocab.json"
#define TOKENIZER_MERGES          "merges.txt"
#define TOKENIZER_END_OF_TEXT     "<|endoftext|>"
#define TOKENIZER_VOCABULARY_MOST 10000000 /* tokens */
#define TOKENIZER_FILES           2
#define TOKENIZER_IDENTITY_BYTES  SHA256_TEXT_BYTES

struct tokenizer;

/**
 * Read the tokenizer in `directory`. Errors: SYSTEM for a file that cannot be read; DATA, with file and line or token,
 * for malformed files: no JSON object, a number missing, duplicate or too high, a byte without a token, a line that is
 * not two tokens, a merge of or into an unknown token, a merge that is there twice.
 */
weft_status tokenizer_open(const char *directory, struct tokenizer **tokenizer, struct error *error);
void tokenizer_close(struct tokenizer *tokenizer);

/** Whether `directory` has a vocabulary file by either name, and so should be a tokenizer. */
bool tokenizer_is_in(const char *directory);

/** Write vocab.json and merges.txt into `directory`, which exists. Equal tokenizers give the same bytes. */
weft_status tokenizer_write(const struct tokenizer *tokenizer, const char *directory, struct error *error);

/** One of the two files, in memory. */
struct tokenizer_file {
    const char *path; /**< as messages name it; of tokenizer_format() TOKENIZER_VOCABULARY or TOKENIZER_MERGES */
    char *text;       /**< malloc'd */
    size_t size;
};

/** The files of tokenizer_write() in memory: vocab.json, then merges.txt. Free with tokenizer_files_free(). */
weft_status tokenizer_format(const struct tokenizer *tokenizer, struct tokenizer_file files[TOKENIZER_FILES],
                             struct error *error);
void tokenizer_files_free(struct tokenizer_file files[TOKENIZER_FILES]);

/** tokenizer_open() from file contents, vocab.json first. The contents of merges.txt are modified. */
weft_status tokenizer_parse(struct tokenizer_file files[TOKENIZER_FILES], struct tokenizer **tokenizer,
                            struct error *error);

/**
 * The identity of a tokenizer: the SHA-256, in hexadecimal digits, of both files as tokenizer_write() writes them.
 * Tokenizers of one identity give the same tokens for every text.
 */
weft_status tokenizer_identify(const struct tokenizer *tokenizer, char identity[TOKENIZER_IDENTITY_BYTES],
                               struct error *error);

/** How many tokens there are, and how many merges. */
uint32_t tokenizer_vocabulary(const struct tokenizer *tokenizer);
uint32_t tokenizer_merges(const struct tokenizer *tokenizer);

/** The number of "<|endoftext|>", or -1. */
int32_t tokenizer_end_of_text(const struct tokenizer *tokenizer);

/** The bytes that token `number` stands for; of a number that is no token `*size` is 0. */
const uint8_t *tokenizer_decode(const struct tokenizer *tokenizer, int32_t number, size_t *size);

/** Tokens in a growing list; zeroed, it is empty. */
struct token_list {
    int32_t *tokens;
    size_t count, room;
};

weft_status token_list_add(struct token_list *list, const int32_t *tokens, size_t count, struct error *error);
void token_list_free(struct token_list *list);

/** Encodes text, with a cache of pre-tokens, most of which occur again. Belongs to one thread at a time. */
struct encoder;

weft_status encoder_open(const struct tokenizer *tokenizer, struct encoder **encoder, struct error *error);
void encoder_close(struct encoder *encoder);

/** Encode `size` bytes, fewer than 2^32 - 1, as a text of its own; the tokens are added to `list`. */
weft_status encoder_encode(struct encoder *encoder, const void *text, size_t size, struct token_list *list,
                           struct error *error);

#endif
