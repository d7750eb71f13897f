/* SPDX-License-Identifier: Apache-2.0 */
/**
 * How far each source of records has been taken into a store of metrics: the number of its last record, kept in the
 * same transaction as the points that were made of it (platform/metrics/store/store.h says what for). For platform/metrics/store/store.c and
 * platform/metrics/store/flush.c.
 */
#ifndef WEFT_PLATFORM_METRICS_STORE_INTERNAL_MARKS_H
#define WEFT_PLATFORM_METRICS_STORE_INTERNAL_MARKS_H

#include "platform/metrics/store/internal/rows.h"

#include <stdbool.h>

struct metric_mark {
    struct metric_source source;
    uint64_t sequence;
    uint64_t used; /**< clock_now() of the last change */
    bool changed;  /**< since the last flush */
    struct metric_mark *chained, *next_changed;
};

/** Those in memory. A zeroed struct is empty. */
struct metric_marks {
    struct metric_mark **places;
    size_t room, count; /**< room is a power of two */
    struct metric_mark *changed;
};

/** What the mark of a source says, in memory or in the database; 0 if there is none. Errors: those of the database. */
weft_status metric_marks_look(const struct metric_marks *marks, struct database *database,
                              const struct metric_source *source, uint64_t *sequence, struct error *error);

/** The mark of a source, to be set. Errors: those of the database; MEMORY. */
weft_status metric_marks_find(struct metric_marks *marks, struct database *database, const struct metric_source *source,
                              struct metric_mark **mark, struct error *error);

/** Records up to `sequence` have been taken. */
void metric_marks_set(struct metric_marks *marks, struct metric_mark *mark, uint64_t sequence, uint64_t now);

/** Write those that have changed, in a transaction; it is there. */
weft_status metric_marks_write(const struct metric_marks *marks, struct database *database, struct error *error);
void metric_marks_written(struct metric_marks *marks);

/** Let go of those that were not changed after `before`. */
void metric_marks_drop(struct metric_marks *marks, uint64_t before);
void metric_marks_free(struct metric_marks *marks);

#endif
