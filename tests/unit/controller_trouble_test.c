/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What cannot be heard of, or told to end, is the trouble of that run alone: the others go on. Its slots are nobody
 * else's before nothing of it runs any more.
 */
#include "controller_support.h"

/* An engine before another one, with one run in trouble. */
struct troubled {
    struct engine engine; /* first */
    struct engine *behind;
    char run[ATTEMPT_RUN_BYTES];
    weft_status poll, stop; /* of that run */
    bool half;              /* starts are done, and fail nevertheless */
    unsigned stays;         /* so often one asks for its end in vain; UINT_MAX: always */
    unsigned asked, kills;
};

#define BEHIND ((struct troubled *)engine)->behind

static bool is_troubled(struct engine *engine, const struct attempt *attempt)
{
    return strcmp(((struct troubled *)engine)->run, attempt->run) == 0;
}

static weft_status troubled_start(struct engine *engine, const struct engine_order *order, struct error *error)
{
    weft_status status = BEHIND->start(BEHIND, order, error);
    return status == WEFT_OK && ((struct troubled *)engine)->half
               ? error_set(error, WEFT_ERROR_SYSTEM, "one node was started, another was not")
               : status;
}

static weft_status troubled_stop(struct engine *engine, const struct attempt *attempt, enum engine_end how,
                                 uint64_t grace, struct error *error)
{
    const weft_status status = is_troubled(engine, attempt) ? ((struct troubled *)engine)->stop : WEFT_OK;
    return status == WEFT_OK ? BEHIND->stop(BEHIND, attempt, how, grace, error)
                             : error_set(error, status, "the disk of the orders is gone");
}

static weft_status troubled_poll(struct engine *engine, const struct attempt *attempt, uint32_t node, uint64_t after,
                                 engine_record_visit *visit, void *context, struct error *error)
{
    const weft_status status = is_troubled(engine, attempt) ? ((struct troubled *)engine)->poll : WEFT_OK;
    return status == WEFT_OK ? BEHIND->poll(BEHIND, attempt, node, after, visit, context, error)
                             : error_set(error, status, "the journal has a hole");
}

static weft_status troubled_gone(struct engine *engine, const struct attempt *attempt, uint32_t node, bool kill,
                                 bool *gone, struct error *error)
{
    struct troubled *troubled = (struct troubled *)engine;
    troubled->asked++;
    troubled->kills += kill;
    *gone = false;
    if (kill && troubled->stays > 0 && troubled->stays-- > 0)
        return WEFT_OK;
    return BEHIND->gone(BEHIND, attempt, node, kill, gone, error);
}

static weft_status troubled_hosts(struct engine *engine, engine_host_visit *visit, void *context, struct error *error)
{
    return BEHIND->hosts(BEHIND, visit, context, error);
}

static void open_trouble(struct world *world, struct troubled *troubled)
{
    prepare_world(world, 1, 4);
    *troubled = (struct troubled){.engine = {.name = "troubled",
                                             .descriptor = -1,
                                             .start = troubled_start,
                                             .stop = troubled_stop,
                                             .poll = troubled_poll,
                                             .gone = troubled_gone,
                                             .hosts = troubled_hosts},
                                  .behind = world->engine};
    world->config.engine = &troubled->engine;
    open_controller(world);
}

/* A run that is in trouble from now on. */
static void trouble(struct troubled *troubled, int64_t run, weft_status poll, weft_status stop)
{
    snprintf(troubled->run, sizeof troubled->run, "%" PRId64, run);
    troubled->poll = poll;
    troubled->stop = stop;
}

/* How many remarks of a run have these words. */
static int remarks_of(struct world *world, int64_t run, const char *words)
{
    struct registry_event *list;
    size_t count;
    int found = 0;
    assert_int_equal(registry_run_events(world->registry, run, 0, 1000, &list, &count, NULL), WEFT_OK);
    for (size_t i = 0; i < count; i++)
        found += list[i].cause == RUN_CAUSE_NOTED && strstr(list[i].detail, words);
    free(list);
    return found;
}

