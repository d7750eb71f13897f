/* SPDX-License-Identifier: Apache-2.0 */
/* The runs that have not ended, whose they are, and how the scheduler hears of them. */
#include "platform/controller/internal/state.h"

#include "platform/registry/run/list.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define LEARNED_MOST 10000 /* past runs used for estimates: some milliseconds */

/* ---- by number ---- */

uint32_t runs_place(const struct controller *controller, int64_t number)
{
    uint32_t from = 0, to = controller->run_count;
    while (from < to) {
        uint32_t middle = from + (to - from) / 2;
        if (controller->runs[middle]->run < number)
            from = middle + 1;
        else
            to = middle;
    }
    return from;
}

struct controlled_run *runs_find(const struct controller *controller, int64_t number)
{
    uint32_t at = runs_place(controller, number);
    return at < controller->run_count && controller->runs[at]->run == number ? controller->runs[at] : NULL;
}

static void free_run(struct controller *controller, struct controlled_run *run)
{
    attempt_forget(controller, run);
    free(run->promised);
    free(run->refusal);
    free(run->failure);
    free(run);
}

void runs_remove(struct controller *controller, struct controlled_run *run)
{
    uint32_t at = runs_place(controller, run->run);
    controller->run_count--;
    memmove(&controller->runs[at], &controller->runs[at + 1],
            (controller->run_count - at) * sizeof(struct controlled_run *));
    free_run(controller, run);
    controlled_change(controller);
}

void runs_free(struct controller *controller)
{
    for (uint32_t i = 0; i < controller->run_count; i++)
        free_run(controller, controller->runs[i]);
    for (uint32_t i = 0; i < controller->owner_count; i++)
        free(controller->owners[i].class_runs);
    free(controller->runs);
    free(controller->by_name);
    free(controller->projects);
    free(controller->owners);
    free(controller->funds);
}

static void controller_runs_insert(struct controller *controller, struct controlled_run *run)
{
    uint32_t at = runs_place(controller, run->run);
    memmove(&controller->runs[at + 1], &controller->runs[at],
            (controller->run_count - at) * sizeof(struct controlled_run *));
    controller->runs[at] = run;
    controller->run_count++;
}

/* ---- whose they are ---- */

static weft_status project_number(struct controller *controller, const char *name, uint32_t *number,
                                  struct error *error)
{
    for (*number = 0; *number < controller->project_count; ++*number)
        if (!strcmp(controller->projects[*number].name, name))
            return WEFT_OK;
    struct registry_project found;
    weft_status status = registry_project_get(controller->config.registry, name, &found, error);
    if (status != WEFT_OK)
        return status;
    if (ARRAY_RESERVE(controller->projects, controller->project_room, controller->project_count + 1,
                      "the projects of the scheduler", error) != WEFT_OK)
        return WEFT_ERROR_MEMORY;
    controller->plan_stale = true; /* it points to their names */
    struct controlled_project *added = &controller->projects[controller->project_count++];
    *added = (struct controlled_project){.personal = found.personal};
    snprintf(added->name, sizeof added->name, "%s", name);
    return WEFT_OK;
}

static weft_status owner_number(struct controller *controller, const char *name, uint32_t *number, struct error *error)
{
    for (*number = 0; *number < controller->owner_count; ++*number)
        if (!strcmp(controller->owners[*number].name, name))
            return WEFT_OK;
    if (ARRAY_RESERVE(controller->owners, controller->owner_room, controller->owner_count + 1, "the owners of runs",
                      error) != WEFT_OK)
        return WEFT_ERROR_MEMORY;
    controller->plan_stale = true;
    uint32_t *class_runs = calloc(controller->config.class_count + 1, sizeof *class_runs);
    if (!class_runs)
        return error_memory(error, (controller->config.class_count + 1) * sizeof *class_runs, "the owners of runs");
    struct controlled_owner *added = &controller->owners[controller->owner_count++];
    *added = (struct controlled_owner){.class_runs = class_runs};
    snprintf(added->name, sizeof added->name, "%s", name);
    return WEFT_OK;
}

