/* SPDX-License-Identifier: Apache-2.0 */
#include "training/train/loop/internal/stragglers.h"

#include "base/library_error.h"
#include "training/train/loop/internal/trainer_parts.h"

#include <stdlib.h>
#include <string.h>

/* Of a rank, over the last steps. Sent as bytes. */
struct rank_pace {
    double busy;         /* seconds of a micro-batch; 0: it has none */
    uint64_t first_unit; /* the first layer that it computes: equal on its peers */
};

/* ---- medians ---- */

static int straggler_compare_seconds(const void *left, const void *right)
{
    const double a = *(const double *)left, b = *(const double *)right;
    return (a > b) - (a < b);
}

/* The lower one of an even number: with two, that of the faster. `count` from 1; sorts. */
static double lower_median(double *seconds, size_t count)
{
    qsort(seconds, count, sizeof *seconds, straggler_compare_seconds);
    return seconds[(count - 1) / 2];
}

/* Of the ranks that compute the same layers as rank `r`, itself included; 0: it has no peers. `room` is for all. */
static double median_of_peers(const struct rank_pace *paces, uint32_t ranks, uint32_t r, double *room)
{
    size_t count = 0;
    for (uint32_t peer = 0; peer < ranks; peer++)
        if (paces[peer].first_unit == paces[r].first_unit && paces[peer].busy > 0)
            room[count++] = paces[peer].busy;
    return count > 1 && paces[r].busy > 0 ? lower_median(room, count) : 0;
}

/* ---- the list of stragglers ---- */

static int *find_slow(struct straggler_watch *watch, int first_rank)
{
    for (int i = 0; i < watch->slow_count; i++)
        if (watch->slow[i] == first_rank)
            return &watch->slow[i];
    return NULL;
}

static weft_status add_slow(struct straggler_watch *watch, int first_rank, struct error *error)
{
    const size_t bytes = (size_t)(watch->slow_count + 1) * sizeof *watch->slow;
    int *slow = realloc(watch->slow, bytes);
    if (!slow)
        return error_memory(error, bytes, "the list of stragglers");
    slow[watch->slow_count++] = first_rank;
    watch->slow = slow;
    return WEFT_OK;
}

/* ---- comparing ---- */

/* Report rank `r` if it has become a straggler, or is no longer one. */
static weft_status judge_rank(struct trainer *trainer, uint32_t r, double busy, double median, struct error *error)
{
    struct straggler_watch *watch = &trainer->stragglers;
    const int first_rank = weft_comm_first_rank(trainer->world.comm, (int)r);
    int *known = find_slow(watch, first_rank);
    const bool is_slow = busy > trainer->config.straggler_factor * median;
    if (is_slow == (known != NULL))
        return WEFT_OK;
    const struct report_straggler report = {
        .step = trainer->state.step,
        .rank = (uint32_t)first_rank,
        .host = weft_comm_host(trainer->world.comm, (int)r),
        .is_over = !is_slow,
        .factor = busy / median,
        .seconds = busy,
        .median_seconds = median,
        .steps = (uint64_t)trainer->config.straggler_steps,
    };
    report_straggler(&trainer->report, &report);
    if (is_slow)
        return add_slow(watch, first_rank, error);
    *known = watch->slow[--watch->slow_count];
    return WEFT_OK;
}

/* Replacements are numbered from the number of ranks that the job began with. */
static bool has_restart_left(const struct trainer *trainer)
{
    const uint32_t began = mesh_ranks(&trainer->first_mesh);
    uint32_t numbers = began;
    for (uint32_t r = 0; r < trainer->world.job_ranks; r++) {
        const uint32_t first_rank = (uint32_t)weft_comm_first_rank(trainer->world.job, (int)r);
        numbers = first_rank >= numbers ? first_rank + 1 : numbers;
    }
    return numbers - began < trainer->config.restarts;
}

static bool may_leave(const struct trainer *trainer)
{
    return trainer->config.replace_stragglers && trainer->world.job_ranks > trainer->config.min_ranks &&
           has_restart_left(trainer);
}

/* All ranks get the same result, except that only the one that leaves fails. */
static weft_status judge_ranks(struct trainer *trainer, const struct rank_pace *paces, struct error *error)
{
    const uint32_t ranks = trainer->world.ranks;
    double *room = malloc(ranks * sizeof *room);
    weft_status status = room ? WEFT_OK : error_memory(error, ranks * sizeof *room, "the times of the ranks");
    double most = trainer->config.straggler_factor;
    uint32_t slowest = ranks;
    for (uint32_t r = 0; status == WEFT_OK && r < ranks; r++) {
        const double median = median_of_peers(paces, ranks, r, room);
        if (median > 0)
            status = judge_rank(trainer, r, paces[r].busy, median, error);
        if (median > 0 && paces[r].busy > most * median) {
            most = paces[r].busy / median;
            slowest = r;
        }
    }
    free(room);
    if (status != WEFT_OK || slowest == ranks || !may_leave(trainer))
        return status;
    /* All others have compared, and reported it. */
    status = library_error(trainer->context, weft_barrier(trainer->world.comm), error);
    if (status != WEFT_OK || slowest != trainer->world.rank)
        return status;
    trainer->gives_way = true;
    return error_set(error, WEFT_ERROR_STATE,
                     "this rank takes %.3g times as long for its part of a step as its peers, over %lld steps: it "
                     "leaves, to be replaced (--replace-stragglers)",
                     most, (long long)trainer->config.straggler_steps);
}

static weft_status compare_paces(struct trainer *trainer, struct error *error)
{
    struct straggler_watch *watch = &trainer->stragglers;
    const struct trainer_world *world = &trainer->world;
    struct rank_pace own, *paces = calloc(world->ranks, sizeof *paces);
    memset(&own, 0, sizeof own);
    own.busy = lower_median(watch->busy, (size_t)watch->steps);
    while (!executor_has_layer(world->executor, own.first_unit))
        own.first_unit++;
    watch->steps = 0;
    /* The others would wait for this rank. */
    weft_status status = paces ? WEFT_OK : error_memory(error, world->ranks * sizeof *paces, "the times of the ranks");
    if (status == WEFT_OK)
        status = library_error(trainer->context, weft_allgather(&own, paces, sizeof own, WEFT_U8, world->comm), error);
    if (status == WEFT_OK)
        status = judge_ranks(trainer, paces, error);
    free(paces);
    return status;
}

weft_status stragglers_note_step(struct trainer *trainer, double seconds, struct error *error)
{
    struct straggler_watch *watch = &trainer->stragglers;
    const struct train_config *config = &trainer->config;
    if (!(config->straggler_factor > 0) || trainer->world.ranks == 1)
        return WEFT_OK;
    if (!watch->busy && !(watch->busy = calloc((size_t)config->straggler_steps, sizeof *watch->busy)))
        return error_memory(error, (size_t)config->straggler_steps * sizeof *watch->busy, "the times of steps");
    const uint32_t share = executor_share_of_batch(trainer->world.executor).count;
    const double busy = seconds - trainer->course.last.seconds.wait;
    watch->busy[watch->steps++] = share > 0 && busy > 0 ? busy / share : 0;
    return watch->steps < config->straggler_steps ? WEFT_OK : compare_paces(trainer, error);
}

void stragglers_restart(struct straggler_watch *watch)
{
    watch->steps = 0;
}

void stragglers_close(struct straggler_watch *watch)
{
    free(watch->busy);
    free(watch->slow);
    *watch = (struct straggler_watch){0};
}
