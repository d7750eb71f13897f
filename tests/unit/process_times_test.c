/* SPDX-License-Identifier: Apache-2.0 */
/* The processor time of processes and their descendants, which come, go and hand their time on: in machines made of files. */
#include "observe/proc/process_times.h"

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

#define FIRST 100

static const char *root;
static int directory;
static struct process_times *times;
static struct process_set use;

static int make_machine(void **state)
{
    root = temporary_directory();
    directory = open(root, O_RDONLY | O_DIRECTORY);
    use = (struct process_set){.ancestor = FIRST};
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

/* Ticks that the set has used since the reading before. */
static uint64_t read_again(void)
{
    const uint64_t before = use.ticks;
    assert_int_equal(process_times_read(times, &use, 1, false, NULL), WEFT_OK);
    return use.ticks - before;
}

static void what_was_used_before_the_first_reading_does_not_count(void **state)
{
    put(100, 1, FIRST, 5000, 300);
    put(50, 1, 50, 70000, 0);
    assert_int_equal(read_again(), 0);
    assert_int_equal(use.processes, 1);
    assert_int_equal(use.resident, 1000);
    put(100, 1, FIRST, 5025, 300);
    put(50, 1, 50, 71000, 0); /* not below it */
    assert_int_equal(read_again(), 25);
    assert_int_equal(read_again(), 0);
}

static void a_process_that_was_born_since_counts_whole(void **state)
{
    put(100, 1, FIRST, 5000, 0);
    read_again();
    put(101, 100, FIRST, 40, 7); /* 7: a child of its own that has come and gone */
    assert_int_equal(read_again(), 47);
    assert_int_equal(use.processes, 2);
}

static void a_number_that_was_given_again_is_another_process(void **state)
{
    put(100, 1, FIRST, 0, 0);
    put(101, 100, FIRST, 5000, 0);
    read_again();
    tree_put_process(root,
                     &(struct tree_process){.number = 101, .parent = 100, .group = FIRST, .start = 999999, .own = 6});
    assert_int_equal(read_again(), 6);
}

static void time_that_a_parent_is_handed_counts_once(void **state)
{
    put(100, 1, FIRST, 10, 0);
    put(101, 100, FIRST, 200, 0);
    read_again();
    end(101);
    put(100, 1, FIRST, 12, 230); /* the child used 30 more before its end, the parent 2 */
    assert_int_equal(read_again(), 32);
}

static void a_whole_family_that_ends_counts_once(void **state)
{
    put(100, 1, FIRST, 10, 0);
    put(101, 100, FIRST, 200, 50);
    put(102, 101, FIRST, 400, 0);
    put(103, 102, FIRST, 800, 0);
    read_again();
    for (int number = 101; number <= 103; number++)
        end(number);
    put(100, 1, FIRST, 10, 1450 + 9);
    assert_int_equal(read_again(), 9);
}

static void a_child_that_nobody_waits_for_takes_nothing_from_others(void **state)
{
    put(100, 1, FIRST, 10, 0);
    put(101, 100, FIRST, 900, 0);
    put(102, 100, FIRST, 10, 0);
    read_again();
    end(101);
    put(102, 100, FIRST, 35, 0);
    assert_int_equal(read_again(), 25);
}

static void the_time_of_a_child_in_a_session_of_its_own_comes_without_what_was_seen_of_it(void **state)
{
    put(100, 1, FIRST, 10, 0);
    put(200, 100, 200, 7000, 0); /* a session of its own */
    read_again();
    end(200);
    put(100, 1, FIRST, 10, 7004);
    assert_int_equal(read_again(), 4);
}

/* Where the kernel lists children, nothing else is read: 300 says that 100 is its parent, and 100 does not know it. */
static void only_children_of_the_set_are_read(void **state)
{
    tree_put(root, "proc/thread-self/children", "%s", "");
    tree_put(root, "proc/100/task/100/children", "%s", "101 ");
    tree_put(root, "proc/100/task/109/children", "%s", "102 103 ");
    tree_put(root, "proc/103/task/103/children", "%s", "104 ");
    for (int number = 100; number <= 103; number++)
        put(number, number > 100 ? 100 : 1, number, 10, 0);
    put(104, 103, 104, 10, 0);
    put(300, 100, 300, 10, 0);
    read_again();
    assert_int_equal(use.processes, 5);
    put(104, 103, 104, 13, 0);
    assert_int_equal(read_again(), 3);
    tree_put(root, "proc/103/task/103/children", "%s", ""); /* on its way to another parent when the list is read */
    put(104, 103, 104, 17, 0);
    assert_int_equal(read_again(), 4);
    assert_int_equal(use.processes, 5);
}

static void a_set_that_is_asked_for_later_counts_from_then_on(void **state)
{
    struct process_set both[] = {{.ancestor = FIRST}, {.ancestor = 201}};
    tree_put(root, "proc/thread-self/children", "%s", "");
    put(100, 1, FIRST, 10, 0);
    put(201, 1, 200, 50, 0);
    read_again();
    read_again();
    put(201, 1, 200, 57, 0);
    assert_int_equal(process_times_read(times, both, 2, false, NULL), WEFT_OK);
    assert_int_equal(both[1].ticks, 0);
    assert_int_equal(both[1].processes, 1);
    put(201, 1, 200, 59, 0);
    assert_int_equal(process_times_read(times, both, 2, false, NULL), WEFT_OK);
    assert_int_equal(both[1].ticks, 2);
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
    struct process_set sets[] = {{.ancestor = 100}, {.ancestor = 101}, {.ancestor = 102}, {.ancestor = 555}};
    put(100, 1, FIRST, 10, 0);
    put(101, 100, FIRST, 10, 0);
    put(102, 101, 102, 10, 0);
    process_times_read(times, sets, 4, false, NULL);
    put(102, 101, 102, 17, 0);
    process_times_read(times, sets, 4, false, NULL);
    assert_int_equal(sets[0].processes, 3);
    assert_int_equal(sets[1].processes, 2);
    assert_int_equal(sets[2].processes, 1);
    assert_int_equal(sets[3].processes, 0);
    assert_int_equal(sets[0].ticks, 7);
    assert_int_equal(sets[1].ticks, 7);
    assert_int_equal(sets[2].ticks, 7);
}

/* With their real files. */
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
    put(100, 1, FIRST, 1000, 1000);
    read_again();
    put(100, 1, FIRST, 10, 10);
    assert_int_equal(read_again(), 0);
    put(100, 1, FIRST, 15, 10);
    assert_int_equal(read_again(), 5);
    end(100);
    assert_int_equal(read_again(), 0);
    assert_int_equal(use.processes, 0);
    assert_int_equal(use.resident, 0);
}

