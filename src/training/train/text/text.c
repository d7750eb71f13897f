/* SPDX-License-Identifier: Apache-2.0 */
#include "training/train/text/text.h"

#include "base/format/json.h"
#include "training/checkpoint/checkpoint.h"
#include "training/data/packed.h"
#include "training/parallel/agreement.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define BYTES 256 /* the vocabulary of bytes */

static weft_status open_tokenizer(const char *directory, struct text *text, struct error *error)
{
    weft_status status = tokenizer_open(directory, &text->tokenizer, error);
    if (status == WEFT_OK)
        text->vocabulary = tokenizer_vocabulary(text->tokenizer);
    return status == WEFT_OK ? tokenizer_identify(text->tokenizer, text->identity, error) : status;
}

/* ---- of data ---- */

static weft_status text_open(const char *data, struct text *text, struct error *error)
{
    char directory[FILE_PATH_BYTES];
    struct packed packed;
    bool are_tokens;
    *text = (struct text){0};
    if (strcmp(data, "random") == 0)
        return WEFT_OK;
    weft_status status = packed_find(data, directory, &are_tokens, error);
    if (status == WEFT_OK && !are_tokens)
        strcpy(text->identity, TEXT_OF_BYTES);
    if (status != WEFT_OK || !are_tokens)
        return status;
    if (tokenizer_is_in(directory))
        status = open_tokenizer(directory, text, error);
    if (status == WEFT_OK && !packed_is_in(directory))
        return WEFT_OK;
    if (status == WEFT_OK)
        status = packed_read(directory, &packed, error);
    if (status != WEFT_OK) {
        text_close(text);
        return status;
    }
    if (*packed.tokenizer && *text->identity && strcmp(packed.tokenizer, text->identity) != 0) {
        text_close(text);
        return error_set(error, WEFT_ERROR_DATA,
                         "the tokenizer in '%s' is not the one that the shards there were encoded with: %s has %.12s; "
                         "restore that one, or encode the text again with weft data pack",
                         directory, PACKED_DESCRIPTION, packed.tokenizer);
    }
    strcpy(text->identity, *packed.tokenizer ? packed.tokenizer : text->identity);
    text->vocabulary = packed.vocabulary;
    /* If no text was packed as held out, the end of the training text is. */
    const struct packed_split *split =
        &packed.splits[packed.splits[DATASET_HELD_OUT].tokens ? DATASET_HELD_OUT : DATASET_TRAIN];
    text->bytes_per_token = split->tokens ? (double)split->bytes / (double)split->tokens : 0;
    return WEFT_OK;
}

/* ---- of weights ---- */

/* The directory in which the weights at `path` have their other files. */
static weft_status text_find_directory(const char *path, char directory[FILE_PATH_BYTES], struct error *error)
{
    size_t checkpoints = 0;
    if (!file_is_directory(path)) {
        const int length = (int)(file_name(path) - path);
        snprintf(directory, FILE_PATH_BYTES, "%.*s", length ? length : 1, length ? path : ".");
        return WEFT_OK;
    }
    (void)checkpoint_list(path, NULL, 0, &checkpoints, NULL); /* not of a checkpoint itself */
    return checkpoints ? checkpoint_find(path, directory, error) : file_join(directory, path, "", error);
}

/* Whether the manifest in `directory`, if there is one, has bytes as tokens. */
static weft_status text_read_manifest(const char *directory, bool *is_bytes, struct error *error)
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
    weft_status status = text_find_directory(path, directory, error);
    if (status == WEFT_OK && tokenizer_is_in(directory))
        status = open_tokenizer(directory, text, error);
    else if (status == WEFT_OK)
        status = text_read_manifest(directory, &is_bytes, error);
    if (status != WEFT_OK) {
        text_close(text);
        return status;
    }
    text_settle(text, is_bytes ? BYTES : vocabulary);
    if (text->is_bytes)
        strcpy(text->identity, TEXT_OF_BYTES);
    return WEFT_OK;
}

/* ---- of a run ---- */

/* Rank 0: the vocabulary of the weights, if there are any. */
static weft_status open_known(const struct text_sources *sources, struct text *text, struct error *error)
{
    const char *const paths[] = {sources->resume, sources->from};
    weft_status status = WEFT_OK;
    *text = (struct text){0};
    for (int i = 0; i < 2 && status == WEFT_OK && !*text->identity; i++)
        if (paths[i] && file_exists(paths[i])) /* the reader of the weights reports that they are missing */
            status = text_open_weights(paths[i], sources->vocabulary, text, error);
    return status;
}

