/* SPDX-License-Identifier: Apache-2.0 */
/**
 * A world for tests: some ranks, as threads of this process (sharing one heap, so that the thread sanitizer sees all of
 * them) or as processes of their own, which meet at a free port and run a function each.
 *
 *     static int body(weft_context *context, int rank, void *argument) { ...; return 0; }
 *     assert_int_equal(world_run(&(struct world){.ranks = 4}, body, NULL), 0);
 *
 * `nodes` makes several "machines" of this one: ranks of different nodes share no memory and talk over the fabric.
 */
#ifndef WEFT_TESTS_WORLD_H
#define WEFT_TESTS_WORLD_H

#include <weft/weft.h>

#include <arpa/inet.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

typedef int (*world_body)(weft_context *context, int rank, void *argument);

struct world {
    int ranks;
    int ranks_per_node;  /**< 0: all on one node; k: ranks 0..k-1 on the first, and so on */
    const int *node_of;  /**< or the node of each rank */
    bool processes;      /**< fork; otherwise threads */
    bool separate_heaps; /**< threads, each with a heap of its own */
    double time_limit, rendezvous_limit, hang_limit, liveness_limit;
    uint64_t heap_bytes;
    const char *fabric;
    const char *topology; /**< a cluster file: how the nodes lie, instead of what is measured */
};

/** In a body, where `context` and `rank` are: unless `condition` holds, say so, end the job and return 1. */
#define CHECK(condition)                                                                                               \
    do {                                                                                                               \
        if (!(condition)) {                                                                                            \
            fprintf(stderr, "%s:%d: rank %d: %s: %s\n", __FILE__, __LINE__, rank, #condition, weft_message(context));  \
            weft_abort(context, #condition);                                                                           \
            return 1;                                                                                                  \
        }                                                                                                              \
    } while (0)

/* One rank's part. */
struct world_rank {
    const struct world *world;
    world_body body;
    void *argument;
    int rank, port, result;
    weft_process *process;
};

static inline int world_free_port(void)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t size = sizeof address;
    int socket_here = socket(AF_INET, SOCK_STREAM, 0);
    if (bind(socket_here, (struct sockaddr *)&address, sizeof address) != 0 ||
        getsockname(socket_here, (struct sockaddr *)&address, &size) != 0)
        abort();
    close(socket_here);
    return ntohs(address.sin_port);
}

static inline void *world_rank_main(void *argument)
{
    struct world_rank *self = argument;
    const struct world *world = self->world;
    char bootstrap[64], node[32] = "";
    weft_config config = WEFT_CONFIG_DEFAULT;
    snprintf(bootstrap, sizeof bootstrap, "127.0.0.1:%d", self->port);
    if (world->node_of)
        snprintf(node, sizeof node, "node%d", world->node_of[self->rank]);
    else if (world->ranks_per_node)
        snprintf(node, sizeof node, "node%d", self->rank / world->ranks_per_node);
    config.rank = self->rank;
    config.ranks = world->ranks;
    config.rendezvous = bootstrap;
    config.secret = "a secret of tests";
    config.node = *node ? node : NULL;
    config.fabric = world->fabric;
    config.time_limit = world->time_limit;
    config.rendezvous_limit = world->rendezvous_limit ? world->rendezvous_limit : 30;
    config.hang_limit = world->hang_limit;
    config.liveness_limit = world->liveness_limit;
    config.heap_bytes = world->heap_bytes ? world->heap_bytes : 1u << 30;
    config.process = self->process;
    config.topology = world->topology;
    weft_context *context = NULL;
    if (weft_init(&config, &context) != WEFT_OK) {
        fprintf(stderr, "rank %d: weft_init: %s\n", self->rank, weft_message(NULL));
        self->result = 99;
        return NULL;
    }
    self->result = self->body(context, self->rank, self->argument);
    weft_status status = weft_finalize(context);
    if (status != WEFT_OK && self->result == 0) {
        fprintf(stderr, "rank %d: weft_finalize: %s\n", self->rank, weft_message(NULL));
        self->result = 98;
    }
    return NULL;
}

/**
 * Kill this process `microseconds` from now, though it be stopped then. By a child, which dies with it, so that no
 * connection outlives it.
 */
static inline void world_kill_later(unsigned microseconds)
{
    pid_t self = getpid();
    if (fork() != 0)
        return;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    usleep(microseconds);
    if (getppid() == self)
        kill(self, SIGKILL);
    _exit(0);
}

/** Run `body` as every rank; returns how many returned something else than 0. */
static inline int world_run(const struct world *world, world_body body, void *argument)
{
    struct world_rank *ranks = calloc((size_t)world->ranks, sizeof *ranks);
    pthread_t *threads = calloc((size_t)world->ranks, sizeof *threads);
    pid_t *children = calloc((size_t)world->ranks, sizeof *children);
    int port = world_free_port(), failed = 0;
    weft_process *process = NULL;
    if (!world->processes && !world->separate_heaps &&
        weft_process_open(world->heap_bytes ? world->heap_bytes : 2u << 30, &process) != WEFT_OK) {
        fprintf(stderr, "weft_process_open: %s\n", weft_message(NULL));
        abort();
    }
    fflush(NULL);
    for (int r = 0; r < world->ranks; r++) {
        ranks[r] = (struct world_rank){world, body, argument, r, port, 0, process};
        if (!world->processes) {
            pthread_create(&threads[r], NULL, world_rank_main, &ranks[r]);
        } else if ((children[r] = fork()) == 0) {
            world_rank_main(&ranks[r]);
            fflush(NULL);
            _exit(ranks[r].result);
        }
    }
    for (int r = 0; r < world->ranks; r++) {
        int status = 0;
        if (!world->processes)
            pthread_join(threads[r], NULL);
        else if (waitpid(children[r], &status, 0) == children[r])
            ranks[r].result = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
        if (ranks[r].result) {
            fprintf(stderr, "rank %d ended with %d\n", r, ranks[r].result);
            failed++;
        }
    }
    weft_process_close(process);
    free(ranks);
    free(threads);
    free(children);
    return failed;
}

/**
 * Call `attempt` with each number below `count`, all at once, each in a process of its own; returns how many returned
 * something else than 0. For worlds that wait rather than compute.
 */
static inline int world_at_once(int count, int (*attempt)(int number, const void *argument), const void *argument)
{
    pid_t *children = calloc((size_t)count, sizeof *children);
    int failed = 0, status;
    fflush(NULL);
    for (int i = 0; i < count; i++)
        if ((children[i] = fork()) == 0) {
            prctl(PR_SET_PDEATHSIG, SIGKILL);
            const int result = attempt(i, argument);
            fflush(NULL);
            _exit(result != 0);
        }
    for (int i = 0; i < count; i++)
        if (waitpid(children[i], &status, 0) != children[i] || status) {
            fprintf(stderr, "attempt %d of %d failed\n", i, count);
            failed++;
        }
    free(children);
    return failed;
}

#endif
