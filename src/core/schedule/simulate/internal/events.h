/* SPDX-License-Identifier: Apache-2.0 */
/**
 * Events in virtual time, the earliest first; among equal times, first in first out.
 *
 * Ranks that do the same do it at the same time. So the heap is of groups of events of one time, and an event joins the
 * last group of its time if that is found.
 */
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
    enum event_kind kind;
    uint32_t subject;
};

/** Groups that are looked for by their time. */
#define EVENTS_RECENT 64

/** All zero at first; simulate_events_close() frees it. */
struct simulate_events {
    struct event_entry {
        double time;
        uint64_t order; /* of groups of equal times */
        uint32_t group;
    } * heap;
    struct event_group {
        double time; /* NAN: free */
        uint32_t first, last;
    } * groups;
    struct event_node {
        uint32_t kind, subject, next;
    } * nodes;
    size_t heap_room, group_room, node_room;
    uint32_t count; /**< of groups in the heap; 0: there are no events */
    uint32_t group_count, node_count;
    uint32_t free_group, free_node; /* lists of those that were used, from 1 on; linked by first, next */
    uint32_t recent[EVENTS_RECENT]; /* the last group of a time, by its hash; from 1 on */
    uint64_t order;
    bool exhausted; /**< memory ran out: events are missing */
};

void events_push(struct simulate_events *events, double time, enum event_kind kind, uint32_t subject);

/** Take the first; there is one. */
struct simulate_event events_pop(struct simulate_events *events);

void simulate_events_close(struct simulate_events *events);

#endif
