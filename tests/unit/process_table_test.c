/* SPDX-License-Identifier: Apache-2.0 */
/* One reading of a machine's processes for all who want one: in machines made of files. */
#include "observe/proc/internal/process_table.h"
#include "observe/proc/process_times.h"

#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/random.h"
#include "machine_tree.h"

#define FIRST   100 /* the process whose set is looked at, and its group */
#define READERS 20

static const char *root;
static char path[FILE_PATH_BYTES];
static int directory;
static double interval; /* so long that nothing becomes old by itself */

static int make_machine(void **state)
{
    struct timespec now;
    clock_gettime(CLOCK_BOOTTIME, &now);
    interval = fmin(1000, (double)now.tv_sec / 4);
    root = temporary_directory();
    directory = open(root, O_RDONLY | O_DIRECTORY);
    return file_join(path, root, "table", NULL);
}

static int remove_machine(void **state)
{
    close(directory);
    return file_remove_tree(root, NULL);
}

static void put(int number, int parent, uint64_t start, uint64_t own, uint64_t children)
{
    tree_put_process(root, &(struct tree_process){.number = number,
                                                  .parent = parent,
                                                  .group = number == FIRST ? FIRST : 7,
                                                  .start = start,
                                                  .own = own,
                                                  .children = children,
                                                  .resident = 10});
}

static void end(int number)
{
    char name[32];
    snprintf(name, sizeof name, "proc/%d/stat", number);
    tree_put(root, name, "%s", ""); /* a reader that has it open gets nothing any more, as from the kernel */
    snprintf(name, sizeof name, "proc/%d", number);
    tree_remove(root, name);
}

static struct process_table *open_table(void)
{
    struct process_table *table;
    assert_int_equal(process_table_open(path, directory, interval, &table, NULL), WEFT_OK);
    return table;
}

static struct process_times *open_times(bool shared)
{
    struct process_times *times;
    assert_int_equal(process_times_open(directory, &times, NULL), WEFT_OK);
    if (shared)
        assert_int_equal(process_times_share(times, path, interval, NULL), WEFT_OK);
    return times;
}

static void read_times(struct process_times *times, struct process_set *set)
{
    assert_int_equal(process_times_read(times, set, 1, false, NULL), WEFT_OK);
}

/* Processes that one who has nothing else finds in the table. */
static uint32_t read_table(struct process_table *table)
{
    const struct kernel_process *processes;
    uint32_t count;
    return process_table_read(table, &processes, &count) ? count : UINT32_MAX;
}

/* Have the table be older by so many intervals. */
static void age(double intervals)
{
    char *bytes;
    size_t size;
    assert_int_equal(file_read(path, 1 << 20, &bytes, &size, NULL), WEFT_OK);
    struct process_table_head *head = (struct process_table_head *)bytes;
    head->moment -= (uint64_t)(intervals * interval * 1e9);
    head->checksum = process_table_checksum(head, (const struct kernel_process *)(head + 1));
    temporary_file(root, "table", bytes, size);
    free(bytes);
}

/* ---- one for all ---- */

static void a_machine_is_listed_once_in_an_interval_however_many_read(void **state)
{
    struct process_times *readers[READERS];
    struct process_set sets[READERS];
    for (int i = 0; i < 50; i++)
        put(FIRST + i, i ? FIRST + i / 2 : 1, 10 * (uint64_t)i, 5, 0);
    for (int i = 0; i < READERS; i++) {
        readers[i] = open_times(true);
        sets[i] = (struct process_set){.ancestor = FIRST + i};
    }
    for (uint64_t turn = 1; turn <= 5; turn++) {
        uint64_t walks = 0;
        for (int reading = 0; reading < 3; reading++) /* in the same interval */
            for (int i = 0; i < READERS; i++)
                read_times(readers[(i + turn) % READERS], &sets[(i + turn) % READERS]);
        for (int i = 0; i < READERS; i++)
            walks += process_times_walks(readers[i]);
        assert_int_equal(walks, turn);
        age(0.6);
    }
    assert_int_equal(sets[0].processes, 50);
    for (int i = 0; i < READERS; i++)
        process_times_close(readers[i]);
}

#define MOST 24

/* What happens in a made-up machine between two readings: processes are born, use time, and end. */
struct made {
    bool alive, shown;
    int parent; /* index */
    uint64_t start, own, children;
};