static void parents_in_a_circle_end_the_search(void **state)
{
    put(100, 1, FIRST, 1, 0);
    put(101, 102, FIRST, 1, 0);
    put(102, 101, FIRST, 1, 0);
    put(103, 103, FIRST, 1, 0);
    read_again();
    for (int number = 101; number <= 103; number++)
        end(number);
    put(100, 1, FIRST, 2, 0);
    assert_int_equal(read_again(), 1);
}

static void files_that_are_none_of_a_process_are_left_out(void **state)
{
    put(100, 1, FIRST, 1, 0);
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
    put(100, 1, FIRST, 1, 0);
    put(101, 100, FIRST, 1, 0);
    tree_put(root, "proc/100/smaps_rollup", "00400000-7ffc [rollup]\nRss:  9000 kB\nPss:  3000 kB\nPss_Anon: 5 kB\n");
    read_again();
    assert_int_equal(use.proportional, 0);
    assert_int_equal(process_times_read(times, &use, 1, true, NULL), WEFT_OK);
    assert_int_equal(use.proportional, 3000 * 1024); /* the other does not show it */
}

/*
 * A made-up machine in which processes are born, use time, and end, their parents waiting for them; each reading must
 * find what the set's processes have really used since the last one, those that were born and ended in between
 * included, but for the time between a reading and the end of a process whose parent is not of the set.
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
        use = (struct process_set){.ancestor = FIRST};
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
                    put(100 + i, made[i].parent < 0 ? 1 : 100 + made[i].parent, FIRST, made[i].own, made[i].children);
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
        IN_MACHINE(the_time_of_a_child_in_a_session_of_its_own_comes_without_what_was_seen_of_it),
        IN_MACHINE(only_children_of_the_set_are_read),
        IN_MACHINE(a_set_that_is_asked_for_later_counts_from_then_on),
        IN_MACHINE(all_below_a_process_are_a_set_whatever_their_groups),
        IN_MACHINE(a_process_may_be_of_several_sets),
        IN_MACHINE(processes_of_this_machine_come_and_go),
        IN_MACHINE(time_never_falls),
        IN_MACHINE(parents_in_a_circle_end_the_search),
        IN_MACHINE(files_that_are_none_of_a_process_are_left_out),
        IN_MACHINE(shared_memory_is_divided_where_that_is_asked_for),
        IN_MACHINE(whatever_happens_between_readings_is_counted_once),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
