/* SPDX-License-Identifier: Apache-2.0 */
/* Ranks of a node come to the rendezvous as one; what is wrong with one of them disturbs no more than it must. */
#include "rendezvous_joiners.h"

#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>

/* The server hears of each node once: three messages of a greeting, who comes, and the place. */
static void a_node_comes_as_one(void **state)
{
    static struct joiner joined[GUESTS_MOST];
    static const uint32_t per_node[] = {2, 5, 10, 40};
    for (size_t i = 0; i < sizeof per_node / sizeof *per_node; i++) {
        struct rendezvous_point place;
        struct stream_counts counts = {0};
        place_open_counted(&place, GUESTS_MOST, 20, &counts);
        for (uint32_t rank = 0; rank < GUESTS_MOST; rank++)
            guest_start_in_node(&joined[rank], &place, rank, GUESTS_MOST, per_node[i], 20);
        expect_all(joined, GUESTS_MOST);
        place_close(&place, false);
        assert_int_equal(place.status, WEFT_OK);
        assert_int_equal(counts.sent + counts.received, 5 * (GUESTS_MOST / per_node[i]));
    }
}

/* Last of a node to start is the one that all others of it come through. */
static void a_late_leader_is_waited_for(void **state)
{
    struct rendezvous_point place;
    struct joiner joined[6];
    place_open(&place, 6, 20, false);
    for (uint32_t rank = 6; rank-- > 0;) {
        guest_start_in_node(&joined[rank], &place, rank, 6, 6, 20);
        usleep(20000);
    }
    expect_all(joined, 6);
    place_close(&place, false);
}

static void who_does_not_come_from_a_node_is_named(void **state)
{
    struct rendezvous_point place;
    struct joiner joined[6];
    place_open(&place, 6, 1.5, false);
    place.server.host_of = host_of;
    for (uint32_t rank = 0; rank < 6; rank++)
        if (rank != 2 && rank != 3) /* a leaf of the first node; the leader of the second */
            guest_start_in_node(&joined[rank], &place, rank, 6, 3, 1.5);
    for (uint32_t rank = 0; rank < 6; rank++) {
        if (rank == 2 || rank == 3)
            continue;
        assert_int_equal(guest_end(&joined[rank]), WEFT_ERROR_TIMEOUT);
        assert_non_null(strstr(joined[rank].error.text,
                               "ranks 2 (host hostb), 3 (host hostb) of 6 have not come to the "
                               "rendezvous within 1.5 s"));
    }
    place_close(&place, false);
    assert_int_equal(place.status, WEFT_ERROR_TIMEOUT);
}

/* A rank below another, dead after it has brought its endpoint info. */
static void who_goes_away_from_a_node_may_come_again(void **state)
{
    struct rendezvous_point place;
    struct joiner joined[3], dead;
    place_open(&place, 3, 20, false);
    guest_start_in_node(&joined[0], &place, 0, 3, 3, 20);
    guest_prepare(&dead, &place, 2, 3, "right", 20);
    dead.client.local_rank = 2;
    dead.client.local_ranks = 3;
    dead.client.stop = eventfd(0, EFD_CLOEXEC);
    pthread_create(&dead.thread, NULL, come, &dead);
    usleep(2300000); /* longer than ranks of a node wait for one another: the server has learned of it */
    eventfd_write(dead.client.stop, 1);
    assert_int_equal(guest_end(&dead), WEFT_ERROR_STATE);
    close(dead.client.stop);
    guest_start_in_node(&joined[1], &place, 1, 3, 3, 20);
    usleep(100000);
    assert_int_equal(place.status, WEFT_OK); /* two of three are there */
    guest_start_in_node(&joined[2], &place, 2, 3, 3, 20);
    expect_all(joined, 3);
    place_close(&place, false);
}

/* Where the rank above cannot be found, say in another container, or somebody else has its name, there is the server.
 */
static void a_node_that_is_none_meets_at_the_server(void **state)
{
    struct rendezvous_point place;
    struct joiner joined[3];
    place_open(&place, 3, 20, false);
    guest_start(&joined[0], &place, 0, 3, "right", 4); /* it has no node */
    guest_start_in_node(&joined[1], &place, 1, 3, 3, 4);
    guest_start_in_node(&joined[2], &place, 2, 3, 3, 4);
    expect_all(joined, 3);
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
            if (strncmp(text, "weft-rendezvous-", 13) == 0 && end && strcmp(end, "-0") == 0)
                snprintf(name, room, "%s", text);
        }
        usleep(10000);
    }
    assert_true(*name);
}

