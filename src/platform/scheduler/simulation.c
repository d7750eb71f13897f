/* SPDX-License-Identifier: Apache-2.0 */
#include "platform/scheduler/simulation.h"

#include "base/clock.h"
#include "base/random.h"
#include "platform/scheduler/scheduler.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#define PASS_PERIOD 300.0 /* seconds: while jobs wait there is a pass at least so often */
#define HOUR        3600.0
#define SEED        18 /* any: which jobs are preemptible */
#define MINUTE      60.0
#define DAY         86400.0
#define NEVER       INFINITY

/* ---- assumptions ---- */

const char *const assumed_limits_names[] = {"none", "true", "bucketed", "default", NULL};

bool assume_preemptible(const struct assumptions *assumptions, const struct trace_job *job)
{
    return random_uniform(SEED, job->name) < assumptions->preemptible;
}

/* The next of the values that users commonly give. */
static double assumptions_round_up(double seconds)
{
    static const double buckets[] = {15 * MINUTE, 30 * MINUTE, HOUR,    2 * HOUR, 4 * HOUR, 8 * HOUR,
                                     12 * HOUR,   DAY,         2 * DAY, 4 * DAY,  7 * DAY};
    for (size_t i = 0; i < ARRAY_SIZE(buckets); i++)
        if (seconds <= buckets[i])
            return buckets[i];
    return ceil(seconds / (7 * DAY)) * 7 * DAY;
}

double assume_limit(const struct assumptions *assumptions, const struct trace_job *job)
{
    switch (assumptions->limits) {
    case ASSUME_NO_LIMITS:
        break;
    case ASSUME_TRUE_LIMITS:
        return fmax(job->duration, 1);
    case ASSUME_BUCKETED_LIMITS:
        return assumptions_round_up(job->duration);
    case ASSUME_DEFAULT_LIMITS:
        return fmax(assumptions_round_up(job->duration), DAY);
    }
    return 0;
}

/* ---- the simulation ---- */

/* A job as it really is; the scheduler sees its request alone. */
struct simulation_job {
    const struct trace_job *trace;
    uint32_t run;  /* the scheduler's name for it */
    double left;   /* seconds that it still has to compute */
    double since;  /* of this start, or of this wait */
    double lost;   /* seconds at the begin of this start that compute nothing */
    double waited; /* in all, so far */
    double ended;
    bool running, preempted; /* now; ever */
    size_t heap;             /* its place among the running ones */
    uint32_t *hosts;         /* of this start */
};

struct simulation_state {
    const struct job_trace *trace;
    const struct assumptions *assumptions;
    struct simulation_cluster cluster;
    struct scheduler *scheduler;
    struct simulation_job *jobs;
    struct simulation_job **of_run; /* by the scheduler's name */
    struct simulation_job **heap;   /* running jobs, the one that ends first on top */
    size_t running;
    double now, first, last; /* submissions */
    uint64_t unused;         /* slots that no job uses; those of whole hosts that a large one has no use for too */
    double idle, useful;     /* slot-seconds from the first submission to the last */
    FILE *events;
    struct simulation_summary *summary;
};

/* ---- running jobs by their end ---- */

static double simulation_end_of(const struct simulation_job *job)
{
    return job->since + job->lost + job->left;
}

static bool simulation_before(const struct simulation_job *a, const struct simulation_job *b)
{
    double left = simulation_end_of(a), right = simulation_end_of(b);
    return left != right ? left < right : a < b;
}

static void simulation_put(struct simulation_state *simulation, size_t at, struct simulation_job *job)
{
    simulation->heap[at] = job;
    job->heap = at;
}

static void sift(struct simulation_state *simulation, size_t at)
{
    struct simulation_job *job = simulation->heap[at];
    for (; at && simulation_before(job, simulation->heap[(at - 1) / 2]); at = (at - 1) / 2)
        simulation_put(simulation, at, simulation->heap[(at - 1) / 2]);
    for (size_t child; (child = 2 * at + 1) < simulation->running; at = child) {
        if (child + 1 < simulation->running && simulation_before(simulation->heap[child + 1], simulation->heap[child]))
            child++;
        if (!simulation_before(simulation->heap[child], job))
            break;
        simulation_put(simulation, at, simulation->heap[child]);
    }
    simulation_put(simulation, at, job);
}

