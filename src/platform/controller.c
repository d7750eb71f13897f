/* SPDX-License-Identifier: Apache-2.0 */
#include "platform/controller_state.h"

#include "platform/registry_hosts.h"
#include "platform/registry_run_list.h"
#include "scheduler/outlook.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define STEP_PERIOD 1000  /* milliseconds: the engine is asked at least so often while something runs */
#define PASS_PERIOD 30000 /* the scheduler, while something waits: ages and waits have grown */
#define IDLE_PERIOD 60000

/* The scheduler counts seconds. */
static double seconds(int64_t milliseconds)
{
    return (double)milliseconds / 1000;
}

/* ---- the runs that have not ended -----------------------------------------------------------------------------------
 */

static struct controlled_run *find(const struct controller *controller, int64_t number)
{
    for (uint32_t i = 0; i < controller->run_count; i++)
        if (controller->runs[i]->run == number)
            return controller->runs[i];
    return NULL;
}

static void free_run(struct controller *controller, struct controlled_run *run)
{
    attempt_forget(controller, run);
    free(run->promised);
    free(run);
}

static void remove_run(struct controller *controller, struct controlled_run *run)
{
    uint32_t i = 0;
    while (controller->runs[i] != run)
        i++;
    controller->runs[i] = controller->runs[--controller->run_count];
    free_run(controller, run);
}

/* The number by which the scheduler knows a project. */
static weft_status project_number(struct controller *controller, const char *project, uint32_t *number,
                                  struct error *error)
{
    for (*number = 0; *number < controller->project_count; ++*number)
        if (!strcmp(controller->projects[*number], project))
            return WEFT_OK;
    size_t bytes = (controller->project_count + 1) * sizeof *controller->projects;
    char(*projects)[PLATFORM_NAME_BYTES] = realloc(controller->projects, bytes);
    if (!projects)
        return error_memory(error, bytes, "the projects of the scheduler");
    controller->projects = projects;
    snprintf(projects[controller->project_count++], PLATFORM_NAME_BYTES, "%s", project);
    return WEFT_OK;
}

/* Room for one more run, and for the scheduler's next name. */
static weft_status make_room(struct controller *controller, struct error *error)
{
    size_t bytes = (controller->run_count + 1) * sizeof(struct controlled_run *);
    struct controlled_run **runs = realloc(controller->runs, bytes);
    if (!runs)
        return error_memory(error, bytes, "the runs of the controller");
    controller->runs = runs;
    return WEFT_OK;
}

static weft_status note_name(struct controller *controller, struct controlled_run *run, struct error *error)
{
    if (run->name >= controller->name_count) {
        uint32_t count = 2 * run->name + 64;
        size_t bytes = count * sizeof(struct controlled_run *);
        struct controlled_run **by_name = realloc(controller->by_name, bytes);
        if (!by_name)
            return error_memory(error, bytes, "the runs of the scheduler");
        controller->by_name = by_name;
        controller->name_count = count;
    }
    controller->by_name[run->name] = run;
    return WEFT_OK;
}

/* Tell the scheduler of a run: that it waits, or has the hosts of its attempt. */
static weft_status enter(struct controller *controller, struct controlled_run *run, const struct registry_run *found,
                         struct error *error)
{
    struct scheduler_request request = {.gang = {run->nodes, (uint16_t)run->slots},
                                        .slots = run->nodes * run->slots,
                                        .weight = exp2((double)found->priority / 25),
                                        .fixed = !found->preemptible};
    struct scheduler_past past = {.attained = seconds(found->served), .since = seconds(found->waiting_since)};
    past.waited = fmax(0, seconds(found->waiting_since - found->submitted - found->served));
    uint32_t *hosts = NULL;
    bool has_hosts = run->node && !run_cause_gives_way(found->asked);
    weft_status status = project_number(controller, found->project, &request.project, error);
    if (status == WEFT_OK && has_hosts) {
        hosts = malloc(run->nodes * sizeof *hosts);
        if (!hosts)
            return error_memory(error, run->nodes * sizeof *hosts, "the hosts of a run");
        for (uint32_t i = 0; i < run->nodes; i++)
            hosts[i] = run->node[i].host;
        past.since = seconds(found->started ? found->started : found->changed);
        past.hosts = hosts;
    }
    if (status == WEFT_OK)
        status = scheduler_take_up(controller->scheduler, &request, &past, &run->name, error);
    free(hosts);
    if (status != WEFT_OK)
        return status;
    run->place = has_hosts ? CONTROLLED_ON_HOSTS : CONTROLLED_IN_QUEUE;
    controller->changed = true;
    return note_name(controller, run, error);
}

