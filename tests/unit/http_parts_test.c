/* SPDX-License-Identifier: Apache-2.0 */
/* Rates, routes and schemas that contradict themselves, and tokens: what the HTTP server is made of, without a server.
 */
#include "platform/access/token_file.h"
#include "platform/access/tokens.h"
#include "platform/http/rate.h"
#include "platform/http/route/route.h"

#include "temporary.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#define SECOND 1000000000u

static void buckets_fill_again(void **state)
{
    struct rate *rate;
    uint64_t now = 5 * (uint64_t)SECOND;
    assert_int_equal(rate_new(10, 3, &rate, NULL), WEFT_OK);
    for (int i = 0; i < 3; i++)
        assert_true(rate_take(rate, 1, now) == 0);
    double wait = rate_take(rate, 1, now);
    assert_true(wait > 0.09 && wait < 0.11);
    assert_true(rate_take(rate, 2, now) == 0);
    assert_true(rate_take(rate, 1, now + SECOND / 20) > 0);
    assert_true(rate_take(rate, 1, now + SECOND / 10 + 1000) == 0);
    /* Never more than its size, however long it was left alone. */
    for (int i = 0; i < 3; i++)
        assert_true(rate_take(rate, 1, now + 1000 * (uint64_t)SECOND) == 0);
    assert_true(rate_take(rate, 1, now + 1000 * (uint64_t)SECOND) > 0);
    /* Any number of keys; a clock that goes back does no harm. */
    for (uint64_t key = 0; key < 200000; key++)
        assert_true(rate_take(rate, key * 0x9e3779b97f4a7c15u, 2000 * (uint64_t)SECOND) == 0);
    assert_true(rate_take(rate, 77, SECOND) == 0);
    rate_free(rate);
}

static void nothing(struct route_call *call)
{
}

static bool no_project(const struct route_call *call, char project[PLATFORM_NAME_BYTES])
{
    return false;
}

static const struct route_parameter number_without_bounds[] = {
    {.name = "n", .type = ROUTE_INTEGER, .meaning = "A number."}, {0}};
static const struct route_parameter choice_without_choices[] = {
    {.name = "c", .type = ROUTE_CHOICE, .meaning = "A choice."}, {0}};
static const struct route_parameter run[] = {{.name = "run", .type = ROUTE_NAME, .meaning = "A run."}, {0}};

#define ROUTE(m, p, o) .method = (m), .path = (p), .operation = (o), .summary = "s", .handler = nothing

