/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Convolutions as products of gathered rows and packed weights: training/tensor/kernels/images.h. The order of a sum depends
 * on the shape only: along taps and channels in blocks of PANEL_INNER, and rows in tiles.
 */

#define PANEL (2 * LANES) /* columns of a packed panel */
#if LANES == 16
#define STRIP 12 /* rows of a strip: of 32 registers, 24 hold sums */
#else
#define STRIP 6 /* of 16 registers, 12 hold sums */
#endif

#define PANEL_INNER  384         /* most rows of a panel that a strip is multiplied by: both stay in the L1 cache */
#define TILE_FLOATS  (48 * 1024) /* most results in a tile: a part of the L2 cache */
#define TILE_STRIPS  12          /* tiles have a multiple of so many rows */
#define BLOCK        192         /* columns of the left matrix in a block of the gradient of weights */
#define STRIDE_EXTRA 16          /* a cache line, so that rows do not fall into the same sets of the cache */

static size_t convolution_round(size_t count, size_t to)
{
    return (count + to - 1) / to * to;
}

static size_t convolution_tile_rows(size_t columns)
{
    const size_t rows = TILE_FLOATS / convolution_round(columns, PANEL) / TILE_STRIPS * TILE_STRIPS;
    return rows > IMAGE_TILE ? IMAGE_TILE : rows < 2 * TILE_STRIPS ? 2 * TILE_STRIPS : rows;
}

/* Rows of a panel in a block: as equal as possible. */
static size_t panel_inner(size_t inner)
{
    const size_t blocks = inner ? (inner + PANEL_INNER - 1) / PANEL_INNER : 1;
    return convolution_round((inner + blocks - 1) / blocks, 8);
}

/* Floats from one gathered row to the next: an odd number of cache lines. */
static size_t gathered_stride(size_t columns)
{
    return convolution_round(columns + LANES, 32) + STRIDE_EXTRA;
}

/* ---- packing weights ---- */

#define PACKED_CHANNELS 16 /* at once: a line of the cache */
#define PACKED_PANELS   16 /* at once: so much of a row of the weights is read */

/* Columns are far apart in the weights: read some channels of a column at once. */
static void pack_columns(const struct packing *packing, size_t panel, const activation *weights, float *packed)
{
    const size_t column = panel * PANEL, rest = packing->columns - column, columns = rest < PANEL ? rest : PANEL,
                 taps = packing->taps, channels = packing->channels;
    float *to = packed + panel * taps * channels * PANEL;
    for (size_t first = 0; first < channels; first += PACKED_CHANNELS) {
        const size_t last = first + PACKED_CHANNELS < channels ? first + PACKED_CHANNELS : channels;
        for (size_t j = 0; j < columns; j++) {
            const activation *from = weights + (column + j) * packing->column;
            for (size_t i = first; i < last; i++)
                for (size_t t = 0; t < taps; t++)
                    to[(t * channels + i) * PANEL + j] =
                        activation_value(from[i * packing->channel + packing->places[t]]);
        }
    }
}

/* Columns are neighbors in the weights: read a long piece of a channel at once. */
static void pack_channels(const struct packing *packing, size_t first, size_t count, const activation *weights,
                          float *packed)
{
    const size_t taps = packing->taps, channels = packing->channels, step = packing->column;
    for (size_t i = 0; i < channels; i++)
        for (size_t panel = first; panel < first + count; panel++) {
            const size_t column = panel * PANEL, rest = packing->columns - column,
                         columns = rest < PANEL ? rest : PANEL;
            const activation *from = weights + i * packing->channel + column * step;
            float *to = packed + (panel * taps * channels + i) * PANEL;
            for (size_t t = 0; t < taps; t++, to += channels * PANEL) {
                const activation *tap = from + packing->places[t];
                if (step == 1)
                    for (size_t j = 0; j < columns; j += LANES)
                        vector_store(to + j, activation_load_part(tap + j, columns - j, 0));
                else
                    for (size_t j = 0; j < columns; j++)
                        to[j] = activation_value(tap[j * step]);
            }
        }
}

