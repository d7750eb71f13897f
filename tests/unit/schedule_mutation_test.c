/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The verifier is as good as what it complains about: every step of every algorithm is dropped, doubled, swapped,
 * retargeted and loosened, one change at a time, and the verifier must complain of each mutant, unless it is the same
 * plan in other words.
 */
#include "schedule/sweep.h"
#include "schedule/verify_machine.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum mutation {
    DROP,
    DUPLICATE,
    SWAP,
    PEER,
    CHANNEL,
    SOURCE_UP,
    SOURCE_DOWN,
    TARGET_UP,
    TARGET_DOWN,
    SOURCE_BUFFER,
    TARGET_BUFFER,
    CHUNKS_UP,
    CHUNKS_DOWN,
    VALUE_UP,
    VALUE_DOWN,
    VALUE_LAG,
    STRIDE_UP,
    OPERANDS_UP,
    OPERANDS_DOWN,
    FINISHES,
    RECEIVED_FIRST,
    WAIT_NONE,
    WAIT_LESS,
    WAIT_LANE,
    WAIT_LAG_UP,
    WAIT_LAG_DOWN,
    MUTATIONS
};
static const char *const names[MUTATIONS] = {
    "drop",      "duplicate", "swap",      "peer",       "channel",    "source+1", "source-1",
    "target+1",  "target-1",  "source",    "target",     "chunks+1",   "chunks-1", "value+1",
    "value-1",   "value-lag", "stride+1",  "operands+1", "operands-1", "finishes", "first",
    "wait-none", "wait-less", "wait-lane", "wait-lag+1", "wait-lag-1",
};

static uint32_t lane_of(const struct plan *plan, uint32_t index)
{
    uint32_t lane = 0;
    while (index >= plan->lane_first[lane + 1])
        lane++;
    return lane;
}

/* Waits go on meaning the same steps when the lane's step `at` is gone (by -1) or there twice (+1). */
static void shift_waits(struct plan *plan, uint32_t lane, uint32_t at, int by)
{
    for (uint32_t i = 0; i < plan->step_count; i++)
        if (plan->steps[i].wait_lane == lane && plan->steps[i].wait_steps > at)
            plan->steps[i].wait_steps = (uint16_t)(plan->steps[i].wait_steps + by);
}

static void copy_plan(const struct plan *plan, struct plan *mutant, struct step *steps)
{
    *mutant = *plan;
    mutant->steps = steps;
    memcpy(steps, plan->steps, plan->step_count * sizeof *steps);
}

