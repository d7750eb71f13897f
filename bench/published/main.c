/* SPDX-License-Identifier: Apache-2.0 */
/**
 * bench/published [DIRECTORY]: predict the iterations that others measured. Prints each row, the errors with and without
 * fitted parameters, and how much slower the predicted best strategy of each model is than the measured best.
 */
#include "fit.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *const role_names[] = {"fit", "check", "memory"};

static void print_row(const struct prediction *prediction, const struct step_result *result)
{
    const struct row *row = prediction->row;
    printf("%-11s %-6s %4u devices  data %-3u pipeline %-2u tensor %-2u micro-batch %-2u x%-2u %-9s  %-6s %8.3f s  "
           "predicted %8.3f s  %+6.1f %%  ",
           row->source, row->model, row->ranks, row->data, row->pipeline, row->tensor, prediction->micro_batch,
           prediction->virtual_stages, row->recompute == MODEL_RECOMPUTE_ALL ? "full" : "selective",
           role_names[row->role], row->seconds, result->seconds, 100 * (result->seconds / row->seconds - 1));
    for (int term = 0; term < STEP_TERMS; term++)
        printf(" %s %.2f", step_term_names[term], result->terms[term]);
    printf("\n");
}

static weft_status predict_rows(const struct prediction *predictions, size_t count, const double parameters[PARAMETERS],
                                bool prints, double *seconds, struct error *error)
{
    for (size_t i = 0; i < count; i++) {
        struct step_result result;
        if (predictions[i].row->seconds <= 0)
            continue;
        weft_status status = prediction_simulate(&predictions[i], parameters, &result, error);
        if (status != WEFT_OK)
            return status;
        seconds[i] = result.seconds;
        if (prints)
            print_row(&predictions[i], &result);
    }
    return WEFT_OK;
}

static int compare_doubles(const void *a, const void *b)
{
    const double left = *(const double *)a, right = *(const double *)b;
    return (left > right) - (left < right);
}

static void print_errors(const char *title, const struct prediction *predictions, size_t count, enum row_role role,
                         const double *seconds)
{
    double errors[256], sum = 0;
    size_t rows = 0;
    for (size_t i = 0; i < count && rows < 256; i++)
        if (predictions[i].row->role == role && predictions[i].row->seconds > 0)
            sum += errors[rows++] = fabs(seconds[i] / predictions[i].row->seconds - 1);
    if (!rows)
        return;
    qsort(errors, rows, sizeof *errors, compare_doubles);
    printf("%-16s %-6s rows %2zu: error mean %5.1f %%, median %5.1f %%, worst %5.1f %%\n", title, role_names[role],
           rows, 100 * sum / (double)rows, 100 * errors[rows / 2], 100 * errors[rows - 1]);
}

/* Among the measured strategies of each model of one source: how much slower is the one predicted to be the fastest? */
static void print_regret(const struct prediction *predictions, size_t count, const double *seconds)
{
    for (size_t i = 0; i < count; i++) {
        const struct row *first = predictions[i].row;
        double chosen = INFINITY, of_chosen = 0, best = INFINITY;
        size_t strategies = 0;
        bool seen = false;
        for (size_t k = 0; k < count; k++) {
            const struct row *row = predictions[k].row;
            if (row->seconds <= 0 || strcmp(row->source, first->source) != 0 || strcmp(row->model, first->model) != 0)
                continue;
            seen |= k < i;
            strategies++;
            best = fmin(best, row->seconds);
            if (seconds[k] < chosen) {
                chosen = seconds[k];
                of_chosen = row->seconds;
            }
        }
        if (!seen && strategies > 1)
            printf("regret of %s %s: %.1f %% among %zu strategies\n", first->source, first->model,
                   100 * (of_chosen / best - 1), strategies);
    }
}

#define DEVICE_BYTES 85899345920.0 /* of an A100-80GB: 80 GiB */