static void wrong_tables_are_refused(void **state)
{
    static const struct {
        struct route route;
        const char *words;
    } cases[] = {
        {{ROUTE("FETCH", "/a", "x")}, "method or path"},
        {{ROUTE("GET", "a", "x")}, "method or path"},
        {{ROUTE("GET", "/a//b", "x")}, "method or path"},
        {{ROUTE("GET", "/a/{b", "x")}, "method or path"},
        {{ROUTE("GET", "/a/{b}", "x")}, "not described"},
        {{ROUTE("GET", "/a", "x"), .parameters = number_without_bounds}, "bounds"},
        {{ROUTE("GET", "/a", "x"), .parameters = choice_without_choices}, "choices"},
        {{ROUTE("GET", "/a", "x"), .permission = ROUTE_VIEWER}, "names no project"},
        {{ROUTE("GET", "/runs/{run}", "x"), .parameters = run, .permission = ROUTE_MANAGER}, "names no project"},
        {{ROUTE("GET", "/a", "x"), .request = "Thing"}, "GET takes neither"},
        {{ROUTE("POST", "/a", "x"), .permission = ROUTE_VIEWER, .project_of = no_project},
         "its project cannot be known"},
        {{ROUTE("POST", "/a", "x"), .request = "Thing", .consumes = "text/csv"}, "takes a body of JSON and"},
        {{ROUTE("GET", ROUTE_DOCUMENT, "x")}, "another's"},
        {{ROUTE("POST", "/a", "readInterface")}, "operation is another's"},
        {{.method = "GET", .path = "/a", .handler = nothing}, "missing"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct router *router;
        struct error error = {0};
        const struct route_table table = {.routes = &cases[i].route, .route_count = 1, .tag = "t"};
        assert_int_equal(router_new(&(struct router_config){.rate = -1}, &router, NULL), WEFT_OK);
        assert_int_equal(router_add(router, &table, &error), WEFT_ERROR_DATA);
        assert_non_null(strstr(error.text, cases[i].words));
        router_free(router);
    }
}

static void what_is_referred_to_is_there(void **state)
{
    static const struct route lost[] = {{ROUTE("POST", "/a", "x"), .request = "Absent"}};
    static const struct schema refers[] = {{"A", "{\"$ref\":\"#/components/schemas/B\"}"}};
    const struct route_table tables[] = {{.routes = lost, .route_count = 1, .tag = "t"},
                                         {.schemas = refers, .schema_count = 1}};
    for (size_t i = 0; i < 2; i++) {
        struct router *router;
        struct error error = {0};
        assert_int_equal(router_new(&(struct router_config){.rate = -1}, &router, NULL), WEFT_OK);
        assert_int_equal(router_add(router, &tables[i], &error), WEFT_OK);
        assert_int_equal(router_finish(router, &error), WEFT_ERROR_DATA);
        assert_non_null(strstr(error.text, i == 0 ? "'Absent'" : "schemas/B'"));
        router_free(router);
    }
}

static void schemas_say_only_what_is_checked(void **state)
{
    static const char *const wrong[] = {"{",
                                        "[]",
                                        "{\"pattern\":\"x\"}",
                                        "{\"type\":\"text\"}",
                                        "{\"type\":[\"string\"]}",
                                        "{\"properties\":{\"a\":{\"oneOf\":[]}}}",
                                        "{\"items\":[]}"};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        struct schema_set *set;
        assert_int_equal(schema_set_new(&set, NULL), WEFT_OK);
        assert_int_equal(schema_set_add(set, &(struct schema){"A", wrong[i]}, NULL), WEFT_ERROR_DATA);
        schema_set_free(set);
    }
}

/* ---- tokens ---- */

static struct token_record kept[8];
static size_t kept_count;

static weft_status insert(void *context, const struct token_record *record, struct error *error)
{
    kept[kept_count++] = *record;
    return WEFT_OK;
}

static bool find(void *context, const char *id, struct token_record *record)
{
    for (size_t i = 0; i < kept_count; i++)
        if (strcmp(kept[i].id, id) == 0) {
            *record = kept[i];
            return true;
        }
    return false;
}

static weft_status end_token(void *context, const char *id, int64_t now, struct error *error)
{
    for (size_t i = 0; i < kept_count; i++)
        if (strcmp(kept[i].id, id) == 0) {
            kept[i].revoked = now;
            return WEFT_OK;
        }
    return error_set(error, WEFT_ERROR_ARGUMENT, "there is no token '%s'", id);
}

static const struct token_store store = {.insert = insert, .find = find, .revoke = end_token};

