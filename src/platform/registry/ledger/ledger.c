/* SPDX-License-Identifier: Apache-2.0 */
/* The one place where a balance changes is ledger_post(). */
#include "platform/registry/ledger/ledger.h"

#include "platform/registry/internal/run_row.h"
#include "platform/registry/projects.h"
#include "platform/store/query.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/* An amount as people count it. */
#define MINUTES(amount) ((double)(amount) / (double)LEDGER_SLOT_MINUTE)

struct account {
    int64_t account, balance;
};

/* An account, made where there is none yet. `user` is "" for all but members. */
static weft_status get_account(struct database *database, const char *kind, const char *project, const char *user,
                               struct account *account, struct error *error)
{
    weft_status status = DATABASE_RUN(
        database, error, "INSERT INTO accounts (kind, project, user, least) VALUES (?, ?, ?, ?) ON CONFLICT DO NOTHING",
        kind, project, user, strcmp(kind, "source") == 0 ? INT64_MIN : 0);
    if (status != WEFT_OK)
        return status;
    struct statement *select =
        DATABASE_QUERY(database, "SELECT account, balance FROM accounts WHERE kind = ? AND project = ? AND user = ?",
                       kind, project, user);
    if (statement_next(select))
        STATEMENT_READ(select, 0, &account->account, &account->balance);
    return statement_end(select, error);
}

/* ---- postings ---- */

struct ledger_own_entry {
    int64_t account, amount;
};

struct posting {
    const char *kind, *project;
    int64_t run, epoch; /* 0: none */
    const char *actor, *detail;
    int64_t now;
    struct ledger_own_entry entries[3]; /* of different accounts; those of 0 are left out */
};

static weft_status add_entry(struct database *database, int64_t posting, const struct ledger_own_entry *entry,
                             struct error *error)
{
    weft_status status =
        DATABASE_RUN(database, error, "INSERT INTO entries (posting, account, amount) VALUES (?, ?, ?)", posting,
                     entry->account, entry->amount);
    if (status != WEFT_OK)
        return status;
    return DATABASE_RUN(database, error, "UPDATE accounts SET balance = balance + ? WHERE account = ?", entry->amount,
                        entry->account);
}

static weft_status ledger_post(struct database *database, const struct posting *posting, struct error *error)
{
    char detail[REGISTRY_DETAIL_BYTES];
    int64_t sum = 0;
    for (size_t i = 0; i < 3; i++)
        sum += posting->entries[i].amount;
    if (sum != 0)
        return error_set(error, WEFT_ERROR_STATE, "a posting of the ledger (%s) sums to %" PRId64 ", not to zero",
                         posting->kind, sum);
    weft_status status = DATABASE_RUN(database, error,
                                      "INSERT INTO postings (time, kind, project, run, epoch, actor, detail) "
                                      "VALUES (?, ?, ?, nullif(?, 0), nullif(?, 0), ?, ?)",
                                      posting->now, posting->kind, posting->project, posting->run, posting->epoch,
                                      posting->actor, registry_detail(posting->detail, "", detail));
    int64_t key = database_last_key(database);
    for (size_t i = 0; i < 3 && status == WEFT_OK; i++)
        if (posting->entries[i].amount)
            status = add_entry(database, key, &posting->entries[i], error);
    return status;
}

/* Post what moves `amount` from one account to another. */
static weft_status ledger_move(struct database *database, struct posting posting, int64_t from, int64_t to,
                               int64_t amount, struct error *error)
{
    posting.entries[0] = (struct ledger_own_entry){from, -amount};
    posting.entries[1] = (struct ledger_own_entry){to, amount};
    return ledger_post(database, &posting, error);
}

/* ---- budgets ---- */

static weft_status read_budget(struct database *database, const char *project, struct ledger_budget *budget,
                               int64_t *remainder, struct error *error)
{
    struct statement *select =
        database_prepare(database, "SELECT rate, cap, shared, accrued, remainder FROM budgets WHERE project = ?");
    *budget = (struct ledger_budget){.limited = false};
    statement_bind_text(select, project);
    if ((budget->limited = statement_next(select))) {
        STATEMENT_READ(select, 0, &budget->rate, &budget->cap, &budget->shared, &budget->accrued);
        *remainder = statement_integer(select, 4);
    }
    weft_status status = statement_end(select, error);
    if (status != WEFT_OK)
        return status;
    select =
        DATABASE_QUERY(database, "SELECT kind, sum(balance) FROM accounts WHERE project = ? GROUP BY kind", project);
    while (statement_next(select)) {
        const char *kind = statement_text(select, 0);
        int64_t *to = strcmp(kind, "pool") == 0     ? &budget->pool
                      : strcmp(kind, "member") == 0 ? &budget->members
                      : strcmp(kind, "held") == 0   ? &budget->held
                                                    : &budget->spent;
        *to = statement_integer(select, 1);
    }
    return statement_end(select, error);
}

