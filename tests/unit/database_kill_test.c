/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A process that writes to a database is killed by SIGKILL at random times: what was acknowledged to it is there,
 * each transaction whole. Environment: WEFT_TEST_KILLS, how many moments (30; the long form takes 200).
 */
#include "platform/store/database.h"

#include "base/random.h"
#include "temporary.h"

#include <inttypes.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#define ROWS    3 /* of each transaction */
#define MEMBERS 8 /* of each group */

static const char *const migrations[] = {
    "CREATE TABLE entries (entry INTEGER PRIMARY KEY, amount INTEGER NOT NULL, padding BLOB) STRICT;"};
static const struct database_schema schema = {"a book", 0x74657374, migrations, 1};

static const char *directory;

static void give_up(const struct error *error)
{
    fprintf(stderr, "%s\n", error->text);
    _exit(1);
}

/* A transaction of ROWS rows whose amounts add up to nothing. */
static weft_status add(struct database *book, enum database_durability durability, uint64_t draw, struct error *error)
{
    static char padding[6000];
    weft_status status = database_begin(book, durability, error);
    if (status != WEFT_OK)
        return status;
    int64_t amount = (int64_t)random_below(draw, 0, 1000);
    for (int row = 0; row < ROWS && status == WEFT_OK; row++) {
        struct statement *insert = database_prepare(book, "INSERT INTO entries (amount, padding) VALUES (?, ?)");
        statement_bind_integer(insert, row == 0 ? amount : row == 1 ? -amount : 0);
        statement_bind_blob(insert, padding, random_below(draw, 1, sizeof padding));
        status = statement_run(insert, error);
    }
    return database_end(book, status, error);
}

/* Write until killed: single transactions of both kinds, and groups. Each is acknowledged when it is kept, not before. */
static void write_on(const char *path, int tell)
{
    struct database *book;
    struct error error = {0};
    if (database_open(path, &schema, DATABASE_WRITER, &book, &error) != WEFT_OK)
        give_up(&error);
    for (uint64_t round = 0;; round++) {
        int32_t kept = 1;
        weft_status status = WEFT_OK;
        if (round % 4 == 3) {
            database_group_begin(book, DATABASE_DURABLE);
            for (kept = 0; kept < MEMBERS && status == WEFT_OK; kept++)
                status = add(book, DATABASE_DURABLE, round * MEMBERS + (uint64_t)kept, &error);
            if (status == WEFT_OK)
                status = database_group_end(book, &error);
        } else {
            status = add(book, round % 2 ? DATABASE_LAZY : DATABASE_DURABLE, round, &error);
        }
        if (status != WEFT_OK)
            give_up(&error);
        if (write(tell, &kept, sizeof kept) != sizeof kept)
            _exit(1);
    }
}

static void killed_at_random_moments(void **state)
{
    const char *wanted = getenv("WEFT_TEST_KILLS");
    char path[FILE_PATH_BYTES];
    snprintf(path, sizeof path, "%s", temporary_path(directory, "book.db"));
    int64_t told = 0, most = 0, kills = wanted ? strtoll(wanted, NULL, 10) : 30;
    for (int64_t round = 0; round < kills; round++) {
        int ends[2], status;
        assert_int_equal(pipe(ends), 0);
        pid_t child = fork();
        assert_true(child >= 0);
        if (child == 0)
            write_on(path, ends[1]);
        close(ends[1]);
        struct timespec wait = {0, (long)random_below(11, (uint64_t)round, 100000000)};
        nanosleep(&wait, NULL);
        kill(child, SIGKILL);
        assert_int_equal(waitpid(child, &status, 0), child);
        assert_true(WIFSIGNALED(status));
        for (int32_t kept; read(ends[0], &kept, sizeof kept) == sizeof kept;)
            told += kept;
        close(ends[0]);

        struct database *book;
        struct error error = {0};
        if (database_open(path, &schema, DATABASE_WRITER, &book, &error) != WEFT_OK ||
            database_check(book, &error) != WEFT_OK)
            fail_msg("after %" PRId64 " kills: %s", round + 1, error.text);
        struct statement *select = database_prepare(book, "SELECT count(*), ifnull(sum(amount), 0) FROM entries");
        assert_true(statement_next(select));
        int64_t rows = statement_integer(select, 0);
        assert_int_equal(statement_integer(select, 1), 0);
        assert_int_equal(statement_end(select, NULL), WEFT_OK);
        assert_int_equal(rows % ROWS, 0);
        /* All that was acknowledged is there, and of the rest at most the last transaction or group. */
        if (rows / ROWS < told || rows / ROWS > told + MEMBERS)
            fail_msg("%" PRId64 " transactions were acknowledged, %" PRId64 " are there", told, rows / ROWS);
        most = rows / ROWS - told > most ? rows / ROWS - told : most;
        told = rows / ROWS;
        database_close(book);
    }
    print_message("%" PRId64 " kills, %" PRId64 " transactions, none lost; at most %" PRId64
                  " kept that were not told\n",
                  kills, told, most);
    assert_true(told > kills);
}

int main(void)
{
    directory = temporary_directory();
    const struct CMUnitTest tests[] = {cmocka_unit_test(killed_at_random_moments)};
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    file_remove_tree(directory, NULL);
    return failed;
}
