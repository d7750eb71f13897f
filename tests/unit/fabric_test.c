/* SPDX-License-Identifier: Apache-2.0 */
/* Messages over libfabric: two ranks of one process on the loopback interface, driven in turn. */
#include "../support/fabric_shuffle.h"
#include "base/clock.h"
#include "base/random.h"
#include "core/transport/fabric/fabric.h"

#include <poll.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define LIMIT_SECONDS 20
#define LARGE         (FABRIC_EAGER_BYTES + 1)

struct pair {
    struct heap *heap;
    struct fabric *fabrics[2];
    struct transport *transports[2];
    struct fabric_shuffle *shuffles[2];
};

static int pair_open(struct pair *pair, const char *provider, uint64_t shuffle_seed, uint64_t heap_bytes)
{
    struct error error = {0};
    memset(pair, 0, sizeof *pair);
    if (heap_bytes && heap_open(heap_bytes, &pair->heap, &error) != WEFT_OK)
        fail_msg("%s", error.text);
    for (uint32_t rank = 0; rank < 2; rank++) {
        struct fabric_config config = {
            .provider = provider,
            .loopback_only = true,
            .rank = rank,
            .ranks = 2,
            .heap = pair->heap,
        };
        if (fabric_open(&config, &pair->fabrics[rank], &error) != WEFT_OK)
            fail_msg("%s", error.text);
        pair->transports[rank] = fabric_transport(pair->fabrics[rank]);
        if (shuffle_seed)
            pair->shuffles[rank] = fabric_shuffle_open(pair->fabrics[rank], shuffle_seed + rank);
    }
    for (uint32_t rank = 0; rank < 2; rank++) {
        struct fabric_endpoint endpoint;
        fabric_endpoint_info(pair->fabrics[!rank], &endpoint);
        assert_int_equal(fabric_connect(pair->fabrics[rank], !rank, &endpoint, &error), WEFT_OK);
    }
    return 0;
}

static void pair_close(struct pair *pair)
{
    fabric_close(pair->fabrics[0]);
    fabric_close(pair->fabrics[1]);
    for (uint32_t rank = 0; rank < 2; rank++)
        fabric_shuffle_close(pair->shuffles[rank]);
    heap_close(pair->heap);
}

static void pair_progress(struct pair *pair)
{
    struct error error = {0};
    for (int rank = 0; rank < 2; rank++)
        if (pair->transports[rank]->progress(pair->transports[rank], &error) != WEFT_OK)
            fail_msg("%s", error.text);
}

static void begin(struct pair *pair, uint32_t rank, struct transfer *transfer)
{
    struct error error = {0};
    transfer->peer = !rank;
    if (pair->transports[rank]->begin(pair->transports[rank], transfer, &error) != WEFT_OK)
        fail_msg("%s", error.text);
}

static struct transfer message(bool is_send, uint8_t channel, void *data, uint64_t bytes, uint64_t tag)
{
    return (struct transfer){
        .communicator = 1, .channel = channel, .is_send = is_send, .data = data, .bytes = bytes, .tag = tag};
}

static void finish(struct pair *pair, const struct transfer *transfer)
{
    uint64_t limit = clock_now() + LIMIT_SECONDS * (uint64_t)1000000000;
    while (transfer->state == TRANSFER_ACTIVE) {
        pair_progress(pair);
        if (clock_now() > limit)
            fail_msg("%s of %llu bytes hangs", transfer->is_send ? "a send" : "a receive",
                     (unsigned long long)transfer->bytes);
    }
}

static void pattern_fill(uint8_t *data, uint64_t bytes, uint64_t seed)
{
    for (uint64_t i = 0; i < bytes; i++)
        data[i] = (uint8_t)(seed + i * 7 + (i >> 8));
}

static void pattern_check(const uint8_t *data, uint64_t bytes, uint64_t seed)
{
    for (uint64_t i = 0; i < bytes; i++)
        if (data[i] != (uint8_t)(seed + i * 7 + (i >> 8)))
            fail_msg("byte %llu of %llu differs", (unsigned long long)i, (unsigned long long)bytes);
}

/* ---- what arrives ---- */

