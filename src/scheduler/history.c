/* SPDX-License-Identifier: Apache-2.0 */
#include "scheduler/history.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define BINS        64
#define FIRST_EDGE  30.0 /* seconds: the end of the first bin */
#define BINS_A_TEN  10   /* bins a factor of ten */
#define SIZES       8    /* 1, 2, 3-4, 5-8, 9-16, 17-32, 33-64 and more slots */
#define NEVER       1e18
#define FIRST_GUESS 2.0 /* before anything is known: so many runs whose hazard at age t is 1/t */
#define LEAST_GUESS 600.0

struct hazards {
    double ends[BINS], exposure[BINS]; /* of runs that ended: how many, and seconds that they ran, in each bin */
    double running[BINS];              /* exposure of runs that have not ended, at the last renewal */
    double hazard[BINS];               /* as of the last renewal */
    double rank[BINS], left[BINS];     /* of those hazards, once somebody has asked for them */
    bool indexed;
};

struct project {
    bool known[SIZES];
    struct hazards of_size[SIZES];
};

struct history {
    double edge[BINS + 1];
    struct hazards all, of_size[SIZES];
    struct project **projects;
    uint32_t project_count;
};

static unsigned size_of(uint32_t slots)
{
    unsigned size = 0;
    while (size + 1 < SIZES && (1u << size) < slots)
        size++;
    return size;
}

static unsigned bin_of(double seconds)
{
    if (seconds < FIRST_EDGE)
        return 0;
    double bin = floor(log10(seconds / FIRST_EDGE) * BINS_A_TEN) + 1;
    return bin < BINS - 1 ? (unsigned)bin : BINS - 1;
}

/* Hazards of ends and exposures, leaning on wider ones. */
static void lean(struct hazards *of, const double *wider, double prior, const double *edge)
{
    for (unsigned b = 0; b < BINS; b++) {
        double width = edge[b + 1] - edge[b];
        of->hazard[b] = (of->ends[b] + prior * wider[b] * width) / (of->exposure[b] + of->running[b] + prior * width);
    }
    of->indexed = false;
}

/*
 * Going on with a run from bin b to the end of bin k takes, in expectation, the integral of its survival, and it ends
 * on the way with 1 - survival: the rank is the least quotient over k. With k at infinity the integral is the time
 * left.
 */
static void index_bins(struct hazards *of, const double *edge)
{
    double ends[BINS], takes[BINS]; /* of a run that enters the bin: the chance of an end there, the seconds there */
    for (unsigned k = 0; k < BINS; k++) {
        double width = edge[k + 1] - edge[k], hazard = of->hazard[k];
        ends[k] = -expm1(-hazard * width);
        takes[k] = hazard > 1e-12 ? ends[k] / hazard : width;
    }
    for (unsigned b = 0; b < BINS; b++) {
        double survival = 1, spent = 0, best = NEVER;
        for (unsigned k = b; k < BINS; k++) {
            spent += survival * takes[k];
            survival *= 1 - ends[k];
            if (survival < 1 - 1e-9)
                best = fmin(best, spent / (1 - survival));
        }
        of->rank[b] = best;
        of->left[b] = spent;
    }
    of->indexed = true;
}

static void renew(struct history *history)
{
    double guess[BINS];
    for (unsigned b = 0; b < BINS; b++)
        guess[b] = 1 / fmax(LEAST_GUESS, history->edge[b]);
    lean(&history->all, guess, FIRST_GUESS, history->edge);
    for (unsigned s = 0; s < SIZES; s++) {
        lean(&history->of_size[s], history->all.hazard, HISTORY_PRIOR, history->edge);
        for (uint32_t p = 0; p < history->project_count; p++) {
            struct project *project = history->projects[p];
            if (project && project->known[s])
                lean(&project->of_size[s], history->of_size[s].hazard, HISTORY_PRIOR, history->edge);
        }
    }
}

