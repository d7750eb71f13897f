/* SPDX-License-Identifier: Apache-2.0 */
#include "train/text.h"

#include "base/json.h"
#include "checkpoint/checkpoint.h"
#include "data/packed.h"

#include <stdio.h>
#include <string.h>

#define BYTES 256 /* the vocabulary of bytes */

static weft_status open_tokenizer(const char *directory, struct text *text, struct error *error)
{
    weft_status status = tokenizer_open(directory, &text->tokenizer, error);
    return status == WEFT_OK ? tokenizer_identify(text->tokenizer, text->identity, error) : status;
}

/* ---- of data ----------------------------------------------------------------------------------------------------- */

weft_status text_open(const char *data, struct text *text, struct error *error)
{
    char folder[FILE_PATH_BYTES];
    struct packed packed;
    bool are_tokens;
    *text = (struct text){0};
    if (strcmp(data, "random") == 0)
        return WEFT_OK;
    weft_status status = packed_find(data, folder, &are_tokens, error);
    if (status == WEFT_OK && !are_tokens)
        strcpy(text->identity, TEXT_OF_BYTES);
    if (status != WEFT_OK || !are_tokens)
        return status;
    if (tokenizer_is_in(folder))
        status = open_tokenizer(folder, text, error);
    if (status == WEFT_OK && !packed_is_in(folder))
        return WEFT_OK;
    if (status == WEFT_OK)
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

/* ---- of weights -------------------------------------------------------------------------------------------------- */

/* The directory in which the weights at `path` have their other files. */
static weft_status find_directory(const char *path, char directory[FILE_PATH_BYTES], struct error *error)
{
    size_t checkpoints = 0;
    if (!file_is_folder(path)) {
        const int length = (int)(file_name(path) - path);
        snprintf(directory, FILE_PATH_BYTES, "%.*s", length ? length : 1, length ? path : ".");
        return WEFT_OK;
    }
    (void)checkpoint_list(path, NULL, 0, &checkpoints, NULL); /* not of a checkpoint itself */
    return checkpoints ? checkpoint_find(path, directory, error) : file_join(directory, path, "", error);
}

/* Whether the manifest in `directory`, if there is one, says that tokens are bytes. */
static weft_status read_manifest(const char *directory, bool *is_bytes, struct error *error)
{
    char path[FILE_PATH_BYTES];
    cJSON *root;
    *is_bytes = false;
    weft_status status = file_join(path, directory, CHECKPOINT_MANIFEST, error);
    if (status != WEFT_OK || !file_exists(path) || (status = json_read(path, &root, error)) != WEFT_OK)
        return status;
    const char *identity = cJSON_GetStringValue(
        cJSON_GetObjectItemCaseSensitive(cJSON_GetObjectItemCaseSensitive(root, "training"), "tokenizer"));
    *is_bytes = identity && strcmp(identity, TEXT_OF_BYTES) == 0;
    cJSON_Delete(root);
    return WEFT_OK;
}

weft_status text_open_weights(const char *path, size_t vocabulary, struct text *text, struct error *error)
{
    char directory[FILE_PATH_BYTES];
    bool is_bytes = false;
    *text = (struct text){0};
    weft_status status = find_directory(path, directory, error);
    if (status == WEFT_OK && tokenizer_is_in(directory))
        status = open_tokenizer(directory, text, error);
    else if (status == WEFT_OK)
        status = read_manifest(directory, &is_bytes, error);
    if (status != WEFT_OK) {
        text_close(text);
        return status;
    }
    text_settle(text, is_bytes ? BYTES : vocabulary);
    if (text->is_bytes)
        strcpy(text->identity, TEXT_OF_BYTES);
    return WEFT_OK;
}

/* ---- use --------------------------------------------------------------------------------------------------------- */

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
        } else if (tokens[i] < BYTES) {
            fputc(tokens[i], output);
        }
    }
}
