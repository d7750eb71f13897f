/* SPDX-License-Identifier: Apache-2.0 */
/* `weft run`: a program as the ranks of a job. */
#include "cli/frame/command.h"
#include "cli/platform/client/preemption.h"
#include "launch/hosts_command.h"
#include "launch/launch.h"
#include "launch/node.h"
#include "launch/takeover/attach.h"
#include "launch/takeover/succession.h"
#include "platform/runs/record.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static struct {
    int64_t ranks, threads, bootstrap_port, min_ranks, restarts;
    const char *hosts, *hostfile, *hosts_command, *agent, *executable, *bootstrap_address, *output_directory,
        *job_directory, *project, *binding, *input, *trace, *launcher_loss, *attach;
    double rendezvous_limit, start_limit, grace, stop_grace;
    struct cli_list environment;
    bool no_prefix, no_record, verbose, node;
} chosen;

static const char *const bindings[] = {"none", "cores", NULL};
static const char *const inputs[] = {"first", "none", NULL};
static const char *const launcher_losses[] = {"end", "checkpoint", "continue", NULL}; /* enum launcher_loss */

static const struct cli_option options[] = {
    CLI_GROUP("Ranks and hosts"),
    CLI_INTEGER("ranks", 'n', "N", &chosen.ranks, "0", 0, 1 << 20, "number of ranks to start",
                .default_text = "those of --hosts or --hostfile, or 1"),
    CLI_INTEGER("threads", 't', "N", &chosen.threads, "0", 0, 65536, "compute threads per rank (OMP_NUM_THREADS)",
                .default_text = "the host's cores divided by its ranks"),
    CLI_TEXT("hosts", 0, "LIST", &chosen.hosts, NULL, "start on these hosts: name[:ranks],name[:ranks]..."),
    CLI_TEXT("hostfile", 0, "FILE", &chosen.hostfile, NULL,
             "read the hosts from FILE, one per line: name[:ranks] or name slots=ranks"),
    CLI_TEXT(
        "hosts-command", 0, "COMMAND", &chosen.hosts_command, NULL,
        "run COMMAND by a shell for the hosts there are, one per line, as in a FILE of --hostfile: at the start, then again "
        "as long as ranks may be started",
        .advanced = true),
    CLI_TEXT("agent", 0, "PROGRAM", &chosen.agent, NULL,
             "remote shell that reaches the hosts, called like ssh: PROGRAM HOST COMMAND...",
             .default_text = "$WEFT_AGENT, or ssh", .advanced = true),
    CLI_TEXT("remote-weft", 0, "PATH", &chosen.executable, NULL, "path of weft on the other hosts",
             .default_text = "its path here", .advanced = true),
    CLI_CHOICE("bind", 0, "HOW", &chosen.binding, "none", bindings,
               "bind each rank to its own cores, if there are enough", .advanced = true),
    CLI_GROUP("Program"),
    CLI_LIST("env", 'e', "NAME=VALUE", &chosen.environment,
             "set a variable for every rank; NAME alone copies its value from here; may be repeated"),
    CLI_INTEGER("min-ranks", 0, "N", &chosen.min_ranks, "0", 0, 1 << 20,
                "when ranks fail, let the others continue as long as N are left; for weft train and programs that call "
                "weft_shrink()",
                .default_text = "end the job"),
    CLI_INTEGER(
        "restarts", 0, "N", &chosen.restarts, "0", 0, 10000,
        "when a rank fails and the others continue, start a replacement, at most N in all: on the same host, or "
        "else on one with a free slot (list more slots than -n needs)"),
    CLI_CHOICE(
        "launcher-loss", 0, "WHAT", &chosen.launcher_loss, "end", launcher_losses,
        "what becomes of the ranks if weft run is killed or stopped: they end at once, they get SIGTERM and so end "
        "with a checkpoint, or they continue; needs --job-dir unless it is end"),
    CLI_TEXT(
        "attach", 0, "DIR", &chosen.attach, NULL,
        "take over the job in DIR, which was started with --launcher-loss continue and has lost its launcher; without "
        "a program and other options"),
    CLI_NUMBER("grace", 0, "SECONDS", &chosen.grace, "1", 0, 86400,
               "time for the other ranks to end by themselves after one fails", .advanced = true),
    CLI_NUMBER("stop-grace", 0, "SECONDS", &chosen.stop_grace, "0", 0, 1e6,
               "time for the ranks to end by themselves after SIGTERM or SIGINT; they see it as WEFT_GRACE",
               .default_text = "$WEFT_GRACE, or 30", .advanced = true),
    CLI_CHOICE("input", 0, "WHERE", &chosen.input, "first", inputs, "which rank gets standard input", .advanced = true),
    CLI_GROUP("Output"),
    CLI_TEXT("output-dir", 'o', "DIR", &chosen.output_directory, NULL,
             "write each rank's output to DIR/rank-N.out and DIR/rank-N.err instead of here"),
    CLI_TEXT(
        "job-dir", 0, "DIR", &chosen.job_directory, NULL,
        "record the job's events in DIR/events.jsonl, for weft inspect DIR; with --min-ranks, weft scale DIR N changes "
        "the number of ranks"),
    CLI_FLAG("no-prefix", 0, &chosen.no_prefix, "no [rank N host] before each line of output"),
    CLI_FLAG("verbose", 'v', &chosen.verbose,
             "print how long each phase of the start took and which network was chosen (WEFT_VERBOSE)",
             .advanced = true),
    CLI_TEXT("trace", 0, "FILE", &chosen.trace, NULL,
             "write a timeline of all ranks to FILE on rank 0's host (see weft trace show)", .advanced = true),
    CLI_TEXT("project", 0, "NAME", &chosen.project, "default", "project that the run is recorded under",
             .advanced = true),
    CLI_FLAG("no-record", 0, &chosen.no_record, "do not record the run for weft runs", .advanced = true),
    CLI_GROUP("Start and rendezvous"),
    CLI_NUMBER("start-timeout", 0, "SECONDS", &chosen.start_limit, "30", 0.1, 86400, "time for a host to answer",
               .advanced = true),
    CLI_NUMBER("timeout", 0, "SECONDS", &chosen.rendezvous_limit, "60", 0.1, 86400,
               "time for all ranks to meet after the first one arrives", .advanced = true),
    CLI_INTEGER("rendezvous-port", 0, "PORT", &chosen.bootstrap_port, "0", 0, 65535, "TCP port of the rendezvous",
                .default_text = "a free one", .advanced = true),
    CLI_TEXT("rendezvous-address", 0, "ADDRESS", &chosen.bootstrap_address, NULL,
             "address of this host for the rendezvous", .default_text = "any that the ranks reach", .advanced = true),
    CLI_FLAG("node", 0, &chosen.node, "internal: the part that runs on every host", .advanced = true),
};

