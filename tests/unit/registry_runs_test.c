/* SPDX-License-Identifier: Apache-2.0 */
/* Runs in the registry: their lives, fencing by epoch, keys, and lists of them. */
#include "base/random.h"
#include "platform/registry/run/list.h"
#include "registry_support.h"

#include <inttypes.h>

#define BOBS "\"project\":\"vision\",\"owner\":\"bob\",\"command\":[\"true\"]"

static const struct registry_node places[] = {{.host = "n1", .slots = "0-3"}, {.host = "n2", .slots = "0,2-4"}};

static int64_t place(struct database *database, int64_t run, size_t nodes, int64_t now)
{
    struct registry_outcome outcome;
    int64_t epoch = 0;
    CHANGE(database, registry_run_place(database, run, "a", places, nodes, "", now, &epoch, &outcome, &error));
    assert_int_equal(outcome.verdict, REGISTRY_DONE);
    assert_int_equal(outcome.to, RUN_PLACED);
    return epoch;
}

static struct registry_outcome change(struct database *database, int64_t run, int64_t epoch, enum run_cause cause,
                                      int64_t now)
{
    struct registry_outcome outcome;
    CHANGE(database, registry_run_change(database, run, epoch, cause, "bob", "", now, &outcome, &error));
    return outcome;
}

static struct registry_outcome node_start(struct database *database, int64_t run, int64_t epoch, int64_t node,
                                          int64_t now)
{
    struct registry_outcome outcome;
    CHANGE(database, registry_node_start(database, run, epoch, node, now, &outcome, &error));
    return outcome;
}

static struct registry_outcome node_end(struct database *database, int64_t run, int64_t epoch, int64_t node,
                                        enum run_exit how, int64_t now)
{
    struct registry_outcome outcome;
    struct registry_node ended = {.node = node, .how = how, .code = 3, .detail = "ended\n"};
    int64_t left;
    CHANGE(database, registry_node_end(database, run, epoch, &ended, 2, now, &left, &outcome, &error));
    return outcome;
}

/* Bring a run of one node to running; its epoch. */
static int64_t run_on(struct database *database, int64_t run, int64_t now)
{
    int64_t epoch = place(database, run, 1, now);
    change(database, run, epoch, RUN_CAUSE_ACCEPTED, now);
    assert_int_equal(node_start(database, run, epoch, 0, now).to, RUN_RUNNING);
    return epoch;
}

static bool node_drop(struct database *database, int64_t run, int64_t epoch, int64_t node, int64_t now)
{
    struct registry_node ended = {.node = node, .how = RUN_EXIT_LOST, .detail = "its host is gone"};
    bool dropped;
    CHANGE(database, registry_node_drop(database, run, epoch, &ended, now, &dropped, &error));
    return dropped;
}

static void an_attempt_goes_on_without_a_node(void **state)
{
    struct database *database = *state;
    struct registry_event *events;
    size_t count;
    int64_t run = submit(database, "{" BOBS ",\"nodes\":2,\"min_nodes\":1,\"slots\":4}", 1000);
    int64_t epoch = place(database, run, 2, 2000);
    change(database, run, epoch, RUN_CAUSE_ACCEPTED, 2000);
    node_start(database, run, epoch, 0, 3000);
    assert_false(node_drop(database, run, epoch, 1, 3100)); /* it does not run yet */
    node_start(database, run, epoch, 1, 4000);
    assert_false(node_drop(database, run, epoch - 1, 1, 4100));
    assert_true(node_drop(database, run, epoch, 1, 5000));
    assert_false(node_drop(database, run, epoch, 1, 5100)); /* told before */
    assert_false(node_drop(database, run, epoch, 0, 5200)); /* its last one */
    struct registry_run row = run_of(database, run);
    assert_int_equal(row.state, RUN_RUNNING);
    assert_string_equal(row.detail, "runs on 1 of its 2 nodes since node-1 was lost: its host is gone");
    assert_int_equal(registry_run_events(database, run, 0, 100, &events, &count, NULL), WEFT_OK);
    assert_true(events[count - 1].cause == RUN_CAUSE_NOTED && events[count - 1].time == 5000);
    free(events);
    /* How it ends is up to the others, and so is what it has used: 6 s of one node, 1 s of the other. */
    struct registry_outcome outcome = node_end(database, run, epoch, 0, RUN_EXIT_COMPLETED, 10000);
    assert_true(outcome.to == RUN_SUCCEEDED && outcome.attempt_ended);
    assert_int_equal(outcome.used, 4 * (6000 + 1000));
}