static void tokens_are_hashed_scoped_and_end(void **state)
{
    char first[TOKEN_TEXT_BYTES], second[TOKEN_TEXT_BYTES];
    struct identity who = {0};
    struct token_record wanted = {.user = "anna", .project = "vision", .most = ROLE_MEMBER, .ends = 200};
    kept_count = 0;
    assert_int_equal(tokens_make(&store, &wanted, 100, first, NULL), WEFT_OK);
    wanted.ends = 0;
    assert_int_equal(tokens_make(&store, &wanted, 100, second, NULL), WEFT_OK);
    assert_string_not_equal(first, second);
    assert_int_equal(strlen(first), 5 + 12 + 1 + 43);
    /* Nothing of what is kept holds the secret. */
    assert_null(memmem(kept, sizeof kept, first + 18, 8));
    assert_true(tokens_identify(&store, first, 150, &who));
    assert_string_equal(who.user, "anna");
    assert_string_equal(who.project, "vision");
    assert_string_equal(who.token, kept[0].id);
    assert_int_equal(who.most, ROLE_MEMBER);
    assert_false(who.administrator);
    assert_false(tokens_identify(&store, first, 200, &who));
    assert_true(tokens_identify(&store, second, 1000000, &who));
    for (size_t i = 0; i < strlen(second); i++) {
        char changed[TOKEN_TEXT_BYTES];
        snprintf(changed, sizeof changed, "%s", second);
        changed[i] = changed[i] == 'a' ? 'b' : 'a';
        assert_false(tokens_identify(&store, changed, 150, &who));
        changed[i] = '\0';
        assert_false(tokens_identify(&store, changed, 150, &who));
    }
    assert_int_equal(tokens_revoke(&store, kept[1].id, 150, NULL), WEFT_OK);
    assert_false(tokens_identify(&store, second, 160, &who));
    assert_int_equal(tokens_revoke(&store, "000000000000", 150, NULL), WEFT_ERROR_ARGUMENT);
}

static void foolish_tokens_are_not_made(void **state)
{
    struct token_record foolish[] = {
        {.user = "", .most = ROLE_VIEWER},
        {.user = "a b", .most = ROLE_VIEWER},
        {.user = "anna", .project = "../x", .most = ROLE_VIEWER},
        {.user = "anna"},
        {.user = "anna", .most = ROLE_VIEWER, .ends = 100},
        {.user = "anna", .project = "vision", .most = ROLE_VIEWER, .administrator = true},
    };
    char text[TOKEN_TEXT_BYTES];
    kept_count = 0;
    for (size_t i = 0; i < sizeof foolish / sizeof *foolish; i++)
        assert_int_equal(tokens_make(&store, &foolish[i], 100, text, NULL), WEFT_ERROR_ARGUMENT);
    assert_int_equal(kept_count, 0);
}

static void token_files_are_for_one_alone(void **state)
{
    const char *directory = temporary_directory(), *path = temporary_path(directory, "a/b/token");
    struct error error = {0};
    struct stat kind;
    char text[TOKEN_TEXT_BYTES];
    assert_int_equal(token_file_write(path, "weft_0123456789ab_secret", &error), WEFT_OK);
    assert_int_equal(stat(path, &kind), 0);
    assert_int_equal(kind.st_mode & 0777, 0600);
    assert_int_equal(token_file_read(path, text, &error), WEFT_OK);
    assert_string_equal(text, "weft_0123456789ab_secret");
    assert_int_equal(chmod(path, 0640), 0);
    assert_int_equal(token_file_read(path, text, &error), WEFT_ERROR_DATA);
    assert_non_null(strstr(error.text, "chmod 600"));
    static const char *const wrong[] = {"", "\n", "hello\n", "weft_a b\n", "weft_a\nweft_b\n", "weft_\x01"};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        assert_int_equal(token_file_write(path, wrong[i], NULL), WEFT_OK);
        assert_int_equal(token_file_read(path, text, NULL), WEFT_ERROR_DATA);
    }
    assert_int_equal(token_file_read(directory, text, NULL), WEFT_ERROR_DATA);
    assert_int_equal(token_file_read(temporary_path(directory, "none"), text, NULL), WEFT_ERROR_SYSTEM);
    file_remove_tree(directory, NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(buckets_fill_again),
        cmocka_unit_test(wrong_tables_are_refused),
        cmocka_unit_test(what_is_referred_to_is_there),
        cmocka_unit_test(schemas_say_only_what_is_checked),
        cmocka_unit_test(tokens_are_hashed_scoped_and_end),
        cmocka_unit_test(foolish_tokens_are_not_made),
        cmocka_unit_test(token_files_are_for_one_alone),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
