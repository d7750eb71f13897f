/* SPDX-License-Identifier: Apache-2.0 */
/* The cache of pages: it holds what is in the files, also after others write; and pages that it holds are not read again. */
#include "platform/store/internal/page_cache_internal.h"

#include "base/random.h"
#include "platform/store/database.h"
#include "temporary.h"

#include <errno.h>
#include <setjmp.h>
#include <sqlite3.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cmocka.h>
#include <pthread.h>

#define FILE_BYTES   (40 * CACHE_BLOCK)
#define ACCOUNTS     200
#define TOTAL        (ACCOUNTS * 1000)
#define TRANSACTIONS 1500

/* A stream of random numbers. */
struct random {
    uint64_t seed, index;
};

static const char *directory;
static _Atomic int reads;     /* from files, which come through here */
static _Atomic int fail_next; /* so many writes go through, the next does not; negative: all do */

__attribute__((visibility("default"))) ssize_t pread64(int file, void *buffer, size_t size, off64_t offset)
{
    reads++;
    return syscall(SYS_pread64, file, buffer, size, offset);
}

__attribute__((visibility("default"))) ssize_t pwrite64(int file, const void *buffer, size_t size, off64_t offset)
{
    if (fail_next >= 0 && fail_next-- == 0) {
        syscall(SYS_pwrite64, file, buffer, size / 2, offset); /* a piece of it, as a full disk leaves */
        errno = ENOSPC;
        return -1;
    }
    return syscall(SYS_pwrite64, file, buffer, size, offset);
}

static uint64_t below(struct random *random, uint64_t bound)
{
    return random_below(random->seed, random->index++, bound);
}

static struct page_cache *new_cache(size_t bytes)
{
    struct page_cache *cache = NULL;
    assert_int_equal(page_cache_new(bytes, &cache, NULL), WEFT_OK);
    return cache;
}

/* ---- blocks ---- */

/* A file in memory that the cache opens, and whose every byte is read through it. */
struct model {
    struct cached_file *file;
    unsigned char bytes[FILE_BYTES];
    size_t size;
    uint64_t held;
};

static void write_model(struct model *model, struct random *random)
{
    /* Sometimes after the end, so that there are zeros between. */
    const size_t most = model->size + (below(random, 20) ? 1 : 2 * CACHE_BLOCK);
    const size_t offset = below(random, most < FILE_BYTES ? most : FILE_BYTES);
    size_t size = below(random, 3) ? below(random, 200) + 1 : below(random, 3 * CACHE_BLOCK) + 1;
    const bool good = below(random, 10) != 0;
    if (offset + size > FILE_BYTES)
        size = FILE_BYTES - offset;
    for (size_t i = 0; i < (good ? size : size / 2); i++) /* what fails leaves a piece */
        model->bytes[offset + i] = (unsigned char)below(random, 256);
    cached_file_written(model->file, model->bytes + offset, size, offset, good);
    if (offset + size > model->size)
        model->size = offset + size;
}

static void read_model(struct model *model, struct random *random)
{
    static unsigned char found[FILE_BYTES];
    if (model->size == 0)
        return;
    const size_t offset = below(random, model->size);
    size_t size = below(random, 2) ? CACHE_BLOCK : below(random, 100) + 1;
    size = offset + size > model->size ? model->size - offset : size;
    uint64_t moment;
    if (!cached_file_read(model->file, found, size, offset, &moment)) {
        if (below(random, 8) == 0) { /* somebody writes while this reads: what it has read may be old */
            unsigned char old[CACHE_BLOCK];
            memcpy(old, model->bytes + offset, size);
            write_model(model, random);
            cached_file_keep(model->file, old, size, offset, moment);
        } else {
            cached_file_keep(model->file, model->bytes + offset, size, offset, moment);
        }
        return;
    }
    model->held++;
    assert_memory_equal(found, model->bytes + offset, size);
}

static void what_is_held_is_what_was_written(void **state)
{
    for (uint64_t seed = 0; seed < 40; seed++) {
        struct random random = {seed, 0};
        struct page_cache *cache = new_cache((1 + seed % 8) * 7 * CACHE_BLOCK); /* smaller and larger than the files */
        static struct model models[2];
        memset(models, 0, sizeof models);
        models[0].file = cached_file_open(cache, "first");
        models[1].file = cached_file_open(cache, "second");
        for (int i = 0; i < 5000; i++) {
            struct model *model = &models[below(&random, 2)];
            const uint64_t what = below(&random, 200);
            if (what == 0) {
                model->size = below(&random, model->size + 1);
                memset(model->bytes + model->size, 0, FILE_BYTES - model->size);
                cached_file_truncated(model->file, model->size);
            } else if (what < 50) {
                write_model(model, &random);
            } else {
                read_model(model, &random);
            }
        }
        assert_true(models[0].held > 100 && models[1].held > 100);
        cached_file_close(models[0].file);
        cached_file_close(models[1].file);
        assert_true(page_cache_counts(cache).bytes <= (1 + seed % 8) * 7 * CACHE_BLOCK);
        page_cache_free(cache);
    }
}

