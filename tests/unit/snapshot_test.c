/* SPDX-License-Identifier: Apache-2.0 */
/* Snapshots of directories: what comes out is what went in; twice costs nothing; damage and bad input are seen. */
#include "platform/snapshot/list.h"
#include "platform/snapshot/snapshot.h"

#include "temporary.h"

#include <dirent.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

static const char *directory;
static char store[700], tree[512], out[512];

static int begin(void **state)
{
    directory = temporary_directory();
    snprintf(store, sizeof store, "%s/store", directory);
    snprintf(tree, sizeof tree, "%s/tree", directory);
    snprintf(out, sizeof out, "%s/out", directory);
    return mkdir(tree, 0777);
}

static int end(void **state)
{
    return file_remove_tree(directory, NULL) == WEFT_OK ? 0 : -1;
}

static void put(const char *name, const char *content)
{
    char path[1024];
    snprintf(path, sizeof path, "%s/%s", tree, name);
    assert_int_equal(file_make_directory_of(path, NULL), WEFT_OK);
    FILE *file = fopen(path, "w");
    fputs(content, file);
    fclose(file);
}

static int shell(const char *format, const char *argument)
{
    char command[2048];
    snprintf(command, sizeof command, format, argument, argument);
    return system(command);
}

static void make_tree(void)
{
    char path[1024];
    put("train.py", "print(1)\n");
    put("a/deep/file", "deep");
    put("a-b", "sorts after what is in a");
    put("a/empty", "");
    put("name with\nnewline", "x");
    put("run.sh", "#!/bin/sh\n");
    put("build/large.o", "not this");
    put("__pycache__/x.pyc", "nor this");
    put(".weftignore", "build/\n");
    snprintf(path, sizeof path, "%s/run.sh", tree);
    chmod(path, 0755);
    snprintf(path, sizeof path, "%s/a/hollow", tree);
    mkdir(path, 0777);
    snprintf(path, sizeof path, "%s/outside", tree);
    assert_int_equal(symlink("/etc", path), 0);
    snprintf(path, sizeof path, "%s/dangling", tree);
    assert_int_equal(symlink("nowhere", path), 0);
    snprintf(path, sizeof path, "%s/pipe", tree);
    assert_int_equal(mkfifo(path, 0600), 0);
}

static void comes_out_as_it_went_in(void **state)
{
    struct snapshot snapshot;
    struct error error = {0};
    make_tree();
    assert_int_equal(snapshot_take(store, tree, NULL, &snapshot, &error), WEFT_OK);
    assert_int_equal(snapshot.files, 7);
    assert_int_equal(snapshot.directories, 3);
    assert_int_equal(snapshot.links, 2);
    assert_int_equal(snapshot.left_out, 2);
    assert_int_equal(snapshot.special, 1);
    assert_int_equal(snapshot_check_out(store, snapshot.id, out, &error), WEFT_OK);
    char command[2048];
    snprintf(command, sizeof command, "cd '%s' && rm -rf build __pycache__ pipe && diff -r --no-dereference . '%s'",
             tree, out);
    assert_int_equal(system(command), 0);
    assert_int_equal(shell("test -x '%s/run.sh' && test ! -x '%s/train.py'", out), 0);
    assert_int_equal(shell("test -d '%s/a/hollow' && test -L '%s/outside'", out), 0);
}

static void costs_nothing_the_second_time_and_is_the_same(void **state)
{
    struct snapshot first, second, third;
    make_tree();
    assert_int_equal(snapshot_take(store, tree, NULL, &first, NULL), WEFT_OK);
    assert_int_equal(first.new_bytes, first.bytes);
    assert_int_equal(shell("find '%s' -type f | sort | xargs ls -l --time-style=full-iso >'%s.before'", store), 0);
    assert_int_equal(snapshot_take(store, tree, NULL, &second, NULL), WEFT_OK);
    assert_int_equal(second.new_bytes, 0);
    assert_string_equal(first.id, second.id);
    assert_int_equal(shell("find '%s' -type f | sort | xargs ls -l --time-style=full-iso | cmp - '%s.before'", store),
                     0);
    put("train.py", "print(2)\n");
    assert_int_equal(snapshot_take(store, tree, NULL, &third, NULL), WEFT_OK);
    assert_int_equal(third.new_bytes, 9);
    assert_string_not_equal(first.id, third.id);
    /* The first one is what it was. */
    assert_int_equal(snapshot_check_out(store, first.id, out, NULL), WEFT_OK);
    assert_int_equal(shell("grep -q 'print(1)' '%s/train.py'", out), 0);
}

