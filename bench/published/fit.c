/* SPDX-License-Identifier: Apache-2.0 */
#include "fit.h"

#include <math.h>
#include <string.h>

#define CORNERS  (PARAMETERS + 1)
#define ROUNDS   600
#define RESTARTS 4

double fit_error(const struct prediction *predictions, size_t count, enum row_role role,
                 const double parameters[PARAMETERS])
{
    double sum = 0;
    size_t rows = 0;
    for (size_t i = 0; i < count; i++) {
        const struct row *row = predictions[i].row;
        if (row->role != role || row->seconds <= 0)
            continue;
        sum += fabs(log(prediction_seconds(&predictions[i], parameters, NULL) / row->seconds));
        rows++;
    }
    return rows ? sum / (double)rows : 0;
}

/* The simplex is in logarithms of the parameters. */
struct corner {
    double at[PARAMETERS];
    double error;
};

static void corner_parameters(const struct corner *corner, double parameters[PARAMETERS])
{
    for (int i = 0; i < PARAMETERS; i++)
        parameters[i] = fmin(fmax(exp(corner->at[i]), parameter_facts[i].least), parameter_facts[i].most);
}

static void corner_evaluate(const struct prediction *predictions, size_t count, struct corner *corner)
{
    double parameters[PARAMETERS];
    corner_parameters(corner, parameters);
    corner->error = fit_error(predictions, count, ROW_FIT, parameters);
}

/* The corner at center + factor (corner - center). */
static struct corner corner_along(const struct prediction *predictions, size_t count, const struct corner *center,
                                  const struct corner *corner, double factor)
{
    struct corner moved;
    for (int i = 0; i < PARAMETERS; i++)
        moved.at[i] = center->at[i] + factor * (corner->at[i] - center->at[i]);
    corner_evaluate(predictions, count, &moved);
    return moved;
}

static void sort_corners(struct corner corners[CORNERS])
{
    for (int i = 1; i < CORNERS; i++)
        for (int j = i; j > 0 && corners[j].error < corners[j - 1].error; j--) {
            const struct corner swapped = corners[j];
            corners[j] = corners[j - 1];
            corners[j - 1] = swapped;
        }
}

static void simplex_step(const struct prediction *predictions, size_t count, struct corner corners[CORNERS])
{
    struct corner center = {{0}, 0}, *worst = &corners[CORNERS - 1];
    for (int i = 0; i < PARAMETERS; i++)
        for (int c = 0; c < CORNERS - 1; c++)
            center.at[i] += corners[c].at[i] / (CORNERS - 1);
    struct corner moved = corner_along(predictions, count, &center, worst, -1);
    if (moved.error < corners[0].error) {
        const struct corner further = corner_along(predictions, count, &center, worst, -2);
        *worst = further.error < moved.error ? further : moved;
    } else if (moved.error < corners[CORNERS - 2].error) {
        *worst = moved;
    } else {
        moved = corner_along(predictions, count, &center, worst, moved.error < worst->error ? -0.5 : 0.5);
        if (moved.error < worst->error)
            *worst = moved;
        else
            for (int c = 1; c < CORNERS; c++)
                corners[c] = corner_along(predictions, count, &corners[0], &corners[c], 0.5);
    }
    sort_corners(corners);
}

double fit_parameters(const struct prediction *predictions, size_t count, double parameters[PARAMETERS])
{
    struct corner best = {{0}, 0};
    for (int i = 0; i < PARAMETERS; i++)
        best.at[i] = log(parameters[i]);
    corner_evaluate(predictions, count, &best);
    for (int restart = 0; restart < RESTARTS; restart++) {
        struct corner corners[CORNERS];
        for (int c = 0; c < CORNERS; c++) {
            corners[c] = best;
            if (c)
                corners[c].at[c - 1] += restart % 2 ? -0.2 : 0.2;
            corner_evaluate(predictions, count, &corners[c]);
        }
        sort_corners(corners);
        for (int round = 0; round < ROUNDS; round++)
            simplex_step(predictions, count, corners);
        best = corners[0];
    }
    corner_parameters(&best, parameters);
    return best.error;
}