/* What has accrued since it was posted. `remainder` is what the division left over before, so that many small steps add
 * up to what one large one gives. */
static int64_t grown_until(const struct ledger_budget *budget, int64_t now, int64_t *remainder, bool *full)
{
    unsigned __int128 grown =
        (unsigned __int128)budget->rate * (uint64_t)(now - budget->accrued) + (uint64_t)*remainder;
    unsigned __int128 whole = grown / LEDGER_DAY;
    int64_t room = budget->cap - (budget->pool + budget->members + budget->held);
    room = room > 0 ? room : 0;
    *full = whole > (unsigned __int128)room;
    *remainder = *full ? 0 : (int64_t)(grown % LEDGER_DAY);
    return *full ? room : (int64_t)whole;
}

weft_status ledger_budget_get(struct database *database, const char *project, int64_t now, struct ledger_budget *budget,
                              struct error *error)
{
    int64_t remainder = 0;
    bool full;
    struct registry_project found;
    weft_status status = registry_project_get(database, project, &found, error);
    if (status == WEFT_OK)
        status = read_budget(database, project, budget, &remainder, error);
    if (status == WEFT_OK && budget->limited && now > budget->accrued) {
        budget->accruing = grown_until(budget, now, &remainder, &full);
        budget->pool += budget->accruing;
    }
    return status;
}

weft_status ledger_accrue(struct database *database, const char *project, int64_t now, int64_t *added,
                          struct error *error)
{
    struct ledger_budget budget;
    struct account source, pool;
    int64_t remainder = 0;
    bool full;
    weft_status status = read_budget(database, project, &budget, &remainder, error);
    *added = 0;
    if (status != WEFT_OK || !budget.limited || now <= budget.accrued)
        return status;
    int64_t amount = grown_until(&budget, now, &remainder, &full);
    status = DATABASE_RUN(database, error, "UPDATE budgets SET accrued = ?, remainder = ? WHERE project = ?", now,
                          remainder, project);
    if (status != WEFT_OK || amount == 0)
        return status;
    if ((status = get_account(database, "source", "", "", &source, error)) != WEFT_OK ||
        (status = get_account(database, "pool", project, "", &pool, error)) != WEFT_OK)
        return status;
    const struct posting posting = {
        .kind = "accrual", .project = project, .actor = "", .detail = full ? "up to the cap" : "", .now = now};
    status = ledger_move(database, posting, source.account, pool.account, amount, error);
    if (status == WEFT_OK)
        *added = amount;
    return status;
}

weft_status ledger_shift(struct database *database, int64_t by, struct error *error)
{
    return DATABASE_RUN(database, error, "UPDATE budgets SET accrued = accrued + ?", by);
}

weft_status ledger_budget_put(struct database *database, const char *project, int64_t rate, int64_t cap, bool shared,
                              int64_t now, struct error *error)
{
    struct registry_project found;
    int64_t added;
    if (rate < 0 || rate > LEDGER_MOST || cap < 0 || cap > LEDGER_MOST)
        return error_set(
            error, WEFT_ERROR_DATA,
            "the budget of project '%s' is to grow by %.0f slot-minutes a day up to %.0f; both must be from 0 "
            "to %.0f",
            project, MINUTES(rate), MINUTES(cap), MINUTES(LEDGER_MOST));
    weft_status status = registry_project_get(database, project, &found, error);
    if (status == WEFT_OK)
        status = ledger_accrue(database, project, now, &added, error);
    if (status != WEFT_OK)
        return status;
    return DATABASE_RUN(database, error,
                        "INSERT INTO budgets (project, rate, cap, shared, accrued) VALUES (?, ?, ?, ?, ?) "
                        "ON CONFLICT DO UPDATE SET rate = excluded.rate, cap = excluded.cap, shared = excluded.shared",
                        project, rate, cap, shared, now);
}