/* A run that has not ended becomes one of the controller's. One that can never be placed is failed, by a sentence. */
static weft_status take_up(struct controller *controller, const struct registry_run *found, int64_t now,
                           struct error *error)
{
    struct controlled_run *run = calloc(1, sizeof *run);
    weft_status status = run ? make_room(controller, error) : error_memory(error, sizeof *run, "a run");
    if (status != WEFT_OK) {
        free(run);
        return status;
    }
    *run = (struct controlled_run){.run = found->run,
                                   .epoch = found->epoch,
                                   .nodes = (uint32_t)found->nodes,
                                   .slots = (uint32_t)found->slots,
                                   .slice_end = INT64_MAX};
    if (found->time_slice && found->started)
        run->slice_end = found->started + found->time_slice * 1000;
    if (run_state_is_active(found->state)) {
        status = attempt_take_up(controller, run, error);
        run->to_start = found->state == RUN_PLACED;
        run->started = !run->to_start;
        run->how = ENGINE_STOP;
        if (found->state == RUN_STOPPING) {
            run->to_stop = true;
            run->how = run_cause_gives_way(found->asked) ? ENGINE_CHECKPOINT : ENGINE_STOP;
        }
    }
    struct error refusal = {0};
    if (status == WEFT_OK)
        status = enter(controller, run, found, &refusal);
    if (status == WEFT_ERROR_ARGUMENT && run_state_is_waiting(found->state)) {
        struct registry_outcome outcome;
        free_run(controller, run);
        status = database_begin(controller->config.registry, DATABASE_DURABLE, error);
        if (status != WEFT_OK)
            return status;
        status = registry_run_change(controller->config.registry, found->run, REGISTRY_PRESENT, RUN_CAUSE_CANCEL, "",
                                     refusal.text, now, &outcome, error);
        return database_end(controller->config.registry, status, error);
    }
    if (status != WEFT_OK) {
        free_run(controller, run);
        return error_set(error, status, "%s", refusal.text);
    }
    controller->runs[controller->run_count++] = run;
    return WEFT_OK;
}

weft_status controller_submitted(struct controller *controller, int64_t number, int64_t now, struct error *error)
{
    struct registry_run found;
    if (find(controller, number))
        return WEFT_OK;
    weft_status status = registry_run_get(controller->config.registry, number, &found, error);
    if (status != WEFT_OK || run_state_is_final(found.state))
        return status;
    return take_up(controller, &found, now, error);
}

/* ---- opening
 * ---------------------------------------------------------------------------------------------------------- */

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
    if (controller->host_count && controller->host_slots != host->slots) {
        seen->status = error_set(seen->error, WEFT_ERROR_ARGUMENT,
                                 "host '%s' has %u slots and '%s' has %u: the hosts of a Pod must be alike",
                                 controller->host_names[0], controller->host_slots, host->name, host->slots);
        return false;
    }
    size_t bytes = (controller->host_count + 1) * sizeof *controller->host_names;
    char(*names)[PLATFORM_NAME_BYTES] = realloc(controller->host_names, bytes);
    if (!names) {
        seen->status = error_memory(seen->error, bytes, "the names of hosts");
        return false;
    }
    controller->host_names = names;
    snprintf(names[controller->host_count++], PLATFORM_NAME_BYTES, "%s", host->name);
    controller->host_slots = host->slots;
    struct registry_host row = {.slots = host->slots, .slot_kind = host->gpus ? SLOT_GPU : SLOT_CPU};
    snprintf(row.host, sizeof row.host, "%s", host->name);
    snprintf(row.pod, sizeof row.pod, "%s", controller->config.pod);
    seen->status = registry_host_put(controller->config.registry, &row, seen->now, seen->error);
    return seen->status == WEFT_OK;
}

