/* SPDX-License-Identifier: Apache-2.0 */
#include "platform/agent/limits.h"

#include "base/text.h"
#include "platform/agent/internal/life.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#define OOM_FILE  "/proc/self/oom_score_adj"
#define OOM_ABOVE 500 /* added to the agent's score for a node's processes */
#define OOM_MOST  1000

static void make_group(const struct node_order *order, const char *directory, const struct cgroup_limits *limits,
                       struct cgroup *group)
{
    struct cgroup_place place;
    char name[ATTEMPT_RUN_BYTES + 64];
    node_cgroup_name(&order->attempt, order->node, directory, name, sizeof name);
    cgroup_find("", &place);
    cgroup_make(&place, name, limits, group);
}

void node_limits_make(const struct node_order *order, const char *directory, struct cgroup *group)
{
    const struct node_limits *limits = &order->limits;
    make_group(order, directory,
               &(struct cgroup_limits){.memory = limits->memory,
                                       .memory_of_all = limits->memory_of_all,
                                       .processes = limits->processes,
                                       .quota = limits->quota,
                                       .weight = limits->weight,
                                       .processors = limits->processors},
               group);
}

void node_limits_find(const struct node_order *order, const char *directory, struct cgroup *group)
{
    make_group(order, directory, &(struct cgroup_limits){0}, group);
}

/* ---- in a child ---- */

/* Without privileges the score can only be raised, and another program may have raised it already. */
static void raise_oom_score(void)
{
    char text[16] = "";
    int file = open(OOM_FILE, O_RDWR | O_CLOEXEC);
    if (file < 0)
        return;
    const int score = read(file, text, sizeof text - 1) > 0 ? atoi(text) + OOM_ABOVE : OOM_ABOVE;
    const int length = snprintf(text, sizeof text, "%d", score < OOM_MOST ? score : OOM_MOST);
    (void)!pwrite(file, text, (size_t)length, 0);
    close(file);
}

/* "0-3,8". */
static void choose_processors(const char *list)
{
    cpu_set_t set;
    CPU_ZERO(&set);
    while (*list) {
        char *end;
        unsigned long first = strtoul(list, &end, 10), last = first;
        if (end == list)
            return;
        if (*end == '-')
            last = strtoul(end + 1, &end, 10);
        for (; first <= last && first < CPU_SETSIZE; first++)
            CPU_SET(first, &set);
        list = *end == ',' ? end + 1 : end;
    }
    sched_setaffinity(0, sizeof set, &set);
}

static void set_limit(int resource, uint64_t value)
{
    struct rlimit limit;
    if (getrlimit((__rlimit_resource_t)resource, &limit) != 0)
        return;
    if (limit.rlim_max == RLIM_INFINITY || limit.rlim_max > value)
        limit.rlim_max = value;
    limit.rlim_cur = limit.rlim_max;
    setrlimit((__rlimit_resource_t)resource, &limit);
}

/* A program that writes a larger file gets SIGXFSZ, or EFBIG if it ignores that. Only the soft limit is set: shared
 * memory counts as a file, and ranks may use more of it (core/transport/heap/heap.c) than their run may use on disk.
 * Disk use of programs that raise the limit is still measured. */
static void limit_files(uint64_t value)
{
    struct rlimit limit;
    if (getrlimit(RLIMIT_FSIZE, &limit) != 0 || limit.rlim_cur <= value)
        return;
    limit.rlim_cur = value;
    setrlimit(RLIMIT_FSIZE, &limit);
}

bool node_limits_enter(const struct node_order *order, const struct cgroup *group, bool other_user)
{
    const struct node_limits *limits = &order->limits;
    bool limited = false;
    for (int i = 0; i < CGROUP_CONTROLLERS; i++)
        limited = limited || group->limits[i];
    if (!cgroup_enter(group) && limited)
        return false;
    raise_oom_score();
    if (!group->limits[CGROUP_CPUSET] && limits->processors && *limits->processors)
        choose_processors(limits->processors);
    if (!group->limits[CGROUP_MEMORY] && limits->memory && limits->memory_asked)
        set_limit(RLIMIT_DATA, limits->memory);
    if (!group->limits[CGROUP_PIDS] && limits->processes && other_user)
        set_limit(RLIMIT_NPROC, limits->processes);
    if (limits->file_bytes)
        limit_files(limits->file_bytes);
    return true;
}

