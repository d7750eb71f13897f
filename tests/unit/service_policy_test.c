/* SPDX-License-Identifier: Apache-2.0 */
/* The policy of a cluster: what a file says, what holds without it, and what is refused with its line. */
#include "platform/service/internal/policy.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

static weft_status parse(const char *text, struct service_policy *policy, struct error *error)
{
    return policy_parse(text, strlen(text), "policy.yaml", policy, error);
}

static void what_is_written_holds(void **state)
{
    struct service_policy policy;
    struct error error = {0};
    const char *text = "personal: {share: 0.1, slots: 2, runs: 3}\n"
                       "failures:\n  attempts: 5\n  of_a_host: 2\n"
                       "grace: 45s\nbudget_least: 0\n"
                       "disk: {run: 100G, project: 1024G, reserve: 256M}\n"
                       "classes:\n"
                       "  batch: {time_limit: 7d, time_slice: 12h, runs: 20, idle: 2h, idle_stops: true}\n"
                       "  other: {time_limit: 1d}\n";
    if (parse(text, &policy, &error) != WEFT_OK)
        fail_msg("%s", error.text);
    assert_float_equal(policy.personal_share, 0.1, 1e-12);
    assert_int_equal(policy.personal_slots, 2);
    assert_int_equal(policy.personal_runs, 3);
    assert_int_equal(policy.attempts, 5);
    assert_int_equal(policy.host_failures, 2);
    assert_int_equal(policy.grace, 45);
    assert_int_equal(policy.budget_least, 0);
    assert_int_equal(policy.disk_run, (int64_t)100 << 30);
    assert_int_equal(policy.disk_project, (int64_t)1024 << 30);
    assert_int_equal(policy.disk_reserve, 256 << 20);
    assert_int_equal(policy.class_count, 2);
    assert_string_equal(policy.classes[0].name, "batch");
    assert_int_equal(policy.classes[0].time_limit, 7 * 86400);
    assert_int_equal(policy.classes[0].time_slice, 12 * 3600);
    assert_int_equal(policy.classes[0].runs_most, 20);
    assert_int_equal(policy.classes[0].idle_limit, 7200);
    assert_true(policy.classes[0].idle_stops);
    assert_string_equal(policy.classes[1].name, "");
    assert_int_equal(policy.classes[1].time_limit, 86400);
}

static void what_is_left_out_has_a_default(void **state)
{
    struct service_policy policy;
    assert_int_equal(parse("budget_least: 1d\n", &policy, NULL), WEFT_OK);
    assert_int_equal(policy.attempts, 3);
    assert_int_equal(policy.grace, 30);
    assert_int_equal(policy.class_count, 0);
    assert_true(policy.personal_share == 0);
    assert_int_equal(parse("# personal:\n\n  #   share: 0.1", &policy, NULL), WEFT_OK);
    assert_int_equal(policy.attempts, 3);
    assert_int_equal(policy.class_count, 0);
}

static void what_is_wrong_is_refused_with_its_line(void **state)
{
    static const struct {
        const char *text, *message;
    } wrong[] = {
        {"personel: {share: 1}\n", "line 1: a policy has no 'personel'; the nearest is 'personal'"},
        {"personal:\n  share: 1.5\n", "line 2"},
        {"personal:\n  shares: 0.5\n", "the nearest is 'share'"},
        {"quotas: {}\n", "line 1: a policy has no 'quotas', but personal, "},
        {"failures:\n  zzz: 1\n", "line 2: here is no 'zzz', but attempts and of_a_host"},
        {"personal: all\n", "must be a map"},
        {"grace: 0\n", "grace is 0s; it must be from 1s to 1d"},
        {"grace: soon\n", "line 1"},
        {"disk: {run: 10}\n", "run is 10 B; it must be from 1 MiB to "},
        {"disk:\n  run: much\n", "line 2"},
        {"classes: {}\n", "at least one class"},
        {"classes: {Batch: {time_limit: 1d}}\n", "which is no name"},
        {"classes:\n  batch: {time_limit: -1d}\n", "line 2"},
        {"classes:\n  batch: {idle_stops: perhaps}\n", "line 2"},
        {"- a\n", "a policy is a map"},
        {"# nothing\nelse\n", "a policy is a map"},
        {"failures: {of_a_host: 0}\n", "line 1"},
    };
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        struct service_policy policy;
        struct error error = {0};
        assert_int_equal(parse(wrong[i].text, &policy, &error), WEFT_ERROR_DATA);
        if (!strstr(error.text, wrong[i].message) || !strstr(error.text, "policy.yaml"))
            fail_msg("%s: %s", wrong[i].text, error.text);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_written_holds),
        cmocka_unit_test(what_is_left_out_has_a_default),
        cmocka_unit_test(what_is_wrong_is_refused_with_its_line),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
