/* SPDX-License-Identifier: Apache-2.0 */
/**
 * A cluster in virtual time: a trace's jobs are submitted to the scheduler, its decisions are carried out at once, and
 * what becomes of each job is summed up. Nobody tells the scheduler a job's duration before it has ended.
 *
 * A job of up to a host's slots is one node; a larger one takes whole hosts of one Pod. One that is preempted or moved
 * computes nothing for the policy's restart_cost when it runs again.
 */
#ifndef WEFT_PLATFORM_SCHEDULER_SIMULATION_H
#define WEFT_PLATFORM_SCHEDULER_SIMULATION_H

#include "platform/scheduler/internal/trace.h"
#include "platform/scheduler/policy.h"

#include <stdio.h>

/* ---- assumptions ---- */

/**
 * Assumptions of a simulation for what traces do not say: which jobs may be preempted, and what time limits they have.
 * They matter: without preemption and with loose limits, mean waits at least double on most traces.
 *
 * No limit is shorter than its job, so no job is killed. Pure; safe from any thread.
 */

enum assumed_limits {
    ASSUME_NO_LIMITS,       /**< the scheduler has no limits */
    ASSUME_TRUE_LIMITS,     /**< a job's true duration */
    ASSUME_BUCKETED_LIMITS, /**< that, rounded up to 15m, 30m, 1h, 2h, 4h, 8h, 12h, 1d, 2d, 4d, 7d, or whole weeks */
    ASSUME_DEFAULT_LIMITS,  /**< 1 day, as `weft submit` gives without --time-limit; longer jobs as bucketed */
};

/** Their names ("none", "true", "bucketed", "default") in this order, NULL at the end. */
extern const char *const assumed_limits_names[];

struct assumptions {
    double preemptible; /**< share of the jobs that may be preempted, 0 to 1 */
    enum assumed_limits limits;
};

/** Whether a job may be preempted: by a hash of its number, so a larger share includes the jobs of a smaller one. */
bool assume_preemptible(const struct assumptions *assumptions, const struct trace_job *job);

/** A job's time limit in seconds; 0: it has none. */
double assume_limit(const struct assumptions *assumptions, const struct trace_job *job);

/* ---- the simulation ---- */

struct simulation_cluster {
    uint32_t pods, hosts, slots; /**< Pods, hosts of a Pod, slots of a host */
};

#define SIMULATION_LARGE          8     /**< slots; a job of more is large, whatever the size of a host */
#define SIMULATION_SLOWDOWN_BOUND 600.0 /**< seconds for which a shorter job is taken */

/**
 * What became of the jobs: all of it can be computed from the trace and the events, but the last four, which are of
 * this machine. Waiting is all time not running from submission to end. Shares are of the cluster's slots over the time
 * from the first submission to the last.
 *
 * The bounded slowdown of a job is the time from its submission to its end over its duration, which is taken for
 * SIMULATION_SLOWDOWN_BOUND if it is less, so that jobs of seconds do not outweigh all others; at least 1. The measure
 * is that of D. Feitelson et al., "Theory and Practice in Parallel Job Scheduling", 1997; restarts are in the time.
 */
struct simulation_summary {
    size_t jobs, large_jobs;
    size_t preemptible; /**< of `jobs` */
    size_t left_out;    /**< jobs of the trace that are not among them: see trace.h */
    double mean_wait_h, p99_wait_h, max_wait_h;
    double bounded_slowdown; /**< the mean of all jobs */
    double large_mean_wait_h, large_max_wait_h;
    double idle_while_queued; /**< slots that no job uses while one waits; of whole hosts those beyond its number too */
    double utilization;       /**< slots that compute; restarts do not */
    size_t preemptions;       /**< preempted or moved: each a `preempt` among the events */
    size_t moves;             /**< those of them that start again at the same time, elsewhere */
    double preempted_gpu_h;   /**< slot-hours that the restarts after them cost */
    double end_h;             /**< when the last job ended */
    size_t passes, decisions;
    double pass_mean_ms, pass_max_ms;
};

/**
 * Run the whole trace, whose jobs are as `assumptions` say. With `events` each start, preempt and finish is written to
 * it as a line of CSV: time_s, job, event, and the hosts as host:slots with spaces between; hosts are numbered through
 * the Pods, from 0. A move is a preempt and a start. Whether they could be written is for the caller to see. Errors:
 * ARGUMENT if a job fits in no Pod; MEMORY.
 */
weft_status simulation_run(const struct job_trace *trace, const struct simulation_cluster *cluster,
                           const struct assumptions *assumptions, const struct scheduler_policy *policy, FILE *events,
                           struct simulation_summary *summary, struct error *error);

#endif
