/* SPDX-License-Identifier: Apache-2.0 */
/* The simulated engine: virtual time, ends as the test sets them, failures of hosts, and the rules of every engine. */
#include "../support/engine_simulated.h"

#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static char text[4096];

static bool write_record(void *context, const struct journal_record *record)
{
    size_t used = strlen(text);
    used += (size_t)snprintf(text + used, sizeof text - used, "%llu %s", (unsigned long long)record->time / 1000,
                             journal_kind_name(record->kind));
    if (record->kind == JOURNAL_EXITED)
        snprintf(text + used, sizeof text - used, " %u/%u %s%s", record->exited.code, record->exited.signal,
                 journal_cause_name(record->exited.cause), record->exited.killed ? " killed" : "");
    strcat(text, "; ");
    return true;
}

static const char *story(struct engine *engine, const char *run, uint64_t epoch, uint32_t node)
{
    struct attempt attempt = {.epoch = epoch};
    snprintf(attempt.run, sizeof attempt.run, "%s", run);
    text[0] = '\0';
    assert_int_equal(engine->poll(engine, &attempt, node, 0, write_record, NULL, NULL), WEFT_OK);
    return text;
}

/* Runs whose name begins with "slow" take five seconds to stop, "bad" ones fail. */
static void behave(void *context, const struct attempt *attempt, uint32_t node,
                   struct engine_simulated_behavior *behavior)
{
    if (strncmp(attempt->run, "slow", 4) == 0)
        behavior->stop_takes = 5000;
    if (strncmp(attempt->run, "bad", 3) == 0)
        behavior->code = 3;
}

static struct engine *open_engine(void)
{
    static const struct engine_simulated_host hosts[] = {{"a", 8, true, NULL}, {"b", 8, true, NULL}};
    const struct engine_simulated_config config = {
        .hosts = hosts, .host_count = 2, .start_takes = 10, .behave = behave};
    struct engine *engine;
    assert_int_equal(engine_simulated_open(&config, &engine, NULL), WEFT_OK);
    return engine;
}

static weft_status start(struct engine *engine, const char *run, uint64_t epoch, uint32_t slot, uint32_t nodes,
                         uint64_t duration)
{
    const struct engine_place places[] = {{"a", &slot, 1}, {"b", &slot, 1}};
    struct engine_order order = {
        .attempt = {.epoch = epoch}, .places = places, .nodes = nodes, .duration = duration, .grace = 2000};
    snprintf(order.attempt.run, sizeof order.attempt.run, "%s", run);
    return engine->start(engine, &order, NULL);
}

static weft_status stop(struct engine *engine, const char *run, enum engine_end how, uint64_t grace)
{
    struct attempt attempt = {.epoch = 1};
    snprintf(attempt.run, sizeof attempt.run, "%s", run);
    return engine->stop(engine, &attempt, how, grace, NULL);
}

static void time_passes_when_it_is_told_to(void **state)
{
    struct engine *engine = open_engine();
    assert_int_equal(start(engine, "one", 1, 0, 2, 1000), WEFT_OK);
    assert_int_equal(start(engine, "bad", 1, 1, 1, 500), WEFT_OK);
    assert_string_equal(story(engine, "one", 1, 0), "");
    assert_int_equal(engine_simulated_next(engine), 10);
    engine_simulated_advance(engine, 600);
    assert_string_equal(story(engine, "one", 1, 1), "10 started; ");
    assert_string_equal(story(engine, "bad", 1, 0), "10 started; 510 exited 3/0 by itself; ");
    engine_simulated_advance(engine, 5000);
    assert_string_equal(story(engine, "one", 1, 1), "10 started; 1010 exited 0/0 by itself; ");
    assert_int_equal(engine_simulated_now(engine), 5000);
    assert_true(engine_simulated_next(engine) == UINT64_MAX);
    engine->close(engine);
}