static void exchange_sizes(struct pair *pair, bool receive_first)
{
    /* Around the limits of eager messages and of chunks. */
    static const uint64_t sizes[] = {0,     1,      8,      4096,   FABRIC_EAGER_BYTES, FABRIC_EAGER_BYTES + 1,
                                     65536, 524288, 524289, 5000000};
    uint8_t *input = malloc(5000000), *output = malloc(5000000);
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        uint64_t bytes = sizes[i];
        pattern_fill(input, bytes, i);
        memset(output, 0, bytes);
        struct transfer send = message(true, 0, input, bytes, 5);
        struct transfer receive = message(false, 0, output, bytes, 5);
        if (receive_first) {
            begin(pair, 1, &receive);
            pair_progress(pair);
        }
        begin(pair, 0, &send);
        for (int turn = 0; turn < 100; turn++)
            pair_progress(pair);
        if (!receive_first)
            begin(pair, 1, &receive);
        finish(pair, &send);
        finish(pair, &receive);
        assert_int_equal(send.state, TRANSFER_COMPLETE);
        assert_int_equal(receive.state, TRANSFER_COMPLETE);
        pattern_check(output, bytes, i);
    }
    free(input);
    free(output);
}

static void every_size_arrives(void **state)
{
    static const char *const providers[] = {NULL, "tcp;ofi_rxm"};
    for (int i = 0; i < 2; i++) {
        struct pair pair;
        pair_open(&pair, providers[i], 0, 0);
        exchange_sizes(&pair, true);
        exchange_sizes(&pair, false);
        pair_close(&pair);
    }
}

static void buffers_of_the_heap_and_registered_ones_go_in_place(void **state)
{
    struct pair pair;
    struct error error = {0};
    void *memory[2];
    pair_open(&pair, NULL, 0, (uint64_t)64 << 20);
    for (int i = 0; i < 2; i++)
        assert_int_equal(heap_alloc(pair.heap, 1 << 20, &memory[i], &error), WEFT_OK);
    uint8_t *foreign = malloc(1 << 20);
    assert_int_equal(fabric_register(pair.fabrics[1], foreign, 1 << 20, &error), WEFT_OK);
    pattern_fill(memory[0], 1 << 20, 3);

    uint8_t *targets[] = {memory[1], foreign};
    for (int i = 0; i < 2; i++) {
        struct transfer send = message(true, 0, memory[0], 1 << 20, 5);
        struct transfer receive = message(false, 0, targets[i], 1 << 20, 5);
        begin(&pair, 1, &receive);
        begin(&pair, 0, &send);
        finish(&pair, &send);
        finish(&pair, &receive);
        pattern_check(targets[i], 1 << 20, 3);
    }
    assert_int_equal(fabric_deregister(pair.fabrics[1], foreign, &error), WEFT_OK);
    assert_int_equal(fabric_deregister(pair.fabrics[1], foreign, &error), WEFT_ERROR_ARGUMENT);
    free(foreign);
    pair_close(&pair);
}

static void a_flooded_channel_holds_up_no_other(void **state)
{
    enum { FLOOD = 5000 };
    struct pair pair;
    struct transfer *sends = calloc(FLOOD, sizeof *sends), *receives = calloc(FLOOD, sizeof *receives);
    uint32_t value[FLOOD], got[FLOOD];
    pair_open(&pair, NULL, 0, 0);
    for (uint32_t i = 0; i < FLOOD; i++) {
        value[i] = i;
        sends[i] = message(true, 0, &value[i], sizeof value[i], 1);
        begin(&pair, 0, &sends[i]);
        pair_progress(&pair);
    }
    /* Memory is bounded: the sender has been held back long before the end. */
    assert_int_equal(sends[FLOOD - 1].state, TRANSFER_ACTIVE);

    uint8_t large[LARGE], large_got[LARGE];
    pattern_fill(large, LARGE, 9);
    for (uint32_t bytes = 4; bytes <= LARGE; bytes += LARGE - 4) {
        struct transfer send = message(true, 1, large, bytes, 2);
        struct transfer receive = message(false, 1, large_got, bytes, 2);
        begin(&pair, 0, &send);
        begin(&pair, 1, &receive);
        finish(&pair, &receive);
        finish(&pair, &send);
        pattern_check(large_got, bytes, 9);
    }
    for (uint32_t i = 0; i < FLOOD; i++) {
        receives[i] = message(false, 0, &got[i], sizeof got[i], 1);
        begin(&pair, 1, &receives[i]);
        finish(&pair, &receives[i]);
        assert_int_equal(got[i], i);
    }
    finish(&pair, &sends[FLOOD - 1]);
    struct transport_counters counters;
    pair.transports[1]->counters(pair.transports[1], &counters);
    assert_int_equal(counters.messages_received, FLOOD + 2);
    assert_int_equal(counters.bytes_received, FLOOD * 4 + 4 + LARGE);
    free(sends);
    free(receives);
    pair_close(&pair);
}

