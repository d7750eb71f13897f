/* SPDX-License-Identifier: Apache-2.0 */
/* One text as a sample of labeled.c, for predictions. */
#include "training/data/bert/internal/sample.h"
#include "training/data/bert/labeled.h"

#include <string.h>

weft_status labeled_encode(const struct bert_data_options *options, const char *text, const char *other,
                           int32_t *tokens, int32_t *segments, int32_t *length, struct error *error)
{
    struct special_tokens specials;
    struct encoder *encoder = NULL;
    struct token_list list = {0};
    size_t one = 0;
    weft_status status = sample_check_options(options, &specials, error);
    if (status == WEFT_OK)
        status = encoder_open(options->tokenizer, &encoder, error);
    if (status == WEFT_OK)
        status = encoder_encode(encoder, text, strlen(text), &list, error);
    one = list.count;
    if (status == WEFT_OK && other)
        status = encoder_encode(encoder, other, strlen(other), &list, error);
    if (status == WEFT_OK) {
        size_t first = one, second = list.count - one;
        sample_fit(sample_room(options->sequence, other ? 2 : 1), &first, &second);
        const struct token_span spans[] = {{list.tokens, first}, {other ? list.tokens + one : NULL, second}};
        *length = (int32_t)sample_put_tokens(&specials, spans[0], spans[1], tokens, options->sequence);
        sample_put_segments(first, second, segments, options->sequence);
    }
    token_list_free(&list);
    encoder_close(encoder);
    return status;
}
