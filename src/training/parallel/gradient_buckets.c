/* SPDX-License-Identifier: Apache-2.0 */
#include "training/parallel/internal/gradient_buckets.h"

#include "base/clock.h"

#include <stdlib.h>

/* ---- layout ---- */

static int compare_addresses(const void *first, const void *second)
{
    const struct gradient_range *const *a = first, *const *b = second;
    return ((*a)->begin > (*b)->begin) - ((*a)->begin < (*b)->begin);
}

/* Of ranges at the same position, the last one in memory comes first, as a backward pass goes. */
static int compare_positions(const void *first, const void *second)
{
    const struct gradient_range *const *a = first, *const *b = second;
    if ((*a)->position != (*b)->position)
        return (*a)->position < (*b)->position ? -1 : 1;
    return compare_addresses(second, first);
}

/* Put the ranges into buckets by their positions. */
static void lay_out_buckets(struct gradient_buckets *buckets)
{
    size_t elements = 0;
    struct gradient_bucket *bucket = NULL;
    qsort(buckets->order, buckets->range_count, sizeof(struct gradient_range *), compare_positions);
    buckets->bucket_count = 0;
    for (uint32_t i = 0; i < buckets->range_count; i++) {
        struct gradient_range *range = buckets->order[i];
        if (!bucket || elements >= buckets->bucket_elements) {
            bucket = &buckets->buckets[buckets->bucket_count++];
            *bucket = (struct gradient_bucket){.first = i};
            elements = 0;
        }
        bucket->count++;
        elements += range->frozen ? 0 : range->count;
        range->bucket = buckets->bucket_count - 1;
    }
    for (uint32_t b = 0; b < buckets->bucket_count; b++)
        qsort(buckets->order + buckets->buckets[b].first, buckets->buckets[b].count, sizeof(struct gradient_range *),
              compare_addresses);
}

weft_status gradient_buckets_open(struct gradient_buckets *buckets, weft_comm *comm, weft_type type,
                                  struct gradient_range *ranges, uint32_t range_count, size_t bucket_bytes,
                                  struct error *error)
{
    size_t elements = 0;
    for (uint32_t i = 0; i < range_count; i++)
        elements += ranges[i].count;
    const size_t least = (elements + GRADIENT_BUCKETS_MOST - 1) / GRADIENT_BUCKETS_MOST;
    const size_t bucket_elements = bucket_bytes / weft_type_size(type);
    *buckets = (struct gradient_buckets){
        .comm = comm,
        .type = type,
        .ranges = ranges,
        .range_count = range_count,
        .bucket_elements = bucket_elements > least ? bucket_elements : least,
        .order = calloc(range_count, sizeof *buckets->order),
        .positions = calloc(range_count, sizeof *buckets->positions),
        .buckets = calloc(range_count, sizeof *buckets->buckets),
        .requests = calloc(range_count, sizeof *buckets->requests),
    };
    if (!buckets->order || !buckets->positions || !buckets->buckets || !buckets->requests) {
        gradient_buckets_close(buckets);
        return error_memory(error, range_count * (sizeof *buckets->buckets + sizeof *buckets->requests),
                            "buckets of gradients");
    }
    for (uint32_t i = 0; i < range_count; i++)
        buckets->order[i] = &ranges[i];
    lay_out_buckets(buckets);
    return WEFT_OK;
}

void gradient_buckets_close(struct gradient_buckets *buckets)
{
    free(buckets->ranges);
    free(buckets->order);
    free(buckets->positions);
    free(buckets->buckets);
    free(buckets->requests);
    *buckets = (struct gradient_buckets){0};
}

weft_status gradient_buckets_agree(struct gradient_buckets *buckets)
{
    const uint32_t count = buckets->range_count;
    weft_status status =
        weft_allreduce(buckets->positions, buckets->positions, count, WEFT_U32, WEFT_MAX, buckets->comm);
    if (status != WEFT_OK)
        return status;
    for (uint32_t i = 0; i < count; i++)
        buckets->ranges[i].position = buckets->positions[i];
    lay_out_buckets(buckets);
    return WEFT_OK;
}

/* ---- a pass ---- */

void gradient_buckets_begin(struct gradient_buckets *buckets)
{
    for (uint32_t b = 0; b < buckets->bucket_count; b++)
        buckets->buckets[b].waiting = buckets->buckets[b].count;
    buckets->next = buckets->ready_count = 0;
    buckets->disordered = false;
    buckets->in_flight = 0;
    buckets->status = WEFT_OK;
}

static void start_allreduce(struct gradient_buckets *buckets, char *begin, const char *end)
{
    if (buckets->status != WEFT_OK || begin == end)
        return;
    buckets->status =
        weft_allreduce_start(begin, begin, (size_t)(end - begin) / weft_type_size(buckets->type), buckets->type,
                             WEFT_SUM, buckets->comm, &buckets->requests[buckets->in_flight]);
    if (buckets->status == WEFT_OK)
        buckets->in_flight++;
}

static void start_bucket(struct gradient_buckets *buckets, const struct gradient_bucket *bucket)
{
    char *begin = NULL, *end = NULL; /* of the current run of neighbors */
    for (uint32_t i = 0; i < bucket->count; i++) {
        const struct gradient_range *range = buckets->order[bucket->first + i];
        if (range->frozen)
            continue;
        if (range->begin != end) {
            start_allreduce(buckets, begin, end);
            begin = range->begin;
        }
        end = range->begin + range->count * weft_type_size(buckets->type);
    }
    start_allreduce(buckets, begin, end);
}

void gradient_buckets_ready(struct gradient_buckets *buckets, uint32_t range)
{
    const uint32_t number = buckets->ranges[range].bucket;
    buckets->positions[range] = buckets->ready_count++;
    if (--buckets->buckets[number].waiting > 0)
        return;
    if (number != buckets->next)
        buckets->disordered = true;
    while (buckets->next < buckets->bucket_count && buckets->buckets[buckets->next].waiting == 0)
        start_bucket(buckets, &buckets->buckets[buckets->next++]);
}

weft_status gradient_buckets_finish(struct gradient_buckets *buckets)
{
    const uint64_t begin = clock_now();
    weft_status status = weft_wait_all(buckets->requests, buckets->in_flight);
    buckets->in_flight = 0;
    buckets->wait_seconds += (double)(clock_now() - begin) * 1e-9;
    return buckets->status != WEFT_OK ? buckets->status : status;
}
