/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One rank that speaks to others over the fabric alone; scripts start as many as they want, on as many hosts.
 *
 *     fabric_rank MODE RANK RANKS DIRECTORY [NAME=VALUE...]
 *
 *     random      every rank sends messages of random sizes on random channels to every other, all are checked
 *     latency     ranks 0 and 1 exchange `bytes`, `count` times: prints microseconds one way (best and median of ten
 * batches) bandwidth   rank 0 sends `count` messages of `bytes` to rank 1, `depth` at a time: prints MB/s and both CPU
 * times death       the last rank kills itself amid transfers; the others must be able to cancel theirs and close
 *
 * The ranks meet through files in DIRECTORY. Names: interface, provider, shuffle, seed, bytes, count, depth; sleep=1 waits
 * by poll.
 */
#include "../support/fabric_shuffle.h"
#include "base/clock.h"
#include "base/random.h"
#include "core/transport/fabric/fabric.h"

#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define SECOND        ((uint64_t)1000000000)
#define LIMIT_SECONDS 100

static struct {
    uint32_t rank, ranks;
    const char *directory, *interface, *provider;
    uint64_t shuffle, seed, bytes, count, depth, sleep;
} options = {.seed = 1, .bytes = 8, .count = 1000, .depth = 4};

static struct fabric *fabric;
static struct fabric_shuffle *shuffle;
static struct transport *transport;
static struct heap *heap;
static uint64_t limit;

static void quit(const char *text)
{
    fprintf(stderr, "rank %u: %s\n", options.rank, text);
    exit(1);
}

/* ---- rendezvous ---- */

/** Put `bytes` where the others find them as soon as they are complete. */
static void publish(const char *what, const void *data, size_t bytes)
{
    char path[512], final[512];
    snprintf(path, sizeof path, "%s/.%s.%u", options.directory, what, options.rank);
    snprintf(final, sizeof final, "%s/%s.%u", options.directory, what, options.rank);
    FILE *file = fopen(path, "wb");
    if (!file || fwrite(data, 1, bytes, file) != bytes || fclose(file) != 0 || rename(path, final) != 0)
        quit("cannot write into the rendezvous directory");
}

static void collect(const char *what, uint32_t rank, void *data, size_t bytes)
{
    char path[512];
    snprintf(path, sizeof path, "%s/%s.%u", options.directory, what, rank);
    for (;;) {
        FILE *file = fopen(path, "rb");
        if (file) {
            if (fread(data, 1, bytes, file) != bytes)
                quit("a file of the rendezvous is short");
            fclose(file);
            return;
        }
        if (clock_now() > limit)
            quit("a rank did not come");
        if (transport && transport->progress(transport, NULL) != WEFT_OK)
            quit("progress failed while rendezvous");
        usleep(1000);
    }
}

static void meet(const char *what)
{
    publish(what, "", 1);
    for (uint32_t rank = 0; rank < options.ranks; rank++)
        collect(what, rank, &(char){0}, 1);
}

static void open_fabric(void)
{
    struct error error = {0};
    struct fabric_config config = {
        .provider = options.provider,
        .interface = options.interface,
        .loopback_only = !options.interface,
        .rank = options.rank,
        .ranks = options.ranks,
    };
    if (heap_open((uint64_t)1 << 30, &heap, &error) != WEFT_OK)
        quit(error.text);
    config.heap = heap;
    if (fabric_open(&config, &fabric, &error) != WEFT_OK)
        quit(error.text);
    if (options.shuffle)
        shuffle = fabric_shuffle_open(fabric, options.shuffle + options.rank);
    struct fabric_endpoint endpoint;
    fabric_endpoint_info(fabric, &endpoint);
    publish("endpoint info", &endpoint, sizeof endpoint);
    for (uint32_t rank = 0; rank < options.ranks; rank++) {
        if (rank == options.rank)
            continue;
        collect("endpoint info", rank, &endpoint, sizeof endpoint);
        if (fabric_connect(fabric, rank, &endpoint, &error) != WEFT_OK)
            quit(error.text);
    }
    transport = fabric_transport(fabric);
}

