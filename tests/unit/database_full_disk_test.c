/* SPDX-License-Identifier: Apache-2.0 */
/* A disk that fills up at any point of a database's life, or cannot be written: a message, and what was there is
 * whole. */
#include "platform/store/database.h"

#include "temporary.h"

#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <sys/mount.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <cmocka.h>

#define DISK_BYTES (2 << 20)
#define PAGE       4096

static const char *const migrations[] = {"CREATE TABLE things (thing INTEGER PRIMARY KEY, bytes BLOB) STRICT;"};
static const struct database_schema schema = {"a box of things", 0x74657374, migrations, 1};

static const char *directory;
static char path[FILE_PATH_BYTES];

static uint64_t free_bytes(void)
{
    struct statvfs status;
    assert_int_equal(statvfs(directory, &status), 0);
    return (uint64_t)status.f_bfree * status.f_bsize;
}

/* Leave `space` bytes of the disk free. */
static void leave_space(uint64_t space)
{
    static char block[PAGE];
    FILE *file = fopen(temporary_path(directory, "filler"), "wb");
    assert_non_null(file);
    setbuf(file, NULL);
    for (uint64_t taken = 0, most = free_bytes() - space; taken < most; taken += sizeof block)
        if (fwrite(block, 1, sizeof block, file) != sizeof block)
            break;
    fclose(file);
}

