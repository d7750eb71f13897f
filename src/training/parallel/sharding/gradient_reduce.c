/* SPDX-License-Identifier: Apache-2.0 */
/* Gradients over the data axis: all-reduces of neighboring groups, or slices sent to their owners. */
#include "base/waiting.h"
#include "training/parallel/sharding/internal/gradient_parts.h"

#include <string.h>

static weft_context *gradient_context(const struct gradient_groups *groups)
{
    return groups->config.context;
}

/* ---- all-reduces ---- */

static weft_status start_all_reduce(struct gradient_groups *groups, struct error *error)
{
    struct gradient_bucket_range *bucket = &groups->buckets[groups->bucket_count - 1];
    const size_t count = bucket->end - bucket->first;
    struct device *device = groups->config.device;
    void *array = groups->flat + bucket->first;
    groups->is_filling = false;
    if (groups->rounds) {
        array = groups->bf16 + bucket->first;
        device->to_activations(device, count, groups->flat + bucket->first, array);
    }
    return library_error(
        gradient_context(groups),
        weft_allreduce_start(array, array, count, groups->config.type, WEFT_SUM, groups->comm, &bucket->request),
        error);
}

static bool is_neighbor(const struct gradient_bucket_range *bucket, const struct group_range *range)
{
    return range->offset + range->count == bucket->first || range->offset == bucket->end;
}

static weft_status add_to_bucket(struct gradient_groups *groups, uint32_t number, struct error *error)
{
    const struct group_range *range = &groups->groups[number].range;
    if (groups->unfinished++ == 0)
        groups->bucket_count = 0;
    struct gradient_bucket_range *bucket = &groups->buckets[groups->bucket_count - (groups->bucket_count > 0)];
    weft_status status = WEFT_OK;
    if (groups->is_filling && !is_neighbor(bucket, range))
        status = start_all_reduce(groups, error);
    if (status != WEFT_OK)
        return status;
    if (!groups->is_filling) {
        bucket = &groups->buckets[groups->bucket_count++];
        *bucket = (struct gradient_bucket_range){.first = range->offset, .end = range->offset};
        groups->is_filling = true;
    }
    if (range->offset < bucket->first)
        bucket->first = range->offset;
    if (range->offset + range->count > bucket->end)
        bucket->end = range->offset + range->count;
    groups->bucket_of[number] = groups->bucket_count - 1;
    return (bucket->end - bucket->first) * groups->element >= groups->config.bucket_bytes
               ? start_all_reduce(groups, error)
               : WEFT_OK;
}

static weft_status finish_all_reduce(struct gradient_groups *groups, uint32_t number, struct error *error)
{
    const struct group_range *range = &groups->groups[number].range;
    struct gradient_bucket_range *bucket = &groups->buckets[groups->bucket_of[number]];
    struct device *device = groups->config.device;
    weft_status status = WEFT_OK;
    groups->unfinished--;
    if (groups->is_filling && groups->bucket_of[number] + 1 == groups->bucket_count)
        status = start_all_reduce(groups, error);
    if (status == WEFT_OK)
        status = waiting_for(gradient_context(groups), &bucket->request, groups->config.waited, error);
    if (status == WEFT_OK && groups->rounds)
        device->from_activations(device, range->count, groups->bf16 + range->offset, groups->flat + range->offset);
    return status;
}

/* ---- slices to their owners ---- */

/* Whether a rank has a micro-batch in a round. */
static bool round_has_rank(const struct gradient_groups *groups, uint32_t round, uint32_t rank)
{
    return (uint64_t)round * groups->ranks + rank < groups->config.micro_batches;
}

static void lay_out_received(const struct gradient_groups *groups, const struct gradient_group *group, uint32_t round,
                             size_t *counts, size_t *places)
{
    const size_t each = group->slices[groups->rank].count;
    size_t place = 0;
    for (uint32_t r = 0; r < groups->ranks; r++) {
        struct canonical_stack roots;
        const uint32_t has = round == UINT32_MAX ? gradient_roots_of(groups, r, &roots)
                                                 : r != groups->rank && round_has_rank(groups, round, r);
        counts[r] = has * each;
        places[r] = place;
        place += counts[r];
    }
}

