/* SPDX-License-Identifier: Apache-2.0 */
/* Complaints, facts and memory of the verifier's machine. */
#include "core/schedule/verify/internal/state.h"
#include "base/hash.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- complaints ---- */

static const char *binding_text(const struct verify_machine *machine)
{
    static const char *const texts[3][3] = {
        {"", ", in place", ", every other rank in place"},
        {", buffers registered", ", buffers registered, in place", ", buffers registered, every other rank in place"},
        {", every other rank's buffers registered", ", every other rank's buffers registered, in place",
         ", every other rank's buffers registered and in place"}};
    if (!machine->binding)
        return ""; /* the schedules do not fit together at all */
    return texts[machine->binding->registered][machine->binding->in_place];
}

bool verify_complain(struct verify_machine *machine, const struct thread *thread, const char *format, ...)
{
    char what[512];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(what, sizeof what, format, arguments);
    va_end(arguments);
    const struct schedule *schedule = machine->schedules[thread ? thread->rank : 0];
    if (!thread) {
        machine->status = error_set(machine->error, WEFT_ERROR_SCHEDULE, "%s by %s over %u ranks%s: %s",
                                    collective_name(schedule->collective), schedule->algorithm, machine->ranks,
                                    binding_text(machine), what);
        return false;
    }
    const struct step *step = verify_step_of(thread);
    machine->status =
        error_set(machine->error, WEFT_ERROR_SCHEDULE,
                  "%s by %s over %u ranks%s: rank %u, lane %u, step %u (%s), iteration %u %s",
                  collective_name(schedule->collective), schedule->algorithm, machine->ranks, binding_text(machine),
                  thread->rank, thread->lane, thread->at, step_kind_name(step->kind), thread->iteration, what);
    return false;
}

/* ---- facts ---- */

void verify_flow_free(struct verify_flow *flow)
{
    free(flow->facts);
    free(flow->order);
    *flow = (struct verify_flow){0};
}

static bool flow_has(const struct verify_flow *flow, uint64_t fact)
{
    if (!flow->count)
        return false;
    for (uint32_t at = (uint32_t)fact & flow->mask; flow->facts[at]; at = (at + 1) & flow->mask)
        if (flow->facts[at] == fact)
            return true;
    return false;
}

static bool flow_within(const struct verify_flow *a, const struct verify_flow *b)
{
    for (uint32_t i = 0; a->count && i <= a->mask; i++)
        if (a->facts[i] && !flow_has(b, a->facts[i]))
            return false;
    return true;
}

enum verify_relation verify_flow_compare(const struct verify_flow *a, const struct verify_flow *b)
{
    if (!flow_within(a, b) || !flow_within(b, a))
        return FLOW_OTHER;
    if (a->rows != b->rows || a->width != b->width)
        return FLOW_DATA;
    enum verify_relation relation = FLOW_SAME;
    for (uint32_t row = 0; row < a->rows; row++) {
        const uint64_t *first = a->order + (size_t)row * a->width, *second = b->order + (size_t)row * b->width;
        if (first[0] != second[0])
            return FLOW_DATA;
        for (uint32_t i = 1; i < a->width; i++) {
            if (first[i] < second[i])
                return FLOW_DATA;
            if (first[i] > second[i])
                relation = FLOW_REFINED;
        }
    }
    return relation;
}

static void note_fact(struct verify_machine *machine, uint64_t fact)
{
    struct verify_flow *flow = machine->flow;
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
        free(flow->facts);
        flow->facts = larger.facts;
        flow->mask = larger.mask;
    }
    uint32_t at = (uint32_t)fact & flow->mask;
    while (flow->facts[at] && flow->facts[at] != fact)
        at = (at + 1) & flow->mask;
    flow->count += !flow->facts[at];
    flow->facts[at] = fact;
}

static uint64_t verify_state_mix(uint64_t a, uint64_t b)
{
    uint64_t z = (a * 0x9e3779b97f4a7c15u + b) * 0xbf58476d1ce4e5b9u;
    return z ^ (z >> 29);
}

void verify_flow_note(struct verify_machine *machine, uint64_t kind, uint64_t where, struct value value)
{
    if (machine->flow)
        note_fact(machine, verify_state_mix(verify_state_mix(where, kind),
                                            verify_state_mix(symbols_hash(machine->symbols, value.sum), value.column)) |
                               1);
}

