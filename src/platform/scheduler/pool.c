/* SPDX-License-Identifier: Apache-2.0 */
#include "platform/scheduler/internal/pool.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

/* ---- counts of hosts by free slots ---- */

static void pool_count(struct pool *pool, const struct pool_host *host, int by)
{
    if (!host->open)
        return;
    struct pool_pod *pod = &pool->pods[host->pod];
    uint32_t *counts = host->reserved_for == POOL_NOBODY ? pod->with_free : pod->reserved_free;
    if (!host->exclusive)
        counts[host->free] += (uint32_t)by;
    pool->free += (uint64_t)(int64_t)(by * host->free);
    pool->slots += (uint64_t)(int64_t)(by * host->slots);
}

weft_status pool_add_pod(struct pool *pool, uint32_t hosts, const uint32_t *slots, struct error *error)
{
    uint32_t wrong = 0;
    while (wrong < hosts && slots[wrong] && slots[wrong] <= POOL_SLOTS_MOST)
        wrong++;
    if (!hosts || wrong < hosts)
        return error_set(
            error, WEFT_ERROR_ARGUMENT,
            "a Pod of %u hosts, one with %u slots: there must be a host at least, and 1 to %d slots on each", hosts,
            hosts ? slots[wrong] : 0, POOL_SLOTS_MOST);
    if (ARRAY_RESERVE(pool->pods, pool->pod_room, pool->pod_count + 1, "Pods", error) != WEFT_OK ||
        ARRAY_RESERVE(pool->hosts, pool->host_room, (size_t)pool->host_count + hosts, "hosts", error) != WEFT_OK)
        return WEFT_ERROR_MEMORY;
    struct pool_host *all = pool->hosts;
    pool->pods[pool->pod_count] = (struct pool_pod){.first = pool->host_count, .count = hosts};
    for (uint32_t i = 0; i < hosts; i++) {
        all[pool->host_count + i] = (struct pool_host){.pod = pool->pod_count,
                                                       .slots = (uint16_t)slots[i],
                                                       .free = (uint16_t)slots[i],
                                                       .open = true,
                                                       .reserved_for = POOL_NOBODY};
        if (slots[i] > pool->largest)
            pool->largest = slots[i];
    }
    pool->pod_count++;
    pool->host_count += hosts;
    for (uint32_t i = 0; i < hosts; i++)
        pool_count(pool, &all[pool->host_count - hosts + i], 1);
    return WEFT_OK;
}

void pool_free(struct pool *pool)
{
    free(pool->hosts);
    free(pool->pods);
    memset(pool, 0, sizeof *pool);
}

void pool_open(struct pool *pool, uint32_t host, bool open)
{
    struct pool_host *that = &pool->hosts[host];
    if (that->open == open)
        return;
    if (!open)
        pool_count(pool, that, -1);
    that->open = open;
    if (open)
        pool_count(pool, that, 1);
}

void pool_reserve(struct pool *pool, uint32_t host, uint32_t run)
{
    struct pool_host *that = &pool->hosts[host];
    if (that->reserved_for == run)
        return;
    pool_count(pool, that, -1);
    that->reserved_for = run;
    that->exclusive = false;
    pool_count(pool, that, 1);
}

void pool_set_exclusive(struct pool *pool, uint32_t host, bool exclusive)
{
    struct pool_host *that = &pool->hosts[host];
    pool_count(pool, that, -1);
    that->exclusive = exclusive;
    pool_count(pool, that, 1);
}

uint32_t pool_places(const struct pool *pool, struct gang gang)
{
    return pool->pod_count + gang.spans;
}

const struct pool_pod *pool_place_of(const struct pool *pool, uint32_t place, struct pool_pod *all)
{
    if (place < pool->pod_count)
        return &pool->pods[place];
    *all = (struct pool_pod){.first = 0, .count = pool->host_count};
    for (uint32_t p = 0; p < pool->pod_count; p++)
        for (unsigned free = 0; free <= POOL_SLOTS_MOST; free++) {
            all->with_free[free] += pool->pods[p].with_free[free];
            all->reserved_free[free] += pool->pods[p].reserved_free[free];
        }
    return all;
}

/* ---- placing ---- */

/* Whether `run` may have `host` at this stage: reserved hosts of others come second. */
static bool pool_may_have(const struct pool_host *host, uint32_t run, bool at_need)
{
    return host->open &&
           (host->reserved_for == POOL_NOBODY || host->reserved_for == run || (at_need && !host->exclusive));
}

/* The number of hosts of a Pod with `slots` free, and the smallest number of free slots among them. Hosts reserved for
 * `run` itself are among the reserved ones. */
static uint32_t pool_hosts_that_fit(const struct pool_pod *pod, uint16_t slots, bool with_reserved, uint16_t *tightest)
{
    uint32_t fit = 0;
    *tightest = UINT16_MAX;
    for (unsigned free = POOL_SLOTS_MOST; free >= slots; free--) {
        uint32_t here = pod->with_free[free] + (with_reserved ? pod->reserved_free[free] : 0);
        fit += here;
        if (here)
            *tightest = (uint16_t)free;
    }
    return fit;
}

