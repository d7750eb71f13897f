/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One head of attention, a block of queries at a time, so that a block's scores stay in the second cache and no array
 * of sequence x sequence is ever kept: the backward pass makes the probabilities anew from the scores and their kept
 * log sums (Dao et al. 2022, "FlashAttention"). Causal blocks stop at their last query's own key.
 *
 * The head's matrices are first copied out of the interleaved rows into scratch, rows padded with zeros to whole
 * registers; a row of scores has `span` elements, the sequence padded likewise. The formulas are told in
 * tensor/reference.h.
 */

#define ATTENTION_QUERIES 64 /* in a block */

static size_t attention_pad(size_t count)
{
    return (count + LANES - 1) / LANES * LANES;
}

/* Scratch of the backward pass, which needs more: q, k, v, gradient of out and gradients of q, k, v by rows; k and v by
 * columns; two blocks of scores. */
static size_t attention_scratch(const struct attention *shape)
{
    size_t width = attention_pad(shape->head_width), span = attention_pad(shape->sequence);
    return 7 * span * width + 2 * span * width + 2 * ATTENTION_QUERIES * span;
}

/* to[t][d] = from[t][d] factor for positions [first, last); `to` has rows of `padded` elements. */
static void attention_copy(const float *from, size_t stride, size_t first, size_t last, size_t width, size_t padded,
                           float factor, float *to)
{
    for (size_t t = first; t < last; t++) {
        for (size_t d = 0; d < width; d++)
            to[t * padded + d] = from[t * stride + d] * factor;
        for (size_t d = width; d < padded; d++)
            to[t * padded + d] = 0;
    }
}

/* to[d][t] = from[t][d], for d below `width` and t below `span`; zero from `sequence` on. */
static void attention_transpose(const float *from, size_t stride, size_t sequence, size_t width, size_t span, float *to)
{
    for (size_t d = 0; d < width; d++) {
        for (size_t t = 0; t < sequence; t++)
            to[d * span + t] = from[t * stride + d];
        for (size_t t = sequence; t < span; t++)
            to[d * span + t] = 0;
    }
}

/* scores = e^(scores - shift) for the first `seen`, 0 up to `columns`. Returns their sum. */
static float attention_exponentials(float *scores, float shift, size_t seen, size_t columns)
{
    float sum = row_exponentials(scores, shift, seen, scores);
    for (size_t s = seen; s < columns; s++)
        scores[s] = 0;
    return sum;
}

static void attention_forward(const struct attention *shape, size_t sequence, size_t head, const float *qkv, float *out,
                              float *logsums, float *scratch)
{
    const size_t length = shape->sequence, head_width = shape->head_width, all = shape->heads * head_width;
    const size_t width = attention_pad(head_width), span = attention_pad(length), stride = 3 * all;
    const float *rows = qkv + sequence * length * stride + head * head_width;
    float *q = scratch, *v = q + span * width, *k_columns = v + span * width, *scores = k_columns + span * width;
    attention_copy(rows, stride, shape->first, length, head_width, width, 1 / sqrtf((float)head_width), q);
    attention_copy(rows + 2 * all, stride, 0, length, head_width, width, 1, v);
    attention_transpose(rows + all, stride, length, head_width, span, k_columns);

    for (size_t first = shape->first; first < length; first += ATTENTION_QUERIES) {
        size_t last = first + ATTENTION_QUERIES < length ? first + ATTENTION_QUERIES : length;
        size_t keys = shape->causal ? last : length, columns = attention_pad(keys);
        product_compute(&(struct product){.rows = last - first,
                                          .columns = columns,
                                          .inner = head_width,
                                          .a = q + first * width,
                                          .a_row = width,
                                          .a_inner = 1,
                                          .b = k_columns,
                                          .b_inner = span,
                                          .c = scores,
                                          .c_row = span});
        float inverse[ATTENTION_QUERIES];
        for (size_t t = first; t < last; t++) {
            float *row = scores + (t - first) * span;
            size_t seen = shape->causal ? t + 1 : length;
            float most = row_largest(row, seen), sum = attention_exponentials(row, most, seen, columns);
            inverse[t - first] = 1 / sum;
            if (logsums)
                logsums[(sequence * shape->heads + head) * length + t] = most + logf(sum);
        }
        /* The queries of this block are not needed any more: the result takes their place. */
        product_compute(&(struct product){.rows = last - first,
                                          .columns = width,
                                          .inner = keys,
                                          .a = scores,
                                          .a_row = span,
                                          .a_inner = 1,
                                          .b = v,
                                          .b_inner = width,
                                          .c = q + first * width,
                                          .c_row = width});
        for (size_t t = first; t < last; t++) {
            float *result = out + (sequence * length + t) * all + head * head_width;
            for (size_t d = 0; d < head_width; d++)
                result[d] = q[t * width + d] * inverse[t - first];
        }
    }
}

