/* SPDX-License-Identifier: Apache-2.0 */
/* What there is: the engine's hosts, by Pod, in the registry and the scheduler. */
#include "platform/controller_state.h"

#include "platform/registry_hosts.h"
#include "platform/slot_set.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct hosts_seen {
    struct controller *controller;
    int64_t now;
    weft_status status;
    struct error *error;
};

static bool see_host(void *context, const struct engine_host *host)
{
    struct hosts_seen *seen = context;
    struct controller *controller = seen->controller;
    if (!host->slots || host->slots > SLOT_SET_MOST) {
        seen->status = error_set(seen->error, WEFT_ERROR_ARGUMENT,
                                 "host '%s' has %u slots; 1 to %d can be: let it be several hosts", host->name,
                                 host->slots, SLOT_SET_MOST);
        return false;
    }
    size_t bytes = (controller->host_count + 1) * sizeof *controller->hosts;
    struct controlled_host *hosts = realloc(controller->hosts, bytes);
    if (!hosts) {
        seen->status = error_memory(seen->error, bytes, "the hosts of the engine");
        return false;
    }
    controller->hosts = hosts;
    struct controlled_host *added = &hosts[controller->host_count++];
    *added = (struct controlled_host){.slots = host->slots};
    snprintf(added->name, sizeof added->name, "%s", host->name);
    snprintf(added->pod, sizeof added->pod, "%s", *host->pod ? host->pod : controller->config.pod);
    struct registry_host row = {.slots = host->slots, .slot_kind = host->gpus ? SLOT_GPU : SLOT_CPU};
    memcpy(row.host, added->name, sizeof row.host);
    memcpy(row.pod, added->pod, sizeof row.pod);
    seen->status = registry_host_put(controller->config.registry, &row, seen->now, seen->error);
    return seen->status == WEFT_OK;
}

/* Hosts that were the engine's once and are not any more: nothing starts there, and whoever looks is told. */
static weft_status lose_absent(struct controller *controller, int64_t now, struct error *error)
{
    struct registry_host *known = NULL;
    size_t count = 0;
    weft_status status = registry_hosts(controller->config.registry, &known, &count, error);
    for (size_t i = 0; i < count && status == WEFT_OK; i++) {
        bool there = false;
        for (uint32_t k = 0; k < controller->host_count && !there; k++)
            there = strcmp(controller->hosts[k].name, known[i].host) == 0;
        if (!there)
            status =
                registry_host_lose(controller->config.registry, known[i].host,
                                   "the server was started without it; 'weft nodes remove' forgets it", now, error);
    }
    free(known);
    return status;
}

/* Put the hosts of each Pod one after another, as the scheduler has them; Pods and hosts stay in the engine's order. */
static weft_status sort_by_pod(struct controller *controller, struct error *error)
{
    size_t bytes = controller->host_count * sizeof *controller->hosts;
    struct controlled_host *sorted = malloc(bytes);
    if (!sorted)
        return error_memory(error, bytes, "the hosts of the engine");
    uint32_t count = 0;
    for (uint32_t i = 0; i < controller->host_count; i++) {
        bool first = true;
        for (uint32_t k = 0; k < count && first; k++)
            first = strcmp(sorted[k].pod, controller->hosts[i].pod) != 0;
        for (uint32_t k = i; first && k < controller->host_count; k++)
            if (strcmp(controller->hosts[k].pod, controller->hosts[i].pod) == 0)
                sorted[count++] = controller->hosts[k];
    }
    free(controller->hosts);
    controller->hosts = sorted;
    return WEFT_OK;
}

static weft_status add_pods(struct controller *controller, struct error *error)
{
    uint32_t *slots = malloc(controller->host_count * sizeof *slots);
    if (!slots)
        return error_memory(error, controller->host_count * sizeof *slots, "the hosts of the engine");
    weft_status status = WEFT_OK;
    for (uint32_t first = 0, end; first < controller->host_count && status == WEFT_OK; first = end) {
        for (end = first; end < controller->host_count; end++) {
            if (strcmp(controller->hosts[end].pod, controller->hosts[first].pod) != 0)
                break;
            slots[end - first] = controller->hosts[end].slots;
        }
        status = scheduler_add_mixed_pod(controller->scheduler, end - first, slots, error);
    }
    free(slots);
    return status;
}

weft_status hosts_open(struct controller *controller, int64_t now, struct error *error)
{
    struct engine *engine = controller->config.engine;
    struct hosts_seen seen = {controller, now, WEFT_OK, error};
    weft_status status = database_begin(controller->config.registry, DATABASE_DURABLE, error);
    if (status != WEFT_OK)
        return status;
    status = engine->hosts(engine, see_host, &seen, error);
    if (status == WEFT_OK)
        status = seen.status;
    if (status == WEFT_OK)
        status = lose_absent(controller, now, error);
    status = database_end(controller->config.registry, status, error);
    if (status == WEFT_OK && !controller->host_count)
        status = error_set(error, WEFT_ERROR_ARGUMENT, "the engine '%s' has no hosts", engine->name);
    if (status == WEFT_OK)
        status = sort_by_pod(controller, error);
    if (status == WEFT_OK)
        status = add_pods(controller, error);
    return status == WEFT_OK ? controller_hosts_changed(controller, error) : status;
}

weft_status controller_hosts_changed(struct controller *controller, struct error *error)
{
    for (uint32_t i = 0; i < controller->host_count; i++) {
        struct registry_host host;
        weft_status status = registry_host_get(controller->config.registry, controller->hosts[i].name, &host, error);
        if (status != WEFT_OK)
            return status;
        scheduler_drain_host(controller->scheduler, i, host.state != REGISTRY_HOST_UP);
    }
    controlled_change(controller);
    return WEFT_OK;
}