/* The gang's hosts in this Pod, or in all, tightest first; false if there are too few. */
static bool place_in(const struct pool *pool, const struct pool_pod *pod, struct gang gang, uint32_t run, bool at_need,
                     uint32_t *hosts)
{
    uint32_t found = 0;
    /* Hosts reserved for this very run are the first choice: they were emptied for it. */
    for (uint32_t i = 0; i < pod->count && found < gang.nodes; i++) {
        const struct pool_host *host = &pool->hosts[pod->first + i];
        if (host->reserved_for == run && host->open && host->free >= gang.slots)
            hosts[found++] = pod->first + i;
    }
    for (unsigned free = gang.slots; free <= POOL_SLOTS_MOST && found < gang.nodes; free++) {
        if (!pod->with_free[free] && !(at_need && pod->reserved_free[free]))
            continue;
        for (uint32_t i = 0; i < pod->count && found < gang.nodes; i++) {
            const struct pool_host *host = &pool->hosts[pod->first + i];
            if (host->free == free && host->reserved_for != run && pool_may_have(host, run, at_need))
                hosts[found++] = pod->first + i;
        }
    }
    return found == gang.nodes;
}

bool pool_place(const struct pool *pool, struct gang gang, uint32_t run, uint32_t *hosts)
{
    assert(gang.nodes && gang.slots);
    if (gang.slots > POOL_SLOTS_MOST || (uint64_t)gang.nodes * gang.slots > pool->free)
        return false;
    for (int at_need = 0; at_need < 2; at_need++) {
        /* One node: the tightest host anywhere. Several: the Pod with the fewest hosts that fit, tightest hosts
         * first. */
        const struct pool_pod *best = NULL;
        uint32_t best_count = UINT32_MAX;
        uint16_t best_tightest = UINT16_MAX;
        for (uint32_t p = 0; p < pool->pod_count; p++) {
            const struct pool_pod *pod = &pool->pods[p];
            uint16_t tightest;
            uint32_t fit = pool_hosts_that_fit(pod, gang.slots, at_need, &tightest);
            if (fit < gang.nodes)
                continue;
            bool better = gang.nodes == 1 ? tightest < best_tightest : fit < best_count;
            if (better) {
                best = pod;
                best_count = fit;
                best_tightest = tightest;
            }
        }
        if (best && place_in(pool, best, gang, run, at_need, hosts))
            return true;
        /* Hosts reserved for this run count as reserved: look whether they complete a Pod before touching others'
         * reservations. */
        for (uint32_t p = 0; !at_need && p < pool->pod_count; p++)
            if (place_in(pool, &pool->pods[p], gang, run, false, hosts))
                return true;
        if (gang.spans) {
            struct pool_pod all;
            if (place_in(pool, pool_place_of(pool, pool->pod_count, &all), gang, run, at_need, hosts))
                return true;
        }
    }
    return false;
}

void pool_take(struct pool *pool, uint32_t host, uint32_t run, uint16_t slots)
{
    struct pool_host *that = &pool->hosts[host];
    assert(that->free >= slots && that->occupants < POOL_SLOTS_MOST);
    pool_count(pool, that, -1);
    that->free = (uint16_t)(that->free - slots);
    that->occupant[that->occupants] = run;
    that->occupant_slots[that->occupants++] = slots;
    pool_count(pool, that, 1);
}

void pool_give_back(struct pool *pool, uint32_t host, uint32_t run)
{
    struct pool_host *that = &pool->hosts[host];
    uint32_t i = 0;
    while (i < that->occupants && that->occupant[i] != run)
        i++;
    assert(i < that->occupants);
    pool_count(pool, that, -1);
    that->free = (uint16_t)(that->free + that->occupant_slots[i]);
    that->occupants--;
    /* In order, so that a pass comes to the same choices whatever was there before. */
    for (; i < that->occupants; i++) {
        that->occupant[i] = that->occupant[i + 1];
        that->occupant_slots[i] = that->occupant_slots[i + 1];
    }
    pool_count(pool, that, 1);
}

/* ---- shapes ---- */

#define SHAPES_FIRST 64 /* cells */

/* The cell that holds this shape, or the empty one where it belongs. */
static struct gang *shapes_cell_of(struct gang *cells, uint32_t room, struct gang gang)
{
    const uint64_t key = ((uint64_t)gang.nodes << 17) | ((uint64_t)gang.slots << 1) | gang.spans;
    uint32_t at = (uint32_t)((key * UINT64_C(0x9E3779B97F4A7C15)) >> 32) & (room - 1);
    while (cells[at].nodes && !gang_equal(cells[at], gang))
        at = (at + 1) & (room - 1);
    return &cells[at];
}

static bool shapes_grow(struct shapes *shapes)
{
    const uint32_t room = shapes->room ? 2 * shapes->room : SHAPES_FIRST;
    struct gang *cells = calloc(room, sizeof *cells);
    if (!cells)
        return false;
    for (uint32_t i = 0; i < shapes->room; i++)
        if (shapes->cells[i].nodes)
            *shapes_cell_of(cells, room, shapes->cells[i]) = shapes->cells[i];
    free(shapes->cells);
    shapes->cells = cells;
    shapes->room = room;
    return true;
}

bool shapes_have(const struct shapes *shapes, struct gang gang)
{
    return shapes->count && shapes_cell_of(shapes->cells, shapes->room, gang)->nodes;
}

void shapes_add(struct shapes *shapes, struct gang gang)
{
    if (2 * (shapes->count + 1) > shapes->room && !shapes_grow(shapes))
        return;
    struct gang *cell = shapes_cell_of(shapes->cells, shapes->room, gang);
    shapes->count += !cell->nodes;
    *cell = gang;
}

void shapes_clear(struct shapes *shapes)
{
    for (uint32_t i = 0; i < shapes->room && shapes->count; i++)
        shapes->cells[i].nodes = 0;
    shapes->count = 0;
}

void shapes_free(struct shapes *shapes)
{
    free(shapes->cells);
    *shapes = (struct shapes){0};
}
