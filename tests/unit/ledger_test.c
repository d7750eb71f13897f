/* SPDX-License-Identifier: Apache-2.0 */
/* Budgets: accrual, cap, transfers, holds, settlements, refunds, and who may do what; then random ones with all sums.
 */
#include "platform/registry/ledger/ledger.h"

#include "base/random.h"
#include "registry_support.h"

#include <inttypes.h>

#define MINUTE LEDGER_SLOT_MINUTE
#define ADAS   "{\"project\":\"vision\",\"owner\":\"ada\",\"command\":[\"true\"]}"
#define CARLS  "{\"project\":\"speech\",\"owner\":\"carl\",\"command\":[\"true\"]}"
#define SHORT  "{\"project\":\"vision\",\"owner\":\"bob\",\"command\":[\"true\"],\"time_limit\":\"20m\"}"
#define BOBS   "{\"project\":\"vision\",\"owner\":\"bob\",\"command\":[\"true\"]}"

static void check_sums(struct database *database)
{
    struct error error = {0};
    if (ledger_check(database, &error) != WEFT_OK)
        fail_msg("%s", error.text);
}

static struct ledger_budget budget_of(struct database *database, const char *project)
{
    struct ledger_budget budget;
    assert_int_equal(ledger_budget_get(database, project, 0, &budget, NULL), WEFT_OK);
    return budget;
}

/* A run of that text with its first attempt placed. */
static int64_t placed(struct database *database, const char *text)
{
    static const struct registry_node place = {.host = "n1", .slots = "0"};
    struct registry_outcome outcome;
    int64_t epoch, run = submit(database, text, 1);
    CHANGE(database, registry_run_place(database, run, "a", &place, 1, "", 1, &epoch, &outcome, &error));
    return run;
}

static int64_t placed_run(struct database *database)
{
    return placed(database, BOBS);
}

static void accrues_up_to_the_cap(void **state)
{
    struct database *database = *state;
    int64_t added, sum = 0;
    CHANGE(database, ledger_accrue(database, "vision", 500, &added, &error)); /* no budget: nothing */
    assert_int_equal(added, 0);
    assert_false(budget_of(database, "vision").limited);
    CHANGE(database, ledger_budget_put(database, "vision", 7 * MINUTE + 1, 20 * MINUTE, true, 1000, &error));
    /* A day in many uneven steps is a day. */
    for (int64_t now = 1000, i = 0; now < 1000 + LEDGER_DAY; i++) {
        now += 1 + (int64_t)random_below(1, (uint64_t)i, 1000000);
        now = now < 1000 + LEDGER_DAY ? now : 1000 + LEDGER_DAY;
        CHANGE(database, ledger_accrue(database, "vision", now, &added, &error));
        sum += added;
    }
    assert_int_equal(sum, 7 * MINUTE + 1);
    CHANGE(database, ledger_accrue(database, "vision", 2000, &added, &error)); /* the clock went back */
    assert_int_equal(added, 0);
    CHANGE(database, ledger_accrue(database, "vision", 1000 + 10 * LEDGER_DAY, &added, &error));
    assert_int_equal(budget_of(database, "vision").pool, 20 * MINUTE);
    /* What was lost at the cap does not come later; what members and holds have counts as well. */
    CHANGE(database, ledger_transfer(database, "vision", "", "bob", 15 * MINUTE, "ada", "", 1, &error));
    CHANGE(database, ledger_accrue(database, "vision", 1001 + 11 * LEDGER_DAY, &added, &error));
    assert_int_equal(added, 0);
    CHANGE(database, ledger_grant(database, "vision", -5 * MINUTE, "root", "", 1, &error));
    CHANGE(database, ledger_accrue(database, "vision", 1001 + 11 * LEDGER_DAY + LEDGER_DAY / 7, &added, &error));
    assert_int_equal(added, MINUTE);
    /* Beyond the cap by hand; a new rate begins now. */
    CHANGE(database, ledger_grant(database, "vision", 100 * MINUTE, "root", "for the paper", 1, &error));
    CHANGE(database, ledger_budget_put(database, "vision", 24 * MINUTE, 1000 * MINUTE, true, 20 * LEDGER_DAY, &error));
    CHANGE(database, ledger_accrue(database, "vision", 20 * LEDGER_DAY + LEDGER_DAY / 24, &added, &error));
    assert_int_equal(added, MINUTE);
    REFUSE(database, WEFT_ERROR_DATA, "must be from 0", ledger_budget_put(database, "vision", -1, 0, true, 1, &error));
    REFUSE(database, WEFT_ERROR_ARGUMENT, "no project", ledger_budget_put(database, "x", 1, 0, true, 1, &error));
}

