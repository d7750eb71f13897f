/* SPDX-License-Identifier: Apache-2.0 */
/* Heads of requests and replies between a browser and a server in a run: cookies, origins, redirections. */
#include "platform/service/internal/port_head.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#define HOST "Host: example.org:8401\r\n"

static const struct port_ends plain = {.web_port = 8401, .run = 12, .node = 3, .port = 6006},
                              encrypted = {.web_port = 8401, .run = 12, .node = 3, .port = 6006, .encrypted = true};
static char head[8192];
static struct message request;

/* A request with these headers. */
static const struct message *ask(const char *line, const char *headers)
{
    struct error error = {0};
    unsigned code;
    snprintf(head, sizeof head, "%s HTTP/1.1\r\n" HOST "%s\r\n", line, headers);
    if (message_read_request(head, strlen(head), &request, &code, &error) != WEFT_OK)
        fail_msg("%s", error.text);
    return &request;
}

static void passed_on(const char *line, const char *headers, const char *expected)
{
    struct buffer out = {0};
    port_head_request(ask(line, headers), &encrypted, &out);
    assert_string_equal(buffer_string(&out), expected);
    buffer_free(&out);
}

static void requests_name_the_run_s_own_port(void **state)
{
    passed_on("GET /a?b=c", "Accept: */*\r\nConnection: keep-alive\r\nKeep-Alive: 5\r\nUpgrade: h2c\r\n",
              "GET /a?b=c HTTP/1.1\r\nHost: localhost:6006\r\nConnection: close\r\nAccept: */*\r\n\r\n");
    passed_on("POST /a",
              "Origin: https://example.org:8401\r\nReferer: https://example.org:8401/lab?x\r\nContent-Length: 3\r\n"
              "Expect: 100-continue\r\n",
              "POST /a HTTP/1.1\r\nHost: localhost:6006\r\nConnection: close\r\nOrigin: http://localhost:6006\r\n"
              "Referer: http://localhost:6006/lab?x\r\nContent-Length: 3\r\n\r\n");
    passed_on("GET /a", "Referer: https://example.org:8400/run.html?run=1\r\n",
              "GET /a HTTP/1.1\r\nHost: localhost:6006\r\nConnection: close\r\n\r\n");
    passed_on("GET /ws",
              "Connection: keep-alive, Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Key: abc\r\n"
              "Origin: https://example.org:8401\r\n",
              "GET /ws HTTP/1.1\r\nHost: localhost:6006\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n"
              "Origin: http://localhost:6006\r\nSec-WebSocket-Key: abc\r\n\r\n");
    /* Headers of this connection only; the framing stays, whatever they say. */
    passed_on("POST /a", "X-Hop: 1\r\nConnection: x-hop, content-length\r\nContent-Length: 3\r\n",
              "POST /a HTTP/1.1\r\nHost: localhost:6006\r\nConnection: close\r\nContent-Length: 3\r\n\r\n");
}

static void secrets_of_the_platform_are_not_passed_on(void **state)
{
#define BEGINNING "GET / HTTP/1.1\r\nHost: localhost:6006\r\nConnection: close\r\n"
    passed_on("GET /", "Cookie: weft_session_1=a; b=c;weft_port_8401=d; __Host-weft_port_8401=e\r\n",
              BEGINNING "Cookie: b=c\r\n\r\n");
    passed_on("GET /", "Cookie: weft_session_1=a\r\n", BEGINNING "\r\n");
    passed_on("GET /",
              "Cookie: weft_port_8401.12.3.6006.token=1; weft_port_8402.12.3.6006.token=2; WEFT_x=3; _xsrf=4 \r\n",
              BEGINNING "Cookie: token=1; _xsrf=4\r\n\r\n");
    passed_on("GET /",
              "Cookie: weft_port_8401.11.3.6006.a=1; weft_port_8401.12.2.6006.b=2; weft_port_8401.12.3.600.c=3; "
              "weft_port_8401.d=4; weft_port_8401.12.3.6006.weft_e=5; f=6\r\n",
              BEGINNING "Cookie: f=6\r\n\r\n");
    passed_on("GET /", "Cookie: ;; a ; =b\r\n", BEGINNING "Cookie: a; =b\r\n\r\n");
    passed_on("GET /", "Weft-Session: key\r\nAuthorization: Bearer weft_0123_abc\r\n", BEGINNING "\r\n");
    passed_on("GET /", "Authorization: token abc\r\n", BEGINNING "Authorization: token abc\r\n\r\n");
}

