/* SPDX-License-Identifier: Apache-2.0 */
#include "platform/engine/slurm/slurm.h"

#include "base/buffer.h"
#include "platform/engine/slurm/internal/job.h"
#include "platform/engine/slurm/internal/own_jobs.h"
#include "platform/engine/slurm/internal/pods.h"
#include "platform/engine/slurm/internal/submission.h"

#include <errno.h>
#include <inttypes.h>
#include <pwd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define SPARE_SECONDS 120 /* of the job's time limit beyond the attempt's: Slurm checks every 30 s */
#define GRACE         30000

static struct engine_slurm *slurm_of(struct engine *engine)
{
    return (struct engine_slurm *)engine;
}

/* ---- hosts ---- */

static weft_status slurm_hosts(struct engine *engine, engine_host_visit *visit, void *context, struct error *error)
{
    struct engine_slurm *slurm = slurm_of(engine);
    uint32_t count;
    if (slurm->pods)
        pods_turn(slurm->pods);
    struct driver_host *hosts = driver_hosts(slurm->driver, &count);
    if (!hosts)
        return error_memory(error, sizeof *hosts, "the nodes of a cluster");
    for (uint32_t i = 0; i < count; i++) {
        const struct driver_host *that = &hosts[i];
        const char *missing = that->up && slurm->pods ? pods_lack(slurm->pods, that->name) : NULL;
        const struct engine_host host = {that->name,           that->pod,
                                         job_slots(that),      that->gpus > 0,
                                         that->up && !missing, missing ? missing : that->reason,
                                         that->cpus,           (int64_t)that->memory};
        if (!visit(context, &host))
            break;
    }
    free(hosts);
    return WEFT_OK;
}

/* ---- jobs ---- */

/* Raise the fence on shared storage, which hosts look at that cannot reach this server. Its directory is this server's
 * own: a run may have replaced anything in its directory. */
static weft_status raise_shared_fence(const struct engine_order *order, struct error *error)
{
    char runs[FILE_PATH_BYTES], fences[FILE_PATH_BYTES];
    snprintf(runs, sizeof runs, "%s", order->directory);
    for (int level = 0; level < 2; level++) {
        char *slash = strrchr(runs, '/');
        if (!slash || slash == runs || (level == 1 && strcmp(slash + 1, order->attempt.run) != 0))
            return WEFT_OK; /* a directory of somebody's own */
        *slash = '\0';
    }
    char run[FILE_PATH_BYTES], fence[FILE_PATH_BYTES];
    struct attempt of_run = order->attempt;
    of_run.epoch = 0;
    weft_status status = file_join(fences, runs, REMOTE_FENCES, error);
    if (status == WEFT_OK)
        status = node_fence_raise(fences, &order->attempt, error);
    if (status == WEFT_OK)
        status = node_directory(run, fences, &of_run, 0, error);
    if (status == WEFT_OK)
        status = file_join(fence, run, "fence", error);
    /* Hosts read it as the run's account, whatever this server's umask is. */
    if (status == WEFT_OK && (chmod(fences, 0711) != 0 || chmod(run, 0711) != 0 || chmod(fence, 0644) != 0))
        status = error_system(error, "cannot let hosts read '%s'", fence);
    return status;
}

/* What was submitted is kept for the next start of the server. */
static weft_status submit_own_job(struct engine_slurm *slurm, const struct engine_order *order,
                                  const struct job_needs *needs, const char *token, struct error *error)
{
    char mark[SLURM_MARK_BYTES], name[ATTEMPT_RUN_BYTES + 8], output[JOB_OUTPUT_BYTES], path[FILE_PATH_BYTES];
    struct buffer script = {0};
    weft_status status = job_path(slurm, &order->attempt, path, error);
    if (status != WEFT_OK)
        return status;
    job_write_script(slurm, order, needs, token, &script);
    buffer_put(&script, "", 1);
    snprintf(name, sizeof name, "weft-%s", order->attempt.run);
    job_output(slurm, &order->attempt, output);
    const uint64_t limit = order->time_limit ? order->time_limit + (order->grace ? order->grace : GRACE) : 0;
    const struct slurm_submission submission = {.name = name,
                                                .node_list = (const char *)buffer_begin(&needs->names),
                                                .nodes = order->nodes,
                                                .cpus_per_node = needs->cpus,
                                                .gpus_per_node = needs->gpus,
                                                .memory_per_node = needs->memory,
                                                .seconds = limit ? limit / 1000 + SPARE_SECONDS : 0,
                                                .user = order->user && *order->user ? order->user : NULL,
                                                .directory = "/",
                                                .output = output,
                                                .script = (const char *)buffer_begin(&script)};
    const bool is_new = !file_exists(path);
    status = script.failed ? error_memory(error, 4096, "a job") : WEFT_OK;
    if (status == WEFT_OK && is_new)
        status = submission_save(path, &submission, error);
    if (status == WEFT_OK)
        status = driver_submit(slurm->driver, &order->attempt, job_mark(token, mark), &submission,
                               is_new ? DRIVER_NEW : DRIVER_LOOKS_FIRST, error);
    buffer_free(&script);
    return status;
}

