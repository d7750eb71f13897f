/* SPDX-License-Identifier: Apache-2.0 */
/**
 * A queue of events: each of `count` objects, which are numbers, has at most one. Events at the same time come in the
 * order of their objects, so simulations are deterministic. (A binary heap that knows where each object is.)
 */
#ifndef WEFT_TRAINING_SIMULATE_INTERNAL_STEP_EVENTS_H
#define WEFT_TRAINING_SIMULATE_INTERNAL_STEP_EVENTS_H

#include "base/error.h"

#include <math.h>
#include <stdbool.h>
#include <stdint.h>

struct step_event {
    double time;
    uint32_t object;
};

struct step_events {
    struct step_event *heap;
    uint32_t *place; /* of each object in the heap, from 1; 0: it has no event */
    uint32_t count;
};

/** step_events_close() frees the queue, also after an error. Errors: MEMORY. */
weft_status step_events_open(struct step_events *events, uint32_t objects, struct error *error);
void step_events_close(struct step_events *events);

/** Set or move the event of an object; or remove it, where it has one. */
void step_events_set(struct step_events *events, uint32_t object, double time);
void step_events_remove(struct step_events *events, uint32_t object);

/** The time of the first event; INFINITY: there is none. */
static inline double step_events_next(const struct step_events *events)
{
    return events->count ? events->heap[1].time : INFINITY;
}

/** Take the first event; false: there is none. */
bool step_events_take(struct step_events *events, struct step_event *event);

#endif