static void live_on(struct made made[MOST], uint64_t history, uint64_t *draw, uint64_t *clock)
{
    const uint64_t what = random_below(history, (*draw)++, 4);
    const int at = (int)random_below(history, (*draw)++, MOST);
    bool has_children = false;
    for (int i = 0; i < MOST; i++)
        has_children = has_children || (made[i].alive && made[i].parent == at);
    if (what <= 1 && made[at].alive) {
        made[at].own += random_below(history, (*draw)++, 100);
    } else if (what == 2 && at > 0 && !made[at].alive && !made[at].start) {
        const int parent = (int)random_below(history, (*draw)++, (uint64_t)at);
        if (made[parent].alive)
            made[at] = (struct made){.alive = true, .parent = parent, .start = ++*clock};
    } else if (what == 3 && at > 0 && made[at].alive && !has_children) {
        made[at].alive = false;
        made[made[at].parent].children += made[at].own + made[at].children;
    }
}

static void show(struct made made[MOST])
{
    for (int i = 0; i < MOST; i++) {
        if (made[i].alive)
            put(FIRST + i, i ? FIRST + made[i].parent : 1, made[i].start, made[i].own, made[i].children);
        else if (made[i].shown)
            end(FIRST + i);
        made[i].shown = made[i].alive;
    }
}

/* However it is renewed, and however old it is: in the end the sums are those of one that lists the machine each time. */
static void what_is_found_by_a_shared_table_is_what_is_found_alone(void **state)
{
    for (uint64_t history = 0; history < 12; history++) {
        struct made made[MOST] = {{.alive = true, .parent = -1, .start = 1}};
        struct process_times *readers[] = {open_times(false), open_times(true), open_times(true)};
        struct process_set sets[] = {{.ancestor = FIRST}, {.ancestor = FIRST}, {.ancestor = FIRST}};
        uint64_t draw = 0, clock = 1;
        put(1, 0, 0, 900, 0);
        for (int reading = 0; reading < 20; reading++) {
            for (int event = 0; event < 10; event++)
                live_on(made, history, &draw, &clock);
            put(1, 0, 0, 900 + 50 * (uint64_t)reading, 0); /* another's */
            show(made);
            const bool old = reading == 0 || reading == 19 || random_below(history, draw++, 3) == 0;
            if (old && reading > 0)
                age(0.6);
            for (int i = 0; i < 3; i++)
                read_times(readers[i], &sets[i]);
            for (int i = 1; i < 3 && old; i++) {
                assert_int_equal(sets[i].processes, sets[0].processes);
                assert_int_equal(sets[i].resident, sets[0].resident);
                assert_int_equal(sets[i].ticks, sets[0].ticks);
            }
        }
        assert_true(sets[0].ticks > 0);
        assert_int_equal(process_times_walks(readers[2]), 0);
        for (int i = 0; i < 3; i++)
            process_times_close(readers[i]);
        for (int i = 0; i < MOST; i++)
            if (made[i].shown)
                end(FIRST + i);
        unlink(path);
    }
}

static void what_a_set_uses_is_that_of_now_though_the_table_is_of_before(void **state)
{
    struct process_times *times = open_times(true);
    struct process_set set = {.ancestor = FIRST};
    put(FIRST, 1, 10, 5, 0);
    put(FIRST + 1, FIRST, 20, 5, 0);
    read_times(times, &set);
    put(FIRST + 1, FIRST, 20, 45, 0);
    put(FIRST + 2, FIRST, 30, 7, 0); /* the table does not have it */
    read_times(times, &set);
    assert_int_equal(set.ticks, 40);
    assert_int_equal(set.processes, 2);
    age(0.6);
    read_times(times, &set);
    assert_int_equal(set.ticks, 47);
    assert_int_equal(set.processes, 3);
    process_times_close(times);
}

/* What begins is in no table yet; its set is found all the same. */
static void a_first_process_that_is_younger_than_the_table_is_found(void **state)
{
    struct process_times *other = open_times(true), *times = open_times(true);
    struct process_set set = {.ancestor = FIRST}, some = {.ancestor = 1};
    put(1, 0, 1, 0, 0);
    read_times(other, &some);
    put(FIRST, 1, 10, 5, 0);
    read_times(times, &set);
    assert_int_equal(set.processes, 1);
    put(FIRST, 1, 10, 9, 100); /* a child that has come and gone */
    read_times(times, &set);
    assert_int_equal(set.ticks, 104);
    process_times_close(times);
    process_times_close(other);
}