static void more_large_messages_than_lanes(void **state)
{
    enum { MANY = 4200 };
    struct pair pair;
    struct transfer *sends = calloc(MANY, sizeof *sends), *receives = calloc(MANY, sizeof *receives);
    uint8_t *input = malloc(LARGE), *output = malloc(LARGE);
    pattern_fill(input, LARGE, 1);
    pair_open(&pair, NULL, 0, 0);
    for (uint32_t i = 0; i < MANY; i++) {
        receives[i] = message(false, (uint8_t)(i % 251), output, LARGE, i);
        begin(&pair, 1, &receives[i]);
    }
    for (uint32_t i = 0; i < MANY; i++) {
        sends[i] = message(true, (uint8_t)(i % 251), input, LARGE, i);
        begin(&pair, 0, &sends[i]);
    }
    for (uint32_t i = 0; i < MANY; i++) {
        finish(&pair, &sends[i]);
        finish(&pair, &receives[i]);
        assert_int_equal(receives[i].state, TRANSFER_COMPLETE);
    }
    free(sends);
    free(receives);
    free(input);
    free(output);
    pair_close(&pair);
}

/* ---- random messages, any order ---- */

#define MESSAGES 300
#define CHANNELS 24

static uint64_t random_size(uint64_t seed, uint64_t i)
{
    switch (random_below(seed, 3 * i, 4)) {
    case 0:
        return random_below(seed, 3 * i + 1, 100);
    case 1:
        return random_below(seed, 3 * i + 1, 2 * FABRIC_EAGER_BYTES);
    case 2:
        return random_below(seed, 3 * i + 1, 1 << 20);
    default:
        return FABRIC_EAGER_BYTES - 1 + random_below(seed, 3 * i + 1, 3);
    }
}

/** Both ranks send MESSAGES on random channels; both sides begin at random moments, in the order of each channel. */
static void exchange_random(struct pair *pair, uint64_t seed)
{
    struct side {
        struct transfer transfers[MESSAGES];
        int begun;
    } *sides = calloc(4, sizeof *sides); /* rank 0's sends and receives, rank 1's */
    uint64_t drawn = 1000000;
    for (int s = 0; s < 4; s++) {
        uint32_t sender = s % 2 == 0 ? (uint32_t)s / 2 : !(s / 2);
        for (int i = 0; i < MESSAGES; i++) {
            uint64_t bytes = random_size(seed + sender, (uint64_t)i);
            uint8_t channel = (uint8_t)random_below(seed + sender, 3 * (uint64_t)i + 2, CHANNELS);
            sides[s].transfers[i] = message(s % 2 == 0, channel, bytes ? malloc(bytes) : NULL, bytes, (uint64_t)i);
            if (s % 2 == 0 && bytes)
                pattern_fill(sides[s].transfers[i].data, bytes, (uint64_t)i + sender);
        }
    }
    for (int left = 4 * MESSAGES; left;) {
        int s = (int)random_below(seed, drawn++, 4);
        for (uint64_t burst = random_below(seed, drawn++, 20); burst && sides[s].begun < MESSAGES; burst--, left--)
            begin(pair, (uint32_t)s / 2, &sides[s].transfers[sides[s].begun++]);
        pair_progress(pair);
    }
    for (int s = 0; s < 4; s++) {
        uint32_t sender = s % 2 == 0 ? (uint32_t)s / 2 : !(s / 2);
        for (int i = 0; i < MESSAGES; i++) {
            struct transfer *transfer = &sides[s].transfers[i];
            finish(pair, transfer);
            assert_int_equal(transfer->state, TRANSFER_COMPLETE);
            if (s % 2 == 1)
                pattern_check(transfer->data, transfer->bytes, (uint64_t)i + sender);
        }
    }
    for (int s = 0; s < 4; s++)
        for (int i = 0; i < MESSAGES; i++)
            free(sides[s].transfers[i].data);
    free(sides);
}

static void random_messages_in_any_order(void **state)
{
    struct pair pair;
    pair_open(&pair, NULL, 0, 0);
    for (uint64_t seed = 1; seed <= 3; seed++)
        exchange_random(&pair, seed * 1000);
    pair_close(&pair);
}

static void a_network_without_order_changes_nothing(void **state)
{
    for (uint64_t seed = 1; seed <= 5; seed++) {
        struct pair pair;
        pair_open(&pair, NULL, seed * 100, 0);
        exchange_random(&pair, seed * 1000);
        exchange_sizes(&pair, seed % 2);
        for (uint32_t rank = 0; rank < 2; rank++) {
            uint64_t completions, chunks;
            fabric_shuffle_overtakes(pair.shuffles[rank], &completions, &chunks);
            assert_true(completions > 0 && chunks > 0);
        }
        pair_close(&pair);
    }
}

