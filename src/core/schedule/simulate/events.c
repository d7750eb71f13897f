/* SPDX-License-Identifier: Apache-2.0 */
/* A heap of four children each: half as deep as one of two, and the children lie in two cache lines. */
#include "core/schedule/simulate/internal/events.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define CHILDREN 4

static bool earlier(const struct event_entry *a, const struct event_entry *b)
{
    return a->time < b->time || (a->time == b->time && a->order < b->order);
}

static void events_heap_push(struct simulate_events *events, struct event_entry place)
{
    uint32_t at = events->count++;
    for (; at && earlier(&place, &events->heap[(at - 1) / CHILDREN]); at = (at - 1) / CHILDREN)
        events->heap[at] = events->heap[(at - 1) / CHILDREN];
    events->heap[at] = place;
}

static void events_heap_pop(struct simulate_events *events)
{
    struct event_entry *heap = events->heap, last = heap[--events->count];
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
}

/* Room for one more; false: memory ran out. */
static bool events_reserve(struct simulate_events *events)
{
    if (ARRAY_RESERVE(events->nodes, events->node_room, events->node_count + 1, "the simulator", NULL) == WEFT_OK &&
        ARRAY_RESERVE(events->groups, events->group_room, events->group_count + 1, "the simulator", NULL) == WEFT_OK &&
        ARRAY_RESERVE(events->heap, events->heap_room, events->group_count + 1, "the simulator", NULL) == WEFT_OK)
        return true;
    events->exhausted = true;
    return false;
}

static uint32_t events_take_node(struct simulate_events *events, enum event_kind kind, uint32_t subject)
{
    uint32_t node = events->free_node ? events->free_node - 1 : events->node_count++;
    if (events->free_node)
        events->free_node = events->nodes[node].next;
    events->nodes[node] = (struct event_node){kind, subject, 0};
    return node;
}

static uint32_t events_open_group(struct simulate_events *events, double time, uint32_t node)
{
    uint32_t group = events->free_group ? events->free_group - 1 : events->group_count++;
    if (events->free_group)
        events->free_group = events->groups[group].first;
    events->groups[group] = (struct event_group){time, node, node};
    events_heap_push(events, (struct event_entry){time, events->order++, group});
    return group;
}

void events_push(struct simulate_events *events, double time, enum event_kind kind, uint32_t subject)
{
    uint64_t bits;
    memcpy(&bits, &time, sizeof bits);
    uint32_t *recent = &events->recent[bits * 0x9e3779b97f4a7c15u >> 58];
    _Static_assert(EVENTS_RECENT == 1 << (64 - 58), "a hash of six bits");
    if ((!events->free_node || !events->free_group) && !events_reserve(events))
        return;
    uint32_t node = events_take_node(events, kind, subject);
    struct event_group *group = &events->groups[*recent ? *recent - 1 : 0];
    if (*recent && group->time == time) {
        events->nodes[group->last].next = node + 1;
        group->last = node;
    } else {
        *recent = events_open_group(events, time, node) + 1;
    }
}

struct simulate_event events_pop(struct simulate_events *events)
{
    uint32_t index = events->heap[0].group;
    struct event_group *group = &events->groups[index];
    struct event_node *node = &events->nodes[group->first];
    const struct simulate_event event = {group->time, (enum event_kind)node->kind, node->subject};
    uint32_t freed = group->first + 1, next = node->next;
    node->next = events->free_node;
    events->free_node = freed;
    if (next) {
        group->first = next - 1;
        return event;
    }
    *group = (struct event_group){.time = NAN, .first = events->free_group};
    events->free_group = index + 1;
    events_heap_pop(events);
    return event;
}

void simulate_events_close(struct simulate_events *events)
{
    free(events->heap);
    free(events->groups);
    free(events->nodes);
}
