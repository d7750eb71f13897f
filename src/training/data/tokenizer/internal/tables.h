/* SPDX-License-Identifier: Apache-2.0 */
/** The tables of a tokenizer, for the files that read, train, write and use it. See tokenizer.h. */
#ifndef WEFT_TRAINING_DATA_TOKENIZER_INTERNAL_TABLES_H
#define WEFT_TRAINING_DATA_TOKENIZER_INTERNAL_TABLES_H

#include "training/data/tokenizer/internal/string_set.h"
#include "training/data/tokenizer/tokenizer.h"

#include <stdio.h>

#define TOKEN_NONE UINT32_MAX

/** Two neighboring tokens and the token that replaces them. Its index in the list is its rank. */
struct merge {
    uint32_t left, right, token;
};

/** The bytes of a token are those that tokenizer_decode() gives: of WordPiece a space before those that begin a word, and
 * no "##" before those that continue one. So tokens are compared with a word that has a space before it, and joining
 * two tokens makes a token. */
struct tokenizer {
    enum tokenizer_kind kind;
    struct string_set tokens; /**< a string's number is its token */
    struct wordpiece_rules rules;
    uint32_t specials[TOKENIZER_SPECIALS];
    struct merge *merges;
    uint32_t merge_count;
    size_t merge_room;
    uint32_t *slots; /**< ranks, by the hash of their pair; TOKEN_NONE: free */
    size_t slot_count;
    uint32_t byte_tokens[256];
    uint32_t end_of_text; /**< or TOKEN_NONE */
};

/** How the special tokens are written. */
extern const char *const tokenizer_special_names[TOKENIZER_SPECIALS];

/** An empty tokenizer, to be filled: tokens, tokenizer_find_bytes() or tokenizer_find_specials(), merges. Free with
 * tokenizer_close(). */
weft_status tokenizer_new(enum tokenizer_kind kind, struct tokenizer **tokenizer, struct error *error);

/** The token with these bytes, or TOKEN_NONE. */
uint32_t tokenizer_find(const struct tokenizer *tokenizer, const void *bytes, size_t size);

/** Add a token that is not there yet, and which is not empty; its number is the count before. */
weft_status tokenizer_add(struct tokenizer *tokenizer, const void *bytes, size_t size, struct error *error);

/** When all tokens are there: find those of bytes and the end of text. Returns a byte that has none, or -1. */
int tokenizer_find_bytes(struct tokenizer *tokenizer);

/** When all tokens are there: find the special ones. Returns one that is missing, or TOKENIZER_SPECIALS. */
enum tokenizer_special tokenizer_find_specials(struct tokenizer *tokenizer);

/** vocab.txt and tokenizer_config.json (wordpiece_files.c): fill an empty tokenizer; write them to streams. */
weft_status wordpiece_parse(struct tokenizer *tokenizer, const struct tokenizer_file files[TOKENIZER_FILES],
                            struct error *error);
void wordpiece_put_vocabulary(FILE *stream, const struct tokenizer *tokenizer);
void wordpiece_put_config(FILE *stream, const struct tokenizer *tokenizer);

#define TOKENIZER_SHOWN_BYTES 48 /**< of a token in a message */

/** The beginning of a token's text, made printable for a message. */
const char *tokenizer_show(const void *text, size_t size, char buffer[TOKENIZER_SHOWN_BYTES]);

/** The rank of the merge of two tokens, or TOKEN_NONE. */
uint32_t tokenizer_find_merge(const struct tokenizer *tokenizer, uint32_t left, uint32_t right);

/** Add a merge that is not there yet. */
weft_status tokenizer_add_merge(struct tokenizer *tokenizer, uint32_t left, uint32_t right, uint32_t token,
                                struct error *error);

#endif
