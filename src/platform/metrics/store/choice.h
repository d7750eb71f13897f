/* SPDX-License-Identifier: Apache-2.0 */
/** Which series a question is about, and where their points are. For the files beside it. */
#ifndef WEFT_PLATFORM_METRICS_STORE_CHOICE_H
#define WEFT_PLATFORM_METRICS_STORE_CHOICE_H

#include "platform/metrics/store/store.h"
#include "platform/metrics/store/walk.h"

struct metric_chosen {
    int64_t number, rank, attempt;
};

/** Ranks rise; the attempts of a rank fall. */
struct metric_choice {
    struct metric_chosen *series;
    size_t count, room;
};

/**
 * The series of a run's metric, of that rank and attempt or of all (METRIC_ANY). Errors: DATA if the run has no such
 * metric (the message suggests the nearest name); SYSTEM, MEMORY. Free it after an error, too.
 */
weft_status metric_choose(struct metric_store *store, int64_t run, const char *name, int64_t rank, int64_t attempt,
                          struct metric_choice *choice, struct error *error);
void metric_choice_free(struct metric_choice *choice);

/** What of a series is where. `points` has room for what has to be read; `part` may point into it. */
weft_status metric_choice_part(struct metric_store *store, int64_t run, const char *name,
                               const struct metric_chosen *chosen, struct metric_point points[METRIC_BLOCK_POINTS],
                               struct metric_part *part, struct error *error);

/** metric_walk() through all of the choice's series; `walk->below` is its own business. */
weft_status metric_choice_walk(struct metric_store *store, int64_t run, const char *name,
                               const struct metric_choice *choice, struct metric_walk *walk, struct error *error);

/** How many ranks it has. */
size_t metric_choice_ranks(const struct metric_choice *choice);

#endif