/* Rank 0: the same, and the user's tokenizer. */
static weft_status text_open_model(const struct text_sources *sources, struct text *text, struct error *error)
{
    struct text named = {0};
    weft_status status = open_known(sources, text, error);
    if (status != WEFT_OK || !sources->tokenizer)
        return status;
    status = open_tokenizer(sources->tokenizer, &named, error);
    if (status == WEFT_OK && *text->identity && strcmp(text->identity, named.identity) != 0)
        status = error_set(error, WEFT_ERROR_DATA,
                           "the weights in '%s' were trained on %s, not on tokens of the tokenizer in '%s'; leave out "
                           "--tokenizer",
                           sources->resume ? sources->resume : sources->from,
                           text->is_bytes ? "bytes" : "tokens of the tokenizer that they bring", sources->tokenizer);
    if (status != WEFT_OK) {
        text_close(&named);
        return status;
    }
    text_close(text);
    *text = named;
    return WEFT_OK;
}

/* A text in transit: the sizes of the tokenizer's files, which follow. */
struct travelling_text {
    struct text text;
    enum tokenizer_kind kind;
    uint64_t sizes[TOKENIZER_FILES]; /* 0: no tokenizer */
};

static weft_status text_give(void *bytes, uint64_t size, int root, weft_context *context, weft_comm *comm,
                             struct error *error)
{
    weft_status status = weft_broadcast(bytes, size, WEFT_U8, root, comm);
    return status == WEFT_OK ? WEFT_OK : error_set(error, status, "%s", weft_message(context));
}

weft_status text_share(struct text *text, int root, weft_context *context, weft_comm *comm, bool *speaks,
                       struct error *error)
{
    struct tokenizer_file files[TOKENIZER_FILES] = {0};
    const bool gives = weft_comm_rank(comm) == root;
    struct travelling_text travelling = {.text = *text};
    if (gives && text->tokenizer)
        travelling.kind = tokenizer_get_kind(text->tokenizer);
    weft_status status = gives && text->tokenizer ? tokenizer_format(text->tokenizer, files, error) : WEFT_OK;
    for (int i = 0; i < TOKENIZER_FILES; i++)
        travelling.sizes[i] = files[i].size;
    status = agreement_reach(context, comm, status, error, speaks);
    if (status == WEFT_OK)
        status = text_give(&travelling, sizeof travelling, root, context, comm, error);
    if (!gives)
        travelling.text.tokenizer = NULL; /* an address of another process */
    if (status != WEFT_OK || !travelling.sizes[0]) {
        tokenizer_files_free(files);
        if (!gives && status == WEFT_OK)
            *text = travelling.text;
        return status;
    }
    for (int i = 0; i < TOKENIZER_FILES && !gives && status == WEFT_OK; i++) {
        files[i].path = tokenizer_file_names[travelling.kind][i];
        files[i].size = travelling.sizes[i];
        if (!(files[i].text = calloc(1, files[i].size + 1)))
            status = error_memory(error, files[i].size, "a tokenizer");
    }
    status = agreement_reach(context, comm, status, error, speaks);
    for (int i = 0; i < TOKENIZER_FILES && status == WEFT_OK; i++)
        status = text_give(files[i].text, files[i].size, root, context, comm, error);
    if (status == WEFT_OK && !gives) {
        *text = travelling.text;
        status = tokenizer_parse(travelling.kind, files, &text->tokenizer, error);
    }
    tokenizer_files_free(files);
    return agreement_reach(context, comm, status, error, speaks);
}

weft_status text_open_together(const struct text_sources *sources, weft_context *context, weft_comm *comm,
                               struct text *text, bool *speaks, struct error *error)
{
    *text = (struct text){0};
    if (!sources->resume && !sources->from && !sources->tokenizer)
        return WEFT_OK;
    weft_status status = weft_comm_rank(comm) == 0 ? text_open_model(sources, text, error) : WEFT_OK;
    status = agreement_reach(context, comm, status, error, speaks);
    if (status == WEFT_OK && weft_comm_size(comm) > 1)
        status = text_share(text, 0, context, comm, speaks, error);
    if (status != WEFT_OK)
        text_close(text);
    return status;
}

