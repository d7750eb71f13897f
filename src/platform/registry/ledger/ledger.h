/* SPDX-License-Identifier: Apache-2.0 */
/**
 * Budgets, as a double-entry ledger. The rules of registry.h hold.
 *
 * Amounts are slot-milliseconds: one slot (a GPU, or a CPU slot) for a millisecond. Whole numbers, so nothing is
 * rounded away. An account has a balance; a posting moves amounts between accounts and its entries sum to zero. So all
 * balances together are zero at any time, and every balance is the sum of its entries: ledger_check() looks.
 *
 *     source   where budgets come from; the only one that may be negative
 *     pool     a project's
 *     member   what a manager of a project has handed to one of its members
 *     held     of a project: taken for attempts that are under way
 *     spent    of a project: what attempts have used
 *
 *     source ──accrual, grant──► pool ◄──transfer──► member ──hold──► held ──charge──► spent
 *                                                                       └──rest──► back to who paid
 *
 * Accrual: a budget grows at `rate` a day, up to the point where pool, members and held together are `cap`. What comes
 * beyond the cap is lost. An administrator's grant may go beyond it.
 *
 * Who pays for a run: its owner's member account if it suffices, else the project's pool if the budget is shared or the
 * owner is a manager. A project that has no budget is not limited: the source pays, and what it spends is still
 * counted.
 *
 * An attempt holds size x time limit when it is placed, or what is left if that is enough to begin with; then the hold
 * ends before the time limit (ledger_hold_end()), and the run is to be checkpointed, stopped and queued again. In the
 * end what was used since the attempt ran on all of its nodes is charged, never more than was held (the grace in which
 * a run ends is the platform's), and the rest goes back. A failure of the platform is charged with nothing; one that is
 * found out later is refunded.
 */
#ifndef WEFT_PLATFORM_REGISTRY_LEDGER_LEDGER_H
#define WEFT_PLATFORM_REGISTRY_LEDGER_LEDGER_H

#include "platform/registry/registry.h"
#include "platform/registry/run_specification.h"

#define LEDGER_SLOT_MINUTE ((int64_t)60000)
#define LEDGER_DAY         ((int64_t)86400000)         /**< milliseconds */
#define LEDGER_MOST        ((int64_t)1000000000000000) /**< of a single amount: a million slots for 11 days */

struct ledger_budget {
    bool limited;                       /**< false: the project has no budget; rate, cap and shared mean nothing then */
    int64_t rate;                       /**< slot-milliseconds a day */
    int64_t cap;                        /**< slot-milliseconds */
    bool shared;                        /**< members draw on the pool too, when their own account does not suffice */
    int64_t pool, members, held, spent; /**< balances; `members` is the sum of all of them */
    int64_t accruing;                   /**< of the pool: what has accrued, and is not posted yet */
    int64_t accrued;                    /**< until when it is posted */
};

struct ledger_balance {
    char user[PLATFORM_NAME_BYTES];
    int64_t balance;
};

struct ledger_hold {
    int64_t run, epoch;
    char project[PLATFORM_NAME_BYTES];
    int64_t amount, opened, settled; /**< settled: 0 while it is open */
    int64_t charged;                 /**< of the amount, once settled */
    bool refunded;                   /**< what was charged has been given back */
};

/** What somebody's runs in a project can be paid from. */
struct ledger_funds {
    bool limited;         /**< false: the project has no budget, and nothing below means anything */
    bool draws;           /**< on the pool too, not on the member's own account alone */
    int64_t member, pool; /**< balances */
    int64_t most;         /**< that the pool could have if all that is held came back and accrual went on for ever */
    int64_t rate, cap;    /**< as in struct ledger_budget */
    int64_t accrued;      /**< until when the pool's accrual is posted */
    int64_t room;         /**< what may accrue from then on, below the cap */
};

struct ledger_entry {
    int64_t posting, time;
    char kind[16];                  /**< "accrual", "grant", "transfer", "hold", "settlement", "refund" */
    char account[16];               /**< "source", "pool", "member", "held", "spent" */
    char user[PLATFORM_NAME_BYTES]; /**< of a member's account */
    int64_t amount;
    int64_t run, epoch;              /**< 0 where there is none */
    char actor[PLATFORM_NAME_BYTES]; /**< "" for the platform */
    char detail[REGISTRY_DETAIL_BYTES];
};

/** Give the project a budget or change it, by an administrator. What has accrued until now stays. */
weft_status ledger_budget_put(struct database *database, const char *project, int64_t rate, int64_t cap, bool shared,
                              int64_t now, struct error *error);

