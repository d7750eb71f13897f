/* SPDX-License-Identifier: Apache-2.0 */
/* The log of a database is written back by a thread of its own: the writer waits for no sync, readers see whole
 * commits meanwhile, and what was acknowledged outlives a kill at any time. */
#include "base/clock.h"
#include "platform/store/database.h"
#include "temporary.h"

#include <poll.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <sqlite3.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#define ROW_BYTES 4000 /* a page each, about */
#define CYCLE     1500 /* rows: more than the log may have before it is written back */
#define AT_ONCE   50   /* rows of a commit */
#define PATIENCE  60.0

static const char *const migrations[] = {"CREATE TABLE rows (row INTEGER PRIMARY KEY, bytes BLOB) STRICT;"};
static const struct database_schema schema = {"rows", 0x726f7773, migrations, 1};

/* SQLite's syncs come through here. */
static pthread_t writer;
static atomic_int own_syncs, other_syncs;

static void count_sync(void)
{
    atomic_fetch_add(pthread_equal(pthread_self(), writer) ? &own_syncs : &other_syncs, 1);
}

__attribute__((visibility("default"))) int fdatasync(int file)
{
    count_sync();
    return (int)syscall(SYS_fdatasync, file);
}

__attribute__((visibility("default"))) int fsync(int file)
{
    count_sync();
    return (int)syscall(SYS_fsync, file);
}

static struct database *open_rows(const char *path, bool apart)
{
    struct database *database = NULL;
    struct error error = {0};
    if (database_open(path, &schema, DATABASE_WRITER, &database, &error) != WEFT_OK ||
        (apart && database_checkpoint_apart(database, &error) != WEFT_OK))
        fail_msg("%s", error.text);
    return database;
}

static weft_status add(struct database *database, int rows, enum database_durability durability)
{
    static const char bytes[ROW_BYTES];
    weft_status status = database_begin(database, durability, NULL);
    for (int i = 0; i < rows && status == WEFT_OK; i++) {
        struct statement *insert = database_prepare(database, "INSERT INTO rows (bytes) VALUES (?)");
        statement_bind_blob(insert, bytes, sizeof bytes);
        status = statement_run(insert, NULL);
    }
    return database_inside(database) ? database_end(database, status, NULL) : status;
}

static int64_t count(struct database *database)
{
    struct statement *select = database_prepare(database, "SELECT count(*) FROM rows");
    int64_t rows = statement_next(select) ? statement_integer(select, 0) : -1;
    assert_int_equal(statement_end(select, NULL), WEFT_OK);
    return rows;
}

/* How many there are without the log; -1: that is unknown, as pages are being written. */
static int64_t count_written_back(const char *path)
{
    char name[FILE_PATH_BYTES + 32];
    sqlite3 *handle;
    sqlite3_stmt *select = NULL;
    snprintf(name, sizeof name, "file:%s?immutable=1", path);
    assert_int_equal(sqlite3_open_v2(name, &handle, SQLITE_OPEN_READONLY | SQLITE_OPEN_URI, NULL), SQLITE_OK);
    int64_t rows = -1;
    if (sqlite3_prepare_v2(handle, "SELECT count(*) FROM rows", -1, &select, NULL) == SQLITE_OK &&
        sqlite3_step(select) == SQLITE_ROW)
        rows = sqlite3_column_int64(select, 0);
    sqlite3_finalize(select);
    sqlite3_close(handle);
    return rows;
}

static void wait_until_written_back(const char *path, int64_t rows)
{
    const uint64_t end = clock_after(PATIENCE);
    while (count_written_back(path) != rows) {
        if (clock_now() > end)
            fail_msg("of %lld rows %lld are in the database", (long long)rows, (long long)count_written_back(path));
        poll(NULL, 0, 10);
    }
}

static off_t size_of_log(const char *path)
{
    char name[FILE_PATH_BYTES];
    struct stat found;
    snprintf(name, sizeof name, "%s-wal", path);
    assert_int_equal(stat(name, &found), 0);
    return found.st_size;
}

static void the_writer_waits_for_no_sync(void **state)
{
    for (int apart = 0; apart < 2; apart++) {
        const char *path = temporary_path(*state, apart ? "apart.db" : "together.db");
        struct database *database = open_rows(path, apart);
        atomic_store(&own_syncs, 0);
        atomic_store(&other_syncs, 0);
        assert_int_equal(add(database, CYCLE, DATABASE_LAZY), WEFT_OK);
        if (apart) {
            wait_until_written_back(path, CYCLE);
            assert_int_equal(atomic_load(&own_syncs), 0);
            assert_true(atomic_load(&other_syncs) >= 2); /* of the log, and of the database */
        } else {
            assert_true(atomic_load(&own_syncs) >= 2);
            assert_int_equal(atomic_load(&other_syncs), 0);
        }
        database_close(database);
    }
}

static void the_log_begins_anew(void **state)
{
    const char *path = temporary_path(*state, "rows.db");
    struct database *database = open_rows(path, true);
    int cycles = 0, restarts = 0;
    /* On a busy machine the thread may have yet to say that it has written everything back when the next rows come. */
    for (off_t before = 0; restarts < 3 && cycles < 40; before = size_of_log(path)) {
        assert_int_equal(add(database, CYCLE, DATABASE_LAZY), WEFT_OK);
        wait_until_written_back(path, (int64_t)++cycles * CYCLE);
        restarts += size_of_log(path) == before;
    }
    assert_int_equal(restarts, 3);
    database_close(database);
    database = open_rows(path, false);
    assert_int_equal(count(database), cycles * CYCLE);
    assert_int_equal(database_check(database, NULL), WEFT_OK);
    database_close(database);
}

