/* SPDX-License-Identifier: Apache-2.0 */
/* `weft ps`: runs of the platform, and the jobs that run on this machine. */
#include "base/format/csv.h"
#include "base/text.h"
#include "cli/frame/command.h"
#include "cli/frame/moments.h"
#include "cli/platform/client/list.h"
#include "cli/platform/client/run_print.h"
#include "cli/platform/client/run_reference.h"
#include "cli/platform/launch/local_jobs.h"
#include "platform/registry/run/state.h"
#include "platform/service/runs/run_json.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

/* Runs shown in the table without --last. JSON and CSV have all live runs, or all that match. */
#define LIVE_SHOWN     100
#define ENDED_SHOWN    5
#define FILTERED_SHOWN 20
#define QUEUE_MOST     "10000" /* runs of the queue that are asked for */

static struct {
    const char *project, *owner, *state, *search;
    int64_t most;
    bool all, local, json, csv;
} chosen;

static const struct cli_option options[] = {
    CLI_FLAG("all", 'a', &chosen.all, "all runs and local jobs that you may see, not only yours"),
    CLI_TEXT("project", 'p', "NAME", &chosen.project, NULL, "only runs of this project"),
    CLI_TEXT("owner", 0, "USER", &chosen.owner, NULL, "only runs of this user", .default_text = "yourself"),
    CLI_CHOICE("state", 0, "STATE", &chosen.state, NULL, run_state_choices,
               "only runs in this state; live: in any that is not final; over: in one that is"),
    CLI_TEXT("search", 0, "TEXT", &chosen.search, NULL,
             "only runs with TEXT in their name, project or owner, or of that number"),
    CLI_INTEGER("last", 'n', "N", &chosen.most, NULL, 1, 1e15, "the newest N runs, whatever their state"),
    CLI_FLAG("local", 'l', &chosen.local, "only jobs on this machine, no runs of the platform"),
    CLI_FLAG("json", 0, &chosen.json, "a line of JSON for each run (\"run\" is its number) and each job (\"job\")"),
    CLI_FLAG("csv", 0, &chosen.csv,
             "runs as a table for spreadsheets, with the fields of JSON; times are milliseconds since 1970"),
};

/* Runs that were found, in the order in which they are shown; they point into the lists. */
struct ps_found {
    struct platform_listed lists[2];
    const cJSON **runs;
    size_t count, room;
};

/* Ask for the newest `most` runs in `state`; 0: for all. */
static weft_status ps_ask(struct platform *platform, const char *state, int64_t most, struct platform_listed *listed,
                          struct error *error)
{
    struct platform_path path;
    const char *owner = chosen.owner ? chosen.owner : chosen.all ? NULL : platform->user;
    platform_path_begin(&path, "runs");
    platform_path_query(&path, "owner", owner);
    platform_path_query(&path, "project", chosen.project);
    platform_path_query(&path, "search", chosen.search);
    platform_path_query(&path, "state", state);
    return platform_list_get(platform, &path, &platform_list_runs, most, listed, error);
}

/* Add the runs of a list. */
static weft_status ps_add(struct ps_found *found, const struct platform_listed *listed, struct error *error)
{
    const cJSON *run;
    const size_t more = (size_t)cJSON_GetArraySize(listed->items);
    weft_status status = ARRAY_RESERVE(found->runs, found->room, found->count + more, "a list of runs", error);
    for (run = listed->items ? listed->items->child : NULL; run && status == WEFT_OK; run = run->next)
        found->runs[found->count++] = run;
    return status;
}

static bool is_filtered(void)
{
    return chosen.state || chosen.search || chosen.most;
}

static weft_status ps_find(struct platform *platform, struct ps_found *found, struct error *error)
{
    const bool all = chosen.json || chosen.csv;
    const int64_t most = chosen.most ? chosen.most : all ? 0 : is_filtered() ? FILTERED_SHOWN : LIVE_SHOWN;
    weft_status status = ps_ask(platform, is_filtered() ? chosen.state : "live", most, &found->lists[0], error);
    if (status == WEFT_OK)
        status = ps_add(found, &found->lists[0], error);
    if (status == WEFT_OK && !is_filtered())
        status = ps_ask(platform, "over", ENDED_SHOWN, &found->lists[1], error);
    if (status == WEFT_OK && !is_filtered())
        status = ps_add(found, &found->lists[1], error);
    return status;
}

/* Count the runs in `wanted`: a state, "live", "over", or NULL for all. */
static int64_t total_of(const struct platform_listed *listed, const char *wanted)
{
    int64_t total = 0;
    const cJSON *count;
    cJSON_ArrayForEach(count, field(listed->first, "counts")) {
        enum run_state state;
        const bool final = run_state_find(count->string, &state) && run_state_is_final(state);
        if (!wanted || strcmp(wanted, count->string) == 0 || strcmp(wanted, final ? "over" : "live") == 0)
            total += field_integer(field(listed->first, "counts"), count->string);
    }
    return total;
}

