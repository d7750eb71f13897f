/* SPDX-License-Identifier: Apache-2.0 */
/* A database: what is written comes back, transactions are whole, groups share a commit, strange files are refused. */
#include "platform/store/database.h"

#include "base/random.h"
#include "temporary.h"

#include <setjmp.h>
#include <signal.h>
#include <sqlite3.h>
#include <stdarg.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#define APPLICATION 0x74657374

static const char *const migrations[] = {
    "CREATE TABLE things (thing INTEGER PRIMARY KEY, name TEXT UNIQUE, weight REAL, bytes BLOB) STRICT;",
    "ALTER TABLE things ADD COLUMN color TEXT NOT NULL DEFAULT 'gray'; CREATE INDEX by_color ON things (color);",
};
static const struct database_schema first = {"a box of things", APPLICATION, migrations, 1};
static const struct database_schema second = {"a box of things", APPLICATION, migrations, 2};

static const char *directory;
static unsigned boxes;

/* The path of a database that is not there yet. */
static const char *new_path(void)
{
    char name[32];
    snprintf(name, sizeof name, "box-%u.db", ++boxes);
    return temporary_path(directory, name);
}

static struct database *open_box(const char *path, const struct database_schema *schema)
{
    struct database *box = NULL;
    struct error error = {0};
    if (database_open(path, schema, DATABASE_WRITER, &box, &error) != WEFT_OK)
        fail_msg("%s", error.text);
    return box;
}

/* Opening is refused with `status` and a message that has `word` in it. */
static void refused(const char *path, const struct database_schema *schema, weft_status status, const char *word)
{
    struct database *box = NULL;
    struct error error = {0};
    assert_int_equal(database_open(path, schema, DATABASE_WRITER, &box, &error), status);
    assert_null(box);
    if (!strstr(error.text, word) || !strstr(error.text, path))
        fail_msg("an odd message: %s", error.text);
}

static weft_status add(struct database *box, const char *name, struct error *error)
{
    struct statement *insert = database_prepare(box, "INSERT INTO things (name) VALUES (?)");
    statement_bind_text(insert, name);
    return statement_run(insert, error);
}

/* A transaction of one thing. */
static weft_status add_whole(struct database *box, const char *name)
{
    struct error error = {0};
    weft_status status = database_begin(box, DATABASE_DURABLE, &error);
    return status == WEFT_OK ? database_end(box, add(box, name, &error), &error) : status;
}

static int64_t count(struct database *box)
{
    struct statement *select = database_prepare(box, "SELECT count(*) FROM things");
    int64_t things = statement_next(select) ? statement_integer(select, 0) : -1;
    assert_int_equal(statement_end(select, NULL), WEFT_OK);
    return things;
}

static void values_come_back(void **state)
{
    const char *path = new_path();
    struct database *box = open_box(path, &first);
    const uint8_t bytes[] = {0, 1, 255};
    assert_int_equal(database_begin(box, DATABASE_LAZY, NULL), WEFT_OK);
    struct statement *insert = database_prepare(box, "INSERT INTO things VALUES (?, ?, ?, ?)");
    statement_bind_integer(insert, INT64_MIN);
    statement_bind_text(insert, "naïve");
    statement_bind_number(insert, 0.1);
    statement_bind_blob(insert, bytes, sizeof bytes);
    assert_int_equal(statement_run(insert, NULL), WEFT_OK);
    assert_int_equal(database_changes(box), 1);
    assert_int_equal(database_last_key(box), INT64_MIN);
    /* The same text again: kept, with nothing bound from before. */
    assert_ptr_equal(database_prepare(box, "INSERT INTO things VALUES (?, ?, ?, ?)"), insert);
    statement_bind_integer(insert, 7);
    statement_bind_text(insert, NULL);
    statement_bind_text(insert, NULL);
    statement_bind_blob(insert, NULL, 0);
    assert_int_equal(database_end(box, statement_run(insert, NULL), NULL), WEFT_OK);
    database_close(box);

    box = open_box(path, &first);
    size_t size;
    char cut[4];
    struct statement *select = database_prepare(box, "SELECT thing, name, weight, bytes FROM things ORDER BY thing");
    assert_true(statement_next(select));
    assert_int_equal(statement_integer(select, 0), INT64_MIN);
    assert_string_equal(statement_text(select, 1), "naïve");
    assert_string_equal(statement_copy_text(select, 1, cut, sizeof cut), "na\xc3");
    assert_true(statement_number(select, 2) == 0.1);
    assert_memory_equal(statement_blob(select, 3, &size), bytes, sizeof bytes);
    assert_int_equal(size, sizeof bytes);
    assert_false(statement_is_null(select, 1));
    assert_true(statement_next(select));
    assert_int_equal(statement_integer(select, 0), 7);
    assert_null(statement_text(select, 1));
    assert_string_equal(statement_copy_text(select, 1, cut, sizeof cut), "");
    assert_true(statement_is_null(select, 2) && statement_is_null(select, 3));
    assert_false(statement_next(select) || statement_next(select));
    assert_int_equal(statement_end(select, NULL), WEFT_OK);
    assert_int_equal(database_check(box, NULL), WEFT_OK);
    database_close(box);
    struct stat status;
    assert_int_equal(stat(path, &status), 0);
    assert_int_equal(status.st_mode & 0777, 0600);
}

