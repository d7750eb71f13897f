/* SPDX-License-Identifier: Apache-2.0 */
/** Events in virtual time: a heap, the earliest first; among equal times, first in first out. */
#ifndef WEFT_CORE_SCHEDULE_SIMULATE_INTERNAL_EVENTS_H
#define WEFT_CORE_SCHEDULE_SIMULATE_INTERNAL_EVENTS_H

#include "base/error.h"

#include <stdbool.h>
#include <stdint.h>

enum event_kind {
    EVENT_TRY,     /**< lane `subject` may begin its step */
    EVENT_DONE,    /**< lane `subject` has completed its step */
    EVENT_VISIBLE, /**< a signal of lane `subject` can be seen */
    EVENT_FLOW,    /**< lane `subject`'s message enters the network */
    EVENT_ARRIVAL, /**< a message has arrived on channel `subject` */
};

struct simulate_event {
    double time;
    uint64_t order; /* among equal times; the kind is in its low bits */
    uint32_t subject;
};

struct simulate_events {
    struct simulate_event *heap;
    size_t room;
    uint32_t count;
    uint64_t order;
    bool exhausted; /**< memory ran out: events are missing */
};

static inline enum event_kind event_kind_of(const struct simulate_event *event)
{
    return (enum event_kind)(event->order & 7);
}

void events_push(struct simulate_events *events, double time, enum event_kind kind, uint32_t subject);

/** Take the first; there is one. */
struct simulate_event events_pop(struct simulate_events *events);

#endif
