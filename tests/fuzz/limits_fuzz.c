/* SPDX-License-Identifier: Apache-2.0 */
/* Any texts where the kernel describes memory, processors and control groups of both versions: limits that can be
 * reckoned with. */
#include "fuzz_tree.h"

#include "core/topology/limits.h"

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

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct limits limits;
    struct error error = {0};
    const char *root = fuzz_tree_make(files, sizeof files / sizeof *files);
    fuzz_tree_put(&data, &size);
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