static weft_status need_budget(struct database *database, const char *project, struct error *error)
{
    struct ledger_budget budget;
    weft_status status = ledger_budget_get(database, project, 0, &budget, error);
    if (status == WEFT_OK && !budget.limited)
        status = error_set(error, WEFT_ERROR_STATE, "project '%s' has no budget; give it one first", project);
    return status;
}

weft_status ledger_grant(struct database *database, const char *project, int64_t amount, const char *actor,
                         const char *detail, int64_t now, struct error *error)
{
    struct account source, pool;
    struct registry_user who;
    int64_t added;
    weft_status status = registry_user_get(database, actor, &who, error);
    if (status == WEFT_OK && (!who.admin || who.disabled))
        status = error_set(error, WEFT_ERROR_STATE, "'%s' is no administrator; only they give budgets", actor);
    if (status == WEFT_OK && (amount == 0 || amount > LEDGER_MOST || amount < -LEDGER_MOST))
        status = error_set(error, WEFT_ERROR_DATA, "%.1f slot-minutes cannot be granted", MINUTES(amount));
    if (status == WEFT_OK)
        status = need_budget(database, project, error);
    /* First what has accrued: a grant beyond the cap takes nothing of it. */
    if (status == WEFT_OK)
        status = ledger_accrue(database, project, now, &added, error);
    if (status != WEFT_OK || (status = get_account(database, "source", "", "", &source, error)) != WEFT_OK ||
        (status = get_account(database, "pool", project, "", &pool, error)) != WEFT_OK)
        return status;
    if (amount < 0 && pool.balance < -amount)
        return error_set(error, WEFT_ERROR_STATE,
                         "the pool of project '%s' has %.1f slot-minutes; %.1f cannot be taken from it", project,
                         MINUTES(pool.balance), MINUTES(-amount));
    if (pool.balance > LEDGER_MOST - amount)
        return error_set(error, WEFT_ERROR_DATA, "the pool of project '%s' would be beyond %.0f slot-minutes", project,
                         MINUTES(LEDGER_MOST));
    const struct posting posting = {.kind = "grant", .project = project, .actor = actor, .detail = detail, .now = now};
    return ledger_move(database, posting, source.account, pool.account, amount, error);
}

/* The pool for "", else the account of somebody who is a member. */
static weft_status get_side(struct database *database, const char *project, const char *user, bool receives,
                            struct account *account, struct error *error)
{
    if (!*user)
        return get_account(database, "pool", project, "", account, error);
    weft_status status = receives ? registry_role_need(database, project, user, ROLE_MEMBER, error) : WEFT_OK;
    return status == WEFT_OK ? get_account(database, "member", project, user, account, error) : status;
}

#define SIDE_BYTES (PLATFORM_NAME_BYTES + 16)

/* For messages. */
static const char *name_side(const char *user, char text[SIDE_BYTES])
{
    if (!*user)
        return "the pool";
    snprintf(text, SIDE_BYTES, "member '%s'", user);
    return text;
}

weft_status ledger_transfer(struct database *database, const char *project, const char *from, const char *to,
                            int64_t amount, const char *actor, const char *detail, int64_t now, struct error *error)
{
    struct account giver, taker;
    char giving[SIDE_BYTES], taking[SIDE_BYTES];
    int64_t added;
    weft_status status = need_budget(database, project, error);
    if (status == WEFT_OK)
        status = registry_role_need(database, project, actor, ROLE_MANAGER, error);
    if (status == WEFT_OK && strcmp(from, to) == 0)
        status =
            error_set(error, WEFT_ERROR_DATA, "%g slot-minutes cannot be moved from %s to %s: that is the same account",
                      MINUTES(amount), name_side(from, giving), name_side(to, taking));
    if (status == WEFT_OK && (amount <= 0 || amount > LEDGER_MOST))
        status = error_set(error, WEFT_ERROR_DATA,
                           "%g slot-minutes cannot be moved from %s to %s: name an amount above 0, and up to %.0f",
                           MINUTES(amount), name_side(from, giving), name_side(to, taking), MINUTES(LEDGER_MOST));
    /* What has accrued is there to be handed on. */
    if (status == WEFT_OK && !*from)
        status = ledger_accrue(database, project, now, &added, error);
    if (status != WEFT_OK || (status = get_side(database, project, from, false, &giver, error)) != WEFT_OK ||
        (status = get_side(database, project, to, true, &taker, error)) != WEFT_OK)
        return status;
    if (giver.balance < amount)
        return error_set(error, WEFT_ERROR_STATE, "%s of project '%s' has %.1f slot-minutes; %.1f are asked for",
                         name_side(from, giving), project, MINUTES(giver.balance), MINUTES(amount));
    const struct posting posting = {
        .kind = "transfer", .project = project, .actor = actor, .detail = detail, .now = now};
    return ledger_move(database, posting, giver.account, taker.account, amount, error);
}