static void a_life_with_preemption(void **state)
{
    struct database *database = *state;
    struct registry_outcome outcome;
    int64_t run = submit(database, "{" BOBS ",\"nodes\":2,\"slots\":4,\"name\":\"x\",\"preemptible\":true}", 1000);
    struct registry_run row = run_of(database, run);
    assert_true(row.state == RUN_QUEUED && row.epoch == 0 && row.submitted == 1000 && row.nodes == 2 && row.slots == 4);
    assert_true(row.preemptible && !row.interactive && row.time_limit == RUN_TIME_LIMIT_DEFAULT);
    assert_string_equal(row.owner, "bob");

    REFUSE(database, WEFT_ERROR_DATA, "has 2 nodes",
           registry_run_place(database, run, "a", places, 1, "", 1001, &row.epoch, &outcome, &error));
    int64_t epoch = place(database, run, 2, 2000);
    assert_int_equal(epoch, 1);
    outcome = change(database, run, epoch, RUN_CAUSE_ACCEPTED, 2100);
    assert_int_equal(outcome.to, RUN_STARTING);
    assert_int_equal(node_start(database, run, epoch, 1, 2200).to, RUN_STARTING);
    assert_int_equal(node_start(database, run, epoch, 1, 2201).to, RUN_STARTING); /* told twice */
    assert_int_equal(node_start(database, run, epoch, 0, 2300).to, RUN_RUNNING);
    assert_int_equal(change(database, run, epoch, RUN_CAUSE_PREEMPT, 5000).to, RUN_STOPPING);
    assert_int_equal(run_of(database, run).asked, RUN_CAUSE_PREEMPT);
    outcome = node_end(database, run, epoch, 0, RUN_EXIT_AGAIN, 5300);
    assert_true(outcome.to == RUN_STOPPING && !outcome.attempt_ended);
    assert_int_equal(node_end(database, run, epoch, 0, RUN_EXIT_LOST, 5400).to,
                     RUN_STOPPING);                                     /* the first word counts */
    outcome = node_end(database, run, epoch, 1, RUN_EXIT_FAILED, 6300); /* killed: no fault of its own here */
    assert_true(outcome.to == RUN_PREEMPTED && outcome.attempt_ended && outcome.cause == RUN_CAUSE_VACATED);
    assert_int_equal(outcome.used, 4000 * 8);
    assert_int_equal(change(database, run, epoch, RUN_CAUSE_REQUEUED, 6300).to, RUN_REQUEUED);
    row = run_of(database, run);
    assert_true(row.served == 4000 && row.waiting_since == 6300 && row.asked == RUN_CAUSE_SUBMITTED);
    assert_true(row.program_failures == 0 && row.platform_failures == 0 && row.ended == 0);

    assert_int_equal(place(database, run, 2, 7000), 2);
    /* The nodes' word comes before the engine's. */
    node_start(database, run, 2, 0, 7100);
    assert_int_equal(node_start(database, run, 2, 1, 7200).to, RUN_RUNNING);
    node_end(database, run, 2, 0, RUN_EXIT_COMPLETED, 8200);
    outcome = node_end(database, run, 2, 1, RUN_EXIT_COMPLETED, 8200);
    assert_true(outcome.to == RUN_SUCCEEDED && outcome.used == 8000);
    row = run_of(database, run);
    assert_true(row.ended == 8200 && row.served == 5000 && row.first_started == 2300 && row.started == 7200);

    struct registry_attempt *attempts;
    struct registry_node *nodes;
    struct registry_event *events;
    size_t count;
    assert_int_equal(registry_attempts(database, run, &attempts, &count, NULL), WEFT_OK);
    assert_int_equal(count, 2);
    assert_true(attempts[0].placed == 2000 && attempts[0].started == 2300 && attempts[0].ended == 6300 &&
                attempts[0].over && attempts[0].cause == RUN_CAUSE_VACATED);
    assert_string_equal(attempts[1].pod, "a");
    free(attempts);
    assert_int_equal(registry_nodes(database, run, 1, &nodes, &count, NULL), WEFT_OK);
    assert_int_equal(count, 2);
    assert_true(nodes[0].how == RUN_EXIT_AGAIN && nodes[0].ended == 5300);
    assert_string_equal(nodes[1].slots, "0,2-4");
    assert_string_equal(nodes[1].detail, "ended?");
    assert_true(nodes[1].how == RUN_EXIT_FAILED && nodes[1].code == 3 && nodes[1].started == 2200 &&
                nodes[1].ended == 6300);
    free(nodes);
    static const enum run_state path[] = {RUN_QUEUED,   RUN_PLACED,    RUN_STARTING, RUN_RUNNING,
                                          RUN_STOPPING, RUN_PREEMPTED, RUN_REQUEUED, RUN_PLACED,
                                          RUN_STARTING, RUN_RUNNING,   RUN_SUCCEEDED};
    assert_int_equal(registry_run_events(database, run, 0, 100, &events, &count, NULL), WEFT_OK);
    assert_int_equal(count, sizeof path / sizeof *path);
    for (size_t i = 0; i < count; i++) {
        assert_int_equal(events[i].to, path[i]);
        assert_true(events[i].verdict == REGISTRY_DONE && events[i].first == (i == 0) && *events[i].detail);
        if (i)
            assert_int_equal(events[i].from, path[i - 1]);
    }
    assert_string_equal(events[4].actor, "bob");
    int64_t third = events[2].event;
    free(events);
    assert_int_equal(registry_run_events(database, run, third, 2, &events, &count, NULL), WEFT_OK);
    assert_true(count == 2 && events[0].to == RUN_RUNNING);
    free(events);
}

