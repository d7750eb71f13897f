/* SPDX-License-Identifier: Apache-2.0 */
/* Ports that are opened in browsers: links that let in once, cookies for one port of one run, which web port a user gets. */
#include "platform/service/internal/port_openings.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#define HERE   1000
#define HOST   "example.org:8402"
#define SECOND PORT_NANOSECONDS(1)

static struct port_openings *table;
static uint64_t now;

static struct port_opening *add(const char *user, int64_t run, uint16_t port, char secret[PORT_SECRET_BYTES])
{
    struct identity who = {.most = ROLE_MANAGER};
    struct port_opening *opening = NULL;
    struct error error = {0};
    const struct port_target target = {.run = run, .port = port};
    snprintf(who.user, sizeof who.user, "%s", user);
    now += SECOND;
    if (port_openings_add(table, &target, &who, HERE, now, &opening, secret, &error) != WEFT_OK)
        fail_msg("%s", error.text);
    return opening;
}

static unsigned web_port_of(const char *user, int64_t run)
{
    char secret[PORT_SECRET_BYTES], cookie[PORT_SECRET_BYTES];
    const unsigned web_port = add(user, run, 6006, secret)->web_port;
    assert_non_null(port_openings_enter(table, web_port, secret, HOST, HERE, now, cookie));
    return web_port;
}

static int begin(void **state)
{
    now = 1;
    return port_openings_new(3, &table, NULL) == WEFT_OK ? 0 : -1;
}

static int end(void **state)
{
    port_openings_free(table);
    return 0;
}

static void a_link_lets_in_once(void **state)
{
    char secret[PORT_SECRET_BYTES], cookie[PORT_SECRET_BYTES], other[PORT_SECRET_BYTES];
    struct port_opening *opening = add("anna", 1, 6006, secret);
    assert_int_equal(strlen(secret), PORT_SECRET_BYTES - 1);
    assert_null(port_openings_find(table, opening->web_port, secret, HOST, HERE, now));
    assert_null(port_openings_enter(table, opening->web_port + 1, secret, HOST, HERE, now, cookie));
    assert_null(port_openings_enter(table, opening->web_port, secret, HOST, HERE + 1, now, cookie));
    assert_null(port_openings_enter(table, opening->web_port, "", HOST, HERE, now, cookie));
    assert_null(port_openings_waiting(table, opening->web_port, secret, HERE + 1, now));
    assert_ptr_equal(port_openings_waiting(table, opening->web_port, secret, HERE, now), opening);
    assert_ptr_equal(port_openings_enter(table, opening->web_port, secret, HOST, HERE, now, cookie), opening);
    assert_null(port_openings_waiting(table, opening->web_port, secret, HERE, now));
    assert_string_not_equal(secret, cookie);
    assert_null(port_openings_enter(table, opening->web_port, secret, HOST, HERE, now, other));
    assert_null(port_openings_enter(table, opening->web_port, cookie, HOST, HERE, now, other));
    assert_ptr_equal(port_openings_find(table, opening->web_port, cookie, HOST, HERE, now), opening);
}

static void a_link_gets_old(void **state)
{
    char secret[PORT_SECRET_BYTES], cookie[PORT_SECRET_BYTES];
    const struct port_opening *opening = add("anna", 1, 6006, secret);
    now += PORT_LINK_SECONDS * SECOND;
    assert_null(port_openings_enter(table, opening->web_port, secret, HOST, HERE, now, cookie));
}

