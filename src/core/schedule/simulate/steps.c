/* SPDX-License-Identifier: Apache-2.0 */
/* What steps do in virtual time. A lane takes a step when its waits are over. Work keeps its rank's core busy. */
#include "core/schedule/simulate/internal/simulation.h"

#include <math.h>

#define NONE UINT32_MAX

uint64_t simulation_step_bytes(const struct schedule *schedule, const struct step *step, uint64_t block_bytes,
                               uint32_t iteration)
{
    uint64_t segment = block_bytes;
    if (schedule->segment_bytes && segment > schedule->segment_bytes) {
        uint64_t first = iteration * schedule->segment_bytes;
        segment = segment - first < schedule->segment_bytes ? segment - first : schedule->segment_bytes;
    }
    if (schedule->parts == 1)
        return segment * step->chunks;
    return schedule_parts(segment, schedule->parts, step->value, step->chunks).bytes;
}

static uint64_t step_bytes(const struct simulate_simulation *simulation, const struct runner *runner,
                           const struct step *step)
{
    return simulation_step_bytes(simulation->schedules[runner->rank], step, simulation->block_bytes, runner->iteration);
}

/* Streams of memory that a step of local work reads and writes, buffers being registered; of them those of others. */
struct streams {
    uint32_t all, read, written;
};

/* The members of a group but this rank. */
static uint32_t others_of(const struct schedule *schedule, uint32_t index)
{
    const struct schedule_group *group = &schedule->groups[index];
    uint32_t others = group->count;
    for (uint32_t i = 0; i < group->count; i++)
        others -= schedule->members[group->first + i] == schedule->rank;
    return others;
}

static struct streams streams_of(const struct schedule *schedule, const struct step *step)
{
    const struct schedule_group *groups = schedule->groups;
    switch (step->kind) {
    case STEP_COPY:
    case STEP_FINISH:
        return (struct streams){2, 0, 0};
    case STEP_READ:
        return (struct streams){2, 1, 0};
    case STEP_REDUCE:
        return (struct streams){step->operands + 1u, 0, 0};
    case STEP_GATHER_REDUCE:
        return (struct streams){groups[step->peer].count + 1, others_of(schedule, step->peer), 0};
    case STEP_SPREAD:
        return (struct streams){groups[step->peer].count + 1, 0, others_of(schedule, step->peer)};
    case STEP_REDUCE_SPREAD:
        return (struct streams){groups[step->peer].count + groups[step->operands].count,
                                others_of(schedule, step->peer), others_of(schedule, step->operands)};
    default: /* STEP_EXPOSE, STEP_DELIVER: nothing to do */
        return (struct streams){0, 0, 0};
    }
}

double simulation_step_seconds(const struct schedule *schedule, const struct step *step, uint64_t bytes,
                               double bandwidth)
{
    uint32_t streams = step->kind == STEP_RECEIVE_REDUCE ? 3 : streams_of(schedule, step).all;
    return (double)bytes * streams / (2 * bandwidth);
}

double simulation_bandwidth(const struct schedule *schedule, const struct simulated_cluster *cluster,
                            uint64_t block_bytes, uint32_t ranks_of_node)
{
    uint64_t touched = (schedule->input_blocks + schedule->output_blocks) * block_bytes * ranks_of_node;
    return touched > cluster->cache_bytes ? cluster->memory_bandwidth : cluster->copy_bandwidth;
}

/* ---- work of a rank ---- */

/* The machine that a rank runs on: a node, or several that share it. */
static uint32_t machine_of(const struct simulate_simulation *simulation, uint32_t rank)
{
    uint32_t sharing = simulation->cluster->sharing;
    return shape_node(simulation->shape, simulation_rank(simulation, rank)) / (sharing ? sharing : 1);
}

/* The core that is free first, among equals the one where the rank was last. */
static struct core *core_for(const struct simulate_simulation *simulation, uint32_t rank, double begin)
{
    uint32_t count = simulation->cluster->cores;
    struct core *cores = &simulation->cores[(size_t)machine_of(simulation, rank) * count], *best = cores;
    for (struct core *core = cores; core < cores + count; core++) {
        if (core->rank == rank && core->busy <= begin)
            return core;
        if (core->busy < best->busy)
            best = core;
    }
    return best;
}

/* A random number, exponentially distributed with mean 1 (S. Vigna's splitmix64, of the number of the draw). */
static double draw_exponential(struct simulate_simulation *simulation, uint64_t seed)
{
    uint64_t x = seed + ++simulation->draws * 0x9e3779b97f4a7c15u;
    x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9u;
    x = (x ^ x >> 27) * 0x94d049bb133111ebu;
    x ^= x >> 31;
    return -log1p(-(double)(x >> 11) * 0x1p-53);
}

static double disturbed(struct simulate_simulation *simulation, uint32_t rank, double seconds)
{
    const struct simulated_disturbance *disturbance = simulation->cluster->disturbance;
    if (disturbance->slowdown > 0 && rank == disturbance->slow_rank)
        seconds *= disturbance->slowdown;
    if (disturbance->jitter > 0)
        seconds *= 1 + disturbance->jitter * draw_exponential(simulation, disturbance->seed);
    return seconds;
}

