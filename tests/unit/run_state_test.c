/* SPDX-License-Identifier: Apache-2.0 */
/* The states of a run: every pair of state and cause, every way an attempt can end, and where all paths lead. */
#include "base/file/file.h"
#include "platform/registry/run/state.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

/* What each cause does in each state, written a second time in another form: a letter of the state that follows, in the
 * order queued placed starting running stopping preempted re-queued succeeded failed cancelled. */
static const char letters[RUN_STATES + 1] = "qpsrtvuSFC";
static const char *const expected[RUN_CAUSES] = {
    [RUN_CAUSE_SUBMITTED] = "----------",      [RUN_CAUSE_PLACED] = "p-----p---",
    [RUN_CAUSE_ACCEPTED] = "-s--------",       [RUN_CAUSE_STARTED] = "--r-------",
    [RUN_CAUSE_CANCEL] = "CttttCC---",         [RUN_CAUSE_PREEMPT] = "-ttt------",
    [RUN_CAUSE_MOVE] = "-ttt------",           [RUN_CAUSE_SLICE_END] = "-ttt------",
    [RUN_CAUSE_BUDGET_END] = "-ttt------",     [RUN_CAUSE_DRAIN] = "-ttt------",
    [RUN_CAUSE_TIME_LIMIT] = "-ttt------",     [RUN_CAUSE_IDLE] = "-ttt------",
    [RUN_CAUSE_DISK] = "-ttt------",           [RUN_CAUSE_COMPLETED] = "--SSS-----",
    [RUN_CAUSE_PROGRAM_FAILED] = "--FF------", [RUN_CAUSE_RETRIED] = "--uu------",
    [RUN_CAUSE_ASKED_AGAIN] = "--uu------",    [RUN_CAUSE_NODE_LOST] = "-uuuu-----",
    [RUN_CAUSE_NOT_STARTED] = "-uu-u-----",    [RUN_CAUSE_GIVEN_UP] = "-FFFF-----",
    [RUN_CAUSE_CANCELLED] = "----C-----",      [RUN_CAUSE_VACATED] = "----v-----",
    [RUN_CAUSE_OVERDUE] = "----F-----",        [RUN_CAUSE_REQUEUED] = "-----u----",
    [RUN_CAUSE_NOTED] = "----------",
};

static void every_state_and_cause(void **state)
{
    for (int cause = 0; cause < RUN_CAUSES; cause++)
        for (int from = 0; from < RUN_STATES; from++) {
            enum run_state to = RUN_STATES;
            bool allowed = run_state_next((enum run_state)from, (enum run_cause)cause, &to);
            if ((allowed ? letters[to] : '-') != expected[cause][from])
                fail_msg("%s in %s: not as expected", run_cause_name((enum run_cause)cause),
                         run_state_name((enum run_state)from));
            assert_true(allowed || to == RUN_STATES);
        }
}

/* Nothing follows a final state; from every other one a final state can be reached, and one can always cancel. */
static void all_paths_lead_to_an_end(void **state)
{
    bool ends[RUN_STATES];
    for (int s = 0; s < RUN_STATES; s++)
        ends[s] = run_state_is_final((enum run_state)s);
    for (int round = 0; round < RUN_STATES; round++)
        for (int s = 0; s < RUN_STATES; s++)
            for (int cause = 0; cause < RUN_CAUSES; cause++) {
                enum run_state to;
                if (run_state_next((enum run_state)s, (enum run_cause)cause, &to)) {
                    assert_false(run_state_is_final((enum run_state)s));
                    ends[s] |= ends[to];
                }
            }
    for (int s = 0; s < RUN_STATES; s++) {
        enum run_state to;
        assert_true(ends[s]);
        assert_int_equal(run_state_next((enum run_state)s, RUN_CAUSE_CANCEL, &to),
                         !run_state_is_final((enum run_state)s));
        assert_true(run_state_is_final((enum run_state)s) + run_state_is_active((enum run_state)s) +
                        run_state_is_waiting((enum run_state)s) + (s == RUN_PREEMPTED) ==
                    1);
    }
}