static weft_status funds_number(struct controller *controller, uint32_t project, uint32_t owner, uint32_t *number,
                                struct error *error)
{
    for (*number = 0; *number < controller->funds_count; ++*number)
        if (controller->funds[*number].project == project && controller->funds[*number].owner == owner)
            return WEFT_OK;
    if (ARRAY_RESERVE(controller->funds, controller->funds_room, controller->funds_count + 1, "the budgets of runs",
                      error) != WEFT_OK)
        return WEFT_ERROR_MEMORY;
    controller->funds[controller->funds_count++] = (struct controlled_funds){.project = project, .owner = owner};
    return WEFT_OK;
}

static weft_status note_whose(struct controller *controller, struct controlled_run *run,
                              const struct registry_run *found, struct error *error)
{
    weft_status status = project_number(controller, found->project, &run->project, error);
    if (status == WEFT_OK)
        status = owner_number(controller, found->owner, &run->owner, error);
    if (status == WEFT_OK)
        status = funds_number(controller, run->project, run->owner, &run->funds, error);
    if (status == WEFT_OK)
        run->personal = controller->projects[run->project].personal && !strcmp(found->project, found->owner);
    return status;
}

/* ---- what the scheduler hears ---- */

static weft_status note_name(struct controller *controller, struct controlled_run *run, struct error *error)
{
    if (ARRAY_RESERVE(controller->by_name, controller->name_room, (size_t)run->name + 1, "the runs of the scheduler",
                      error) != WEFT_OK)
        return WEFT_ERROR_MEMORY;
    controller->by_name[run->name] = run;
    return WEFT_OK;
}

static struct scheduler_request request_of(int64_t nodes, int64_t slots, int64_t priority, bool preemptible,
                                           bool personal)
{
    uint16_t each = slots < UINT16_MAX ? (uint16_t)slots : UINT16_MAX;
    return (struct scheduler_request){.gang = {.nodes = (uint32_t)nodes, .slots = each},
                                      .slots = (uint32_t)nodes * each,
                                      .weight = exp2((double)priority / 25),
                                      .fixed = !preemptible,
                                      .personal = personal};
}

/* What estimates know somebody by in a project: what they pay from there is theirs alone. */
static uint32_t member_of(uint32_t funds)
{
    return funds + 1;
}

weft_status runs_learn(struct controller *controller, struct error *error)
{
    struct registry_length *list;
    size_t count;
    struct scheduler_request request = {0};
    weft_status status = registry_lengths(controller->config.registry, LEARNED_MOST, &list, &count, error);
    if (status != WEFT_OK)
        return status;
    for (size_t i = 0; i < count && status == WEFT_OK; i++) {
        if (!i || strcmp(list[i].project, list[i - 1].project) || strcmp(list[i].owner, list[i - 1].owner)) {
            uint32_t owner, funds;
            status = project_number(controller, list[i].project, &request.project, error);
            if (status == WEFT_OK)
                status = owner_number(controller, list[i].owner, &owner, error);
            if (status == WEFT_OK)
                status = funds_number(controller, request.project, owner, &funds, error);
            if (status == WEFT_OK)
                request.member = member_of(funds);
        }
        request.slots = (uint32_t)(list[i].nodes * list[i].slots);
        if (status == WEFT_OK)
            status = scheduler_learn(controller->scheduler, &request, controlled_seconds(list[i].served), error);
    }
    free(list);
    return status;
}