static void a_cookie_is_for_its_place(void **state)
{
    char secret[PORT_SECRET_BYTES], cookie[PORT_SECRET_BYTES], long_host[PORT_HOST_BYTES + 1];
    struct port_opening *opening = add("anna", 1, 6006, secret);
    memset(long_host, 'x', PORT_HOST_BYTES);
    long_host[PORT_HOST_BYTES] = '\0';
    assert_null(port_openings_enter(table, opening->web_port, secret, long_host, HERE, now, cookie));
    assert_non_null(port_openings_enter(table, opening->web_port, secret, HOST, HERE, now, cookie));
    assert_non_null(port_openings_find(table, opening->web_port, cookie, "EXAMPLE.org:8402", HERE, now));
    assert_null(port_openings_find(table, opening->web_port, cookie, "example.com:8402", HERE, now));
    assert_null(port_openings_find(table, opening->web_port, cookie, HOST, HERE + 1, now));
    assert_null(port_openings_find(table, opening->web_port + 1, cookie, HOST, HERE, now));
    const uint64_t serial = opening->serial;
    assert_ptr_equal(port_openings_same(opening, serial, now), opening);
    assert_null(port_openings_same(opening, serial + 1, now));
    assert_null(port_openings_same(opening, serial, now + PORT_SECONDS * SECOND));
    assert_null(port_openings_find(table, opening->web_port, cookie, HOST, HERE, now + PORT_SECONDS * SECOND));
    port_opening_end(opening);
    assert_null(port_openings_same(opening, serial, now));
    assert_null(port_openings_find(table, 0, cookie, HOST, HERE, now));
}

static void note_run(void *context, const struct port_opening *opening)
{
    int64_t *sum = context;
    *sum += opening->target.run;
}

/* The sum of the runs that a user has open. */
static int64_t runs_open(const char *user)
{
    int64_t sum = 0;
    port_openings_list(table, user, now, note_run, &sum);
    return sum;
}

/* The run whose web port another one would get; 0: none's. */
static int64_t reused(const char *user, int64_t run)
{
    const struct port_target target = {.run = run, .port = 6006};
    struct port_target earlier;
    unsigned web_port;
    return port_openings_reuse(table, &target, user, now, &web_port, &earlier) ? earlier.run : 0;
}

/* Two runs share an origin in no browser, as long as there are web ports. */
static void runs_are_kept_apart(void **state)
{
    const unsigned first = web_port_of("anna", 1), second = web_port_of("anna", 2), third = web_port_of("anna", 3);
    assert_true(first != second && second != third && first != third);
    assert_int_equal(web_port_of("boris", 9), web_port_of("boris", 9));
    assert_int_equal(web_port_of("anna", 2), second);
    assert_int_equal(web_port_of("anna", 1), first);
    /* The one that was used least recently is used again, and what was there ends as soon as the link is used. */
    char secret[PORT_SECRET_BYTES], cookie[PORT_SECRET_BYTES];
    const struct port_opening *fourth = add("anna", 4, 6006, secret);
    assert_int_equal(fourth->web_port, third);
    assert_int_equal(runs_open("anna"), 2 * (1 + 2) + 3 + 4);
    assert_int_equal(reused("anna", 4), 3);
    assert_non_null(port_openings_enter(table, third, secret, HOST, HERE, now, cookie));
    assert_int_equal(runs_open("anna"), 2 * (1 + 2) + 4);
    assert_int_equal(reused("anna", 4), 0);
    assert_int_equal(web_port_of("anna", 3), second);
}