static void orphans_of_an_old_attempt_change_nothing(void **state)
{
    struct database *database = *state;
    struct registry_outcome outcome;
    int64_t run = submit(database, "{" BOBS "}", 1);
    run_on(database, run, 10);
    outcome = node_end(database, run, 1, 0, RUN_EXIT_LOST, 20);
    assert_true(outcome.to == RUN_REQUEUED && outcome.cause == RUN_CAUSE_NODE_LOST);
    assert_int_equal(run_on(database, run, 30), 2);
    struct registry_run before = run_of(database, run), after;
    /* The first attempt was alive after all: its agent reports everything again and again. */
    for (int i = 0; i < 3; i++) {
        assert_int_equal(node_start(database, run, 1, 0, 40).verdict, REGISTRY_STALE);
        assert_int_equal(node_end(database, run, 1, 0, RUN_EXIT_COMPLETED, 41).verdict, REGISTRY_STALE);
        assert_int_equal(change(database, run, 1, RUN_CAUSE_PREEMPT, 43).verdict, REGISTRY_STALE);
        assert_int_equal(change(database, run, 3, RUN_CAUSE_PREEMPT, 44).verdict, REGISTRY_STALE); /* none yet */
        /* Only an order may leave the attempt open. */
        assert_int_equal(node_start(database, run, REGISTRY_PRESENT, 0, 45).verdict, REGISTRY_STALE);
        assert_int_equal(node_end(database, run, REGISTRY_PRESENT, 0, RUN_EXIT_LOST, 46).verdict, REGISTRY_STALE);
    }
    after = run_of(database, run);
    assert_memory_equal(&before, &after, sizeof before);
    struct registry_event *events;
    size_t count, stale = 0;
    assert_int_equal(registry_run_events(database, run, 0, 100, &events, &count, NULL), WEFT_OK);
    for (size_t i = 0; i < count; i++) {
        stale += events[i].verdict == REGISTRY_STALE;
        assert_true(events[i].verdict == REGISTRY_DONE || events[i].from == events[i].to);
    }
    assert_int_equal(stale, 6); /* started, completed, two orders, and two of no attempt */
    free(events);
    /* The present one is reported twice, and after its end: no effect. */
    assert_int_equal(node_end(database, run, 2, 0, RUN_EXIT_COMPLETED, 50).to, RUN_SUCCEEDED);
    outcome = node_end(database, run, 2, 0, RUN_EXIT_FAILED, 51);
    assert_true(outcome.verdict == REGISTRY_DONE && outcome.to == RUN_SUCCEEDED && !outcome.attempt_ended);
    outcome = node_end(database, run, 2, 0, RUN_EXIT_LOST, 52);
    assert_true(outcome.verdict == REGISTRY_DONE && outcome.to == RUN_SUCCEEDED && !outcome.attempt_ended);
}

