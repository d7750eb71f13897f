/* SPDX-License-Identifier: Apache-2.0 */
#include "platform/scheduler/internal/history.h"

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

/* A project, or a member of one: of the sizes that it has had. */
struct party {
    struct hazards *of_size[SIZES];
    const struct party *wider; /* the project of a member; NULL: a project */
};

struct parties {
    struct party **items; /* by number; NULL: none of that number */
    uint32_t count;
};

struct history {
    double edge[BINS + 1];
    struct hazards all, of_size[SIZES];
    struct parties projects, members;
};

static unsigned scheduler_history_size_of(uint32_t slots)
{
    unsigned size = 0;
    while (size + 1 < SIZES && (1u << size) < slots)
        size++;
    return size;
}

static unsigned scheduler_history_bin_of(double seconds)
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

/* What a size of a party leans on. */
static const double *wider_hazard(const struct history *history, const struct party *party, unsigned size)
{
    const struct hazards *project = party->wider ? party->wider->of_size[size] : NULL;
    return project ? project->hazard : history->of_size[size].hazard;
}

static void renew_parties(struct history *history, const struct parties *parties)
{
    for (uint32_t p = 0; p < parties->count; p++)
        for (unsigned s = 0; parties->items[p] && s < SIZES; s++)
            if (parties->items[p]->of_size[s])
                lean(parties->items[p]->of_size[s], wider_hazard(history, parties->items[p], s), HISTORY_PRIOR,
                     history->edge);
}

void history_renew_end(struct history *history)
{
    double guess[BINS];
    for (unsigned b = 0; b < BINS; b++)
        guess[b] = 1 / fmax(LEAST_GUESS, history->edge[b]);
    lean(&history->all, guess, FIRST_GUESS, history->edge);
    for (unsigned s = 0; s < SIZES; s++)
        lean(&history->of_size[s], history->all.hazard, HISTORY_PRIOR, history->edge);
    renew_parties(history, &history->projects);
    renew_parties(history, &history->members);
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
    history_renew_end(history);
    return history;
}

static void free_parties(struct parties *parties)
{
    for (uint32_t p = 0; p < parties->count; p++) {
        for (unsigned s = 0; parties->items[p] && s < SIZES; s++)
            free(parties->items[p]->of_size[s]);
        free(parties->items[p]);
    }
    free(parties->items);
}

void history_free(struct history *history)
{
    if (!history)
        return;
    free_parties(&history->projects);
    free_parties(&history->members);
    free(history);
}

/* The hazards of a party of this number for a size, made if need be. */
static struct hazards *hazards_of(struct history *history, struct parties *parties, uint32_t number,
                                  const struct party *wider, unsigned size, struct error *error)
{
    if (number >= parties->count) {
        uint32_t count = number + 1;
        struct party **items = realloc(parties->items, count * sizeof(struct party *));
        if (!items) {
            error_memory(error, count * sizeof(struct party *), "the history of projects");
            return NULL;
        }
        memset(items + parties->count, 0, (count - parties->count) * sizeof(struct party *));
        parties->items = items;
        parties->count = count;
    }
    struct party *party = parties->items[number];
    if (!party && !(party = parties->items[number] = calloc(1, sizeof *party))) {
        error_memory(error, sizeof *party, "the history of a project");
        return NULL;
    }
    party->wider = wider;
    if (!party->of_size[size]) { /* until the next renewal it is as what it leans on */
        struct hazards *made = calloc(1, sizeof *made);
        if (!made) {
            error_memory(error, sizeof *made, "the history of a project");
            return NULL;
        }
        memcpy(made->hazard, wider_hazard(history, party, size), sizeof made->hazard);
        party->of_size[size] = made;
    }
    return party->of_size[size];
}

/* All that a run of a kind counts for. */
struct scheduler_history_levels {
    struct hazards *items[4];
    unsigned count;
};

static weft_status scheduler_history_levels_of(struct history *history, struct history_kind kind,
                                               struct scheduler_history_levels *levels, struct error *error)
{
    const unsigned size = scheduler_history_size_of(kind.slots);
    struct hazards *project = hazards_of(history, &history->projects, kind.project, NULL, size, error);
    if (!project)
        return WEFT_ERROR_MEMORY;
    *levels = (struct scheduler_history_levels){.items = {&history->all, &history->of_size[size], project}, .count = 3};
    if (!kind.member)
        return WEFT_OK;
    levels->items[levels->count++] =
        hazards_of(history, &history->members, kind.member, history->projects.items[kind.project], size, error);
    return levels->items[levels->count - 1] ? WEFT_OK : WEFT_ERROR_MEMORY;
}

static void scheduler_history_expose(double *exposure, const double *edge, double seconds)
{
    for (unsigned b = 0; b < BINS && edge[b] < seconds; b++)
        exposure[b] += fmin(seconds, edge[b + 1]) - edge[b];
}

weft_status history_add(struct history *history, struct history_kind kind, double seconds, struct error *error)
{
    struct scheduler_history_levels levels;
    weft_status status = scheduler_history_levels_of(history, kind, &levels, error);
    for (unsigned i = 0; status == WEFT_OK && i < levels.count; i++) {
        scheduler_history_expose(levels.items[i]->exposure, history->edge, seconds);
        levels.items[i]->ends[scheduler_history_bin_of(seconds)]++;
    }
    return status;
}

static void forget_running(struct hazards *hazards)
{
    if (hazards)
        memset(hazards->running, 0, sizeof hazards->running);
}

void history_renew_begin(struct history *history)
{
    struct parties *const parties[] = {&history->projects, &history->members};
    forget_running(&history->all);
    for (unsigned s = 0; s < SIZES; s++) {
        forget_running(&history->of_size[s]);
        for (unsigned i = 0; i < 2; i++)
            for (uint32_t p = 0; p < parties[i]->count; p++)
                if (parties[i]->items[p])
                    forget_running(parties[i]->items[p]->of_size[s]);
    }
}

weft_status history_renew_running(struct history *history, struct history_kind kind, double seconds,
                                  struct error *error)
{
    struct scheduler_history_levels levels;
    weft_status status = scheduler_history_levels_of(history, kind, &levels, error);
    for (unsigned i = 0; status == WEFT_OK && i < levels.count; i++)
        scheduler_history_expose(levels.items[i]->running, history->edge, seconds);
    return status;
}

static struct hazards *scheduler_history_known(const struct parties *parties, uint32_t number, unsigned size)
{
    return number < parties->count && parties->items[number] ? parties->items[number]->of_size[size] : NULL;
}

/* What is known best of such a run, with its indices: many sizes of many projects are never asked for. */
static const struct hazards *best_known(struct history *history, struct history_kind kind)
{
    const unsigned size = scheduler_history_size_of(kind.slots);
    struct hazards *best = kind.member ? scheduler_history_known(&history->members, kind.member, size) : NULL;
    if (!best)
        best = scheduler_history_known(&history->projects, kind.project, size);
    if (!best)
        best = &history->of_size[size];
    if (!best->indexed)
        index_bins(best, history->edge);
    return best;
}

double history_cost(struct history *history, struct history_kind kind, double seconds)
{
    return best_known(history, kind)->rank[scheduler_history_bin_of(seconds)];
}

double history_remaining(struct history *history, struct history_kind kind, double seconds)
{
    return best_known(history, kind)->left[scheduler_history_bin_of(seconds)];
}
