/* SPDX-License-Identifier: Apache-2.0 */
#include "core/schedule/verify/sweep.h"

#include "base/clock.h"
#include "core/schedule/verify/verify.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>

enum placement {
    PLACE_ONE_NODE,
    PLACE_NODES_OF_1,
    PLACE_NODES_OF_2,
    PLACE_NODES_OF_3,
    PLACE_NODES_OF_4,
    PLACE_NODES_OF_8,
    PLACE_GROWING, /* nodes of 1, 2, 3, ... ranks */
    PLACE_TWO_IN_TURN,
    PLACE_MANY_IN_TURN, /* nodes of about 4 */
    PLACEMENTS
};

/* The shapes tried among many ranks. */
static const bool sampled[PLACEMENTS] = {[PLACE_NODES_OF_3] = true, [PLACE_NODES_OF_8] = true, [PLACE_GROWING] = true};

static void sweep_place(enum placement placement, uint32_t ranks, uint32_t *nodes)
{
    static const uint32_t sizes[] = {[PLACE_NODES_OF_1] = 1,
                                     [PLACE_NODES_OF_2] = 2,
                                     [PLACE_NODES_OF_3] = 3,
                                     [PLACE_NODES_OF_4] = 4,
                                     [PLACE_NODES_OF_8] = 8};
    uint32_t node = 0, first = 0;
    for (uint32_t rank = 0; rank < ranks; rank++) {
        switch (placement) {
        case PLACE_ONE_NODE:
            nodes[rank] = 0;
            break;
        case PLACE_GROWING:
            if (rank - first > node) {
                first = rank;
                node++;
            }
            nodes[rank] = node;
            break;
        case PLACE_TWO_IN_TURN:
            nodes[rank] = rank % 2;
            break;
        case PLACE_MANY_IN_TURN:
            nodes[rank] = rank % ((ranks + 3) / 4);
            break;
        default:
            nodes[rank] = rank / sizes[placement];
            break;
        }
    }
}

/* Nodes under leaves, leaves in pods: how many units each holds; 0: it grows from 1, -1: units are dealt out to two in
 * turn. */
static const struct {
    enum placement nodes;
    int leaf, pod; /* pod 1: there are no pods */
} hierarchies[] = {
    {PLACE_NODES_OF_4, 4, 1},  {PLACE_GROWING, 0, 0},    {PLACE_NODES_OF_2, 3, -1}, /* among many ranks: these */
    {PLACE_NODES_OF_1, 2, 1},  {PLACE_NODES_OF_2, 2, 1}, {PLACE_NODES_OF_1, 3, 1},  {PLACE_NODES_OF_2, 0, 1},
    {PLACE_NODES_OF_1, -1, 1}, {PLACE_GROWING, 2, 1},    {PLACE_NODES_OF_3, 2, 1},  {PLACE_NODES_OF_2, 2, 2},
    {PLACE_NODES_OF_1, 2, 3},  {PLACE_NODES_OF_1, 0, 2}, {PLACE_NODES_OF_1, 4, 4},  {PLACE_TWO_IN_TURN, 2, 1},
};
#define HIERARCHIES_SAMPLED 3
#define HIERARCHIES         ARRAY_SIZE(hierarchies)

/* Group `units` units by the rule above; returns how many groups there are. */
static uint32_t sweep_group_units(int rule, uint32_t units, uint32_t *groups)
{
    uint32_t group = 0, first = 0;
    for (uint32_t unit = 0; unit < units; unit++) {
        uint32_t room = rule > 0 ? (uint32_t)rule : group + 1;
        if (rule < 0) {
            group = unit % 2;
        } else if (unit - first == room) {
            first = unit;
            group++;
        }
        groups[unit] = group;
    }
    return rule < 0 ? (units < 2 ? units : 2) : group + 1;
}

/* Both sizes, and an all-to-all both in place and not, for one placement and root. */
static weft_status visit_sizes(const struct algorithm *algorithm, struct schedule_shape shape, sweep_visit *visit,
                               void *context, struct error *error)
{
    static const uint64_t sizes[] = {1, (uint64_t)1 << 30};
    for (unsigned size = 0; size < (shape.ranks > SWEEP_LONG_RANKS ? 1 : 2); size++) {
        for (unsigned in_place = 0; in_place <= (shape.collective == COLLECTIVE_ALLTOALL); in_place++) {
            shape.block_bytes = sizes[size];
            shape.in_place = in_place;
            if (algorithm_refuses(algorithm, &shape))
                continue;
            weft_status status = visit(algorithm, &shape, context, error);
            if (status != WEFT_OK)
                return status;
        }
    }
    return WEFT_OK;
}

