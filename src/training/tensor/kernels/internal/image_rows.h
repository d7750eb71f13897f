/* SPDX-License-Identifier: Apache-2.0 */
/* Reading and writing the channels of positions: what convolutions, batch norms and pools have in common. */

/* ---- reading ---- */

/* Channels c to c + count - 1, or LANES if that is less, of the row that begins at element `at`. */
VECTOR_FUNCTION vector source_load(const struct image_source *source, const enum source_mode mode, size_t at, size_t c,
                                   size_t count)
{
    vector x = activation_load_part((const activation *)source->x + at + c, count, 0);
    if (mode == SOURCE_PLAIN)
        return x;
    x = vector_multiply_add(x, vector_load_part(source->factors + c, count, 0),
                            vector_load_part(source->offsets + c, count, 0));
    if (mode == SOURCE_NORMALIZED)
        return vector_min(vector_of(source->upper), vector_max(vector_of(source->lower), x));
    const vector y = activation_load_part((const activation *)source->y + at + c, count, 0);
    return vector_multiply_add(y, vector_load_part(source->of_y + c, count, 0), x);
}

/* Channels first to first + count - 1 of `rows` rows that follow each other, to rows of `to` that are `stride` floats apart.
 * Elements after a row are overwritten up to a multiple of LANES. */
VECTOR_FUNCTION void source_rows_of(const struct image_source *from, const enum source_mode mode, size_t row,
                                    size_t rows, size_t first, size_t count, float *to, size_t stride)
{
    const struct image_source copy = *from, *source = &copy; /* which no store into an array can change */
    for (size_t i = 0; i < rows; i++, to += stride)
        for (size_t c = 0; c < count; c += LANES)
            vector_store(to + c, source_load(source, mode, (row + i) * source->channels, first + c, count - c));
}

static void source_rows(const struct image_source *source, size_t row, size_t rows, size_t first, size_t count,
                        float *to, size_t stride)
{
    if (source->mode == SOURCE_PLAIN)
        source_rows_of(source, SOURCE_PLAIN, row, rows, first, count, to, stride);
    else if (source->mode == SOURCE_NORMALIZED)
        source_rows_of(source, SOURCE_NORMALIZED, row, rows, first, count, to, stride);
    else
        source_rows_of(source, SOURCE_SLOPE, row, rows, first, count, to, stride);
}

static void fill_zeros(float *to, size_t count)
{
    for (size_t c = 0; c < count; c += LANES)
        vector_store(to + c, (vector){0});
}

/* ---- writing ---- */

/* Rows of results in scratch memory. Rows are summed a tile at a time: sums of many rows would lose digits. */
struct image_tile {
    size_t rows;
    const size_t *places;  /* where each row goes */
    size_t channel, count; /* the first of its channels, and how many there are */
    const float *results;
    size_t stride; /* of rows of results */
};

VECTOR_FUNCTION vector slope_of(const struct image_sink *sink, size_t c, size_t count, vector y, vector gradient)
{
    const vector z = vector_multiply_add(y, vector_load_part(sink->factors + c, count, 0),
                                         vector_load_part(sink->offsets + c, count, 0));
    const vector_bits passes = (z > vector_of(sink->lower)) & (z < vector_of(sink->upper));
    return (vector)((vector_bits)gradient & passes);
}

VECTOR_FUNCTION vector sink_normalized(const struct image_sink *sink, size_t c, size_t count, vector y)
{
    return (y - vector_load_part(sink->means + c, count, 0)) * vector_load_part(sink->reciprocals + c, count, 0);
}

VECTOR_FUNCTION void sums_add(struct image_sums *sums, size_t c, size_t count, vector first, vector second)
{
    vector_store_part(sums->first + c, vector_load_part(sums->first + c, count, 0) + first, count);
    vector_store_part(sums->second + c, vector_load_part(sums->second + c, count, 0) + second, count);
}

#define SINK_VECTORS 16 /* of a block of channels: rows are written in long pieces, and the sums stay in the L1 cache */

/* At most SINK_VECTORS vectors of all rows, from channel `c` of the tile. */
VECTOR_FUNCTION void sink_block(const struct image_sink *to, const enum sink_mode mode, const bool streams,
                                const struct image_tile *tile, size_t c, size_t count, struct image_sums *sums)
{
    const struct image_sink sink = *to; /* a copy, which no store into an array can change */
    const size_t channel = tile->channel + c, rows = tile->rows, stride = tile->stride;
    const size_t *places = tile->places;
    const float *results = tile->results + c, *pivots = mode == SINK_STATISTICS ? sums->pivots : NULL;
    vector first[SINK_VECTORS], second[SINK_VECTORS];
    for (size_t k = 0; k < SINK_VECTORS; k++)
        first[k] = second[k] = (vector){0};
    for (size_t i = 0; i < rows; i++, results += stride) {
        const size_t at = places[i] * sink.channels + channel;
        activation *out = (activation *)sink.out + at;
        const activation *of_y = mode == SINK_SLOPE ? (const activation *)sink.y + at : NULL;
        for (size_t j = 0, k = 0; j < count; j += LANES, k++) {
            const size_t rest = count - j;
            vector result = vector_load(results + j);
            if (mode == SINK_STATISTICS) {
                const vector distance = result - vector_load_part(pivots + channel + j, rest, 0);
                first[k] += distance;
                second[k] = vector_multiply_add(distance, distance, second[k]);
            } else if (mode == SINK_SLOPE) {
                const vector y = activation_load_part(of_y + j, rest, 0);
                result = slope_of(&sink, channel + j, rest, y, result);
                first[k] += result;
                second[k] = vector_multiply_add(result, sink_normalized(&sink, channel + j, rest, y), second[k]);
            }
            if (streams)
                activation_stream(out + j, result);
            else
                activation_store_part(out + j, result, rest);
        }
    }
    if (mode != SINK_PLAIN)
        for (size_t j = 0, k = 0; j < count; j += LANES, k++)
            sums_add(sums, channel + j, count - j, first[k], second[k]);
}

