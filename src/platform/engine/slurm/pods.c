/* SPDX-License-Identifier: Apache-2.0 */
#include "platform/engine/slurm/internal/pods.h"

#include "base/clock.h"
#include "base/string_list.h"
#include "platform/engine/slurm/host_list.h"
#include "platform/engine/slurm/internal/own_jobs.h"
#include "platform/engine/slurm/internal/submission.h"

#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define POD_RUN DRIVER_POD "%.*s"
#define NOTICE_SECONDS                                                                                                 \
    180 /* before a job's time is over, attempts are asked to leave; at most a quarter of that time */
#define PLACE_SECONDS  120.0 /* for a step, until a job has its nodes: the next one may just begin */
#define BEGIN_SECONDS  30.0  /* for the processes of a step that was started */
#define LINGER_SECONDS 3.0   /* for srun, when all nodes of an attempt have ended */
#define RETRY_SECONDS  5.0   /* between two jobs for a Pod, and two looks at its nodes */

/* A Pod, and the job that holds it. */
struct held_pod {
    char run[ATTEMPT_RUN_BYTES]; /* "pod-NAME" */
    struct attempt attempt;      /* epoch 0: no job */
    struct string_list hosts;    /* of the job */
    uint64_t seconds;            /* of its time limit */
    bool runs, leaving;          /* its process is there; it is to end */
    bool stuck;                  /* a step did not begin: Slurm counts processors that an older one had */
    char why[ERROR_TEXT_BYTES];  /* the last job has ended */
    uint64_t next_at;            /* when the next job, or look, may be */
    struct held_pod *next;
};

/* An attempt in a Pod. */
struct pods_step {
    struct attempt attempt;
    struct slurm_submission submission; /* of its script, nodes and their list */
    char *texts;
    uint64_t asked_at, tried_at, ended_at; /* 0: not started; not ended */
    bool cleared;                          /* what was left of it is ended */
    struct node_exec exec;                 /* the command that starts it, or ends it */
    struct pods_step *next;
};

struct pods {
    struct engine_slurm *slurm;
    uint64_t seconds;
    struct held_pod *list;
    struct pods_step *steps;
    uint64_t turned_at;
};

static uint64_t after(uint64_t since, double seconds)
{
    return since + (uint64_t)(seconds * 1e9);
}

bool pods_hold(const struct attempt *attempt)
{
    return own_jobs_hold_pod(attempt);
}

bool pods_is_step(const struct slurm_submission *submission)
{
    return submission->script && strncmp(submission->script, "#!", 2) != 0;
}

