/* SPDX-License-Identifier: Apache-2.0 */
/* Any bytes as vocab.json, merges.txt and a text, a NUL between them: refused with a message, or a tokenizer that
 * gives every text back as it was. */
#include "training/data/tokenizer/internal/byte_alphabet.h"
#include "training/data/tokenizer/internal/tables.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void encode_and_decode(const struct tokenizer *tokenizer, const uint8_t *text, size_t size)
{
    struct encoder *encoder;
    if (encoder_open(tokenizer, &encoder, NULL) != WEFT_OK)
        abort();
    for (int turn = 0; turn < 2; turn++) { /* the second time from memory */
        struct token_list list = {0};
        if (encoder_encode(encoder, text, size, &list, NULL) != WEFT_OK)
            abort();
        size_t at = 0, length;
        for (size_t i = 0; i < list.count; i++) {
            const uint8_t *bytes = tokenizer_decode(tokenizer, list.tokens[i], &length);
            if (length == 0 || length > size - at || memcmp(bytes, text + at, length) != 0)
                abort();
            at += length;
        }
        if (at != size)
            abort();
        token_list_free(&list);
    }
    encoder_close(encoder);
}

/* `bytes_first`: the 256 bytes come before the input's own tokens, for an input seldom has them all. */
static char *make_vocabulary(const uint8_t *data, size_t size, bool bytes_first, size_t *length)
{
    char *text = malloc(size + 8192);
    uint8_t order[256], character[2];
    size_t used = 0;
    byte_alphabet_order(order);
    for (int i = 0; i < 256 && bytes_first; i++)
        used += (size_t)sprintf(text + used, "%s\"%s%.*s\":%d", i ? "," : "{",
                                order[i] == '"' || order[i] == '\\' ? "\\" : "",
                                (int)byte_alphabet_write(&order[i], 1, character), (char *)character, i);
    memcpy(text + used, data, size);
    used += size;
    if (bytes_first)
        text[used++] = '}';
    *length = used;
    return text;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size < 1)
        return 0;
    const uint8_t *end = data + size, *vocabulary = data + 1, *merges, *text;
    merges = memchr(vocabulary, 0, (size_t)(end - vocabulary));
    size_t vocabulary_size = (size_t)((merges ? merges : end) - vocabulary);
    merges = merges ? merges + 1 : end;
    text = memchr(merges, 0, (size_t)(end - merges));
    size_t merges_size = (size_t)((text ? text : end) - merges);
    text = text ? text + 1 : end;

    struct tokenizer_file files[TOKENIZER_FILES] = {{.path = "vocab.json"},
                                                    {"merges.txt", malloc(merges_size + 1), merges_size}};
    files[0].text = make_vocabulary(vocabulary, vocabulary_size, data[0] & 1, &files[0].size);
    memcpy(files[1].text, merges, merges_size);
    struct tokenizer *tokenizer;
    struct error error = {0};
    if (tokenizer_parse(TOKENIZER_BYTE_PAIRS, files, &tokenizer, &error) == WEFT_OK) {
        encode_and_decode(tokenizer, text, (size_t)(end - text));
        tokenizer_close(tokenizer);
    } else if (error.text[0] == '\0') {
        abort();
    }
    free(files[0].text);
    free(files[1].text);
    return 0;
}