VECTOR_FUNCTION void sink_tile_of(const struct image_sink *sink, const enum sink_mode mode,
                                  const struct image_tile *tile, struct image_sums *sums)
{
    const size_t block = SINK_VECTORS * LANES, alignment = LANES * sizeof(activation);
    const bool streams = sink->streams && (uintptr_t)sink->out % alignment == 0 && sink->channels % LANES == 0;
    for (size_t c = 0; c < tile->count; c += block) {
        const size_t rest = tile->count - c, count = rest < block ? rest : block;
        if (streams)
            sink_block(sink, mode, true, tile, c, count, sums);
        else
            sink_block(sink, mode, false, tile, c, count, sums);
    }
}

static void sink_tile(const struct image_sink *sink, const struct image_tile *tile, struct image_sums *sums)
{
    if (sink->mode == SINK_STATISTICS) {
        if (!sums->begun)
            memcpy(sums->pivots + tile->channel, tile->results, tile->count * sizeof(float));
        sink_tile_of(sink, SINK_STATISTICS, tile, sums);
    } else if (sink->mode == SINK_SLOPE) {
        sink_tile_of(sink, SINK_SLOPE, tile, sums);
    } else {
        sink_tile_of(sink, SINK_PLAIN, tile, sums);
    }
}

/* Write `rows` rows from `row` on, of channels `channel` to channel + count - 1. */
static void sink_rows(const struct image_sink *sink, size_t row, size_t rows, size_t channel, size_t count,
                      const float *results, size_t stride, struct image_sums *sums)
{
    size_t places[IMAGE_TILE];
    for (size_t done = 0; done < rows; done += IMAGE_TILE) {
        const size_t now = rows - done < IMAGE_TILE ? rows - done : IMAGE_TILE;
        for (size_t i = 0; i < now; i++)
            places[i] = row + done + i;
        const struct image_tile tile = {.rows = now,
                                        .places = places,
                                        .channel = channel,
                                        .count = count,
                                        .results = results + done * stride,
                                        .stride = stride};
        sink_tile(sink, &tile, sums);
        if (sums)
            sums->begun = true;
    }
}

/* ---- batch norms that are not applied while reading ---- */

static void normalize(const struct image_source *y, size_t first, size_t rows, const float *x, float *out)
{
    const vector lower = vector_of(y->lower), upper = vector_of(y->upper);
    for (size_t row = first; row < first + rows; row++)
        for (size_t c = 0; c < y->channels; c += LANES) {
            const size_t rest = y->channels - c, at = row * y->channels;
            vector z = vector_multiply_add(activation_load_part((const activation *)y->x + at + c, rest, 0),
                                           vector_load_part(y->factors + c, rest, 0),
                                           vector_load_part(y->offsets + c, rest, 0));
            if (x)
                z += vector_load_part(x + at + c, rest, 0);
            vector_store_part(out + at + c, vector_min(upper, vector_max(lower, z)), rest);
        }
}

/* At most SINK_VECTORS vectors of rows first to last - 1, from channel `c`. */
static void normalize_backward_block(const struct image_sink *to, size_t first, size_t last, size_t c, size_t count,
                                     const float *x, float *gradient, struct image_sums *sums)
{
    const struct image_sink copy = *to, *sink = &copy; /* which no store into an array can change */
    const vector lower = vector_of(sink->lower), upper = vector_of(sink->upper);
    vector of_bias[SINK_VECTORS], of_gain[SINK_VECTORS];
    for (size_t k = 0; k < SINK_VECTORS; k++)
        of_bias[k] = of_gain[k] = (vector){0};
    for (size_t row = first; row < last; row++)
        for (size_t j = 0, k = 0; j < count; j += LANES, k++) {
            const size_t at = row * sink->channels + c + j, rest = count - j, channel = c + j;
            const vector y = activation_load_part((const activation *)sink->y + at, rest, 0);
            vector z = vector_multiply_add(y, vector_load_part(sink->factors + channel, rest, 0),
                                           vector_load_part(sink->offsets + channel, rest, 0));
            if (x)
                z += vector_load_part(x + at, rest, 0);
            const vector_bits passes = (z > lower) & (z < upper);
            const vector d = (vector)((vector_bits)vector_load_part(gradient + at, rest, 0) & passes);
            of_bias[k] += d;
            of_gain[k] = vector_multiply_add(d, sink_normalized(sink, channel, rest, y), of_gain[k]);
            vector_store_part(gradient + at, d, rest);
            activation_store_part((activation *)sink->out + at, d, rest);
        }
    for (size_t j = 0, k = 0; j < count; j += LANES, k++)
        sums_add(sums, c + j, count - j, of_bias[k], of_gain[k]);
}

static void normalize_backward(const struct image_sink *sink, size_t first, size_t rows, const float *x,
                               float *gradient, struct image_sums *sums)
{
    const size_t block = SINK_VECTORS * LANES, last = first + rows;
    for (size_t tile = first; tile < last; tile += IMAGE_TILE)
        for (size_t c = 0; c < sink->channels; c += block) {
            const size_t rest = sink->channels - c, end = last - tile < IMAGE_TILE ? last : tile + IMAGE_TILE;
            normalize_backward_block(sink, tile, end, c, rest < block ? rest : block, x, gradient, sums);
        }
}
