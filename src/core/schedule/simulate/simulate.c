/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Events in virtual time. A lane takes a step when its waits are over. Work keeps its rank's core busy, and messages
 * between nodes share the interfaces of both. Long loops are not run to the end: after a few iterations they reach a
 * steady state, and the rest is extrapolated from the last iterations' time.
 */
#include "core/schedule/simulate/simulate.h"

#include "core/schedule/simulate/internal/network.h"

#include <stdlib.h>
#include <string.h>

#define NONE UINT32_MAX

/* Iterations simulated of a long loop; the rest takes the mean time of those after the first few. */
#define ITERATIONS_SETTLED 4
#define ITERATIONS_MOST    8

enum event_kind {
    EVENT_TRY,     /* lane `subject` may begin its step */
    EVENT_DONE,    /* lane `subject` has completed its step */
    EVENT_VISIBLE, /* a signal of lane `subject` can be seen */
    EVENT_FLOW,    /* lane `subject`'s message enters the network */
    EVENT_ARRIVAL, /* a message has arrived on channel `subject` */
};

struct simulate_event {
    double time;
    uint64_t order; /* among equal times: first in, first out */
    enum event_kind kind;
    uint32_t subject;
};

/* One lane of one rank. */
struct runner {
    uint32_t rank, lane;
    uint32_t iteration, at;
    uint32_t signals; /* that can be seen */
    uint32_t channel; /* of a send under way */
    bool blocked;     /* waits for an event */
    bool published;   /* in an exchange */
};

/* Messages from one rank to another on one channel. */
struct pipe {
    uint64_t key;     /* 0: empty entry of the table */
    uint32_t arrived; /* and not yet received */
    uint32_t waiting; /* the lane that receives, or NONE */
};

/* A core that ranks take turns on. */
struct core {
    double busy;   /* until when it is */
    uint32_t rank; /* that was there last */
};

struct simulate_simulation {
    struct schedule *const *schedules;
    const struct schedule_shape *shape;
    const struct simulated_cluster *cluster;
    uint32_t ranks, iterations;
    uint64_t block_bytes;
    uint32_t runner_count, *first; /* first lane of each rank */
    struct runner *runners;
    double *busy;       /* until when each rank is */
    struct core *cores; /* of all machines with fewer cores than ranks; NULL where every rank has its own */
    double bandwidth;   /* of a core's work */
    struct pipe *pipes;
    uint32_t pipe_mask;
    struct simulated_network network;
    struct simulate_event *heap;
    uint32_t heap_count;
    size_t heap_room;
    uint64_t order;
    double *iteration_end; /* when the last lane of all ended each iteration */
    bool exhausted;
    void *memory;
};

/* ---- the heap of events ---- */

static bool earlier(const struct simulate_event *a, const struct simulate_event *b)
{
    return a->time < b->time || (a->time == b->time && a->order < b->order);
}

static void simulate_push(struct simulate_simulation *simulation, double time, enum event_kind kind, uint32_t subject)
{
    if (ARRAY_RESERVE(simulation->heap, simulation->heap_room, simulation->heap_count + 1, "the simulator", NULL) !=
        WEFT_OK) {
        simulation->exhausted = true;
        return;
    }
    struct simulate_event event = {time, simulation->order++, kind, subject};
    uint32_t at = simulation->heap_count++;
    for (; at && earlier(&event, &simulation->heap[(at - 1) / 2]); at = (at - 1) / 2)
        simulation->heap[at] = simulation->heap[(at - 1) / 2];
    simulation->heap[at] = event;
}

static struct simulate_event pop(struct simulate_simulation *simulation)
{
    struct simulate_event first = simulation->heap[0], last = simulation->heap[--simulation->heap_count];
    uint32_t at = 0, count = simulation->heap_count;
    for (uint32_t child; (child = 2 * at + 1) < count; at = child) {
        if (child + 1 < count && earlier(&simulation->heap[child + 1], &simulation->heap[child]))
            child++;
        if (!earlier(&simulation->heap[child], &last))
            break;
        simulation->heap[at] = simulation->heap[child];
    }
    simulation->heap[at] = last;
    return first;
}

