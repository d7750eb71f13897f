/* SPDX-License-Identifier: Apache-2.0 */
#include "core/topology/internal/control_group.h"

#include "base/file/file.h"
#include "core/topology/limits.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define FILE_MOST        (64u << 10)
#define VERSION_1_NO_END ((uint64_t)1 << 62) /* version 1 writes "no limit" as the largest page-aligned number */

/* The content of directory/name, which the caller frees; NULL if it does not exist. */
static char *control_group_read_text(const char *directory, const char *name)
{
    char path[FILE_PATH_BYTES];
    char *content = NULL;
    size_t size = 0;
    if (file_join(path, directory, name, NULL) != WEFT_OK || !file_exists(path) ||
        file_read(path, FILE_MOST, &content, &size, NULL) != WEFT_OK)
        return NULL;
    return content;
}

/* The number in directory/name; false if there is none or it says "max". */
static bool control_group_read_number(const char *directory, const char *name, int64_t *number)
{
    char *text = control_group_read_text(directory, name);
    bool found = text && sscanf(text, "%" SCNd64, number) == 1;
    free(text);
    return found;
}

/* The value of a line "key number" of directory/memory.stat; 0 if there is none. */
static uint64_t read_statistic(const char *directory, const char *key)
{
    uint64_t value = 0;
    char *text = control_group_read_text(directory, "memory.stat");
    size_t length = strlen(key);
    for (char *line = text; line; line = strchr(line, '\n')) {
        line += *line == '\n';
        if (strncmp(line, key, length) == 0 && line[length] == ' ') {
            value = strtoull(line + length, NULL, 10);
            break;
        }
    }
    free(text);
    return value;
}

/* The files of memory in one version. */
struct memory_files {
    const char *limit, *used, *reclaimable;
};

static void control_group_take_memory(const char *directory, const struct memory_files *files,
                                      struct control_group *group)
{
    int64_t limit, used;
    if (!control_group_read_number(directory, files->limit, &limit) || limit < 0 || (uint64_t)limit >= VERSION_1_NO_END)
        return;
    uint64_t reclaimable = read_statistic(directory, files->reclaimable);
    uint64_t available = (uint64_t)limit;
    if (control_group_read_number(directory, files->used, &used) && used >= 0) {
        uint64_t held = (uint64_t)used > reclaimable ? (uint64_t)used - reclaimable : 0;
        available = held < (uint64_t)limit ? (uint64_t)limit - held : 0;
    }
    if ((uint64_t)limit < group->memory_limit)
        group->memory_limit = (uint64_t)limit;
    if (available < group->memory_available)
        group->memory_available = available;
}

static void take_quota(double quota, double period, struct control_group *group)
{
    double processors = quota / period;
    if (!(quota > 0 && period > 0 && isfinite(processors) && processors > 0))
        return;
    if (group->processor_quota <= 0 || processors < group->processor_quota)
        group->processor_quota = processors;
}

static void take_memory_1(const char *directory, struct control_group *group)
{
    static const struct memory_files files = {"memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file"};
    control_group_take_memory(directory, &files, group);
}

static void take_processors_1(const char *directory, struct control_group *group)
{
    int64_t quota, period;
    if (control_group_read_number(directory, "cpu.cfs_quota_us", &quota) &&
        control_group_read_number(directory, "cpu.cfs_period_us", &period))
        take_quota((double)quota, (double)period, group);
}

static void take_all_2(const char *directory, struct control_group *group)
{
    static const struct memory_files files = {"memory.max", "memory.current", "inactive_file"};
    double quota, period;
    control_group_take_memory(directory, &files, group);
    char *text = control_group_read_text(directory, "cpu.max");
    if (text && sscanf(text, "%lf %lf", &quota, &period) == 2)
        take_quota(quota, period, group);
    free(text);
}

/* Call `take` for the group at `path` of the tree mounted at `mount`, and for every group above it. */
static void walk_up(const char *mount, const char *path, void (*take)(const char *, struct control_group *),
                    struct control_group *group)
{
    char directory[FILE_PATH_BYTES];
    size_t base = strlen(mount);
    int length = snprintf(directory, sizeof directory, "%s%s", mount, path);
    if (length < 0 || (size_t)length >= sizeof directory)
        return;
    while (true) {
        take(directory, group);
        char *slash = strrchr(directory + base, '/');
        if (!slash)
            return;
        *slash = '\0';
    }
}

/* Whether the comma-separated `list` contains `name`. */
static bool list_has(const char *list, const char *name)
{
    size_t length = strlen(name);
    for (const char *at = list; (at = strstr(at, name)); at += length)
        if ((at == list || at[-1] == ',') && (at[length] == '\0' || at[length] == ','))
            return true;
    return false;
}

/* One line of /proc/self/cgroup: "number:controllers:path"; no controllers means version 2. */
static void control_group_take_line(const char *root, char *line, struct control_group *group)
{
    char directory[FILE_PATH_BYTES], mount[FILE_PATH_BYTES];
    char *controllers = strchr(line, ':');
    char *path = controllers ? strchr(controllers + 1, ':') : NULL;
    if (!path)
        return;
    *controllers++ = '\0';
    *path++ = '\0';
    if (!controllers[0] && file_join(mount, root, "sys/fs/cgroup", NULL) == WEFT_OK)
        walk_up(mount, path, take_all_2, group);
    if (file_join(directory, root, "sys/fs/cgroup", NULL) != WEFT_OK)
        return;
    if (list_has(controllers, "memory") && file_join(mount, directory, "memory", NULL) == WEFT_OK)
        walk_up(mount, path, take_memory_1, group);
    if (list_has(controllers, "cpu") && file_join(mount, directory, controllers, NULL) == WEFT_OK)
        walk_up(mount, path, take_processors_1, group);
}

void control_group_read(const char *root, struct control_group *group)
{
    *group = (struct control_group){.memory_limit = LIMITS_NONE, .memory_available = LIMITS_NONE};
    char directory[FILE_PATH_BYTES];
    char *rest = NULL;
    if (file_join(directory, root, "proc/self", NULL) != WEFT_OK)
        return;
    char *text = control_group_read_text(directory, "cgroup");
    if (!text)
        return;
    for (char *line = strtok_r(text, "\n", &rest); line; line = strtok_r(NULL, "\n", &rest))
        control_group_take_line(root, line, group);
    free(text);
}