static void transactions_are_whole(void **state)
{
    struct database *box = open_box(new_path(), &first);
    struct error error = {0};
    assert_int_equal(add_whole(box, "kept"), WEFT_OK);
    assert_int_equal(database_begin(box, DATABASE_DURABLE, NULL), WEFT_OK);
    assert_true(database_inside(box));
    assert_int_equal(database_begin(box, DATABASE_DURABLE, &error), WEFT_ERROR_STATE);
    assert_non_null(strstr(error.text, "inside another"));
    assert_int_equal(add(box, "first of two", NULL), WEFT_OK);
    assert_int_equal(add(box, "kept", NULL), WEFT_ERROR_DATA);
    assert_int_equal(database_end(box, WEFT_ERROR_DATA, NULL), WEFT_ERROR_DATA);
    assert_false(database_inside(box));
    assert_int_equal(count(box), 1);
    assert_int_equal(database_end(box, WEFT_OK, NULL), WEFT_ERROR_STATE);
    assert_int_equal(add(box, "outside", NULL), WEFT_ERROR_STATE);
    assert_int_equal(count(box), 1);
    /* Open at the end: undone. */
    char path[FILE_PATH_BYTES];
    snprintf(path, sizeof path, "%s", database_path(box));
    assert_int_equal(database_begin(box, DATABASE_DURABLE, NULL), WEFT_OK);
    assert_int_equal(add(box, "open at the end", NULL), WEFT_OK);
    database_close(box);
    box = open_box(path, &first);
    assert_int_equal(count(box), 1);
    database_close(box);
}

/* SQLite's own word for how far a commit goes: 2 syncs the log at each, 1 leaves that for later. */
static void durability_is_as_asked_for(void **state)
{
    struct database *box = open_box(new_path(), &first);
    static const enum database_durability asked[] = {DATABASE_LAZY, DATABASE_DURABLE, DATABASE_DURABLE, DATABASE_LAZY};
    for (size_t i = 0; i < 8; i++) {
        bool grouped = i >= 4;
        enum database_durability durability = asked[i % 4];
        if (grouped)
            database_group_begin(box, durability);
        /* What a member asks for does not count: the group's own does. */
        assert_int_equal(database_begin(box, grouped ? DATABASE_LAZY : durability, NULL), WEFT_OK);
        struct statement *ask = database_prepare(box, "SELECT synchronous FROM pragma_synchronous");
        assert_true(statement_next(ask));
        assert_int_equal(statement_integer(ask, 0), durability == DATABASE_DURABLE ? 2 : 1);
        assert_int_equal(statement_end(ask, NULL), WEFT_OK);
        assert_int_equal(database_end(box, WEFT_OK, NULL), WEFT_OK);
        assert_int_equal(database_group_end(box, NULL), WEFT_OK);
    }
    database_close(box);
}

/* SQLite's syncs come through here. */
static int syncs;

__attribute__((visibility("default"))) int fdatasync(int file)
{
    syncs++;
    return (int)syscall(SYS_fdatasync, file);
}

__attribute__((visibility("default"))) int fsync(int file)
{
    syncs++;
    return (int)syscall(SYS_fsync, file);
}

static weft_status weigh(struct database *box, const char *name, bool can_wait)
{
    struct statement *update = database_prepare(box, "UPDATE things SET weight = ifnull(weight, 0) + 1 WHERE name = ?");
    statement_bind_text(update, name);
    if (can_wait)
        statement_can_wait(update);
    return statement_run(update, NULL);
}

