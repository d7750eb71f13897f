/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A process that submits, places, holds, ends and settles runs is killed by SIGKILL at random moments: every submit and
 * every settlement that it called done is there, once; all sums are right; and what belongs together is together.
 * Environment: WEFT_TEST_KILLS, how many moments (30; the long form takes 200).
 */
#include "base/random.h"
#include "platform/registry/ledger/ledger.h"
#include "platform/registry/run/list.h"
#include "registry_support.h"

#include <inttypes.h>
#include <signal.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define GROUP 6 /* submits of a group */

static const char text[] = "{\"project\":\"vision\",\"owner\":\"bob\",\"command\":[\"true\"],\"slots\":4}";
static const char *directory;

struct told {
    int64_t run;
    bool settled; /* else submitted */
};

static void need(weft_status status, const struct error *error)
{
    if (status != WEFT_OK) {
        fprintf(stderr, "%s\n", error->text);
        _exit(1);
    }
}

/* A few submits with one sync; each is acknowledged when that has gone well. */
static void submit_some(struct database *database, const struct run_specification *specification, uint64_t draw,
                        int tell)
{
    struct told told[GROUP];
    struct error error = {0};
    uint64_t count = 1 + random_below(draw, 0, GROUP);
    database_group_begin(database, DATABASE_DURABLE);
    for (uint64_t i = 0; i < count; i++) {
        char key[64];
        bool again;
        snprintf(key, sizeof key, "%ld-%" PRIu64 "-%" PRIu64, (long)getpid(), draw, i);
        struct registry_key kept;
        need(registry_key_make(key, key, strlen(key), &kept, &error), &error);
        need(database_begin(database, DATABASE_DURABLE, &error), &error);
        weft_status status = registry_run_submit(database, specification, &kept, 1, &told[i].run, &again, &error);
        need(database_end(database, status, &error), &error);
        told[i].settled = false;
    }
    need(database_group_end(database, &error), &error);
    for (uint64_t i = 0; i < count; i++)
        if (write(tell, &told[i], sizeof *told) != sizeof *told)
            _exit(1);
}

/* Place a run and hold its budget; start it; end it and settle: three transactions. */
static void live(struct database *database, const struct registry_run *run, uint64_t draw, int tell)
{
    static const struct registry_node place = {.host = "n1", .slots = "0-3"};
    struct registry_outcome outcome;
    struct told told = {run->run, true};
    struct error error = {0};
    int64_t epoch, amount, left, now = (int64_t)draw;
    need(database_begin(database, DATABASE_DURABLE, &error), &error);
    weft_status status = registry_run_place(database, run->run, "a", &place, 1, "", now, &epoch, &outcome, &error);
    if (status == WEFT_OK)
        status = ledger_hold(database, run->run, epoch, 1000, 1, false, now, &amount, &error);
    need(database_end(database, status, &error), &error);
    need(database_begin(database, DATABASE_LAZY, &error), &error);
    status = registry_node_start(database, run->run, epoch, 0, now, &outcome, &error);
    need(database_end(database, status, &error), &error);
    const struct registry_node ended = {.how = random_below(draw, 1, 4) == 0 ? RUN_EXIT_LOST : RUN_EXIT_COMPLETED};
    need(database_begin(database, DATABASE_DURABLE, &error), &error);
    status = registry_node_end(database, run->run, epoch, &ended, 1000, now + 100, &left, &outcome, &error);
    if (status == WEFT_OK)
        status = ledger_settle(database, run->run, epoch, ended.how == RUN_EXIT_LOST ? 0 : outcome.used, "", now + 100,
                               &amount, &error);
    need(database_end(database, status, &error), &error);
    if (ended.how == RUN_EXIT_COMPLETED && write(tell, &told, sizeof told) != sizeof told)
        _exit(1);
}

static void work(uint64_t seed, int tell)
{
    struct database *database;
    struct error error = {0};
    struct run_specification specification = specification_of(text);
    need(registry_open(directory, DATABASE_WRITER, &database, &error), &error);
    for (uint64_t round = 0;; round++) {
        submit_some(database, &specification, seed + 2 * round, tell);
        struct registry_run *waiting;
        size_t count;
        bool more;
        const struct registry_filter filter = {
            .states = REGISTRY_STATE(RUN_QUEUED) | REGISTRY_STATE(RUN_REQUEUED), .oldest_first = true, .most = 4};
        need(registry_run_list(database, &filter, &waiting, &count, &more, &error), &error);
        for (size_t i = 0; i < count; i++)
            live(database, &waiting[i], seed + 100 * round + i, tell);
        free(waiting);
    }
}

