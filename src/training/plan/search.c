/* SPDX-License-Identifier: Apache-2.0 */
#include "training/plan/search.h"

#include <stdlib.h>
#include <string.h>

/* A set of strategies that is left to look at. */
struct search_set {
    double bound;
    enum search_effort effort; /* that the bound has taken */
    enum strategy_depth depth;
    uint64_t number; /* in the order of creation: makes the search deterministic */
    struct strategy partial;
};

struct search {
    const struct search_problem *problem;
    struct search_result *result;
    struct search_set *sets; /* a heap, lowest bound first */
    size_t count, room;
    uint64_t numbers;
    struct strategy_list children;
};

/* ---- the heap ---- */

/* Of equal bounds, sets with more choices made come first. */
static bool set_precedes(const struct search_set *a, const struct search_set *b)
{
    if (a->bound != b->bound)
        return a->bound < b->bound;
    if (a->depth != b->depth)
        return a->depth > b->depth;
    return a->number < b->number;
}

static void set_swap(struct search_set *a, struct search_set *b)
{
    const struct search_set set = *a;
    *a = *b;
    *b = set;
}

static weft_status search_push(struct search *search, const struct search_set *set, struct error *error)
{
    weft_status status = ARRAY_RESERVE(search->sets, search->room, search->count + 1, "the sets of strategies", error);
    if (status != WEFT_OK)
        return status;
    size_t at = search->count++;
    search->sets[at] = *set;
    for (; at > 0 && set_precedes(&search->sets[at], &search->sets[(at - 1) / 2]); at = (at - 1) / 2)
        set_swap(&search->sets[at], &search->sets[(at - 1) / 2]);
    return WEFT_OK;
}

static struct search_set search_pop(struct search *search)
{
    const struct search_set first = search->sets[0];
    search->sets[0] = search->sets[--search->count];
    for (size_t at = 0, child; (child = 2 * at + 1) < search->count; at = child) {
        if (child + 1 < search->count && set_precedes(&search->sets[child + 1], &search->sets[child]))
            child++;
        if (!set_precedes(&search->sets[child], &search->sets[at]))
            break;
        set_swap(&search->sets[child], &search->sets[at]);
    }
    return first;
}

/* ---- plans ---- */

int search_plan_compare(const struct search_plan *a, const struct search_plan *b)
{
    const float first = (float)a->price.seconds, second = (float)b->price.seconds;
    if (first != second)
        return first < second ? -1 : 1;
    for (unsigned level = STEP_LINK_LEVELS; level-- > 1;)
        if (a->price.bytes[level] != b->price.bytes[level])
            return a->price.bytes[level] < b->price.bytes[level] ? -1 : 1;
    return strategy_compare(&a->strategy, &b->strategy);
}

static int compare_plans(const void *a, const void *b)
{
    return search_plan_compare(a, b);
}

/* Whether a set may have a strategy that precedes the best one, by more than the gap that is allowed. */
static bool set_may_win(const struct search *search, double bound)
{
    const struct search_result *result = search->result;
    return !result->count || (float)bound <= (float)(result->plans[0].price.seconds * (1 - search->problem->gap));
}

static weft_status price_strategy(struct search *search, const struct strategy *strategy, struct error *error)
{
    struct search_result *result = search->result;
    struct search_plan plan = {.strategy = *strategy};
    bool needless = false;
    weft_status status = WEFT_OK;
    if (search->problem->is_needless)
        status = search->problem->is_needless(search->problem->context, strategy, &needless, error);
    if (status != WEFT_OK || needless) {
        result->excluded += needless;
        return status;
    }
    status = search->problem->price(search->problem->context, strategy, &plan.price, error);
    if (status == WEFT_OK)
        status = ARRAY_RESERVE(result->plans, result->room, result->count + 1, "the plans", error);
    if (status != WEFT_OK)
        return status;
    result->plans[result->count++] = plan;
    result->priced++;
    if (search_plan_compare(&plan, &result->plans[0]) < 0) { /* the best is always the first */
        result->plans[result->count - 1] = result->plans[0];
        result->plans[0] = plan;
    }
    return WEFT_OK;
}

/* ---- sets ---- */

