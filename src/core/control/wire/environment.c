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
#define RANKS_MOST         (1 << 20)

/* The one list of launchers. A launcher is present if all variables in `detected_by` are set and not empty. */
static const struct {
    const char *name;
    const char *rank, *ranks;             /* this rank's number, and how many there are */
    const char *local_rank, *local_ranks; /* the same within the node */
    const char *detected_by[4];
} launchers[] = {
    [LAUNCHER_WEFT] = {"weft run", "WEFT_RANK", "WEFT_RANKS", "WEFT_LOCAL_RANK", "WEFT_LOCAL_RANKS", {"WEFT_RANKS"}},
    [LAUNCHER_PMIX] = {"PMIx", "PMIX_RANK", .detected_by = {"PMIX_RANK", "PMIX_NAMESPACE"}},
    [LAUNCHER_PMI2] = {"PMI-2", "PMI_RANK", "PMI_SIZE", .detected_by = {"PMI_FD", "PMI_JOBID"}},
    [LAUNCHER_PMI1] = {"PMI-1", "PMI_RANK", "PMI_SIZE", .detected_by = {"PMI_FD"}},
    [LAUNCHER_SLURM] = {"Slurm", "SLURM_PROCID", "SLURM_STEP_NUM_TASKS",
                        .detected_by = {"SLURM_PROCID", "SLURM_STEP_NUM_TASKS", "SLURM_JOB_ID", "SLURM_STEP_ID"}},
    [LAUNCHER_TORCHRUN] = {"torchrun variables",
                           "RANK",
                           "WORLD_SIZE",
                           "LOCAL_RANK",
                           "LOCAL_WORLD_SIZE",
                           {"RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT"}},
    [LAUNCHER_NONE] = {.name = "alone"},
};

/* A variable that is set and not empty. */
static const char *environment_variable(const char *name)
{
    const char *value = getenv(name);
    return value && *value ? value : NULL;
}

const char *launcher_name(enum launcher launcher)
{
    return launchers[launcher].name;
}

bool launcher_is_present(enum launcher launcher)
{
    if (launcher == LAUNCHER_WEFT && environment_variable("WEFT_RANK"))
        return true; /* WEFT_RANKS is missing, which environment_read() reports */
    for (size_t i = 0; i < 4 && launchers[launcher].detected_by[i]; i++)
        if (!environment_variable(launchers[launcher].detected_by[i]))
            return false;
    return launcher != LAUNCHER_SLURM || strtoul(getenv("SLURM_STEP_ID"), NULL, 10) < SLURM_STEP_SPECIAL;
}

enum launcher launcher_detect(void)
{
    enum launcher launcher = LAUNCHER_WEFT;
    while (launcher != LAUNCHER_NONE && !launcher_is_present(launcher))
        launcher++;
    return launcher;
}

int64_t launcher_rank(void)
{
    for (enum launcher launcher = LAUNCHER_WEFT; launcher != LAUNCHER_NONE; launcher++) {
        const char *text = environment_variable(launchers[launcher].rank);
        int64_t rank;
        if (text && text_parse_integer(text, "the rank", 0, INT32_MAX, &rank, NULL) == WEFT_OK)
            return rank;
    }
    return -1;
}

static weft_status environment_number(const char *launcher, const char *name, int64_t least, int64_t most,
                                      int64_t *value, struct error *error)
{
    const char *text = environment_variable(name);
    struct error reason = {0};
    if (!text)
        return error_set(error, WEFT_ERROR_RENDEZVOUS, "%s set its other variables but not %s", launcher, name);
    if (text_parse_integer(text, name, least, most, value, &reason) != WEFT_OK)
        return error_set(error, WEFT_ERROR_RENDEZVOUS, "%s set a wrong variable: %s", launcher, reason.text);
    return WEFT_OK;
}

/* Read an optional number: false if it is missing or malformed. */
static bool optional(const char *name, uint32_t *value)
{
    const char *text = environment_variable(name);
    int64_t number = 0;
    if (!text || text_parse_integer(text, name, 0, 1 << 20, &number, NULL) != WEFT_OK)
        return false;
    *value = (uint32_t)number;
    return true;
}