/* The command line again, for the record. */
static void write_command(const struct command_call *call, struct run_record *record)
{
    size_t used = 0;
    record->command[0] = '\0';
    for (size_t i = 0; i < call->program_count && used < sizeof record->command - 1; i++) {
        int length =
            snprintf(record->command + used, sizeof record->command - used, "%s%s", i ? " " : "", call->program[i]);
        used += length > 0 ? (size_t)length : 0;
    }
}

/* Begin the record. A run that cannot be recorded runs all the same; `directory` is empty then. */
static void record_begin(const struct command_call *call, uint32_t ranks, struct run_record *record, char *directory)
{
    struct error error = {0};
    if (run_record_begin(record, &error) == WEFT_OK) {
        write_command(call, record);
        snprintf(record->project, sizeof record->project, "%s", chosen.project);
        snprintf(record->hosts, sizeof record->hosts, "%s",
                 chosen.hosts      ? chosen.hosts
                 : chosen.hostfile ? chosen.hostfile
                                   : "");
        record->ranks = ranks;
        if (run_records_directory(directory, &error) == WEFT_OK)
            (void)run_record_save(record, directory, &error);
    }
    if (error.status == WEFT_OK)
        return;
    fprintf(stderr, "weft: this run is not recorded: %s\n", error.text);
    directory[0] = '\0';
}

