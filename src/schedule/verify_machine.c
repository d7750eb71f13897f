/* SPDX-License-Identifier: Apache-2.0 */
/* The verifier's machine: set up, run, and what must be true at the end. */
#include "base/random.h"
#include "schedule/verify_state.h"

#include <stdlib.h>
#include <string.h>

/* ---- the end ----------------------------------------------------------------------------------------------------- */

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
            leaves[r] = verify_leaf(machine, r, from, iteration, part);
        return machine->ranks;
    }
    case COLLECTIVE_BROADCAST:
    case COLLECTIVE_SENDRECEIVE:
        leaves[0] = verify_leaf(machine, machine->shape->root, 0, iteration, part);
        return 1;
    case COLLECTIVE_SCATTER:
        leaves[0] = verify_leaf(machine, machine->shape->root, rank, iteration, part);
        return 1;
    case COLLECTIVE_ALLTOALL:
    case COLLECTIVE_ALLTOALLV:
        leaves[0] = verify_leaf(machine, block, rank, iteration, part);
        return 1;
    default:
        leaves[0] = verify_leaf(machine, block, 0, iteration, part);
        return 1;
    }
}

static bool check_value(struct machine *machine, uint32_t rank, uint32_t block, uint32_t iteration, uint32_t part)
{
    symbol value =
        machine->cells[verify_cell_at(machine, rank, REGION_OUTPUT, iteration, block * machine->parts + part)].value;
    if (machine->shape->collective == COLLECTIVE_ALLREDUCE && rank > 0 &&
        value == machine->cells[verify_cell_at(machine, 0, REGION_OUTPUT, iteration, part)].value)
        return true; /* as rank 0 has, whose value has been looked into */
    uint32_t count = expected(machine, rank, block, iteration, part);
    bool right;
    symbol wanted = machine->operands[0];
    if (!collective_reduces(machine->shape->collective)) {
        right = value == wanted;
    } else if (machine->plans[rank]->canonical) {
        wanted = symbols_finish(machine->symbols, symbols_tree(machine->symbols, machine->operands, count));
        right = value == wanted;
    } else {
        bool differs = machine->shape->collective == COLLECTIVE_ALLREDUCE && rank > 0;
        right = !differs && symbols_is_sum_of(machine->symbols, value, machine->operands, count, true);
    }
    if (right)
        return true;
    char has[200], should[200];
    return verify_complain(machine, NULL, "rank %u ends with %s in block %u, part %u, iteration %u, where %s belongs",
                           rank, symbols_text(machine->symbols, value, machine->ranks, has, sizeof has), block, part,
                           iteration,
                           collective_reduces(machine->shape->collective) && !machine->plans[rank]->canonical
                               ? "the same sum of everybody's, each once,"
                               : symbols_text(machine->symbols, wanted, machine->ranks, should, sizeof should));
}

/* Nobody may have a hand in a rank's buffers any more when that rank is done; in a barrier, all must have begun. */
static bool check_end(struct machine *machine, uint32_t rank, tick *clock)
{
    const struct plan *plan = machine->plans[rank];
    memset(clock, 0, machine->components * sizeof *clock);
    for (uint32_t thread = machine->first_thread[rank]; thread < machine->first_thread[rank + 1]; thread++)
        verify_join(clock, verify_clock_of(machine, &machine->threads[thread]), machine->components);
    char text[96];
    for (uint32_t iteration = 0; iteration < machine->iterations; iteration++) {
        for (unsigned kind = REGION_INPUT; kind <= REGION_OUTPUT; kind++) {
            uint32_t chunks = (kind == REGION_INPUT ? plan->input_blocks : plan->output_blocks) * plan->parts;
            for (uint32_t chunk = 0; chunk < chunks; chunk++) {
                uint32_t index = verify_cell_at(machine, rank, (enum region_kind)kind, iteration, chunk);
                const struct cell *cell = &machine->cells[index];
                if (cell->write_clock && (uint32_t)clock[cell->write_thread] < cell->write_clock)
                    return verify_complain(machine, NULL, "rank %u may be done while rank %u still writes %s", rank,
                                           machine->threads[cell->write_thread].rank,
                                           verify_cell_text(machine, index, text, sizeof text));
                for (uint32_t at = cell->reads; at != NOBODY; at = machine->accesses[at].next)
                    if ((uint32_t)clock[machine->accesses[at].thread] < machine->accesses[at].clock)
                        return verify_complain(machine, NULL, "rank %u may be done while rank %u still reads %s", rank,
                                               machine->threads[machine->accesses[at].thread].rank,
                                               verify_cell_text(machine, index, text, sizeof text));
            }
        }
        for (uint32_t chunk = 0; chunk < plan->output_blocks * plan->parts; chunk++)
            if (!check_value(machine, rank, chunk / plan->parts, iteration, chunk % plan->parts))
                return false;
    }
    if (machine->shape->collective == COLLECTIVE_BARRIER)
        for (uint32_t other = 0; other < machine->ranks; other++)
            if (other != rank && !clock[verify_begun(machine, other)])
                return verify_complain(machine, NULL, "rank %u may be through before rank %u has begun", rank, other);
    return true;
}

