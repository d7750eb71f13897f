/* SPDX-License-Identifier: Apache-2.0 */
/**
 * The parameters with the least mean |log(predicted / measured)| on the rows marked `fit`: a single odd row weighs less
 * than in least squares. Gauss-Newton steps in the logarithms of the parameters, with residuals reweighted by their size
 * (iteratively reweighted least squares) and damped as Levenberg (1944) does, because a simulation is too slow for
 * methods without derivatives.
 */
#ifndef BENCH_PUBLISHED_FIT_H
#define BENCH_PUBLISHED_FIT_H

#include "predict.h"

/** Improve `parameters`, which stay within their bounds. Deterministic. Errors: those of prediction_simulate(). */
weft_status fit_parameters(const struct prediction *predictions, size_t count, double parameters[PARAMETERS],
                           struct error *error);

#endif
