/* SPDX-License-Identifier: Apache-2.0 */
#include "schedule/verify_machine.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define NOBODY UINT32_MAX

/* One chunk's place. Clock 0 is "before everything". */
struct cell {
    symbol value;
    uint32_t part;                      /* whose size the value has */
    uint32_t write_thread, write_clock; /* the last write */
    uint32_t reads;                     /* those since: list of struct access, NOBODY ends it */
};

struct access {
    uint32_t thread, clock, next;
};

enum thread_state { THREAD_READY, THREAD_WAITS_FOR_MATCH, THREAD_MATCHED, THREAD_PUBLISHED };

/* One lane of one rank. */
struct thread {
    uint32_t rank, lane;
    uint32_t iteration, at; /* the step that is next or under way, within the lane */
    uint32_t clock;         /* steps completed, over all iterations */
    enum thread_state state;
    uint32_t next;           /* in a channel's queue */
    uint32_t signals;        /* made so far */
    uint32_t snapshot_slots; /* first of this thread's snapshots */
    uint32_t signal_slots;   /* first of the snapshots at its signals */
};

/* Messages from one rank to another on one channel: either sends wait here or receives. */
struct channel {
    uint32_t head, tail; /* threads, in order of begin */
    bool holds_sends;
    uint32_t last_thread[2], last_clock[2]; /* who began the last send, the last receive; its end */
};

/* Where a buffer's cells are: chunk c of iteration s is at base + s x stride + c. */
struct region {
    uint32_t base, stride;
};

enum region_kind { REGION_INPUT, REGION_OUTPUT, REGION_SCRATCH, REGION_EXPOSED, REGION_SPREAD, REGIONS };

struct machine {
    struct plan *const *plans;
    const struct plan_shape *shape;
    const struct verify_binding *binding;
    uint32_t ranks, iterations, parts, channels;
    bool sized_blocks; /* a v-form */
    struct symbols *symbols;
    uint32_t input_blocks_most;

    uint32_t thread_count, *first_thread; /* of each rank */
    struct thread *threads;
    uint32_t components; /* of a vector clock: one a thread, then `begun` and `announced` of each rank */
    uint32_t *clocks;    /* [thread][component] */
    uint32_t *snapshots; /* [slot][component] */
    uint32_t snapshot_count;
    int32_t *snapshot_of; /* for each step of each rank: index among its lane's snapshots, or -1 */
    uint32_t *step_base;  /* where a rank's steps begin in snapshot_of */
    uint32_t *kept;       /* snapshots that a thread keeps in one iteration */
    uint32_t *signalled;  /* signals that a thread makes in one iteration */

    struct region *regions; /* [rank][REGIONS] */
    struct cell *cells;
    uint32_t cell_count;
    struct access *accesses;
    uint32_t access_count, access_capacity, access_free;
    struct channel *channel_table; /* [from][to][channel] */

    symbol *operands; /* room for one symbol a rank */
    struct verify_flow *flow;
    struct error *error;
    weft_status status;
};

/* Each chunk of each rank's input, in each iteration, is a symbol of its own. */
static symbol leaf(const struct machine *machine, uint32_t rank, uint32_t block, uint32_t iteration, uint32_t part)
{
    return 1 + rank + machine->ranks * (block + machine->input_blocks_most * (part + machine->parts * iteration));
}

/* ---- complaints -------------------------------------------------------------------------------------------------- */

static const char *binding_text(const struct machine *machine)
{
    static const char *const texts[3][3] = {
        {"", ", in place", ", every other rank in place"},
        {", buffers registered", ", buffers registered, in place", ", buffers registered, every other rank in place"},
        {", every other rank's buffers registered", ", every other rank's buffers registered, in place",
         ", every other rank's buffers registered and in place"}};
    return texts[machine->binding->registered][machine->binding->in_place];
}

