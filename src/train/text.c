/* SPDX-License-Identifier: Apache-2.0 */
#include "train/text.h"

#include "data/packed.h"

#include <string.h>

#define BYTES 256 /* the vocabulary of bytes */

weft_status text_open(const char *data, struct text *text, struct error *error)
{
    char folder[FILE_PATH_BYTES];
    struct packed packed;
    bool are_tokens;
    *text = (struct text){0};
    if (strcmp(data, "random") == 0)
        return WEFT_OK;
    weft_status status = packed_find(data, folder, &are_tokens, error);
    if (status != WEFT_OK || !are_tokens)
        return status;
    if (tokenizer_is_in(folder))
        status = tokenizer_open(folder, &text->tokenizer, error);
    if (status != WEFT_OK || !packed_is_in(folder))
        return status;
    status = packed_read(folder, &packed, error);
    if (status != WEFT_OK) {
        text_close(text);
        return status;
    }
    /* Where nothing was packed to be held out, the end of the training text is. */
    const struct packed_split *split =
        &packed.splits[packed.splits[DATASET_HELD_OUT].tokens ? DATASET_HELD_OUT : DATASET_TRAIN];
    text->bytes_per_token = split->tokens ? (double)split->bytes / (double)split->tokens : 0;
    return WEFT_OK;
}

void text_close(struct text *text)
{
    tokenizer_close(text->tokenizer);
    *text = (struct text){0};
}

size_t text_vocabulary(const struct text *text, size_t named)
{
    size_t own = text->tokenizer ? tokenizer_vocabulary(text->tokenizer) : 0;
    return own == 0 || (named != BYTES && named >= own) ? named : own;
}

void text_settle(struct text *text, size_t vocabulary)
{
    text->is_bytes = !text->tokenizer && vocabulary == BYTES;
    if (text->is_bytes)
        text->bytes_per_token = 1;
}

bool text_is_known(const struct text *text)
{
    return text->is_bytes || text->tokenizer;
}

weft_status text_encode(const struct text *text, const char *prompt, struct token_list *tokens, struct error *error)
{
    weft_status status = WEFT_OK;
    if (!text->tokenizer) {
        for (; *prompt && status == WEFT_OK; prompt++) {
            int32_t token = (unsigned char)*prompt;
            status = token_list_add(tokens, &token, 1, error);
        }
        return status;
    }
    struct encoder *encoder;
    status = encoder_open(text->tokenizer, &encoder, error);
    if (status != WEFT_OK)
        return status;
    status = encoder_encode(encoder, prompt, strlen(prompt), tokens, error);
    encoder_close(encoder);
    return status;
}

void text_print(const struct text *text, const int32_t *tokens, size_t count, FILE *output)
{
    for (size_t i = 0; i < count; i++) {
        size_t size;
        if (text->tokenizer) {
            const uint8_t *bytes = tokenizer_decode(text->tokenizer, tokens[i], &size);
            fwrite(bytes, 1, size, output);
        } else {
            fputc(tokens[i], output);
        }
    }
}
