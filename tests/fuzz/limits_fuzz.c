/* SPDX-License-Identifier: Apache-2.0 */
/* Any texts where the kernel tells of memory, processors and control groups of both versions: limits that can be
 * reckoned with. */
#include "fuzz_file.h"

#include "base/file.h"
#include "topology/limits.h"

#include <string.h>
#include <sys/stat.h>

static const char *const files[] = {
    "proc/meminfo",
    "proc/self/status",
    "proc/self/cgroup",
    "sys/fs/cgroup/a/memory.max",
    "sys/fs/cgroup/a/memory.current",
    "sys/fs/cgroup/a/memory.stat",
    "sys/fs/cgroup/a/cpu.max",
    "sys/fs/cgroup/memory/memory.limit_in_bytes",
    "sys/fs/cgroup/memory/memory.usage_in_bytes",
    "sys/fs/cgroup/memory/memory.stat",
    "sys/fs/cgroup/cpu,cpuacct/cpu.cfs_quota_us",
    "sys/fs/cgroup/cpu,cpuacct/cpu.cfs_period_us",
};
#define FILES (sizeof files / sizeof *files)

static char root[] = "/tmp/weft-fuzz-XXXXXX";
static int memory[FILES];

static void remove_root(void)
{
    file_remove_tree(root, NULL);
}

/* A tree of links to memory, made once: the texts change. */
static void make_root(void)
{
    if (memory[0])
        return;
    if (!mkdtemp(root))
        abort();
    atexit(remove_root);
    for (size_t i = 0; i < FILES; i++) {
        char folder[FILE_PATH_BYTES], path[FILE_PATH_BYTES], source[FUZZ_PATH_BYTES];
        memory[i] = fuzz_file(NULL, 0, source);
        snprintf(path, sizeof path, "%s/%s", root, files[i]);
        snprintf(folder, sizeof folder, "%.*s", (int)(file_name(path) - path), path);
        if (file_make_folder(folder, NULL) != WEFT_OK || symlink(source, path) != 0)
            abort();
    }
}

/* The texts in the order of the files, each ended by a zero. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct limits limits;
    struct error error = {0};
    make_root();
    for (size_t i = 0; i < FILES; i++) {
        const uint8_t *end = size ? memchr(data, 0, size) : NULL;
        size_t length = end ? (size_t)(end - data) : size;
        if (ftruncate(memory[i], 0) != 0 || (length && pwrite(memory[i], data, length, 0) != (ssize_t)length))
            abort();
        data += length + (end != NULL);
        size -= length + (end != NULL);
    }
    if (limits_read_below(root, &limits, &error) != WEFT_OK)
        abort();
    uint64_t touchable = limits_touchable(&limits);
    if (limits_processors(&limits) < 1 || limits_mappable(&limits) > limits.address_space_limit ||
        touchable > limits.memory_available || touchable > limits.group_available ||
        limits.group_available > limits.group_limit || !(limits.processor_quota >= 0))
        abort();
    if (limits_check(&limits, 1 << 20, 1 << 20, "a megabyte", &error) != WEFT_OK && !*error.text)
        abort();
    return 0;
}