/* ---- transfers ---- */

static void progress(void)
{
    struct error error = {0};
    if (transport->progress(transport, &error) != WEFT_OK)
        quit(error.text);
}

static void begin(struct transfer *transfer)
{
    struct error error = {0};
    if (transport->begin(transport, transfer, &error) != WEFT_OK)
        quit(error.text);
}

static void finish(const struct transfer *transfer)
{
    for (uint32_t spins = 0; transfer->state == TRANSFER_ACTIVE; spins++) {
        progress();
        if (spins % 1024 == 1023 && clock_now() > limit)
            quit(transfer->is_send ? "a send hangs" : "a receive hangs");
        if (options.sleep && transfer->state == TRANSFER_ACTIVE && transport->may_sleep(transport)) {
            struct pollfd doorbell = {.fd = transport->wait_descriptor(transport), .events = POLLIN};
            if (poll(&doorbell, 1, LIMIT_SECONDS * 1000) < 1)
                quit("nobody woke a sleeper");
        }
    }
    if (transfer->state != TRANSFER_COMPLETE)
        quit("a transfer ended badly");
}

static struct transfer message(bool is_send, uint32_t peer, uint8_t channel, void *data, uint64_t bytes, uint64_t tag)
{
    return (struct transfer){.peer = peer,
                             .communicator = 7,
                             .channel = channel,
                             .is_send = is_send,
                             .data = data,
                             .bytes = bytes,
                             .tag = tag};
}

/* ---- random ---- */

/** Message `number` from `sender` to `receiver`: both compute the same. */
static void plan_message(uint32_t sender, uint32_t receiver, uint64_t number, uint64_t *bytes, uint8_t *channel)
{
    uint64_t stream = options.seed * 1000003 + sender * 1009 + receiver;
    static const uint64_t bounds[] = {65, 2 * FABRIC_EAGER_BYTES, 300000, (uint64_t)8 << 20};
    uint64_t kind = random_below(stream, 3 * number, 100);
    *bytes = random_below(stream, 3 * number + 1, bounds[kind < 50 ? 0 : kind < 85 ? 1 : kind < 97 ? 2 : 3]);
    *channel = (uint8_t)random_below(stream, 3 * number + 2, 40);
}

static uint8_t pattern(uint64_t seed, uint64_t i)
{
    return (uint8_t)(seed * 31 + i * 7 + (i >> 9));
}

static void exchange_random(void)
{
    uint64_t total = 2 * (uint64_t)options.ranks * options.count, drawn = 0;
    struct transfer *transfers = calloc(total, sizeof *transfers);
    uint64_t *begun = calloc(2 * options.ranks, sizeof *begun);
    for (uint32_t peer = 0; peer < options.ranks; peer++) {
        for (uint64_t i = 0; i < 2 * options.count && peer != options.rank; i++) {
            bool is_send = i < options.count;
            uint64_t number = i % options.count, bytes;
            uint8_t channel;
            plan_message(is_send ? options.rank : peer, is_send ? peer : options.rank, number, &bytes, &channel);
            uint8_t *data = NULL;
            if (number % 2) {
                if (heap_alloc(heap, bytes, (void **)&data, NULL) != WEFT_OK)
                    quit("the heap is full");
            } else if (bytes) {
                data = malloc(bytes);
            }
            for (uint64_t b = 0; is_send && b < bytes; b++)
                data[b] = pattern(number + options.rank, b);
            transfers[2 * peer * options.count + i] = message(is_send, peer, channel, data, bytes, number);
        }
    }
    /* Begin them in bursts, sends and receives and peers mixed at random; each of a kind to one peer in order. */
    for (uint64_t left = total - 2 * options.count; left;) {
        uint64_t which = random_below(options.seed * 77 + options.rank, drawn++, 2 * options.ranks);
        if (which / 2 == options.rank)
            continue;
        uint64_t burst = random_below(options.seed * 77 + options.rank, drawn++, 12);
        for (; burst && begun[which] < options.count; burst--, left--)
            begin(&transfers[which * options.count + begun[which]++]);
        progress();
    }
    for (uint64_t i = 0; i < total; i++) {
        struct transfer *transfer = &transfers[i];
        if (i / (2 * options.count) == options.rank)
            continue;
        finish(transfer);
        uint64_t number = i % options.count;
        for (uint64_t b = 0; !transfer->is_send && b < transfer->bytes; b++)
            if (((uint8_t *)transfer->data)[b] != pattern(number + transfer->peer, b))
                quit("a message differs from what was sent");
    }
    struct transport_counters counters;
    transport->counters(transport, &counters);
    if (counters.messages_sent != total / 2 - options.count || counters.messages_received != total / 2 - options.count)
        quit("the counters are wrong");
    meet("random");
    for (uint64_t i = 0; i < total; i++)
        if (!heap_free(heap, transfers[i].data))
            free(transfers[i].data);
    free(transfers);
    free(begun);
    if (options.rank == 0)
        printf("%u ranks, %llu messages each\n", options.ranks, (unsigned long long)counters.messages_sent);
}

