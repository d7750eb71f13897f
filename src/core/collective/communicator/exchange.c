/* SPDX-License-Identifier: Apache-2.0 */
#include "core/collective/internal/exchange.h"

#include "base/clock.h"
#include "core/collective/communicator/context.h"
#include "core/collective/internal/execution.h"
#include "core/transport/copy.h"

#include <string.h>

/* Polls of the other ranks before an operation is left to the general path: some microseconds. */
#define LOOKS          100u
#define EXPECTED_BYTES 256u /* of a contribution to come */

/* ---- the three parts ---- */

enum exchange_room exchange_room(const struct schedule *schedule, uint64_t block_bytes)
{
    const uint64_t bytes = block_bytes * collective_widest_input(schedule->collective, schedule->ranks);
    return bytes <= SCHEDULE_LINE_BYTES ? EXCHANGE_LINE : bytes <= SHARED_SHORT_BYTES ? EXCHANGE_SHORT : EXCHANGE_LONG;
}

uint32_t exchange_ahead(enum exchange_room room)
{
    return room == EXCHANGE_LONG ? SHARED_LONG_TURNS - 1 : SHARED_TURNS - 1;
}

/* The place of the contribution of the rank to which `block` belongs. */
static uint8_t *contribution_in(struct shared_block *block, const struct exchange_operation *operation)
{
    switch (operation->room) {
    case EXCHANGE_LINE:
        return block->first[operation->number % SHARED_TURNS].inlined;
    case EXCHANGE_SHORT:
        return block->short_annex[operation->number % SHARED_TURNS];
    default:
        return block->long_annex[operation->number % SHARED_LONG_TURNS];
    }
}

void exchange_publish(const struct exchange_operation *operation, uint64_t bytes)
{
    weft_comm *comm = operation->comm;
    struct shared_line *line = &comm->mine->first[operation->number % SHARED_TURNS];
    line->tag = operation->tag;
    shared_history_note(comm->mine, operation->number, operation->tag);
    uint8_t *place = contribution_in(comm->mine, operation);
    if (bytes == 8) {
        memcpy(place, operation->call->input, 8);
    } else {
        copy_bytes(place, operation->call->input, bytes, false);
    }
    atomic_store_explicit(&line->counter, (operation->number << SHARED_SIGNAL_BITS) + 1, memory_order_release);
}

/*
 * Prefetch the lines that the next contribution will be written to, if it is like this one, from the caches of the
 * ranks that have read them. While waiting this costs nothing; at the time of writing, each line would stall in turn.
 */
static void expect_next(const struct exchange_operation *operation, uint64_t bytes)
{
#if defined(__x86_64__)
    if (operation->room == EXCHANGE_LINE)
        return; /* execution_shm_prefetch() has done that */
    struct exchange_operation next = *operation;
    next.number++;
    uint8_t *place = contribution_in(next.comm->mine, &next);
    for (uint64_t line = 0; line < bytes && line < EXPECTED_BYTES; line += 64)
        __asm__ volatile("prefetchw %0" : : "m"(place[line]));
#else
    (void)operation, (void)bytes;
#endif
}

/*
 * The range of members whose contributions this rank must have seen: only those whose data it takes, unless it is a
 * barrier.
 */
static uint32_t awaited_members(const struct schedule *schedule, uint32_t *end)
{
    const struct step *step = &schedule->steps[0];
    *end = schedule->groups[step->peer].count;
    if (step->value == EXCHANGE_NOTHING && schedule->collective != COLLECTIVE_BARRIER)
        *end = 0;
    if (step->value == EXCHANGE_REDUCE && step->operands)
        *end = step->operands;
    if (step->value != EXCHANGE_TAKE)
        return 0;
    *end = step->operands + 1u;
    return step->operands;
}

static bool awaits_all(const struct schedule *schedule)
{
    uint32_t end;
    return awaited_members(schedule, &end) == 0 && end == schedule->groups[schedule->steps[0].peer].count;
}

enum exchange_sight exchange_look(const struct exchange_operation *operation, uint32_t *looked)
{
    const weft_comm *comm = operation->comm;
    const struct schedule_group *group = &operation->schedule->groups[operation->schedule->steps[0].peer];
    const uint32_t *members = operation->schedule->members + group->first;
    const uint64_t wanted = (operation->number << SHARED_SIGNAL_BITS) + 1;
    uint32_t end, first = awaited_members(operation->schedule, &end);
    for (*looked = *looked < first ? first : *looked; *looked < end; ++*looked) {
        const struct shared_line *line = &comm->blocks[members[*looked]]->first[operation->number % SHARED_TURNS];
        uint64_t counter = atomic_load_explicit(&line->counter, memory_order_acquire);
        if (counter >> SHARED_SIGNAL_BITS == operation->number && line->tag != operation->tag)
            return EXCHANGE_MISMATCH;
        if (counter < wanted)
            return EXCHANGE_WAITS;
    }
    /* A giver that is ahead has already written the next lines. */
    if (operation->schedule->steps[0].value == EXCHANGE_TAKE)
        __builtin_prefetch(&comm->blocks[members[first]]->first[(operation->number + 4) % SHARED_TURNS]);
    return EXCHANGE_COMPLETE;
}

/*
 * A rank's contribution. This rank's own is read from its buffer: a line that others have read may have moved to their
 * cache, and fetching it back costs as much as the exchange itself.
 */