/* What is shown is what would be there if it were posted now, which nothing but what needs it does. */
static void what_has_accrued_is_shown_without_a_posting(void **state)
{
    struct database *database = *state;
    struct ledger_budget budget;
    struct ledger_funds funds;
    struct ledger_entry *entries;
    size_t count;
    int64_t added;
    CHANGE(database, ledger_budget_put(database, "vision", 1440 * MINUTE, 100 * MINUTE, true, 1000, &error));
    for (int64_t later = 1; later < 3 * 3600000; later = later * 3 + 1) {
        const int64_t posted = budget_of(database, "vision").pool;
        assert_int_equal(ledger_budget_get(database, "vision", 1000 + later, &budget, NULL), WEFT_OK);
        assert_int_equal(budget.pool, later < 100 * MINUTE ? later : 100 * MINUTE);
        assert_int_equal(budget.accruing, budget.pool - posted);
        assert_int_equal(ledger_funds_get(database, "vision", "ada", &funds, NULL), WEFT_OK);
        assert_int_equal(funds.pool, posted);
        assert_int_equal(ledger_funds_pool(&funds, 1000 + later), budget.pool);
        if (later % 2)
            continue;
        CHANGE(database, ledger_accrue(database, "vision", 1000 + later, &added, &error));
        assert_int_equal(added, budget.accruing);
        assert_int_equal(budget_of(database, "vision").accruing, 0);
    }
    /* When there is so much more, it is there, and not earlier. */
    CHANGE(database, ledger_budget_put(database, "vision", 7 * MINUTE + 1, 1000 * MINUTE, true, 4 * 3600000, &error));
    assert_int_equal(ledger_funds_get(database, "vision", "ada", &funds, NULL), WEFT_OK);
    for (int64_t lacking = 1; lacking <= funds.room; lacking *= 3) {
        const int64_t when = ledger_funds_when(&funds, lacking);
        assert_true(when > funds.accrued);
        assert_true(ledger_funds_pool(&funds, when) >= funds.pool + lacking);
        assert_true(ledger_funds_pool(&funds, when - 2) < funds.pool + lacking);
    }
    assert_int_equal(ledger_funds_when(&funds, funds.room + 1), 0);
    /* Who hands it on has it, and the ledger says where it came from. */
    CHANGE(database,
           ledger_transfer(database, "vision", "", "bob", MINUTE, "ada", "", 4 * 3600000 + LEDGER_DAY, &error));
    assert_int_equal(ledger_entries(database, "vision", 0, 10, &entries, &count, NULL), WEFT_OK);
    assert_true(count >= 4 && strcmp(entries[0].kind, "transfer") == 0 && strcmp(entries[2].kind, "accrual") == 0);
    free(entries);
}