static weft_status configure_hosts(struct launch_config *config, struct error *error)
{
    const uint32_t ranks = (uint32_t)chosen.ranks;
    const enum host_spares spares = config->scales     ? HOSTS_FOR_GROWTH
                                    : config->restarts ? HOSTS_FOR_REPLACEMENTS
                                                       : HOSTS_WITHOUT_SPARES;
    char *text = NULL;
    config->hosts_command = chosen.hosts_command;
    if (!chosen.hosts_command)
        return hosts_read(chosen.hosts, chosen.hostfile, ranks, spares, &config->hosts, error);
    if (chosen.hosts || chosen.hostfile)
        return error_set(error, WEFT_ERROR_ARGUMENT,
                         "--hosts-command excludes --hosts and --hostfile; give one of them");
    weft_status status = hosts_command_run(chosen.hosts_command, &text, error);
    if (status == WEFT_OK)
        status = hosts_read_text(text, "the output of --hosts-command", ranks, spares, &config->hosts, error);
    free(text);
    return status;
}

static weft_status configure(const struct command_call *call, struct launch_config *config, struct error *error)
{
    const char *agent = getenv("WEFT_AGENT");
    if (call->program_count == 0)
        return error_set(error, WEFT_ERROR_ARGUMENT,
                         "weft run: no program is named; write it after the options, as in: weft run "
                         "-n 4 -- ./program");
    config->agent = chosen.agent ? chosen.agent : agent && *agent ? agent : NULL;
    config->executable = chosen.executable;
    config->bootstrap_address = chosen.bootstrap_address;
    config->bootstrap_port = (uint16_t)chosen.bootstrap_port;
    config->rendezvous_limit = chosen.rendezvous_limit;
    config->start_limit = chosen.start_limit;
    config->grace = chosen.grace;
    weft_status status = preemption_grace(chosen.stop_grace, &config->stop_grace, error);
    if (status != WEFT_OK)
        return status;
    config->threads = (uint32_t)chosen.threads;
    config->bind = strcmp(chosen.binding, "cores") == 0;
    config->input = strcmp(chosen.input, "first") == 0;
    config->min_ranks = (uint32_t)chosen.min_ranks;
    config->restarts = (uint32_t)chosen.restarts;
    if (config->restarts > 0 && config->min_ranks == 0)
        return error_set(error, WEFT_ERROR_ARGUMENT,
                         "weft run: --restarts %u needs --min-ranks, without which a rank that fails ends the job; add "
                         "--min-ranks N",
                         config->restarts);
    config->launcher_loss = (enum launcher_loss)cli_choice_index(chosen.launcher_loss, launcher_losses);
    if (config->launcher_loss != LAUNCHER_LOSS_END && !chosen.job_directory)
        return error_set(
            error, WEFT_ERROR_ARGUMENT,
            "weft run: --launcher-loss %s needs --job-dir, where the hosts record what they do; add --job-dir DIR",
            chosen.launcher_loss);
    config->scales = config->min_ranks > 0 && chosen.job_directory;
    config->additions = launch_additions(config->restarts, config->scales);
    config->prefix = !chosen.no_prefix;
    config->output_directory = chosen.output_directory;
    for (size_t i = 0; status == WEFT_OK && i < call->program_count; i++)
        status = string_list_add(&config->program, call->program[i], error);
    for (size_t i = 0; status == WEFT_OK && i < chosen.environment.count; i++) {
        const char *entry = chosen.environment.items[i];
        if (!*entry || *entry == '=')
            return error_set(error, WEFT_ERROR_ARGUMENT, "weft run: --env '%s' names no variable; write NAME=VALUE",
                             entry);
        status = string_list_add(&config->environment, entry, error);
    }
    if (status == WEFT_OK && chosen.verbose)
        status = string_list_add(&config->environment, "WEFT_VERBOSE=1", error);
    if (status == WEFT_OK)
        status = configure_hosts(config, error);
    if (status == WEFT_OK && config->min_ranks > config->hosts.ranks)
        return error_set(error, WEFT_ERROR_ARGUMENT, "weft run: --min-ranks %u is more than the job's %u rank%s",
                         config->min_ranks, config->hosts.ranks, config->hosts.ranks == 1 ? "" : "s");
    if (status == WEFT_OK && config->restarts && config->min_ranks == config->hosts.ranks)
        return error_set(
            error, WEFT_ERROR_ARGUMENT,
            "weft run: with --min-ranks %u the job ends when it loses one of its %u ranks, before another can "
            "be started; lower --min-ranks, or leave out --restarts",
            config->min_ranks, config->hosts.ranks);
    return status;
}