static weft_status slurm_start(struct engine *engine, const struct engine_order *order, struct error *error)
{
    struct engine_slurm *slurm = slurm_of(engine);
    char token[REMOTE_TOKEN_BYTES];
    struct job_needs needs;
    weft_status status = job_find_needs(slurm, order, &needs, error);
    buffer_put(&needs.names, "", 1);
    if (status == WEFT_OK && needs.names.failed)
        status = error_memory(error, 4096, "a job");
    if (status == WEFT_OK && slurm->pods)
        status = pods_check(slurm->pods, order, &needs, error);
    if (status == WEFT_OK)
        status = remote_order(slurm->remote, order, token, error);
    if (status == WEFT_OK && slurm->shared)
        status = raise_shared_fence(order, error);
    if (status == WEFT_OK)
        status = slurm->pods ? pods_start(slurm->pods, order, &needs, error)
                             : submit_own_job(slurm, order, &needs, token, error);
    buffer_free(&needs.names);
    return status;
}

struct counted {
    uint32_t nodes, begun, ended;
};

static bool count_node(void *context, const struct engine_node *node)
{
    struct counted *counted = context;
    counted->nodes++;
    counted->begun += node->state != ENGINE_NODE_STARTING;
    counted->ended += node->state == ENGINE_NODE_ENDED;
    return true;
}

struct driver_state slurm_state(struct engine_slurm *slurm, const struct attempt *attempt)
{
    struct counted counted = {0};
    const weft_status status = remote_nodes(slurm->remote, attempt, count_node, &counted, NULL);
    if (status == WEFT_ERROR_STATE) /* it was forgotten */
        return (struct driver_state){.known = true, .all_begun = true, .any_begun = true, .ended = true};
    return (struct driver_state){.known = status == WEFT_OK,
                                 .all_begun = counted.begun == counted.nodes,
                                 .any_begun = counted.begun > 0,
                                 .ended = status == WEFT_OK && counted.ended == counted.nodes};
}

void slurm_give_up(struct engine_slurm *slurm, const struct attempt *attempt, enum remote_end how, const char *reason)
{
    struct error error = {0};
    if (remote_give_up(slurm->remote, attempt, how, reason, &error) != WEFT_OK && error.status != WEFT_ERROR_STATE)
        fprintf(stderr, "weft: %s\n", error.text);
}

/* For the driver, on its thread. */
static struct driver_state tell_state(void *context, const struct attempt *attempt)
{
    return slurm_state(context, attempt);
}

static void give_up(void *context, const struct attempt *attempt, enum remote_end how, const char *reason)
{
    slurm_give_up(context, attempt, how, reason);
}

/* What was under way when the server was last here. */
struct taking_up {
    struct engine_slurm *slurm;
    weft_status status;
    struct error *error;
};

static bool take_up(void *context, const struct attempt *attempt, uint32_t nodes, bool own)
{
    struct taking_up *taking = context;
    struct engine_slurm *slurm = taking->slurm;
    struct slurm_submission submission = {0};
    struct error error = {0};
    char path[FILE_PATH_BYTES], mark[SLURM_MARK_BYTES], token[REMOTE_TOKEN_BYTES], *texts = NULL;
    (void)nodes;
    const struct driver_state state = own ? slurm_state(slurm, attempt) : (struct driver_state){.ended = true};
    const bool holds_pod = own_jobs_hold_pod(attempt);
    if (state.ended && !(holds_pod && slurm->pods))
        return true;
    if (holds_pod && !slurm->pods)
        return true; /* Pods are no longer held: the driver cancels the job */
    taking->status = job_path(slurm, attempt, path, taking->error);
    if (taking->status == WEFT_OK && access(path, F_OK) != 0 && errno == ENOENT)
        return true; /* it has no job yet: start() comes again */
    /* An attempt that is not known here would have its job canceled. */
    if (taking->status == WEFT_OK)
        taking->status = remote_token(slurm->remote, attempt, token, taking->error);
    if (taking->status != WEFT_OK)
        return false;
    const bool read = submission_load(path, &submission, &texts, &error) == WEFT_OK;
    if (!read)
        fprintf(stderr, "weft: %s\n", error.text);
    if (read && pods_is_step(&submission) && !slurm->pods)
        slurm_give_up(slurm, attempt, REMOTE_END_AGAIN, "this server holds no Pods any more");
    else if (read && pods_is_step(&submission))
        taking->status = pods_add_step(slurm->pods, attempt, &submission, taking->error);
    else
        taking->status = driver_submit(slurm->driver, attempt, job_mark(token, mark), read ? &submission : NULL,
                                       state.all_begun ? DRIVER_HAS_BEGUN : DRIVER_LOOKS_FIRST, taking->error);
    if (taking->status == WEFT_OK && holds_pod)
        taking->status = pods_take(slurm->pods, attempt, read ? &submission : NULL, taking->error);
    free(texts);
    return taking->status == WEFT_OK;
}

