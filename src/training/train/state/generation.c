/* SPDX-License-Identifier: Apache-2.0 */
#include "training/train/state/generation.h"

#include "base/clock.h"
#include "training/model/decoder.h"
#include "training/train/text/text_stream.h"

#include <stdlib.h>

struct generation {
    struct generation_options options;
    const struct text *text;
    int32_t end_of_text; /* -1: the vocabulary has none */
    struct token_list prompt;
    struct model *model;
    struct decoder *decoder;
    size_t vocabulary; /* tokens that stand for something: the others are not drawn */
    double *scratch;   /* of sample_draw() */
};

const char *const generation_end_names[GENERATION_ENDS] = {
    [GENERATION_TOKENS] = "tokens",
    [GENERATION_STOP] = "stop",
    [GENERATION_END_OF_TEXT] = "end-of-text",
    [GENERATION_INTERRUPTED] = "interrupted",
};

/* ---- opening ---- */

static size_t generation_smaller(size_t a, size_t b)
{
    return a < b ? a : b;
}

static weft_status encode_prompt(struct generation *generation, struct error *error)
{
    const struct generation_options *options = &generation->options;
    if (options->prompt_size)
        return text_encode(generation->text, options->prompt, options->prompt_size, &generation->prompt, error);
    if (generation->end_of_text >= 0)
        return token_list_add(&generation->prompt, &generation->end_of_text, 1, error);
    return error_set(error, WEFT_ERROR_ARGUMENT,
                     "the prompt is empty, and the vocabulary has no token that begins a text; give at least one "
                     "character with --prompt");
}

static weft_status generation_open_model(struct generation *generation, const struct model_description *description,
                                         struct device *device, const void *parameters, struct error *error)
{
    const size_t context = description->shape.context, all = generation->prompt.count + generation->options.tokens;
    size_t window = generation->options.window;
    if (window == 0)
        window = all < context ? all : context;
    weft_status status = model_open(description, device, &(struct model_options){.batch = 1, .sequence = window},
                                    &generation->model, error);
    if (status == WEFT_OK)
        status = decoder_open(generation->model, parameters, &generation->decoder, error);
    if (status == WEFT_OK)
        status = decoder_append(generation->decoder, generation->prompt.tokens, generation->prompt.count, error);
    return status;
}

weft_status generation_open(const struct model_description *description, struct device *device, const void *parameters,
                            const struct text *text, const struct generation_options *options,
                            struct generation **result, struct error *error)
{
    struct generation *generation = calloc(1, sizeof *generation);
    if (!generation)
        return error_memory(error, sizeof *generation, "a generation");
    *generation = (struct generation){
        .options = *options,
        .text = text,
        .end_of_text = text->tokenizer ? tokenizer_end_of_text(text->tokenizer) : -1,
        .vocabulary = generation_smaller(text_tokens(text), description->shape.vocabulary),
    };
    weft_status status = encode_prompt(generation, error);
    if (status == WEFT_OK)
        status = generation_open_model(generation, description, device, parameters, error);
    if (status == WEFT_OK) {
        const size_t bytes = 2 * generation->vocabulary * sizeof *generation->scratch;
        generation->scratch = malloc(bytes);
        if (!generation->scratch)
            status = error_memory(error, bytes, "the probabilities of tokens");
    }
    if (status != WEFT_OK) {
        generation_close(generation);
        return status;
    }
    *result = generation;
    return WEFT_OK;
}

void generation_close(struct generation *generation)
{
    if (!generation)
        return;
    decoder_close(generation->decoder);
    model_close(generation->model);
    token_list_free(&generation->prompt);
    free(generation->scratch);
    free(generation);
}

size_t generation_prompt_tokens(const struct generation *generation)
{
    return generation->prompt.count;
}

/* ---- writing ---- */

/* Whether the sample is over before another token is drawn. */
static bool generation_is_over(const struct generation *generation, const struct text_stream *stream,
                               struct generation_result *result)
{
    const volatile sig_atomic_t *interrupted = generation->options.interrupted;
    if (stream->is_stopped)
        result->end = GENERATION_STOP;
    else if (result->tokens == generation->options.tokens)
        result->end = GENERATION_TOKENS;
    else if (interrupted && *interrupted)
        result->end = GENERATION_INTERRUPTED;
    else
        return false;
    return true;
}

static weft_status echo_prompt(const struct generation_options *options, FILE *output, bool is_terminal,
                               struct error *error)
{
    struct text_stream stream = {.output = output, .is_terminal = is_terminal};
    weft_status status =
        options->echo ? text_stream_put(&stream, options->prompt, options->prompt_size, error) : WEFT_OK;
    weft_status end = text_stream_end(&stream, status == WEFT_OK ? error : NULL);
    return status == WEFT_OK ? end : status;
}

static weft_status generation_draw(const struct generation *generation, uint64_t number, int32_t *token,
                                   struct error *error)
{
    const double *logits;
    weft_status status = decoder_read(generation->decoder, &logits, error);
    return status == WEFT_OK ? sample_draw(logits, generation->vocabulary, &generation->options.sampling, number,
                                           generation->scratch, token, error)
                             : status;
}

weft_status generation_write(struct generation *generation, uint64_t sample, FILE *output, bool is_terminal,
                             struct generation_result *result, struct error *error)
{
    const struct generation_options *options = &generation->options;
    struct text_stream stream = {
        .output = output, .stops = options->stops, .stop_count = options->stop_count, .is_terminal = is_terminal};
    struct generation_result made = {0};
    weft_status status = echo_prompt(options, output, is_terminal, error);
    const uint64_t begin = clock_now();
    uint64_t read = begin;
    decoder_cut(generation->decoder, generation->prompt.count);
    while (status == WEFT_OK && !generation_is_over(generation, &stream, &made)) {
        int32_t token;
        status = generation_draw(generation, sample << 32 | made.tokens, &token, error);
        if (made.tokens == 0)
            read = clock_now();
        if (status == WEFT_OK && token == generation->end_of_text) {
            made.end = GENERATION_END_OF_TEXT;
            break;
        }
        size_t size = 0;
        const uint8_t *bytes = status == WEFT_OK ? text_decode(generation->text, token, &size) : NULL;
        if (status == WEFT_OK)
            status = text_stream_put(&stream, bytes, size, error);
        if (status == WEFT_OK) /* the next one follows it */
            status = decoder_append(generation->decoder, &token, 1, error);
        made.tokens++;
    }
    weft_status end = text_stream_end(&stream, status == WEFT_OK ? error : NULL);
    made.forgotten = decoder_forgotten(generation->decoder);
    made.read_seconds = (double)(read - begin) * 1e-9;
    made.write_seconds = (double)(clock_now() - read) * 1e-9;
    *result = made;
    return status == WEFT_OK ? end : status;
}
