/* SPDX-License-Identifier: Apache-2.0 */
/* The processor time of process groups whose processes come, go and hand their time on: in machines made of files. */
#include "observe/proc/process_times.h"

#include <dirent.h>
#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/random.h"
#include "machine_tree.h"

#define GROUP 100

static const char *root;
static int directory;
static struct process_times *times;
static struct process_set use;

static int make_machine(void **state)
{
    root = temporary_directory();
    directory = open(root, O_RDONLY | O_DIRECTORY);
    use = (struct process_set){.group = GROUP};
    return process_times_open(directory, &times, NULL);
}

static int remove_machine(void **state)
{
    process_times_close(times);
    close(directory);
    return file_remove_tree(root, NULL);
}

static void put(int number, int parent, int group, uint64_t own, uint64_t children)
{
    tree_put_process(root, &(struct tree_process){.number = number,
                                                  .parent = parent,
                                                  .group = group,
                                                  .start = (uint64_t)number * 10,
                                                  .own = own,
                                                  .children = children,
                                                  .resident = 1000});
}

static void end(int number)
{
    char path[32];
    snprintf(path, sizeof path, "proc/%d", number);
    tree_remove(root, path);
}

/* Ticks that the group has used since the reading before. */
static uint64_t read_again(void)
{
    const uint64_t before = use.ticks;
    assert_int_equal(process_times_read(times, &use, 1, false, NULL), WEFT_OK);
    return use.ticks - before;
}

static void what_was_used_before_the_first_reading_does_not_count(void **state)
{
    put(100, 1, GROUP, 5000, 300);
    put(50, 1, 50, 70000, 0);
    assert_int_equal(read_again(), 0);
    assert_int_equal(use.processes, 1);
    assert_int_equal(use.resident, 1000);
    put(100, 1, GROUP, 5025, 300);
    put(50, 1, 50, 71000, 0); /* another group's */
    assert_int_equal(read_again(), 25);
    assert_int_equal(read_again(), 0);
}

static void a_process_that_was_born_since_counts_whole(void **state)
{
    put(100, 1, GROUP, 5000, 0);
    read_again();
    put(101, 100, GROUP, 40, 7); /* 7: a child of its own that has come and gone */
    assert_int_equal(read_again(), 47);
    assert_int_equal(use.processes, 2);
}

static void a_number_that_was_given_again_is_another_process(void **state)
{
    put(100, 1, GROUP, 0, 0);
    put(101, 100, GROUP, 5000, 0);
    read_again();
    tree_put_process(root,
                     &(struct tree_process){.number = 101, .parent = 100, .group = GROUP, .start = 999999, .own = 6});
    assert_int_equal(read_again(), 6);
}

static void time_that_a_parent_is_handed_counts_once(void **state)
{
    put(100, 1, GROUP, 10, 0);
    put(101, 100, GROUP, 200, 0);
    read_again();
    end(101);
    put(100, 1, GROUP, 12, 230); /* the child used 30 more before its end, the parent 2 */
    assert_int_equal(read_again(), 32);
}

static void a_whole_family_that_ends_counts_once(void **state)
{
    put(100, 1, GROUP, 10, 0);
    put(101, 100, GROUP, 200, 50);
    put(102, 101, GROUP, 400, 0);
    put(103, 102, GROUP, 800, 0);
    read_again();
    for (int number = 101; number <= 103; number++)
        end(number);
    put(100, 1, GROUP, 10, 1450 + 9);
    assert_int_equal(read_again(), 9);
}

static void a_child_that_nobody_waits_for_takes_nothing_from_others(void **state)
{
    put(100, 1, GROUP, 10, 0);
    put(101, 100, GROUP, 900, 0);
    put(102, 100, GROUP, 10, 0);
    read_again();
    end(101);
    put(102, 100, GROUP, 35, 0);
    assert_int_equal(read_again(), 25);
}