static void who_may_move_what(void **state)
{
    struct database *database = *state;
    REFUSE(database, WEFT_ERROR_STATE, "no budget", ledger_grant(database, "vision", 1, "root", "", 1, &error));
    CHANGE(database, ledger_budget_put(database, "vision", 0, 0, true, 1, &error));
    REFUSE(database, WEFT_ERROR_STATE, "no administrator", ledger_grant(database, "vision", 1, "ada", "", 1, &error));
    REFUSE(database, WEFT_ERROR_DATA, "cannot be granted", ledger_grant(database, "vision", 0, "root", "", 1, &error));
    CHANGE(database, ledger_grant(database, "vision", 10 * MINUTE, "root", "", 1, &error));
    REFUSE(database, WEFT_ERROR_STATE, "has 10.0 slot-minutes; 11.0",
           ledger_grant(database, "vision", -11 * MINUTE, "root", "", 1, &error));
    static const struct {
        const char *from, *to, *actor;
        int64_t amount;
        weft_status status;
        const char *word;
    } bad[] = {
        {"", "bob", "bob", 1, WEFT_ERROR_STATE, "needs a manager"},
        {"", "bob", "carl", 1, WEFT_ERROR_STATE, "needs a manager"},
        {"", "eve", "ada", 1, WEFT_ERROR_STATE, "needs a member"},
        {"", "carl", "ada", 1, WEFT_ERROR_STATE, "needs a member"},
        {"", "", "ada", 1, WEFT_ERROR_DATA, "cannot be moved from the pool to the pool: that is the same account"},
        {"", "bob", "ada", 0, WEFT_ERROR_DATA,
         "0 slot-minutes cannot be moved from the pool to member 'bob': name an amount above 0"},
        {"", "bob", "ada", -5, WEFT_ERROR_DATA, "cannot be moved"},
        {"", "bob", "ada", INT64_MAX, WEFT_ERROR_DATA, "cannot be moved"},
        {"", "bob", "ada", 11 * MINUTE, WEFT_ERROR_STATE, "the pool of project 'vision' has 10.0 slot-minutes; 11.0"},
        {"bob", "", "ada", 1, WEFT_ERROR_STATE, "member 'bob' of project 'vision' has 0.0"},
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        REFUSE(database, bad[i].status, bad[i].word,
               ledger_transfer(database, "vision", bad[i].from, bad[i].to, bad[i].amount, bad[i].actor, "", 1, &error));
    CHANGE(database, ledger_transfer(database, "vision", "", "bob", 4 * MINUTE, "ada", "", 1, &error));
    CHANGE(database, ledger_transfer(database, "vision", "bob", "ada", MINUTE, "root", "", 1, &error));
    /* Back from one who is no member any more. */
    CHANGE(database, registry_member_put(database, "vision", "bob", ROLE_NONE, 2, &error));
    CHANGE(database, ledger_transfer(database, "vision", "bob", "", 3 * MINUTE, "ada", "", 3, &error));
    struct ledger_budget budget = budget_of(database, "vision");
    assert_true(budget.pool == 9 * MINUTE && budget.members == MINUTE);
    struct ledger_balance *balances;
    size_t count;
    assert_int_equal(ledger_balances(database, "vision", &balances, &count, NULL), WEFT_OK);
    assert_true(count == 2 && strcmp(balances[0].user, "ada") == 0 && balances[0].balance == MINUTE);
    assert_int_equal(balances[1].balance, 0);
    free(balances);
}

static void a_run_is_held_settled_and_refunded(void **state)
{
    struct database *database = *state;
    int64_t first = placed(database, SHORT), second = placed_run(database), third = placed_run(database), held, charged;
    struct ledger_hold *holds;
    size_t count;
    CHANGE(database, ledger_budget_put(database, "vision", 0, 0, true, 1, &error));
    CHANGE(database, ledger_grant(database, "vision", 100 * MINUTE, "root", "", 1, &error));
    CHANGE(database, ledger_transfer(database, "vision", "", "bob", 30 * MINUTE, "ada", "", 1, &error));
    /* His own account suffices; a second call is the same hold. */
    for (int i = 0; i < 2; i++) {
        CHANGE(database, ledger_hold(database, first, 1, 20 * MINUTE, MINUTE, false, 5, &held, &error));
        assert_int_equal(held, 20 * MINUTE);
    }
    /* It does not: the pool pays, whole. */
    CHANGE(database, ledger_hold(database, second, 1, 60 * MINUTE, MINUTE, false, 6, &held, &error));
    assert_int_equal(held, 60 * MINUTE);
    /* Neither does: the member with the largest share gives that. */
    CHANGE(database, ledger_hold(database, third, 1, 60 * MINUTE, MINUTE, false, 7, &held, &error));
    assert_int_equal(held, 10 * MINUTE);
    assert_int_equal(ledger_hold_end(held, 4, 1000), 1000 + 150000);
    /* Only what runs uses its hold, and a hold that lasts for the time limit ends with that. */
    int64_t next = 0;
    struct registry_outcome outcome;
    assert_int_equal(ledger_exhausted(database, INT64_MAX / 2, &holds, &count, &next, NULL), WEFT_OK);
    assert_true(count == 0 && next == INT64_MAX);
    free(holds);
    CHANGE(database, registry_node_start(database, first, 1, 0, 1000, &outcome, &error));
    CHANGE(database, registry_node_start(database, second, 1, 0, 1000, &outcome, &error));
    CHANGE(database, registry_node_start(database, third, 1, 0, 2000, &outcome, &error));
    static const struct {
        int64_t now, next;
        size_t count;
    } times[] = {{2000 + 10 * MINUTE - 1, 2000 + 10 * MINUTE, 0},
                 {2000 + 10 * MINUTE, 1000 + 60 * MINUTE, 1},
                 {1000 + 60 * MINUTE, INT64_MAX, 2}};
    for (size_t i = 0; i < sizeof times / sizeof *times; i++) {
        assert_int_equal(ledger_exhausted(database, times[i].now, &holds, &count, &next, NULL), WEFT_OK);
        assert_true(count == times[i].count && next == times[i].next);
        assert_true(count == 0 || holds[count - 1].run == third);
        free(holds);
    }
    struct ledger_budget budget = budget_of(database, "vision");
    assert_true(budget.held == 90 * MINUTE && budget.pool + budget.members == 10 * MINUTE && budget.spent == 0);
    assert_int_equal(ledger_open_holds(database, &holds, &count, NULL), WEFT_OK);
    assert_true(count == 3 && holds[0].run == first && holds[0].opened == 5 && holds[0].settled == 0);
    assert_string_equal(holds[0].project, "vision");
    free(holds);

    CHANGE(database, ledger_settle(database, first, 1, 5 * MINUTE, "ended well", 10, &charged, &error));
    assert_int_equal(charged, 5 * MINUTE);
    CHANGE(database, ledger_settle(database, first, 1, 9 * MINUTE, "again", 11, &charged, &error));
    assert_int_equal(charged, 5 * MINUTE);
    CHANGE(database, ledger_settle(database, second, 1, 61 * MINUTE, "it took longer", 12, &charged, &error));
    assert_int_equal(charged, 60 * MINUTE);
    CHANGE(database, ledger_settle(database, third, 1, 0, "the host was lost", 13, &charged, &error));
    assert_int_equal(charged, 0);
    budget = budget_of(database, "vision");
    assert_true(budget.held == 0 && budget.spent == 65 * MINUTE && budget.pool + budget.members == 35 * MINUTE);
    for (int i = 0; i < 2; i++) {
        CHANGE(database, ledger_refund(database, second, 1, "root", "a bad disk", 14, &charged, &error));
        assert_int_equal(charged, i == 0 ? 60 * MINUTE : 0);
    }
    assert_int_equal(budget_of(database, "vision").spent, 5 * MINUTE);
    assert_int_equal(ledger_holds_of(database, second, &holds, &count, NULL), WEFT_OK);
    assert_true(count == 1 && holds[0].settled == 12 && holds[0].charged == 60 * MINUTE && holds[0].refunded);
    free(holds);
    /* Nothing was held for it: nothing happens. */
    CHANGE(database, ledger_settle(database, first, 9, 5, "", 15, &charged, &error));
    CHANGE(database, ledger_refund(database, first, 9, "", "", 15, &charged, &error));
    assert_int_equal(charged, 0);
}

static int64_t balance_of(struct database *database, const char *user)
{
    struct ledger_funds funds;
    assert_int_equal(ledger_funds_get(database, "vision", user, &funds, NULL), WEFT_OK);
    return funds.member;
}

/* Nobody could spend it, and it would count against the cap for ever. */
static void what_somebody_has_who_leaves_goes_to_the_pool(void **state)
{
    struct database *database = *state;
    int64_t held, charged, refunded, run = placed_run(database);
    CHANGE(database, ledger_budget_put(database, "vision", 0, 1000 * MINUTE, true, 1000, &error));
    CHANGE(database, ledger_grant(database, "vision", 100 * MINUTE, "root", "", 1000, &error));
    CHANGE(database, ledger_transfer(database, "vision", "", "bob", 60 * MINUTE, "ada", "", 1000, &error));
    CHANGE(database, ledger_hold(database, run, 1, 50 * MINUTE, MINUTE, false, 1000, &held, &error));
    CHANGE(database, ledger_leave(database, "vision", "bob", "ada", 1000, &error)); /* has not left */
    assert_int_equal(balance_of(database, "bob"), 10 * MINUTE);
    CHANGE(database, registry_member_put(database, "vision", "bob", ROLE_NONE, 1000, &error));
    CHANGE(database, ledger_leave(database, "vision", "bob", "ada", 1000, &error));
    assert_int_equal(budget_of(database, "vision").members, 0);
    assert_int_equal(budget_of(database, "vision").pool, 50 * MINUTE);
    /* What comes back later goes there too. */
    CHANGE(database, ledger_settle(database, run, 1, 20 * MINUTE, "", 2000, &charged, &error));
    assert_int_equal(budget_of(database, "vision").members, 0);
    assert_int_equal(budget_of(database, "vision").pool, 80 * MINUTE);
    CHANGE(database, ledger_refund(database, run, 1, "root", "", 3000, &refunded, &error));
    assert_int_equal(budget_of(database, "vision").members, 0);
    assert_int_equal(budget_of(database, "vision").pool, 100 * MINUTE);
    check_sums(database);
}

static void what_cannot_be_held(void **state)
{
    struct database *database = *state;
    int64_t run = placed_run(database), held = 77, charged;
    CHANGE(database, ledger_budget_put(database, "vision", 0, 0, false, 1, &error));
    CHANGE(database, ledger_grant(database, "vision", 100 * MINUTE, "root", "", 1, &error));
    /* Not shared: only managers draw on the pool. */
    REFUSE(database, WEFT_ERROR_STATE, "needs 2.0 slot-minutes to begin, and project 'vision' has 0.0 left for 'bob'",
           ledger_hold(database, run, 1, 9 * MINUTE, 2 * MINUTE, false, 5, &held, &error));
    REFUSE(database, WEFT_ERROR_DATA, "cannot be held", ledger_hold(database, run, 1, 5, 0, false, 5, &held, &error));
    REFUSE(database, WEFT_ERROR_DATA, "cannot be held", ledger_hold(database, run, 1, 5, 6, false, 5, &held, &error));
    REFUSE(database, WEFT_ERROR_DATA, "cannot be held",
           ledger_hold(database, run, 1, INT64_MAX, 6, false, 5, &held, &error));
    /* For an attempt that there is not. */
    REFUSE(database, WEFT_ERROR_DATA, "FOREIGN KEY", ledger_hold(database, run, 2, 5, 5, true, 5, &held, &error));
    assert_int_equal(held, 77);
    assert_int_equal(budget_of(database, "vision").pool, 100 * MINUTE);
    run = placed(database, ADAS);
    CHANGE(database, ledger_hold(database, run, 1, 9 * MINUTE, 2 * MINUTE, false, 5, &held, &error));
    assert_int_equal(budget_of(database, "vision").pool, 91 * MINUTE);
    CHANGE(database, ledger_settle(database, run, 1, 0, "", 6, &charged, &error));
    /* The platform pays, and pays where there is no budget; it is counted all the same. */
    run = placed_run(database);
    CHANGE(database, ledger_hold(database, run, 1, 9 * MINUTE, MINUTE, true, 5, &held, &error));
    assert_int_equal(budget_of(database, "vision").pool, 100 * MINUTE);
    CHANGE(database, ledger_settle(database, run, 1, 2 * MINUTE, "", 6, &charged, &error));
    assert_int_equal(budget_of(database, "vision").spent, 2 * MINUTE);
    run = placed(database, CARLS);
    CHANGE(database, ledger_hold(database, run, 1, 9, 1, false, 5, &held, &error));
    assert_int_equal(held, 9);
}

static void entries_are_told_in_whole_postings(void **state)
{
    struct database *database = *state;
    int64_t run = placed_run(database), held, charged, before = 0, postings = 0;
    struct ledger_entry *entries;
    size_t count;
    CHANGE(database, ledger_budget_put(database, "vision", 0, 0, true, 1, &error));
    CHANGE(database, ledger_budget_put(database, "speech", 0, 0, true, 1, &error));
    CHANGE(database, ledger_grant(database, "vision", 100, "root", "for\033 you", 1, &error));
    CHANGE(database, ledger_grant(database, "speech", 100, "root", "", 2, &error));
    CHANGE(database, ledger_transfer(database, "vision", "", "bob", 60, "ada", "", 3, &error));
    CHANGE(database, ledger_hold(database, run, 1, 50, 1, false, 4, &held, &error));
    CHANGE(database, ledger_settle(database, run, 1, 20, "", 5, &charged, &error));
    do {
        int64_t sum = 0;
        assert_int_equal(ledger_entries(database, "vision", before, 3, &entries, &count, NULL), WEFT_OK);
        for (size_t i = 0; i < count; i++) {
            sum += entries[i].amount;
            assert_true(!before || entries[i].posting <= before);
            postings += entries[i].posting != before;
            before = entries[i].posting;
            if (strcmp(entries[i].kind, "grant") == 0)
                assert_true(entries[i].time == 1 && strcmp(entries[i].actor, "root") == 0 &&
                            strcmp(entries[i].detail, "for? you") == 0 && entries[i].run == 0);
            if (strcmp(entries[i].kind, "settlement") == 0)
                assert_true(entries[i].run == run && entries[i].epoch == 1);
        }
        assert_int_equal(sum, 0);
        assert_true(count == 0 || count == 2 || count == 3);
        free(entries);
    } while (count);
    assert_int_equal(postings, 4);
}

/* The check itself must see what is wrong. */
static void the_check_finds_what_is_wrong(void **state)
{
    struct database *database = *state;
    static const char *const damages[] = {
        "UPDATE entries SET amount = amount + 1 WHERE posting = 1 AND account = 1",
        "UPDATE accounts SET balance = balance + 1 WHERE kind = 'pool'",
        "UPDATE holds SET amount = amount + 1",
        "UPDATE holds SET charged = charged + 1 WHERE settled",
        "UPDATE holds SET refunded = 1 WHERE settled",
        "DELETE FROM entries WHERE posting = 2",
        "DELETE FROM holds",
    };
    int64_t first = placed_run(database), second = placed_run(database), held, charged;
    CHANGE(database, ledger_budget_put(database, "vision", 0, 0, true, 1, &error));
    CHANGE(database, ledger_grant(database, "vision", 100, "root", "", 1, &error));
    CHANGE(database, ledger_hold(database, first, 1, 50, 1, false, 4, &held, &error));
    CHANGE(database, ledger_settle(database, first, 1, 20, "", 5, &charged, &error));
    CHANGE(database, ledger_hold(database, second, 1, 50, 1, false, 4, &held, &error));
    check_sums(database);
    for (size_t i = 0; i < sizeof damages / sizeof *damages; i++) {
        assert_int_equal(database_begin(database, DATABASE_LAZY, NULL), WEFT_OK);
        assert_int_equal(statement_run(database_prepare(database, damages[i]), NULL), WEFT_OK);
        assert_true(database_changes(database) > 0);
        if (ledger_check(database, NULL) != WEFT_ERROR_DATA)
            fail_msg("not found: %s", damages[i]);
        database_end(database, WEFT_ERROR_STATE, NULL);
        check_sums(database);
    }
}

/* Random calls of all kinds, also such as must be refused: the sums are right after each, the total of what there is
 * never passes the cap by accrual, and nothing is below zero. */
static void random_calls(void **state)
{
    struct database *database = *state;
    static const char *const users[] = {"", "ada", "bob", "eve", "carl"};
    static const char *const projects[] = {"vision", "speech"};
    static const char *const actors[] = {"root", "ada", "carl", "bob"};
    static const char *const texts[] = {BOBS, ADAS, CARLS};
    int64_t runs[12], now = 1;
    int done[8] = {0};
    for (size_t i = 0; i < 12; i++)
        runs[i] = placed(database, texts[i % 3]);
    CHANGE(database, ledger_budget_put(database, "vision", 100000, 50000, true, now, &error));
    for (uint64_t step = 0; step < 4000; step++) {
        uint64_t kind = random_below(9, 8 * step, 8);
        const char *project = projects[random_below(9, 8 * step + 1, 4) == 0];
        const char *user = users[random_below(9, 8 * step + 2, 5)], *other = users[random_below(9, 8 * step + 3, 5)];
        const char *actor = actors[random_below(9, 8 * step + 4, 4)];
        size_t slot = random_below(9, 8 * step + 5, 12);
        int64_t amount = (int64_t)random_below(9, 8 * step + 6, 20000) - 2000, result = 0;
        struct ledger_budget before = budget_of(database, project);
        struct error error = {0};
        now += (int64_t)random_below(9, 8 * step + 7, 2000000);
        assert_int_equal(database_begin(database, DATABASE_LAZY, NULL), WEFT_OK);
        weft_status status =
            kind == 0   ? ledger_accrue(database, project, now, &result, &error)
            : kind == 1 ? ledger_grant(database, project, amount / 8, actor, "", now, &error)
            : kind == 2 ? ledger_transfer(database, project, user, other, amount, actor, "", now, &error)
            : kind == 3 ? ledger_budget_put(database, project, amount * 10, amount * 4, amount % 2, now, &error)
            : kind == 4 ? ledger_refund(database, runs[slot], 1, actor, "", now, &result, &error)
            : kind == 5 ? ledger_settle(database, runs[slot], 1, amount, "", now, &result, &error)
                        : ledger_hold(database, runs[slot], 1, amount, amount / 4 + 1, !*user, now, &result, &error);
        done[kind] += status == WEFT_OK;
        assert_true(status == WEFT_OK || *error.text);
        assert_int_equal(database_end(database, status, NULL), status);
        struct ledger_budget after = budget_of(database, project);
        int64_t had = before.pool + before.members + before.held, has = after.pool + after.members + after.held;
        assert_true(after.pool >= 0 && after.members >= 0 && after.held >= 0 && after.spent >= 0);
        if (kind == 0)
            assert_true(has == had + result && (result == 0 || has <= after.cap));
        if (kind == 2 || status != WEFT_OK)
            assert_true(has == had && after.spent == before.spent);
        if (kind == 5 && status == WEFT_OK && random_below(10, step, 3) == 0)
            runs[slot] = placed(database, texts[slot % 3]);
        if (step % 16 == 0)
            check_sums(database);
    }
    for (size_t i = 0; i < 7; i++)
        if (done[i] < 15)
            fail_msg("only %d calls of kind %zu went well", done[i], i);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        registry_test(accrues_up_to_the_cap),
        registry_test(what_has_accrued_is_shown_without_a_posting),
        registry_test(who_may_move_what),
        registry_test(a_run_is_held_settled_and_refunded),
        registry_test(what_somebody_has_who_leaves_goes_to_the_pool),
        registry_test(what_cannot_be_held),
        registry_test(entries_are_told_in_whole_postings),
        registry_test(the_check_finds_what_is_wrong),
        registry_test(random_calls),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