/* Tell the scheduler of a run: that it waits, or has the hosts of its attempt. */
static weft_status controller_runs_enter(struct controller *controller, struct controlled_run *run,
                                         const struct registry_run *found, struct error *error)
{
    struct scheduler_request request =
        request_of(run->nodes, run->slots, run->priority, run->preemptible, run->personal);
    request.gang.spans = found->may_span_pods;
    request.project = run->project;
    request.member = member_of(run->funds);
    request.limit = controlled_seconds(run->time_limit);
    struct scheduler_past past = {.attained = controlled_seconds(found->served),
                                  .since = controlled_seconds(found->waiting_since)};
    past.waited = fmax(0, controlled_seconds(found->waiting_since - found->submitted - found->served));
    uint32_t *hosts = NULL;
    bool has_hosts = run->node && !run_cause_gives_way(found->asked);
    if (has_hosts) {
        hosts = malloc(run->nodes * sizeof *hosts);
        if (!hosts)
            return error_memory(error, run->nodes * sizeof *hosts, "the hosts of a run");
        for (uint32_t i = 0; i < run->nodes; i++)
            if (run->node[i].dropped)
                past.lost++;
            else
                hosts[i - past.lost] = run->node[i].host;
        past.since = controlled_seconds(found->started ? found->started : found->changed);
        past.hosts = hosts;
    }
    weft_status status = scheduler_take_up(controller->scheduler, &request, &past, &run->name, error);
    free(hosts);
    if (status == WEFT_ERROR_STATE && has_hosts) /* on slots that the host has not any more: it goes on, that is all */
        return WEFT_OK;
    if (status != WEFT_OK)
        return status;
    run->place = has_hosts ? CONTROLLED_ON_HOSTS : CONTROLLED_IN_QUEUE;
    controlled_change(controller);
    return note_name(controller, run, error);
}

void runs_break_promise(struct controller *controller, struct controlled_run *run, enum controller_wait waits,
                        int64_t now)
{
    free(run->promised);
    run->promised = NULL;
    scheduler_requeue(controller->scheduler, run->name, controlled_seconds(now));
    scheduler_park(controller->scheduler, run->name, controlled_seconds(now));
    run->place = CONTROLLED_IN_QUEUE;
    run->waits = waits;
    controller->parked++;
    controller->plan_stale = true;
}

/* ---- they come ---- */

weft_status controller_check(const struct controller *controller, const struct run_specification *specification,
                             struct error *error)
{
    struct registry_project project;
    weft_status status = registry_project_get(controller->config.registry, specification->project, &project, error);
    if (status != WEFT_OK)
        return status;
    bool personal = project.personal && !strcmp(specification->project, specification->owner);
    status =
        run_limits_check(controller, specification->class_name, personal, run_specification_size(specification), error);
    if (status != WEFT_OK)
        return status;
    struct scheduler_request request =
        request_of(specification->nodes, specification->slots, 0, specification->preemptible, personal);
    request.gang.spans = specification->may_span_pods;
    status = scheduler_check(controller->scheduler, &request, error);
    if (status == WEFT_OK)
        status = hosts_check(controller, request.gang.nodes, request.gang.slots, specification->may_span_pods, error);
    return status == WEFT_OK ? hosts_check_share(controller, specification, error) : status;
}

/* What was under way is under way again. */
static weft_status take_up_attempt(struct controller *controller, struct controlled_run *run,
                                   const struct registry_run *found, struct error *error)
{
    weft_status status = attempt_take_up(controller, run, error);
    /* A run may have been asked to end before it was started; starting it then ends it. */
    run->to_start = found->state == RUN_PLACED || (found->state == RUN_STOPPING && run->to_start);
    run->started = !run->to_start;
    run->how = ENGINE_STOP;
    if (found->state == RUN_STOPPING) {
        run->to_stop = run->leaving = true;
        run->how = run_cause_gives_way(found->asked) ? ENGINE_CHECKPOINT : ENGINE_STOP;
    }
    run->since = found->started ? found->started : found->changed;
    if (run->time_slice && found->started)
        run->slice_end = found->started + run->time_slice;
    return status == WEFT_OK ? budget_take_up(controller, run, error) : status;
}

