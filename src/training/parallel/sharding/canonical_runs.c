/* SPDX-License-Identifier: Apache-2.0 */
#include "training/parallel/sharding/canonical_runs.h"

struct micro_batch_share micro_batch_run(const struct micro_batch_division *division, uint32_t rank)
{
    const uint32_t each = division->total / division->ranks, more = division->total % division->ranks;
    struct micro_batch_share run = {
        .first = rank * each + (rank < more ? rank : more), .stride = 1, .count = each + (rank < more)};
    if (!division->counts)
        return run;
    run.first = 0;
    for (uint32_t r = 0; r < rank; r++)
        run.first += division->counts[r];
    run.count = division->counts[rank];
    return run;
}

struct micro_batch_share micro_batch_turns(const struct micro_batch_division *division, uint32_t rank)
{
    const uint32_t total = division->total, ranks = division->ranks;
    return (struct micro_batch_share){
        .first = rank, .stride = ranks, .count = total > rank ? (total - rank + ranks - 1) / ranks : 0};
}

uint32_t micro_batch_rounds(const struct micro_batch_division *division)
{
    uint32_t most = 0;
    for (uint32_t r = 0; division->counts && r < division->ranks; r++)
        most = division->counts[r] > most ? division->counts[r] : most;
    return division->counts ? most : (division->total + division->ranks - 1) / division->ranks;
}

bool micro_batch_runs_are_subtrees(const struct micro_batch_division *division)
{
    const uint32_t each = division->total / division->ranks;
    return division->total % division->ranks == 0 && each > 0 &&
           (each & (each - 1)) == 0 && /* they begin at multiples of their length */
           micro_batch_rounds(division) == each;
}

bool micro_batch_sums_scatter(uint32_t zero, const struct micro_batch_division *division)
{
    const uint32_t ranks = division->ranks;
    if (zero >= 2) /* the micro-batches of a round are a subtree */
        return (ranks & (ranks - 1)) == 0;
    return zero == 1 && micro_batch_runs_are_subtrees(division);
}

static bool are_siblings(struct canonical_root left, struct canonical_root right)
{
    return left.level == right.level && (left.start >> left.level) % 2 == 0;
}

bool canonical_stack_continues(const struct canonical_stack *stack, struct canonical_root root)
{
    return stack->depth > 0 && are_siblings(stack->roots[stack->depth - 1], root);
}

bool canonical_stack_can_merge(const struct canonical_stack *stack)
{
    return stack->depth > 1 && are_siblings(stack->roots[stack->depth - 2], stack->roots[stack->depth - 1]);
}

void canonical_stack_merge(struct canonical_stack *stack)
{
    stack->depth--;
    stack->roots[stack->depth - 1].level++;
}

static uint32_t push_run(uint32_t first, uint32_t count, struct canonical_stack *stack)
{
    uint32_t most = 0;
    stack->depth = 0;
    for (uint32_t m = first; m < first + count; m++) {
        const struct canonical_root leaf = {.start = m};
        /* A leaf that has its sibling on top is added to it and needs no array of its own. */
        const uint32_t depth = stack->depth + !canonical_stack_continues(stack, leaf);
        most = depth > most ? depth : most;
        canonical_stack_push(stack, leaf);
        while (canonical_stack_can_merge(stack))
            canonical_stack_merge(stack);
    }
    return most;
}

void canonical_stack_of_run(uint32_t first, uint32_t count, struct canonical_stack *stack)
{
    push_run(first, count, stack);
}

uint32_t canonical_roots_of_runs(const struct micro_batch_division *division)
{
    uint32_t most = 1, first = 0;
    if (micro_batch_runs_are_subtrees(division))
        return 1;
    for (uint32_t r = 0; r < division->ranks; r++) {
        const uint32_t count = division->counts ? division->counts[r] : micro_batch_run(division, r).count;
        struct canonical_stack roots;
        canonical_stack_of_run(first, count, &roots);
        most = roots.depth > most ? roots.depth : most;
        first += count;
    }
    return most;
}

uint32_t canonical_stack_room(uint32_t first, uint32_t count)
{
    struct canonical_stack stack;
    if (first > 0)
        return push_run(first, count, &stack);
    /* From the beginning: before micro-batch m there is a root for each 1 in m / 2 and, if m is odd, its sibling. The most
     * ones are those of the largest number 2^n - 1 up to (count - 1) / 2. */
    uint32_t room = count > 0;
    while (count > 0 && (2u << (room - 1)) <= (count + 1) / 2)
        room++;
    return room;
}