static void the_cookie_is_found(void **state)
{
    char name[PORT_COOKIE_BYTES], value[8];
    assert_string_equal(port_cookie_name(&plain, name), "weft_port_8401");
    assert_true(port_cookie_find(ask("GET /", "Cookie: a=b; weft_port_8401=abc\r\n"), name, 0, value, sizeof value));
    assert_string_equal(value, "abc");
    assert_true(port_cookie_find(ask("GET /", "Cookie: a=b\r\nCookie: weft_port_8401=1234567\r\n"), name, 0, value,
                                 sizeof value));
    assert_string_equal(value, "1234567");
    assert_false(port_cookie_find(ask("GET /", "Cookie: weft_port_8401=12345678\r\n"), name, 0, value, sizeof value));
    assert_false(port_cookie_find(ask("GET /", "Cookie: weft_port_84012=a; xweft_port_8401=b\r\n"), name, 0, value,
                                  sizeof value));
    assert_false(port_cookie_find(ask("GET /", "Cookie: weft_port_8401\r\n"), name, 0, value, sizeof value));
    assert_false(port_cookie_find(ask("GET /", ""), name, 0, value, sizeof value));
    /* Each of a name: one that a script has set for a path comes before the server's. */
#define TWO "Cookie: weft_port_8401=12345678; weft_port_8401=a; b=c\r\nCookie: weft_port_8401=d\r\n"
    assert_true(port_cookie_find(ask("GET /", TWO), name, 0, value, sizeof value));
    assert_string_equal(value, "a");
    assert_true(port_cookie_find(ask("GET /", TWO), name, 1, value, sizeof value));
    assert_string_equal(value, "d");
    assert_false(port_cookie_find(ask("GET /", TWO), name, 2, value, sizeof value));
    assert_string_equal(port_cookie_name(&encrypted, name), "__Host-weft_port_8401");
}

static bool is_foreign(const char *line, const char *headers)
{
    return port_head_foreign(ask(line, headers), &encrypted);
}

static void pages_of_other_origins_are_refused(void **state)
{
    assert_false(is_foreign("GET /", ""));
    assert_false(is_foreign("POST /", "Origin: https://example.org:8401\r\nSec-Fetch-Site: same-origin\r\n"));
    assert_false(is_foreign("GET /", "Sec-Fetch-Site: none\r\n"));
    assert_true(is_foreign("POST /", "Origin: http://example.org:8401\r\n"));
    assert_true(is_foreign("POST /", "Origin: https://example.org:8402\r\n"));
    assert_true(is_foreign("POST /", "Origin: https://example.org:8401/\r\n"));
    assert_true(is_foreign("POST /", "Origin: https://example.org:84011\r\n"));
    assert_true(is_foreign("POST /", "Origin: null\r\n"));
    assert_true(is_foreign("GET /a.js", "Sec-Fetch-Site: same-site\r\nSec-Fetch-Mode: no-cors\r\n"));
    /* Nor may a link on another page lead here. */
#define NAVIGATES "Sec-Fetch-Site: cross-site\r\nSec-Fetch-Mode: navigate\r\nSec-Fetch-Dest: "
    assert_true(is_foreign("GET /", NAVIGATES "document\r\n"));
    assert_true(is_foreign("GET /?stop=1", NAVIGATES "document\r\n"));
    assert_true(is_foreign("GET /lab", NAVIGATES "document\r\n"));
    assert_true(is_foreign("GET /", NAVIGATES "iframe\r\n"));
    assert_true(is_foreign("POST /", NAVIGATES "document\r\n"));
    assert_true(is_foreign("GET /sw.js", "Service-Worker: script\r\nSec-Fetch-Site: same-origin\r\n"));
#define UPGRADE "Connection: Upgrade\r\nUpgrade: WebSocket\r\n"
    assert_false(is_foreign("GET /", UPGRADE "Origin: https://example.org:8401\r\n"));
    assert_true(is_foreign("GET /", UPGRADE "Origin: https://example.com\r\n"));
    assert_true(is_foreign("GET /", UPGRADE));
}

static void replied(const char *text, const char *expected)
{
    struct buffer out = {0};
    struct message reply;
    struct error error = {0};
    snprintf(head, sizeof head, "%s\r\n", text);
    if (port_head_reply(head, strlen(head), false, &plain, &reply, &out, &error) != WEFT_OK)
        fail_msg("%s", error.text);
    assert_string_equal(buffer_string(&out), expected);
    buffer_free(&out);
}

