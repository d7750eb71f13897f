/* SPDX-License-Identifier: Apache-2.0 */
/* Opening, memory, and the sums over the micro-batches of a rank. */
#include "base/library_error.h"
#include "training/parallel/sharding/internal/gradient_parts.h"
#include "training/parallel/sharding/internal/rounded_sums.h"
#include "training/parallel/sharding/internal/shared_array.h"

#include <stdlib.h>

/* ---- sizes ---- */

static bool by_slices(uint32_t zero)
{
    return zero >= 2;
}

static struct micro_batch_division division_of(const struct gradient_groups_config *config, uint32_t ranks)
{
    return (struct micro_batch_division){.total = config->micro_batches, .ranks = ranks, .counts = config->shares};
}

struct micro_batch_share gradient_groups_share(const struct gradient_groups_config *config, uint32_t rank,
                                               uint32_t ranks)
{
    const struct micro_batch_division division = division_of(config, ranks);
    return micro_batch_share_of(config->zero, &division, rank);
}

uint32_t gradient_roots_of(const struct gradient_groups *groups, uint32_t rank, struct canonical_stack *roots)
{
    const struct micro_batch_division division = division_of(&groups->config, groups->ranks);
    const struct micro_batch_share share = micro_batch_run(&division, rank);
    canonical_stack_of_run(share.first, share.count, roots);
    return roots->depth;
}

/* Whether micro-batches are added up in partial sums. Slices have them in any case, for totals to lie in. */
static bool group_has_partials(const struct gradient_groups_config *config, const struct group_range *range)
{
    return by_slices(config->zero) || !(range->frozen || range->total_only);
}

/* Everything that follows from the configuration without allocating: also for gradient_groups_memory(). */
struct gradient_sizes {
    struct micro_batch_share share;
    bool whole, scatters;
    uint32_t own_roots, all_roots, partials;
    size_t largest;              /* elements of a group */
    size_t exchanged, own_slice; /* of one whose roots are sent to owners, and of this rank's slice of one */
    size_t padded, even;         /* of one that is copied to be scattered, and of an even slice */
    size_t slices;               /* elements of all slices of this rank */
    size_t flat, moving, bf16, partial, send, receive, received, shared; /* elements */
};

static size_t larger_count(size_t a, size_t b)
{
    return a > b ? a : b;
}

static struct gradient_sizes sizes_of(const struct gradient_groups_config *config, uint32_t rank, uint32_t ranks)
{
    const struct micro_batch_division division = division_of(config, ranks);
    struct gradient_sizes sizes = {
        .share = gradient_groups_share(config, rank, ranks),
        .whole = !config->zero && micro_batch_runs_are_subtrees(&division),
        .scatters = micro_batch_sums_scatter(config->zero, &division),
    };
    const bool slices = by_slices(config->zero), rounds = config->type == WEFT_BF16;
    for (uint32_t r = 0; r < ranks; r++) {
        const struct micro_batch_share run = micro_batch_run(&division, r);
        struct canonical_stack roots;
        canonical_stack_of_run(run.first, run.count, &roots);
        sizes.all_roots += slices ? r != rank : roots.depth;
        if (r == rank)
            sizes.own_roots = slices ? 1 : roots.depth;
    }
    for (uint32_t g = 0; g < config->group_count; g++) {
        const size_t count = config->ranges[g].count;
        sizes.largest = larger_count(sizes.largest, count);
        sizes.slices += config->zero ? group_slice_of(&config->ranges[g], rank, ranks).count : count;
        sizes.partial += !slices && group_has_partials(config, &config->ranges[g]) ? count : 0;
        if (config->ranges[g].frozen) /* not reduced */
            continue;
        const size_t even = sizes.scatters ? group_even_slice(&config->ranges[g], ranks) : 0;
        sizes.even = larger_count(sizes.even, even);
        if (rounds || even * ranks != count)
            sizes.padded = larger_count(sizes.padded, even * ranks);
        if (even && !(slices && config->micro_batches % ranks)) /* no round in which ranks have none */
            continue;
        sizes.exchanged = larger_count(sizes.exchanged, count);
        sizes.own_slice = larger_count(sizes.own_slice, group_slice_of(&config->ranges[g], rank, ranks).count);
    }
    /* The rank's last micro-batch stays in its place; under ZeRO-2 and 3 every one is pushed. */
    sizes.partials = slices ? canonical_stack_room(0, config->micro_batches)
                            : canonical_stack_room(sizes.share.first, sizes.share.count - 1);
    sizes.flat = slices ? 0 : config->elements;
    sizes.moving = slices ? config->buffers * config->buffer_elements : 0;
    sizes.partial += slices ? sizes.slices : 0;
    if (ranks == 1)
        return sizes;
    if (sizes.whole) {
        sizes.bf16 = rounds ? config->elements : 0;
        return sizes;
    }
    sizes.send = rounds || sizes.own_roots > 1 ? sizes.own_roots * sizes.exchanged : 0;
    sizes.send = larger_count(sizes.send, sizes.padded);
    sizes.receive = larger_count(sizes.all_roots * sizes.own_slice, sizes.even);
    sizes.received = rounds ? sizes.receive : 0;
    sizes.shared = rounds && !config->zero ? sizes.largest : 0;
    return sizes;
}

