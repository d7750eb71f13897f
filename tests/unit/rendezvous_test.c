/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The meeting by TCP: who comes gets all cards; strangers, wrong secrets, other versions, contradictions and absences
 * are told in sentences, at both ends, and disturb no more than they must.
 */
#include "base/clock.h"
#include "control/address.h"
#include "control/rendezvous.h"
#include "control/rendezvous_wire.h"
#include "control/stream.h"
#include "control/tree.h"

#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cmocka.h>

#define GUESTS_MOST 40

/* A server in a thread, and what it said. */
struct meeting_place {
    struct rendezvous_server server;
    uint8_t secret[SECRET_BYTES];
    int listener;
    uint16_t port;
    char address[64];
    pthread_t thread;
    weft_status status;
    struct error error;
    pthread_mutex_t lock;
    char reports[4096];
};

static void report(void *context, const char *sentence)
{
    struct meeting_place *place = context;
    pthread_mutex_lock(&place->lock);
    strncat(place->reports, sentence, sizeof place->reports - strlen(place->reports) - 2);
    strcat(place->reports, "\n");
    pthread_mutex_unlock(&place->lock);
}

static bool reported(struct meeting_place *place, const char *words)
{
    for (int i = 0; i < 200; i++) {
        pthread_mutex_lock(&place->lock);
        bool found = strstr(place->reports, words) != NULL;
        pthread_mutex_unlock(&place->lock);
        if (found)
            return true;
        usleep(10000);
    }
    return false;
}

static void *serve(void *argument)
{
    struct meeting_place *place = argument;
    place->status = rendezvous_serve(place->listener, &place->server, &place->error);
    return NULL;
}

static void place_prepare(struct meeting_place *place, uint32_t ranks, double limit, bool again)
{
    memset(place, 0, sizeof *place);
    pthread_mutex_init(&place->lock, NULL);
    assert_int_equal(secret_from_text("right", place->secret, NULL), WEFT_OK);
    assert_int_equal(address_listen("127.0.0.1", 0, &place->listener, &place->port, NULL), WEFT_OK);
    snprintf(place->address, sizeof place->address, "127.0.0.1:%u", place->port);
    place->server = (struct rendezvous_server){.ranks = ranks,
                                               .secret = place->secret,
                                               .limit_seconds = limit,
                                               .again = again,
                                               .stop = eventfd(0, EFD_CLOEXEC),
                                               .report = report,
                                               .context = place};
}

static void place_open(struct meeting_place *place, uint32_t ranks, double limit, bool again)
{
    place_prepare(place, ranks, limit, again);
    pthread_create(&place->thread, NULL, serve, place);
}

static void place_open_counted(struct meeting_place *place, uint32_t ranks, double limit, struct stream_counts *counts)
{
    place_prepare(place, ranks, limit, false);
    place->server.counts = counts;
    pthread_create(&place->thread, NULL, serve, place);
}

static void place_close(struct meeting_place *place, bool stop)
{
    if (stop)
        eventfd_write(place->server.stop, 1);
    pthread_join(place->thread, NULL);
    close(place->listener);
    close(place->server.stop);
}

/* A rank that comes, in a thread. */
struct guest {
    struct rendezvous_client client;
    uint8_t secret[SECRET_BYTES];
    uint64_t card;
    pthread_t thread;
    weft_status status;
    struct error error;
    struct rendezvous_result result;
};

static void *come(void *argument)
{
    struct guest *guest = argument;
    struct rendezvous *rendezvous = NULL;
    guest->status = rendezvous_open(&guest->client, &rendezvous, &guest->error);
    if (guest->status == WEFT_OK)
        guest->status =
            rendezvous_join(rendezvous, NULL, &guest->card, sizeof guest->card, &guest->result, &guest->error);
    rendezvous_close(rendezvous);
    return NULL;
}

static void guest_prepare(struct guest *guest, const struct meeting_place *place, uint32_t rank, uint32_t ranks,
                          const char *secret, double limit)
{
    memset(guest, 0, sizeof *guest);
    guest->card = 100 + rank;
    assert_int_equal(secret_from_text(secret, guest->secret, NULL), WEFT_OK);
    guest->client = (struct rendezvous_client){.addresses = place->address,
                                               .rank = rank,
                                               .ranks = ranks,
                                               .secret = guest->secret,
                                               .limit_seconds = limit,
                                               .stop = -1};
}

static void guest_start(struct guest *guest, const struct meeting_place *place, uint32_t rank, uint32_t ranks,
                        const char *secret, double limit)
{
    guest_prepare(guest, place, rank, ranks, secret, limit);
    pthread_create(&guest->thread, NULL, come, guest);
}

