/* SPDX-License-Identifier: Apache-2.0 */
/* Ranks of one machine share memory: they find each other, share memory, wake each other; strangers and absentees are reported
 * apart. */
#include "shm_ranks.h"

#include <dirent.h>
#include <errno.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <sys/socket.h>
#include <sys/un.h>

#include <cmocka.h>

/* Every rank writes into a place of its own heap and into its neighbor's, and all see it. */
static void share_memory(struct rank *rank)
{
    void *place = NULL;
    RANK_CHECK(rank, heap_alloc(rank->heap, 4096, &place, NULL) == WEFT_OK);
    atomic_store(&rank->status_page->words[rank->number], heap_offset(rank->heap, place, 4096));
    _Atomic uint64_t *mine = place;
    atomic_store(mine, 1000 + rank->number);
    ranks_barrier(rank);
    for (uint32_t i = 0; i < rank->count; i++) {
        RANK_CHECK(rank, shm_reaches(rank->shm, i));
        _Atomic uint64_t *theirs = (_Atomic uint64_t *)(shm_peer_base(rank->shm, i) + rank->status_page->words[i]);
        RANK_CHECK(rank, atomic_load(theirs) == 1000 + i);
        atomic_fetch_add(theirs + 1, 1);
    }
    RANK_CHECK(rank, shm_peer_base(rank->shm, rank->number) == heap_base(rank->heap));
    RANK_CHECK(rank, !shm_reaches(rank->shm, rank->count));
    RANK_CHECK(rank, shm_peer_base(rank->shm, UINT32_MAX) == NULL);
    ranks_barrier(rank);
    RANK_CHECK(rank, atomic_load(mine + 1) == rank->count);
    heap_free(rank->heap, place);
}

static void processes_share_memory(void **state)
{
    assert_true(ranks_run(AS_PROCESSES, 2, share_memory));
    assert_true(ranks_run(AS_PROCESSES, 8, share_memory));
}

static void threads_share_memory(void **state)
{
    assert_true(ranks_run(AS_THREADS, 8, share_memory));
    assert_true(ranks_run(AS_THREADS_WITH_OWN_HEAPS, 4, share_memory));
    assert_true(ranks_run(AS_THREADS, 1, share_memory));
}

static bool counter_reached(struct rank *rank, const void *what)
{
    return atomic_load(&rank->status_page->words[rank->number]) >= *(const uint64_t *)what;
}

/* A token goes round; ranks that wait for it sleep at once. A lost wake-up would last 30 s and fail the test. */
static void pass_token_asleep(struct rank *rank)
{
    uint32_t next = (rank->number + 1) % rank->count;
    uint64_t started = clock_now();
    for (uint64_t round = 1; round <= 2000; round++) {
        if (rank->number == 0) {
            atomic_store_explicit(&rank->status_page->words[next], round, memory_order_release);
            shm_ring(rank->shm, next);
        }
        while (!counter_reached(rank, &round))
            rank_sleep(rank, counter_reached, &round);
        if (rank->number != 0) {
            atomic_store_explicit(&rank->status_page->words[next], round, memory_order_release);
            shm_ring_all(rank->shm, &next, 1);
        }
    }
    RANK_CHECK(rank, clock_now() - started < UINT64_C(25000000000));
}

static void no_wake_up_is_lost(void **state)
{
    assert_true(ranks_run(AS_PROCESSES, 2, pass_token_asleep));
    assert_true(ranks_run(AS_PROCESSES, 4, pass_token_asleep));
    assert_true(ranks_run(AS_THREADS, 3, pass_token_asleep));
}

/* The rank itself may be rung, by its helper thread. */
static void *ring_self(void *argument)
{
    struct rank *rank = argument;
    atomic_store_explicit(&rank->status_page->words[0], 1, memory_order_release);
    shm_ring(rank->shm, 0);
    return NULL;
}

