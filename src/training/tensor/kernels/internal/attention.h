/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One head of attention, a block of queries at a time, so that a block's scores stay in the L2 cache and no array
 * of sequence x sequence is ever kept: the backward pass recomputes the probabilities from the scores and the stored
 * log sums (Dao et al. 2022, "FlashAttention"). Within a block, causal products go by tiles of PRODUCT_ROWS rows and
 * skip columns that no row of the tile sees. training/tensor/internal/reference.h has the formulas.
 *
 * The head's matrices are first copied out of the interleaved rows into scratch, rows padded with zeros to whole
 * registers. A row of scores or of a transposed matrix has `span` elements: the sequence padded likewise, and one
 * register more, as rows a power of two apart would all fall into the same few places of a cache.
 */

#define ATTENTION_QUERIES 64 /* in a block; a multiple of PRODUCT_ROWS */

static size_t attention_pad(size_t count)
{
    return (count + LANES - 1) / LANES * LANES;
}

static size_t attention_span(const struct attention *shape)
{
    return attention_pad(shape->sequence) + LANES;
}

/* Sizes of one head's matrices. */
struct head {
    size_t length; /* positions */
    size_t keys;   /* of them that are no padding */
    size_t width;  /* elements of a query, key or value */
    size_t padded; /* of a row of them in scratch */
    size_t span;   /* of a row of scores */
    size_t row;    /* of a row of queries, keys and values */
    size_t all;    /* heads x width: of a row of out, and of the queries in a row */
    size_t group;  /* heads of queries that one head of keys serves */
    size_t values; /* from a head's keys to its values in a row */
    float factor;  /* of scores: 1 / sqrt(width) */
    bool causal;
};

static struct head attention_head(const struct attention *shape, size_t sequence)
{
    return (struct head){
        .length = shape->sequence,
        .keys = shape->lengths ? (size_t)shape->lengths[sequence] : shape->sequence,
        .width = shape->head_width,
        .padded = attention_pad(shape->head_width),
        .span = attention_span(shape),
        .row = attention_row(shape),
        .all = shape->heads * shape->head_width,
        .group = shape->heads / shape->kv_heads,
        .values = shape->kv_heads * shape->head_width,
        .factor = 1 / sqrtf((float)shape->head_width),
        .causal = shape->causal,
    };
}

/* Scratch of the backward pass, which needs more. */
static size_t attention_scratch(const struct attention *shape)
{
    const size_t padded = attention_pad(shape->head_width), span = attention_span(shape);
    return 7 * shape->sequence * padded + 2 * shape->head_width * span + 2 * ATTENTION_QUERIES * span;
}

/* to = from factor, out of a row of the arrays and into one */
static void attention_take(const activation *from, float factor, size_t width, float *to)
{
    for (size_t d = 0; d < width; d += LANES)
        vector_store_part(to + d, activation_load_part(from + d, width - d, 0) * vector_of(factor), width - d);
}

static void attention_give(const float *from, float factor, size_t width, activation *to)
{
    for (size_t d = 0; d < width; d += LANES)
        activation_store_part(to + d, vector_load_part(from + d, width - d, 0) * vector_of(factor), width - d);
}

/* to[t] = from[t] factor for positions [first, length), rows of `to` padded with zeros. */
static void attention_copy(const struct head *head, const activation *from, size_t stride, size_t first, float factor,
                           float *to)
{
    for (size_t t = first; t < head->length; t++) {
        attention_take(from + t * stride, factor, head->width, to + t * head->padded);
        for (size_t d = head->width; d < head->padded; d++)
            to[t * head->padded + d] = 0;
    }
}

/* to[d][t] = from[t][d], padded with zeros. */
static void attention_transpose(const struct head *head, const activation *from, size_t stride, float *to)
{
    const size_t span = head->span;
    size_t t = 0;
    for (; t + 4 <= head->length; t += 4) {
        const activation *row = from + t * stride;
        for (size_t d = 0; d < head->width; d++) {
            float *place = to + d * span + t;
            place[0] = activation_value(row[d]);
            place[1] = activation_value(row[stride + d]);
            place[2] = activation_value(row[2 * stride + d]);
            place[3] = activation_value(row[3 * stride + d]);
        }
    }
    for (; t < span; t++)
        for (size_t d = 0; d < head->width; d++)
            to[d * span + t] = t < head->length ? activation_value(from[t * stride + d]) : 0;
}

/* The number of keys that the `rows` queries from position t on see together. */
static size_t attention_keys(const struct head *head, size_t t, size_t rows)
{
    return head->causal ? t + rows : head->keys;
}

static size_t attention_tile(size_t t, size_t last)
{
    return last - t < PRODUCT_ROWS ? last - t : PRODUCT_ROWS;
}

/* scores[t - first][s] = rows[t] . columns[s] for queries [first, last) and the keys that they see, padded to whole
 * registers. */