static void heap_add(struct simulation_state *simulation, struct simulation_job *job)
{
    simulation_put(simulation, simulation->running++, job);
    sift(simulation, job->heap);
}

static void heap_remove(struct simulation_state *simulation, struct simulation_job *job)
{
    struct simulation_job *moved = simulation->heap[--simulation->running];
    if (moved == job)
        return;
    simulation_put(simulation, job->heap, moved);
    sift(simulation, moved->heap);
}

/* ---- what happens to a job ---- */

static uint64_t simulation_slots_of(const struct simulation_cluster *cluster)
{
    return (uint64_t)cluster->pods * cluster->hosts * cluster->slots;
}

static struct gang gang_of(const struct simulation_cluster *cluster, uint32_t slots)
{
    if (slots <= cluster->slots)
        return (struct gang){.nodes = 1, .slots = (uint16_t)slots};
    return (struct gang){.nodes = (slots + cluster->slots - 1) / cluster->slots, .slots = (uint16_t)cluster->slots};
}

static void simulation_tell(struct simulation_state *simulation, const struct simulation_job *job, const char *event)
{
    if (!simulation->events)
        return;
    fprintf(simulation->events, "%.10g,%" PRIu64 ",%s,", simulation->now, job->trace->name, event);
    struct gang gang = gang_of(&simulation->cluster, job->trace->slots);
    uint32_t left = job->trace->slots;
    for (uint32_t i = 0; i < gang.nodes; i++) {
        uint32_t here = left < gang.slots ? left : gang.slots;
        fprintf(simulation->events, "%s%" PRIu32 ":%" PRIu32, i ? " " : "", job->hosts[i], here);
        left -= here;
    }
    fputc('\n', simulation->events);
}

static double simulation_within(const struct simulation_state *simulation, double from, double to)
{
    from = fmax(from, simulation->first);
    to = fmin(to, simulation->last);
    return to > from ? to - from : 0;
}

static void simulation_start(struct simulation_state *simulation, struct simulation_job *job, const uint32_t *hosts)
{
    simulation->summary->moves += job->preempted && job->since == simulation->now;
    job->waited += simulation->now - job->since;
    job->since = simulation->now;
    job->running = true;
    simulation->unused -= job->trace->slots;
    memcpy(job->hosts, hosts, gang_of(&simulation->cluster, job->trace->slots).nodes * sizeof *hosts);
    heap_add(simulation, job);
    simulation_tell(simulation, job, "start");
}

static void halt(struct simulation_state *simulation, struct simulation_job *job, const char *event)
{
    double computing = job->since + job->lost;
    simulation->useful += simulation_within(simulation, computing, simulation->now) * job->trace->slots;
    job->left -= fmax(0, simulation->now - computing);
    job->since = simulation->now;
    job->running = false;
    simulation->unused += job->trace->slots;
    heap_remove(simulation, job);
    simulation_tell(simulation, job, event);
}

static void preempt(struct simulation_state *simulation, struct simulation_job *job, double restart_cost)
{
    halt(simulation, job, "preempt");
    job->lost = restart_cost;
    job->preempted = true;
    simulation->summary->preemptions++;
    simulation->summary->preempted_gpu_h += restart_cost * job->trace->slots / HOUR;
}

/* ---- time ---- */

static void pass_time(struct simulation_state *simulation, double to)
{
    if (scheduler_queued(simulation->scheduler))
        simulation->idle += simulation_within(simulation, simulation->now, to) * (double)simulation->unused;
    simulation->now = to;
}

