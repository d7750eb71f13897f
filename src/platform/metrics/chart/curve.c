/* SPDX-License-Identifier: Apache-2.0 */
#include "platform/metrics/chart/internal/curve.h"

#include <math.h>
#include <stdlib.h>

static size_t curve_smaller(size_t a, size_t b)
{
    return a < b ? a : b;
}

/* Means of the finite values around each place, by sums of all values before a place. */
static void average(const double *values, size_t count, size_t reach, double *sums, size_t *numbers, double *out)
{
    sums[0] = 0;
    numbers[0] = 0;
    for (size_t i = 0; i < count; i++) {
        const int finite = isfinite(values[i]) != 0;
        sums[i + 1] = sums[i] + (finite ? values[i] : 0);
        numbers[i + 1] = numbers[i] + (size_t)finite;
    }
    for (size_t i = 0; i < count; i++) {
        const size_t here = curve_smaller(reach, curve_smaller(i, count - 1 - i));
        const size_t number = numbers[i + here + 1] - numbers[i - here];
        out[i] = isfinite(values[i]) ? (sums[i + here + 1] - sums[i - here]) / (double)number : NAN;
    }
}

weft_status curve_smooth(const double *values, size_t count, size_t reach, double *smooth, struct error *error)
{
    double *sums = calloc(count + 1, sizeof *sums), *between = calloc(count + 1, sizeof *between);
    size_t *numbers = calloc(count + 1, sizeof *numbers);
    weft_status status = WEFT_OK;
    if (!sums || !between || !numbers) {
        status = error_memory(error, 3 * (count + 1) * sizeof *sums, "a smooth curve");
    } else {
        average(values, count, reach, sums, numbers, between);
        average(between, count, reach, sums, numbers, smooth);
    }
    free(sums);
    free(between);
    free(numbers);
    return status;
}

size_t curve_thin(double *x, double *y, size_t count, size_t most)
{
    if (count <= most)
        return count;
    const size_t runs = most / 2;
    size_t kept = 0;
    for (size_t run = 0; run < runs; run++) {
        const size_t begin = (size_t)((double)count * (double)run / (double)runs);
        const size_t end = run + 1 < runs ? (size_t)((double)count * (double)(run + 1) / (double)runs) : count;
        size_t low = begin, high = begin;
        for (size_t i = begin; i < end; i++) {
            if (!isfinite(y[low]) || y[i] < y[low])
                low = i;
            if (!isfinite(y[high]) || y[i] > y[high])
                high = i;
        }
        const size_t first = curve_smaller(low, high), second = low + high - first;
        /* What is kept lies before what is read. */
        const double points[4] = {x[first], y[first], x[second], y[second]};
        x[kept] = points[0];
        y[kept++] = points[1];
        if (second != first) {
            x[kept] = points[2];
            y[kept++] = points[3];
        }
    }
    return kept;
}
