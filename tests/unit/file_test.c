/* SPDX-License-Identifier: Apache-2.0 */
/* Files read whole, mapped, written atomically; directories made and removed. */
#include "base/file/file.h"
#include "temporary.h"

#include <dirent.h>
#include <fcntl.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

static const char *directory;

static int entries(const char *path)
{
    int count = 0;
    DIR *opened = opendir(path);
    assert_non_null(opened);
    while (readdir(opened))
        count++;
    closedir(opened);
    return count - 2;
}

static void written_and_read(void **state)
{
    static char big[300000];
    memset(big, 'x', sizeof big);
    const char *path = temporary_path(directory, "big");
    char *content;
    size_t size;
    for (size_t length = 0; length <= sizeof big; length = length * 3 + 1) {
        struct error error = {0};
        if (file_write(path, big, length, &error) != WEFT_OK)
            fail_msg("%s", error.text);
        assert_int_equal(file_read(path, sizeof big, &content, &size, NULL), WEFT_OK);
        assert_int_equal(size, length);
        assert_memory_equal(content, big, length);
        assert_int_equal(content[length], '\0');
        free(content);
        struct file_map map;
        assert_int_equal(file_map(path, &map, NULL), WEFT_OK);
        assert_int_equal(map.size, length);
        if (length)
            assert_memory_equal(map.bytes, big, length);
        file_unmap(&map);
        file_unmap(&map);
    }
    assert_int_equal(entries(directory), 1);
}

static void files_without_a_size(void **state)
{
    char *content;
    size_t size;
    assert_int_equal(file_read("/proc/self/status", 1 << 20, &content, &size, NULL), WEFT_OK);
    assert_true(size > 100);
    free(content);
    /* A pipe that tells its content bit by bit, many times larger than the first guess. */
    FILE *pipe = popen("seq 100000 > /dev/null; seq 100000", "r");
    char path[64];
    snprintf(path, sizeof path, "/proc/self/fd/%d", fileno(pipe));
    assert_int_equal(file_read(path, 1 << 20, &content, &size, NULL), WEFT_OK);
    assert_int_equal(size, 588895);
    assert_string_equal(content + size - 7, "100000\n");
    free(content);
    pclose(pipe);
}

static void larger_than_allowed(void **state)
{
    const char *path = temporary_file(directory, "ten", "0123456789", 10);
    struct error error = {0};
    char *content = NULL;
    size_t size;
    assert_int_equal(file_read(path, 9, &content, &size, &error), WEFT_ERROR_DATA);
    assert_null(content);
    assert_non_null(strstr(error.text, "ten' is larger than the 9 bytes"));
    assert_int_equal(file_read(path, 10, &content, &size, NULL), WEFT_OK);
    free(content);
}

static void a_failed_write_leaves_the_old(void **state)
{
    const char *path = temporary_path(directory, "kept/file");
    assert_int_equal(file_make_directory(temporary_path(directory, "kept"), NULL), WEFT_OK);
    assert_int_equal(file_write(path, "old", 3, NULL), WEFT_OK);
    /* Renaming over a directory that is not empty fails last of all. */
    assert_int_equal(file_make_directory(temporary_path(directory, "kept/directory/inner"), NULL), WEFT_OK);
    struct error error = {0};
    assert_int_equal(file_write(temporary_path(directory, "kept/directory"), "new", 3, &error), WEFT_ERROR_SYSTEM);
    assert_non_null(strstr(error.text, "kept/directory"));
    assert_int_equal(entries(temporary_path(directory, "kept")), 2);
    error_clear(&error);
    assert_int_equal(file_write(temporary_path(directory, "nowhere/file"), "new", 3, &error), WEFT_ERROR_SYSTEM);
    assert_non_null(strstr(error.text, "nowhere"));
}