/* Writing into what was checked out changes neither store nor tree. */
static void is_not_changed_by_those_who_use_it(void **state)
{
    struct snapshot snapshot;
    make_tree();
    assert_int_equal(snapshot_take(store, tree, NULL, &snapshot, NULL), WEFT_OK);
    assert_int_equal(snapshot_check_out(store, snapshot.id, out, NULL), WEFT_OK);
    assert_int_equal(shell("echo spoilt >>'%s/train.py'", out), 0);
    char again[600];
    snprintf(again, sizeof again, "%s2", out);
    assert_int_equal(snapshot_check_out(store, snapshot.id, again, NULL), WEFT_OK);
    assert_int_equal(shell("grep -q spoilt '%s/train.py'", again) != 0, 1);
}

static void sees_damage_and_leaves_nothing(void **state)
{
    struct snapshot snapshot;
    struct error error = {0};
    make_tree();
    assert_int_equal(snapshot_take(store, tree, NULL, &snapshot, NULL), WEFT_OK);
    assert_int_equal(shell("f=$(grep -rl 'print(1)' '%s/objects'); chmod u+w $f; echo 'print(3)' >$f", store), 0);
    assert_int_equal(snapshot_check_out(store, snapshot.id, out, &error), WEFT_ERROR_DATA);
    assert_non_null(strstr(error.text, "is damaged"));
    assert_int_not_equal(access(out, F_OK), 0);
    error_clear(&error);
    assert_int_equal(shell("cd '%s/snapshots' && echo x >>*", store), 0);
    assert_int_equal(snapshot_check_out(store, snapshot.id, out, &error), WEFT_ERROR_DATA);
    error_clear(&error);
    assert_int_equal(snapshot_check_out(store, "../../etc/passwd", out, &error), WEFT_ERROR_ARGUMENT);
}

static const struct snapshot_options *with_limits(const struct snapshot_limits *limits)
{
    static struct snapshot_options options;
    options.limits = limits;
    return &options;
}

static void keeps_to_its_limits(void **state)
{
    struct snapshot snapshot = {.files = 77};
    struct error error = {0};
    make_tree();
    put("weights.bin", "0123456789012345678901234567890123456789012345678901234567890123456789");
    assert_int_equal(
        snapshot_take(store, tree, with_limits(&(struct snapshot_limits){.file_bytes = 64}), &snapshot, &error),
        WEFT_ERROR_ARGUMENT);
    assert_non_null(strstr(error.text, "weights.bin has 70 B"));
    assert_non_null(strstr(error.text, ".weftignore"));
    error_clear(&error);
    assert_int_equal(snapshot_take(store, tree, with_limits(&(struct snapshot_limits){.bytes = 90}), &snapshot, &error),
                     WEFT_ERROR_ARGUMENT);
    error_clear(&error);
    assert_int_equal(
        snapshot_take(store, tree, with_limits(&(struct snapshot_limits){.entries = 5}), &snapshot, &error),
        WEFT_ERROR_ARGUMENT);
    assert_non_null(strstr(error.text, "more than the 5 files"));
    assert_int_equal(snapshot.files, 77);
    assert_int_equal(shell("test -z \"$(ls '%s/snapshots')\"", store), 0);
}

static void leaves_itself_out(void **state)
{
    struct snapshot first, second;
    put("x", "x");
    snprintf(store, sizeof store, "%s/.weft", tree);
    assert_int_equal(snapshot_take(store, tree, NULL, &first, NULL), WEFT_OK);
    assert_int_equal(snapshot_take(store, tree, NULL, &second, NULL), WEFT_OK);
    assert_string_equal(first.id, second.id);
    assert_int_equal(second.files, 1);
}

