/* SPDX-License-Identifier: Apache-2.0 */
#include "training/train/state/continuation.h"

#include "base/clock.h"
#include "training/model/decoder.h"
#include "training/train/text/text_stream.h"

#include <stdlib.h>

struct continuation {
    struct continuation_options options;
    const struct text *text;
    int32_t end_of_text; /* -1: the vocabulary has none */
    struct token_list prompt;
    struct model *model;
    struct decoder *decoder;
    size_t vocabulary; /* tokens that stand for something: the others are not drawn */
    double *scratch;   /* of sample_draw() */
};

const char *const continuation_end_names[CONTINUATION_ENDS] = {
    [CONTINUATION_TOKENS] = "tokens",
    [CONTINUATION_STOP] = "stop",
    [CONTINUATION_END_OF_TEXT] = "end-of-text",
    [CONTINUATION_INTERRUPTED] = "interrupted",
};

/* ---- opening ---- */

static size_t continuation_smaller(size_t a, size_t b)
{
    return a < b ? a : b;
}

static weft_status encode_prompt(struct continuation *continuation, struct error *error)
{
    const struct continuation_options *options = &continuation->options;
    if (options->prompt_size)
        return text_encode(continuation->text, options->prompt, options->prompt_size, &continuation->prompt, error);
    if (continuation->end_of_text >= 0)
        return token_list_add(&continuation->prompt, &continuation->end_of_text, 1, error);
    return error_set(error, WEFT_ERROR_ARGUMENT,
                     "the prompt is empty, and the vocabulary has no token that begins a text; give at least one "
                     "character with --prompt");
}

static weft_status continuation_open_model(struct continuation *continuation,
                                           const struct model_description *description, struct device *device,
                                           const void *parameters, struct error *error)
{
    const size_t context = description->shape.context, all = continuation->prompt.count + continuation->options.tokens;
    size_t window = continuation->options.window;
    if (window == 0)
        window = all < context ? all : context;
    weft_status status = model_open(description, device, &(struct model_options){.batch = 1, .sequence = window},
                                    &continuation->model, error);
    if (status == WEFT_OK)
        status = decoder_open(continuation->model, parameters, &continuation->decoder, error);
    if (status == WEFT_OK)
        status = decoder_append(continuation->decoder, continuation->prompt.tokens, continuation->prompt.count, error);
    return status;
}

weft_status continuation_open(const struct model_description *description, struct device *device,
                              const void *parameters, const struct text *text,
                              const struct continuation_options *options, struct continuation **result,
                              struct error *error)
{
    struct continuation *continuation = calloc(1, sizeof *continuation);
    if (!continuation)
        return error_memory(error, sizeof *continuation, "a continuation");
    *continuation = (struct continuation){
        .options = *options,
        .text = text,
        .end_of_text = text->tokenizer ? tokenizer_end_of_text(text->tokenizer) : -1,
        .vocabulary = continuation_smaller(text_tokens(text), description->shape.vocabulary),
    };
    weft_status status = encode_prompt(continuation, error);
    if (status == WEFT_OK)
        status = continuation_open_model(continuation, description, device, parameters, error);
    if (status == WEFT_OK) {
        const size_t bytes = 2 * continuation->vocabulary * sizeof *continuation->scratch;
        continuation->scratch = malloc(bytes);
        if (!continuation->scratch)
            status = error_memory(error, bytes, "the probabilities of tokens");
    }
    if (status != WEFT_OK) {
        continuation_close(continuation);
        return status;
    }
    *result = continuation;
    return WEFT_OK;
}

void continuation_close(struct continuation *continuation)
{
    if (!continuation)
        return;
    decoder_close(continuation->decoder);
    model_close(continuation->model);
    token_list_free(&continuation->prompt);
    free(continuation->scratch);
    free(continuation);
}

size_t continuation_prompt_tokens(const struct continuation *continuation)
{
    return continuation->prompt.count;
}

/* ---- writing ---- */

/* Whether the sample is over before another token is drawn. */
static bool continuation_is_over(const struct continuation *continuation, const struct text_stream *stream,
                                 struct continuation_result *result)
{
    const volatile sig_atomic_t *interrupted = continuation->options.interrupted;
    if (stream->is_stopped)
        result->end = CONTINUATION_STOP;
    else if (result->tokens == continuation->options.tokens)
        result->end = CONTINUATION_TOKENS;
    else if (interrupted && *interrupted)
        result->end = CONTINUATION_INTERRUPTED;
    else
        return false;
    return true;
}

static weft_status echo_prompt(const struct continuation_options *options, FILE *output, bool is_terminal,
                               struct error *error)
{
    struct text_stream stream = {.output = output, .is_terminal = is_terminal};
    weft_status status =
        options->echo ? text_stream_put(&stream, options->prompt, options->prompt_size, error) : WEFT_OK;
    weft_status end = text_stream_end(&stream, status == WEFT_OK ? error : NULL);
    return status == WEFT_OK ? end : status;
}

static weft_status continuation_draw(const struct continuation *continuation, uint64_t number, int32_t *token,
                                     struct error *error)
{
    const double *logits;
    weft_status status = decoder_read(continuation->decoder, &logits, error);
    return status == WEFT_OK ? sample_draw(logits, continuation->vocabulary, &continuation->options.sampling, number,
                                           continuation->scratch, token, error)
                             : status;
}

/* Print a token, and let the next one follow it. */
static weft_status continuation_take(const struct continuation *continuation, int32_t token, struct text_stream *stream,
                                     struct error *error)
{
    size_t size;
    const uint8_t *bytes = text_decode(continuation->text, token, &size);
    weft_status status = text_stream_put(stream, bytes, size, error);
    return status == WEFT_OK ? decoder_append(continuation->decoder, &token, 1, error) : status;
}

weft_status continuation_write(struct continuation *continuation, uint64_t sample, FILE *output, bool is_terminal,
                               struct continuation_result *result, struct error *error)
{
    const struct continuation_options *options = &continuation->options;
    struct text_stream stream = {
        .output = output, .stops = options->stops, .stop_count = options->stop_count, .is_terminal = is_terminal};
    struct continuation_result made = {0};
    weft_status status = echo_prompt(options, output, is_terminal, error);
    const uint64_t begin = clock_now();
    uint64_t read = begin;
    decoder_cut(continuation->decoder, continuation->prompt.count);
    while (status == WEFT_OK && !continuation_is_over(continuation, &stream, &made)) {
        int32_t token;
        status = continuation_draw(continuation, sample << 32 | made.tokens, &token, error);
        if (made.tokens == 0)
            read = clock_now();
        if (status == WEFT_OK && token == continuation->end_of_text) {
            made.end = CONTINUATION_END_OF_TEXT;
            break;
        }
        if (status == WEFT_OK)
            status = continuation_take(continuation, token, &stream, error);
        made.tokens++;
    }
    weft_status end = text_stream_end(&stream, status == WEFT_OK ? error : NULL);
    made.forgotten = decoder_forgotten(continuation->decoder);
    made.read_seconds = (double)(read - begin) * 1e-9;
    made.write_seconds = (double)(clock_now() - read) * 1e-9;
    *result = made;
    return status == WEFT_OK ? end : status;
}
