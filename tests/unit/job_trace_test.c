/* SPDX-License-Identifier: Apache-2.0 */
/* Traces of jobs in both formats, as others write them. Faults are reported with their line: cluster_simulation_test.
 */
#include "platform/scheduler/internal/trace.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cmocka.h>

static struct job_trace parse(const char *text)
{
    struct job_trace trace;
    struct error error = {0};
    if (trace_parse("jobs", text, strlen(text), &trace, &error) != WEFT_OK)
        fail_msg("%s", error.text);
    return trace;
}

static void columns_come_in_any_order(void **state)
{
    struct job_trace trace = parse("# a comment\r\nvc,num_gpus,other,duration_s,submit_s\r\n"
                                   "a,8,x,100,5\r\n\r\nb,1,y,2.5,3\r\na,16,,7,4");
    assert_int_equal(trace.count, 3);
    assert_int_equal(trace.projects, 2);
    /* In the order of submission, with the numbers of the file. */
    const double submits[] = {3, 4, 5}, durations[] = {2.5, 7, 100};
    const uint32_t slots[] = {1, 16, 8}, projects[] = {1, 0, 0};
    const uint64_t names[] = {2, 3, 1};
    for (int i = 0; i < 3; i++) {
        assert_true(trace.jobs[i].submit == submits[i] && trace.jobs[i].duration == durations[i]);
        assert_int_equal(trace.jobs[i].slots, slots[i]);
        assert_int_equal(trace.jobs[i].project, projects[i]);
        assert_int_equal(trace.jobs[i].name, names[i]);
    }
    trace_free(&trace);
}

static void the_standard_workload_format(void **state)
{
    struct job_trace trace = parse("; Version: 2\n;\n"
                                   "  1   0  10  300   4 -1 -1   4 600 -1 1 7 1 1 1 1 -1 -1\n"
                                   "  2  60  10   -1  -1 -1 -1   4 600 -1 0 7 1 1 1 1 -1 -1\n" /* never ran */
                                   "  3  90   0   20  -1 -1 -1  16 600 -1 1 9 1 1 1 1 -1 -1\n");
    assert_int_equal(trace.count, 2);
    assert_int_equal(trace.left_out, 1);
    assert_int_equal(trace.projects, 2);
    assert_int_equal(trace.jobs[0].slots, 4);
    assert_int_equal(trace.jobs[1].slots, 16); /* as requested: those used are not known */
    assert_int_equal(trace.jobs[1].name, 3);
    assert_true(trace.jobs[1].submit == 90 && trace.jobs[1].duration == 20);
    trace_free(&trace);
}

/* What follows them cannot be read here. */
static void the_last_line_ends_with_the_bytes(void **state)
{
    static const char *const texts[] = {"\t", "submit_s,duration_s,num_gpus\n1,2,3\n  ", "; SWF\n1 0 1 3 4 1 1 4\n \t"};
    const size_t page = (size_t)sysconf(_SC_PAGESIZE);
    char *pages = mmap(NULL, 2 * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    assert_true(pages != MAP_FAILED);
    assert_int_equal(mprotect(pages + page, page, PROT_NONE), 0);
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        const size_t size = strlen(texts[i]);
        struct job_trace trace = {0};
        struct error error = {0};
        memcpy(pages + page - size, texts[i], size);
        if (i == 0) {
            assert_int_equal(trace_parse("jobs", pages + page - size, size, &trace, &error), WEFT_ERROR_DATA);
            assert_string_equal(error.text, "jobs: there is nothing in it");
            continue;
        }
        assert_int_equal(trace_parse("jobs", pages + page - size, size, &trace, &error), WEFT_OK);
        assert_int_equal(trace.count, 1);
        trace_free(&trace);
    }
    munmap(pages, 2 * page);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(columns_come_in_any_order),
        cmocka_unit_test(the_standard_workload_format),
        cmocka_unit_test(the_last_line_ends_with_the_bytes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
