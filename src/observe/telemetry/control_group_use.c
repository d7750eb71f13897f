/* SPDX-License-Identifier: Apache-2.0 */
#include "observe/telemetry/internal/control_group_use.h"

#include "base/file/file.h"
#include "observe/proc/kernel_tables.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define TEXT_BYTES 8192 /* memory.stat has about 1,500 */

/* sys/fs/cgroup/tree/path/name; false if it cannot be read. */
static bool control_group_use_read_text(int root, const char *tree, const char *path, const char *name,
                                        char text[TEXT_BYTES])
{
    char file[FILE_PATH_BYTES];
    const int length = snprintf(file, sizeof file, "sys/fs/cgroup/%s/%s/%s", tree, path, name);
    return length > 0 && (size_t)length < sizeof file && file_read_small(root, file, text, TEXT_BYTES) > 0;
}

static bool control_group_use_read_number(int root, const char *tree, const char *path, const char *name,
                                          uint64_t *number)
{
    char text[TEXT_BYTES];
    if (!control_group_use_read_text(root, tree, path, name, text) || *text < '0' || *text > '9')
        return false;
    *number = strtoull(text, NULL, 10);
    return true;
}

static void read_time(int root, const char *path, struct control_group_use *use)
{
    static const char *const trees_2[] = {".", "unified"}, *const trees_1[] = {"cpuacct", "cpu,cpuacct"};
    const uint64_t none = UINT64_MAX;
    char text[TEXT_BYTES];
    for (int i = 0; i < 2 && !use->has_time; i++) {
        const uint64_t microseconds = control_group_use_read_text(root, trees_2[i], path, "cpu.stat", text)
                                          ? kernel_number_of(text, "usage_usec", none)
                                          : none;
        use->has_time = microseconds <= UINT64_MAX / 1000;
        use->nanoseconds = use->has_time ? microseconds * 1000 : 0;
    }
    for (int i = 0; i < 2 && !use->has_time; i++)
        use->has_time = control_group_use_read_number(root, trees_1[i], path, "cpuacct.usage", &use->nanoseconds);
}

static void read_memory(int root, const char *path, struct control_group_use *use)
{
    static const struct {
        const char *tree, *used, *reclaimable;
    } kinds[] = {{".", "memory.current", "inactive_file"}, {"memory", "memory.usage_in_bytes", "total_inactive_file"}};
    char text[TEXT_BYTES];
    for (int i = 0; i < 2 && !use->has_memory; i++) {
        uint64_t used;
        use->has_memory = control_group_use_read_number(root, kinds[i].tree, path, kinds[i].used, &used);
        if (!use->has_memory)
            continue;
        const uint64_t reclaimable = control_group_use_read_text(root, kinds[i].tree, path, "memory.stat", text)
                                         ? kernel_number_of(text, kinds[i].reclaimable, 0)
                                         : 0;
        use->memory = used > reclaimable ? used - reclaimable : 0;
    }
}

void control_group_use_read(int root, const char *path, struct control_group_use *use)
{
    *use = (struct control_group_use){0};
    read_time(root, path, use);
    read_memory(root, path, use);
}
