/* SPDX-License-Identifier: Apache-2.0 */
/* weft_report(): each call is a line that is read as the same value; nothing waits, nothing gets mixed up. */
#include "weft/report.h"

#include "base/clock.h"
#include "platform/metrics/read/lines.h"
#include "temporary.h"

#include <fcntl.h>
#include <locale.h>
#include <math.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

static const char *directory;
static struct metric_line line;

static weft_reporter *open_reporter(const char *path)
{
    weft_reporter *reporter = NULL;
    if (weft_reporter_open(path, &reporter) != WEFT_OK)
        fail_msg("%s", weft_message(NULL));
    return reporter;
}

static FILE *open_lines(const char *path)
{
    FILE *file = fopen(path, "r");
    assert_non_null(file);
    return file;
}

/* The next line, which must be metrics of one value. */
static bool next(FILE *file)
{
    char text[4096];
    if (!fgets(text, sizeof text, file))
        return false;
    if (!metric_line_read(text, strlen(text), &line) || line.count != 1)
        fail_msg("no line of one metric: %s", text);
    return true;
}

static void values_are_read_as_they_were_reported(void **state)
{
    const double values[] = {0,      -0.0,           1.5, 0.1,      1.0 / 3,  (double)0.1f, 1e308,
                             5e-324, -123456789.123, NAN, INFINITY, -INFINITY};
    const size_t count = sizeof values / sizeof *values;
    const char *path = temporary_path(directory, "values.jsonl");
    const char *names[] = {"train/loss", "a \"quoted\\name\"", "größe", "tab\there"},
               *read[] = {names[0], names[1], names[2], "tab?here"};
    weft_reporter *reporter = open_reporter(path);
    struct timespec before, after;
    clock_gettime(CLOCK_REALTIME, &before);
    for (size_t i = 0; i < count; i++)
        assert_int_equal(weft_report(reporter, names[i % 4], i == 3 ? -((int64_t)1 << 53) : (int64_t)i, values[i]),
                         WEFT_OK);
    assert_int_equal(weft_reporter_close(reporter), WEFT_OK);
    clock_gettime(CLOCK_REALTIME, &after);
    FILE *file = open_lines(path);
    for (size_t i = 0; i < count; i++) {
        assert_true(next(file));
        assert_string_equal(line.values[0].name, read[i % 4]);
        assert_true(isnan(values[i]) ? isnan(line.values[0].value) : line.values[0].value == values[i]);
        assert_int_equal(line.step, i == 3 ? -((int64_t)1 << 53) : (int64_t)i);
        assert_int_equal(line.rank, -1);
        assert_true(line.time / 1000000 >= before.tv_sec && line.time / 1000000 <= after.tv_sec);
    }
    assert_false(next(file));
    fclose(file);
    /* It is appended to. */
    reporter = open_reporter(path);
    assert_int_equal(weft_report(reporter, "more", 1, 1), WEFT_OK);
    assert_int_equal(weft_reporter_close(reporter), WEFT_OK);
    file = open_lines(path);
    for (size_t i = 0; i <= count; i++)
        assert_true(next(file));
    assert_string_equal(line.values[0].name, "more");
    fclose(file);
}

#define REPORTS 1000

static void *report_progress(void *reporter)
{
    for (int i = 0; i <= REPORTS; i++)
        assert_int_equal(weft_report_progress(reporter, i, REPORTS, i % 2 ? 0.1 * i : -1), WEFT_OK);
    return NULL;
}

static void progress_is_reported_from_any_thread(void **state)
{
    const char *path = temporary_path(directory, "progress.jsonl");
    weft_reporter *reporter = open_reporter(path);
    pthread_t threads[4];
    char text[4096];
    size_t reports = 0, left = 0;
    setlocale(LC_NUMERIC, "de_DE.UTF-8"); /* where there is one: a point is a point */
    for (size_t i = 0; i < 4; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, report_progress, reporter), 0);
    for (size_t i = 0; i < 4; i++)
        pthread_join(threads[i], NULL);
    /* What cannot be one is not written, and told. */
    const double wrong[][2] = {{-1, 2}, {3, 2}, {0, 0}, {NAN, 1}, {1, NAN}, {1, INFINITY}};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++)
        assert_int_equal(weft_report_progress(reporter, wrong[i][0], wrong[i][1], -1), WEFT_ERROR_ARGUMENT);
    assert_non_null(strstr(weft_message(NULL), "progress is 1 of inf"));
    assert_int_equal(weft_report_progress(NULL, 1, 2, -1), WEFT_OK);
    assert_int_equal(weft_reporter_close(reporter), WEFT_OK);
    setlocale(LC_NUMERIC, "C");
    FILE *file = open_lines(path);
    for (; fgets(text, sizeof text, file); reports++) {
        if (!metric_line_read(text, strlen(text), &line) || !line.progress.known || line.count != 0)
            fail_msg("no line of progress: %s", text);
        const int done = (int)line.progress.done;
        assert_true(line.progress.total == REPORTS);
        assert_true(line.progress.seconds_left == (done % 2 ? 0.1 * done : -1));
        left += line.progress.seconds_left >= 0;
    }
    fclose(file);
    assert_int_equal(reports, 4 * (REPORTS + 1));
    assert_int_equal(left, 4 * REPORTS / 2);
}

