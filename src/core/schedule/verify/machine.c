/* SPDX-License-Identifier: Apache-2.0 */
/* The verifier's machine: setup, run, and the checks at the end. */
#include "core/schedule/verify/internal/state.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- the end ---- */

/*
 * The expected content of block `block` of a rank's output: a leaf, or (of a sum) a leaf in whose column all ranks'
 * leaves must be summed (in a scan: those of the first ranks).
 */
static struct value expected(const struct verify_machine *machine, uint32_t rank, uint32_t block, uint32_t iteration,
                             uint32_t part)
{
    switch (machine->shape->collective) {
    case COLLECTIVE_REDUCE_SCATTER:
        return verify_leaf(machine, 0, rank, iteration, part);
    case COLLECTIVE_ALLREDUCE:
    case COLLECTIVE_REDUCE:
    case COLLECTIVE_SCAN:
    case COLLECTIVE_EXSCAN:
        return verify_leaf(machine, 0, 0, iteration, part);
    case COLLECTIVE_BROADCAST:
    case COLLECTIVE_SENDRECEIVE:
        return verify_leaf(machine, machine->shape->root, 0, iteration, part);
    case COLLECTIVE_SCATTER:
    case COLLECTIVE_SCATTERV:
        return verify_leaf(machine, machine->shape->root, rank, iteration, part);
    case COLLECTIVE_ALLTOALL:
    case COLLECTIVE_ALLTOALLV:
        return verify_leaf(machine, block, rank, iteration, part);
    default:
        return verify_leaf(machine, block, 0, iteration, part);
    }
}

/*
 * Whether a rank's sum is the canonical one of the first `summed` ranks, or, where that is not promised, any sum with
 * the leaf of each once.
 */
static bool is_sum_of(struct verify_machine *machine, symbol sum, uint32_t summed, bool canonical)
{
    if (canonical && machine->canonical && machine->canonical_ranks == summed)
        return sum == machine->canonical;
    for (uint32_t rank = 0; rank < summed; rank++)
        machine->operands[rank] = 1 + rank;
    if (!canonical)
        return symbols_is_sum_of(machine->symbols, sum, machine->operands, summed, true);
    machine->canonical = symbols_finish(machine->symbols, symbols_tree(machine->symbols, machine->operands, summed));
    machine->canonical_ranks = summed;
    return sum == machine->canonical;
}

/* " (step 3 of lane 1 of rank 0 wrote it)", or that no step did. */
static const char *writer_text(const struct verify_machine *machine, const struct cell *cell, char *text, size_t size)
{
    const struct thread *writer = &machine->threads[cell->write_thread];
    text[0] = '\0';
    if (!cell->write_clock) {
        snprintf(text, size, " (no step writes it)");
        return text;
    }
    snprintf(text, size, " (step %u of lane %u of rank %u wrote it)", (cell->write_clock - 1) % writer->length,
             writer->lane, writer->rank);
    return text;
}

bool verify_check_value(struct verify_machine *machine, uint32_t rank, uint32_t block, uint32_t iteration,
                        uint32_t part)
{
    const struct cell *cell =
        &machine->cells[verify_cell_at(machine, rank, REGION_OUTPUT, iteration, block * machine->parts + part)];
    struct value value = cell->value;
    struct value wanted = expected(machine, rank, block, iteration, part);
    bool reduces = collective_reduces(machine->shape->collective), canonical = machine->schedules[rank]->canonical;
    const uint32_t summed = collective_summed(machine->shape->collective, rank, machine->ranks);
    if (machine->useful)
        machine->useful[cell->writer] |= USE_READ;
    if (reduces && !canonical && machine->shape->collective == COLLECTIVE_ALLREDUCE && rank > 0) {
        /* the same as rank 0's, which has been checked */
        if (verify_same(value, machine->cells[verify_cell_at(machine, 0, REGION_OUTPUT, iteration, part)].value))
            return true;
    } else if (reduces ? value.column == wanted.column && is_sum_of(machine, value.sum, summed, canonical)
                       : verify_same(value, wanted)) {
        return true;
    }
    char has[200], should[200], writer[80];
    if (reduces)
        wanted.sum = canonical ? machine->canonical : SYMBOL_NONE;
    symbols_text(machine->symbols, value.sum, machine->ranks, has, sizeof has);
    symbols_text(machine->symbols, wanted.sum, machine->ranks, should, sizeof should);
    return verify_complain(machine, NULL, "rank %u ends with %s%s in block %u, part %u, iteration %u, instead of %s%s",
                           rank, has, value.column == wanted.column ? "" : " of another block, part or segment", block,
                           part, iteration,
                           wanted.sum ? should
                           : collective_is_prefix(machine->shape->collective)
                               ? "a sum of the first ranks' inputs, each once"
                               : "a sum of all ranks' inputs, each once, equal on all ranks",
                           writer_text(machine, cell, writer, sizeof writer));
}