static uint32_t simulate_node_of(const struct simulate_simulation *simulation, uint32_t rank)
{
    return shape_node(simulation->shape, rank);
}

/* ---- steps ---- */

static const struct step *simulate_step_of(const struct simulate_simulation *simulation, const struct runner *runner)
{
    const struct schedule *schedule = simulation->schedules[runner->rank];
    return &schedule->steps[schedule->lane_first[runner->lane] + runner->at];
}

static uint64_t simulate_bytes_of(const struct simulate_simulation *simulation, const struct runner *runner,
                                  const struct step *step)
{
    const struct schedule *schedule = simulation->schedules[runner->rank];
    uint64_t segment = simulation->block_bytes;
    if (schedule->segment_bytes && segment > schedule->segment_bytes) {
        uint64_t first = runner->iteration * schedule->segment_bytes;
        segment = segment - first < schedule->segment_bytes ? segment - first : schedule->segment_bytes;
    }
    if (schedule->parts == 1)
        return segment * step->chunks;
    return schedule_parts(segment, schedule->parts, step->value, step->chunks).bytes;
}

/* The machine that a rank runs on: a node, or several that share it. */
static uint32_t simulate_machine_of(const struct simulate_simulation *simulation, uint32_t rank)
{
    uint32_t sharing = simulation->cluster->sharing;
    return simulate_node_of(simulation, rank) / (sharing ? sharing : 1);
}

/* The core that is free first, among equals the one where the rank was last. */
static struct core *core_for(const struct simulate_simulation *simulation, uint32_t rank, double begin)
{
    uint32_t count = simulation->cluster->cores;
    struct core *cores = &simulation->cores[(size_t)simulate_machine_of(simulation, rank) * count], *best = cores;
    for (struct core *core = cores; core < cores + count; core++) {
        if (core->rank == rank && core->busy <= begin)
            return core;
        if (core->busy < best->busy)
            best = core;
    }
    return best;
}

/* Occupy a rank for `seconds`; returns the end. A rank that is still busy continues without leaving its core.
 */
static double simulate_work(struct simulate_simulation *simulation, uint32_t rank, double now, double seconds)
{
    double begin = now > simulation->busy[rank] ? now : simulation->busy[rank];
    if (simulation->cores) {
        struct core *core = core_for(simulation, rank, begin);
        bool goes_on = core->rank == rank || simulation->busy[rank] > now;
        begin = core->busy > begin ? core->busy : begin;
        begin += goes_on ? 0 : simulation->cluster->switching;
        *core = (struct core){begin + seconds, rank};
    }
    return simulation->busy[rank] = begin + seconds;
}

/* Seconds to read and write `streams` times `bytes` (a copy is two streams). */
static double moving(const struct simulate_simulation *simulation, uint64_t bytes, uint32_t streams)
{
    return (double)bytes * streams / (2 * simulation->bandwidth);
}

static uint32_t pipe_of(struct simulate_simulation *simulation, uint32_t from, uint32_t to, uint32_t channel)
{
    uint64_t key = ((uint64_t)from << 32 | (uint64_t)to << 8 | channel) + 1;
    uint32_t at = (uint32_t)((key * 0x9e3779b97f4a7c15u) >> 32) & simulation->pipe_mask;
    while (simulation->pipes[at].key && simulation->pipes[at].key != key)
        at = (at + 1) & simulation->pipe_mask;
    if (!simulation->pipes[at].key)
        simulation->pipes[at] = (struct pipe){.key = key, .waiting = NONE};
    return at;
}

/* A message is there for a receive that waits for it. */
static void receive(struct simulate_simulation *simulation, double now, uint32_t index)
{
    struct runner *runner = &simulation->runners[index];
    const struct step *step = simulate_step_of(simulation, runner);
    const struct link_parameters *link = network_link(&simulation->network, runner->rank, step->peer);
    double seconds = link->overhead;
    if (link == &simulation->cluster->near) /* the receiver copies */
        seconds += (double)simulate_bytes_of(simulation, runner, step) / link->bandwidth;
    if (step->kind == STEP_RECEIVE_REDUCE)
        seconds += moving(simulation, simulate_bytes_of(simulation, runner, step), 3);
    simulate_push(simulation, simulate_work(simulation, runner->rank, now, seconds), EVENT_DONE, index);
}