static void clear_disk(void)
{
    static const char *const names[] = {"filler", "box.db", "box.db-wal", "box.db-shm", "box.db.writer"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        unlink(temporary_path(directory, names[i]));
}

static void told_of_a_full_disk(weft_status status, const struct error *error)
{
    assert_int_equal(status, WEFT_ERROR_SYSTEM);
    if (!strstr(error->text, directory) ||
        (!strstr(error->text, "the disk is full") && !strstr(error->text, "No space left")))
        fail_msg("an odd message: %s", error->text);
}

static struct database *open_box(void)
{
    struct database *box = NULL;
    struct error error = {0};
    if (database_open(path, &schema, DATABASE_WRITER, &box, &error) != WEFT_OK)
        fail_msg("%s", error.text);
    return box;
}

/* A transaction of `pages` pages. */
static weft_status add(struct database *box, int pages, struct error *error)
{
    static char bytes[PAGE];
    weft_status status = database_begin(box, DATABASE_DURABLE, error);
    if (status != WEFT_OK)
        return status;
    for (int i = 0; i < pages && status == WEFT_OK; i++) {
        struct statement *insert = database_prepare(box, "INSERT INTO things (bytes) VALUES (?)");
        statement_bind_blob(insert, bytes, sizeof bytes);
        status = statement_run(insert, error);
    }
    return database_end(box, status, error);
}

static int64_t count(struct database *box)
{
    struct statement *select = database_prepare(box, "SELECT count(*) FROM things");
    int64_t things = statement_next(select) ? statement_integer(select, 0) : -1;
    assert_int_equal(statement_end(select, NULL), WEFT_OK);
    return things;
}

static void making_one(void **state)
{
    int failures = 0;
    for (uint64_t space = 0;; space += PAGE) {
        clear_disk();
        leave_space(space);
        struct database *box = NULL;
        struct error error = {0};
        weft_status status = database_open(path, &schema, DATABASE_WRITER, &box, &error);
        database_close(box);
        if (status == WEFT_OK)
            break;
        failures++;
        told_of_a_full_disk(status, &error);
        assert_false(file_exists(path));
        assert_false(file_exists(temporary_path(directory, "box.db-wal")));
    }
    assert_in_range(failures, 3, 40);
}

/* Both a transaction of its own and the members of a group; afterwards, with space again, the same handle goes on. */
static void adding_to_one(void **state)
{
    int failures = 0;
    for (int grouped = 0; grouped < 2; grouped++) {
        for (uint64_t space = 0;; space += 2 * PAGE) {
            clear_disk();
            struct database *box = open_box();
            struct error error = {0};
            assert_int_equal(add(box, 5, NULL), WEFT_OK);
            leave_space(space);
            weft_status status = WEFT_OK;
            if (grouped)
                database_group_begin(box, DATABASE_DURABLE);
            for (int member = 0; member < 10; member++) {
                weft_status added = add(box, 3, status == WEFT_OK ? &error : NULL);
                status = status == WEFT_OK ? added : status;
                if (!grouped)
                    break;
            }
            if (grouped) {
                weft_status ended = database_group_end(box, status == WEFT_OK ? &error : NULL);
                assert_true(ended != WEFT_OK || status == WEFT_OK || count(box) > 5);
                status = status == WEFT_OK ? ended : status;
            }
            if (status == WEFT_OK) {
                assert_int_equal(count(box), grouped ? 35 : 8);
                database_close(box);
                break;
            }
            failures++;
            told_of_a_full_disk(status, &error);
            assert_int_equal(count(box), 5);
            unlink(temporary_path(directory, "filler"));
            assert_int_equal(add(box, 2, NULL), WEFT_OK);
            assert_int_equal(database_check(box, NULL), WEFT_OK);
            database_close(box);
            box = open_box();
            assert_int_equal(count(box), 7);
            database_close(box);
        }
    }
    assert_in_range(failures, 5, 100);
}

/* Opening what is there on a disk that is full: told, or it goes well; nothing is lost either way. */
static void opening_one(void **state)
{
    clear_disk();
    struct database *box = open_box();
    assert_int_equal(add(box, 5, NULL), WEFT_OK);
    database_close(box);
    for (uint64_t space = 0; space < 12 * PAGE; space += PAGE) {
        unlink(temporary_path(directory, "box.db.writer"));
        leave_space(space);
        struct error error = {0};
        weft_status status = database_open(path, &schema, DATABASE_WRITER, &box, &error);
        if (status == WEFT_OK)
            database_close(box);
        else
            told_of_a_full_disk(status, &error);
        unlink(temporary_path(directory, "filler"));
        box = open_box();
        assert_int_equal(count(box), 5);
        database_close(box);
    }
}

static void refused_read_only(const char *where)
{
    struct database *box = NULL;
    struct error error = {0};
    assert_int_equal(database_open(where, &schema, DATABASE_WRITER, &box, &error), WEFT_ERROR_SYSTEM);
    if (!strstr(error.text, where) || !strstr(error.text, "Read-only file system"))
        fail_msg("an odd message: %s", error.text);
}

static void a_directory_that_cannot_be_written(void **state)
{
    clear_disk();
    struct database *box = open_box();
    assert_int_equal(add(box, 1, NULL), WEFT_OK);
    database_close(box);
    assert_int_equal(mount(NULL, directory, NULL, MS_REMOUNT | MS_RDONLY, NULL), 0);
    refused_read_only(path);
    refused_read_only(temporary_path(directory, "new.db"));
    assert_int_equal(mount(NULL, directory, NULL, MS_REMOUNT, NULL), 0);
    box = open_box();
    assert_int_equal(count(box), 1);
    database_close(box);
}

/* Nobody else can take what is kept after the log, and commits find room there. */
static void space_that_was_kept(void **state)
{
    clear_disk();
    struct database *box = open_box();
    struct error error = {0};
    assert_int_equal(add(box, 1, NULL), WEFT_OK);
    database_keep_spare(path, 64 * PAGE);
    database_keep_spare("/no/such", 64 * PAGE);
    leave_space(0);
    for (int i = 0; i < 10; i++)
        if (add(box, 1, &error) != WEFT_OK)
            fail_msg("commit %d: %s", i, error.text);
    assert_int_equal(count(box), 11);
    database_close(box);
}

/* Nobody else can take what is kept for opening one, and for its first commits. */
static void room_that_was_kept(void **state)
{
    clear_disk();
    struct database *box = open_box();
    struct error error = {0};
    assert_int_equal(add(box, 1, NULL), WEFT_OK);
    database_close(box);
    database_keep_room(path, 64 * PAGE);
    database_keep_room("/no/such", 64 * PAGE);
    assert_false(file_exists("/no/such-wal"));
    leave_space(0);
    box = open_box();
    for (int i = 0; i < 10; i++)
        if (add(box, 1, &error) != WEFT_OK)
            fail_msg("commit %d: %s", i, error.text);
    assert_int_equal(count(box), 11);
    database_close(box);
    clear_disk();
}

int main(void)
{
    directory = temporary_directory();
    snprintf(path, sizeof path, "%s/box.db", directory);
    char options[64];
    snprintf(options, sizeof options, "size=%d", DISK_BYTES);
    /* In a mount namespace of its own, so that the mount ends with this process. */
    if (unshare(CLONE_NEWNS) != 0 || mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) != 0 ||
        mount("weft-test", directory, "tmpfs", 0, options) != 0) {
        perror("skipped: a small disk needs root and mount");
        rmdir(directory);
        return 77;
    }
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(making_one),         cmocka_unit_test(adding_to_one),
        cmocka_unit_test(opening_one),        cmocka_unit_test(space_that_was_kept),
        cmocka_unit_test(room_that_was_kept), cmocka_unit_test(a_directory_that_cannot_be_written),
    };
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    umount(directory);
    rmdir(directory);
    return failed;
}