/* Say how many runs are not shown. */
static void print_cuts(const struct ps_found *found, FILE *output)
{
    const struct platform_listed *lists = found->lists;
    const int64_t shown = cJSON_GetArraySize(lists[0].items), ended = cJSON_GetArraySize(lists[1].items);
    if (lists[0].more)
        platform_list_cut(output, is_filtered() ? "runs match" : "runs are not over", "newest",
                          total_of(&lists[0], is_filtered() ? chosen.state : "live"), shown,
                          "--last N shows more, --json all");
    if (lists[1].more)
        platform_list_cut(output, "runs are over", "newest", total_of(&lists[1], "over"), ended,
                          "--state over --last N shows more");
}

/* The smallest number of a run that waits; 0: none does. */
static int64_t first_waiting(const struct ps_found *found)
{
    enum run_state state;
    int64_t first = 0;
    for (size_t i = 0; i < found->count; i++) {
        const int64_t run = field_integer(found->runs[i], "run");
        if (run_state_find(field_text(found->runs[i], "state"), &state) && run_state_is_waiting(state) &&
            (first == 0 || run < first))
            first = run;
    }
    return first;
}

/* Whether runs are shown under a name other than that of who asks. */
static bool has_others(const struct platform *platform, const struct ps_found *found)
{
    for (size_t i = 0; i < found->count; i++)
        if (strcmp(field_text(found->runs[i], "owner"), platform->user) != 0)
            return true;
    return false;
}

/* Print the table, with what the scheduler says of runs that wait. */
static weft_status print_table(struct platform *platform, const struct ps_found *found, FILE *output,
                               struct error *error)
{
    struct platform_path path;
    struct run_table made = {.owners = has_others(platform, found), .now = moment_now()};
    cJSON *reply = NULL;
    const int64_t first = first_waiting(found);
    platform_path_begin(&path, "queue");
    platform_path_query_number(&path, "after", first - 1);
    platform_path_query(&path, "most", QUEUE_MOST);
    if (first && platform_get(platform, &path, &reply, NULL) == WEFT_OK)
        made.queue = field(reply, "queue");
    weft_status status = run_print_table(found->runs, found->count, &made, output, error);
    cJSON_Delete(reply);
    return status;
}

/* Warn if the server has paused scheduling. */
static void tell_paused(struct platform *platform)
{
    struct platform_path path;
    cJSON *server = NULL;
    platform_path_begin(&path, "server");
    if (platform_get(platform, &path, &server, NULL) == WEFT_OK)
        platform_print_paused(server);
    cJSON_Delete(server);
}

static weft_status ps_list_runs(struct platform *platform, bool heading, FILE *output, struct error *error)
{
    struct ps_found found = {0};
    weft_status status = ps_find(platform, &found, error);
    if (status == WEFT_OK && chosen.project && found.count == 0)
        status = platform_project_check(platform, chosen.project, error);
    if (status == WEFT_OK && chosen.csv) {
        csv_put_header(output, run_json_columns);
        for (size_t i = 0; i < found.count; i++)
            csv_put_object(output, run_json_columns, found.runs[i]);
    } else if (status == WEFT_OK && chosen.json) {
        for (size_t i = 0; i < found.count; i++)
            platform_print_json(found.runs[i], output);
    } else if (status == WEFT_OK) {
        const char *trouble = field_text(found.lists[0].first, "trouble");
        if (*trouble)
            fprintf(output, "No run starts: %s\n", trouble);
        if (heading)
            fprintf(output, "Runs at %s\n", client_server(platform->client));
        tell_paused(platform);
        if (found.count > 0)
            status = print_table(platform, &found, output, error);
        if (status == WEFT_OK && found.count > 0)
            print_cuts(&found, output);
        if (found.count == 0)
            fprintf(output, "no %sruns%s\n", chosen.project || chosen.state || chosen.search ? "such " : "",
                    chosen.all || chosen.owner ? "" : " of yours; 'weft ps --all' shows everybody's");
    }
    platform_listed_free(&found.lists[0]);
    platform_listed_free(&found.lists[1]);
    free(found.runs);
    return status;
}

/* A run in full. Why a run waits changes all the time, so the server is asked. */
static weft_status ps_show_run(struct platform *platform, const cJSON *run, FILE *output, struct error *error)
{
    struct platform_path path;
    enum run_state state;
    cJSON *reply = NULL;
    platform_path_run(&path, field_integer(run, "run"), "why");
    if (run_state_find(field_text(run, "state"), &state) && run_state_is_waiting(state))
        platform_get(platform, &path, &reply, NULL);
    const char *why = *field_text(reply, "why") ? field_text(reply, "why") : field_text(run, "reason");
    weft_status status = run_print_whole(run, why, moment_now(), output, error);
    cJSON_Delete(reply);
    return status;
}