static void be_rung_by_own_thread(struct rank *rank)
{
    uint64_t one = 1;
    pthread_t thread;
    pthread_create(&thread, NULL, ring_self, rank);
    while (!counter_reached(rank, &one))
        rank_sleep(rank, counter_reached, &one);
    pthread_join(thread, NULL);
}

static void a_rank_can_ring_itself(void **state)
{
    assert_true(ranks_run(AS_THREADS, 1, be_rung_by_own_thread));
}

static int call_name(const char *name)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    int line = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
    memcpy(address.sun_path + 1, name, strlen(name));
    socklen_t length = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + strlen(name));
    if (connect(line, (struct sockaddr *)&address, length) != 0) {
        close(line);
        return -1;
    }
    return line;
}

struct pair {
    struct shm *shm;
    struct shm_endpoint *endpoints;
    weft_status status;
};

static void *connect_pair(void *argument)
{
    struct pair *pair = argument;
    uint32_t list[2] = {0, 1};
    pair->status = shm_connect(pair->shm, list, pair->endpoints, 2, 20, NULL);
    return NULL;
}

/* In a process of another user: call, and wait to be hung up on. 0 if that was all. Returns when the call is made:
 * later ones, after the ranks have met, are nobody's to take. */
static pid_t call_as_nobody(const char *name)
{
    int called[2];
    char bytes[300];
    assert_int_equal(pipe(called), 0);
    pid_t child = fork();
    if (child == 0) {
        alarm(20);
        int line = setresuid(65534, 65534, 65534) == 0 ? call_name(name) : -1;
        _exit(write(called[1], "c", 1) == 1 && line >= 0 && recv(line, bytes, sizeof bytes, 0) <= 0 ? 0 : 1);
    }
    close(called[1]);
    assert_int_equal(read(called[0], bytes, 1), 1);
    close(called[0]);
    return child;
}

/* Strangers call, say nothing, or record_malformed, and hang on, and another user calls; the ranks meet all the same. */
static void strangers_are_dropped(void **state)
{
    struct heap *heap = NULL;
    struct shm *shm[2];
    struct shm_endpoint endpoints[2];
    assert_int_equal(heap_open(UINT64_C(1) << 24, &heap, NULL), WEFT_OK);
    for (uint32_t i = 0; i < 2; i++) {
        assert_int_equal(shm_create(heap, i, 2, 5, &shm[i], NULL), WEFT_OK);
        shm_endpoint_info(shm[i], &endpoints[i]);
    }
    int silent[64]; /* more than there are places for */
    for (int i = 0; i < 64; i++)
        assert_true((silent[i] = call_name(endpoints[0].name)) >= 0);
    int loud = call_name(endpoints[0].name);
    assert_true(loud >= 0);
    pid_t nobody = geteuid() == 0 ? call_as_nobody(endpoints[0].name) : 0;
    char noise[300];
    memset(noise, 'x', sizeof noise);
    assert_int_equal(send(loud, noise, sizeof noise, 0), sizeof noise);

    struct pair pairs[2] = {{shm[0], endpoints, WEFT_ERROR_STATE}, {shm[1], endpoints, WEFT_ERROR_STATE}};
    pthread_t threads[2];
    for (int i = 0; i < 2; i++)
        pthread_create(&threads[i], NULL, connect_pair, &pairs[i]);
    for (int i = 0; i < 2; i++) {
        pthread_join(threads[i], NULL);
        assert_int_equal(pairs[i].status, WEFT_OK);
    }
    assert_int_equal(recv(loud, noise, sizeof noise, 0), 0);
    int outcome = 0;
    assert_true(nobody == 0 || (waitpid(nobody, &outcome, 0) == nobody && outcome == 0));
    for (int i = 0; i < 64; i++)
        close(silent[i]);
    close(loud);
    shm_destroy(shm[0]);
    shm_destroy(shm[1]);
    heap_close(heap);
}