static weft_status open_hosts(struct controller *controller, int64_t now, struct error *error)
{
    struct engine *engine = controller->config.engine;
    struct hosts_seen seen = {controller, now, WEFT_OK, error};
    weft_status status = database_begin(controller->config.registry, DATABASE_DURABLE, error);
    if (status != WEFT_OK)
        return status;
    status = engine->hosts(engine, see_host, &seen, error);
    status = database_end(controller->config.registry, status == WEFT_OK ? seen.status : status, error);
    if (status == WEFT_OK && !controller->host_count)
        status = error_set(error, WEFT_ERROR_ARGUMENT, "the engine '%s' has no hosts", engine->name);
    if (status != WEFT_OK)
        return status;
    controller->used = calloc(controller->host_count, sizeof *controller->used);
    if (!controller->used)
        return error_memory(error, controller->host_count * sizeof *controller->used, "the slots of hosts");
    status = scheduler_add_pod(controller->scheduler, controller->host_count, controller->host_slots, error);
    return status == WEFT_OK ? controller_hosts_changed(controller, error) : status;
}

weft_status controller_hosts_changed(struct controller *controller, struct error *error)
{
    for (uint32_t i = 0; i < controller->host_count; i++) {
        struct registry_host host;
        weft_status status = registry_host_get(controller->config.registry, controller->host_names[i], &host, error);
        if (status != WEFT_OK)
            return status;
        scheduler_drain_host(controller->scheduler, i, host.state != REGISTRY_HOST_UP);
    }
    controller->changed = true;
    return WEFT_OK;
}

/* In the queue again, after it gave way. */
static weft_status requeue(struct controller *controller, int64_t run, int64_t now, struct error *error)
{
    struct registry_outcome outcome;
    return registry_run_change(controller->config.registry, run, REGISTRY_PRESENT, RUN_CAUSE_REQUEUED, "", "", now,
                               &outcome, error);
}

static weft_status take_up_all(struct controller *controller, int64_t now, struct error *error)
{
    struct registry_filter filter = {.states = REGISTRY_LIVE, .oldest_first = true, .most = REGISTRY_PAGE_MOST};
    bool more = true;
    weft_status status = WEFT_OK;
    while (more && status == WEFT_OK) {
        struct registry_run *list;
        size_t count;
        status = registry_run_list(controller->config.registry, &filter, &list, &count, &more, error);
        if (status != WEFT_OK)
            return status;
        for (size_t i = 0; i < count && status == WEFT_OK; i++) {
            filter.beyond = list[i].run;
            if (list[i].state == RUN_PREEMPTED) { /* the crash came between the two changes */
                status = database_begin(controller->config.registry, DATABASE_DURABLE, error);
                if (status == WEFT_OK)
                    status =
                        database_end(controller->config.registry, requeue(controller, list[i].run, now, error), error);
                if (status == WEFT_OK)
                    status = registry_run_get(controller->config.registry, list[i].run, &list[i], error);
            }
            if (status == WEFT_OK)
                status = take_up(controller, &list[i], now, error);
        }
        free(list);
    }
    return status;
}

weft_status controller_open(const struct controller_config *config, int64_t now, struct controller **controller,
                            struct error *error)
{
    struct controller *made = calloc(1, sizeof *made);
    if (!made)
        return error_memory(error, sizeof *made, "a controller");
    made->config = *config;
    made->scheduler = scheduler_new(&config->policy, error);
    weft_status status = made->scheduler ? open_hosts(made, now, error) : WEFT_ERROR_MEMORY;
    if (status == WEFT_OK)
        status = take_up_all(made, now, error);
    if (status != WEFT_OK) {
        controller_close(made);
        return status;
    }
    *controller = made;
    return WEFT_OK;
}

void controller_close(struct controller *controller)
{
    if (!controller)
        return;
    for (uint32_t i = 0; i < controller->run_count; i++)
        free_run(controller, controller->runs[i]);
    free(controller->runs);
    free(controller->by_name);
    free(controller->projects);
    free(controller->host_names);
    free(controller->used);
    scheduler_free(controller->scheduler);
    free(controller);
}

/* ---- a step: hear
 * ----------------------------------------------------------------------------------------------------- */