static weft_status simulation_submit(struct simulation_state *simulation, struct simulation_job *job,
                                     struct error *error)
{
    struct scheduler_request request = {.project = job->trace->project,
                                        .gang = gang_of(&simulation->cluster, job->trace->slots),
                                        .slots = job->trace->slots,
                                        .weight = 1,
                                        .limit = assume_limit(simulation->assumptions, job->trace),
                                        .fixed = !assume_preemptible(simulation->assumptions, job->trace)};
    struct error refusal = {0};
    weft_status status = scheduler_submit(simulation->scheduler, &request, simulation->now, &job->run, &refusal);
    if (status == WEFT_ERROR_ARGUMENT)
        return error_set(error, status, "job %" PRIu64 ", on line %zu of the trace, of %u slots: %s", job->trace->name,
                         job->trace->line, job->trace->slots, refusal.text);
    if (status != WEFT_OK)
        return error_set(error, status, "%s", refusal.text);
    simulation->of_run[job->run] = job;
    job->since = simulation->now;
    return WEFT_OK;
}

static weft_status finish_due(struct simulation_state *simulation, size_t *ended, struct error *error)
{
    weft_status status = WEFT_OK;
    while (status == WEFT_OK && simulation->running && simulation_end_of(simulation->heap[0]) <= simulation->now) {
        struct simulation_job *job = simulation->heap[0];
        halt(simulation, job, "finish");
        job->ended = simulation->now;
        ++*ended;
        status = scheduler_finish(simulation->scheduler, job->run, simulation->now, error);
    }
    return status;
}

static weft_status simulation_decide(struct simulation_state *simulation, const struct scheduler_policy *policy,
                                     struct error *error)
{
    const struct scheduler_decision *decisions;
    size_t count;
    uint64_t began = clock_now();
    weft_status status = scheduler_pass(simulation->scheduler, simulation->now, &decisions, &count, error);
    double milliseconds = (double)(clock_now() - began) * 1e-6;
    if (status != WEFT_OK)
        return status;
    struct simulation_summary *summary = simulation->summary;
    summary->passes++;
    summary->decisions += count;
    summary->pass_mean_ms += milliseconds;
    summary->pass_max_ms = fmax(summary->pass_max_ms, milliseconds);
    for (size_t i = 0; i < count; i++) {
        struct simulation_job *job = simulation->of_run[decisions[i].run];
        if (decisions[i].kind != SCHEDULER_START)
            preempt(simulation, job, policy->restart_cost);
        if (decisions[i].kind != SCHEDULER_DISPLACE)
            simulation_start(simulation, job, decisions[i].hosts);
    }
    return WEFT_OK;
}

static weft_status scheduler_simulation_run(struct simulation_state *simulation, const struct scheduler_policy *policy,
                                            struct error *error)
{
    size_t submitted = 0, ended = 0;
    weft_status status = WEFT_OK;
    while (ended < simulation->trace->count && status == WEFT_OK) {
        double arrival = submitted < simulation->trace->count ? simulation->trace->jobs[submitted].submit : NEVER;
        double end = simulation->running ? simulation_end_of(simulation->heap[0]) : NEVER;
        double next = scheduler_queued(simulation->scheduler) ? simulation->now + PASS_PERIOD : NEVER;
        pass_time(simulation, fmin(fmin(arrival, end), next));
        status = finish_due(simulation, &ended, error);
        while (status == WEFT_OK && submitted < simulation->trace->count &&
               simulation->trace->jobs[submitted].submit <= simulation->now)
            status = simulation_submit(simulation, &simulation->jobs[submitted++], error);
        if (status == WEFT_OK && scheduler_queued(simulation->scheduler))
            status = simulation_decide(simulation, policy, error);
    }
    return status;
}

/* ---- the summary ---- */

static int ascending(const void *a, const void *b)
{
    const double *left = a, *right = b;
    return *left < *right ? -1 : *left > *right;
}