static bool run(struct machine *machine)
{
    bool moved = true;
    while (moved && machine->status == WEFT_OK) {
        moved = false;
        for (uint32_t i = 0; i < machine->thread_count && machine->status == WEFT_OK; i++)
            while (verify_advance(machine, &machine->threads[i]) && machine->status == WEFT_OK)
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
        return verify_complain(machine, first,
                               "waits for ever (deadlock), as do %u other lanes; it is about rank or group %u",
                               stuck - 1, verify_step_of(machine, first)->peer);
    return true;
}

/* ---- setting up -------------------------------------------------------------------------------------------------- */

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
        if (!verify_chosen(machine->binding->in_place, rank) || !plan->input_blocks || !plan->output_blocks)
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

static void fill_input(struct machine *machine, uint32_t rank)
{
    const struct plan *plan = machine->plans[rank];
    for (uint32_t iteration = 0; has_input(machine->shape, rank) && iteration < machine->iterations; iteration++)
        for (uint32_t chunk = 0; chunk < plan->input_blocks * machine->parts; chunk++)
            verify_store(machine, verify_cell_at(machine, rank, REGION_INPUT, iteration, chunk),
                         verify_size_name(machine, rank, REGION_INPUT, chunk),
                         verify_leaf(machine, rank, chunk / machine->parts, iteration, chunk % machine->parts));
}

static void fill_inputs(struct machine *machine)
{
    for (uint32_t i = 0; i < machine->cell_count; i++)
        machine->cells[i].reads = NOBODY;
    for (uint32_t rank = 0; rank < machine->ranks; rank++) {
        fill_input(machine, rank);
        for (uint32_t thread = machine->first_thread[rank]; thread < machine->first_thread[rank + 1]; thread++)
            verify_clock_of(machine, &machine->threads[thread])[verify_begun(machine, rank)] = 1;
    }
}

static void machine_close(struct machine *machine)
{
    void *arrays[] = {machine->first_thread,  machine->threads,   machine->clocks,      machine->snapshots,
                      machine->snapshot_of,   machine->step_base, machine->data_before, machine->kept,
                      machine->signalled,     machine->regions,   machine->cells,       machine->accesses,
                      machine->channel_table, machine->operands};
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
            return verify_complain(machine, NULL, "the plans of ranks 0 and %u are not of one kind", rank);
    }
    return true;
}

static bool complain_length(struct machine *machine, uint32_t rank)
{
    machine->status =
        error_set(machine->error, WEFT_ERROR_PLAN, "%s by %s: rank %u's plan has %u steps, too many to verify",
                  collective_name(machine->plans[rank]->collective), machine->plans[rank]->algorithm, rank,
                  machine->plans[rank]->step_count);
    return false;
}

