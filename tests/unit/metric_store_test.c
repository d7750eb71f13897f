/* SPDX-License-Identifier: Apache-2.0 */
/* Metrics in the database: every point stays, through restarts, kills and full disks. */
#include "platform/metrics/query/draw.h"
#include "platform/metrics/store/internal/series.h"
#include "platform/metrics/store/names.h"

#include "base/clock.h"
#include "base/random.h"
#include "temporary.h"

#include <errno.h>
#include <math.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

static const char *directory;
static unsigned stores;

static const char *new_path(void)
{
    static char name[32];
    snprintf(name, sizeof name, "metrics-%u.db", ++stores);
    return temporary_path(directory, name);
}

static struct metric_store *open_with(const char *path, const struct metric_options *options)
{
    struct metric_store *store = NULL;
    struct error error = {0};
    if (metric_store_open(path, options, &store, &error) != WEFT_OK)
        fail_msg("%s", error.text);
    return store;
}

static struct metric_store *open_store(const char *path)
{
    return open_with(path, &(struct metric_options){0});
}

static void close_store(struct metric_store *store)
{
    struct error error = {0};
    if (metric_store_close(store, &error) != WEFT_OK)
        fail_msg("%s", error.text);
}

static void flush(struct metric_store *store)
{
    struct error error = {0};
    if (metric_store_flush(store, clock_now(), &error) != WEFT_OK)
        fail_msg("%s", error.text);
}

/* Point i of any series: the value says which. */
static struct metric_point point_of(int64_t i)
{
    return (struct metric_point){i, 1700000000000000 + 1000 * i, (double)i + 0.25};
}

static weft_status try_points(struct metric_store *store, const struct metric_key *key, int64_t first, int64_t count,
                              struct error *error)
{
    weft_status status = WEFT_OK;
    for (int64_t i = first; i < first + count && status == WEFT_OK; i++) {
        const struct metric_point point = point_of(i);
        status = metric_store_append(store, key, &point, 1, error);
    }
    return status;
}

static void add_points(struct metric_store *store, const struct metric_key *key, int64_t first, int64_t count)
{
    struct error error = {0};
    if (try_points(store, key, first, count, &error) != WEFT_OK)
        fail_msg("%s", error.text);
}

/* All points of one series; they are 0, 1, 2 ...: how many there are. */
static int64_t count_points(struct metric_store *store, const struct metric_key *key)
{
    const struct metric_query query = {.run = key->run,
                                       .name = key->name,
                                       .rank = key->rank,
                                       .attempt = key->attempt,
                                       .from = INT64_MIN,
                                       .to = INT64_MAX,
                                       .most = 1 << 20};
    struct metric_curve curve;
    struct error error = {0};
    const weft_status status = metric_draw(store, &query, &curve, &error);
    if (status != WEFT_OK && strstr(error.text, "has no metric"))
        return 0;
    if (status != WEFT_OK)
        fail_msg("%s", error.text);
    assert_true(curve.whole || curve.count == 0);
    for (size_t i = 0; i < curve.count; i++) {
        const struct metric_point point = point_of((int64_t)i);
        assert_int_equal(curve.parts[i].count, 1);
        assert_memory_equal(&curve.parts[i].lowest, &point, sizeof point);
        assert_memory_equal(&curve.parts[i].highest, &point, sizeof point);
    }
    const int64_t count = (int64_t)curve.count;
    metric_curve_free(&curve);
    return count;
}

static int64_t rows(struct metric_store *store, const char *sql)
{
    struct statement *select = database_prepare(metric_store_database(store), sql);
    const int64_t count = statement_next(select) ? statement_integer(select, 0) : -1;
    assert_int_equal(statement_end(select, NULL), WEFT_OK);
    return count;
}

static const struct metric_key loss = {.run = 1, .attempt = 1, .rank = 0, .name = "train/loss"};

static void points_stay_through_restarts(void **state)
{
    const char *path = new_path();
    int64_t written = 0;
    /* Blocks that are begun, filled half, filled wholly, and gone on with by somebody else. */
    const int64_t counts[] = {1, 10, 244, 1, 255, 1, 256, 257, 4096, 3, 65536, 1};
    for (size_t i = 0; i < sizeof counts / sizeof *counts; i++) {
        struct metric_store *store = open_store(path);
        assert_int_equal(count_points(store, &loss), written);
        add_points(store, &loss, written, counts[i]);
        written += counts[i];
        assert_int_equal(count_points(store, &loss), written); /* nothing was flushed yet */
        close_store(store);
    }
    struct metric_store *store = open_store(path);
    assert_int_equal(count_points(store, &loss), written);
    /* Blocks and levels are what one store would have written in one go. */
    assert_int_equal(rows(store, "SELECT count(*) FROM metric_block"), written / 256 + 1);
    assert_int_equal(rows(store, "SELECT count(*) FROM metric_summary WHERE level = 0"), written / 256);
    assert_int_equal(rows(store, "SELECT count(*) FROM metric_summary WHERE level = 1"), written / 4096);
    assert_int_equal(rows(store, "SELECT count(*) FROM metric_summary WHERE level = 2"), written / 65536);
    assert_int_equal(rows(store, "SELECT count(*) FROM metric_spool"), 0);
    close_store(store);
}

