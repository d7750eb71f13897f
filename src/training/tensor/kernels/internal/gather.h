/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The left matrix of a convolution's product, a tile at a time: gathered, tap by tap, or as places in copied lines of the source.
 * training/tensor/kernels/images.h has the terms.
 */

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

/* ---- lines ---- */

/*
 * A convolution that moves by one position reads most of a tile's source once for each tap. Instead of gathering it so often,
 * its lines are copied once, with the zeros around each image: a tap of a row is then at a fixed distance from the row's first
 * one. Image n's line y is line n (height + span_y) + y of all.
 */
struct lines {
    ptrdiff_t least_y, least_x; /* of the taps */
    size_t span_y, width;       /* lines from the first tap to the last; positions of a line */
    size_t first, count;        /* lines of a tile */
};

static struct lines lines_of(const struct gather *gather, size_t first, size_t rows)
{
    struct lines lines = {.least_y = gather->y[0], .least_x = gather->x[0]};
    ptrdiff_t most_y = gather->y[0], most_x = gather->x[0];
    for (size_t t = 1; t < gather->taps; t++) {
        lines.least_y = gather->y[t] < lines.least_y ? gather->y[t] : lines.least_y;
        lines.least_x = gather->x[t] < lines.least_x ? gather->x[t] : lines.least_x;
        most_y = gather->y[t] > most_y ? gather->y[t] : most_y;
        most_x = gather->x[t] > most_x ? gather->x[t] : most_x;
    }
    lines.span_y = (size_t)(most_y - lines.least_y);
    lines.width = gather->width + (size_t)(most_x - lines.least_x);
    const size_t begin = first / gather->width, end = (first + rows - 1) / gather->width;
    lines.first = begin + begin / gather->height * lines.span_y;
    lines.count = end + end / gather->height * lines.span_y + lines.span_y + 1 - lines.first;
    return lines;
}

/* Floats from the first tap of a row to tap t of it. */
static size_t lines_tap(const struct lines *lines, const struct gather *gather, size_t channels, size_t t)
{
    const size_t y = (size_t)(gather->y[t] - lines->least_y), x = (size_t)(gather->x[t] - lines->least_x);
    return (y * lines->width + x) * channels;
}

/* Floats from the first line to the first tap of a row of the grid. */
static size_t lines_row(const struct lines *lines, const struct gather *gather, size_t channels, size_t row)
{
    const size_t line = row / gather->width, at = line + line / gather->height * lines->span_y - lines->first;
    return (at * lines->width + row % gather->width) * channels;
}

VECTOR_FUNCTION void lines_copy_of(const struct lines *lines, const struct gather *gather,
                                   const struct image_source *from, const enum source_mode mode, float *to)
{
    const struct image_source copy = *from, *source = &copy; /* which no store into an array can change */
    const size_t channels = source->channels, padded = gather->height + lines->span_y;
    const ptrdiff_t width = (ptrdiff_t)lines->width, source_width = (ptrdiff_t)gather->source_width;
    const ptrdiff_t begin = lines->least_x < 0 ? -lines->least_x : 0, rest = source_width - lines->least_x,
                    end = rest < width ? rest : width;
    for (size_t i = lines->first; i < lines->first + lines->count; i++, to += (size_t)width * channels) {
        const ptrdiff_t y = (ptrdiff_t)(i % padded) + lines->least_y;
        if (y < 0 || y >= (ptrdiff_t)gather->source_height || begin >= end) {
            fill_zeros(to, (size_t)width * channels);
            continue;
        }
        fill_zeros(to, (size_t)begin * channels);
        size_t position =
            (i / padded * gather->source_height + (size_t)y) * gather->source_width + (size_t)(begin + lines->least_x);
        for (ptrdiff_t x = begin; x < end; x++, position++)
            for (size_t c = 0; c < channels; c += LANES)
                vector_store(to + (size_t)x * channels + c,
                             source_load(source, mode, position * channels, c, channels - c));
        fill_zeros(to + (size_t)end * channels, (size_t)(width - end) * channels);
    }
}

static void lines_copy(const struct lines *lines, const struct gather *gather, const struct image_source *source,
                       float *to)
{
    if (source->mode == SOURCE_PLAIN)
        lines_copy_of(lines, gather, source, SOURCE_PLAIN, to);
    else if (source->mode == SOURCE_NORMALIZED)
        lines_copy_of(lines, gather, source, SOURCE_NORMALIZED, to);
    else
        lines_copy_of(lines, gather, source, SOURCE_SLOPE, to);
}

/* Whether copying lines is less than gathering `columns` of the left matrix, and fits into the same room. */
static bool lines_pay(const struct lines *lines, const struct gather *gather, size_t channels, size_t columns,
                      size_t rows, size_t room)
{
    const size_t floats = lines->count * lines->width * channels;
    return gather->step == 1 && gather->taps > 1 && 2 * floats < columns * rows && floats <= room;
}

/* ---- the left matrix ---- */

/* Neighboring elements of the left matrix's rows: `count` floats, `offset` from where each row begins. */
struct piece {
    size_t offset, count;
};

/* Where some columns of a tile's rows are. */
struct left_matrix {
    const float *rows[IMAGE_TILE];
    size_t pieces;
    struct piece piece[TAPS_MOST];
};

/* Copy a tile's lines to `to`, and note where its rows begin in them. */
static void left_matrix_copy_lines(const struct lines *lines, const struct gather *gather,
                                   const struct image_source *source, size_t first, size_t rows, float *to,
                                   struct left_matrix *left)
{
    lines_copy(lines, gather, source, to);
    for (size_t i = 0; i < rows; i++)
        left->rows[i] = to + lines_row(lines, gather, source->channels, first + i);
}

/* The pieces of columns column to column + columns - 1, in lines. */
static void left_matrix_of_lines(const struct lines *lines, const struct gather *gather, size_t channels, size_t column,
                                 size_t columns, struct left_matrix *left)
{
    size_t t = column / channels, c = column % channels;
    left->pieces = 0;
    for (size_t done = 0; done < columns; c = 0) {
        size_t taps = 1; /* that follow each other */
        while (t + taps < gather->taps && gather->y[t + taps] == gather->y[t] &&
               gather->x[t + taps] == gather->x[t] + (int)taps)
            taps++;
        const size_t rest = taps * channels - c, count = columns - done < rest ? columns - done : rest;
        left->piece[left->pieces++] =
            (struct piece){.offset = lines_tap(lines, gather, channels, t) + c, .count = count};
        done += count;
        t += taps;
    }
}

/* Of columns in rows that are `stride` floats apart. */
static void left_matrix_of_rows(const float *first, size_t stride, size_t rows, size_t columns,
                                struct left_matrix *left)
{
    left->pieces = 1;
    left->piece[0] = (struct piece){.count = columns};
    for (size_t i = 0; i < rows; i++)
        left->rows[i] = first + i * stride;
}