struct reading {
    const char *path;
    atomic_bool over;
    int64_t seen;
};

static void *read_on(void *context)
{
    struct reading *reading = context;
    struct database *reader = NULL;
    if (database_open(reading->path, &schema, DATABASE_READER, &reader, NULL) != WEFT_OK)
        return NULL;
    while (!atomic_load(&reading->over)) {
        int64_t rows = count(reader);
        if (rows < reading->seen || rows % AT_ONCE != 0) {
            reading->seen = -1;
            break;
        }
        reading->seen = rows;
    }
    database_close(reader);
    return NULL;
}

static void readers_see_whole_commits_meanwhile(void **state)
{
    struct reading reading = {.path = temporary_path(*state, "rows.db")};
    pthread_t thread;
    struct database *database = open_rows(reading.path, true);
    assert_int_equal(pthread_create(&thread, NULL, read_on, &reading), 0);
    for (int i = 0; i < 6 * CYCLE / AT_ONCE; i++)
        assert_int_equal(add(database, AT_ONCE, DATABASE_LAZY), WEFT_OK);
    atomic_store(&reading.over, true);
    assert_int_equal(pthread_join(thread, NULL), 0);
    assert_true(reading.seen >= 0);
    assert_int_equal(count(database), 6 * CYCLE);
    database_close(database);
    database = open_rows(reading.path, false);
    assert_int_equal(count(database), 6 * CYCLE);
    assert_int_equal(database_check(database, NULL), WEFT_OK);
    database_close(database);
}

/* A process that writes until it is killed, and says after each commit that it is there. */
static void write_for_ever(const char *path, int said)
{
    struct database *database = open_rows(path, true);
    while (add(database, AT_ONCE, DATABASE_DURABLE) == WEFT_OK && write(said, "x", 1) == 1)
        continue;
    _exit(1);
}

static void what_was_acknowledged_outlives_a_kill(void **state)
{
    const char *path = temporary_path(*state, "rows.db");
    int64_t said = 0;
    for (int i = 0; i < 12; i++) {
        int ends[2], how;
        char bytes[4096];
        assert_int_equal(pipe(ends), 0);
        pid_t child = fork();
        if (child == 0)
            write_for_ever(path, ends[1]);
        assert_true(child > 0);
        close(ends[1]);
        poll(NULL, 0, 60 + 37 * i % 200);
        kill(child, SIGKILL);
        assert_int_equal(waitpid(child, &how, 0), child);
        assert_true(WIFSIGNALED(how));
        for (ssize_t got; (got = read(ends[0], bytes, sizeof bytes)) > 0;)
            said += (int64_t)got * AT_ONCE;
        close(ends[0]);
        struct database *database = open_rows(path, false);
        const int64_t rows = count(database);
        assert_true(rows == said || rows == said + AT_ONCE); /* it was killed before it could say so */
        assert_int_equal(database_check(database, NULL), WEFT_OK);
        said = rows;
        database_close(database);
    }
}

/* A log that is to stay keeps its space, and what is in it. */
static void the_log_stays_where_it_is_to(void **state)
{
    const char *path = temporary_path(*state, "rows.db"), *log = temporary_path(*state, "rows.db-wal");
    const uint64_t spare = 1 << 20;
    struct stat found;
    struct database *database = open_rows(path, true);
    assert_int_equal(add(database, 5, DATABASE_DURABLE), WEFT_OK);
    database_keep_spare(path, spare);
    database_keep_log(database);
    database_close(database);
    assert_int_equal(stat(log, &found), 0);
    assert_true((uint64_t)found.st_blocks * 512 >= spare);
    database = open_rows(path, true);
    assert_int_equal(count(database), 5);
    assert_int_equal(stat(log, &found), 0);
    assert_true((uint64_t)found.st_blocks * 512 >= spare);
    database_close(database);
    assert_false(file_exists(log));
}

static void mistakes_are_told(void **state)
{
    const char *path = temporary_path(*state, "rows.db");
    struct database *database = open_rows(path, true), *reader;
    struct error error = {0};
    assert_int_equal(database_checkpoint_apart(database, &error), WEFT_ERROR_STATE);
    assert_non_null(strstr(error.text, path));
    assert_int_equal(database_open(path, &schema, DATABASE_READER, &reader, NULL), WEFT_OK);
    assert_int_equal(database_checkpoint_apart(reader, NULL), WEFT_ERROR_STATE);
    database_close(reader);
    database_close(database);
}

int main(void)
{
    writer = pthread_self();
    const struct CMUnitTest tests[] = {
        in_temporary_directory(the_writer_waits_for_no_sync),
        in_temporary_directory(the_log_begins_anew),
        in_temporary_directory(readers_see_whole_commits_meanwhile),
        in_temporary_directory(what_was_acknowledged_outlives_a_kill),
        in_temporary_directory(the_log_stays_where_it_is_to),
        in_temporary_directory(mistakes_are_told),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