/* The attempt of a run has ended: the scheduler hears what that means. */
static weft_status settle(struct controller *controller, struct controlled_run *run, int64_t now, struct error *error)
{
    struct registry_run found;
    weft_status status = registry_run_get(controller->config.registry, run->run, &found, error);
    if (status != WEFT_OK || run_state_is_active(found.state))
        return status;
    controller->changed = true;
    attempt_forget(controller, run);
    if (run_state_is_final(found.state)) {
        bool learned = found.state == RUN_SUCCEEDED && run->place == CONTROLLED_ON_HOSTS && !run->promised;
        if (learned)
            status = scheduler_finish(controller->scheduler, run->name, seconds(now), error);
        else
            scheduler_withdraw(controller->scheduler, run->name);
        remove_run(controller, run);
        return status;
    }
    if (found.state == RUN_PREEMPTED)
        status = requeue(controller, run->run, now, error);
    /* The scheduler thinks that it runs, and has not moved it: something else has ended it. */
    if (run->place == CONTROLLED_ON_HOSTS && !run->promised) {
        scheduler_requeue(controller->scheduler, run->name, seconds(now));
        run->place = CONTROLLED_IN_QUEUE;
    }
    return status;
}

static bool note_heard(void *context, const struct attempt *attempt, uint32_t node)
{
    struct controlled_run *run = find(context, strtoll(attempt->run, NULL, 10));
    if (run)
        run->heard = true;
    return true;
}

/* Those that the engine has something to tell of; all of them once a second, for what it does not know by itself. */
static weft_status hear_all(struct controller *controller, int64_t now, struct error *error)
{
    struct engine *engine = controller->config.engine;
    bool all = !engine->heard || now - controller->heard_at >= STEP_PERIOD || now < controller->heard_at;
    weft_status status = WEFT_OK;
    if (all)
        controller->heard_at = now;
    else
        status = engine->heard(engine, note_heard, controller, error);
    for (uint32_t i = controller->run_count; i-- && status == WEFT_OK;) {
        struct controlled_run *run = controller->runs[i];
        if (!run->node || (!all && !run->heard && (run->started || run->to_start)))
            continue;
        run->heard = false;
        if (run->started)
            status = attempt_hear(controller, run, now, error);
        if (status == WEFT_OK && !run->to_start)
            status = settle(controller, run, now, error);
    }
    return status;
}

/* Those whose time slice is over, while others wait. */
static weft_status end_slices(struct controller *controller, int64_t now, struct error *error)
{
    weft_status status = WEFT_OK;
    for (uint32_t i = 0; i < controller->run_count && status == WEFT_OK; i++) {
        struct controlled_run *run = controller->runs[i];
        if (!run->node || run->slice_end > now || !scheduler_queued(controller->scheduler))
            continue;
        run->slice_end = INT64_MAX;
        status = attempt_ask(controller, run, RUN_CAUSE_SLICE_END, "", "", now, error);
    }
    return status;
}

/* ---- decide
 * ------------------------------------------------------------------------------------------------------------ */

static weft_status promise(struct controlled_run *run, const uint32_t *hosts, struct error *error)
{
    size_t bytes = run->nodes * sizeof *hosts;
    uint32_t *promised = malloc(bytes);
    if (!promised)
        return error_memory(error, bytes, "the hosts of a run");
    memcpy(promised, hosts, bytes);
    free(run->promised);
    run->promised = promised;
    run->place = CONTROLLED_ON_HOSTS;
    return WEFT_OK;
}

static weft_status carry_out(struct controller *controller, const struct scheduler_decision *decision, int64_t now,
                             struct error *error)
{
    struct controlled_run *run = controller->by_name[decision->run];
    char detail[128];
    if (decision->kind == SCHEDULER_START)
        return promise(run, decision->hosts, error);
    snprintf(detail, sizeof detail, "for run %" PRId64, controller->by_name[decision->for_run]->run);
    weft_status status = WEFT_OK;
    if (run->node)
        status = attempt_ask(controller, run, decision->kind == SCHEDULER_MOVE ? RUN_CAUSE_MOVE : RUN_CAUSE_PREEMPT, "",
                             detail, now, error);
    if (status == WEFT_OK && decision->kind == SCHEDULER_MOVE)
        return promise(run, decision->hosts, error);
    free(run->promised);
    run->promised = NULL;
    run->place = CONTROLLED_IN_QUEUE;
    return status;
}

static weft_status decide(struct controller *controller, int64_t now, struct error *error)
{
    bool due = controller->changed || now - controller->passed_at >= PASS_PERIOD;
    if (!due || !scheduler_queued(controller->scheduler))
        return WEFT_OK;
    const struct scheduler_decision *decisions;
    size_t count;
    weft_status status = scheduler_pass(controller->scheduler, seconds(now), &decisions, &count, error);
    controller->changed = false;
    controller->passed_at = now;
    for (size_t i = 0; i < count && status == WEFT_OK; i++)
        status = carry_out(controller, &decisions[i], now, error);
    return status;
}