/* Pages stay in a browser after their opening has ended: their web port is not given to another run unnoticed. */
static void ended_openings_are_remembered(void **state)
{
    char secret[PORT_SECRET_BYTES], cookie[PORT_SECRET_BYTES];
    struct port_opening *opening = add("anna", 1, 6006, secret);
    const unsigned first = opening->web_port;
    assert_non_null(port_openings_enter(table, first, secret, HOST, HERE, now, cookie));
    port_opening_end(opening);
    assert_int_equal(reused("anna", 2), 0);
    const unsigned second = web_port_of("anna", 2);
    assert_int_not_equal(second, first);
    assert_int_equal(web_port_of("anna", 1), first);
    /* A link that nobody used leaves nothing. */
    const unsigned third = add("anna", 3, 6006, secret)->web_port;
    assert_true(third != first && third != second);
    now += PORT_LINK_SECONDS * SECOND;
    assert_int_equal(reused("anna", 4), 0);
    assert_int_equal(web_port_of("anna", 4), third);
    /* All are used. Those where something is open come last; the user has to agree, other users are not concerned. */
    assert_int_equal(reused("anna", 5), 2);
    assert_int_equal(reused("boris", 5), 0);
    now += PORT_SECONDS * SECOND;
    assert_int_equal(web_port_of("anna", 2), second);
    assert_int_equal(reused("anna", 5), 1);
    assert_int_equal(reused("anna", 4), 0);
    assert_int_equal(web_port_of("anna", 5), first);
    assert_int_equal(reused("anna", 1), 4);
    /* Where no more can be remembered, what was used longest ago is forgotten. */
    for (int i = 0; i < PORT_ORIGINS_MOST; i++) {
        char user[32];
        snprintf(user, sizeof user, "user-%d", i);
        web_port_of(user, 1);
        now += PORT_SECONDS / 100 * SECOND;
    }
    assert_int_equal(reused("anna", 6), 0);
    assert_int_equal(reused("user-0", 6), 0);
    web_port_of("user-4095", 2);
    web_port_of("user-4095", 3);
    assert_int_equal(reused("user-4095", 4), 1);
}

static void openings_are_listed_by_user(void **state)
{
    char secret[PORT_SECRET_BYTES];
    int64_t sum = 0;
    add("anna", 1, 6006, secret);
    add("anna", 20, 8888, secret);
    add("boris", 300, 6006, secret);
    port_openings_list(table, "anna", now, note_run, &sum);
    assert_int_equal(sum, 21);
}

static void a_user_cannot_fill_the_table(void **state)
{
    char secret[PORT_SECRET_BYTES], cookie[PORT_SECRET_BYTES];
    int64_t sum = 0;
    const struct port_opening *others = add("boris", 1000, 6006, secret);
    assert_non_null(port_openings_enter(table, others->web_port, secret, HOST, HERE, now, cookie));
    for (int i = 0; i < 2 * PORT_OPENINGS_MOST; i++) {
        char own[PORT_SECRET_BYTES];
        add("anna", 1, 6006, own);
        now -= SECOND; /* within the minute of a link */
    }
    port_openings_list(table, "anna", now, note_run, &sum);
    assert_int_equal(sum, PORT_OF_USER_MOST);
    assert_non_null(port_openings_find(table, others->web_port, cookie, HOST, HERE, now));
}

static void a_full_table_is_reported(void **state)
{
    char secret[PORT_SECRET_BYTES], user[32];
    struct identity who = {0};
    struct port_opening *opening;
    struct error error = {0};
    const struct port_target target = {.run = 1, .port = 1};
    for (int i = 0; i < PORT_OPENINGS_MOST; i++) {
        snprintf(user, sizeof user, "user-%d", i);
        add(user, 1, 6006, secret);
        now -= SECOND;
    }
    snprintf(who.user, sizeof who.user, "one-more");
    assert_int_equal(port_openings_add(table, &target, &who, HERE, now, &opening, secret, &error), WEFT_ERROR_STATE);
    assert_non_null(strstr(error.text, "weft forward"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_link_lets_in_once, begin, end),
        cmocka_unit_test_setup_teardown(a_link_gets_old, begin, end),
        cmocka_unit_test_setup_teardown(a_cookie_is_for_its_place, begin, end),
        cmocka_unit_test_setup_teardown(runs_are_kept_apart, begin, end),
        cmocka_unit_test_setup_teardown(ended_openings_are_remembered, begin, end),
        cmocka_unit_test_setup_teardown(openings_are_listed_by_user, begin, end),
        cmocka_unit_test_setup_teardown(a_user_cannot_fill_the_table, begin, end),
        cmocka_unit_test_setup_teardown(a_full_table_is_reported, begin, end),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
