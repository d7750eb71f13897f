/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Messages through shared memory: order within a channel, independence between channels, contents at every size and
 * kind of buffer, mismatches told to both sides, cancelling. Each behavior as processes, and as threads in three ways.
 */
#include "shm_ranks.h"

#include "base/random.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

static void begin(struct rank *rank, struct transfer *transfer)
{
    struct error error = {0};
    if (rank->transport->begin(rank->transport, transfer, &error) != WEFT_OK) {
        fprintf(stderr, "rank %u: %s\n", rank->number, error.text);
        abort();
    }
}

/* A buffer of the shared heap or an ordinary one. */
static char *buffer_take(struct rank *rank, bool registered, uint64_t bytes)
{
    void *place = NULL;
    if (!registered)
        return malloc(bytes + 1);
    return heap_alloc(rank->heap, bytes, &place, NULL) == WEFT_OK ? place : NULL;
}

static void buffer_give_back(struct rank *rank, bool registered, char *buffer)
{
    if (registered)
        heap_free(rank->heap, buffer);
    else
        free(buffer);
}

/* Contents that tell the message and the place in it. */
static void fill(char *data, uint64_t bytes, uint64_t seed)
{
    for (uint64_t i = 0; i < bytes; i += 8) {
        uint64_t word = random_bits(seed, i);
        memcpy(data + i, &word, bytes - i < 8 ? bytes - i : 8);
    }
}

static bool is_filled(const char *data, uint64_t bytes, uint64_t seed)
{
    for (uint64_t i = 0; i < bytes; i += 8) {
        uint64_t word = random_bits(seed, i);
        if (memcmp(data + i, &word, bytes - i < 8 ? bytes - i : 8) != 0)
            return false;
    }
    return true;
}

/* ---- sizes ---- */

static const uint64_t sizes[] = {0,    1,    7,    8,     31,    32,    33,    88,     89,     500,     2048,   2049,
                                 4095, 4096, 4097, 10000, 65535, 65536, 65537, 262144, 300001, 1000000, 5000017};
#define SIZES (sizeof sizes / sizeof *sizes)

static void ping_pong_all_sizes(struct rank *rank)
{
    uint32_t peer = 1 - rank->number;
    for (int kind = 0; kind < 4; kind++) {
        bool registered = kind >> rank->number & 1;
        for (size_t i = 0; i < SIZES; i++) {
            char *data = buffer_take(rank, registered, sizes[i]);
            uint64_t seed = 100 * i + (uint64_t)kind;
            if (rank->number == 0)
                fill(data, sizes[i], seed);
            struct transfer transfer = rank_transfer(peer, rank->number == 0, data, sizes[i], 5);
            begin(rank, &transfer);
            rank_wait(rank, &transfer);
            RANK_CHECK(rank, transfer.state == TRANSFER_COMPLETE);
            RANK_CHECK(rank, is_filled(data, sizes[i], seed));
            if (rank->number == 1)
                fill(data, sizes[i], seed + 50);
            transfer = rank_transfer(peer, rank->number == 1, data, sizes[i], 6);
            begin(rank, &transfer);
            rank_wait(rank, &transfer);
            RANK_CHECK(rank, transfer.state == TRANSFER_COMPLETE);
            RANK_CHECK(rank, is_filled(data, sizes[i], seed + 50));
            buffer_give_back(rank, registered, data);
        }
    }
    struct transport_counters counters;
    rank->transport->counters(rank->transport, &counters);
    uint64_t total = 0;
    for (size_t i = 0; i < SIZES; i++)
        total += 4 * sizes[i];
    RANK_CHECK(rank, counters.messages_sent == 4 * SIZES && counters.messages_received == 4 * SIZES);
    RANK_CHECK(rank, counters.bytes_sent == total && counters.bytes_received == total);
}

static void every_size_and_kind_of_buffer(void **state)
{
    for (int mode = AS_PROCESSES; mode < RANKS_MODES; mode++)
        assert_true(ranks_run((enum ranks_mode)mode, 2, ping_pong_all_sizes));
}

/* ---- random traffic ---- */

enum { CHANNELS = 12, MESSAGES = 1200 };

struct random_message {
    struct transfer transfer;
    bool registered;
    uint64_t seed;
};

/* Message n of a channel from a to b: size and contents are known to both. */
static uint64_t random_size(uint64_t seed)
{
    uint64_t bits = random_bits(seed, 1);
    uint64_t scale = bits % 100;
    return (bits >> 10) % (scale < 70 ? 100 : scale < 90 ? 6000 : scale < 98 ? 100000 : 900000);
}

/*
 * Every rank sends MESSAGES to every rank, itself included, over several communicators and channels. Sends and receives
 * are posted in an order of each rank's own (in order within a channel only); each flow has at most two of them in
 * flight, so none can take the places of the others.
 */
