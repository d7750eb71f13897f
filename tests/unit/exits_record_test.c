/* SPDX-License-Identifier: Apache-2.0 */
/* The record of how the server ended: overwritten in place, and a record that was written in part is recognized. */
#include "platform/service/internal/exits.h"
#include "temporary.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#define RECORD 4096

static struct stat about(const char *directory)
{
    struct stat found;
    assert_int_equal(stat(temporary_path(directory, "exits"), &found), 0);
    return found;
}

static void begin(struct exits *exits, const char *directory, int64_t most)
{
    assert_int_equal(exits_begin(exits, directory, most, 1000, NULL), WEFT_OK);
}

static void the_record_is_overwritten_in_place(void **state)
{
    struct exits exits;
    begin(&exits, *state, 0);
    const struct stat first = about(*state);
    assert_int_equal(first.st_size, 2 * RECORD);
    for (int i = 0; i < 40; i++) { /* with more exits than are kept */
        begin(&exits, *state, 0);
        const struct stat found = about(*state);
        assert_true(found.st_ino == first.st_ino && found.st_size == first.st_size &&
                    found.st_blocks == first.st_blocks);
    }
    assert_int_equal(exits.count, EXITS_KEPT);
    exits_end(&exits);
    assert_true(about(*state).st_ino == first.st_ino);
}

/* Cut the newest of the two records after `kept` bytes. */
static void tear(const char *directory, size_t kept)
{
    char *content;
    size_t size;
    unsigned long numbers[2] = {0, 0};
    assert_int_equal(file_read(temporary_path(directory, "exits"), 2 * RECORD, &content, &size, NULL), WEFT_OK);
    for (int i = 0; i < 2; i++)
        if (strncmp(content + (size_t)i * RECORD, "number ", 7) == 0)
            numbers[i] = strtoul(content + (size_t)i * RECORD + 7, NULL, 10);
    char *newest = content + (numbers[1] > numbers[0] ? RECORD : 0);
    memset(newest + kept, 0, RECORD - kept);
    const int file = open(temporary_path(directory, "exits"), O_WRONLY);
    assert_int_equal(pwrite(file, content, size, 0), size);
    close(file);
    free(content);
}

static void a_torn_record_leaves_the_one_before(void **state)
{
    struct exits exits;
    begin(&exits, *state, 0);
    exits_end(&exits);
    for (size_t kept = 0; kept < 40; kept++) {
        begin(&exits, *state, 0);
        assert_int_equal(exits.count, kept < EXITS_KEPT ? kept : EXITS_KEPT);
        exits_end(&exits); /* torn: then it still ran, as far as is known */
        tear(*state, kept);
    }
    begin(&exits, *state, 0);
    tear(*state, 20); /* then the last server's end is the newest that is known */
    begin(&exits, *state, 0);
    assert_int_equal(exits.count, EXITS_KEPT);
    exits_end(&exits);
}

static void what_is_no_record_is_replaced(void **state)
{
    static const char *const contents[] = {"", "running 1\npaused 1\n",
                                           "number 3\nrunning 1\npaused 1\nchecksum 00000000\n"};
    struct exits exits;
    for (size_t i = 0; i < sizeof contents / sizeof *contents; i++) {
        char text[2 * RECORD] = {0};
        memcpy(text, contents[i], strlen(contents[i]));
        temporary_file(*state, "exits", text, i == 2 ? sizeof text : strlen(contents[i]));
        begin(&exits, *state, 1);
        assert_int_equal(exits.count, 0);
        assert_null(exits_why(&exits));
        assert_int_equal(about(*state).st_size, 2 * RECORD);
        exits_end(&exits);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        in_temporary_directory(the_record_is_overwritten_in_place),
        in_temporary_directory(a_torn_record_leaves_the_one_before),
        in_temporary_directory(what_is_no_record_is_replaced),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