/** As it is at `now`: with what has accrued since it was last posted. Nothing is posted by that. */
weft_status ledger_budget_get(struct database *database, const char *project, int64_t now, struct ledger_budget *budget,
                              struct error *error);

/** Post what has accrued until `now`; `*added` may be 0. Costs a posting: once a minute where somebody waits for it,
 * before a hold, and else once an hour will do. */
weft_status ledger_accrue(struct database *database, const char *project, int64_t now, int64_t *added,
                          struct error *error);

/** The clock was set by `by` milliseconds (below 0: back): nothing accrues for time that did not pass, and accrual does
 * not stop until a clock that was corrected has caught up. */
weft_status ledger_shift(struct database *database, int64_t by, struct error *error);

/** Give the pool of a project that has a budget an amount, or take it away (below 0). `actor` must be an administrator.
 */
weft_status ledger_grant(struct database *database, const char *project, int64_t amount, const char *actor,
                         const char *detail, int64_t now, struct error *error);

/** Move an amount above 0 between members of the project, and its pool (""). `actor` must be a manager of it. */
weft_status ledger_transfer(struct database *database, const char *project, const char *from, const char *to,
                            int64_t amount, const char *actor, const char *detail, int64_t now, struct error *error);

/** What somebody has who is no member of the project any more goes to its pool. `actor` is who has seen to that. */
weft_status ledger_leave(struct database *database, const char *project, const char *user, const char *actor,
                         int64_t now, struct error *error);

/**
 * Hold `wanted`, or at least `least`, for the attempt `epoch` of `run`, which has been placed. Its owner pays as said
 * above, or the platform if `personal`. `*held` is what it was. A second call for the same attempt changes nothing.
 * Errors: STATE with what there is and what is needed.
 */
weft_status ledger_hold(struct database *database, int64_t run, int64_t epoch, int64_t wanted, int64_t least,
                        bool personal, int64_t now, int64_t *held, struct error *error);

/** When the hold of an attempt of `size` slots that began to run at `started` is used up. */
static inline int64_t ledger_hold_end(int64_t held, int64_t size, int64_t started)
{
    return started + held / size;
}

/**
 * The holds of running attempts that are used up at `now`, so that these are to be checkpointed, stopped and queued
 * again (RUN_CAUSE_BUDGET_END), and in `*next` when the next one will be (INT64_MAX: none). Holds that last for the
 * time limit are left to that. *list is to be freed.
 */
weft_status ledger_exhausted(struct database *database, int64_t now, struct ledger_hold **list, size_t *count,
                             int64_t *next, struct error *error);

/**
 * End the hold of an attempt: charge `used` and give the rest back. Nothing happens if that was done, or if nothing is
 * held for it. `*charged` is what it cost.
 */
weft_status ledger_settle(struct database *database, int64_t run, int64_t epoch, int64_t used, const char *detail,
                          int64_t now, int64_t *charged, struct error *error);

/** Give back what an attempt was charged. Once: a second call changes nothing. */
weft_status ledger_refund(struct database *database, int64_t run, int64_t epoch, const char *actor, const char *detail,
                          int64_t now, int64_t *refunded, struct error *error);

/** What is posted, which is what attempts can be held for. */
weft_status ledger_funds_get(struct database *database, const char *project, const char *user,
                             struct ledger_funds *funds, struct error *error);

/** What the pool is at `now`, once that is posted. */
int64_t ledger_funds_pool(const struct ledger_funds *funds, int64_t now);

/** When the pool has `lacking` more than what is posted; 0: never, or not in ten years. */
int64_t ledger_funds_when(const struct ledger_funds *funds, int64_t lacking);

/** The names of all projects that have a budget; *list is to be freed. */
weft_status ledger_projects(struct database *database, char (**list)[PLATFORM_NAME_BYTES], size_t *count,
                            struct error *error);

/** The members' accounts of a project that have ever had anything; all holds that are open. *list is to be freed. */
weft_status ledger_balances(struct database *database, const char *project, struct ledger_balance **list, size_t *count,
                            struct error *error);
weft_status ledger_open_holds(struct database *database, struct ledger_hold **list, size_t *count, struct error *error);

/** The holds of a run, by attempt; *list is to be freed. */
weft_status ledger_holds_of(struct database *database, int64_t run, struct ledger_hold **list, size_t *count,
                            struct error *error);

/** Up to `most` (3 at least) entries of a project's postings below number `before` (0: the newest), newest first, whole
 * postings. */
weft_status ledger_entries(struct database *database, const char *project, int64_t before, size_t most,
                           struct ledger_entry **list, size_t *count, struct error *error);

/** Look at all sums (about 1 s for a million entries). Errors: DATA with the first one that is wrong. */
weft_status ledger_check(struct database *database, struct error *error);

#endif
