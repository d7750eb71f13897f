/* SPDX-License-Identifier: Apache-2.0 */
/* What classes of runs and personal runs may: how long, how many at once, how large, how idle. */
#include "platform/controller/internal/state.h"

#include "base/text.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define IDLE_LIMIT 3600 /* seconds */

/* ---- what a class allows ---- */

/* The class of that name, or the one that stands for all others; CONTROLLED_NONE if there is none. */
static uint32_t find_class(const struct controller_config *config, const char *name)
{
    uint32_t others = CONTROLLED_NONE;
    for (uint32_t i = 0; i < config->class_count; i++) {
        if (!strcmp(config->classes[i].name, name))
            return i;
        if (!*config->classes[i].name)
            others = i;
    }
    return others;
}

static const struct controller_class *controller_limits_class_of(const struct controller *controller,
                                                                 const struct controlled_run *run)
{
    return run->limits == CONTROLLED_NONE ? NULL : &controller->config.classes[run->limits];
}

void run_limits_apply(const struct controller *controller, const struct registry_run *found, struct controlled_run *run)
{
    run->limits = find_class(&controller->config, found->class_name);
    run->time_limit = found->time_limit * 1000;
    run->time_slice = found->time_slice * 1000;
    const struct controller_class *limits = controller_limits_class_of(controller, run);
    if (!limits)
        return;
    int64_t longest = limits->time_limit * 1000, slice = limits->time_slice * 1000;
    /* What runs was started with its limit. */
    if (longest && longest < run->time_limit && run_state_is_waiting(found->state))
        run->time_limit = longest;
    /* A run without checkpoints would lose all its work, unless its owner asked for a slice. */
    if (slice && run->preemptible && (!run->time_slice || slice < run->time_slice))
        run->time_slice = slice;
}

char *controller_limit_say(int64_t seconds, const char *class_name, char *text, size_t size)
{
    char span[32];
    snprintf(text, size, "it may run for %s, which is all that its class '%s' allows",
             text_seconds((double)seconds, span, sizeof span), class_name);
    return text;
}

weft_status run_limits_write(const struct controller *controller, const struct registry_run *found,
                             const struct controlled_run *run, int64_t now, struct error *error)
{
    struct database *registry = controller->config.registry;
    char detail[REGISTRY_DETAIL_BYTES];
    if (run->time_limit == found->time_limit * 1000)
        return WEFT_OK;
    weft_status status = database_begin(registry, DATABASE_DURABLE, error);
    if (status != WEFT_OK)
        return status;
    const int64_t seconds = run->time_limit / 1000;
    status = registry_run_limit(registry, run->run, seconds,
                                controller_limit_say(seconds, found->class_name, detail, sizeof detail), now, error);
    return database_end(registry, status, error);
}

weft_status run_limits_check(const struct controller *controller, const char *class_name, bool personal, int64_t size,
                             struct error *error)
{
    const struct controller_config *config = &controller->config;
    if (config->class_count && find_class(config, class_name) == CONTROLLED_NONE) {
        char names[256] = "";
        size_t used = 0;
        for (uint32_t i = 0; i < config->class_count && used < sizeof names; i++)
            used += (size_t)snprintf(names + used, sizeof names - used, "%s%s", i ? ", " : "", config->classes[i].name);
        return error_set(error, WEFT_ERROR_ARGUMENT, "there is no class '%s' of runs; there are: %s", class_name,
                         names);
    }
    if (personal && config->personal_slots_most && size > config->personal_slots_most)
        return error_set(error, WEFT_ERROR_ARGUMENT,
                         "a personal run may have %" PRId64 " slot%s, and this one asks for %" PRId64
                         ": submit it to a project",
                         config->personal_slots_most, config->personal_slots_most == 1 ? "" : "s", size);
    return WEFT_OK;
}

/* ---- how many at once ---- */

void run_limits_begin(struct controller *controller)
{
    for (uint32_t i = 0; i < controller->owner_count; i++) {
        struct controlled_owner *owner = &controller->owners[i];
        owner->personal_runs = 0;
        memset(owner->class_runs, 0, controller->config.class_count * sizeof *owner->class_runs);
    }
}

