/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Who does not belong to the rendezvous: strangers, wrong secrets, other versions, what was recorded and what is no endpoint info
 * are reported by messages at both ends, and disturb no more than they must.
 */
#include "rendezvous_joiners.h"

#include "core/control/rendezvous/internal/wire.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/socket.h>

/* The same, but recv() waits. */
static int patient_connection(const struct rendezvous_point *place)
{
    int descriptor = raw_connection(place);
    assert_int_equal(fcntl(descriptor, F_SETFL, 0), 0);
    return descriptor;
}

/* Whether the other end closes within a second. */
static bool closes(int descriptor)
{
    char bytes[256];
    for (int i = 0; i < 100; i++) {
        struct pollfd wait = {descriptor, POLLIN, 0};
        poll(&wait, 1, 10);
        ssize_t n = recv(descriptor, bytes, sizeof bytes, MSG_DONTWAIT);
        if (n == 0 || (n < 0 && wait.revents & (POLLHUP | POLLERR)))
            return true;
    }
    return false;
}

static void strangers_disturb_nothing(void **state)
{
    static const char *const words[] = {"GET / HTTP/1.1\r\nHost: x\r\n\r\n", "WEFT", "\x16\x03\x01\x02", ""};
    struct rendezvous_point place;
    struct joiner joined[2];
    int strangers[4];
    place_open(&place, 2, 20, false);
    guest_start(&joined[0], &place, 0, 2, "right", 20);
    for (int i = 0; i < 4; i++) {
        strangers[i] = raw_connection(&place);
        assert_int_equal(send(strangers[i], words[i], strlen(words[i]), MSG_NOSIGNAL), (ssize_t)strlen(words[i]));
    }
    assert_true(closes(strangers[0]));
    assert_true(closes(strangers[2]));
    guest_start(&joined[1], &place, 1, 2, "right", 20);
    assert_int_equal(guest_end(&joined[0]), WEFT_OK);
    assert_int_equal(guest_end(&joined[1]), WEFT_OK);
    place_close(&place, false);
    assert_string_equal(place.reports, "");
    for (int i = 0; i < 4; i++)
        close(strangers[i]);
}

/* Strangers that hold connections open, silent or with the first bytes of a greeting, keep nobody out. */
static void half_open_connections_block_nobody(void **state)
{
    enum { STRANGERS = 300 };
    struct rendezvous_point place;
    struct joiner joined[2];
    static int strangers[STRANGERS];
    place_open(&place, 2, 20, false);
    for (int i = 0; i < STRANGERS; i++) {
        strangers[i] = raw_connection(&place);
        if (i % 2)
            assert_int_equal(send(strangers[i], "WEFT\r\n", 6, MSG_NOSIGNAL), 6);
    }
    for (uint32_t i = 0; i < 2; i++)
        guest_start(&joined[i], &place, i, 2, "right", 5); /* less than a greeting may take */
    for (uint32_t i = 0; i < 2; i++) {
        assert_int_equal(guest_end(&joined[i]), WEFT_OK);
        assert_string_equal(joined[i].error.text, "");
    }
    place_close(&place, false);
    for (int i = 0; i < STRANGERS; i++)
        close(strangers[i]);
}

/* What a joiner said, recorded by somebody on the way. */
struct wiretap {
    const struct rendezvous_point *place;
    int listener, socket, server;
    uint16_t port;
    uint8_t said[4096];
    size_t size;
    pthread_t thread;
};

static void *tap(void *argument)
{
    struct wiretap *wire = argument;
    uint8_t bytes[4096];
    struct pollfd caller = {wire->listener, POLLIN, 0};
    poll(&caller, 1, 5000);
    wire->socket = accept(wire->listener, NULL, NULL);
    wire->server = raw_connection(wire->place);
    struct pollfd ends[2] = {{wire->socket, POLLIN, 0}, {wire->server, POLLIN, 0}};
    while (poll(ends, 2, 5000) > 0) {
        for (int i = 0; i < 2; i++) {
            ssize_t n = ends[i].revents ? recv(ends[i].fd, bytes, sizeof bytes, MSG_DONTWAIT) : -1;
            if (n == 0)
                return NULL;
            if (n < 0)
                continue;
            if (i == 0 && wire->size + (size_t)n <= sizeof wire->said) {
                memcpy(wire->said + wire->size, bytes, (size_t)n);
                wire->size += (size_t)n;
            }
            send(ends[!i].fd, bytes, (size_t)n, MSG_NOSIGNAL);
        }
    }
    return NULL;
}