static void a_name_without_a_directory(void **state)
{
    char *content;
    size_t size;
    char here[FILE_PATH_BYTES];
    assert_non_null(getcwd(here, sizeof here));
    assert_int_equal(chdir(directory), 0);
    assert_int_equal(file_write("plain", "abc", 3, NULL), WEFT_OK);
    assert_int_equal(chdir(here), 0);
    assert_int_equal(file_read(temporary_path(directory, "plain"), 3, &content, &size, NULL), WEFT_OK);
    assert_string_equal(content, "abc");
    free(content);
}

static void a_full_disk_is_told(void **state)
{
    struct file_writer writer;
    struct error error = {0};
    if (file_writer_open(&writer, "/dev/full", 100, &error) != WEFT_OK)
        skip();
    assert_int_equal(file_writer_append(&writer, "0123456789", 10, &error), WEFT_ERROR_SYSTEM);
    assert_string_equal(error.text,
                        "cannot write '/dev/full': the disk is full after 0 of 100 bytes; free 100 bytes more or "
                        "choose another directory");
    close(writer.descriptor);
}

/* Past the page cache or not, every byte arrives, whatever the pieces and the end are. */
static void files_past_the_page_cache(void **state)
{
    const size_t sizes[] = {0, 17, (size_t)1 << 20, ((size_t)2 << 20) + 4096, ((size_t)2 << 20) + 12345};
    const char *path = temporary_path(directory, "large");
    char *bytes = malloc(sizes[4]), *read;
    for (size_t i = 0; i < sizes[4]; i++)
        bytes[i] = (char)(i * 2654435761u >> 13);
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        struct file_writer writer;
        size_t size, piece = 1;
        assert_int_equal(file_writer_open(&writer, path, sizes[i], NULL), WEFT_OK);
        file_writer_bypass_cache(&writer);
        for (size_t put = 0; put < sizes[i]; put += piece, piece = piece * 3 + 1) {
            if (piece > sizes[i] - put)
                piece = sizes[i] - put;
            assert_int_equal(file_writer_append(&writer, bytes + put, piece, NULL), WEFT_OK);
        }
        assert_int_equal(file_writer_close(&writer, NULL), WEFT_OK);
        assert_int_equal(writer.written, sizes[i]);
        assert_int_equal(file_read(path, (size_t)16 << 20, &read, &size, NULL), WEFT_OK);
        assert_int_equal(size, sizes[i]);
        assert_memory_equal(read, bytes, size);
        free(read);
    }
    free(bytes);
}

static void directories_made_and_removed(void **state)
{
    struct error error = {0};
    const char *path = temporary_path(directory, "a/b/c/");
    assert_int_equal(file_make_directory(path, NULL), WEFT_OK);
    assert_int_equal(file_make_directory(path, NULL), WEFT_OK);
    assert_true(file_is_directory(path));
    temporary_file(path, "file", "x", 1);
    /* A link out of the tree is removed, not followed. */
    const char *outside = temporary_file(directory, "outside", "x", 1);
    assert_int_equal(symlink(outside, temporary_path(path, "link")), 0);
    assert_int_equal(file_remove_tree(temporary_path(directory, "a"), NULL), WEFT_OK);
    assert_false(file_exists(temporary_path(directory, "a")));
    assert_true(file_exists(outside));
    assert_int_equal(file_remove_tree(temporary_path(directory, "a"), NULL), WEFT_OK);
    assert_int_equal(file_make_directory(temporary_path(directory, "outside/inner"), &error), WEFT_ERROR_SYSTEM);
    assert_non_null(strstr(error.text, "outside"));
    assert_int_equal(file_make_directory("", NULL), WEFT_ERROR_ARGUMENT);
}

static atomic_bool enough;

/* Put the second path in the place of the first, and back, as fast as can be. */
static void *swap(void *argument)
{
    const char *const *paths = argument;
    while (!atomic_load(&enough))
        renameat2(AT_FDCWD, paths[0], AT_FDCWD, paths[1], RENAME_EXCHANGE);
    return NULL;
}