static void attention_scores(const struct head *head, size_t first, size_t last, const float *rows,
                             const float *columns, float *scores)
{
    for (size_t t = first; t < last; t += PRODUCT_ROWS) {
        size_t tile = attention_tile(t, last);
        product_compute(&(struct product){.rows = tile,
                                          .columns = attention_pad(attention_keys(head, t, tile)),
                                          .inner = head->width,
                                          .a = rows + t * head->padded,
                                          .a_row = head->padded,
                                          .a_inner = 1,
                                          .b = columns,
                                          .b_inner = head->span,
                                          .c = scores + (t - first) * head->span,
                                          .c_row = head->span});
    }
}

/* out[t] = sum over keys s that t sees of weights[t - first][s] rows[s], for queries [first, last). */
static void attention_gather(const struct head *head, size_t first, size_t last, const float *weights,
                             const float *rows, float *out)
{
    for (size_t t = first; t < last; t += PRODUCT_ROWS) {
        size_t tile = attention_tile(t, last);
        product_compute(&(struct product){.rows = tile,
                                          .columns = head->padded,
                                          .inner = attention_keys(head, t, tile),
                                          .a = weights + (t - first) * head->span,
                                          .a_row = head->span,
                                          .a_inner = 1,
                                          .b = rows,
                                          .b_inner = head->padded,
                                          .c = out + t * head->padded,
                                          .c_row = head->padded});
    }
}

/* out[s] += sum over queries t of [first, last) that see s of weights[t - first][s] rows[t]. */
static void attention_scatter(const struct head *head, size_t first, size_t last, const float *weights,
                              const float *rows, float *out)
{
    size_t keys = attention_keys(head, first, last - first);
    for (size_t s = 0; s < keys; s += PRODUCT_ROWS) {
        size_t from = head->causal && s > first ? s : first;
        product_compute(&(struct product){.rows = attention_tile(s, keys),
                                          .columns = head->padded,
                                          .inner = last - from,
                                          .a = weights + (from - first) * head->span + s,
                                          .a_row = 1,
                                          .a_inner = head->span,
                                          .b = rows + from * head->padded,
                                          .b_inner = head->padded,
                                          .c = out + s * head->padded,
                                          .c_row = head->padded,
                                          .accumulate = true});
    }
}

/*
 * scores = e^(scores - shift) for the first `seen` keys, 0 for the rest of what the query's tile sees, padded. Returns
 * their sum.
 */
static float attention_exponentials(float *scores, float shift, size_t seen, size_t columns)
{
    const vector shift_lanes = vector_of(shift);
    vector sum = {0};
    for (size_t s = 0; s < columns; s += LANES) {
        vector term = vector_exponential(vector_load(scores + s) - shift_lanes);
        term = vector_keep(term, seen > s ? seen - s : 0);
        sum += term;
        vector_store(scores + s, term);
    }
    return vector_sum(sum);
}

/* The number of keys that query t sees, and of columns of its row of scores in use. */
static size_t attention_seen(const struct head *head, size_t first, size_t last, size_t t, size_t *columns)
{
    size_t tile = t - (t - first) % PRODUCT_ROWS;
    *columns = attention_pad(attention_keys(head, tile, attention_tile(tile, last)));
    return head->causal ? t + 1 : head->keys;
}

static void attention_forward(const struct attention *shape, size_t sequence, size_t number, const void *qkv_,
                              void *out_, float *logsums, float *scratch)
{
    const activation *qkv = qkv_;
    activation *out = out_;
    const struct head head = attention_head(shape, sequence);
    const size_t length = head.length, size = length * head.padded;
    const activation *rows = qkv + sequence * length * head.row;
    const activation *keys = rows + head.all + number / head.group * head.width;
    float *q = scratch, *v = q + size, *k_columns = v + size, *scores = k_columns + head.width * head.span;
    attention_copy(&head, rows + number * head.width, head.row, shape->first, head.factor, q);
    attention_copy(&head, keys + head.values, head.row, 0, 1, v);
    attention_transpose(&head, keys, head.row, k_columns);

    for (size_t first = shape->first; first < length; first += ATTENTION_QUERIES) {
        size_t last = first + ATTENTION_QUERIES < length ? first + ATTENTION_QUERIES : length;
        float inverse[ATTENTION_QUERIES];
        attention_scores(&head, first, last, q, k_columns, scores);
        for (size_t t = first; t < last; t++) {
            float *row = scores + (t - first) * head.span;
            size_t columns, seen = attention_seen(&head, first, last, t, &columns);
            float most = row_largest(row, seen), sum = attention_exponentials(row, most, seen, columns);
            inverse[t - first] = 1 / sum;
            if (logsums)
                logsums[(sequence * shape->heads + number) * length + t] = most + logf(sum);
        }
        attention_gather(&head, first, last, scores, v,
                         q); /* the block's queries are no longer needed: the result overwrites them */
        for (size_t t = first; t < last; t++)
            attention_give(q + t * head.padded, inverse[t - first], head.width,
                           out + (sequence * length + t) * head.all + number * head.width);
    }
}

