/* SPDX-License-Identifier: Apache-2.0 */
/**
 * A curve as a picture of letters, for a terminal: its mean as '*', what lies between its lowest and its highest as
 * ':'. Thread-safe.
 *
 *       8.5 |*
 *           |:*
 *           | :**::
 *      0.25 |   :****************
 *           +--------------------
 *            0                2999
 */
#ifndef WEFT_PLATFORM_METRICS_CHART_TEXT_CHART_H
#define WEFT_PLATFORM_METRICS_CHART_TEXT_CHART_H

#include "base/error.h"

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

/** Points that are not finite are gaps. */
struct text_chart {
    const double *x; /**< rising */
    const double *mean, *lowest, *highest;
    size_t count;
    uint32_t columns, rows;   /**< of all of it, and of the picture in it; 20 and 2 at least */
    const char *first, *last; /**< what stands at the ends of x; NULL: the numbers */
};

/** Print it; one message if there is nothing to be seen. Errors: MEMORY; SYSTEM if `output` refuses. */
weft_status text_chart_print(const struct text_chart *chart, FILE *output, struct error *error);

#endif
