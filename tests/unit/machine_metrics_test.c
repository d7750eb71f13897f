/* SPDX-License-Identifier: Apache-2.0 */
/* What a machine does, in machines made of files whose counters move, and in this one. */
#include "observe/telemetry/machine_metrics.h"

#include <math.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/clock.h"
#include "machine_tree.h"

#define SECOND UINT64_C(1000000000)

static const char *root;
static struct machine_metrics *metrics;
static uint64_t now;

static int make_machine(void **state)
{
    root = temporary_directory();
    now = 1000 * SECOND;
    tree_put(root, "proc/stat", "cpu  1000 100 500 8000 200 30 20 50 400 10\ncpu0 1 2 3 4\ncpu1 1 2 3 4\nintr 5\n");
    return machine_metrics_open(root, &metrics, NULL);
}

static int remove_machine(void **state)
{
    machine_metrics_close(metrics);
    return file_remove_tree(root, NULL);
}

static void sample_after(double seconds)
{
    now += (uint64_t)(seconds * 1e9);
    assert_int_equal(machine_metrics_sample(metrics, now, false, NULL), WEFT_OK);
}

static double value(const char *name)
{
    return measured_values_find(&machine_metrics_machine(metrics)->values, name);
}

static double node_value(uint64_t id, const char *name)
{
    return measured_values_find(&machine_metrics_node(metrics, id)->values, name);
}