/* Whatever an attempt was asked for and however it ended, the cause that comes out is allowed where it can happen. */
static void every_end(void **state)
{
    static const enum run_state active[] = {RUN_PLACED, RUN_STARTING, RUN_RUNNING, RUN_STOPPING};
    for (int asked = 0; asked < RUN_CAUSES; asked++) {
        if (asked != RUN_CAUSE_SUBMITTED && !run_cause_is_stop((enum run_cause)asked))
            continue;
        for (int exit = 0; exit < RUN_EXITS; exit++)
            for (int again = 0; again < 2; again++) {
                enum run_cause cause = run_cause_of_end((enum run_cause)asked, (enum run_exit)exit, again);
                for (size_t i = 0; i < 4; i++) {
                    enum run_state to;
                    bool asked_for = asked != RUN_CAUSE_SUBMITTED, never_ran = exit == RUN_EXIT_NOT_STARTED;
                    if (asked_for != (active[i] == RUN_STOPPING) || (active[i] == RUN_RUNNING && never_ran) ||
                        (active[i] == RUN_PLACED && exit < RUN_EXIT_LOST))
                        continue; /* cannot happen */
                    if (!run_state_next(active[i], cause, &to))
                        fail_msg("%s is not allowed in %s", run_cause_name(cause), run_state_name(active[i]));
                    assert_true(run_cause_is_end(cause) && !run_state_is_active(to));
                    if (asked == RUN_CAUSE_CANCEL)
                        assert_int_equal(to, RUN_CANCELLED);
                    else if (exit == RUN_EXIT_COMPLETED)
                        assert_int_equal(to, RUN_SUCCEEDED);
                    else if (asked == RUN_CAUSE_TIME_LIMIT || asked == RUN_CAUSE_IDLE || asked == RUN_CAUSE_DISK)
                        assert_int_equal(to, RUN_FAILED);
                    else if (exit >= RUN_EXIT_LOST)
                        assert_int_equal(to, again ? RUN_REQUEUED : RUN_FAILED);
                    else if (run_cause_gives_way((enum run_cause)asked))
                        assert_int_equal(to, RUN_PREEMPTED);
                    else
                        assert_int_equal(to, again ? RUN_REQUEUED : RUN_FAILED);
                    /* Charged or not: the platform is to blame exactly when it lost the attempt. */
                    if (run_cause_blame(cause) == RUN_BLAME_PLATFORM)
                        assert_true(exit >= RUN_EXIT_LOST);
                }
            }
    }
}

static void names_are_found_again(void **state)
{
    for (int s = 0; s < RUN_STATES; s++) {
        enum run_state found = RUN_STATES;
        assert_true(run_state_find(run_state_name((enum run_state)s), &found));
        assert_int_equal(found, s);
    }
    for (int c = 0; c < RUN_CAUSES; c++) {
        enum run_cause found = RUN_CAUSES;
        assert_true(run_cause_find(run_cause_name((enum run_cause)c), &found));
        assert_int_equal(found, c);
        assert_true(strlen(run_cause_text((enum run_cause)c)) > 5);
        assert_true(run_cause_gives_way((enum run_cause)c) <= run_cause_is_stop((enum run_cause)c));
        assert_false(run_cause_is_stop((enum run_cause)c) && run_cause_is_end((enum run_cause)c));
    }
    enum run_state none_state;
    enum run_cause none_cause;
    assert_false(run_state_find("requeued", &none_state) || run_state_find("", &none_state));
    assert_false(run_cause_find("died", &none_cause));
}

/* ---- lists that are made from the table, or compared with it ---- */

static const char *const kinds[] = {"waiting", "active", "between attempts", "final"};

