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

static void print_parameters(const double fitted[PARAMETERS])
{
    for (int i = 0; i < PARAMETERS; i++)
        printf("%-18s %10.4g fitted, %10.4g unfitted  %s (%s)\n", parameter_facts[i].name, fitted[i],
               parameter_facts[i].unfitted, parameter_facts[i].unit, parameter_facts[i].source);
}

/* Everything that is open. */
struct published {
    struct row *rows;
    size_t count;
    struct prediction *predictions;
    struct published_cluster *clusters; /* as many as there are different ones */
    size_t cluster_count;
    double *unfitted, *fitted; /* seconds of each row */
};

static weft_status open_cluster(struct published *published, const struct row *row, struct published_cluster **cluster,
                                struct error *error)
{
    for (size_t i = 0; i < published->cluster_count; i++)
        if (!strcmp(published->clusters[i].kind, row->cluster) && published->clusters[i].ranks == row->ranks) {
            *cluster = &published->clusters[i];
            return WEFT_OK;
        }
    *cluster = &published->clusters[published->cluster_count++];
    return published_cluster_open(row->cluster, row->ranks, *cluster, error);
}

static weft_status open_published(const char *directory, struct published *published, struct error *error)
{
    weft_status status = rows_read(directory, &published->rows, &published->count, error);
    if (status != WEFT_OK)
        return status;
    const size_t count = published->count;
    published->predictions = calloc(count, sizeof *published->predictions);
    published->clusters = calloc(count, sizeof *published->clusters);
    published->unfitted = calloc(count, sizeof *published->unfitted);
    published->fitted = calloc(count, sizeof *published->fitted);
    if (!published->predictions || !published->clusters || !published->unfitted || !published->fitted)
        return error_memory(error, count * sizeof *published->clusters, "predictions");
    for (size_t i = 0; status == WEFT_OK && i < count; i++) {
        struct published_cluster *cluster;
        status = open_cluster(published, &published->rows[i], &cluster, error);
        if (status == WEFT_OK)
            status = prediction_open(&published->rows[i], cluster, &published->predictions[i], error);
    }
    return status;
}

static void close_published(struct published *published)
{
    for (size_t i = 0; published->predictions && i < published->count; i++)
        prediction_close(&published->predictions[i]);
    for (size_t i = 0; i < published->cluster_count; i++)
        published_cluster_close(&published->clusters[i]);
    free(published->predictions);
    free(published->clusters);
    free(published->unfitted);
    free(published->fitted);
    free(published->rows);
}

int main(int argc, char **argv)
{
    struct error error = {0};
    struct published published = {0};
    double unfitted[PARAMETERS], fitted[PARAMETERS];
    parameters_reset(unfitted);
    parameters_reset(fitted);
    weft_status status = open_published(argc > 1 ? argv[1] : "bench/published", &published, &error);
    const struct prediction *predictions = published.predictions;
    const size_t count = published.count;
    if (status == WEFT_OK)
        status = predict_rows(predictions, count, unfitted, false, published.unfitted, &error);
    if (status == WEFT_OK)
        status = fit_parameters(predictions, count, fitted, &error);
    if (status == WEFT_OK)
        status = predict_rows(predictions, count, fitted, true, published.fitted, &error);
    if (status == WEFT_OK) {
        print_parameters(fitted);
        for (enum row_role role = ROW_FIT; role <= ROW_MEMORY; role++) {
            print_errors("without fitting", predictions, count, role, published.unfitted);
            print_errors("fitted", predictions, count, role, published.fitted);
        }
        print_regret(predictions, count, published.fitted);
        print_memory(predictions, count);
    }
    close_published(&published);
    if (status != WEFT_OK)
        fprintf(stderr, "published: %s\n", error.text);
    return status != WEFT_OK;
}
