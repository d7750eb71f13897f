/* SPDX-License-Identifier: Apache-2.0 */
#include "platform/agent/cgroup/cgroup.h"

#include "base/clock.h"
#include "platform/agent/cgroup/internal/file.h"
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define TEXT_MOST  ((size_t)1 << 20)
#define RUNS       "weft-runs"
#define PERIOD     100000 /* period of the processor quota in microseconds */
#define SHARES     1024   /* cpu.shares of weight 1 */
#define SHARES_TOP 262144
#define WEIGHT     100 /* cpu.weight of weight 1 */
#define WEIGHT_TOP 10000
#define MAKE_TRIES 5 /* another node may remove the empty parent at the same time */

/* ---- files of a group ---- */

bool cgroup_file_write(const char *directory, const char *name, const char *value)
{
    char path[FILE_PATH_BYTES];
    if (!*directory || file_join(path, directory, name, NULL) != WEFT_OK)
        return false;
    const int file = open(path, O_WRONLY | O_CLOEXEC);
    const bool written = file >= 0 && write(file, value, strlen(value)) > 0;
    file_close(file);
    return written;
}

static bool write_number(const char *directory, const char *name, uint64_t value)
{
    char text[24];
    snprintf(text, sizeof text, "%" PRIu64, value);
    return cgroup_file_write(directory, name, text);
}

char *cgroup_file_read(const char *directory, const char *name)
{
    char path[FILE_PATH_BYTES], *text = NULL;
    size_t size;
    if (!*directory || file_join(path, directory, name, NULL) != WEFT_OK ||
        file_read(path, TEXT_MOST, &text, &size, NULL) != WEFT_OK)
        return NULL;
    return text;
}

/* The number after `key` at the beginning of a line; with "" the file's first number. */
static uint64_t cgroup_read_number(const char *directory, const char *name, const char *key)
{
    char *text = cgroup_file_read(directory, name), *rest = NULL;
    uint64_t number = 0;
    const size_t length = strlen(key);
    for (char *line = text ? strtok_r(text, "\n", &rest) : NULL; line; line = strtok_r(NULL, "\n", &rest))
        if (!length || (strncmp(line, key, length) == 0 && line[length] == ' ')) {
            number = strtoull(line + length, NULL, 10);
            break;
        }
    free(text);
    return number;
}

bool cgroup_file_is_writable(const char *directory, const char *name)
{
    char path[FILE_PATH_BYTES];
    return *directory && file_join(path, directory, name, NULL) == WEFT_OK && access(path, W_OK) == 0;
}

/* ---- limits ---- */

static bool limit_memory(const char *directory, bool version_2, uint64_t bytes)
{
    if (version_2) {
        const bool limited = write_number(directory, "memory.max", bytes);
        if (cgroup_file_is_writable(directory, "memory.swap.max"))
            cgroup_file_write(directory, "memory.swap.max", "0");
        return limited;
    }
    /* The limit with swap may never be below that of memory, so try both orders. */
    const bool swap = cgroup_file_is_writable(directory, "memory.memsw.limit_in_bytes");
    bool limited = write_number(directory, "memory.limit_in_bytes", bytes);
    if (swap && !write_number(directory, "memory.memsw.limit_in_bytes", bytes))
        limited = false;
    if (!limited)
        limited = write_number(directory, "memory.limit_in_bytes", bytes) &&
                  (!swap || write_number(directory, "memory.memsw.limit_in_bytes", bytes));
    return limited;
}

static bool limit_time(const char *directory, bool version_2, uint32_t quota, uint32_t weight)
{
    char text[48];
    const uint64_t times = weight ? weight : 1;
    bool limited;
    if (version_2) {
        limited = write_number(directory, "cpu.weight", times * WEIGHT < WEIGHT_TOP ? times * WEIGHT : WEIGHT_TOP);
        snprintf(text, sizeof text, "%" PRIu64 " %d", (uint64_t)quota * PERIOD, PERIOD);
        return (!quota || cgroup_file_write(directory, "cpu.max", text)) && limited;
    }
    limited = write_number(directory, "cpu.shares", times * SHARES < SHARES_TOP ? times * SHARES : SHARES_TOP);
    if (quota)
        limited = write_number(directory, "cpu.cfs_period_us", PERIOD) &&
                  write_number(directory, "cpu.cfs_quota_us", (uint64_t)quota * PERIOD) && limited;
    return limited;
}

/* A version 1 cpuset begins without processors and memory nodes. */
static bool limit_processors(const char *directory, const char *parent, bool version_2, const char *processors)
{
    static const char *const names[] = {"cpuset.mems", "cpuset.cpus"};
    for (int i = 0; i < 2 && !version_2; i++) {
        char *value = cgroup_file_read(parent, names[i]);
        const bool copied = value && cgroup_file_write(directory, names[i], value);
        free(value);
        if (!copied)
            return false;
    }
    return !processors || !*processors || cgroup_file_write(directory, "cpuset.cpus", processors);
}

static bool limit(const char *directory, const char *parent, enum cgroup_controller controller, bool version_2,
                  const struct cgroup_limits *limits)
{
    if (controller == CGROUP_CPU)
        return limit_time(directory, version_2, limits->quota, limits->weight);
    if (controller == CGROUP_CPUSET)
        return limit_processors(directory, parent, version_2, limits->processors);
    if (controller == CGROUP_MEMORY)
        return !limits->memory || limit_memory(directory, version_2, limits->memory);
    return !limits->processes || write_number(directory, "pids.max", limits->processes);
}

/* ---- making ---- */

/* The group of all runs in one tree, shared with other servers of this host. */
static bool make_parent(const char *own, char directory[FILE_PATH_BYTES])
{
    return file_join(directory, own, RUNS, NULL) == WEFT_OK && (mkdir(directory, 0755) == 0 || errno == EEXIST);
}