static void failures_are_told_apart_and_limited(void **state)
{
    struct database *database = *state;
    struct registry_outcome outcome;
    int64_t run = submit(database, "{" BOBS ",\"retries\":1}", 1);
    /* The program's own: once more, then no more. */
    assert_int_equal(node_end(database, run, run_on(database, run, 10), 0, RUN_EXIT_FAILED, 11).to, RUN_REQUEUED);
    /* What asks to be run again is. */
    assert_int_equal(node_end(database, run, run_on(database, run, 20), 0, RUN_EXIT_AGAIN, 21).to, RUN_REQUEUED);
    /* The platform's: twice, here. */
    assert_int_equal(node_end(database, run, run_on(database, run, 30), 0, RUN_EXIT_LOST, 31).to, RUN_REQUEUED);
    int64_t epoch = place(database, run, 1, 40);
    outcome = node_end(database, run, epoch, 0, RUN_EXIT_NOT_STARTED, 41);
    assert_true(outcome.to == RUN_REQUEUED && outcome.used == 0);
    assert_int_equal(node_end(database, run, run_on(database, run, 50), 0, RUN_EXIT_FAILED, 51).to, RUN_FAILED);
    struct registry_run row = run_of(database, run);
    assert_true(row.program_failures == 2 && row.platform_failures == 2 && row.ended == 51 && row.epoch == 5);

    run = submit(database, "{" BOBS ",\"retries\":9}", 1);
    for (int i = 0; i < 3; i++)
        outcome = node_end(database, run, run_on(database, run, 60), 0, RUN_EXIT_LOST, 61);
    assert_true(outcome.to == RUN_FAILED && outcome.cause == RUN_CAUSE_GIVEN_UP);
    /* A program that is over before anybody said that it was taken. */
    run = submit(database, "{" BOBS "}", 1);
    epoch = place(database, run, 1, 70);
    assert_int_equal(node_end(database, run, epoch, 0, RUN_EXIT_COMPLETED, 71).to, RUN_SUCCEEDED);
    /* One that says it never started after it said that it had. */
    run = submit(database, "{" BOBS "}", 1);
    assert_int_equal(node_end(database, run, run_on(database, run, 80), 0, RUN_EXIT_NOT_STARTED, 81).to, RUN_REQUEUED);
}

/* Reports come when somebody is there to hear them, and node by node. */
static void what_is_told_late(void **state)
{
    struct database *database = *state;
    struct registry_outcome outcome;
    struct registry_event *events;
    size_t count;
    int64_t run = submit(database, "{" BOBS ",\"nodes\":2,\"slots\":4}", 1);
    int64_t epoch = place(database, run, 2, 100), left;
    change(database, run, epoch, RUN_CAUSE_ACCEPTED, 5000);
    node_start(database, run, epoch, 0, 130);
    struct registry_node ended = {.node = 0, .how = RUN_EXIT_FAILED, .detail = "the first"};
    CHANGE(database, registry_node_end(database, run, epoch, &ended, 2, 1160, &left, &outcome, &error));
    assert_int_equal(node_start(database, run, epoch, 1, 20).to, RUN_RUNNING); /* its clock is wrong */
    ended = (struct registry_node){.node = 1, .how = RUN_EXIT_FAILED, .detail = "the second"};
    CHANGE(database, registry_node_end(database, run, epoch, &ended, 2, 1150, &left, &outcome, &error));
    struct registry_run found = run_of(database, run);
    assert_int_equal(found.started, 130);
    assert_int_equal(found.ended, 1160);
    assert_int_equal(found.served, 1030);
    assert_int_equal(outcome.used, 1030 * 8);
    assert_string_equal(found.detail, "the second"); /* which ended first */
    assert_int_equal(registry_run_events(database, run, 0, 10, &events, &count, NULL), WEFT_OK);
    for (size_t i = 1; i < count; i++)
        assert_true(events[i].time >= events[i - 1].time);
    free(events);
}

