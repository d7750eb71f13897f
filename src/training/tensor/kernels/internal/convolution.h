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

/* ---- products ---- */

struct strip_product {
    size_t pieces;
    const struct piece *piece; /* a row of the left matrix is made of them */
    const float *const *rows;  /* where each begins */
    const float *b;            /* a panel: rows of PANEL */
    float *c;
    size_t c_row;
    bool accumulate;
};

/* Write sums of `rows` rows. Here and below, `rows` is a constant where this is called, so that sums stay in registers. */
VECTOR_FUNCTION void strip_store(vector (*sum)[2], const size_t rows, float *c, size_t c_row, const bool accumulate)
{
#pragma GCC unroll 12
    for (size_t i = 0; i < rows; i++)
        for (size_t j = 0; j < 2; j++) {
            float *place = c + i * c_row + j * LANES;
            vector_store(place, accumulate ? vector_load(place) + sum[i][j] : sum[i][j]);
        }
}

VECTOR_FUNCTION void strip_multiply(const struct strip_product *product, const size_t rows, size_t row)
{
    vector sum[STRIP][2] = {{{0}}};
    const float *a[STRIP], *b = product->b;
#pragma GCC unroll 12
    for (size_t i = 0; i < rows; i++)
        a[i] = product->rows[row + i];
    for (size_t p = 0; p < product->pieces; p++) {
        const size_t first = product->piece[p].offset, end = first + product->piece[p].count;
        for (size_t k = first; k < end; k++, b += PANEL) {
            const vector left = vector_load(b), right = vector_load(b + LANES);
#pragma GCC unroll 12
            for (size_t i = 0; i < rows; i++) {
                const vector of_row = vector_of(a[i][k]);
                sum[i][0] = vector_multiply_add(of_row, left, sum[i][0]);
                sum[i][1] = vector_multiply_add(of_row, right, sum[i][1]);
            }
        }
    }
    strip_store(sum, rows, product->c + row * product->c_row, product->c_row, product->accumulate);
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

/* The left matrix transposed: c += a^T b over `inner` rows of a. */
struct column_product {
    size_t inner;
    const float *const *rows; /* where each row of a begins */
    const float *b;           /* a panel: `inner` rows of PANEL */
    float *c;
    size_t c_row;
};

/* Columns column to column + columns - 1, which begin at `offset` in each row. */
VECTOR_FUNCTION void column_strip_multiply(const struct column_product *product, const size_t columns, size_t column,
                                           size_t offset)
{
    vector sum[STRIP][2] = {{{0}}};
    const float *b = product->b, *const *rows = product->rows;
    for (size_t k = 0; k < product->inner; k++, b += PANEL) {
        const vector left = vector_load(b), right = vector_load(b + LANES);
        const float *a = rows[k] + offset;
#pragma GCC unroll 12
        for (size_t i = 0; i < columns; i++) {
            const vector of_column = vector_of(a[i]);
            sum[i][0] = vector_multiply_add(of_column, left, sum[i][0]);
            sum[i][1] = vector_multiply_add(of_column, right, sum[i][1]);
        }
    }
    strip_store(sum, columns, product->c + column * product->c_row, product->c_row, true);
}

/* All columns of a piece; the first is column `column` of the product. */
static void column_strips_multiply(const struct column_product *product, const struct piece *piece, size_t column)
{
    size_t offset = piece->offset;
    const size_t end = offset + piece->count;
    for (; offset + STRIP <= end; offset += STRIP, column += STRIP)
        column_strip_multiply(product, STRIP, column, offset);
#if STRIP > 8
    for (; offset + 8 <= end; offset += 8, column += 8)
        column_strip_multiply(product, 8, column, offset);
#endif
    for (; offset + 4 <= end; offset += 4, column += 4)
        column_strip_multiply(product, 4, column, offset);
    for (; offset + 2 <= end; offset += 2, column += 2)
        column_strip_multiply(product, 2, column, offset);
    for (; offset < end; offset++, column++)
        column_strip_multiply(product, 1, column, offset);
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
    const struct lines lines = lines_of(gather, first, rows);
    const bool by_lines = !in_place && lines_pay(&lines, gather, source->channels, inner, rows, IMAGE_TILE * a_row);
    struct left_matrix left;
    if (by_lines)
        left_matrix_copy_lines(&lines, gather, source, first, rows, gathered, &left);
    for (size_t k = 0; k < inner; k += block) {
        const size_t now = inner - k < block ? inner - k : block;
        if (by_lines) {
            left_matrix_of_lines(&lines, gather, source->channels, k, now, &left);
        } else if (in_place) {
            left_matrix_of_rows((const float *)source->x + first * source->channels + k, source->channels, rows, now,
                                &left);
        } else {
            gather_rows(gather, source, k, now, first, rows, gathered, a_row);
            left_matrix_of_rows(gathered, a_row, rows, now, &left);
        }
        struct strip_product product = {
            .pieces = left.pieces, .piece = left.piece, .rows = left.rows, .c_row = c_row, .accumulate = k > 0};
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
    const struct lines lines = lines_of(gather, first, rows);
    struct left_matrix left;
    if (lines_pay(&lines, gather, x->channels, columns, rows, IMAGE_TILE * a_inner)) {
        left_matrix_copy_lines(&lines, gather, x, first, rows, gathered, &left);
        left_matrix_of_lines(&lines, gather, x->channels, first_column, columns, &left);
    } else {
        gather_rows(gather, x, first_column, columns, first, rows, gathered, a_inner);
        left_matrix_of_rows(gathered, a_inner, rows, columns, &left);
    }
    source_panels(gradient, first, rows, panels);
    struct column_product product = {.inner = rows, .rows = left.rows, .c_row = width};
    for (size_t column = 0; column < width; column += PANEL) {
        product.b = panels + column * rows;
        product.c = sums + column;
        for (size_t p = 0, done = 0; p < left.pieces; done += left.piece[p++].count)
            column_strips_multiply(&product, &left.piece[p], done);
    }
}
