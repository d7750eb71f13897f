/* SPDX-License-Identifier: Apache-2.0 */
/* `weft inspect`: what every rank of a running job is doing and which ranks it waits for; or the events of a job. */
#include "base/format/json_put.h"
#include "base/text.h"
#include "cli/frame/command.h"
#include "cli/understand/inspect_events.h"
#include "launch/job_directory.h"
#include "observe/inspect/inspection.h"

#include <inttypes.h>
#include <string.h>

static struct {
    int64_t last;
    bool json, here;
} chosen;

static const struct cli_option options[] = {
    CLI_INTEGER("last", 'l', "N", &chosen.last, "0", 0, OPERATION_LOG_ENTRIES,
                "also show the last N operations of every rank", .default_text = "none"),
    CLI_FLAG("here", 0, &chosen.here, "show only the ranks on this machine"),
    CLI_FLAG("json", 0, &chosen.json, "print everything as JSON"),
};

/* ---- for programs ---- */

static void inspect_put_operation(struct json_writer *text, const char *key,
                                  const struct inspected_operation *operation)
{
    static const char *const phases[] = {"queued", "running", "blocking", "done"};
    json_open_object(text, key);
    JSON_PUT(text, "operation", operation->text, "communicator", operation->communicator, "message",
             operation->is_message, "sequence", operation->sequence, "bytes", operation->bytes, "phase",
             phases[operation->phase], "begun_ago", (double)-operation->started * 1e-9);
    if (operation->awaited != INSPECTION_NOBODY) {
        JSON_PUT(text, "awaits", operation->awaited, "waited", (double)-operation->since * 1e-9);
    }
    json_close(text);
}

static void inspect_put_rank(struct json_writer *text, const struct inspected_rank *rank)
{
    char state[2] = {rank->main_thread, '\0'};
    json_open_object(text, NULL);
    JSON_PUT(text, "rank", rank->rank, "host", rank->host, "process", rank->process, "state",
             inspected_state_name(rank->state), "main_thread", *state ? state : NULL, "sleeps_in",
             *rank->where ? rank->where : NULL, "operations_begun", rank->count, "clock_uncertainty",
             rank->uncertainty);
    if (rank->current)
        inspect_put_operation(text, "current", rank->current);
    if (rank->last)
        inspect_put_operation(text, "last", rank->last);
    JSON_PUT_OBJECT(text, "skew", "operations", rank->skew.operations, "last_of_all", rank->skew.last, "mean",
                    rank->skew.mean, "most", rank->skew.most);
    json_open_array(text, "operations");
    for (uint32_t i = 0; i < rank->operation_count; i++)
        inspect_put_operation(text, NULL, &rank->operations[i]);
    json_close(text);
    json_close(text);
}

static weft_status inspect_print_json(const struct inspected_job *job, FILE *out, struct error *error)
{
    struct json_writer text;
    json_begin(&text, JSON_INDENTED);
    json_open_object(&text, NULL);
    JSON_PUT(&text, "job", job->name, "launcher", job->launcher, "user", job->user, "command", job->command, "started",
             job->started, "waiting", job->waiting, "waited", job->waited);
    if (job->straggler != INSPECTION_NOBODY && !job->cycle)
        json_put_integer(&text, "straggler", job->straggler);
    JSON_PUT(&text, "cycle", job->cycle, "verdict", job->verdict);
    json_open_array(&text, "ranks");
    for (uint32_t r = 0; r < job->rank_count; r++)
        inspect_put_rank(&text, &job->ranks[r]);
    return json_complete(&text, out, error);
}

/* ---- for people ---- */

static void print_operation(const struct inspected_operation *operation, FILE *out)
{
    char bytes[32], since[32];
    fprintf(out, "%-40s %-24s %10s  %9s%s", operation->text, operation->place,
            text_bytes(operation->bytes, bytes, sizeof bytes),
            text_seconds((double)-operation->started * 1e-9, since, sizeof since),
            operation->phase == OPERATION_DONE ? " ago" : "");
    if (operation->awaited != INSPECTION_NOBODY)
        fprintf(out, "  has waited %s for rank %u", text_seconds((double)-operation->since * 1e-9, since, sizeof since),
                operation->awaited);
    fputc('\n', out);
}

static void print_rank(const struct inspected_rank *rank, FILE *out)
{
    const struct inspected_operation *shown = rank->current ? rank->current : rank->last;
    fprintf(out, "%4u  %-12s %8d  %-8s", rank->rank, rank->host, rank->process, inspected_state_name(rank->state));
    if (shown)
        fprintf(out, "%-6s", rank->current ? "in" : "after");
    if (shown)
        print_operation(shown, out);
    else
        fputc('\n', out);
    for (uint32_t i = 0; i < rank->operation_count && i < (uint32_t)chosen.last; i++) {
        fprintf(out, "%42s", "");
        print_operation(&rank->operations[i], out);
    }
}