static void the_wrong_secret_is_not_let_in_and_absentees_are_named(void **state)
{
    struct heap *heap = NULL;
    struct shm *shm[2];
    struct shm_endpoint endpoints[2];
    struct error error = {0};
    uint32_t list[2] = {0, 1};
    assert_int_equal(heap_open(UINT64_C(1) << 24, &heap, NULL), WEFT_OK);
    for (uint32_t i = 0; i < 2; i++) {
        assert_int_equal(shm_create(heap, i, 2, 5 + i, &shm[i], NULL), WEFT_OK);
        shm_endpoint_info(shm[i], &endpoints[i]);
    }
    struct pair other = {shm[1], endpoints, WEFT_OK};
    uint64_t started = clock_now();
    assert_int_equal(shm_connect(shm[0], list, endpoints, 2, 0.3, &error), WEFT_ERROR_TIMEOUT);
    assert_true(clock_now() - started < 2000000000u);
    assert_non_null(strstr(error.text, "1 rank of this machine: 1;"));
    error_clear(&error);
    assert_int_equal(shm_connect(other.shm, list, endpoints, 2, 0.3, &error), WEFT_ERROR_TIMEOUT);
    assert_non_null(strstr(error.text, "machine: 0;"));
    shm_destroy(shm[0]);
    shm_destroy(shm[1]);
    assert_int_equal(call_name(endpoints[0].name), -1);
    assert_int_equal(heap_in_use(heap), 0);
    heap_close(heap);
}

static int count_entries(const char *path)
{
    int count = 0;
    DIR *directory = opendir(path);
    if (!directory)
        return 0;
    while (readdir(directory))
        count++;
    closedir(directory);
    return count;
}

/* Rank 1 dies in the midst of it all; rank 0 keeps what it has mapped and leaves in order. */
static void outlive_a_peer(struct rank *rank)
{
    uint64_t one = 1;
    if (rank->number == 1) {
        atomic_store(&rank->status_page->words[2], (uint64_t)getpid());
        ranks_barrier(rank);
        for (;;)
            rank_sleep(rank, NULL, NULL);
    }
    ranks_barrier(rank);
    kill((pid_t)rank->status_page->words[2], SIGKILL);
    usleep(50000);
    char *base = shm_peer_base(rank->shm, 1);
    RANK_CHECK(rank, base && *(volatile char *)base >= -128);
    shm_ring(rank->shm, 1);
    shm_ring(rank->shm, 1);
    char big[100000];
    struct transfer send = rank_transfer(1, true, big, sizeof big, one);
    RANK_CHECK(rank, rank->transport->begin(rank->transport, &send, NULL) == WEFT_OK);
    RANK_CHECK(rank, rank->transport->progress(rank->transport, NULL) == WEFT_OK);
    rank->transport->cancel(rank->transport, &send);
    RANK_CHECK(rank, send.state == TRANSFER_IDLE);
    atomic_fetch_add(&rank->status_page->arrived, 1); /* for the dead one */
}

static void a_killed_rank_leaves_nothing_behind(void **state)
{
    int files = count_entries("/dev/shm"), descriptors = count_entries("/proc/self/fd");
    ranks_run(AS_PROCESSES, 2, outlive_a_peer);
    assert_int_equal(count_entries("/dev/shm"), files);
    assert_int_equal(count_entries("/proc/self/fd"), descriptors);
    assert_true(ranks_run(AS_THREADS, 4, share_memory));
    assert_int_equal(count_entries("/proc/self/fd"), descriptors);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(processes_share_memory),
        cmocka_unit_test(threads_share_memory),
        cmocka_unit_test(no_wake_up_is_lost),
        cmocka_unit_test(a_rank_can_ring_itself),
        cmocka_unit_test(strangers_are_dropped),
        cmocka_unit_test(the_wrong_secret_is_not_let_in_and_absentees_are_named),
        cmocka_unit_test(a_killed_rank_leaves_nothing_behind),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