static void convolution_pack(const struct packing *packing, size_t first, size_t count, const void *weights,
                             float *packed)
{
    const size_t panel_floats = packing->taps * packing->channels * PANEL;
    if ((first + count) * PANEL > packing->columns)
        memset(packed + (first + count - 1) * panel_floats, 0, panel_floats * sizeof *packed);
    for (size_t panel = first; panel < first + count; panel += PACKED_PANELS) {
        const size_t rest = first + count - panel, now = rest < PACKED_PANELS ? rest : PACKED_PANELS;
        if (packing->column < packing->channel)
            pack_channels(packing, panel, now, weights, packed);
        else
            for (size_t k = 0; k < now; k++)
                pack_columns(packing, panel + k, weights, packed);
    }
}

/* ---- gathering ---- */

/* A row of the grid: where its taps are in the source. */
struct gathered_row {
    ptrdiff_t y, x; /* in its image */
    size_t image;   /* first position of it */
};

static struct gathered_row gathered_row(const struct gather *gather, size_t row)
{
    const size_t line = row / gather->width;
    return (struct gathered_row){.y = (ptrdiff_t)(line % gather->height * gather->step),
                                 .x = (ptrdiff_t)(row % gather->width * gather->step),
                                 .image = line / gather->height * gather->source_height * gather->source_width};
}

static struct gathered_row gathered_next(const struct gather *gather, struct gathered_row row)
{
    row.x += (ptrdiff_t)gather->step;
    if (row.x < (ptrdiff_t)(gather->width * gather->step))
        return row;
    row.x = 0;
    row.y += (ptrdiff_t)gather->step;
    if (row.y < (ptrdiff_t)(gather->height * gather->step))
        return row;
    row.y = 0;
    row.image += gather->source_height * gather->source_width;
    return row;
}

/* Taps t to t + count - 1, all channels, of a line that they follow each other in. */
VECTOR_FUNCTION void gather_run(const struct gather *gather, const struct image_source *source,
                                const struct gathered_row *row, size_t t, size_t count, float *to)
{
    const ptrdiff_t y = row->y + gather->y[t], x = row->x + gather->x[t], width = (ptrdiff_t)gather->source_width;
    const size_t channels = source->channels;
    ptrdiff_t skip = x < 0 ? -x : 0, last = x + (ptrdiff_t)count > width ? width - x : (ptrdiff_t)count;
    if (y < 0 || y >= (ptrdiff_t)gather->source_height || skip >= last) {
        fill_zeros(to, count * channels);
        return;
    }
    if (skip > 0)
        fill_zeros(to, (size_t)skip * channels);
    const size_t at = (row->image + (size_t)(y * width + x + skip)) * channels;
    const size_t elements = (size_t)(last - skip) * channels;
    float *begin = to + (size_t)skip * channels;
    for (size_t c = 0; c < elements; c += LANES)
        vector_store(begin + c, activation_load_part((const activation *)source->x + at + c, elements - c, 0));
    if (last < (ptrdiff_t)count)
        fill_zeros(to + (size_t)last * channels, (count - (size_t)last) * channels);
}

/* Columns column to column + columns - 1 of rows of the left matrix. Tap by tap; what is written beyond one is overwritten by
 * the next, and beyond a row, there is room. */
VECTOR_FUNCTION void gather_rows_of(const struct gather *gather, const struct image_source *from,
                                    const enum source_mode mode, size_t column, size_t columns, size_t first,
                                    size_t rows, float *to, size_t stride)
{
    const struct image_source copy = *from, *source = &copy; /* which no store into an array can change */
    const size_t channels = source->channels;
    struct gathered_row row = gathered_row(gather, first);
    for (size_t i = 0; i < rows; i++, row = gathered_next(gather, row), to += stride) {
        size_t t = column / channels, c = column % channels;
        for (size_t done = 0; done < columns; t++, c = 0) {
            const size_t rest = channels - c, count = columns - done < rest ? columns - done : rest;
            const ptrdiff_t y = row.y + gather->y[t], x = row.x + gather->x[t];
            if (y < 0 || y >= (ptrdiff_t)gather->source_height || x < 0 || x >= (ptrdiff_t)gather->source_width) {
                fill_zeros(to + done, count);
            } else {
                const size_t at = (row.image + (size_t)y * gather->source_width + (size_t)x) * channels;
                for (size_t k = 0; k < count; k += LANES)
                    vector_store(to + done + k, source_load(source, mode, at, c + k, count - k));
            }
            done += count;
        }
    }
}

