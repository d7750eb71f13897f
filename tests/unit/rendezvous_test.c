/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The rendezvous by TCP, and the gathering without a server: who comes gets all endpoint infos; contradictions and absences are
 * told in messages.
 */
#include "rendezvous_joiners.h"

#include "core/control/rendezvous/internal/wire.h"
#include "core/control/wire/tree.h"

#include <poll.h>

static void all_get_all_cards(void **state)
{
    static struct joiner joined[GUESTS_MOST];
    struct rendezvous_point place;
    uint8_t first[SECRET_BYTES];
    place_open(&place, GUESTS_MOST, 20, true);
    for (int round = 0; round < 2; round++) {
        for (uint32_t rank = 0; rank < GUESTS_MOST; rank++)
            guest_start(&joined[rank], &place, rank, GUESTS_MOST, "right", 20);
        expect_all(joined, GUESTS_MOST);
        if (round == 0)
            memcpy(first, joined[0].result.session, SECRET_BYTES);
    }
    assert_memory_not_equal(first, joined[0].result.session, SECRET_BYTES);
    place_close(&place, true);
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
        struct rendezvous_point place;
        struct joiner first, second;
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

static void who_does_not_come_is_named(void **state)
{
    struct rendezvous_point place;
    struct joiner joined[2];
    place_open(&place, 4, 0.4, false);
    place.server.host_of = host_of; /* nobody has come yet: it is read when the limit passes */
    guest_start(&joined[0], &place, 0, 4, "right", 20);
    guest_start(&joined[1], &place, 2, 4, "right", 20);
    for (int i = 0; i < 2; i++) {
        assert_int_equal(guest_end(&joined[i]), WEFT_ERROR_TIMEOUT);
        assert_non_null(
            strstr(joined[i].error.text,
                   "ranks 1 (host hosta), 3 (host hostb) of 4 have not come to the rendezvous within 0.4 s"));
    }
    place_close(&place, false);
    assert_int_equal(place.status, WEFT_ERROR_TIMEOUT);
}

/* What a leader says that brings some ranks with endpoint infos of 8 bytes. */
static void put_come(struct stream *stream, uint32_t first, uint32_t count)
{
    struct buffer payload = {0};
    buffer_put_u32(&payload, 0);
    buffer_put_u32(&payload, 8);
    buffer_put_text(&payload, "127.0.0.1:9");
    buffer_put_u32(&payload, first);
    buffer_put_u32(&payload, count);
    stream_put(stream, RENDEZVOUS_JOIN, buffer_begin(&payload), buffer_size(&payload));
    buffer_free(&payload);
}

static void who_goes_away_may_come_again(void **state)
{
    struct rendezvous_point place;
    struct joiner joined[2];
    struct stream stream;
    place_open(&place, 2, 20, false);
    const struct stream_identity identity = {place.secret, STREAM_RENDEZVOUS, 1, 2};
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
    guest_start(&joined[1], &place, 1, 2, "right", 20);
    guest_start(&joined[0], &place, 0, 2, "right", 20);
    pthread_join(joined[0].thread, NULL);
    assert_string_equal(joined[0].error.text, "");
    assert_int_equal(((uint64_t *)joined[0].result.blobs)[1], 101);
    free(joined[0].result.blobs);
    assert_int_equal(guest_end(&joined[1]), WEFT_OK);
    place_close(&place, false);
}

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
    uint64_t endpoint = 100 + placed->rank;
    placed->status = rendezvous_gather(placed->rendezvous, placed->secret,
                                       placed->parent ? rendezvous_place(placed->parent->rendezvous) : NULL, &endpoint,
                                       sizeof endpoint, &placed->result, &placed->error);
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
        assert_non_null(strstr(all[rank].error.text, "rank 4 has not sent its endpoint info to rank 1 within 0.5 s"));
    }
    for (uint32_t rank = 0; rank < 9; rank++)
        rendezvous_close(all[rank].rendezvous);
}

static void nobody_there_is_told(void **state)
{
    struct rendezvous_point place;
    struct joiner joiner;
    memset(&place, 0, sizeof place);
    assert_int_equal(address_listen("127.0.0.1", 0, &place.listener, &place.port, NULL), WEFT_OK);
    close(place.listener);
    snprintf(place.address, sizeof place.address, "127.0.0.1:%u", place.port);
    guest_start(&joiner, &place, 1, 2, "right", 0.3);
    assert_int_equal(guest_end(&joiner), WEFT_ERROR_RENDEZVOUS);
    assert_non_null(strstr(joiner.error.text, "cannot reach the rendezvous within 0.3 s"));
    assert_non_null(strstr(joiner.error.text, "Connection refused"));
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
        cmocka_unit_test(contradictions_fail_the_round_for_all),
        cmocka_unit_test(who_does_not_come_is_named),
        cmocka_unit_test(who_goes_away_may_come_again),
        cmocka_unit_test(ranks_gather_without_a_server),
        cmocka_unit_test(who_does_not_gather_is_named),
        cmocka_unit_test(nobody_there_is_told),
        cmocka_unit_test(a_port_in_use_is_told),
        cmocka_unit_test(addresses),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
