/* SPDX-License-Identifier: Apache-2.0 */
/** For tests of the controller: one between a registry and a simulated engine, in virtual time. The engine refuses
 * slots that are given out twice, so a run that could not be started shows. */
#ifndef WEFT_TESTS_CONTROLLER_SUPPORT_H
#define WEFT_TESTS_CONTROLLER_SUPPORT_H

#include "../support/engine_simulated.h"
#include "platform/controller/controller.h"
#include "platform/registry/hosts.h"
#include "platform/registry/ledger/ledger.h"
#include "registry_support.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#define SECOND INT64_C(1000)
#define MINUTE INT64_C(60000)
#define HOUR   INT64_C(3600000)
#define BEGIN  INT64_C(1700000000000)
#define RUNS   512

#ifndef WORLD_HEARTBEAT
#define WORLD_HEARTBEAT 0 /* milliseconds between two of a node; 0: none */
#endif

/* What the programs of runs do, by the number of the run. */
struct world {
    char directory[256], runs[300];
    struct database *registry;
    struct engine *engine;
    struct controller_config config; /**< to be changed before open_controller() */
    struct controller *controller;
    int64_t now, durations[RUNS];
    unsigned attempts[RUNS];
    uint32_t code[RUNS];
    uint32_t stop_code; /**< of those that are asked to end */
};

static inline void behave(void *context, const struct attempt *attempt, uint32_t node,
                          struct engine_simulated_behavior *behavior)
{
    struct world *world = context;
    int64_t run = strtoll(attempt->run, NULL, 10);
    /* A checkpoint keeps what earlier attempts have done. */
    int64_t left = world->durations[run] - run_of(world->registry, run).served;
    behavior->duration = left > 1 ? (uint64_t)left : 1;
    behavior->code = world->code[run];
    behavior->stop_takes = 2000;
    behavior->stop_code = world->stop_code;
    world->attempts[run] += node == 0;
}

static inline void open_controller(struct world *world)
{
    struct error error = {0};
    if (controller_open(&world->config, world->now, &world->controller, &error) != WEFT_OK)
        fail_msg("%s", error.text);
}

/* Everything but the controller, on these hosts. */
static inline void open_world_of(struct world *world, const struct engine_simulated_host *hosts, uint32_t count)
{
    memset(world, 0, sizeof *world);
    snprintf(world->directory, sizeof world->directory, "%s", temporary_directory());
    snprintf(world->runs, sizeof world->runs, "%s/runs", world->directory);
    world->now = BEGIN;
    world->stop_code = 75;
    world->registry = registry_with_people(world->directory);
    const struct engine_simulated_config config = {.hosts = hosts,
                                                   .host_count = count,
                                                   .begin = (uint64_t)BEGIN,
                                                   .start_takes = 10,
                                                   .heartbeat = WORLD_HEARTBEAT,
                                                   .behave = behave,
                                                   .context = world};
    assert_int_equal(engine_simulated_open(&config, &world->engine, NULL), WEFT_OK);
    for (int i = 0; i < RUNS; i++)
        world->durations[i] = HOUR / 6;
    world->config = (struct controller_config){.registry = world->registry,
                                               .engine = world->engine,
                                               .pod = "pod",
                                               .directories = {.runs = world->runs},
                                               .policy = SCHEDULER_POLICY_DEFAULT,
                                               CONTROLLER_LIMITS};
}

/* Hosts that are alike, in one Pod. */
static inline void prepare_world(struct world *world, uint32_t hosts, uint32_t slots)
{
    static const char *const names[] = {"h0", "h1", "h2", "h3", "h4", "h5", "h6", "h7"};
    struct engine_simulated_host list[8];
    assert_true(hosts <= 8);
    for (uint32_t i = 0; i < hosts; i++)
        list[i] = (struct engine_simulated_host){names[i], slots, true, NULL};
    open_world_of(world, list, hosts);
}