/* When a rank is done, no other may still access its buffers; in a barrier, all must have begun. */
bool verify_machine_check_end(struct verify_machine *machine, uint32_t rank)
{
    const struct schedule *schedule = machine->schedules[rank];
    tick *clock = machine->clock_at_end;
    memset(clock, 0, machine->components * sizeof *clock); /* of this rank's scope */
    for (uint32_t thread = machine->first_thread[rank]; thread < machine->first_thread[rank + 1]; thread++)
        verify_join(clock, verify_clock_of(machine, &machine->threads[thread]), machine->components);
    char text[96];
    for (uint32_t iteration = 0; iteration < machine->iterations; iteration++) {
        for (unsigned kind = REGION_INPUT; kind <= REGION_OUTPUT; kind++) {
            uint32_t chunks =
                (kind == REGION_INPUT ? schedule->input_blocks : schedule->output_blocks) * schedule->parts;
            for (uint32_t chunk = 0; chunk < chunks; chunk++) {
                uint32_t index = verify_cell_at(machine, rank, (enum region_kind)kind, iteration, chunk);
                const struct cell *cell = &machine->cells[index];
                if (cell->write_clock &&
                    !verify_clock_holds(machine, clock, rank, cell->write_thread, cell->write_clock))
                    return (machine->doubt = true),
                           verify_complain(machine, NULL, "rank %u may be done while rank %u still writes %s", rank,
                                           machine->threads[cell->write_thread].rank,
                                           verify_cell_text(machine, index, text, sizeof text));
                for (uint32_t at = cell->reads; at != VERIFY_NONE; at = machine->accesses[at].next)
                    if (!verify_clock_holds(machine, clock, rank, machine->accesses[at].thread,
                                            machine->accesses[at].clock))
                        return (machine->doubt = true),
                               verify_complain(machine, NULL, "rank %u may be done while rank %u still reads %s", rank,
                                               machine->threads[machine->accesses[at].thread].rank,
                                               verify_cell_text(machine, index, text, sizeof text));
            }
        }
        for (uint32_t chunk = 0; chunk < schedule->output_blocks * schedule->parts; chunk++)
            if (!verify_check_value(machine, rank, chunk / schedule->parts, iteration, chunk % schedule->parts))
                return false;
    }
    if (machine->shape->collective == COLLECTIVE_BARRIER)
        for (uint32_t other = 0; other < machine->ranks; other++)
            if (other != rank && !clock[machine->scopes.begun + other])
                return verify_complain(machine, NULL, "rank %u may be done before rank %u has begun", rank, other);
    return true;
}

bool verify_machine_run(struct verify_machine *machine)
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
                               "waits forever (deadlock), as do %u other lanes; its peer is rank or group %u",
                               stuck - 1, verify_step_of(first)->peer);
    return true;
}

/* ---- setting up ---- */