static bool complain(struct machine *machine, const struct thread *thread, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* The sentence about a step; always false, so that it can be returned. */
static bool complain(struct machine *machine, const struct thread *thread, const char *format, ...)
{
    char what[512];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(what, sizeof what, format, arguments);
    va_end(arguments);
    const struct plan *plan = machine->plans[thread ? thread->rank : 0];
    if (!thread) {
        machine->status =
            error_set(machine->error, WEFT_ERROR_PLAN, "%s by %s over %u ranks%s: %s",
                      collective_name(plan->collective), plan->algorithm, machine->ranks, binding_text(machine), what);
        return false;
    }
    const struct step *step = &plan->steps[plan->lane_first[thread->lane] + thread->at];
    machine->status = error_set(
        machine->error, WEFT_ERROR_PLAN, "%s by %s over %u ranks%s: rank %u, lane %u, step %u (%s), iteration %u %s",
        collective_name(plan->collective), plan->algorithm, machine->ranks, binding_text(machine), thread->rank,
        thread->lane, thread->at, step_kind_name(step->kind), thread->iteration, what);
    return false;
}

/* ---- facts ---------------------------------------------------------------------------------------------------------
 */

void verify_flow_free(struct verify_flow *flow)
{
    free(flow->facts);
    *flow = (struct verify_flow){0};
}

static bool flow_has(const struct verify_flow *flow, uint64_t fact)
{
    for (uint32_t at = (uint32_t)fact & flow->mask; flow->facts[at]; at = (at + 1) & flow->mask)
        if (flow->facts[at] == fact)
            return true;
    return false;
}

bool verify_flow_equal(const struct verify_flow *a, const struct verify_flow *b)
{
    if (a->count != b->count)
        return false;
    for (uint32_t i = 0; a->count && i <= a->mask; i++)
        if (a->facts[i] && !flow_has(b, a->facts[i]))
            return false;
    return true;
}

static void flow_note(struct machine *machine, uint64_t kind, uint64_t where, symbol value)
{
    struct verify_flow *flow = machine->flow;
    if (!flow)
        return;
    uint64_t fact = (where * 0x9e3779b97f4a7c15u + kind) ^ symbols_hash(machine->symbols, value);
    fact = (fact ^ (fact >> 29)) * 0xbf58476d1ce4e5b9u | 1;
    if (flow->count * 2 >= flow->mask) {
        struct verify_flow larger = {.mask = flow->mask ? flow->mask * 2 + 1 : 255};
        larger.facts = calloc((size_t)larger.mask + 1, sizeof *larger.facts);
        if (!larger.facts) {
            machine->status = error_memory(machine->error, larger.mask * sizeof *larger.facts, "the verifier");
            return;
        }
        for (uint32_t i = 0; flow->facts && i <= flow->mask; i++) {
            uint32_t at = (uint32_t)flow->facts[i] & larger.mask;
            while (flow->facts[i] && larger.facts[at])
                at = (at + 1) & larger.mask;
            if (flow->facts[i])
                larger.facts[at] = flow->facts[i];
        }
        larger.count = flow->count;
        free(flow->facts);
        *flow = larger;
    }
    uint32_t at = (uint32_t)fact & flow->mask;
    while (flow->facts[at] && flow->facts[at] != fact)
        at = (at + 1) & flow->mask;
    flow->count += !flow->facts[at];
    flow->facts[at] = fact;
}

/* ---- cells
 * ----------------------------------------------------------------------------------------------------------- */

static bool chosen(enum verify_choice choice, uint32_t rank)
{
    return choice == CHOICE_ALL || (choice == CHOICE_ALTERNATING && rank % 2);
}

static bool registered(const struct machine *machine, uint32_t rank)
{
    return chosen(machine->binding->registered, rank);
}

static uint32_t cell_at(const struct machine *machine, uint32_t rank, enum region_kind kind, uint32_t iteration,
                        uint32_t chunk)
{
    const struct region *region = &machine->regions[rank * REGIONS + kind];
    if (kind >= REGION_SCRATCH)
        iteration %= machine->plans[rank]->slots;
    return region->base + iteration * region->stride + chunk;
}

static uint32_t *clock_of(struct machine *machine, const struct thread *thread)
{
    return machine->clocks + (size_t)(thread - machine->threads) * machine->components;
}

/* Whether what `by` completed as its step number `clock` comes before what `thread` begins now. */
static bool ordered(struct machine *machine, const struct thread *thread, uint32_t by, uint32_t clock)
{
    return clock_of(machine, thread)[by] >= clock;
}

static const char *cell_text(const struct machine *machine, uint32_t index, char *text, size_t size)
{
    static const char *const names[REGIONS] = {"input", "output", "scratch", "exposed copy", "spread copy"};
    for (uint32_t rank = 0; rank < machine->ranks; rank++) {
        for (unsigned kind = 0; kind < REGIONS; kind++) {
            const struct region *region = &machine->regions[rank * REGIONS + kind];
            uint32_t rows = kind >= REGION_SCRATCH ? machine->plans[rank]->slots : machine->iterations;
            if (region->stride && index >= region->base && index < region->base + rows * region->stride) {
                snprintf(text, size, "chunk %u of rank %u's %s", (index - region->base) % region->stride, rank,
                         names[kind]);
                return text;
            }
        }
    }
    return "a chunk";
}

static bool clash(struct machine *machine, const struct thread *thread, uint32_t index, const char *verb,
                  uint32_t other)
{
    char text[96];
    const struct thread *by = &machine->threads[other];
    return complain(machine, thread, "%s %s without being ordered after lane %u of rank %u, which %s it", verb,
                    cell_text(machine, index, text, sizeof text), by->lane, by->rank,
                    machine->cells[index].write_thread == other && machine->cells[index].write_clock ? "writes"
                                                                                                     : "reads");
}

static bool note_read(struct machine *machine, struct thread *thread, uint32_t index)
{
    struct cell *cell = &machine->cells[index];
    uint32_t self = (uint32_t)(thread - machine->threads);
    if (cell->write_clock && cell->write_thread != self &&
        !ordered(machine, thread, cell->write_thread, cell->write_clock))
        return clash(machine, thread, index, "reads", cell->write_thread);
    for (uint32_t at = cell->reads; at != NOBODY; at = machine->accesses[at].next) {
        if (machine->accesses[at].thread == self) {
            machine->accesses[at].clock = thread->clock + 1;
            return true;
        }
    }
    uint32_t entry = machine->access_free;
    if (entry != NOBODY) {
        machine->access_free = machine->accesses[entry].next;
    } else {
        if (machine->access_count == machine->access_capacity) {
            uint32_t capacity = machine->access_capacity * 2 + 256;
            struct access *grown = realloc(machine->accesses, capacity * sizeof *grown);
            if (!grown) {
                machine->status = error_memory(machine->error, capacity * sizeof *grown, "the verifier");
                return false;
            }
            machine->accesses = grown;
            machine->access_capacity = capacity;
        }
        entry = machine->access_count++;
    }
    machine->accesses[entry] = (struct access){self, thread->clock + 1, cell->reads};
    cell->reads = entry;
    return true;
}

static bool note_write(struct machine *machine, struct thread *thread, uint32_t index)
{
    struct cell *cell = &machine->cells[index];
    uint32_t self = (uint32_t)(thread - machine->threads);
    if (cell->write_clock && cell->write_thread != self &&
        !ordered(machine, thread, cell->write_thread, cell->write_clock))
        return clash(machine, thread, index, "writes", cell->write_thread);
    for (uint32_t at = cell->reads, next; at != NOBODY; at = next) {
        const struct access *access = &machine->accesses[at];
        next = access->next;
        if (access->thread != self && !ordered(machine, thread, access->thread, access->clock))
            return clash(machine, thread, index, "writes", access->thread);
        machine->accesses[at].next = machine->access_free;
        machine->access_free = at;
        cell->reads = next;
    }
    cell->write_thread = self;
    cell->write_clock = thread->clock + 1;
    return true;
}

/* The name of a chunk's size: its part, or in the v-forms the block whose size it is. */
static uint32_t size_name(const struct machine *machine, uint32_t rank, enum region_kind kind, uint32_t chunk)
{
    if (!machine->sized_blocks)
        return chunk % machine->parts;
    bool input = kind == REGION_INPUT || kind == REGION_EXPOSED;
    if (machine->shape->collective == COLLECTIVE_ALLTOALLV)
        return input ? rank * machine->ranks + chunk : chunk * machine->ranks + rank;
    return input ? rank : chunk;
}

/* Read a cell for `thread`: its value must be there, of the size named. */
static bool load(struct machine *machine, struct thread *thread, uint32_t index, uint32_t size, symbol *value)
{
    char text[96];
    if (!note_read(machine, thread, index))
        return false;
    const struct cell *cell = &machine->cells[index];
    if (!cell->value)
        return complain(machine, thread, "reads %s, which nothing has been written to",
                        cell_text(machine, index, text, sizeof text));
    if (cell->part != size)
        return complain(machine, thread, "reads %s as of the size of part %u, but it holds one of the size of part %u",
                        cell_text(machine, index, text, sizeof text), size, cell->part);
    *value = cell->value;
    return true;
}

static void store(struct machine *machine, uint32_t index, uint32_t size, symbol value)
{
    machine->cells[index].value = value;
    machine->cells[index].part = size;
}

/* The cell and size of the i-th chunk of a step's source or target. */
static bool locate(struct machine *machine, struct thread *thread, const struct step *step, bool target, uint32_t i,
                   uint32_t *index, uint32_t *size)
{
    uint8_t buffer = target ? step->target : step->source;
    uint32_t chunk = (target ? step->target_chunk : step->source_chunk) + i;
    *index = cell_at(machine, thread->rank, (enum region_kind)buffer, thread->iteration, chunk);
    if (buffer == BUFFER_SCRATCH) {
        if (machine->sized_blocks)
            return complain(machine, thread, "uses scratch, where blocks of different sizes have no place");
        *size = step->value + i;
    } else {
        *size = size_name(machine, thread->rank, (enum region_kind)buffer, chunk);
        if (!machine->sized_blocks && *size != (step->value + i) % machine->parts)
            return complain(machine, thread, "says part %u of a chunk that is part %u", step->value + i, *size);
    }
    return true;
}

/* ---- what happens before what
 * -------------------------------------------------------------------------------------------- */

static void join(uint32_t *clock, const uint32_t *other, uint32_t components)
{
    for (uint32_t i = 0; i < components; i++)
        clock[i] = clock[i] > other[i] ? clock[i] : other[i];
}

static void join_threads(struct machine *machine, const struct thread *thread, const struct thread *other)
{
    join(clock_of(machine, thread), clock_of(machine, other), machine->components);
}

static uint32_t announced(const struct machine *machine, uint32_t rank)
{
    return machine->thread_count + machine->ranks + rank;
}

static uint32_t begun(const struct machine *machine, uint32_t rank)
{
    return machine->thread_count + rank;
}

/* A near rank's memory is about to be touched. */
static bool may_touch(struct machine *machine, struct thread *thread, uint32_t rank)
{
    if (rank == thread->rank)
        return true;
    const uint32_t *nodes = machine->shape->nodes;
    if (nodes && nodes[rank] != nodes[thread->rank])
        return complain(machine, thread, "touches memory of rank %u, which is on another node", rank);
    if (!clock_of(machine, thread)[announced(machine, rank)])
        return complain(machine, thread, "touches memory of rank %u before any signal of it has been awaited", rank);
    return true;
}

/* A step is complete: tick, keep the clock if somebody waits for this step, go on to the next. */
static void complete(struct machine *machine, struct thread *thread)
{
    const struct plan *plan = machine->plans[thread->rank];
    uint32_t self = (uint32_t)(thread - machine->threads), step = plan->lane_first[thread->lane] + thread->at;
    uint32_t *clock = clock_of(machine, thread);
    clock[self] = ++thread->clock;
    int32_t kept = machine->snapshot_of[machine->step_base[thread->rank] + step];
    if (kept >= 0)
        memcpy(machine->snapshots +
                   (size_t)(thread->snapshot_slots + thread->iteration * machine->kept[self] + (uint32_t)kept) *
                       machine->components,
               clock, machine->components * sizeof *clock);
    thread->state = THREAD_READY;
    if (++thread->at == plan->lane_first[thread->lane + 1] - plan->lane_first[thread->lane]) {
        thread->at = 0;
        thread->iteration++;
    }
}

/* Whether the step's wait on another lane is over; joins that lane's clock if so. */
static bool wait_is_over(struct machine *machine, struct thread *thread, const struct step *step)
{
    if (!step->wait_steps || thread->iteration < step->wait_lag)
        return true;
    const struct plan *plan = machine->plans[thread->rank];
    uint32_t iteration = thread->iteration - step->wait_lag;
    uint32_t other = machine->first_thread[thread->rank] + step->wait_lane;
    const struct thread *lane = &machine->threads[other];
    if (lane->iteration < iteration || (lane->iteration == iteration && lane->at < step->wait_steps))
        return false;
    int32_t kept =
        machine
            ->snapshot_of[machine->step_base[thread->rank] + plan->lane_first[step->wait_lane] + step->wait_steps - 1];
    uint32_t slot = lane->snapshot_slots + iteration * machine->kept[other] + (uint32_t)kept;
    join(clock_of(machine, thread), machine->snapshots + (size_t)slot * machine->components, machine->components);
    return true;
}

/* ---- steps
 * ------------------------------------------------------------------------------------------------------------------ */

static struct channel *channel_of(struct machine *machine, uint32_t from, uint32_t to, uint32_t channel)
{
    return &machine->channel_table[((size_t)from * machine->ranks + to) * machine->channels + channel];
}

static const struct step *step_of(const struct machine *machine, const struct thread *thread)
{
    const struct plan *plan = machine->plans[thread->rank];
    return &plan->steps[plan->lane_first[thread->lane] + thread->at];
}

/* Sends and receives of one channel match in the order of their begin, which must therefore be no accident. */
static bool in_order(struct machine *machine, struct thread *thread, struct channel *channel, bool receives)
{
    uint32_t self = (uint32_t)(thread - machine->threads);
    uint32_t last = channel->last_thread[receives];
    if (last != NOBODY && last != self && !ordered(machine, thread, last, channel->last_clock[receives]))
        return complain(machine, thread, "and lane %u both %s on channel %u in no fixed order",
                        machine->threads[last].lane, receives ? "receive" : "send", step_of(machine, thread)->channel);
    channel->last_thread[receives] = self;
    channel->last_clock[receives] = thread->clock + 1;
    return true;
}

/* A send and a receive have met: move the values. */
static bool transfer(struct machine *machine, struct thread *sender, struct thread *receiver)
{
    const struct step *send = step_of(machine, sender), *receive = step_of(machine, receiver);
    if (send->chunks != receive->chunks)
        return complain(machine, receiver, "expects %u chunks, but rank %u sends %u", receive->chunks, sender->rank,
                        send->chunks);
    for (uint32_t i = 0; i < send->chunks; i++) {
        uint32_t from = 0, to = 0, sent_size = 0, size = 0;
        symbol value, own;
        if (!locate(machine, sender, send, false, i, &from, &sent_size) ||
            !locate(machine, receiver, receive, true, i, &to, &size))
            return false;
        value = machine->cells[from].value; /* the sender has looked at it when it began */
        if (size != sent_size)
            return complain(machine, receiver, "expects the size of part %u, but rank %u sends that of part %u", size,
                            sender->rank, sent_size);
        flow_note(machine, 1, (uint64_t)sender->rank << 32 | receiver->rank, value);
        if (receive->kind == STEP_RECEIVE_REDUCE) {
            uint32_t source, source_size;
            if (!locate(machine, receiver, receive, false, i, &source, &source_size))
                return false;
            own = machine->cells[source].value;
            if (source_size != size)
                return complain(machine, receiver, "adds parts of different sizes");
            value = receive->flags & STEP_RECEIVED_FIRST ? symbols_sum(machine->symbols, value, own)
                                                         : symbols_sum(machine->symbols, own, value);
            if (receive->flags & STEP_FINISHES)
                value = symbols_finish(machine->symbols, value);
        }
        store(machine, to, size, value);
        if (receive->target == BUFFER_OUTPUT)
            flow_note(machine, 2, to, value);
    }
    join_threads(machine, receiver, sender);
    return true;
}

static bool begin_message(struct machine *machine, struct thread *thread, const struct step *step)
{
    bool receives = step->kind != STEP_SEND;
    uint32_t self = (uint32_t)(thread - machine->threads), index, size;
    symbol value;
    for (uint32_t i = 0; i < step->chunks; i++) {
        if (step->kind != STEP_RECEIVE)
            if (!locate(machine, thread, step, false, i, &index, &size) || !load(machine, thread, index, size, &value))
                return false;
        if (receives)
            if (!locate(machine, thread, step, true, i, &index, &size) || !note_write(machine, thread, index))
                return false;
    }
    struct channel *channel = receives ? channel_of(machine, step->peer, thread->rank, step->channel)
                                       : channel_of(machine, thread->rank, step->peer, step->channel);
    if (!in_order(machine, thread, channel, receives))
        return false;
    if (channel->head != NOBODY && channel->holds_sends == receives) {
        struct thread *other = &machine->threads[channel->head];
        channel->head = other->next;
        if (!(receives ? transfer(machine, other, thread) : transfer(machine, thread, other)))
            return false;
        other->state = THREAD_MATCHED;
        thread->state = THREAD_MATCHED;
        return true;
    }
    thread->next = NOBODY;
    if (channel->head == NOBODY)
        channel->head = self;
    else
        machine->threads[channel->tail].next = self;
    channel->tail = self;
    channel->holds_sends = !receives;
    thread->state = THREAD_WAITS_FOR_MATCH;
    return true;
}

/* Where near ranks find chunk `chunk` of `rank`'s input. */
static uint32_t exposed_cell(const struct machine *machine, const struct thread *thread, uint32_t rank, uint32_t chunk)
{
    bool in_place = rank == thread->rank || registered(machine, rank);
    return cell_at(machine, rank, in_place ? REGION_INPUT : REGION_EXPOSED, thread->iteration, chunk);
}

static bool read_exposed(struct machine *machine, struct thread *thread, uint32_t rank, uint32_t chunk, uint32_t size,
                         symbol *value)
{
    const struct plan *plan = machine->plans[rank];
    if (chunk >= plan->input_blocks * plan->parts)
        return complain(machine, thread, "reads chunk %u of the input of rank %u, which has %u", chunk, rank,
                        plan->input_blocks * plan->parts);
    if (size_name(machine, rank, REGION_INPUT, chunk) != size)
        return complain(machine, thread, "reads a chunk of rank %u of another size than it says", rank);
    return may_touch(machine, thread, rank) &&
           load(machine, thread, exposed_cell(machine, thread, rank, chunk), size, value);
}

/* The canonical sum of one chunk of everybody's input in a group. */
static bool gather(struct machine *machine, struct thread *thread, const struct step *step, uint32_t i, symbol *value)
{
    const struct plan *plan = machine->plans[thread->rank];
    const struct plan_group *group = &plan->groups[step->peer];
    for (uint32_t k = 0; k < group->count; k++)
        if (!read_exposed(machine, thread, plan->members[group->first + k], step->source_chunk + i,
                          (step->value + i) % machine->parts, &machine->operands[k]))
            return false;
    *value = symbols_tree(machine->symbols, machine->operands, group->count);
    if (step->flags & STEP_FINISHES)
        *value = symbols_finish(machine->symbols, *value);
    return true;
}

static bool write_output(struct machine *machine, struct thread *thread, uint32_t index, uint32_t size, symbol value)
{
    if (!note_write(machine, thread, index))
        return false;
    store(machine, index, size, value);
    flow_note(machine, 2, index, value);
    return true;
}

/* Hand one chunk to the outputs of a group. */
static bool spread(struct machine *machine, struct thread *thread, uint32_t group_index, uint32_t chunk, uint32_t size,
                   symbol value)
{
    const struct plan *plan = machine->plans[thread->rank];
    const struct plan_group *group = &plan->groups[group_index];
    bool staged = false;
    for (uint32_t k = 0; k < group->count; k++) {
        uint32_t rank = plan->members[group->first + k];
        if (chunk >= machine->plans[rank]->output_blocks * machine->parts)
            return complain(machine, thread, "spreads chunk %u to rank %u, whose output has none", chunk, rank);
        if (size_name(machine, rank, REGION_OUTPUT, chunk) != size)
            return complain(machine, thread, "spreads a chunk of another size than it says");
        if (!may_touch(machine, thread, rank))
            return false;
        if (rank == thread->rank || registered(machine, rank)) {
            if (!write_output(machine, thread, cell_at(machine, rank, REGION_OUTPUT, thread->iteration, chunk), size,
                              value))
                return false;
        } else if (!staged) {
            staged = true;
            uint32_t index = cell_at(machine, thread->rank, REGION_SPREAD, thread->iteration, chunk);
            if (!note_write(machine, thread, index))
                return false;
            store(machine, index, size, value);
        }
    }
    return true;
}

static bool deliver(struct machine *machine, struct thread *thread, const struct step *step)
{
    if (!may_touch(machine, thread, step->peer))
        return false;
    for (uint32_t i = 0; i < step->chunks && !registered(machine, thread->rank); i++) {
        symbol value;
        uint32_t index, size, chunk = step->target_chunk + i;
        const struct plan *peer = machine->plans[step->peer];
        if (!locate(machine, thread, step, true, i, &index, &size))
            return false;
        if (chunk >= machine->regions[step->peer * REGIONS + REGION_SPREAD].stride)
            return complain(machine, thread, "delivers chunk %u of rank %u, which has none (%s)", chunk, step->peer,
                            peer->algorithm);
        if (!load(machine, thread, cell_at(machine, step->peer, REGION_SPREAD, thread->iteration, chunk), size,
                  &value) ||
            !write_output(machine, thread, index, size, value))
            return false;
    }
    return true;
}

static bool expose(struct machine *machine, struct thread *thread, const struct step *step)
{
    for (uint32_t i = 0; i < step->chunks; i++) {
        uint32_t chunk = step->source_chunk + i, size = size_name(machine, thread->rank, REGION_INPUT, chunk);
        symbol value;
        if (registered(machine, thread->rank)) /* near ranks will read it where it is: it must be there */
            continue;
        uint32_t to = cell_at(machine, thread->rank, REGION_EXPOSED, thread->iteration, chunk);
        if (!load(machine, thread, cell_at(machine, thread->rank, REGION_INPUT, thread->iteration, chunk), size,
                  &value) ||
            !note_write(machine, thread, to))
            return false;
        store(machine, to, size, value);
    }
    return true;
}

static void signal(struct machine *machine, struct thread *thread)
{
    uint32_t *clock = clock_of(machine, thread);
    clock[announced(machine, thread->rank)] = 1;
    memcpy(machine->snapshots + (size_t)(thread->signal_slots + thread->signals) * machine->components, clock,
           machine->components * sizeof *clock);
    thread->signals++;
}

/* The n-th signal of a lane (from 1) must wake `rank`. */
static bool wakes(const struct machine *machine, const struct thread *lane, uint32_t n, uint32_t rank)
{
    const struct plan *plan = machine->plans[lane->rank];
    uint32_t in_iteration = (n - 1) % machine->signalled[lane - machine->threads];
    for (uint32_t i = plan->lane_first[lane->lane]; i < plan->lane_first[lane->lane + 1]; i++) {
        if (plan->steps[i].kind != STEP_SIGNAL || in_iteration-- != 0)
            continue;
        const struct plan_group *group = &plan->groups[plan->steps[i].peer];
        for (uint32_t k = 0; k < group->count; k++)
            if (plan->members[group->first + k] == rank)
                return true;
        return false;
    }
    return false;
}

/* Whether the signals awaited have been made; joins their clocks if so. */
static bool await(struct machine *machine, struct thread *thread, const struct step *step, bool *over)
{
    *over = true;
    if (thread->iteration < step->value_lag)
        return true;
    const struct plan *plan = machine->plans[thread->rank];
    const struct plan_group *group = &plan->groups[step->peer];
    uint32_t needed = step->stride * (thread->iteration - step->value_lag) + step->value;
    for (unsigned joins = 0; joins < 2; joins++) {
        for (uint32_t k = 0; k < group->count; k++) {
            uint32_t rank = plan->members[group->first + k];
            if (rank == thread->rank)
                continue;
            const uint32_t *nodes = machine->shape->nodes;
            if (nodes && nodes[rank] != nodes[thread->rank])
                return complain(machine, thread, "awaits rank %u, which is on another node", rank);
            uint32_t other = machine->first_thread[rank] + step->operands;
            if (step->operands >= machine->plans[rank]->lane_count || machine->signalled[other] != step->stride)
                return complain(machine, thread, "counts %u signals an iteration of lane %u of rank %u, which makes %u",
                                step->stride, step->operands, rank,
                                step->operands >= machine->plans[rank]->lane_count ? 0 : machine->signalled[other]);
            const struct thread *lane = &machine->threads[other];
            if (!wakes(machine, lane, needed, thread->rank))
                return complain(machine, thread, "awaits a signal of rank %u that does not wake it", rank);
            if (lane->signals < needed) {
                *over = false;
                return true;
            }
            if (joins)
                join(clock_of(machine, thread),
                     machine->snapshots + (size_t)(lane->signal_slots + needed - 1) * machine->components,
                     machine->components);
        }
    }
    return true;
}

/* All of the group must be at their exchange; then what they published is combined. */
static bool exchange(struct machine *machine, struct thread *thread, const struct step *step, bool *over)
{
    const struct plan *plan = machine->plans[thread->rank];
    const struct plan_group *group = &plan->groups[step->peer];
    bool member = false;
    thread->state = THREAD_PUBLISHED; /* the input is read here, at its begin */
    for (uint32_t k = 0; k < group->count; k++) {
        uint32_t rank = plan->members[group->first + k];
        const struct thread *other = &machine->threads[machine->first_thread[rank]];
        const struct plan *others = machine->plans[rank];
        member = member || rank == thread->rank;
        if (others->step_count != 1 || others->steps[0].kind != STEP_EXCHANGE)
            return complain(machine, thread, "exchanges with rank %u, which takes no part", rank);
        const struct plan_group *others_group = &others->groups[others->steps[0].peer];
        if (others_group->count != group->count ||
            memcmp(others->members + others_group->first, plan->members + group->first,
                   group->count * sizeof *plan->members) != 0)
            return complain(machine, thread, "exchanges with rank %u in another group than that does", rank);
        if (machine->shape->nodes && machine->shape->nodes[rank] != machine->shape->nodes[thread->rank])
            return complain(machine, thread, "exchanges with rank %u, which is on another node", rank);
        if (other->state != THREAD_PUBLISHED && other->clock == 0) {
            *over = false;
            return true;
        }
    }
    *over = true;
    if (!member)
        return complain(machine, thread, "is in no exchange of its own group");
    for (uint32_t k = 0; k < group->count; k++) {
        uint32_t rank = plan->members[group->first + k];
        clock_of(machine, thread)[begun(machine, rank)] = 1;
        uint32_t block = step->source_chunk;
        machine->operands[k] = SYMBOL_NONE;
        if (block < machine->plans[rank]->input_blocks) /* as it was published: inputs are the leaves */
            machine->operands[k] = leaf(machine, rank, block, 0, 0);
        if (machine->shape->collective == COLLECTIVE_BROADCAST && rank != machine->shape->root)
            machine->operands[k] = SYMBOL_NONE;
    }
    symbol value = SYMBOL_NONE;
    uint32_t blocks = step->value == EXCHANGE_NOTHING ? 0 : step->value == EXCHANGE_GATHER ? group->count : 1;
    if (blocks > plan->output_blocks)
        return complain(machine, thread, "gives %u blocks to an output of %u", blocks, plan->output_blocks);
    if (step->value == EXCHANGE_REDUCE)
        value = symbols_finish(machine->symbols, symbols_tree(machine->symbols, machine->operands, group->count));
    for (uint32_t block = 0; block < blocks; block++) {
        if (step->value != EXCHANGE_REDUCE)
            value = machine->operands[step->value == EXCHANGE_GATHER ? block : step->operands];
        if (!value)
            return complain(machine, thread, "takes what nobody published");
        if (!write_output(machine, thread, cell_at(machine, thread->rank, REGION_OUTPUT, 0, block),
                          size_name(machine, thread->rank, REGION_OUTPUT, block), value))
            return false;
    }
    return true;
}

static bool local_step(struct machine *machine, struct thread *thread, const struct step *step)
{
    symbol value = SYMBOL_NONE;
    uint32_t from, to, from_size, size;
    for (uint32_t i = 0; i < step->chunks; i++) {
        if (!locate(machine, thread, step, true, i, &to, &size))
            return false;
        switch (step->kind) {
        case STEP_COPY:
            if (!locate(machine, thread, step, false, i, &from, &from_size) ||
                !load(machine, thread, from, from_size, &value))
                return false;
            if (from_size != size)
                return complain(machine, thread, "copies to a place of another size");
            if (from == to)
                continue;
            break;
        case STEP_REDUCE: {
            symbol *operands = machine->operands;
            if (step->operands > machine->ranks && !(operands = malloc(step->operands * sizeof *operands)))
                return complain(machine, thread, "has more operands than memory");
            bool read = locate(machine, thread, step, false, 0, &from, &from_size);
            for (uint32_t k = 0; read && k < step->operands; k++)
                read = load(machine, thread, from + k * step->stride, size, &operands[k]);
            if (read)
                value = symbols_tree(machine->symbols, operands, step->operands);
            if (operands != machine->operands)
                free(operands);
            if (!read)
                return false;
            break;
        }
        case STEP_FINISH:
            if (!load(machine, thread, to, size, &value))
                return false;
            value = symbols_finish(machine->symbols, value);
            break;
        case STEP_READ:
            if (!read_exposed(machine, thread, step->peer, step->source_chunk + i, size, &value))
                return false;
            break;
        default: /* STEP_GATHER_REDUCE */
            if (!gather(machine, thread, step, i, &value))
                return false;
            break;
        }
        if ((step->flags & STEP_FINISHES) && step->kind == STEP_REDUCE)
            value = symbols_finish(machine->symbols, value);
        if (!note_write(machine, thread, to))
            return false;
        store(machine, to, size, value);
        if (step->target == BUFFER_OUTPUT)
            flow_note(machine, 2, to, value);
    }
    return true;
}

static bool spread_step(struct machine *machine, struct thread *thread, const struct step *step)
{
    for (uint32_t i = 0; i < step->chunks; i++) {
        symbol value;
        uint32_t from, size;
        if (step->kind == STEP_REDUCE_SPREAD) {
            size = (step->value + i) % machine->parts;
            if (!gather(machine, thread, step, i, &value))
                return false;
        } else if (!locate(machine, thread, step, false, i, &from, &size) ||
                   !load(machine, thread, from, size, &value)) {
            return false;
        }
        uint32_t group = step->kind == STEP_REDUCE_SPREAD ? step->operands : step->peer;
        if (!spread(machine, thread, group, step->target_chunk + i, size, value))
            return false;
    }
    return true;
}

/* Take one thread as far as one step; returns whether it moved. machine->status tells of mistakes. */
static bool advance(struct machine *machine, struct thread *thread)
{
    if (thread->iteration == machine->iterations || thread->state == THREAD_WAITS_FOR_MATCH)
        return false;
    if (thread->state == THREAD_MATCHED) {
        complete(machine, thread);
        return true;
    }
    const struct step *step = step_of(machine, thread);
    if (!wait_is_over(machine, thread, step))
        return false;
    bool right = true, over = true;
    switch (step->kind) {
    case STEP_SEND:
    case STEP_RECEIVE:
    case STEP_RECEIVE_REDUCE:
        return begin_message(machine, thread, step);
    case STEP_EXPOSE:
        right = expose(machine, thread, step);
        break;
    case STEP_SIGNAL:
        signal(machine, thread);
        break;
    case STEP_AWAIT:
        right = await(machine, thread, step, &over);
        break;
    case STEP_SPREAD:
    case STEP_REDUCE_SPREAD:
        right = spread_step(machine, thread, step);
        break;
    case STEP_DELIVER:
        right = deliver(machine, thread, step);
        break;
    case STEP_EXCHANGE:
        right = exchange(machine, thread, step, &over);
        break;
    default:
        right = local_step(machine, thread, step);
        break;
    }
    if (!right || !over)
        return false;
    complete(machine, thread);
    return true;
}

/* ---- the end
 * --------------------------------------------------------------------------------------------------------------------
 */

static bool has_input(const struct plan_shape *shape, uint32_t rank)
{
    return shape->collective != COLLECTIVE_BROADCAST || rank == shape->root;
}

/* What block `block` of rank's output must hold: one leaf, or (a sum) a leaf of every rank. Returns how many leaves. */
static uint32_t expected(struct machine *machine, uint32_t rank, uint32_t block, uint32_t iteration, uint32_t part)
{
    symbol *leaves = machine->operands;
    switch (machine->shape->collective) {
    case COLLECTIVE_ALLREDUCE:
    case COLLECTIVE_REDUCE:
    case COLLECTIVE_REDUCE_SCATTER: {
        uint32_t from = machine->shape->collective == COLLECTIVE_REDUCE_SCATTER ? rank : 0;
        for (uint32_t r = 0; r < machine->ranks; r++)
            leaves[r] = leaf(machine, r, from, iteration, part);
        return machine->ranks;
    }
    case COLLECTIVE_BROADCAST:
    case COLLECTIVE_SENDRECEIVE:
        leaves[0] = leaf(machine, machine->shape->root, 0, iteration, part);
        return 1;
    case COLLECTIVE_SCATTER:
        leaves[0] = leaf(machine, machine->shape->root, rank, iteration, part);
        return 1;
    case COLLECTIVE_ALLTOALL:
    case COLLECTIVE_ALLTOALLV:
        leaves[0] = leaf(machine, block, rank, iteration, part);
        return 1;
    default:
        leaves[0] = leaf(machine, block, 0, iteration, part);
        return 1;
    }
}

static bool is_sum(const struct plan_shape *shape)
{
    return shape->collective == COLLECTIVE_ALLREDUCE || shape->collective == COLLECTIVE_REDUCE ||
           shape->collective == COLLECTIVE_REDUCE_SCATTER;
}

static bool check_value(struct machine *machine, uint32_t rank, uint32_t block, uint32_t iteration, uint32_t part)
{
    symbol value =
        machine->cells[cell_at(machine, rank, REGION_OUTPUT, iteration, block * machine->parts + part)].value;
    uint32_t count = expected(machine, rank, block, iteration, part);
    bool right;
    symbol wanted = machine->operands[0];
    if (!is_sum(machine->shape)) {
        right = value == wanted;
    } else if (machine->plans[rank]->canonical) {
        wanted = symbols_finish(machine->symbols, symbols_tree(machine->symbols, machine->operands, count));
        right = value == wanted;
    } else {
        symbol first = SYMBOL_NONE; /* all ranks alike: looked into only once */
        if (machine->shape->collective == COLLECTIVE_ALLREDUCE && rank > 0)
            first = machine->cells[cell_at(machine, 0, REGION_OUTPUT, iteration, part)].value;
        right = first ? value == first : symbols_is_sum_of(machine->symbols, value, machine->operands, count, true);
    }
    if (right)
        return true;
    char has[200], should[200];
    return complain(machine, NULL, "rank %u ends with %s in block %u, part %u, iteration %u, where %s belongs", rank,
                    symbols_text(machine->symbols, value, machine->ranks, has, sizeof has), block, part, iteration,
                    is_sum(machine->shape) && !machine->plans[rank]->canonical
                        ? "the same sum of everybody's, each once,"
                        : symbols_text(machine->symbols, wanted, machine->ranks, should, sizeof should));
}

/* Nobody may have a hand in a rank's buffers any more when that rank is done; in a barrier, all must have begun. */
static bool check_end(struct machine *machine, uint32_t rank, uint32_t *clock)
{
    const struct plan *plan = machine->plans[rank];
    memset(clock, 0, machine->components * sizeof *clock);
    for (uint32_t thread = machine->first_thread[rank]; thread < machine->first_thread[rank + 1]; thread++)
        join(clock, clock_of(machine, &machine->threads[thread]), machine->components);
    char text[96];
    for (uint32_t iteration = 0; iteration < machine->iterations; iteration++) {
        for (unsigned kind = REGION_INPUT; kind <= REGION_OUTPUT; kind++) {
            uint32_t chunks = (kind == REGION_INPUT ? plan->input_blocks : plan->output_blocks) * plan->parts;
            for (uint32_t chunk = 0; chunk < chunks; chunk++) {
                uint32_t index = cell_at(machine, rank, (enum region_kind)kind, iteration, chunk);
                const struct cell *cell = &machine->cells[index];
                if (cell->write_clock && clock[cell->write_thread] < cell->write_clock)
                    return complain(machine, NULL, "rank %u may be done while rank %u still writes %s", rank,
                                    machine->threads[cell->write_thread].rank,
                                    cell_text(machine, index, text, sizeof text));
                for (uint32_t at = cell->reads; at != NOBODY; at = machine->accesses[at].next)
                    if (clock[machine->accesses[at].thread] < machine->accesses[at].clock)
                        return complain(machine, NULL, "rank %u may be done while rank %u still reads %s", rank,
                                        machine->threads[machine->accesses[at].thread].rank,
                                        cell_text(machine, index, text, sizeof text));
            }
        }
        for (uint32_t chunk = 0; chunk < plan->output_blocks * plan->parts; chunk++)
            if (!check_value(machine, rank, chunk / plan->parts, iteration, chunk % plan->parts))
                return false;
    }
    if (machine->shape->collective == COLLECTIVE_BARRIER)
        for (uint32_t other = 0; other < machine->ranks; other++)
            if (other != rank && !clock[begun(machine, other)])
                return complain(machine, NULL, "rank %u may be through before rank %u has begun", rank, other);
    return true;
}

static bool run(struct machine *machine)
{
    bool moved = true;
    while (moved && machine->status == WEFT_OK) {
        moved = false;
        for (uint32_t i = 0; i < machine->thread_count && machine->status == WEFT_OK; i++)
            while (advance(machine, &machine->threads[i]) && machine->status == WEFT_OK)
                moved = true;
    }
    if (machine->status != WEFT_OK)
        return false;
    uint32_t stuck = 0;
    struct thread *first = NULL;
    for (uint32_t i = 0; i < machine->thread_count; i++) {
        if (machine->threads[i].iteration < machine->iterations) {
            first = first ? first : &machine->threads[i];
            stuck++;
        }
    }
    if (first)
        return complain(machine, first, "waits for ever (deadlock), as do %u other lanes; it is about rank or group %u",
                        stuck - 1, step_of(machine, first)->peer);
    return true;
}

/* ---- setting up
 * ---------------------------------------------------------------------------------------------------------------------
 */

/* Which steps another lane waits for, how many signals a lane makes: sizes of what must be kept. */
static void count_snapshots(struct machine *machine)
{
    for (uint32_t rank = 0; rank < machine->ranks; rank++) {
        const struct plan *plan = machine->plans[rank];
        int32_t *kept = machine->snapshot_of + machine->step_base[rank];
        for (uint32_t i = 0; i < plan->step_count; i++)
            kept[i] = -1;
        for (uint32_t i = 0; i < plan->step_count; i++)
            if (plan->steps[i].wait_steps)
                kept[plan->lane_first[plan->steps[i].wait_lane] + plan->steps[i].wait_steps - 1] = 0;
        for (uint32_t lane = 0; lane < plan->lane_count; lane++) {
            uint32_t self = machine->first_thread[rank] + lane;
            struct thread *thread = &machine->threads[self];
            *thread = (struct thread){.rank = rank, .lane = lane, .next = NOBODY};
            for (uint32_t i = plan->lane_first[lane]; i < plan->lane_first[lane + 1]; i++) {
                if (kept[i] == 0)
                    kept[i] = (int32_t)machine->kept[self]++;
                machine->signalled[self] += plan->steps[i].kind == STEP_SIGNAL;
            }
            if (plan->lane_first[lane] == plan->lane_first[lane + 1])
                thread->iteration = machine->iterations; /* nothing to do in this lane */
            thread->snapshot_slots = machine->snapshot_count;
            machine->snapshot_count += machine->kept[self] * machine->iterations;
            thread->signal_slots = machine->snapshot_count;
            machine->snapshot_count += machine->signalled[self] * machine->iterations;
        }
    }
}

/* Lay the buffers of all ranks out as cells; in place, output and input share them. */
static void lay_out(struct machine *machine)
{
    uint32_t next = 0, parts = machine->parts;
    for (uint32_t rank = 0; rank < machine->ranks; rank++) {
        const struct plan *plan = machine->plans[rank];
        struct region *regions = machine->regions + (size_t)rank * REGIONS;
        uint32_t sizes[REGIONS] = {
            [REGION_INPUT] = plan->input_blocks * parts,   [REGION_OUTPUT] = plan->output_blocks * parts,
            [REGION_SCRATCH] = plan->scratch_chunks,       [REGION_EXPOSED] = plan->input_blocks * parts,
            [REGION_SPREAD] = plan->output_blocks * parts,
        };
        /* A rank without output can spread to others' (reduce). */
        if (!sizes[REGION_SPREAD])
            sizes[REGION_SPREAD] = machine->plans[machine->shape->root]->output_blocks * parts;
        for (unsigned kind = 0; kind < REGIONS; kind++) {
            regions[kind] = (struct region){next, sizes[kind]};
            next += sizes[kind] * (kind >= REGION_SCRATCH ? plan->slots : machine->iterations);
        }
        if (!chosen(machine->binding->in_place, rank) || !plan->input_blocks || !plan->output_blocks)
            continue;
        switch (machine->shape->collective) {
        case COLLECTIVE_REDUCE_SCATTER:
        case COLLECTIVE_SCATTER:
            regions[REGION_OUTPUT] =
                (struct region){regions[REGION_INPUT].base + rank * parts, regions[REGION_INPUT].stride};
            break;
        case COLLECTIVE_ALLGATHER:
        case COLLECTIVE_ALLGATHERV:
        case COLLECTIVE_GATHER:
        case COLLECTIVE_GATHERV:
            regions[REGION_INPUT] =
                (struct region){regions[REGION_OUTPUT].base + rank * parts, regions[REGION_OUTPUT].stride};
            break;
        default:
            regions[REGION_OUTPUT] = regions[REGION_INPUT];
            break;
        }
    }
    machine->cell_count = next;
}

static void fill_inputs(struct machine *machine)
{
    for (uint32_t i = 0; i < machine->cell_count; i++)
        machine->cells[i].reads = NOBODY;
    for (uint32_t rank = 0; rank < machine->ranks; rank++) {
        const struct plan *plan = machine->plans[rank];
        for (uint32_t iteration = 0; has_input(machine->shape, rank) && iteration < machine->iterations; iteration++)
            for (uint32_t chunk = 0; chunk < plan->input_blocks * machine->parts; chunk++)
                store(machine, cell_at(machine, rank, REGION_INPUT, iteration, chunk),
                      size_name(machine, rank, REGION_INPUT, chunk),
                      leaf(machine, rank, chunk / machine->parts, iteration, chunk % machine->parts));
        for (uint32_t lane = 0; lane < plan->lane_count; lane++)
            clock_of(machine, &machine->threads[machine->first_thread[rank] + lane])[begun(machine, rank)] = 1;
    }
}

static void machine_close(struct machine *machine)
{
    void *arrays[] = {machine->first_thread, machine->threads,   machine->clocks,   machine->snapshots,
                      machine->snapshot_of,  machine->step_base, machine->kept,     machine->signalled,
                      machine->regions,      machine->cells,     machine->accesses, machine->channel_table,
                      machine->operands};
    for (size_t i = 0; i < sizeof arrays / sizeof *arrays; i++)
        free(arrays[i]);
    symbols_close(machine->symbols);
}

/* What all ranks' plans must have in common before they are worth running. */
static bool same_frame(struct machine *machine)
{
    const struct plan *first = machine->plans[0];
    for (uint32_t rank = 0; rank < machine->ranks; rank++) {
        const struct plan *plan = machine->plans[rank];
        if (plan->hash != first->hash || plan->rank != rank || plan->ranks != machine->ranks ||
            plan->parts != first->parts || plan->segment_bytes != first->segment_bytes ||
            plan->canonical != first->canonical || plan->collective != machine->shape->collective)
            return complain(machine, NULL, "the plans of ranks 0 and %u are not of one kind", rank);
    }
    return true;
}

static bool machine_open(struct machine *machine)
{
    uint32_t steps = 0, slots = 1;
    machine->parts = machine->plans[0]->parts;
    machine->sized_blocks = machine->shape->collective == COLLECTIVE_ALLTOALLV ||
                            machine->shape->collective == COLLECTIVE_ALLGATHERV ||
                            machine->shape->collective == COLLECTIVE_GATHERV;
    machine->first_thread = calloc(machine->ranks + 1, sizeof *machine->first_thread);
    machine->step_base = calloc(machine->ranks, sizeof *machine->step_base);
    if (!machine->first_thread || !machine->step_base)
        return false;
    for (uint32_t rank = 0; rank < machine->ranks; rank++) {
        const struct plan *plan = machine->plans[rank];
        machine->first_thread[rank] = machine->thread_count;
        machine->step_base[rank] = steps;
        machine->thread_count += plan->lane_count;
        steps += plan->step_count;
        if (plan->slots > slots)
            slots = plan->slots;
        if (plan->input_blocks > machine->input_blocks_most)
            machine->input_blocks_most = plan->input_blocks;
        for (uint32_t i = 0; i < plan->step_count; i++)
            if (plan->steps[i].channel >= machine->channels)
                machine->channels = plan->steps[i].channel + 1u;
    }
    machine->first_thread[machine->ranks] = machine->thread_count;
    machine->iterations = machine->plans[0]->segment_bytes ? 2 * slots + 1 : 1;
    machine->components = machine->thread_count + 2 * machine->ranks;

    uint32_t threads = machine->thread_count ? machine->thread_count : 1;
    machine->threads = calloc(threads, sizeof *machine->threads);
    machine->kept = calloc(threads, sizeof *machine->kept);
    machine->signalled = calloc(threads, sizeof *machine->signalled);
    machine->snapshot_of = calloc(steps ? steps : 1, sizeof *machine->snapshot_of);
    machine->regions = calloc((size_t)machine->ranks * REGIONS, sizeof *machine->regions);
    machine->operands = calloc(machine->ranks, sizeof *machine->operands);
    if (!machine->threads || !machine->kept || !machine->signalled || !machine->snapshot_of || !machine->regions ||
        !machine->operands)
        return false;
    count_snapshots(machine);
    lay_out(machine);
    size_t channels = (size_t)machine->ranks * machine->ranks * machine->channels;
    machine->clocks = calloc((size_t)threads * machine->components, sizeof *machine->clocks);
    machine->snapshots =
        malloc(((size_t)machine->snapshot_count * machine->components + 1) * sizeof *machine->snapshots);
    machine->cells = calloc(machine->cell_count ? machine->cell_count : 1, sizeof *machine->cells);
    machine->channel_table = malloc((channels ? channels : 1) * sizeof *machine->channel_table);
    machine->symbols =
        symbols_open(machine->ranks * machine->input_blocks_most * machine->parts * machine->iterations + 1);
    machine->access_free = NOBODY;
    if (!machine->clocks || !machine->snapshots || !machine->cells || !machine->channel_table || !machine->symbols)
        return false;
    for (size_t i = 0; i < channels; i++)
        machine->channel_table[i] = (struct channel){.head = NOBODY, .last_thread = {NOBODY, NOBODY}};
    fill_inputs(machine);
    return true;
}

weft_status verify_run(struct plan *const *plans, uint32_t ranks, const struct plan_shape *shape,
                       const struct verify_binding *binding, struct verify_flow *flow, struct error *error)
{
    struct machine machine = {
        .plans = plans, .shape = shape, .binding = binding, .ranks = ranks, .flow = flow, .error = error};
    if (!same_frame(&machine))
        return machine.status;
    uint32_t *clock = NULL;
    if (!machine_open(&machine) || !(clock = malloc(machine.components * sizeof *clock)))
        machine.status = error_memory(error, machine.cell_count * sizeof *machine.cells, "the verifier");
    else if (run(&machine))
        for (uint32_t rank = 0; rank < ranks && check_end(&machine, rank, clock); rank++) {
        }
    if (machine.status == WEFT_OK && symbols_exhausted(machine.symbols))
        machine.status = error_memory(error, machine.cell_count * sizeof *machine.cells, "the verifier's symbols");
    free(clock);
    machine_close(&machine);
    return machine.status;
}