static void stopping(void **state)
{
    struct database *database = *state;
    struct registry_outcome outcome;
    int64_t run = submit(database, "{" BOBS "}", 1);
    assert_int_equal(change(database, run, REGISTRY_PRESENT, RUN_CAUSE_CANCEL, 2).to, RUN_CANCELLED);
    outcome = change(database, run, REGISTRY_PRESENT, RUN_CAUSE_CANCEL, 3);
    assert_true(outcome.verdict == REGISTRY_REFUSED && outcome.to == RUN_CANCELLED);
    assert_int_equal(run_of(database, run).ended, 2);
    /* A person's word comes last, also while the run is giving way. */
    run = submit(database, "{" BOBS "}", 1);
    int64_t epoch = run_on(database, run, 10);
    change(database, run, epoch, RUN_CAUSE_MOVE, 11);
    assert_int_equal(change(database, run, epoch, RUN_CAUSE_TIME_LIMIT, 12).verdict, REGISTRY_REFUSED);
    assert_int_equal(change(database, run, REGISTRY_PRESENT, RUN_CAUSE_CANCEL, 13).to, RUN_STOPPING);
    assert_int_equal(node_end(database, run, epoch, 0, RUN_EXIT_AGAIN, 14).to, RUN_CANCELLED);
    /* At the time limit. */
    run = submit(database, "{" BOBS "}", 1);
    epoch = run_on(database, run, 20);
    change(database, run, epoch, RUN_CAUSE_TIME_LIMIT, 21);
    outcome = node_end(database, run, epoch, 0, RUN_EXIT_AGAIN, 22);
    assert_true(outcome.to == RUN_FAILED && outcome.cause == RUN_CAUSE_OVERDUE);
    /* A remark changes nothing else. */
    struct registry_run before = run_of(database, run), after;
    CHANGE(database, registry_run_note(database, run, "", "is idle", 23, &error));
    after = run_of(database, run);
    assert_memory_equal(&before, &after, sizeof before);
    struct registry_event *events;
    size_t count;
    assert_int_equal(registry_run_events(database, run, 0, 100, &events, &count, NULL), WEFT_OK);
    assert_true(events[count - 1].cause == RUN_CAUSE_NOTED && events[count - 1].from == RUN_FAILED);
    assert_string_equal(events[count - 1].detail, "is idle");
    free(events);
    REFUSE(database, WEFT_ERROR_ARGUMENT, "no run 99", registry_run_note(database, 99, "", "", 1, &error));
    /* Updates that change nothing. */
    REFUSE(database, WEFT_ERROR_ARGUMENT, "no change by itself",
           registry_run_change(database, run, 1, RUN_CAUSE_COMPLETED, "", "", 1, &outcome, &error));
    REFUSE(database, WEFT_ERROR_ARGUMENT, "no run 99",
           registry_run_change(database, 99, 1, RUN_CAUSE_CANCEL, "", "", 1, &outcome, &error));
    epoch = 7;
    CHANGE(database, registry_run_place(database, run, "a", places, 1, "", 30, &epoch, &outcome, &error));
    assert_true(outcome.verdict == REGISTRY_REFUSED && epoch == 7);
}

static struct registry_key key_of(const char *text, const char *asked)
{
    struct registry_key key;
    assert_int_equal(registry_key_make(text, asked, strlen(asked), &key, NULL), WEFT_OK);
    return key;
}