/* The steps that another lane waits for, and the number of signals of a lane: sizes of the tables. */
static void count_snapshots(struct verify_machine *machine)
{
    for (uint32_t rank = 0; rank < machine->ranks; rank++) {
        const struct schedule *schedule = machine->schedules[rank];
        int32_t *kept = machine->snapshot_of + machine->step_base[rank];
        for (uint32_t i = 0; i < schedule->step_count; i++)
            kept[i] = -1;
        for (uint32_t i = 0; i < schedule->step_count; i++)
            if (schedule->steps[i].wait_steps)
                kept[schedule->lane_first[schedule->steps[i].wait_lane] + schedule->steps[i].wait_steps - 1] = 0;
        for (uint32_t lane = 0; lane < schedule->lane_count; lane++) {
            uint32_t self = machine->first_thread[rank] + lane;
            machine->signal_base[self] = machine->signal_count;
            for (uint32_t i = schedule->lane_first[lane]; i < schedule->lane_first[lane + 1]; i++) {
                if (kept[i] == 0)
                    kept[i] = (int32_t)machine->kept[self]++;
                if (schedule->steps[i].kind != STEP_SIGNAL)
                    continue;
                machine->signal_groups[machine->signal_count++] =
                    verify_group_number(machine, rank, schedule->steps[i].peer);
                machine->signalled[self]++;
            }
            machine->snapshot_base[self] = machine->snapshot_count;
            machine->snapshot_count += (uint64_t)(machine->kept[self] + machine->signalled[self]) * machine->iterations;
        }
    }
}

static void begin_threads(struct verify_machine *machine)
{
    for (uint32_t rank = 0; rank < machine->ranks; rank++) {
        const struct schedule *schedule = machine->schedules[rank];
        for (uint32_t lane = 0; lane < schedule->lane_count; lane++) {
            uint32_t self = machine->first_thread[rank] + lane;
            uint32_t first = schedule->lane_first[lane], length = schedule->lane_first[lane + 1] - first;
            machine->threads[self] = (struct thread){
                .rank = rank,
                .lane = lane,
                .steps = schedule->steps + first,
                .length = length,
                .first_step = machine->step_base[rank] + first,
                .next = VERIFY_NONE,
                .iteration = length ? 0 : machine->iterations, /* nothing to do in this lane */
                .snapshot_slots = machine->snapshot_base[self],
                .signal_slots = machine->snapshot_base[self] + machine->kept[self] * machine->iterations,
            };
        }
    }
}