static void without_a_place_nothing_happens(void **state)
{
    weft_reporter *reporter = (weft_reporter *)&reporter;
    unsetenv("WEFT_METRICS");
    assert_int_equal(weft_reporter_open(NULL, &reporter), WEFT_OK);
    assert_null(reporter);
    setenv("WEFT_METRICS", "", 1);
    assert_int_equal(weft_reporter_open(NULL, &reporter), WEFT_OK);
    assert_null(reporter);
    assert_int_equal(weft_report(reporter, "loss", 1, 1), WEFT_OK);
    assert_int_equal(weft_reporter_flush(reporter), WEFT_OK);
    assert_int_equal(weft_reporter_close(reporter), WEFT_OK);
    unsetenv("WEFT_METRICS");
}

static void each_rank_has_a_file_in_a_directory(void **state)
{
    setenv("WEFT_METRICS", directory, 1);
    setenv("RANK", "7", 1);
    setenv("WEFT_RANK", "3", 1);
    weft_reporter *reporter = open_reporter(NULL);
    assert_int_equal(weft_report(reporter, "loss", 1, 1), WEFT_OK);
    assert_int_equal(weft_reporter_close(reporter), WEFT_OK);
    unsetenv("WEFT_RANK");
    unsetenv("RANK");
    unsetenv("WEFT_METRICS");
    FILE *file = open_lines(temporary_path(directory, "rank-3.jsonl"));
    assert_true(next(file));
    assert_int_equal(line.rank, 3);
    fclose(file);
}

/* A line is there soon though nobody calls again, and before the reporter is closed. */
static void lines_do_not_stay_in_the_buffer(void **state)
{
    const char *path = temporary_path(directory, "soon.jsonl");
    weft_reporter *reporter = open_reporter(path);
    for (int64_t i = 1; i <= 3; i++) {
        struct stat before, after;
        assert_int_equal(stat(path, &before), 0);
        assert_int_equal(weft_report(reporter, "loss", i, 1), WEFT_OK);
        const uint64_t limit = clock_after(30);
        do {
            usleep(1000);
            assert_int_equal(stat(path, &after), 0);
        } while (after.st_size == before.st_size && clock_now() < limit);
        assert_true(after.st_size > before.st_size);
    }
    assert_int_equal(weft_reporter_close(reporter), WEFT_OK);
}

static void *report_many(void *argument)
{
    weft_reporter *reporter = argument;
    for (int64_t i = 0; i < 5000; i++)
        if (weft_report(reporter, "threads/loss", i, (double)i) != WEFT_OK)
            return argument;
    return NULL;
}

static void lines_of_threads_and_processes_stay_whole(void **state)
{
    const char *path = temporary_path(directory, "many.jsonl");
    pid_t children[3];
    for (int i = 0; i < 3; i++) {
        children[i] = fork();
        assert_true(children[i] >= 0);
        if (children[i] > 0)
            continue;
        weft_reporter *reporter = NULL;
        pthread_t threads[2];
        void *failed[2] = {NULL, NULL};
        if (weft_reporter_open(path, &reporter) != WEFT_OK)
            _exit(1);
        for (int j = 0; j < 2; j++)
            pthread_create(&threads[j], NULL, report_many, reporter);
        for (int j = 0; j < 2; j++)
            pthread_join(threads[j], &failed[j]);
        _exit(weft_reporter_close(reporter) != WEFT_OK || failed[0] || failed[1]);
    }
    for (int i = 0; i < 3; i++) {
        int status;
        assert_int_equal(waitpid(children[i], &status, 0), children[i]);
        assert_int_equal(status, 0);
    }
    static int seen[5000];
    FILE *file = open_lines(path);
    for (int i = 0; i < 30000; i++) {
        assert_true(next(file));
        assert_true(line.step >= 0 && line.step < 5000 && line.values[0].value == (double)line.step);
        seen[line.step]++;
    }
    assert_false(next(file));
    for (int i = 0; i < 5000; i++)
        assert_int_equal(seen[i], 6);
    fclose(file);
}