struct gradient_memory gradient_groups_memory(const struct gradient_groups_config *config, uint32_t rank,
                                              uint32_t ranks)
{
    const struct gradient_sizes sizes = sizes_of(config, rank, ranks);
    return (struct gradient_memory){
        .gradients = (sizes.flat + sizes.moving) * sizeof(float),
        .partial_sums = sizes.partials * sizes.partial * sizeof(float),
        .exchanges = (sizes.bf16 + sizes.shared) * sizeof(uint16_t) +
                     GRADIENT_EXCHANGES *
                         (sizes.received * sizeof(float) + (sizes.send + sizes.receive) * weft_type_size(config->type)),
    };
}

/* ---- opening ---- */

static weft_status open_partials(struct gradient_groups *groups, const struct gradient_sizes *sizes,
                                 struct error *error)
{
    struct device *device = groups->config.device;
    groups->partials = calloc((size_t)sizes->partials + 1, sizeof *groups->partials);
    if (!groups->partials)
        return error_memory(error, sizes->partials * sizeof *groups->partials, "partial sums of gradients");
    for (uint32_t i = 0; i < sizes->partials; i++) {
        groups->partials[i] =
            device->allocate(device, sizes->partial * sizeof(float), "partial sums of gradients", error);
        if (!groups->partials[i])
            return WEFT_ERROR_MEMORY;
        groups->partial_count++;
    }
    return WEFT_OK;
}

static weft_status open_exchanges(struct gradient_groups *groups, const struct gradient_sizes *sizes,
                                  struct error *error)
{
    weft_context *context = groups->config.context;
    weft_status status = WEFT_OK;
    for (int i = 0; i < GRADIENT_EXCHANGES; i++) {
        struct gradient_exchange *exchange = &groups->exchanges[i];
        exchange->counts = calloc(4 * (size_t)groups->ranks, sizeof *exchange->counts);
        if (!exchange->counts)
            return error_memory(error, 4 * groups->ranks * sizeof *exchange->counts, "a reduction of gradients");
        exchange->send = shared_array_new(context, sizes->send, groups->element, &status, error);
        exchange->receive = shared_array_new(context, sizes->receive, groups->element, &status, error);
        exchange->received = shared_array_new(context, sizes->received, sizeof(float), &status, error);
    }
    return status;
}

static weft_status open_lists_of_groups(struct gradient_groups *groups, struct error *error)
{
    const struct gradient_groups_config *config = &groups->config;
    const size_t count = config->group_count;
    groups->groups = calloc(count + 1, sizeof *groups->groups);
    groups->all_slices = calloc(count * groups->ranks + 1, sizeof *groups->all_slices);
    groups->buckets = calloc(count + 1, sizeof *groups->buckets);
    groups->bucket_of = calloc(count + 1, sizeof *groups->bucket_of);
    groups->totals_at = calloc(2 * (size_t)groups->ranks, sizeof *groups->totals_at);
    if (!groups->groups || !groups->all_slices || !groups->buckets || !groups->bucket_of || !groups->totals_at)
        return error_memory(error, count * sizeof *groups->groups, "groups of gradients");
    size_t offset = 0;
    for (uint32_t g = 0; g < count; g++) {
        struct gradient_group *group = &groups->groups[g];
        *group = (struct gradient_group){.range = config->ranges[g],
                                         .slices = groups->all_slices + (size_t)g * groups->ranks,
                                         .partial_offset = offset};
        for (uint32_t r = 0; r < groups->ranks; r++)
            group->slices[r] = group_slice_of(&group->range, r, groups->ranks);
        group->slice = config->zero ? group->slices[groups->rank] : (struct group_slice){.count = group->range.count};
        if (group_has_partials(config, &group->range))
            offset += by_slices(config->zero) ? group->slice.count : group->range.count;
    }
    return WEFT_OK;
}