static void gather_rows(const struct gather *gather, const struct image_source *source, size_t column, size_t columns,
                        size_t first, size_t rows, float *to, size_t stride)
{
    if (source->mode == SOURCE_PLAIN && gather->runs && columns == gather->taps * source->channels) {
        size_t kernel = 1;
        while (kernel < gather->taps && gather->y[kernel] == gather->y[0])
            kernel++;
        struct gathered_row row = gathered_row(gather, first);
        for (size_t i = 0; i < rows; i++, row = gathered_next(gather, row))
            for (size_t t = 0; t < gather->taps; t += kernel)
                gather_run(gather, source, &row, t, kernel, to + i * stride + t * source->channels);
    } else if (source->mode == SOURCE_PLAIN) {
        gather_rows_of(gather, source, SOURCE_PLAIN, column, columns, first, rows, to, stride);
    } else if (source->mode == SOURCE_NORMALIZED) {
        gather_rows_of(gather, source, SOURCE_NORMALIZED, column, columns, first, rows, to, stride);
    } else {
        gather_rows_of(gather, source, SOURCE_SLOPE, column, columns, first, rows, to, stride);
    }
}

/* ---- products ---- */

struct strip_product {
    size_t inner;
    const float *a;
    size_t a_row, a_inner; /* distance of the next row's, the next inner element */
    const float *b;        /* a panel: `inner` rows of PANEL */
    float *c;
    size_t c_row;
    bool accumulate;
};

/* `rows` is a constant where this is called, so that the sums stay in registers. */
VECTOR_FUNCTION void strip_multiply(const struct strip_product *product, const size_t rows, size_t row)
{
    vector sum[STRIP][2] = {{{0}}};
    const float *a = product->a + row * product->a_row, *b = product->b;
    const size_t a_row = product->a_row, a_inner = product->a_inner;
    for (size_t k = product->inner; k > 0; k--, a += a_inner, b += PANEL) {
        const vector left = vector_load(b), right = vector_load(b + LANES);
#pragma GCC unroll 12
        for (size_t i = 0; i < rows; i++) {
            const vector of_row = vector_of(a[i * a_row]);
            sum[i][0] = vector_multiply_add(of_row, left, sum[i][0]);
            sum[i][1] = vector_multiply_add(of_row, right, sum[i][1]);
        }
    }
    float *c = product->c + row * product->c_row;
    const bool accumulate = product->accumulate;
#pragma GCC unroll 12
    for (size_t i = 0; i < rows; i++)
        for (size_t j = 0; j < 2; j++) {
            float *place = c + i * product->c_row + j * LANES;
            vector_store(place, accumulate ? vector_load(place) + sum[i][j] : sum[i][j]);
        }
}

static void strips_multiply(const struct strip_product *product, size_t rows)
{
    size_t row = 0;
    for (; row + STRIP <= rows; row += STRIP)
        strip_multiply(product, STRIP, row);
#if STRIP > 8
    for (; row + 8 <= rows; row += 8)
        strip_multiply(product, 8, row);
#endif
    for (; row + 4 <= rows; row += 4)
        strip_multiply(product, 4, row);
    for (; row + 2 <= rows; row += 2)
        strip_multiply(product, 2, row);
    for (; row < rows; row++)
        strip_multiply(product, 1, row);
}

/* ---- forward, and the gradient of the input ---- */

/* Also for products of some of the taps, whose panels can be longer: 4 x 96 elements are one of 384, 9 x 96 three of 288. */
static size_t convolution_tile_scratch(const struct gather *gather, size_t channels, size_t columns)
{
    const size_t all = gather->taps * channels, inner = convolution_round(all < PANEL_INNER ? all : PANEL_INNER, 8),
                 gathered = gathered_stride(inner > BLOCK ? inner : BLOCK);
    return IMAGE_TILE * (gathered + convolution_round(columns, PANEL) + STRIDE_EXTRA);
}

static bool gathers_whole_rows(const struct gather *gather)
{
    return gather->taps == 1 && gather->step == 1 && gather->y[0] == 0 && gather->x[0] == 0 &&
           gather->height == gather->source_height && gather->width == gather->source_width;
}