/* A whole visit, played again word for word, and a server's own proof sent back to it, seat nobody. */
static void a_recorded_visit_cannot_be_replayed(void **state)
{
    struct rendezvous_point place;
    struct wiretap wire = {.place = &place};
    struct joiner joiner;
    char tapped[64];
    place_open(&place, 1, 20, true);
    assert_int_equal(address_listen("127.0.0.1", 0, &wire.listener, &wire.port, NULL), WEFT_OK);
    pthread_create(&wire.thread, NULL, tap, &wire);
    struct rendezvous_point by_wire = place;
    snprintf(tapped, sizeof tapped, "127.0.0.1:%u", wire.port);
    snprintf(by_wire.address, sizeof by_wire.address, "%s", tapped);
    guest_start(&joiner, &by_wire, 0, 1, "right", 20);
    assert_int_equal(guest_end(&joiner), WEFT_OK);
    pthread_join(wire.thread, NULL);
    assert_true(wire.size > STREAM_HELLO_BYTES + SECRET_BYTES);

    int again = patient_connection(&place);
    uint8_t answer[4096];
    size_t heard = 0;
    assert_int_equal(send(again, wire.said, wire.size, MSG_NOSIGNAL), (ssize_t)wire.size);
    for (ssize_t n; (n = recv(again, answer + heard, sizeof answer - heard, 0)) > 0;)
        heard += (size_t)n;
    assert_true(heard == 0 || heard == STREAM_REPLY_BYTES); /* the challenge that anybody gets, and no table */
    assert_true(reported(&place, "its job secret differs"));
    close(again);

    int mirror = patient_connection(&place);
    assert_int_equal(send(mirror, wire.said, STREAM_HELLO_BYTES, MSG_NOSIGNAL), STREAM_HELLO_BYTES);
    assert_int_equal(recv(mirror, answer, STREAM_REPLY_BYTES, MSG_WAITALL), STREAM_REPLY_BYTES);
    assert_int_equal(send(mirror, answer + STREAM_REPLY_BYTES - SECRET_BYTES, SECRET_BYTES, MSG_NOSIGNAL),
                     SECRET_BYTES);
    assert_true(closes(mirror));
    close(mirror);
    place_close(&place, true);
    close(wire.listener);
    close(wire.socket);
    close(wire.server);
}

/* A rank that holds the secret and then sends something that is no endpoint info is named; the others meet without it. */
static void a_malformed_card_is_told(void **state)
{
    static const struct {
        uint32_t size, kind;
    } headers[] = {{8, 77},
                   {8, RENDEZVOUS_ENDPOINTS},
                   {0, RENDEZVOUS_JOIN},
                   {8, RENDEZVOUS_JOIN},
                   {20, RENDEZVOUS_JOIN},
                   {3, RENDEZVOUS_WITHDRAWN},
                   {RENDEZVOUS_BLOB_MOST, RENDEZVOUS_JOIN},
                   {UINT32_MAX, RENDEZVOUS_JOIN},
                   {8, 1u << 20},
                   {STREAM_FRAME_MOST, RENDEZVOUS_JOIN} /* which is not waited for */};
    for (size_t i = 0; i < sizeof headers / sizeof *headers; i++) {
        struct rendezvous_point place;
        struct joiner joiner;
        struct stream stream;
        uint8_t bytes[8];
        place_open(&place, 1, 20, true);
        const struct stream_identity identity = {place.secret, STREAM_RENDEZVOUS, 0, 1};
        assert_int_equal(stream_begin(&stream, raw_connection(&place), false, &identity, NULL), WEFT_OK);
        while (stream.state != STREAM_OPEN) {
            assert_int_equal(stream_write(&stream, NULL), WEFT_OK);
            assert_int_equal(stream_read(&stream, NULL), WEFT_OK);
        }
        memcpy(bytes, &headers[i].size, 4);
        memcpy(bytes + 4, &headers[i].kind, 4);
        buffer_put(&stream.out, bytes, sizeof bytes);
        if (headers[i].size <= RENDEZVOUS_BLOB_MOST) {
            static const uint8_t payload[RENDEZVOUS_BLOB_MOST];
            buffer_put(&stream.out, payload, headers[i].size);
        }
        while (stream_wants_write(&stream))
            assert_int_equal(stream_write(&stream, NULL), WEFT_OK);
        assert_true(reported(&place, "sent malformed endpoint info: its connection was ended"));
        assert_true(closes(stream.descriptor));
        stream_end(&stream);
        guest_start(&joiner, &place, 0, 1, "right", 20);
        assert_int_equal(guest_end(&joiner), WEFT_OK);
        place_close(&place, true);
    }
}