static void one_that_joins_a_set_counts_from_then_on(void **state)
{
    struct process_times *times = open_times(true);
    struct process_set set = {.group = FIRST};
    put(FIRST, 1, 10, 5, 0);
    put(200, 1, 20, 5000, 0);
    put(300, 1, 30, 0, 0);
    read_times(times, &set);
    tree_put_process(root,
                     &(struct tree_process){.number = 200, .parent = 1, .group = FIRST, .start = 20, .own = 6000});
    for (int walk = 0; walk < PROCESS_TABLE_TURNS; walk++) { /* when it is its turn to be read */
        age(0.6);
        read_times(times, &set);
    }
    assert_int_equal(set.processes, 2);
    assert_int_equal(set.ticks, 0);
    tree_put_process(root,
                     &(struct tree_process){.number = 200, .parent = 1, .group = FIRST, .start = 20, .own = 6011});
    read_times(times, &set);
    assert_int_equal(set.ticks, 11);
    process_times_close(times);
}

/* ---- trouble ---- */

static void one_that_is_killed_leaves_a_table_and_no_lock(void **state)
{
    const double usual = interval;
    for (int i = 0; i < 200; i++)
        put(FIRST + i, 1, 1, 1, 1);
    for (int turn = 0; turn < 40; turn++) {
        interval = 0; /* each of its readings renews it */
        fflush(NULL);
        const pid_t child = fork();
        if (child == 0)
            for (struct process_table *table = open_table();;)
                read_table(table);
        const struct timespec pause = {0, 200000 * (turn % 20)};
        while (turn == 0 && access(path, F_OK) != 0)
            nanosleep(&(struct timespec){0, 1000000}, NULL);
        nanosleep(&pause, NULL);
        kill(child, SIGKILL);
        waitpid(child, NULL, 0);
        interval = usual;
        struct process_table *table = open_table();
        assert_int_equal(read_table(table), 200);
        assert_int_equal(process_table_walks(table), 0); /* what the other left is whole */
        age(0.6);
        assert_int_equal(read_table(table), 200);
        assert_int_equal(process_table_walks(table), 1); /* and nobody has the lock */
        process_table_close(table);
    }
}

static void while_another_has_the_lock_the_table_is_used_but_not_for_ever(void **state)
{
    struct process_table *table = open_table();
    struct process_times *times = open_times(true);
    struct process_set set = {.ancestor = FIRST};
    put(FIRST, 1, 10, 5, 0);
    assert_int_equal(read_table(table), 1);
    put(FIRST + 1, FIRST, 20, 5, 0);
    const int lock = open(temporary_path(root, "table.lock"), O_RDWR);
    assert_int_equal(flock(lock, LOCK_EX | LOCK_NB), 0);
    age(1);
    assert_int_equal(read_table(table), 1);
    age(1.5);
    assert_int_equal(read_table(table), UINT32_MAX);
    assert_int_equal(process_table_walks(table), 1);
    read_times(times, &set); /* it lists the machine itself */
    assert_int_equal(set.processes, 2);
    assert_int_equal(process_times_walks(times), 1);
    close(lock);
    assert_int_equal(read_table(table), 2);
    process_times_close(times);
    process_table_close(table);
}

/* Whether a reader refuses what is in the file, lists the machine, and leaves a good table. */
static void assert_replaced(uint32_t processes)
{
    struct process_table *first = open_table(), *second = open_table();
    assert_int_equal(read_table(first), processes);
    assert_int_equal(process_table_walks(first), 1);
    assert_int_equal(read_table(second), processes);
    assert_int_equal(process_table_walks(second), 0);
    process_table_close(first);
    process_table_close(second);
}

static void a_damaged_table_is_replaced(void **state)
{
    char *bytes;
    size_t size;
    for (int i = 0; i < 5; i++)
        put(FIRST + i, 1, 1, 1, 1);
    struct process_table *table = open_table();
    assert_int_equal(read_table(table), 5);
    process_table_close(table);
    file_read(path, 1 << 20, &bytes, &size, NULL);
    for (size_t at = 0; at < size; at++) {
        bytes[at] ^= 0x10;
        temporary_file(root, "table", bytes, size);
        assert_replaced(5);
        bytes[at] ^= 0x10;
    }
    for (size_t length = 0; length < size; length += 5) {
        temporary_file(root, "table", bytes, length);
        assert_replaced(5);
    }
    free(bytes);
}