/* A user who can change the removed directory cannot have something else removed. */
static void what_is_removed_leads_nowhere(void **state)
{
    char name[64], outside[FILE_PATH_BYTES], tree[FILE_PATH_BYTES], inner[FILE_PATH_BYTES], link[FILE_PATH_BYTES];
    const char *swapped[] = {inner, link};
    pthread_t thread;
    snprintf(tree, sizeof tree, "%s", temporary_path(directory, "tree"));
    snprintf(inner, sizeof inner, "%s", temporary_path(directory, "tree/inner"));
    snprintf(link, sizeof link, "%s", temporary_path(directory, "link"));
    snprintf(outside, sizeof outside, "%s", temporary_path(directory, "precious"));
    for (int file = 0; file < 30; file++) {
        snprintf(name, sizeof name, "precious/%d", file);
        assert_int_equal(file_make_directory_of(temporary_path(directory, name), NULL), WEFT_OK);
        temporary_file(directory, name, "x", 1);
    }
    atomic_store(&enough, false);
    assert_int_equal(pthread_create(&thread, NULL, swap, (void *)swapped), 0);
    for (int attempt = 0; attempt < 100; attempt++) {
        while (file_remove_tree(link, NULL) != WEFT_OK || symlink(outside, link) != 0)
            continue;
        for (int file = 0; file < 30; file++) {
            snprintf(name, sizeof name, "tree/inner/%d", file);
            (void)file_make_directory_of(temporary_path(directory, name), NULL);
            int made = open(temporary_path(directory, name), O_CREAT | O_WRONLY | O_CLOEXEC, 0600);
            if (made >= 0)
                close(made);
        }
        (void)file_remove_tree(tree, NULL);
        assert_int_equal(entries(outside), 30);
    }
    atomic_store(&enough, true);
    pthread_join(thread, NULL);
    assert_int_equal(file_remove_tree(tree, NULL), WEFT_OK);
}

