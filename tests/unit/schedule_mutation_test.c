/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The verifier is as good as what it complains about: every step of every algorithm is dropped, doubled, swapped,
 * retargeted and loosened, one change at a time, and the verifier must complain of each mutant, unless it is the same
 * schedule in other words.
 */
#include "../support/verify_chaos.h"
#include "../support/verify_flow.h"
#include "../survivors.h"
#include "base/hash.h"
#include "core/schedule/verify/internal/machine.h"
#include "core/schedule/verify/sweep.h"
#include "core/schedule/verify/verify.h"

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
    WAIT_STAGED,
    MUTATIONS
};
static const char *const names[MUTATIONS] = {
    "drop",      "duplicate", "swap",      "peer",       "channel",    "source+1",    "source-1",
    "target+1",  "target-1",  "source",    "target",     "chunks+1",   "chunks-1",    "value+1",
    "value-1",   "value-lag", "stride+1",  "operands+1", "operands-1", "finishes",    "first",
    "wait-none", "wait-less", "wait-lane", "wait-lag+1", "wait-lag-1", "wait-staged",
};

static uint32_t lane_of(const struct schedule *schedule, uint32_t index)
{
    uint32_t lane = 0;
    while (index >= schedule->lane_first[lane + 1])
        lane++;
    return lane;
}

/* Waits go on meaning the same steps when the lane's step `at` is gone (by -1) or there twice (+1). */
static void shift_waits(struct schedule *schedule, uint32_t lane, uint32_t at, int by)
{
    for (uint32_t i = 0; i < schedule->step_count; i++)
        if (schedule->steps[i].wait_lane == lane && schedule->steps[i].wait_steps > at)
            schedule->steps[i].wait_steps = (uint16_t)(schedule->steps[i].wait_steps + by);
}

static void copy_schedule(const struct schedule *schedule, struct schedule *mutant, struct step *steps)
{
    *mutant = *schedule;
    mutant->steps = steps;
    memcpy(steps, schedule->steps, schedule->step_count * sizeof *steps);
}

static bool exposes(const struct schedule *schedule)
{
    for (uint32_t i = 0; i < schedule->step_count; i++)
        if (schedule->steps[i].kind == STEP_EXPOSE)
            return true;
    return false;
}

