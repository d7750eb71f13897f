/* SPDX-License-Identifier: Apache-2.0 */
#include "platform/engine/slurm/internal/job.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SLOTS_MOST     64 /* of a node: with more processors, each slot stands for several */
#define JOB_STEP_BYTES (ATTEMPT_RUN_BYTES + 32)

uint32_t job_slots(const struct driver_host *host)
{
    const uint32_t slots = host->gpus ? host->gpus : host->cpus;
    return slots < SLOTS_MOST ? slots : SLOTS_MOST;
}

/* What comes with the slots of a place; of several hosts, the most processors and the least memory. */
static void need_share(struct job_needs *needs, const struct driver_host *host, uint32_t slots)
{
    const uint32_t cpus = (uint32_t)((uint64_t)slots * host->cpus / job_slots(host));
    const uint64_t memory = host->memory / job_slots(host) * slots;
    needs->cpus = cpus > needs->cpus ? cpus : needs->cpus;
    needs->gpus = host->gpus && slots > needs->gpus ? slots : needs->gpus;
    if (memory && (!needs->memory || memory < needs->memory))
        needs->memory = memory;
}

weft_status job_find_needs(struct engine_slurm *slurm, const struct engine_order *order, struct job_needs *needs,
                           struct error *error)
{
    uint32_t count;
    struct driver_host *hosts = driver_hosts(slurm->driver, &count);
    const struct driver_host *first = NULL;
    weft_status status = hosts ? WEFT_OK : error_memory(error, sizeof *hosts, "the nodes of a cluster");
    *needs = (struct job_needs){.cpus = 1};
    for (uint32_t i = 0; i < order->nodes && status == WEFT_OK; i++) {
        const struct engine_place *place = &order->places[i];
        const struct driver_host *host = NULL;
        for (uint32_t k = 0; k < count && !host; k++)
            host = strcmp(hosts[k].name, place->host) == 0 ? &hosts[k] : NULL;
        if (!host) {
            status = error_set(error, WEFT_ERROR_ARGUMENT, "there is no host '%.80s' here", place->host);
            break;
        }
        first = first ? first : host;
        needs->spans = needs->spans || strcmp(first->pod, host->pod) != 0;
        need_share(needs, host, place->count ? place->count : 1);
        buffer_print(&needs->names, "%s%s", i ? "," : "", place->host);
    }
    needs->cpus = order->processors ? order->processors : needs->cpus;
    needs->memory = order->memory ? order->memory : needs->memory;
    free(hosts);
    return status;
}

/* ---- what runs ---- */

static void write_srun(const struct engine_order *order, const struct job_needs *needs, struct buffer *text)
{
    buffer_print(text,
                 "srun --nodes=%" PRIu32 " --ntasks=%" PRIu32 " --ntasks-per-node=1 --cpus-per-task=%" PRIu32
                 " --kill-on-bad-exit=0 --wait=0 --mpi=none ",
                 order->nodes, order->nodes, needs->cpus);
    if (needs->gpus)
        buffer_print(text, "--gpus-per-node=%" PRIu32 " ", needs->gpus);
}

static void write_process(const struct engine_slurm *slurm, const struct engine_order *order, struct buffer *text)
{
    buffer_print(text, "'%s' node-host %s %s %s %" PRIu64 " '%s' '%s'", slurm->weft, slurm->server,
                 remote_print(slurm->remote), order->attempt.run, order->attempt.epoch, slurm->scratch,
                 slurm->platform);
}

/* On one node the process is the script itself. */
void job_write_script(const struct engine_slurm *slurm, const struct engine_order *order, const struct job_needs *needs,
                      const char *token, struct buffer *script)
{
    buffer_print(script, "#!/bin/sh\nunset SLURM_JWT\nexport WEFT_HOST_TOKEN=%s\nexec ", token);
    if (order->nodes > 1)
        write_srun(order, needs, script);
    write_process(slurm, order, script);
    buffer_print(script, "\n");
}

