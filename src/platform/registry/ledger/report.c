/* SPDX-License-Identifier: Apache-2.0 */
/* What the ledger says, and whether it is right. Nothing here changes anything. */
#include "platform/registry/internal/list.h"
#include "platform/registry/ledger/ledger.h"
#include "platform/registry/projects.h"
#include "platform/store/query.h"

#include <inttypes.h>
#include <stdio.h>

weft_status ledger_balances(struct database *database, const char *project, struct ledger_balance **list, size_t *count,
                            struct error *error)
{
    struct registry_list balances = {0};
    struct statement *select =
        DATABASE_QUERY(database,
                       "SELECT user, balance FROM accounts a WHERE project = ? AND kind = 'member' "
                       "AND EXISTS (SELECT 1 FROM entries e WHERE e.account = a.account) ORDER BY user",
                       project);
    for (struct ledger_balance *balance; (balance = registry_list_next(&balances, select, sizeof *balance));)
        STATEMENT_READ(select, 0, balance->user, &balance->balance);
    return registry_list_end(&balances, select, list, count, error);
}

weft_status ledger_funds_get(struct database *database, const char *project, const char *user,
                             struct ledger_funds *funds, struct error *error)
{
    struct ledger_budget budget;
    enum role role;
    *funds = (struct ledger_funds){.limited = false};
    weft_status status = ledger_budget_get(database, project, 0, &budget, error);
    if (status != WEFT_OK || !budget.limited)
        return status;
    if ((status = registry_role_get(database, project, user, &role, error)) != WEFT_OK)
        return status;
    struct statement *select = DATABASE_QUERY(
        database, "SELECT balance FROM accounts WHERE project = ? AND kind = 'member' AND user = ?", project, user);
    int64_t member = statement_next(select) ? statement_integer(select, 0) : 0;
    int64_t whole = budget.pool + budget.held, grown = budget.cap - budget.members;
    int64_t room = grown - whole;
    *funds = (struct ledger_funds){.limited = true,
                                   .draws = budget.shared || role >= ROLE_MANAGER,
                                   .member = member,
                                   .pool = budget.pool,
                                   .most = budget.rate && grown > whole ? grown : whole,
                                   .rate = budget.rate,
                                   .cap = budget.cap,
                                   .accrued = budget.accrued,
                                   .room = room > 0 ? room : 0};
    return statement_end(select, error);
}

int64_t ledger_funds_pool(const struct ledger_funds *funds, int64_t now)
{
    double days = (double)(now - funds->accrued) / (double)LEDGER_DAY;
    if (days <= 0)
        return funds->pool;
    double grown = days * (double)funds->rate;
    return funds->pool + (grown < (double)funds->room ? (int64_t)grown : funds->room);
}

int64_t ledger_funds_when(const struct ledger_funds *funds, int64_t lacking)
{
    if (funds->rate <= 0 || lacking <= 0 || lacking > funds->room)
        return 0;
    double days = (double)lacking / (double)funds->rate;
    return days > 3650 ? 0 : funds->accrued + (int64_t)(days * (double)LEDGER_DAY) + 1;
}

weft_status ledger_projects(struct database *database, char (**list)[PLATFORM_NAME_BYTES], size_t *count,
                            struct error *error)
{
    struct registry_list names = {0};
    struct statement *select = database_prepare(database, "SELECT project FROM budgets ORDER BY project");
    for (char *name; statement_next(select) && (name = registry_list_add(&names, PLATFORM_NAME_BYTES));)
        statement_copy_text(select, 0, name, PLATFORM_NAME_BYTES);
    return registry_list_end(&names, select, list, count, error);
}

#define HOLDS                                                                                                          \
    "SELECT h.run, h.epoch, h.amount, h.opened, h.settled, h.charged, h.refunded, r.project "                          \
    "FROM holds h JOIN runs r USING (run) WHERE "

static weft_status list_holds(struct statement *select, struct ledger_hold **list, size_t *count, struct error *error)
{
    struct registry_list holds = {0};
    for (struct ledger_hold *hold; (hold = registry_list_next(&holds, select, sizeof *hold));)
        STATEMENT_READ(select, 0, &hold->run, &hold->epoch, &hold->amount, &hold->opened, &hold->settled,
                       &hold->charged, &hold->refunded, hold->project);
    return registry_list_end(&holds, select, list, count, error);
}

weft_status ledger_exhausted(struct database *database, int64_t now, struct ledger_hold **list, size_t *count,
                             int64_t *next, struct error *error)
{
/* Dropped nodes are paid for until they were lost. */
#define DROPPED_NODES(what)                                                                                            \
    "(SELECT ifnull(" what ", 0) FROM nodes n WHERE n.run = r.run AND n.epoch = r.epoch AND n.dropped)"
#define HOLD_END                                                                                                       \
    "((h.amount / r.slots + r.nodes * r.started - " DROPPED_NODES(                                                     \
        "sum(max(n.ended, r.started))") ") / (r.nodes - " DROPPED_NODES("count(*)") "))"
#define SHORT_HOLDS                                                                                                    \
    "h.settled = 0 AND r.epoch = h.epoch AND r.state = 'running' AND h.amount < r.nodes * r.slots * r.time_limit * "   \
    "1000 "                                                                                                            \
    "AND " HOLD_END
    int64_t ends = INT64_MAX;
    struct statement *select = DATABASE_QUERY(database,
                                              "SELECT min(" HOLD_END ") FROM holds h JOIN runs r USING (run) "
                                              "WHERE " SHORT_HOLDS " > ?",
                                              now);
    if (statement_next(select) && !statement_is_null(select, 0))
        ends = statement_integer(select, 0);
    weft_status status = statement_end(select, error);
    if (status != WEFT_OK)
        return status;
    select = DATABASE_QUERY(database, HOLDS SHORT_HOLDS " <= ? ORDER BY h.run", now);
    status = list_holds(select, list, count, error);
    if (status == WEFT_OK)
        *next = ends;
    return status;
}

