/* SPDX-License-Identifier: Apache-2.0 */
/**
 * The timeline of a negotiator's operations: Chrome's trace events, a row ("process") for each name. The file is
 * complete JSON after timeline_complete(). A closed timeline ignores all calls. Not thread-safe.
 */
#ifndef WEFT_CORE_COLLECTIVE_NEGOTIATION_INTERNAL_TIMELINE_H
#define WEFT_CORE_COLLECTIVE_NEGOTIATION_INTERNAL_TIMELINE_H

#include "base/error.h"

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

/** Zeroed: closed. */
struct negotiation_timeline {
    FILE *file;
    uint64_t begin; /**< of clock_now() */
    bool marks;     /**< the beginnings of rounds, too */
    bool changed;   /**< since it was complete */
    int rows;       /**< of this file and those before, since entries keep their rows */
    int first_row;  /**< rows up to this one are of files before */
};

weft_status timeline_open(struct negotiation_timeline *timeline, const char *path, bool marks, struct error *error);
void timeline_close(struct negotiation_timeline *timeline);

/** A new row; its number is above 0, and 0 for a closed timeline. */
int timeline_row(struct negotiation_timeline *timeline, const char *name);

/** An event of a row, from `begin` to `end` of clock_now(). Its name is `prefix` and `name`, in capitals. */
void timeline_span(struct negotiation_timeline *timeline, int row, const char *prefix, const char *name, uint64_t begin,
                   uint64_t end);

/** The beginning of a round, if they are marked. */
void timeline_mark_round(struct negotiation_timeline *timeline);

/** Make the file complete on disk. */
void timeline_complete(struct negotiation_timeline *timeline);

#endif