/* ---- act
 * ---------------------------------------------------------------------------------------------------------------- */

/* What is written down before it is done: records heard, decisions, placements. */
static weft_status write_down(struct controller *controller, int64_t now, struct error *error)
{
    struct database *registry = controller->config.registry;
    weft_status status = database_begin(registry, DATABASE_DURABLE, error);
    if (status != WEFT_OK)
        return status;
    status = hear_all(controller, now, error);
    if (status == WEFT_OK)
        status = end_slices(controller, now, error);
    if (status == WEFT_OK)
        status = decide(controller, now, error);
    for (uint32_t i = 0; i < controller->run_count && status == WEFT_OK; i++)
        if (controller->runs[i]->promised && !controller->runs[i]->node)
            status = attempt_place(controller, controller->runs[i], now, error);
    return database_end(registry, status, error);
}

weft_status controller_step(struct controller *controller, int64_t now, int64_t *next, struct error *error)
{
    weft_status status = write_down(controller, now, error);
    bool busy = false, at_once = false;
    for (uint32_t i = 0; i < controller->run_count && status == WEFT_OK; i++) {
        struct controlled_run *run = controller->runs[i];
        if (run->to_start) {
            status = attempt_start(controller, run, now, error);
            at_once = at_once || !run->started;
        }
        if (status == WEFT_OK && run->to_stop)
            status = attempt_stop(controller, run, error);
        busy = busy || run->node || run->promised;
    }
    bool waits = scheduler_queued(controller->scheduler) != 0;
    *next = now + (at_once || (controller->changed && waits) ? 0
                   : busy                                    ? STEP_PERIOD
                   : waits                                   ? PASS_PERIOD
                                                             : IDLE_PERIOD);
    return status;
}

weft_status controller_cancel(struct controller *controller, int64_t number, const char *actor, int64_t now,
                              struct error *error)
{
    struct database *registry = controller->config.registry;
    struct controlled_run *run = find(controller, number);
    if (!run) {
        struct registry_run found;
        weft_status status = registry_run_get(registry, number, &found, error);
        return status != WEFT_OK ? status
                                 : error_set(error, WEFT_ERROR_STATE, "run %" PRId64 " has ended already: %s", number,
                                             run_state_name(found.state));
    }
    weft_status status = database_begin(registry, DATABASE_DURABLE, error);
    if (status != WEFT_OK)
        return status;
    if (run->node) {
        status = attempt_ask(controller, run, RUN_CAUSE_CANCEL, actor, "", now, error);
    } else {
        struct registry_outcome outcome;
        status =
            registry_run_change(registry, number, REGISTRY_PRESENT, RUN_CAUSE_CANCEL, actor, "", now, &outcome, error);
    }
    status = database_end(registry, status, error);
    if (status == WEFT_OK && !run->node) {
        scheduler_withdraw(controller->scheduler, run->name);
        remove_run(controller, run);
    }
    controller->changed = true;
    return status;
}

/* ---- why
 * ------------------------------------------------------------------------------------------------------------------ */

weft_status controller_why(struct controller *controller, int64_t number, int64_t now, char *text, size_t size,
                           struct error *error)
{
    struct controlled_run *run = find(controller, number);
    uint32_t queued = scheduler_queued(controller->scheduler);
    text[0] = '\0';
    if (!run || run->node)
        return WEFT_OK;
    if (run->promised) {
        snprintf(text, size, "has its slots, and starts when those who had them have left");
        return WEFT_OK;
    }
    if (controller->changed) { /* the queue has no order yet that knows of all */
        snprintf(text, size, "the queue has just changed; the next pass, within a second, looks at it");
        return WEFT_OK;
    }
    struct outlook *outlooks = malloc((queued + 1) * sizeof *outlooks);
    if (!outlooks)
        return error_memory(error, (queued + 1) * sizeof *outlooks, "the plan of the queue");
    weft_status status = outlook_all(controller->scheduler, seconds(now), outlooks, error);
    for (uint32_t i = 0; i < queued && status == WEFT_OK; i++)
        if (outlooks[i].run == run->name)
            outlook_say(&outlooks[i], seconds(now), text, size);
    free(outlooks);
    return status;
}