/* Change one step; false when there is nothing to change. */
static bool mutate(struct plan *plan, uint32_t index, enum mutation mutation)
{
    struct step *step = &plan->steps[index], before = *step;
    uint32_t lane = lane_of(plan, index), at = index - plan->lane_first[lane];
    bool message = step->kind <= STEP_RECEIVE_REDUCE;
    bool has_rank = message || step->kind == STEP_READ || step->kind == STEP_DELIVER;
    switch (mutation) {
    case DROP:
        memmove(step, step + 1, (plan->step_count - index - 1) * sizeof *step);
        plan->step_count--;
        for (uint32_t i = lane + 1; i <= PLAN_LANES; i++)
            plan->lane_first[i]--;
        shift_waits(plan, lane, at, -1);
        return true;
    case DUPLICATE:
        memmove(step + 1, step, (plan->step_count - index) * sizeof *step);
        plan->step_count++;
        for (uint32_t i = lane + 1; i <= PLAN_LANES; i++)
            plan->lane_first[i]++;
        shift_waits(plan, lane, at + 1, 1);
        return true;
    case SWAP:
        if (index + 1 == plan->lane_first[lane + 1])
            return false;
        step[0] = step[1];
        step[1] = before;
        return memcmp(step, &before, sizeof before) != 0;
    case PEER:
        step->peer = has_rank            ? (step->peer + 1) % plan->ranks
                     : plan->group_count ? (step->peer + 1) % plan->group_count
                                         : 0;
        break;
    case CHANNEL:
        step->channel += message;
        break;
    case SOURCE_UP:
        step->source_chunk++;
        break;
    case SOURCE_DOWN:
        step->source_chunk -= step->source_chunk > 0;
        break;
    case TARGET_UP:
        step->target_chunk++;
        break;
    case TARGET_DOWN:
        step->target_chunk -= step->target_chunk > 0;
        break;
    case SOURCE_BUFFER:
        step->source = (step->source + 1) % 3;
        break;
    case TARGET_BUFFER:
        step->target = (step->target + 1) % 3;
        break;
    case CHUNKS_UP:
        step->chunks++;
        break;
    case CHUNKS_DOWN:
        step->chunks -= step->chunks > 0;
        break;
    case VALUE_UP:
        step->value++;
        break;
    case VALUE_DOWN:
        step->value -= step->value > 0;
        break;
    case VALUE_LAG:
        step->value_lag += step->kind == STEP_AWAIT;
        break;
    case STRIDE_UP:
        step->stride += step->kind == STEP_AWAIT || step->kind == STEP_REDUCE;
        break;
    case OPERANDS_UP:
        step->operands++;
        break;
    case OPERANDS_DOWN:
        step->operands -= step->operands > 0;
        break;
    case FINISHES:
        step->flags ^= STEP_FINISHES;
        break;
    case RECEIVED_FIRST:
        step->flags ^= step->kind == STEP_RECEIVE_REDUCE ? STEP_RECEIVED_FIRST : 0;
        break;
    case WAIT_NONE:
        step->wait_steps = 0;
        break;
    case WAIT_LESS:
        step->wait_steps -= step->wait_steps > 0;
        break;
    case WAIT_LANE:
        if (step->wait_steps)
            step->wait_lane = (uint8_t)((step->wait_lane + 1u) % plan->lane_count);
        break;
    case WAIT_LAG_UP:
        step->wait_lag += step->wait_steps > 0;
        break;
    case WAIT_LAG_DOWN:
        step->wait_lag -= step->wait_steps > 0 && step->wait_lag > 0;
        break;
    default:
        break;
    }
    return memcmp(step, &before, sizeof before) != 0;
}

/* A sanitizer makes everything slow: what it looks for is found in less. */
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define MOST_RANKS 3
#else
#define MOST_RANKS 4
#endif

/* Random executions of each mutant that is accepted without being the same plan. */
#define TRIALS 6

struct tally {
    uint64_t mutants, refused, equal, reordered, survivors, races, races_seen;
    uint64_t by_mutation[MUTATIONS];
    bool verbose;
};

/* A plan with a race should go wrong in some random execution: the second opinion has eyes. (It has luck as well.) */
static void try_race(struct plan **plans, const struct plan_shape *shape, struct tally *tally)
{
    uint32_t count;
    const struct verify_binding *bindings = verify_bindings(plans, shape->ranks, shape, &count);
    tally->races++;
    for (uint32_t i = 0; i < count; i++) {
        for (uint64_t seed = 0; seed < TRIALS; seed++) {
            if (verify_chaos(plans, shape->ranks, shape, &bindings[i], seed, NULL) != WEFT_OK) {
                tally->races_seen++;
                return;
            }
        }
    }
}