/* Set a variable for every rank. */
static weft_status set_for_ranks(struct launch_config *config, const char *name, const char *value, struct error *error)
{
    char entry[FILE_PATH_BYTES + 32];
    snprintf(entry, sizeof entry, "%s=%s", name, value);
    return string_list_add(&config->environment, entry, error);
}

static weft_status set_number_for_ranks(struct launch_config *config, const char *name, uint32_t value,
                                        struct error *error)
{
    char number[16];
    snprintf(number, sizeof number, "%u", value);
    return set_for_ranks(config, name, number, error);
}

/* ---- taking over a job ---- */

/* The record of the job that is taken over: this process goes on with it. `directory` is empty if there is none. */
static void record_take_over(const struct attach *attach, struct run_record *record, char *directory)
{
    const char *id = attach_variable(attach, "WEFT_RUN");
    struct run_record own;
    /* A record whose launcher lives is that of another run, inside which the job was started. */
    if (!id || run_records_directory(directory, NULL) != WEFT_OK ||
        run_record_load(directory, id, record, NULL) != WEFT_OK || record->state == RUN_RECORD_RUNNING ||
        run_record_begin(&own, NULL) != WEFT_OK) {
        directory[0] = '\0';
        return;
    }
    record->launcher = own.launcher;
    record->state = RUN_RECORD_RUNNING;
    record->ended = 0;
    (void)run_record_save(record, directory, NULL);
}

static weft_status launch_run_attach(struct command_call *call, struct error *error)
{
    struct attach attach;
    struct launch_result result = {0};
    struct run_record record;
    char directory[FILE_PATH_BYTES] = "";
    char *const *words = call->arguments;
    const bool alone = (strncmp(words[0], "--attach=", 9) == 0 && !words[1]) ||
                       (strcmp(words[0], "--attach") == 0 && words[1] && !words[2]);
    call->exit_code = 2;
    if (!alone)
        return error_set(
            error, WEFT_ERROR_ARGUMENT,
            "weft run: --attach takes no program and no other options: the job goes on as it was started; write "
            "weft run --attach %s",
            chosen.attach);
    weft_status status = attach_begin(chosen.attach, &attach, error);
    call->exit_code = status == WEFT_ERROR_ARGUMENT ? 2 : 1;
    if (status == WEFT_OK) {
        record_take_over(&attach, &record, directory);
        status = launch_run(&attach.config, &result, error);
        call->exit_code = status == WEFT_OK ? result.exit_code : 1;
        if (*directory) {
            run_record_complete(&record, call->exit_code, status == WEFT_OK ? result.reason : error->text);
            (void)run_record_save(&record, directory, NULL);
        }
    }
    attach_end(&attach);
    return status;
}

static weft_status launch_run_run(struct command_call *call, struct error *error)
{
    if (chosen.node) {
        call->exit_code = chosen.attach ? succession_proxy(chosen.attach) : node_main(STDIN_FILENO, STDOUT_FILENO);
        return WEFT_OK;
    }
    if (chosen.attach)
        return launch_run_attach(call, error);
    struct launch_config config = {0};
    struct launch_result result = {0};
    struct run_record record;
    char directory[FILE_PATH_BYTES] = "";
    struct job_directory job_directory;
    weft_status status = configure(call, &config, error);
    if (status == WEFT_OK && chosen.job_directory) {
        status = job_directory_open(chosen.job_directory, &job_directory, error);
        config.job_directory = status == WEFT_OK ? &job_directory : NULL;
        if (status == WEFT_OK)
            status = attach_check_free(&job_directory, error);
    }
    call->exit_code = status == WEFT_ERROR_ARGUMENT ? 2 : 0; /* if there is an error */
    if (status == WEFT_OK) {
        if (!chosen.no_record)
            record_begin(call, config.hosts.ranks, &record, directory);
        if (*directory)
            status = set_for_ranks(&config, "WEFT_RUN", record.id, error);
        if (status == WEFT_OK && chosen.trace)
            status = set_for_ranks(&config, "WEFT_TRACE", chosen.trace, error);
        if (status == WEFT_OK && chosen.stop_grace > 0) {
            char seconds[32];
            snprintf(seconds, sizeof seconds, "%g", chosen.stop_grace);
            status = set_for_ranks(&config, "WEFT_GRACE", seconds, error);
        }
        if (status == WEFT_OK && config.min_ranks)
            status = set_number_for_ranks(&config, "WEFT_MIN_RANKS", config.min_ranks, error);
        if (status == WEFT_OK && config.job_directory)
            status = set_for_ranks(&config, "WEFT_JOB_DIR", config.job_directory->path, error);
        if (status == WEFT_OK && config.additions) /* which tells the ranks that others may join */
            status = set_number_for_ranks(&config, "WEFT_RESTARTS", config.restarts, error);
        if (status == WEFT_OK)
            status = launch_run(&config, &result, error);
        call->exit_code = status == WEFT_OK ? result.exit_code : 1;
        if (*directory) {
            run_record_complete(&record, call->exit_code, status == WEFT_OK ? result.reason : error->text);
            (void)run_record_save(&record, directory, NULL);
        }
    }
    job_directory_close(config.job_directory);
    hosts_free(&config.hosts);
    string_list_free(&config.program);
    string_list_free(&config.environment);
    return status;
}

