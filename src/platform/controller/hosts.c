/* SPDX-License-Identifier: Apache-2.0 */
/* What there is: the engine's hosts, by Pod, in the registry and the scheduler. */
#include "platform/controller/internal/state.h"

#include "base/text.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define HOSTS_PERIOD 5000 /* milliseconds between two looks at the hosts of an engine of other machines */

struct hosts_seen {
    struct controller *controller;
    int64_t now;
    weft_status status;
    struct error *error;
    bool changed;
};

bool hosts_find(const struct controller *controller, const char *name, uint32_t *host)
{
    for (*host = 0; *host < controller->host_count; ++*host)
        if (strcmp(controller->hosts[*host].name, name) == 0)
            return true;
    return false;
}

/* One more, not in the order of Pods yet. */
static weft_status add_host(struct controller *controller, const char *name, const char *pod, uint32_t slots,
                            bool known, struct error *error)
{
    if (ARRAY_RESERVE(controller->hosts, controller->host_room, controller->host_count + 1, "the hosts of the engine",
                      error) != WEFT_OK)
        return WEFT_ERROR_MEMORY;
    struct controlled_host *added = &controller->hosts[controller->host_count++];
    *added = (struct controlled_host){.slots = slots, .known = known};
    snprintf(added->name, sizeof added->name, "%s", name);
    snprintf(added->pod, sizeof added->pod, "%s", pod);
    return WEFT_OK;
}

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
    seen->status = add_host(controller, host->name, *host->pod ? host->pod : controller->config.pod, host->slots, true,
                            seen->error);
    if (seen->status != WEFT_OK)
        return false;
    const struct controlled_host *added = &controller->hosts[controller->host_count - 1];
    struct registry_host row = {.slots = host->slots,
                                .processors = host->processors,
                                .memory = host->memory,
                                .slot_kind = host->gpus ? SLOT_GPU : SLOT_CPU};
    memcpy(row.host, added->name, sizeof row.host);
    memcpy(row.pod, added->pod, sizeof row.pod);
    seen->status = registry_host_put(controller->config.registry, &row, seen->now, seen->error);
    if (seen->status == WEFT_OK && controller->config.engine->hosts_change && !host->up)
        seen->status =
            registry_host_lose(controller->config.registry, host->name, host->reason, seen->now, seen->error);
    return seen->status == WEFT_OK;
}

/* Hosts that the engine no longer has are marked as lost: nothing starts there. Runs on them continue, and runs that
 * wait for them keep waiting. */