static weft_status slurm_stop(struct engine *engine, const struct attempt *attempt, enum engine_end how, uint64_t grace,
                              struct error *error)
{
    struct engine_slurm *slurm = slurm_of(engine);
    weft_status status = remote_stop(slurm->remote, attempt, how, grace, error);
    if (tell_state(slurm, attempt).ended) /* no host has begun it, so none ends the job by its own end */
        driver_cancel(slurm->driver, attempt);
    return status;
}

static weft_status slurm_forget(struct engine *engine, const struct attempt *attempt, struct error *error)
{
    return remote_forget(slurm_of(engine)->remote, attempt, error);
}

/* ---- the rest is the same for all engines of other hosts ---- */

static weft_status slurm_remark(struct engine *engine, const struct attempt *attempt, const char *message,
                                struct error *error)
{
    return remote_remark(slurm_of(engine)->remote, attempt, message, error);
}

static weft_status slurm_poll(struct engine *engine, const struct attempt *attempt, uint32_t node, uint64_t after,
                              engine_record_visit *visit, void *context, struct error *error)
{
    return remote_poll(slurm_of(engine)->remote, attempt, node, after, visit, context, error);
}

static weft_status slurm_gone(struct engine *engine, const struct attempt *attempt, uint32_t node, bool kill,
                              bool *gone, struct error *error)
{
    return remote_gone(slurm_of(engine)->remote, attempt, node, kill, gone, error);
}

static weft_status slurm_heard(struct engine *engine, engine_heard_visit *visit, void *context, struct error *error)
{
    struct engine_slurm *slurm = slurm_of(engine);
    if (slurm->pods)
        pods_turn(slurm->pods);
    return remote_heard(slurm->remote, visit, context, error);
}

struct of_runs {
    engine_attempt_visit *visit;
    void *context;
    bool pods_are_held;
};

/* What holds Pods is the engine's own. */
static bool visit_runs(void *context, const struct attempt *attempt, uint32_t nodes, bool own)
{
    const struct of_runs *runs = context;
    return (own && runs->pods_are_held && own_jobs_hold_pod(attempt)) ||
           runs->visit(runs->context, attempt, nodes, own);
}

static weft_status slurm_attempts(struct engine *engine, engine_attempt_visit *visit, void *context,
                                  struct error *error)
{
    struct of_runs runs = {visit, context, slurm_of(engine)->pods != NULL};
    return remote_attempts(slurm_of(engine)->remote, visit_runs, &runs, error);
}

static weft_status slurm_nodes_of(struct engine *engine, const struct attempt *attempt, engine_node_visit *visit,
                                  void *context, struct error *error)
{
    return remote_nodes(slurm_of(engine)->remote, attempt, visit, context, error);
}

static weft_status slurm_exec(struct engine *engine, const struct attempt *attempt, uint32_t node,
                              const struct node_exec_order *order, struct node_exec *exec, struct error *error)
{
    return remote_exec(slurm_of(engine)->remote, attempt, node, order, exec, error);
}

/* ---- opening and closing ---- */

static void slurm_close(struct engine *engine)
{
    struct engine_slurm *slurm = slurm_of(engine);
    driver_close(slurm->driver);
    pods_close(slurm->pods);
    remote_close(slurm->remote);
    free(slurm);
}

/* The words that are put between quotes in a script. */
static weft_status copy_word(char *to, size_t room, const char *word, const char *what, struct error *error)
{
    if (word[0] != '/' || strchr(word, '\'') || strchr(word, '\n') || strlen(word) >= room)
        return error_set(error, WEFT_ERROR_ARGUMENT, "%s is '%.200s'; it must be an absolute path without quotes", what,
                         word);
    memcpy(to, word, strlen(word) + 1);
    return WEFT_OK;
}