/* The run of a Pod's jobs: its name, with '_' for what no run's name has. */
static void name_run(const char *pod, char run[ATTEMPT_RUN_BYTES])
{
    static const char letters[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_.";
    snprintf(run, ATTEMPT_RUN_BYTES, POD_RUN, (int)(ATTEMPT_RUN_BYTES - sizeof DRIVER_POD), *pod ? pod : "all");
    for (char *at = run; *at; at++)
        *at = strchr(letters, *at) ? *at : '_';
}

static struct held_pod *find_held(struct pods *pods, const char *run, struct error *error)
{
    struct held_pod *pod = pods->list;
    while (pod && strcmp(pod->run, run) != 0)
        pod = pod->next;
    if (!pod && (pod = calloc(1, sizeof *pod))) {
        snprintf(pod->run, sizeof pod->run, "%s", run);
        pod->next = pods->list;
        pods->list = pod;
    }
    if (!pod)
        error_memory(error, sizeof *pod, "a Pod");
    return pod;
}

static bool has_host(const struct held_pod *pod, const char *host)
{
    return string_list_find(&pod->hosts, host) < pod->hosts.count;
}

/* ---- what runs in a Pod ---- */

struct in_pod {
    struct pods *pods;
    const struct held_pod *pod;
    bool stop; /* ask them for a checkpoint */
    bool counts;
    uint32_t attempts;
};

static bool see_node(void *context, const struct engine_node *node)
{
    struct in_pod *in = context;
    in->counts = in->counts || (node->state != ENGINE_NODE_ENDED && has_host(in->pod, node->host));
    return !in->counts;
}

static uint64_t notice_of(const struct held_pod *pod)
{
    const uint64_t quarter = pod->seconds / 4;
    return quarter < NOTICE_SECONDS ? quarter : NOTICE_SECONDS;
}

static bool see_attempt(void *context, const struct attempt *attempt, uint32_t nodes, bool own)
{
    struct in_pod *in = context;
    struct remote *remote = in->pods->slurm->remote;
    struct error error = {0};
    (void)nodes;
    in->counts = false;
    if (!own || pods_hold(attempt))
        return true;
    if (remote_nodes(remote, attempt, see_node, in, NULL) != WEFT_OK || !in->counts)
        return true;
    in->attempts++;
    if (in->stop && remote_stop(remote, attempt, ENGINE_CHECKPOINT, notice_of(in->pod) * 750, &error) != WEFT_OK)
        fprintf(stderr, "weft: %s\n", error.text);
    return true;
}

/* How many attempts are in a Pod; with `stop`, they are asked to leave. */
static uint32_t attempts_in(struct pods *pods, const struct held_pod *pod, bool stop)
{
    struct in_pod in = {pods, pod, stop, false, 0};
    struct error error = {0};
    if (remote_attempts(pods->slurm->remote, see_attempt, &in, &error) == WEFT_OK)
        return in.attempts;
    fprintf(stderr, "weft: %s\n", error.text);
    return UINT32_MAX; /* not known: not none */
}

/* ---- jobs ---- */

/* The free hosts of a Pod: those of the next job. */
static weft_status list_free(struct pods *pods, const struct held_pod *pod, struct string_list *hosts,
                             struct error *error)
{
    uint32_t count;
    char run[ATTEMPT_RUN_BYTES];
    struct driver_host *all = driver_hosts(pods->slurm->driver, &count);
    weft_status status = all ? WEFT_OK : error_memory(error, sizeof *all, "the nodes of a cluster");
    for (uint32_t i = 0; all && i < count && status == WEFT_OK; i++) {
        name_run(all[i].pod, run);
        if (all[i].up && strcmp(run, pod->run) == 0)
            status = string_list_add(hosts, all[i].name, error);
    }
    free(all);
    return status;
}

static weft_status submit_holder(struct pods *pods, struct held_pod *pod, const struct engine_order *order,
                                 struct error *error)
{
    struct engine_slurm *slurm = pods->slurm;
    struct buffer script = {0}, names = {0};
    char token[REMOTE_TOKEN_BYTES], mark[SLURM_MARK_BYTES], name[ATTEMPT_RUN_BYTES + 8], output[JOB_OUTPUT_BYTES],
        path[FILE_PATH_BYTES];
    weft_status status = remote_order(slurm->remote, order, token, error);
    if (status == WEFT_OK)
        status = job_path(slurm, &order->attempt, path, error);
    if (status != WEFT_OK)
        return status;
    for (size_t i = 0; i < pod->hosts.count; i++)
        buffer_print(&names, "%s%s", i ? "," : "", pod->hosts.items[i]);
    buffer_put(&names, "", 1);
    job_write_holder(slurm, order, token, &script);
    buffer_put(&script, "", 1);
    snprintf(name, sizeof name, "weft-%s", pod->run);
    const struct slurm_submission submission = {.name = name,
                                                .node_list = (const char *)buffer_begin(&names),
                                                .nodes = (uint32_t)pod->hosts.count,
                                                .seconds = pods->seconds,
                                                .exclusive = true,
                                                .directory = "/",
                                                .output = job_output(slurm, &order->attempt, output),
                                                .script = (const char *)buffer_begin(&script)};
    status =
        names.failed || script.failed ? error_memory(error, 4096, "a job") : submission_save(path, &submission, error);
    if (status == WEFT_OK)
        status = driver_submit(slurm->driver, &order->attempt, job_mark(token, mark), &submission, DRIVER_NEW, error);
    buffer_free(&names);
    buffer_free(&script);
    return status;
}

/* Ask Slurm for the free nodes of a Pod. */
static weft_status hold(struct pods *pods, struct held_pod *pod, struct error *error)
{
    char *command[] = {"sleep", "infinity", NULL}, *environment[] = {"PATH=/usr/local/bin:/usr/bin:/bin", NULL};
    const uint32_t slot = 0;
    struct attempt attempt = {0};
    string_list_free(&pod->hosts);
    weft_status status = list_free(pods, pod, &pod->hosts, error);
    if (status != WEFT_OK || pod->hosts.count == 0)
        return status;
    snprintf(attempt.run, sizeof attempt.run, "%s", pod->run);
    status = node_fence_read(pods->slurm->directory, pod->run, &attempt.epoch, error);
    attempt.epoch++;
    const struct engine_place place = {pod->hosts.items[0], &slot, 1};
    const struct engine_files files = {pods->slurm->directory, ""};
    const struct engine_order order = {.attempt = attempt,
                                       .places = &place,
                                       .nodes = 1,
                                       .command = command,
                                       .environment = environment,
                                       .directory = "/",
                                       .files = pods->slurm->shared ? NULL : &files,
                                       .launch = ENGINE_EACH_NODE};
    if (status == WEFT_OK)
        status = submit_holder(pods, pod, &order, error);
    if (status == WEFT_OK) {
        pod->attempt = attempt;
        pod->seconds = pods->seconds;
        pod->runs = pod->leaving = pod->stuck = false;
    }
    return status;
}

/* Whether the time of a job is nearly over. It began when its process came. */
static bool is_nearly_over(const struct pods *pods, const struct held_pod *pod)
{
    char directory[FILE_PATH_BYTES], path[FILE_PATH_BYTES];
    struct stat found;
    return node_directory(directory, pods->slurm->directory, &pod->attempt, 0, NULL) == WEFT_OK &&
           file_join(path, directory, "instance", NULL) == WEFT_OK && stat(path, &found) == 0 &&
           (uint64_t)(time(NULL) - found.st_mtime) + notice_of(pod) > pod->seconds;
}

/* Whether the next job would have nodes that this one lacks. */
static bool lacks_free_hosts(struct pods *pods, const struct held_pod *pod)
{
    struct string_list hosts = {0};
    bool lacks = false;
    if (list_free(pods, pod, &hosts, NULL) == WEFT_OK)
        for (size_t i = 0; i < hosts.count; i++)
            lacks = lacks || !has_host(pod, hosts.items[i]);
    string_list_free(&hosts);
    return lacks;
}

/* A job goes on without nodes that fail; they are not its own any more when they are back. */
static void keep_present(struct pods *pods, struct held_pod *pod)
{
    struct string_list present = {0};
    if (driver_nodes(pods->slurm->driver, &pod->attempt, &present, NULL) == WEFT_OK && present.count) {
        string_list_free(&pod->hosts);
        pod->hosts = present;
    } else {
        string_list_free(&present);
    }
}

static void let_go(struct pods *pods, struct held_pod *pod)
{
    struct error error = {0};
    pod->leaving = true;
    if (remote_stop(pods->slurm->remote, &pod->attempt, ENGINE_KILL, 0, &error) != WEFT_OK &&
        error.status != WEFT_ERROR_STATE)
        fprintf(stderr, "weft: %s\n", error.text);
}

/* Keep why a job has ended, for people. */
static bool see_end(void *context, const struct journal_record *record)
{
    struct held_pod *pod = context;
    if (journal_is_end(record->kind))
        snprintf(pod->why, sizeof pod->why, "%.*s", (int)record->size, record->size ? (const char *)record->text : "");
    return true;
}

static weft_status turn_pod(struct pods *pods, struct held_pod *pod, struct error *error)
{
    const uint64_t now = clock_now();
    if (!pod->attempt.epoch) {
        if (now < pod->next_at)
            return WEFT_OK;
        pod->next_at = after(now, RETRY_SECONDS);
        return hold(pods, pod, error);
    }
    const struct driver_state state = slurm_state(pods->slurm, &pod->attempt);
    if (!state.known)
        return WEFT_OK;
    pod->runs = state.all_begun && !state.ended;
    if (state.ended) {
        (void)remote_poll(pods->slurm->remote, &pod->attempt, 0, 0, see_end, pod, NULL);
        driver_cancel(pods->slurm->driver, &pod->attempt);
        weft_status status = remote_forget(pods->slurm->remote, &pod->attempt, error);
        if (status == WEFT_OK)
            pod->attempt.epoch = 0;
        return status == WEFT_ERROR_STATE ? WEFT_OK : status; /* its host is still saying goodbye */
    }
    if (!pod->runs || now < pod->next_at)
        return WEFT_OK;
    pod->next_at = after(now, RETRY_SECONDS);
    keep_present(pods, pod);
    if (!pod->leaving && is_nearly_over(pods, pod)) {
        pod->leaving = true;
        attempts_in(pods, pod, true);
    }
    if ((pod->leaving || pod->stuck || lacks_free_hosts(pods, pod)) && attempts_in(pods, pod, false) == 0)
        let_go(pods, pod);
    return WEFT_OK;
}

/* ---- steps ---- */

static void step_free(struct pods *pods, struct pods_step *step)
{
    struct pods_step **at = &pods->steps;
    while (*at != step)
        at = &(*at)->next;
    *at = step->next;
    node_exec_close(&step->exec);
    free(step->texts);
    free(step);
}

/* The job that has all nodes of a step, or `any` of them; NULL: none now. */
static struct held_pod *pod_of_step(struct pods *pods, const struct pods_step *step, bool any)
{
    struct string_list hosts = {0};
    struct held_pod *pod = NULL;
    if (slurm_host_list(step->submission.node_list, &hosts, NULL) == WEFT_OK)
        for (pod = pods->list; pod; pod = pod->next) {
            size_t found = 0;
            for (size_t i = 0; i < hosts.count; i++)
                found += has_host(pod, hosts.items[i]);
            if (pod->runs && (any ? found > 0 : !pod->leaving && found == hosts.count))
                break;
        }
    string_list_free(&hosts);
    return pod;
}

/* Run a shell's command in the node that holds the Pod; it reads nothing, and what it prints is lost. */
static weft_status run_for_step(struct pods *pods, struct pods_step *step, const struct held_pod *pod, const char *text,
                                struct error *error)
{
    char token[REMOTE_TOKEN_BYTES], variable[REMOTE_TOKEN_BYTES + 20];
    char *command[] = {"sh", "-c", (char *)text, NULL}, *environment[] = {variable, NULL};
    int ends[2], null = -1;
    weft_status status = remote_token(pods->slurm->remote, &step->attempt, token, error);
    if (status != WEFT_OK)
        return status;
    snprintf(variable, sizeof variable, "WEFT_HOST_TOKEN=%s", token);
    if (pipe2(ends, O_CLOEXEC) != 0)
        return error_system(error, "cannot make the pipe of a command");
    file_close(ends[1]);
    null = open("/dev/null", O_WRONLY | O_CLOEXEC);
    const struct node_exec_order order = {
        .command = command, .environment = environment, .descriptors = {ends[0], null, null}};
    status = null < 0 ? error_system(error, "cannot open '/dev/null'")
                      : remote_exec(pods->slurm->remote, &pod->attempt, 0, &order, &step->exec, error);
    file_close(ends[0]);
    file_close(null);
    return status;
}

/* srun waits for all of its tasks, also for those of a node that has died and is back, and its step would keep its processors. */
static void clear_step(struct pods *pods, struct pods_step *step)
{
    struct buffer command = {0};
    const struct held_pod *pod = pod_of_step(pods, step, true);
    job_write_step_end(&step->attempt, &command);
    buffer_put(&command, "", 1);
    step->cleared = true;
    if (pod && !command.failed) /* otherwise it goes with its job */
        (void)run_for_step(pods, step, pod, (const char *)buffer_begin(&command), NULL);
    buffer_free(&command);
}

/* It was started, and has not begun on all nodes. */
static void give_up_begun(struct pods *pods, const struct pods_step *step, bool any_begun)
{
    struct held_pod *pod = pod_of_step(pods, step, true);
    if (pod)
        pod->stuck = true;
    slurm_give_up(pods->slurm, &step->attempt, any_begun ? REMOTE_END_BY_HOST : REMOTE_END_AGAIN,
                  "its step in the job of Slurm that holds its Pod has not begun on all nodes");
}

static void turn_step(struct pods *pods, struct pods_step *step)
{
    const uint64_t now = clock_now();
    const struct driver_state state = slurm_state(pods->slurm, &step->attempt);
    struct error error = {0};
    if (step->exec.descriptor >= 0 && (node_exec_hear(&step->exec, false, &error) != WEFT_OK || step->exec.ended))
        node_exec_close(&step->exec);
    if (!state.known)
        return;
    if (state.ended) {
        step->ended_at = step->ended_at ? step->ended_at : now;
        if (!step->cleared && now > after(step->ended_at, LINGER_SECONDS))
            clear_step(pods, step);
        else if (step->cleared && (step->exec.descriptor < 0 || now > after(step->ended_at, BEGIN_SECONDS)))
            step_free(pods, step);
        return;
    }
    if (state.all_begun)
        return;
    const struct held_pod *pod = step->tried_at ? NULL : pod_of_step(pods, step, false);
    if (pod && run_for_step(pods, step, pod, step->submission.script, &error) == WEFT_OK)
        step->tried_at = now;
    else if (pod)
        fprintf(stderr, "weft: %s\n", error.text); /* at the next turn */
    if (!step->tried_at && now > after(step->asked_at, PLACE_SECONDS))
        slurm_give_up(pods->slurm, &step->attempt, REMOTE_END_AGAIN,
                      "the job of Slurm that held its nodes has ended, or is about to");
    else if (step->tried_at && now > after(step->tried_at, BEGIN_SECONDS))
        give_up_begun(pods, step, state.any_begun);
}

static weft_status step_add(struct pods *pods, const struct attempt *attempt, const struct slurm_submission *submission,
                            struct error *error)
{
    for (const struct pods_step *each = pods->steps; each; each = each->next)
        if (attempt_same(&each->attempt, attempt))
            return WEFT_OK;
    struct pods_step *step = calloc(1, sizeof *step);
    if (!step)
        return error_memory(error, sizeof *step, "a step");
    *step = (struct pods_step){
        .attempt = *attempt, .asked_at = clock_now(), .exec = {.descriptor = -1}, .next = pods->steps};
    pods->steps = step;
    weft_status status = submission_copy(submission, &step->submission, &step->texts, error);
    if (status != WEFT_OK)
        step_free(pods, step);
    return status;
}

/* ---- for the engine ---- */

weft_status pods_check(const struct pods *pods, const struct engine_order *order, const struct job_needs *needs,
                       struct error *error)
{
    if (order->user && *order->user && strcmp(order->user, pods->slurm->user) != 0)
        return error_set(error, WEFT_ERROR_ARGUMENT,
                         "the run is to be user %s's, but the jobs that hold Pods are user %s's: start the server "
                         "without --hold-pods, or the run with that account",
                         order->user, *pods->slurm->user ? pods->slurm->user : "of the login node");
    if (needs->spans)
        return error_set(error, WEFT_ERROR_ARGUMENT,
                         "the run's nodes are in several Pods, and each Pod is held by a job of its own: submit it "
                         "without --span-pods");
    return WEFT_OK;
}

weft_status pods_start(struct pods *pods, const struct engine_order *order, const struct job_needs *needs,
                       struct error *error)
{
    char path[FILE_PATH_BYTES];
    struct buffer command = {0};
    weft_status status = job_path(pods->slurm, &order->attempt, path, error);
    if (status != WEFT_OK)
        return status;
    job_write_step(pods->slurm, order, needs, &command);
    buffer_put(&command, "", 1);
    const struct slurm_submission submission = {.name = order->attempt.run,
                                                .node_list = (const char *)buffer_begin(&needs->names),
                                                .nodes = order->nodes,
                                                .directory = "/",
                                                .output = "/dev/null",
                                                .script = (const char *)buffer_begin(&command)};
    status = command.failed ? error_memory(error, 4096, "a step") : WEFT_OK;
    if (status == WEFT_OK && !file_exists(path))
        status = submission_save(path, &submission, error);
    if (status == WEFT_OK)
        status = step_add(pods, &order->attempt, &submission, error);
    buffer_free(&command);
    if (status == WEFT_OK && pods->steps)
        turn_step(pods, pods->steps); /* at once */
    return status;
}

const char *pods_lack(const struct pods *pods, const char *host)
{
    for (const struct held_pod *pod = pods->list; pod; pod = pod->next)
        if (!pod->attempt.epoch && has_host(pod, host) && *pod->why)
            return pod->why;
        else if (pod->attempt.epoch && has_host(pod, host))
            return !pod->runs     ? "this server's job for its Pod is in Slurm's queue"
                   : pod->leaving ? "the time of this server's job for its Pod is nearly over"
                                  : NULL;
    return "it comes into this server's next job for its Pod";
}

/* Every Pod that has nodes is in the list. */
static weft_status find_pods(struct pods *pods, struct error *error)
{
    uint32_t count;
    char run[ATTEMPT_RUN_BYTES];
    struct driver_host *hosts = driver_hosts(pods->slurm->driver, &count);
    weft_status status = hosts ? WEFT_OK : error_memory(error, sizeof *hosts, "the nodes of a cluster");
    for (uint32_t i = 0; hosts && i < count && status == WEFT_OK; i++) {
        name_run(hosts[i].pod, run);
        if (!find_held(pods, run, error))
            status = WEFT_ERROR_MEMORY;
    }
    free(hosts);
    return status;
}

void pods_turn(struct pods *pods)
{
    struct error error = {0};
    const bool every_second = clock_now() >= after(pods->turned_at, 1);
    if (!every_second)
        return;
    pods->turned_at = clock_now();
    for (struct held_pod *pod = pods->list; pod; pod = pod->next)
        if (turn_pod(pods, pod, &error) != WEFT_OK) {
            fprintf(stderr, "weft: %s\n", error.text);
            error_clear(&error);
        }
    for (struct pods_step *step = pods->steps, *next; step; step = next) {
        next = step->next;
        turn_step(pods, step);
    }
}

weft_status pods_take(struct pods *pods, const struct attempt *attempt, const struct slurm_submission *submission,
                      struct error *error)
{
    struct held_pod *pod = find_held(pods, attempt->run, error);
    if (!pod)
        return WEFT_ERROR_MEMORY;
    if (pod->attempt.epoch >= attempt->epoch)
        return WEFT_OK; /* the newer one counts */
    string_list_free(&pod->hosts);
    pod->attempt = *attempt;
    pod->seconds = submission ? submission->seconds : pods->seconds;
    pod->leaving = !submission; /* which nodes it has is not known any more */
    return submission ? slurm_host_list(submission->node_list, &pod->hosts, error) : WEFT_OK;
}

weft_status pods_take_step(struct pods *pods, const struct attempt *attempt, const struct slurm_submission *submission,
                           struct error *error)
{
    return step_add(pods, attempt, submission, error);
}

weft_status pods_open(struct engine_slurm *slurm, uint64_t seconds, struct pods **pods, struct error *error)
{
    struct pods *made = calloc(1, sizeof *made);
    if (!made)
        return error_memory(error, sizeof *made, "Pods");
    *made = (struct pods){.slurm = slurm, .seconds = seconds};
    weft_status status = find_pods(made, error);
    if (status == WEFT_OK)
        *pods = made;
    else
        pods_close(made);
    return status;
}

void pods_close(struct pods *pods)
{
    if (!pods)
        return;
    while (pods->steps)
        step_free(pods, pods->steps);
    for (struct held_pod *pod = pods->list, *next; pod; pod = next) {
        next = pod->next;
        string_list_free(&pod->hosts);
        free(pod);
    }
    free(pods);
}