static void the_time_of_a_child_in_another_group_comes_without_what_was_seen_of_it(void **state)
{
    put(100, 1, GROUP, 10, 0);
    put(200, 100, 200, 7000, 0); /* a session of its own */
    read_again();
    end(200);
    put(100, 1, GROUP, 10, 7004);
    assert_int_equal(read_again(), 4);
}

/* The machine's other processes are read by turns, and all the same none is missed that comes to the group. */
static void processes_of_other_groups_cost_little_and_may_join(void **state)
{
    put(100, 1, GROUP, 10, 0);
    put(201, 100, 200, 50, 0);
    read_again();
    put(201, 100, GROUP, 90, 0);
    uint64_t found = 0;
    for (int reading = 0; reading < 16; reading++)
        found += read_again();
    assert_int_equal(found, 40);
    assert_int_equal(use.processes, 2);
}

static void a_group_that_is_asked_for_later_is_read_at_once(void **state)
{
    struct process_set both[] = {{.group = GROUP}, {.group = 200}};
    put(100, 1, GROUP, 10, 0);
    put(201, 1, 200, 50, 0);
    read_again();
    read_again();
    put(201, 1, 200, 57, 0);
    assert_int_equal(process_times_read(times, both, 2, false, NULL), WEFT_OK);
    assert_int_equal(both[1].ticks, 7);
    assert_int_equal(both[1].processes, 1);
}

/* Ranks have groups of their own: what is below the first process is one set all the same. */
static void all_below_a_process_are_a_set_whatever_their_groups(void **state)
{
    use = (struct process_set){.ancestor = 100};
    put(1, 0, 1, 10, 0);
    put(2, 1, 2, 10, 0);
    put(100, 1, 100, 10, 0);
    put(101, 100, 101, 10, 0);
    put(102, 101, 102, 10, 0);
    put(103, 999, 103, 10, 0); /* a parent that is not shown */
    read_again();
    assert_int_equal(use.processes, 3);
    put(102, 101, 102, 15, 0);
    put(2, 1, 2, 90, 0);
    assert_int_equal(read_again(), 5);
    end(101); /* the one above gets the orphan, and waits for the other */
    put(102, 100, 102, 18, 0);
    put(100, 1, 100, 10, 12);
    assert_int_equal(read_again(), 5);
    assert_int_equal(use.processes, 2);
    put(104, 102, 104, 6, 0);
    assert_int_equal(read_again(), 6);
    assert_int_equal(use.processes, 3);
}

static void a_process_may_be_of_several_sets(void **state)
{
    struct process_set sets[] = {{.ancestor = 100}, {.ancestor = 101}, {.group = GROUP}, {.ancestor = 555}};
    put(100, 1, GROUP, 10, 0);
    put(101, 100, GROUP, 10, 0);
    put(102, 101, 102, 10, 0);
    process_times_read(times, sets, 4, false, NULL);
    put(102, 101, 102, 17, 0);
    process_times_read(times, sets, 4, false, NULL);
    assert_int_equal(sets[0].processes, 3);
    assert_int_equal(sets[1].processes, 2);
    assert_int_equal(sets[2].processes, 2);
    assert_int_equal(sets[3].processes, 0);
    assert_int_equal(sets[0].ticks, 7);
    assert_int_equal(sets[1].ticks, 7);
    assert_int_equal(sets[2].ticks, 0);
}

static uint32_t open_files(void)
{
    uint32_t count = 0;
    DIR *files = opendir("/proc/self/fd");
    while (readdir(files))
        count++;
    closedir(files);
    return count;
}

