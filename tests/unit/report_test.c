/* SPDX-License-Identifier: Apache-2.0 */
/* A report whose files stop growing: each is given up by itself, told once when it happens and once at the end. */
#include "base/crc32c.h"
#include "platform/metrics/read/lines.h"
#include "training/train/report/internal/event_file.h"
#include "training/train/report/report.h"

#include "temporary.h"

#include <math.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <sys/resource.h>

#include <cmocka.h>

static const struct report_run run = {.name = "run",
                                      .model = "gpt",
                                      .data = "text",
                                      .precision = "f32",
                                      .kernels = "avx2",
                                      .optimizer = "adamw",
                                      .steps = 100,
                                      .batch = 2,
                                      .sequence = 8,
                                      .ranks = 1,
                                      .nodes = 1,
                                      .threads = 1,
                                      .tokens = 16,
                                      .flops = 1e6,
                                      .peak = 1e9};

static void take_steps(struct report *report, uint64_t first, uint64_t last)
{
    for (uint64_t step = first; step <= last; step++)
        report_step(report, &(struct report_step){.step = step, .loss = 2, .rate = 0.1, .seconds = 0.01});
}

static size_t count_of(const char *text, const char *word)
{
    size_t count = 0;
    for (; (text = strstr(text, word)); text++)
        count++;
    return count;
}

static void a_full_disk_ends_a_file_and_not_the_run(void **state)
{
    const char *directory = temporary_directory();
    char *lines, *warnings;
    size_t sizes[2];
    const struct rlimit small = {4000, 4000};
    FILE *out = open_memstream(&lines, &sizes[0]), *said = open_memstream(&warnings, &sizes[1]);
    struct report report;
    signal(SIGXFSZ, SIG_IGN);
    setrlimit(RLIMIT_FSIZE, &small);
    const struct report_options options = {.out = out,
                                           .warnings = said,
                                           .every = 10,
                                           .metrics = temporary_path(directory, "metrics"),
                                           .prometheus = temporary_path(directory, "weft.prom"),
                                           .tensorboard = temporary_path(directory, "events")};
    assert_int_equal(report_open(&report, &options, NULL), WEFT_OK);
    report_begin(&report, &run);
    take_steps(&report, 1, 99);
    fflush(said);
    assert_int_equal(count_of(warnings, "weft: the metrics file '"), 1);
    assert_int_equal(count_of(warnings, "weft: the event file '"), 1);
    assert_int_equal(count_of(warnings, "File too large; the run goes on without it\n"), 2);
    assert_int_equal(count_of(warnings, "figures from step"), 0);
    report_end(&report, REPORT_FINISHED);
    report_end(&report, REPORT_FAILED);
    report_close(&report);
    report_close(&report);
    fclose(out);
    fclose(said);
    assert_int_equal(count_of(warnings, "the metrics file has no figures from step "), 1);
    assert_int_equal(count_of(warnings, "the event file has no figures from step "), 1);
    assert_int_equal(count_of(lines, "tokens/s"), 10); /* 1, 10, 20 ... 90: people got theirs */
    /* The Prometheus file is small enough, and the last one is there. */
    char *content;
    size_t size;
    assert_int_equal(file_read(options.prometheus, 1 << 20, &content, &size, NULL), WEFT_OK);
    assert_non_null(strstr(content, "weft_train_running{run=\"run\",model=\"gpt\"} 0\n"));
    assert_non_null(strstr(content, "weft_train_step{run=\"run\",model=\"gpt\"} 99\n"));
    free(content);
    free(lines);
    free(warnings);
    file_remove_tree(directory, NULL);
}

/* How far the run is: of a resumed one too, the last step always, and that it has ended. */
static void progress_is_of_the_whole_run(void **state)
{
    const char *directory = temporary_directory();
    const char *path = temporary_path(directory, "progress.jsonl");
    static struct metric_line line;
    struct metric_progress found[8];
    size_t count = 0;
    char text[4096];
    struct report_run resumed = run;
    struct report report;
    resumed.step = 90;
    resumed.steps = 200;
    resumed.end = 100;
    assert_int_equal(report_open(&report, &(struct report_options){.collected = path}, NULL), WEFT_OK);
    report_begin(&report, &resumed);
    for (uint64_t step = 91; step <= 100; step++)
        report_step(&report, &(struct report_step){.step = step, .seconds = 60});
    report_evaluation(&report, 100, 2, NAN);
    report_end(&report, REPORT_FINISHED);
    report_close(&report);
    FILE *file = fopen(path, "r");
    assert_non_null(file);
    while (fgets(text, sizeof text, file))
        if (metric_line_read(text, strlen(text), &line) && line.progress.known && count < 8)
            found[count++] = line.progress;
    fclose(file);
    assert_in_range(count, 3, 4); /* once a second: these took no time */
    assert_true(found[0].done == 91 && found[0].total == 100 && fabs(found[0].seconds_left - 9 * 60) < 1);
    assert_true(found[count - 2].done == 100 && found[count - 2].seconds_left < 60);
    assert_true(found[count - 1].done == 100 && found[count - 1].seconds_left == 0);
    file_remove_tree(directory, NULL);
}

static void nobody_who_wants_to_know_is_no_error(void **state)
{
    struct report report;
    assert_false(report_wants_peak(&(struct report_options){.every = 1}));
    assert_true(report_wants_peak(&(struct report_options){.tensorboard = "x"}));
    assert_int_equal(report_open(&report, &(struct report_options){.every = 1}, NULL), WEFT_OK);
    report_begin(&report, &run);
    take_steps(&report, 1, 3);
    report_evaluation(&report, 3, 2, NAN);
    report_say(&report, "%s", "nothing");
    report_end(&report, REPORT_STOPPED);
    report_close(&report);
}

static void files_of_one_second_have_names_of_their_own(void **state)
{
    const char *directory = temporary_directory();
    struct event_file files[3];
    for (size_t i = 0; i < 3; i++)
        assert_int_equal(event_file_open(&files[i], directory, 1234567890, false, NULL), WEFT_OK);
    assert_non_null(strstr(files[0].path, "/events.out.tfevents.1234567890."));
    assert_string_not_equal(files[0].path, files[1].path);
    assert_string_not_equal(files[1].path, files[2].path);
    for (size_t i = 0; i < 3; i++)
        event_file_close(&files[i]);
    assert_int_equal(crc32c("123456789", 9), 0xe3069283u);
    file_remove_tree(directory, NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(nobody_who_wants_to_know_is_no_error), cmocka_unit_test(progress_is_of_the_whole_run),
        cmocka_unit_test(files_of_one_second_have_names_of_their_own),
        cmocka_unit_test(a_full_disk_ends_a_file_and_not_the_run), /* the last: its limit stays */
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