static void a_file_that_nobody_had_open_is_read_anew(void **state)
{
    struct page_cache *cache = new_cache(10 * CACHE_BLOCK);
    unsigned char bytes[CACHE_BLOCK] = {1}, found[CACHE_BLOCK];
    uint64_t moment;
    struct cached_file *file = cached_file_open(cache, "file");
    cached_file_written(file, bytes, sizeof bytes, 0, true);
    struct cached_file *again = cached_file_open(cache, "file");
    assert_true(cached_file_read(again, found, sizeof found, 0, &moment));
    cached_file_close(file);
    assert_true(cached_file_read(again, found, sizeof found, 0, &moment));
    cached_file_close(again);
    file = cached_file_open(cache, "file");
    assert_false(cached_file_read(file, found, sizeof found, 0, &moment));
    cached_file_close(file);
    page_cache_free(cache);
}

static void what_was_used_lately_stays(void **state)
{
    struct page_cache *cache = new_cache(8 * CACHE_BLOCK);
    unsigned char bytes[CACHE_BLOCK] = {1};
    uint64_t moment;
    struct cached_file *file = cached_file_open(cache, "file");
    for (uint64_t i = 0; i < 100; i++) {
        cached_file_read(file, bytes, sizeof bytes, i * CACHE_BLOCK, &moment);
        cached_file_keep(file, bytes, sizeof bytes, i * CACHE_BLOCK, moment);
        assert_true(cached_file_read(file, bytes, sizeof bytes, 0, &moment)); /* the first is asked for all the time */
    }
    assert_false(cached_file_read(file, bytes, sizeof bytes, 50 * CACHE_BLOCK, &moment));
    cached_file_close(file);
    page_cache_free(cache);
}

/* ---- databases ---- */

static const char *const migrations[] = {
    "CREATE TABLE accounts (account INTEGER PRIMARY KEY, balance INTEGER NOT NULL, note TEXT NOT NULL) STRICT;"
    "CREATE INDEX by_note ON accounts (note);"};
static const struct database_schema bank = {"a bank", 0x62616e6b, migrations, 1};

static struct database *open_bank(struct page_cache *cache, const char *name, enum database_access access)
{
    struct database *database = NULL;
    struct error error = {0};
    if (database_open_cached(cache, temporary_path(directory, name), &bank, access, &database, &error) != WEFT_OK)
        fail_msg("%s", error.text);
    return database;
}

static void found_bank(struct database *database)
{
    assert_int_equal(database_begin(database, DATABASE_LAZY, NULL), WEFT_OK);
    for (int i = 0; i < ACCOUNTS; i++) {
        struct statement *insert = database_prepare(database, "INSERT INTO accounts (balance, note) VALUES (1000, ?)");
        char note[300];
        memset(note, 'a' + i % 26, sizeof note - 1);
        note[sizeof note - 1] = '\0';
        statement_bind_text(insert, note);
        assert_int_equal(statement_run(insert, NULL), WEFT_OK);
    }
    assert_int_equal(database_end(database, WEFT_OK, NULL), WEFT_OK);
}

static int64_t total_of(struct database *database)
{
    struct statement *select = database_prepare(database, "SELECT sum(balance) FROM accounts");
    int64_t total = statement_next(select) ? statement_integer(select, 0) : -1;
    return statement_end(select, NULL) == WEFT_OK ? total : -1;
}

static weft_status move(struct database *database, struct random *random)
{
    const int64_t from = (int64_t)below(random, ACCOUNTS) + 1, to = (int64_t)below(random, ACCOUNTS) + 1;
    char note[2000];
    memset(note, 'a' + (int)below(random, 26), sizeof note - 1);
    note[below(random, sizeof note)] = '\0';
    note[sizeof note - 1] = '\0';
    struct error error = {0};
    weft_status status = database_begin(database, DATABASE_LAZY, &error);
    if (status != WEFT_OK)
        return status;
    struct statement *take = database_prepare(database, "UPDATE accounts SET balance = balance - 7 WHERE account = ?");
    statement_bind_integer(take, from);
    status = statement_run(take, &error);
    struct statement *give =
        database_prepare(database, "UPDATE accounts SET balance = balance + 7, note = ? WHERE account = ?");
    statement_bind_text(give, note);
    statement_bind_integer(give, to);
    if (status == WEFT_OK)
        status = statement_run(give, &error);
    else
        statement_end(give, NULL);
    return database_end(database, status, &error);
}

struct watcher {
    struct database *reader;
    _Atomic bool *end;
    _Atomic int looks;
    int64_t total; /* that was seen last */
};