static void only_what_cannot_wait_is_synced_where_that_is_as_needed(void **state)
{
    const char *path = new_path();
    struct database *box = open_box(path, &first), *reader;
    assert_int_equal(database_open(path, &first, DATABASE_READER, &reader, NULL), WEFT_OK);
    for (int i = 0; i < 12; i++) {
        const bool grouped = i >= 6, fails = i % 6 == 5;
        const int what = i % 6; /* nothing; what can wait; the other; both; both again; both, undone */
        char name[16];
        snprintf(name, sizeof name, "thing %d", i);
        if (grouped)
            database_group_begin(box, DATABASE_AS_NEEDED);
        assert_int_equal(database_begin(box, DATABASE_AS_NEEDED, NULL), WEFT_OK);
        syncs = 0;
        if (what >= 2)
            assert_int_equal(add(box, name, NULL), WEFT_OK);
        if (what != 0 && what != 2)
            assert_int_equal(weigh(box, i == 1 ? "thing 0" : "thing 2", true), WEFT_OK);
        if (what == 4) /* the same statement, which cannot wait this time */
            assert_int_equal(weigh(box, "thing 2", false), WEFT_OK);
        assert_int_equal(database_end(box, fails ? WEFT_ERROR_STATE : WEFT_OK, NULL),
                         fails ? WEFT_ERROR_STATE : WEFT_OK);
        assert_true(!grouped || syncs == 0);
        assert_int_equal(database_group_end(box, NULL), WEFT_OK);
        if (!fails)
            assert_int_equal(syncs > 0, what >= 2);
        assert_int_equal(count(reader), count(box));
    }
    assert_int_equal(count(box), 6);
    /* In another's group that one's word counts; and by itself a statement that can wait is durable as its transaction.
     */
    for (int grouped = 0; grouped < 2; grouped++) {
        if (grouped)
            database_group_begin(box, DATABASE_DURABLE);
        assert_int_equal(database_begin(box, grouped ? DATABASE_AS_NEEDED : DATABASE_DURABLE, NULL), WEFT_OK);
        assert_int_equal(weigh(box, "thing 2", true), WEFT_OK);
        syncs = 0;
        assert_int_equal(database_end(box, WEFT_OK, NULL), WEFT_OK);
        assert_int_equal(database_group_end(box, NULL), WEFT_OK);
        assert_true(syncs > 0);
    }
    database_close(reader);
    database_close(box);
    /* The version of the schema is what it was. */
    database_close(open_box(path, &first));
    struct database *box_again = open_box(path, &second);
    assert_int_equal(database_begin(box_again, DATABASE_AS_NEEDED, NULL), WEFT_OK);
    assert_int_equal(add(box_again, "one more", NULL), WEFT_OK);
    assert_int_equal(database_end(box_again, WEFT_OK, NULL), WEFT_OK);
    database_close(box_again);
    database_close(open_box(path, &second));
}

static void mistakes_of_callers_are_told(void **state)
{
    struct database *box = open_box(new_path(), &first);
    struct error error = {0};
    struct statement *wrong = database_prepare(box, "SELECT color FROM things");
    statement_bind_integer(wrong, 1);
    assert_false(statement_next(wrong));
    assert_int_not_equal(statement_end(wrong, &error), WEFT_OK);
    assert_non_null(strstr(error.text, "color"));
    error_clear(&error);
    assert_int_equal(statement_run(database_prepare(box, "SELECT 1; SELECT 2"), &error), WEFT_ERROR_ARGUMENT);
    assert_non_null(strstr(error.text, "not one statement"));
    error_clear(&error);
    assert_int_equal(statement_run(database_prepare(box, "SELECT * FROM things WHERE thing = ?"), &error),
                     WEFT_ERROR_ARGUMENT);
    error_clear(&error);
    struct statement *many = database_prepare(box, "SELECT ?");
    statement_bind_integer(many, 1);
    statement_bind_integer(many, 2);
    assert_int_not_equal(statement_run(many, &error), WEFT_OK);
    /* "Text" in double quotes is no text, and a text is no whole number. */
    assert_int_not_equal(statement_run(database_prepare(box, "SELECT \"color\" FROM things"), NULL), WEFT_OK);
    assert_int_equal(database_begin(box, DATABASE_DURABLE, NULL), WEFT_OK);
    struct statement *typed = database_prepare(box, "UPDATE things SET weight = ?");
    statement_bind_text(typed, "heavy");
    assert_int_equal(add(box, "a", NULL), WEFT_OK);
    assert_int_equal(database_end(box, statement_run(typed, NULL), NULL), WEFT_ERROR_DATA);
    database_close(box);
}

