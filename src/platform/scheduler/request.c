/* SPDX-License-Identifier: Apache-2.0 */
/* What a run asks for: whether it could ever be placed. */
#include "platform/scheduler/internal/pool.h"
#include "platform/scheduler/internal/state.h"
#include "platform/scheduler/scheduler.h"

#include <inttypes.h>

weft_status scheduler_check(const struct scheduler *scheduler, const struct scheduler_request *request,
                            struct error *error)
{
    const struct gang *gang = &request->gang;
    uint32_t most_nodes = 0;
    uint64_t all = 0;
    uint16_t most_slots = 0;
    for (uint32_t p = 0; p < pool_places(&scheduler->pool, *gang); p++) {
        struct pool_pod together;
        const struct pool_pod *pod = pool_place_of(&scheduler->pool, p, &together);
        uint32_t fit = 0;
        for (uint32_t h = pod->first; h < pod->first + pod->count; h++)
            fit += scheduler->pool.hosts[h].slots >= gang->slots;
        most_nodes = fit > most_nodes ? fit : most_nodes;
    }
    for (uint32_t h = 0; h < scheduler->pool.host_count; h++) {
        const struct pool_host *host = &scheduler->pool.hosts[h];
        all += host->slots;
        most_slots = host->slots > most_slots ? host->slots : most_slots;
    }
    if (!gang->nodes || !gang->slots || !request->slots || !(request->weight > 0))
        return error_set(error, WEFT_ERROR_ARGUMENT,
                         "a run of %u nodes with %u slots each and weight %g: all must be above 0", gang->nodes,
                         gang->slots, request->weight);
    if (gang->slots > most_slots)
        return error_set(error, WEFT_ERROR_ARGUMENT,
                         "%u slots on one host were asked for, but no host has more than %u: ask for more nodes with "
                         "fewer slots each",
                         gang->slots, most_slots);
    if (gang->nodes > most_nodes && gang->spans)
        return error_set(error, WEFT_ERROR_ARGUMENT,
                         "%u nodes with %u slot%s each were asked for, but all Pods together have %u such host%s",
                         gang->nodes, gang->slots, gang->slots == 1 ? "" : "s", most_nodes, most_nodes == 1 ? "" : "s");
    if (gang->nodes > most_nodes)
        return error_set(
            error, WEFT_ERROR_ARGUMENT,
            "%u nodes with %u slot%s each were asked for, but no Pod has more than %u such host%s, and a run stays "
            "within one Pod unless it says that it may span them",
            gang->nodes, gang->slots, gang->slots == 1 ? "" : "s", most_nodes, most_nodes == 1 ? "" : "s");
    uint64_t kept = kept_of(scheduler, all);
    if (kept && request->fixed && !request->personal && (uint64_t)gang->nodes * gang->slots + kept > all)
        return error_set(error, WEFT_ERROR_ARGUMENT,
                         "%" PRIu64 " slots were asked for by a run that cannot give way, but %" PRIu64
                         " of all %" PRIu64
                         " are kept for small personal runs: ask for fewer, or let it be preemptible",
                         (uint64_t)gang->nodes * gang->slots, kept, all);
    return WEFT_OK;
}
