/* SPDX-License-Identifier: Apache-2.0 */
/* The second opinion: one random execution in which whatever is written is spoilt first. See verify_chaos(). */
#include "base/random.h"
#include "schedule/verify_state.h"

#include <stdlib.h>
#include <string.h>

/* Spoil a rank's buffers, as its caller may before it begins and after it is done; keep what the output was in
 * `finals`. */
static void spoil(struct machine *machine, uint32_t rank, struct value *finals)
{
    const struct plan *plan = machine->plans[rank];
    for (uint32_t iteration = 0; iteration < machine->iterations; iteration++) {
        for (uint32_t chunk = 0; finals && chunk < plan->output_blocks * machine->parts; chunk++) {
            uint32_t index = verify_cell_at(machine, rank, REGION_OUTPUT, iteration, chunk);
            finals[index] = machine->cells[index].value;
        }
        for (unsigned kind = REGION_INPUT; kind <= REGION_OUTPUT; kind++) {
            uint32_t blocks = kind == REGION_INPUT ? plan->input_blocks : plan->output_blocks;
            for (uint32_t chunk = 0; chunk < blocks * machine->parts; chunk++)
                machine->cells[verify_cell_at(machine, rank, (enum region_kind)kind, iteration, chunk)].value =
                    machine->chaos->poison;
        }
    }
}

static bool is_through(const struct machine *machine, uint32_t rank)
{
    for (uint32_t i = machine->first_thread[rank]; i < machine->first_thread[rank + 1]; i++)
        if (machine->threads[i].iteration < machine->iterations)
            return false;
    return true;
}

/* One turn of one thread; its rank begins with the first turn of any of its threads. */
static bool take_turn(struct machine *machine, struct thread *thread, struct value *finals)
{
    struct chaos *chaos = machine->chaos;
    if (!chaos->started[thread->rank]) {
        chaos->started[thread->rank] = true;
        spoil(machine, thread->rank, NULL);
        verify_fill_input(machine, thread->rank);
    }
    bool at_begin = thread->scribbled;
    bool moved = verify_advance(machine, thread) || at_begin != thread->scribbled;
    if (moved && !chaos->finished[thread->rank] && is_through(machine, thread->rank)) {
        chaos->finished[thread->rank] = true;
        spoil(machine, thread->rank, finals);
    }
    return moved;
}

/* How often a thread takes a turn: some much more seldom than others. */
static uint32_t eagerness(uint64_t temper, uint32_t thread)
{
    static const uint16_t shares[] = {256, 156, 56, 6};
    return shares[random_bits(temper, thread) % 4];
}

/* Threads that are not over take turns at random; when nothing moves any more, all get a turn to be sure. `live` has
 * room for all threads. */
static void run_at_random(struct machine *machine, struct value *finals, uint32_t *live)
{
    struct chaos *chaos = machine->chaos;
    uint64_t temper = random_bits(chaos->seed, UINT32_MAX);
    uint32_t count = machine->thread_count;
    for (uint32_t i = 0; i < count; i++)
        live[i] = i;
    for (bool moved = true; moved && machine->status == WEFT_OK;) {
        uint32_t most = 1; /* nobody waits for those who are over */
        for (uint32_t i = 0; i < count; i++)
            most = eagerness(temper, live[i]) > most ? eagerness(temper, live[i]) : most;
        moved = false;
        for (uint32_t turns = 4 * count; turns-- > 0 && count > 0 && machine->status == WEFT_OK;) {
            uint64_t drawn = random_bits(chaos->seed, chaos->drawn++);
            uint32_t place = (uint32_t)((drawn >> 32) * count >> 32), picked = live[place];
            if ((uint64_t)(uint32_t)drawn * most >> 32 >= eagerness(temper, picked))
                continue;
            moved = take_turn(machine, &machine->threads[picked], finals) || moved;
            if (machine->threads[picked].iteration == machine->iterations)
                live[place] = live[--count];
        }
        for (uint32_t i = 0; !moved && i < count && machine->status == WEFT_OK; i++)
            moved = take_turn(machine, &machine->threads[live[i]], finals);
    }
}

static void check_finals(struct machine *machine, const struct value *finals)
{
    for (uint32_t rank = 0; rank < machine->ranks && machine->status == WEFT_OK; rank++) {
        const struct plan *plan = machine->plans[rank];
        if (!is_through(machine, rank)) {
            verify_complain(machine, NULL, "rank %u never ends in a random order", rank);
            return;
        }
        for (uint32_t iteration = 0; iteration < machine->iterations; iteration++)
            for (uint32_t chunk = 0; chunk < plan->output_blocks * machine->parts; chunk++) {
                uint32_t index = verify_cell_at(machine, rank, REGION_OUTPUT, iteration, chunk);
                machine->cells[index].value = finals[index];
                if (!verify_check_value(machine, rank, chunk / machine->parts, iteration, chunk % machine->parts))
                    return;
            }
    }
}

weft_status verify_chaos(struct plan *const *plans, uint32_t ranks, const struct plan_shape *shape,
                         const struct verify_binding *binding, uint64_t seed, struct error *error)
{
    struct chaos chaos = {.seed = seed};
    struct machine machine = {.plans = plans, .shape = shape, .ranks = ranks, .error = error};
    struct value *finals = NULL;
    uint32_t *live = NULL;
    chaos.started = calloc(2 * (size_t)ranks, sizeof *chaos.started);
    if (!chaos.started || !verify_machine_open(&machine, false) ||
        !(finals = calloc((size_t)machine.cell_count + 1, sizeof *finals)) ||
        !(live = calloc((size_t)machine.thread_count + 1, sizeof *live))) {
        verify_machine_exhausted(&machine);
    } else {
        chaos.finished = chaos.started + ranks;
        chaos.poison = (struct value){machine.ranks + 1, UINT32_MAX};
        machine.chaos = &chaos;
        verify_machine_bind(&machine, binding);
        run_at_random(&machine, finals, live);
        check_finals(&machine, finals);
    }
    free(finals);
    free(live);
    free(chaos.started);
    verify_machine_close(&machine);
    return machine.status;
}