static void one_run_s_trouble_is_no_other_s(void **state)
{
    struct world world;
    struct troubled troubled;
    open_trouble(&world, &troubled);
    int64_t silent = give(&world, 1, 2, "", HOUR / 2), other = give(&world, 1, 2, "", 2 * MINUTE);
    pass(&world, BEGIN + MINUTE);
    trouble(&troubled, silent, WEFT_ERROR_SYSTEM, WEFT_OK);
    pass(&world, BEGIN + 5 * MINUTE);
    assert_int_equal(state_of(&world, other), RUN_SUCCEEDED);
    int64_t later = give(&world, 1, 2, "", MINUTE);
    pass(&world, BEGIN + 10 * MINUTE);
    assert_int_equal(state_of(&world, later), RUN_SUCCEEDED);
    assert_int_equal(state_of(&world, silent), RUN_RUNNING);
    assert_int_equal(remarks_of(&world, silent, "node-0 cannot be heard at the moment: the journal has a hole"), 1);
    assert_int_equal(troubled.kills, 0);
    /* It can be read again. */
    troubled.poll = WEFT_OK;
    pass(&world, BEGIN + HOUR);
    assert_int_equal(state_of(&world, silent), RUN_SUCCEEDED);
    assert_int_equal(run_of(world.registry, silent).epoch, 1);
    close_world(&world);
}

/* For ever: it is killed after an hour, and run again. */
static void what_stays_silent_is_lost(void **state)
{
    struct world world;
    struct troubled troubled;
    open_trouble(&world, &troubled);
    int64_t silent = give(&world, 1, 4, "", 10 * HOUR);
    pass(&world, BEGIN + MINUTE);
    trouble(&troubled, silent, WEFT_ERROR_SYSTEM, WEFT_OK);
    pass(&world, BEGIN + HOUR);
    assert_int_equal(troubled.kills, 0);
    troubled.stays = 3;
    pass(&world, BEGIN + HOUR + 2 * MINUTE);
    troubled.poll = WEFT_OK;
    assert_int_equal(troubled.kills, 4);
    assert_true(has_event(&world, silent, RUN_CAUSE_NODE_LOST));
    pass(&world, BEGIN + 2 * HOUR);
    assert_int_equal(state_of(&world, silent), RUN_RUNNING);
    assert_int_equal(run_of(world.registry, silent).epoch, 2);
    close_world(&world);
}

/* Nothing of it runs any more, and nobody hears how it ended: for a minute that may still come. */
static void what_has_ended_unheard_is_lost_sooner(void **state)
{
    struct world world;
    struct troubled troubled;
    open_trouble(&world, &troubled);
    int64_t silent = give(&world, 1, 4, "", 5 * MINUTE);
    pass(&world, BEGIN + MINUTE);
    trouble(&troubled, silent, WEFT_ERROR_SYSTEM, WEFT_OK);
    pass(&world, BEGIN + 6 * MINUTE);
    assert_true(has_event(&world, silent, RUN_CAUSE_NODE_LOST));
    troubled.poll = WEFT_OK;
    pass(&world, BEGIN + HOUR);
    assert_int_equal(state_of(&world, silent), RUN_SUCCEEDED);
    close_world(&world);
}