/* What goes to each rank: its slice of every root of this rank, one after the other. In a round this rank's own slice
 * stays in its place. */
static const void *lay_out_sent(struct gradient_groups *groups, struct gradient_group *group,
                                struct gradient_exchange *exchange, bool computes)
{
    size_t *counts = exchange->counts, *places = counts + groups->ranks, used = 0;
    struct device *device = groups->config.device;
    float *place = exchange->place;
    const bool is_round = exchange->round != UINT32_MAX;
    const uint32_t partials = is_round ? 0 : group->stack.depth;
    const bool copies = groups->rounds || groups->own_roots > 1;
    if (is_round && computes)
        gradient_sums_round(groups, place + group->slice.first, group->slice.count);
    for (uint32_t r = 0; r < groups->ranks; r++) {
        const struct group_slice *slice = &group->slices[r];
        const bool has = computes && !(is_round && r == groups->rank);
        counts[r] = has ? (partials + 1) * slice->count : 0;
        places[r] = copies ? used : slice->first;
        for (uint32_t i = 0; copies && has && i <= partials; i++) {
            const float *from = (i < partials ? gradient_partial(groups, group, i) : place) + slice->first;
            char *to = exchange->send + used * groups->element;
            if (groups->rounds)
                device->to_activations(device, slice->count, from, to);
            else
                memcpy(to, from, slice->count * sizeof *from);
            used += slice->count;
        }
    }
    return copies ? (const void *)exchange->send : place;
}

static weft_status finish_exchange(struct gradient_groups *groups, struct gradient_exchange *exchange,
                                   struct error *error);

/* Whether all ranks have a part in this reduction, and equal slices of its result. */
static bool is_scattered(const struct gradient_groups *groups, const struct gradient_group *group, uint32_t round)
{
    return groups->scatters && group_even_slice(&group->range, groups->ranks) > 0 &&
           (round == UINT32_MAX || round_has_rank(groups, round, groups->ranks - 1));
}

/* The sums of all ranks are added up, and each owner gets its slice. Slices must be equal for that: the last ones are made
 * as long as the others. */
static weft_status start_scatter(struct gradient_groups *groups, struct gradient_group *group,
                                 struct gradient_exchange *exchange, struct error *error)
{
    const size_t even = group_even_slice(&group->range, groups->ranks), count = group->range.count;
    struct device *device = groups->config.device;
    const void *sent = exchange->send;
    if (groups->rounds)
        device->to_activations(device, count, exchange->place, exchange->send);
    else if (even * groups->ranks > count)
        memcpy(exchange->send, exchange->place, count * groups->element);
    else
        sent = exchange->place;
    if (even * groups->ranks > count)
        memset(exchange->send + count * groups->element, 0, (even * groups->ranks - count) * groups->element);
    return library_error(gradient_context(groups),
                         weft_reduce_scatter_start(sent, exchange->receive, even, groups->config.type, WEFT_SUM,
                                                   groups->comm, &exchange->request),
                         error);
}

static weft_status start_exchange(struct gradient_groups *groups, uint32_t number, uint32_t round, float *place,
                                  struct error *error)
{
    struct gradient_group *group = &groups->groups[number];
    struct gradient_exchange *exchange = &groups->exchanges[groups->next_exchange++ % GRADIENT_EXCHANGES];
    weft_status status = exchange->busy ? finish_exchange(groups, exchange, error) : WEFT_OK;
    if (status != WEFT_OK)
        return status;
    exchange->busy = true;
    exchange->group = number;
    exchange->round = round;
    exchange->place = place;
    exchange->scattered = is_scattered(groups, group, round);
    if (exchange->scattered)
        return start_scatter(groups, group, exchange, error);
    size_t *counts = exchange->counts, *received = counts + 2 * (size_t)groups->ranks;
    const void *sent = lay_out_sent(groups, group, exchange, round == UINT32_MAX || round < groups->share.count);
    lay_out_received(groups, group, round, received, received + groups->ranks);
    return library_error(gradient_context(groups),
                         weft_alltoallv_start(sent, counts, counts + groups->ranks, exchange->receive, received,
                                              received + groups->ranks, groups->config.type, groups->comm,
                                              &exchange->request),
                         error);
}