weft_status ledger_open_holds(struct database *database, struct ledger_hold **list, size_t *count, struct error *error)
{
    return list_holds(database_prepare(database, HOLDS "h.settled = 0 ORDER BY h.run, h.epoch"), list, count, error);
}

weft_status ledger_holds_of(struct database *database, int64_t run, struct ledger_hold **list, size_t *count,
                            struct error *error)
{
    struct statement *select = DATABASE_QUERY(database, HOLDS "h.run = ? ORDER BY h.epoch", run);
    return list_holds(select, list, count, error);
}

weft_status ledger_entries(struct database *database, const char *project, int64_t before, size_t most,
                           struct ledger_entry **list, size_t *count, struct error *error)
{
    struct registry_list entries = {0};
    size_t whole = 0; /* entries up to the last posting that is complete */
    struct statement *select = DATABASE_QUERY(
        database,
        "SELECT p.posting, p.time, p.kind, a.kind, a.user, e.amount, ifnull(p.run, 0), ifnull(p.epoch, 0), "
        "p.actor, p.detail FROM postings p JOIN entries e USING (posting) JOIN accounts a USING (account) "
        "WHERE p.project = ? AND p.posting < ? ORDER BY p.posting DESC, e.account",
        project, before ? before : INT64_MAX);
    for (int64_t last = 0; statement_next(select);) {
        if (statement_integer(select, 0) != last)
            whole = entries.count;
        struct ledger_entry *entry;
        if (entries.count == most || !(entry = registry_list_add(&entries, sizeof *entry))) {
            entries.count = whole;
            break;
        }
        last = entry->posting = statement_integer(select, 0);
        STATEMENT_READ(select, 1, &entry->time, entry->kind, entry->account, entry->user, &entry->amount, &entry->run,
                       &entry->epoch, entry->actor, entry->detail);
    }
    return registry_list_end(&entries, select, list, count, error);
}

/* Each finds what must not be: a number and what it is about. */
static const struct {
    const char *sql, *what;
} rules[] = {
    {"SELECT posting, sum(amount) FROM entries GROUP BY posting HAVING sum(amount) != 0",
     "posting %" PRId64 " sums to"},
    {"SELECT account, balance - (SELECT ifnull(sum(amount), 0) FROM entries e WHERE e.account = a.account) AS wrong "
     "FROM accounts a WHERE wrong != 0",
     "the balance of account %" PRId64 " is beside the sum of its entries by"},
    {"SELECT account, balance FROM accounts WHERE balance < least", "account %" PRId64 " is below what is allowed at"},
    {"SELECT a.account, a.balance - ifnull(sum(h.amount), 0) AS wrong FROM accounts a LEFT JOIN runs r USING (project) "
     "LEFT JOIN holds h ON h.run = r.run AND h.settled = 0 WHERE a.kind = 'held' GROUP BY a.account HAVING wrong != 0",
     "the held account %" PRId64 " is beside the open holds by"},
    {"SELECT a.account, a.balance - ifnull(sum(h.charged), 0) AS wrong FROM accounts a LEFT JOIN runs r USING "
     "(project) "
     "LEFT JOIN holds h ON h.run = r.run AND h.refunded = 0 WHERE a.kind = 'spent' GROUP BY a.account HAVING wrong != "
     "0",
     "the spent account %" PRId64 " is beside what attempts were charged by"},
    {"SELECT run, charged - amount FROM holds WHERE charged > amount OR charged < 0 OR amount < 1",
     "run %" PRId64 " was charged beyond its hold by"},
    {"SELECT count(*), sum(balance) FROM accounts HAVING sum(balance) != 0", "all %" PRId64 " balances together are"},
};

weft_status ledger_check(struct database *database, struct error *error)
{
    weft_status status = WEFT_OK;
    for (size_t i = 0; i < ARRAY_SIZE(rules) && status == WEFT_OK; i++) {
        struct statement *select = database_prepare(database, rules[i].sql);
        int64_t about = 0, amount = 0;
        bool wrong = statement_next(select);
        if (wrong)
            STATEMENT_READ(select, 0, &about, &amount);
        status = statement_end(select, error);
        if (status == WEFT_OK && wrong) {
            char what[160];
            snprintf(what, sizeof what, rules[i].what, about);
            status = error_set(error, WEFT_ERROR_DATA, "the ledger in '%s' is wrong: %s %" PRId64,
                               database_path(database), what, amount);
        }
    }
    return status;
}