static void another_secret_is_told_at_both_ends(void **state)
{
    struct rendezvous_point place;
    struct joiner joined[2], wrong;
    char host[64], words[256];
    address_host_name(host, sizeof host);
    place_open(&place, 2, 20, false);
    guest_start(&joined[0], &place, 0, 2, "right", 20);
    guest_start(&wrong, &place, 1, 2, "wrong", 20);
    assert_int_equal(guest_end(&wrong), WEFT_ERROR_RENDEZVOUS);
    snprintf(words, sizeof words, "host %s (127.0.0.1:%u) has a different job secret than rank 1 on host %s", host,
             place.port, host);
    assert_non_null(strstr(wrong.error.text, words));
    snprintf(words, sizeof words, "a process on host %s", host);
    assert_true(reported(&place, words));
    assert_true(reported(&place, "that claims rank 1: its job secret differs"));
    guest_start(&joined[1], &place, 1, 2, "right", 20);
    assert_int_equal(guest_end(&joined[0]), WEFT_OK);
    assert_int_equal(guest_end(&joined[1]), WEFT_OK);
    place_close(&place, false);
}

/* A hello of version 7, from host "elder". */
static void make_old_hello(uint8_t hello[STREAM_HELLO_BYTES])
{
    static const uint8_t magic[8] = {'W', 'E', 'F', 'T', '\r', '\n', 0x1a, '\n'};
    memset(hello, 0, STREAM_HELLO_BYTES);
    memcpy(hello, magic, sizeof magic);
    hello[8] = 7;
    memcpy(hello + 12, "9.9.9", 5);
    memcpy(hello + 32, "elder", 5);
}

static void another_version_is_told_at_both_ends(void **state)
{
    struct rendezvous_point place;
    uint8_t hello[STREAM_HELLO_BYTES], answer[STREAM_PREFIX_BYTES];
    place_open(&place, 2, 20, true);
    /* The server's end. */
    int descriptor = raw_connection(&place);
    make_old_hello(hello);
    assert_int_equal(send(descriptor, hello, sizeof hello, MSG_NOSIGNAL), sizeof hello);
    assert_true(reported(&place, "host elder runs Weft 9.9.9 (protocol 7)"));
    struct pollfd wait = {descriptor, POLLIN, 0};
    assert_int_equal(poll(&wait, 1, 2000), 1);
    assert_int_equal(recv(descriptor, answer, sizeof answer, 0), sizeof answer);
    assert_memory_equal(answer, hello, 8);
    close(descriptor);
    place_close(&place, true);
    /* The client's end. */
    struct stream stream;
    struct error error = {0};
    uint8_t secret[SECRET_BYTES] = {0};
    const struct stream_identity identity = {secret, STREAM_RENDEZVOUS, 1, 2};
    assert_int_equal(stream_begin(&stream, -1, false, &identity, NULL), WEFT_OK);
    assert_int_equal(stream_feed(&stream, hello, STREAM_PREFIX_BYTES, &error), WEFT_ERROR_RENDEZVOUS);
    assert_non_null(strstr(error.text, "host elder runs Weft 9.9.9 (protocol 7) but host "));
    assert_int_equal(stream.state, STREAM_REFUSED);
    stream_end(&stream);
}

static void what_is_no_weft_is_told(void **state)
{
    struct rendezvous_point place;
    struct joiner joiner;
    memset(&place, 0, sizeof place);
    assert_int_equal(address_listen("127.0.0.1", 0, &place.listener, &place.port, NULL), WEFT_OK);
    snprintf(place.address, sizeof place.address, "127.0.0.1:%u", place.port);
    guest_start(&joiner, &place, 1, 2, "right", 20);
    struct pollfd wait = {place.listener, POLLIN, 0};
    assert_int_equal(poll(&wait, 1, 5000), 1);
    int descriptor = accept(place.listener, NULL, NULL);
    assert_int_equal(send(descriptor, "220 smtp ready\r\n", 16, MSG_NOSIGNAL), 16);
    assert_int_equal(guest_end(&joiner), WEFT_ERROR_RENDEZVOUS);
    assert_non_null(strstr(joiner.error.text, "is not a Weft process"));
    close(descriptor);
    close(place.listener);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(strangers_disturb_nothing),
        cmocka_unit_test(half_open_connections_block_nobody),
        cmocka_unit_test(a_recorded_visit_cannot_be_replayed),
        cmocka_unit_test(a_malformed_card_is_told),
        cmocka_unit_test(another_secret_is_told_at_both_ends),
        cmocka_unit_test(another_version_is_told_at_both_ends),
        cmocka_unit_test(what_is_no_weft_is_told),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