const struct command command_run = {
    .name = "run",
    .group = COMMAND_TRAIN,
    .summary = "start a program as the ranks of a job, here or on several hosts",
    .description =
        "Starts the program once for each rank, lets the ranks find each other, writes their output line by line with "
        "the rank before it, passes signals on, and leaves no process when it ends, however it ends.\n\n"
        "A rank finds in its environment WEFT_RANK, WEFT_RANKS, WEFT_LOCAL_RANK, WEFT_LOCAL_RANKS, WEFT_RENDEZVOUS, "
        "WEFT_RENDEZVOUS_SERVED, WEFT_RENDEZVOUS_LIMIT and WEFT_SECRET (drawn for each job unless it is set), which "
        "weft_init() reads, OMP_NUM_THREADS unless that is set, and the launcher's variables that begin with WEFT_, "
        "OMP_ or FI_, on every host.\n\n"
        "The command of --hosts-command prints a host a line, name[:slots], and ends within ten seconds. With --restarts, or "
        "--min-ranks and --job-dir, it is run again every five seconds, and every second while a rank waits for a free slot. "
        "Hosts that appear can then be used by replacements and weft scale; hosts that vanish get no more ranks. If it fails "
        "or hangs, a warning is printed and the job keeps its hosts.\n\n"
        "Other hosts must have weft and the program at the same paths. The working directory is the same "
        "everywhere.\n\n"
        "When a rank fails, weft run reports it and ends the others. With --min-ranks N, which ranks see as "
        "WEFT_MIN_RANKS, the others continue as long as N are left; this applies once all ranks have met in "
        "weft_init(). With --restarts N as well (WEFT_RESTARTS), a replacement is started for each rank that fails, at "
        "most N in all; it joins the others, and its WEFT_RANK is a new number, from WEFT_RANKS on. The exit code is "
        "that of the first rank that failed (with --min-ranks, as long as so many are left: 0 if so many end with 0, "
        "otherwise that of the rank that ended last), or 128 plus the signal's number; 1 if the ranks could not be "
        "started. A second interrupt kills.\n\n"
        "If weft run itself is killed, or stopped for four seconds, --launcher-loss decides what becomes of the ranks. With "
        "continue they go on, and weft run --attach DIR, on the same machine and as the same user, becomes the launcher of the "
        "job: its output, replacements, weft scale and the exit code are as if the first launcher had lived. What the ranks have "
        "printed meanwhile is in DIR/output-HOST. Standard input is not taken over. A host waits for a launcher until a minute "
        "after the end of its last rank.\n\n"
        "Ranks that get SIGTERM or SIGUSR1 and end with exit code 75 ask to be run again, and so does weft run then: a "
        "scheduler that runs the same command again makes them continue.",
    .examples = "weft run -n 4 -- weft train --steps 200\n"
                "weft run --hosts hosta:2,hostb:2 -- ./program argument\n"
                "weft run -n 8 --hostfile hosts --agent \"ssh -p 2222\" --env FI_PROVIDER=tcp -- ./program\n",
    .takes_program = true,
    COMMAND_OPTIONS(options),
    .run = launch_run_run,
};
