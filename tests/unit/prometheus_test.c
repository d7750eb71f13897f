/* SPDX-License-Identifier: Apache-2.0 */
/* Metrics as the text that Prometheus reads: what is escaped, and how numbers are written. */
#include "platform/http/prometheus.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

static void expect(struct prometheus *text, const char *expected)
{
    assert_false(text->bytes.failed);
    assert_int_equal(buffer_size(&text->bytes), strlen(expected));
    assert_memory_equal(buffer_begin(&text->bytes), expected, strlen(expected));
    prometheus_free(text);
    *text = (struct prometheus){0};
}

static void a_family_has_its_help_and_type_once(void **state)
{
    struct prometheus text = {0};
    prometheus_family(&text, "weft_runs", "gauge", "Runs.");
    prometheus_sample(&text, 3, "state", "queued", NULL);
    prometheus_sample(&text, 0, "state", "running", "pod", "a", NULL);
    prometheus_family(&text, "weft_up", "gauge", "1: up.");
    prometheus_sample(&text, 1, NULL);
    expect(&text, "# HELP weft_runs Runs.\n# TYPE weft_runs gauge\nweft_runs{state=\"queued\"} 3\n"
                  "weft_runs{state=\"running\",pod=\"a\"} 0\n# HELP weft_up 1: up.\n# TYPE weft_up gauge\nweft_up 1\n");
}

static void what_means_something_is_escaped(void **state)
{
    struct prometheus text = {0};
    prometheus_family(&text, "a", "gauge", "back\\slash, \"quotes\", new\nline");
    prometheus_sample(&text, 1, "l", "back\\slash, \"quotes\", new\nline {=,}", NULL);
    expect(&text, "# HELP a back\\\\slash, \"quotes\", new\\nline\n# TYPE a gauge\n"
                  "a{l=\"back\\\\slash, \\\"quotes\\\", new\\nline {=,}\"} 1\n");
}

static void numbers_are_exact(void **state)
{
    struct prometheus text = {0};
    prometheus_family(&text, "a", "gauge", "");
    prometheus_sample(&text, 0.1, NULL);
    prometheus_sample(&text, 9007199254740991.0, NULL);
    prometheus_sample(&text, NAN, NULL);
    prometheus_sample(&text, INFINITY, NULL);
    prometheus_sample(&text, -INFINITY, NULL);
    expect(&text, "# HELP a \n# TYPE a gauge\na 0.1\na 9007199254740991\na NaN\na +Inf\na -Inf\n");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_family_has_its_help_and_type_once),
        cmocka_unit_test(what_means_something_is_escaped),
        cmocka_unit_test(numbers_are_exact),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
