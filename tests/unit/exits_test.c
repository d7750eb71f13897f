/* SPDX-License-Identifier: Apache-2.0 */
/* Unclean exits pause scheduling until it is resumed, unless the last exit was clean. */
#include "platform/service/internal/exits.h"

#include "temporary.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

#define NOW INT64_C(1700000000000)

/* A server starts, and ends as asked. Returns whether it started paused. */
static bool serve(const char *directory, int64_t most, bool clean)
{
    struct exits exits;
    assert_int_equal(exits_begin(&exits, directory, most, NOW, NULL), WEFT_OK);
    const bool paused = exits_why(&exits) != NULL;
    if (clean)
        exits_end(&exits);
    return paused;
}

static void unclean_exits_pause(void **state)
{
    assert_false(serve(*state, 2, false));
    assert_false(serve(*state, 2, false));
    assert_true(serve(*state, 2, true));
    /* It stays so until it is resumed. */
    assert_true(serve(*state, 2, true));
    struct exits exits;
    assert_int_equal(exits_begin(&exits, *state, 2, NOW, NULL), WEFT_OK);
    assert_int_equal(exits_resume(&exits, NULL), WEFT_OK);
    assert_null(exits_why(&exits));
    exits_end(&exits);
    assert_false(serve(*state, 2, true));
}

static void exits_before_a_clean_one_do_not_count(void **state)
{
    assert_false(serve(*state, 0, false));
    assert_false(serve(*state, 0, false));
    assert_false(serve(*state, 0, true));
    assert_false(serve(*state, 2, true));
}

static void a_damaged_record_has_no_exits(void **state)
{
    temporary_file(*state, "exits", "running\npaused x\nunclean\n\xff", 27);
    assert_false(serve(*state, 1, true));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        in_temporary_directory(unclean_exits_pause),
        in_temporary_directory(exits_before_a_clean_one_do_not_count),
        in_temporary_directory(a_damaged_record_has_no_exits),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
