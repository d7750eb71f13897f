/* SPDX-License-Identifier: Apache-2.0 */
/* The effect of each kind of step on the verifier's machine. */
#include "core/schedule/verify/internal/state.h"

#include <stdlib.h>
#include <string.h>

/* ---- steps ---- */

static struct verify_channel *channel_of(struct verify_machine *machine, uint32_t from, uint32_t to, uint32_t channel)
{
    struct verify_channel *found =
        &machine->channel_table[((size_t)from * machine->ranks + to) * machine->channels + channel];
    if (found->epoch != machine->epoch)
        *found = (struct verify_channel){
            .epoch = machine->epoch, .head = VERIFY_NONE, .last_thread = {VERIFY_NONE, VERIFY_NONE}};
    return found;
}

/* Sends and receives of one channel match in the order in which they begin, so that order must be fixed. */
static bool in_order(struct verify_machine *machine, struct thread *thread, struct verify_channel *channel,
                     bool receives)
{
    uint32_t self = (uint32_t)(thread - machine->threads);
    uint32_t last = channel->last_thread[receives];
    if (last != VERIFY_NONE && last != self && !verify_ordered(machine, thread, last, channel->last_clock[receives]))
        return (machine->doubt = true),
               verify_complain(machine, thread, "and lane %u both %s on channel %u in no fixed order",
                               machine->threads[last].lane, receives ? "receive" : "send",
                               verify_step_of(thread)->channel);
    channel->last_thread[receives] = self;
    channel->last_clock[receives] = thread->clock + 1;
    return true;
}

/* A send matches a receive: move the values. */
static bool steps_transfer(struct verify_machine *machine, struct thread *sender, struct thread *receiver)
{
    const struct step *send = verify_step_of(sender), *receive = verify_step_of(receiver);
    if (send->chunks != receive->chunks)
        return verify_complain(machine, receiver, "expects %u chunks, but rank %u sends %u", receive->chunks,
                               sender->rank, send->chunks);
    for (uint32_t i = 0; i < send->chunks; i++) {
        uint32_t from = 0, to = 0, sent_size = 0, size = 0;
        struct value value, own;
        if (!verify_locate(machine, sender, send, false, i, &from, &sent_size) ||
            !verify_locate(machine, receiver, receive, true, i, &to, &size))
            return false;
        value = machine->cells[from].value; /* the sender checked it when it began */
        if (size != sent_size)
            return verify_complain(machine, receiver, "expects the size of part %u, but rank %u sends that of part %u",
                                   size, sender->rank, sent_size);
        if (receive->kind == STEP_RECEIVE_REDUCE) {
            uint32_t source, source_size;
            if (!verify_locate(machine, receiver, receive, false, i, &source, &source_size))
                return false;
            own = machine->cells[source].value;
            if (source_size != size)
                return verify_complain(machine, receiver, "adds parts of different sizes");
            bool first = receive->flags & STEP_RECEIVED_FIRST;
            if (!verify_add(machine, receiver, first ? value : own, first ? own : value, &value))
                return false;
            if (receive->flags & STEP_FINISHES)
                value.sum = symbols_finish(machine->symbols, value.sum);
        }
        verify_store(machine, to, size, value);
    }
    verify_join_threads(machine, receiver, sender);
    return true;
}

static bool begin_message(struct verify_machine *machine, struct thread *thread, const struct step *step)
{
    bool receives = step->kind != STEP_SEND;
    uint32_t self = (uint32_t)(thread - machine->threads), index, size;
    struct value value;
    for (uint32_t i = 0; i < step->chunks; i++) {
        if (step->kind != STEP_RECEIVE)
            if (!verify_locate(machine, thread, step, false, i, &index, &size) ||
                !verify_load(machine, thread, index, size, &value))
                return false;
        if (receives)
            if (!verify_locate(machine, thread, step, true, i, &index, &size) ||
                !verify_note_write(machine, thread, index))
                return false;
    }
    struct verify_channel *channel = receives ? channel_of(machine, step->peer, thread->rank, step->channel)
                                              : channel_of(machine, thread->rank, step->peer, step->channel);
    if (!in_order(machine, thread, channel, receives))
        return false;
    if (channel->head != VERIFY_NONE && channel->holds_sends == receives) {
        struct thread *other = &machine->threads[channel->head];
        channel->head = other->next;
        if (!(receives ? steps_transfer(machine, other, thread) : steps_transfer(machine, thread, other)))
            return false;
        verify_complete(machine, other);
        verify_complete(machine, thread);
        return true;
    }
    thread->next = VERIFY_NONE;
    if (channel->head == VERIFY_NONE)
        channel->head = self;
    else
        machine->threads[channel->tail].next = self;
    channel->tail = self;
    channel->holds_sends = !receives;
    thread->state = THREAD_WAITS_FOR_MATCH;
    return true;
}