/* All runs, by what they must have: those under way a hold that is open, the others none; each state its last event. */
static void check_runs(struct database *database)
{
    static const char *const wrong[] = {
        "SELECT run FROM runs WHERE (state IN ('placed', 'starting', 'running', 'stopping')) != "
        "EXISTS (SELECT 1 FROM holds h WHERE h.run = runs.run AND h.epoch = runs.epoch AND settled = 0)",
        "SELECT run FROM holds WHERE settled = 0 GROUP BY run HAVING count(*) > 1",
        "SELECT run FROM attempts a JOIN runs r USING (run) WHERE (a.ended = 0) != (r.epoch = a.epoch AND state IN "
        "('placed', 'starting', 'running', 'stopping'))",
        "SELECT run FROM runs WHERE epoch != (SELECT count(*) FROM attempts a WHERE a.run = runs.run)",
        "SELECT run FROM runs WHERE state != (SELECT to_state FROM run_events e WHERE e.run = runs.run ORDER BY event "
        "DESC LIMIT 1)",
        "SELECT run FROM runs WHERE run NOT IN (SELECT run FROM run_specifications)",
        "SELECT run FROM runs WHERE run NOT IN (SELECT run FROM submissions)",
    };
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        struct statement *select = database_prepare(database, wrong[i]);
        if (statement_next(select))
            fail_msg("run %" PRId64 " is found by: %s", statement_integer(select, 0), wrong[i]);
        assert_int_equal(statement_end(select, NULL), WEFT_OK);
    }
}

/* What a control plane does when it comes back: attempts whose processes are unknown are lost. */
static void tidy_up(struct database *database)
{
    struct registry_run *live_runs;
    size_t count;
    bool more;
    const struct registry_filter filter = {.states = REGISTRY_LIVE, .oldest_first = true, .most = 1000};
    assert_int_equal(registry_run_list(database, &filter, &live_runs, &count, &more, NULL), WEFT_OK);
    for (size_t i = 0; i < count; i++) {
        struct registry_outcome outcome;
        const struct registry_node ended = {.how = RUN_EXIT_LOST};
        int64_t charged, left;
        const struct registry_run *run = &live_runs[i];
        if (!run_state_is_active(run->state))
            continue;
        CHANGE(database, registry_node_end(database, run->run, run->epoch, &ended, 1000, 1, &left, &outcome, &error));
        CHANGE(database, ledger_settle(database, run->run, run->epoch, 0, "", 1, &charged, &error));
    }
    free(live_runs);
}

static void killed_at_random_moments(void **state)
{
    const char *wanted = getenv("WEFT_TEST_KILLS");
    int64_t kills = wanted ? strtoll(wanted, NULL, 10) : 30, submitted = 0, settled = 0;
    struct database *database = registry_with_people(directory);
    CHANGE(database, ledger_budget_put(database, "vision", 0, 0, true, 1, &error));
    CHANGE(database, ledger_grant(database, "vision", LEDGER_MOST, "root", "", 1, &error));
    database_close(database);
    /* On a slow machine all kills may come before a run has ended: then some more come later. */
    for (int64_t round = 0; round < kills || ((!submitted || !settled) && round < 10 * kills); round++) {
        int ends[2], status;
        assert_int_equal(pipe(ends), 0);
        pid_t child = fork();
        assert_true(child >= 0);
        if (child == 0)
            work((uint64_t)round << 32, ends[1]);
        close(ends[1]);
        const long later = (long)random_below(13, (uint64_t)round, 150000000) * (1 + round / kills);
        const struct timespec wait = {later / 1000000000, later % 1000000000};
        nanosleep(&wait, NULL);
        kill(child, SIGKILL);
        assert_int_equal(waitpid(child, &status, 0), child);
        assert_true(WIFSIGNALED(status));

        struct error error = {0};
        if (registry_open(directory, DATABASE_WRITER, &database, &error) != WEFT_OK ||
            ledger_check(database, &error) != WEFT_OK)
            fail_msg("after %" PRId64 " kills: %s", round + 1, error.text);
        struct told told;
        while (read(ends[0], &told, sizeof told) == sizeof told) {
            struct registry_run run = run_of(database, told.run);
            assert_true(!told.settled || run.state == RUN_SUCCEEDED);
            submitted += !told.settled;
            settled += told.settled;
        }
        close(ends[0]);
        check_runs(database);
        tidy_up(database);
        check_runs(database);
        if (round + 1 >= kills)
            assert_int_equal(database_check(database, NULL), WEFT_OK);
        database_close(database);
    }
    print_message("%" PRId64 " kills, %" PRId64 " submits and %" PRId64 " settlements told, none lost\n", kills,
                  submitted, settled);
    assert_true(submitted > 0 && settled > 0);
}

int main(void)
{
    directory = temporary_directory();
    const struct CMUnitTest tests[] = {cmocka_unit_test(killed_at_random_moments)};
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    file_remove_tree(directory, NULL);
    return failed;
}
