/* SPDX-License-Identifier: Apache-2.0 */
/* Memory and processor limits of machines that are directories of files: both versions of control groups, and none. */
#include "base/file/file.h"
#include "core/topology/limits.h"

#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

#include <cmocka.h>

#include "temporary.h"

#define GIB ((uint64_t)1 << 30)

static const char *root;

/* Write `content` at root/path, with the directories on the way. */
static void put(const char *path, const char *content)
{
    struct error error = {0};
    char directory[FILE_PATH_BYTES];
    const char *full = temporary_path(root, path);
    snprintf(directory, sizeof directory, "%.*s", (int)(file_name(full) - full), full);
    if (file_make_directory(directory, &error) || file_write(full, content, strlen(content), &error))
        fail_msg("%s", error.text);
}

static int make_machine(void **state)
{
    root = temporary_directory();
    put("proc/meminfo", "MemTotal:       16777216 kB\nMemFree:   1 kB\nMemAvailable:    8388608 kB\n");
    put("proc/self/status", "Name:\ttest\nVmSize:\t  1024 kB\n");
    return 0;
}

static int remove_machine(void **state)
{
    return file_remove_tree(root, NULL);
}

static struct limits read_limits(void)
{
    struct limits limits;
    struct error error = {0};
    if (limits_read_below(root, &limits, &error) != WEFT_OK)
        fail_msg("%s", error.text);
    return limits;
}

static void without_groups_memory_alone_counts(void **state)
{
    struct limits limits = read_limits();
    assert_true(limits.memory_total == 16 * GIB && limits.memory_available == 8 * GIB);
    assert_true(limits.group_limit == LIMITS_NONE && limits.group_available == LIMITS_NONE);
    assert_true(limits.processor_quota == 0);
    assert_int_equal(limits.address_space_used, 1 << 20);
    assert_true(limits_touchable(&limits) == 8 * GIB);
    assert_true(limits_processors(&limits) >= 1);
}

static void version_2_takes_the_tightest_level(void **state)
{
    put("proc/self/cgroup", "0::/user/job\n");
    put("sys/fs/cgroup/user/job/memory.max", "max\n");
    put("sys/fs/cgroup/user/job/cpu.max", "max 100000\n");
    put("sys/fs/cgroup/user/memory.max", "4294967296\n");
    put("sys/fs/cgroup/user/memory.current", "2147483648\n");
    put("sys/fs/cgroup/user/memory.stat", "anon 1\nfile 5\ninactive_file 1073741824\n");
    put("sys/fs/cgroup/user/cpu.max", "150000 100000\n");
    struct limits limits = read_limits();
    assert_true(limits.group_limit == 4 * GIB);
    assert_true(limits.group_available == 3 * GIB); /* the file cache can be taken back */
    assert_true(limits.processor_quota == 1.5);
    limits.processors = 8;
    assert_int_equal(limits_processors(&limits), 2);
    assert_true(limits_touchable(&limits) == 3 * GIB);
}

static void version_1_has_a_tree_a_controller(void **state)
{
    put("proc/self/cgroup", "9:name=systemd:/\n4:memory:/box/a\n2:cpu,cpuacct:/box\n0::/\n");
    put("sys/fs/cgroup/memory/box/a/memory.limit_in_bytes", "9223372036854771712\n");
    put("sys/fs/cgroup/memory/box/memory.limit_in_bytes", "2147483648\n");
    put("sys/fs/cgroup/memory/box/memory.usage_in_bytes", "3147483648\n");
    put("sys/fs/cgroup/cpu,cpuacct/box/cpu.cfs_quota_us", "-1\n");
    put("sys/fs/cgroup/cpu,cpuacct/cpu.cfs_quota_us", "50000\n");
    put("sys/fs/cgroup/cpu,cpuacct/cpu.cfs_period_us", "100000\n");
    struct limits limits = read_limits();
    assert_true(limits.group_limit == 2 * GIB);
    assert_true(limits.group_available == 0); /* over its limit already */
    assert_true(limits.processor_quota == 0.5);
    assert_int_equal(limits_processors(&limits), 1);
}