static void *watch(void *context)
{
    struct watcher *watcher = context;
    while (!*watcher->end && watcher->total == TOTAL) {
        watcher->total = total_of(watcher->reader);
        watcher->looks++;
    }
    return NULL;
}

/* One writes, others read, in a cache that is too small; some writes fail half done. */
static void readers_and_a_writer_see_one_database(void **state)
{
    static const size_t sizes[] = {3 * CACHE_BLOCK, 40 * CACHE_BLOCK, 16 << 20};
    static const char *const names[] = {"small.db", "middle.db", "large.db"};
    for (int i = 0; i < 3; i++) {
        struct page_cache *cache = new_cache(sizes[i]);
        struct database *writer = open_bank(cache, names[i], DATABASE_WRITER);
        struct random random = {(uint64_t)i, 0};
        _Atomic bool end = false;
        struct watcher watchers[2];
        pthread_t threads[2];
        int failed = 0;
        found_bank(writer);
        for (int t = 0; t < 2; t++) {
            watchers[t] = (struct watcher){open_bank(cache, names[i], DATABASE_READER), &end, 0, TOTAL};
            assert_int_equal(pthread_create(&threads[t], NULL, watch, &watchers[t]), 0);
        }
        for (int t = 0; t < TRANSACTIONS || watchers[0].looks < 20 || watchers[1].looks < 20; t++) {
            if (t % 10 == 9)
                fail_next = (int)below(&random, 12);
            failed += move(writer, &random) != WEFT_OK;
            fail_next = -1;
        }
        end = true;
        for (int t = 0; t < 2; t++) {
            pthread_join(threads[t], NULL);
            assert_int_equal(watchers[t].total, TOTAL);
            database_close(watchers[t].reader);
        }
        assert_true(failed > TRANSACTIONS / 40);
        struct error error = {0};
        if (database_check(writer, &error) != WEFT_OK)
            fail_msg("%s", error.text);
        struct database *plain = open_bank(NULL, names[i], DATABASE_READER); /* by the file alone, log included */
        assert_int_equal(total_of(plain), TOTAL);
        if (database_check(plain, &error) != WEFT_OK)
            fail_msg("%s", error.text);
        database_close(plain);
        database_close(writer);
        plain = open_bank(NULL, names[i], DATABASE_WRITER);
        assert_int_equal(total_of(plain), TOTAL);
        database_close(plain);
        page_cache_free(cache);
    }
}

static void what_another_program_wrote_meanwhile_is_seen(void **state)
{
    struct page_cache *cache = new_cache(16 << 20);
    struct random random = {5, 0};
    struct database *database = open_bank(cache, "other.db", DATABASE_WRITER);
    found_bank(database);
    database_close(database);
    database = open_bank(NULL, "other.db", DATABASE_WRITER);
    for (int i = 0; i < 100; i++)
        assert_int_equal(move(database, &random), WEFT_OK);
    assert_int_equal(database_begin(database, DATABASE_LAZY, NULL), WEFT_OK);
    assert_int_equal(statement_run(database_prepare(database, "DELETE FROM accounts WHERE account = 1"), NULL),
                     WEFT_OK);
    assert_int_equal(database_end(database, WEFT_OK, NULL), WEFT_OK);
    const int64_t total = total_of(database);
    database_close(database);
    database = open_bank(cache, "other.db", DATABASE_WRITER);
    assert_int_equal(total_of(database), total);
    assert_int_equal(database_check(database, NULL), WEFT_OK);
    database_close(database);
    page_cache_free(cache);
}

static void a_reader_reads_no_file_again_after_a_commit(void **state)
{
    struct page_cache *cache = new_cache(16 << 20);
    struct random random = {7, 0};
    struct database *writer = open_bank(cache, "warm.db", DATABASE_WRITER);
    found_bank(writer);
    struct database *reader = open_bank(cache, "warm.db", DATABASE_READER);
    assert_int_equal(total_of(reader), TOTAL);
    reads = 0;
    for (int i = 0; i < 50; i++) {
        assert_int_equal(move(writer, &random), WEFT_OK);
        assert_int_equal(total_of(reader), TOTAL);
    }
    assert_int_equal(reads, 0);
    assert_true(page_cache_counts(cache).hits > 50);
    database_close(reader);
    database_close(writer);
    page_cache_free(cache);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_held_is_what_was_written),
        cmocka_unit_test(a_file_that_nobody_had_open_is_read_anew),
        cmocka_unit_test(what_was_used_lately_stays),
        cmocka_unit_test(readers_and_a_writer_see_one_database),
        cmocka_unit_test(what_another_program_wrote_meanwhile_is_seen),
        cmocka_unit_test(a_reader_reads_no_file_again_after_a_commit),
    };
    fail_next = -1;
    directory = temporary_directory();
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    file_remove_tree(directory, NULL);
    return failed;
}
