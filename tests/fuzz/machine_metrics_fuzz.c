/* SPDX-License-Identifier: Apache-2.0 */
/* Any texts where the kernel tells what a machine does: values that are finite, not below zero, and have plain names.
 */
#include "fuzz_tree.h"

#include "observe/telemetry/cpu_power.h"
#include "observe/telemetry/machine_metrics.h"

#include <math.h>
#include <string.h>

static const char *const files[] = {
    "proc/stat",
    "proc/meminfo",
    "proc/self/net/dev",
    "proc/diskstats",
    "proc/100/stat",
    "proc/101/stat",
    "proc/100/smaps_rollup",
    "sys/fs/cgroup/a/cpu.stat",
    "sys/fs/cgroup/a/memory.current",
    "sys/fs/cgroup/a/memory.stat",
    "sys/fs/cgroup/cpuacct/b/cpuacct.usage",
    "sys/class/powercap/intel-rapl:0/name",
    "sys/class/powercap/intel-rapl:0/energy_uj",
    "sys/class/powercap/intel-rapl:0/max_energy_range_uj",
};

static void check(const struct measured_values *values)
{
    for (uint32_t i = 0; i < values->count; i++) {
        const struct measured_value *value = &values->values[i];
        if (!isfinite(value->value) || value->value < 0 || !memchr(value->name, 0, sizeof value->name))
            abort();
        if (strncmp(value->name, "machine/cpu/", 12) == 0 && value->value > 1)
            abort();
        for (const char *letter = value->name; *letter; letter++)
            if (*letter <= ' ' || *letter > '~' || strchr("\"\\<>&'", *letter))
                abort();
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const struct machine_node nodes[] = {{1, 100, NULL}, {2, 0, "/a"}, {3, 100, "/b"}};
    struct machine_metrics *metrics;
    struct cpu_power *power;
    struct measured_values powers = {0};
    double seconds[4] = {0};
    const char *root = fuzz_tree_make(files, sizeof files / sizeof *files);
    fuzz_tree_put(&data, &size);
    if (machine_metrics_open(root, &metrics, NULL) != WEFT_OK || cpu_power_open(root, &power, NULL) != WEFT_OK)
        abort();
    for (size_t i = 0; i < 3; i++)
        if (machine_metrics_watch(metrics, &nodes[i], NULL) != WEFT_OK)
            abort();
    for (uint64_t turn = 1; turn <= 3; turn++) {
        struct cpu_energy energy;
        const uint64_t now = turn * 5000000000u;
        if (machine_metrics_sample(metrics, now, turn == 2, NULL) != WEFT_OK ||
            cpu_power_sample(power, now, &powers, &energy, NULL) != WEFT_OK || energy.joules < 0)
            abort();
        for (uint64_t id = 0; id < 4; id++) {
            const struct machine_use *use = id ? machine_metrics_node(metrics, id) : machine_metrics_machine(metrics);
            check(&use->values);
            const double used = measured_values_find(&use->values, "node/cpu");
            if (!isfinite(use->seconds) || use->seconds < seconds[id] || (use->processors && used > use->processors))
                abort();
            seconds[id] = use->seconds;
        }
        check(&powers);
        fuzz_tree_put(&data, &size);
    }
    measured_values_free(&powers);
    machine_metrics_close(metrics);
    cpu_power_close(power);
    return 0;
}