/* Whether a step moves or touches data; the others are there for the order only. */
static bool is_about_data(const struct step *step)
{
    return step->kind != STEP_SIGNAL && step->kind != STEP_AWAIT && !(step->kind == STEP_COPY && !step->chunks);
}

/* How many of the first `steps` steps that a lane completes (over all iterations) are about data. */
static uint32_t data_steps(const struct verify_machine *machine, uint32_t index, uint32_t steps)
{
    const struct thread *thread = &machine->threads[index];
    uint32_t length = thread->length;
    if (!length)
        return 0;
    const uint32_t *before = machine->data_before + thread->first_step;
    uint32_t in_all = before[length - 1] + is_about_data(&thread->steps[length - 1]);
    return steps / length * in_all + before[steps % length];
}

bool verify_flow_prepare(struct verify_machine *machine)
{
    struct verify_flow *flow = machine->flow;
    flow->width = machine->thread_count + 1;
    for (uint32_t rank = 0; rank < machine->ranks; rank++) {
        const struct schedule *schedule = machine->schedules[rank];
        uint32_t *before = machine->data_before + machine->step_base[rank];
        for (uint32_t lane = 0; lane < schedule->lane_count; lane++) {
            uint32_t count = 0;
            for (uint32_t i = schedule->lane_first[lane]; i < schedule->lane_first[lane + 1]; i++) {
                before[i] = count;
                count += is_about_data(&schedule->steps[i]);
            }
            machine->row_base[machine->first_thread[rank] + lane] = flow->rows;
            flow->rows += count * machine->iterations;
        }
    }
    flow->order = calloc((size_t)flow->rows * flow->width + 1, sizeof *flow->order);
    return flow->order;
}

void verify_flow_note_order(struct verify_machine *machine, const struct thread *thread)
{
    struct step step = *verify_step_of(thread);
    if (!machine->flow || !is_about_data(&step))
        return;
    const tick *clock = verify_clock_of(machine, thread);
    uint32_t self = (uint32_t)(thread - machine->threads);
    uint64_t *row = machine->flow->order +
                    (size_t)(machine->row_base[self] + data_steps(machine, self, thread->clock)) * machine->flow->width;
    step.wait_lane = step.wait_lag = 0;
    step.wait_steps = 0;
    if (!step.chunks && step.kind <= STEP_RECEIVE_REDUCE) /* an empty message is from nowhere to nowhere */
        step = (struct step){.kind = step.kind, .peer = step.peer, .channel = step.channel};
    row[0] = hash_bytes(&step, sizeof step, 0);
    for (uint32_t i = 0; i < machine->thread_count; i++)
        row[1 + i] = data_steps(machine, i, (uint32_t)clock[i]);
}

/* ---- cells ---- */

const char *verify_cell_text(const struct verify_machine *machine, uint32_t index, char *text, size_t size)
{
    static const char *const names[REGIONS] = {"input", "output", "scratch", "exposed copy", "spread copy"};
    for (uint32_t rank = 0; rank < machine->ranks; rank++) {
        for (unsigned kind = 0; kind < REGIONS; kind++) {
            const struct region *region = &machine->regions[rank * REGIONS + kind];
            uint32_t rows = kind >= REGION_SCRATCH ? machine->schedules[rank]->slots : machine->iterations;
            if (region->stride && index >= region->base && index < region->base + rows * region->stride) {
                snprintf(text, size, "chunk %u of rank %u's %s", (index - region->base) % region->stride, rank,
                         names[kind]);
                return text;
            }
        }
    }
    return "a chunk";
}

static bool clash(struct verify_machine *machine, const struct thread *thread, uint32_t index, const char *verb,
                  uint32_t other)
{
    char text[96];
    const struct thread *by = &machine->threads[other];
    machine->doubt = true;
    return verify_complain(machine, thread, "%s %s without being ordered after lane %u of rank %u, which %s it", verb,
                           verify_cell_text(machine, index, text, sizeof text), by->lane, by->rank,
                           machine->cells[index].write_thread == other && machine->cells[index].write_clock ? "writes"
                                                                                                            : "reads");
}