static void judge(struct plan **plans, const struct plan_shape *shape, const struct plan *original,
                  const struct verify_flow *flows, uint32_t index, enum mutation mutation, struct tally *tally)
{
    struct error error = {0};
    tally->mutants++;
    if (plan_verify(plans, shape->ranks, shape, &error) != WEFT_OK) {
        assert_int_equal(error.status, WEFT_ERROR_PLAN);
        assert_true(strlen(error.text) > 20);
        tally->refused++;
        if (strstr(error.text, "without being ordered") && tally->refused % 16 == 0)
            try_race(plans, shape, tally);
        return;
    }
    uint32_t count;
    bool same = true, same_data = true;
    const struct verify_binding *bindings = verify_bindings(plans, shape->ranks, shape, &count);
    for (uint32_t i = 0; i < count && same_data; i++) {
        struct verify_flow flow = {0};
        assert_int_equal(verify_run(plans, shape->ranks, shape, &bindings[i], 1, &flow, &error), WEFT_OK);
        same = same && verify_flow_equal(&flow, &flows[i], false);
        same_data = verify_flow_equal(&flow, &flows[i], true);
        verify_flow_free(&flow);
    }
    if (same) {
        tally->equal++;
        return;
    }
    /* Accepted, though it is not the same: it must stand a trial of another kind. */
    for (uint32_t i = 0; i < count; i++) {
        for (uint64_t seed = 0; seed < TRIALS; seed++) {
            if (verify_chaos(plans, shape->ranks, shape, &bindings[i], seed, &error) != WEFT_OK)
                fail_msg("%s by %s, step %u of rank %u, %s: proved, but goes wrong: %s",
                         collective_name(shape->collective), original->algorithm, index, original->rank,
                         names[mutation], error.text);
        }
    }
    /* Other data may only move where nothing is summed (a right value is written once more, or not again), or in sums
     * whose order is not promised. */
    assert_true(same_data || !collective_reduces(shape->collective) || !original->canonical);
    if (same_data) {
        tally->reordered++;
        tally->by_mutation[mutation]++;
    } else {
        tally->survivors++;
    }
    uint32_t lane = lane_of(original, index);
    if (tally->verbose)
        printf("%s: %s %s %u ranks, %s, rank %u lane %u step %u (%s): %s\n", same_data ? "reordered" : "survivor",
               collective_name(shape->collective), original->algorithm, shape->ranks,
               original->segment_bytes ? "segmented" : "whole", original->rank, lane,
               index - original->lane_first[lane], step_kind_name(original->steps[index].kind), names[mutation]);
}

static weft_status mutate_all(const struct algorithm *algorithm, const struct plan_shape *shape, void *context,
                              struct error *error)
{
    struct tally *tally = context;
    if (shape->root > 1)
        return WEFT_OK;
    struct plan **plans;
    assert_int_equal(sweep_generate(algorithm, shape, &plans, error), WEFT_OK);
    uint32_t count;
    const struct verify_binding *bindings = verify_bindings(plans, shape->ranks, shape, &count);
    struct verify_flow flows[6] = {{0}};
    for (uint32_t i = 0; i < count; i++)
        assert_int_equal(verify_run(plans, shape->ranks, shape, &bindings[i], 1, &flows[i], error), WEFT_OK);
    for (uint32_t rank = 0; rank < shape->ranks; rank++) {
        struct plan *original = plans[rank], mutant;
        struct step *steps = malloc((original->step_count + 1) * sizeof *steps);
        for (uint32_t index = 0; index < original->step_count; index++) {
            for (unsigned mutation = 0; mutation < MUTATIONS; mutation++) {
                copy_plan(original, &mutant, steps);
                if (!mutate(&mutant, index, (enum mutation)mutation))
                    continue;
                plans[rank] = &mutant;
                judge(plans, shape, original, flows, index, (enum mutation)mutation, tally);
                plans[rank] = original;
            }
        }
        free(steps);
    }
    for (uint32_t i = 0; i < count; i++)
        verify_flow_free(&flows[i]);
    sweep_free(plans, shape->ranks);
    return WEFT_OK;
}

static void every_mutant_is_refused_or_the_same_plan(void **state)
{
    struct tally tally = {.verbose = getenv("VERBOSE") != NULL};
    for (unsigned collective = 0; collective < COLLECTIVES; collective++) {
        size_t count;
        const struct algorithm *algorithms = algorithms_of((enum collective)collective, &count);
        for (size_t i = 0; i < count; i++)
            for (uint32_t ranks = 2; ranks <= MOST_RANKS; ranks++)
                assert_int_equal(
                    sweep_shapes((enum collective)collective, &algorithms[i], ranks, mutate_all, &tally, NULL),
                    WEFT_OK);
    }
    printf("%llu mutants, %llu refused, %llu the same, %llu in another order, %llu others\n",
           (unsigned long long)tally.mutants, (unsigned long long)tally.refused, (unsigned long long)tally.equal,
           (unsigned long long)tally.reordered, (unsigned long long)tally.survivors);
    printf("  of %llu races tried, random executions saw %llu\n", (unsigned long long)tally.races,
           (unsigned long long)tally.races_seen);
    assert_true(tally.races_seen * 2 > tally.races);
    for (unsigned i = 0; i < MUTATIONS; i++)
        if (tally.by_mutation[i])
            printf("  %s: %llu\n", names[i], (unsigned long long)tally.by_mutation[i]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_mutant_is_refused_or_the_same_plan),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