static void a_pipe_never_holds_up_the_program(void **state)
{
    const char *path = temporary_path(directory, "pipe");
    weft_reporter *reporter = NULL;
    assert_int_equal(mkfifo(path, 0600), 0);
    assert_int_equal(weft_reporter_open(path, &reporter), WEFT_ERROR_SYSTEM);
    assert_non_null(strstr(weft_message(NULL), "no process reads this pipe"));
    const int reading = open(path, O_RDONLY | O_NONBLOCK);
    assert_true(reading >= 0);
    reporter = open_reporter(path);
    /* Nobody reads: it fills, and that is reported once. */
    int failures = 0;
    for (int64_t i = 0; i < 20000; i++)
        if (weft_report(reporter, "loss", i, 1) != WEFT_OK) {
            assert_non_null(strstr(weft_message(NULL), "does not keep up"));
            failures++;
        }
    assert_true(failures > 0);
    /* The reader has gone: no signal ends this process. */
    close(reading);
    assert_int_equal(weft_report(reporter, "loss", 1, 1), WEFT_OK);
    weft_status status = weft_reporter_flush(reporter);
    assert_int_equal(status, WEFT_ERROR_SYSTEM);
    assert_non_null(strstr(weft_message(NULL), "Broken pipe"));
    assert_int_equal(weft_reporter_close(reporter), WEFT_OK);
}

static void a_full_disk_tears_no_line(void **state)
{
    const struct rlimit some = {5000, RLIM_INFINITY}, all = {RLIM_INFINITY, RLIM_INFINITY};
    const char *path = temporary_path(directory, "full.jsonl");
    weft_reporter *reporter = open_reporter(path);
    char text[4096];
    int lines = 0, torn = 0, failures = 0;
    signal(SIGXFSZ, SIG_IGN);
    setrlimit(RLIMIT_FSIZE, &some);
    for (int64_t i = 0; i < 300; i++)
        failures += weft_report(reporter, "loss", i, 1) != WEFT_OK;
    failures += weft_reporter_flush(reporter) != WEFT_OK;
    assert_true(failures > 0);
    assert_non_null(strstr(weft_message(NULL), "File too large"));
    setrlimit(RLIMIT_FSIZE, &all);
    for (int64_t i = 1000; i < 1010; i++)
        assert_int_equal(weft_report(reporter, "loss", i, 1), WEFT_OK);
    assert_int_equal(weft_reporter_close(reporter), WEFT_OK);
    FILE *file = open_lines(path);
    while (fgets(text, sizeof text, file)) {
        const bool whole = metric_line_read(text, strlen(text), &line);
        torn += !whole && strcmp(text, "\n") != 0;
        lines += whole;
    }
    fclose(file);
    assert_int_equal(torn, 1); /* where the disk ended; all after it are whole */
    assert_true(lines > 60 && line.step == 1009);
}

static void names_that_cannot_be_are_refused(void **state)
{
    char name[202];
    weft_reporter *reporter = open_reporter(temporary_path(directory, "names.jsonl"));
    memset(name, '\001', 201);
    name[201] = 0;
    assert_int_equal(weft_report(reporter, name, 1, 1), WEFT_ERROR_ARGUMENT);
    assert_non_null(strstr(weft_message(NULL), "1 to 200 bytes"));
    assert_int_equal(weft_report(reporter, "", 1, 1), WEFT_ERROR_ARGUMENT);
    assert_int_equal(weft_report(reporter, NULL, 1, 1), WEFT_ERROR_ARGUMENT);
    name[200] = 0;
    assert_int_equal(weft_report(reporter, name, INT64_MIN, -1.0 / 3), WEFT_OK); /* the longest line */
    assert_int_equal(weft_reporter_close(reporter), WEFT_OK);
    assert_int_equal(weft_reporter_open(temporary_path(directory, "absent/file"), &reporter), WEFT_ERROR_SYSTEM);
    assert_non_null(strstr(weft_message(NULL), "absent/file"));
}

int main(void)
{
    directory = temporary_directory();
    unsetenv("WEFT_RANK");
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(progress_is_reported_from_any_thread),
        cmocka_unit_test(values_are_read_as_they_were_reported),
        cmocka_unit_test(without_a_place_nothing_happens),
        cmocka_unit_test(each_rank_has_a_file_in_a_directory),
        cmocka_unit_test(lines_do_not_stay_in_the_buffer),
        cmocka_unit_test(lines_of_threads_and_processes_stay_whole),
        cmocka_unit_test(a_pipe_never_holds_up_the_program),
        cmocka_unit_test(a_full_disk_tears_no_line),
        cmocka_unit_test(names_that_cannot_be_are_refused),
    };
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    file_remove_tree(directory, NULL);
    return failed;
}