/* A damaged attempt is killed at once. Runs that wait for its slots, and a second attempt of its own, wait for that. */
static void slots_are_nobody_s_before_it_is_dead(void **state)
{
    static const weft_status statuses[] = {WEFT_ERROR_DATA, WEFT_ERROR_STATE};
    for (size_t i = 0; i < 2; i++) {
        struct world world;
        struct troubled troubled;
        open_trouble(&world, &troubled);
        world.config.platform_most = 0;
        controller_close(world.controller);
        open_controller(&world);
        int64_t damaged = give(&world, 1, 4, "", HOUR);
        pass(&world, BEGIN + MINUTE);
        int64_t waits = give(&world, 1, 4, "", HOUR);
        trouble(&troubled, damaged, statuses[i], WEFT_OK);
        troubled.stays = UINT32_MAX;
        pass(&world, BEGIN + 3 * HOUR / 4);
        assert_int_equal(state_of(&world, damaged), RUN_RUNNING);
        assert_int_equal(state_of(&world, waits), RUN_QUEUED);
        assert_int_equal(remarks_of(&world, damaged, "node-0 is killed, as it cannot be heard: the journal has"), 1);
        controller_close(world.controller); /* another one knows no more */
        open_controller(&world);
        pass(&world, BEGIN + 4 * HOUR / 5);
        assert_int_equal(state_of(&world, waits), RUN_QUEUED);
        troubled.stays = 0;
        pass(&world, world.now + MINUTE);
        struct registry_run found = run_of(world.registry, damaged);
        assert_int_equal(found.state, RUN_FAILED);
        assert_non_null(strstr(found.detail, "the journal has a hole"));
        assert_int_equal(state_of(&world, waits), RUN_RUNNING);
        close_world(&world);
    }
}

/* A start that failed in the midst: what is there is killed, and then its slots are free. */
static void what_was_started_in_part_is_killed_first(void **state)
{
    struct world world;
    struct troubled troubled;
    open_trouble(&world, &troubled);
    troubled.half = true;
    troubled.stays = UINT32_MAX;
    int64_t half = give(&world, 1, 3, "", HOUR), waits = give(&world, 1, 3, "", HOUR);
    pass(&world, BEGIN + MINUTE);
    assert_int_equal(state_of(&world, half), RUN_PLACED);
    assert_int_equal(state_of(&world, waits), RUN_QUEUED);
    troubled.stays = 0;
    pass(&world, world.now + SECOND);
    troubled.half = false;
    pass(&world, BEGIN + 5 * HOUR);
    assert_int_equal(state_of(&world, half), RUN_SUCCEEDED);
    assert_int_equal(state_of(&world, waits), RUN_SUCCEEDED);
    assert_true(has_event(&world, half, RUN_CAUSE_NOT_STARTED));
    close_world(&world);
}

static void what_cannot_be_told_to_end_is_told_again(void **state)
{
    struct world world;
    struct troubled troubled;
    struct error error = {0};
    open_trouble(&world, &troubled);
    int64_t deaf = give(&world, 1, 2, "", 10 * HOUR), other = give(&world, 1, 2, "", 2 * MINUTE);
    pass(&world, BEGIN + MINUTE);
    trouble(&troubled, deaf, WEFT_OK, WEFT_ERROR_SYSTEM);
    assert_int_equal(controller_cancel(world.controller, deaf, "ada", world.now, &error), WEFT_OK);
    pass(&world, BEGIN + 5 * MINUTE);
    assert_int_equal(state_of(&world, other), RUN_SUCCEEDED);
    assert_int_equal(state_of(&world, deaf), RUN_STOPPING);
    assert_int_equal(remarks_of(&world, deaf, "cannot be delivered, and is repeated: the disk of the orders is gone"),
                     1);
    troubled.stop = WEFT_OK;
    pass(&world, BEGIN + 6 * MINUTE);
    assert_int_equal(state_of(&world, deaf), RUN_CANCELLED);
    close_world(&world);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_run_s_trouble_is_no_other_s),
        cmocka_unit_test(what_stays_silent_is_lost),
        cmocka_unit_test(what_has_ended_unheard_is_lost_sooner),
        cmocka_unit_test(slots_are_nobody_s_before_it_is_dead),
        cmocka_unit_test(what_was_started_in_part_is_killed_first),
        cmocka_unit_test(what_cannot_be_told_to_end_is_told_again),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