#define assert_near(found, expected)                                                                                   \
    do {                                                                                                               \
        const double found_ = (found), expected_ = (expected);                                                         \
        if (!(fabs(found_ - expected_) <= 1e-9 * fabs(expected_) + 1e-12))                                             \
            fail_msg("%s is %.12g, not %.12g", #found, found_, expected_);                                             \
    } while (0)

/* ---- processors and memory ---- */

static void shares_of_processor_time_come_with_the_second_sample(void **state)
{
    sample_after(5);
    assert_true(isnan(value("machine/cpu/used")));
    assert_int_equal(machine_metrics_machine(metrics)->processors, 2);
    /* used: 100 + 20 + 30 + 6 + 4 of 1000; guests are in them */
    tree_put(root, "proc/stat", "cpu  1100 120 530 8720 300 36 24 70 480 30\ncpu0 1 2 3 4\ncpu1 1 2 3 4\n");
    sample_after(5);
    assert_near(value("machine/cpu/used"), 0.16);
    assert_near(value("machine/cpu/waiting"), 0.1);
    assert_near(value("machine/cpu/stolen"), 0.02);
    assert_near(machine_metrics_machine(metrics)->seconds, 160.0 / (double)sysconf(_SC_CLK_TCK));
}

static void idle_time_that_falls_is_none(void **state)
{
    sample_after(5);
    tree_put(root, "proc/stat", "cpu  1100 100 500 7990 195 30 20 50 0 0\ncpu0 1 2 3 4\n");
    sample_after(5);
    assert_near(value("machine/cpu/used"), 1);
    assert_near(value("machine/cpu/waiting"), 0);
}

static void without_a_tick_between_samples_nothing_is_known(void **state)
{
    sample_after(5);
    sample_after(0.001);
    assert_true(isnan(value("machine/cpu/used")));
    assert_near(machine_metrics_machine(metrics)->seconds, 0);
}

static void memory_is_what_cannot_be_had(void **state)
{
    tree_put(root, "proc/meminfo", "MemTotal:       16000 kB\nMemFree:  1 kB\nMemAvailable:    6000 kB\n");
    sample_after(5);
    assert_near(value("machine/memory/used"), 10000 * 1024.0);
    assert_near(value("machine/memory/total"), 16000 * 1024.0);
    assert_true(isnan(value("machine/swap/used")));
    tree_put(root, "proc/meminfo",
             "MemTotal: 16000 kB\nMemAvailable: 6000 kB\nSwapCached: 9 kB\nSwapTotal: 700 kB\nSwapFree: 500 kB\n");
    sample_after(5);
    assert_near(value("machine/swap/used"), 200 * 1024.0);
    tree_put(root, "proc/meminfo", "MemTotal: 16000 kB\nMemAvailable: 16001 kB\n");
    sample_after(5);
    assert_true(isnan(value("machine/memory/used")));
}

/* ---- network and disks ---- */

#define HEADING                                                                                                        \
    "Inter-|   Receive                                                |  Transmit\n"                                   \
    " face |bytes    packets errs drop fifo frame compressed multicast|bytes    packets\n"

static void put_network(uint64_t loopback, uint64_t received, uint64_t sent)
{
    tree_put(root, "proc/self/net/dev",
             HEADING "    lo: %" PRIu64 " 9 0 0 0 0 0 0 %" PRIu64 " 9 0 0 0 0 0 0\n"
                     "  ifb0:       0       0    0    0    0     0  0 0        0  0 0 0 0 0 0 0\n"
                     "eth0.5:%" PRIu64 " 23 0 0 0 0 0 0 %" PRIu64 " 14 0 0 0 0 0 0\n",
             loopback, loopback, received, sent);
}

static void each_interface_has_its_rates(void **state)
{
    put_network(0, 1000, 500);
    sample_after(5);
    put_network(8000, 6000, 2500);
    sample_after(4);
    assert_near(value("machine/network/eth0.5/received"), 1250);
    assert_near(value("machine/network/eth0.5/sent"), 500);
    assert_near(value("machine/network/lo/sent"), 2000);
    assert_true(isnan(value("machine/network/ifb0/sent"))); /* never had any */
}

static void an_interface_that_was_made_again_leaves_a_gap(void **state)
{
    put_network(1, 1000000, 1000000);
    sample_after(5);
    put_network(1, 300, 1000100);
    sample_after(5);
    assert_true(isnan(value("machine/network/eth0.5/received")));
    assert_near(value("machine/network/eth0.5/sent"), 20);
    put_network(1, 350, 1000100);
    sample_after(5);
    assert_near(value("machine/network/eth0.5/received"), 10);
    tree_put(root, "proc/self/net/dev", HEADING); /* gone, and back with larger counters than before */
    sample_after(5);
    assert_true(isnan(value("machine/network/eth0.5/received")));
    put_network(1, 9000000, 9000000);
    sample_after(5);
    assert_true(isnan(value("machine/network/eth0.5/received")));
    put_network(1, 9000005, 9000000);
    sample_after(5);
    assert_near(value("machine/network/eth0.5/received"), 1);
}

static void names_from_outside_are_made_harmless(void **state)
{
    for (int turn = 1; turn <= 2; turn++) {
        tree_put(root, "proc/self/net/dev",
                 HEADING "a/../b\x1b[2J:%d 1 1 1 1 1 1 1 1 1\n"
                         "e:1: %d 1 1 1 1 1 1 1 1 1\n"
                         "twice: %d 1 1 1 1 1 1 1 1\ntwice: 77777 1 1 1 1 1 1 1 1\n",
                 50 * turn, 10 * turn, 20 * turn);
        sample_after(10);
    }
    assert_near(value("machine/network/a_.._b__2J/received"), 5);
    assert_near(value("machine/network/e:1/received"), 1);
    assert_near(value("machine/network/twice/received"), 2);
}

static void whole_disks_have_rates_in_bytes(void **state)
{
    tree_put(root, "sys/block/nvme0n1/size", "1\n");
    tree_put(root, "sys/block/cciss!c0d0/size", "1\n");
    tree_put(root, "sys/block/loop0/size", "1\n");
    for (uint64_t turn = 1; turn <= 2; turn++) {
        tree_put(root, "proc/diskstats",
                 " 259 0 nvme0n1 5 0 %" PRIu64 " 1 6 0 %" PRIu64 " 1 0 1 1 0 0 0 0 7 7\n"
                 " 259 1 nvme0n1p1 5 0 %" PRIu64 " 1 6 0 %" PRIu64 " 1 0 1 1\n"
                 " 104 0 cciss/c0d0 5 0 %" PRIu64 " 1 6 0 0 1 0 1 1\n"
                 "   7 0 loop0 5 0 %" PRIu64 " 1 6 0 0 1 0 1 1\n",
                 100 * turn, 30 * turn, 100 * turn, 30 * turn, 50 * turn, 100 * turn);
        sample_after(2);
    }
    assert_near(value("machine/disk/nvme0n1/read"), 100 * 512 / 2.0);
    assert_near(value("machine/disk/nvme0n1/written"), 30 * 512 / 2.0);
    assert_near(value("machine/disk/cciss_c0d0/read"), 50 * 512 / 2.0);
    assert_true(isnan(value("machine/disk/nvme0n1p1/read")));
    assert_true(isnan(value("machine/disk/loop0/read")));
}

/* ---- nodes ---- */

static void a_node_of_processes_uses_processors_and_memory(void **state)
{
    const double tick = 1.0 / (double)sysconf(_SC_CLK_TCK);
    assert_int_equal(machine_metrics_watch(metrics, &(struct machine_node){7, 100, NULL}, NULL), WEFT_OK);
    tree_put_process(root, &(struct tree_process){100, 1, 100, 5, 1000, 0, 10});
    tree_put_process(root, &(struct tree_process){101, 100, 100, 6, 1000, 0, 20});
    tree_put_process(root, &(struct tree_process){300, 1, 300, 6, 1000, 0, 40});
    sample_after(5);
    assert_near(node_value(7, "node/processes"), 2);
    assert_near(node_value(7, "node/memory/resident"), 30.0 * (double)sysconf(_SC_PAGESIZE));
    assert_true(isnan(node_value(7, "node/cpu")));
    assert_true(isnan(node_value(7, "node/memory/group")));
    tree_put_process(root, &(struct tree_process){100, 1, 100, 5, 1040, 0, 10});
    tree_put_process(root, &(struct tree_process){101, 100, 100, 6, 1020, 0, 20});
    sample_after(2);
    assert_near(node_value(7, "node/cpu"), 60 * tick / 2);
    assert_near(machine_metrics_node(metrics, 7)->seconds, 60 * tick);
    tree_put_process(root, &(struct tree_process){100, 1, 100, 5, 9000000, 0, 10});
    sample_after(2);
    assert_near(node_value(7, "node/cpu"), 2); /* no more than there are */
}

static void a_control_group_tells_for_its_node(void **state)
{
    assert_int_equal(machine_metrics_watch(metrics, &(struct machine_node){1, 0, "/weft/run-1"}, NULL), WEFT_OK);
    assert_int_equal(machine_metrics_watch(metrics, &(struct machine_node){2, 0, "/weft/run-2"}, NULL), WEFT_OK);
    assert_int_equal(machine_metrics_watch(metrics, &(struct machine_node){3, 0, "/weft/none"}, NULL), WEFT_OK);
    for (uint64_t turn = 1; turn <= 2; turn++) {
        tree_put(root, "sys/fs/cgroup/weft/run-1/cpu.stat", "usage_usec %" PRIu64 "\nuser_usec 1\n", turn * 3000000);
        tree_put(root, "sys/fs/cgroup/weft/run-1/memory.current", "5000\n");
        tree_put(root, "sys/fs/cgroup/weft/run-1/memory.stat", "anon 1\nactive_file 7\ninactive_file 2000\n");
        tree_put(root, "sys/fs/cgroup/cpu,cpuacct/weft/run-2/cpuacct.usage", "%" PRIu64 "\n", turn * SECOND);
        tree_put(root, "sys/fs/cgroup/memory/weft/run-2/memory.usage_in_bytes", "700\n");
        sample_after(2);
    }
    assert_near(node_value(1, "node/cpu"), 1.5);
    assert_near(node_value(1, "node/memory/group"), 3000);
    assert_near(node_value(2, "node/cpu"), 0.5);
    assert_near(node_value(2, "node/memory/group"), 700);
    assert_int_equal(machine_metrics_node(metrics, 3)->values.count, 0);
    tree_remove(root, "sys/fs/cgroup/weft/run-1"); /* it is over */
    sample_after(2);
    assert_int_equal(machine_metrics_node(metrics, 1)->values.count, 0);
    assert_near(machine_metrics_node(metrics, 1)->seconds, 3);
}

static void nodes_are_told_apart(void **state)
{
    struct error error = {0};
    for (uint64_t id = 0; id < 20; id++)
        assert_int_equal(machine_metrics_watch(metrics, &(struct machine_node){id, 100 + (int)id, NULL}, NULL),
                         WEFT_OK);
    assert_int_equal(machine_metrics_watch(metrics, &(struct machine_node){5, 9, NULL}, &error), WEFT_ERROR_ARGUMENT);
    assert_non_null(strstr(error.text, "node 5"));
    error_clear(&error);
    assert_int_equal(machine_metrics_watch(metrics, &(struct machine_node){50, 0, NULL}, &error), WEFT_ERROR_ARGUMENT);
    assert_non_null(strstr(error.text, "neither a first process nor a control group"));
    assert_null(machine_metrics_node(metrics, 50));
    tree_put_process(root, &(struct tree_process){119, 1, 119, 5, 1000, 0, 10});
    sample_after(1);
    assert_near(node_value(19, "node/processes"), 1);
    assert_near(node_value(18, "node/processes"), 0);
}

static void a_machine_that_shows_nothing_has_no_values(void **state)
{
    struct error error = {0};
    tree_remove(root, "proc");
    sample_after(5);
    sample_after(5);
    assert_int_equal(machine_metrics_machine(metrics)->values.count, 0);
    struct machine_metrics *none;
    assert_int_equal(machine_metrics_open("/nowhere/at/all", &none, &error), WEFT_ERROR_SYSTEM);
    assert_non_null(strstr(error.text, "/nowhere/at/all"));
}

/* ---- this machine ---- */

static void wait_for_a_moment(void)
{
    nanosleep(&(struct timespec){.tv_nsec = 300000000}, NULL);
}

/* A child that computes, and one that sleeps with 99 children: the first is seen to use time. What a sample costs is
 * printed. */
static void this_machine_shows_who_computes(void **state)
{
    enum { SLEEPERS = 100, SAMPLES = 20 };
    const pid_t busy = fork(), first = busy ? fork() : -1;
    struct machine_metrics *here;
    struct error error = {0};
    if (first == 0) {
        for (int i = 1, child = 1; i < SLEEPERS && child > 0; i++)
            child = fork();
        prctl(PR_SET_PDEATHSIG, SIGKILL); /* whatever becomes of the test */
        for (;;)
            pause();
    }
    if (busy == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        for (volatile uint64_t turns = 0;; turns++)
            ;
    }
    assert_int_equal(machine_metrics_open("/", &here, &error), WEFT_OK);
    machine_metrics_watch(here, &(struct machine_node){1, busy, NULL}, NULL);
    machine_metrics_watch(here, &(struct machine_node){2, first, NULL}, NULL);
    machine_metrics_watch(here, &(struct machine_node){3, getpid(), NULL}, NULL);
    assert_int_equal(machine_metrics_sample(here, clock_now(), false, NULL), WEFT_OK);
    const struct machine_use *computes = machine_metrics_node(here, 1), *sleeps = machine_metrics_node(here, 2);
    for (int tries = 0;
         tries < 100 && !(computes->seconds > 0 && measured_values_find(&sleeps->values, "node/processes") == SLEEPERS);
         tries++) { /* a busy machine lets it wait */
        wait_for_a_moment();
        assert_int_equal(machine_metrics_sample(here, clock_now(), true, NULL), WEFT_OK);
    }
    assert_true(measured_values_find(&computes->values, "node/cpu") > 0);
    assert_true(measured_values_find(&computes->values, "node/memory/resident") > 0);
    assert_true(measured_values_find(&sleeps->values, "node/processes") == SLEEPERS);
    assert_true(measured_values_find(&machine_metrics_node(here, 3)->values, "node/processes") == SLEEPERS + 2);
    assert_true(measured_values_find(&sleeps->values, "node/cpu") <
                measured_values_find(&computes->values, "node/cpu"));
    const struct machine_use *all = machine_metrics_machine(here);
    const double share = measured_values_find(&all->values, "machine/cpu/used");
    assert_true(share > 0 && share <= 1 && all->processors > 0);
    assert_true(measured_values_find(&all->values, "machine/memory/used") > 0);
    const uint64_t begun = clock_thread_cpu();
    for (int i = 0; i < SAMPLES; i++)
        machine_metrics_sample(here, clock_now(), false, NULL);
    const double taken = (double)(clock_thread_cpu() - begun) / SAMPLES * 1e-6;
    const uint64_t begun_shared = clock_thread_cpu();
    machine_metrics_sample(here, clock_now(), true, NULL);
    print_message("a sample with %d processes of runs takes %.2f ms of processor time, with their PSS %.2f ms\n",
                  SLEEPERS + 1, taken, (double)(clock_thread_cpu() - begun_shared) * 1e-6);
    machine_metrics_close(here);
    kill(busy, SIGKILL);
    waitpid(busy, NULL, 0);
    kill(first, SIGKILL);
    waitpid(first, NULL, 0);
}

int main(void)
{
#define IN_MACHINE(test) cmocka_unit_test_setup_teardown(test, make_machine, remove_machine)
    const struct CMUnitTest tests[] = {
        IN_MACHINE(shares_of_processor_time_come_with_the_second_sample),
        IN_MACHINE(idle_time_that_falls_is_none),
        IN_MACHINE(without_a_tick_between_samples_nothing_is_known),
        IN_MACHINE(memory_is_what_cannot_be_had),
        IN_MACHINE(each_interface_has_its_rates),
        IN_MACHINE(an_interface_that_was_made_again_leaves_a_gap),
        IN_MACHINE(names_from_outside_are_made_harmless),
        IN_MACHINE(whole_disks_have_rates_in_bytes),
        IN_MACHINE(a_node_of_processes_uses_processors_and_memory),
        IN_MACHINE(a_control_group_tells_for_its_node),
        IN_MACHINE(nodes_are_told_apart),
        IN_MACHINE(a_machine_that_shows_nothing_has_no_values),
        cmocka_unit_test(this_machine_shows_who_computes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
