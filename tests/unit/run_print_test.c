/* SPDX-License-Identifier: Apache-2.0 */
/* Runs as rows of a table: how long they ran, and how far they are. */
#include "cli/platform/client/run_print.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

static void assert_row(const char *run, int64_t now, const char *words)
{
    char text[4096] = "";
    cJSON *object = cJSON_Parse(run);
    const cJSON *const list[] = {object};
    assert_non_null(object);
    FILE *output = fmemopen(text, sizeof text, "w");
    assert_int_equal(run_print_table(list, 1, &(struct run_table){.now = now}, output, NULL), WEFT_OK);
    fclose(output);
    cJSON_Delete(object);
    if (!strstr(text, words))
        fail_msg("'%s' is not in\n%s", words, text);
}

static void a_run_has_run_for_what_all_its_attempts_have(void **state)
{
    assert_row("{\"run\":7,\"state\":\"running\",\"served_ms\":47000,\"started\":1000000}", 1010000, "  57s");
    assert_row("{\"run\":7,\"state\":\"stopping\",\"served_ms\":47000,\"started\":1000000}", 1010000, "  57s");
    assert_row("{\"run\":7,\"state\":\"running\",\"served_ms\":0,\"started\":1000000}", 1010000, "  10s");
    /* The one under way has not started, or there is none. */
    assert_row("{\"run\":7,\"state\":\"starting\",\"served_ms\":47000,\"started\":null}", 1010000, "  47s");
    assert_row("{\"run\":7,\"state\":\"re-queued\",\"served_ms\":47000,\"started\":900000}", 1010000, "  47s");
    assert_row("{\"run\":7,\"state\":\"failed\",\"served_ms\":47000,\"started\":900000,\"ended\":947000}", 1010000,
               "  47s");
}

static void a_run_is_as_far_as_it_reports(void **state)
{
#define PROGRESS(done, left, state)                                                                                    \
    "{\"run\":7,\"state\":\"" state "\",\"progress\":{\"done\":" done ",\"total\":800,\"seconds_left\":" left          \
    ",\"reported_at\":1000000}}"
    assert_row(PROGRESS("300", "225", "running"), 1000000, "  37 %, 3m45s left");
    assert_row(PROGRESS("300", "225", "running"), 1010000, "  37 %, 3m35s left");
    assert_row(PROGRESS("300", "null", "running"), 1010000, "  37 %\n");
    assert_row(PROGRESS("300", "225", "running"), 1180000, "  37 % as of 3.0 min ago, 45s left");
    assert_row(PROGRESS("300", "225", "running"), 1300000, "  37 % as of 5.0 min ago\n");
    assert_row(PROGRESS("799.9", "1", "failed"), 1300000, "  99 %\n");
    assert_row("{\"run\":7,\"state\":\"running\",\"progress\":null}", 1000000, "ran  why\n");
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(a_run_has_run_for_what_all_its_attempts_have),
                                       cmocka_unit_test(a_run_is_as_far_as_it_reports)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