/* slope = probability (slope - mean) over a row of scores; keys that are not seen have probability 0. */
static void attention_slopes(const float *probability, float mean, size_t columns, float *slope)
{
    const vector mean_lanes = vector_of(mean);
    for (size_t s = 0; s < columns; s += LANES)
        vector_store(slope + s, vector_load(probability + s) * (vector_load(slope + s) - mean_lanes));
}

/* The arrays of the backward pass of one head of keys and values, in scratch; all are length x padded or transposed. */
struct attention_work {
    float *q, *k, *gradient;                     /* gradient: of the head's output */
    float *gradient_q, *gradient_k, *gradient_v; /* the last two are sums over the heads of queries */
    float *k_columns, *v_columns;
    float *probabilities, *slopes; /* of a block of queries */
};

/* One head of queries: its gradient, and its part of the gradients of keys and values. */
static void attention_backward_queries(const struct head *head, const struct attention_work *work,
                                       const activation *out, const float *logsums, const activation *gradient_out)
{
    for (size_t first = 0; first < head->length; first += ATTENTION_QUERIES) {
        size_t last = first + ATTENTION_QUERIES < head->length ? first + ATTENTION_QUERIES : head->length;
        attention_scores(head, first, last, work->q, work->k_columns, work->probabilities);
        attention_scores(head, first, last, work->gradient, work->v_columns, work->slopes);
        for (size_t t = first; t < last; t++) {
            float *probability = work->probabilities + (t - first) * head->span;
            size_t columns, seen = attention_seen(head, first, last, t, &columns);
            float mean = row_dot(gradient_out + t * head->all, out + t * head->all, head->width);
            attention_exponentials(probability, logsums[t], seen, columns);
            attention_slopes(probability, mean, columns, work->slopes + (t - first) * head->span);
        }
        attention_gather(head, first, last, work->slopes, work->k, work->gradient_q);
        attention_scatter(head, first, last, work->slopes, work->q, work->gradient_k);
        attention_scatter(head, first, last, work->probabilities, work->gradient, work->gradient_v);
    }
}

static void attention_backward(const struct attention *shape, size_t sequence, size_t number, const void *qkv_,
                               const void *out_, const float *logsums, const void *gradient_out_, void *gradient_qkv_,
                               float *scratch)
{
    const activation *qkv = qkv_;
    const activation *out = out_;
    const activation *gradient_out = gradient_out_;
    activation *gradient_qkv = gradient_qkv_;
    const struct head head = attention_head(shape, sequence);
    const size_t length = head.length, size = length * head.padded, columns = head.width * head.span;
    struct attention_work work = {.q = scratch, .k = scratch + size, .gradient = scratch + 2 * size};
    work.gradient_q = work.gradient + size;
    work.gradient_k = work.gradient_q + size;
    work.gradient_v = work.gradient_k + size;
    work.k_columns = work.gradient_v + size;
    work.v_columns = work.k_columns + columns;
    work.probabilities = work.v_columns + columns;
    work.slopes = work.probabilities + ATTENTION_QUERIES * head.span;

    const activation *rows = qkv + sequence * length * head.row, *keys = rows + head.all + number * head.width;
    activation *to_rows = gradient_qkv + sequence * length * head.row,
               *to_keys = to_rows + head.all + number * head.width;
    attention_copy(&head, keys, head.row, 0, 1, work.k);
    attention_transpose(&head, keys, head.row, work.k_columns);
    attention_transpose(&head, keys + head.values, head.row, work.v_columns);
    fill(2 * size, 0, work.gradient_k);

    for (size_t query = number * head.group; query < (number + 1) * head.group; query++) {
        const size_t place = sequence * length * head.all + query * head.width;
        attention_copy(&head, rows + query * head.width, head.row, 0, head.factor, work.q);
        attention_copy(&head, gradient_out + place, head.all, 0, 1, work.gradient);
        attention_backward_queries(&head, &work, out + place, logsums + (sequence * shape->heads + query) * length,
                                   gradient_out + place);
        activation *to_queries = to_rows + query * head.width;
        for (size_t t = 0; t < length; t++)
            attention_give(work.gradient_q + t * head.padded, head.factor, head.width, to_queries + t * head.row);
    }
    for (size_t t = 0; t < length; t++, to_keys += head.row) { /* of the keys' factor: q was scaled already */
        attention_give(work.gradient_k + t * head.padded, 1, head.width, to_keys);
        attention_give(work.gradient_v + t * head.padded, 1, head.width, to_keys + head.values);
    }
}