static void a_key_makes_one_run(void **state)
{
    struct database *database = *state;
    struct run_specification first = specification_of("{" BOBS "}"), other = specification_of("{" BOBS ",\"nodes\":2}");
    struct run_specification adas =
        specification_of("{\"project\":\"vision\",\"owner\":\"ada\",\"command\":[\"true\"]}");
    const struct registry_key key = key_of("k1", "the first"), elsewhere = key_of("k1", "another");
    int64_t run = 0, same = 0, third = 0;
    bool again = true;
    CHANGE(database, registry_run_submit(database, &first, &key, 1, &run, &again, &error));
    assert_false(again);
    CHANGE(database, registry_run_submit(database, &first, &key, 2, &same, &again, &error));
    assert_true(again && same == run && run_of(database, run).submitted == 1);
    /* What is asked for counts, whatever that has come to mean. */
    CHANGE(database, registry_run_submit(database, &other, &key, 2, &same, &again, &error));
    assert_true(again && same == run);
    REFUSE(database, WEFT_ERROR_STATE, "take a new key",
           registry_run_submit(database, &first, &elsewhere, 3, &third, &again, &error));
    assert_int_equal(registry_key_find(database, "bob", &key, &same, NULL), WEFT_OK);
    assert_int_equal(same, run);
    assert_int_equal(registry_key_find(database, "bob", &elsewhere, &same, NULL), WEFT_ERROR_STATE);
    assert_int_equal(registry_key_find(database, "ada", &elsewhere, &same, NULL), WEFT_OK);
    assert_int_equal(same, 0);
    CHANGE(database, registry_run_submit(database, &adas, &key, 3, &third, &again, &error)); /* her own key */
    assert_true(!again && third != run);
    CHANGE(database, registry_run_submit(database, &first, NULL, 4, &third, &again, &error));
    assert_true(!again && third != run);
    /* The run that was made then is returned even if it could not be made now. */
    CHANGE(database, registry_project_close(database, "vision", 5, &error));
    CHANGE(database, registry_run_submit(database, &first, &key, 5, &same, &again, &error));
    assert_true(again && same == run);
    CHANGE(database, registry_project_close(database, "vision", 0, &error));
    CHANGE(database, registry_keys_forget(database, 2, &error));
    CHANGE(database, registry_run_submit(database, &other, &elsewhere, 5, &third, &again, &error));
    assert_false(again);
    char long_key[REGISTRY_KEY_BYTES + 1];
    memset(long_key, 'k', sizeof long_key);
    long_key[REGISTRY_KEY_BYTES] = '\0';
    const char *const bad[] = {"", "a\nb", long_key};
    for (size_t i = 0; i < 3; i++) {
        struct registry_key none;
        assert_int_equal(registry_key_make(bad[i], "", 0, &none, NULL), WEFT_ERROR_DATA);
    }

    struct run_specification read;
    assert_int_equal(registry_run_specification(database, run, &read, NULL), WEFT_OK);
    assert_string_equal(read.arguments[0], "true");
    run_specification_free(&read);
    assert_int_equal(registry_run_specification(database, 999, &read, NULL), WEFT_ERROR_ARGUMENT);
    run_specification_free(&first);
    run_specification_free(&other);
    run_specification_free(&adas);
}

static void who_may_submit(void **state)
{
    struct database *database = *state;
    static const char *const bad[][2] = {
        {"{\"project\":\"vision\",\"owner\":\"eve\",\"command\":[\"true\"]}", "this needs a member"},
        {"{\"project\":\"vision\",\"owner\":\"carl\",\"command\":[\"true\"]}", "is no member of"},
        {"{\"project\":\"vision\",\"command\":[\"true\"]}", "is no member of"},
        {"{\"project\":\"sound\",\"owner\":\"bob\",\"command\":[\"true\"]}", "no project 'sound'"},
        {"{\"project\":\"speech\",\"owner\":\"carl\",\"command\":[\"true\"]}", "closed"},
    };
    CHANGE(database, registry_project_close(database, "speech", 7, &error));
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        struct run_specification specification = specification_of(bad[i][0]);
        int64_t run;
        bool again;
        struct error error = {0};
        assert_int_equal(database_begin(database, DATABASE_LAZY, NULL), WEFT_OK);
        weft_status status = registry_run_submit(database, &specification, NULL, 1, &run, &again, &error);
        assert_int_not_equal(database_end(database, status, NULL), WEFT_OK);
        if (!strstr(error.text, bad[i][1]))
            fail_msg("an odd message: %s", error.text);
        run_specification_free(&specification);
    }
}

/* Random reports and orders of random attempts: the registry says at every step what the table says, and nothing else
 * changes a run. */
