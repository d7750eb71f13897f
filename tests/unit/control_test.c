/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The control plane over ranks that are threads, each with its helper thread: exchanges among all and among some,
 * operation logs, abort, a rank that leaves early, an orderly end. Deaths of processes:
 * tests/integration/collective_failure_test.c.
 */
#include "control_ranks.h"

#include "base/clock.h"
#include "core/control/internal/plane.h"
#include "core/control/wire/secret.h"

#include <sched.h>
#include <sys/socket.h>

#define RANKS_MOST 12

#define CHECK(condition)                                                                                               \
    do {                                                                                                               \
        if (!(condition)) {                                                                                            \
            snprintf(rank->message, sizeof rank->message, "rank %d, line %d: %s: %.150s", rank->number, __LINE__,      \
                     #condition, error.text);                                                                          \
            return;                                                                                                    \
        }                                                                                                              \
    } while (0)

static struct rank all[RANKS_MOST];

static void run_ranks(int ranks, int per_node, void (*body)(struct rank *rank))
{
    ranks_run(all, ranks, per_node, body);
    for (int i = 0; i < ranks; i++)
        assert_string_equal(all[i].message, "");
}

static void exchange_all_and_some(struct rank *rank)
{
    uint32_t members[RANKS_MOST], count = (uint32_t)rank->ranks;
    uint64_t result[RANKS_MOST], mine = 1000u + (unsigned)rank->number;
    struct error error = {0};
    for (uint32_t i = 0; i < count; i++)
        members[i] = i;
    for (uint64_t key = 1; key <= 20; key++) {
        mine += key;
        CHECK(control_exchange(rank->control, key, members, count, &mine, 8, result, 20, &error) == WEFT_OK);
        for (uint32_t i = 0; i < count; i++)
            CHECK(result[i] - i == mine - (unsigned)rank->number);
    }
    /* Odd and even ranks apart, in descending order, under one key. */
    count = 0;
    for (int i = rank->ranks - 1; i >= 0; i--)
        if (i % 2 == rank->number % 2)
            members[count++] = (uint32_t)i;
    CHECK(control_exchange(rank->control, 100 + (unsigned)rank->number % 2, members, count, &mine, 8, result, 20,
                           &error) == WEFT_OK);
    for (uint32_t i = 0; i < count; i++)
        CHECK(result[i] - members[i] == mine - (unsigned)rank->number);
}

static void exchanges(void **state)
{
    run_ranks(1, 1, exchange_all_and_some);
    run_ranks(2, 2, exchange_all_and_some);
    run_ranks(5, 1, exchange_all_and_some);
    run_ranks(12, 3, exchange_all_and_some);
}

static void mismatch(struct rank *rank)
{
    uint32_t members[RANKS_MOST];
    uint64_t result[RANKS_MOST], mine = 7;
    struct error error = {0};
    for (uint32_t i = 0; i < (uint32_t)rank->ranks; i++)
        members[i] = i;
    CHECK(control_exchange(rank->control, 1, members, (uint32_t)rank->ranks, &mine, rank->number == 2 ? 4 : 8, result,
                           20, &error) == WEFT_ERROR_MISMATCH);
    CHECK(strstr(error.text, "the same calls") != NULL);
}

static void exchanges_that_differ_are_named(void **state)
{
    run_ranks(4, 2, mismatch);
}

static void late(struct rank *rank)
{
    uint32_t members[RANKS_MOST];
    uint64_t result[RANKS_MOST], mine = 7;
    struct error error = {0};
    for (uint32_t i = 0; i < (uint32_t)rank->ranks; i++)
        members[i] = i;
    if (rank->number == 2) {
        while (!control_failed(rank->control))
            usleep(1000);
        return;
    }
    CHECK(control_exchange(rank->control, 1, members, (uint32_t)rank->ranks, &mine, 8, result, 0.3, &error) ==
          WEFT_ERROR_TIMEOUT);
    CHECK(strstr(error.text, "rank 2 on host") != NULL);
    control_abort(rank->control, error.status, error.text);
}

static void who_does_not_come_is_named(void **state)
{
    run_ranks(4, 1, late);
}

/* Whether `left` has closed its control plane, as this rank knows. */
static bool has_left(struct control *control, uint32_t left)
{
    pthread_mutex_lock(&control->lock);
    bool known = control->left[left];
    pthread_mutex_unlock(&control->lock);
    return known;
}

static void leave_early(struct rank *rank)
{
    uint32_t members[RANKS_MOST];
    uint64_t result[RANKS_MOST], mine = 7;
    struct error error = {0};
    for (uint32_t i = 0; i < (uint32_t)rank->ranks; i++)
        members[i] = i;
    if (rank->number == 3)
        return; /* to control_close(), while the others want to go on */
    CHECK(control_exchange(rank->control, 1, members, (uint32_t)rank->ranks, &mine, 8, result, 20, &error) ==
          WEFT_ERROR_PEER);
    CHECK(strstr(error.text, "rank 3 on host") != NULL && strstr(error.text, "has left") != NULL);
    CHECK(has_left(rank->control, 3) && !has_left(rank->control, (uint32_t)rank->number));
}

static void who_leaves_early_is_named(void **state)
{
    run_ranks(6, 2, leave_early);
}

static void count_call(void *context)
{
    atomic_fetch_add(&((struct rank *)context)->told, 1);
}

static void abort_from_one(struct rank *rank)
{
    uint32_t members[RANKS_MOST];
    uint8_t result[RANKS_MOST], mine = 7;
    struct error error = {0};
    for (uint32_t i = 0; i < (uint32_t)rank->ranks; i++)
        members[i] = i;
    control_on_failure(rank->control, count_call, rank);
    weft_status status =
        control_exchange(rank->control, 1, members, (uint32_t)rank->ranks, &mine, 1, result, 20, &error);
    CHECK(status == WEFT_OK || status == WEFT_ERROR_ABORTED);
    error_clear(&error);
    if (rank->number == 4)
        control_abort(rank->control, WEFT_ERROR_ABORTED, "rank 4 has had enough");
    uint64_t end = clock_now() + 5000000000u;
    while (!control_failed(rank->control) && clock_now() < end)
        usleep(1000);
    CHECK(control_failure(rank->control, &error) == WEFT_ERROR_ABORTED);
    CHECK(strcmp(error.text, "rank 4 has had enough") == 0);
    while (atomic_load(&rank->told) == 0 && clock_now() < end)
        usleep(1000);
    CHECK(atomic_load(&rank->told) == 1);
}

static void an_abort_reaches_everybody(void **state)
{
    run_ranks(7, 1, abort_from_one);
}

static void take_answer(void *context, uint32_t from, const struct operation_log *log)
{
    struct rank *rank = context;
    atomic_store(&rank->told, (int)(from + 1) * 1000 + (int)log->entries[0].count);
}

static void ask_logs(struct rank *rank)
{
    uint32_t members[RANKS_MOST];
    uint64_t result[RANKS_MOST], mine = 7;
    struct error error = {0};
    struct operation_log log;
    uint32_t next = (uint32_t)((rank->number + 1) % rank->ranks);
    rank->log.entries[0].count = 40 + (unsigned)rank->number;
    atomic_store(&rank->log.entries[0].sequence, 1);
    control_publish_log(rank->control, &rank->log, NULL);
    for (uint32_t i = 0; i < (uint32_t)rank->ranks; i++)
        members[i] = i;
    for (uint64_t key = 1; key <= 2; key++) {
        CHECK(control_exchange(rank->control, key, members, (uint32_t)rank->ranks, &mine, 8, result, 20, &error) ==
              WEFT_OK);
        if (key == 2)
            return;
        CHECK(control_fetch_log(rank->control, next, &log, 10, &error) == WEFT_OK);
        CHECK(log.entries[0].sequence == 1 && log.entries[0].count == 40 + next);
        CHECK(control_fetch_log(rank->control, (uint32_t)rank->number, &log, 10, &error) == WEFT_OK);
        CHECK(log.entries[0].count == 40 + (unsigned)rank->number);
        control_ask_log(rank->control, next, take_answer, rank);
        uint64_t end = clock_now() + 5000000000u;
        while (atomic_load(&rank->told) == 0 && clock_now() < end)
            usleep(1000);
        CHECK(atomic_load(&rank->told) == (int)(next + 1) * 1000 + 40 + (int)next);
    }
}

static void logs_can_be_read_by_others(void **state)
{
    run_ranks(5, 2, ask_logs);
}

static void fail_at_once(struct rank *rank)
{
    if (rank->number == 4)
        control_abort(rank->control, WEFT_ERROR_ABORTED, "rank 4 has had enough");
    while (!control_failed(rank->control))
        usleep(1000);
}

/* The others may still be connecting: they, too, learn it, and do not wait for what will not come. */
static void an_abort_reaches_those_who_are_connecting(void **state)
{
    uint64_t start = clock_now();
    ranks_run(all, 7, 1, fail_at_once);
    for (int i = 0; i < 7; i++)
        if (*all[i].message) /* it had not connected yet */
            assert_non_null(strstr(all[i].message, "rank 4 has had enough"));
    assert_true(clock_now() - start < 5000000000u);
}

static void *close_by_hand(void *argument)
{
    control_close(((struct rank *)argument)->control);
    return NULL;
}

/* Two ranks by hand, so that strangers can be at the door before them. */
static void *connect_by_hand(void *argument)
{
    static const uint8_t secret[SECRET_BYTES] = {7};
    struct rank *rank = argument;
    struct error error = {0};
    if (control_connect(rank->control, rank->endpoints, secret, &error) != WEFT_OK)
        snprintf(rank->message, sizeof rank->message, "rank %d: %.400s", rank->number, error.text);
    return NULL;
}

/* Open the control planes of two ranks that have not connected. */
static void open_by_hand(struct rank ranks[2], struct endpoint_info endpoints[2])
{
    for (uint32_t i = 0; i < 2; i++) {
        struct control_config settings = {.rank = i, .ranks = 2, .connect_limit = 10};
        assert_int_equal(endpoint_info_begin(&endpoints[i], i, i ? "b" : "a", NULL), WEFT_OK);
        assert_int_equal(control_open(&settings, "127.0.0.1", &ranks[i].control, &endpoints[i], NULL), WEFT_OK);
        ranks[i].endpoints = endpoints;
    }
}

static void run_by_hand(struct rank ranks[2], void *(*function)(void *rank))
{
    for (int i = 0; i < 2; i++)
        pthread_create(&ranks[i].thread, NULL, function, &ranks[i]);
    for (int i = 0; i < 2; i++) {
        pthread_join(ranks[i].thread, NULL);
        assert_string_equal(ranks[i].message, "");
    }
}

/* Strangers that hold connections to a rank open, silent or half-way through a greeting, keep its neighbors out no
 * more than those that speak another language. */
static void half_open_connections_block_nobody(void **state)
{
    enum { STRANGERS = 200 };
    static int strangers[STRANGERS];
    struct endpoint_info endpoints[2];
    struct rank ranks[2] = {{.number = 0}, {.number = 1}};
    char host[ADDRESS_TEXT_BYTES];
    uint16_t port;
    open_by_hand(ranks, endpoints);
    assert_int_equal(address_parse(endpoints[0].control, host, &port, NULL), WEFT_OK);
    for (int i = 0; i < STRANGERS; i++) {
        assert_int_equal(address_connect(host, port, 5, &strangers[i], NULL, NULL), WEFT_OK);
        const char *words = i % 3 == 0 ? "" : i % 3 == 1 ? "WEFT\r\n" : "GET / HTTP/1.1\r\n\r\n";
        assert_int_equal(send(strangers[i], words, strlen(words), MSG_NOSIGNAL), (ssize_t)strlen(words));
    }
    run_by_hand(ranks, connect_by_hand);
    run_by_hand(ranks, close_by_hand);
    for (int i = 0; i < STRANGERS; i++)
        close(strangers[i]);
}

/* A neighbor that has proved itself sends bytes that are no frame, or a frame that is not the control plane's. */
static void a_malformed_frame_ends_the_connection_with_a_message(void **state)
{
    static const uint32_t headers[][2] = {{UINT32_MAX, 1},        {0, 0},
                                          {0, 1u << 16},          {0, 99},
                                          {0, CONTROL_HEARTBEAT}, {0, CONTROL_LEAVING},
                                          {0, CONTROL_FAILURE},   {0, CONTROL_GATHER},
                                          {0, CONTROL_SPREAD},    {0, CONTROL_FLUSH},
                                          {0, CONTROL_BLOB},      {0, CONTROL_ASK},
                                          {0, CONTROL_ANSWER}};
    for (size_t i = 0; i < sizeof headers / sizeof *headers; i++) {
        struct endpoint_info endpoints[2];
        struct rank ranks[2] = {{.number = 0}, {.number = 1}};
        struct error error = {0};
        char byte;
        open_by_hand(ranks, endpoints);
        run_by_hand(ranks, connect_by_hand);
        int line = ranks[1].control->links[0].stream.descriptor;
        assert_int_equal(send(line, headers[i], sizeof headers[i], MSG_NOSIGNAL), sizeof headers[i]);
        for (int k = 0; k < 500 && !control_failed(ranks[0].control); k++) {
            control_progress(ranks[0].control);
            usleep(1000);
        }
        assert_int_equal(control_failure(ranks[0].control, &error), WEFT_ERROR_PEER);
        assert_non_null(strstr(error.text, "rank 1 on host"));
        assert_non_null(strstr(error.text, "sent a malformed frame"));
        struct pollfd end = {line, POLLIN, 0};
        while (poll(&end, 1, 1000) > 0 && recv(line, &byte, 1, MSG_DONTWAIT) > 0)
            ; /* what rank 0 says of it */
        assert_int_equal(recv(line, &byte, 1, MSG_DONTWAIT), 0);
        run_by_hand(ranks, close_by_hand);
    }
}

static const char *doing; /* of the rank that dies */

static char *describe(const struct operation_log *log, char *text, size_t size)
{
    snprintf(text, size, "%s", doing);
    return text;
}

/* What a rank did after its last heartbeat nobody knows: in a short job perhaps all that it did. */
static void a_death_tells_what_the_last_heartbeat_told(void **state)
{
    static const char *const cases[][2] = {
        {"", " s before, it had not begun any operation; nothing is known of the time since then"},
        {"blocked in barrier()", " s before, it was blocked in barrier()"}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct endpoint_info endpoints[2];
        struct rank ranks[2] = {{.number = 0}, {.number = 1}};
        struct error error = {0};
        doing = cases[i][0];
        open_by_hand(ranks, endpoints);
        control_publish_log(ranks[1].control, &ranks[1].log, describe);
        run_by_hand(ranks, connect_by_hand);
        for (int k = 0; k < 20000 && !ranks[0].control->links[0].told; k++) {
            control_progress(ranks[1].control);
            control_progress(ranks[0].control);
            usleep(1000);
        }
        control_abandon(ranks[1].control);
        for (int k = 0; k < 20000 && !control_failed(ranks[0].control); k++) {
            control_progress(ranks[0].control);
            usleep(1000);
        }
        assert_int_equal(control_failure(ranks[0].control, &error), WEFT_ERROR_PEER);
        assert_non_null(strstr(error.text, "; by its last heartbeat, "));
        if (!strstr(error.text, cases[i][1]))
            fail_msg("'%s' is not in: %s", cases[i][1], error.text);
        control_close(ranks[0].control);
    }
}

struct flood {
    int descriptor;
    atomic_bool stop;
};

static void *send_without_end(void *argument)
{
    static const char bytes[65536];
    struct flood *flood = argument;
    while (!atomic_load(&flood->stop))
        if (send(flood->descriptor, bytes, sizeof bytes, MSG_NOSIGNAL | MSG_DONTWAIT) < 0)
            sched_yield();
    return NULL;
}

static void who_never_stops_sending_is_not_listened_to_for_ever(void **state)
{
    static const uint8_t secret[SECRET_BYTES];
    const struct stream_identity identity = {secret, STREAM_CONTROL, 1, 2};
    struct flood flood = {.stop = false};
    struct stream stream;
    pthread_t thread;
    int pair[2];
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, pair), 0);
    flood.descriptor = pair[1];
    assert_int_equal(stream_begin(&stream, pair[0], true, &identity, NULL), WEFT_OK);
    stream.state = STREAM_OPEN; /* as if it had proved itself */
    assert_int_equal(pthread_create(&thread, NULL, send_without_end, &flood), 0);
    for (size_t i = 0, before = 0; i < 20; i++, before = buffer_size(&stream.in)) {
        assert_int_equal(stream_read(&stream, NULL), WEFT_OK);
        assert_true(buffer_size(&stream.in) - before <= STREAM_READ_MOST);
    }
    atomic_store(&flood.stop, true);
    pthread_join(thread, NULL);
    close(pair[1]);
    stream_end(&stream);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(exchanges),
        cmocka_unit_test(exchanges_that_differ_are_named),
        cmocka_unit_test(who_does_not_come_is_named),
        cmocka_unit_test(who_leaves_early_is_named),
        cmocka_unit_test(an_abort_reaches_everybody),
        cmocka_unit_test(an_abort_reaches_those_who_are_connecting),
        cmocka_unit_test(logs_can_be_read_by_others),
        cmocka_unit_test(half_open_connections_block_nobody),
        cmocka_unit_test(a_malformed_frame_ends_the_connection_with_a_message),
        cmocka_unit_test(a_death_tells_what_the_last_heartbeat_told),
        cmocka_unit_test(who_never_stops_sending_is_not_listened_to_for_ever),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