/* gradient = probability (gradient - mean) over a row of padded scores; the padding's probability is 0. */
static void attention_score_gradient(const float *probability, float mean, size_t columns, float *gradient)
{
    const vector mean_lanes = vector_of(mean);
    for (size_t s = 0; s < columns; s += LANES)
        vector_store(gradient + s, vector_load(probability + s) * (vector_load(gradient + s) - mean_lanes));
}

static void attention_backward(const struct attention *shape, size_t sequence, size_t head, const float *qkv,
                               const float *out, const float *logsums, const float *gradient_out, float *gradient_qkv,
                               float *scratch)
{
    const size_t length = shape->sequence, head_width = shape->head_width, all = shape->heads * head_width;
    const size_t width = attention_pad(head_width), span = attention_pad(length), stride = 3 * all, size = span * width;
    const float factor = 1 / sqrtf((float)head_width);
    const float *rows = qkv + sequence * length * stride + head * head_width;
    float *q = scratch, *k = q + size, *gradient = k + size, *gradient_q = gradient + size;
    float *gradient_k = gradient_q + size, *gradient_v = gradient_k + size;
    float *k_columns = gradient_v + size, *v_columns = k_columns + size;
    float *probabilities = v_columns + size, *slopes = probabilities + ATTENTION_QUERIES * span;
    const float *head_gradient = gradient_out + sequence * length * all + head * head_width;
    const float *head_out = out + sequence * length * all + head * head_width;
    const float *head_logsums = logsums + (sequence * shape->heads + head) * length;
    attention_copy(rows, stride, 0, length, head_width, width, factor, q);
    attention_copy(rows + all, stride, 0, length, head_width, width, 1, k);
    attention_copy(head_gradient, all, 0, length, head_width, width, 1, gradient);
    attention_transpose(rows + all, stride, length, head_width, span, k_columns);
    attention_transpose(rows + 2 * all, stride, length, head_width, span, v_columns);
    fill(2 * size, 0, gradient_k);

    for (size_t first = 0; first < length; first += ATTENTION_QUERIES) {
        size_t last = first + ATTENTION_QUERIES < length ? first + ATTENTION_QUERIES : length;
        size_t keys = shape->causal ? last : length, columns = attention_pad(keys), queries = last - first;
        struct product by_columns = {.rows = queries,
                                     .columns = columns,
                                     .inner = head_width,
                                     .a = q + first * width,
                                     .a_row = width,
                                     .a_inner = 1,
                                     .b = k_columns,
                                     .b_inner = span,
                                     .c = probabilities,
                                     .c_row = span};
        product_compute(&by_columns);
        by_columns.a = gradient + first * width;
        by_columns.b = v_columns;
        by_columns.c = slopes;
        product_compute(&by_columns);
        for (size_t t = first; t < last; t++) {
            float *probability = probabilities + (t - first) * span, *slope = slopes + (t - first) * span;
            float mean = 0;
            for (size_t d = 0; d < head_width; d++)
                mean += head_gradient[t * all + d] * head_out[t * all + d];
            attention_exponentials(probability, head_logsums[t], shape->causal ? t + 1 : length, columns);
            attention_score_gradient(probability, mean, columns, slope);
        }
        product_compute(&(struct product){.rows = queries,
                                          .columns = width,
                                          .inner = keys,
                                          .a = slopes,
                                          .a_row = span,
                                          .a_inner = 1,
                                          .b = k,
                                          .b_inner = width,
                                          .c = gradient_q + first * width,
                                          .c_row = width});
        struct product by_keys = {.rows = keys,
                                  .columns = width,
                                  .inner = queries,
                                  .a = slopes,
                                  .a_row = 1,
                                  .a_inner = span,
                                  .b = q + first * width,
                                  .b_inner = width,
                                  .c = gradient_k,
                                  .c_row = width,
                                  .accumulate = true};
        product_compute(&by_keys);
        by_keys.a = probabilities;
        by_keys.b = gradient + first * width;
        by_keys.c = gradient_v;
        product_compute(&by_keys);
    }

    float *result = gradient_qkv + sequence * length * stride + head * head_width;
    for (size_t t = 0; t < length; t++, result += stride)
        for (size_t d = 0; d < head_width; d++) {
            result[d] = gradient_q[t * width + d] * factor;
            result[all + d] = gradient_k[t * width + d]; /* q was scaled already */
            result[2 * all + d] = gradient_v[t * width + d];
        }
}
