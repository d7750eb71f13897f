/* SPDX-License-Identifier: Apache-2.0 */
#include "platform/metrics/chart/text_chart.h"

#include <math.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#define LABEL_COLUMNS 10
#define ROWS_MOST     200
#define COLUMNS_MOST  1000

/* What of the curve lies in one column. */
struct column {
    bool any;
    double sum, count, lowest, highest;
};

struct text_chart_range {
    double low, high;
};

static void text_chart_widen(struct text_chart_range *range, double value)
{
    range->low = fmin(range->low, value);
    range->high = fmax(range->high, value);
}

/* The row of a value, from the top. */
static uint32_t row_of(const struct text_chart_range *range, double value, uint32_t rows)
{
    const double share = (value - range->low) / (range->high - range->low);
    return (uint32_t)lround((1 - fmin(fmax(share, 0), 1)) * (double)(rows - 1));
}

static struct text_chart_range fill_columns(const struct text_chart *chart, struct column *columns, uint32_t width)
{
    struct text_chart_range range = {INFINITY, -INFINITY};
    const double first = chart->count ? chart->x[0] : 0;
    const double span = chart->count ? chart->x[chart->count - 1] - first : 0;
    for (size_t i = 0; i < chart->count; i++) {
        if (!isfinite(chart->mean[i]) || !isfinite(chart->lowest[i]) || !isfinite(chart->highest[i]))
            continue;
        const double share = span > 0 ? (chart->x[i] - first) / span : 0;
        struct column *column = &columns[(size_t)(share * (double)(width - 1))];
        if (!column->any)
            *column = (struct column){true, 0, 0, INFINITY, -INFINITY};
        column->sum += chart->mean[i];
        column->count++;
        column->lowest = fmin(column->lowest, chart->lowest[i]);
        column->highest = fmax(column->highest, chart->highest[i]);
        text_chart_widen(&range, chart->lowest[i]);
        text_chart_widen(&range, chart->highest[i]);
    }
    return range;
}

static void text_chart_draw(const struct column *columns, uint32_t width, uint32_t rows,
                            const struct text_chart_range *range, char *picture)
{
    memset(picture, ' ', (size_t)width * rows);
    for (uint32_t x = 0; x < width; x++) {
        if (!columns[x].any)
            continue;
        const uint32_t top = row_of(range, columns[x].highest, rows), bottom = row_of(range, columns[x].lowest, rows);
        for (uint32_t y = top; y <= bottom; y++)
            picture[(size_t)y * width + x] = ':';
        picture[(size_t)row_of(range, columns[x].sum / columns[x].count, rows) * width + x] = '*';
    }
}

static void text_chart_print_row(const char *label, const char *row, uint32_t width, FILE *output)
{
    while (width > 0 && row[width - 1] == ' ')
        width--;
    fprintf(output, "%*s |%.*s\n", LABEL_COLUMNS, label, (int)width, row);
}

static void print_ends(const struct text_chart *chart, uint32_t width, FILE *output)
{
    char first[32], last[32];
    snprintf(first, sizeof first, "%.7g", chart->x[0]);
    snprintf(last, sizeof last, "%.7g", chart->x[chart->count - 1]);
    const char *left = chart->first ? chart->first : first, *right = chart->last ? chart->last : last;
    const int length = (int)strlen(right), room = (int)width - (int)strlen(left);
    fprintf(output, "%*s +", LABEL_COLUMNS, "");
    for (uint32_t x = 0; x < width; x++)
        fputc('-', output);
    fprintf(output, "\n%*s  %s%*s\n", LABEL_COLUMNS, "", left, room > length ? room : length + 1, right);
}

static weft_status print_picture(const struct text_chart *chart, const struct text_chart_range *range,
                                 const char *picture, uint32_t width, uint32_t rows, FILE *output, struct error *error)
{
    for (uint32_t y = 0; y < rows; y++) {
        char label[32] = "";
        if (y == 0 || y == rows - 1)
            snprintf(label, sizeof label, "%.4g", y == 0 ? range->high : range->low);
        text_chart_print_row(label, picture + (size_t)y * width, width, output);
    }
    print_ends(chart, width, output);
    return ferror(output) ? error_system(error, "cannot print the picture") : WEFT_OK;
}

weft_status text_chart_print(const struct text_chart *chart, FILE *output, struct error *error)
{
    const uint32_t all = chart->columns < 20 ? 20 : chart->columns > COLUMNS_MOST ? COLUMNS_MOST : chart->columns;
    const uint32_t width = all - LABEL_COLUMNS - 2, rows = chart->rows < 2           ? 2
                                                           : chart->rows > ROWS_MOST ? ROWS_MOST
                                                                                     : chart->rows;
    struct column *columns = calloc(width, sizeof *columns);
    char *picture = malloc((size_t)width * rows);
    weft_status status = WEFT_OK;
    if (!columns || !picture) {
        status = error_memory(error, (size_t)width * (rows + sizeof *columns), "a picture of letters");
    } else {
        struct text_chart_range range = fill_columns(chart, columns, width);
        if (range.low > range.high) {
            fprintf(output, "%*s  (nothing of it is a number)\n", LABEL_COLUMNS, "");
        } else {
            if (!(range.high > range.low)) { /* a line in the middle */
                const double around = fabs(range.low) > 0 ? fabs(range.low) / 2 : 1;
                range = (struct text_chart_range){range.low - around, range.high + around};
            }
            text_chart_draw(columns, width, rows, &range, picture);
            status = print_picture(chart, &range, picture, width, rows, output, error);
        }
    }
    free(columns);
    free(picture);
    return status;
}
