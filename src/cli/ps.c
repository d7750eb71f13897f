/* SPDX-License-Identifier: Apache-2.0 */
/* `weft ps`: the jobs that run here. */
#include "base/json.h"
#include "base/text.h"
#include "cli/command.h"
#include "insight/inspection.h"

#include <time.h>

static struct {
    bool json;
} chosen;

static const struct cli_option options[] = {
    CLI_FLAG("json", 0, &chosen.json, "a line of JSON for each job"),
};

static double age(const struct inspected_job *job)
{
    double seconds = difftime(time(NULL), (time_t)job->started);
    return seconds > 0 ? seconds : 0;
}

static void print_json(const struct inspected_job *job, FILE *out)
{
    struct json_writer line;
    json_begin(&line, JSON_LINE);
    json_open_object(&line, NULL);
    json_put_text(&line, "job", job->name);
    json_put_text(&line, "launcher", job->launcher);
    json_put_text(&line, "user", job->user);
    json_put_text(&line, "command", job->command);
    json_put_integer(&line, "ranks", job->rank_count);
    json_put_integer(&line, "here", job->here);
    json_put_integer(&line, "started", job->started);
    json_put_integer(&line, "waiting", job->waiting);
    json_put_number(&line, "waited", job->waited);
    json_put_text(&line, "verdict", job->verdict);
    json_close(&line);
    json_print(&line, out, NULL);
    json_end(&line);
}

static void print_line(const struct inspected_job *job, FILE *out)
{
    char ranks[32], up[32], waited[32];
    snprintf(ranks, sizeof ranks, job->here < job->rank_count ? "%u of %u" : "%u", job->here, job->rank_count);
    fprintf(out, "%-24s %-10s %-12s %-8s %7s  %s\n", job->name, ranks, job->launcher, job->user,
            text_seconds(age(job), up, sizeof up), job->command);
    if (job->waiting)
        fprintf(out, "%24s %u of %u ranks wait, for up to %s: %s\n", "", job->waiting, job->rank_count,
                text_seconds(job->waited, waited, sizeof waited), job->verdict);
}

static weft_status run(struct command_call *call, struct error *error)
{
    struct inspection inspection;
    weft_status status = inspection_open(false, &inspection, error);
    if (status != WEFT_OK)
        return status;
    if (!chosen.json && inspection.job_count)
        fprintf(call->output, "%-24s %-10s %-12s %-8s %7s  %s\n", "job", "ranks here", "launcher", "user", "up",
                "command");
    for (uint32_t j = 0; j < inspection.job_count; j++)
        if (chosen.json)
            print_json(&inspection.jobs[j], call->output);
        else
            print_line(&inspection.jobs[j], call->output);
    if (!chosen.json && !inspection.job_count)
        fprintf(call->output, "no job of yours runs on this machine\n");
    inspection_close(&inspection);
    return WEFT_OK;
}

const struct command command_ps = {
    .name = "ps",
    .group = COMMAND_UNDERSTAND,
    .summary = "list the jobs that run on this machine, and who holds them up",
    .description =
        "Lists every running job that has a rank on this machine, however it was started: by weft run, mpirun, srun or "
        "torchrun. Where ranks have waited for another for more than a moment, that is said; weft inspect tells more. "
        "The jobs take no part in it: a stopped process is listed like any other. One sees one's own jobs; root sees "
        "all.",
    .examples = "weft ps\nweft ps --json\n",
    .options = options,
    .option_count = sizeof options / sizeof *options,
    .run = run,
};