static weft_status show_runs(struct platform *platform, char *const *words, size_t count, FILE *output,
                             struct error *error)
{
    if (chosen.csv)
        csv_put_header(output, run_json_columns);
    for (size_t i = 0; i < count; i++) {
        cJSON *object = NULL;
        int64_t run;
        weft_status status = run_reference_get(platform, words[i], &run, &object, error);
        if (status == WEFT_OK && chosen.csv)
            csv_put_object(output, run_json_columns, object);
        else if (status == WEFT_OK && chosen.json)
            platform_print_json(object, output);
        else if (status == WEFT_OK) {
            fputs(i > 0 ? "\n" : "", output);
            status = ps_show_run(platform, object, output, error);
        }
        cJSON_Delete(object);
        if (status != WEFT_OK)
            return status;
    }
    return WEFT_OK;
}

/* Jobs, after the runs if there is a server. */
static weft_status list_both(struct command_call *call, struct platform *platform, struct error *error)
{
    struct local_jobs jobs;
    weft_status status = local_jobs_open(chosen.all, &jobs, error);
    if (status != WEFT_OK)
        return status;
    bool headings = platform && jobs.count + jobs.others > 0 && !chosen.json;
    if (platform)
        status = ps_list_runs(platform, headings, call->output, error);
    if (status == WEFT_OK) {
        if (headings)
            fprintf(call->output, "\nJobs on this machine\n");
        if (jobs.count + jobs.others > 0 || !platform)
            local_jobs_print(&jobs, chosen.json, call->output);
    }
    local_jobs_close(&jobs);
    return status;
}

static weft_status ps_run(struct command_call *call, struct error *error)
{
    struct platform platform;
    struct error absent = {0};
    const char *named = getenv("WEFT_SERVER");
    const bool runs = call->word_count > 0 || chosen.project || chosen.owner || chosen.state || chosen.search ||
                      chosen.most || chosen.csv; /* and nothing else */
    if (chosen.csv && (chosen.json || chosen.local))
        return command_misused(call, error_set(error, WEFT_ERROR_ARGUMENT,
                                               "%s: --csv is a table of runs; give it without --%s", call->name,
                                               chosen.json ? "json" : "local"));
    if (chosen.local && runs)
        return command_misused(
            call,
            error_set(error, WEFT_ERROR_ARGUMENT,
                      "%s: --local shows jobs of this machine, which have no run, project, owner, state or number",
                      call->name));
    if (chosen.local)
        return list_both(call, NULL, error);
    const bool needed = runs || chosen.all; /* a server has to answer */
    weft_status status = platform_open(needed ? PLATFORM_PATIENCE : 0, &platform, needed ? error : &absent);
    if (status != WEFT_OK && needed)
        return status;
    if (status != WEFT_OK) {
        /* Without a server, list the jobs here. If a server was named or is there but failed, report that too: the list
         * lacks its runs. */
        const bool expected = status != WEFT_ERROR_RENDEZVOUS || (named && *named);
        const weft_status listed = list_both(call, NULL, error);
        return listed == WEFT_OK && expected ? error_set(error, status, "%s", absent.text) : listed;
    }
    if (call->word_count > 0)
        status = show_runs(&platform, call->words, call->word_count, call->output, error);
    else if (runs)
        status = ps_list_runs(&platform, false, call->output, error);
    else
        status = list_both(call, &platform, error);
    platform_close(&platform);
    return status;
}

const struct command command_ps = {
    .name = "ps",
    .group = COMMAND_UNDERSTAND,
    .summary = "list runs, and the jobs that run on this machine and who holds them up",
    .description =
        "If a Weft server answers, runs come first: yours that are not over, and the last few that have ended. "
        "Options choose others. Runs that report their progress are shown with the percentage done and the time "
        "left. With RUN, a run is shown in full: its settings, its attempts and their nodes.\n\n"
        "Then, or alone without a server or with --local, comes every running job with a rank on this machine, "
        "however it was started: by weft run, mpirun, srun or torchrun. If ranks have been waiting for another, "
        "the list says so; weft inspect shows more. Jobs need not cooperate: a stopped process is listed like any "
        "other.\n\n"
        "Of runs that are not over, the newest 100 are shown, or 20 with options, unless --last says otherwise. "
        "RUN is a number, or a name that only one run has.",
    .examples = "weft ps\nweft ps --all --state queued\nweft ps -p vision -n 50\nweft ps --all -n 1000 --csv > "
                "runs.csv\nweft ps 12\nweft ps --local --json\n",
    .words = "[RUN ...]",
    .most_words = 100,
    COMMAND_OPTIONS(options),
    .run = ps_run,
};
