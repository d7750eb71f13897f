/* SPDX-License-Identifier: Apache-2.0 */
/* The launcher's loop: over its hosts (host_helpers.c), its own streams (output.c), the user's signals and input. */
#include "launch/launch.h"

#include "base/clock.h"
#include "core/control/wire/secret.h"
#include "launch/internal/host_helpers.h"
#include "launch/internal/host_watch.h"
#include "launch/internal/job_record.h"
#include "launch/internal/output.h"
#include "launch/internal/rendezvous_service.h"
#include "launch/internal/replacements.h"
#include "launch/internal/scaling.h"
#include "launch/internal/verdict.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/signalfd.h>
#include <unistd.h>

#define INPUT_BYTES   65536
#define WORDS_SECONDS 1.0 /* for the last output of ranks that did not end in time */

extern char **environ;

enum { POLL_SIGNALS, POLL_INPUT, POLL_OUTPUT, POLL_ERRORS, POLL_MEMBERS, POLL_REQUESTS, POLL_HOSTS, POLL_HELPERS };

struct launch {
    const struct launch_config *config;
    struct string_list environment; /* of every rank */
    struct output output;
    struct verdict verdict;
    struct host_helpers helpers;
    struct replacements replacements;
    struct scaling scaling;
    struct host_watch host_watch;
    struct pollfd *polls;
    size_t polls_room;
    int signals;
    bool input_open;
    struct rendezvous_service *rendezvous;
    bool has_ended; /* for those ranks that took part to the end */
    struct job_record_writer record;
    uint64_t beat, next_beat; /* when the helpers heard of this launcher last, and when next; 0: not yet */
};

/* ---- our own input and signals ---- */

/* A background job that reads its terminal would be stopped. */
static bool launch_input_allowed(const struct launch *launch)
{
    if (!launch->input_open || host_helpers_input_room(&launch->helpers) == 0)
        return false;
    return !isatty(STDIN_FILENO) || tcgetpgrp(STDIN_FILENO) == getpgrp();
}

static void launch_input_forward(struct launch *launch)
{
    uint8_t bytes[INPUT_BYTES];
    size_t room = host_helpers_input_room(&launch->helpers);
    ssize_t n = read(STDIN_FILENO, bytes, room < sizeof bytes ? room : sizeof bytes);
    if (n < 0 && (errno == EAGAIN || errno == EINTR))
        return;
    launch->input_open = n > 0;
    host_helpers_input(&launch->helpers, bytes, n > 0 ? (size_t)n : 0);
}

static void launch_hear_signals(struct launch *launch)
{
    struct signalfd_siginfo info;
    while (read(launch->signals, &info, sizeof info) == (ssize_t)sizeof info) {
        int number = (int)info.ssi_signo;
        if (number == SIGCHLD)
            continue;
        bool again = number == SIGINT && launch->verdict.user_signal == SIGINT;
        host_helpers_signal(&launch->helpers, again ? SIGKILL : number);
        if (number == SIGUSR1 || number == SIGUSR2)
            continue;
        if (again)
            output_say(&launch->output, "weft run: interrupted again: killing all ranks");
        verdict_user_signal(&launch->verdict, number, launch->config->stop_grace + WORDS_SECONDS);
    }
}

/* The reader of the output is gone: end the job, as a program in a pipeline would. */
static void launch_reader_lost(struct launch *launch)
{
    verdict_user_signal(&launch->verdict, SIGPIPE, launch->config->grace);
    host_helpers_signal(&launch->helpers, SIGTERM);
}

/* ---- signs of life ---- */

/* Tell the helpers that the launcher lives, unless they have taken it for lost already: then they are left to another one. */
static weft_status launch_beat(struct launch *launch, struct error *error)
{
    const struct launch_config *config = launch->config;
    const uint64_t now = clock_now();
    const double silence = launch->beat ? (double)(now - launch->beat) * 1e-9 : 0;
    if (config->launcher_loss == LAUNCHER_LOSS_END || now < launch->next_beat)
        return WEFT_OK;
    if (silence >= ORDER_SILENCE_SECONDS) {
        launch->helpers.resigned = true;
        return error_set(
            error, WEFT_ERROR_STATE,
            "this launcher was stopped or got no processor for %.1f s, so its hosts have taken it for lost; the "
            "job's ranks %s %s",
            silence,
            config->launcher_loss == LAUNCHER_LOSS_CONTINUE
                ? "continue; take over the job with weft run --attach"
                : "were asked to end with a checkpoint; the job's events are in",
            config->job_directory->path);
    }
    host_helpers_beat(&launch->helpers);
    launch->beat = now;
    launch->next_beat = now + (uint64_t)(ORDER_BEAT_SECONDS * 1e9);
    return WEFT_OK;
}