static bool machine_open(struct machine *machine)
{
    uint32_t steps = 0, slots = 1;
    machine->parts = machine->plans[0]->parts;
    machine->sized_blocks = collective_is_vector(machine->shape->collective);
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
        if (plan->step_count * (2 * PLAN_SLOTS + 1) > TICK_MOST)
            return complain_length(machine, rank);
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
    if (machine->flow) {
        machine->data_before = calloc(steps ? steps : 1, sizeof *machine->data_before);
        if (!machine->data_before)
            return false;
        verify_flow_prepare(machine);
    }
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
    tick *clock = NULL;
    if (!machine_open(&machine) || !(clock = malloc(machine.components * sizeof *clock)))
        machine.status = machine.status != WEFT_OK
                             ? machine.status
                             : error_memory(error, machine.cell_count * sizeof *machine.cells, "the verifier");
    else if (run(&machine))
        for (uint32_t rank = 0; rank < ranks && check_end(&machine, rank, clock); rank++) {
        }
    if (machine.status == WEFT_OK && symbols_exhausted(machine.symbols))
        machine.status = error_memory(error, machine.cell_count * sizeof *machine.cells, "the verifier's symbols");
    free(clock);
    machine_close(&machine);
    return machine.status;
}

/* ---- chaos ------------------------------------------------------------------------------------------------------- */

static uint32_t draw(struct chaos *chaos, uint32_t below)
{
    return (uint32_t)random_below(chaos->seed, chaos->drawn++, below);
}

/* Spoil a rank's buffers, as its caller may before it begins and after it is done; keep what the output was in
 * `finals`. */
static void spoil(struct machine *machine, uint32_t rank, symbol *finals)
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
static bool take_turn(struct machine *machine, struct thread *thread, symbol *finals)
{
    struct chaos *chaos = machine->chaos;
    if (!chaos->started[thread->rank]) {
        chaos->started[thread->rank] = true;
        spoil(machine, thread->rank, NULL);
        fill_input(machine, thread->rank);
    }
    bool at_begin = thread->scribbled;
    bool moved = verify_advance(machine, thread) || at_begin != thread->scribbled;
    if (moved && !chaos->finished[thread->rank] && is_through(machine, thread->rank)) {
        chaos->finished[thread->rank] = true;
        spoil(machine, thread->rank, finals);
    }
    return moved;
}

/* Threads take turns at random, some much more seldom than others; when nothing moves any more, all get a turn to be
 * sure. */
static void run_at_random(struct machine *machine, symbol *finals)
{
    static const uint8_t patience[] = {0, 100, 200, 250};
    struct chaos *chaos = machine->chaos;
    uint64_t temper = random_bits(chaos->seed, UINT32_MAX);
    for (bool moved = true; moved && machine->status == WEFT_OK;) {
        moved = false;
        for (uint32_t i = 0; i < 4 * machine->thread_count && machine->status == WEFT_OK; i++) {
            uint32_t picked = draw(chaos, machine->thread_count);
            if (draw(chaos, 256) >= patience[random_bits(temper, picked) % 4])
                moved = take_turn(machine, &machine->threads[picked], finals) || moved;
        }
        for (uint32_t i = 0; !moved && i < machine->thread_count && machine->status == WEFT_OK; i++)
            moved = take_turn(machine, &machine->threads[i], finals);
    }
}

static void check_finals(struct machine *machine, const symbol *finals)
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
                if (!check_value(machine, rank, chunk / machine->parts, iteration, chunk % machine->parts))
                    return;
            }
    }
}

weft_status verify_chaos(struct plan *const *plans, uint32_t ranks, const struct plan_shape *shape,
                         const struct verify_binding *binding, uint64_t seed, struct error *error)
{
    struct chaos chaos = {.seed = seed};
    struct machine machine = {.plans = plans, .shape = shape, .binding = binding, .ranks = ranks, .error = error};
    if (!same_frame(&machine))
        return machine.status;
    symbol *finals = NULL;
    chaos.started = calloc(2 * (size_t)ranks, sizeof *chaos.started);
    if (!chaos.started || !machine_open(&machine) || !(finals = calloc(machine.cell_count + 1, sizeof *finals))) {
        if (machine.status == WEFT_OK)
            machine.status = error_memory(error, machine.cell_count * sizeof *finals, "the verifier");
    } else {
        chaos.finished = chaos.started + ranks;
        chaos.poison = machine.ranks * machine.input_blocks_most * machine.parts * machine.iterations + 1;
        machine.chaos = &chaos;
        run_at_random(&machine, finals);
        check_finals(&machine, finals);
    }
    free(finals);
    free(chaos.started);
    machine_close(&machine);
    return machine.status;
}
