/* SPDX-License-Identifier: Apache-2.0 */
/** For tests of WordPiece: small vocabularies, made in place. */
#ifndef WEFT_TESTS_WORDPIECE_SUPPORT_H
#define WEFT_TESTS_WORDPIECE_SUPPORT_H

#include "tokenizer_support.h"

#define WORDPIECE_SPECIALS "[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\n"

/** Write vocab.txt with the special tokens, numbers 0 to 4, and `tokens`, a line each, from 5 on. `config` NULL: without
 * tokenizer_config.json. */
static inline void write_wordpieces(const char *directory, const char *tokens, const char *config)
{
    char text[65536];
    int size = snprintf(text, sizeof text, WORDPIECE_SPECIALS "%s", tokens);
    temporary_file(directory, TOKENIZER_WORDPIECES, text, (size_t)size);
    if (config)
        temporary_file(directory, TOKENIZER_CONFIG, config, strlen(config));
}

/** A tokenizer of all letters a to z, beginning and continuing a word, and of `tokens`: of these the last are 57 on. */
static inline struct tokenizer *open_letters(const char *directory, const char *tokens)
{
    char text[8192];
    size_t used = 0;
    for (char letter = 'a'; letter <= 'z'; letter++)
        used += (size_t)snprintf(text + used, sizeof text - used, "%c\n##%c\n", letter, letter);
    snprintf(text + used, sizeof text - used, "%s", tokens);
    write_wordpieces(directory, text, NULL);
    return must_open_tokenizer(directory);
}

#endif
