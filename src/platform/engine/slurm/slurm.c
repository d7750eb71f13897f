/* SPDX-License-Identifier: Apache-2.0 */
#include "platform/engine/slurm/slurm.h"

#include "base/buffer.h"
#include "base/file/file.h"
#include "platform/engine/remote/remote.h"
#include "platform/engine/slurm/internal/driver.h"
#include "platform/engine/slurm/internal/submission.h"

#include <errno.h>
#include <inttypes.h>
#include <pwd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define MARK_DIGITS   16  /* of the token, in a job's comment */
#define SPARE_SECONDS 120 /* of the job's time limit beyond the attempt's: Slurm checks every 30 s */
#define GRACE         30000
#define SLOTS_MOST    64 /* of a node: with more processors, each slot stands for several */

struct engine_slurm {
    struct engine engine; /* first */
    struct remote *remote;
    struct driver *driver;
    char directory[FILE_PATH_BYTES], scratch[FILE_PATH_BYTES], weft[FILE_PATH_BYTES];
    char platform[NODE_PLATFORM_BYTES], server[300];
    bool shared;
};

static struct engine_slurm *slurm_of(struct engine *engine)
{
    return (struct engine_slurm *)engine;
}

/* ---- hosts ---- */

static uint32_t slots_of(const struct driver_host *host)
{
    const uint32_t slots = host->gpus ? host->gpus : host->cpus;
    return slots < SLOTS_MOST ? slots : SLOTS_MOST;
}

static weft_status slurm_hosts(struct engine *engine, engine_host_visit *visit, void *context, struct error *error)
{
    uint32_t count;
    struct driver_host *hosts = driver_hosts(slurm_of(engine)->driver, &count);
    if (!hosts)
        return error_memory(error, sizeof *hosts, "the nodes of a cluster");
    for (uint32_t i = 0; i < count; i++) {
        const struct driver_host *that = &hosts[i];
        const struct engine_host host = {that->name, that->pod,    slots_of(that), that->gpus > 0,
                                         that->up,   that->reason, that->cpus,     (int64_t)that->memory};
        if (!visit(context, &host))
            break;
    }
    free(hosts);
    return WEFT_OK;
}

/* ---- jobs ---- */

/* What each node of an order needs of Slurm. */
struct needs {
    uint32_t cpus, gpus;
    uint64_t memory;     /* 0: not known */
    struct buffer names; /* "n1,n2" */
};

/* What comes with the slots of a place; of several hosts, the most processors and the least memory. */
static void need_share(struct needs *needs, const struct driver_host *host, uint32_t slots)
{
    const uint32_t cpus = (uint32_t)((uint64_t)slots * host->cpus / slots_of(host));
    const uint64_t memory = host->memory / slots_of(host) * slots;
    needs->cpus = cpus > needs->cpus ? cpus : needs->cpus;
    needs->gpus = host->gpus && slots > needs->gpus ? slots : needs->gpus;
    if (memory && (!needs->memory || memory < needs->memory))
        needs->memory = memory;
}

static weft_status find_needs(struct engine_slurm *slurm, const struct engine_order *order, struct needs *needs,
                              struct error *error)
{
    uint32_t count;
    struct driver_host *hosts = driver_hosts(slurm->driver, &count);
    weft_status status = hosts ? WEFT_OK : error_memory(error, sizeof *hosts, "the nodes of a cluster");
    *needs = (struct needs){.cpus = 1};
    for (uint32_t i = 0; i < order->nodes && status == WEFT_OK; i++) {
        const struct engine_place *place = &order->places[i];
        const struct driver_host *host = NULL;
        for (uint32_t k = 0; k < count && !host; k++)
            host = strcmp(hosts[k].name, place->host) == 0 ? &hosts[k] : NULL;
        if (!host) {
            status = error_set(error, WEFT_ERROR_ARGUMENT, "there is no host '%.80s' here", place->host);
            break;
        }
        need_share(needs, host, place->count ? place->count : 1);
        buffer_print(&needs->names, "%s%s", i ? "," : "", place->host);
    }
    needs->cpus = order->processors ? order->processors : needs->cpus;
    needs->memory = order->memory ? order->memory : needs->memory;
    free(hosts);
    return status;
}

/* The job's script: on each node, the process that has the node. On one node it is the script itself. */
static void write_script(const struct engine_slurm *slurm, const struct engine_order *order, const struct needs *needs,
                         const char *token, struct buffer *script)
{
    buffer_print(script, "#!/bin/sh\nunset SLURM_JWT\nexport WEFT_HOST_TOKEN=%s\nexec ", token);
    if (order->nodes > 1) {
        buffer_print(script,
                     "srun --nodes=%" PRIu32 " --ntasks=%" PRIu32 " --ntasks-per-node=1 --cpus-per-task=%" PRIu32
                     " --kill-on-bad-exit=0 --wait=0 --mpi=none ",
                     order->nodes, order->nodes, needs->cpus);
        if (needs->gpus)
            buffer_print(script, "--gpus-per-node=%" PRIu32 " ", needs->gpus);
    }
    buffer_print(script, "'%s' node-host %s %s %s %" PRIu64 " '%s' '%s'\n", slurm->weft, slurm->server,
                 remote_print(slurm->remote), order->attempt.run, order->attempt.epoch, slurm->scratch,
                 slurm->platform);
}

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

/* The file with the job of an attempt, for the next start of the server. */
static weft_status job_path(const struct engine_slurm *slurm, const struct attempt *attempt, char path[FILE_PATH_BYTES],
                            struct error *error)
{
    char directory[FILE_PATH_BYTES];
    weft_status status = node_directory(directory, slurm->directory, attempt, ATTEMPT_NODES_MOST, error);
    return status == WEFT_OK ? file_join(path, directory, "job", error) : status;
}