static weft_status lose_absent(struct controller *controller, int64_t now, struct error *error)
{
    struct registry_host *known = NULL;
    size_t count = 0;
    weft_status status = registry_hosts(controller->config.registry, &known, &count, error);
    for (size_t i = 0; i < count && status == WEFT_OK; i++) {
        uint32_t host;
        if (hosts_find(controller, known[i].host, &host))
            continue;
        status = registry_host_lose(controller->config.registry, known[i].host,
                                    "the server was started without it; 'weft nodes remove' forgets it", now, error);
        if (status == WEFT_OK && known[i].slots <= SLOT_SET_MOST)
            status = add_host(controller, known[i].host, known[i].pod, (uint32_t)known[i].slots, false, error);
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
    struct hosts_seen seen = {controller, now, WEFT_OK, error, false};
    weft_status status = database_begin(controller->config.registry, DATABASE_DURABLE, error);
    if (status != WEFT_OK)
        return status;
    status = engine->hosts(engine, see_host, &seen, error);
    if (status == WEFT_OK)
        status = seen.status;
    if (status == WEFT_OK && !controller->host_count)
        status = error_set(error, WEFT_ERROR_ARGUMENT, "the engine '%s' has no hosts", engine->name);
    if (status == WEFT_OK)
        status = lose_absent(controller, now, error);
    status = database_end(controller->config.registry, status, error);
    if (status == WEFT_OK)
        status = sort_by_pod(controller, error);
    if (status == WEFT_OK)
        status = add_pods(controller, error);
    return status == WEFT_OK ? controller_hosts_changed(controller, error) : status;
}

/* ---- they come and go ---- */

static bool look_at_host(void *context, const struct engine_host *engine_host)
{
    struct hosts_seen *seen = context;
    struct database *registry = seen->controller->config.registry;
    uint32_t host;
    if (!hosts_find(seen->controller, engine_host->name, &host) ||
        registry_host_is_lost(seen->controller->hosts[host].state) == !engine_host->up)
        return true;
    seen->changed = true;
    seen->status = engine_host->up
                       ? registry_host_heard(registry, engine_host->name, seen->now, seen->error)
                       : registry_host_lose(registry, engine_host->name, engine_host->reason, seen->now, seen->error);
    return seen->status == WEFT_OK;
}

weft_status hosts_look(struct controller *controller, int64_t now, struct error *error)
{
    struct engine *engine = controller->config.engine;
    struct hosts_seen seen = {controller, now, WEFT_OK, error, false};
    if (!engine->hosts_change || (controller->hosts_at && now < controller->hosts_at))
        return WEFT_OK;
    controller->hosts_at = now + HOSTS_PERIOD;
    weft_status status = engine->hosts(engine, look_at_host, &seen, error);
    if (status == WEFT_OK)
        status = seen.status;
    return status == WEFT_OK && seen.changed ? controller_hosts_changed(controller, error) : status;
}

/* ---- whether there are enough ---- */

static bool takes_runs(const struct controlled_host *host)
{
    return host->state == REGISTRY_HOST_UP;
}

/* One that is lost for now, as others use it or it is drained in its cluster, will be back. */
static bool controller_hosts_is_there(const struct controlled_host *host)
{
    return host->known || !registry_host_is_lost(host->state);
}

/* The most hosts of one Pod, or of all, that have so many slots and are as they should be. */
static uint32_t most_hosts(const struct controller *controller, uint32_t slots, bool spans,
                           bool (*counts)(const struct controlled_host *host))
{
    uint32_t most = 0, here = 0;
    for (uint32_t i = 0; i < controller->host_count; i++) {
        const struct controlled_host *host = &controller->hosts[i];
        if (!spans && i > 0 && strcmp(host->pod, host[-1].pod) != 0)
            here = 0;
        here += host->slots >= slots && counts(host);
        most = here > most ? here : most;
    }
    return most;
}

bool hosts_suffice(const struct controller *controller, const struct controlled_run *run)
{
    const uint32_t *open = run->spans ? controller->open_in_all : controller->open_in_pod;
    return run->slots <= SLOT_SET_MOST && open[run->slots] >= run->nodes;
}

/* What can be done about hosts that take no runs: so many are in each state. */
static void advise(const uint32_t closed[REGISTRY_HOST_STATES], bool hosts_change, char *text, size_t size)
{
    const uint32_t drained = closed[REGISTRY_HOST_DRAINED], cordoned = closed[REGISTRY_HOST_CORDONED];
    uint32_t lost = 0;
    for (int state = 0; state < REGISTRY_HOST_STATES; state++)
        lost += registry_host_is_lost((enum registry_host_state)state) ? closed[state] : 0;
    const char *opens = drained && cordoned ? "'weft nodes resume' opens a drained or a cordoned one"
                        : cordoned          ? "'weft nodes resume' opens a cordoned one"
                        : drained           ? "'weft nodes resume' opens a drained one"
                                            : "";
    snprintf(text, size, "%s%s%s", opens, *opens && lost ? ", " : "",
             !lost         ? ""
             : !hosts_change ? "a lost one is back when the server is started with it"
                           : "'weft nodes' says why one is lost; it is back when the cluster has it again");
}

/* The hosts with so many slots that take no runs, "a (lost), b (drained)", and how many are in each state. */
static void name_closed(const struct controller *controller, uint32_t slots, char *text, size_t size,
                        uint32_t closed[REGISTRY_HOST_STATES])
{
    size_t used = 0;
    uint32_t more = 0;
    text[0] = '\0';
    for (uint32_t i = 0; i < controller->host_count; i++) {
        const struct controlled_host *host = &controller->hosts[i];
        if (host->slots < slots || takes_runs(host))
            continue;
        closed[host->state]++;
        if (used + PLATFORM_NAME_BYTES + 64 > size)
            more++;
        else
            used += (size_t)snprintf(text + used, size - used, "%s%s (%s)", used ? ", " : "", host->name,
                                     registry_host_state_name(host->state));
    }
    if (more)
        snprintf(text + used, size - used, " and %u more", more);
}

char *hosts_say(const struct controller *controller, const struct controlled_run *run, char *text, size_t size)
{
    char asks[96], closed[512], advice[192], open_now[48] = "none takes";
    uint32_t states[REGISTRY_HOST_STATES] = {0};
    if (run->refusal) {
        snprintf(text, size,
                 "cannot run as the server was started: %s; it waits until the server is started with such hosts and "
                 "rules again, or until it is stopped",
                 run->refusal);
        return text;
    }
    const uint32_t open = most_hosts(controller, run->slots, run->spans, takes_runs);
    if (run->nodes == 1)
        snprintf(asks, sizeof asks, "a host with %u slot%s", run->slots, run->slots == 1 ? "" : "s");
    else
        snprintf(asks, sizeof asks, "%u hosts%s with %u slot%s each", run->nodes, run->spans ? "" : " of one Pod",
                 run->slots, run->slots == 1 ? "" : "s");
    if (open)
        snprintf(open_now, sizeof open_now, "only %u take%s", open, open == 1 ? "s" : "");
    name_closed(controller, run->slots, closed, sizeof closed, states);
    advise(states, controller->config.engine->hosts_change, advice, sizeof advice);
    snprintf(text, size, "waits for %s; %s runs now; closed: %s; %s", asks, open_now, closed, advice);
    return text;
}

weft_status hosts_check(const struct controller *controller, uint32_t nodes, uint32_t slots, bool spans,
                        struct error *error)
{
    const uint32_t there = most_hosts(controller, slots, spans, controller_hosts_is_there);
    if (there >= nodes)
        return WEFT_OK;
    return error_set(error, WEFT_ERROR_ARGUMENT,
                     "%u node%s with %u slot%s %swere asked for, but %s %u such host%s besides those that are lost",
                     nodes, nodes == 1 ? "" : "s", slots, slots == 1 ? "" : "s", nodes == 1 ? "" : "each ",
                     spans ? "all Pods together have" : "no Pod has more than", there, there == 1 ? "" : "s");
}

/* ---- processors and memory ---- */

/* Of what a host has, `asked` of it on a node. */
struct share {
    int64_t asked;
    bool memory;
};

/* What a host has of it; 0: not known. */
static int64_t host_has(const struct controlled_host *host, const struct share *share)
{
    return share->memory ? host->memory : host->processors;
}

/* Of the hosts with that many slots, the one with the smallest share per slot, if that is less than requested. */
static const struct controlled_host *falls_short(const struct controller *controller, const struct share *share,
                                                 uint32_t slots)
{
    const struct controlled_host *least = NULL;
    for (uint32_t i = 0; i < controller->host_count; i++) {
        const struct controlled_host *host = &controller->hosts[i];
        const int64_t has = host_has(host, share);
        if (host->slots < slots || !controller_hosts_is_there(host) || !has ||
            has * slots >= share->asked * host->slots)
            continue;
        if (!least || has * least->slots < host_has(least, share) * host->slots)
            least = host;
    }
    return least;
}

/* The fewest slots of a node, at least `slots`, that come with what was asked for; 0: there are none. */
static uint32_t slots_that_suffice(const struct controller *controller, const struct share *share,
                                   const struct run_specification *asked, uint32_t slots)
{
    for (; slots <= SLOT_SET_MOST; slots++)
        if (most_hosts(controller, slots, asked->may_span_pods, controller_hosts_is_there) >= (uint32_t)asked->nodes &&
            !falls_short(controller, share, slots))
            return slots;
    return 0;
}

static char *say_amount(bool memory, double amount, char *text, size_t size)
{
    if (memory)
        return text_bytes((uint64_t)amount, text, size);
    snprintf(text, size, "%.6g processor%s", amount, amount == 1 ? "" : "s");
    return text;
}

weft_status hosts_check_share(const struct controller *controller, const struct run_specification *asked,
                              struct error *error)
{
    const struct share shares[] = {{asked->processors, false}, {asked->memory, true}};
    const uint32_t slots = (uint32_t)asked->slots;
    for (int memory = 0; memory < 2; memory++) {
        const struct share *share = &shares[memory];
        const struct controlled_host *host = falls_short(controller, share, slots);
        char wanted[48], has[48], comes[48], advice[64] = "no number of slots here comes with so much: ask for less";
        if (!host)
            continue;
        const double of_host = (double)host_has(host, share);
        const uint32_t suffice = slots_that_suffice(controller, share, asked, slots);
        if (suffice)
            snprintf(advice, sizeof advice, "ask for at least %u slots a node, or for less", suffice);
        return error_set(
            error, WEFT_ERROR_ARGUMENT,
            "a node asks for %s, but %u slot%s of host '%s', which has %u slot%s and %s, come%s with %s: %s",
            say_amount(memory, (double)share->asked, wanted, sizeof wanted), slots, slots == 1 ? "" : "s", host->name,
            host->slots, host->slots == 1 ? "" : "s", say_amount(memory, of_host, has, sizeof has),
            slots == 1 ? "s" : "", say_amount(memory, of_host * slots / host->slots, comes, sizeof comes), advice);
    }
    return WEFT_OK;
}

weft_status controller_hosts_changed(struct controller *controller, struct error *error)
{
    for (uint32_t i = 0; i < controller->host_count; i++) {
        struct registry_host host;
        weft_status status = registry_host_get(controller->config.registry, controller->hosts[i].name, &host, error);
        if (status == WEFT_ERROR_ARGUMENT) /* it was lost, and is forgotten */
            host = (struct registry_host){.state = REGISTRY_HOST_LOST};
        else if (status != WEFT_OK)
            return status;
        controller->hosts[i].processors = host.processors;
        controller->hosts[i].memory = host.memory;
        controller->hosts[i].state = host.state;
        scheduler_drain_host(controller->scheduler, i, host.state != REGISTRY_HOST_UP);
    }
    for (uint32_t slots = 1; slots <= SLOT_SET_MOST; slots++) {
        controller->open_in_pod[slots] = most_hosts(controller, slots, false, takes_runs);
        controller->open_in_all[slots] = most_hosts(controller, slots, true, takes_runs);
    }
    controlled_change(controller);
    return WEFT_OK;
}
