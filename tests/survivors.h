/* SPDX-License-Identifier: Apache-2.0 */
/**
 * Sets of schedules that are to be run for real: written down as schedules, loaded into a world of threads, run with lanes
 * in a random order and with random delays, every result compared.
 *
 *     survivors_add(&survivors, schedules, shape);
 *     survivors_run(&survivors);       // aborts nothing: returns how many went wrong
 */
#ifndef WEFT_TESTS_SURVIVORS_H
#define WEFT_TESTS_SURVIVORS_H

#include "core/schedule/format/shape.h"
#include "core/schedule/text/print.h"
#include "support/disorder.h"
#include "world.h"

#define SURVIVOR_RANKS 4
#define SURVIVOR_ROOM  ((size_t)4 << 20)

struct survivor {
    char *text;
    struct schedule_shape shape;
    uint32_t nodes[SURVIVOR_RANKS];
    size_t count; /* numbers in a block: some segments and an odd piece */
    bool done;
};

struct survivors {
    struct survivor *all;
    size_t count, wrong, unloaded;
    const struct survivor *world; /* the one whose placement the present world has */
};

static inline void survivors_add(struct survivors *survivors, struct schedule *const *schedules,
                                 const struct schedule_shape *shape)
{
    if (shape->collective == COLLECTIVE_SENDRECEIVE) /* no schedules of messages are loaded */
        return;
    if ((survivors->count & (survivors->count - 1)) == 0)
        survivors->all = realloc(survivors->all, (survivors->count * 2 + 1) * sizeof *survivors->all);
    struct survivor *survivor = &survivors->all[survivors->count++];
    *survivor = (struct survivor){.shape = *shape, .count = 37};
    memcpy(survivor->nodes, shape->nodes, shape->ranks * sizeof *shape->nodes);
    if (schedules[0]->segment_bytes)
        survivor->count = schedules[0]->segment_bytes / sizeof(uint32_t) * 2 + 1234;
    if (survivor->count * shape->ranks * sizeof(uint32_t) > SURVIVOR_ROOM)
        survivor->count = SURVIVOR_ROOM / sizeof(uint32_t) / shape->ranks;
    size_t size = 0;
    FILE *out = open_memstream(&survivor->text, &size);
    schedule_print_frame(schedules[0], shape, out);
    for (uint32_t rank = 0; rank < shape->ranks; rank++)
        schedule_print(schedules[rank], out);
    fclose(out);
}

static inline uint32_t survivor_drawn(size_t rank, size_t at)
{
    return (uint32_t)at * 2654435761u + (uint32_t)rank * 40503u + 1;
}

/* Number i of a rank's output; the input of rank r has survivor_drawn(r, i). */
static inline uint32_t survivor_expected(const struct survivor *survivor, size_t rank, size_t i)
{
    size_t n = survivor->count, ranks = survivor->shape.ranks;
    uint32_t sum = 0;
    switch (survivor->shape.collective) {
    case COLLECTIVE_ALLREDUCE:
    case COLLECTIVE_REDUCE:
    case COLLECTIVE_REDUCE_SCATTER:
        for (size_t r = 0; r < ranks; r++)
            sum += survivor_drawn(r, survivor->shape.collective == COLLECTIVE_REDUCE_SCATTER ? rank * n + i : i);
        return sum;
    case COLLECTIVE_SCAN:
    case COLLECTIVE_EXSCAN:
        for (size_t r = 0; r < collective_summed(survivor->shape.collective, (uint32_t)rank, 0); r++)
            sum += survivor_drawn(r, i);
        return sum;
    case COLLECTIVE_BROADCAST:
        return survivor_drawn(survivor->shape.root, i);
    case COLLECTIVE_SCATTER:
    case COLLECTIVE_SCATTERV:
        return survivor_drawn(survivor->shape.root, rank * n + i);
    case COLLECTIVE_ALLTOALL:
    case COLLECTIVE_ALLTOALLV:
        return survivor_drawn(i / n, rank * n + i % n);
    default:
        return survivor_drawn(i / n, i % n);
    }
}

static inline weft_status survivor_call(const struct survivor *survivor, uint32_t *input, uint32_t *output,
                                        weft_comm *comm)
{
    size_t n = survivor->count, counts[SURVIVOR_RANKS];
    int root = (int)survivor->shape.root;
    for (size_t r = 0; r < SURVIVOR_RANKS; r++)
        counts[r] = n;
    switch (survivor->shape.collective) {
    case COLLECTIVE_ALLREDUCE:
        return weft_allreduce(input, output, n, WEFT_U32, WEFT_SUM, comm);
    case COLLECTIVE_REDUCE:
        return weft_reduce(input, output, n, WEFT_U32, WEFT_SUM, root, comm);
    case COLLECTIVE_REDUCE_SCATTER:
        return weft_reduce_scatter(input, output, n, WEFT_U32, WEFT_SUM, comm);
    case COLLECTIVE_SCAN:
        return weft_scan(input, output, n, WEFT_U32, WEFT_SUM, comm);
    case COLLECTIVE_EXSCAN:
        return weft_exscan(input, output, n, WEFT_U32, WEFT_SUM, comm);
    case COLLECTIVE_SCATTERV:
        return weft_scatterv(input, counts, NULL, output, WEFT_U32, root, comm);
    case COLLECTIVE_BROADCAST:
        return weft_broadcast(output, n, WEFT_U32, root, comm);
    case COLLECTIVE_SCATTER:
        return weft_scatter(input, output, n, WEFT_U32, root, comm);
    case COLLECTIVE_ALLTOALL:
        return weft_alltoall(survivor->shape.in_place ? output : input, output, n, WEFT_U32, comm);
    case COLLECTIVE_ALLTOALLV:
        return weft_alltoallv(input, counts, NULL, output, counts, NULL, WEFT_U32, comm);
    case COLLECTIVE_ALLGATHER:
        return weft_allgather(input, output, n, WEFT_U32, comm);
    case COLLECTIVE_ALLGATHERV:
        return weft_allgatherv(input, output, counts, NULL, WEFT_U32, comm);
    case COLLECTIVE_GATHER:
        return weft_gather(input, output, n, WEFT_U32, root, comm);
    case COLLECTIVE_GATHERV:
        return weft_gatherv(input, output, counts, NULL, WEFT_U32, root, comm);
    default:
        return weft_barrier(comm);
    }
}