/* As a program may leave them. */
static void deep_directories_are_removed(void **state)
{
    struct error error = {0};
    for (int deep = 1; deep >= 0; deep--) {
        assert_int_equal(mkdir(temporary_path(directory, "deep"), 0700), 0);
        int at = open(temporary_path(directory, "deep"), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        for (int depth = 0; depth < (deep ? 3000 : 600); depth++) {
            assert_int_equal(mkdirat(at, "d", 0700), 0);
            int inner = openat(at, "d", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
            close(at);
            at = inner;
        }
        close(at);
        if (deep) {
            assert_int_equal(file_remove_tree(temporary_path(directory, "deep"), &error), WEFT_ERROR_SYSTEM);
            assert_non_null(strstr(error.text, "cannot remove"));
            assert_int_equal(rename(temporary_path(directory, "deep"), temporary_path(directory, "left")), 0);
        } else {
            assert_int_equal(file_remove_tree(temporary_path(directory, "deep"), &error), WEFT_OK);
        }
    }
    for (int part = 0; part < 3; part++) { /* in parts: 1500 of its directories lie in others by then */
        char path[FILE_PATH_BYTES] = "", name[32];
        for (int depth = 0; depth < 1000; depth++)
            strcat(path, "d/");
        snprintf(name, sizeof name, "part-%d", part);
        int left = open(temporary_path(directory, "left"), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        (void)renameat(left, path, AT_FDCWD, temporary_path(directory, name));
        close(left);
        (void)file_remove_tree(temporary_path(directory, "left"), NULL);
        (void)rename(temporary_path(directory, name), temporary_path(directory, "left"));
    }
    assert_int_equal(file_remove_tree(temporary_path(directory, "left"), NULL), WEFT_OK);
}

static void what_a_directory_takes(void **state)
{
    static char block[64 << 10];
    char path[FILE_PATH_BYTES];
    uint64_t empty, bytes;
    const atomic_bool stopped = true;
    memset(block, 'x', sizeof block);
    snprintf(path, sizeof path, "%s", temporary_path(directory, "tree"));
    assert_true(file_tree_bytes(path, NULL, &bytes));
    assert_int_equal(bytes, 0);
    assert_int_equal(mkdir(path, 0700), 0);
    assert_true(file_tree_bytes(path, NULL, &empty));
    assert_int_equal(mkdir(temporary_path(path, "inner"), 0700), 0);
    assert_int_equal(file_write(temporary_path(path, "inner/one"), block, sizeof block, NULL), WEFT_OK);
    assert_true(file_tree_bytes(path, NULL, &bytes));
    assert_in_range(bytes, empty + sizeof block, empty + sizeof block + 16384);
    /* A second name, a link and a hole take nothing more, and a link leads nowhere. */
    char one[FILE_PATH_BYTES];
    uint64_t again;
    snprintf(one, sizeof one, "%s", temporary_path(path, "inner/one"));
    assert_int_equal(link(one, temporary_path(path, "inner/two")), 0);
    assert_int_equal(symlink("/usr", temporary_path(path, "inner/link")), 0);
    assert_int_equal(file_write(temporary_path(path, "hole"), "", 0, NULL), WEFT_OK);
    assert_int_equal(truncate(temporary_path(path, "hole"), 1 << 30), 0);
    assert_true(file_tree_bytes(path, NULL, &again));
    assert_in_range(again, bytes, bytes + 16384);
    assert_false(file_tree_bytes(path, &stopped, &again));
}

static void paths(void **state)
{
    char path[FILE_PATH_BYTES];
    char *long_name = calloc(1, FILE_PATH_BYTES + 1);
    assert_int_equal(file_join(path, "/a/", "b", NULL), WEFT_OK);
    assert_string_equal(path, "/a/b");
    assert_int_equal(file_join(path, "a", "b", NULL), WEFT_OK);
    assert_string_equal(path, "a/b");
    assert_string_equal(file_name("/a/b"), "b");
    assert_string_equal(file_name("b"), "b");
    memset(long_name, 'n', FILE_PATH_BYTES);
    assert_int_equal(file_join(path, "a", long_name, NULL), WEFT_ERROR_ARGUMENT);
    assert_int_equal(file_write(long_name, "", 0, NULL), WEFT_ERROR_ARGUMENT);
    assert_int_equal(file_make_directory(long_name, NULL), WEFT_ERROR_ARGUMENT);
    free(long_name);
}

static void the_place_of_state(void **state)
{
    char path[FILE_PATH_BYTES];
    struct error error = {0};
    setenv("HOME", "/home/ada", 1);
    setenv("XDG_STATE_HOME", "/states", 1);
    assert_int_equal(file_state_directory(path, "runs", NULL), WEFT_OK);
    assert_string_equal(path, "/states/weft/runs");
    setenv("XDG_STATE_HOME", "states", 1); /* as none */
    assert_int_equal(file_state_directory(path, "runs", NULL), WEFT_OK);
    assert_string_equal(path, "/home/ada/.local/state/weft/runs");
    setenv("HOME", "ada", 1);
    assert_int_equal(file_state_directory(path, "runs", &error), WEFT_ERROR_ARGUMENT);
    assert_string_equal(error.text,
                        "neither XDG_STATE_HOME nor HOME is an absolute path, so there is no place for Weft's runs");
}

int main(void)
{
    directory = temporary_directory();
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(written_and_read),
        cmocka_unit_test(files_without_a_size),
        cmocka_unit_test(larger_than_allowed),
        cmocka_unit_test(a_failed_write_leaves_the_old),
        cmocka_unit_test(a_name_without_a_directory),
        cmocka_unit_test(a_full_disk_is_told),
        cmocka_unit_test(files_past_the_page_cache),
        cmocka_unit_test(directories_made_and_removed),
        cmocka_unit_test(what_is_removed_leads_nowhere),
        cmocka_unit_test(deep_directories_are_removed),
        cmocka_unit_test(paths),
        cmocka_unit_test(what_a_directory_takes),
        cmocka_unit_test(the_place_of_state),
    };
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    file_remove_tree(directory, NULL);
    return failed;
}
