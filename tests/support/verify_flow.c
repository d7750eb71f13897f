/* SPDX-License-Identifier: Apache-2.0 */
#include "verify_flow.h"

#include "base/hash.h"

#include <stdlib.h>

/* The execution that is being recorded. */
struct recorder {
    struct verify_machine machine;
    struct verify_flow *flow;
    uint32_t *data_before; /* for each step of each rank: data steps before it in its lane */
    uint32_t *row_base;    /* where a thread's rows begin in flow->order */
};

static _Thread_local struct recorder *current;

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

static void note_fact(struct verify_flow *flow, uint64_t fact)
{
    if (flow->count * 2 >= flow->mask) {
        struct verify_flow larger = {.mask = flow->mask ? flow->mask * 2 + 1 : 255};
        larger.facts = calloc((size_t)larger.mask + 1, sizeof *larger.facts);
        if (!larger.facts)
            abort();
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

static uint64_t flow_mix(uint64_t a, uint64_t b)
{
    uint64_t z = (a * 0x9e3779b97f4a7c15u + b) * 0xbf58476d1ce4e5b9u;
    return z ^ (z >> 29);
}

static void note_value(uint64_t kind, uint64_t where, struct value value)
{
    note_fact(
        current->flow,
        flow_mix(flow_mix(where, kind), flow_mix(symbols_hash(current->machine.symbols, value.sum), value.column)) | 1);
}

void verify_flow_note_store(const struct verify_machine *machine, uint32_t index, struct value value)
{
    if (!current || machine != &current->machine)
        return;
    for (uint32_t rank = 0; rank < machine->ranks; rank++) {
        const struct region *output = &machine->regions[rank * REGIONS + REGION_OUTPUT];
        if (index >= output->base && index < output->base + machine->iterations * output->stride) {
            note_value(2, index, value);
            return;
        }
    }
}

void verify_flow_note_complete(struct verify_machine *machine, struct thread *thread)
{
    const struct step *step = verify_step_of(thread);
    if (!current || machine != &current->machine || step->kind != STEP_SEND)
        return;
    for (uint32_t i = 0, index, size; i < step->chunks; i++)
        if (verify_locate(machine, thread, step, false, i, &index, &size))
            note_value(1, (uint64_t)thread->rank << 32 | step->peer, machine->cells[index].value);
}

/* Whether a step moves or touches data; the others are there for the order only. */
static bool is_about_data(const struct step *step)
{
    return step->kind != STEP_SIGNAL && step->kind != STEP_AWAIT && !(step->kind == STEP_COPY && !step->chunks);
}

/* How many of the first `steps` steps that a lane completes (over all iterations) are about data. */
static uint32_t data_steps(uint32_t index, uint32_t steps)
{
    const struct thread *thread = &current->machine.threads[index];
    uint32_t length = thread->length;
    if (!length)
        return 0;
    const uint32_t *before = current->data_before + thread->first_step;
    uint32_t in_all = before[length - 1] + is_about_data(&thread->steps[length - 1]);
    return steps / length * in_all + before[steps % length];
}

/* Count the data steps, and make room for what comes before each. */
static bool flow_prepare(void)
{
    struct verify_machine *machine = &current->machine;
    struct verify_flow *flow = current->flow;
    current->data_before = calloc(machine->step_count + 1, sizeof *current->data_before);
    current->row_base = calloc(machine->thread_count + 1, sizeof *current->row_base);
    if (!current->data_before || !current->row_base)
        return false;
    flow->width = machine->thread_count + 1;
    for (uint32_t index = 0; index < machine->thread_count; index++) {
        const struct thread *thread = &machine->threads[index];
        uint32_t count = 0;
        for (uint32_t i = 0; i < thread->length; i++) {
            current->data_before[thread->first_step + i] = count;
            count += is_about_data(&thread->steps[i]);
        }
        current->row_base[index] = flow->rows;
        flow->rows += count * machine->iterations;
    }
    flow->order = calloc((size_t)flow->rows * flow->width + 1, sizeof *flow->order);
    return flow->order;
}

/* Note what comes before the step that a thread begins: the data steps that every thread has completed. */
static void note_order(const struct thread *thread)
{
    const struct verify_machine *machine = &current->machine;
    struct verify_flow *flow = current->flow;
    struct step step = *verify_step_of(thread);
    if (!is_about_data(&step))
        return;
    const tick *clock = verify_clock_of(machine, thread);
    uint32_t self = (uint32_t)(thread - machine->threads);
    uint64_t *row = flow->order + (size_t)(current->row_base[self] + data_steps(self, thread->clock)) * flow->width;
    step.wait_lane = step.wait_lag = 0;
    step.wait_steps = 0;
    if (!step.chunks && step.kind <= STEP_RECEIVE_REDUCE) /* an empty message is from nowhere to nowhere */
        step = (struct step){.kind = step.kind, .peer = step.peer, .channel = step.channel};
    row[0] = hash_bytes(&step, sizeof step, 0);
    for (uint32_t i = 0; i < machine->thread_count; i++)
        row[1 + i] = data_steps(i, (uint32_t)clock[i]);
}

static bool flow_advance(struct thread *thread)
{
    struct verify_machine *machine = &current->machine;
    if (thread->iteration < machine->iterations && thread->state != THREAD_WAITS_FOR_MATCH &&
        verify_wait_is_over(machine, thread, verify_step_of(thread)))
        note_order(thread);
    return verify_advance(machine, thread);
}

weft_status verify_flow_record(struct schedule *const *schedules, uint32_t ranks, const struct schedule_shape *shape,
                               const struct verify_binding *binding, struct verify_flow *flow, struct error *error)
{
    struct recorder recorder = {.machine = {.schedules = schedules, .shape = shape, .ranks = ranks, .error = error},
                                .flow = flow};
    struct verify_machine *machine = &recorder.machine;
    bool ready = verify_machine_open(machine, false);
    if (ready) {
        verify_machine_bind(machine, binding);
        current = &recorder;
        ready = flow_prepare();
    }
    if (!ready)
        verify_machine_exhausted(machine);
    for (bool moved = ready; moved && machine->status == WEFT_OK;) {
        moved = false;
        for (uint32_t i = 0; i < machine->thread_count; i++)
            while (flow_advance(&machine->threads[i]))
                moved = true;
    }
    current = NULL;
    free(recorder.data_before);
    free(recorder.row_base);
    weft_status status = machine->status;
    verify_machine_close(machine);
    return status;
}
