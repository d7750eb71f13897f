/* SPDX-License-Identifier: Apache-2.0 */
#include "platform/engine/slurm/internal/pods.h"

#include "platform/engine/slurm/host_list.h"
#include "platform/engine/slurm/internal/own_jobs.h"
#include "platform/engine/slurm/internal/pods_state.h"
#include "platform/engine/slurm/internal/submission.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>

#define POD_RUN DRIVER_POD "%.*s"
#define NOTICE_SECONDS                                                                                                 \
    180 /* before a job's time is over, attempts are asked to leave; at most a quarter of that time */
#define LACKING_LOOKS    3 /* at nodes of a job that waits, which others have */
#define HOLDER_MEMORY    ((uint64_t)4 << 30)
#define HOLDER_PROCESSES 65536 /* threads of all sruns of a Pod */
#define RETRY_SECONDS    5.0   /* between two jobs for a Pod, and two looks at its nodes */

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
    in->counts = in->counts || (node->state != ENGINE_NODE_ENDED && pods_has_host(in->pod, node->host));
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
    if (!own || own_jobs_hold_pod(attempt) || pods_waits(in->pods, attempt))
        return true;
    const weft_status status = remote_nodes(remote, attempt, see_node, in, NULL);
    if (status == WEFT_ERROR_STATE || (status == WEFT_OK && !in->counts))
        return true;
    in->attempts++; /* also where its nodes are not known for now */
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
                                       .launch = ENGINE_EACH_NODE,
                                       .memory = HOLDER_MEMORY,
                                       .processes = HOLDER_PROCESSES};
    if (status == WEFT_OK)
        status = submit_holder(pods, pod, &order, error);
    if (status != WEFT_OK && slurm_state(pods->slurm, &attempt).known) { /* nobody else would remove it */
        slurm_give_up(pods->slurm, &attempt, REMOTE_END_AGAIN, "its job could not be written down");
        (void)remote_forget(pods->slurm->remote, &attempt, NULL);
    }
    if (status == WEFT_OK) {
        pod->attempt = attempt;
        pod->seconds = pods->seconds;
        pod->runs = pod->leaving = pod->stuck = false;
        pod->lacking = 0;
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
           time(NULL) > found.st_mtime && (uint64_t)(time(NULL) - found.st_mtime) + notice_of(pod) > pod->seconds;
}

/* Whether a list lacks any of the names of another one. */
static bool lacks_any(const struct string_list *list, const struct string_list *names)
{
    for (size_t i = 0; i < names->count; i++)
        if (string_list_find(list, names->items[i]) == list->count)
            return true;
    return false;
}

/* Whether the next job would have nodes that this one lacks; with `own`, whether nodes of this one are no longer free. */
static bool free_hosts_differ(struct pods *pods, const struct held_pod *pod, bool own)
{
    struct string_list hosts = {0};
    const bool differ = list_free(pods, pod, &hosts, NULL) == WEFT_OK &&
                        (own ? lacks_any(&hosts, &pod->hosts) : lacks_any(&pod->hosts, &hosts));
    string_list_free(&hosts);
    return differ;
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

static void pods_let_go(struct pods *pods, struct held_pod *pod)
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
        pod->next_at = pods_after(now, RETRY_SECONDS);
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
    if (now < pod->next_at)
        return WEFT_OK;
    if (!pod->runs) {
        pod->next_at = pods_after(now, RETRY_SECONDS);
        pod->lacking = free_hosts_differ(pods, pod, true) ? pod->lacking + 1 : 0;
        if (pod->lacking >= LACKING_LOOKS) /* until their jobs have ended; the next job does without them */
            slurm_give_up(pods->slurm, &pod->attempt, REMOTE_END_AGAIN, "others have taken nodes of its Pod");
        return WEFT_OK;
    }
    pod->next_at = pods_after(now, RETRY_SECONDS);
    keep_present(pods, pod);
    if (!pod->leaving && is_nearly_over(pods, pod)) {
        pod->leaving = true;
        attempts_in(pods, pod, true);
    }
    if (pod->hosts.count && (pod->leaving || pod->stuck || free_hosts_differ(pods, pod, false)) &&
        attempts_in(pods, pod, false) == 0)
        pods_let_go(pods, pod);
    return WEFT_OK;
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
        status = pods_add_step(pods, &order->attempt, &submission, error);
    buffer_free(&command);
    if (status == WEFT_OK && pods->steps)
        pods_turn_step(pods, pods->steps); /* at once */
    return status;
}

const char *pods_lack(const struct pods *pods, const char *host)
{
    for (const struct held_pod *pod = pods->list; pod; pod = pod->next)
        if (!pod->attempt.epoch && pods_has_host(pod, host) && *pod->why)
            return pod->why;
        else if (pod->attempt.epoch && pods_has_host(pod, host))
            return !pod->runs     ? "this server's job for its Pod is in Slurm's queue"
                   : pod->leaving ? "the time of this server's job for its Pod is nearly over"
                   : pod->stuck   ? "a step did not begin in this server's job for its Pod, which is replaced"
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
    const bool every_second = clock_now() >= pods_after(pods->turned_at, 1);
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
        pods_turn_step(pods, step);
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
        pods_step_free(pods, pods->steps);
    for (struct held_pod *pod = pods->list, *next; pod; pod = next) {
        next = pod->next;
        string_list_free(&pod->hosts);
        free(pod);
    }
    free(pods);
}