/* A rank that knows its place among those of its node. */
static void guest_start_in_node(struct guest *guest, const struct meeting_place *place, uint32_t rank, uint32_t ranks,
                                uint32_t per_node, double limit)
{
    guest_prepare(guest, place, rank, ranks, "right", limit);
    guest->client.node = rank / per_node;
    guest->client.local_rank = rank % per_node;
    guest->client.local_ranks = per_node;
    pthread_create(&guest->thread, NULL, come, guest);
}

static weft_status guest_end(struct guest *guest)
{
    pthread_join(guest->thread, NULL);
    free(guest->result.blobs);
    return guest->status;
}

static int raw_connection(const struct meeting_place *place)
{
    int descriptor = -1;
    assert_int_equal(address_connect("127.0.0.1", place->port, 5, &descriptor, NULL, NULL), WEFT_OK);
    return descriptor;
}

/* The same, but recv() waits. */
static int patient_connection(const struct meeting_place *place)
{
    int descriptor = raw_connection(place);
    assert_int_equal(fcntl(descriptor, F_SETFL, 0), 0);
    return descriptor;
}

/* What a leader says that brings some ranks with cards of 8 bytes. */
static void put_come(struct stream *stream, uint32_t first, uint32_t count)
{
    struct buffer payload = {0};
    buffer_put_u32(&payload, 0);
    buffer_put_u32(&payload, 8);
    buffer_put_text(&payload, "127.0.0.1:9");
    buffer_put_u32(&payload, first);
    buffer_put_u32(&payload, count);
    stream_put(stream, RENDEZVOUS_COME, buffer_begin(&payload), buffer_size(&payload));
    buffer_free(&payload);
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

static void all_get_all_cards(void **state)
{
    static struct guest guests[GUESTS_MOST];
    struct meeting_place place;
    uint8_t first[SECRET_BYTES];
    place_open(&place, GUESTS_MOST, 20, true);
    for (int round = 0; round < 2; round++) {
        for (uint32_t rank = 0; rank < GUESTS_MOST; rank++)
            guest_start(&guests[rank], &place, rank, GUESTS_MOST, "right", 20);
        for (uint32_t rank = 0; rank < GUESTS_MOST; rank++) {
            pthread_join(guests[rank].thread, NULL);
            assert_string_equal(guests[rank].error.text, "");
            for (uint32_t i = 0; i < GUESTS_MOST; i++)
                assert_int_equal(((uint64_t *)guests[rank].result.blobs)[i], 100 + i);
            assert_memory_equal(guests[rank].result.session, guests[0].result.session, SECRET_BYTES);
            free(guests[rank].result.blobs);
        }
        if (round == 0)
            memcpy(first, guests[0].result.session, SECRET_BYTES);
    }
    assert_memory_not_equal(first, guests[0].result.session, SECRET_BYTES);
    place_close(&place, true);
}

static void strangers_disturb_nothing(void **state)
{
    static const char *const words[] = {"GET / HTTP/1.1\r\nHost: x\r\n\r\n", "WEFT", "\x16\x03\x01\x02", ""};
    struct meeting_place place;
    struct guest guests[2];
    int strangers[4];
    place_open(&place, 2, 20, false);
    guest_start(&guests[0], &place, 0, 2, "right", 20);
    for (int i = 0; i < 4; i++) {
        strangers[i] = raw_connection(&place);
        assert_int_equal(send(strangers[i], words[i], strlen(words[i]), MSG_NOSIGNAL), (ssize_t)strlen(words[i]));
    }
    assert_true(closes(strangers[0]));
    assert_true(closes(strangers[2]));
    guest_start(&guests[1], &place, 1, 2, "right", 20);
    assert_int_equal(guest_end(&guests[0]), WEFT_OK);
    assert_int_equal(guest_end(&guests[1]), WEFT_OK);
    place_close(&place, false);
    assert_string_equal(place.reports, "");
    for (int i = 0; i < 4; i++)
        close(strangers[i]);
}

/* Strangers that hold connections open, silent or with the first bytes of a greeting, keep nobody out. */
static void half_open_connections_block_nobody(void **state)
{
    enum { STRANGERS = 300 };
    struct meeting_place place;
    struct guest guests[2];
    static int strangers[STRANGERS];
    place_open(&place, 2, 20, false);
    for (int i = 0; i < STRANGERS; i++) {
        strangers[i] = raw_connection(&place);
        if (i % 2)
            assert_int_equal(send(strangers[i], "WEFT\r\n", 6, MSG_NOSIGNAL), 6);
    }
    for (uint32_t i = 0; i < 2; i++)
        guest_start(&guests[i], &place, i, 2, "right", 5); /* less than a greeting may take */
    for (uint32_t i = 0; i < 2; i++) {
        assert_int_equal(guest_end(&guests[i]), WEFT_OK);
        assert_string_equal(guests[i].error.text, "");
    }
    place_close(&place, false);
    for (int i = 0; i < STRANGERS; i++)
        close(strangers[i]);
}

/* What a guest said, recorded by somebody on the way. */
struct wiretap {
    const struct meeting_place *place;
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
    struct meeting_place place;
    struct wiretap wire = {.place = &place};
    struct guest guest;
    char tapped[64];
    place_open(&place, 1, 20, true);
    assert_int_equal(address_listen("127.0.0.1", 0, &wire.listener, &wire.port, NULL), WEFT_OK);
    pthread_create(&wire.thread, NULL, tap, &wire);
    struct meeting_place by_wire = place;
    snprintf(tapped, sizeof tapped, "127.0.0.1:%u", wire.port);
    snprintf(by_wire.address, sizeof by_wire.address, "%s", tapped);
    guest_start(&guest, &by_wire, 0, 1, "right", 20);
    assert_int_equal(guest_end(&guest), WEFT_OK);
    pthread_join(wire.thread, NULL);
    assert_true(wire.size > STREAM_HELLO_BYTES + SECRET_BYTES);

    int again = patient_connection(&place);
    uint8_t answer[4096];
    size_t heard = 0;
    assert_int_equal(send(again, wire.said, wire.size, MSG_NOSIGNAL), (ssize_t)wire.size);
    for (ssize_t n; (n = recv(again, answer + heard, sizeof answer - heard, 0)) > 0;)
        heard += (size_t)n;
    assert_true(heard == 0 || heard == STREAM_REPLY_BYTES); /* the challenge that anybody gets, and no table */
    assert_true(reported(&place, "its job secret is another one"));
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

/* A rank that holds the secret and then sends something that is no card is named; the others meet without it. */
static void a_malformed_card_is_told(void **state)
{
    static const struct {
        uint32_t size, kind;
    } headers[] = {{8, 77},
                   {8, RENDEZVOUS_CARDS},
                   {0, RENDEZVOUS_COME},
                   {8, RENDEZVOUS_COME},
                   {20, RENDEZVOUS_COME},
                   {3, RENDEZVOUS_WITHDRAWN},
                   {RENDEZVOUS_BLOB_MOST, RENDEZVOUS_COME},
                   {UINT32_MAX, RENDEZVOUS_COME},
                   {8, 1u << 20},
                   {STREAM_FRAME_MOST, RENDEZVOUS_COME} /* which is not waited for */};
    for (size_t i = 0; i < sizeof headers / sizeof *headers; i++) {
        struct meeting_place place;
        struct guest guest;
        struct stream stream;
        uint8_t bytes[8];
        place_open(&place, 1, 20, true);
        const struct stream_identity identity = {place.secret, STREAM_MEETING, 0, 1};
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
        assert_true(reported(&place, "sent something that is no card: its connection was ended"));
        assert_true(closes(stream.descriptor));
        stream_end(&stream);
        guest_start(&guest, &place, 0, 1, "right", 20);
        assert_int_equal(guest_end(&guest), WEFT_OK);
        place_close(&place, true);
    }
}

static void another_secret_is_told_at_both_ends(void **state)
{
    struct meeting_place place;
    struct guest guests[2], wrong;
    char host[64], words[256];
    address_host_name(host, sizeof host);
    place_open(&place, 2, 20, false);
    guest_start(&guests[0], &place, 0, 2, "right", 20);
    guest_start(&wrong, &place, 1, 2, "wrong", 20);
    assert_int_equal(guest_end(&wrong), WEFT_ERROR_RENDEZVOUS);
    snprintf(words, sizeof words, "host %s (127.0.0.1:%u) has another job secret than rank 1 on host %s", host,
             place.port, host);
    assert_non_null(strstr(wrong.error.text, words));
    snprintf(words, sizeof words, "a process on host %s", host);
    assert_true(reported(&place, words));
    assert_true(reported(&place, "says it is rank 1 was refused: its job secret is another one"));
    guest_start(&guests[1], &place, 1, 2, "right", 20);
    assert_int_equal(guest_end(&guests[0]), WEFT_OK);
    assert_int_equal(guest_end(&guests[1]), WEFT_OK);
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
    struct meeting_place place;
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
    const struct stream_identity identity = {secret, STREAM_MEETING, 1, 2};
    assert_int_equal(stream_begin(&stream, -1, false, &identity, NULL), WEFT_OK);
    assert_int_equal(stream_feed(&stream, hello, STREAM_PREFIX_BYTES, &error), WEFT_ERROR_RENDEZVOUS);
    assert_non_null(strstr(error.text, "host elder runs Weft 9.9.9 (protocol 7) but host "));
    assert_int_equal(stream.state, STREAM_REFUSED);
    stream_end(&stream);
}

static void what_is_no_weft_is_told(void **state)
{
    struct meeting_place place;
    struct guest guest;
    memset(&place, 0, sizeof place);
    assert_int_equal(address_listen("127.0.0.1", 0, &place.listener, &place.port, NULL), WEFT_OK);
    snprintf(place.address, sizeof place.address, "127.0.0.1:%u", place.port);
    guest_start(&guest, &place, 1, 2, "right", 20);
    struct pollfd wait = {place.listener, POLLIN, 0};
    assert_int_equal(poll(&wait, 1, 5000), 1);
    int descriptor = accept(place.listener, NULL, NULL);
    assert_int_equal(send(descriptor, "220 smtp ready\r\n", 16, MSG_NOSIGNAL), 16);
    assert_int_equal(guest_end(&guest), WEFT_ERROR_RENDEZVOUS);
    assert_non_null(strstr(guest.error.text, "is no Weft process"));
    close(descriptor);
    close(place.listener);
}

static void contradictions_fail_the_round_for_all(void **state)
{
    static const struct {
        uint32_t rank, ranks;
        const char *words;
    } cases[] = {
        {1, 4, "rank 1 on host"},
        {3, 3, "says it is rank 3, but the job has ranks 0 to 2"},
        {0, 3, "two processes say they are rank 0 of 3"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct meeting_place place;
        struct guest first, second;
        place_open(&place, 3, 20, false);
        guest_start(&first, &place, 0, 3, "right", 20);
        usleep(100000);
        guest_start(&second, &place, cases[i].rank, cases[i].ranks, "right", 20);
        assert_int_equal(guest_end(&first), WEFT_ERROR_RENDEZVOUS);
        assert_int_equal(guest_end(&second), WEFT_ERROR_RENDEZVOUS);
        assert_non_null(strstr(first.error.text, cases[i].words));
        assert_string_equal(first.error.text, second.error.text);
        place_close(&place, false);
        assert_int_equal(place.status, WEFT_ERROR_RENDEZVOUS);
        assert_string_equal(place.error.text, first.error.text);
    }
}

static const char *host_of(void *context, uint32_t rank)
{
    return rank < 2 ? "hosta" : "hostb";
}

static void who_does_not_come_is_named(void **state)
{
    struct meeting_place place;
    struct guest guests[2];
    place_open(&place, 4, 0.4, false);
    place.server.host_of = host_of; /* nobody has come yet: it is read when the limit passes */
    guest_start(&guests[0], &place, 0, 4, "right", 20);
    guest_start(&guests[1], &place, 2, 4, "right", 20);
    for (int i = 0; i < 2; i++) {
        assert_int_equal(guest_end(&guests[i]), WEFT_ERROR_TIMEOUT);
        assert_non_null(strstr(guests[i].error.text,
                               "ranks 1 (host hosta), 3 (host hostb) of 4 have not come to the meeting within 0.4 s"));
    }
    place_close(&place, false);
    assert_int_equal(place.status, WEFT_ERROR_TIMEOUT);
}

static void who_goes_away_may_come_again(void **state)
{
    struct meeting_place place;
    struct guest guests[2];
    struct stream stream;
    place_open(&place, 2, 20, false);
    const struct stream_identity identity = {place.secret, STREAM_MEETING, 1, 2};
    assert_int_equal(stream_begin(&stream, raw_connection(&place), false, &identity, NULL), WEFT_OK);
    while (stream.state != STREAM_OPEN) {
        struct pollfd wait = {stream.descriptor, POLLIN, 0};
        assert_int_equal(stream_write(&stream, NULL), WEFT_OK);
        assert_int_equal(poll(&wait, 1, 5000), 1);
        assert_int_equal(stream_read(&stream, NULL), WEFT_OK);
    }
    put_come(&stream, 1, 1); /* it brings rank 1 */
    assert_int_equal(stream_write(&stream, NULL), WEFT_OK);
    usleep(50000);
    stream_end(&stream); /* and it dies */
    usleep(50000);
    guest_start(&guests[1], &place, 1, 2, "right", 20);
    guest_start(&guests[0], &place, 0, 2, "right", 20);
    pthread_join(guests[0].thread, NULL);
    assert_string_equal(guests[0].error.text, "");
    assert_int_equal(((uint64_t *)guests[0].result.blobs)[1], 101);
    free(guests[0].result.blobs);
    assert_int_equal(guest_end(&guests[1]), WEFT_OK);
    place_close(&place, false);
}

/* ---- ranks of a node ----------------------------------------------------------------------------------------------
 */

static void expect_all(struct guest *guests, uint32_t ranks)
{
    for (uint32_t rank = 0; rank < ranks; rank++) {
        pthread_join(guests[rank].thread, NULL);
        assert_string_equal(guests[rank].error.text, "");
        for (uint32_t i = 0; i < ranks; i++)
            assert_int_equal(((uint64_t *)guests[rank].result.blobs)[i], 100 + i);
        assert_memory_equal(guests[rank].result.session, guests[0].result.session, SECRET_BYTES);
        free(guests[rank].result.blobs);
    }
}

/* The server hears of each node once: three messages of a greeting, who comes, and the place. */
static void a_node_comes_as_one(void **state)
{
    static struct guest guests[GUESTS_MOST];
    static const uint32_t per_node[] = {2, 5, 10, 40};
    for (size_t i = 0; i < sizeof per_node / sizeof *per_node; i++) {
        struct meeting_place place;
        struct stream_counts counts = {0};
        place_open_counted(&place, GUESTS_MOST, 20, &counts);
        for (uint32_t rank = 0; rank < GUESTS_MOST; rank++)
            guest_start_in_node(&guests[rank], &place, rank, GUESTS_MOST, per_node[i], 20);
        expect_all(guests, GUESTS_MOST);
        place_close(&place, false);
        assert_int_equal(place.status, WEFT_OK);
        assert_int_equal(counts.sent + counts.received, 5 * (GUESTS_MOST / per_node[i]));
    }
}

/* Last of a node to start is the one that all others of it come through. */
static void a_late_leader_is_waited_for(void **state)
{
    struct meeting_place place;
    struct guest guests[6];
    place_open(&place, 6, 20, false);
    for (uint32_t rank = 6; rank-- > 0;) {
        guest_start_in_node(&guests[rank], &place, rank, 6, 6, 20);
        usleep(20000);
    }
    expect_all(guests, 6);
    place_close(&place, false);
}

static void who_does_not_come_from_a_node_is_named(void **state)
{
    struct meeting_place place;
    struct guest guests[6];
    place_open(&place, 6, 1.5, false);
    place.server.host_of = host_of;
    for (uint32_t rank = 0; rank < 6; rank++)
        if (rank != 2 && rank != 3) /* a leaf of the first node; the leader of the second */
            guest_start_in_node(&guests[rank], &place, rank, 6, 3, 1.5);
    for (uint32_t rank = 0; rank < 6; rank++) {
        if (rank == 2 || rank == 3)
            continue;
        assert_int_equal(guest_end(&guests[rank]), WEFT_ERROR_TIMEOUT);
        assert_non_null(strstr(guests[rank].error.text,
                               "ranks 2 (host hostb), 3 (host hostb) of 6 have not come to the "
                               "meeting within 1.5 s"));
    }
    place_close(&place, false);
    assert_int_equal(place.status, WEFT_ERROR_TIMEOUT);
}

/* A rank below another, dead after it has brought its card. */
static void who_goes_away_from_a_node_may_come_again(void **state)
{
    struct meeting_place place;
    struct guest guests[3], dead;
    place_open(&place, 3, 20, false);
    guest_start_in_node(&guests[0], &place, 0, 3, 3, 20);
    guest_prepare(&dead, &place, 2, 3, "right", 20);
    dead.client.local_rank = 2;
    dead.client.local_ranks = 3;
    dead.client.stop = eventfd(0, EFD_CLOEXEC);
    pthread_create(&dead.thread, NULL, come, &dead);
    usleep(2300000); /* longer than ranks of a node wait for one another: the server has been told of it */
    eventfd_write(dead.client.stop, 1);
    assert_int_equal(guest_end(&dead), WEFT_ERROR_STATE);
    close(dead.client.stop);
    guest_start_in_node(&guests[1], &place, 1, 3, 3, 20);
    usleep(100000);
    assert_int_equal(place.status, WEFT_OK); /* two of three are there */
    guest_start_in_node(&guests[2], &place, 2, 3, 3, 20);
    expect_all(guests, 3);
    place_close(&place, false);
}

/* Where the rank above cannot be found, say in another container, or somebody else has its name, there is the server.
 */
static void a_node_that_is_none_meets_at_the_server(void **state)
{
    struct meeting_place place;
    struct guest guests[3];
    place_open(&place, 3, 20, false);
    guest_start(&guests[0], &place, 0, 3, "right", 4); /* it knows of no node */
    guest_start_in_node(&guests[1], &place, 1, 3, 3, 4);
    guest_start_in_node(&guests[2], &place, 2, 3, 3, 4);
    expect_all(guests, 3);
    place_close(&place, false);
}

/* The name of the socket at which the first place of a node listens, a thread of this test; it is waited for. */
static void find_near_name(char *name, size_t room)
{
    *name = '\0';
    for (int i = 0; i < 500 && !*name; i++) {
        for (int descriptor = 3; descriptor < 256 && !*name; descriptor++) {
            struct sockaddr_un address = {0};
            socklen_t length = sizeof address;
            if (getsockname(descriptor, (struct sockaddr *)&address, &length) != 0 || address.sun_family != AF_UNIX)
                continue;
            const char *text = address.sun_path + 1, *end = strrchr(text, '-');
            if (strncmp(text, "weft-meeting-", 13) == 0 && end && strcmp(end, "-0") == 0)
                snprintf(name, room, "%s", text);
        }
        usleep(10000);
    }
    assert_true(*name);
}

/* What comes to a rank's own listener and is none of the job. */
static void strangers_in_a_node_disturb_nothing(void **state)
{
    static const char *const words[] = {"GET / HTTP/1.1\r\n\r\n", "WEFT\r\n\x1a\n", "", "\x16\x03"};
    struct meeting_place place;
    struct guest guests[3];
    int strangers[40];
    char name[128];
    place_open(&place, 3, 20, false);
    guest_start_in_node(&guests[0], &place, 0, 3, 3, 20);
    find_near_name(name, sizeof name);
    for (int i = 0; i < 40; i++) {
        strangers[i] = address_connect_near(name);
        assert_true(strangers[i] >= 0);
        (void)!send(strangers[i], words[i % 4], strlen(words[i % 4]), MSG_NOSIGNAL);
    }
    guest_start_in_node(&guests[1], &place, 1, 3, 3, 20);
    guest_start_in_node(&guests[2], &place, 2, 3, 3, 20);
    expect_all(guests, 3);
    place_close(&place, false);
    for (int i = 0; i < 40; i++)
        close(strangers[i]);
}

/* The name of a rank's listener is taken, by somebody who answers with something else: the ranks meet at the server. */
static void a_taken_name_keeps_nobody_out(void **state)
{
    struct meeting_place place;
    struct guest guests[3], first;
    char name[128];
    place_open(&place, 3, 20, false);
    guest_prepare(&first, &place, 0, 3, "right", 20);
    first.client.local_ranks = 3;
    first.client.stop = eventfd(0, EFD_CLOEXEC);
    pthread_create(&first.thread, NULL, come, &first);
    find_near_name(name, sizeof name);
    eventfd_write(first.client.stop, 1);
    assert_int_equal(guest_end(&first), WEFT_ERROR_STATE);
    close(first.client.stop);
    int taken = address_listen_near(name);
    assert_true(taken >= 0);
    for (uint32_t rank = 0; rank < 3; rank++)
        guest_start_in_node(&guests[rank], &place, rank, 3, 3, 20);
    for (int i = 0; i < 2; i++) { /* ranks 1 and 2 */
        struct pollfd wait = {taken, POLLIN, 0};
        assert_int_equal(poll(&wait, 1, 5000), 1);
        int caller = accept(taken, NULL, NULL);
        (void)!send(caller, "220 smtp ready\r\n", 16, MSG_NOSIGNAL);
        shutdown(caller, SHUT_WR);
    }
    expect_all(guests, 3);
    place_close(&place, false);
    close(taken);
}

static void contradictions_in_a_node_fail_the_round_for_all(void **state)
{
    static const struct {
        uint32_t rank, ranks;
        const char *words;
    } cases[] = {{1, 5, "was told that the job has 5 ranks, but it has 4"},
                 {0, 4, "two processes say they are rank 0 of 4"}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct meeting_place place;
        struct guest first, other, second;
        place_open(&place, 4, 20, false);
        guest_start(&other, &place, 3, 4, "right", 20);
        guest_start_in_node(&first, &place, 0, 4, 3, 20);
        usleep(100000);
        guest_prepare(&second, &place, cases[i].rank, cases[i].ranks, "right", 20);
        second.client.local_rank = 1;
        second.client.local_ranks = 3;
        pthread_create(&second.thread, NULL, come, &second);
        assert_int_equal(guest_end(&first), WEFT_ERROR_RENDEZVOUS);
        assert_int_equal(guest_end(&second), WEFT_ERROR_RENDEZVOUS);
        assert_int_equal(guest_end(&other), WEFT_ERROR_RENDEZVOUS);
        assert_non_null(strstr(first.error.text, cases[i].words));
        assert_string_equal(first.error.text, second.error.text);
        assert_string_equal(first.error.text, other.error.text);
        place_close(&place, false);
        assert_int_equal(place.status, WEFT_ERROR_RENDEZVOUS);
    }
}

/* A leader that proves itself and then goes: those who came through it are told. */
static void the_end_of_who_is_above_is_told(void **state)
{
    struct meeting_place place;
    struct guest guests[3];
    place_open(&place, 3, 20, true);
    guest_prepare(&guests[0], &place, 0, 3, "right", 20);
    guests[0].client.local_ranks = 2;
    guests[0].client.stop = eventfd(0, EFD_CLOEXEC);
    pthread_create(&guests[0].thread, NULL, come, &guests[0]);
    guest_start_in_node(&guests[1], &place, 1, 3, 2, 20);
    usleep(300000);
    eventfd_write(guests[0].client.stop, 1);
    assert_int_equal(guest_end(&guests[0]), WEFT_ERROR_STATE);
    close(guests[0].client.stop);
    assert_int_equal(guest_end(&guests[1]), WEFT_ERROR_PEER);
    assert_non_null(
        strstr(guests[1].error.text, "through which rank 1 meets the others ended before all 3 ranks had met"));
    for (uint32_t rank = 0; rank < 3; rank++) /* and all may come anew */
        guest_start_in_node(&guests[rank], &place, rank, 3, 2, 20);
    expect_all(guests, 3);
    place_close(&place, true);
}

/* ---- places told by something else --------------------------------------------------------------------------------
 */

/* A rank that hears from elsewhere where the one above it listens. */
struct placed {
    struct rendezvous *rendezvous;
    const struct placed *parent;
    uint32_t rank;
    uint8_t secret[SECRET_BYTES];
    pthread_t thread;
    weft_status status;
    struct error error;
    struct rendezvous_result result;
};

static void *gather(void *argument)
{
    struct placed *placed = argument;
    uint64_t card = 100 + placed->rank;
    placed->status = rendezvous_gather(placed->rendezvous, placed->secret,
                                       placed->parent ? rendezvous_place(placed->parent->rendezvous) : NULL, &card,
                                       sizeof card, &placed->result, &placed->error);
    return NULL;
}

static void place_all(struct placed *all, uint32_t ranks, double limit)
{
    memset(all, 0, ranks * sizeof *all);
    for (uint32_t rank = 0; rank < ranks; rank++) {
        const struct rendezvous_client client = {
            .addresses = "a store", .rank = rank, .ranks = ranks, .limit_seconds = limit, .stop = -1};
        all[rank].rank = rank;
        all[rank].parent = rank ? &all[tree_place_parent(rank)] : NULL;
        assert_int_equal(secret_from_text("right", all[rank].secret, NULL), WEFT_OK);
        assert_int_equal(rendezvous_listen(&client, "127.0.0.1", &all[rank].rendezvous, NULL), WEFT_OK);
        assert_true(!*rendezvous_place(all[rank].rendezvous) == (tree_place_child(rank, 0) >= ranks));
    }
}

static void ranks_gather_without_a_server(void **state)
{
    static struct placed all[GUESTS_MOST];
    for (uint32_t ranks = 1; ranks <= GUESTS_MOST; ranks += 13) {
        place_all(all, ranks, 20);
        for (uint32_t rank = 0; rank < ranks; rank++)
            pthread_create(&all[rank].thread, NULL, gather, &all[rank]);
        for (uint32_t rank = 0; rank < ranks; rank++) {
            pthread_join(all[rank].thread, NULL);
            assert_string_equal(all[rank].error.text, "");
            for (uint32_t i = 0; i < ranks; i++)
                assert_int_equal(((uint64_t *)all[rank].result.blobs)[i], 100 + i);
            assert_memory_equal(all[rank].result.session, all[0].result.session, SECRET_BYTES);
            assert_true(all[rank].result.counts.sent + all[rank].result.counts.received <= 15);
            free(all[rank].result.blobs);
        }
        for (uint32_t rank = 0; rank < ranks; rank++)
            rendezvous_close(all[rank].rendezvous);
    }
}

/* A rank that does not come is named by the one above it, to all. */
static void who_does_not_gather_is_named(void **state)
{
    static struct placed all[9];
    place_all(all, 9, 0.5);
    for (uint32_t rank = 0; rank < 9; rank++)
        if (rank != 4)
            pthread_create(&all[rank].thread, NULL, gather, &all[rank]);
    for (uint32_t rank = 0; rank < 9; rank++) {
        if (rank == 4)
            continue;
        pthread_join(all[rank].thread, NULL);
        assert_int_equal(all[rank].status, WEFT_ERROR_TIMEOUT);
        assert_non_null(strstr(all[rank].error.text, "rank 4 has not brought its cards to rank 1 within 0.5 s"));
    }
    for (uint32_t rank = 0; rank < 9; rank++)
        rendezvous_close(all[rank].rendezvous);
}

static void nobody_there_is_told(void **state)
{
    struct meeting_place place;
    struct guest guest;
    memset(&place, 0, sizeof place);
    assert_int_equal(address_listen("127.0.0.1", 0, &place.listener, &place.port, NULL), WEFT_OK);
    close(place.listener);
    snprintf(place.address, sizeof place.address, "127.0.0.1:%u", place.port);
    guest_start(&guest, &place, 1, 2, "right", 0.3);
    assert_int_equal(guest_end(&guest), WEFT_ERROR_RENDEZVOUS);
    assert_non_null(strstr(guest.error.text, "found nobody at the meeting point within 0.3 s"));
    assert_non_null(strstr(guest.error.text, "Connection refused"));
}

static void a_port_in_use_is_told(void **state)
{
    int first = -1, second = -1;
    uint16_t port = 0;
    struct error error = {0};
    assert_int_equal(address_listen("127.0.0.1", 0, &first, &port, NULL), WEFT_OK);
    assert_int_equal(address_listen("127.0.0.1", port, &second, NULL, &error), WEFT_ERROR_RENDEZVOUS);
    assert_non_null(strstr(error.text, "the port is in use by another program"));
    close(first);
}

static void addresses(void **state)
{
    char host[ADDRESS_TEXT_BYTES];
    uint16_t port = 0;
    assert_int_equal(address_parse("[::1]:80", host, &port, NULL), WEFT_OK);
    assert_string_equal(host, "::1");
    assert_int_equal(port, 80);
    assert_int_equal(address_parse("node-3.cluster:65535", host, &port, NULL), WEFT_OK);
    assert_string_equal(host, "node-3.cluster");
    static const char *const bad[] = {"",           ":80",   "host",    "host:",  "host:0",
                                      "host:65536", "[::1]", "[::1]80", "host:8o"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        struct error error = {0};
        assert_int_equal(address_parse(bad[i], host, &port, &error), WEFT_ERROR_ARGUMENT);
        assert_true(*error.text);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(all_get_all_cards),
        cmocka_unit_test(strangers_disturb_nothing),
        cmocka_unit_test(half_open_connections_block_nobody),
        cmocka_unit_test(a_recorded_visit_cannot_be_replayed),
        cmocka_unit_test(a_malformed_card_is_told),
        cmocka_unit_test(another_secret_is_told_at_both_ends),
        cmocka_unit_test(another_version_is_told_at_both_ends),
        cmocka_unit_test(what_is_no_weft_is_told),
        cmocka_unit_test(contradictions_fail_the_round_for_all),
        cmocka_unit_test(who_does_not_come_is_named),
        cmocka_unit_test(who_goes_away_may_come_again),
        cmocka_unit_test(a_node_comes_as_one),
        cmocka_unit_test(a_late_leader_is_waited_for),
        cmocka_unit_test(who_does_not_come_from_a_node_is_named),
        cmocka_unit_test(who_goes_away_from_a_node_may_come_again),
        cmocka_unit_test(a_node_that_is_none_meets_at_the_server),
        cmocka_unit_test(strangers_in_a_node_disturb_nothing),
        cmocka_unit_test(a_taken_name_keeps_nobody_out),
        cmocka_unit_test(contradictions_in_a_node_fail_the_round_for_all),
        cmocka_unit_test(the_end_of_who_is_above_is_told),
        cmocka_unit_test(ranks_gather_without_a_server),
        cmocka_unit_test(who_does_not_gather_is_named),
        cmocka_unit_test(nobody_there_is_told),
        cmocka_unit_test(a_port_in_use_is_told),
        cmocka_unit_test(addresses),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