static void print_skew(const struct inspected_job *job, FILE *out)
{
    bool known = false;
    for (uint32_t r = 0; r < job->rank_count; r++)
        known |= job->ranks[r].skew.operations > 0;
    if (!known)
        return;
    fprintf(out, "\nHow late ranks enter the operations that their logs have in common, against the first:\n");
    fprintf(out, "%4s  %-12s %10s %10s %10s %14s\n", "rank", "host", "operations", "mean", "most", "last of all");
    for (uint32_t r = 0; r < job->rank_count; r++) {
        const struct inspected_rank *rank = &job->ranks[r];
        char mean[32], most[32];
        fprintf(out, "%4u  %-12s %10u %10s %10s %13.0f%%", rank->rank, rank->host, rank->skew.operations,
                text_seconds(rank->skew.mean, mean, sizeof mean), text_seconds(rank->skew.most, most, sizeof most),
                rank->skew.operations ? 100.0 * rank->skew.last / rank->skew.operations : 0);
        if (rank->uncertainty > 0)
            fprintf(out, "  (its clock is known to %s)", text_seconds(rank->uncertainty, most, sizeof most));
        fputc('\n', out);
    }
}

static void print_text(const struct inspected_job *job, FILE *out)
{
    fprintf(out, "%s: %u ranks, %u of them here, started by %s for %s: %s\n\n", job->name, job->rank_count, job->here,
            job->launcher, job->user, job->command);
    fprintf(out, "%4s  %-12s %8s  %-8s%-6s%-40s %-24s %10s  %9s\n", "rank", "host", "process", "state", "", "operation",
            "number", "bytes", "begun");
    for (uint32_t r = 0; r < job->rank_count; r++)
        print_rank(&job->ranks[r], out);
    print_skew(job, out);
    fprintf(out, "\n%s\n", job->verdict);
}

static weft_status inspect_run(struct command_call *call, struct error *error)
{
    struct inspection inspection;
    const struct inspected_job *job = NULL;
    if (call->word_count && job_directory_is(call->words[0]))
        return inspect_events_print(call->words[0], chosen.json, call->output, error);
    if (call->word_count && strchr(call->words[0], '/'))
        return error_set(error, WEFT_ERROR_ARGUMENT,
                         "'%s' is not a job directory; name the one that weft run --job-dir was given, or a job",
                         call->words[0]);
    weft_status status = inspection_open(!chosen.here, &inspection, error);
    if (status != WEFT_OK)
        return status;
    status = inspection_find(&inspection, call->word_count ? call->words[0] : NULL, &job, error);
    if (status == WEFT_OK && chosen.json)
        status = inspect_print_json(job, call->output, error);
    else if (status == WEFT_OK)
        print_text(job, call->output);
    inspection_close(&inspection);
    return status;
}

const struct command command_inspect = {
    .name = "inspect",
    .group = COMMAND_UNDERSTAND,
    .summary = "show what every rank of a running job is doing and which ranks it waits for",
    .description =
        "JOB is a name that weft ps lists, or the process ID of one of the job's ranks; it may be left out if only "
        "one job runs here.\n\n"
        "For every rank: its current or last operation, the operation's number in its communicator, the bytes of a "
        "block, when it began, and for how long it has waited for which rank. Then how late each rank enters "
        "operations, over the last operations (up to 64) that all logs contain. The last line names the rank that "
        "holds up the others and suggests what to do.\n\n"
        "Ranks of this machine are read from shared memory, so processes that hang or are stopped are shown too. "
        "Ranks of other machines are asked over the job's control plane, by a rank of this one; those that do not "
        "answer are called silent. A rank is outside (in no operation), moving, waiting, stopped, silent, or gone.\n\n"
        "With the directory of a job (weft run --job-dir DIR) in place of JOB, running or not: its events as a table, with "
        "the seconds since its start, then a summary. Events are the ranks that were started, lost, joined or left, and "
        "the starts, recoveries, checkpoints, stragglers and ends of weft train; those of the last job that has used the directory.",
    .examples =
        "weft inspect\nweft inspect 20260131-142503-1234 --last 5\nweft inspect 4711 --json\nweft inspect job/\n",
    .words = "[JOB|DIR]",
    COMMAND_OPTIONS(options),
    .run = inspect_run,
};
