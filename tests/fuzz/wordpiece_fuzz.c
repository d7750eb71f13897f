/* SPDX-License-Identifier: Apache-2.0 */
/* Any bytes as vocab.txt, tokenizer_config.json and a text, a NUL between them: refused with a message, or a tokenizer
 * that is written and read as it was, and whose tokens decode to a text with the same tokens. */
#include "training/data/tokenizer/internal/tables.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static const char specials[] = "[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\n";

static struct token_list encode(const struct tokenizer *tokenizer, const uint8_t *text, size_t size)
{
    struct encoder *encoder;
    struct token_list once = {0}, list = {0};
    if (encoder_open(tokenizer, &encoder, NULL) != WEFT_OK ||
        encoder_encode(encoder, text, size, &once, NULL) != WEFT_OK ||
        encoder_encode(encoder, text, size, &list, NULL) != WEFT_OK) /* from memory */
        abort();
    if (once.count != list.count || (list.count && memcmp(once.tokens, list.tokens, list.count * sizeof *list.tokens)))
        abort();
    token_list_free(&once);
    encoder_close(encoder);
    return list;
}

/* Words that are known, so not [UNK], are cleaned already. */
static void encode_and_decode(const struct tokenizer *tokenizer, const uint8_t *text, size_t size)
{
    struct token_list list = encode(tokenizer, text, size);
    uint8_t *decoded = malloc(1 + 1025 * list.count);
    size_t used = 0, length;
    bool known = true;
    for (size_t i = 0; i < list.count; i++) {
        const uint8_t *bytes = tokenizer_decode(tokenizer, list.tokens[i], &length);
        if (length == 0)
            abort();
        memcpy(decoded + used, bytes, length);
        used += length;
        known = known && list.tokens[i] != tokenizer_special(tokenizer, TOKENIZER_UNKNOWN);
    }
    struct token_list again = encode(tokenizer, decoded, used);
    if (known && (again.count != list.count ||
                  (list.count && memcmp(again.tokens, list.tokens, list.count * sizeof *list.tokens))))
        abort();
    free(decoded);
    token_list_free(&again);
    token_list_free(&list);
}

static void write_and_read(const struct tokenizer *tokenizer)
{
    struct tokenizer_file files[TOKENIZER_FILES];
    struct tokenizer *again;
    if (tokenizer_format(tokenizer, files, NULL) != WEFT_OK ||
        tokenizer_parse(TOKENIZER_WORDPIECE, files, &again, NULL) != WEFT_OK)
        abort();
    if (again->tokens.byte_count != tokenizer->tokens.byte_count || again->tokens.count != tokenizer->tokens.count ||
        memcmp(again->tokens.bytes, tokenizer->tokens.bytes, again->tokens.byte_count) != 0 ||
        again->rules.lower_case != tokenizer->rules.lower_case ||
        again->rules.strip_accents != tokenizer->rules.strip_accents)
        abort();
    tokenizer_close(again);
    tokenizer_files_free(files);
}

/* The first byte says whether the special tokens come before the input's, and whether there is a config. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size < 1)
        return 0;
    const uint8_t *end = data + size, *vocabulary = data + 1, *config, *text;
    config = memchr(vocabulary, 0, (size_t)(end - vocabulary));
    const size_t vocabulary_size = (size_t)((config ? config : end) - vocabulary);
    config = config ? config + 1 : end;
    text = memchr(config, 0, (size_t)(end - config));
    const size_t config_size = (size_t)((text ? text : end) - config);
    text = text ? text + 1 : end;

    const size_t before = data[0] & 1 ? sizeof specials - 1 : 0;
    struct tokenizer_file files[TOKENIZER_FILES] = {
        {TOKENIZER_WORDPIECES, malloc(before + vocabulary_size + 1), before + vocabulary_size},
        {TOKENIZER_CONFIG, data[0] & 2 ? malloc(config_size + 1) : NULL, config_size}};
    memcpy(files[0].text, specials, before);
    memcpy(files[0].text + before, vocabulary, vocabulary_size);
    if (files[1].text) {
        memcpy(files[1].text, config, config_size);
        files[1].text[config_size] = '\0';
    }
    struct tokenizer *tokenizer;
    struct error error = {0};
    if (tokenizer_parse(TOKENIZER_WORDPIECE, files, &tokenizer, &error) == WEFT_OK) {
        encode_and_decode(tokenizer, text, (size_t)(end - text));
        write_and_read(tokenizer);
        tokenizer_close(tokenizer);
    } else if (error.text[0] == '\0') {
        abort();
    }
    tokenizer_files_free(files);
    return 0;
}