static void a_half_filled_block_leaves_the_spool_in_time(void **state)
{
    struct metric_store *store = open_store(new_path());
    const struct metric_key other = {.run = 1, .attempt = 1, .rank = 1, .name = "train/loss"};
    add_points(store, &loss, 0, 10);
    flush(store);
    assert_int_equal(rows(store, "SELECT count(*) FROM metric_spool"), 1);
    assert_int_equal(rows(store, "SELECT count(*) FROM metric_block"), 0);
    for (int64_t i = 0; i < 200; i++) { /* somebody else goes on */
        add_points(store, &other, i, 1);
        flush(store);
    }
    assert_true(rows(store, "SELECT count(*) FROM metric_spool") <= 60);
    assert_true(rows(store, "SELECT max(length(points)) FROM metric_spool") < 50); /* one point each, not the tail */
    assert_int_equal(rows(store, "SELECT count(*) FROM metric_block"), 2);
    assert_int_equal(metric_store_series(store, &loss)->room, 0); /* nor does it take memory then */
    assert_true(metric_store_series(store, &other)->room <= 64);
    flush(store);
    add_points(store, &loss, 10, 290);
    add_points(store, &other, 200, 100);
    assert_int_equal(count_points(store, &loss), 300);
    assert_int_equal(count_points(store, &other), 300);
    for (int i = 0; i < 40; i++)
        flush(store);
    assert_int_equal(rows(store, "SELECT count(*) FROM metric_spool"), 0);
    close_store(store);
}

static void it_asks_for_its_flushes(void **state)
{
    struct metric_store *store = open_with(new_path(), &(struct metric_options){.flush_seconds = 3600});
    const uint64_t now = clock_now();
    assert_true(metric_store_due(store, now) > 3590 && metric_store_due(store, now) <= 3600);
    add_points(store, &loss, 0, 3);
    assert_int_equal(metric_store_tick(store, now + 3000000000000u, NULL), WEFT_OK);
    assert_int_equal(rows(store, "SELECT count(*) FROM metric_spool"), 0);
    assert_true(metric_store_due(store, now + 3700000000000u) == 0);
    assert_int_equal(metric_store_tick(store, now + 3700000000000u, NULL), WEFT_OK);
    assert_int_equal(rows(store, "SELECT count(*) FROM metric_spool"), 1);
    assert_true(metric_store_due(store, now + 3700000000000u) > 3590);
    close_store(store);
}

#define SERIES 20

/* A child writes to many series and says after each flush how far it is; it is killed. Nothing of that may be missing.
 */
static void report_until_killed(const char *path, int64_t first, int told)
{
    struct metric_store *store = open_store(path);
    for (int64_t i = first;; i++) {
        for (int64_t rank = 0; rank < SERIES; rank++)
            add_points(store, &(struct metric_key){1, 1, rank, "loss"}, i, 1);
        if (random_bits(9, (uint64_t)i) % 7 != 0)
            continue;
        flush(store);
        if (write(told, &i, sizeof i) != sizeof i)
            _exit(1);
    }
}

static void nothing_that_was_flushed_is_lost_by_a_kill(void **state)
{
    const char *path = new_path();
    int64_t first = 0;
    for (uint64_t round = 0; round < 25; round++) {
        int ends[2], status;
        int64_t told = first - 1, next;
        assert_int_equal(pipe(ends), 0);
        const pid_t child = fork();
        assert_true(child >= 0);
        if (child == 0) {
            close(ends[0]);
            report_until_killed(path, first, ends[1]);
        }
        close(ends[1]);
        assert_int_equal(read(ends[0], &next, sizeof next), sizeof next);
        usleep((useconds_t)(random_bits(7, round) % 30000));
        kill(child, SIGKILL);
        assert_int_equal(waitpid(child, &status, 0), child);
        assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
        do
            told = next;
        while (read(ends[0], &next, sizeof next) == sizeof next);
        close(ends[0]);
        assert_true(told >= first);
        struct metric_store *store = open_store(path);
        assert_int_equal(database_check(metric_store_database(store), NULL), WEFT_OK);
        first = count_points(store, &(struct metric_key){1, 1, 0, "loss"});
        assert_true(first > told);
        for (int64_t rank = 1; rank < SERIES; rank++) /* a flush is of all series or of none */
            assert_int_equal(count_points(store, &(struct metric_key){1, 1, rank, "loss"}), first);
        close_store(store);
    }
    assert_true(first > 256); /* so that blocks were among it */
}