static weft_status visit_roots(const struct algorithm *algorithm, struct schedule_shape shape, sweep_visit *visit,
                               void *context, struct error *error)
{
    uint32_t ranks = shape.ranks,
             roots = collective_is_rooted(shape.collective) || shape.collective == COLLECTIVE_SENDRECEIVE ? ranks : 1;
    for (uint32_t root = 0; root < roots; root++) {
        if (ranks > 8 && root != 0 && root != ranks / 3 && root != ranks / 2 && root != ranks - 1)
            continue;
        if (ranks > SWEEP_ALL_RANKS && roots > 1 && root != ranks / 3)
            continue;
        shape.root = root;
        if (shape.collective == COLLECTIVE_SENDRECEIVE)
            shape.peer = (root + 1) % ranks;
        weft_status status = visit_sizes(algorithm, shape, visit, context, error);
        if (status != WEFT_OK)
            return status;
    }
    return WEFT_OK;
}

weft_status sweep_shapes(enum collective collective, const struct algorithm *algorithm, uint32_t ranks,
                         sweep_visit *visit, void *context, struct error *error)
{
    if (collective == COLLECTIVE_SENDRECEIVE && ranks < 2)
        return WEFT_OK;
    uint32_t *nodes = malloc((size_t)3 * ranks * sizeof *nodes), *leaves = nodes + ranks, *pods = leaves + ranks;
    if (!nodes)
        return error_memory(error, (size_t)3 * ranks * sizeof *nodes, "a placement of ranks on nodes");
    weft_status status = WEFT_OK;
    struct schedule_shape shape = {.collective = collective, .ranks = ranks, .nodes = nodes, .block_bytes = 1};
    sweep_place(PLACE_ONE_NODE, ranks, nodes);
    bool hierarchy = algorithm_refuses(algorithm, &shape);
    sweep_place(PLACE_NODES_OF_1, ranks, nodes);
    bool flat = ranks == 1 || !algorithm_refuses(algorithm, &shape);
    for (enum placement placement = 0; placement < PLACEMENTS && status == WEFT_OK; placement++) {
        /* An algorithm that uses no shared memory works anywhere, if it ignores nodes. */
        if (!hierarchy && placement != (flat ? PLACE_NODES_OF_1 : PLACE_ONE_NODE))
            continue;
        if (hierarchy && ranks > SWEEP_ALL_RANKS && !sampled[placement])
            continue;
        sweep_place(placement, ranks, nodes);
        status = visit_roots(algorithm, shape, visit, context, error);
    }
    size_t levels = ranks > SWEEP_ALL_RANKS ? HIERARCHIES_SAMPLED : HIERARCHIES;
    for (size_t i = 0; i < levels && hierarchy && status == WEFT_OK; i++) {
        sweep_place(hierarchies[i].nodes, ranks, nodes);
        /* An algorithm that works without leaves ignores them. */
        shape.above[0] = shape.above[1] = NULL;
        if (!algorithm_refuses(algorithm, &shape))
            continue;
        uint32_t count = sweep_group_units(hierarchies[i].leaf, shape_units(&shape, 0), leaves);
        sweep_group_units(hierarchies[i].pod, count, pods);
        shape.above[0] = leaves;
        shape.above[1] = hierarchies[i].pod == 1 ? NULL : pods;
        status = visit_roots(algorithm, shape, visit, context, error);
    }
    free(nodes);
    return status;
}

/* ---- many at once ---- */

weft_status sweep_all(const uint32_t *ranks, size_t count, struct sweep_job **jobs, size_t *job_count,
                      struct error *error)
{
    size_t algorithms = 0, of_one, next = 0;
    for (unsigned collective = 0; collective < COLLECTIVES; collective++) {
        algorithms_of((enum collective)collective, &of_one);
        algorithms += of_one;
    }
    struct sweep_job *all = calloc(algorithms * count + 1, sizeof *all);
    if (!all)
        return error_memory(error, algorithms * count * sizeof *all, "a sweep over all schedules");
    for (unsigned collective = 0; collective < COLLECTIVES; collective++) {
        const struct algorithm *table = algorithms_of((enum collective)collective, &of_one);
        for (size_t i = 0; i < of_one; i++)
            for (size_t n = 0; n < count; n++)
                all[next++] = (struct sweep_job){
                    .collective = (enum collective)collective, .algorithm = &table[i], .ranks = ranks[n]};
    }
    *jobs = all;
    *job_count = next;
    return WEFT_OK;
}