/* One that can never be placed. */
static weft_status controller_runs_refuse(struct controller *controller, int64_t run, const char *why, int64_t now,
                                          struct error *error)
{
    struct database *registry = controller->config.registry;
    struct registry_outcome outcome;
    weft_status status = database_begin(registry, DATABASE_DURABLE, error);
    if (status != WEFT_OK)
        return status;
    status = registry_run_change(registry, run, REGISTRY_PRESENT, RUN_CAUSE_CANCEL, "", why, now, &outcome, error);
    return database_end(registry, status, error);
}

/* One that cannot be placed as the server was started, but was acknowledged when it could. */
static weft_status keep_waiting(struct controlled_run *run, const char *why, struct error *error)
{
    run->waits = CONTROLLER_WAITS_FOR_HOSTS;
    run->refusal = strdup(why);
    return run->refusal ? WEFT_OK : error_memory(error, strlen(why), "why a run waits");
}

weft_status runs_enter_again(struct controller *controller, struct controlled_run *run, struct error *error)
{
    struct registry_run found;
    struct error refusal = {0};
    weft_status status = registry_run_get(controller->config.registry, run->run, &found, error);
    if (status != WEFT_OK)
        return status;
    status = controller_runs_enter(controller, run, &found, &refusal);
    if (status == WEFT_ERROR_ARGUMENT)
        return keep_waiting(run, refusal.text, error);
    return status == WEFT_OK ? WEFT_OK : error_set(error, status, "%s", refusal.text);
}

weft_status runs_take_up(struct controller *controller, const struct registry_run *found, bool acknowledged,
                         int64_t now, struct error *error)
{
    struct controlled_run *run = calloc(1, sizeof *run);
    weft_status status = run ? ARRAY_RESERVE(controller->runs, controller->run_room, controller->run_count + 1,
                                             "the runs of the controller", error)
                             : error_memory(error, sizeof *run, "a run");
    if (status != WEFT_OK) {
        free(run);
        return status;
    }
    *run = (struct controlled_run){.run = found->run,
                                   .epoch = found->epoch,
                                   .nodes = (uint32_t)found->nodes,
                                   .slots = (uint32_t)found->slots,
                                   .priority = found->priority,
                                   .preemptible = found->preemptible,
                                   .spans = found->may_span_pods,
                                   .since = found->waiting_since,
                                   .idle_epoch = found->idle_since ? found->epoch : 0,
                                   .slice_end = INT64_MAX};
    bool waits = run_state_is_waiting(found->state);
    struct error refusal = {0};
    status = note_whose(controller, run, found, &refusal);
    run_limits_apply(controller, found, run);
    if (status == WEFT_OK && waits)
        status = pause_note(controller, run, found, now, &refusal);
    if (status == WEFT_OK && waits)
        status = run_limits_check(controller, found->class_name, run->personal, controlled_size(run), &refusal);
    if (status == WEFT_OK)
        status = run_limits_write(controller, found, run, now, &refusal);
    if (status == WEFT_OK && run_state_is_active(found->state))
        status = take_up_attempt(controller, run, found, &refusal);
    if (status == WEFT_OK)
        status = controller_runs_enter(controller, run, found, &refusal);
    if (status == WEFT_ERROR_ARGUMENT && waits && acknowledged)
        status = keep_waiting(run, refusal.text, &refusal);
    if (status == WEFT_OK) {
        controller_runs_insert(controller, run);
        if (run->node)
            progress_take_up(controller, run, &found->progress, now);
        return WEFT_OK;
    }
    free_run(controller, run);
    return status == WEFT_ERROR_ARGUMENT && waits
               ? controller_runs_refuse(controller, found->run, refusal.text, now, error)
               : error_set(error, status, "%s", refusal.text);
}

weft_status controller_submitted(struct controller *controller, int64_t number, int64_t now, struct error *error)
{
    struct registry_run found;
    controlled_clock(controller, now);
    if (runs_find(controller, number))
        return WEFT_OK;
    weft_status status = registry_run_get(controller->config.registry, number, &found, error);
    if (status != WEFT_OK || run_state_is_final(found.state))
        return status;
    return runs_take_up(controller, &found, false, now, error);
}
