/* SPDX-License-Identifier: Apache-2.0 */
/** The picture of training runs: loss, learning rate and speed over their steps. Thread-safe. */
#ifndef WEFT_PLATFORM_METRICS_CHART_RUN_CHART_H
#define WEFT_PLATFORM_METRICS_CHART_RUN_CHART_H

#include "platform/metrics/read/metrics_file.h"

#define RUN_CHART_MOST 16 /**< runs in one picture */

struct run_chart {
    const struct metrics *runs;
    const char *const *names; /**< a run each; where there are several, the legend tells them apart by these */
    size_t count;             /**< 1 to RUN_CHART_MOST */
    const char *title;        /**< NULL: the run's own, or how many they are */
    bool log;                 /**< the loss on a logarithmic axis */
    double smooth;            /**< share of the run over which the loss is averaged, from 0 */
};

/** Draw; the caller frees *svg. */
weft_status run_chart_draw(const struct run_chart *chart, char **svg, size_t *size, struct error *error);

#endif