/* ---- the loop ---- */

static int launch_poll_timeout(const struct launch *launch)
{
    const uint64_t deadlines[] = {
        launch->verdict.judge_at, launch->verdict.next_kill,   launch->helpers.deadline, launch->replacements.deadline,
        launch->scaling.deadline, launch->host_watch.deadline, launch->next_beat};
    uint64_t now = clock_now(), next = UINT64_MAX;
    for (size_t i = 0; i < sizeof deadlines / sizeof *deadlines; i++)
        if (deadlines[i] && deadlines[i] < next)
            next = deadlines[i];
    return next == UINT64_MAX ? -1 : next > now ? (int)((next - now) / 1000000) + 1 : 0;
}

/* Hosts may have come. */
static weft_status launch_polls_make_room(struct launch *launch, struct error *error)
{
    const size_t count = POLL_HELPERS + host_helpers_polls(&launch->helpers);
    struct pollfd *grown = count > launch->polls_room ? realloc(launch->polls, count * sizeof *grown) : launch->polls;
    if (!grown)
        return error_memory(error, count * sizeof *grown, "the launcher");
    launch->polls = grown;
    launch->polls_room = count > launch->polls_room ? count : launch->polls_room;
    return WEFT_OK;
}

static weft_status launch_turn(struct launch *launch, struct error *error)
{
    if (launch_polls_make_room(launch, error) != WEFT_OK)
        return error->status;
    struct pollfd *polls = launch->polls;
    polls[POLL_SIGNALS] = (struct pollfd){launch->signals, POLLIN, 0};
    polls[POLL_INPUT] = (struct pollfd){launch_input_allowed(launch) ? STDIN_FILENO : -1, POLLIN, 0};
    for (int i = 0; i < 2; i++) {
        const struct output_sink *sink = &launch->output.sinks[i];
        polls[POLL_OUTPUT + i] = (struct pollfd){buffer_size(&sink->waiting) > 0 ? sink->descriptor : -1, POLLOUT, 0};
    }
    const struct job_directory *directory = launch->config->job_directory;
    polls[POLL_MEMBERS] = (struct pollfd){rendezvous_service_descriptor(launch->rendezvous), POLLIN, 0};
    polls[POLL_REQUESTS] = (struct pollfd){directory ? directory->listener : -1, POLLIN, 0};
    polls[POLL_HOSTS] = (struct pollfd){host_watch_descriptor(&launch->host_watch), POLLIN, 0};
    host_helpers_watch(&launch->helpers, output_is_full(&launch->output), polls + POLL_HELPERS);
    if (poll(polls, POLL_HELPERS + host_helpers_polls(&launch->helpers), launch_poll_timeout(launch)) < 0 &&
        errno != EINTR)
        return error_system(error, "the launcher cannot wait for its ranks");
    if (launch_beat(launch, error) != WEFT_OK) /* before the ends of connections are handled */
        return error->status;

    launch->verdict.met = rendezvous_service_met(launch->rendezvous);
    for (uint32_t rank; rendezvous_service_overtaken(launch->rendezvous, &rank);)
        verdict_rank_overtaken(&launch->verdict, rank);
    host_helpers_turn(&launch->helpers, polls + POLL_HELPERS);
    if (polls[POLL_SIGNALS].revents)
        launch_hear_signals(launch);
    if (polls[POLL_INPUT].revents)
        launch_input_forward(launch);
    output_write(&launch->output, (bool[]){polls[POLL_OUTPUT].revents != 0, polls[POLL_ERRORS].revents != 0});
    if (launch->output.sinks[0].broken && launch->verdict.user_signal == 0)
        launch_reader_lost(launch);
    verdict_judge(&launch->verdict);
    int kill_signal = verdict_kill_signal(&launch->verdict);
    if (kill_signal)
        host_helpers_signal(&launch->helpers, kill_signal);
    if (launch->config->min_ranks && launch->verdict.finished && !launch->has_ended) {
        launch->has_ended = true; /* those that are stopped were left out, and would be waited for */
        host_helpers_kill_stopped(&launch->helpers);
    }
    scaling_turn(&launch->scaling);
    if (polls[POLL_REQUESTS].revents)
        scaling_answer(&launch->scaling);
    replacements_turn(&launch->replacements);
    host_helpers_give_up(&launch->helpers);
    host_watch_turn(&launch->host_watch); /* last: the descriptors that were polled are those of the helpers before */
    return WEFT_OK;
}