/* Where local ranks find chunk `chunk` of `rank`'s input. */
static uint32_t exposed_cell(const struct verify_machine *machine, const struct thread *thread, uint32_t rank,
                             uint32_t chunk)
{
    bool in_place = rank == thread->rank || verify_registered(machine, rank);
    return verify_cell_at(machine, rank, in_place ? REGION_INPUT : REGION_EXPOSED, thread->iteration, chunk);
}

static bool read_exposed(struct verify_machine *machine, struct thread *thread, uint32_t rank, uint32_t chunk,
                         uint32_t size, struct value *value)
{
    const struct schedule *schedule = machine->schedules[rank];
    if (chunk >= schedule->input_blocks * schedule->parts)
        return verify_complain(machine, thread, "reads chunk %u of the input of rank %u, which has %u", chunk, rank,
                               schedule->input_blocks * schedule->parts);
    if (verify_size_name(machine, rank, REGION_INPUT, chunk) != size)
        return verify_complain(machine, thread, "reads a chunk of rank %u whose size is not that of its part", rank);
    return verify_may_touch(machine, thread, rank) &&
           verify_load(machine, thread, exposed_cell(machine, thread, rank, chunk), size, value);
}

/* The i-th operand of a sum over many, which must be of the column of the others. */
static bool take_operand(struct verify_machine *machine, const struct thread *thread, struct value *first,
                         symbol *operands, uint32_t i, struct value operand)
{
    if (i == 0)
        *first = operand;
    operands[i] = operand.sum;
    return operand.column == first->column ||
           verify_complain(machine, thread, "adds chunks of different blocks, parts or segments");
}

/* The canonical sum of one chunk of all inputs in a group. */
static bool steps_gather(struct verify_machine *machine, struct thread *thread, const struct step *step, uint32_t i,
                         struct value *value)
{
    const struct schedule *schedule = machine->schedules[thread->rank];
    const struct schedule_group *group = &schedule->groups[step->peer];
    for (uint32_t k = 0; k < group->count; k++) {
        struct value operand;
        if (!read_exposed(machine, thread, schedule->members[group->first + k], step->source_chunk + i,
                          (step->value + i) % machine->parts, &operand) ||
            !take_operand(machine, thread, value, machine->operands, k, operand))
            return false;
    }
    value->sum = symbols_tree(machine->symbols, machine->operands, group->count);
    if (step->flags & STEP_FINISHES)
        value->sum = symbols_finish(machine->symbols, value->sum);
    return true;
}

static bool write_output(struct verify_machine *machine, struct thread *thread, uint32_t index, uint32_t size,
                         struct value value)
{
    if (!verify_note_write(machine, thread, index))
        return false;
    verify_store(machine, index, size, value);
    return true;
}

/* Hand one chunk to the outputs of a group. */
static bool steps_spread(struct verify_machine *machine, struct thread *thread, uint32_t group_index, uint32_t chunk,
                         uint32_t size, struct value value)
{
    const struct schedule *schedule = machine->schedules[thread->rank];
    const struct schedule_group *group = &schedule->groups[group_index];
    bool staged = false;
    for (uint32_t k = 0; k < group->count; k++) {
        uint32_t rank = schedule->members[group->first + k];
        if (chunk >= machine->schedules[rank]->output_blocks * machine->parts)
            return verify_complain(machine, thread, "spreads chunk %u to rank %u, whose output has none", chunk, rank);
        if (verify_size_name(machine, rank, REGION_OUTPUT, chunk) != size)
            return verify_complain(machine, thread, "spreads a chunk whose size is not that of its part");
        if (!verify_may_touch(machine, thread, rank))
            return false;
        if (rank == thread->rank || verify_registered(machine, rank)) {
            if (!write_output(machine, thread, verify_cell_at(machine, rank, REGION_OUTPUT, thread->iteration, chunk),
                              size, value))
                return false;
        } else if (!staged) {
            staged = true;
            uint32_t index = verify_cell_at(machine, thread->rank, REGION_SPREAD, thread->iteration, chunk);
            if (!verify_note_write(machine, thread, index))
                return false;
            verify_store(machine, index, size, value);
        }
    }
    return true;
}