static inline void open_world(struct world *world, uint32_t hosts, uint32_t slots)
{
    prepare_world(world, hosts, slots);
    open_controller(world);
}

static inline void close_world(struct world *world)
{
    controller_close(world->controller);
    world->engine->close(world->engine);
    database_close(world->registry);
    assert_int_equal(file_remove_tree(world->directory, NULL), WEFT_OK);
}

/* A run of somebody's that takes `duration`; `more` keys of its specification begin with a comma. */
static inline int64_t give_to(struct world *world, const char *project, const char *owner, int64_t nodes, int64_t slots,
                              const char *more, int64_t duration)
{
    char text[512];
    struct error error = {0};
    bool limited = strstr(more, "time_limit") != NULL;
    snprintf(text, sizeof text,
             "{\"project\":\"%s\",\"owner\":\"%s\",\"command\":[\"train\"],\"nodes\":%" PRId64 ",\"slots\":%" PRId64
             "%s%s}",
             project, owner, nodes, slots, limited ? "" : ",\"time_limit\":\"30d\"", more);
    int64_t run = submit(world->registry, text, world->now);
    assert_true(run < RUNS);
    world->durations[run] = duration;
    if (controller_submitted(world->controller, run, world->now, &error) != WEFT_OK)
        fail_msg("%s", error.text);
    return run;
}

/* A run of ada's in "vision". */
static inline int64_t give(struct world *world, int64_t nodes, int64_t slots, const char *more, int64_t duration)
{
    return give_to(world, "vision", "ada", nodes, slots, more, duration);
}

/* Let time pass until `moment`, with a step whenever one is due or the engine has something to tell. */
static inline void pass(struct world *world, int64_t moment)
{
    while (world->now <= moment) {
        struct error error = {0};
        int64_t next;
        engine_simulated_advance(world->engine, (uint64_t)world->now);
        if (controller_step(world->controller, world->now, &next, &error) != WEFT_OK)
            fail_msg("%s", error.text);
        uint64_t happens = engine_simulated_next(world->engine);
        if (happens != UINT64_MAX && (int64_t)happens < next)
            next = (int64_t)happens;
        world->now = next > world->now ? next : world->now + 1;
    }
    world->now = moment;
}

/* Whether such a change is among the events of a run; none may be about a slot that was given out twice. */
static inline bool has_event(struct world *world, int64_t run, enum run_cause cause)
{
    struct registry_event *list;
    size_t count;
    bool found = false;
    assert_int_equal(registry_run_events(world->registry, run, 0, 1000, &list, &count, NULL), WEFT_OK);
    for (size_t i = 0; i < count; i++) {
        found = found || (list[i].cause == cause && list[i].verdict == REGISTRY_DONE);
        assert_null(strstr(list[i].detail, "is taken by another node"));
    }
    free(list);
    return found;
}

static inline enum run_state state_of(struct world *world, int64_t run)
{
    return run_of(world->registry, run).state;
}

/* Why a run waits, in which there must be `words`. */
static inline void assert_why(struct world *world, int64_t run, const char *words)
{
    char why[512];
    struct error error = {0};
    if (controller_why(world->controller, run, world->now, why, sizeof why, &error) != WEFT_OK)
        fail_msg("%s", error.text);
    if (!strstr(why, words))
        fail_msg("run %" PRId64 " %s", run, why);
}

/* The sums are right, and nothing is held but for attempts that are under way. */
static inline void check_ledger(struct world *world)
{
    struct error error = {0};
    struct ledger_hold *holds;
    size_t count;
    if (ledger_check(world->registry, &error) != WEFT_OK)
        fail_msg("%s", error.text);
    assert_int_equal(ledger_open_holds(world->registry, &holds, &count, &error), WEFT_OK);
    for (size_t i = 0; i < count; i++) {
        struct registry_run run = run_of(world->registry, holds[i].run);
        assert_int_equal(run.epoch, holds[i].epoch);
        assert_true(run_state_is_active(run.state));
    }
    free(holds);
}

#endif