/* Occupy a rank for `seconds`; returns the end. A rank that is still busy continues without leaving its core. */
static double simulate_work(struct simulate_simulation *simulation, uint32_t rank, double now, double seconds)
{
    double begin = now > simulation->busy[rank] ? now : simulation->busy[rank];
    if (simulation->cluster->disturbance)
        seconds = disturbed(simulation, rank, seconds);
    if (simulation->cores) {
        struct core *core = core_for(simulation, rank, begin);
        bool goes_on = core->rank == rank || simulation->busy[rank] > now;
        begin = core->busy > begin ? core->busy : begin;
        begin += goes_on ? 0 : simulation->cluster->switching;
        *core = (struct core){begin + seconds, rank};
    }
    simulation->worked[rank] += seconds;
    return simulation->busy[rank] = begin + seconds;
}

static double local_seconds(const struct simulate_simulation *simulation, const struct runner *runner,
                            const struct step *step)
{
    return simulation_step_seconds(simulation->schedules[runner->rank], step, step_bytes(simulation, runner, step),
                                   simulation->bandwidth);
}

/* ---- messages ---- */

/* Messages from one rank to another, which is at `distance` from it where nodes are folded. */
static uint32_t pipe_of(struct simulate_simulation *simulation, uint32_t from, uint32_t to, uint32_t distance,
                        uint32_t channel)
{
    uint64_t key = simulation->fold ? ((uint64_t)distance << 24 | from << 12 | to) << 8 | channel
                                    : (uint64_t)from << 32 | (uint64_t)to << 8 | channel;
    key++;
    uint32_t at = (uint32_t)((key * 0x9e3779b97f4a7c15u) >> 32) & simulation->pipe_mask;
    while (simulation->pipes[at].key && simulation->pipes[at].key != key)
        at = (at + 1) & simulation->pipe_mask;
    if (!simulation->pipes[at].key)
        simulation->pipes[at] = (struct pipe){.key = key, .waiting = NONE};
    return at;
}

/* The channel of a rank's message to its peer, or (`sending` false) from it. */
static uint32_t pipe_with(struct simulate_simulation *simulation, uint32_t rank, const struct step *step, bool sending)
{
    const struct simulated_fold *fold = simulation->fold;
    uint32_t peer = step->peer, distance = 0;
    if (fold) {
        uint32_t place = fold->place_of[peer];
        distance = sending ? fold_difference(fold, 0, place) : fold_difference(fold, place, 0);
        peer = fold->class_of[peer];
    }
    return sending ? pipe_of(simulation, rank, peer, distance, step->channel)
                   : pipe_of(simulation, peer, rank, distance, step->channel);
}

/* The way of the message that a lane sends or receives next. */
static const struct simulated_route *route_of(struct simulate_simulation *simulation, const struct runner *runner,
                                              const struct step *step)
{
    struct simulated_route *route = &runner->routes[runner->at];
    if (!route->known)
        *route =
            (struct simulated_route){.pipe = pipe_with(simulation, runner->rank, step, step->kind == STEP_SEND),
                                     .known = true,
                                     .crossed = (uint8_t)network_crossed(
                                         &simulation->network, simulation_rank(simulation, runner->rank), step->peer)};
    return route;
}

/* A message is there for a receive that waits for it. */
static void receive(struct simulate_simulation *simulation, double now, uint32_t index)
{
    struct runner *runner = &simulation->runners[index];
    const struct step *step = simulation_step(simulation, runner);
    uint32_t crossed = route_of(simulation, runner, step)->crossed;
    const struct link_parameters *link = network_link(&simulation->network, crossed);
    double seconds = link->overhead;
    if (!crossed) /* the receiver copies */
        seconds += (double)step_bytes(simulation, runner, step) / link->bandwidth;
    if (step->kind == STEP_RECEIVE_REDUCE)
        seconds += local_seconds(simulation, runner, step);
    events_push(&simulation->events, simulate_work(simulation, runner->rank, now, seconds), EVENT_DONE, index);
}

static void begin_send(struct simulate_simulation *simulation, double now, uint32_t index, const struct step *step)
{
    struct runner *runner = &simulation->runners[index];
    const struct simulated_route *route = route_of(simulation, runner, step);
    const struct link_parameters *link = network_link(&simulation->network, route->crossed);
    double bytes = (double)step_bytes(simulation, runner, step);
    simulation->messages++;
    simulation->given[runner->rank] += bytes;
    runner->channel = route->pipe;
    double sent = simulate_work(simulation, runner->rank, now, link->overhead);
    if (route->crossed) {
        events_push(&simulation->events, sent, EVENT_FLOW, index);
        return;
    }
    /* Read in place: the sender cannot continue before the receiver has the data. */
    events_push(&simulation->events, sent + bytes / link->bandwidth, EVENT_DONE, index);
    events_push(&simulation->events, sent + link->latency, EVENT_ARRIVAL, runner->channel);
}

