/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Virtual time. Events happen in order; before time passes, the links are divided among the messages in flight. Long
 * loops are not run to the end: after a few iterations they reach a steady state, and the rest is extrapolated from the
 * last iterations' time.
 */
#include "core/schedule/simulate/simulate.h"

#include "core/schedule/simulate/internal/simulation.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define NONE UINT32_MAX

/* Messages that end within this part of the time end together: rounding alone separates them. */
#define EQUAL_TIMES (1 + 1e-12)

/* Messages have left their senders. */
static void flows_end(struct simulate_simulation *simulation)
{
    struct simulated_network *network = &simulation->network;
    double now = network_next_flow(network), latency;
    while (network_next_flow(network) <= now * EQUAL_TIMES) {
        uint32_t sender = network_end(network, &latency);
        events_push(&simulation->events, now, EVENT_DONE, sender);
        events_push(&simulation->events, now + latency, EVENT_ARRIVAL, simulation->runners[sender].channel);
    }
}

/* The time of all iterations if the last simulated one ends at `end`. */
static double simulation_seconds(const struct simulate_simulation *simulation, double end)
{
    uint32_t last = simulation->iterations - 1, settled = ITERATIONS_SETTLED - 1;
    double each =
        (end - simulation->iteration_end[settled < last ? settled : last]) / (ITERATIONS_MOST - ITERATIONS_SETTLED);
    return end + (double)(simulation->all_iterations - simulation->iterations) * each;
}

/* Whether it is certain `now` that the result is above the limit: a lane is still going, and time only grows. */
static bool simulation_exceeds(const struct simulate_simulation *simulation, double now)
{
    return simulation->going && (now > simulation->limit ||
                                 (!simulation->settling && simulation_seconds(simulation, now) > simulation->limit));
}

