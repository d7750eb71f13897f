/* SPDX-License-Identifier: Apache-2.0 */
/* Resources of hosts for runs, and limits of a node: what its run asked for, or the share of its slots. */
#include "platform/engine/local/internal/state.h"

#include "core/topology/limits.h"
#include "launch/spawn.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define RESERVE_PART      16 /* share of memory kept for server, agents and system, within these bounds */
#define RESERVE_LEAST     ((uint64_t)256 << 20)
#define RESERVE_MOST      ((uint64_t)4 << 30)
#define MEMORY_LEAST      ((uint64_t)1 << 30) /* for a node without a request, if the host has it */
#define PROCESSES_OF_SLOT ((uint64_t)1024)
#define PROCESSOR_TEXT    ((size_t)16) /* bytes of "1234-1235," */

static uint64_t memory_for_runs(const struct limits *limits)
{
    const uint64_t all = limits->group_limit < limits->memory_total ? limits->group_limit : limits->memory_total;
    uint64_t reserve = all / RESERVE_PART;
    reserve = reserve < RESERVE_LEAST ? RESERVE_LEAST : reserve > RESERVE_MOST ? RESERVE_MOST : reserve;
    return all == LIMITS_NONE ? 0 : all - (reserve < all / 4 ? reserve : all / 4);
}

void local_limits_divide(struct engine_local *local)
{
    struct limits limits;
    uint32_t slots = 0;
    for (uint32_t i = 0; i < local->host_count; i++) {
        local->hosts[i].first_slot = slots;
        slots += local->hosts[i].slots;
    }
    local->slots = slots;
    local->processor_count = spawn_cores(&local->processors);
    if (!slots || limits_read(&limits, NULL) != WEFT_OK)
        return;
    local->memory = memory_for_runs(&limits);
    const uint32_t processors = limits_processors(&limits);
    for (uint32_t i = 0; i < local->host_count; i++) {
        struct local_host *host = &local->hosts[i];
        host->processors = (int64_t)(processors * (uint64_t)host->slots / slots);
        if (!host->gpus && host->processors < host->slots)
            host->processors = host->slots;
        if (host->processors == 0)
            host->processors = 1;
        host->memory = (int64_t)(local->memory / slots * host->slots);
    }
}

/* ---- a node ---- */

/* Processors of slots: those of this process, divided evenly among the slots of all hosts in order. */
static void local_limits_choose(const struct engine_local *local, const struct local_host *host,
                                const struct engine_place *place, uint64_t most, cpu_set_t *chosen)
{
    CPU_ZERO(chosen);
    for (uint32_t i = 0; i < place->count; i++) {
        const uint64_t slot = host->first_slot + place->slots[i];
        const uint64_t first = slot * local->processor_count / local->slots;
        const uint64_t end = (slot + 1) * local->processor_count / local->slots;
        uint64_t number = 0;
        for (int processor = 0; processor < CPU_SETSIZE && number < end; processor++)
            if (CPU_ISSET(processor, &local->processors) && number++ >= first && (uint64_t)CPU_COUNT(chosen) < most)
                CPU_SET(processor, chosen);
    }
}

/* "0-3,8"; the caller frees it. NULL: memory ran out. */
static char *write_processors(const cpu_set_t *chosen)
{
    const size_t room = PROCESSOR_TEXT * ((size_t)CPU_COUNT(chosen) + 1);
    char *text = calloc(1, room);
    size_t used = 0;
    for (int first = 0; text && first < CPU_SETSIZE; first++) {
        int last = first;
        if (!CPU_ISSET(first, chosen))
            continue;
        while (last + 1 < CPU_SETSIZE && CPU_ISSET(last + 1, chosen))
            last++;
        used +=
            (size_t)snprintf(text + used, room - used, last > first ? "%s%d-%d" : "%s%d", used ? "," : "", first, last);
        first = last;
    }
    return text;
}

static uint64_t memory_of_node(const struct engine_local *local, const struct engine_order *order, uint32_t slots)
{
    const uint64_t least = MEMORY_LEAST < local->memory ? MEMORY_LEAST : local->memory;
    const uint64_t share = local->memory / local->slots * slots;
    return order->memory ? order->memory : share > least ? share : least;
}

weft_status local_limits_of_node(const struct engine_local *local, const struct engine_order *order, uint32_t number,
                                 const struct local_host *host, struct node_limits *limits, struct error *error)
{
    const struct engine_place *place = &order->places[number];
    const uint32_t slots = place->count ? place->count : 1;
    cpu_set_t chosen;
    CPU_ZERO(&chosen);
    *limits = (struct node_limits){
        .memory = memory_of_node(local, order, slots),
        .memory_of_all = local->memory,
        .memory_asked = order->memory != 0,
        .processes = order->processes ? order->processes : PROCESSES_OF_SLOT * slots,
        .weight = slots,
    };
    /* With more slots than processors, slots share all processors in proportion to their number. A requested number
     * of processors then limits processor time. */
    if (local->processor_count >= local->slots && place->count)
        local_limits_choose(local, host, place, order->processors ? order->processors : UINT64_MAX, &chosen);
    else if (order->processors && order->processors < local->processor_count)
        limits->quota = order->processors;
    limits->processors = write_processors(&chosen);
    return limits->processors ? WEFT_OK : error_memory(error, PROCESSOR_TEXT, "an order");
}
