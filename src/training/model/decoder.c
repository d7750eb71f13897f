/* SPDX-License-Identifier: Apache-2.0 */
#include "training/model/decoder.h"

#include <stdlib.h>
#include <string.h>

/* Tokens [start, read) are in the model, at positions 0 to read - start - 1. */
struct decoder {
    struct model *model;
    const void *parameters;
    double *logits;
    int32_t *tokens;
    size_t length, room;
    size_t start, read;
};

weft_status decoder_open(struct model *model, const void *parameters, struct decoder **result, struct error *error)
{
    struct decoder *decoder = calloc(1, sizeof *decoder);
    const size_t bytes = model_get_description(model)->shape.vocabulary * sizeof *decoder->logits;
    if (decoder)
        *decoder = (struct decoder){.model = model, .parameters = parameters, .logits = malloc(bytes)};
    if (!decoder || !decoder->logits) {
        decoder_close(decoder);
        return error_memory(error, sizeof *decoder + bytes, "the logits of a token");
    }
    *result = decoder;
    return WEFT_OK;
}

void decoder_close(struct decoder *decoder)
{
    if (!decoder)
        return;
    free(decoder->logits);
    free(decoder->tokens);
    free(decoder);
}

weft_status decoder_append(struct decoder *decoder, const int32_t *tokens, size_t count, struct error *error)
{
    weft_status status =
        ARRAY_RESERVE(decoder->tokens, decoder->room, decoder->length + count, "a sequence of tokens", error);
    if (status != WEFT_OK)
        return status;
    memcpy(decoder->tokens + decoder->length, tokens, count * sizeof *tokens);
    decoder->length += count;
    return WEFT_OK;
}

/* The start of the window of a sequence that is read for the first time. */
static size_t first_start(const struct decoder *decoder, size_t length)
{
    const size_t window = model_get_sequence(decoder->model);
    return length > window ? length - window : 0;
}

void decoder_cut(struct decoder *decoder, size_t count)
{
    const size_t start = first_start(decoder, count);
    if (decoder->start != start || count == 0)
        decoder->start = decoder->read = start;
    else if (decoder->read >= count)
        decoder->read = count - 1; /* its logits are wanted again */
    decoder->length = count;
}

static weft_status extend(struct decoder *decoder, size_t end, struct error *error)
{
    weft_status status = model_extend(decoder->model, decoder->parameters, decoder->read - decoder->start,
                                      decoder->tokens + decoder->read, end - decoder->read, decoder->logits, error);
    if (status == WEFT_OK)
        decoder->read = end;
    return status;
}

/* The last token is always read alone, so that the logits have the same bits after decoder_cut(), which has it read
 * again. */
weft_status decoder_read(struct decoder *decoder, const double **logits, struct error *error)
{
    const size_t length = decoder->length, window = model_get_sequence(decoder->model);
    weft_status status = WEFT_OK;
    if (length < 1)
        return error_set(error, WEFT_ERROR_ARGUMENT, "a text needs at least one token to begin with");
    if (length - decoder->start > window) {
        const bool is_new = decoder->read == decoder->start;
        decoder->start = is_new ? first_start(decoder, length) : length - (window + 1) / 2;
        decoder->read = decoder->start;
    }
    if (length - decoder->read > 1)
        status = extend(decoder, length - 1, error);
    if (status == WEFT_OK && decoder->read < length)
        status = extend(decoder, length, error);
    if (status == WEFT_OK)
        *logits = decoder->logits;
    return status;
}

size_t decoder_length(const struct decoder *decoder)
{
    return decoder->length;
}

size_t decoder_forgotten(const struct decoder *decoder)
{
    return decoder->start;
}