static void print_memory(const struct prediction *predictions, size_t count)
{
    size_t rows = 0, right = 0, measured = 0;
    double sum = 0, worst = 0;
    for (size_t i = 0; i < count; i++) {
        const struct row *row = predictions[i].row;
        struct described_memory parts;
        if (row->memory_bytes <= 0)
            continue;
        const double bytes = prediction_memory(&predictions[i], &parts), error = bytes / row->memory_bytes - 1;
        const bool fits = bytes <= DEVICE_BYTES;
        rows++;
        right += fits == isfinite(row->memory_bytes);
        if (isfinite(row->memory_bytes)) {
            measured++;
            sum += fabs(error);
            worst = fmax(worst, fabs(error));
        }
        printf("memory %-6s data %-3u pipeline %-2u tensor %-2u micro-batch %-2u  %5.1f GiB  predicted %5.1f GiB (%s)  "
               "weights %.1f gradients %.1f optimizer %.1f activations %.1f working %.1f\n",
               row->model, row->data, row->pipeline, row->tensor, row->micro_batch, row->memory_bytes / 0x1p30,
               bytes / 0x1p30, fits ? "fits" : "does not fit", parts.weights / 0x1p30, parts.gradients / 0x1p30,
               parts.optimizer / 0x1p30, parts.activations / 0x1p30, parts.working / 0x1p30);
    }
    printf("memory: %zu of %zu verdicts right; %zu measured, error mean %.1f %%, worst %.1f %%\n", right, rows,
           measured, measured ? 100 * sum / (double)measured : 0, 100 * worst);
}

static int fail(const struct error *error)
{
    fprintf(stderr, "published: %s\n", error->text);
    return 1;
}

static void print_parameters(const double fitted[PARAMETERS])
{
    for (int i = 0; i < PARAMETERS; i++)
        printf("%-18s %10.4g fitted, %10.4g unfitted  %s (%s)\n", parameter_facts[i].name, fitted[i],
               parameter_facts[i].unfitted, parameter_facts[i].unit, parameter_facts[i].source);
}

int main(int argc, char **argv)
{
    struct error error = {0};
    struct row *rows = NULL;
    size_t count = 0;
    if (rows_read(argc > 1 ? argv[1] : "bench/published", &rows, &count, &error) != WEFT_OK)
        return fail(&error);
    struct prediction *predictions = calloc(count, sizeof *predictions);
    double *unfitted_seconds = calloc(count, sizeof *unfitted_seconds), *seconds = calloc(count, sizeof *seconds);
    double unfitted[PARAMETERS], fitted[PARAMETERS];
    for (int i = 0; i < PARAMETERS; i++)
        unfitted[i] = fitted[i] = parameter_facts[i].unfitted;
    if (!predictions || !unfitted_seconds || !seconds)
        return fail(&(struct error){.text = "out of memory"});
    weft_status status = WEFT_OK;
    for (size_t i = 0; status == WEFT_OK && i < count; i++)
        status = prediction_open(&rows[i], &predictions[i], &error);
    if (status == WEFT_OK)
        status = predict_rows(predictions, count, unfitted, false, unfitted_seconds, &error);
    if (status == WEFT_OK)
        status = fit_parameters(predictions, count, fitted, &error);
    if (status == WEFT_OK)
        status = predict_rows(predictions, count, fitted, true, seconds, &error);
    if (status != WEFT_OK)
        return fail(&error);
    print_parameters(fitted);
    for (enum row_role role = ROW_FIT; role <= ROW_MEMORY; role++) {
        print_errors("without fitting", predictions, count, role, unfitted_seconds);
        print_errors("fitted", predictions, count, role, seconds);
    }
    print_regret(predictions, count, seconds);
    print_memory(predictions, count);
    for (size_t i = 0; i < count; i++)
        prediction_close(&predictions[i]);
    free(predictions);
    free(unfitted_seconds);
    free(seconds);
    free(rows);
    return 0;
}