static void files_are_kept_open_for_as_long_as_they_are_of_use(void **state)
{
    const uint32_t none = open_files();
    struct process_set other = {.group = 77};
    for (int number = 100; number < 400; number++)
        put(number, 1, GROUP, 10, 0);
    read_again();
    assert_int_equal(open_files(), none); /* whose they are is known from the second time on */
    for (int turn = 0; turn < 3; turn++) {
        read_again();
        assert_int_equal(open_files(), none + 256);
    }
    for (int number = 100; number < 380; number++)
        end(number);
    put(399, 1, GROUP, 17, 0);
    assert_int_equal(read_again(), 7);
    assert_int_equal(read_again(), 0); /* now there is room for all */
    assert_int_equal(open_files(), none + 20);
    process_times_read(times, &other, 1, false, NULL); /* nobody asks for them any more */
    assert_int_equal(open_files(), none);
    read_again();
    process_times_close(times);
    assert_int_equal(open_files(), none);
    process_times_open(directory, &times, NULL);
}

/* With their real files, which stay open after them. */
static void processes_of_this_machine_come_and_go(void **state)
{
    struct process_times *here;
    struct process_set below = {.ancestor = getpid()};
    const int slash = open("/", O_RDONLY | O_DIRECTORY);
    process_times_open(slash, &here, NULL);
    for (int turn = 0; turn < 3; turn++) {
        const pid_t child = fork();
        if (child == 0) {
            prctl(PR_SET_PDEATHSIG, SIGKILL);
            pause();
        }
        for (int reading = 0; reading < 3; reading++) {
            process_times_read(here, &below, 1, false, NULL);
            assert_int_equal(below.processes, 2);
        }
        kill(child, SIGKILL);
        waitpid(child, NULL, 0);
        process_times_read(here, &below, 1, false, NULL);
        assert_int_equal(below.processes, 1);
    }
    process_times_close(here);
    close(slash);
}

static void time_never_falls(void **state)
{
    put(100, 1, GROUP, 1000, 1000);
    read_again();
    put(100, 1, GROUP, 10, 10);
    assert_int_equal(read_again(), 0);
    put(100, 1, GROUP, 15, 10);
    assert_int_equal(read_again(), 5);
    end(100);
    assert_int_equal(read_again(), 0);
    assert_int_equal(use.processes, 0);
    assert_int_equal(use.resident, 0);
}

static void parents_in_a_circle_end_the_search(void **state)
{
    put(100, 1, GROUP, 1, 0);
    put(101, 102, GROUP, 1, 0);
    put(102, 101, GROUP, 1, 0);
    put(103, 103, GROUP, 1, 0);
    read_again();
    for (int number = 101; number <= 103; number++)
        end(number);
    put(100, 1, GROUP, 2, 0);
    assert_int_equal(read_again(), 1);
}

static void files_that_are_none_of_a_process_are_left_out(void **state)
{
    put(100, 1, GROUP, 1, 0);
    tree_put(root, "proc/101/stat", "%s", "101 (cut off) S 1 100 1 0 -1");
    tree_put(root, "proc/102/stat", "%s", "");
    tree_put(root, "proc/103/stat", "%s", "7 (another number) S 1 100 1 0 -1 0 0 0 0 0 1 1 1 1 20 0 1 0 5 0 1 0");
    tree_put(root, "proc/104/stat", "%s", "104 no name S 1 100 1 0 -1 0 0 0 0 0 1 1 1 1 20 0 1 0 5 0 1 0");
    tree_put(root, "proc/self/stat", "%s", "105 (x) S 1 100 1 0 -1 0 0 0 0 0 1 1 1 1 20 0 1 0 5 0 1 0");
    tree_put(root, "proc/106", "%s", "no directory");
    read_again();
    assert_int_equal(use.processes, 1);
}

static void shared_memory_is_divided_where_that_is_asked_for(void **state)
{
    put(100, 1, GROUP, 1, 0);
    put(101, 100, GROUP, 1, 0);
    tree_put(root, "proc/100/smaps_rollup", "00400000-7ffc [rollup]\nRss:  9000 kB\nPss:  3000 kB\nPss_Anon: 5 kB\n");
    read_again();
    assert_int_equal(use.proportional, 0);
    assert_int_equal(process_times_read(times, &use, 1, true, NULL), WEFT_OK);
    assert_int_equal(use.proportional, 3000 * 1024); /* the other does not show it */
}

