/* SPDX-License-Identifier: Apache-2.0 */
/* The machine's calls of the four functions below come here first (--wrap); for any other machine they go on. */
#include "verify_chaos.h"

#include "verify_flow.h"

#include "base/random.h"
#include "core/schedule/verify/internal/state.h"

#include <stdlib.h>
#include <string.h>

struct chaos {
    struct verify_machine machine;
    uint64_t seed, drawn;
    struct value poison;            /* no sum of ranks, of no column */
    bool scribbling;                /* stores spoil, loads only note what is read */
    uint32_t reads[64], read_count; /* cells that the step under way reads */
    bool *started, *finished;       /* of each rank */
    bool *scribbled;                /* of each thread: has spoilt what its step will write */
    bool *matched;                  /* of each thread: its message has met the other side */
};

static _Thread_local struct chaos *current;

static struct chaos *chaos_of(const struct verify_machine *machine)
{
    return current && &current->machine == machine ? current : NULL;
}

/* ---- what the machine's steps call ---- */

bool __real_verify_note_write(struct verify_machine *machine, struct thread *thread, uint32_t index);
bool __real_verify_load(struct verify_machine *machine, struct thread *thread, uint32_t index, uint32_t size,
                        struct value *value);
void __real_verify_store(struct verify_machine *machine, uint32_t index, uint32_t size, struct value value);
void __real_verify_complete(struct verify_machine *machine, struct thread *thread);
bool __wrap_verify_note_write(struct verify_machine *machine, struct thread *thread, uint32_t index);
bool __wrap_verify_load(struct verify_machine *machine, struct thread *thread, uint32_t index, uint32_t size,
                        struct value *value);
void __wrap_verify_store(struct verify_machine *machine, uint32_t index, uint32_t size, struct value value);
void __wrap_verify_complete(struct verify_machine *machine, struct thread *thread);

/* What is received may land at any time from its step's begin on; a chunk that the same chunk is added to is read. */
static void scribble_received(struct chaos *chaos, struct thread *thread, uint32_t index)
{
    const struct step *step = verify_step_of(thread);
    for (uint32_t i = 0; i < step->chunks; i++) {
        uint32_t to, from, size;
        if (!verify_locate(&chaos->machine, thread, step, true, i, &to, &size))
            return;
        if (to != index)
            continue;
        if (step->kind != STEP_RECEIVE_REDUCE ||
            (verify_locate(&chaos->machine, thread, step, false, i, &from, &size) && from != index))
            chaos->machine.cells[index].value = chaos->poison;
        return;
    }
}

bool __wrap_verify_note_write(struct verify_machine *machine, struct thread *thread, uint32_t index)
{
    struct chaos *chaos = chaos_of(machine);
    uint8_t kind = verify_step_of(thread)->kind;
    if (chaos && (kind == STEP_RECEIVE || kind == STEP_RECEIVE_REDUCE))
        scribble_received(chaos, thread, index);
    return __real_verify_note_write(machine, thread, index);
}

bool __wrap_verify_load(struct verify_machine *machine, struct thread *thread, uint32_t index, uint32_t size,
                        struct value *value)
{
    struct chaos *chaos = chaos_of(machine);
    if (!chaos)
        return __real_verify_load(machine, thread, index, size, value);
    const struct cell *cell = &machine->cells[index];
    *value = cell->part == size ? cell->value : chaos->poison;
    if (chaos->scribbling) { /* the value goes nowhere */
        *value = verify_leaf(machine, 0, 0, 0, 0);
        if (chaos->read_count < sizeof chaos->reads / sizeof *chaos->reads)
            chaos->reads[chaos->read_count++] = index;
    }
    return true;
}

/* Spoil the cell as a step that is going to write it may, unless the step reads it too. */
static void scribble(struct chaos *chaos, uint32_t index)
{
    if (chaos->read_count == sizeof chaos->reads / sizeof *chaos->reads)
        return; /* too many to tell */
    for (uint32_t i = 0; i < chaos->read_count; i++)
        if (chaos->reads[i] == index)
            return;
    chaos->machine.cells[index].value = chaos->poison;
}

void __wrap_verify_store(struct verify_machine *machine, uint32_t index, uint32_t size, struct value value)
{
    struct chaos *chaos = chaos_of(machine);
    if (chaos && chaos->scribbling) {
        scribble(chaos, index);
        return;
    }
    __real_verify_store(machine, index, size, value);
    verify_flow_note_store(machine, index, value);
}

void __wrap_verify_complete(struct verify_machine *machine, struct thread *thread)
{
    struct chaos *chaos = chaos_of(machine);
    size_t self = (size_t)(thread - machine->threads);
    if (chaos && chaos->scribbling) { /* the step itself comes whenever this thread's turn comes again */
        chaos->scribbled[self] = true;
    } else if (chaos && verify_step_of(thread)->kind <= STEP_RECEIVE_REDUCE) {
        chaos->matched[self] = true; /* each side is through at a turn of its own */
        thread->state = THREAD_WAITS_FOR_MATCH;
    } else {
        if (chaos)
            chaos->scribbled[self] = false;
        verify_flow_note_complete(machine, thread);
        __real_verify_complete(machine, thread);
    }
}

/* ---- the execution ---- */

/* Spoil a rank's buffers, as its caller may before it begins and after it is done; keep what the output was in
 * `finals`. */