struct sweep {
    struct sweep_job **order;
    size_t count;
    sweep_visit *visit;
    _Atomic size_t next;
    _Atomic int failed;
    struct error *error; /* written by the thread that sets `failed` first */
};

static int more_ranks_first(const void *first, const void *second)
{
    const struct sweep_job *a = *(struct sweep_job *const *)first, *b = *(struct sweep_job *const *)second;
    return a->ranks != b->ranks ? (a->ranks < b->ranks) - (a->ranks > b->ranks) : (a > b) - (a < b);
}

static void *sweep_work(void *context)
{
    struct sweep *sweep = context;
    for (size_t i = sweep->next++; i < sweep->count && !sweep->failed; i = sweep->next++) {
        struct sweep_job *job = sweep->order[i];
        struct error error = {0};
        uint64_t start = clock_now();
        weft_status status =
            sweep_shapes(job->collective, job->algorithm, job->ranks, sweep->visit, &job->count, &error);
        job->seconds = (double)(clock_now() - start) * 1e-9;
        int none = 0;
        if (status != WEFT_OK && atomic_compare_exchange_strong(&sweep->failed, &none, (int)status))
            error_set(sweep->error, status, "%s", error.text);
    }
    return NULL;
}

weft_status sweep_run(struct sweep_job *jobs, size_t count, uint32_t threads, sweep_visit *visit, struct error *error)
{
    struct sweep sweep = {.count = count, .visit = visit, .error = error};
    sweep.order = malloc((count + 1) * sizeof *sweep.order);
    pthread_t *helpers = calloc(threads + 1, sizeof *helpers);
    if (!sweep.order || !helpers) {
        free(sweep.order);
        free(helpers);
        return error_memory(error, count * sizeof *sweep.order, "a sweep over all schedules");
    }
    for (size_t i = 0; i < count; i++)
        sweep.order[i] = &jobs[i];
    qsort(sweep.order, count, sizeof *sweep.order, more_ranks_first);
    uint32_t started = 0;
    while (started + 1 < threads && pthread_create(&helpers[started], NULL, sweep_work, &sweep) == 0)
        started++; /* with fewer threads it only takes longer */
    sweep_work(&sweep);
    for (uint32_t i = 0; i < started; i++)
        pthread_join(helpers[i], NULL);
    free(helpers);
    free(sweep.order);
    return (weft_status)sweep.failed;
}

/* ---- schedules of all ranks ---- */

weft_status sweep_generate(const struct algorithm *algorithm, const struct schedule_shape *shape,
                           struct schedule ***schedules, struct error *error)
{
    struct schedule **all = calloc(shape->ranks, sizeof *all);
    if (!all)
        return error_memory(error, shape->ranks * sizeof *all, "the schedules of all ranks");
    for (uint32_t rank = 0; rank < shape->ranks; rank++) {
        weft_status status = schedule_generate(algorithm, shape, rank, &all[rank], error);
        if (status != WEFT_OK) {
            sweep_free(all, shape->ranks);
            return status;
        }
    }
    *schedules = all;
    return WEFT_OK;
}

void sweep_free(struct schedule **schedules, uint32_t ranks)
{
    for (uint32_t rank = 0; schedules && rank < ranks; rank++)
        schedule_free(schedules[rank]);
    free(schedules);
}

weft_status sweep_verify(const struct algorithm *algorithm, const struct schedule_shape *shape, void *context,
                         struct error *error)
{
    struct schedule **schedules;
    uint64_t *proved = context;
    weft_status status = sweep_generate(algorithm, shape, &schedules, error);
    if (status != WEFT_OK)
        return status;
    status = schedule_verify(schedules, shape->ranks, shape, error);
    sweep_free(schedules, shape->ranks);
    if (status == WEFT_OK && proved)
        ++*proved;
    return status;
}
