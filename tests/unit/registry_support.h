/* SPDX-License-Identifier: Apache-2.0 */
/** For tests of the registry: a database with two projects and their people, and runs in it. */
#ifndef WEFT_TESTS_REGISTRY_SUPPORT_H
#define WEFT_TESTS_REGISTRY_SUPPORT_H

#include "platform/registry/ledger/ledger.h"
#include "platform/registry/projects.h"
#include "platform/registry/run/runs.h"
#include "temporary.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

/** What must go well, in a transaction of its own. */
#define CHANGE(database, call)                                                                                         \
    do {                                                                                                               \
        struct error error = {0};                                                                                      \
        assert_int_equal(database_begin(database, DATABASE_LAZY, &error), WEFT_OK);                                    \
        if (database_end(database, call, &error) != WEFT_OK)                                                           \
            fail_msg("line %d: %s", __LINE__, error.text);                                                             \
    } while (0)

/** What must fail with `status` and a message that has `word` in it; all of it is undone. */
#define REFUSE(database, expected, word, call)                                                                         \
    do {                                                                                                               \
        struct error error = {0};                                                                                      \
        assert_int_equal(database_begin(database, DATABASE_LAZY, &error), WEFT_OK);                                    \
        assert_int_equal(database_end(database, call, &error), expected);                                              \
        if (!strstr(error.text, word))                                                                                 \
            fail_msg("line %d: an odd message: %s", __LINE__, error.text);                                             \
    } while (0)

/** Projects "vision" (manager ada, member bob, viewer eve) and "speech" (manager carl), administrator root. */
static inline struct database *registry_with_people(const char *directory)
{
    struct database *database = NULL;
    struct error opening = {0};
    static const char *const users[] = {"ada", "bob", "carl", "eve"};
    if (registry_open(directory, DATABASE_WRITER, &database, &opening) != WEFT_OK)
        fail_msg("%s", opening.text);
    for (size_t i = 0; i < 4; i++)
        CHANGE(database, registry_user_put(database, users[i], false, 1, &error));
    CHANGE(database, registry_user_put(database, "root", true, 1, &error));
    CHANGE(database, registry_project_make(database, "vision", "Seeing", "ada", 2, &error));
    CHANGE(database, registry_project_make(database, "speech", "Hearing", "carl", 2, &error));
    CHANGE(database, registry_member_put(database, "vision", "bob", ROLE_MEMBER, 3, &error));
    CHANGE(database, registry_member_put(database, "vision", "eve", ROLE_VIEWER, 3, &error));
    return database;
}

/** The directory of the registry that a test has from registry_open_for_test(). */
static const char *registry_directory;

/** A test's set-up: *state is a registry with people, in a directory of its own. */
static inline int registry_open_for_test(void **state)
{
    registry_directory = temporary_directory();
    *state = registry_with_people(registry_directory);
    return 0;
}

/** A test's tear-down: whatever it did, the ledger's sums and the database are right. */
static inline int registry_close_for_test(void **state)
{
    struct error error = {0};
    if (ledger_check(*state, &error) != WEFT_OK || database_check(*state, &error) != WEFT_OK)
        fail_msg("%s", error.text);
    database_close(*state);
    return file_remove_tree(registry_directory, NULL) == WEFT_OK ? 0 : -1;
}

/** A test between the two. */
#define registry_test(test) cmocka_unit_test_setup_teardown(test, registry_open_for_test, registry_close_for_test)

/** A specification from a JSON text. */
static inline struct run_specification specification_of(const char *text)
{
    struct run_specification specification;
    struct error error = {0};
    if (run_specification_parse(text, strlen(text), "the test", &specification, &error) != WEFT_OK)
        fail_msg("%s", error.text);
    return specification;
}

/** Submit a run of that text at `now`; its number. */
static inline int64_t submit(struct database *database, const char *text, int64_t now)
{
    struct run_specification specification = specification_of(text);
    int64_t run = 0;
    bool again = true;
    CHANGE(database, registry_run_submit(database, &specification, NULL, now, &run, &again, &error));
    assert_false(again);
    run_specification_free(&specification);
    return run;
}

static inline struct registry_run run_of(struct database *database, int64_t run)
{
    struct registry_run found = {0};
    struct error error = {0};
    if (registry_run_get(database, run, &found, &error) != WEFT_OK)
        fail_msg("%s", error.text);
    return found;
}

#endif