static void convolution_product_rows(const struct gather *gather, const struct image_source *source,
                                     const float *packed, size_t first, size_t rows, const struct scatter *scatter,
                                     const struct image_sink *sink, struct image_sums *sums, float *scratch)
{
    const size_t inner = gather->taps * source->channels, block = panel_inner(inner);
    const size_t c_row = convolution_round(sink->channels, PANEL) + STRIDE_EXTRA, a_row = gathered_stride(block);
    float *results = scratch, *gathered = scratch + IMAGE_TILE * c_row;
    const bool in_place = ACTIVATION_TYPE == WEFT_F32 && source->mode == SOURCE_PLAIN && gathers_whole_rows(gather);
    size_t places[IMAGE_TILE];
    for (size_t i = 0; i < rows; i++) {
        const size_t row = first + i, line = row / gather->width, image = line / gather->height;
        places[i] =
            (image * scatter->height + scatter->first_y + line % gather->height * scatter->step) * scatter->width +
            scatter->first_x + row % gather->width * scatter->step;
        sink_prefetch(sink, places[i], 0, sink->channels);
    }
    if (inner == 0)
        memset(results, 0, rows * c_row * sizeof *results);
    for (size_t k = 0; k < inner; k += block) {
        const size_t now = inner - k < block ? inner - k : block;
        struct strip_product product = {
            .inner = now, .a = gathered, .a_row = a_row, .a_inner = 1, .c_row = c_row, .accumulate = k > 0};
        if (in_place) {
            product.a = (const float *)source->x + first * source->channels + k;
            product.a_row = source->channels;
        } else {
            gather_rows(gather, source, k, now, first, rows, gathered, a_row);
        }
        for (size_t column = 0; column < sink->channels; column += PANEL) {
            product.b = packed + column * inner + k * PANEL;
            product.c = results + column;
            strips_multiply(&product, rows);
        }
    }
    const struct image_tile tile = {
        .rows = rows, .places = places, .channel = 0, .count = sink->channels, .results = results, .stride = c_row};
    sink_tile(sink, &tile, sums);
    if (sums)
        sums->begun = true;
}

/* ---- the gradient of weights ---- */

/* Rows of `source`, in panels. */
VECTOR_FUNCTION void panels_of(const struct image_source *from, const enum source_mode mode, size_t first, size_t rows,
                               float *to)
{
    const struct image_source copy = *from, *source = &copy; /* which no store into an array can change */
    for (size_t i = 0; i < rows; i++) {
        float *place = to + i * PANEL;
        for (size_t c = 0; c < source->channels; c += PANEL, place += rows * PANEL)
            for (size_t k = c; k < c + PANEL && k < source->channels; k += LANES)
                vector_store(place + k - c,
                             source_load(source, mode, (first + i) * source->channels, k, source->channels - k));
    }
    if ((source->channels - 1) % PANEL < LANES) { /* the second half of the last panel */
        float *panel = to + source->channels / PANEL * PANEL * rows + LANES;
        for (size_t i = 0; i < rows; i++)
            vector_store(panel + i * PANEL, (vector){0});
    }
}

static void source_panels(const struct image_source *source, size_t first, size_t rows, float *to)
{
    if (source->mode == SOURCE_PLAIN)
        panels_of(source, SOURCE_PLAIN, first, rows, to);
    else if (source->mode == SOURCE_NORMALIZED)
        panels_of(source, SOURCE_NORMALIZED, first, rows, to);
    else
        panels_of(source, SOURCE_SLOPE, first, rows, to);
}

static void convolution_product_weights(const struct gather *gather, const struct image_source *x,
                                        const struct image_source *gradient, size_t first_column, size_t columns,
                                        size_t first, size_t rows, float *sums, float *scratch)
{
    const size_t width = convolution_round(gradient->channels, PANEL), a_inner = gathered_stride(BLOCK);
    float *panels = scratch, *gathered = scratch + IMAGE_TILE * (width + STRIDE_EXTRA);
    gather_rows(gather, x, first_column, columns, first, rows, gathered, a_inner);
    source_panels(gradient, first, rows, panels);
    struct strip_product product = {
        .inner = rows, .a = gathered, .a_row = 1, .a_inner = a_inner, .c_row = width, .accumulate = true};
    for (size_t column = 0; column < width; column += PANEL) {
        product.b = panels + column * rows;
        product.c = sums + column;
        strips_multiply(&product, columns);
    }
}