/* ---- latency and bandwidth ---- */

static void *buffer_of(uint64_t bytes)
{
    void *data;
    if (heap_alloc(heap, bytes, &data, NULL) != WEFT_OK)
        quit("the heap is too small");
    return data;
}

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static void measure_latency(void)
{
    enum { BATCHES = 50 };
    double times[BATCHES];
    void *data = buffer_of(options.bytes);
    for (int batch = -1; batch < BATCHES; batch++) { /* the first one warms up */
        uint64_t started = clock_now();
        for (uint64_t i = 0; i < options.count; i++) {
            for (uint32_t turn = 0; turn < 2; turn++) {
                struct transfer transfer = message(turn == options.rank, !options.rank, 0, data, options.bytes, i);
                begin(&transfer);
                finish(&transfer);
            }
        }
        if (batch >= 0)
            times[batch] = (double)(clock_now() - started) / 2e3 / (double)options.count;
    }
    qsort(times, BATCHES, sizeof *times, by_value);
    if (options.rank == 0)
        printf("%llu bytes: %.2f us best, %.2f median\n", (unsigned long long)options.bytes, times[0],
               times[BATCHES / 2]);
}

static void measure_mixed(void)
{
    enum { LARGE = 4 << 20, STREAMS = 64 };
    struct transfer streams[2][STREAMS];
    void *data[2] = {buffer_of(LARGE), buffer_of(LARGE)};
    for (int i = 0; i < STREAMS; i++) {
        for (int way = 0; way < 2; way++) {
            streams[way][i] = message(way, !options.rank, 9, data[way], LARGE, 9);
            begin(&streams[way][i]);
        }
    }
    measure_latency();
    if (streams[0][STREAMS - 1].state != TRANSFER_ACTIVE)
        quit("the large messages ended first: ask for a smaller count");
    for (int i = 0; i < STREAMS; i++)
        for (int way = 0; way < 2; way++)
            finish(&streams[way][i]);
}

static void measure_bandwidth(void)
{
    struct transfer transfers[64];
    if (options.depth < 1 || options.depth > 64)
        quit("depth must be from 1 to 64");
    void *data = buffer_of(options.bytes);
    uint64_t started = 0, cpu = 0;
    for (uint64_t i = 0; i < options.count + 4 + options.depth; i++) {
        if (i >= options.depth)
            finish(&transfers[(i - options.depth) % options.depth]);
        if (i == 4 + options.depth - 1) { /* warm */
            started = clock_now();
            cpu = clock_process_cpu();
        }
        if (i >= options.count + 4)
            continue;
        struct transfer *transfer = &transfers[i % options.depth];
        *transfer = message(options.rank == 0, !options.rank, 0, data, options.bytes, i);
        begin(transfer);
    }
    double seconds = (double)(clock_now() - started) / 1e9;
    double busy = (double)(clock_process_cpu() - cpu) / 1e9 / seconds;
    printf("rank %u: %llu bytes: %.1f MB/s, %.0f%% CPU\n", options.rank, (unsigned long long)options.bytes,
           (double)options.bytes * (double)options.count / seconds / 1e6, 100 * busy);
}