static void random_reports(void **state)
{
    struct database *database = *state;
    int64_t runs[8];
    int unheard = 0;
    for (size_t i = 0; i < 8; i++)
        runs[i] = submit(database, "{" BOBS ",\"nodes\":2,\"retries\":3}", 1);
    for (uint64_t step = 0; step < 3000; step++) {
        int64_t run = runs[random_below(5, 4 * step, 8)], now = (int64_t)(10 + step), left, epoch;
        struct registry_run before = run_of(database, run);
        int64_t of = before.epoch - (before.epoch && random_below(5, 4 * step + 1, 4) == 0);
        uint64_t kind = random_below(5, 4 * step + 2, 12), draw = random_below(5, 4 * step + 3, 1000);
        struct registry_outcome outcome;
        struct registry_node ended = {.node = draw % 2, .how = (enum run_exit)(draw % RUN_EXITS)};
        enum run_cause cause = (enum run_cause)(draw % RUN_CAUSES);
        bool order = false;
        if (run_state_is_final(before.state)) {
            runs[random_below(5, 4 * step, 8)] = submit(database, "{" BOBS ",\"nodes\":2,\"retries\":3}", now);
            continue;
        } else if (kind < 3) {
            CHANGE(database, registry_run_place(database, run, "a", places, 2, "", now, &epoch, &outcome, &error));
            assert_int_equal(outcome.verdict == REGISTRY_DONE, run_state_is_waiting(before.state));
            of = before.epoch;
        } else if (kind < 7) {
            CHANGE(database, registry_node_start(database, run, of, ended.node, now, &outcome, &error));
            /* Heard when it was to stop already: it is stopping, as it was, but has run since. */
            if (before.state == RUN_STOPPING && !before.started && run_of(database, run).started == now) {
                before.started = now;
                before.first_started = before.first_started ? before.first_started : now;
                unheard++;
            }
        } else if (kind < 10) {
            CHANGE(database, registry_node_end(database, run, of, &ended, 2, now, &left, &outcome, &error));
        } else if (cause == RUN_CAUSE_SUBMITTED || cause == RUN_CAUSE_PLACED || cause == RUN_CAUSE_NOTED ||
                   run_cause_is_end(cause)) {
            continue;
        } else {
            CHANGE(database, registry_run_change(database, run, of, cause, "", "", now, &outcome, &error));
            order = true;
        }
        struct registry_run after = run_of(database, run);
        assert_int_equal(outcome.verdict == REGISTRY_STALE, of != before.epoch);
        assert_int_equal(outcome.to, after.state);
        if (outcome.verdict != REGISTRY_DONE || outcome.from == outcome.to) {
            if (!order || outcome.verdict != REGISTRY_DONE)
                assert_memory_equal(&before, &after, sizeof before);
        } else {
            enum run_state to;
            assert_true(run_state_next(outcome.from, outcome.cause, &to) && to == after.state);
            assert_int_equal(outcome.attempt_ended, run_state_is_active(outcome.from) && !run_state_is_active(to));
            assert_true(after.epoch == before.epoch + (outcome.cause == RUN_CAUSE_PLACED));
        }
    }
    assert_true(unheard > 10);
    /* Each run's events lead from one state to the next, from the first to the present one. */
    for (size_t i = 0; i < 8; i++) {
        struct registry_event *events;
        size_t count;
        assert_int_equal(registry_run_events(database, runs[i], 0, 10000, &events, &count, NULL), WEFT_OK);
        enum run_state at = RUN_QUEUED;
        for (size_t e = 1; e < count; e++) {
            if (events[e].verdict != REGISTRY_DONE)
                continue;
            enum run_state to;
            assert_int_equal(events[e].from, at);
            assert_true(run_state_next(at, events[e].cause, &to) && to == events[e].to);
            at = to;
        }
        assert_int_equal(at, run_of(database, runs[i]).state);
        free(events);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        registry_test(a_life_with_preemption),
        registry_test(an_attempt_goes_on_without_a_node),
        registry_test(orphans_of_an_old_attempt_change_nothing),
        registry_test(failures_are_told_apart_and_limited),
        registry_test(what_is_told_late),
        registry_test(stopping),
        registry_test(a_key_makes_one_run),
        registry_test(who_may_submit),
        registry_test(random_reports),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