/* A statement that is asked for while it runs is another one; more texts than are kept do no harm. */
static void statements_nest_and_are_kept(void **state)
{
    struct database *box = open_box(new_path(), &first);
    const char *names[] = {"a", "b", "c"};
    for (size_t i = 0; i < 3; i++)
        assert_int_equal(add_whole(box, names[i]), WEFT_OK);
    int pairs = 0;
    for (int round = 0; round < 2; round++) {
        struct statement *outer = database_prepare(box, "SELECT name FROM things");
        while (statement_next(outer)) {
            struct statement *inner = database_prepare(box, "SELECT name FROM things");
            assert_ptr_not_equal(inner, outer);
            while (statement_next(inner))
                pairs++;
            assert_int_equal(statement_end(inner, NULL), WEFT_OK);
        }
        assert_int_equal(statement_end(outer, NULL), WEFT_OK);
    }
    assert_int_equal(pairs, 18);
    for (int i = 0; i < 1200; i++) {
        char sql[32];
        snprintf(sql, sizeof sql, "SELECT %d", i);
        struct statement *select = database_prepare(box, sql);
        assert_true(statement_next(select));
        assert_int_equal(statement_integer(select, 0), i);
        assert_int_equal(statement_end(select, NULL), WEFT_OK);
    }
    database_close(box);
}

static void members_of_a_group_fail_alone_and_commit_together(void **state)
{
    const char *path = new_path();
    struct database *box = open_box(path, &first), *reader = NULL;
    assert_int_equal(database_open(path, &first, DATABASE_READER, &reader, NULL), WEFT_OK);
    database_group_begin(box, DATABASE_DURABLE);
    assert_int_equal(database_group_end(box, NULL), WEFT_OK);
    for (int round = 0; round < 2; round++) {
        char name[4][16];
        for (int i = 0; i < 4; i++)
            snprintf(name[i], sizeof name[i], "%d-%d", round, i % 3); /* the last is there already */
        database_group_begin(box, DATABASE_DURABLE);
        for (int i = 0; i < 4; i++)
            assert_int_equal(add_whole(box, name[i]), i == 3 ? WEFT_ERROR_DATA : WEFT_OK);
        assert_int_equal(database_begin(box, DATABASE_DURABLE, NULL), WEFT_OK);
        assert_int_equal(add(box, "given up", NULL), WEFT_OK);
        assert_int_equal(database_end(box, WEFT_ERROR_STATE, NULL), WEFT_ERROR_STATE);
        assert_int_equal(count(box), 3 * round + 3);
        assert_int_equal(count(reader), 3 * round);
        assert_int_equal(database_group_end(box, NULL), WEFT_OK);
        assert_int_equal(count(reader), 3 * round + 3);
    }
    assert_int_equal(add_whole(box, "alone"), WEFT_OK);
    assert_int_equal(count(reader), 7);
    /* A group that never ends is undone. */
    database_group_begin(box, DATABASE_DURABLE);
    assert_int_equal(add_whole(box, "never"), WEFT_OK);
    database_close(box);
    assert_int_equal(count(reader), 7);
    database_close(reader);
}

static void one_writer(void **state)
{
    const char *path = new_path();
    struct database *box = open_box(path, &first), *other = NULL;
    char process[32];
    int status;
    snprintf(process, sizeof process, "process %ld on ", (long)getpid());
    refused(path, &first, WEFT_ERROR_STATE, process);
    assert_int_equal(add_whole(box, "a"), WEFT_OK);
    assert_int_equal(database_open(path, &first, DATABASE_READER, &other, NULL), WEFT_OK);
    assert_int_equal(count(other), 1);
    assert_int_not_equal(add_whole(other, "b"), WEFT_OK);
    database_close(other);
    database_close(box);
    /* The lock of a killed process is nobody's. */
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        box = open_box(path, &first);
        raise(SIGKILL);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFSIGNALED(status));
    database_close(open_box(path, &first));
}

