/* SPDX-License-Identifier: Apache-2.0 */
/* A heap of four children each: half as deep as one of two, and the children lie in two cache lines. */
#include "core/schedule/simulate/internal/events.h"

#include <stdlib.h>

#define CHILDREN 4

static bool earlier(const struct simulate_event *a, const struct simulate_event *b)
{
    return a->time < b->time || (a->time == b->time && a->order < b->order);
}

void events_push(struct simulate_events *events, double time, enum event_kind kind, uint32_t subject)
{
    if (ARRAY_RESERVE(events->heap, events->room, events->count + 1, "the simulator", NULL) != WEFT_OK) {
        events->exhausted = true;
        return;
    }
    struct simulate_event event = {time, events->order++ << 3 | kind, subject};
    uint32_t at = events->count++;
    for (; at && earlier(&event, &events->heap[(at - 1) / CHILDREN]); at = (at - 1) / CHILDREN)
        events->heap[at] = events->heap[(at - 1) / CHILDREN];
    events->heap[at] = event;
}

struct simulate_event events_pop(struct simulate_events *events)
{
    struct simulate_event *heap = events->heap, first = heap[0], last = heap[--events->count];
    uint32_t at = 0, count = events->count;
    for (uint32_t child; (child = CHILDREN * at + 1) < count; at = child) {
        uint32_t end = child + CHILDREN < count ? child + CHILDREN : count;
        for (uint32_t other = child + 1; other < end; other++)
            if (earlier(&heap[other], &heap[child]))
                child = other;
        if (!earlier(&heap[child], &last))
            break;
        heap[at] = heap[child];
    }
    heap[at] = last;
    return first;
}