/* ---- mismatches ---- */

static void meet_mismatch(uint64_t send_bytes, uint64_t receive_bytes, uint64_t send_tag, bool receive_first)
{
    static uint8_t memory[2][2 * LARGE];
    struct pair pair;
    pair_open(&pair, NULL, 0, 0);
    struct transfer send = message(true, 3, memory[0], send_bytes, send_tag);
    struct transfer receive = message(false, 3, memory[1], receive_bytes, 7);
    if (receive_first)
        begin(&pair, 1, &receive);
    for (int turn = 0; turn < 50; turn++)
        pair_progress(&pair);
    begin(&pair, 0, &send);
    for (int turn = 0; turn < 50; turn++)
        pair_progress(&pair);
    if (!receive_first)
        begin(&pair, 1, &receive);
    finish(&pair, &receive);
    finish(&pair, &send);
    assert_int_equal(receive.state, TRANSFER_MISMATCH);
    assert_int_equal(receive.peer_tag, send_tag);
    assert_int_equal(receive.peer_bytes, send_bytes);
    if (send.state != TRANSFER_COMPLETE) { /* an eager send may have been complete before the receive began */
        assert_int_equal(send.state, TRANSFER_MISMATCH);
        assert_int_equal(send.peer_tag, 7);
        assert_int_equal(send.peer_bytes, receive_bytes);
    } else {
        assert_true(send_bytes <= FABRIC_EAGER_BYTES);
    }
    /* The channel goes on with the next message. */
    struct transfer next_send = message(true, 3, memory[0], 16, 8), next_receive = message(false, 3, memory[1], 16, 8);
    begin(&pair, 0, &next_send);
    begin(&pair, 1, &next_receive);
    finish(&pair, &next_receive);
    assert_int_equal(next_receive.state, TRANSFER_COMPLETE);
    pair_close(&pair);
}

static void mismatches_end_both_sides(void **state)
{
    for (int receive_first = 0; receive_first < 2; receive_first++) {
        meet_mismatch(8, 8, 6, receive_first);             /* another tag */
        meet_mismatch(8, 12, 7, receive_first);            /* another size */
        meet_mismatch(LARGE, LARGE, 6, receive_first);     /* another tag, large */
        meet_mismatch(LARGE, LARGE + 1, 7, receive_first); /* another size, large */
        meet_mismatch(8, LARGE, 7, receive_first);         /* small meets large */
        meet_mismatch(LARGE, 8, 7, receive_first);         /* large meets small: nobody would announce */
        meet_mismatch(LARGE, 0, 7, receive_first);
    }
}

/* ---- sleeping and cancelling ---- */

static void a_sleeper_is_woken(void **state)
{
    struct pair pair;
    struct error error = {0};
    static uint8_t memory[2][4 * LARGE];
    pair_open(&pair, NULL, 0, 0);
    for (uint64_t round = 0; round < 20; round++) {
        uint64_t bytes = round % 2 ? 4 * LARGE : 8;
        struct transfer send = message(true, 0, memory[0], bytes, 1), receive = message(false, 0, memory[1], bytes, 1);
        begin(&pair, 1, &receive);
        begin(&pair, 0, &send);
        uint64_t limit = clock_now() + LIMIT_SECONDS * (uint64_t)1000000000;
        while (receive.state == TRANSFER_ACTIVE || send.state == TRANSFER_ACTIVE) {
            struct pollfd sleepers[2];
            bool sleep = true;
            for (int rank = 0; rank < 2; rank++) {
                struct transport *transport = pair.transports[rank];
                assert_int_equal(transport->progress(transport, &error), WEFT_OK);
                sleepers[rank] = (struct pollfd){.fd = transport->wait_descriptor(transport), .events = POLLIN};
                assert_true(sleepers[rank].fd >= 0);
                sleep = sleep && transport->may_sleep(transport);
            }
            if (sleep && (receive.state == TRANSFER_ACTIVE || send.state == TRANSFER_ACTIVE))
                assert_true(poll(sleepers, 2, LIMIT_SECONDS * 1000) > 0);
            assert_true(clock_now() < limit);
        }
    }
    pair_close(&pair);
}