static weft_status gradient_groups_allocate(struct gradient_groups *groups, const struct gradient_sizes *sizes,
                                            struct error *error)
{
    weft_context *context = groups->config.context;
    weft_status status = open_lists_of_groups(groups, error);
    groups->flat = shared_array_new(context, sizes->flat, sizeof(float), &status, error);
    groups->moving = shared_array_new(context, sizes->moving, sizeof(float), &status, error);
    groups->bf16 = shared_array_new(context, sizes->bf16, sizeof(uint16_t), &status, error);
    groups->shared = shared_array_new(context, sizes->shared, sizeof(uint16_t), &status, error);
    if (status == WEFT_OK)
        status = open_partials(groups, sizes, error);
    return status == WEFT_OK ? open_exchanges(groups, sizes, error) : status;
}

weft_status gradient_groups_open(const struct gradient_groups_config *config, struct gradient_groups **result,
                                 struct error *error)
{
    struct gradient_groups *groups = calloc(1, sizeof *groups);
    weft_comm *comm = NULL;
    weft_status status = library_error(config->context, weft_comm_duplicate(config->comm, &comm), error);
    /* Launchers may place ranks unevenly (srun -N 2 -n 4: 3 and 1): the sum must be the same there. */
    if (status == WEFT_OK)
        status = library_error(config->context, weft_comm_set_reproducible(comm, true), error);
    if (status == WEFT_OK && !groups)
        status = error_memory(error, sizeof *groups, "groups of gradients");
    if (status != WEFT_OK) {
        if (comm)
            weft_comm_free(comm);
        free(groups);
        return status;
    }
    *groups = (struct gradient_groups){.config = *config,
                                       .comm = comm,
                                       .rank = (uint32_t)weft_comm_rank(comm),
                                       .ranks = (uint32_t)weft_comm_size(comm),
                                       .rounds = config->type == WEFT_BF16,
                                       .element = weft_type_size(config->type)};
    const struct gradient_sizes sizes = sizes_of(config, groups->rank, groups->ranks);
    groups->share = sizes.share;
    groups->whole = sizes.whole;
    groups->scatters = sizes.scatters;
    groups->own_roots = sizes.own_roots;
    groups->all_roots = sizes.all_roots;
    status = gradient_groups_allocate(groups, &sizes, error);
    groups->config.ranges = NULL; /* the caller's */
    if (status == WEFT_OK)
        *result = groups;
    else
        gradient_groups_close(groups);
    return status;
}

/* After a failure reductions may be under way. The job has been aborted, so they end at once. */
static void end_reductions(struct gradient_groups *groups)
{
    for (int i = 0; i < GRADIENT_EXCHANGES; i++)
        weft_wait(&groups->exchanges[i].request);
    weft_wait(&groups->sharing_request);
    for (uint32_t i = 0; groups->buckets && i < groups->bucket_count; i++)
        weft_wait(&groups->buckets[i].request);
}

void gradient_groups_close(struct gradient_groups *groups)
{
    if (!groups)
        return;
    end_reductions(groups);
    struct device *device = groups->config.device;
    weft_context *context = groups->config.context;
    void *const arrays[] = {groups->flat, groups->moving, groups->bf16, groups->shared};
    for (size_t i = 0; i < ARRAY_SIZE(arrays); i++)
        weft_free(context, arrays[i]);
    for (int i = 0; i < GRADIENT_EXCHANGES; i++) {
        weft_free(context, groups->exchanges[i].send);
        weft_free(context, groups->exchanges[i].receive);
        weft_free(context, groups->exchanges[i].received);
        free(groups->exchanges[i].counts);
    }
    for (uint32_t i = 0; i < groups->partial_count; i++)
        device->release(device, groups->partials[i]);
    free((void *)groups->partials);
    free(groups->groups);
    free(groups->all_slices);
    free(groups->buckets);
    free(groups->bucket_of);
    free(groups->totals_at);
    weft_comm_free(groups->comm);
    free(groups);
}

/* ---- sums ---- */

void gradient_sums_round(struct gradient_groups *groups, float *array, size_t count)
{
    rounded_sums_round(groups->config.device, groups->rounds, array, count);
}