/*
 * A made-up machine in which processes are born, use time, and end, their parents waiting for them; each reading must
 * find what the group's processes have really used since the last one, those that were born and ended in between
 * included, but for the time between a reading and the end of a process whose parent is not of the group.
 */
#define MOST 24
static void whatever_happens_between_readings_is_counted_once(void **state)
{
    for (uint64_t history = 0; history < 12; history++) {
        struct made {
            bool alive, shown;
            int parent; /* index */
            uint64_t own, children;
        } made[MOST] = {{.alive = true, .parent = -1}};
        uint64_t draw = 0, truth = 0;
        process_times_close(times);
        process_times_open(directory, &times, NULL);
        use = (struct process_set){.group = GROUP};
        for (int reading = 0; reading < 12; reading++) {
            for (int event = 0; event < 10; event++) {
                const uint64_t what = random_below(history, draw++, 4);
                const int at = (int)random_below(history, draw++, MOST);
                if (what <= 1 && made[at].alive) {
                    const uint64_t ticks = random_below(history, draw++, 100);
                    made[at].own += ticks;
                    truth += ticks;
                } else if (what == 2 && at > 0 && !made[at].alive && !made[at].own) {
                    const int parent = (int)random_below(history, draw++, (uint64_t)at);
                    made[at] = (struct made){.alive = made[parent].alive, .parent = parent};
                } else if (what == 3 && at > 0 && made[at].alive) {
                    bool has_children = false;
                    for (int i = 0; i < MOST; i++)
                        has_children = has_children || (made[i].alive && made[i].parent == at);
                    if (has_children)
                        continue;
                    made[at].alive = false;
                    made[made[at].parent].children += made[at].own + made[at].children;
                    if (made[at].shown)
                        end(100 + at);
                    made[at].own = 1; /* its number is not given again */
                }
            }
            for (int i = 0; i < MOST; i++) {
                made[i].shown = made[i].alive;
                if (made[i].alive)
                    put(100 + i, made[i].parent < 0 ? 1 : 100 + made[i].parent, GROUP, made[i].own, made[i].children);
            }
            const uint64_t counted = read_again();
            if (reading > 0)
                assert_int_equal(counted, truth);
            truth = 0;
        }
        for (int i = 0; i < MOST; i++)
            end(100 + i);
    }
}

int main(void)
{
#define IN_MACHINE(test) cmocka_unit_test_setup_teardown(test, make_machine, remove_machine)
    const struct CMUnitTest tests[] = {
        IN_MACHINE(what_was_used_before_the_first_reading_does_not_count),
        IN_MACHINE(a_process_that_was_born_since_counts_whole),
        IN_MACHINE(a_number_that_was_given_again_is_another_process),
        IN_MACHINE(time_that_a_parent_is_handed_counts_once),
        IN_MACHINE(a_whole_family_that_ends_counts_once),
        IN_MACHINE(a_child_that_nobody_waits_for_takes_nothing_from_others),
        IN_MACHINE(the_time_of_a_child_in_another_group_comes_without_what_was_seen_of_it),
        IN_MACHINE(processes_of_other_groups_cost_little_and_may_join),
        IN_MACHINE(a_group_that_is_asked_for_later_is_read_at_once),
        IN_MACHINE(all_below_a_process_are_a_set_whatever_their_groups),
        IN_MACHINE(a_process_may_be_of_several_sets),
        IN_MACHINE(files_are_kept_open_for_as_long_as_they_are_of_use),
        IN_MACHINE(processes_of_this_machine_come_and_go),
        IN_MACHINE(time_never_falls),
        IN_MACHINE(parents_in_a_circle_end_the_search),
        IN_MACHINE(files_that_are_none_of_a_process_are_left_out),
        IN_MACHINE(shared_memory_is_divided_where_that_is_asked_for),
        IN_MACHINE(whatever_happens_between_readings_is_counted_once),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