static void begin_send(struct simulate_simulation *simulation, double now, uint32_t index, const struct step *step)
{
    struct runner *runner = &simulation->runners[index];
    const struct link_parameters *link = network_link(&simulation->network, runner->rank, step->peer);
    runner->channel = pipe_of(simulation, runner->rank, step->peer, step->channel);
    double sent = simulate_work(simulation, runner->rank, now, link->overhead);
    if (link != &simulation->cluster->near) {
        simulate_push(simulation, sent, EVENT_FLOW, index);
        return;
    }
    /* Read in place: the sender cannot continue before the receiver has the data. */
    simulate_push(simulation, sent + (double)simulate_bytes_of(simulation, runner, step) / link->bandwidth, EVENT_DONE,
                  index);
    simulate_push(simulation, sent + link->latency, EVENT_ARRIVAL, runner->channel);
}

static void begin_receive(struct simulate_simulation *simulation, double now, uint32_t index, const struct step *step)
{
    struct pipe *pipe =
        &simulation->pipes[pipe_of(simulation, step->peer, simulation->runners[index].rank, step->channel)];
    if (pipe->arrived) {
        pipe->arrived--;
        receive(simulation, now, index);
    } else {
        pipe->waiting = index;
    }
}

static bool signals_seen(const struct simulate_simulation *simulation, const struct runner *runner,
                         const struct step *step)
{
    if (runner->iteration < step->value_lag)
        return true;
    const struct schedule *schedule = simulation->schedules[runner->rank];
    const struct schedule_group *group = &schedule->groups[step->peer];
    uint32_t needed = step->stride * (runner->iteration - step->value_lag) + step->value;
    for (uint32_t i = 0; i < group->count; i++) {
        uint32_t rank = schedule->members[group->first + i];
        if (rank != runner->rank && simulation->runners[simulation->first[rank] + step->operands].signals < needed)
            return false;
    }
    return true;
}

/* When the last of a group publishes, all of the group may continue. */
static void begin_exchange(struct simulate_simulation *simulation, double now, uint32_t index, const struct step *step)
{
    const struct schedule *schedule = simulation->schedules[simulation->runners[index].rank];
    const struct schedule_group *group = &schedule->groups[step->peer];
    simulation->runners[index].published = true;
    for (uint32_t i = 0; i < group->count; i++)
        if (!simulation->runners[simulation->first[schedule->members[group->first + i]]].published)
            return;
    /* Each reads the contributions of all others; beyond the flag's own line they lie in other cores' caches. */
    double time = simulation->cluster->near.latency, bytes = 0;
    for (uint32_t i = 0; i < group->count; i++)
        bytes += (double)simulation->schedules[schedule->members[group->first + i]]->input_blocks *
                 (double)simulation->block_bytes;
    if (bytes > SCHEDULE_LINE_BYTES * (double)group->count)
        time += simulation->cluster->near.latency / 2 + bytes / simulation->cluster->copy_bandwidth;
    for (uint32_t i = 0; i < group->count; i++) {
        uint32_t rank = schedule->members[group->first + i];
        double end = simulation->cores ? simulate_work(simulation, rank, now, time) : now + time;
        simulate_push(simulation, end, EVENT_DONE, simulation->first[rank]);
    }
}

/* Streams of memory that a step of local work reads and writes, buffers being registered. */
static uint32_t streams_of(const struct schedule *schedule, const struct step *step)
{
    switch (step->kind) {
    case STEP_COPY:
    case STEP_READ:
    case STEP_FINISH:
        return 2;
    case STEP_REDUCE:
        return step->operands + 1u;
    case STEP_GATHER_REDUCE:
        return schedule->groups[step->peer].count + 1;
    case STEP_SPREAD:
        return schedule->groups[step->peer].count + 1;
    case STEP_REDUCE_SPREAD:
        return schedule->groups[step->peer].count + schedule->groups[step->operands].count;
    default: /* STEP_EXPOSE, STEP_DELIVER: nothing to do */
        return 0;
    }
}