/* Add up the roots of all ranks, which lie one after the other, into the first array. */
static void fold_roots(struct gradient_groups *groups, const struct gradient_group *group, float *arrays)
{
    const size_t each = group->slices[groups->rank].count;
    struct canonical_stack stack = {0};
    uint32_t at[CANONICAL_ROOTS_MOST], next = 0; /* which array each root is in */
    for (uint32_t r = 0; r < groups->ranks; r++) {
        struct canonical_stack roots;
        gradient_roots_of(groups, r, &roots);
        for (uint32_t i = 0; i < roots.depth; i++) {
            at[stack.depth] = next++;
            canonical_stack_push(&stack, roots.roots[i]);
            for (; canonical_stack_can_merge(&stack); canonical_stack_merge(&stack))
                gradient_sums_add(groups, arrays + at[stack.depth - 2] * each, arrays + at[stack.depth - 1] * each,
                                  each);
        }
    }
    for (; stack.depth > 1; stack.depth--)
        gradient_sums_add(groups, arrays + at[stack.depth - 2] * each, arrays + at[stack.depth - 1] * each, each);
}

/* ZeRO-0: wait until this rank has the whole total that is on its way. */
static weft_status finish_sharing(struct gradient_groups *groups, struct error *error)
{
    const struct gradient_group *group = groups->sharing;
    struct device *device = groups->config.device;
    if (!group)
        return WEFT_OK;
    groups->sharing = NULL;
    weft_status status = waiting_for(gradient_context(groups), &groups->sharing_request, groups->config.waited, error);
    if (status == WEFT_OK && groups->rounds)
        device->from_activations(device, group->range.count, groups->shared, groups->flat + group->range.offset);
    return status;
}

/* ZeRO-0: every rank's total of its slice to all ranks, one group at a time. */
static weft_status start_sharing(struct gradient_groups *groups, const struct gradient_group *group,
                                 struct error *error)
{
    struct device *device = groups->config.device;
    const struct group_slice *own = &group->slices[groups->rank];
    size_t *counts = groups->totals_at, *places = counts + groups->ranks;
    weft_status status = finish_sharing(groups, error);
    if (status != WEFT_OK)
        return status;
    for (uint32_t r = 0; r < groups->ranks; r++) {
        counts[r] = group->slices[r].count;
        places[r] = group->slices[r].first;
    }
    float *place = groups->flat + group->range.offset;
    void *whole = groups->rounds ? (void *)groups->shared : place;
    if (groups->rounds)
        device->to_activations(device, own->count, place + own->first, groups->shared + own->first);
    groups->sharing = group;
    return library_error(gradient_context(groups),
                         weft_allgatherv_start((char *)whole + own->first * groups->element, whole, counts, places,
                                               groups->config.type, groups->comm, &groups->sharing_request),
                         error);
}

static uint32_t log2_of(uint32_t power)
{
    uint32_t level = 0;
    while (power >> (level + 1))
        level++;
    return level;
}

/* A round's gradients of this rank's slice, in the order of their micro-batches, or their sum. */
static void push_round(struct gradient_groups *groups, struct gradient_group *group,
                       const struct gradient_exchange *exchange, const float *received)
{
    const size_t each = group->slice.count, *places = exchange->counts + 3 * (size_t)groups->ranks;
    const float *arrays[2]; /* of neighbors: a left one waits for its sibling */
    uint32_t count = 0;
    if (!group->added)
        group->stack.depth = 0;
    if (exchange->scattered) {
        gradient_partials_push(groups, group, &received, 1, each, log2_of(groups->ranks), group->added);
        group->added += groups->ranks;
    }
    for (uint32_t r = 0; !exchange->scattered && r < groups->ranks && round_has_rank(groups, exchange->round, r); r++) {
        arrays[count++] = r == groups->rank ? exchange->place + group->slice.first : received + places[r];
        const bool is_left = (group->added + count) % 2 && group->added + count < groups->config.micro_batches;
        if (is_left && r + 1 < groups->ranks)
            continue;
        gradient_partials_push(groups, group, arrays, count, each, 0, group->added);
        group->added += count;
        count = 0;
    }
    if (group->added < groups->config.micro_batches)
        return;
    gradient_partials_fold(groups, group, each);
    group->added = 0;
}

