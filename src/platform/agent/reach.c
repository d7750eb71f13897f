/* SPDX-License-Identifier: Apache-2.0 */
#include "platform/agent/reach.h"

#include "base/clock.h"
#include "platform/agent/agent.h"
#include "platform/agent/link.h"
#include "platform/agent/order.h"

#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define FAILED        255  /* as in ssh */
#define BEGIN_SECONDS 30.0 /* for the other node's agent to begin */
#define LOOK_MS       10

/* The index of `host` in "a:8,b:8", the hosts of the nodes in order; -1: none. */
static int reach_find_host(const char *hosts, const char *host)
{
    size_t length = strlen(host);
    for (int node = 0; *hosts; node++) {
        size_t entry = strcspn(hosts, ",");
        if (entry > length && strncmp(hosts, host, length) == 0 && hosts[length] == ':')
            return node;
        hosts += entry + (hosts[entry] == ',');
    }
    return -1;
}

/*
 * The directory of the node on `host`, beside `directory`. The hosts are in the order there; another user cannot read
 * that and has them in the environment.
 */
static weft_status reach_find_node(const char *directory, const char *host, char found[FILE_PATH_BYTES],
                                   struct error *error)
{
    struct node_order own = {0};
    char attempt[FILE_PATH_BYTES], name[16];
    const char *hosts = getenv("WEFT_NODE_HOSTS");
    weft_status status = node_order_load(directory, &own, error);
    if (status != WEFT_OK && !hosts)
        return status;
    int node = reach_find_host(status == WEFT_OK ? own.hosts : hosts, host);
    node_order_free(&own);
    if (node < 0)
        return error_set(error, WEFT_ERROR_ARGUMENT, "no node of this attempt is on host '%.80s'", host);
    snprintf(attempt, sizeof attempt, "%s", directory);
    char *slash = strrchr(attempt, '/');
    if (slash)
        *slash = '\0';
    snprintf(name, sizeof name, "%d", node);
    return file_join(found, attempt, name, error);
}

static char *reach_join(char *const *words)
{
    size_t size = 1;
    for (char *const *word = words; *word; word++)
        size += strlen(*word) + 1;
    char *line = calloc(1, size);
    for (char *const *word = words; line && *word; word++) {
        strcat(line, *word);
        if (word[1])
            strcat(line, " ");
    }
    return line;
}

/* Whether the agent of a node may still start listening. Always true for another user, who cannot read the lock. */
static bool is_to_begin(const char *directory)
{
    int64_t process;
    const enum node_life life = node_agent_life(directory, &process);
    return life == NODE_NOT_BEGUN || (life == NODE_LIVES && process == 0);
}

/*
 * All nodes of an attempt start together, so the other agent may not listen yet. Check its state before connecting: an
 * agent that begins in between is found by the next try.
 */
static weft_status reach_begin(const char *directory, const struct node_exec_order *order, struct node_exec *exec,
                               struct error *error)
{
    const uint64_t end = clock_after(BEGIN_SECONDS);
    for (;;) {
        const bool soon = is_to_begin(directory) && clock_now() < end;
        const weft_status status = node_exec_begin(directory, order, exec, error);
        if (status != WEFT_ERROR_SYSTEM || !soon)
            return status;
        error_clear(error);
        poll(NULL, 0, LOOK_MS);
    }
}

/*
 * The other node is on another machine, and this is a job of Slurm: run this program there, in a step of the job, with the
 * same words. It then finds the node in its own machine's directories. Returns only if that fails.
 */
static void reach_by_srun(const char *directory, const char *host, char *line)
{
    char program[FILE_PATH_BYTES], job[64];
    const ssize_t length = readlink("/proc/self/exe", program, sizeof program - 1);
    if (length < 0)
        return;
    program[length] = '\0';
    snprintf(job, sizeof job, "--jobid=%s", getenv("SLURM_JOB_ID"));
    execlp("srun", "srun", job, "--overlap", "--nodes=1", "--ntasks=1", "--nodelist", host, "--mpi=none", "--gres=none",
           "--cpu-bind=none", "--quiet", "--unbuffered", program, "node-reach", directory, host, line, (char *)NULL);
}

int node_reach_main(const char *directory, const char *host, char *const *words)
{
    char found[FILE_PATH_BYTES], *line = reach_join(words);
    struct error error = {0};
    struct node_exec exec = {.descriptor = -1};
    char *command[] = {"sh", "-c", line, NULL};
    const struct node_exec_order order = {.command = command,
                                          .descriptors = {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}};
    weft_status status = line ? WEFT_OK : error_memory(&error, 1, "a command");
    if (status == WEFT_OK)
        status = reach_find_node(directory, host, found, &error);
    if (status == WEFT_OK && getenv("SLURM_JOB_ID") && !file_is_directory(found)) {
        const char *own = getenv("SLURMD_NODENAME");
        if (!own || strcmp(own, host) != 0) {
            reach_by_srun(directory, host, line);
            status = error_system(&error, "cannot run srun, by which the nodes of a job of Slurm are reached");
        }
    }
    if (status == WEFT_OK) {
        error_clear(&error); /* the order could not be read */
        status = reach_begin(found, &order, &exec, &error);
    }
    while (status == WEFT_OK && !exec.ended)
        status = node_exec_hear(&exec, true, &error);
    node_exec_close(&exec);
    free(line);
    if (status != WEFT_OK)
        return fprintf(stderr, "weft: cannot reach host %s: %s\n", host, error.text), FAILED;
    return exec.signal ? 128 + exec.signal : exec.code;
}