static bool waits(const struct simulate_simulation *simulation, const struct runner *runner, const struct step *step)
{
    if (!step->wait_steps || runner->iteration < step->wait_lag || step->flags & STEP_WHERE_STAGED)
        return false; /* buffers are registered */
    const struct runner *other = &simulation->runners[simulation->first[runner->rank] + step->wait_lane];
    uint32_t iteration = runner->iteration - step->wait_lag;
    return other->iteration < iteration || (other->iteration == iteration && other->at < step->wait_steps);
}

static void simulate_begin(struct simulate_simulation *simulation, double now, uint32_t index)
{
    struct runner *runner = &simulation->runners[index];
    if (runner->iteration == simulation->iterations)
        return;
    const struct schedule *schedule = simulation->schedules[runner->rank];
    const struct step *step = simulate_step_of(simulation, runner);
    bool waited = runner->blocked;
    runner->blocked =
        waits(simulation, runner, step) || (step->kind == STEP_AWAIT && !signals_seen(simulation, runner, step));
    if (runner->blocked)
        return;
    switch (step->kind) {
    case STEP_SEND:
        begin_send(simulation, now, index, step);
        break;
    case STEP_RECEIVE:
    case STEP_RECEIVE_REDUCE:
        begin_receive(simulation, now, index, step);
        break;
    case STEP_EXCHANGE:
        begin_exchange(simulation, now, index, step);
        break;
    case STEP_AWAIT:
        if (waited && simulation->cores) /* it sees what has happened when it has a core */
            now = simulate_work(simulation, runner->rank, now, 0);
        simulate_push(simulation, now, EVENT_DONE, index);
        break;
    case STEP_SIGNAL: { /* a message without data */
        double told = simulate_work(simulation, runner->rank, now, simulation->cluster->near.overhead);
        simulate_push(simulation, told + simulation->cluster->near.latency, EVENT_VISIBLE, index);
        simulate_push(simulation, told, EVENT_DONE, index);
        break;
    }
    default: {
        uint32_t streams = streams_of(schedule, step);
        double end = streams ? simulate_work(simulation, runner->rank, now,
                                             moving(simulation, simulate_bytes_of(simulation, runner, step), streams))
                             : now;
        simulate_push(simulation, end, EVENT_DONE, index);
        break;
    }
    }
}

/* Let the blocked lanes of a rank check again. */
static void look_again(struct simulate_simulation *simulation, double now, uint32_t rank)
{
    for (uint32_t i = simulation->first[rank]; i < simulation->first[rank + 1]; i++)
        if (simulation->runners[i].blocked)
            simulate_begin(simulation, now, i);
}

static void done(struct simulate_simulation *simulation, double now, uint32_t index)
{
    struct runner *runner = &simulation->runners[index];
    const struct schedule *schedule = simulation->schedules[runner->rank];
    if (++runner->at == schedule->lane_first[runner->lane + 1] - schedule->lane_first[runner->lane]) {
        simulation->iteration_end[runner->iteration] = now;
        runner->at = 0;
        runner->iteration++;
    }
    look_again(simulation, now, runner->rank);
    simulate_begin(simulation, now, index);
}

static void visible(struct simulate_simulation *simulation, double now, uint32_t index)
{
    struct runner *runner = &simulation->runners[index];
    const struct schedule *schedule = simulation->schedules[runner->rank];
    runner->signals++;
    for (uint32_t i = schedule->lane_first[runner->lane]; i < schedule->lane_first[runner->lane + 1]; i++) {
        if (schedule->steps[i].kind != STEP_SIGNAL)
            continue;
        const struct schedule_group *group = &schedule->groups[schedule->steps[i].peer];
        for (uint32_t k = 0; k < group->count; k++)
            look_again(simulation, now, schedule->members[group->first + k]);
        break;
    }
}

static void arrival(struct simulate_simulation *simulation, double now, uint32_t index)
{
    struct pipe *pipe = &simulation->pipes[index];
    if (pipe->waiting == NONE) {
        pipe->arrived++;
        return;
    }
    uint32_t runner = pipe->waiting;
    pipe->waiting = NONE;
    receive(simulation, now, runner);
}

