/* SPDX-License-Identifier: Apache-2.0 */
/** Least absolute logarithms of predicted / measured, by the simplex of Nelder and Mead (1965). */
#ifndef BENCH_PUBLISHED_FIT_H
#define BENCH_PUBLISHED_FIT_H

#include "predict.h"

/** The mean of |log(predicted / measured)| over the rows of this role: less sensitive to single odd rows than squares. */
double fit_error(const struct prediction *predictions, size_t count, enum row_role role,
                 const double parameters[PARAMETERS]);

/** Improve `parameters`, which stay within their bounds, on the rows marked `fit`. Returns the error. Deterministic. */
double fit_parameters(const struct prediction *predictions, size_t count, double parameters[PARAMETERS]);

#endif