/* ---- begin and end ---- */

static bool launch_text_starts_with(const char *text, const char *beginning)
{
    return strncmp(text, beginning, strlen(beginning)) == 0;
}

/* Variables that describe this host, terminal or node, and would be wrong elsewhere. */
static bool launch_variable_is_local(const char *entry)
{
    static const char *const names[] = {"WEFT_HOST=",  "WEFT_COLUMNS=", "WEFT_NODE=",   "WEFT_NODE_DIRECTORY=",
                                        "WEFT_SLOTS=", "WEFT_METRICS=", "WEFT_JOB_DIR="};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (launch_text_starts_with(entry, names[i]))
            return true;
    return false;
}

/* The variables of every rank: those that other hosts lack, then the user's own; the rendezvous adds its own later. */
static weft_status launch_environment_collect(struct launch *launch, struct error *error)
{
    static const char *const carried[] = {"WEFT_", "OMP_", "FI_"};
    struct string_list *list = &launch->environment;
    weft_status status = WEFT_OK;
    for (char **entry = environ; *entry; entry++)
        for (size_t i = 0; i < sizeof carried / sizeof *carried; i++)
            if (status == WEFT_OK && launch_text_starts_with(*entry, carried[i]) && !launch_variable_is_local(*entry))
                status = string_list_add(list, *entry, error);
    char columns[32];
    snprintf(columns, sizeof columns, "WEFT_COLUMNS=%u", output_live_columns(&launch->output));
    if (status == WEFT_OK)
        status = string_list_add(list, columns, error);
    for (size_t i = 0; status == WEFT_OK && i < launch->config->environment.count; i++) {
        const char *entry = launch->config->environment.items[i], *value = getenv(entry);
        char *pair = NULL;
        if (strchr(entry, '='))
            status = string_list_add(list, entry, error);
        else if (value && asprintf(&pair, "%s=%s", entry, value) >= 0)
            status = string_list_add(list, pair, error);
        free(pair);
    }
    return status;
}

static weft_status launch_watch_signals(struct launch *launch, struct error *error)
{
    static const int watched[] = {SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGUSR1, SIGUSR2, SIGCHLD};
    sigset_t set;
    sigemptyset(&set);
    for (size_t i = 0; i < sizeof watched / sizeof *watched; i++)
        sigaddset(&set, watched[i]);
    pthread_sigmask(SIG_BLOCK, &set, NULL);
    signal(SIGPIPE, SIG_IGN);
    launch->signals = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
    return launch->signals >= 0 ? WEFT_OK : error_system(error, "cannot watch for signals");
}

/* Lines begin with the host names, unless all ranks are on one host. */
static weft_status launch_output_open_streams(struct launch *launch, struct error *error)
{
    const struct launch_config *config = launch->config;
    const uint32_t ranks = config->hosts.ranks;
    weft_status status = output_open(&launch->output, ranks + config->additions, config->output_directory,
                                     config->prefix && ranks > 1, error);
    launch->output.appends = config->record != NULL;
    for (uint32_t rank = 0; status == WEFT_OK && rank < launch->verdict.started; rank++)
        status = output_rank_begin(&launch->output, rank,
                                   config->hosts.count > 1 ? launch->verdict.hosts[rank]->name : NULL, error);
    return status;
}

static struct job_state launch_state(struct launch *launch)
{
    return (struct job_state){.config = launch->config,
                              .environment = &launch->environment,
                              .helpers = &launch->helpers,
                              .verdict = &launch->verdict,
                              .replacements = &launch->replacements,
                              .scaling = &launch->scaling,
                              .rendezvous = launch->rendezvous};
}

/* A job that is taken over. */
static weft_status launch_restore(struct launch *launch, struct error *error)
{
    const struct job_state state = launch_state(launch);
    const struct job_record *record = launch->config->record;
    weft_status status = string_list_add_all(&launch->environment, record->environment.items, error);
    return status == WEFT_OK ? job_record_restore(record, &state, error) : status;
}

/* A new job that may be taken over. */
static weft_status launch_name_job(struct launch *launch, struct error *error)
{
    char text[SECRET_TEXT_BYTES];
    if (launch->config->launcher_loss != LAUNCHER_LOSS_CONTINUE)
        return WEFT_OK;
    const weft_status status = secret_make_text(text, error);
    if (status == WEFT_OK)
        snprintf(launch->helpers.job, sizeof launch->helpers.job, "%.*s", HOST_HELPER_JOB_BYTES - 1, text);
    return status;
}