/* The message that ends first has left its sender. */
static void flow_end(struct simulate_simulation *simulation)
{
    double now = simulation->network.next_end, latency;
    uint32_t sender = network_end(&simulation->network, &latency);
    simulate_push(simulation, now, EVENT_DONE, sender);
    simulate_push(simulation, now + latency, EVENT_ARRIVAL, simulation->runners[sender].channel);
}

static void simulate_run(struct simulate_simulation *simulation)
{
    const struct simulated_network *network = &simulation->network;
    for (uint32_t i = 0; i < simulation->runner_count; i++)
        simulate_push(simulation, 0, EVENT_TRY, i);
    while ((simulation->heap_count || network->flow_count) && !simulation->exhausted) {
        if (network->flow_count && (!simulation->heap_count || network->next_end <= simulation->heap[0].time)) {
            flow_end(simulation);
            continue;
        }
        struct simulate_event event = pop(simulation);
        const struct runner *runner;
        switch (event.kind) {
        case EVENT_TRY:
            simulate_begin(simulation, event.time, event.subject);
            break;
        case EVENT_DONE:
            done(simulation, event.time, event.subject);
            break;
        case EVENT_VISIBLE:
            visible(simulation, event.time, event.subject);
            break;
        case EVENT_FLOW:
            runner = &simulation->runners[event.subject];
            network_begin(&simulation->network, event.time, event.subject, runner->rank,
                          simulate_step_of(simulation, runner)->peer,
                          simulate_bytes_of(simulation, runner, simulate_step_of(simulation, runner)));
            break;
        case EVENT_ARRIVAL:
            arrival(simulation, event.time, event.subject);
            break;
        }
    }
}

/* ---- setting up ---- */

/* One allocation, handed out in pieces of 16 bytes. */
static void *simulate_take(char **memory, size_t bytes)
{
    void *piece = *memory;
    *memory += (bytes + 15) & ~(size_t)15;
    return piece;
}

/* Machines have cores to share if one of them has fewer than ranks. sizes[n]: how many ranks node n has. */
static bool cores_open(struct simulate_simulation *simulation, const uint32_t *sizes)
{
    uint32_t cores = simulation->cluster->cores,
             sharing = simulation->cluster->sharing ? simulation->cluster->sharing : 1;
    uint32_t most = 0, machines = 0;
    for (uint32_t node = 0; node < simulation->network.units[0]; machines++) {
        uint32_t here = 0;
        for (uint32_t i = 0; i < sharing && node < simulation->network.units[0]; i++)
            here += sizes[node++];
        most = here > most ? here : most;
    }
    if (!cores || most <= cores)
        return true;
    simulation->cores = malloc((size_t)machines * cores * sizeof *simulation->cores);
    for (size_t i = 0; simulation->cores && i < (size_t)machines * cores; i++)
        simulation->cores[i] = (struct core){0, NONE};
    return simulation->cores;
}

