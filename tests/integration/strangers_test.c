/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Strangers at every port that a running job listens on (the endpoints of the fabric among them): they connect, say
 * nothing, or noise, or the first bytes of something sensible, hang on or go. Sums stay right, and the job ends in
 * order; and survivors of a failure find each other in the crowd.
 */
#include "../world.h"
#include "base/random.h"

#include <dirent.h>
#include <stdarg.h>
#include <stdatomic.h>

#include <setjmp.h>

#include <cmocka.h>

enum { PORTS_MOST = 64, ROUNDS = 12, VISITS = 6, COUNT = 100000, CROWD = 300 };

/* Whether the socket with this inode is one of this process. */
static bool is_own(unsigned long inode)
{
    char wanted[64], found[64];
    bool own = false;
    DIR *directory = opendir("/proc/self/fd");
    snprintf(wanted, sizeof wanted, "socket:[%lu]", inode);
    for (struct dirent *entry; directory && !own && (entry = readdir(directory));) {
        ssize_t length = readlinkat(dirfd(directory), entry->d_name, found, sizeof found - 1);
        own = length > 0 && (size_t)length == strlen(wanted) && memcmp(found, wanted, (size_t)length) == 0;
    }
    if (directory)
        closedir(directory);
    return own;
}

/* The IPv4 TCP sockets that this process listens on. */
static int own_ports(struct sockaddr_in *ports)
{
    char line[512];
    int count = 0;
    FILE *table = fopen("/proc/self/net/tcp", "r");
    while (table && count < PORTS_MOST && fgets(line, sizeof line, table)) {
        unsigned address, port, state;
        unsigned long inode;
        if (sscanf(line, " %*d: %x:%x %*x:%*x %x %*s %*s %*s %*d %*d %lu", &address, &port, &state, &inode) == 4 &&
            state == 0x0a && is_own(inode))
            ports[count++] = (struct sockaddr_in){.sin_family = AF_INET,
                                                  .sin_port = htons((uint16_t)port),
                                                  .sin_addr.s_addr = address ? address : htonl(INADDR_LOOPBACK)};
    }
    if (table)
        fclose(table);
    return count;
}

/* Returns the connection, -1 if it was closed or did not come about. */
static int visit(const struct sockaddr_in *port, uint64_t number)
{
    static const char *const words[] = {"", "GET / HTTP/1.1\r\n\r\n", "WEFT\r\n\x1a\n", "\x01", NULL};
    uint64_t draw = random_bits(99, number);
    char noise[5000];
    int line = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    (void)connect(line, (const struct sockaddr *)port, sizeof *port); /* over the loopback: at once */
    const char *word = words[draw % 5];
    for (size_t i = 0; i < sizeof noise; i++)
        noise[i] = (char)random_bits(number, i);
    if (word)
        (void)!send(line, word, strlen(word), MSG_NOSIGNAL);
    else
        (void)!send(line, noise, 1 + (draw >> 8) % sizeof noise, MSG_NOSIGNAL);
    if (draw >> 32 & 1)
        return line;
    close(line);
    return -1;
}

static int be_visited(weft_context *context, int rank, void *argument)
{
    struct sockaddr_in ports[PORTS_MOST];
    static int lines[ROUNDS * VISITS * PORTS_MOST];
    weft_comm *world = weft_world(context);
    float *data = weft_alloc(context, COUNT * sizeof *data);
    int ranks = weft_comm_size(world), opened = 0, port_count = rank == 0 ? own_ports(ports) : 0;
    CHECK(data);
    CHECK(rank != 0 || port_count > 0);
    for (int round = 0; round < ROUNDS; round++) {
        for (int i = 0; i < port_count * VISITS && opened < 600; i++) {
            int line = visit(&ports[i % port_count], (uint64_t)(round * 1000 + i));
            if (line >= 0)
                lines[opened++] = line;
        }
        for (int count = 1; count <= COUNT; count = count == 1 ? 3000 : count == 3000 ? COUNT : COUNT + 1) {
            for (int i = 0; i < count; i++)
                data[i] = (float)(rank + i % 7);
            CHECK(weft_allreduce(data, data, (size_t)count, WEFT_F32, WEFT_SUM, world) == WEFT_OK);
            for (int i = 0; i < count; i++)
                CHECK(data[i] == (float)(ranks * (i % 7) + ranks * (ranks - 1) / 2));
        }
    }
    CHECK(weft_barrier(world) == WEFT_OK);
    for (int i = 0; i < opened; i++)
        close(lines[i]);
    return 0;
}

static void test_a_fabric_is_visited_by_strangers(void **state)
{
    assert_int_equal(world_run(&(struct world){.ranks = 2, .ranks_per_node = 1}, be_visited, NULL), 0);
    assert_int_equal(world_run(&(struct world){.ranks = 3, .ranks_per_node = 1, .fabric = "net"}, be_visited, NULL), 0);
}

static void test_message_endpoints_are_visited_by_strangers(void **state)
{
    assert_int_equal(
        world_run(&(struct world){.ranks = 2, .ranks_per_node = 1, .fabric = "tcp;ofi_rxm"}, be_visited, NULL), 0);
}

/* Silent connections to this process's ports, ever new ones, CROWD at a time. */
struct crowd {
    pthread_t thread;
    _Atomic bool stop;
};

static void *come_and_stay(void *argument)
{
    struct crowd *crowd = argument;
    struct sockaddr_in ports[PORTS_MOST];
    int lines[CROWD], count = own_ports(ports);
    memset(lines, -1, sizeof lines);
    for (int i = 0; !atomic_load(&crowd->stop); i++) {
        int *line = &lines[i % CROWD];
        if (*line >= 0)
            close(*line);
        *line = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
        (void)connect(*line, (const struct sockaddr *)&ports[i % count], sizeof *ports);
        usleep(1000);
    }
    for (int i = 0; i < CROWD; i++)
        if (lines[i] >= 0)
            close(lines[i]);
    return NULL;
}

/* Rank 2 dies; ports of rank 0, to whom the others come to agree on who is left, are crowded. */
static int shrink_in_a_crowd(weft_context *context, int rank, void *argument)
{
    struct crowd crowd = {.stop = false};
    float value = 1;
    if (rank == 2)
        world_kill_later(300000);
    if (rank == 0)
        CHECK(pthread_create(&crowd.thread, NULL, come_and_stay, &crowd) == 0);
    while (weft_allreduce(&value, &value, 1, WEFT_F32, WEFT_MAX, weft_world(context)) == WEFT_OK)
        usleep(1000);
    CHECK(weft_shrink(context) == WEFT_OK);
    CHECK(weft_comm_size(weft_world(context)) == 2);
    CHECK(weft_allreduce(&value, &value, 1, WEFT_F32, WEFT_SUM, weft_world(context)) == WEFT_OK);
    CHECK(value == 2);
    atomic_store(&crowd.stop, true);
    if (rank == 0)
        pthread_join(crowd.thread, NULL);
    return 0;
}

static void test_survivors_meet_in_a_crowd_of_strangers(void **state)
{
    const struct world world = {.ranks = 3, .ranks_per_node = 1, .processes = true};
    assert_int_equal(world_run(&world, shrink_in_a_crowd, NULL), 1); /* who was killed */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_fabric_is_visited_by_strangers),
        cmocka_unit_test(test_message_endpoints_are_visited_by_strangers),
        cmocka_unit_test(test_survivors_meet_in_a_crowd_of_strangers),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
