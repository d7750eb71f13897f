/* SPDX-License-Identifier: Apache-2.0 */
/* Control groups of both versions, in directories that look like the kernel's: what is written where. */
#include "platform/agent/cgroup/cgroup.h"
#include "temporary.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#define GIB ((uint64_t)1 << 30)

static const char *root;

/* Write root/path, with the directories that it is in. */
static void put(const char *path, const char *text)
{
    char file[FILE_PATH_BYTES];
    snprintf(file, sizeof file, "%s/%s", root, path);
    *strrchr(file, '/') = '\0';
    assert_int_equal(file_make_directory(file, NULL), WEFT_OK);
    snprintf(file, sizeof file, "%s/%s", root, path);
    assert_int_equal(file_write(file, text, strlen(text), NULL), WEFT_OK);
}

static void expect(const char *path, const char *text)
{
    char file[FILE_PATH_BYTES], *found;
    size_t size;
    snprintf(file, sizeof file, "%s/%s", root, path);
    assert_int_equal(file_read(file, 4096, &found, &size, NULL), WEFT_OK);
    if (strncmp(found, text, strlen(text)) != 0)
        fail_msg("%s is '%s', not '%s'", path, found, text);
    free(found);
}

/* A group with the files in which limits are written, in their unlimited state. */
static void put_group(const char *directory, const char *const *names)
{
    char path[FILE_PATH_BYTES];
    for (; *names; names++) {
        snprintf(path, sizeof path, "sys/fs/cgroup/%s/%s", directory, *names);
        put(path, "");
    }
}

static const struct cgroup_limits limits = {
    .memory = GIB, .memory_of_all = 8 * GIB, .processes = 77, .quota = 2, .weight = 3, .processors = "2-3"};

static void version_2_has_one_tree(void **state)
{
    static const char *const files[] = {"cgroup.procs", "cgroup.subtree_control",
                                        "memory.max",   "memory.swap.max",
                                        "pids.max",     "cpu.max",
                                        "cpu.weight",   "cpuset.cpus",
                                        "memory.peak",  "memory.events",
                                        "pids.events",  NULL};
    struct cgroup_place place;
    struct cgroup group;
    struct cgroup_events events;
    (void)state;
    root = temporary_directory();
    put("proc/self/cgroup", "0::/system.slice/weft.service/weft-server\n");
    put("sys/fs/cgroup/system.slice/weft.service/weft-server/cgroup.procs", "1\n");
    put("sys/fs/cgroup/system.slice/weft.service/cgroup.procs", "");
    put("sys/fs/cgroup/system.slice/weft.service/cgroup.subtree_control", "cpuset cpu memory pids\n");
    put_group("system.slice/weft.service/weft-runs", files);
    put_group("system.slice/weft.service/weft-runs/a", files);
    cgroup_find(root, &place);
    cgroup_make(&place, "a", &limits, &group);
    for (int i = 0; i < CGROUP_CONTROLLERS; i++)
        assert_true(group.limits[i]);
#define A "sys/fs/cgroup/system.slice/weft.service/weft-runs/a/"
    expect(A "memory.max", "1073741824");
    expect(A "memory.swap.max", "0");
    expect(A "pids.max", "77");
    expect(A "cpu.max", "200000 100000");
    expect(A "cpu.weight", "300");
    expect(A "cpuset.cpus", "2-3");
    expect("sys/fs/cgroup/system.slice/weft.service/weft-runs/memory.max", "8589934592");
    assert_true(cgroup_enter(&group));
    expect(A "cgroup.procs", "0");
    put(A "memory.events", "low 0\nhigh 0\nmax 9\noom 2\noom_kill 1\n");
    put(A "memory.peak", "1000\n");
    put(A "pids.events", "max 4\n");
    cgroup_events_read(&group, &events);
    assert_int_equal(events.memory_kills, 1);
    assert_int_equal(events.memory_peak, 1000);
    assert_int_equal(events.forks_denied, 4);
    assert_int_equal(file_remove_tree(root, NULL), WEFT_OK);
}

