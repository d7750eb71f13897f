/* SPDX-License-Identifier: Apache-2.0 */
/* Tokens and the audit log in their database: kept over a new start, found again, ended, listed, forgotten. */
#include "platform/access/access.h"

#include "temporary.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static const char *directory;

static struct database *open_again(struct database *database)
{
    struct error error = {0};
    database_close(database);
    if (access_open(temporary_path(directory, "access.db"), &database, &error) != WEFT_OK)
        fail_msg("%s", error.text);
    return database;
}

static bool count_tokens(void *context, const struct token_record *record)
{
    static const uint8_t nothing[TOKEN_HASH_BYTES];
    assert_memory_equal(record->hash, nothing, sizeof nothing);
    ++*(int *)context;
    return true;
}

static void tokens_are_kept(void **state)
{
    struct database *database = open_again(NULL);
    struct token_store store = access_tokens(database);
    struct token_record wanted = {
        .user = "anna", .project = "vision", .most = ROLE_VIEWER, .ends = 500, .note = "laptop"};
    struct token_record other = {.user = "ben", .most = ROLE_MANAGER, .administrator = true};
    char first[TOKEN_TEXT_BYTES], second[TOKEN_TEXT_BYTES];
    struct identity who;
    int count = 0;
    assert_int_equal(tokens_make(&store, &wanted, 100, first, NULL), WEFT_OK);
    assert_int_equal(tokens_make(&store, &other, 100, second, NULL), WEFT_OK);
    database = open_again(database);
    store = access_tokens(database);
    assert_true(tokens_identify(&store, first, 200, &who));
    assert_string_equal(who.user, "anna");
    assert_string_equal(who.project, "vision");
    assert_int_equal(who.most, ROLE_VIEWER);
    assert_false(who.administrator);
    assert_true(tokens_identify(&store, second, 200, &who));
    assert_true(who.administrator);
    assert_false(tokens_identify(&store, first, 500, &who));
    assert_int_equal(tokens_revoke(&store, other.id, 300, NULL), WEFT_OK);
    assert_int_equal(tokens_revoke(&store, other.id, 400, NULL), WEFT_OK);
    assert_int_equal(tokens_revoke(&store, "ffffffffffff", 400, NULL), WEFT_ERROR_ARGUMENT);
    assert_false(tokens_identify(&store, second, 350, &who));
    database = open_again(database);
    store = access_tokens(database);
    assert_false(tokens_identify(&store, second, 350, &who));
    struct token_record found;
    assert_true(store.find(store.context, other.id, &found));
    assert_int_equal(found.revoked, 300);
    assert_int_equal(access_list_tokens(database, NULL, count_tokens, &count, NULL), WEFT_OK);
    assert_int_equal(count, 2);
    count = 0;
    assert_int_equal(access_list_tokens(database, "anna", count_tokens, &count, NULL), WEFT_OK);
    assert_int_equal(count, 1);
    database_close(database);
}

static weft_status make_one(struct database *database, const char *user, int64_t now, int64_t ends,
                            char id[TOKEN_ID_BYTES], struct error *error)
{
    struct token_store store = access_tokens(database);
    struct token_record wanted = {.most = ROLE_MEMBER, .ends = ends};
    char text[TOKEN_TEXT_BYTES];
    snprintf(wanted.user, sizeof wanted.user, "%s", user);
    weft_status status = tokens_make(&store, &wanted, now, text, error);
    if (id)
        memcpy(id, wanted.id, TOKEN_ID_BYTES);
    return status;
}