/* Lay the buffers of all ranks out as cells; in place (once there is a binding), output and input share them. */
static void machine_lay_out(struct verify_machine *machine)
{
    uint64_t next = 0;
    uint32_t parts = machine->parts;
    for (uint32_t rank = 0; rank < machine->ranks; rank++) {
        const struct schedule *schedule = machine->schedules[rank];
        struct region *regions = machine->regions + (size_t)rank * REGIONS;
        uint32_t sizes[REGIONS] = {
            [REGION_INPUT] = schedule->input_blocks * parts,
            [REGION_OUTPUT] = schedule->output_blocks * parts,
            [REGION_SCRATCH] = schedule->scratch_chunks,
        };
        if (machine->scopes.shm) {
            sizes[REGION_EXPOSED] = sizes[REGION_INPUT];
            /* A rank without output can spread to others' (reduce, exscan). */
            sizes[REGION_SPREAD] = sizes[REGION_OUTPUT] ? sizes[REGION_OUTPUT]
                                   : collective_is_prefix(machine->shape->collective)
                                       ? parts
                                       : machine->schedules[machine->shape->root]->output_blocks * parts;
        }
        for (unsigned kind = 0; kind < REGIONS; kind++) {
            regions[kind] = (struct region){(uint32_t)next, sizes[kind]};
            next += (uint64_t)sizes[kind] * (kind >= REGION_SCRATCH ? schedule->slots : machine->iterations);
        }
        if (!machine->binding || !verify_chosen(machine->binding->in_place, rank) || !schedule->input_blocks ||
            !schedule->output_blocks)
            continue;
        switch (machine->shape->collective) {
        case COLLECTIVE_REDUCE_SCATTER:
        case COLLECTIVE_SCATTER:
        case COLLECTIVE_SCATTERV:
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
    machine->cell_count = (uint32_t)next;
}

void verify_fill_input(struct verify_machine *machine, uint32_t rank)
{
    const struct schedule *schedule = machine->schedules[rank];
    if (machine->shape->collective == COLLECTIVE_BROADCAST && rank != machine->shape->root)
        return;
    for (uint32_t iteration = 0; iteration < machine->iterations; iteration++)
        for (uint32_t chunk = 0; chunk < schedule->input_blocks * machine->parts; chunk++)
            verify_store(machine, verify_cell_at(machine, rank, REGION_INPUT, iteration, chunk),
                         verify_size_name(machine, rank, REGION_INPUT, chunk),
                         verify_leaf(machine, rank, chunk / machine->parts, iteration, chunk % machine->parts));
}

void verify_machine_close(struct verify_machine *machine)
{
    void *arrays[] = {machine->first_thread, machine->threads,       machine->clocks,      machine->snapshots,
                      machine->snapshot_of,  machine->step_base,     machine->kept,        machine->signalled,
                      machine->regions,      machine->cells,         machine->accesses,    machine->channel_table,
                      machine->operands,     machine->signal_groups, machine->signal_base, machine->snapshot_base,
                      machine->clock_at_end, machine->useful};
    for (size_t i = 0; i < ARRAY_SIZE(arrays); i++)
        free(arrays[i]);
    verify_order_close(machine);
    symbols_close(machine->symbols);
}

/* The properties that all schedules must share before they are run. */
static bool same_frame(struct verify_machine *machine)
{
    const struct schedule *first = machine->schedules[0];
    for (uint32_t rank = 0; rank < machine->ranks; rank++) {
        const struct schedule *schedule = machine->schedules[rank];
        if (schedule->hash != first->hash || schedule->rank != rank || schedule->ranks != machine->ranks ||
            schedule->parts != first->parts || schedule->segment_bytes != first->segment_bytes ||
            schedule->canonical != first->canonical || schedule->collective != machine->shape->collective)
            return verify_complain(machine, NULL, "the schedules of ranks 0 and %u differ in kind", rank);
    }
    return true;
}

static bool complain_size(struct verify_machine *machine, const char *what, uint64_t number)
{
    machine->status =
        error_set(machine->error, WEFT_ERROR_SCHEDULE, "%s by %s over %u ranks: %" PRIu64 " %s are too many to verify",
                  collective_name(machine->schedules[0]->collective), machine->schedules[0]->algorithm, machine->ranks,
                  number, what);
    return false;
}

/* The counts that determine all sizes. */
static bool machine_survey(struct verify_machine *machine)
{
    uint32_t slots = 1;
    uint64_t chunks = 0;
    machine->parts = machine->schedules[0]->parts;
    machine->sized_blocks = collective_is_vector(machine->shape->collective);
    machine->first_thread = calloc(machine->ranks + 1, sizeof *machine->first_thread);
    machine->step_base = calloc(machine->ranks, sizeof *machine->step_base);
    if (!machine->first_thread || !machine->step_base)
        return false;
    for (uint32_t rank = 0; rank < machine->ranks; rank++) {
        const struct schedule *schedule = machine->schedules[rank];
        machine->first_thread[rank] = machine->thread_count;
        machine->step_base[rank] = machine->step_count;
        machine->thread_count += schedule->lane_count;
        machine->step_count += schedule->step_count;
        if (schedule->slots > slots)
            slots = schedule->slots;
        if (schedule->step_count * (2 * SCHEDULE_SLOTS + 1) > TICK_MOST)
            return complain_size(machine, "steps of one rank", schedule->step_count);
        if (schedule->input_blocks > machine->input_blocks_most)
            machine->input_blocks_most = schedule->input_blocks;
        chunks += (uint64_t)(2 * schedule->input_blocks + 2 * schedule->output_blocks + 1) * schedule->parts +
                  schedule->scratch_chunks;
        for (uint32_t i = 0; i < schedule->step_count; i++)
            if (schedule->steps[i].channel >= machine->channels)
                machine->channels = schedule->steps[i].channel + 1u;
    }
    machine->first_thread[machine->ranks] = machine->thread_count;
    machine->iterations = machine->schedules[0]->segment_bytes ? 2 * slots + 1 : 1;
    uint64_t leaves = (uint64_t)machine->ranks * machine->input_blocks_most * machine->parts;
    if (leaves > VERIFY_CHUNKS_MOST || chunks > VERIFY_CHUNKS_MOST)
        return complain_size(machine, "chunks", leaves > chunks ? leaves : chunks);
    return true;
}

bool verify_machine_open(struct verify_machine *machine, bool narrow)
{
    if (!same_frame(machine) || !machine_survey(machine) || !verify_scopes_open(machine, narrow) ||
        !verify_groups_open(machine))
        return false;
    uint32_t threads = machine->thread_count ? machine->thread_count : 1, steps = machine->step_count + 1;
    machine->threads = calloc(threads, sizeof *machine->threads);
    machine->kept = calloc(threads, sizeof *machine->kept);
    machine->signalled = calloc(threads, sizeof *machine->signalled);
    machine->signal_base = calloc(threads, sizeof *machine->signal_base);
    machine->snapshot_base = calloc(threads, sizeof *machine->snapshot_base);
    machine->signal_groups = calloc(steps, sizeof *machine->signal_groups);
    machine->snapshot_of = calloc(steps, sizeof *machine->snapshot_of);
    machine->regions = calloc((size_t)machine->ranks * REGIONS, sizeof *machine->regions);
    machine->operands = calloc(machine->ranks, sizeof *machine->operands);
    machine->clock_at_end = calloc(machine->components + 1, sizeof *machine->clock_at_end);
    if (!machine->threads || !machine->kept || !machine->signalled || !machine->signal_base ||
        !machine->snapshot_base || !machine->signal_groups || !machine->snapshot_of || !machine->regions ||
        !machine->operands || !machine->clock_at_end)
        return false;
    count_snapshots(machine);
    machine_lay_out(machine);
    /* Untouched memory costs nothing, so tables may be larger than needed. */
    machine->clocks = calloc((size_t)threads * machine->components + 1, sizeof *machine->clocks);
    machine->snapshots = malloc((machine->snapshot_count * machine->components + 1) * sizeof *machine->snapshots);
    machine->cells = calloc((size_t)machine->cell_count + 1, sizeof *machine->cells);
    machine->channel_table =
        calloc((size_t)machine->ranks * machine->ranks * machine->channels + 1, sizeof *machine->channel_table);
    machine->symbols = symbols_open(machine->ranks);
    return machine->clocks && machine->snapshots && machine->cells && machine->channel_table && machine->symbols;
}

/* Everything as before the first step, under one binding. */
void verify_machine_bind(struct verify_machine *machine, const struct verify_binding *binding)
{
    machine->binding = binding;
    machine->stepping = machine->step_count;
    machine_lay_out(machine);
    begin_threads(machine);
    machine->epoch++;
    machine->access_count = 0;
    machine->access_free = VERIFY_NONE;
    for (uint32_t i = 0; i < VERIFY_JOINS; i++)
        machine->joins[i].valid = false;
    memset(machine->clocks, 0, (size_t)machine->thread_count * machine->components * sizeof *machine->clocks);
    for (uint32_t i = 0; i < machine->cell_count; i++)
        machine->cells[i] = (struct cell){.reads = VERIFY_NONE, .writer = machine->step_count};
    for (uint32_t rank = 0; rank < machine->ranks; rank++) {
        verify_fill_input(machine, rank);
        for (uint32_t thread = machine->first_thread[rank]; thread < machine->first_thread[rank + 1]; thread++)
            verify_note_begun(machine, verify_clock_of(machine, &machine->threads[thread]), rank);
    }
}

weft_status verify_machine_exhausted(struct verify_machine *machine)
{
    if (machine->status == WEFT_OK)
        machine->status = error_memory(machine->error, machine->cell_count * sizeof *machine->cells, "the verifier");
    return machine->status;
}