static void version_1_has_a_tree_for_each_controller(void **state)
{
    static const char *const memory[] = {"cgroup.procs", "memory.limit_in_bytes", "memory.memsw.limit_in_bytes", NULL};
    static const char *const pids[] = {"cgroup.procs", "pids.max", NULL};
    static const char *const cpu[] = {"cgroup.procs", "cpu.shares", "cpu.cfs_period_us", "cpu.cfs_quota_us", NULL};
    static const char *const cpuset[] = {"cgroup.procs", "cpuset.cpus", "cpuset.mems", NULL};
    struct cgroup_place place;
    struct cgroup group;
    (void)state;
    root = temporary_directory();
    put("proc/self/cgroup", "5:memory:/own\n4:cpuset:/\n3:cpu,cpuacct:/\n2:pids:/\n0::/\n");
    put_group("memory/own", memory);
    put_group("memory/own/weft-runs", memory);
    put_group("memory/own/weft-runs/a", memory);
    put_group("pids", pids);
    put_group("pids/weft-runs/a", pids);
    put_group("cpu", cpu);
    put_group("cpu/weft-runs/a", cpu);
    put_group("cpuset/weft-runs", cpuset);
    put_group("cpuset/weft-runs/a", cpuset);
    put("sys/fs/cgroup/cpuset/cgroup.procs", "");
    put("sys/fs/cgroup/cpuset/cpuset.cpus", "0-7\n");
    put("sys/fs/cgroup/cpuset/cpuset.mems", "0-1\n");
    cgroup_find(root, &place);
    cgroup_make(&place, "a", &limits, &group);
    for (int i = 0; i < CGROUP_CONTROLLERS; i++)
        assert_true(group.limits[i]);
    expect("sys/fs/cgroup/memory/own/weft-runs/memory.limit_in_bytes", "8589934592");
    expect("sys/fs/cgroup/memory/own/weft-runs/a/memory.limit_in_bytes", "1073741824");
    expect("sys/fs/cgroup/memory/own/weft-runs/a/memory.memsw.limit_in_bytes", "1073741824");
    expect("sys/fs/cgroup/pids/weft-runs/a/pids.max", "77");
    expect("sys/fs/cgroup/cpu/weft-runs/a/cpu.shares", "3072");
    expect("sys/fs/cgroup/cpu/weft-runs/a/cpu.cfs_quota_us", "200000");
    expect("sys/fs/cgroup/cpuset/weft-runs/cpuset.cpus", "0-7");
    expect("sys/fs/cgroup/cpuset/weft-runs/a/cpuset.mems", "0-1");
    expect("sys/fs/cgroup/cpuset/weft-runs/a/cpuset.cpus", "2-3");
    assert_int_equal(file_remove_tree(root, NULL), WEFT_OK);
}

static void a_server_that_is_alone_makes_room(void **state)
{
    char number[24];
    struct cgroup_place place;
    (void)state;
    root = temporary_directory();
    snprintf(number, sizeof number, "%d\n", (int)getpid());
    put("proc/self/cgroup", "0::/weft.service\n");
    put("sys/fs/cgroup/weft.service/cgroup.procs", number);
    put("sys/fs/cgroup/weft.service/cgroup.controllers", "memory\n");
    put("sys/fs/cgroup/weft.service/cgroup.subtree_control", "");
    cgroup_prepare(root);
    expect("sys/fs/cgroup/weft.service/cgroup.subtree_control", "+memory");
    put("sys/fs/cgroup/weft.service/cgroup.subtree_control", "memory\n");
    cgroup_find(root, &place);
    assert_true(*place.directories[CGROUP_MEMORY]);
    assert_false(*place.directories[CGROUP_PIDS]);
    assert_int_equal(file_remove_tree(root, NULL), WEFT_OK);
}

static void without_trees_nothing_is_limited(void **state)
{
    struct cgroup_place place;
    struct cgroup group;
    (void)state;
    root = temporary_directory();
    put("proc/self/cgroup", "0::/user.slice\n");
    cgroup_find(root, &place);
    cgroup_make(&place, "a", &limits, &group);
    for (int i = 0; i < CGROUP_CONTROLLERS; i++)
        assert_false(group.limits[i]);
    assert_true(cgroup_enter(&group));
    assert_true(cgroup_kill(&group, 0.1));
    cgroup_remove(&group);
    assert_int_equal(file_remove_tree(root, NULL), WEFT_OK);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(version_2_has_one_tree),
        cmocka_unit_test(version_1_has_a_tree_for_each_controller),
        cmocka_unit_test(a_server_that_is_alone_makes_room),
        cmocka_unit_test(without_trees_nothing_is_limited),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