static bool steps_deliver(struct verify_machine *machine, struct thread *thread, const struct step *step)
{
    if (!verify_may_touch(machine, thread, step->peer))
        return false;
    for (uint32_t i = 0; i < step->chunks && !verify_registered(machine, thread->rank); i++) {
        struct value value;
        uint32_t index, size, chunk = step->target_chunk + i;
        const struct schedule *peer = machine->schedules[step->peer];
        if (!verify_locate(machine, thread, step, true, i, &index, &size))
            return false;
        if (chunk >= machine->regions[step->peer * REGIONS + REGION_SPREAD].stride)
            return verify_complain(machine, thread, "delivers chunk %u of rank %u, which has none (%s)", chunk,
                                   step->peer, peer->algorithm);
        if (!verify_load(machine, thread, verify_cell_at(machine, step->peer, REGION_SPREAD, thread->iteration, chunk),
                         size, &value) ||
            !write_output(machine, thread, index, size, value))
            return false;
    }
    return true;
}

static bool steps_expose(struct verify_machine *machine, struct thread *thread, const struct step *step)
{
    for (uint32_t i = 0; i < step->chunks; i++) {
        uint32_t chunk = step->source_chunk + i, size = verify_size_name(machine, thread->rank, REGION_INPUT, chunk);
        struct value value;
        if (verify_registered(machine, thread->rank)) /* local ranks will read it where it is: it must be there */
            continue;
        uint32_t to = verify_cell_at(machine, thread->rank, REGION_EXPOSED, thread->iteration, chunk);
        if (!verify_load(machine, thread, verify_cell_at(machine, thread->rank, REGION_INPUT, thread->iteration, chunk),
                         size, &value) ||
            !verify_note_write(machine, thread, to))
            return false;
        verify_store(machine, to, size, value);
    }
    return true;
}

static void steps_signal(struct verify_machine *machine, struct thread *thread)
{
    tick *clock = verify_clock_of(machine, thread);
    clock[verify_announced(machine, thread->rank)] = 1;
    memcpy(machine->snapshots + (size_t)(thread->signal_slots + thread->signals) * machine->components, clock,
           machine->components * sizeof *clock);
    thread->signals++;
}

/* All of the group must be at their exchange; then their contributions are combined. */
static bool steps_exchange(struct verify_machine *machine, struct thread *thread, const struct step *step, bool *over)
{
    const struct schedule *schedule = machine->schedules[thread->rank];
    const struct schedule_group *group = &schedule->groups[step->peer];
    uint32_t number = verify_group_number(machine, thread->rank, step->peer);
    bool member = verify_group_has(machine, number, thread->rank);
    thread->state = THREAD_PUBLISHED; /* the input is read here, at its begin */
    for (; thread->looked < group->count; thread->looked++) {
        uint32_t rank = schedule->members[group->first + thread->looked];
        const struct thread *other = &machine->threads[machine->first_thread[rank]];
        const struct schedule *others = machine->schedules[rank];
        if (others->step_count != 1 || others->steps[0].kind != STEP_EXCHANGE)
            return verify_complain(machine, thread, "exchanges with rank %u, which takes no part", rank);
        if (verify_group_number(machine, rank, others->steps[0].peer) != number)
            return verify_complain(machine, thread, "exchanges with rank %u, which exchanges in another group", rank);
        if (machine->shape->nodes && machine->shape->nodes[rank] != machine->shape->nodes[thread->rank])
            return verify_complain(machine, thread, "exchanges with rank %u, which is on another node", rank);
        if (other->state != THREAD_PUBLISHED && other->clock == 0) {
            *over = false;
            return true;
        }
    }
    *over = true;
    if (!member)
        return verify_complain(machine, thread, "is in no exchange of its own group");
    for (uint32_t k = 0; k < group->count; k++) {
        uint32_t rank = schedule->members[group->first + k];
        verify_note_begun(machine, verify_clock_of(machine, thread), rank);
        uint32_t block = step->source_chunk;
        machine->operands[k] = SYMBOL_NONE;
        if (block < machine->schedules[rank]->input_blocks) /* as it was published: inputs are the leaves */
            machine->operands[k] = verify_leaf(machine, rank, block, 0, 0).sum;
        if (machine->shape->collective == COLLECTIVE_BROADCAST && rank != machine->shape->root)
            machine->operands[k] = SYMBOL_NONE;
    }
    struct value value = {SYMBOL_NONE, verify_column(machine, step->source_chunk, 0, 0)};
    uint32_t blocks = step->value == EXCHANGE_NOTHING ? 0 : step->value == EXCHANGE_GATHER ? group->count : 1;
    if (blocks > schedule->output_blocks)
        return verify_complain(machine, thread, "gives %u blocks to an output of %u", blocks, schedule->output_blocks);
    if (step->value == EXCHANGE_REDUCE)
        value.sum = symbols_finish(machine->symbols, symbols_tree(machine->symbols, machine->operands,
                                                                  step->operands ? step->operands : group->count));
    for (uint32_t block = 0; block < blocks; block++) {
        if (step->value != EXCHANGE_REDUCE)
            value.sum = machine->operands[step->value == EXCHANGE_GATHER ? block : step->operands];
        if (!value.sum)
            return verify_complain(machine, thread, "takes a contribution that no rank published");
        if (!write_output(machine, thread, verify_cell_at(machine, thread->rank, REGION_OUTPUT, 0, block),
                          verify_size_name(machine, thread->rank, REGION_OUTPUT, block), value))
            return false;
    }
    return true;
}

