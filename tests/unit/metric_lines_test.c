/* SPDX-License-Identifier: Apache-2.0 */
/* Lines of a program's output: those that are metrics become values, all others are left alone. */
#include "platform/metrics/read/lines.h"

#include "temporary.h"
#include "training/train/report/names.h"
#include "training/train/report/report.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

static struct metric_line line;

static bool take(const char *text)
{
    return metric_line_read(text, strlen(text), &line);
}

static double value(const char *name)
{
    for (size_t i = 0; i < line.count; i++)
        if (strcmp(line.values[i].name, name) == 0)
            return line.values[i].value;
    fail_msg("there is no '%s'", name);
    return 0;
}

static void numbers_of_an_object_are_values(void **state)
{
    assert_true(take("{\"step\": 10, \"train/loss\": 1.25, \"lr\": 1e-3, \"n\":-0.5E+2}\n"));
    assert_int_equal(line.step, 10);
    assert_int_equal(line.count, 3);
    assert_int_equal(line.time, -1);
    assert_int_equal(line.rank, -1);
    assert_int_equal(line.left_out, 0);
    assert_true(value("train/loss") == 1.25 && value("lr") == 1e-3 && value("n") == -50);
    assert_true(take("  {\"loss\":0.1,\"step\":1e3}\r\n"));
    assert_int_equal(line.step, 1000);
    assert_true(value("loss") == 0.1);
    assert_true(take("{\"step\":-1,\"a\":0}"));
    assert_int_equal(line.step, -1);
}

static void objects_in_it_are_groups(void **state)
{
    assert_true(take("{\"step\":1,\"train\":{\"loss\":2,\"speed\":{\"tokens\":3},\"step\":4},\"lr\":5}"));
    assert_int_equal(line.step, 1);
    assert_int_equal(line.count, 4);
    assert_true(value("train/loss") == 2 && value("train/speed/tokens") == 3 && value("train/step") == 4);
    assert_true(value("lr") == 5);
    assert_true(
        take("{\"e\":{},\"s\":\"x\",\"l\":[1,{\"a\":[2]}],\"t\":true,\"f\":false,\"n\":null,\"step\":1,\"a\":2}"));
    assert_int_equal(line.count, 1);
    assert_true(value("a") == 2);
}

static void what_is_not_finite_is_a_value_too(void **state)
{
    assert_true(take("{\"step\":1,\"a\":NaN,\"b\":Infinity,\"c\":-Infinity,\"d\":1e999}"));
    assert_true(isnan(value("a")) && value("b") == INFINITY && value("c") == -INFINITY && value("d") == INFINITY);
}

static void time_and_rank_are_the_lines_own(void **state)
{
    assert_true(take("{\"step\":1,\"time\":1700000000.25,\"rank\":3,\"loss\":1}"));
    assert_int_equal(line.count, 1);
    assert_true(line.time == 1700000000250000);
    assert_int_equal(line.rank, 3);
    assert_true(take("{\"step\":1,\"time\":0.35,\"rank\":3.5,\"x\":{\"time\":1700000000,\"rank\":2}}"));
    assert_int_equal(line.count, 4); /* a duration, and a rank of something else */
    assert_int_equal(line.time, -1);
    assert_int_equal(line.rank, -1);
    assert_true(value("time") == 0.35 && value("rank") == 3.5);
    assert_true(take("[rank 12] {\"step\":1,\"loss\":1}"));
    assert_int_equal(line.rank, 12);
    assert_true(take("[rank 12 node-3] {\"step\":1,\"loss\":1,\"rank\":4}"));
    assert_int_equal(line.rank, 4);
}

