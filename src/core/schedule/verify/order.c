/* SPDX-License-Identifier: Apache-2.0 */
/* The happens-before order on the verifier's machine: scopes, clocks, groups, waits and signals. */
#include "base/hash.h"
#include "core/schedule/verify/internal/state.h"

#include <stdlib.h>
#include <string.h>

/* ---- scopes ---- */

bool verify_scopes_open(struct verify_machine *machine, bool narrow)
{
    struct scopes *scopes = &machine->scopes;
    uint32_t ranks = machine->ranks, threads = machine->thread_count;
    const uint32_t *nodes = machine->shape->nodes;
    bool shm = scopes->shm = schedules_use_shm(machine->schedules, ranks);
    scopes->of_rank = calloc(ranks, sizeof *scopes->of_rank);
    scopes->seat = calloc(ranks, sizeof *scopes->seat);
    scopes->of_thread = calloc(threads ? threads : 1, sizeof *scopes->of_thread);
    scopes->component = calloc(threads ? threads : 1, sizeof *scopes->component);
    uint32_t *seats = calloc(2 * (size_t)ranks, sizeof *seats), *places = seats + ranks;
    if (!scopes->of_rank || !scopes->seat || !scopes->of_thread || !scopes->component || !seats) {
        free(seats);
        return false;
    }
    for (uint32_t rank = 0; rank < ranks; rank++) {
        uint32_t scope = !narrow || (shm && !nodes) ? 0 : shm ? nodes[rank] : rank;
        scopes->of_rank[rank] = scope;
        scopes->narrow = scopes->narrow || scope;
        scopes->seat[rank] = seats[scope]++;
        for (uint32_t thread = machine->first_thread[rank]; thread < machine->first_thread[rank + 1]; thread++) {
            scopes->of_thread[thread] = scope;
            scopes->component[thread] = places[scope]++;
        }
    }
    for (uint32_t scope = 0; scope < ranks; scope++) {
        scopes->ranks = seats[scope] > scopes->ranks ? seats[scope] : scopes->ranks;
        scopes->threads = places[scope] > scopes->threads ? places[scope] : scopes->threads;
    }
    free(seats);
    scopes->begun = scopes->threads + scopes->ranks;
    scopes->components = scopes->begun + (machine->shape->collective == COLLECTIVE_BARRIER ? ranks : 0);
    machine->components = scopes->components;
    return true;
}

/* ---- groups ---- */

/* The number of a group; a new one if no equal group has one. `table` has `mask` + 1 entries of numbers + 1. */
static uint32_t order_intern(struct verify_groups *groups, uint32_t *table, uint32_t mask, const uint32_t *members,
                             uint32_t count)
{
    uint64_t hash = hash_bytes(members, count * sizeof *members, count);
    uint32_t at = (uint32_t)hash & mask;
    for (; table[at]; at = (at + 1) & mask) {
        const struct verify_group *group = &groups->distinct[table[at] - 1];
        if (group->hash == hash && group->count == count &&
            memcmp(group->members, members, count * sizeof *members) == 0)
            return table[at] - 1;
    }
    groups->distinct[groups->count] = (struct verify_group){.members = members, .count = count, .hash = hash};
    table[at] = ++groups->count;
    return groups->count - 1;
}

bool verify_groups_open(struct verify_machine *machine)
{
    struct verify_groups *groups = &machine->groups;
    uint32_t total = 0, words = (machine->ranks + 63) / 64, mask = 15;
    groups->base = calloc(machine->ranks, sizeof *groups->base);
    if (!groups->base)
        return false;
    for (uint32_t rank = 0; rank < machine->ranks; rank++) {
        groups->base[rank] = total;
        total += machine->schedules[rank]->group_count;
    }
    while (mask < 2 * total)
        mask = 2 * mask + 1;
    uint32_t *table = calloc((size_t)mask + 1, sizeof *table);
    groups->number = calloc(total + 1, sizeof *groups->number);
    groups->distinct = calloc(total + 1, sizeof *groups->distinct);
    if (!table || !groups->number || !groups->distinct) {
        free(table);
        return false;
    }
    for (uint32_t rank = 0; rank < machine->ranks; rank++) {
        const struct schedule *schedule = machine->schedules[rank];
        for (uint32_t i = 0; i < schedule->group_count; i++)
            groups->number[groups->base[rank] + i] = order_intern(
                groups, table, mask, schedule->members + schedule->groups[i].first, schedule->groups[i].count);
    }
    free(table);
    groups->bits = calloc((size_t)groups->count * words + 1, sizeof *groups->bits);
    if (!groups->bits)
        return false;
    for (uint32_t i = 0; i < groups->count; i++) {
        struct verify_group *group = &groups->distinct[i];
        group->bits = groups->bits + (size_t)i * words;
        for (uint32_t k = 0; k < group->count; k++)
            group->bits[group->members[k] / 64] |= (uint64_t)1 << group->members[k] % 64;
    }
    return true;
}