/* Change one step; false when there is nothing to change. */
static bool mutate(struct schedule *schedule, uint32_t index, enum mutation mutation)
{
    struct step *step = &schedule->steps[index], before = *step;
    uint32_t lane = lane_of(schedule, index), at = index - schedule->lane_first[lane];
    bool message = step->kind <= STEP_RECEIVE_REDUCE;
    bool has_rank = message || step->kind == STEP_READ || step->kind == STEP_DELIVER;
    switch (mutation) {
    case DROP:
        memmove(step, step + 1, (schedule->step_count - index - 1) * sizeof *step);
        schedule->step_count--;
        for (uint32_t i = lane + 1; i <= SCHEDULE_LANES; i++)
            schedule->lane_first[i]--;
        shift_waits(schedule, lane, at, -1);
        return true;
    case DUPLICATE:
        memmove(step + 1, step, (schedule->step_count - index) * sizeof *step);
        schedule->step_count++;
        for (uint32_t i = lane + 1; i <= SCHEDULE_LANES; i++)
            schedule->lane_first[i]++;
        shift_waits(schedule, lane, at + 1, 1);
        return true;
    case SWAP:
        if (index + 1 == schedule->lane_first[lane + 1])
            return false;
        step[0] = step[1];
        step[1] = before;
        return memcmp(step, &before, sizeof before) != 0;
    case PEER:
        step->peer = has_rank                ? (step->peer + 1) % schedule->ranks
                     : schedule->group_count ? (step->peer + 1) % schedule->group_count
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
            step->wait_lane = (uint8_t)((step->wait_lane + 1u) % schedule->lane_count);
        break;
    case WAIT_LAG_UP:
        step->wait_lag += step->wait_steps > 0;
        break;
    case WAIT_LAG_DOWN:
        step->wait_lag -= step->wait_steps > 0 && step->wait_lag > 0;
        break;
    case WAIT_STAGED: /* the other way round, a wait more, is harmless */
        step->flags |=
            step->kind == STEP_COPY && !step->chunks && step->wait_steps && exposes(schedule) ? STEP_WHERE_STAGED : 0;
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

/* Random executions of each mutant that is accepted without being the same schedule. */
#define TRIALS 6

struct tally {
    uint64_t shapes, repeated; /* sets of schedules; those that had been looked at under another name */
    uint64_t mutants, refused, same, refined, commuted, reordered, others, races, races_seen;
    uint64_t by_mutation[MUTATIONS];
    uint64_t *seen; /* hashes of sets of schedules */
    struct survivors survivors;
    bool verbose;
};

/* A schedule with a race should go wrong in some random execution: the second opinion has eyes. (It has luck as well.) */
static void try_race(struct schedule **schedules, const struct schedule_shape *shape, struct tally *tally)
{
    uint32_t count;
    const struct verify_binding *bindings = verify_bindings(schedules, shape->ranks, shape, &count);
    tally->races++;
    for (uint32_t i = 0; i < count; i++) {
        for (uint64_t seed = 0; seed < TRIALS; seed++) {
            if (verify_chaos(schedules, shape->ranks, shape, &bindings[i], seed, NULL) != WEFT_OK) {
                tally->races_seen++;
                return;
            }
        }
    }
}

/*
 * Whether two neighbors of a lane commute: to exchange them is to write the same schedule down in another way. They move
 * data of this rank's own step by step (no messages, nothing that is waited for), the second waits for nothing, nobody
 * waits for the point between them, and neither writes what the other reads or writes (the verifier has seen no
 * difference in data, and both schedules are free of races; here it is enough that they write different places).
 */
static bool commute(const struct schedule *schedule, uint32_t index)
{
    const struct step *first = &schedule->steps[index], *second = first + 1;
    uint32_t lane = lane_of(schedule, index), at = index - schedule->lane_first[lane];
    const struct step *both[] = {first, second};
    for (unsigned i = 0; i < 2; i++)
        if (both[i]->kind < STEP_COPY || both[i]->kind == STEP_SIGNAL || both[i]->kind == STEP_AWAIT ||
            both[i]->kind == STEP_EXCHANGE || !both[i]->chunks || both[i]->wait_steps)
            return false;
    for (uint32_t i = 0; i < schedule->step_count; i++)
        if (schedule->steps[i].wait_steps == at + 1 && schedule->steps[i].wait_lane == lane)
            return false;
    return true;
}

static void judge(struct schedule **schedules, const struct schedule_shape *shape, const struct schedule *original,
                  const struct verify_flow *flows, uint32_t index, enum mutation mutation, struct tally *tally)
{
    struct error error = {0};
    tally->mutants++;
    if (schedule_verify(schedules, shape->ranks, shape, &error) != WEFT_OK) {
        assert_int_equal(error.status, WEFT_ERROR_SCHEDULE);
        assert_true(strlen(error.text) > 20);
        tally->refused++;
        if (strstr(error.text, "without being ordered") && tally->refused % 16 == 0)
            try_race(schedules, shape, tally);
        return;
    }
    uint32_t count;
    enum verify_relation relation = FLOW_SAME;
    const struct verify_binding *bindings = verify_bindings(schedules, shape->ranks, shape, &count);
    for (uint32_t i = 0; i < count && relation != FLOW_OTHER; i++) {
        struct verify_flow flow = {0};
        assert_int_equal(verify_flow_record(schedules, shape->ranks, shape, &bindings[i], &flow, &error), WEFT_OK);
        enum verify_relation here = verify_flow_compare(&flow, &flows[i]);
        relation = here > relation ? here : relation;
        verify_flow_free(&flow);
    }
    if (relation == FLOW_SAME || relation == FLOW_REFINED) {
        tally->same += relation == FLOW_SAME;
        tally->refined += relation == FLOW_REFINED;
        return;
    }
    if (relation == FLOW_DATA && mutation == SWAP && commute(original, index)) {
        tally->commuted++;
        return;
    }
    bool same_data = relation == FLOW_DATA;
    /* Accepted, though it is not the same: it must stand a trial of another kind. */
    for (uint32_t i = 0; i < count; i++) {
        for (uint64_t seed = 0; seed < TRIALS; seed++) {
            if (verify_chaos(schedules, shape->ranks, shape, &bindings[i], seed, &error) != WEFT_OK)
                fail_msg("%s by %s, step %u of rank %u, %s: proved, but goes wrong: %s",
                         collective_name(shape->collective), original->algorithm, index, original->rank,
                         names[mutation], error.text);
        }
    }
    /* Other data may only move where nothing is summed (a right value is written once more, or not again), or in sums
     * whose order is not promised. */
    assert_true(same_data || !collective_reduces(shape->collective) || !original->canonical);
    survivors_add(&tally->survivors, schedules, shape);
    tally->reordered += same_data;
    tally->others += !same_data;
    tally->by_mutation[mutation]++;
    uint32_t lane = lane_of(original, index);
    if (tally->verbose)
        printf("%s: %s %s %u ranks, %s, rank %u lane %u step %u (%s): %s\n", same_data ? "reordered" : "survivor",
               collective_name(shape->collective), original->algorithm, shape->ranks,
               original->segment_bytes ? "segmented" : "whole", original->rank, lane,
               index - original->lane_first[lane], step_kind_name(original->steps[index].kind), names[mutation]);
}

/* What mutants of a set of schedules would be made of: equal sets have equal mutants. */
static uint64_t hash_schedules(struct schedule *const *schedules, const struct schedule_shape *shape)
{
    uint64_t words[] = {shape->collective, shape->ranks, shape->in_place, schedules_use_shm(schedules, shape->ranks)},
             hash;
    hash = hash_bytes(words, sizeof words, 0);
    if (words[3])
        hash = hash_bytes(shape->nodes, shape->ranks * sizeof *shape->nodes, hash);
    for (uint32_t rank = 0; rank < shape->ranks; rank++) {
        const struct schedule *schedule = schedules[rank];
        uint64_t frame[] = {schedule->parts, schedule->slots, schedule->segment_bytes, schedule->scratch_chunks,
                            schedule->canonical};
        hash = hash_bytes(frame, sizeof frame, hash);
        hash = hash_bytes(schedule->lane_first, sizeof schedule->lane_first, hash);
        hash = hash_bytes(schedule->steps, schedule->step_count * sizeof *schedule->steps, hash);
        for (uint32_t g = 0; g < schedule->group_count; g++)
            hash = hash_bytes(schedule->members + schedule->groups[g].first,
                              schedule->groups[g].count * sizeof *schedule->members, hash);
    }
    return hash;
}

static bool is_repeated(struct tally *tally, uint64_t hash)
{
    for (uint64_t i = 0; i < tally->shapes; i++)
        if (tally->seen[i] == hash)
            return true;
    tally->seen = realloc(tally->seen, (tally->shapes + 1) * sizeof *tally->seen);
    tally->seen[tally->shapes++] = hash;
    return false;
}

static weft_status mutate_all(const struct algorithm *algorithm, const struct schedule_shape *shape, void *context,
                              struct error *error)
{
    struct tally *tally = context;
    if (shape->root > 1)
        return WEFT_OK;
    struct schedule **schedules;
    assert_int_equal(sweep_generate(algorithm, shape, &schedules, error), WEFT_OK);
    if (is_repeated(tally, hash_schedules(schedules, shape))) {
        tally->repeated++;
        sweep_free(schedules, shape->ranks);
        return WEFT_OK;
    }
    uint32_t count;
    const struct verify_binding *bindings = verify_bindings(schedules, shape->ranks, shape, &count);
    struct verify_flow flows[6] = {{0}};
    for (uint32_t i = 0; i < count; i++)
        assert_int_equal(verify_flow_record(schedules, shape->ranks, shape, &bindings[i], &flows[i], error), WEFT_OK);
    for (uint32_t rank = 0; rank < shape->ranks; rank++) {
        struct schedule *original = schedules[rank], mutant;
        struct step *steps = malloc((original->step_count + 1) * sizeof *steps);
        for (uint32_t index = 0; index < original->step_count; index++) {
            for (unsigned mutation = 0; mutation < MUTATIONS; mutation++) {
                copy_schedule(original, &mutant, steps);
                if (!mutate(&mutant, index, (enum mutation)mutation))
                    continue;
                schedules[rank] = &mutant;
                judge(schedules, shape, original, flows, index, (enum mutation)mutation, tally);
                schedules[rank] = original;
            }
        }
        free(steps);
    }
    for (uint32_t i = 0; i < count; i++)
        verify_flow_free(&flows[i]);
    sweep_free(schedules, shape->ranks);
    return WEFT_OK;
}

static void every_mutant_is_refused_or_the_same_schedule(void **state)
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
    uint64_t real = tally.mutants - tally.same - tally.refined - tally.commuted,
             survivors = tally.reordered + tally.others;
    printf("%llu sets of schedules (%llu more are equal to one of them), %llu mutants\n",
           (unsigned long long)tally.shapes, (unsigned long long)tally.repeated, (unsigned long long)tally.mutants);
    printf("  no mutations: %llu the same schedule, %llu that only wait for more, %llu with neighbors that commute\n",
           (unsigned long long)tally.same, (unsigned long long)tally.refined, (unsigned long long)tally.commuted);
    printf("  %llu mutations: %llu refused, %llu survive (%.2f %%): %llu in another legal order, %llu by other data\n",
           (unsigned long long)real, (unsigned long long)tally.refused, (unsigned long long)survivors,
           100.0 * (double)survivors / (double)real, (unsigned long long)tally.reordered,
           (unsigned long long)tally.others);
    assert_true(real >= 5000 && survivors * 50 <= real);
    free(tally.seen);
    /* The last word is the executor's: ranks are threads, lanes move in random order and with random delays. */
    assert_int_equal(survivors_run(&tally.survivors), 0);
    printf("  %zu of them run in the executor, %zu wrong\n", tally.survivors.count, tally.survivors.wrong);
    assert_int_equal(tally.survivors.wrong, 0);
    assert_int_equal(tally.survivors.unloaded, 0);
    assert_true(disorder_turns() > 0);
    for (size_t i = 0; i < tally.survivors.count; i++)
        free(tally.survivors.all[i].text);
    free(tally.survivors.all);
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
        cmocka_unit_test(every_mutant_is_refused_or_the_same_schedule),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