static void other_lines_are_left_alone(void **state)
{
    static const char *const lines[] = {
        "",
        "\n",
        "step 10 loss 1.2",
        "loss = {\"step\": 1, \"a\": 1}",
        "{\"level\":\"info\",\"time\":1700000000,\"msg\":\"began\"}",
        "{\"step\":1}",
        "{\"step\":1,\"msg\":\"no numbers\"}",
        "{\"a\":1,\"x\":{\"step\":1}}",
        "{\"a\":1,\"msg\":\"step\"}",
        "{\"step\":1.5,\"a\":1}",
        "{\"step\":NaN,\"a\":1}",
        "{\"step\":1e300,\"a\":1}",
        "{\"step\":\"1\",\"a\":1}",
        "{\"step\":[1],\"a\":1}",
        "{\"step\":null,\"a\":1}",
        "{\"step\":1,\"step\":2,\"a\":1}",
        "{\"step\":1,\"a\":1",
        "{\"step\":1,\"a\":1,}",
        "{\"step\":1 \"a\":1}",
        "{\"step\":1,\"a\":1} and more",
        "{\"step\":1,\"a\":1}{\"step\":1,\"a\":1}",
        "{\"step\":1,\"a\":01}",
        "{\"step\":1,\"a\":1.}",
        "{\"step\":1,\"a\":.5}",
        "{\"step\":1,\"a\":+1}",
        "{\"step\":1,\"a\":0x10}",
        "{\"step\":1,\"a\":1e}",
        "{\"step\":1,\"a\":nan}",
        "{\"step\":1,a:1}",
        "{\"step\":1,\"a\":\"\\x\",\"b\":1}",
        "{\"step\":1,\"a\\u00g0\":1}",
        "{\"step\":1,\"a\nb\":1}",
        "[{\"step\":1,\"a\":1}]",
        "[rank 1 {\"step\":1,\"a\":1}",
        "[rank x] {\"step\":1,\"a\":1}",
        "[rank 1]x{\"step\":1,\"a\":1}",
        "{\"event\":\"start\",\"step\":0,\"steps\":100,\"seed\":1}",
        "{\"event\":\"checkpoint\",\"step\":10,\"bytes\":100}",
        "{\"event\":\"end\",\"step\":100,\"seconds\":5}",
    };
    for (size_t i = 0; i < sizeof lines / sizeof *lines; i++)
        if (take(lines[i]))
            fail_msg("this is no metric: %s", lines[i]);
    char deep[400] = "{\"step\":1,\"a\":1,\"b\":";
    for (int i = 0; i < 100; i++)
        strcat(deep, "[");
    for (int i = 0; i < 100; i++)
        strcat(deep, "]");
    strcat(deep, "}");
    assert_false(take(deep));
    assert_false(metric_line_read("{\"step\":1,\"a\":1\0}", 17, &line));
    assert_true(metric_line_read("{\"step\":1,\"a\":1}\0}", 16, &line));
}

static void names_are_limited_and_printable(void **state)
{
    char text[1000], name[201];
    memset(name, 'n', 200);
    name[200] = 0;
    snprintf(text, sizeof text,
             "{\"step\":1,\"%s\":1,\"%sx\":2,\"\":3,\"a\":4,\"%s\":{\"b\":5,\"\":6},\"%.198s\":{\"b\":7,\"cc\":8}}",
             name, name, name, name);
    assert_true(take(text));
    assert_int_equal(line.count, 3);
    assert_int_equal(line.left_out, 5);
    assert_true(value(name) == 1 && value("a") == 4);
    strcpy(name + 198, "/b");
    assert_true(value(name) == 7);
    assert_true(take("{\"step\":1,\"a\\u001b[2J\":1,\"gr\\u00fc\\u00df\":2,\"\\ud83d\\ude00\":3,\"\\ud83d\":4,"
                     "\"q\\\"\\/\\\\\":5,\"\xff\":6}"));
    assert_true(value("a?[2J") == 1 && value("grüß") == 2 && value("😀") == 3 && value("q\"/\\") == 5);
    assert_int_equal(line.count, 6);
    char many[8000] = "{\"step\":1";
    for (int i = 0; i < 300; i++)
        sprintf(many + strlen(many), ",\"m%d\":%d", i, i);
    strcat(many, "}");
    assert_true(take(many));
    assert_int_equal(line.count, METRIC_LINE_VALUES);
    assert_int_equal(line.left_out, 300 - METRIC_LINE_VALUES);
}

