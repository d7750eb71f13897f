/* SPDX-License-Identifier: Apache-2.0 */
/* The identity of a machine: stable, made different by an added text and by a network namespace, never made equal. */
#include "core/topology/identity.h"

#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

static void the_same_here_each_time(void **state)
{
    char first[IDENTITY_BYTES], second[IDENTITY_BYTES];
    struct error error = {0};
    assert_int_equal(identity_read(NULL, first, &error), WEFT_OK);
    assert_int_equal(identity_read("", second, &error), WEFT_OK);
    assert_string_equal(first, second);
    assert_true(strlen(first) > 36);
}

static void an_added_text_only_makes_more_different(void **state)
{
    char own[IDENTITY_BYTES], a[IDENTITY_BYTES], b[IDENTITY_BYTES];
    assert_int_equal(identity_read(NULL, own, NULL), WEFT_OK);
    assert_int_equal(identity_read("node-a", a, NULL), WEFT_OK);
    assert_int_equal(identity_read("node-b", b, NULL), WEFT_OK);
    assert_string_not_equal(a, b);
    /* The machine's own part stays: no text can stand for another machine. */
    assert_int_equal(strncmp(own, a, strlen(own)), 0);
    assert_int_equal(strncmp(own, b, strlen(own)), 0);
    char imitation[IDENTITY_BYTES];
    assert_int_equal(identity_read(own, imitation, NULL), WEFT_OK);
    assert_string_not_equal(imitation, own);
}

static void a_network_namespace_is_a_machine_of_its_own(void **state)
{
    char own[IDENTITY_BYTES], other[IDENTITY_BYTES] = "";
    int ends[2], status;
    assert_int_equal(identity_read(NULL, own, NULL), WEFT_OK);
    assert_int_equal(pipe(ends), 0);
    pid_t child = fork();
    if (child == 0) {
        if (unshare(CLONE_NEWNET) != 0)
            _exit(77);
        bool good = identity_read(NULL, other, NULL) == WEFT_OK && write(ends[1], other, sizeof other) == sizeof other;
        _exit(!good);
    }
    close(ends[1]);
    ssize_t got = read(ends[0], other, sizeof other);
    close(ends[0]);
    assert_int_equal(waitpid(child, &status, 0), child);
    if (WEXITSTATUS(status) == 77)
        skip(); /* only root may make one */
    assert_int_equal(got, sizeof other);
    assert_string_not_equal(own, other);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_same_here_each_time),
        cmocka_unit_test(an_added_text_only_makes_more_different),
        cmocka_unit_test(a_network_namespace_is_a_machine_of_its_own),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