static char *mark_of(const char *token, char mark[MARK_DIGITS + 1])
{
    snprintf(mark, MARK_DIGITS + 1, "%.*s", MARK_DIGITS, token);
    return mark;
}

static weft_status slurm_start(struct engine *engine, const struct engine_order *order, struct error *error)
{
    struct engine_slurm *slurm = slurm_of(engine);
    char token[REMOTE_TOKEN_BYTES], mark[MARK_DIGITS + 1], name[ATTEMPT_RUN_BYTES + 8], output[FILE_PATH_BYTES + 64],
        path[FILE_PATH_BYTES];
    struct needs needs;
    struct buffer script = {0};
    weft_status status = find_needs(slurm, order, &needs, error);
    if (status == WEFT_OK)
        status = remote_order(slurm->remote, order, token, error);
    if (status == WEFT_OK && slurm->shared)
        status = raise_shared_fence(order, error);
    if (status == WEFT_OK)
        status = job_path(slurm, &order->attempt, path, error);
    if (status != WEFT_OK) {
        buffer_free(&needs.names);
        return status;
    }
    write_script(slurm, order, &needs, token, &script);
    buffer_put(&script, "", 1);
    buffer_put(&needs.names, "", 1);
    snprintf(name, sizeof name, "weft-%s", order->attempt.run);
    snprintf(output, sizeof output, "/tmp/weft-%s-%s-%" PRIu64 ".out", slurm->platform, order->attempt.run,
             order->attempt.epoch);
    const uint64_t limit = order->time_limit ? order->time_limit + (order->grace ? order->grace : GRACE) : 0;
    const struct slurm_submission submission = {.name = name,
                                                .node_list = (const char *)buffer_begin(&needs.names),
                                                .nodes = order->nodes,
                                                .cpus_per_node = needs.cpus,
                                                .gpus_per_node = needs.gpus,
                                                .memory_per_node = needs.memory,
                                                .seconds = limit ? limit / 1000 + SPARE_SECONDS : 0,
                                                .user = order->user && *order->user ? order->user : NULL,
                                                .directory = "/",
                                                .output = output,
                                                .script = (const char *)buffer_begin(&script)};
    const bool is_new = !file_exists(path);
    status = script.failed || needs.names.failed ? error_memory(error, 4096, "a job") : WEFT_OK;
    if (status == WEFT_OK && is_new)
        status = submission_save(path, &submission, error);
    if (status == WEFT_OK)
        status = driver_submit(slurm->driver, &order->attempt, mark_of(token, mark), &submission,
                               is_new ? DRIVER_NEW : DRIVER_LOOKS_FIRST, error);
    buffer_free(&script);
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

/* For the driver, on its thread. */
static struct driver_state tell_state(void *context, const struct attempt *attempt)
{
    struct engine_slurm *slurm = context;
    struct counted counted = {0};
    const weft_status status = remote_nodes(slurm->remote, attempt, count_node, &counted, NULL);
    if (status == WEFT_ERROR_STATE) /* it was forgotten */
        return (struct driver_state){.known = true, .all_begun = true, .any_begun = true, .ended = true};
    return (struct driver_state){.known = status == WEFT_OK,
                                 .all_begun = counted.begun == counted.nodes,
                                 .any_begun = counted.begun > 0,
                                 .ended = status == WEFT_OK && counted.ended == counted.nodes};
}

static void give_up(void *context, const struct attempt *attempt, enum remote_end how, const char *reason)
{
    struct engine_slurm *slurm = context;
    struct error error = {0};
    if (remote_give_up(slurm->remote, attempt, how, reason, &error) != WEFT_OK && error.status != WEFT_ERROR_STATE)
        fprintf(stderr, "weft: %s\n", error.text);
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
    char path[FILE_PATH_BYTES], mark[MARK_DIGITS + 1], token[REMOTE_TOKEN_BYTES], *texts = NULL;
    (void)nodes;
    const struct driver_state state = own ? tell_state(slurm, attempt) : (struct driver_state){.ended = true};
    if (state.ended)
        return true;
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
    taking->status = driver_submit(slurm->driver, attempt, mark_of(token, mark), read ? &submission : NULL,
                                   state.all_begun ? DRIVER_HAS_BEGUN : DRIVER_LOOKS_FIRST, taking->error);
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
    return remote_heard(slurm_of(engine)->remote, visit, context, error);
}

static weft_status slurm_attempts(struct engine *engine, engine_attempt_visit *visit, void *context,
                                  struct error *error)
{
    return remote_attempts(slurm_of(engine)->remote, visit, context, error);
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

/* NULL: it has no name. */
static const char *own_user(char *user, size_t room)
{
    const struct passwd *own = getpwuid(geteuid());
    if (own)
        snprintf(user, room, "%s", own->pw_name);
    return own ? user : NULL;
}

weft_status engine_slurm_open(const struct engine_slurm_config *config, struct engine **engine, struct error *error)
{
    struct slurm_commands *commands;
    char hosts[FILE_PATH_BYTES], user[64];
    struct engine_slurm *slurm = calloc(1, sizeof *slurm);
    if (!slurm)
        return error_memory(error, sizeof *slurm, "the engine of Slurm");
    slurm->engine = (struct engine){
        .name = "slurm",
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
    snprintf(slurm->platform, sizeof slurm->platform, "%s", config->platform);
    char *run[] = {slurm->weft, "run", NULL};
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
                                         .user = config->login ? NULL : own_user(user, sizeof user),
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