static void replies_keep_to_their_origin(void **state)
{
#define OPENER        "Cross-Origin-Opener-Policy: same-origin-allow-popups\r\n"
#define REPLY(middle) "HTTP/1.1 200 OK\r\nConnection: close\r\n" middle OPENER "\r\n"
    replied("HTTP/1.0 200 OK\r\nServer: x\r\nContent-Length: 3\r\nConnection: keep-alive\r\n",
            REPLY("Server: x\r\nContent-Length: 3\r\n"));
    replied("HTTP/1.1 404 Not There\r\n", "HTTP/1.1 404 Not There\r\nConnection: close\r\n" OPENER "\r\n");
    replied("HTTP/1.1 200\r\n", "HTTP/1.1 200\r\nConnection: close\r\n" OPENER "\r\n");
    replied("HTTP/1.1 200 OK\r\ncross-origin-opener-policy: same-origin\r\n",
            "HTTP/1.1 200 OK\r\nConnection: close\r\ncross-origin-opener-policy: same-origin\r\n\r\n");
    replied("HTTP/1.1 200 OK\r\nClear-Site-Data: \"cookies\"\r\nStrict-Transport-Security: max-age=1\r\n"
            "Alt-Svc: x\r\nService-Worker-Allowed: /\r\nKeep-Alive: 5\r\n",
            REPLY(""));
    replied("HTTP/1.1 100 Continue\r\n", "");
    replied(
        "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Accept: y\r\n",
        "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n"
        "Sec-WebSocket-Accept: y\r\n\r\n");
}

static void cookies_of_runs_are_kept_apart(void **state)
{
#define SET(cookie) REPLY("Set-Cookie: " cookie "\r\n")
    replied("HTTP/1.1 200 OK\r\nSet-Cookie: _xsrf=1; Path=/\r\n", SET("_xsrf=1; Path=/"));
    replied("HTTP/1.1 200 OK\r\nSet-Cookie: login=1;Path=/; httponly; Domain=example.org; SameSite=Lax\r\n",
            SET("weft_port_8401.12.3.6006.login=1; Path=/; httponly; SameSite=Lax"));
    replied("HTTP/1.1 200 OK\r\nSet-Cookie: a=HttpOnly; x\r\n", SET("a=HttpOnly; x"));
    replied("HTTP/1.1 200 OK\r\nSet-Cookie: weft_session_1=a\r\nSet-Cookie: __Host-weft_port_8401=a\r\n"
            "Set-Cookie: __secure-WEFT_port_8401=a\r\nSet-Cookie:  weft_port_8402.a=b\r\nSet-Cookie: =a\r\n"
            "Set-Cookie: a\r\nSet-Cookie: \r\n",
            REPLY(""));
}

static void redirections_stay(void **state)
{
#define TO(place) REPLY("Location: " place "\r\n")
    static const char *const cases[][2] = {{"http://localhost:6006/lab?x", TO("/lab?x")},
                                           {"http://127.0.0.1:6006/", TO("/")},
                                           {"http://[::1]:6006", TO("/")},
                                           {"http://localhost:6006//example.com", TO("/")},
                                           {"http://localhost:60066/a", TO("http://localhost:60066/a")},
                                           {"http://localhost", TO("http://localhost")},
                                           {"/lab", TO("/lab")},
                                           {"https://example.com/", TO("https://example.com/")}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char text[128];
        snprintf(text, sizeof text, "HTTP/1.1 200 OK\r\nLocation: %s\r\n", cases[i][0]);
        replied(text, cases[i][1]);
    }
}

static void what_is_not_http_is_refused(void **state)
{
    static const char *const wrong[] = {"",
                                        "\r\n",
                                        "hello\r\n\r\n",
                                        "HTTP/2 200\r\n\r\n",
                                        "HTTP/1.1 20\r\n\r\n",
                                        "HTTP/1.1 200 OK\r\nno colon\r\n\r\n",
                                        "HTTP/1.1 200 OK\r\nA: b\r\n folded\r\n\r\n",
                                        "HTTP/1.1 200 OK\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n",
                                        "HTTP/1.1 200 OK\nA: b\n\n\r\n\r\n"};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        struct buffer out = {0};
        struct message reply;
        snprintf(head, sizeof head, "%s", wrong[i]);
        assert_int_equal(port_head_reply(head, strlen(head), false, &plain, &reply, &out, NULL), WEFT_ERROR_DATA);
        assert_int_equal(buffer_size(&out), 0);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(requests_name_the_run_s_own_port),
        cmocka_unit_test(secrets_of_the_platform_are_not_passed_on),
        cmocka_unit_test(the_cookie_is_found),
        cmocka_unit_test(pages_of_other_origins_are_refused),
        cmocka_unit_test(replies_keep_to_their_origin),
        cmocka_unit_test(cookies_of_runs_are_kept_apart),
        cmocka_unit_test(redirections_stay),
        cmocka_unit_test(what_is_not_http_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