uint32_t verify_group_number(const struct verify_machine *machine, uint32_t rank, uint32_t group)
{
    return machine->groups.number[machine->groups.base[rank] + group];
}

bool verify_group_has(const struct verify_machine *machine, uint32_t number, uint32_t rank)
{
    return machine->groups.distinct[number].bits[rank / 64] >> rank % 64 & 1;
}

void verify_order_close(struct verify_machine *machine)
{
    free(machine->scopes.of_rank);
    free(machine->scopes.seat);
    free(machine->scopes.of_thread);
    free(machine->scopes.component);
    free(machine->groups.base);
    free(machine->groups.number);
    free(machine->groups.distinct);
    free(machine->groups.bits);
    for (uint32_t i = 0; i < VERIFY_JOINS; i++)
        free(machine->joins[i].before);
}

/* ---- clocks ---- */

void verify_join(tick *clock, const tick *other, uint32_t components)
{
    for (uint32_t i = 0; i < components; i++)
        clock[i] = other[i] > clock[i] ? other[i] : clock[i];
}

void verify_join_threads(struct verify_machine *machine, const struct thread *thread, const struct thread *other)
{
    const struct scopes *scopes = &machine->scopes;
    bool together = scopes->of_rank[thread->rank] == scopes->of_rank[other->rank];
    uint32_t from = together ? 0 : scopes->begun;
    verify_join(verify_clock_of(machine, thread) + from, verify_clock_of(machine, other) + from,
                machine->components - from);
}

uint32_t verify_announced(const struct verify_machine *machine, uint32_t rank)
{
    return machine->scopes.threads + machine->scopes.seat[rank];
}

void verify_note_begun(const struct verify_machine *machine, tick *clock, uint32_t rank)
{
    if (machine->scopes.begun < machine->components)
        clock[machine->scopes.begun + rank] = 1;
}

bool verify_may_touch(struct verify_machine *machine, struct thread *thread, uint32_t rank)
{
    if (rank == thread->rank)
        return true;
    const uint32_t *nodes = machine->shape->nodes;
    if (nodes && nodes[rank] != nodes[thread->rank])
        return verify_complain(machine, thread, "touches memory of rank %u, which is on another node", rank);
    if (!verify_clock_of(machine, thread)[verify_announced(machine, rank)]) {
        machine->doubt = true;
        return verify_complain(machine, thread, "touches memory of rank %u before any signal of it has been awaited",
                               rank);
    }
    return true;
}

/* ---- lanes ---- */

void verify_complete(struct verify_machine *machine, struct thread *thread)
{
    uint32_t self = (uint32_t)(thread - machine->threads);
    tick *clock = verify_clock_of(machine, thread);
    clock[machine->scopes.component[self]] = (tick)++thread->clock;
    int32_t kept = machine->snapshot_of[thread->first_step + thread->at];
    if (kept >= 0)
        memcpy(machine->snapshots +
                   (size_t)(thread->snapshot_slots + thread->iteration * machine->kept[self] + (uint32_t)kept) *
                       machine->components,
               clock, machine->components * sizeof *clock);
    thread->state = THREAD_READY;
    thread->looked = 0;
    if (++thread->at == thread->length) {
        thread->at = 0;
        thread->iteration++;
    }
}

bool verify_wait_is_over(struct verify_machine *machine, struct thread *thread, const struct step *step)
{
    if (!step->wait_steps || thread->iteration < step->wait_lag)
        return true;
    if (step->flags & STEP_WHERE_STAGED && verify_registered(machine, thread->rank))
        return true;
    uint32_t iteration = thread->iteration - step->wait_lag;
    uint32_t other = machine->first_thread[thread->rank] + step->wait_lane;
    const struct thread *lane = &machine->threads[other];
    if (lane->iteration < iteration || (lane->iteration == iteration && lane->at < step->wait_steps))
        return false;
    int32_t kept = machine->snapshot_of[lane->first_step + step->wait_steps - 1];
    uint32_t slot = lane->snapshot_slots + iteration * machine->kept[other] + (uint32_t)kept;
    verify_join(verify_clock_of(machine, thread), machine->snapshots + (size_t)slot * machine->components,
                machine->components);
    return true;
}

/* ---- signals ---- */

static const tick *snapshot_at_signal(const struct verify_machine *machine, uint32_t thread, uint32_t signal)
{
    return machine->snapshots + (size_t)(machine->threads[thread].signal_slots + signal - 1) * machine->components;
}

/* Whether the n-th signal of a lane (from 1) wakes `rank`. */
static bool wakes(const struct verify_machine *machine, uint32_t thread, uint32_t n, uint32_t rank)
{
    uint32_t in_iteration = (n - 1) % machine->signalled[thread];
    return verify_group_has(machine, machine->signal_groups[machine->signal_base[thread] + in_iteration], rank);
}