static bool simulation_open(struct simulate_simulation *simulation)
{
    uint32_t ranks = simulation->ranks, messages = 0;
    for (uint32_t rank = 0; rank < ranks; rank++) {
        const struct schedule *schedule = simulation->schedules[rank];
        simulation->runner_count += schedule->lane_count;
        for (uint32_t i = 0; i < schedule->step_count; i++)
            messages += schedule->steps[i].kind <= STEP_RECEIVE_REDUCE;
    }
    simulation->pipe_mask = 15;
    while (simulation->pipe_mask < 2 * messages)
        simulation->pipe_mask = simulation->pipe_mask * 2 + 1;
    simulation->heap_room = 4 * simulation->runner_count + 16;
    uint32_t runners = simulation->runner_count;
    if (!network_open(&simulation->network, simulation->shape, simulation->cluster, runners))
        return false;
    size_t bytes =
        (size_t)16 * 32 + (ranks + (size_t)1) * sizeof *simulation->first + runners * sizeof *simulation->runners +
        ranks * sizeof *simulation->busy + (simulation->pipe_mask + (size_t)1) * sizeof *simulation->pipes +
        simulation->network.units[0] * sizeof(uint32_t) + simulation->iterations * sizeof *simulation->iteration_end;
    simulation->memory = calloc(1, bytes);
    simulation->heap = malloc(simulation->heap_room * sizeof *simulation->heap);
    if (!simulation->memory || !simulation->heap)
        return false;
    char *memory = simulation->memory;
    simulation->first = simulate_take(&memory, (ranks + 1) * sizeof *simulation->first);
    simulation->runners = simulate_take(&memory, runners * sizeof *simulation->runners);
    simulation->busy = simulate_take(&memory, ranks * sizeof *simulation->busy);
    simulation->pipes = simulate_take(&memory, (simulation->pipe_mask + (size_t)1) * sizeof *simulation->pipes);
    uint32_t *sizes = simulate_take(&memory, simulation->network.units[0] * sizeof *sizes);
    simulation->iteration_end = simulate_take(&memory, simulation->iterations * sizeof *simulation->iteration_end);

    uint32_t next = 0;
    for (uint32_t rank = 0; rank < ranks; rank++) {
        const struct schedule *schedule = simulation->schedules[rank];
        simulation->first[rank] = next;
        sizes[simulate_node_of(simulation, rank)]++;
        for (uint32_t lane = 0; lane < schedule->lane_count; lane++, next++) {
            simulation->runners[next] = (struct runner){.rank = rank, .lane = lane};
            if (schedule->lane_first[lane] == schedule->lane_first[lane + 1])
                simulation->runners[next].iteration = simulation->iterations;
        }
    }
    simulation->first[ranks] = next;
    uint32_t most = 1;
    for (uint32_t node = 0; node < simulation->network.units[0]; node++)
        most = sizes[node] > most ? sizes[node] : most;
    if (!cores_open(simulation, sizes))
        return false;
    const struct schedule *schedule = simulation->schedules[0];
    uint64_t touched = (schedule->input_blocks + schedule->output_blocks) * simulation->block_bytes * most;
    simulation->bandwidth = touched > simulation->cluster->cache_bytes ? simulation->cluster->memory_bandwidth
                                                                       : simulation->cluster->copy_bandwidth;
    return true;
}

weft_status schedule_simulate(struct schedule *const *schedules, uint32_t ranks, const struct schedule_shape *shape,
                              const struct simulated_cluster *cluster, uint64_t block_bytes, double *seconds,
                              struct error *error)
{
    struct simulate_simulation simulation = {
        .schedules = schedules, .shape = shape, .cluster = cluster, .ranks = ranks, .block_bytes = block_bytes};
    uint64_t iterations = schedule_iterations(schedules[0], block_bytes);
    simulation.iterations = iterations > ITERATIONS_MOST ? ITERATIONS_MOST : (uint32_t)iterations;
    bool ready = simulation_open(&simulation);
    if (ready)
        simulate_run(&simulation);
    weft_status status = WEFT_OK;
    if (!ready || simulation.exhausted)
        status = error_memory(error, simulation.heap_room * sizeof(struct simulate_event), "the simulator");
    for (uint32_t i = 0; status == WEFT_OK && i < simulation.runner_count; i++)
        if (simulation.runners[i].iteration < simulation.iterations)
            status =
                error_set(error, WEFT_ERROR_SCHEDULE, "%s by %s: rank %u, lane %u never completes; verify the schedule",
                          collective_name(schedules[0]->collective), schedules[0]->algorithm,
                          simulation.runners[i].rank, simulation.runners[i].lane);
    if (status == WEFT_OK) {
        double end = simulation.iteration_end[simulation.iterations - 1];
        double settled =
            (end -
             simulation.iteration_end[ITERATIONS_SETTLED - 1 < simulation.iterations - 1 ? ITERATIONS_SETTLED - 1
                                                                                         : simulation.iterations - 1]) /
            (ITERATIONS_MOST - ITERATIONS_SETTLED);
        *seconds = end + (double)(iterations - simulation.iterations) * settled;
    }
    network_close(&simulation.network);
    free(simulation.memory);
    free(simulation.cores);
    free(simulation.heap);
    return status;
}