/* Whether a set is out for its memory. */
static weft_status set_exceeds(struct search *search, const struct search_set *set, bool exact, bool *exceeds,
                               struct error *error)
{
    struct search_result *result = search->result;
    const struct search_problem *problem = search->problem;
    uint64_t bytes = 0;
    weft_status status = problem->excess(problem->context, &set->partial, set->depth, exact, &bytes, error);
    *exceeds = bytes > 0;
    if (status != WEFT_OK || !bytes)
        return status;
    result->unfit += strategy_count(problem->space, &set->partial, set->depth);
    if (!result->unfit_bound || set->bound < result->unfit_bound)
        result->unfit_bound = set->bound;
    if (!result->least_excess || bytes < result->least_excess) {
        result->least_excess = bytes;
        result->least_excessive = set->partial;
        result->least_depth = set->depth;
    }
    return WEFT_OK;
}

static weft_status set_expand(struct search *search, const struct search_set *set, struct error *error)
{
    const struct search_problem *problem = search->problem;
    search->children.count = 0;
    weft_status status = strategy_expand(problem->space, &set->partial, set->depth, &search->children, error);
    for (size_t i = 0; i < search->children.count && status == WEFT_OK; i++) {
        struct search_set child = {.depth = (enum strategy_depth)(set->depth + 1),
                                   .partial = search->children.items[i]};
        child.number = search->numbers++;
        status = problem->bound(problem->context, &child.partial, child.depth, SEARCH_QUICK, &child.bound, error);
        if (child.bound < set->bound)
            child.bound = set->bound;
        if (status == WEFT_OK)
            status = search_push(search, &child, error);
    }
    return status;
}

/* Bound a set with more effort, unless it does not fit. */
static weft_status set_bound(struct search *search, struct search_set *set, bool *exceeds, struct error *error)
{
    const struct search_problem *problem = search->problem;
    double seconds = 0;
    set->effort++;
    weft_status status = set_exceeds(search, set, set->effort == SEARCH_TIGHT, exceeds, error);
    if (status == WEFT_OK && !*exceeds)
        status = problem->bound(problem->context, &set->partial, set->depth, set->effort, &seconds, error);
    set->bound = seconds > set->bound ? seconds : set->bound;
    return status;
}

/* Expand a set, or price the strategy that is left of it. */
static weft_status set_visit(struct search *search, struct search_set *set, struct error *error)
{
    const enum search_effort most = set->depth == STRATEGY_ALL     ? SEARCH_QUICK
                                    : set->depth == STRATEGY_WHOLE ? SEARCH_TIGHT
                                                                   : SEARCH_CLOSE;
    while (set->effort < most) {
        const double before = set->bound;
        bool exceeds = false;
        weft_status status = set_bound(search, set, &exceeds, error);
        if (status != WEFT_OK || exceeds)
            return status;
        if (set->bound > before) /* others may come first now */
            return search_push(search, set, error);
    }
    return set->depth == STRATEGY_WHOLE ? price_strategy(search, &set->partial, error) : set_expand(search, set, error);
}

static void search_conclude(struct search *search)
{
    struct search_result *result = search->result;
    for (size_t i = 0; i < search->count; i++) /* those that follow were not looked at either */
        if (result->count && search->sets[i].bound >= result->plans[0].price.seconds)
            result->excluded += strategy_count(search->problem->space, &search->sets[i].partial, search->sets[i].depth);
    if (search->count && result->count && search->sets[0].bound < result->plans[0].price.seconds)
        result->gap = 1 - search->sets[0].bound / result->plans[0].price.seconds;
    if (result->count)
        qsort(result->plans, result->count, sizeof *result->plans, compare_plans);
}

weft_status search_run(const struct search_problem *problem, struct search_result *result, struct error *error)
{
    struct search search = {.problem = problem, .result = result};
    const uint64_t most = problem->prices_most;
    *result = (struct search_result){.strategies = strategy_count(problem->space, NULL, STRATEGY_ALL)};
    weft_status status = search_push(&search, &(struct search_set){.depth = STRATEGY_ALL}, error);
    while (status == WEFT_OK && search.count && set_may_win(&search, search.sets[0].bound) &&
           !(most && result->priced >= most)) {
        struct search_set set = search_pop(&search);
        status = set_visit(&search, &set, error);
    }
    if (status == WEFT_OK)
        search_conclude(&search);
    free(search.sets);
    free(search.children.items);
    return status;
}

void search_result_free(struct search_result *result)
{
    free(result->plans);
    *result = (struct search_result){0};
}