/* False: ended early, above the limit. */
static bool simulate_run(struct simulate_simulation *simulation)
{
    struct simulate_events *events = &simulation->events;
    struct simulated_network *network = &simulation->network;
    double now = 0;
    for (uint32_t i = 0; i < simulation->runner_count; i++)
        events_push(events, 0, EVENT_TRY, i);
    while ((events->count || network->flow_count) && !events->exhausted) {
        double next = events->count ? events->heap[0].time : INFINITY;
        if (next > now) {
            if (simulation_exceeds(simulation, now))
                return false;
            network_settle(network, now);
            double first = network_next(network);
            if (first <= next) {
                now = first;
                if (!network_empties_bucket(network))
                    flows_end(simulation);
                continue;
            }
        }
        now = next;
        struct simulate_event event = events_pop(events);
        simulation_step_event(simulation, &event);
    }
    return true;
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

static weft_status simulation_open(struct simulate_simulation *simulation, struct error *error)
{
    uint32_t ranks = simulation->ranks;
    uint64_t messages = 0, steps = 0;
    for (uint32_t rank = 0; rank < ranks; rank++) {
        const struct schedule *schedule = simulation->schedules[rank];
        steps += schedule->step_count;
        simulation->runner_count += schedule->lane_count;
        for (uint32_t i = 0; i < schedule->step_count; i++)
            messages += schedule->steps[i].kind <= STEP_RECEIVE_REDUCE;
    }
    if (messages > UINT32_MAX / 4)
        return error_set(error, WEFT_ERROR_MEMORY, "a simulation of %llu messages and receipts is too large",
                         (unsigned long long)messages);
    simulation->pipe_mask = 15;
    while (simulation->pipe_mask < messages + messages / 2)
        simulation->pipe_mask = simulation->pipe_mask * 2 + 1;
    uint32_t runners = simulation->runner_count;
    weft_status status = network_open(&simulation->network, simulation->shape, simulation->cluster, runners,
                                      simulation->fold != NULL, error);
    if (status != WEFT_OK)
        return status;
    size_t bytes =
        (size_t)16 * 32 + (ranks + (size_t)1) * sizeof *simulation->first + runners * sizeof *simulation->runners +
        3 * ranks * sizeof(double) + steps * sizeof *simulation->routes +
        (simulation->pipe_mask + (size_t)1) * sizeof *simulation->pipes +
        simulation->network.units[0] * sizeof(uint32_t) + simulation->iterations * sizeof *simulation->iteration_end;
    char *memory = simulation->memory = calloc(1, bytes);
    if (!memory)
        return error_memory(error, bytes, "the simulator");
    simulation->first = simulate_take(&memory, (ranks + 1) * sizeof *simulation->first);
    simulation->runners = simulate_take(&memory, runners * sizeof *simulation->runners);
    simulation->busy = simulate_take(&memory, ranks * sizeof *simulation->busy);
    simulation->worked = simulate_take(&memory, ranks * sizeof *simulation->worked);
    simulation->given = simulate_take(&memory, ranks * sizeof *simulation->given);
    simulation->pipes = simulate_take(&memory, (simulation->pipe_mask + (size_t)1) * sizeof *simulation->pipes);
    simulation->routes = simulate_take(&memory, steps * sizeof *simulation->routes);
    uint32_t *sizes = simulate_take(&memory, simulation->network.units[0] * sizeof *sizes);
    simulation->iteration_end = simulate_take(&memory, simulation->iterations * sizeof *simulation->iteration_end);

    uint32_t next = 0, most = 1;
    size_t step = 0;
    for (uint32_t rank = 0; rank < ranks; rank++) {
        const struct schedule *schedule = simulation->schedules[rank];
        uint32_t node = shape_node(simulation->shape, simulation_rank(simulation, rank));
        simulation->first[rank] = next;
        most = ++sizes[node] > most ? sizes[node] : most;
        for (uint32_t lane = 0; lane < schedule->lane_count; lane++, next++) {
            simulation->runners[next] = (struct runner){
                .rank = rank, .lane = lane, .routes = simulation->routes + step + schedule->lane_first[lane]};
            if (schedule->lane_first[lane] == schedule->lane_first[lane + 1])
                simulation->runners[next].iteration = simulation->iterations;
            else
                simulation->settling = ++simulation->going;
        }
        step += schedule->step_count;
    }
    simulation->first[ranks] = next;
    if (!cores_open(simulation, sizes))
        return error_memory(error, simulation->cluster->cores * sizeof *simulation->cores, "the cores of machines");
    simulation->bandwidth =
        simulation_bandwidth(simulation->schedules[0], simulation->cluster, simulation->block_bytes, most);
    return WEFT_OK;
}

/* ---- results ---- */

static void report_fill(const struct simulate_simulation *simulation, struct simulated_report *report)
{
    double end = simulation->iteration_end[simulation->iterations - 1];
    *report = (struct simulated_report){.seconds = simulation_seconds(simulation, end),
                                        .how = simulation->fold ? SIMULATED_FOLDED : SIMULATED_WHOLE};
    uint64_t segment = simulation->schedules[0]->segment_bytes, bytes = simulation->block_bytes;
    bool all = simulation->all_iterations == simulation->iterations;
    double times = all ? 1 : (double)bytes / (double)(segment * simulation->iterations);
    uint32_t nodes = simulation->fold ? simulation->fold->nodes : 1;
    report->messages = (uint64_t)((double)simulation->messages * times * nodes + 0.5);
    uint32_t ranks = simulation->every_rank ? simulation->shape->ranks : simulation->ranks;
    for (uint32_t i = 0; i < ranks; i++) {
        uint32_t rank = simulation->every_rank ? simulation->fold->class_of[i] : i;
        report->leaving[0] = fmax(report->leaving[0], simulation->given[rank] * times);
        report->busy += report->seconds > 0 ? simulation->worked[rank] * times / report->seconds : 0;
    }
    report->busy = fmin(report->busy / ranks, 1);
    network_report(&simulation->network, report->seconds, times, report);
}

static weft_status simulate_with(struct simulate_simulation *simulation, struct simulated_report *report,
                                 struct error *error)
{
    const struct schedule *first = simulation->schedules[0];
    uint64_t iterations = simulation->all_iterations = schedule_iterations(first, simulation->block_bytes);
    simulation->iterations = iterations > ITERATIONS_MOST ? ITERATIONS_MOST : (uint32_t)iterations;
    bool ended = true;
    weft_status status = simulation_open(simulation, error);
    if (status == WEFT_OK) {
        ended = simulate_run(simulation);
        if (simulation->events.exhausted)
            status =
                error_memory(error, simulation->events.node_room * sizeof *simulation->events.nodes, "the simulator");
    }
    for (uint32_t i = 0; status == WEFT_OK && ended && i < simulation->runner_count; i++)
        if (simulation->runners[i].iteration < simulation->iterations)
            status =
                error_set(error, WEFT_ERROR_SCHEDULE, "%s by %s: rank %u, lane %u never completes; verify the schedule",
                          collective_name(first->collective), first->algorithm,
                          simulation_rank(simulation, simulation->runners[i].rank), simulation->runners[i].lane);
    if (status == WEFT_OK && ended)
        report_fill(simulation, report);
    else
        report->seconds = INFINITY;
    network_close(&simulation->network);
    free(simulation->memory);
    free(simulation->cores);
    simulate_events_close(&simulation->events);
    return status;
}

static weft_status simulate_schedules(struct schedule *const *schedules, uint32_t ranks,
                                      const struct schedule_shape *shape, const struct simulated_cluster *cluster,
                                      uint64_t block_bytes, const struct simulated_watch *watch, double limit,
                                      struct simulated_report *report, struct error *error)
{
    struct simulate_simulation simulation = {.schedules = schedules,
                                             .shape = shape,
                                             .cluster = cluster,
                                             .watch = watch,
                                             .ranks = ranks,
                                             .block_bytes = block_bytes,
                                             .limit = limit};
    return simulate_with(&simulation, report, error);
}

weft_status schedule_simulate_report(struct schedule *const *schedules, uint32_t ranks,
                                     const struct schedule_shape *shape, const struct simulated_cluster *cluster,
                                     uint64_t block_bytes, const struct simulated_watch *watch,
                                     struct simulated_report *report, struct error *error)
{
    return simulate_schedules(schedules, ranks, shape, cluster, block_bytes, watch, INFINITY, report, error);
}

weft_status schedule_simulate(struct schedule *const *schedules, uint32_t ranks, const struct schedule_shape *shape,
                              const struct simulated_cluster *cluster, uint64_t block_bytes, double *seconds,
                              struct error *error)
{
    struct simulated_report report;
    weft_status status = schedule_simulate_report(schedules, ranks, shape, cluster, block_bytes, NULL, &report, error);
    if (status == WEFT_OK)
        *seconds = report.seconds;
    return status;
}

static weft_status simulate_all_ranks(const struct algorithm *algorithm, const struct schedule_shape *shape,
                                      const struct simulated_cluster *cluster, const struct simulated_watch *watch,
                                      double limit, struct simulated_report *report, struct error *error)
{
    struct schedule **schedules = calloc(shape->ranks, sizeof *schedules);
    if (!schedules)
        return error_memory(error, shape->ranks * sizeof *schedules, "the schedules of all ranks");
    struct schedule_generator generator;
    weft_status status = generator_open(&generator, algorithm, shape, error);
    for (uint32_t r = 0; r < shape->ranks && status == WEFT_OK; r++)
        status = generator_write(&generator, r, &schedules[r], error);
    if (status == WEFT_OK)
        status = simulate_schedules(schedules, shape->ranks, shape, cluster, shape->block_bytes, watch, limit, report,
                                    error);
    for (uint32_t r = 0; r < shape->ranks; r++)
        schedule_free(schedules[r]);
    free(schedules);
    return status;
}

weft_status schedule_simulate_shape(const struct algorithm *algorithm, const struct schedule_shape *shape,
                                    const struct simulated_cluster *cluster, const struct simulated_watch *watch,
                                    struct simulated_report *report, struct error *error)
{
    return simulate_all_ranks(algorithm, shape, cluster, watch, INFINITY, report, error);
}

static weft_status simulate_folded(const struct algorithm *algorithm, const struct schedule_shape *shape,
                                   const struct simulated_cluster *cluster, const struct simulated_watch *watch,
                                   double limit, bool every_rank, struct simulated_report *report, bool *folded,
                                   struct error *error)
{
    struct simulated_fold fold;
    weft_status status = fold_open(&fold, algorithm, shape, cluster, error);
    *folded = fold.nodes > 0;
    if (status != WEFT_OK || !*folded)
        return status;
    struct simulate_simulation simulation = {.schedules = fold.schedules,
                                             .shape = shape,
                                             .cluster = cluster,
                                             .fold = &fold,
                                             .watch = watch,
                                             .ranks = fold.ranks,
                                             .block_bytes = shape->block_bytes,
                                             .limit = limit,
                                             .every_rank = every_rank};
    status = simulate_with(&simulation, report, error);
    fold_close(&fold);
    return status;
}

weft_status simulation_run_folded(const struct algorithm *algorithm, const struct schedule_shape *shape,
                                  const struct simulated_cluster *cluster, double limit,
                                  struct simulated_report *report, bool *folded, struct error *error)
{
    return simulate_folded(algorithm, shape, cluster, NULL, limit, false, report, folded, error);
}

weft_status simulation_run_shape(const struct algorithm *algorithm, const struct schedule_shape *shape,
                                 const struct simulated_cluster *cluster, double limit, struct simulated_report *report,
                                 struct error *error)
{
    bool folded;
    weft_status status = simulate_folded(algorithm, shape, cluster, NULL, limit, true, report, &folded, error);
    if (status != WEFT_OK || folded)
        return status;
    return simulate_all_ranks(algorithm, shape, cluster, NULL, limit, report, error);
}

weft_status schedule_simulate_folded(const struct algorithm *algorithm, const struct schedule_shape *shape,
                                     const struct simulated_cluster *cluster, const struct simulated_watch *watch,
                                     struct simulated_report *report, bool *folded, struct error *error)
{
    return simulate_folded(algorithm, shape, cluster, watch, INFINITY, false, report, folded, error);
}
