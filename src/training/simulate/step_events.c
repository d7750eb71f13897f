/* SPDX-License-Identifier: Apache-2.0 */
#include "training/simulate/internal/step_events.h"

#include <stdlib.h>

static bool event_is_before(const struct step_event *a, const struct step_event *b)
{
    return a->time < b->time || (a->time == b->time && a->object < b->object);
}

static void event_place(struct step_events *events, uint32_t at, struct step_event event)
{
    events->heap[at] = event;
    events->place[event.object] = at;
}

/* Move an event toward the root, or the leaves, until it is in its place. */
static void event_rise(struct step_events *events, uint32_t at, struct step_event event)
{
    for (; at > 1 && event_is_before(&event, &events->heap[at / 2]); at /= 2)
        event_place(events, at, events->heap[at / 2]);
    event_place(events, at, event);
}

static void event_sink(struct step_events *events, uint32_t at, struct step_event event)
{
    for (uint32_t child; (child = 2 * at) <= events->count; at = child) {
        if (child < events->count && event_is_before(&events->heap[child + 1], &events->heap[child]))
            child++;
        if (!event_is_before(&events->heap[child], &event))
            break;
        event_place(events, at, events->heap[child]);
    }
    event_place(events, at, event);
}

static void event_settle(struct step_events *events, uint32_t at, struct step_event event)
{
    if (at > 1 && event_is_before(&event, &events->heap[at / 2]))
        event_rise(events, at, event);
    else
        event_sink(events, at, event);
}

weft_status step_events_open(struct step_events *events, uint32_t objects, struct error *error)
{
    *events = (struct step_events){.heap = calloc((size_t)objects + 1, sizeof *events->heap),
                                   .place = calloc((size_t)objects + 1, sizeof *events->place)};
    return events->heap && events->place ? WEFT_OK
                                         : error_memory(error, objects * sizeof *events->heap, "a simulation's events");
}

void step_events_close(struct step_events *events)
{
    free(events->heap);
    free(events->place);
}

void step_events_set(struct step_events *events, uint32_t object, double time)
{
    const struct step_event event = {time, object};
    if (!events->place[object])
        event_rise(events, ++events->count, event);
    else
        event_settle(events, events->place[object], event);
}

void step_events_remove(struct step_events *events, uint32_t object)
{
    const uint32_t at = events->place[object];
    if (!at)
        return;
    events->place[object] = 0;
    const struct step_event last = events->heap[events->count--];
    if (last.object != object)
        event_settle(events, at, last);
}

bool step_events_take(struct step_events *events, struct step_event *event)
{
    if (!events->count)
        return false;
    *event = events->heap[1];
    step_events_remove(events, event->object);
    return true;
}