weft_status ledger_leave(struct database *database, const char *project, const char *user, const char *actor,
                         int64_t now, struct error *error)
{
    struct account giver, pool;
    struct statement *select =
        DATABASE_QUERY(database, "SELECT 1 FROM members WHERE project = ? AND user = ?", project, user);
    const bool is_member = statement_next(select); /* a disabled one, too */
    weft_status status = statement_end(select, error);
    if (status != WEFT_OK || is_member ||
        (status = get_account(database, "member", project, user, &giver, error)) != WEFT_OK || giver.balance <= 0 ||
        (status = get_account(database, "pool", project, "", &pool, error)) != WEFT_OK)
        return status;
    const struct posting posting = {
        .kind = "transfer", .project = project, .actor = actor, .detail = "left the project", .now = now};
    return ledger_move(database, posting, giver.account, pool.account, giver.balance, error);
}

/* Whose account it is, if it is a member's: what came back to one who has left goes on to the pool. */
static weft_status ledger_pass_on(struct database *database, const char *project, int64_t account, int64_t now,
                                  struct error *error)
{
    char user[PLATFORM_NAME_BYTES] = "";
    struct statement *select =
        DATABASE_QUERY(database, "SELECT user FROM accounts WHERE account = ? AND kind = 'member'", account);
    if (statement_next(select))
        statement_copy_text(select, 0, user, sizeof user);
    weft_status status = statement_end(select, error);
    return status == WEFT_OK && *user ? ledger_leave(database, project, user, "", now, error) : status;
}

/* ---- holds ---- */

/* The hold of an attempt and its payer, if there is one. */
static weft_status find_hold(struct database *database, int64_t run, int64_t epoch, struct ledger_hold *hold,
                             int64_t *payer, bool *there, struct error *error)
{
    struct statement *select = DATABASE_QUERY(
        database,
        "SELECT h.run, h.epoch, h.amount, h.opened, h.settled, h.charged, h.refunded, r.project, h.payer "
        "FROM holds h JOIN runs r USING (run) WHERE h.run = ? AND h.epoch = ?",
        run, epoch);
    if ((*there = statement_next(select)))
        STATEMENT_READ(select, 0, &hold->run, &hold->epoch, &hold->amount, &hold->opened, &hold->settled,
                       &hold->charged, &hold->refunded, hold->project, payer);
    return statement_end(select, error);
}

/* Of those who may pay the first that can, else the one that has most; `user` NULL: the platform. The balance is what
 * may be taken. */
static weft_status choose_payer(struct database *database, const char *project, const char *user, int64_t wanted,
                                struct account *payer, struct error *error)
{
    struct ledger_budget budget;
    struct account pool;
    enum role role;
    weft_status status = ledger_budget_get(database, project, 0, &budget, error);
    if (status != WEFT_OK)
        return status;
    if (!user || !budget.limited) {
        status = get_account(database, "source", "", "", payer, error);
        payer->balance = wanted;
        return status;
    }
    if ((status = registry_role_get(database, project, user, &role, error)) != WEFT_OK ||
        (status = get_account(database, "member", project, user, payer, error)) != WEFT_OK)
        return status;
    if (payer->balance >= wanted || (!budget.shared && role < ROLE_MANAGER))
        return WEFT_OK;
    status = get_account(database, "pool", project, "", &pool, error);
    if (status == WEFT_OK && (pool.balance >= wanted || pool.balance > payer->balance))
        *payer = pool;
    return status;
}

