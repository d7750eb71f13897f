/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Several ranks that share memory in one test: as processes, as threads of one process (one heap), as threads with a heap each, or
 * as threads of one heap that treat each other as processes do: so the thread sanitizer sees the ways of messages
 * between processes (it sees no race between two mappings of the same memory).
 */
#ifndef WEFT_TESTS_SHM_RANKS_H
#define WEFT_TESTS_SHM_RANKS_H

#include "base/clock.h"
#include "core/transport/heap/heap.h"
#include "core/transport/shm/internal/state.h"

#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#define RANKS_MOST 8

enum ranks_mode { AS_PROCESSES, AS_THREADS, AS_THREADS_WITH_OWN_HEAPS, AS_THREADS_APART };
#define RANKS_MODES 4

struct rank {
    uint32_t number, count;
    bool apart;
    struct heap *heap;
    struct shm *shm;
    struct transport *transport;
    struct ranks_status_page *status_page;
};

/* In memory that all ranks share, whatever they are: what a rendezvous would do. */
struct ranks_status_page {
    _Atomic uint32_t arrived;
    struct shm_endpoint endpoints[RANKS_MOST];
    _Atomic uint64_t words[16]; /* for the test */
    _Atomic uint32_t failed;
};

typedef void rank_function(struct rank *rank);

#define RANK_CHECK(rank, condition)                                                                                    \
    do {                                                                                                               \
        if (!(condition)) {                                                                                            \
            fprintf(stderr, "rank %u, %s:%d: %s does not hold\n", (rank)->number, __FILE__, __LINE__, #condition);     \
            atomic_fetch_add(&(rank)->status_page->failed, 1);                                                         \
        }                                                                                                              \
    } while (0)

/* Wait until all ranks have called it as often as this one. */
static inline void ranks_barrier(struct rank *rank)
{
    uint32_t mine = atomic_fetch_add(&rank->status_page->arrived, 1);
    uint32_t round_end = (mine / rank->count + 1) * rank->count;
    while (atomic_load(&rank->status_page->arrived) < round_end)
        sched_yield();
}

/* Whether peers are of this process, which their own handshake knows better. */
static inline void rank_take_peers_for(struct rank *rank, bool same_process)
{
    for (uint32_t i = 0; i < rank->shm->known_count; i++)
        if (rank->shm->known[i]->rank != rank->number)
            rank->shm->known[i]->same_process = same_process;
}

static inline void rank_run(struct rank *rank, rank_function *function)
{
    struct error error = {0};
    bool own_heap = !rank->heap;
    if (own_heap && heap_open(UINT64_C(512) << 20, &rank->heap, &error) != WEFT_OK)
        goto failed;
    if (shm_create(rank->heap, rank->number, rank->count, 77, &rank->shm, &error) != WEFT_OK)
        goto failed;
    shm_endpoint_info(rank->shm, &rank->status_page->endpoints[rank->number]);
    ranks_barrier(rank);
    uint32_t list[RANKS_MOST] = {0, 1, 2, 3, 4, 5, 6, 7};
    if (shm_connect(rank->shm, list, rank->status_page->endpoints, rank->count, 20, &error) != WEFT_OK)
        goto failed;
    rank->transport = shm_transport(rank->shm);
    if (rank->apart)
        rank_take_peers_for(rank, false);
    function(rank);
    ranks_barrier(rank);
    if (rank->apart)
        rank_take_peers_for(rank, true);
    shm_destroy(rank->shm);
    if (own_heap)
        heap_close(rank->heap);
    return;
failed:
    fprintf(stderr, "rank %u: %s\n", rank->number, error.text);
    atomic_fetch_add(&rank->status_page->failed, 1);
    if (rank->shm)
        shm_destroy(rank->shm);
}

struct rank_thread {
    struct rank rank;
    rank_function *function;
};

static inline void *rank_thread_main(void *argument)
{
    struct rank_thread *thread = argument;
    rank_run(&thread->rank, thread->function);
    return NULL;
}

/* Run `function` on `count` ranks; true when none of them complained. */
static inline bool ranks_run(enum ranks_mode mode, uint32_t count, rank_function *function)
{
    struct ranks_status_page *status_page =
        mmap(NULL, sizeof *status_page, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    struct heap *heap = NULL;
    struct rank_thread ranks[RANKS_MOST];
    pthread_t threads[RANKS_MOST];
    pid_t children[RANKS_MOST];
    if ((mode == AS_THREADS || mode == AS_THREADS_APART) && heap_open(UINT64_C(512) << 20, &heap, NULL) != WEFT_OK)
        return false;
    for (uint32_t i = 0; i < count; i++) {
        ranks[i] = (struct rank_thread){
            {.number = i, .count = count, .apart = mode == AS_THREADS_APART, .heap = heap, .status_page = status_page},
            function};
        if (mode != AS_PROCESSES) {
            pthread_create(&threads[i], NULL, rank_thread_main, &ranks[i]);
        } else if ((children[i] = fork()) == 0) {
            alarm(100);
            rank_run(&ranks[i].rank, function);
            _exit(0);
        }
    }
    bool well = true;
    for (uint32_t i = 0; i < count; i++) {
        int outcome = 0;
        if (mode != AS_PROCESSES)
            pthread_join(threads[i], NULL);
        else if (waitpid(children[i], &outcome, 0) != children[i] || outcome != 0)
            well = false;
    }
    well &= atomic_load(&status_page->failed) == 0;
    if (heap) {
        if (heap_in_use(heap) != 0) {
            fprintf(stderr, "%llu bytes of the shared heap were not given back\n",
                    (unsigned long long)heap_in_use(heap));
            well = false;
        }
        heap_close(heap);
    }
    munmap(status_page, sizeof *status_page);
    return well;
}

/* Wait on the doorbell as a caller would: look, fall asleep, look again, poll. `ready` tells whether the wait is over.
 */
static inline void rank_sleep(struct rank *rank, bool (*ready)(struct rank *rank, const void *what), const void *what)
{
    shm_sleep_begin(rank->shm);
    if (!(ready && ready(rank, what)) && rank->transport->may_sleep(rank->transport)) {
        struct pollfd doorbell = {shm_doorbell(rank->shm), POLLIN, 0};
        poll(&doorbell, 1, 30000);
    }
    shm_sleep_end(rank->shm);
}

/* Progress until the transfer has ended; yields, then sleeps. */
static inline void rank_wait(struct rank *rank, struct transfer *transfer)
{
    struct error error = {0};
    for (uint32_t spins = 1; transfer->state == TRANSFER_ACTIVE; spins++) {
        if (rank->transport->progress(rank->transport, &error) != WEFT_OK) {
            fprintf(stderr, "rank %u: %s\n", rank->number, error.text);
            abort();
        }
        if (transfer->state == TRANSFER_ACTIVE && spins % 50 == 0)
            rank_sleep(rank, NULL, NULL);
        else if (spins % 10 == 0)
            sched_yield();
    }
}

static inline struct transfer rank_transfer(uint32_t peer, bool is_send, void *data, uint64_t bytes, uint64_t tag)
{
    return (struct transfer){.peer = peer, .is_send = is_send, .data = data, .bytes = bytes, .tag = tag};
}

#endif