/* The names of a kind (RUN_STATES: of all), each between `quote` and with `between` from one to the next. */
static const char *names_of(int kind, const char *quote, const char *between)
{
    static char text[512];
    size_t length = 0;
    for (int s = 0; s < RUN_STATES; s++)
        if (kind == RUN_STATES || (int)run_state_kind((enum run_state)s) == kind)
            length += (size_t)snprintf(text + length, sizeof text - length, "%s%s%s%s", length ? between : "", quote,
                                       run_state_name((enum run_state)s), quote);
    return text;
}

static const char *list(const char *before, const char *names, const char *after)
{
    static char text[600];
    snprintf(text, sizeof text, "%s%s%s", before, names, after);
    return text;
}

static void lists_are_those_of_the_table(void **state)
{
    assert_string_equal(RUN_STATES_WAITING_SQL, list("(", names_of(RUN_STATE_WAITING, "'", ", "), ")"));
    assert_string_equal(RUN_STATES_ACTIVE_SQL, list("(", names_of(RUN_STATE_ACTIVE, "'", ", "), ")"));
    assert_string_equal(RUN_STATES_FINAL_SQL, list("(", names_of(RUN_STATE_FINAL, "'", ", "), ")"));
    assert_string_equal(RUN_STATE_NAMES_JSON, names_of(RUN_STATES, "\"", ", "));
    for (int s = 0; s < RUN_STATES; s++)
        assert_string_equal(run_state_choices[s], run_state_name((enum run_state)s));
    assert_string_equal(run_state_choices[RUN_STATES], "live");
    assert_string_equal(run_state_choices[RUN_STATES + 1], "over");
    assert_null(run_state_choices[RUN_STATES + 2]);
}

static char *source_text(const char *path)
{
    char *text;
    size_t size;
    struct error error = {0};
    if (file_read(path, 1 << 20, &text, &size, &error) != WEFT_OK)
        fail_msg("%s", error.text);
    return text;
}

static void the_documentation_lists_all_states(void **state)
{
    char table[4096] = "| state | kind | meaning |\n|---|---|---|\n", *text = source_text(SOURCE "/docs/platform.md");
    for (int s = 0; s < RUN_STATES; s++)
        snprintf(table + strlen(table), sizeof table - strlen(table), "| %s | %s | %s |\n",
                 run_state_name((enum run_state)s), kinds[run_state_kind((enum run_state)s)],
                 run_state_meaning((enum run_state)s));
    strcat(table, "\n");
    if (!strstr(text, table))
        fail_msg("docs/platform.md lacks this table:\n%s", table);
    free(text);
}

static void the_pages_know_all_states(void **state)
{
    char *text = source_text(SOURCE "/web/modules/states.js"), *at = strstr(text, "const states = {");
    assert_non_null(at);
    assert_non_null(strstr(text, list("finalStates = [", names_of(RUN_STATE_FINAL, "\"", ", "), "];")));
    assert_non_null(strstr(text, list("waitingStates = [", names_of(RUN_STATE_WAITING, "\"", ", "), "];")));
    at = strchr(at, '\n');
    for (int s = 0; s < RUN_STATES; s++, at = strchr(at, '\n')) {
        const char *name = run_state_name((enum run_state)s);
        at += 1 + strspn(at + 1, " \"");
        if (strncmp(at, name, strlen(name)) != 0 || !strchr("\":", at[strlen(name)]))
            fail_msg("web/modules/states.js does not list %s in its place", name);
    }
    assert_int_equal(strncmp(at, "\n};", 3), 0);
    free(text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_state_and_cause),
        cmocka_unit_test(all_paths_lead_to_an_end),
        cmocka_unit_test(every_end),
        cmocka_unit_test(names_are_found_again),
        cmocka_unit_test(lists_are_those_of_the_table),
        cmocka_unit_test(the_documentation_lists_all_states),
        cmocka_unit_test(the_pages_know_all_states),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