weft_status ledger_hold(struct database *database, int64_t run, int64_t epoch, int64_t wanted, int64_t least,
                        bool personal, int64_t now, int64_t *held, struct error *error)
{
    struct registry_run row;
    struct ledger_hold hold;
    struct account payer, held_account;
    int64_t paid_by;
    bool there;
    if (least < 1 || wanted < least || wanted > LEDGER_MOST)
        return error_set(error, WEFT_ERROR_DATA, "%.1f slot-minutes, at least %.1f, cannot be held for run %" PRId64,
                         MINUTES(wanted), MINUTES(least), run);
    weft_status status = find_hold(database, run, epoch, &hold, &paid_by, &there, error);
    if (status == WEFT_OK && there) {
        *held = hold.amount;
        return WEFT_OK;
    }
    if (status != WEFT_OK || (status = registry_run_get(database, run, &row, error)) != WEFT_OK ||
        (status = choose_payer(database, row.project, personal ? NULL : row.owner, wanted, &payer, error)) != WEFT_OK ||
        (status = get_account(database, "held", row.project, "", &held_account, error)) != WEFT_OK)
        return status;
    if (payer.balance < least)
        return error_set(error, WEFT_ERROR_STATE,
                         "run %" PRId64
                         " needs %.1f slot-minutes to begin, and project '%s' has %.1f left for '%s'; ask "
                         "one of its managers, or wait until more has accrued",
                         run, MINUTES(least), row.project, MINUTES(payer.balance), row.owner);
    int64_t amount = payer.balance < wanted ? payer.balance : wanted;
    status =
        DATABASE_RUN(database, error, "INSERT INTO holds (run, epoch, payer, amount, opened) VALUES (?, ?, ?, ?, ?)",
                     run, epoch, payer.account, amount, now);
    if (status != WEFT_OK)
        return status;
    const struct posting posting = {.kind = "hold",
                                    .project = row.project,
                                    .run = run,
                                    .epoch = epoch,
                                    .actor = row.owner,
                                    .detail = amount < wanted ? "less than its time limit needs" : "",
                                    .now = now};
    status = ledger_move(database, posting, payer.account, held_account.account, amount, error);
    if (status == WEFT_OK)
        *held = amount;
    return status;
}

weft_status ledger_settle(struct database *database, int64_t run, int64_t epoch, int64_t used, const char *detail,
                          int64_t now, int64_t *charged, struct error *error)
{
    struct ledger_hold hold;
    struct account held, spent;
    int64_t payer;
    bool there;
    weft_status status = find_hold(database, run, epoch, &hold, &payer, &there, error);
    *charged = 0;
    if (status != WEFT_OK || !there)
        return status;
    *charged = hold.charged;
    if (hold.settled)
        return WEFT_OK;
    int64_t amount = used < 0 ? 0 : used < hold.amount ? used : hold.amount;
    if ((status = get_account(database, "held", hold.project, "", &held, error)) != WEFT_OK ||
        (status = get_account(database, "spent", hold.project, "", &spent, error)) != WEFT_OK)
        return status;
    status = DATABASE_RUN(database, error, "UPDATE holds SET settled = ?, charged = ? WHERE run = ? AND epoch = ?",
                          now > 0 ? now : 1, amount, run, epoch);
    if (status != WEFT_OK)
        return status;
    const struct posting posting = {
        .kind = "settlement",
        .project = hold.project,
        .run = run,
        .epoch = epoch,
        .actor = "",
        .detail = detail,
        .now = now,
        .entries = {{held.account, -hold.amount}, {spent.account, amount}, {payer, hold.amount - amount}}};
    status = ledger_post(database, &posting, error);
    if (status == WEFT_OK)
        status = ledger_pass_on(database, hold.project, payer, now, error);
    if (status == WEFT_OK)
        *charged = amount;
    return status;
}

weft_status ledger_refund(struct database *database, int64_t run, int64_t epoch, const char *actor, const char *detail,
                          int64_t now, int64_t *refunded, struct error *error)
{
    struct ledger_hold hold;
    struct account spent;
    int64_t payer;
    bool there;
    weft_status status = find_hold(database, run, epoch, &hold, &payer, &there, error);
    *refunded = 0;
    if (status != WEFT_OK || !there || hold.refunded || !hold.charged)
        return status;
    if ((status = get_account(database, "spent", hold.project, "", &spent, error)) != WEFT_OK)
        return status;
    status = DATABASE_RUN(database, error, "UPDATE holds SET refunded = 1 WHERE run = ? AND epoch = ?", run, epoch);
    if (status != WEFT_OK)
        return status;
    const struct posting posting = {.kind = "refund",
                                    .project = hold.project,
                                    .run = run,
                                    .epoch = epoch,
                                    .actor = actor,
                                    .detail = detail,
                                    .now = now};
    status = ledger_move(database, posting, spent.account, payer, hold.charged, error);
    if (status == WEFT_OK)
        status = ledger_pass_on(database, hold.project, payer, now, error);
    if (status == WEFT_OK)
        *refunded = hold.charged;
    return status;
}