/* ---- what has happened ---- */

static void tell_memory(const struct node_order *order, const struct cgroup_events *events, char *message, size_t size)
{
    char limit[48], peak[48], all[48], most[80] = "";
    const struct node_limits *limits = &order->limits;
    text_bytes(limits->memory, limit, sizeof limit);
    text_bytes(events->memory_peak, peak, sizeof peak);
    text_bytes(limits->memory_of_all, all, sizeof all);
    if (events->memory_peak)
        snprintf(most, sizeof most, " (peak %s)", peak);
    /* Not the node's own limit but that of all runs, which share the host's memory. */
    if (events->memory_peak && events->memory_peak < limits->memory - limits->memory / 8)
        snprintf(message, size,
                 "all runs together used more than the %s of memory that host %s has for them, and processes of run %s "
                 "were killed%s",
                 all, order->host, order->attempt.run, most);
    else if (limits->memory_asked)
        snprintf(message, size, "run %s used more than its %s of memory on host %s%s: ask for more with --memory",
                 order->attempt.run, limit, order->host, most);
    else
        snprintf(message, size,
                 "run %s used more than the %s of memory that come with its slots on host %s%s: ask for more slots",
                 order->attempt.run, limit, order->host, most);
}

bool node_limits_tell(const struct node_order *order, const struct cgroup *group, struct cgroup_events *seen,
                      char *message, size_t size)
{
    struct cgroup_events now;
    cgroup_events_read(group, &now);
    const bool memory = order->limits.memory && now.memory_kills > seen->memory_kills;
    const bool processes = now.forks_denied > seen->forks_denied;
    if (memory)
        tell_memory(order, &now, message, size);
    else if (processes)
        snprintf(message, size,
                 "run %s has reached its limit of %" PRIu64
                 " processes and threads on host %s, and could start no more: ask for more with --processes",
                 order->attempt.run, order->limits.processes, order->host);
    *seen = now;
    return memory || processes;
}

/* ---- what there is ---- */

static bool can_limit(const struct cgroup_place *place, enum cgroup_controller controller)
{
    return *place->directories[controller] != '\0';
}

char *node_limits_describe(char text[NODE_LIMITS_TEXT_BYTES])
{
    static const char *const names[CGROUP_CONTROLLERS] = {"processor time", "processor set", "memory",
                                                          "number of processes"};
    struct cgroup_place place;
    size_t used = 0;
    int found = 0;
    cgroup_find("", &place);
    for (int i = 0; i < CGROUP_CONTROLLERS; i++)
        found += can_limit(&place, (enum cgroup_controller)i);
    if (found == CGROUP_CONTROLLERS) {
        snprintf(text, NODE_LIMITS_TEXT_BYTES, "each run's processors, memory and number of processes are enforced");
        return text;
    }
    used += (size_t)snprintf(text, NODE_LIMITS_TEXT_BYTES, "NOT enforced:");
    for (int i = 0, told = 0; i < CGROUP_CONTROLLERS; i++) {
        if (can_limit(&place, (enum cgroup_controller)i))
            continue;
        used += (size_t)snprintf(text + used, NODE_LIMITS_TEXT_BYTES - used, "%s%s", told++ ? ", " : " ", names[i]);
    }
    snprintf(
        text + used, NODE_LIMITS_TEXT_BYTES - used,
        ". The server cannot write to the control groups for these. With systemd, start it with 'systemd-run --scope "
        "-p "
        "Delegate=yes weft serve' (add --user if you are not root), or as a service with Delegate=yes. Until then, "
        "only CPU affinity and each process's data (--memory) are limited");
    return text;
}
