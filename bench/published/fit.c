/* SPDX-License-Identifier: Apache-2.0 */
#include "fit.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define ROUNDS     8
#define DIFFERENCE 0.05 /* of a logarithm, for derivatives */
#define SMALL      0.01 /* residuals below it are alike */
#define TETHER     0.02 /* pulls a parameter that the rows do not determine to its unfitted value */

struct fit {
    const struct prediction **rows;
    size_t count;
    double *residuals, *moved, *slopes; /* slopes[row x PARAMETERS + parameter] */
};

static bool is_fitted(const struct prediction *prediction)
{
    return prediction->row->role == ROW_FIT && prediction->row->seconds > 0;
}

static void parameters_of(const double logarithms[PARAMETERS], double parameters[PARAMETERS])
{
    for (int i = 0; i < PARAMETERS; i++)
        parameters[i] = fmin(fmax(exp(logarithms[i]), parameter_facts[i].least), parameter_facts[i].most);
}

/* The logarithms of predicted / measured, and the mean of their magnitudes with the pull of the tether. */
static weft_status evaluate(const struct fit *fit, const double logarithms[PARAMETERS], double *residuals, double *cost,
                            struct error *error)
{
    double parameters[PARAMETERS];
    parameters_of(logarithms, parameters);
    *cost = 0;
    for (size_t i = 0; i < fit->count; i++) {
        struct step_result result;
        weft_status status = prediction_simulate(fit->rows[i], parameters, &result, error);
        if (status != WEFT_OK)
            return status;
        residuals[i] = log(result.seconds / fit->rows[i]->row->seconds);
        *cost += fabs(residuals[i]) / (double)fit->count;
    }
    for (int i = 0; i < PARAMETERS; i++) {
        const double pulled = logarithms[i] - log(parameter_facts[i].unfitted);
        *cost += TETHER * TETHER * pulled * pulled;
    }
    return WEFT_OK;
}

/* Solve a x = b in place by elimination; the damped matrix is positive definite. */
static void solve(double a[PARAMETERS][PARAMETERS], double b[PARAMETERS])
{
    for (int k = 0; k < PARAMETERS; k++)
        for (int i = k + 1; i < PARAMETERS; i++) {
            const double factor = a[i][k] / a[k][k];
            for (int j = k; j < PARAMETERS; j++)
                a[i][j] -= factor * a[k][j];
            b[i] -= factor * b[k];
        }
    for (int i = PARAMETERS - 1; i >= 0; i--) {
        for (int j = i + 1; j < PARAMETERS; j++)
            b[i] -= a[i][j] * b[j];
        b[i] /= a[i][i];
    }
}

/* The step from `at` with this damping. */
static void find_step(const struct fit *fit, const double at[PARAMETERS], double damping, double step[PARAMETERS])
{
    double matrix[PARAMETERS][PARAMETERS] = {{0}};
    memset(step, 0, PARAMETERS * sizeof *step);
    for (size_t row = 0; row < fit->count; row++) {
        const double *slopes = &fit->slopes[row * PARAMETERS], residual = fit->residuals[row],
                     weight = 1 / (fmax(fabs(residual), SMALL) * (double)fit->count);
        for (int i = 0; i < PARAMETERS; i++) {
            step[i] -= weight * slopes[i] * residual;
            for (int j = 0; j < PARAMETERS; j++)
                matrix[i][j] += weight * slopes[i] * slopes[j];
        }
    }
    for (int i = 0; i < PARAMETERS; i++) {
        step[i] -= 2 * TETHER * TETHER * (at[i] - log(parameter_facts[i].unfitted));
        matrix[i][i] += 2 * TETHER * TETHER + damping;
    }
    solve(matrix, step);
}

static weft_status improve(struct fit *fit, double at[PARAMETERS], double *cost, struct error *error)
{
    weft_status status = WEFT_OK;
    double ignored;
    for (int i = 0; status == WEFT_OK && i < PARAMETERS; i++) {
        double moved[PARAMETERS];
        memcpy(moved, at, sizeof moved);
        moved[i] += moved[i] + DIFFERENCE > log(parameter_facts[i].most) ? -DIFFERENCE : DIFFERENCE;
        status = evaluate(fit, moved, fit->moved, &ignored, error);
        for (size_t row = 0; row < fit->count; row++)
            fit->slopes[row * PARAMETERS + (size_t)i] = (fit->moved[row] - fit->residuals[row]) / (moved[i] - at[i]);
    }
    for (double damping = 1e-3; status == WEFT_OK && damping < 1e2; damping *= 10) {
        double step[PARAMETERS], moved[PARAMETERS], parameters[PARAMETERS], reached;
        find_step(fit, at, damping, step);
        for (int i = 0; i < PARAMETERS; i++)
            moved[i] = at[i] + fmin(fmax(step[i], -1), 1);
        parameters_of(moved, parameters);
        for (int i = 0; i < PARAMETERS; i++)
            moved[i] = log(parameters[i]);
        status = evaluate(fit, moved, fit->moved, &reached, error);
        if (status == WEFT_OK && reached < *cost) {
            memcpy(at, moved, sizeof moved);
            memcpy(fit->residuals, fit->moved, fit->count * sizeof *fit->residuals);
            *cost = reached;
            return WEFT_OK;
        }
    }
    return status;
}

weft_status fit_parameters(const struct prediction *predictions, size_t count, double parameters[PARAMETERS],
                           struct error *error)
{
    struct fit fit = {.rows = calloc(count, sizeof *fit.rows),
                      .residuals = calloc(count, sizeof *fit.residuals),
                      .moved = calloc(count, sizeof *fit.moved),
                      .slopes = calloc(count * PARAMETERS, sizeof *fit.slopes)};
    double at[PARAMETERS], cost = 0;
    weft_status status = fit.rows && fit.residuals && fit.moved && fit.slopes
                             ? WEFT_OK
                             : error_memory(error, count * sizeof *fit.slopes, "a fit");
    for (size_t i = 0; status == WEFT_OK && i < count; i++)
        if (is_fitted(&predictions[i]))
            fit.rows[fit.count++] = &predictions[i];
    for (int i = 0; i < PARAMETERS; i++)
        at[i] = log(parameters[i]);
    if (status == WEFT_OK)
        status = evaluate(&fit, at, fit.residuals, &cost, error);
    for (int round = 0; status == WEFT_OK && round < ROUNDS; round++) {
        const double before = cost;
        status = improve(&fit, at, &cost, error);
        fprintf(stderr, "fit: round %d, mean |log| and tether %.4f\n", round + 1, cost);
        if (before - cost < 1e-4)
            break;
    }
    parameters_of(at, parameters);
    free(fit.rows);
    free(fit.residuals);
    free(fit.moved);
    free(fit.slopes);
    return status;
}
