/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/platform/launch/local_jobs.h"

#include "base/format/json_put.h"
#include "base/text.h"

#include <pwd.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static double age(const struct inspected_job *job)
{
    double seconds = difftime(time(NULL), (time_t)job->started);
    return seconds > 0 ? seconds : 0;
}

static void local_jobs_print_json(const struct inspected_job *job, FILE *out)
{
    JSON_PRINT(out, NULL, "job", job->name, "launcher", job->launcher, "user", job->user, "command", job->command,
               "ranks", job->rank_count, "here", job->here, "started", job->started, "waiting", job->waiting, "waited",
               job->waited, "verdict", job->verdict);
}

static void local_jobs_print_line(const struct inspected_job *job, FILE *out)
{
    char ranks[32], up[32], waited[32];
    snprintf(ranks, sizeof ranks, job->here < job->rank_count ? "%u of %u" : "%u", job->here, job->rank_count);
    fprintf(out, "%-24s %-10s %-12s %-8s %7s  %s\n", job->name, ranks, job->launcher, job->user,
            text_seconds(age(job), up, sizeof up), job->command);
    if (job->waiting)
        fprintf(out, "%24s %u of %u ranks wait, for up to %s: %s\n", "", job->waiting, job->rank_count,
                text_seconds(job->waited, waited, sizeof waited), job->verdict);
}

static bool local_jobs_is_shown(const struct local_jobs *jobs, const struct inspected_job *job)
{
    return jobs->all || strcmp(job->user, jobs->own) == 0;
}

weft_status local_jobs_open(bool all, struct local_jobs *jobs, struct error *error)
{
    const struct passwd *user = getpwuid(geteuid());
    *jobs = (struct local_jobs){.all = all};
    if (user) /* as the inspection names owners */
        snprintf(jobs->own, sizeof jobs->own, "%s", user->pw_name);
    else
        snprintf(jobs->own, sizeof jobs->own, "%u", geteuid());
    weft_status status = inspection_open(false, &jobs->inspection, error);
    for (uint32_t j = 0; status == WEFT_OK && j < jobs->inspection.job_count; j++) {
        if (local_jobs_is_shown(jobs, &jobs->inspection.jobs[j]))
            jobs->count++;
        else
            jobs->others++;
    }
    return status;
}

void local_jobs_close(struct local_jobs *jobs)
{
    inspection_close(&jobs->inspection);
}

void local_jobs_print(const struct local_jobs *jobs, bool json, FILE *output)
{
    if (!json && jobs->count)
        fprintf(output, "%-24s %-10s %-12s %-8s %7s  %s\n", "job", "ranks here", "launcher", "user", "up", "command");
    for (uint32_t j = 0; j < jobs->inspection.job_count; j++) {
        if (!local_jobs_is_shown(jobs, &jobs->inspection.jobs[j]))
            continue;
        if (json)
            local_jobs_print_json(&jobs->inspection.jobs[j], output);
        else
            local_jobs_print_line(&jobs->inspection.jobs[j], output);
    }
    if (!json && !jobs->count)
        fprintf(output, "no job%s runs on this machine\n", jobs->all ? "" : " of yours");
    if (!json && jobs->others)
        fprintf(output, "%u job%s of other users %s not shown; 'weft ps --local --all' shows all\n", jobs->others,
                jobs->others == 1 ? "" : "s", jobs->others == 1 ? "is" : "are");
}
