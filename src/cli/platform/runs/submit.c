/* SPDX-License-Identifier: Apache-2.0 */
/* `weft submit`: a run for the platform. */
#include "cli/frame/command.h"
#include "cli/platform/client/client.h"
#include "cli/platform/launch/run_options.h"
#include "cli/platform/launch/run_submit.h"
#include "platform/registry/name.h"

#include <stdlib.h>
#include <string.h>

static struct {
    const char *project;
    bool no_snapshot;
    struct run_options run;
    struct run_submit_shown shown;
} chosen;

static const struct cli_option options[] = {
    CLI_GROUP("Run"),
    CLI_TEXT("project", 'p', "NAME", &chosen.project, NULL, "project of the run",
             .default_text = "$WEFT_PROJECT, or the server's default project"),
    CLI_FLAG("interactive", 'i', &chosen.run.interactive,
             "an interactive run, to be entered with weft shell; without PROGRAM it sleeps"),
    CLI_FLAG("no-snapshot", 0, &chosen.no_snapshot, "upload no code: the run starts in an empty directory"),
    RUN_OPTIONS(chosen.run, RUN_DEFAULT_NEW),
    RUN_SUBMIT_OPTIONS(chosen.shown),
};

/*
 * Choose the project of a run: --project, $WEFT_PROJECT, or the server's default for this user. The server has none if
 * the user's name is taken by a project of others. Without tokens, "default" is used then; it is made with its first run.
 */
static weft_status choose_project(const struct platform *platform, const char **project, struct error *error)
{
    const char *usual = getenv("WEFT_PROJECT"), *own = field_text(platform->server, "project");
    if (!chosen.project && !(usual && *usual) && !*own && field_true(platform->server, "tokens"))
        return error_set(error, WEFT_ERROR_ARGUMENT,
                         "no project is named, and '%s', which would be your own, is a project of others: choose one "
                         "with --project; 'weft project' lists them",
                         platform->user);
    *project = chosen.project ? chosen.project : usual && *usual ? usual : *own ? own : "default";
    return platform_name_check(*project, "the project", error);
}

/* Add how to make the project, if no existing name is close. */
static weft_status tell_unknown(struct platform *platform, const char *project, struct error *error)
{
    const weft_status status = platform_project_unknown(platform, project, error);
    char message[ERROR_TEXT_BYTES];
    if (!strstr(error->text, "or none that you may see"))
        return status;
    snprintf(message, sizeof message, "%s", error->text);
    error_clear(error);
    return error_set(error, status, "%s; %s 'weft project make %s'", message,
                     field_true(platform->server, "administrator") ? "to make it:" : "an administrator makes it with",
                     project);
}

static weft_status submit_submit(struct command_call *call, struct platform *platform, struct error *error)
{
    static char *const sleeping[] = {(char *)"sleep", (char *)"infinity", NULL};
    struct platform_path path;
    struct json_writer body;
    char done[128];
    const char *project = NULL;
    weft_status status = command_misused(call, choose_project(platform, &project, error));
    if (status != WEFT_OK)
        return status;
    json_begin_line(&body);
    chosen.shown.enter = chosen.run.interactive;
    if (call->program_count == 0 && !chosen.run.launch)
        chosen.run.launch = "nodes";
    run_submit_words(call->program_count ? call->program : sleeping, &body);
    run_options_write(&chosen.run, NULL, &body);
    status = run_submit_code(platform, project, !chosen.no_snapshot, &chosen.shown, &body, error);
    json_close(&body);
    platform_path_begin(&path, "projects");
    platform_path_part(&path, project);
    platform_path_part(&path, "runs");
    snprintf(done, sizeof done, "submitted to project %s", project);
    if (status == WEFT_OK)
        status = run_submit_send(call, platform, &path, &body, done, &chosen.shown, error);
    json_end(&body);
    /* Without tokens, a missing project is made with its first run, and so is a personal one with tokens: then the
     * error has another cause. */
    return status == WEFT_OK || !field_true(platform->server, "tokens") || strcmp(project, platform->user) == 0
               ? status
               : tell_unknown(platform, project, error);
}

static weft_status runs_submit_run(struct command_call *call, struct error *error)
{
    struct platform platform;
    if (call->program_count == 0 && !chosen.run.interactive)
        return command_misused(call, error_set(error, WEFT_ERROR_ARGUMENT,
                                               "%s needs a program: %s --project NAME -- PROGRAM [ARGUMENTS]",
                                               call->name, call->name));
    weft_status status = command_misused(call, run_options_check(call->name, &chosen.run, error));
    if (status == WEFT_OK && chosen.project)
        status = command_misused(call, platform_name_check(chosen.project, "--project", error));
    if (status != WEFT_OK)
        return status;
    status = platform_open(PLATFORM_PATIENCE, &platform, error);
    if (status != WEFT_OK)
        return status;
    status = submit_submit(call, &platform, error);
    platform_close(&platform);
    return status;
}

const struct command command_submit = {
    .name = "submit",
    .group = COMMAND_PLATFORM,
    .summary = "submit a program to the platform, which runs it when slots are free",
    .description =
        "Takes a snapshot of the working directory, sends it to the Weft server, and makes a run of it: the "
        "program starts in a copy of the directory as soon as slots are free, on all nodes together. Once its "
        "number is printed, the run is safe: it starts even if the server restarts or your terminal "
        "closes.\n\n"
        "Slots are GPUs, or CPU slots on machines without GPUs; --nodes 2 --gpus 8 is 16 slots and 16 ranks of the "
        "program. If the hosts are simulated (weft serve --pods), --gpus means slots. The run records the git "
        "commit of the directory and whether the directory differs from it.\n\n"
        "The snapshot leaves out files that .weftignore and .gitignore match, and files that look like secrets by "
        "their name (.env, id_rsa, ...) or because they contain a private key. The command lists what it left out; "
        "a line '!PATH' in .weftignore includes a file. If some files are readable only by you, nobody else can "
        "fork the run. Home directories are refused. Large data belongs in a directory of the hosts: give the run "
        "its absolute path.",
    .examples = "weft submit --project vision --nodes 2 --gpus 8 --time 6h -- weft train --data data/bible.txt\n"
                "weft submit -p vision --slots 2 --name baseline --env SEED=1 -- python3 train.py --rate 0.1\n"
                "run=$(weft submit -q -p vision -- ./measure)\n"
                "weft submit -p vision --interactive --time 1h\n",
    .takes_program = true,
    COMMAND_OPTIONS(options),
    .run = runs_submit_run,
};