/** Looks before sleep drive the provider too: what they connect must carry the messages that waited for it. */
static void a_connection_made_by_a_look_before_sleep_is_used(void **state)
{
    struct pair pair;
    struct error error = {0};
    uint64_t sent = 7, received = 0;
    pair_open(&pair, NULL, 0, 0);
    struct transport *sleeper = pair.transports[0], *awake = pair.transports[1];
    struct transfer send = message(true, 0, &sent, sizeof sent, 1),
                    receive = message(false, 0, &received, sizeof received, 1);
    begin(&pair, 1, &receive);
    begin(&pair, 0, &send);
    uint64_t limit = clock_now() + LIMIT_SECONDS * (uint64_t)1000000000;
    while (receive.state == TRANSFER_ACTIVE) {
        assert_int_equal(awake->progress(awake, &error), WEFT_OK);
        struct pollfd doorbell = {.fd = sleeper->wait_descriptor(sleeper), .events = POLLIN};
        if (!sleeper->may_sleep(sleeper) || poll(&doorbell, 1, 0) > 0)
            assert_int_equal(sleeper->progress(sleeper, &error), WEFT_OK);
        if (clock_now() > limit)
            fail_msg("the message that waited for a connection never left");
    }
    assert_int_equal(received, sent);
    pair_close(&pair);
}

static void cancelled_transfers_leave_their_memory_alone(void **state)
{
    struct pair pair;
    uint8_t *memory[4];
    for (int i = 0; i < 4; i++)
        memory[i] = calloc(1, 64 * LARGE);
    pair_open(&pair, NULL, 0, 0);
    struct transfer small = message(false, 0, memory[0], 8, 1), large = message(false, 1, memory[1], 64 * LARGE, 1);
    struct transfer waiting = message(true, 2, memory[2], 64 * LARGE, 1);
    struct transfer writing = message(true, 1, memory[3], 64 * LARGE, 1);
    memset(memory[3], 1, 64 * LARGE);
    begin(&pair, 1, &small);
    begin(&pair, 1, &large);
    begin(&pair, 0, &waiting);
    for (int turn = 0; turn < 100; turn++)
        pair_progress(&pair);
    begin(&pair, 0, &writing);
    struct transport *transport = pair.transports[1];
    transport->cancel(transport, &small);
    transport->cancel(transport, &large);
    assert_int_equal(small.state, TRANSFER_IDLE);
    assert_int_equal(large.state, TRANSFER_IDLE);
    memset(memory[1], 2, 64 * LARGE);
    for (int turn = 0; turn < 1000; turn++) {
        transport->progress(transport, NULL);
        pair.transports[0]->progress(pair.transports[0], NULL);
    }
    for (int i = 0; i < 64 * LARGE; i++)
        assert_int_equal(memory[1][i], 2);
    struct error error = {0};
    assert_int_equal(transport->begin(transport, &small, &error), WEFT_ERROR_STATE);
    transport = pair.transports[0];
    transport->cancel(transport, &waiting);
    if (writing.state == TRANSFER_ACTIVE)
        transport->cancel(transport, &writing);
    for (int i = 0; i < 4; i++)
        free(memory[i]);
    pair_close(&pair);
}

/* ---- choices ---- */

static void choices_are_described_and_bad_ones_refused(void **state)
{
    struct fabric *fabric = NULL;
    struct error error = {0};
    struct fabric_config config = {.loopback_only = true, .ranks = 2};
    assert_int_equal(fabric_open(&config, &fabric, &error), WEFT_OK);
    assert_non_null(strstr(fabric_description(fabric), "127.0.0.1"));
    fabric_close(fabric);

    config.interface = "nowhere0";
    assert_int_equal(fabric_open(&config, &fabric, &error), WEFT_ERROR_NETWORK);
    assert_non_null(strstr(error.text, "nowhere0"));
    assert_non_null(strstr(error.text, "lo (127.0.0.1)"));

    error_clear(&error);
    config.interface = NULL;
    config.provider = "carrier-pigeon";
    assert_int_equal(fabric_open(&config, &fabric, &error), WEFT_ERROR_NETWORK);
    assert_non_null(strstr(error.text, "carrier-pigeon"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_size_arrives),
        cmocka_unit_test(buffers_of_the_heap_and_registered_ones_go_in_place),
        cmocka_unit_test(a_flooded_channel_holds_up_no_other),
        cmocka_unit_test(more_large_messages_than_lanes),
        cmocka_unit_test(random_messages_in_any_order),
        cmocka_unit_test(a_network_without_order_changes_nothing),
        cmocka_unit_test(mismatches_end_both_sides),
        cmocka_unit_test(a_sleeper_is_woken),
        cmocka_unit_test(a_connection_made_by_a_look_before_sleep_is_used),
        cmocka_unit_test(cancelled_transfers_leave_their_memory_alone),
        cmocka_unit_test(choices_are_described_and_bad_ones_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
