/* SPDX-License-Identifier: Apache-2.0 */
/**
 * A cluster in virtual time: a trace's jobs are submitted to the scheduler, its decisions are carried out at once, and
 * what becomes of each job is summed up. Nobody tells the scheduler a job's duration before it has ended.
 *
 * A job of up to a host's slots is one node; a larger one takes whole hosts of one Pod. One that is displaced or moved
 * computes nothing for the policy's restart_cost when it runs again.
 */
#ifndef WEFT_SCHEDULER_SIMULATION_H
#define WEFT_SCHEDULER_SIMULATION_H

#include "scheduler/policy.h"
#include "scheduler/trace.h"

#include <stdio.h>

struct simulation_cluster {
    uint32_t pods, hosts, slots; /**< Pods, hosts of a Pod, slots of a host */
};

/**
 * What became of the jobs. Waiting is all time not running from submission to end. `large`: jobs of more slots than a
 * host has. Shares are of the cluster's slots over the time from the first submission to the last.
 */
struct simulation_summary {
    size_t jobs, large_jobs;
    double mean_wait_h, p99_wait_h, max_wait_h;
    double bounded_slowdown; /**< mean of (wait + run) / run, with runs taken for 10 minutes at least, and at least 1 */
    double large_mean_wait_h, large_max_wait_h;
    double idle_while_queued; /**< slots free while a job waits */
    double utilisation;       /**< slots that compute; restarts do not */
    size_t preemptions, moves;
    double preempted_gpu_h; /**< slot-hours that restarts cost */
    size_t passes, decisions;
    double pass_mean_ms, pass_max_ms; /**< of this machine's time */
    double end_h;                     /**< when the last job ended */
};

/**
 * Run the whole trace. With `events` each start, preempt and finish is written to it as a line of CSV: time_s, job,
 * event, and the hosts as host:slots with spaces between; hosts are numbered through the Pods, from 0. A move is a
 * preempt and a start. Whether they could be written is for the caller to see.
 * Errors: ARGUMENT if a job fits in no Pod; MEMORY.
 */
weft_status simulation_run(const struct trace *trace, const struct simulation_cluster *cluster,
                           const struct scheduler_policy *policy, FILE *events, struct simulation_summary *summary,
                           struct error *error);

#endif