static void prepare_parent(const struct cgroup_place *place, int tree, const char *parent,
                           const struct cgroup_limits *limits)
{
    static const char *const controllers[] = {"+cpu", "+cpuset", "+memory", "+pids"};
    const char *own = place->directories[tree];
    if (tree == CGROUP_UNIFIED) {
        for (int i = 0; i < CGROUP_CONTROLLERS; i++)
            if (place->version_2[i])
                cgroup_file_write(parent, "cgroup.subtree_control", controllers[i]);
        if (place->version_2[CGROUP_MEMORY] && limits->memory_of_all)
            write_number(parent, "memory.max", limits->memory_of_all);
        return;
    }
    if (tree == CGROUP_CPUSET)
        limit_processors(parent, own, false, NULL);
    if (tree == CGROUP_MEMORY) {
        cgroup_file_write(parent, "memory.use_hierarchy", "1");
        if (limits->memory_of_all)
            limit_memory(parent, false, limits->memory_of_all);
    }
}

/* Make the node's group in one tree. On failure returns false and sets "". */
static bool make_in_tree(const struct cgroup_place *place, int tree, const char *name,
                         const struct cgroup_limits *limits, char directory[FILE_PATH_BYTES],
                         char parent[FILE_PATH_BYTES])
{
    for (int i = 0; i < MAKE_TRIES && *place->directories[tree]; i++) {
        if (!make_parent(place->directories[tree], parent) || file_join(directory, parent, name, NULL) != WEFT_OK)
            break;
        prepare_parent(place, tree, parent, limits);
        if ((mkdir(directory, 0755) == 0 || errno == EEXIST) && cgroup_file_is_writable(directory, "cgroup.procs"))
            return true;
        if (errno != ENOENT)
            break;
    }
    directory[0] = '\0';
    return false;
}

void cgroup_make(const struct cgroup_place *place, const char *name, const struct cgroup_limits *limits,
                 struct cgroup *group)
{
    char parent[FILE_PATH_BYTES];
    *group = (struct cgroup){0};
    make_in_tree(place, CGROUP_UNIFIED, name, limits, group->directories[CGROUP_UNIFIED], parent);
    for (int i = 0; i < CGROUP_CONTROLLERS; i++) {
        group->version_2[i] = place->version_2[i];
        if (place->version_2[i])
            memcpy(group->directories[i], group->directories[CGROUP_UNIFIED], FILE_PATH_BYTES);
        else
            make_in_tree(place, i, name, limits, group->directories[i], parent);
        if (!*group->directories[i])
            continue;
        group->limits[i] = limit(group->directories[i], parent, (enum cgroup_controller)i, place->version_2[i], limits);
        if (!group->limits[i] && !place->version_2[i]) { /* processes cannot enter a cpuset without processors */
            rmdir(group->directories[i]);
            rmdir(parent);
            group->directories[i][0] = '\0';
        }
    }
}

/* Each directory of the group once. */
static bool is_apart(const struct cgroup *group, int tree)
{
    return *group->directories[tree] && (tree == CGROUP_UNIFIED || !group->version_2[tree]);
}

bool cgroup_enter(const struct cgroup *group)
{
    bool entered = true;
    for (int i = 0; i <= CGROUP_UNIFIED; i++)
        if (is_apart(group, i))
            entered = cgroup_file_write(group->directories[i], "cgroup.procs", "0") && entered;
    return entered;
}

/* ---- what happens in it ---- */

void cgroup_events_read(const struct cgroup *group, struct cgroup_events *events)
{
    const char *memory = group->directories[CGROUP_MEMORY], *pids = group->directories[CGROUP_PIDS];
    const bool version_2 = group->version_2[CGROUP_MEMORY];
    *events = (struct cgroup_events){
        .memory_kills = cgroup_read_number(memory, version_2 ? "memory.events" : "memory.oom_control", "oom_kill"),
        .memory_peak = cgroup_read_number(memory, version_2 ? "memory.peak" : "memory.max_usage_in_bytes", ""),
        .forks_denied = cgroup_read_number(pids, "pids.events", "max"),
    };
}

/* ---- ending ---- */

/* Kill each process by its id; returns how many there were. */
static int kill_each(const char *directory)
{
    char *text = cgroup_file_read(directory, "cgroup.procs"), *rest = NULL;
    int count = 0;
    for (char *line = text ? strtok_r(text, "\n", &rest) : NULL; line; line = strtok_r(NULL, "\n", &rest), count++) {
        int process = atoi(line);
        if (process > 1)
            kill(process, SIGKILL);
    }
    free(text);
    return count;
}

bool cgroup_kill(const struct cgroup *group, double seconds)
{
    uint64_t end = clock_after(seconds);
    cgroup_file_write(group->directories[CGROUP_PIDS], "pids.max", "0");       /* no forks while processes are killed */
    cgroup_file_write(group->directories[CGROUP_UNIFIED], "cgroup.kill", "1"); /* Linux 5.14 */
    for (;;) {
        int left = 0;
        for (int i = 0; i <= CGROUP_UNIFIED; i++)
            left += is_apart(group, i) ? kill_each(group->directories[i]) : 0;
        if (left == 0)
            return true;
        if (clock_now() > end)
            return false;
        poll(NULL, 0, 2);
    }
}

void cgroup_remove(const struct cgroup *group)
{
    for (int i = 0; i <= CGROUP_UNIFIED; i++) {
        char parent[FILE_PATH_BYTES];
        if (!is_apart(group, i))
            continue;
        rmdir(group->directories[i]);
        memcpy(parent, group->directories[i], sizeof parent);
        *strrchr(parent, '/') = '\0';
        rmdir(parent); /* fails while it contains another node's group */
    }
}