static void a_reader_needs_the_present_schema(void **state)
{
    const char *path = new_path();
    struct database *reader = NULL;
    struct error error = {0};
    assert_int_equal(database_open(path, &first, DATABASE_READER, &reader, &error), WEFT_ERROR_SYSTEM);
    assert_false(file_exists(path));
    database_close(open_box(path, &first));
    error_clear(&error);
    assert_int_equal(database_open(path, &second, DATABASE_READER, &reader, &error), WEFT_ERROR_DATA);
    assert_non_null(strstr(error.text, "version 1 where 2"));
}

static void an_older_schema_is_brought_up(void **state)
{
    const char *path = new_path();
    struct database *box = open_box(path, &first);
    assert_int_equal(add_whole(box, "old"), WEFT_OK);
    database_close(box);
    /* Not by migrations that fail: then all is as before. */
    static const char *const failing[] = {"", "DELETE FROM things; ALTER TABLE things ADD COLUMN color TEXT;",
                                          "nonsense"};
    static const struct database_schema broken = {"a box of things", APPLICATION, failing, 3};
    refused(path, &broken, WEFT_ERROR_SYSTEM, "cannot upgrade the schema");
    box = open_box(path, &second);
    struct statement *select = database_prepare(box, "SELECT name, color FROM things");
    assert_true(statement_next(select));
    assert_string_equal(statement_text(select, 0), "old");
    assert_string_equal(statement_text(select, 1), "gray");
    assert_int_equal(statement_end(select, NULL), WEFT_OK);
    database_close(box);
    refused(path, &first, WEFT_ERROR_DATA, "newer weft");
}

/* A database that could not be made leaves nothing but the lock. */
static void a_failing_first_migration_leaves_nothing(void **state)
{
    static const char *const failing[] = {"CREATE TABLE a (b INTEGER) STRICT; nonsense"};
    static const struct database_schema broken = {"a box of things", APPLICATION, failing, 1};
    const char *path = new_path();
    refused(path, &broken, WEFT_ERROR_SYSTEM, "cannot upgrade the schema");
    assert_false(file_exists(path));
    database_close(open_box(path, &first));
}

static void put_header(const char *path, long offset, uint8_t value)
{
    FILE *file = fopen(path, "r+b");
    assert_non_null(file);
    fseek(file, offset, SEEK_SET);
    fputc(value, file);
    fclose(file);
}

static char *content(const char *path, size_t *size)
{
    char *bytes = NULL;
    assert_int_equal(file_read(path, 64 << 20, &bytes, size, NULL), WEFT_OK);
    return bytes;
}

/* Refused, and the file has the same bytes as before. */
static void refused_untouched(const char *path, weft_status status, const char *word)
{
    size_t before, after;
    char *old = content(path, &before);
    refused(path, &second, status, word);
    char *new = content(path, &after);
    assert_int_equal(before, after);
    assert_memory_equal(old, new, before);
    free(old);
    free(new);
}

static void strangers_are_refused_and_not_touched(void **state)
{
    const char *path = new_path();
    sqlite3 *foreign;
    assert_int_equal(sqlite3_open(path, &foreign), SQLITE_OK);
    assert_int_equal(sqlite3_exec(foreign, "CREATE TABLE theirs (a); PRAGMA user_version=1", NULL, NULL, NULL), 0);
    sqlite3_close(foreign);
    refused_untouched(path, WEFT_ERROR_DATA, "belongs to another program");
    assert_int_equal(sqlite3_open(path, &foreign), SQLITE_OK);
    assert_int_equal(sqlite3_exec(foreign, "PRAGMA journal_mode=WAL; PRAGMA application_id=5", NULL, NULL, NULL), 0);
    sqlite3_close(foreign);
    refused_untouched(path, WEFT_ERROR_DATA, "application id 5");
    refused_untouched(temporary_file(directory, "text", "a text, not a database, but long enough to look like one", 56),
                      WEFT_ERROR_DATA, "is no SQLite database");
    assert_int_equal(mkdir(temporary_path(directory, "directory"), 0777), 0);
    refused(temporary_path(directory, "directory"), &first, WEFT_ERROR_DATA, "not a regular file");
    path = new_path();
    database_close(open_box(path, &second));
    put_header(path, 63, 9);
    refused_untouched(path, WEFT_ERROR_DATA, "version 9");
    put_header(path, 60, 0xff);
    refused_untouched(path, WEFT_ERROR_DATA, "nothing was changed");
    /* An empty file is a database to be. */
    path = temporary_file(directory, "empty", "", 0);
    database_close(open_box(path, &second));
}