/* What weft train writes, by its own hand, is read here; by the names of its event files. */
static void lines_of_weft_train_are_read(void **state)
{
    const char *directory = temporary_directory(), *path = temporary_path(directory, "metrics");
    const struct report_run run = {.name = "run",
                                   .model = "gpt",
                                   .data = "text",
                                   .precision = "f32",
                                   .kernels = "avx2",
                                   .optimizer = "adamw",
                                   .steps = 9,
                                   .batch = 2,
                                   .sequence = 8,
                                   .ranks = 1,
                                   .nodes = 1,
                                   .threads = 1,
                                   .tokens = 16,
                                   .flops = 1e6};
    struct report report;
    assert_int_equal(report_open(&report, &(struct report_options){.metrics = path}, NULL), WEFT_OK);
    report_begin(&report, &run);
    report_step(&report,
                &(struct report_step){.step = 1, .loss = 2.5, .rate = 0.125, .gradient_norm = 3, .seconds = 0.5});
    report_step(&report,
                &(struct report_step){.step = 2, .loss = NAN, .rate = 0.25, .gradient_norm = INFINITY, .seconds = 1});
    report_evaluation(&report, 2, 1.75, NAN);
    report_checkpoint(&report,
                      &(struct report_checkpoint){.step = 2, .path = "here", .seconds = 0.5, .pause_seconds = 0.25});
    report_checkpoint(&report, &(struct report_checkpoint){.step = 2, .path = "full", .problem = "the disk is full"});
    report_copy(&report, &(struct report_copy){.step = 2, .path = "there", .seconds = 0.5});
    report_recovery(&report, &(struct report_recovery){.plan = "data parallel over 3 ranks",
                                                       .step = 2,
                                                       .ranks_before = 4,
                                                       .ranks = 3,
                                                       .agree_seconds = 0.5,
                                                       .rebuild_seconds = 0.25,
                                                       .restore_seconds = 0.125});
    report_end(&report, REPORT_FINISHED);
    report_close(&report);
    char text[4096];
    int metrics = 0, others = 0;
    FILE *file = fopen(path, "r");
    assert_non_null(file);
    while (fgets(text, sizeof text, file)) {
        if (!take(text)) {
            others++;
            continue;
        }
        metrics++;
        assert_true(line.time > 1600000000000000);
        assert_int_equal(line.step, metrics > 2 ? 2 : metrics);
        if (metrics == 3) {
            assert_true(value("held-out/loss") == 1.75);
            continue;
        }
        if (metrics == 4) {
            assert_true(value("checkpoint/seconds") == 0.5 && value("checkpoint/pause_seconds") == 0.25);
            assert_int_equal(line.count, 2);
            continue;
        }
        if (metrics == 5) {
            assert_true(value("recovery/ranks") == 3 && value("recovery/agree_seconds") == 0.5);
            assert_true(value("recovery/rebuild_seconds") == 0.25 && value("recovery/restore_seconds") == 0.125);
            assert_int_equal(line.count, 4);
            continue;
        }
        /* The peak is not known, so that the share of it is not either: no value. Nor is a loss scaled. */
        assert_int_equal(line.count, REPORT_NAME_UTILIZATION);
        for (size_t i = 0; i < REPORT_NAME_UTILIZATION; i++)
            value(report_name_curves[i]);
        assert_true(value("train/rate") == 0.125 * metrics && value("speed/step_seconds") == 0.5 * metrics);
        assert_true(metrics == 1 ? value("train/loss") == 2.5 : isnan(value("train/loss")));
        assert_true(metrics == 1 ? value("train/gradient_norm") == 3 : isnan(value("train/gradient_norm")));
    }
    fclose(file);
    assert_int_equal(metrics, 5);
    assert_int_equal(others, 4); /* the beginning, a checkpoint that failed, a copy, the end */
    file_remove_tree(directory, NULL);
}

/* Every allocation of Weft's comes by here. */
static size_t allocations;

void *__real_malloc(size_t size);
void *__real_calloc(size_t count, size_t size);
void *__real_realloc(void *memory, size_t size);
void *__wrap_malloc(size_t size);
void *__wrap_calloc(size_t count, size_t size);
void *__wrap_realloc(void *memory, size_t size);

void *__wrap_malloc(size_t size)
{
    allocations++;
    return __real_malloc(size);
}