static weft_status name_server(struct engine_slurm *slurm, const char *address, struct error *error)
{
    char own[256];
    if (!address) {
        if (gethostname(own, sizeof own) != 0)
            return error_system(error, "cannot find this machine's name");
        address = own;
    }
    if (!*address || strpbrk(address, " '\"\\$`;&|<>()\n\t") ||
        snprintf(slurm->server, sizeof slurm->server, "%s:%u", address, remote_port(slurm->remote)) >=
            (int)sizeof slurm->server)
        return error_set(error, WEFT_ERROR_ARGUMENT, "'%.80s' is no name or address of this machine", address);
    return WEFT_OK;
}

/* "": it has no name, or is not known. */
static void slurm_name_user(struct engine_slurm *slurm, const char *login)
{
    const struct passwd *own = login ? NULL : getpwuid(geteuid());
    snprintf(slurm->user, sizeof slurm->user, "%s", own ? own->pw_name : "");
}

weft_status engine_slurm_open(const struct engine_slurm_config *config, struct engine **engine, struct error *error)
{
    struct slurm_commands *commands;
    char hosts[FILE_PATH_BYTES];
    struct engine_slurm *slurm = calloc(1, sizeof *slurm);
    if (!slurm)
        return error_memory(error, sizeof *slurm, "the engine of Slurm");
    slurm->engine = (struct engine){
        .name = "slurm",
        .refuses_for_all = true,
        .hosts_change = true,
        .sends_files = !config->shared,
        .heartbeat = NODE_HEARTBEAT,
        .descriptor = -1,
        .start = slurm_start,
        .stop = slurm_stop,
        .remark = slurm_remark,
        .poll = slurm_poll,
        .gone = slurm_gone,
        .heard = slurm_heard,
        .attempts = slurm_attempts,
        .nodes = slurm_nodes_of,
        .exec = slurm_exec,
        .hosts = slurm_hosts,
        .forget = slurm_forget,
        .close = slurm_close,
    };
    slurm->shared = config->shared != NULL;
    slurm_name_user(slurm, config->login);
    snprintf(slurm->platform, sizeof slurm->platform, "%s", config->platform);
    /* Nodes fetch what they need at their own pace; one that is lost meanwhile ends the attempt anyway. */
    char *run[] = {slurm->weft, "run", "--start-timeout", "600", NULL};
    const struct remote_config remote = {.directory = config->directory,
                                         .platform = config->platform,
                                         .port = config->port,
                                         .shared = config->shared,
                                         .run = run};
    const struct slurm_commands_config words = {.login = config->login, .partition = config->partition};
    weft_status status =
        copy_word(slurm->directory, sizeof slurm->directory, config->directory, "the directory of the engine", error);
    if (status == WEFT_OK)
        status = copy_word(slurm->weft, sizeof slurm->weft, config->weft, "the command on the nodes", error);
    if (status == WEFT_OK)
        status = copy_word(slurm->scratch, sizeof slurm->scratch, config->scratch, "the nodes' own directory", error);
    if (status == WEFT_OK)
        status = file_join(hosts, config->directory, "hosts", error);
    if (status == WEFT_OK)
        status = file_make_directory(config->directory, error);
    if (status == WEFT_OK)
        status = slurm_commands_open(&words, &commands, error);
    const struct driver_config driver = {.commands = status == WEFT_OK ? commands : NULL,
                                         .platform = config->platform,
                                         .hosts = hosts,
                                         .user = *slurm->user ? slurm->user : NULL,
                                         .calls = {.state = tell_state, .give_up = give_up, .context = slurm}};
    if (status == WEFT_OK) {
        status = remote_open(&remote, &slurm->remote, error);
        if (status != WEFT_OK)
            slurm_commands_close(commands);
    }
    if (status == WEFT_OK) {
        status = name_server(slurm, config->address, error);
        if (status != WEFT_OK)
            slurm_commands_close(commands);
    }
    if (status == WEFT_OK)
        status = driver_open(&driver, &slurm->driver, error);
    if (status == WEFT_OK && config->hold)
        status = pods_open(slurm, config->hold, &slurm->pods, error);
    struct taking_up taking = {slurm, WEFT_OK, error};
    if (status == WEFT_OK)
        status = remote_attempts(slurm->remote, take_up, &taking, error);
    if (status == WEFT_OK)
        status = taking.status == WEFT_OK ? driver_start(slurm->driver, error) : taking.status;
    if (status != WEFT_OK) {
        slurm_close(&slurm->engine);
        return status;
    }
    slurm->engine.descriptor = remote_descriptor(slurm->remote);
    *engine = &slurm->engine;
    return WEFT_OK;
}