static void odd_files_count_as_no_limit(void **state)
{
    put("proc/self/cgroup", "nonsense\n::\n0::/gone/away\n4:memory\n3:memory:\n");
    put("sys/fs/cgroup/memory.max", "lots\n");
    put("sys/fs/cgroup/cpu.max", "0 0\n");
    struct limits limits = read_limits();
    assert_true(limits.group_limit == LIMITS_NONE);
    assert_true(limits.processor_quota == 0);
    assert_int_equal(limits_read_below("/nowhere", &limits, NULL), WEFT_ERROR_SYSTEM);
}

static void what_does_not_fit_is_told_with_its_limit(void **state)
{
    struct error error = {0};
    struct limits limits = {.memory_total = 16 * GIB,
                            .memory_available = 8 * GIB,
                            .group_limit = 4 * GIB,
                            .group_available = 3 * GIB,
                            .address_space_limit = 64 * GIB,
                            .address_space_used = 60 * GIB,
                            .locked_limit = LIMITS_NONE};
    assert_int_equal(limits_check(&limits, 4 * GIB, 3 * GIB, "the heap", &error), WEFT_OK);
    assert_int_equal(limits_check(&limits, 5 * GIB, GIB, "the heap", &error), WEFT_ERROR_MEMORY);
    assert_string_equal(error.text,
                        "the heap needs 5 GiB of address space, but only 4 GiB of the limit of 64 GiB are left; "
                        "raise it (ulimit -v unlimited) or ask for less");
    error_clear(&error);
    assert_int_equal(limits_check(&limits, 4 * GIB, 4 * GIB, "the heap", &error), WEFT_ERROR_MEMORY);
    assert_non_null(strstr(error.text, "only 3 GiB of the control group's limit of 4 GiB"));
    error_clear(&error);
    limits.group_available = limits.group_limit = LIMITS_NONE;
    assert_int_equal(limits_check(&limits, 4 * GIB, 9 * GIB, "the heap", &error), WEFT_ERROR_MEMORY);
    assert_non_null(strstr(error.text, "only 8 GiB of this machine's 16 GiB"));
}

static void the_real_address_space_limit_is_seen(void **state)
{
    struct limits before, after;
    struct rlimit old, low;
    assert_int_equal(getrlimit(RLIMIT_AS, &old), 0);
    assert_int_equal(limits_read(&before, NULL), WEFT_OK);
    low = old;
    low.rlim_cur = before.address_space_used + 2 * GIB;
    if (setrlimit(RLIMIT_AS, &low) != 0)
        skip();
    assert_int_equal(limits_read(&after, NULL), WEFT_OK);
    setrlimit(RLIMIT_AS, &old);
    assert_true(after.address_space_limit == low.rlim_cur);
    assert_true(limits_mappable(&after) <= 2 * GIB);
}

static void processors_are_told_apart(void **state)
{
    cpu_set_t before, one;
    struct limits all, bound, again;
    assert_int_equal(sched_getaffinity(0, sizeof before, &before), 0);
    if (CPU_COUNT(&before) < 2)
        skip();
    assert_int_equal(limits_read(&all, NULL), WEFT_OK);
    int processor = 0;
    while (!CPU_ISSET(processor, &before))
        processor++;
    CPU_ZERO(&one);
    CPU_SET(processor, &one);
    assert_int_equal(sched_setaffinity(0, sizeof one, &one), 0);
    assert_int_equal(limits_read(&bound, NULL), WEFT_OK);
    assert_int_equal(sched_setaffinity(0, sizeof before, &before), 0);
    assert_int_equal(limits_read(&again, NULL), WEFT_OK);
    assert_int_equal(bound.processors, 1);
    assert_true(bound.processor_set != all.processor_set);
    assert_true(again.processor_set == all.processor_set);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(without_groups_memory_alone_counts, make_machine, remove_machine),
        cmocka_unit_test_setup_teardown(version_2_takes_the_tightest_level, make_machine, remove_machine),
        cmocka_unit_test_setup_teardown(version_1_has_a_tree_a_controller, make_machine, remove_machine),
        cmocka_unit_test_setup_teardown(odd_files_count_as_no_limit, make_machine, remove_machine),
        cmocka_unit_test(what_does_not_fit_is_told_with_its_limit),
        cmocka_unit_test(the_real_address_space_limit_is_seen),
        cmocka_unit_test(processors_are_told_apart),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