/* With a right checksum, from any writer. */
static void a_table_that_nobody_should_believe_is_replaced(void **state)
{
    struct {
        struct process_table_head head;
        struct kernel_process processes[2];
    } made;
    put(FIRST, 1, 1, 1, 1);
    for (int what = 0; what < 6; what++) {
        struct process_table *table = open_table();
        char *bytes;
        size_t size, told = sizeof made;
        unlink(path);
        assert_int_equal(read_table(table), 1);
        file_read(path, 1 << 20, &bytes, &size, NULL);
        memset(&made, 0, sizeof made);
        memcpy(&made.head, bytes, sizeof made.head);
        made.head.count = 2;
        made.processes[0].process = 5;
        made.processes[1].process = what == 0 ? 5 : what == 1 ? -7 : 6; /* not rising */
        made.head.count = what == 2 ? 3 : what == 3 ? UINT64_MAX / 24 : 2;
        made.head.moment = what == 4 ? UINT64_MAX : made.head.moment;
        made.head.machine += what == 5;
        if (made.head.count == 2)
            made.head.checksum = process_table_checksum(&made.head, made.processes);
        temporary_file(root, "table", &made, told);
        assert_replaced(1);
        process_table_close(table);
        free(bytes);
    }
}

static void a_table_of_another_start_of_the_machine_is_replaced(void **state)
{
    tree_put(root, "proc/sys/kernel/random/boot_id", "%s", "one\n");
    put(FIRST, 1, 1, 1, 1);
    assert_replaced(1);
    tree_put(root, "proc/sys/kernel/random/boot_id", "%s", "two\n");
    put(FIRST + 1, 1, 1, 1, 1);
    assert_replaced(2);
}

static void a_file_that_others_can_write_or_that_is_none_is_not_read(void **state)
{
    put(FIRST, 1, 1, 1, 1);
    assert_replaced(1);
    chmod(path, 0620);
    assert_replaced(1);
    struct stat status;
    assert_int_equal(stat(path, &status), 0);
    assert_int_equal(status.st_mode & 0777, 0600);
    rename(path, temporary_path(root, "elsewhere"));
    assert_int_equal(symlink("elsewhere", path), 0);
    assert_replaced(1);
    unlink(path);
    assert_int_equal(mkfifo(path, 0600), 0);
    assert_replaced(1);
}

/* What another has begun to write and not ended. */
static void a_file_that_was_left_behind_is_overwritten(void **state)
{
    put(FIRST, 1, 1, 1, 1);
    char junk[5000] = {1, 2, 3};
    temporary_file(root, "table.new", junk, sizeof junk);
    assert_replaced(1);
    assert_false(file_exists(temporary_path(root, "table.new")));
}

static void where_no_file_can_be_everybody_lists_the_machine(void **state)
{
    char good[FILE_PATH_BYTES];
    struct process_set set = {.ancestor = FIRST};
    snprintf(good, sizeof good, "%s", path);
    put(FIRST, 1, 1, 1, 1);
    put(FIRST + 1, FIRST, 2, 1, 1);
    for (int what = 0; what < 2; what++) {
        if (what == 0)
            snprintf(path, sizeof path, "%s/nowhere/table", root);
        else
            assert_int_equal(mkdir(strcpy(path, good), 0700), 0); /* a directory is in its place */
        struct process_times *times = open_times(true);
        for (uint64_t reading = 1; reading <= 3; reading++) {
            put(FIRST + 1, FIRST, 2, 10 * reading, 1);
            read_times(times, &set);
            assert_int_equal(set.processes, 2);
            assert_int_equal(process_times_walks(times), reading);
        }
        assert_int_equal(set.ticks, 20);
        set.ticks = 0;
        process_times_close(times);
    }
}

int main(void)
{
#define IN_MACHINE(test) cmocka_unit_test_setup_teardown(test, make_machine, remove_machine)
    const struct CMUnitTest tests[] = {
        IN_MACHINE(a_machine_is_listed_once_in_an_interval_however_many_read),
        IN_MACHINE(what_is_found_by_a_shared_table_is_what_is_found_alone),
        IN_MACHINE(what_a_set_uses_is_that_of_now_though_the_table_is_of_before),
        IN_MACHINE(a_first_process_that_is_younger_than_the_table_is_found),
        IN_MACHINE(one_that_joins_a_set_counts_from_then_on),
        IN_MACHINE(one_that_is_killed_leaves_a_table_and_no_lock),
        IN_MACHINE(while_another_has_the_lock_the_table_is_used_but_not_for_ever),
        IN_MACHINE(a_damaged_table_is_replaced),
        IN_MACHINE(a_table_that_nobody_should_believe_is_replaced),
        IN_MACHINE(a_table_of_another_start_of_the_machine_is_replaced),
        IN_MACHINE(a_file_that_others_can_write_or_that_is_none_is_not_read),
        IN_MACHINE(a_file_that_was_left_behind_is_overwritten),
        IN_MACHINE(where_no_file_can_be_everybody_lists_the_machine),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