static void a_full_disk_loses_nothing(void **state)
{
    const struct rlimit none = {0, RLIM_INFINITY}, all = {RLIM_INFINITY, RLIM_INFINITY};
    const char *path = new_path();
    struct metric_store *store = open_store(path);
    const struct metric_key fresh = {.run = 1, .attempt = 1, .rank = 1, .name = "train/loss"};
    struct error error = {0};
    signal(SIGXFSZ, SIG_IGN);
    add_points(store, &loss, 0, 1000);
    add_points(store, &fresh, 0, 5); /* its number was had in the transaction that fails */
    setrlimit(RLIMIT_FSIZE, &none);
    assert_int_equal(metric_store_flush(store, clock_now(), &error), WEFT_ERROR_SYSTEM);
    assert_non_null(strstr(error.text, path));
    add_points(store, &loss, 1000, 1000);
    assert_int_not_equal(metric_store_flush(store, clock_now(), NULL), WEFT_OK);
    setrlimit(RLIMIT_FSIZE, &all);
    flush(store);
    add_points(store, &loss, 2000, 100);
    add_points(store, &fresh, 5, 400);
    assert_int_equal(count_points(store, &loss), 2100);
    assert_int_equal(count_points(store, &fresh), 405);
    /* Points are taken as long as there is room for them, then refused with the reason. */
    setrlimit(RLIMIT_FSIZE, &none);
    add_points(store, &loss, 2100, 10);
    assert_int_not_equal(metric_store_flush(store, clock_now(), NULL), WEFT_OK);
    int64_t taken = 2110;
    weft_status status = WEFT_OK;
    error_clear(&error);
    while (status == WEFT_OK && taken < 20000000)
        if ((status = try_points(store, &loss, taken, 4096, &error)) == WEFT_OK)
            taken += 4096;
    assert_int_equal(status, WEFT_ERROR_SYSTEM);
    assert_non_null(strstr(error.text, "wait to be written"));
    assert_true(taken > 1000000);
    setrlimit(RLIMIT_FSIZE, &all);
    flush(store);
    close_store(store);
    store = open_store(path);
    assert_int_equal(count_points(store, &fresh), 405);
    assert_int_equal(rows(store, "SELECT count(*) FROM metric_block") > 1000000 / 256, 1);
    close_store(store);
}