/*
 * The clocks that a rank joins at signal `signal` of `lane` of each member of a group; NULL when not all have made it,
 * or out of memory.
 */
static const struct verify_joins *joins_of(struct verify_machine *machine, uint32_t group, uint32_t lane,
                                           uint32_t signal)
{
    struct verify_joins *joins = &machine->joins[(lane + signal * 3 + group * 5) % VERIFY_JOINS];
    if (joins->valid && joins->group == group && joins->lane == lane && joins->signal == signal)
        return joins;
    const struct verify_group *members = &machine->groups.distinct[group];
    size_t width = machine->components, count = members->count;
    for (uint32_t k = 0; k < count; k++) {
        uint32_t rank = members->members[k], thread = machine->first_thread[rank] + lane;
        if (lane >= machine->schedules[rank]->lane_count || machine->signalled[thread] == 0 ||
            machine->threads[thread].signals < signal)
            return NULL;
    }
    if (joins->room < count) {
        tick *grown = realloc(joins->before, 2 * count * width * sizeof *grown);
        if (!grown)
            return NULL;
        joins->before = grown;
        joins->room = (uint32_t)count;
    }
    joins->after = joins->before + count * width;
    memset(joins->before, 0, width * sizeof *joins->before);
    memset(joins->after + (count - 1) * width, 0, width * sizeof *joins->after);
    for (size_t k = 1; k < count; k++) {
        tick *before = joins->before + k * width, *after = joins->after + (count - 1 - k) * width;
        memcpy(before, before - width, width * sizeof *before);
        verify_join(before, snapshot_at_signal(machine, machine->first_thread[members->members[k - 1]] + lane, signal),
                    machine->components);
        memcpy(after, after + width, width * sizeof *after);
        verify_join(after,
                    snapshot_at_signal(machine, machine->first_thread[members->members[count - k]] + lane, signal),
                    machine->components);
    }
    joins->valid = true;
    joins->group = group;
    joins->lane = lane;
    joins->signal = signal;
    return joins;
}

/*
 * Whether one member's lane can be awaited: on the same node, and with as many signals per iteration as the step
 * counts.
 */
static bool may_await(struct verify_machine *machine, struct thread *thread, const struct step *step, uint32_t rank)
{
    const uint32_t *nodes = machine->shape->nodes;
    if (nodes && nodes[rank] != nodes[thread->rank])
        return verify_complain(machine, thread, "awaits rank %u, which is on another node", rank);
    bool exists = step->operands < machine->schedules[rank]->lane_count;
    uint32_t makes = exists ? machine->signalled[machine->first_thread[rank] + step->operands] : 0;
    if (makes != step->stride)
        return verify_complain(machine, thread, "counts %u signals per iteration of lane %u of rank %u, which makes %u",
                               step->stride, step->operands, rank, makes);
    return true;
}

bool verify_await(struct verify_machine *machine, struct thread *thread, const struct step *step, bool *over)
{
    *over = true;
    if (thread->iteration < step->value_lag)
        return true;
    uint32_t number = verify_group_number(machine, thread->rank, step->peer);
    const struct verify_group *group = &machine->groups.distinct[number];
    uint32_t needed = step->stride * (thread->iteration - step->value_lag) + step->value;
    for (; thread->looked < group->count; thread->looked++) {
        uint32_t rank = group->members[thread->looked];
        if (rank == thread->rank)
            continue;
        if (!may_await(machine, thread, step, rank))
            return false;
        uint32_t other = machine->first_thread[rank] + step->operands;
        if (machine->threads[other].signals < needed) {
            *over = false;
            return true;
        }
        if (!wakes(machine, other, needed, thread->rank))
            return verify_complain(machine, thread, "awaits a signal of rank %u that does not wake it", rank);
    }
    tick *clock = verify_clock_of(machine, thread);
    const struct verify_joins *joins = group->count > 2 ? joins_of(machine, number, step->operands, needed) : NULL;
    for (uint32_t k = 0; k < group->count; k++) {
        uint32_t rank = group->members[k];
        if (joins && rank != thread->rank)
            continue;
        if (joins) {
            verify_join(clock, joins->before + (size_t)k * machine->components, machine->components);
            verify_join(clock, joins->after + (size_t)k * machine->components, machine->components);
            return true;
        }
        if (rank != thread->rank)
            verify_join(clock, snapshot_at_signal(machine, machine->first_thread[rank] + step->operands, needed),
                        machine->components);
    }
    if (joins) { /* this rank is not in the group: all members but the last, and the last */
        uint32_t last = group->count - 1, rank = group->members[last];
        verify_join(clock, joins->before + (size_t)last * machine->components, machine->components);
        verify_join(clock, snapshot_at_signal(machine, machine->first_thread[rank] + step->operands, needed),
                    machine->components);
    }
    return true;
}