void gradient_sums_add(struct gradient_groups *groups, float *target, const float *other, size_t count)
{
    rounded_sums_add(groups->config.device, groups->rounds, target, other, count);
}

float *gradient_partial(struct gradient_groups *groups, const struct gradient_group *group, uint32_t number)
{
    return groups->partials[number] + group->partial_offset;
}

void gradient_partials_push(struct gradient_groups *groups, struct gradient_group *group, const float *const *arrays,
                            uint32_t number, size_t count, uint32_t level, uint32_t micro_batch)
{
    struct device *device = groups->config.device;
    struct canonical_stack *stack = &group->stack;
    const struct canonical_root first = {.level = level + number - 1, .start = micro_batch};
    if (number == 1 && canonical_stack_continues(stack, first)) {
        gradient_sums_add(groups, gradient_partial(groups, group, stack->depth - 1), arrays[0], count);
        canonical_stack_push(stack, first);
        canonical_stack_merge(stack);
    } else {
        float *partial = gradient_partial(groups, group, stack->depth);
        if (number == 1)
            device->copy(device, partial, arrays[0], count * sizeof(float));
        else
            device->add(device, count, arrays[0], arrays[1], partial);
        if (number > 1)
            gradient_sums_round(groups, partial, count);
        canonical_stack_push(stack, first);
    }
    for (; canonical_stack_can_merge(stack); canonical_stack_merge(stack))
        gradient_sums_add(groups, gradient_partial(groups, group, stack->depth - 2),
                          gradient_partial(groups, group, stack->depth - 1), count);
}

void gradient_partials_fold(struct gradient_groups *groups, struct gradient_group *group, size_t count)
{
    for (struct canonical_stack *stack = &group->stack; stack->depth > 1; stack->depth--)
        gradient_sums_add(groups, gradient_partial(groups, group, stack->depth - 2),
                          gradient_partial(groups, group, stack->depth - 1), count);
}

float *gradient_groups_place(struct gradient_groups *groups, uint32_t group, uint32_t buffer, size_t offset)
{
    if (!by_slices(groups->config.zero))
        return groups->flat + groups->groups[group].range.offset;
    return buffer == UINT32_MAX ? NULL : groups->moving + buffer * groups->config.buffer_elements + offset;
}

/* place = upper partial sum + place: the partial sum is to the left. */
static void add_partial_to_place(struct gradient_groups *groups, struct gradient_group *group, float *place)
{
    struct device *device = groups->config.device;
    device->add(device, group->range.count, gradient_partial(groups, group, group->stack.depth - 1), place, place);
    gradient_sums_round(groups, place, group->range.count);
    group->stack.depth--;
}

void gradient_groups_add(struct gradient_groups *groups, uint32_t number)
{
    struct gradient_group *group = &groups->groups[number];
    float *place = gradient_groups_place(groups, number, 0, 0);
    const uint32_t micro_batch = groups->share.first + group->added;
    if (group->range.frozen) {
        groups->config.device->fill(groups->config.device, group->range.count, 0, place);
        return;
    }
    if (group->added == 0)
        group->stack.depth = 0;
    gradient_sums_round(groups, place, group->range.count);
    if (++group->added < groups->share.count) {
        gradient_partials_push(groups, group, (const float *const[]){place}, 1, group->range.count, 0, micro_batch);
        return;
    }
    group->added = 0;
    group->last = (struct canonical_root){.start = micro_batch};
    while (canonical_stack_continues(&group->stack, group->last)) {
        group->last.start = group->stack.roots[group->stack.depth - 1].start;
        group->last.level++;
        add_partial_to_place(groups, group, place);
    }
    while (groups->ranks == 1 && group->stack.depth)
        add_partial_to_place(groups, group, place);
}

float *gradient_groups_total(struct gradient_groups *groups, uint32_t number, struct group_slice *slice)
{
    struct gradient_group *group = &groups->groups[number];
    *slice = group->slice;
    return by_slices(groups->config.zero) ? gradient_partial(groups, group, 0)
                                          : groups->flat + group->range.offset + group->slice.first;
}

void gradient_groups_add_total(struct gradient_groups *groups, uint32_t number, const float *other)
{
    struct group_slice slice;
    float *total = gradient_groups_total(groups, number, &slice);
    gradient_sums_add(groups, total, other, slice.count);
}