/* Killed at any time, it has made a snapshot whole or none; and the next one is not disturbed. */
static void is_made_whole_or_not_at_all(void **state)
{
    char name[64], content[64], list[1024];
    struct snapshot snapshot;
    int lists = 0;
    for (int i = 0; i < 60; i++) {
        snprintf(name, sizeof name, "directory-%d/file-%d", i % 7, i);
        snprintf(content, sizeof content, "content of %d", i);
        put(name, content);
    }
    snprintf(list, sizeof list, "%s/snapshots", store);
    for (int round = 0; round < 40; round++) {
        snprintf(content, sizeof content, "round %d", round);
        put("changes", content);
        pid_t child = fork();
        if (child == 0)
            _exit(snapshot_take(store, tree, NULL, &snapshot, NULL) != WEFT_OK);
        usleep((useconds_t)(round * 800));
        if (round < 36) /* the last ones may come to their end, however slow the disk is */
            kill(child, SIGKILL);
        waitpid(child, NULL, 0);
        DIR *listing = opendir(list);
        for (struct dirent *entry; listing && (entry = readdir(listing));) {
            if (entry->d_name[0] == '.') /* one that was on its way */
                continue;
            lists++;
            assert_int_equal(snapshot_check_out(store, entry->d_name, out, NULL), WEFT_OK);
            assert_int_equal(file_remove_tree(out, NULL), WEFT_OK);
        }
        if (listing)
            closedir(listing);
    }
    assert_int_equal(snapshot_take(store, tree, NULL, &snapshot, NULL), WEFT_OK);
    assert_int_equal(snapshot_check_out(store, snapshot.id, out, NULL), WEFT_OK);
    assert_int_equal(shell("test \"$(cat '%s/changes')\" = 'round 39'", out), 0);
    assert_true(lists > 0);
}

/* A forged list that names itself rightly still cannot leave the target. */
static void lists_cannot_leave_their_target(void **state)
{
    static const struct snapshot_entry bad[][2] = {
        {{'d', "..", NULL, 0, ""}},
        {{'d', "a", NULL, 0, ""}, {'d', "a/../..", NULL, 0, ""}},
        {{'d', "/tmp/weft-forged", NULL, 0, ""}},
        {{'l', "a", "/tmp", 0, ""}, {'d', "a/b", NULL, 0, ""}},
        {{'d', "b", NULL, 0, ""}, {'d', "a", NULL, 0, ""}},
        {{'d', "a", NULL, 0, ""}, {'l', "a", "/tmp", 0, ""}},
        {{'d', "a//b", NULL, 0, ""}},
    };
    struct snapshot snapshot;
    put("x", "x");
    assert_int_equal(snapshot_take(store, tree, NULL, &snapshot, NULL), WEFT_OK);
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        struct buffer list = {0};
        uint8_t digest[SHA256_BYTES];
        char id[SHA256_TEXT_BYTES], path[1024];
        snapshot_list_begin(&list);
        snapshot_list_put(&list, &bad[i][0]);
        if (bad[i][1].path)
            snapshot_list_put(&list, &bad[i][1]);
        sha256_of(buffer_begin(&list), buffer_size(&list), digest, NULL);
        snprintf(path, sizeof path, "%s/snapshots/%s", store, sha256_text(digest, id));
        assert_int_equal(file_write(path, buffer_begin(&list), buffer_size(&list), NULL), WEFT_OK);
        buffer_free(&list);
        assert_int_equal(snapshot_check_out(store, id, out, NULL), WEFT_ERROR_DATA);
        assert_int_not_equal(access(out, F_OK), 0);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(comes_out_as_it_went_in, begin, end),
        cmocka_unit_test_setup_teardown(costs_nothing_the_second_time_and_is_the_same, begin, end),
        cmocka_unit_test_setup_teardown(is_not_changed_by_those_who_use_it, begin, end),
        cmocka_unit_test_setup_teardown(sees_damage_and_leaves_nothing, begin, end),
        cmocka_unit_test_setup_teardown(keeps_to_its_limits, begin, end),
        cmocka_unit_test_setup_teardown(leaves_itself_out, begin, end),
        cmocka_unit_test_setup_teardown(is_made_whole_or_not_at_all, begin, end),
        cmocka_unit_test_setup_teardown(lists_cannot_leave_their_target, begin, end),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