/* "50257 tokens, identity 9f2a6c11d0e4". */
static const char *text_describe(const struct text *text, char buffer[64])
{
    if (text->is_bytes)
        return "bytes";
    snprintf(buffer, 64, "%" PRIu64 " tokens, identity %.12s", text->vocabulary, text->identity);
    return buffer;
}

/* Tokens that were encoded before. */
static weft_status match_tokens(const struct text_sources *sources, const struct text *text, const struct text *data,
                                struct error *error)
{
    const char *model = sources->resume ? sources->resume : sources->from ? sources->from : sources->tokenizer;
    char one[64], other[64];
    if (*text->identity && *data->identity && strcmp(text->identity, data->identity) != 0)
        return error_set(error, WEFT_ERROR_DATA,
                         "the tokens in '%s' are those of another tokenizer (%s) than those of '%s' (%s); encode the "
                         "text with that one: weft data pack TEXT --tokenizer DIR",
                         sources->data, text_describe(data, one), model, text_describe(text, other));
    const bool may_belong = data->vocabulary <= sources->vocabulary && sources->vocabulary - data->vocabulary < 1024;
    if (sources->from && !*text->identity && data->vocabulary && !may_belong)
        return error_set(error, WEFT_ERROR_DATA,
                         "the tokens in '%s' are those of a tokenizer of %" PRIu64 " tokens, but the weights in '%s' "
                         "have a vocabulary of %zu; encode the text with the tokenizer of the weights: weft data pack "
                         "TEXT --tokenizer DIR",
                         sources->data, data->vocabulary, model, sources->vocabulary);
    return WEFT_OK;
}

weft_status text_match_data(const struct text_sources *sources, struct text *text, struct error *error)
{
    struct text data;
    weft_status status = text_open(sources->data, &data, error);
    if (status != WEFT_OK || strcmp(sources->data, "random") == 0)
        return status;
    if (strcmp(data.identity, TEXT_OF_BYTES) != 0) {
        status = match_tokens(sources, text, &data, error);
        text->bytes_per_token = data.bytes_per_token;
        if (status == WEFT_OK && !*text->identity) {
            text_close(text);
            *text = data;
            return WEFT_OK;
        }
    } else if (!text->tokenizer && !text->is_bytes && sources->from && !sources->resume) {
        status =
            error_set(error, WEFT_ERROR_DATA,
                      "'%s' is text, but the tokenizer of the weights in '%s' (vocabulary %zu) is not known; put its "
                      "vocab.json and merges.txt, or vocab.txt, next to them, or name a directory that has them: "
                      "--tokenizer DIR",
                      sources->data, sources->from, sources->vocabulary);
    } else if (!text->tokenizer) {
        strcpy(text->identity, TEXT_OF_BYTES);
    }
    text_close(&data);
    return status;
}

/* ---- use ---- */

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

weft_status text_encode(const struct text *text, const char *prompt, size_t size, struct token_list *tokens,
                        struct error *error)
{
    weft_status status = WEFT_OK;
    if (!text->tokenizer) {
        for (size_t i = 0; i < size && status == WEFT_OK; i++)
            status = token_list_add(tokens, &(int32_t){(unsigned char)prompt[i]}, 1, error);
        return status;
    }
    struct encoder *encoder;
    status = encoder_open(text->tokenizer, &encoder, error);
    if (status != WEFT_OK)
        return status;
    status = encoder_encode(encoder, prompt, size, tokens, error);
    encoder_close(encoder);
    return status;
}

size_t text_tokens(const struct text *text)
{
    return text->tokenizer ? tokenizer_vocabulary(text->tokenizer) : BYTES;
}

const uint8_t *text_decode(const struct text *text, int32_t token, size_t *size)
{
#define FOUR(n)    n, n + 1, n + 2, n + 3
#define SIXTEEN(n) FOUR(n), FOUR(n + 4), FOUR(n + 8), FOUR(n + 12)
#define QUARTER(n) SIXTEEN(n), SIXTEEN(n + 16), SIXTEEN(n + 32), SIXTEEN(n + 48)
    static const uint8_t bytes[BYTES] = {QUARTER(0), QUARTER(64), QUARTER(128), QUARTER(192)};
    if (text->tokenizer)
        return tokenizer_decode(text->tokenizer, token, size);
    *size = 1;
    return &bytes[token];
}