static bool local_step(struct verify_machine *machine, struct thread *thread, const struct step *step)
{
    struct value value = {0};
    uint32_t from, to, from_size, size;
    for (uint32_t i = 0; i < step->chunks; i++) {
        if (!verify_locate(machine, thread, step, true, i, &to, &size))
            return false;
        switch (step->kind) {
        case STEP_COPY:
            if (!verify_locate(machine, thread, step, false, i, &from, &from_size) ||
                !verify_load(machine, thread, from, from_size, &value))
                return false;
            if (from_size != size)
                return verify_complain(machine, thread, "copies to a chunk of another size");
            if (from == to)
                continue;
            break;
        case STEP_REDUCE: {
            symbol *operands = machine->operands;
            if (step->operands > machine->ranks && !(operands = malloc(step->operands * sizeof *operands)))
                return verify_complain(machine, thread, "has more operands than memory");
            bool read = verify_locate(machine, thread, step, false, 0, &from, &from_size);
            for (uint32_t k = 0; read && k < step->operands; k++) {
                struct value operand;
                read = verify_load(machine, thread, from + k * step->stride, size, &operand) &&
                       take_operand(machine, thread, &value, operands, k, operand);
            }
            if (read)
                value.sum = symbols_tree(machine->symbols, operands, step->operands);
            if (operands != machine->operands)
                free(operands);
            if (!read)
                return false;
            break;
        }
        case STEP_FINISH:
            if (!verify_load(machine, thread, to, size, &value))
                return false;
            value.sum = symbols_finish(machine->symbols, value.sum);
            break;
        case STEP_READ:
            if (!read_exposed(machine, thread, step->peer, step->source_chunk + i, size, &value))
                return false;
            break;
        default: /* STEP_GATHER_REDUCE */
            if (!steps_gather(machine, thread, step, i, &value))
                return false;
            break;
        }
        if ((step->flags & STEP_FINISHES) && step->kind == STEP_REDUCE)
            value.sum = symbols_finish(machine->symbols, value.sum);
        if (!verify_note_write(machine, thread, to))
            return false;
        verify_store(machine, to, size, value);
    }
    return true;
}

static bool spread_step(struct verify_machine *machine, struct thread *thread, const struct step *step)
{
    for (uint32_t i = 0; i < step->chunks; i++) {
        struct value value;
        uint32_t from, size;
        if (step->kind == STEP_REDUCE_SPREAD) {
            size = (step->value + i) % machine->parts;
            if (!steps_gather(machine, thread, step, i, &value))
                return false;
        } else if (!verify_locate(machine, thread, step, false, i, &from, &size) ||
                   !verify_load(machine, thread, from, size, &value)) {
            return false;
        }
        uint32_t group = step->kind == STEP_REDUCE_SPREAD ? step->operands : step->peer;
        if (!steps_spread(machine, thread, group, step->target_chunk + i, size, value))
            return false;
    }
    return true;
}

bool verify_advance(struct verify_machine *machine, struct thread *thread)
{
    if (thread->iteration == machine->iterations || thread->state == THREAD_WAITS_FOR_MATCH)
        return false;
    const struct step *step = verify_step_of(thread);
    if (!verify_wait_is_over(machine, thread, step))
        return false;
    bool right = true, over = true;
    machine->stepping = thread->first_step + thread->at;
    switch (step->kind) {
    case STEP_SEND:
    case STEP_RECEIVE:
    case STEP_RECEIVE_REDUCE:
        return begin_message(machine, thread, step);
    case STEP_EXPOSE:
        right = steps_expose(machine, thread, step);
        break;
    case STEP_SIGNAL:
        steps_signal(machine, thread);
        break;
    case STEP_AWAIT:
        right = verify_await(machine, thread, step, &over);
        break;
    case STEP_SPREAD:
    case STEP_REDUCE_SPREAD:
        right = spread_step(machine, thread, step);
        break;
    case STEP_DELIVER:
        right = steps_deliver(machine, thread, step);
        break;
    case STEP_EXCHANGE:
        right = steps_exchange(machine, thread, step, &over);
        break;
    default:
        right = local_step(machine, thread, step);
        break;
    }
    if (!right || !over)
        return false;
    verify_complete(machine, thread);
    return true;
}