/* What a killed writer of a newer version has left in its log is still there after an older one was refused. */
static void a_log_that_is_not_ours_is_left_alone(void **state)
{
    char path[FILE_PATH_BYTES], log[FILE_PATH_BYTES + 8];
    int status;
    snprintf(path, sizeof path, "%s", new_path());
    snprintf(log, sizeof log, "%s-wal", path);
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        add_whole(open_box(path, &second), "in the log");
        raise(SIGKILL);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    size_t before, after;
    char *old = content(log, &before);
    assert_true(before > 4096);
    refused(path, &first, WEFT_ERROR_DATA, "newer weft");
    char *new = content(log, &after);
    assert_int_equal(before, after);
    assert_memory_equal(old, new, before);
    free(old);
    free(new);
    struct database *box = open_box(path, &second);
    assert_int_equal(count(box), 1);
    database_close(box);
}

/* Any damage of a page's structure is found at opening, and nothing is made worse. */
static void damage_is_found_at_opening(void **state)
{
    char path[FILE_PATH_BYTES];
    snprintf(path, sizeof path, "%s", new_path());
    struct database *box = open_box(path, &second);
    assert_int_equal(database_begin(box, DATABASE_LAZY, NULL), WEFT_OK);
    for (int i = 0; i < 2000; i++) {
        char name[64];
        snprintf(name, sizeof name, "a thing with a rather long name, number %d", i);
        assert_int_equal(add(box, name, NULL), WEFT_OK);
    }
    assert_int_equal(database_end(box, WEFT_OK, NULL), WEFT_OK);
    database_close(box);
    size_t size;
    char *whole = content(path, &size);
    assert_true(size > 20 * 4096);
    for (size_t page = 0; page < size / 4096; page += 3) {
        char *damaged = malloc(size);
        assert_non_null(damaged);
        memcpy(damaged, whole, size);
        for (size_t i = 0; i < 256; i++)
            damaged[page * 4096 + i] = (char)random_bits(page, i);
        FILE *file = fopen(path, "wb");
        assert_non_null(file);
        assert_int_equal(fwrite(damaged, 1, size, file), size);
        fclose(file);
        free(damaged);
        refused_untouched(path, WEFT_ERROR_DATA, "damaged");
    }
    /* Cut short. */
    assert_int_equal(truncate(path, (off_t)(size / 2)), 0);
    refused_untouched(path, WEFT_ERROR_DATA, "damaged");
    free(whole);
}

/* Somebody else's transaction (a shell on the file) ends the wait with a message, not with a hang. */
static void a_busy_database_is_told(void **state)
{
    const char *path = new_path();
    struct database *box = open_box(path, &first);
    struct error error = {0};
    sqlite3 *shell;
    assert_int_equal(sqlite3_open(path, &shell), SQLITE_OK);
    assert_int_equal(sqlite3_exec(shell, "BEGIN IMMEDIATE", NULL, NULL, NULL), SQLITE_OK);
    assert_int_equal(database_begin(box, DATABASE_DURABLE, &error), WEFT_ERROR_SYSTEM);
    assert_non_null(strstr(error.text, "another process"));
    assert_int_equal(sqlite3_exec(shell, "ROLLBACK", NULL, NULL, NULL), SQLITE_OK);
    sqlite3_close(shell);
    assert_int_equal(add_whole(box, "a"), WEFT_OK);
    database_close(box);
}

int main(void)
{
    directory = temporary_directory();
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(values_come_back),
        cmocka_unit_test(transactions_are_whole),
        cmocka_unit_test(durability_is_as_asked_for),
        cmocka_unit_test(only_what_cannot_wait_is_synced_where_that_is_as_needed),
        cmocka_unit_test(mistakes_of_callers_are_told),
        cmocka_unit_test(statements_nest_and_are_kept),
        cmocka_unit_test(members_of_a_group_fail_alone_and_commit_together),
        cmocka_unit_test(one_writer),
        cmocka_unit_test(a_reader_needs_the_present_schema),
        cmocka_unit_test(an_older_schema_is_brought_up),
        cmocka_unit_test(a_failing_first_migration_leaves_nothing),
        cmocka_unit_test(strangers_are_refused_and_not_touched),
        cmocka_unit_test(a_log_that_is_not_ours_is_left_alone),
        cmocka_unit_test(damage_is_found_at_opening),
        cmocka_unit_test(a_busy_database_is_told),
    };
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    file_remove_tree(directory, NULL);
    return failed;
}
