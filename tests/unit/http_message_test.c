/* SPDX-License-Identifier: Apache-2.0 */
/* Heads of messages, bodies in chunks and texts of paths, read strictly and in whatever pieces they come. */
#include "platform/http/message.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static char head[8192];

static weft_status read_request(const char *text, struct message *message, unsigned *code)
{
    snprintf(head, sizeof head, "%s", text);
    *code = 0;
    return message_read_request(head, strlen(head), message, code, NULL);
}

static void requests_are_read(void **state)
{
    struct message message;
    unsigned code;
    assert_int_equal(
        read_request("POST /a?b=c HTTP/1.1\r\nHOST: x\r\nEmpty:\r\ncontent-length:  12 \t\r\n\r\n", &message, &code),
        WEFT_OK);
    assert_string_equal(message.method, "POST");
    assert_string_equal(message.target, "/a?b=c");
    assert_string_equal(message_header(&message, "host"), "x");
    assert_string_equal(message_header(&message, "EMPTY"), "");
    assert_null(message_header(&message, "other"));
    assert_int_equal(message.framing, MESSAGE_LENGTH);
    assert_int_equal(message.length, 12);
    assert_true(message.keep_alive);
    assert_int_equal(read_request("GET / HTTP/1.1\r\nHost: x\r\nConnection: Upgrade, CLOSE\r\n\r\n", &message, &code),
                     WEFT_OK);
    assert_false(message.keep_alive);
    assert_int_equal(read_request("GET / HTTP/1.0\r\n\r\n", &message, &code), WEFT_OK);
    assert_false(message.keep_alive);
    assert_int_equal(read_request("GET / HTTP/1.0\r\nConnection: keep-alive\r\n\r\n", &message, &code), WEFT_OK);
    assert_true(message.keep_alive);
    assert_int_equal(message.framing, MESSAGE_NO_BODY);
}

static void a_whole_address_is_its_path(void **state)
{
    static const char *const cases[][2] = {{"http://x/a?b=c", "/a?b=c"},
                                           {"HTTP://X", "/"},
                                           {"http://x?b", "/?b"},
                                           {"https://x//a", "//a"},
                                           {"/http://x", "/http://x"}};
    struct message message;
    unsigned code;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char text[128];
        snprintf(text, sizeof text, "GET %s HTTP/1.1\r\nHost: x\r\n\r\n", cases[i][0]);
        assert_int_equal(read_request(text, &message, &code), WEFT_OK);
        assert_string_equal(message.target, cases[i][1]);
        assert_string_equal(message.method, "GET");
    }
    assert_int_equal(read_request("GET http://x:1/a HTTP/1.0\r\n\r\n", &message, &code), WEFT_OK);
    assert_string_equal(message.target, "/a");
}

static void wrong_requests_are_refused(void **state)
{
    static const struct {
        const char *text;
        unsigned code;
    } cases[] = {
        {"GET / HTTP/1.1\r\n\r\n", 400},
        {"GET / HTTP/1.1\r\nHost: a\r\nhost: b\r\n\r\n", 400},
        {"GET / HTTP/1.1\r\nHost: a\r\n\r\nmore", 400},
        {"GET / HTTP/1.1\r\nHost: a\r\n", 400},
        {"G@T / HTTP/1.1\r\nHost: a\r\n\r\n", 400},
        {"GET a HTTP/1.1\r\nHost: a\r\n\r\n", 400},
        {"GET http://a/ HTTP/1.1\r\nHost: b\r\n\r\n", 400},
        {"GET http://a/ HTTP/1.1\r\n\r\n", 400},
        {"GET http:///a HTTP/1.1\r\nHost: a\r\n\r\n", 400},
        {"GET http:// HTTP/1.1\r\nHost: a\r\n\r\n", 400},
        {"GET http://b@a/ HTTP/1.1\r\nHost: a\r\n\r\n", 400},
        {"GET ftp://a/ HTTP/1.1\r\nHost: a\r\n\r\n", 400},
        {"GET /#x HTTP/1.1\r\nHost: a\r\n\r\n", 400},
        {"GET /\\ HTTP/1.1\r\nHost: a\r\n\r\n", 400},
        {"GET / HTTP/1.1 \r\nHost: a\r\n\r\n", 400},
        {"GET / http/1.1\r\nHost: a\r\n\r\n", 400},
        {"GET / HTTP/1.2\r\nHost: a\r\n\r\n", 505},
        {"GET / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n", 400},
        {"GET / HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n", 400},
        {"GET / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: \r\n\r\n", 501},
        {"GET / HTTP/1.1\r\nHost: a\r\nContent-Length: 1e3\r\n\r\n", 400},
        {"GET / HTTP/1.1\r\nHost: a\r\n: b\r\n\r\n", 400},
        {"GET / HTTP/1.1\r\nHost: a\r\nA\x01: b\r\n\r\n", 400},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct message message;
        unsigned code;
        assert_int_equal(read_request(cases[i].text, &message, &code), WEFT_ERROR_DATA);
        assert_int_equal(code, cases[i].code);
    }
}