static void spoil(struct chaos *chaos, uint32_t rank, struct value *finals)
{
    struct verify_machine *machine = &chaos->machine;
    const struct schedule *schedule = machine->schedules[rank];
    for (uint32_t iteration = 0; iteration < machine->iterations; iteration++) {
        for (uint32_t chunk = 0; finals && chunk < schedule->output_blocks * machine->parts; chunk++) {
            uint32_t index = verify_cell_at(machine, rank, REGION_OUTPUT, iteration, chunk);
            finals[index] = machine->cells[index].value;
        }
        for (unsigned kind = REGION_INPUT; kind <= REGION_OUTPUT; kind++) {
            uint32_t blocks = kind == REGION_INPUT ? schedule->input_blocks : schedule->output_blocks;
            for (uint32_t chunk = 0; chunk < blocks * machine->parts; chunk++)
                machine->cells[verify_cell_at(machine, rank, (enum region_kind)kind, iteration, chunk)].value =
                    chaos->poison;
        }
    }
}

static bool is_through(const struct verify_machine *machine, uint32_t rank)
{
    for (uint32_t i = machine->first_thread[rank]; i < machine->first_thread[rank + 1]; i++)
        if (machine->threads[i].iteration < machine->iterations)
            return false;
    return true;
}

static bool scribbles(const struct step *step)
{
    return step->kind > STEP_RECEIVE_REDUCE && step->kind != STEP_SIGNAL && step->kind != STEP_AWAIT &&
           step->kind != STEP_EXCHANGE;
}

/* A step that writes takes two turns: in the first it spoils what it will write. */
static bool advance(struct chaos *chaos, struct thread *thread)
{
    size_t self = (size_t)(thread - chaos->machine.threads);
    if (thread->iteration == chaos->machine.iterations)
        return false;
    if (chaos->matched[self]) {
        chaos->matched[self] = false;
        __real_verify_complete(&chaos->machine, thread);
        return true;
    }
    chaos->scribbling = scribbles(verify_step_of(thread)) && !chaos->scribbled[self];
    chaos->read_count = 0;
    bool moved = verify_advance(&chaos->machine, thread);
    chaos->scribbling = false;
    return moved;
}

/* One turn of one thread; its rank begins with the first turn of any of its threads. */
static bool take_turn(struct chaos *chaos, struct thread *thread, struct value *finals)
{
    struct verify_machine *machine = &chaos->machine;
    if (!chaos->started[thread->rank]) {
        chaos->started[thread->rank] = true;
        spoil(chaos, thread->rank, NULL);
        verify_fill_input(machine, thread->rank);
    }
    bool moved = advance(chaos, thread);
    if (moved && !chaos->finished[thread->rank] && is_through(machine, thread->rank)) {
        chaos->finished[thread->rank] = true;
        spoil(chaos, thread->rank, finals);
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
static void run_at_random(struct chaos *chaos, struct value *finals, uint32_t *live)
{
    struct verify_machine *machine = &chaos->machine;
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
            moved = take_turn(chaos, &machine->threads[picked], finals) || moved;
            if (machine->threads[picked].iteration == machine->iterations)
                live[place] = live[--count];
        }
        for (uint32_t i = 0; !moved && i < count && machine->status == WEFT_OK; i++)
            moved = take_turn(chaos, &machine->threads[live[i]], finals);
    }
}

static void check_finals(struct verify_machine *machine, const struct value *finals)
{
    for (uint32_t rank = 0; rank < machine->ranks && machine->status == WEFT_OK; rank++) {
        const struct schedule *schedule = machine->schedules[rank];
        if (!is_through(machine, rank)) {
            verify_complain(machine, NULL, "rank %u never ends in a random order", rank);
            return;
        }
        for (uint32_t iteration = 0; iteration < machine->iterations; iteration++)
            for (uint32_t chunk = 0; chunk < schedule->output_blocks * machine->parts; chunk++) {
                uint32_t index = verify_cell_at(machine, rank, REGION_OUTPUT, iteration, chunk);
                machine->cells[index].value = finals[index];
                if (!verify_check_value(machine, rank, chunk / machine->parts, iteration, chunk % machine->parts))
                    return;
            }
    }
}

/* Clocks that know everything, and poison wherever nothing has been written. */
static void know_everything(struct chaos *chaos)
{
    struct verify_machine *machine = &chaos->machine;
    for (size_t i = 0; i < (size_t)machine->thread_count * machine->components; i++)
        machine->clocks[i] = TICK_MOST;
    for (uint32_t i = 0; i < machine->cell_count; i++)
        if (!machine->cells[i].value.sum)
            machine->cells[i].value = chaos->poison;
}

weft_status verify_chaos(struct schedule *const *schedules, uint32_t ranks, const struct schedule_shape *shape,
                         const struct verify_binding *binding, uint64_t seed, struct error *error)
{
    struct chaos chaos = {.seed = seed,
                          .machine = {.schedules = schedules, .shape = shape, .ranks = ranks, .error = error}};
    struct verify_machine *machine = &chaos.machine;
    struct value *finals = NULL;
    uint32_t *live = NULL;
    chaos.started = calloc(2 * (size_t)ranks, sizeof *chaos.started);
    if (!chaos.started || !verify_machine_open(machine, false) ||
        !(finals = calloc((size_t)machine->cell_count + 1, sizeof *finals)) ||
        !(chaos.scribbled = calloc(2 * ((size_t)machine->thread_count + 1), sizeof *chaos.scribbled)) ||
        !(live = calloc((size_t)machine->thread_count + 1, sizeof *live))) {
        verify_machine_exhausted(machine);
    } else {
        chaos.finished = chaos.started + ranks;
        chaos.matched = chaos.scribbled + machine->thread_count + 1;
        chaos.poison = (struct value){symbols_sum(machine->symbols, 1, 1), UINT32_MAX};
        verify_machine_bind(machine, binding);
        know_everything(&chaos);
        current = &chaos;
        run_at_random(&chaos, finals, live);
        check_finals(machine, finals);
        current = NULL;
    }
    free(finals);
    free(live);
    free(chaos.started);
    free(chaos.scribbled);
    verify_machine_close(machine);
    return machine->status;
}