static void random_traffic(struct rank *rank)
{
    uint32_t flows = rank->count * CHANNELS * 2, per_flow = MESSAGES / CHANNELS;
    uint32_t posted[RANKS_MOST * CHANNELS * 2] = {0};
    struct random_message *messages = calloc(2 * flows, sizeof *messages);
    uint64_t ended = 0, draw = 0;
    for (uint64_t idle = 0; ended < (uint64_t)flows * per_flow; idle++) {
        for (uint32_t i = 0; i < flows; i++) {
            uint64_t bits = random_bits(9000 + rank->number, draw++);
            uint32_t place = (uint32_t)(bits % (2 * flows)), flow = place / 2;
            struct random_message *message = &messages[place];
            struct transfer *transfer = &message->transfer;
            if (transfer->state == TRANSFER_ACTIVE)
                continue;
            idle = 0;
            if (transfer->state != TRANSFER_IDLE) {
                RANK_CHECK(rank, transfer->state == TRANSFER_COMPLETE);
                if (!transfer->is_send)
                    RANK_CHECK(rank, is_filled(transfer->data, transfer->bytes, message->seed));
                buffer_give_back(rank, message->registered, transfer->data);
                transfer->state = TRANSFER_IDLE;
                ended++;
            }
            if (posted[flow] == per_flow)
                continue;
            bool is_send = flow & 1;
            uint32_t peer = flow / 2 / CHANNELS, channel = flow / 2 % CHANNELS;
            uint32_t from = is_send ? rank->number : peer, to = is_send ? peer : rank->number;
            message->seed = (((uint64_t)from * 16 + to) * CHANNELS + channel) * MESSAGES + posted[flow]++;
            message->registered = bits >> 40 & 1;
            uint64_t bytes = random_size(message->seed);
            char *data = buffer_take(rank, message->registered, bytes);
            if (is_send)
                fill(data, bytes, message->seed);
            *transfer = rank_transfer(peer, is_send, data, bytes, message->seed);
            transfer->communicator = channel / 4;
            transfer->channel = (uint8_t)(channel % 4 * 60);
            begin(rank, transfer);
        }
        struct error error = {0};
        RANK_CHECK(rank, rank->transport->progress(rank->transport, &error) == WEFT_OK);
        if (idle > 20)
            sched_yield();
    }
    free(messages);
}

static void random_traffic_keeps_order_and_contents(void **state)
{
    for (int mode = AS_PROCESSES; mode < RANKS_MODES; mode++) {
        assert_true(ranks_run((enum ranks_mode)mode, 2, random_traffic));
        assert_true(ranks_run((enum ranks_mode)mode, 4, random_traffic));
    }
}

/* ---- independence of channels ---- */

/* Channel 0 is stuffed with messages that nobody receives yet, of all kinds; channel 1 works all the same. */
static void stuff_one_channel(struct rank *rank)
{
    enum { STUFFED = 3000, BIG = 100000 };
    uint32_t peer = 1 - rank->number;
    struct transfer *stuffed = calloc(STUFFED, sizeof *stuffed);
    char *big = calloc(1, BIG), small[4096] = "", got[4096];
    for (uint32_t i = 0; i < STUFFED; i++) {
        bool is_big = i % 50 == 7;
        stuffed[i] = rank_transfer(peer, true, is_big ? big : small, is_big ? BIG : 1 + i % sizeof small, i);
        begin(rank, &stuffed[i]);
    }
    for (uint64_t i = 0; i < 200; i++) {
        uint64_t sent = i, received = 0;
        struct transfer out = rank_transfer(peer, true, &sent, sizeof sent, 1),
                        in = rank_transfer(peer, false, &received, sizeof received, 1);
        out.channel = in.channel = 1;
        begin(rank, &in);
        begin(rank, &out);
        rank_wait(rank, &in);
        rank_wait(rank, &out);
        RANK_CHECK(rank, received == i);
    }
    char *ordinary = malloc(BIG);
    struct transfer out = rank_transfer(peer, true, big, BIG, 2), in = rank_transfer(peer, false, ordinary, BIG, 2);
    out.channel = in.channel = 2;
    begin(rank, &out);
    begin(rank, &in);
    rank_wait(rank, &in);
    rank_wait(rank, &out);
    for (uint32_t i = 0; i < STUFFED; i++) {
        bool is_big = i % 50 == 7;
        in = rank_transfer(peer, false, is_big ? ordinary : got, is_big ? BIG : 1 + i % sizeof small, i);
        begin(rank, &in);
        rank_wait(rank, &in);
        RANK_CHECK(rank, in.state == TRANSFER_COMPLETE);
    }
    for (uint32_t i = 0; i < STUFFED; i++)
        rank_wait(rank, &stuffed[i]);
    free(ordinary);
    free(big);
    free(stuffed);
}

static void a_full_channel_blocks_no_other(void **state)
{
    for (int mode = AS_PROCESSES; mode < RANKS_MODES; mode++)
        assert_true(ranks_run((enum ranks_mode)mode, 2, stuff_one_channel));
}

/* ---- mismatches ---- */