/* The name of a step, and of the file that is there while it lasts. */
static char *job_step_name(const struct attempt *attempt, char name[JOB_STEP_BYTES])
{
    snprintf(name, JOB_STEP_BYTES, "weft-%s-%" PRIu64, attempt->run, attempt->epoch);
    return name;
}

/* In a step, because the first node of a job is that which Slurm finds first. */
void job_write_holder(const struct engine_slurm *slurm, const struct engine_order *order, const char *token,
                      struct buffer *script)
{
    buffer_print(script, "#!/bin/sh\nunset SLURM_JWT\nexport WEFT_HOST_TOKEN=%s\nexec ", token);
    write_srun(order, &(struct job_needs){.cpus = 1}, script);
    buffer_print(script, "--overlap --no-kill --nodelist=%s ", order->places[0].host);
    write_process(slurm, order, script);
    buffer_print(script, "\n");
}

/* The variables of the process around it are those of another attempt, so only some are passed on. */
void job_write_step(const struct engine_slurm *slurm, const struct engine_order *order, const struct job_needs *needs,
                    struct buffer *command)
{
    char name[JOB_STEP_BYTES];
    buffer_print(
        command,
        "f=\"$WEFT_NODE_DIRECTORY/%s\"; : >\"$f\"; setsid sh -c 'f=$1; shift; \"$@\"; rm -f \"$f\"' step \"$f\" ",
        job_step_name(&order->attempt, name));
    write_srun(order, needs, command);
    buffer_print(command, "--job-name=%s ", name);
    buffer_print(command, "--exact --mem=%" PRIu64 "M --nodelist=%.*s ", needs->memory >> 20,
                 (int)buffer_size(&needs->names), (const char *)buffer_begin(&needs->names));
    buffer_print(command, "--export=WEFT_HOST_TOKEN,PATH,HOME,USER,LOGNAME,SHELL,LANG,TZ ");
    write_process(slurm, order, command);
    buffer_print(command, " >>\"$f.out\" 2>&1 </dev/null &\n");
    /* Where it does not begin, srun has said why. */
    buffer_print(command, "n=%d; while [ -e \"$f\" ] && [ $n -gt 0 ]; do sleep 0.5; n=$((n - 1)); done\n",
                 2 * JOB_STEP_SECONDS);
    buffer_print(command, "tail -n 1 \"$f.out\" >&2; [ -e \"$f\" ]");
}

void job_write_step_end(const struct attempt *attempt, struct buffer *command)
{
    char name[JOB_STEP_BYTES];
    job_step_name(attempt, name);
    buffer_print(
        command,
        "[ ! -e \"$WEFT_NODE_DIRECTORY/%s\" ] || for step in $(squeue --noheader --steps "
        "--jobs=\"$SLURM_JOB_ID\" --format='%%i|%%j' | awk -F'|' '$2 == \"%s\" { print $1 }'); do scancel \"$step\"; done",
        name, name);
}

/* ---- files ---- */

weft_status job_path(const struct engine_slurm *slurm, const struct attempt *attempt, char path[FILE_PATH_BYTES],
                     struct error *error)
{
    char directory[FILE_PATH_BYTES];
    weft_status status = node_directory(directory, slurm->directory, attempt, ATTEMPT_NODES_MOST, error);
    return status == WEFT_OK ? file_join(path, directory, "job", error) : status;
}

char *job_output(const struct engine_slurm *slurm, const struct attempt *attempt, char output[JOB_OUTPUT_BYTES])
{
    snprintf(output, JOB_OUTPUT_BYTES, "/tmp/weft-%s-%s-%" PRIu64 ".out", slurm->platform, attempt->run,
             attempt->epoch);
    return output;
}

char *job_mark(const char *token, char mark[SLURM_MARK_BYTES])
{
    snprintf(mark, SLURM_MARK_BYTES, "%.*s", SLURM_MARK_BYTES - 1, token);
    return mark;
}
