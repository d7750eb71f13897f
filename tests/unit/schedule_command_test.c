/* SPDX-License-Identifier: Apache-2.0 */
/* `weft schedule`: what it prints, and what it says to what it cannot do. */
#include "cli/frame/command.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static char output[65536], errors[4096];

/* Run a command line of words separated by spaces; returns its exit code. */
static int run(const char *line)
{
    char words[512], *argv[32];
    int argc = 0;
    snprintf(words, sizeof words, "%s", line);
    for (char *word = strtok(words, " "); word; word = strtok(NULL, " "))
        argv[argc++] = word;
    argv[argc] = NULL;
    memset(output, 0, sizeof output);
    memset(errors, 0, sizeof errors);
    FILE *out = fmemopen(output, sizeof output - 1, "w"), *err = fmemopen(errors, sizeof errors - 1, "w");
    int code = command_main(command_table, command_table_count, argc, argv, out, err);
    fclose(out);
    fclose(err);
    return code;
}

static void a_schedule_is_shown(void **state)
{
    assert_int_equal(run("weft schedule show allreduce --ranks 8 --algorithm ring --rank 3"), 0);
    assert_non_null(strstr(output, "algorithm   ring"));
    assert_non_null(strstr(output, "rank 3 "));
    assert_non_null(strstr(output, "receive-reduce"));
    assert_int_equal(run("weft schedule show allreduce --ranks 8 --nodes 2 --algorithm two-level --bytes 1M"), 0);
    assert_non_null(strstr(output, "gather-reduce"));
}

static void without_an_algorithm_they_are_listed(void **state)
{
    assert_int_equal(run("weft schedule show allreduce --ranks 6"), 0);
    assert_non_null(strstr(output, "recursive-doubling"));
    assert_non_null(strstr(output, "not here: the number of ranks must be a power of two"));
}

static void schedules_are_proved(void **state)
{
    assert_int_equal(run("weft schedule verify --all --ranks 1..5"), 0);
    assert_non_null(strstr(output, "sets of schedules proved, 1 to 5 ranks"));
    assert_int_equal(run("weft schedule verify allreduce --algorithm ring --ranks 7"), 0);
    assert_non_null(strstr(output, "7 to 7 ranks"));
}

static void mistakes_get_a_message(void **state)
{
    static const struct {
        const char *line, *tells;
    } mistakes[] = {
        {"weft schedule show allreduc -a ring", "did you mean 'allreduce'"},
        {"weft schedule show allreduce --algorithm rnig", "did you mean 'ring'"},
        {"weft schedule show allreduce --algorithm direct --ranks 4 --nodes 2", "all ranks on one node"},
        {"weft schedule show allreduce --ranks 2 --nodes 3", "--nodes is 3"},
        {"weft schedule show allreduce --ranks 2 --rank 2", "--rank 2"},
        {"weft schedule verify", "--all"},
        {"weft schedule verify --all --ranks 5..2", "--ranks"},
        {"weft schedule verify --all --ranks x", "--ranks"},
        {"weft schedule verify allreduce --algorithm bruck", "has no algorithm 'bruck'"},
        {"weft schedule verify --all --algorithm nonsense --ranks 2", "no collective has an algorithm"},
    };
    for (size_t i = 0; i < sizeof mistakes / sizeof *mistakes; i++) {
        assert_int_not_equal(run(mistakes[i].line), 0);
        if (!strstr(errors, mistakes[i].tells))
            fail_msg("'%s' says '%s'", mistakes[i].line, errors);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_schedule_is_shown),
        cmocka_unit_test(without_an_algorithm_they_are_listed),
        cmocka_unit_test(schedules_are_proved),
        cmocka_unit_test(mistakes_get_a_message),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
