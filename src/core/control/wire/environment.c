/* SPDX-License-Identifier: Apache-2.0 */
#include "core/control/wire/environment.h"

#include "base/hash.h"
#include "base/text.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define SLURM_STEP_SPECIAL 0xfffffff0u /* step numbers from here on are batch scripts and the like, not srun's */
#define SLURM_PORT_FIRST   20000
#define SLURM_PORTS        10000

/* A variable that is set and not empty. */
static const char *wire_environment_variable(const char *name)
{
    const char *value = getenv(name);
    return value && *value ? value : NULL;
}

static weft_status wire_environment_number(const char *launcher, const char *name, int64_t least, int64_t most,
                                           int64_t *value, struct error *error)
{
    const char *text = wire_environment_variable(name);
    struct error reason = {0};
    if (!text)
        return error_set(error, WEFT_ERROR_RENDEZVOUS, "%s set its other variables but not %s", launcher, name);
    if (text_parse_integer(text, name, least, most, value, &reason) != WEFT_OK)
        return error_set(error, WEFT_ERROR_RENDEZVOUS, "%s set a wrong variable: %s", launcher, reason.text);
    return WEFT_OK;
}

/* Rank and number of ranks, from two variables. */
static weft_status numbers(struct environment *environment, const char *rank_name, const char *ranks_name,
                           struct error *error)
{
    int64_t rank = 0, ranks = 0;
    weft_status status = wire_environment_number(environment->launcher, ranks_name, 1, 1 << 20, &ranks, error);
    if (status == WEFT_OK)
        status = wire_environment_number(environment->launcher, rank_name, 0, ranks - 1, &rank, error);
    environment->rank = (uint32_t)rank;
    environment->ranks = (uint32_t)ranks;
    return status;
}

/* Read an optional number: false if it is missing or malformed. */
static bool optional(const char *name, uint32_t *value)
{
    const char *text = wire_environment_variable(name);
    int64_t number = 0;
    if (!text || text_parse_integer(text, name, 0, 1 << 20, &number, NULL) != WEFT_OK)
        return false;
    *value = (uint32_t)number;
    return true;
}

/* The rank's place in its node, of whose ranks the first is so many below this one. */
static void place_in_node(struct environment *environment, const char *local_rank, const char *local_ranks)
{
    uint32_t rank = 0, ranks = 0;
    if (!optional(local_rank, &rank) || !optional(local_ranks, &ranks) || rank >= ranks || rank > environment->rank)
        return;
    environment->node = environment->rank - rank;
    environment->local_rank = rank;
    environment->local_ranks = ranks;
}

uint32_t environment_tasks_of_node(const char *list, uint32_t node)
{
    while (*list) {
        char *end;
        unsigned long tasks = strtoul(list, &end, 10), times = 1;
        if (end == list)
            return 0;
        if (strncmp(end, "(x", 2) == 0) {
            times = strtoul(end + 2, &end, 10);
            if (*end++ != ')')
                return 0;
        }
        if (node < times)
            return tasks <= 1 << 20 ? (uint32_t)tasks : 0;
        node -= (uint32_t)times;
        if (*end != ',')
            return 0;
        list = end + 1;
    }
    return 0;
}

static weft_status wire_environment_copy(char *text, const char *value, const char *name, struct error *error)
{
    if (snprintf(text, ENVIRONMENT_TEXT_BYTES, "%s", value) < ENVIRONMENT_TEXT_BYTES)
        return WEFT_OK;
    return error_set(error, WEFT_ERROR_RENDEZVOUS, "%s is longer than %d characters", name, ENVIRONMENT_TEXT_BYTES - 1);
}

bool environment_weft(struct environment *environment, weft_status *status, struct error *error)
{
    if (!wire_environment_variable("WEFT_RANKS") && !wire_environment_variable("WEFT_RANK"))
        return false;
    *environment = (struct environment){.launcher = "weft run",
                                        .served = wire_environment_variable("WEFT_RENDEZVOUS_SERVED") != NULL};
    *status = numbers(environment, "WEFT_RANK", "WEFT_RANKS", error);
    const char *bootstrap = wire_environment_variable("WEFT_RENDEZVOUS"),
               *secret = wire_environment_variable("WEFT_SECRET");
    if (*status == WEFT_OK && environment->ranks > 1 && (!bootstrap || !secret))
        *status =
            error_set(error, WEFT_ERROR_RENDEZVOUS,
                      "WEFT_RANK and WEFT_RANKS are set but %s is not; start the ranks with 'weft run', or set it",
                      bootstrap ? "WEFT_SECRET" : "WEFT_RENDEZVOUS");
    if (*status == WEFT_OK && bootstrap)
        *status = wire_environment_copy(environment->addresses, bootstrap, "WEFT_RENDEZVOUS", error);
    if (*status == WEFT_OK && secret)
        *status = wire_environment_copy(environment->secret, secret, "WEFT_SECRET", error);
    place_in_node(environment, "WEFT_LOCAL_RANK", "WEFT_LOCAL_RANKS");
    return true;
}

