/* SPDX-License-Identifier: Apache-2.0 */
/* Attempts as steps of the jobs that hold Pods. */
#include "base/buffer.h"
#include "platform/engine/slurm/host_list.h"
#include "platform/engine/slurm/internal/pods_state.h"
#include "platform/engine/slurm/internal/submission.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define PLACE_SECONDS  15.0  /* for a step, until a job has its nodes: the job's process may be about to connect again */
#define BEGIN_SECONDS  30.0  /* for the processes of a step that was started; more than JOB_STEP_SECONDS */
#define LINGER_SECONDS 3.0   /* for srun, when all nodes of an attempt have ended */
#define SAID_BYTES     256

void pods_step_free(struct pods *pods, struct pods_step *step)
{
    struct pods_step **at = &pods->steps;
    while (*at != step)
        at = &(*at)->next;
    *at = step->next;
    node_exec_close(&step->exec);
    file_close(step->said);
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
                found += pods_has_host(pod, hosts.items[i]);
            if (pod->runs && (any ? found > 0 : !pod->leaving && !pod->stuck && found == hosts.count))
                break;
        }
    string_list_free(&hosts);
    return pod;
}

/* Run a shell's command in the node that holds the Pod; it reads nothing, and of what it prints only errors are kept, in
 * `said` unless that is -1. */
static weft_status run_for_step(struct pods *pods, struct pods_step *step, const struct held_pod *pod, const char *text,
                                int said, struct error *error)
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
        .command = command, .environment = environment, .descriptors = {ends[0], null, said < 0 ? null : said}};
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
    node_exec_close(&step->exec);
    job_write_step_end(&step->attempt, &command);
    buffer_put(&command, "", 1);
    step->cleared = true;
    if (pod && !command.failed) /* otherwise it goes with its job */
        (void)run_for_step(pods, step, pod, (const char *)buffer_begin(&command), -1, NULL);
    buffer_free(&command);
}

/* The last line that srun has printed; "": none. */
static const char *find_last_line(int said, char text[SAID_BYTES])
{
    const off_t size = lseek(said, 0, SEEK_END), room = SAID_BYTES - 1;
    ssize_t n = pread(said, text, (size_t)room, size > room ? size - room : 0);
    while (n > 0 && text[n - 1] == '\n')
        n--;
    text[n > 0 ? n : 0] = '\0';
    const char *end = strrchr(text, '\n');
    return end ? end + 1 : text;
}

/* It was started, and has not begun on all nodes. */
static void give_up_begun(struct pods *pods, const struct pods_step *step, bool any_begun)
{
    struct held_pod *pod = pod_of_step(pods, step, true);
    char said[SAID_BYTES], why[SAID_BYTES + 128];
    const char *line = find_last_line(step->said, said);
    if (pod)
        pod->stuck = true;
    snprintf(why, sizeof why, "its step in the job of Slurm that holds its Pod has not begun on all nodes%s%s",
             *line ? ": " : "", line);
    slurm_give_up(pods->slurm, &step->attempt, any_begun ? REMOTE_END_BY_HOST : REMOTE_END_AGAIN, why);
}

void pods_turn_step(struct pods *pods, struct pods_step *step)
{
    const uint64_t now = clock_now();
    const struct driver_state state = slurm_state(pods->slurm, &step->attempt);
    struct error error = {0};
    if (step->exec.descriptor >= 0 && (node_exec_hear(&step->exec, false, &error) != WEFT_OK || step->exec.ended)) {
        step->refused = step->exec.ended && (step->exec.code || step->exec.signal);
        node_exec_close(&step->exec);
    }
    if (!state.known)
        return;
    if (state.ended) {
        step->ended_at = step->ended_at ? step->ended_at : now;
        if (!step->cleared && now > pods_after(step->ended_at, LINGER_SECONDS))
            clear_step(pods, step);
        else if (step->cleared && (step->exec.descriptor < 0 || now > pods_after(step->ended_at, BEGIN_SECONDS)))
            pods_step_free(pods, step);
        return;
    }
    if (state.all_begun) {
        node_exec_close(&step->exec); /* there is nothing more to look at */
        return;
    }
    const struct held_pod *pod = step->tried_at ? NULL : pod_of_step(pods, step, false);
    if (pod && run_for_step(pods, step, pod, step->submission.script, step->said, &error) == WEFT_OK)
        step->tried_at = now;
    else if (pod)
        fprintf(stderr, "weft: %s\n", error.text); /* at the next turn */
    if (!step->tried_at && now > pods_after(step->asked_at, PLACE_SECONDS))
        slurm_give_up(pods->slurm, &step->attempt, REMOTE_END_AGAIN,
                      "the job of Slurm that held its nodes has ended, or is about to");
    else if (step->tried_at && ((step->refused && !state.any_begun) || now > pods_after(step->tried_at, BEGIN_SECONDS)))
        give_up_begun(pods, step, state.any_begun);
}

weft_status pods_add_step(struct pods *pods, const struct attempt *attempt, const struct slurm_submission *submission,
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
    step->said = memfd_create("weft-srun", MFD_CLOEXEC);
    pods->steps = step;
    weft_status status = step->said < 0 ? error_system(error, "cannot make a file for what srun prints") : WEFT_OK;
    if (status == WEFT_OK)
        status = submission_copy(submission, &step->submission, &step->texts, error);
    if (status != WEFT_OK)
        pods_step_free(pods, step);
    return status;
}

bool pods_waits(const struct pods *pods, const struct attempt *attempt)
{
    const struct pods_step *step = pods->steps;
    while (step && !attempt_same(&step->attempt, attempt))
        step = step->next;
    return step && !step->tried_at && !slurm_state(pods->slurm, attempt).any_begun;
}