/* Connections to a rank's own listener that are not of the job. */
static void strangers_in_a_node_disturb_nothing(void **state)
{
    static const char *const words[] = {"GET / HTTP/1.1\r\n\r\n", "WEFT\r\n\x1a\n", "", "\x16\x03"};
    struct rendezvous_point place;
    struct joiner joined[3];
    int strangers[40];
    char name[128];
    place_open(&place, 3, 20, false);
    guest_start_in_node(&joined[0], &place, 0, 3, 3, 20);
    find_near_name(name, sizeof name);
    for (int i = 0; i < 40; i++) {
        strangers[i] = address_connect_unix(name);
        assert_true(strangers[i] >= 0);
        (void)!send(strangers[i], words[i % 4], strlen(words[i % 4]), MSG_NOSIGNAL);
    }
    guest_start_in_node(&joined[1], &place, 1, 3, 3, 20);
    guest_start_in_node(&joined[2], &place, 2, 3, 3, 20);
    expect_all(joined, 3);
    place_close(&place, false);
    for (int i = 0; i < 40; i++)
        close(strangers[i]);
}

/* The name of a rank's listener is taken, by somebody who answers with something else: the ranks meet at the server. */
static void a_taken_name_keeps_nobody_out(void **state)
{
    struct rendezvous_point place;
    struct joiner joined[3], first;
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
    int taken = address_listen_unix(name);
    assert_true(taken >= 0);
    for (uint32_t rank = 0; rank < 3; rank++)
        guest_start_in_node(&joined[rank], &place, rank, 3, 3, 20);
    for (int i = 0; i < 2; i++) { /* ranks 1 and 2 */
        struct pollfd wait = {taken, POLLIN, 0};
        assert_int_equal(poll(&wait, 1, 5000), 1);
        int caller = accept(taken, NULL, NULL);
        (void)!send(caller, "220 smtp ready\r\n", 16, MSG_NOSIGNAL);
        shutdown(caller, SHUT_WR);
    }
    expect_all(joined, 3);
    place_close(&place, false);
    close(taken);
}

static void contradictions_in_a_node_fail_the_round_for_all(void **state)
{
    static const struct {
        uint32_t rank, ranks;
        const char *words;
    } cases[] = {{1, 5, "expects 5 ranks, but the job has 4"}, {0, 4, "two processes say they are rank 0 of 4"}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct rendezvous_point place;
        struct joiner first, other, second;
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

/* A leader that proves itself and then goes: the ranks that came through it learn that. */
static void the_end_of_who_is_above_is_told(void **state)
{
    struct rendezvous_point place;
    struct joiner joined[3];
    place_open(&place, 3, 20, true);
    guest_prepare(&joined[0], &place, 0, 3, "right", 20);
    joined[0].client.local_ranks = 2;
    joined[0].client.stop = eventfd(0, EFD_CLOEXEC);
    pthread_create(&joined[0].thread, NULL, come, &joined[0]);
    guest_start_in_node(&joined[1], &place, 1, 3, 2, 20);
    usleep(300000);
    eventfd_write(joined[0].client.stop, 1);
    assert_int_equal(guest_end(&joined[0]), WEFT_ERROR_STATE);
    close(joined[0].client.stop);
    assert_int_equal(guest_end(&joined[1]), WEFT_ERROR_PEER);
    assert_non_null(strstr(joined[1].error.text, "through which rank 1 joins ended before all 3 ranks had joined"));
    for (uint32_t rank = 0; rank < 3; rank++) /* and all may come again */
        guest_start_in_node(&joined[rank], &place, rank, 3, 2, 20);
    expect_all(joined, 3);
    place_close(&place, true);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_node_comes_as_one),
        cmocka_unit_test(a_late_leader_is_waited_for),
        cmocka_unit_test(who_does_not_come_from_a_node_is_named),
        cmocka_unit_test(who_goes_away_from_a_node_may_come_again),
        cmocka_unit_test(a_node_that_is_none_meets_at_the_server),
        cmocka_unit_test(strangers_in_a_node_disturb_nothing),
        cmocka_unit_test(a_taken_name_keeps_nobody_out),
        cmocka_unit_test(contradictions_in_a_node_fail_the_round_for_all),
        cmocka_unit_test(the_end_of_who_is_above_is_told),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