bool environment_first_host(const char *list, char *host, size_t room)
{
    size_t length = strcspn(list, "[,");
    char tail[64] = "";
    if (list[length] == '[') {
        const char *first = list + length + 1;
        size_t digits = strcspn(first, "-,]");
        const char *close = strchr(first, ']');
        if (!close || digits == 0 || digits >= sizeof tail)
            return false;
        memcpy(tail, first, digits);
        /* What follows the bracket belongs to the name: "rack[1-2]-n" */
        size_t after = strcspn(close + 1, "[,");
        if (close[1 + after] == '[' || digits + after >= sizeof tail)
            return false;
        memcpy(tail + digits, close + 1, after);
        tail[digits + after] = '\0';
    }
    if (length + strlen(tail) == 0 || length + strlen(tail) >= room)
        return false;
    snprintf(host, room, "%.*s%s", (int)length, list, tail);
    return true;
}

/* Where the ranks meet and the secret, unless the user says otherwise. */
static weft_status wire_environment_finish(struct environment *environment, const char *host, int64_t port,
                                           const char *derived, struct error *error)
{
    char chosen[ENVIRONMENT_HOST_BYTES];
    if (wire_environment_variable("WEFT_RENDEZVOUS_HOST"))
        host = wire_environment_variable("WEFT_RENDEZVOUS_HOST");
    if (snprintf(chosen, sizeof chosen, "%s", host) >= (int)sizeof chosen)
        return error_set(error, WEFT_ERROR_RENDEZVOUS,
                         "the rendezvous's host name '%.40s...' is longer than %d characters", host,
                         ENVIRONMENT_HOST_BYTES - 1);
    if (wire_environment_variable("WEFT_RENDEZVOUS_PORT")) {
        weft_status status = wire_environment_number("the environment", "WEFT_RENDEZVOUS_PORT", 1, 65535, &port, error);
        if (status != WEFT_OK)
            return status;
    }
    snprintf(environment->addresses, sizeof environment->addresses, strchr(chosen, ':') ? "[%s]:%d" : "%s:%d", chosen,
             (int)port);
    const char *secret = wire_environment_variable("WEFT_SECRET");
    return wire_environment_copy(environment->secret, secret ? secret : derived, "WEFT_SECRET", error);
}

bool environment_slurm(struct environment *environment, weft_status *status, struct error *error)
{
    const char *job = wire_environment_variable("SLURM_JOB_ID"), *step = wire_environment_variable("SLURM_STEP_ID");
    const char *list = wire_environment_variable("SLURM_STEP_NODELIST"),
               *nodes = wire_environment_variable("SLURM_STEP_NUM_NODES");
    if (!wire_environment_variable("SLURM_PROCID") || !wire_environment_variable("SLURM_STEP_NUM_TASKS") || !job ||
        !step || strtoul(step, NULL, 10) >= SLURM_STEP_SPECIAL)
        return false;
    *environment = (struct environment){.launcher = "Slurm"};
    *status = numbers(environment, "SLURM_PROCID", "SLURM_STEP_NUM_TASKS", error);
    char host[ENVIRONMENT_HOST_BYTES], derived[128];
    if (*status == WEFT_OK && !environment_first_host(list ? list : "", host, sizeof host))
        *status = error_set(error, WEFT_ERROR_RENDEZVOUS,
                            "Slurm's SLURM_STEP_NODELIST is '%s', which is no list of hosts", list ? list : "");
    if (*status != WEFT_OK)
        return true;
    /* Slurm's names of nodes need not be names that hosts resolve; on a single node, none is needed. */
    if (nodes && strcmp(nodes, "1") == 0)
        strcpy(host, "127.0.0.1");
    snprintf(derived, sizeof derived, "slurm job %.40s step %.40s user %u", job, step, (unsigned)getuid());
    int64_t port = SLURM_PORT_FIRST + (int64_t)(hash_text(derived, 0) % SLURM_PORTS);
    *status = wire_environment_finish(environment, host, port, derived, error);
    const char *tasks = wire_environment_variable("SLURM_STEP_TASKS_PER_NODE");
    uint32_t local = 0, count = 0;
    if (tasks && optional("SLURM_NODEID", &environment->node) && optional("SLURM_LOCALID", &local))
        count = environment_tasks_of_node(tasks, environment->node);
    if (local < count) {
        environment->local_rank = local;
        environment->local_ranks = count;
    }
    return true;
}

bool environment_torchrun(struct environment *environment, weft_status *status, struct error *error)
{
    const char *host = wire_environment_variable("MASTER_ADDR");
    if (!wire_environment_variable("RANK") || !wire_environment_variable("WORLD_SIZE") || !host ||
        !wire_environment_variable("MASTER_PORT"))
        return false;
    *environment = (struct environment){.launcher = "torchrun variables"};
    int64_t port = 0;
    *status = numbers(environment, "RANK", "WORLD_SIZE", error);
    if (*status == WEFT_OK)
        *status = wire_environment_number(environment->launcher, "MASTER_PORT", 1, 65534, &port, error);
    if (*status != WEFT_OK)
        return true;
    /* torchrun's agent listens at MASTER_PORT itself, unless it leaves that to rank 0. */
    const char *agent = wire_environment_variable("TORCHELASTIC_USE_AGENT_STORE"),
               *run = wire_environment_variable("TORCHELASTIC_RUN_ID");
    char derived[512];
    snprintf(derived, sizeof derived, "torchrun run %.100s master %.250s:%d", run ? run : "", host, (int)port);
    place_in_node(environment, "LOCAL_RANK", "LOCAL_WORLD_SIZE");
    *status = wire_environment_finish(environment, host, agent && strcasecmp(agent, "true") == 0 ? port + 1 : port,
                                      derived, error);
    return true;
}
