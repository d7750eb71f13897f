/* SPDX-License-Identifier: Apache-2.0 */
/* What ended runs have left is discarded once, by a person or by their age, unless a run that is to come needs it. */
#include "registry_support.h"

static int64_t ended_run(struct database *database, const char *text, int64_t now)
{
    struct registry_outcome outcome;
    int64_t run = submit(database, text, now);
    CHANGE(database, registry_run_change(database, run, 0, RUN_CAUSE_CANCEL, "ada", "", now, &outcome, &error));
    return run;
}

#define PLAIN "{\"project\":\"vision\",\"owner\":\"ada\",\"command\":[\"a\"]}"

static int64_t heir_of(struct database *database, int64_t parent, const char *checkpoint)
{
    char text[256];
    snprintf(text, sizeof text,
             "{\"project\":\"vision\",\"owner\":\"ada\",\"command\":[\"a\"],\"parent\":%d,\"checkpoint\":\"%s\"}",
             (int)parent, checkpoint);
    return submit(database, text, 50);
}

static void expect_old(struct database *database, int64_t before, size_t most, const int64_t *wanted, size_t count)
{
    int64_t *runs;
    size_t found;
    assert_int_equal(registry_runs_to_discard(database, before, most, &runs, &found, NULL), WEFT_OK);
    assert_int_equal(found, count);
    for (size_t i = 0; i < count; i++)
        assert_int_equal(runs[i], wanted[i]);
    free(runs);
}

static void what_is_needed_stays(void **state)
{
    struct database *database = *state;
    struct registry_outcome outcome;
    int64_t a = ended_run(database, PLAIN, 10), b = ended_run(database, PLAIN, 20), c = ended_run(database, PLAIN, 30);
    int64_t live = submit(database, PLAIN, 40);
    int64_t first = heir_of(database, b, "step-1"), second = heir_of(database, b, "step-2");
    int64_t anew = heir_of(database, c, ""); /* a fork that begins from nothing needs nothing */
    char message[64];
    snprintf(message, sizeof message, "run %d begins from a checkpoint of run %d", (int)first, (int)b);
    expect_old(database, 1000, 10, (const int64_t[]){a, c}, 2);
    expect_old(database, 1000, 1, (const int64_t[]){a}, 1);
    expect_old(database, 30, 10, (const int64_t[]){a}, 1);
    REFUSE(database, WEFT_ERROR_STATE, message, registry_run_discard(database, b, "ada", "", 60, &error));
    REFUSE(database, WEFT_ERROR_STATE, "when it has ended",
           registry_run_discard(database, live, "ada", "", 60, &error));
    REFUSE(database, WEFT_ERROR_ARGUMENT, "no run", registry_run_discard(database, 99, "ada", "", 60, &error));
    CHANGE(database, registry_run_discard(database, c, "ada", "gone", 60, &error));
    CHANGE(database, registry_run_discard(database, c, "bob", "gone", 70, &error)); /* once */
    assert_int_equal(run_of(database, c).discarded, 60);
    expect_old(database, 1000, 10, (const int64_t[]){a}, 1);
    /* As long as one of them has not ended. */
    CHANGE(database, registry_run_change(database, first, 0, RUN_CAUSE_CANCEL, "", "", 80, &outcome, &error));
    snprintf(message, sizeof message, "run %d begins", (int)second);
    REFUSE(database, WEFT_ERROR_STATE, message, registry_run_discard(database, b, "ada", "", 90, &error));
    CHANGE(database, registry_run_change(database, second, 0, RUN_CAUSE_CANCEL, "", "", 95, &outcome, &error));
    expect_old(database, 1000, 10, (const int64_t[]){a, b, first, second}, 4);
    CHANGE(database, registry_run_discard(database, b, "ada", "gone", 100, &error));
    assert_int_equal(run_of(database, anew).discarded, 0);
}

static weft_status note_run(void *state, const struct registry_dealt *dealt, struct error *error)
{
    *(int64_t *)state = 10 * *(int64_t *)state + dealt->run;
    return WEFT_OK;
}

/* Of what was discarded no journal is left to be read again: the start of a server goes through what is kept. */
static void journals_that_are_gone_are_not_told_of(void **state)
{
    static const struct registry_node place = {.host = "n1", .slots = "0"};
    struct database *database = *state;
    struct registry_outcome outcome;
    int64_t told = 0, left;
    for (int64_t run = 1; run <= 3; run++) {
        const struct registry_node ended = {.how = RUN_EXIT_COMPLETED};
        int64_t epoch;
        assert_int_equal(submit(database, PLAIN, 10), run);
        CHANGE(database, registry_run_place(database, run, "a", &place, 1, "", 11, &epoch, &outcome, &error));
        CHANGE(database, registry_node_dealt(database, run, 1, 0, run < 3 ? 7 : 0, &error));
        CHANGE(database, registry_node_end(database, run, 1, &ended, 1, 12, &left, &outcome, &error));
    }
    assert_int_equal(registry_dealt_each(database, note_run, &told, NULL), WEFT_OK);
    assert_int_equal(told, 12);
    CHANGE(database, registry_run_discard(database, 1, "ada", "gone", 60, &error));
    told = 0;
    assert_int_equal(registry_dealt_each(database, note_run, &told, NULL), WEFT_OK);
    assert_int_equal(told, 2);
}

/* The one query of each discarding must not grow with the history: it goes by the index of those few that are dependents. */
static void heirs_are_found_by_their_index(void **state)
{
    struct database *database = *state;
    bool indexed = false;
    struct statement *plan = database_prepare(
        database, "EXPLAIN QUERY PLAN SELECT run FROM run_specifications WHERE heir_of != 0 AND heir_of = 7");
    while (statement_next(plan))
        indexed |= strstr(statement_text(plan, 3), "SEARCH run_specifications USING COVERING INDEX run_heirs") != NULL;
    assert_int_equal(statement_end(plan, NULL), WEFT_OK);
    assert_true(indexed);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        registry_test(what_is_needed_stays),
        registry_test(journals_that_are_gone_are_not_told_of),
        registry_test(heirs_are_found_by_their_index),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