struct history *history_new(struct error *error)
{
    struct history *history = calloc(1, sizeof *history);
    if (!history) {
        error_memory(error, sizeof *history, "the history of runs");
        return NULL;
    }
    for (unsigned b = 1; b <= BINS; b++)
        history->edge[b] = FIRST_EDGE * pow(10, (double)(b - 1) / BINS_A_TEN);
    renew(history);
    return history;
}

void history_free(struct history *history)
{
    if (!history)
        return;
    for (uint32_t p = 0; p < history->project_count; p++)
        free(history->projects[p]);
    free(history->projects);
    free(history);
}

/* The project's hazards for a size, made if need be. */
static struct hazards *hazards_of(struct history *history, uint32_t project, unsigned size, struct error *error)
{
    if (project >= history->project_count) {
        uint32_t count = project + 1;
        struct project **projects = realloc(history->projects, count * sizeof(struct project *));
        if (!projects) {
            error_memory(error, count * sizeof(struct project *), "the history of projects");
            return NULL;
        }
        memset(projects + history->project_count, 0, (count - history->project_count) * sizeof(struct project *));
        history->projects = projects;
        history->project_count = count;
    }
    struct project *that = history->projects[project];
    if (!that && !(that = history->projects[project] = calloc(1, sizeof *that))) {
        error_memory(error, sizeof *that, "the history of a project");
        return NULL;
    }
    if (!that->known[size]) { /* until the next renewal it is as its size is in all projects */
        that->known[size] = true;
        memcpy(that->of_size[size].hazard, history->of_size[size].hazard, sizeof that->of_size[size].hazard);
    }
    return &that->of_size[size];
}

static void expose(double *exposure, const double *edge, double seconds)
{
    for (unsigned b = 0; b < BINS && edge[b] < seconds; b++)
        exposure[b] += fmin(seconds, edge[b + 1]) - edge[b];
}

weft_status history_add(struct history *history, uint32_t project, uint32_t slots, double seconds, struct error *error)
{
    unsigned size = size_of(slots);
    struct hazards *own = hazards_of(history, project, size, error);
    if (!own)
        return WEFT_ERROR_MEMORY;
    struct hazards *levels[] = {own, &history->of_size[size], &history->all};
    for (unsigned i = 0; i < 3; i++) {
        expose(levels[i]->exposure, history->edge, seconds);
        levels[i]->ends[bin_of(seconds)]++;
    }
    return WEFT_OK;
}

void history_renew_begin(struct history *history)
{
    memset(history->all.running, 0, sizeof history->all.running);
    for (unsigned s = 0; s < SIZES; s++) {
        memset(history->of_size[s].running, 0, sizeof history->of_size[s].running);
        for (uint32_t p = 0; p < history->project_count; p++)
            if (history->projects[p])
                memset(history->projects[p]->of_size[s].running, 0, sizeof history->projects[p]->of_size[s].running);
    }
}

weft_status history_renew_running(struct history *history, uint32_t project, uint32_t slots, double seconds,
                                  struct error *error)
{
    unsigned size = size_of(slots);
    struct hazards *own = hazards_of(history, project, size, error);
    if (!own)
        return WEFT_ERROR_MEMORY;
    expose(own->running, history->edge, seconds);
    expose(history->of_size[size].running, history->edge, seconds);
    expose(history->all.running, history->edge, seconds);
    return WEFT_OK;
}

void history_renew_end(struct history *history)
{
    renew(history);
}

/* What is known best of such a run, with its indices: many sizes of many projects are never asked for. */
static const struct hazards *best_known(struct history *history, uint32_t project, uint32_t slots)
{
    unsigned size = size_of(slots);
    struct hazards *best = &history->of_size[size];
    if (project < history->project_count && history->projects[project] && history->projects[project]->known[size])
        best = &history->projects[project]->of_size[size];
    if (!best->indexed)
        index_bins(best, history->edge);
    return best;
}

double history_rank(struct history *history, uint32_t project, uint32_t slots, double seconds)
{
    return best_known(history, project, slots)->rank[bin_of(seconds)];
}

double history_remaining(struct history *history, uint32_t project, uint32_t slots, double seconds)
{
    return best_known(history, project, slots)->left[bin_of(seconds)];
}
