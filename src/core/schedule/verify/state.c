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
    if (cell->reads != VERIFY_NONE && machine->accesses[cell->reads].thread == self) {
        machine->accesses[cell->reads].clock = thread->clock + 1;
        return true;
    }
    uint32_t entry = machine->access_free;
    if (entry != VERIFY_NONE) {
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
    for (uint32_t at = cell->reads, next; at != VERIFY_NONE; at = next) {
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
        return verify_complain(machine, thread, "reads %s, which has not been written",
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
            return verify_complain(machine, thread, "uses scratch, which cannot hold blocks of different sizes");
        *size = step->value + i;
    } else {
        *size = verify_size_name(machine, thread->rank, (enum region_kind)buffer, chunk);
        if (!machine->sized_blocks && *size != (step->value + i) % machine->parts)
            return verify_complain(machine, thread, "names part %u for a chunk that is part %u", step->value + i,
                                   *size);
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