void *__wrap_calloc(size_t count, size_t size)
{
    allocations++;
    return __real_calloc(count, size);
}

void *__wrap_realloc(void *memory, size_t size)
{
    allocations++;
    return __real_realloc(memory, size);
}

static void no_line_costs_memory(void **state)
{
    const size_t before = allocations;
    assert_true(before > 0); /* those of the test before */
    assert_false(take("epoch 3: 100%|##########| 12/12 [00:01<00:00]"));
    assert_false(take("{\"level\":\"info\",\"time\":1700000000,\"msg\":\"began\"}"));
    assert_true(take("{\"step\": 10, \"train\": {\"loss\": 1.25}, \"lr\": 1e-3}"));
    assert_int_equal(allocations, before);
}

static void assert_progress(const char *text, double done, double total, double left)
{
    if (!take(text) || !line.progress.known)
        fail_msg("no progress: %s", text);
    assert_true(line.progress.done == done && line.progress.total == total && line.progress.seconds_left == left);
}

static void progress_is_no_curve(void **state)
{
    assert_progress("{\"progress\": 120, \"of\": 1600}", 120, 1600, -1);
    assert_int_equal(line.count, 0);
    assert_progress("[rank 3] {\"time\":1795397821.5,\"of\":1.5,\"seconds_left\":225.5,\"progress\":0}\n", 0, 1.5,
                    225.5);
    assert_int_equal(line.rank, 3);
    assert_true(line.time == 1795397821500000);
    assert_progress("{\"step\":3,\"loss\":2,\"progress\":3,\"of\":3,\"seconds_left\":null,\"a\":1}", 3, 3, -1);
    assert_int_equal(line.count, 2);
    assert_true(value("loss") == 2 && value("a") == 1);
    /* Without a step its other numbers are not metrics. */
    assert_progress("{\"loss\":2,\"progress\":3,\"of\":4,\"seconds_left\":-3}", 3, 4, -1);
    assert_int_equal(line.count, 0);
    assert_progress("{\"progress\":3,\"of\":4,\"seconds_left\":1e300}", 3, 4, -1);
    /* One of the two alone is a curve like any other, and so are members of objects. */
    assert_true(take("{\"step\":1,\"progress\":0.5}"));
    assert_true(value("progress") == 0.5 && !line.progress.known);
    assert_true(take("{\"step\":1,\"of\":2,\"seconds_left\":3,\"a\":{\"progress\":1,\"of\":2}}"));
    assert_true(line.count == 4 && value("a/of") == 2 && !line.progress.known);
}

static void what_cannot_be_a_progress_is_none(void **state)
{
    static const char *const lines[] = {
        "{\"progress\":-1,\"of\":2}",
        "{\"progress\":3,\"of\":2}",
        "{\"progress\":0,\"of\":0}",
        "{\"progress\":NaN,\"of\":2}",
        "{\"progress\":1,\"of\":Infinity}",
        "{\"progress\":\"1\",\"of\":2}",
        "{\"progress\":1}",
        "{\"a\":{\"progress\":1,\"of\":2}}",
        "{\"progress\":null,\"of\":2}",
        "{\"progress\":1,\"of\":2",
        "{\"progress\":[1],\"of\":2}",
        "\"progress\"",
    };
    for (size_t i = 0; i < sizeof lines / sizeof *lines; i++)
        assert_false(take(lines[i]));
    assert_true(take("{\"step\":1,\"loss\":2,\"progress\":3,\"of\":2}"));
    assert_true(line.count == 1 && !line.progress.known);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(progress_is_no_curve),
        cmocka_unit_test(what_cannot_be_a_progress_is_none),
        cmocka_unit_test(numbers_of_an_object_are_values),
        cmocka_unit_test(objects_in_it_are_groups),
        cmocka_unit_test(what_is_not_finite_is_a_value_too),
        cmocka_unit_test(time_and_rank_are_the_lines_own),
        cmocka_unit_test(other_lines_are_left_alone),
        cmocka_unit_test(names_are_limited_and_printable),
        cmocka_unit_test(lines_of_weft_train_are_read),
        cmocka_unit_test(no_line_costs_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