static void disagree(struct rank *rank)
{
    uint32_t peer = 1 - rank->number;
    static const uint64_t lengths[] = {8, 2048, 70000};
    for (int early = 0; early < 2; early++)
        for (int registered = 0; registered < 2; registered++)
            for (size_t i = 0; i < 3; i++) {
                bool sends = rank->number == 0;
                char *data = buffer_take(rank, registered, lengths[i]);
                /* once the tags differ, once the sizes */
                struct transfer tag = rank_transfer(peer, sends, data, lengths[i], 40 + rank->number);
                struct transfer size = rank_transfer(peer, sends, data, lengths[i] - rank->number, 50);
                if (early && !sends)
                    for (int turn = 0; turn < 50; turn++, usleep(100))
                        RANK_CHECK(rank, rank->transport->progress(rank->transport, NULL) == WEFT_OK);
                begin(rank, &tag);
                rank_wait(rank, &tag);
                begin(rank, &size);
                rank_wait(rank, &size);
                bool told = !sends || lengths[i] > 2048;
                RANK_CHECK(rank, tag.state == (told ? TRANSFER_MISMATCH : TRANSFER_COMPLETE));
                RANK_CHECK(rank, size.state == (told ? TRANSFER_MISMATCH : TRANSFER_COMPLETE));
                if (told) {
                    RANK_CHECK(rank, tag.peer_tag == 40 + peer && tag.peer_bytes == lengths[i]);
                    RANK_CHECK(rank, size.peer_tag == 50 && size.peer_bytes == lengths[i] - peer);
                }
                buffer_give_back(rank, registered, data);
            }
}

static void both_sides_learn_of_a_mismatch(void **state)
{
    for (int mode = AS_PROCESSES; mode < RANKS_MODES; mode++)
        assert_true(ranks_run((enum ranks_mode)mode, 2, disagree));
}

/* ---- cancelling ---- */

/* Transfers are cancelled in every phase; what the peer still does about them harms nobody, and other messages go on.
 */
static void cancel_everywhere(struct rank *rank)
{
    enum { BIG = 3000000, KINDS = 2, MOST = 8 };
    uint32_t peer = 1 - rank->number;
    for (uint64_t round = 0; round < 60; round++) {
        bool registered = (round >> rank->number) & 1;
        char *data = buffer_take(rank, registered, BIG);
        struct transfer transfers[MOST];
        for (uint32_t i = 0; i < MOST; i++) {
            bool sends = (i + rank->number) % 2;
            transfers[i] = rank_transfer(peer, sends, data, i < 2 ? 100 : BIG / (i + 1), 7);
            transfers[i].communicator = (uint32_t)(1000 + round * MOST + i);
        }
        uint64_t turns = random_bits(rank->number, round) % 12;
        for (uint32_t i = 0; i < MOST; i++)
            if (random_bits(rank->number + 10, round * MOST + i) % 4)
                begin(rank, &transfers[i]);
        for (uint64_t turn = 0; turn < turns; turn++) {
            /* what was revoked is an error of the transport: only messages that were asked for and then cancelled */
            rank->transport->progress(rank->transport, NULL);
            sched_yield();
        }
        for (uint32_t i = 0; i < MOST; i++)
            rank->transport->cancel(rank->transport, &transfers[i]);
        memset(data, 0x11, BIG);
        for (uint32_t i = 0; i < 200; i++)
            rank->transport->progress(rank->transport, NULL);
        for (uint32_t i = 0; i < BIG; i++)
            if (data[i] != 0x11) {
                RANK_CHECK(rank, data[i] == 0x11);
                break;
            }
        buffer_give_back(rank, registered, data);
    }
    uint64_t sent = 3, received = 0;
    struct transfer out = rank_transfer(peer, true, &sent, 8, 1), in = rank_transfer(peer, false, &received, 8, 1);
    begin(rank, &out);
    begin(rank, &in);
    while (in.state == TRANSFER_ACTIVE) {
        rank->transport->progress(rank->transport, NULL);
        sched_yield();
    }
    RANK_CHECK(rank, received == 3);
}

static void cancelled_transfers_leave_memory_alone(void **state)
{
    assert_true(ranks_run(AS_PROCESSES, 2, cancel_everywhere));
    assert_true(ranks_run(AS_THREADS_WITH_OWN_HEAPS, 2, cancel_everywhere));
}

static void send_to_nobody(struct rank *rank)
{
    struct error error = {0};
    struct transfer transfer = rank_transfer(7, true, NULL, 0, 0);
    RANK_CHECK(rank, rank->transport->begin(rank->transport, &transfer, &error) == WEFT_ERROR_STATE);
    RANK_CHECK(rank, strstr(error.text, "rank 7") != NULL);
}

static void a_rank_without_shared_memory_is_refused(void **state)
{
    assert_true(ranks_run(AS_THREADS, 1, send_to_nobody));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_size_and_kind_of_buffer),
        cmocka_unit_test(random_traffic_keeps_order_and_contents),
        cmocka_unit_test(a_full_channel_blocks_no_other),
        cmocka_unit_test(both_sides_learn_of_a_mismatch),
        cmocka_unit_test(cancelled_transfers_leave_memory_alone),
        cmocka_unit_test(a_rank_without_shared_memory_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