static void stops_take_what_they_take(void **state)
{
    struct engine *engine = open_engine();
    assert_int_equal(start(engine, "quick", 1, 0, 1, 100000), WEFT_OK);
    assert_int_equal(start(engine, "slow", 1, 1, 1, 100000), WEFT_OK);
    assert_int_equal(start(engine, "slow-2", 1, 2, 1, 100000), WEFT_OK);
    assert_int_equal(start(engine, "slow-3", 1, 3, 1, 3000), WEFT_OK);
    engine_simulated_advance(engine, 1000);
    assert_int_equal(stop(engine, "quick", ENGINE_CHECKPOINT, 0), WEFT_OK);
    assert_int_equal(stop(engine, "slow", ENGINE_STOP, 0), WEFT_OK);
    assert_int_equal(stop(engine, "slow-2", ENGINE_STOP, 60000), WEFT_OK);
    assert_int_equal(stop(engine, "slow-3", ENGINE_STOP, 60000), WEFT_OK);
    engine_simulated_advance(engine, 2000);
    assert_int_equal(stop(engine, "slow-2", ENGINE_KILL, 0), WEFT_OK);
    engine_simulated_advance(engine, 20000);
    assert_string_equal(story(engine, "quick", 1, 0), "10 started; 1000 exited 75/0 checkpointed; ");
    assert_string_equal(story(engine, "slow", 1, 0), "10 started; 3000 exited 0/9 stopped killed; ");
    assert_string_equal(story(engine, "slow-2", 1, 0), "10 started; 2000 exited 0/9 stopped killed; ");
    assert_string_equal(story(engine, "slow-3", 1, 0), "10 started; 3010 exited 0/0 by itself; ");
    engine->close(engine);
}

static void hosts_fail_and_return(void **state)
{
    struct engine *engine = open_engine();
    assert_int_equal(start(engine, "both", 1, 0, 2, 1000), WEFT_OK);
    engine_simulated_advance(engine, 100);
    assert_true(engine_simulated_fail(engine, "b", "its power supply"));
    assert_false(engine_simulated_fail(engine, "c", "none"));
    engine_simulated_advance(engine, 2000);
    assert_string_equal(story(engine, "both", 1, 0), "10 started; 1010 exited 0/0 by itself; ");
    assert_string_equal(story(engine, "both", 1, 1), "10 started; 100 lost; ");
    assert_int_equal(start(engine, "again", 1, 0, 2, 1000), WEFT_ERROR_SYSTEM);
    assert_true(engine_simulated_fail(engine, "b", NULL));
    assert_int_equal(start(engine, "again", 1, 0, 2, 1000), WEFT_OK);
    engine->close(engine);
}

static void the_rules_of_engines_hold(void **state)
{
    struct engine *engine = open_engine();
    struct attempt attempt = {"run", 1};
    assert_int_equal(start(engine, "run", 1, 0, 2, 1000), WEFT_OK);
    assert_int_equal(start(engine, "run", 1, 0, 2, 1000), WEFT_OK);               /* again: nothing */
    assert_int_equal(start(engine, "other", 1, 0, 1, 1000), WEFT_ERROR_ARGUMENT); /* its slot is taken */
    assert_int_equal(start(engine, "other", 1, 8, 1, 1000), WEFT_ERROR_ARGUMENT);
    assert_int_equal(start(engine, "other", 1, 1, 1, 1000), WEFT_OK);
    engine_simulated_advance(engine, 100);
    assert_int_equal(engine->forget(engine, &attempt, NULL), WEFT_ERROR_STATE);
    assert_int_equal(start(engine, "run", 2, 0, 1, 1000), WEFT_OK); /* the older one gives its slots */
    assert_string_equal(story(engine, "run", 1, 1), "10 started; 100 exited 0/9 fenced; ");
    assert_int_equal(start(engine, "run", 1, 3, 2, 1000), WEFT_OK); /* known, so nothing */
    assert_int_equal(engine->forget(engine, &attempt, NULL), WEFT_OK);
    assert_int_equal(engine->forget(engine, &attempt, NULL), WEFT_OK); /* nothing is kept of it */
    assert_int_equal(start(engine, "run", 1, 3, 2, 1000), WEFT_ERROR_STATE);
    assert_int_equal(engine->poll(engine, &attempt, 0, 0, write_record, NULL, NULL), WEFT_ERROR_STATE);
    engine->close(engine);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(time_passes_when_it_is_told_to),
        cmocka_unit_test(stops_take_what_they_take),
        cmocka_unit_test(hosts_fail_and_return),
        cmocka_unit_test(the_rules_of_engines_hold),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