static weft_status simulation_sum_up(struct simulation_state *simulation, struct error *error)
{
    struct simulation_summary *summary = simulation->summary;
    size_t count = simulation->trace->count;
    double *waits = malloc(count * sizeof *waits), slowdown = 0, wait = 0, large = 0;
    if (!waits)
        return error_memory(error, count * sizeof *waits, "the waits of jobs");
    for (size_t i = 0; i < count; i++) {
        const struct simulation_job *job = &simulation->jobs[i];
        double hours = job->waited / HOUR;
        waits[i] = hours;
        wait += hours;
        slowdown += fmax(1, (job->ended - job->trace->submit) / fmax(job->trace->duration, SIMULATION_SLOWDOWN_BOUND));
        if (job->trace->slots > SIMULATION_LARGE) {
            summary->large_jobs++;
            large += hours;
            summary->large_max_wait_h = fmax(summary->large_max_wait_h, hours);
        }
    }
    qsort(waits, count, sizeof *waits, ascending);
    summary->jobs = count;
    for (size_t i = 0; i < count; i++)
        summary->preemptible += assume_preemptible(simulation->assumptions, simulation->jobs[i].trace);
    summary->left_out = simulation->trace->left_out;
    summary->mean_wait_h = wait / (double)count;
    summary->p99_wait_h = waits[(size_t)((double)count * 0.99)];
    summary->max_wait_h = waits[count - 1];
    summary->bounded_slowdown = slowdown / (double)count;
    summary->large_mean_wait_h = summary->large_jobs ? large / (double)summary->large_jobs : 0;
    double whole = (double)simulation_slots_of(&simulation->cluster) * (simulation->last - simulation->first);
    summary->idle_while_queued = whole > 0 ? simulation->idle / whole : 0;
    summary->utilization = whole > 0 ? simulation->useful / whole : 0;
    summary->pass_mean_ms /= summary->passes ? (double)summary->passes : 1;
    summary->end_h = simulation->now / HOUR;
    free(waits);
    return WEFT_OK;
}

static weft_status open(struct simulation_state *simulation, const struct scheduler_policy *policy, struct error *error)
{
    const struct simulation_cluster *cluster = &simulation->cluster;
    size_t count = simulation->trace->count, bytes = count * sizeof *simulation->jobs;
    simulation->jobs = calloc(count, sizeof *simulation->jobs);
    simulation->of_run = calloc(count, sizeof(struct simulation_job *));
    simulation->heap = calloc(count, sizeof(struct simulation_job *));
    if (!simulation->jobs || !simulation->of_run || !simulation->heap)
        return error_memory(error, bytes, "a simulation's jobs");
    for (size_t i = 0; i < count; i++) {
        struct simulation_job *job = &simulation->jobs[i];
        job->trace = &simulation->trace->jobs[i];
        job->left = job->trace->duration;
        job->hosts = malloc(gang_of(cluster, job->trace->slots).nodes * sizeof *job->hosts);
        if (!job->hosts)
            return error_memory(error, sizeof *job->hosts, "a job's hosts");
    }
    simulation->scheduler = scheduler_new(policy, error);
    weft_status status = simulation->scheduler ? WEFT_OK : WEFT_ERROR_MEMORY;
    for (uint32_t p = 0; p < cluster->pods && status == WEFT_OK; p++)
        status = scheduler_add_pod(simulation->scheduler, cluster->hosts, cluster->slots, error);
    return status;
}

weft_status simulation_run(const struct job_trace *trace, const struct simulation_cluster *cluster,
                           const struct assumptions *assumptions, const struct scheduler_policy *policy, FILE *events,
                           struct simulation_summary *summary, struct error *error)
{
    struct simulation_summary result = {0};
    struct simulation_state simulation = {.trace = trace,
                                          .assumptions = assumptions,
                                          .cluster = *cluster,
                                          .now = trace->jobs[0].submit,
                                          .first = trace->jobs[0].submit,
                                          .last = trace->jobs[trace->count - 1].submit,
                                          .unused = simulation_slots_of(cluster),
                                          .events = events,
                                          .summary = &result};
    weft_status status = open(&simulation, policy, error);
    if (status == WEFT_OK && events)
        fputs("time_s,job,event,hosts\n", events);
    if (status == WEFT_OK)
        status = scheduler_simulation_run(&simulation, policy, error);
    if (status == WEFT_OK)
        status = simulation_sum_up(&simulation, error);
    scheduler_free(simulation.scheduler);
    for (size_t i = 0; simulation.jobs && i < trace->count; i++)
        free(simulation.jobs[i].hosts);
    free(simulation.jobs);
    free(simulation.of_run);
    free(simulation.heap);
    if (status == WEFT_OK)
        *summary = result;
    return status;
}
