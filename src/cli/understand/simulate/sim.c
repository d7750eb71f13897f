/* SPDX-License-Identifier: Apache-2.0 */
/* `weft sim cluster`: run a trace of jobs through the scheduler, in virtual time. */
#include "cli/frame/command.h"
#include "cli/platform/client/cluster_view.h"
#include "cli/understand/simulate/sim_collective.h"
#include "cli/understand/simulate/sim_train.h"

#include "base/file/named_output.h"
#include "base/format/json_put.h"
#include "base/text.h"
#include "platform/scheduler/simulation.h"

#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

static struct {
    const char *trace, *pods, *events, *preemptible, *limits;
    double restart_cost;
    bool json;
} chosen;

static const struct cli_option options[] = {
    CLI_TEXT("trace", 't', "FILE", &chosen.trace, NULL,
             "jobs: CSV with submit_s, duration_s, num_gpus and vc, or the Standard Workload Format; .gz is fine"),
    CLI_TEXT("pods", 'p', "PxHxG", &chosen.pods, "4x16x8",
             "Pods, hosts of a Pod, GPUs (or slots) of a host; up to 65,536 hosts"),
    CLI_TEXT("preemptible", 0, "SHARE", &chosen.preemptible, "1",
             "share of the jobs that may be preempted: 0 to 1, or 0% to 100%; which ones is drawn by the job's number"),
    CLI_CHOICE("limits", 0, "KIND", &chosen.limits, "none", assumed_limits_names,
               "time limits of the jobs: none; their true durations; bucketed: these rounded up to 15m, 30m, 1h, 2h, "
               "4h, 8h, 12h, 1d, 2d, 4d, 7d or whole weeks; default: 1d as 'weft submit' gives, longer jobs bucketed"),
    CLI_NUMBER("restart-cost", 0, "SECONDS", &chosen.restart_cost, "300", 0, 86400,
               "time for which a job computes nothing after it was preempted"),
    CLI_FLAG("json", 0, &chosen.json, "the summary as one line of JSON"),
    CLI_TEXT("events", 'e', "FILE", &chosen.events, NULL,
             "write each start, preempt and finish as CSV: time_s, job, event, host:gpus ...; -: to standard output"),
};

static weft_status sim_print_json(const struct simulation_summary *summary, FILE *output, struct error *error)
{
    return JSON_PRINT(output, error, "jobs", summary->jobs, "preemptible", summary->preemptible, "left_out",
                      summary->left_out, "mean_wait_h", summary->mean_wait_h, "p99_wait_h", summary->p99_wait_h,
                      "max_wait_h", summary->max_wait_h, "bounded_slowdown", summary->bounded_slowdown, "large_jobs",
                      summary->large_jobs, "large_mean_wait_h", summary->large_mean_wait_h, "large_max_wait_h",
                      summary->large_max_wait_h, "idle_while_queued", summary->idle_while_queued, "utilization",
                      summary->utilization, "preemptions", summary->preemptions, "moves", summary->moves,
                      "preempted_gpu_h", summary->preempted_gpu_h, "passes", summary->passes, "decisions",
                      summary->decisions, "pass_mean_ms", summary->pass_mean_ms, "pass_max_ms", summary->pass_max_ms,
                      "end_h", summary->end_h);
}

static void sim_print(const struct simulation_summary *summary, FILE *output)
{
    fprintf(output, "jobs                %zu, %zu of them of more than %d GPUs; the last ended after %.1f h\n",
            summary->jobs, summary->large_jobs, SIMULATION_LARGE, summary->end_h);
    fprintf(output, "preemptible         %zu of the jobs; time limits: %s\n", summary->preemptible, chosen.limits);
    fprintf(output, "wait                mean %.3f h, 99 of 100 below %.2f h, longest %.1f h\n", summary->mean_wait_h,
            summary->p99_wait_h, summary->max_wait_h);
    fprintf(output, "  of the large ones mean %.2f h, longest %.1f h\n", summary->large_mean_wait_h,
            summary->large_max_wait_h);
    fprintf(output, "bounded slowdown    %.2f\n", summary->bounded_slowdown);
    fprintf(output, "utilization         %.1f %%\n", 100 * summary->utilization);
    fprintf(output, "idle while queued   %.2f %%\n", 100 * summary->idle_while_queued);
    fprintf(output, "preempted           %zu times, %zu of them to move; the restarts cost %.0f GPU-hours\n",
            summary->preemptions, summary->moves, summary->preempted_gpu_h);
    fprintf(output, "decisions           %zu in %zu passes of %.2f ms on average, %.1f ms at most\n",
            summary->decisions, summary->passes, summary->pass_mean_ms, summary->pass_max_ms);
}

/* "0.5", "50%". */
static weft_status read_share(const char *text, double *share, struct error *error)
{
    char digits[32];
    const size_t length = strlen(text);
    const bool percent = length > 0 && text[length - 1] == '%';
    snprintf(digits, sizeof digits, "%.*s", (int)(length - percent), text);
    if (length >= sizeof digits || text_parse_number(digits, "", 0, percent ? 100 : 1, share, NULL) != WEFT_OK)
        return error_set(error, WEFT_ERROR_ARGUMENT,
                         "--preemptible is '%.64s'; it must be a share from 0 to 1, or from 0%% to 100%%", text);
    *share /= percent ? 100 : 1;
    return WEFT_OK;
}