/* What a process that was killed has left can be opened where it cannot be written. */
static void it_is_opened_on_a_full_disk(void **state)
{
    const struct rlimit little = {40960, RLIM_INFINITY}, all = {RLIM_INFINITY, RLIM_INFINITY};
    const char *path = new_path();
    const pid_t child = fork();
    int status;
    if (child == 0) {
        struct metric_store *store = open_store(path);
        for (int64_t i = 0; i < 100; i++) {
            add_points(store, &loss, i, 1);
            flush(store);
        }
        _exit(0);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
    signal(SIGXFSZ, SIG_IGN);
    setrlimit(RLIMIT_FSIZE, &little);
    struct metric_store *store = open_store(path);
    assert_true(metric_store_is_in_trouble(store));
    assert_int_equal(count_points(store, &loss), 100);
    add_points(store, &loss, 100, 10);
    assert_int_not_equal(metric_store_flush(store, clock_now(), NULL), WEFT_OK);
    setrlimit(RLIMIT_FSIZE, &all);
    flush(store);
    assert_false(metric_store_is_in_trouble(store));
    close_store(store);
    store = open_store(path);
    assert_int_equal(count_points(store, &loss), 110);
    assert_int_equal(rows(store, "SELECT count(*) FROM metric_spool"), 0);
    close_store(store);
}

static void series_leave_memory_and_come_back(void **state)
{
    const char *path = new_path();
    struct metric_store *store = open_with(path, &(struct metric_options){.open_most = 4});
    char name[32];
    for (int64_t round = 0; round < 5; round++)
        for (int i = 0; i < 50; i++) {
            snprintf(name, sizeof name, "metric-%d", i);
            add_points(store, &(struct metric_key){3, 1, 0, name}, round * 70, 70);
            for (int j = 0; j < 2; j++)
                flush(store);
        }
    for (int i = 0; i < 50; i++) {
        snprintf(name, sizeof name, "metric-%d", i);
        assert_int_equal(count_points(store, &(struct metric_key){3, 1, 0, name}), 350);
    }
    for (int i = 0; i < 100; i++)
        flush(store);
    assert_null(metric_store_series(store, &(struct metric_key){3, 1, 0, "metric-0"}));
    assert_non_null(metric_store_series(store, &(struct metric_key){3, 1, 0, "metric-49"}));
    assert_int_equal(count_points(store, &(struct metric_key){3, 1, 0, "metric-0"}), 350);
    close_store(store);
}

static void what_cannot_be_kept_is_refused(void **state)
{
    struct metric_store *store = open_with(new_path(), &(struct metric_options){.series_most = 3});
    struct error error = {0};
    char name[300] = "";
    const struct metric_point point = point_of(0);
    assert_int_equal(metric_store_append(store, &(struct metric_key){1, 1, 0, ""}, &point, 1, &error),
                     WEFT_ERROR_ARGUMENT);
    memset(name, 'n', 201);
    assert_int_equal(metric_store_append(store, &(struct metric_key){1, 1, 0, name}, &point, 1, NULL),
                     WEFT_ERROR_ARGUMENT);
    assert_int_equal(metric_store_append(store, &(struct metric_key){1, 1, 0, "a\033[2J"}, &point, 1, NULL),
                     WEFT_ERROR_ARGUMENT);
    const struct metric_point far[] = {point, {METRIC_NUMBER_MOST + 1, 0, 0}}, early = {0, INT64_MIN, 0};
    error_clear(&error);
    assert_int_equal(metric_store_append(store, &loss, far, 2, &error), WEFT_ERROR_ARGUMENT);
    assert_non_null(strstr(error.text, "9007199254740993"));
    assert_int_equal(metric_store_append(store, &loss, &early, 1, NULL), WEFT_ERROR_ARGUMENT);
    assert_int_equal(count_points(store, &loss), 0);
    name[200] = 0;
    add_points(store, &(struct metric_key){1, 1, 0, name}, 0, 1);
    add_points(store, &(struct metric_key){1, 2, 0, name}, 0, 1);
    add_points(store, &(struct metric_key){1, 2, 9, name}, 0, 1);
    error_clear(&error);
    for (int i = 0; i < 2; i++)
        assert_int_equal(metric_store_append(store, &loss, &point, 1, &error), WEFT_ERROR_DATA);
    assert_non_null(strstr(error.text, "run 1 has 3 curves of metrics already"));
    add_points(store, &(struct metric_key){2, 1, 0, "loss"}, 0, 1); /* another run has its own */
    add_points(store, &(struct metric_key){1, 2, 9, name}, 1, 300);
    flush(store);
    assert_int_equal(rows(store, "SELECT count(*) FROM metric_series"), 4);
    close_store(store);
}

static void damage_is_told_and_harms_no_other_curve(void **state)
{
    const char *path = new_path();
    struct metric_store *store = open_store(path);
    const struct metric_key other = {.run = 1, .attempt = 1, .rank = 1, .name = "train/loss"};
    struct error error = {0};
    struct metric_curve curve;
    add_points(store, &loss, 0, 700);
    add_points(store, &other, 0, 700);
    flush(store);
    struct database *database = metric_store_database(store);
    assert_int_equal(database_begin(database, DATABASE_LAZY, NULL), WEFT_OK);
    assert_int_equal(database_end(database,
                                  statement_run(database_prepare(database, "UPDATE metric_block SET points = x'0102' "
                                                                           "WHERE block = (SELECT min(block) FROM "
                                                                           "metric_block)"),
                                                NULL),
                                  NULL),
                     WEFT_OK);
    const struct metric_query query = {
        .run = 1, .name = "train/loss", .attempt = METRIC_ANY, .from = INT64_MIN, .to = INT64_MAX};
    assert_int_equal(metric_draw(store, &query, &curve, &error), WEFT_ERROR_DATA);
    assert_non_null(strstr(error.text, "block 0 of series 1 is damaged"));
    assert_int_equal(count_points(store, &other), 700);
    close_store(store);
}

int main(void)
{
    directory = temporary_directory();
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(points_stay_through_restarts),
        cmocka_unit_test(a_half_filled_block_leaves_the_spool_in_time),
        cmocka_unit_test(it_asks_for_its_flushes),
        cmocka_unit_test(nothing_that_was_flushed_is_lost_by_a_kill),
        cmocka_unit_test(a_full_disk_loses_nothing),
        cmocka_unit_test(it_is_opened_on_a_full_disk),
        cmocka_unit_test(series_leave_memory_and_come_back),
        cmocka_unit_test(what_cannot_be_kept_is_refused),
        cmocka_unit_test(damage_is_told_and_harms_no_other_curve),
    };
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    file_remove_tree(directory, NULL);
    return failed;
}