static const char *given_by(const struct exchange_operation *operation, uint32_t rank)
{
    return rank == operation->comm->rank ? operation->call->input
                                         : (const char *)contribution_in(operation->comm->blocks[rank], operation);
}

static void exchange_take_bytes(char *target, const char *source, uint64_t bytes)
{
    if (bytes && target != source) /* in place */
        memcpy(target, source, bytes);
}

/* Block b of every rank's contribution, in the order of ranks. */
static void take_all(const struct exchange_operation *operation, uint64_t from)
{
    const struct call *call = operation->call;
    const uint64_t element = weft_type_size(call->type);
    uint64_t packed = 0;
    for (uint32_t rank = 0; rank < operation->schedule->ranks; rank++) {
        uint64_t count = call->vectors ? call->vectors->output_counts[rank] : call->count, first = packed;
        if (call->vectors && call->vectors->output_displacements)
            first = call->vectors->output_displacements[rank];
        exchange_take_bytes((char *)call->output + first * element, given_by(operation, rank) + from, count * element);
        packed += count;
    }
}

static void take_sum(const struct exchange_operation *operation, const struct schedule_group *group, uint32_t summed,
                     uint64_t from)
{
    weft_comm *comm = operation->comm;
    const struct call *call = operation->call;
    const uint32_t *members = operation->schedule->members + group->first;
    void *target = call->output;
    if (!operation->block_bytes)
        return;
    for (uint32_t i = 0; i < summed; i++)
        comm->sources[i] = given_by(operation, members[i]) + from;
    reduction_tree(comm->context->reduction, call->type, call->op.kind, &target, 1, comm->sources, summed, call->count,
                   operation->finish, false);
}

void exchange_take(const struct exchange_operation *operation)
{
    const struct step *step = &operation->schedule->steps[0];
    const struct schedule_group *group = &operation->schedule->groups[step->peer];
    const uint64_t from = step->source_chunk * operation->block_bytes;
    switch ((enum exchange)step->value) {
    case EXCHANGE_REDUCE:
        take_sum(operation, group, step->operands ? step->operands : group->count, from);
        break;
    case EXCHANGE_GATHER:
        take_all(operation, from);
        break;
    case EXCHANGE_TAKE:
        exchange_take_bytes(operation->call->output,
                            given_by(operation, operation->schedule->members[group->first + step->operands]) + from,
                            operation->block_bytes);
        break;
    case EXCHANGE_NOTHING:
        break;
    }
    if (awaits_all(operation->schedule))
        operation->comm->shm_credit = operation->number; /* all have begun it */
}

/* ---- from beginning to end ---- */

static enum exchange_sight look_for_a_while(const struct exchange_operation *operation)
{
    uint32_t looked = 0, looks = operation->comm->context->progress.crowded ? 1 : LOOKS;
    enum exchange_sight sight = exchange_look(operation, &looked);
    for (uint32_t i = 1; sight == EXCHANGE_WAITS && i < looks; i++) {
        clock_pause(); /* constant polling takes the line away from the rank that is about to write it */
        sight = exchange_look(operation, &looked);
    }
    return sight;
}

enum exchange_outcome exchange_run(weft_comm *comm, const struct call *call, struct weft_request **started,
                                   struct error *error)
{
    weft_context *context = comm->context;
    uint32_t awaited = 0;
    if (!comm->local_peer_count || call->vectors || call->collective == COLLECTIVE_SENDRECEIVE || comm->head ||
        context->grouping || context->trace || control_failed(context->control))
        return EXCHANGE_NOT;
    struct schedule_entry *entry = NULL;
    if (schedule_cache_serve(comm, call, &entry, error) != WEFT_OK)
        return EXCHANGE_FAILED;
    if (!entry->exchanges || entry->usage.block_bytes > entry->most_block_bytes ||
        !execution_shm_granted(comm, comm->shm_number + 1, exchange_ahead(entry->usage.room), &awaited))
        return EXCHANGE_NOT;
    const uint64_t sequence = ++comm->sequence;
    const struct exchange_operation operation = {.comm = comm,
                                                 .call = call,
                                                 .schedule = entry->schedule,
                                                 .number = ++comm->shm_number,
                                                 .tag = comm->tag =
                                                     schedule_entry_tag(entry, call, sequence, comm->tag),
                                                 .block_bytes = entry->usage.block_bytes,
                                                 .room = entry->usage.room,
                                                 .finish = entry->usage.finishes ? &entry->usage.finish : NULL};
    exchange_publish(&operation, entry->usage.input_bytes);
    struct operation_entry *log = operation_log_add(context->log, comm, call, sequence, operation.tag);
    shm_ring_all(context->shm, comm->local_peers_world, comm->local_peer_count);
    expect_next(&operation, entry->usage.input_bytes);
    if (schedule_entry_verify(entry, comm, error) != WEFT_OK)
        return EXCHANGE_FAILED;
    if (look_for_a_while(&operation) != EXCHANGE_COMPLETE)
        return execution_adopt(&operation, entry, sequence, log, started, error) == WEFT_OK ? EXCHANGE_LATE
                                                                                            : EXCHANGE_FAILED;
    exchange_take(&operation);
    operation_log_end(log);
    return EXCHANGE_RAN;
}