static void a_user_has_so_many_and_no_more(void **state)
{
    struct database *database = open_again(NULL);
    struct token_store store = access_tokens(database);
    struct error error = {0};
    char id[TOKEN_ID_BYTES];
    int count = 0;
    for (int i = 0; i < ACCESS_TOKENS_MOST; i++)
        assert_int_equal(make_one(database, "zoe", 100 + i, i < 2 ? 1000 : 0, id, NULL), WEFT_OK);
    assert_int_equal(make_one(database, "zoe", 900, 0, NULL, &error), WEFT_ERROR_STATE);
    assert_non_null(strstr(error.text, "'zoe' has 100 tokens"));
    assert_int_equal(make_one(database, "yan", 900, 0, NULL, NULL), WEFT_OK);
    assert_int_equal(tokens_revoke(&store, id, 900, NULL), WEFT_OK);
    assert_int_equal(make_one(database, "zoe", 900, 0, NULL, NULL), WEFT_OK);
    assert_int_equal(make_one(database, "zoe", 900, 0, NULL, NULL), WEFT_ERROR_STATE);
    assert_int_equal(make_one(database, "zoe", 1000, 0, NULL, NULL), WEFT_OK); /* two have ended */
    /* Made and ended again and again: what is kept of it has an end too, and is the last of it. */
    for (int i = 0; i < 3 * ACCESS_TOKENS_MOST; i++) {
        assert_int_equal(make_one(database, "zoe", 1001 + i, 0, id, NULL), WEFT_OK);
        assert_int_equal(tokens_revoke(&store, id, 1001 + i, NULL), WEFT_OK);
    }
    assert_int_equal(access_list_tokens(database, "zoe", count_tokens, &count, NULL), WEFT_OK);
    assert_in_range(count, 2 * ACCESS_TOKENS_MOST - 1, 2 * ACCESS_TOKENS_MOST);
    struct token_record last;
    assert_true(store.find(store.context, id, &last));
    database_close(database);
}

struct list {
    int count;
    int64_t numbers[300];
    struct audit_entry last;
};

static bool take(void *context, const struct audit_entry *entry)
{
    struct list *list = context;
    list->numbers[list->count++] = entry->number;
    list->last = *entry;
    return list->count < 200;
}

static void what_was_done_is_kept(void **state)
{
    struct database *database = open_again(NULL);
    struct list list = {0};
    for (int i = 0; i < 150; i++) {
        struct audit_entry entry = {.time_ms = 1000 + i,
                                    .token = "0123456789ab",
                                    .address = "127.0.0.1",
                                    .what = "stopRun",
                                    .target = "/api/v1/runs/a\x1b[2J\xff",
                                    .status = i % 2 ? 200 : 403};
        snprintf(entry.user, sizeof entry.user, "%s", i % 3 ? "anna" : "ben");
        snprintf(entry.project, sizeof entry.project, "%s", i % 5 ? "vision" : "speech");
        assert_int_equal(audit_add(database, &entry, NULL), WEFT_OK);
    }
    database = open_again(database);
    assert_int_equal(audit_list(database, &(struct audit_filter){0}, take, &list, NULL), WEFT_OK);
    assert_int_equal(list.count, 100);
    for (int i = 1; i < list.count; i++)
        assert_int_equal(list.numbers[i], list.numbers[i - 1] - 1);
    assert_string_equal(list.last.what, "stopRun");
    assert_string_equal(list.last.target, "/api/v1/runs/a?[2J?");
    assert_string_equal(list.last.address, "127.0.0.1");
    int64_t oldest = list.last.number;
    list.count = 0;
    assert_int_equal(audit_list(database, &(struct audit_filter){.before = oldest}, take, &list, NULL), WEFT_OK);
    assert_int_equal(list.count, 50);
    assert_int_equal(list.numbers[0], oldest - 1);
    list.count = 0;
    assert_int_equal(audit_list(database, &(struct audit_filter){.user = "ben", .project = "speech", .most = 150}, take,
                                &list, NULL),
                     WEFT_OK);
    assert_int_equal(list.count, 10);
    assert_string_equal(list.last.user, "ben");
    list.count = 0;
    assert_int_equal(audit_list(database, &(struct audit_filter){.since_ms = 1140}, take, &list, NULL), WEFT_OK);
    assert_int_equal(list.count, 10);
    database_close(database);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(tokens_are_kept),
        cmocka_unit_test(a_user_has_so_many_and_no_more),
        cmocka_unit_test(what_was_done_is_kept),
    };
    directory = temporary_directory();
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    file_remove_tree(directory, NULL);
    return failed;
}