/* The rank's number and, if the variables are valid, its place in the node, which is named by its first rank. */
static weft_status environment_read_ranks(enum launcher launcher, struct environment *environment, struct error *error)
{
    const char *name = launchers[launcher].name, *local_rank = launchers[launcher].local_rank;
    /* A launcher that serves the rendezvous may start more ranks later. */
    const bool may_join = launcher == LAUNCHER_WEFT && environment_variable("WEFT_RENDEZVOUS_SERVED");
    int64_t number = 0, ranks = 0;
    uint32_t local = 0, count = 0;
    weft_status status = environment_number(name, launchers[launcher].ranks, 1, RANKS_MOST, &ranks, error);
    if (status == WEFT_OK)
        status =
            environment_number(name, launchers[launcher].rank, 0, may_join ? RANKS_MOST : ranks - 1, &number, error);
    *environment = (struct environment){.launcher = name, .rank = (uint32_t)number, .ranks = (uint32_t)ranks};
    if (status == WEFT_OK && local_rank && optional(local_rank, &local) &&
        optional(launchers[launcher].local_ranks, &count) && local < count && local <= environment->rank) {
        environment->node = environment->rank - local;
        environment->local_rank = local;
        environment->local_ranks = count;
    }
    return status;
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

static weft_status environment_copy(char *text, const char *value, const char *name, struct error *error)
{
    if (snprintf(text, ENVIRONMENT_TEXT_BYTES, "%s", value) < ENVIRONMENT_TEXT_BYTES)
        return WEFT_OK;
    return error_set(error, WEFT_ERROR_RENDEZVOUS, "%s is longer than %d characters", name, ENVIRONMENT_TEXT_BYTES - 1);
}

static weft_status environment_read_weft(struct environment *environment, struct error *error)
{
    const char *bootstrap = environment_variable("WEFT_RENDEZVOUS"), *secret = environment_variable("WEFT_SECRET");
    weft_status status = WEFT_OK;
    environment->served = environment_variable("WEFT_RENDEZVOUS_SERVED") != NULL;
    environment->grows = environment->served && environment_variable("WEFT_RESTARTS");
    if ((environment->ranks > 1 || environment->rank > 0 || environment->grows) && (!bootstrap || !secret))
        return error_set(error, WEFT_ERROR_RENDEZVOUS,
                         "WEFT_RANK and WEFT_RANKS are set but %s is not; start the ranks with 'weft run', or set it",
                         bootstrap ? "WEFT_SECRET" : "WEFT_RENDEZVOUS");
    if (bootstrap)
        status = environment_copy(environment->addresses, bootstrap, "WEFT_RENDEZVOUS", error);
    if (status == WEFT_OK && secret)
        status = environment_copy(environment->secret, secret, "WEFT_SECRET", error);
    return status;
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
        /* Text after the bracket belongs to the name: "rack[1-2]-n" */
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

/* The rendezvous address and the secret, unless the user set them. */
static weft_status environment_finish(struct environment *environment, const char *host, int64_t port,
                                      const char *derived, struct error *error)
{
    char chosen[ENVIRONMENT_HOST_BYTES];
    if (environment_variable("WEFT_RENDEZVOUS_HOST"))
        host = environment_variable("WEFT_RENDEZVOUS_HOST");
    if (snprintf(chosen, sizeof chosen, "%s", host) >= (int)sizeof chosen)
        return error_set(error, WEFT_ERROR_RENDEZVOUS,
                         "the rendezvous's host name '%.40s...' is longer than %d characters", host,
                         ENVIRONMENT_HOST_BYTES - 1);
    if (environment_variable("WEFT_RENDEZVOUS_PORT")) {
        weft_status status = environment_number("the environment", "WEFT_RENDEZVOUS_PORT", 1, 65535, &port, error);
        if (status != WEFT_OK)
            return status;
    }
    snprintf(environment->addresses, sizeof environment->addresses, strchr(chosen, ':') ? "[%s]:%d" : "%s:%d", chosen,
             (int)port);
    const char *secret = environment_variable("WEFT_SECRET");
    return environment_copy(environment->secret, secret ? secret : derived, "WEFT_SECRET", error);
}

static weft_status environment_read_slurm(struct environment *environment, struct error *error)
{
    const char *list = environment_variable("SLURM_STEP_NODELIST"),
               *nodes = environment_variable("SLURM_STEP_NUM_NODES"),
               *tasks = environment_variable("SLURM_STEP_TASKS_PER_NODE");
    char host[ENVIRONMENT_HOST_BYTES], derived[128];
    uint32_t local = 0, count = 0;
    if (!environment_first_host(list ? list : "", host, sizeof host))
        return error_set(error, WEFT_ERROR_RENDEZVOUS,
                         "Slurm's SLURM_STEP_NODELIST is '%s', which is not a list of hosts", list ? list : "");
    /* Slurm's names of nodes need not be names that hosts resolve; on a single node, none is needed. */
    if (nodes && strcmp(nodes, "1") == 0)
        strcpy(host, "127.0.0.1");
    snprintf(derived, sizeof derived, "slurm job %.40s step %.40s user %u", getenv("SLURM_JOB_ID"),
             getenv("SLURM_STEP_ID"), (unsigned)getuid());
    int64_t port = SLURM_PORT_FIRST + (int64_t)(hash_text(derived, 0) % SLURM_PORTS);
    if (tasks && optional("SLURM_NODEID", &environment->node) && optional("SLURM_LOCALID", &local))
        count = environment_tasks_of_node(tasks, environment->node);
    if (local < count) {
        environment->local_rank = local;
        environment->local_ranks = count;
    }
    return environment_finish(environment, host, port, derived, error);
}

static weft_status environment_read_torchrun(struct environment *environment, struct error *error)
{
    const char *host = getenv("MASTER_ADDR");
    int64_t port = 0;
    weft_status status = environment_number(environment->launcher, "MASTER_PORT", 1, 65534, &port, error);
    if (status != WEFT_OK)
        return status;
    /* torchrun's agent listens at MASTER_PORT itself, unless it leaves that to rank 0. */
    const char *agent = environment_variable("TORCHELASTIC_USE_AGENT_STORE"),
               *run = environment_variable("TORCHELASTIC_RUN_ID");
    char derived[512];
    snprintf(derived, sizeof derived, "torchrun run %.100s master %.250s:%d", run ? run : "", host, (int)port);
    return environment_finish(environment, host, agent && strcasecmp(agent, "true") == 0 ? port + 1 : port, derived,
                              error);
}

weft_status environment_read(enum launcher launcher, struct environment *environment, struct error *error)
{
    if (launcher == LAUNCHER_NONE) {
        *environment = (struct environment){.launcher = launchers[launcher].name, .ranks = 1};
        return WEFT_OK;
    }
    weft_status status = environment_read_ranks(launcher, environment, error);
    if (status != WEFT_OK)
        return status;
    return launcher == LAUNCHER_WEFT    ? environment_read_weft(environment, error)
           : launcher == LAUNCHER_SLURM ? environment_read_slurm(environment, error)
                                        : environment_read_torchrun(environment, error);
}