static weft_status read_reply(const char *text, bool to_head, struct message *message)
{
    snprintf(head, sizeof head, "%s", text);
    return message_read_reply(head, strlen(head), to_head, message, NULL);
}

static void replies_are_read(void **state)
{
    struct message message;
    assert_int_equal(read_reply("HTTP/1.1 200 OK\r\n\r\n", false, &message), WEFT_OK);
    assert_int_equal(message.framing, MESSAGE_UNTIL_CLOSE);
    assert_false(message.keep_alive);
    assert_int_equal(read_reply("HTTP/1.1 204\r\nContent-Length: 5\r\n\r\n", false, &message), WEFT_OK);
    assert_int_equal(message.framing, MESSAGE_NO_BODY);
    assert_int_equal(read_reply("HTTP/1.1 404 Not Found\r\nContent-Length: 5\r\n\r\n", false, &message), WEFT_OK);
    assert_int_equal(message.status, 404);
    assert_int_equal(message.length, 5);
    assert_int_equal(read_reply("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n", true, &message), WEFT_OK);
    assert_int_equal(message.framing, MESSAGE_NO_BODY);
    static const char *const wrong[] = {"HTTP/1.1 20 OK\r\n\r\n",
                                        "HTTP/1.1 2000 OK\r\n\r\n",
                                        "HTTP/1.1\r\n\r\n",
                                        "HTTP/2.0 200 OK\r\n\r\n",
                                        "ICY 200 OK\r\n\r\n",
                                        "HTTP/1.1 099 OK\r\n\r\n",
                                        "\r\n"};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++)
        assert_int_equal(read_reply(wrong[i], false, &message), WEFT_ERROR_DATA);
}

/* Read a body given in pieces of `step` bytes: what it holds, or NULL where it is wrong or does not end. */
static const char *read_chunks(const char *text, size_t step, size_t *rest)
{
    static char body[256];
    struct chunks chunks = {0};
    size_t size = strlen(text), length = 0;
    for (size_t at = 0; at < size;) {
        size_t piece = size - at < step ? size - at : step, taken, data_size;
        const char *data;
        enum chunks_result result = chunks_read(&chunks, text + at, piece, &taken, &data, &data_size);
        at += taken;
        if (result == CHUNKS_DATA) {
            memcpy(body + length, data, data_size);
            length += data_size;
        } else if (result != CHUNKS_MORE) {
            body[length] = '\0';
            *rest = size - at;
            return result == CHUNKS_END ? body : NULL;
        }
    }
    return NULL;
}

static void chunks_in_any_pieces(void **state)
{
    size_t rest = 0;
    for (size_t step = 1; step < 40; step++) {
        const char *body =
            read_chunks("3\r\nabc\r\n00a;x=\"y\"\r\n0123456789\r\n0\r\nT: u\r\nV: w\r\n\r\nnext", step, &rest);
        assert_non_null(body);
        assert_string_equal(body, "abc0123456789");
        if (step == 1)
            assert_int_equal(rest, 4);
        assert_null(read_chunks("3\r\nabcd\r\n0\r\n\r\n", step, &rest));
        assert_null(read_chunks("3\nabc\r\n0\r\n\r\n", step, &rest));
        assert_null(read_chunks("fffffffffffffffff\r\n", step, &rest));
        assert_null(read_chunks("0\r\n\n", step, &rest));
    }
}

static void texts_are_decoded(void **state)
{
    static const char *const good[][2] = {{"a%20b", "a b"}, {"%E2%82%ac", "\xe2\x82\xac"}, {"", ""}, {"%2F%25", "/%"}};
    static const char *const bad[] = {"%",   "%1",     "%zz",       "%00",    "a\x01",       "%7f",
                                      "%ff", "%c0%80", "%ed%a0%80", "%c2%85", "%f4%90%80%80"};
    char text[64];
    for (size_t i = 0; i < sizeof good / sizeof *good; i++) {
        snprintf(text, sizeof text, "%s", good[i][0]);
        assert_true(message_decode(text, strlen(text), false));
        assert_string_equal(text, good[i][1]);
    }
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        snprintf(text, sizeof text, "%s", bad[i]);
        assert_false(message_decode(text, strlen(text), false));
    }
    snprintf(text, sizeof text, "a+b");
    assert_true(message_decode(text, 3, true));
    assert_string_equal(text, "a b");
}

static void lists_have_words(void **state)
{
    assert_true(message_has_word("a, b ,C", "c"));
    assert_true(message_has_word("close", "close"));
    assert_false(message_has_word("closed, xclose", "close"));
    assert_false(message_has_word(NULL, "close"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(requests_are_read),          cmocka_unit_test(a_whole_address_is_its_path),
        cmocka_unit_test(wrong_requests_are_refused), cmocka_unit_test(replies_are_read),
        cmocka_unit_test(chunks_in_any_pieces),       cmocka_unit_test(texts_are_decoded),
        cmocka_unit_test(lists_have_words),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