/* Whether both names are of one existing regular file. */
static bool same_file(const char *one, const char *other)
{
    struct stat a, b;
    return stat(one, &a) == 0 && stat(other, &b) == 0 && S_ISREG(a.st_mode) && a.st_dev == b.st_dev &&
           a.st_ino == b.st_ino;
}

static weft_status simulate(const struct job_trace *trace, const struct simulation_cluster *cluster,
                            const struct assumptions *assumptions, struct simulation_summary *summary,
                            struct error *error)
{
    struct scheduler_policy policy = SCHEDULER_POLICY_DEFAULT;
    policy.restart_cost = chosen.restart_cost;
    struct named_output events;
    if (!chosen.events)
        return simulation_run(trace, cluster, assumptions, &policy, NULL, summary, error);
    if (same_file(chosen.trace, chosen.events))
        return error_set(error, WEFT_ERROR_ARGUMENT, "--events '%s' would overwrite the trace '%s': give another name",
                         chosen.events, chosen.trace);
    weft_status status = named_output_open(&events, chosen.events, error);
    if (status != WEFT_OK)
        return status;
    status = simulation_run(trace, cluster, assumptions, &policy, events.stream, summary, error);
    if (status == WEFT_OK)
        return named_output_close(&events, error);
    named_output_discard(&events);
    return status;
}

static weft_status run_cluster(struct command_call *call, struct error *error)
{
    struct pod_shape shape;
    struct job_trace trace;
    struct simulation_summary summary;
    struct assumptions assumptions = {0};
    if (!chosen.trace)
        return error_set(error, WEFT_ERROR_ARGUMENT, "give the trace: --trace FILE");
    weft_status status = pod_shape_parse(chosen.pods, &shape, error);
    if (status == WEFT_OK)
        status = read_share(chosen.preemptible, &assumptions.preemptible, error);
    assumptions.limits = (enum assumed_limits)cli_choice_index(chosen.limits, assumed_limits_names);
    if (status == WEFT_OK)
        status = trace_read(chosen.trace, &trace, error);
    if (status != WEFT_OK)
        return status;
    const struct simulation_cluster cluster = {shape.pods, shape.hosts, shape.slots};
    if (trace.left_out)
        fprintf(stderr,
                "weft: %zu of the %zu jobs of '%s' are left out: their submission, run time or processors are not "
                "known\n",
                trace.left_out, trace.left_out + trace.count, chosen.trace);
    status = simulate(&trace, &cluster, &assumptions, &summary, error);
    trace_free(&trace);
    if (status == WEFT_OK && chosen.json)
        status = sim_print_json(&summary, call->output, error);
    else if (status == WEFT_OK)
        sim_print(&summary, call->output);
    return status;
}

static const struct command command_cluster = {
    .name = "cluster",
    .summary = "run a trace of jobs through the scheduler",
    .description =
        "Submits the jobs of a trace to Weft's scheduler, in virtual time, and prints a summary. The scheduler "
        "learns a job's duration only when the job has ended. Jobs of up to a host's GPUs get GPUs of one host, "
        "larger ones whole hosts of one Pod. Preemptible jobs that have run for an hour may be preempted or moved, "
        "which costs them the restart cost. All jobs are preemptible unless --preemptible says otherwise; the "
        "defaults of 'weft submit' are --preemptible 0 --limits default. Hosts are numbered across Pods, from "
        "0.\n\n"
        "The summary, except for passes, can be computed again from the trace and the events. Waiting is all time "
        "not running; shares are of all GPUs from the first submission to the last. idle_while_queued: the share "
        "that no job used while one waited, including GPUs of whole hosts that their job does not need. "
        "`utilization`: the share that computed, without restarts. large_...: jobs of more than 8 GPUs, whatever "
        "the size of a host. preemptions: the preempt lines of the events; moves: those after which the job starts "
        "at the same time elsewhere; preempted_gpu_h: the restart cost of each, times the job's GPUs. "
        "bounded_slowdown: the mean of (end - submission) / duration, at least 1, where durations below 10 minutes "
        "count as 10 (Feitelson et al., 1997). left_out: jobs of an SWF file whose submission, run time or "
        "processors are unknown.",
    .examples = "weft sim cluster --trace philly_week.csv --pods 4x16x8\n"
                "weft sim cluster --trace philly_week.csv --pods 4x16x8 --json --events events.csv\n"
                "weft sim cluster --trace philly_week.csv --pods 4x16x8 --preemptible 50% --limits default\n",
    COMMAND_OPTIONS(options),
    .run = run_cluster,
};

const struct command command_sim = {
    .name = "sim",
    .group = COMMAND_UNDERSTAND,
    .summary = "simulate a collective, a training step, or a cluster's scheduler on a trace of jobs",
    COMMAND_SUBCOMMANDS(&command_cluster, &command_sim_collective, &command_sim_train),
};