static bool verify_note_read(struct verify_machine *machine, struct thread *thread, uint32_t index)
{
    struct cell *cell = &machine->cells[index];
    uint32_t self = (uint32_t)(thread - machine->threads);
    if (cell->write_clock && cell->write_thread != self &&
        !verify_ordered(machine, thread, cell->write_thread, cell->write_clock))
        return clash(machine, thread, index, "reads", cell->write_thread);
    if (cell->reads != NOBODY && machine->accesses[cell->reads].thread == self) {
        machine->accesses[cell->reads].clock = thread->clock + 1;
        return true;
    }
    uint32_t entry = machine->access_free;
    if (entry != NOBODY) {
        machine->access_free = machine->accesses[entry].next;
    } else {
        weft_status status = ARRAY_RESERVE(machine->accesses, machine->access_room, machine->access_count + 1,
                                           "the verifier", machine->error);
        if (status != WEFT_OK) {
            machine->status = status;
            return false;
        }
        entry = machine->access_count++;
    }
    machine->accesses[entry] = (struct access){self, thread->clock + 1, cell->reads};
    cell->reads = entry;
    return true;
}

bool verify_note_write(struct verify_machine *machine, struct thread *thread, uint32_t index)
{
    struct cell *cell = &machine->cells[index];
    uint32_t self = (uint32_t)(thread - machine->threads);
    if (cell->write_clock && cell->write_thread != self &&
        !verify_ordered(machine, thread, cell->write_thread, cell->write_clock))
        return clash(machine, thread, index, "writes", cell->write_thread);
    for (uint32_t at = cell->reads, next; at != NOBODY; at = next) {
        const struct access *access = &machine->accesses[at];
        next = access->next;
        if (access->thread != self && !verify_ordered(machine, thread, access->thread, access->clock))
            return clash(machine, thread, index, "writes", access->thread);
        machine->accesses[at].next = machine->access_free;
        machine->access_free = at;
        cell->reads = next;
    }
    cell->write_thread = self;
    cell->write_clock = thread->clock + 1;
    return true;
}

bool verify_load(struct verify_machine *machine, struct thread *thread, uint32_t index, uint32_t size,
                 struct value *value)
{
    char text[96];
    if (!verify_note_read(machine, thread, index))
        return false;
    const struct cell *cell = &machine->cells[index];
    if (!cell->value.sum)
        return verify_complain(machine, thread, "reads %s, which nothing has been written to",
                               verify_cell_text(machine, index, text, sizeof text));
    if (cell->part != size)
        return verify_complain(machine, thread,
                               "reads %s as of the size of part %u, but it holds one of the size of part %u",
                               verify_cell_text(machine, index, text, sizeof text), size, cell->part);
    *value = cell->value;
    if (machine->useful)
        machine->useful[cell->writer] |= USE_READ;
    return true;
}

void verify_store(struct verify_machine *machine, uint32_t index, uint32_t size, struct value value)
{
    struct cell *cell = &machine->cells[index];
    if (machine->useful && (!verify_same(cell->value, value) || cell->part != size))
        machine->useful[machine->stepping] |= USE_CHANGED;
    cell->value = value;
    cell->part = size;
    cell->writer = machine->stepping;
}

bool verify_locate(struct verify_machine *machine, struct thread *thread, const struct step *step, bool target,
                   uint32_t i, uint32_t *index, uint32_t *size)
{
    uint8_t buffer = target ? step->target : step->source;
    uint32_t chunk = (target ? step->target_chunk : step->source_chunk) + i;
    *index = verify_cell_at(machine, thread->rank, (enum region_kind)buffer, thread->iteration, chunk);
    if (buffer == BUFFER_SCRATCH) {
        if (machine->sized_blocks)
            return verify_complain(machine, thread, "uses scratch, where blocks of different sizes have no place");
        *size = step->value + i;
    } else {
        *size = verify_size_name(machine, thread->rank, (enum region_kind)buffer, chunk);
        if (!machine->sized_blocks && *size != (step->value + i) % machine->parts)
            return verify_complain(machine, thread, "says part %u of a chunk that is part %u", step->value + i, *size);
    }
    return true;
}

bool verify_add(struct verify_machine *machine, const struct thread *thread, struct value left, struct value right,
                struct value *sum)
{
    if (left.column != right.column)
        return verify_complain(machine, thread, "adds chunks of different blocks, parts or segments");
    *sum = (struct value){symbols_sum(machine->symbols, left.sum, right.sum), left.column};
    return true;
}
