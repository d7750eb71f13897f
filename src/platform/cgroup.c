/* SPDX-License-Identifier: Apache-2.0 */
#include "platform/cgroup.h"

#include "base/clock.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define TEXT_MOST ((size_t)1 << 20)

static const char *const mounts[] = {"/sys/fs/cgroup", "/sys/fs/cgroup/unified"};
#define MOUNTS (sizeof mounts / sizeof *mounts)

/* The folder of this process's own group; false: there is no version 2. */
static bool own_group(char path[FILE_PATH_BYTES])
{
    char *text, *rest = NULL, own[FILE_PATH_BYTES] = "";
    size_t size;
    if (file_read("/proc/self/cgroup", TEXT_MOST, &text, &size, NULL) != WEFT_OK)
        return false;
    for (char *line = strtok_r(text, "\n", &rest); line; line = strtok_r(NULL, "\n", &rest))
        if (strncmp(line, "0::/", 4) == 0)
            snprintf(own, sizeof own, "%s", line + 3);
    free(text);
    for (size_t i = 0; *own && i < MOUNTS; i++) {
        char probe[FILE_PATH_BYTES];
        if (snprintf(path, FILE_PATH_BYTES, "%s%s", mounts[i], own) < FILE_PATH_BYTES &&
            file_join(probe, path, "cgroup.procs", NULL) == WEFT_OK && access(probe, W_OK) == 0)
            return true;
    }
    return false;
}

void cgroup_make(const char *name, char path[FILE_PATH_BYTES])
{
    char own[FILE_PATH_BYTES], probe[FILE_PATH_BYTES];
    if (!own_group(own) || file_join(path, own, name, NULL) != WEFT_OK) {
        path[0] = '\0';
        return;
    }
    (void)!mkdir(path, 0755);
    if (file_join(probe, path, "cgroup.procs", NULL) != WEFT_OK || access(probe, W_OK) != 0)
        path[0] = '\0';
}

static bool write_value(const char *folder, const char *name, const char *value)
{
    char path[FILE_PATH_BYTES];
    if (!*folder || file_join(path, folder, name, NULL) != WEFT_OK)
        return false;
    int file = open(path, O_WRONLY | O_CLOEXEC);
    bool written = file >= 0 && write(file, value, strlen(value)) > 0;
    if (file >= 0)
        close(file);
    return written;
}

void cgroup_enter(const char *path)
{
    write_value(path, "cgroup.procs", "0");
}

/* Kill each process by its number; how many there were. */
static int kill_each(const char *folder)
{
    char path[FILE_PATH_BYTES], *text, *rest = NULL;
    size_t size;
    int count = 0;
    if (file_join(path, folder, "cgroup.procs", NULL) != WEFT_OK ||
        file_read(path, TEXT_MOST, &text, &size, NULL) != WEFT_OK)
        return 0;
    for (char *line = strtok_r(text, "\n", &rest); line; line = strtok_r(NULL, "\n", &rest), count++) {
        int process = atoi(line);
        if (process > 1)
            kill(process, SIGKILL);
    }
    free(text);
    return count;
}

bool cgroup_kill(const char *path, double seconds)
{
    uint64_t end = clock_after(seconds);
    if (!*path)
        return true;
    write_value(path, "cgroup.kill", "1");
    while (kill_each(path) > 0) {
        if (clock_now() > end)
            return false;
        poll(NULL, 0, 2);
    }
    return true;
}

void cgroup_remove(const char *path)
{
    if (*path)
        rmdir(path);
}

const char *cgroup_in_tree(const char *path)
{
    for (size_t i = MOUNTS; i-- > 0;) /* the longer one first */
        if (strncmp(path, mounts[i], strlen(mounts[i])) == 0 && path[strlen(mounts[i])] == '/')
            return path + strlen(mounts[i]);
    return NULL;
}