static weft_status finish_exchange(struct gradient_groups *groups, struct gradient_exchange *exchange,
                                   struct error *error)
{
    struct gradient_group *group = &groups->groups[exchange->group];
    struct device *device = groups->config.device;
    const struct group_slice *own = &group->slices[groups->rank];
    const size_t *received = exchange->counts + 2 * (size_t)groups->ranks;
    float *arrays = groups->rounds ? exchange->received : (float *)exchange->receive;
    size_t count = 0;
    weft_status status = waiting_for(gradient_context(groups), &exchange->request, groups->config.waited, error);
    exchange->busy = false;
    if (status != WEFT_OK)
        return status;
    for (uint32_t r = 0; r < groups->ranks && !exchange->scattered; r++)
        count += received[r];
    if (exchange->scattered)
        count = own->count;
    if (groups->rounds)
        device->from_activations(device, count, exchange->receive, arrays);
    if (exchange->round != UINT32_MAX) {
        push_round(groups, group, exchange, arrays);
        return WEFT_OK;
    }
    group->stack.depth = 0;
    if (!exchange->scattered)
        fold_roots(groups, group, arrays);
    device->copy(device, groups->flat + group->range.offset + own->first, arrays, own->count * sizeof(float));
    return groups->config.zero ? WEFT_OK : start_sharing(groups, group, error);
}

/* ---- both ---- */

static bool is_reduced(const struct gradient_groups *groups, uint32_t number)
{
    const struct group_range *range = &groups->groups[number].range;
    return groups->ranks > 1 && range->count > 0 && !range->frozen;
}

weft_status gradient_groups_reduce_place(struct gradient_groups *groups, uint32_t number, uint32_t round, float *place,
                                         struct error *error)
{
    if (!is_reduced(groups, number))
        return WEFT_OK;
    return groups->whole ? add_to_bucket(groups, number, error) : start_exchange(groups, number, round, place, error);
}

weft_status gradient_groups_reduce_start(struct gradient_groups *groups, uint32_t number, uint32_t round,
                                         uint32_t buffer, size_t offset, struct error *error)
{
    return gradient_groups_reduce_place(groups, number, round, gradient_groups_place(groups, number, buffer, offset),
                                        error);
}

weft_status gradient_groups_reduce_finish(struct gradient_groups *groups, uint32_t number, uint32_t round,
                                          struct error *error)
{
    if (!is_reduced(groups, number))
        return WEFT_OK;
    if (groups->whole)
        return finish_all_reduce(groups, number, error);
    weft_status status = WEFT_OK;
    for (int i = 0; status == WEFT_OK && i < GRADIENT_EXCHANGES; i++) {
        struct gradient_exchange *exchange = &groups->exchanges[i];
        if (exchange->busy && exchange->group == number && exchange->round == round)
            status = finish_exchange(groups, exchange, error);
    }
    return status == WEFT_OK && groups->sharing == &groups->groups[number] ? finish_sharing(groups, error) : status;
}

bool gradient_groups_can_start(const struct gradient_groups *groups)
{
    const struct gradient_exchange *next = &groups->exchanges[groups->next_exchange % GRADIENT_EXCHANGES];
    bool received = true, shared = true;
    if (!next->busy)
        return true;
    return (weft_request_done(next->request, &received) != WEFT_OK || received) &&
           (weft_request_done(groups->sharing_request, &shared) != WEFT_OK || shared);
}