void run_limits_count(struct controller *controller, const struct controlled_run *run)
{
    struct controlled_owner *owner = &controller->owners[run->owner];
    owner->personal_runs += run->personal;
    if (run->limits != CONTROLLED_NONE)
        owner->class_runs[run->limits]++;
}

enum controller_wait run_limits_judge(const struct controller *controller, const struct controlled_run *run)
{
    const struct controlled_owner *owner = &controller->owners[run->owner];
    const struct controller_class *limits = controller_limits_class_of(controller, run);
    uint32_t most = controller->config.personal_runs_most;
    if (run->personal && most && owner->personal_runs >= most)
        return CONTROLLER_WAITS_FOR_PERSONAL;
    if (limits && limits->runs_most && owner->class_runs[run->limits] >= limits->runs_most)
        return CONTROLLER_WAITS_FOR_CLASS;
    return CONTROLLER_WAITS_FOR_SLOTS;
}

char *run_limits_say(const struct controller *controller, const struct controlled_run *run, char *text, size_t size)
{
    const char *owner = controller->owners[run->owner].name;
    const struct controller_class *limits = controller_limits_class_of(controller, run);
    if (run->waits == CONTROLLER_WAITS_FOR_CLASS && limits)
        snprintf(text, size, "waits for its owner's other runs: '%s' may have %u run%s of class '%s' at once", owner,
                 limits->runs_most, limits->runs_most == 1 ? "" : "s", limits->name);
    else
        snprintf(text, size, "waits for its owner's other runs: '%s' may have %u personal run%s at once", owner,
                 controller->config.personal_runs_most, controller->config.personal_runs_most == 1 ? "" : "s");
    return text;
}

/* ---- how idle ---- */

void controller_idle_limits(const struct controller *controller, int64_t number, int64_t *idle_limit, bool *idle_stops)
{
    const struct controlled_run *run = runs_find(controller, number);
    const struct controller_class *limits = run ? controller_limits_class_of(controller, run) : NULL;
    *idle_limit = limits && limits->idle_limit ? limits->idle_limit : IDLE_LIMIT;
    *idle_stops = limits && limits->idle_stops;
}

static weft_status mark_idle(struct controller *controller, int64_t number, bool idle, const char *message, int64_t now,
                             struct error *error)
{
    struct database *registry = controller->config.registry;
    struct controlled_run *run = runs_find(controller, number);
    if (!run || !run->node || (run->idle_epoch == run->epoch) == idle)
        return WEFT_OK;
    weft_status status = database_begin(registry, DATABASE_DURABLE, error);
    if (status == WEFT_OK)
        status = database_end(registry, registry_run_idle(registry, number, idle, message, now, error), error);
    if (status != WEFT_OK)
        return status;
    run->idle_epoch = idle ? run->epoch : 0;
    /* Its owner may look at what it prints and at nothing else. It is among its events, whatever becomes of that. */
    struct engine *engine = controller->config.engine;
    const struct attempt attempt = controlled_attempt(run);
    if (engine->remark)
        (void)engine->remark(engine, &attempt, message, NULL);
    return WEFT_OK;
}

weft_status controller_flag_idle(struct controller *controller, int64_t number, const char *message, int64_t now,
                                 struct error *error)
{
    return mark_idle(controller, number, true, message, now, error);
}

weft_status controller_clear_idle(struct controller *controller, int64_t number, int64_t now, struct error *error)
{
    return mark_idle(controller, number, false, "uses what it holds again", now, error);
}

weft_status controller_stop_idle(struct controller *controller, int64_t number, const char *message, int64_t now,
                                 bool *stopped, struct error *error)
{
    struct controlled_run *run = runs_find(controller, number);
    const struct controller_class *limits = run ? controller_limits_class_of(controller, run) : NULL;
    *stopped = false;
    if (!run || !run->node || run->to_stop || !limits || !limits->idle_stops)
        return WEFT_OK;
    weft_status status = attempt_ask_durably(controller, run, RUN_CAUSE_IDLE, message, now, error);
    *stopped = run->to_stop;
    controlled_change(controller);
    return status;
}