static weft_status launch_prepare(struct launch *launch, struct error *error)
{
    weft_status status = verdict_open(&launch->verdict, launch->config, &launch->output, error);
    if (status == WEFT_OK)
        status = host_helpers_open(&launch->helpers, launch->config, &launch->environment, &launch->output,
                                   &launch->verdict, error);
    if (status == WEFT_OK)
        status = replacements_open(&launch->replacements, launch->config, &launch->helpers, &launch->output,
                                   &launch->verdict, error);
    scaling_begin(&launch->scaling, launch->config, &launch->output, &launch->verdict, &launch->replacements, NULL);
    if (status == WEFT_OK)
        status = launch->config->record ? launch_restore(launch, error) : launch_name_job(launch, error);
    if (status == WEFT_OK)
        status = launch_output_open_streams(launch, error);
    if (status == WEFT_OK && !launch->config->record)
        status = launch_environment_collect(launch, error);
    return status == WEFT_OK ? launch_watch_signals(launch, error) : status;
}

static void launch_record_start(const struct launch_config *config)
{
    struct json_writer line;
    if (config->record) {
        JOB_DIRECTORY_EVENT(config->job_directory, "launcher_attach", "process", (int64_t)getpid());
        return;
    }
    job_directory_event_begin(config->job_directory, &line, "job_start");
    JSON_PUT(&line, "ranks", config->hosts.ranks, "min_ranks", config->min_ranks, "restarts", config->restarts,
             "process", (int64_t)getpid());
    json_open_array(&line, "hosts");
    for (uint32_t i = 0; i < config->hosts.count; i++)
        JSON_PUT_OBJECT(&line, NULL, "host", config->hosts.hosts[i].name, "ranks", config->hosts.hosts[i].ranks,
                        "slots", config->hosts.hosts[i].slots);
    json_close(&line);
    json_open_array(&line, "command");
    for (size_t i = 0; i < config->program.count; i++)
        json_put_text(&line, NULL, config->program.items[i]);
    json_close(&line);
    job_directory_event_end(config->job_directory, &line);
}

weft_status launch_run(const struct launch_config *config, struct launch_result *result, struct error *error)
{
    struct launch launch = {.config = config, .signals = -1, .input_open = config->input};
    weft_status status = launch_prepare(&launch, error);
    launch_record_start(config);
    if (status == WEFT_OK)
        status = host_helpers_start(&launch.helpers, error);
    if (status == WEFT_OK) /* a thread: after the forks */
        status =
            rendezvous_service_start(config, launch.helpers.remote, &launch.environment, &launch.rendezvous, error);
    host_watch_begin(&launch.host_watch, config, &launch.helpers, &launch.replacements, &launch.output);
    launch.scaling.rendezvous = launch.rendezvous;
    while (status == WEFT_OK && launch.helpers.open > 0) {
        const struct job_state state = launch_state(&launch);
        status = launch_turn(&launch, error);
        if (status == WEFT_OK) /* before the orders of this turn are sent */
            job_record_update(&launch.record, &state);
    }
    if (status != WEFT_OK && *launch.helpers.job && launch.helpers.threads > 0)
        launch.helpers.resigned = true; /* what is the matter with this launcher need not end the job */
    if (status == WEFT_OK && config->record && launch.helpers.attached == 0)
        status = error_set(error, WEFT_ERROR_STATE,
                           "no job is left in '%s': none of its hosts has a helper that waits for a launcher",
                           config->job_directory->path);
    if (status == WEFT_OK)
        status = verdict_result(&launch.verdict, result, error);
    if (!launch.helpers.resigned && config->job_directory)
        job_record_remove(config->job_directory);
    if (!launch.helpers.resigned)
        JOB_DIRECTORY_EVENT(config->job_directory, "job_end", "exit_code", status == WEFT_OK ? result->exit_code : 1,
                            "reason",
                            status != WEFT_OK ? error->text
                            : *result->reason ? result->reason
                                              : NULL);
    host_watch_end(&launch.host_watch);
    host_helpers_close(&launch.helpers);
    rendezvous_service_stop(launch.rendezvous);
    output_close(&launch.output);
    replacements_close(&launch.replacements);
    verdict_close(&launch.verdict);
    if (launch.signals >= 0)
        close(launch.signals);
    string_list_free(&launch.environment);
    free(launch.polls);
    return status;
}
