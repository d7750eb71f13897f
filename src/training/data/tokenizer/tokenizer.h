/* SPDX-License-Identifier: Apache-2.0 */
/**
 * Tokenizers: text to token numbers and back. There are two kinds.
 *
 * GPT-2's byte-level byte-pair encoding (Radford et al. 2019; Sennrich et al. 2016). A text is cut into pre-tokens
 * (pretokens.h); a pre-token begins as one token a byte; then, as long as two neighboring tokens are a pair in the list
 * of merges, all occurrences of the pair that is earliest in that list are merged. The numbers are those of the
 * released code, for any text. Any bytes can be encoded, UTF-8 or not, and decoding gives the same bytes back. It is a
 * directory of two files, in the public forms:
 *   vocab.json   (or encoder.json) an object: the token's text, in GPT-2's printable alphabet (byte_alphabet.h), to its
 *                number; the numbers are 0 to one less than the number of tokens, each once; every byte is a token
 *   merges.txt   (or vocab.bpe) a merge a line, two tokens with a space between them, earlier ones first; a first line
 *                that begins with "#version" is left out
 *
 * BERT's WordPiece (Wu et al. 2016; Devlin et al. 2018; the rules are those of Hugging Face's BertTokenizer). A text is
 * cleaned and cut into words (words.h); a word becomes the longest tokens of the vocabulary that it begins with, one
 * after the other. A word of more than 100 characters is [UNK], as is one that cannot be put together. Decoding gives
 * the cleaned text, with a space before each word. The directory has:
 *   vocab.txt              a token a line, its number is that of the line, from 0; "##" begins a token that continues a
 *                          word. [PAD], [UNK], [CLS], [SEP] and [MASK] are there
 *   tokenizer_config.json  may be missing; an object with "do_lower_case" and "strip_accents", each true, false or
 *                          absent. Accents are stripped where letters become lower case unless it says otherwise. Without
 *                          "do_lower_case" they become so if the vocabulary has no letter A to Z outside of brackets
 *
 * The token "<|endoftext|>", where the vocabulary has it, stands between documents. A text in which these letters occur
 * is encoded like any other; text_reader_encode() turns them into the token. So is "[SEP]" in a text.
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
#define TOKENIZER_WORDPIECES      "vocab.txt"
#define TOKENIZER_CONFIG          "tokenizer_config.json"
#define TOKENIZER_END_OF_TEXT     "<|endoftext|>"
#define TOKENIZER_VOCABULARY_MOST 10000000 /* tokens */
#define TOKENIZER_FILES           2
#define TOKENIZER_IDENTITY_BYTES  SHA256_TEXT_BYTES

struct tokenizer;

enum tokenizer_kind { TOKENIZER_BYTE_PAIRS, TOKENIZER_WORDPIECE, TOKENIZER_KINDS };

/** How WordPiece cleans a text. */
struct wordpiece_rules {
    bool lower_case;
    bool strip_accents; /**< canonical decomposition (NFD), without the marks (category Mn) */
};

/** The tokens of WordPiece that stand for no text. */
enum tokenizer_special {
    TOKENIZER_PADDING,   /**< [PAD] */
    TOKENIZER_UNKNOWN,   /**< [UNK] */
    TOKENIZER_CLASS,     /**< [CLS]: begins a sample; its row gives the class */
    TOKENIZER_SEPARATOR, /**< [SEP]: ends a text */
    TOKENIZER_MASK,      /**< [MASK]: a token to be predicted */
    TOKENIZER_SPECIALS
};

/**
 * Read the tokenizer in `directory`: WordPiece if it has vocab.txt and no vocab.json. Errors: SYSTEM for a file that
 * cannot be read; DATA, with file and line or token, for malformed files: no JSON object, a number missing, duplicate
 * or too high, a byte without a token, a line that is not two tokens, a merge of or into an unknown token, a merge that
 * is there twice; an empty line of vocab.txt, a token that is there twice, a special one that is missing.
 */
weft_status tokenizer_open(const char *directory, struct tokenizer **tokenizer, struct error *error);
void tokenizer_close(struct tokenizer *tokenizer);

/** Whether `directory` has a vocabulary file by any name, and so should be a tokenizer. */
bool tokenizer_is_in(const char *directory);

/** Write the two files into `directory`, which exists. Equal tokenizers give the same bytes. */
weft_status tokenizer_write(const struct tokenizer *tokenizer, const char *directory, struct error *error);

/** One of the two files, in memory. */
struct tokenizer_file {
    const char *path; /**< as messages name it; of tokenizer_format() a name in tokenizer_file_names */
    char *text;       /**< malloc'd */
    size_t size;
};

/** The names of each kind's files, the vocabulary first. */
extern const char *const tokenizer_file_names[TOKENIZER_KINDS][TOKENIZER_FILES];

/** The files of tokenizer_write() in memory, the vocabulary first. Free with tokenizer_files_free(). */
weft_status tokenizer_format(const struct tokenizer *tokenizer, struct tokenizer_file files[TOKENIZER_FILES],
                             struct error *error);
void tokenizer_files_free(struct tokenizer_file files[TOKENIZER_FILES]);

/** tokenizer_open() from file contents, the vocabulary first. The contents of merges.txt are modified; the text of
 * tokenizer_config.json may be NULL. */
weft_status tokenizer_parse(enum tokenizer_kind kind, struct tokenizer_file files[TOKENIZER_FILES],
                            struct tokenizer **tokenizer, struct error *error);

/**
 * The identity of a tokenizer: the SHA-256, in hexadecimal digits, of both files as tokenizer_write() writes them.
 * Tokenizers of one identity give the same tokens for every text.
 */
weft_status tokenizer_identify(const struct tokenizer *tokenizer, char identity[TOKENIZER_IDENTITY_BYTES],
                               struct error *error);

enum tokenizer_kind tokenizer_get_kind(const struct tokenizer *tokenizer);

/** How many tokens there are, and how many merges (of WordPiece none). */
uint32_t tokenizer_vocabulary(const struct tokenizer *tokenizer);
uint32_t tokenizer_merges(const struct tokenizer *tokenizer);

/** The number of "<|endoftext|>", or -1. */
int32_t tokenizer_end_of_text(const struct tokenizer *tokenizer);

/** The number of a special token; -1 where the tokenizer is not WordPiece. */
int32_t tokenizer_special(const struct tokenizer *tokenizer, enum tokenizer_special special);

/** Whether a token of WordPiece continues a word ("##ing"). */
bool tokenizer_continues_word(const struct tokenizer *tokenizer, int32_t number);

/** The bytes that token `number` stands for (of WordPiece " sing" and "ing"); of a number that is no token `*size` is 0. */
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