/* How many numbers a rank's output has. */
static inline size_t survivor_output(const struct survivor *survivor, uint32_t rank)
{
    const struct schedule_shape *shape = &survivor->shape;
    bool here = rank == shape->root;
    switch (shape->collective) {
    case COLLECTIVE_ALLTOALL:
    case COLLECTIVE_ALLTOALLV:
    case COLLECTIVE_ALLGATHER:
    case COLLECTIVE_ALLGATHERV:
        return survivor->count * shape->ranks;
    case COLLECTIVE_GATHER:
    case COLLECTIVE_GATHERV:
        return here ? survivor->count * shape->ranks : 0;
    case COLLECTIVE_REDUCE:
        return here ? survivor->count : 0;
    case COLLECTIVE_EXSCAN:
        return rank ? survivor->count : 0;
    case COLLECTIVE_BARRIER:
        return 0;
    default:
        return survivor->count;
    }
}

static inline bool survivor_is_right(const struct survivor *survivor, uint32_t rank, uint32_t *const buffers[2],
                                     weft_comm *comm)
{
    size_t total = survivor->count * survivor->shape.ranks, output = survivor_output(survivor, rank);
    bool in_place = survivor->shape.collective == COLLECTIVE_BROADCAST || survivor->shape.in_place;
    for (size_t i = 0; i < total; i++) {
        buffers[0][i] = survivor_drawn(rank, i);
        buffers[1][i] = in_place ? buffers[0][i] : 0;
    }
    bool right = survivor_call(survivor, buffers[0], buffers[1], comm) == WEFT_OK;
    for (size_t i = 0; i < output && right; i++)
        right = buffers[1][i] == survivor_expected(survivor, rank, i);
    return right;
}

static inline bool survivor_fits(const struct survivor *survivor, const struct survivor *world)
{
    return survivor->shape.ranks == world->shape.ranks &&
           memcmp(survivor->nodes, world->nodes, world->shape.ranks * sizeof *world->nodes) == 0;
}

/* All that fit the present world; ranks are threads, which share the list. */
static inline int survivors_body(weft_context *context, int rank, void *argument)
{
    struct survivors *survivors = argument;
    weft_comm *comm = weft_world(context);
    uint32_t *shared[2] = {weft_alloc(context, SURVIVOR_ROOM), weft_alloc(context, SURVIVOR_ROOM)};
    uint32_t *own[2] = {malloc(SURVIVOR_ROOM), malloc(SURVIVOR_ROOM)};
    char path[64];
    snprintf(path, sizeof path, "/tmp/weft-survivor-%d", getpid());
    for (size_t k = 0; k < survivors->count; k++) {
        struct survivor *survivor = &survivors->all[k];
        if (!survivor_fits(survivor, survivors->world))
            continue;
        disorder_set(comm, false);
        weft_barrier(comm);
        if (rank == 0) {
            FILE *file = fopen(path, "w");
            fputs(survivor->text, file);
            fclose(file);
            survivor->done = true;
        }
        weft_barrier(comm);
        if (weft_comm_load_schedule(comm, path) != WEFT_OK) {
            if (rank == 0)
                fprintf(stderr, "%s\n", weft_message(context));
            survivors->unloaded += rank == 0;
            continue;
        }
        disorder_set(comm, true);
        bool registered = (k + (size_t)rank) % 3 != 0; /* every mixture comes by */
        if (!survivor_is_right(survivor, (uint32_t)rank, registered ? shared : own, comm)) {
            fprintf(stderr, "rank %d: wrong result of %s\n", rank, survivor->text);
            __atomic_add_fetch(&survivors->wrong, 1, __ATOMIC_RELAXED);
        }
        weft_comm_set_algorithm(comm, collective_name(survivor->shape.collective), NULL);
    }
    disorder_set(comm, false);
    if (rank == 0)
        unlink(path);
    for (int i = 0; i < 2; i++) {
        weft_free(context, shared[i]);
        free(own[i]);
    }
    return 0;
}

/** Run all; returns how many worlds failed. survivors->wrong counts results, `unloaded` those that were refused.
 */
static inline int survivors_run(struct survivors *survivors)
{
    int failed = 0;
    for (size_t k = 0; k < survivors->count; k++) {
        if (survivors->all[k].done)
            continue;
        int nodes[SURVIVOR_RANKS];
        survivors->world = &survivors->all[k];
        for (uint32_t r = 0; r < survivors->world->shape.ranks; r++)
            nodes[r] = (int)survivors->world->nodes[r];
        failed += world_run(&(struct world){.ranks = (int)survivors->world->shape.ranks, .node_of = nodes},
                            survivors_body, survivors);
    }
    return failed;
}

#endif