/* ---- death ---- */

static void survive_death(void)
{
    enum { LARGE = 4 << 20 };
    uint32_t last = options.ranks - 1, peer = options.rank == last ? 0 : last;
    void *data = buffer_of(LARGE);
    struct transfer greeting = message(options.rank == last, peer, 0, data, 8, 1);
    if (options.rank == 0 || options.rank == last) {
        begin(&greeting);
        finish(&greeting);
    }
    if (options.rank == last)
        raise(SIGKILL);
    struct transfer transfers[] = {
        message(false, last, 1, data, 8, 1),    message(false, last, 2, data, LARGE, 1),
        message(true, last, 3, data, LARGE, 1), message(true, last, 4, data, 8, 1),
        message(true, last, 5, data, LARGE, 1),
    };
    const int count = sizeof transfers / sizeof *transfers;
    uint64_t until = clock_now() + SECOND;
    for (int i = 0; i < count; i++)
        if (transport->begin(transport, &transfers[i], NULL) != WEFT_OK)
            transfers[i].state = TRANSFER_FAILED;
    while (clock_now() < until)
        transport->progress(transport, NULL); /* may fail: the death's echo */
    if (transfers[0].state == TRANSFER_COMPLETE || transfers[1].state == TRANSFER_COMPLETE)
        quit("the dead have spoken");
    for (int i = 0; i < count; i++)
        if (transfers[i].state == TRANSFER_ACTIVE)
            transport->cancel(transport, &transfers[i]);
    printf("rank %u survived\n", options.rank);
}

/* ----------------------------------------------------------------------------------------------------------------- */

static void read_option(const char *text)
{
    const struct {
        const char *name;
        const char **string;
        uint64_t *number;
    } known[] = {
        {"interface=", &options.interface, NULL}, {"provider=", &options.provider, NULL},
        {"shuffle=", NULL, &options.shuffle},     {"seed=", NULL, &options.seed},
        {"bytes=", NULL, &options.bytes},         {"count=", NULL, &options.count},
        {"depth=", NULL, &options.depth},         {"sleep=", NULL, &options.sleep},
    };
    for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
        size_t length = strlen(known[i].name);
        if (strncmp(text, known[i].name, length) != 0)
            continue;
        if (known[i].string)
            *known[i].string = text + length;
        else
            *known[i].number = strtoull(text + length, NULL, 10);
        return;
    }
    quit("unknown option");
}

int main(int count, char **words)
{
    static const struct {
        const char *name;
        void (*run)(void);
    } modes[] = {
        {"random", exchange_random},      {"latency", measure_latency}, {"mixed", measure_mixed},
        {"bandwidth", measure_bandwidth}, {"death", survive_death},
    };
    if (count < 5)
        quit("usage: fabric_rank MODE RANK RANKS DIRECTORY [NAME=VALUE...]");
    options.rank = (uint32_t)atoi(words[2]);
    options.ranks = (uint32_t)atoi(words[3]);
    options.directory = words[4];
    for (int i = 5; i < count; i++)
        read_option(words[i]);
    limit = clock_now() + LIMIT_SECONDS * SECOND;
    for (size_t i = 0; i < sizeof modes / sizeof *modes; i++) {
        if (strcmp(words[1], modes[i].name) != 0)
            continue;
        open_fabric();
        modes[i].run();
        if (modes[i].run != survive_death)
            meet("end");
        fabric_close(fabric);
        fabric_shuffle_close(shuffle);
        heap_close(heap);
        return 0;
    }
    quit("unknown mode");
}