static void begin_receive(struct simulate_simulation *simulation, double now, uint32_t index, const struct step *step)
{
    struct pipe *pipe = &simulation->pipes[route_of(simulation, &simulation->runners[index], step)->pipe];
    if (pipe->arrived) {
        pipe->arrived--;
        receive(simulation, now, index);
    } else {
        pipe->waiting = index;
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

/* ---- shared memory ---- */

/* A rank of a group, as it is simulated. */
static uint32_t simulated_member(const struct simulate_simulation *simulation, const struct schedule *schedule,
                                 const struct schedule_group *group, uint32_t i)
{
    uint32_t rank = schedule->members[group->first + i];
    return simulation->fold ? simulation->fold->class_of[rank] : rank;
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
        uint32_t rank = simulated_member(simulation, schedule, group, i);
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
        if (!simulation->runners[simulation->first[simulated_member(simulation, schedule, group, i)]].published)
            return;
    /* Each reads the contributions of all others; beyond the flag's own line they lie in other cores' caches. */
    double time = simulation->cluster->near.latency, bytes = 0;
    for (uint32_t i = 0; i < group->count; i++)
        bytes += (double)simulation->schedules[simulated_member(simulation, schedule, group, i)]->input_blocks *
                 (double)simulation->block_bytes;
    if (bytes > SCHEDULE_LINE_BYTES * (double)group->count)
        time += simulation->cluster->near.latency / 2 + bytes / simulation->cluster->copy_bandwidth;
    for (uint32_t i = 0; i < group->count; i++) {
        uint32_t rank = simulated_member(simulation, schedule, group, i);
        double end = simulation->cores ? simulate_work(simulation, rank, now, time) : now + time;
        events_push(&simulation->events, end, EVENT_DONE, simulation->first[rank]);
    }
}

static double work_locally(struct simulate_simulation *simulation, double now, const struct runner *runner,
                           const struct step *step)
{
    struct streams streams = streams_of(simulation->schedules[runner->rank], step);
    if (!streams.all)
        return now;
    simulation->given[runner->rank] += (double)step_bytes(simulation, runner, step) *
                                       (streams.read > streams.written ? streams.read : streams.written);
    return simulate_work(simulation, runner->rank, now, local_seconds(simulation, runner, step));
}

/* ---- lanes ---- */

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
    const struct step *step = simulation_step(simulation, runner);
    bool waited = runner->blocked;
    runner->blocked =
        waits(simulation, runner, step) || (step->kind == STEP_AWAIT && !signals_seen(simulation, runner, step));
    if (runner->blocked)
        return;
    runner->since = now;
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
        events_push(&simulation->events, now, EVENT_DONE, index);
        break;
    case STEP_SIGNAL: { /* a message without data */
        double told = simulate_work(simulation, runner->rank, now, simulation->cluster->near.overhead);
        events_push(&simulation->events, told + simulation->cluster->near.latency, EVENT_VISIBLE, index);
        events_push(&simulation->events, told, EVENT_DONE, index);
        break;
    }
    default:
        events_push(&simulation->events, work_locally(simulation, now, runner, step), EVENT_DONE, index);
        break;
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
    if (simulation->watch) {
        const struct step *step = simulation_step(simulation, runner);
        struct simulated_step seen = {.rank = simulation_rank(simulation, runner->rank),
                                      .lane = runner->lane,
                                      .iteration = runner->iteration,
                                      .step = step,
                                      .bytes = step_bytes(simulation, runner, step),
                                      .begin = runner->since,
                                      .end = now};
        simulation->watch->step(simulation->watch->context, &seen);
    }
    if (++runner->at == schedule->lane_first[runner->lane + 1] - schedule->lane_first[runner->lane]) {
        simulation->iteration_end[runner->iteration] = now;
        runner->at = 0;
        runner->iteration++;
        simulation->settling -= runner->iteration == ITERATIONS_SETTLED;
        simulation->going -= runner->iteration == simulation->iterations;
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
            look_again(simulation, now, simulated_member(simulation, schedule, group, k));
        break;
    }
}

void simulation_step_event(struct simulate_simulation *simulation, const struct simulate_event *event)
{
    const struct runner *runner;
    switch (event->kind) {
    case EVENT_TRY:
        simulate_begin(simulation, event->time, event->subject);
        break;
    case EVENT_DONE:
        done(simulation, event->time, event->subject);
        break;
    case EVENT_VISIBLE:
        visible(simulation, event->time, event->subject);
        break;
    case EVENT_FLOW:
        runner = &simulation->runners[event->subject];
        network_begin(&simulation->network, event->time, event->subject, simulation_rank(simulation, runner->rank),
                      simulation_step(simulation, runner)->peer,
                      step_bytes(simulation, runner, simulation_step(simulation, runner)));
        break;
    case EVENT_ARRIVAL:
        arrival(simulation, event->time, event->subject);
        break;
    }
}
