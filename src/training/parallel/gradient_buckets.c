/* SPDX-License-Identifier: Apache-2.0 */
#include "training/parallel/internal/gradient_buckets.h"

#include "base/clock.h"

#include <stdlib.h>
#include <string.h>

/* ---- laying out ---- */

/* The ranges of one bucket by their place in the array: neighbours beside each other. */
static int gradient_buckets_compare_places(const void *first, const void *second)
{
    const uint32_t a = *(const uint32_t *)first, b = *(const uint32_t *)second;
    return (a > b) - (a < b);
}

/* Put the ranges into buckets, in their order. */
static void gradient_buckets_lay_out(struct gradient_buckets *buckets)
{
    size_t elements = 0;
    struct gradient_bucket *bucket = NULL;
    buckets->bucket_count = 0;
    for (uint32_t i = 0; i < buckets->range_count; i++) {
        if (!bucket || elements >= buckets->bucket_elements) {
            bucket = &buckets->buckets[buckets->bucket_count++];
            *bucket = (struct gradient_bucket){.first = i};
            elements = 0;
        }
        bucket->count++;
        const struct gradient_range *range = &buckets->ranges[buckets->order[i]];
        elements += range->stays ? 0 : range->count;
        buckets->bucket_of[buckets->order[i]] = buckets->bucket_count - 1;
    }
    memcpy(buckets->members, buckets->order, buckets->range_count * sizeof *buckets->members);
    for (uint32_t b = 0; b < buckets->bucket_count; b++)
        qsort(buckets->members + buckets->buckets[b].first, buckets->buckets[b].count, sizeof *buckets->members,
              gradient_buckets_compare_places);
}

weft_status gradient_buckets_open(struct gradient_buckets *buckets, weft_comm *comm, weft_type type, void *array,
                                  const struct gradient_range *ranges, uint32_t range_count, size_t bucket_bytes,
                                  struct error *error)
{
    const size_t elements = ranges[range_count - 1].first + ranges[range_count - 1].count;
    const size_t least = (elements + GRADIENT_BUCKETS_MOST - 1) / GRADIENT_BUCKETS_MOST;
    const size_t bucket_elements = bucket_bytes / weft_type_size(type);
    *buckets = (struct gradient_buckets){
        .comm = comm,
        .type = type,
        .array = array,
        .ranges = ranges,
        .range_count = range_count,
        .bucket_elements = bucket_elements > least ? bucket_elements : least,
        .order = calloc(4 * (size_t)range_count, sizeof *buckets->order),
        .buckets = calloc(range_count, sizeof *buckets->buckets),
        .requests = calloc(range_count, sizeof *buckets->requests),
    };
    if (!buckets->order || !buckets->buckets || !buckets->requests) {
        gradient_buckets_close(buckets);
        return error_memory(error, range_count * (sizeof *buckets->buckets + sizeof *buckets->requests),
                            "buckets of gradients");
    }
    buckets->members = buckets->order + range_count;
    buckets->bucket_of = buckets->members + range_count;
    buckets->came = buckets->bucket_of + range_count;
    for (uint32_t i = 0; i < range_count; i++)
        buckets->order[i] = range_count - 1 - i;
    gradient_buckets_lay_out(buckets);
    return WEFT_OK;
}

void gradient_buckets_close(struct gradient_buckets *buckets)
{
    free(buckets->order); /* and the other lists behind it */
    free(buckets->buckets);
    free(buckets->requests);
    *buckets = (struct gradient_buckets){0};
}

/* A range and when it was ready on the rank where it was ready last. */
struct latest {
    uint32_t range, place;
};

/* Of those that were ready at the same place, the one further back first, as a backward pass goes. */
static int compare_latest(const void *first, const void *second)
{
    const struct latest *a = first, *b = second;
    if (a->place != b->place)
        return a->place < b->place ? -1 : 1;
    return a->range > b->range ? -1 : 1;
}

weft_status gradient_buckets_agree(struct gradient_buckets *buckets)
{
    const uint32_t count = buckets->range_count;
    struct latest *latest = malloc(count * sizeof *latest);
    /* A rank without memory goes on with the order of before, so all must. */
    uint32_t failed = !latest;
    weft_status status = weft_allreduce(&failed, &failed, 1, WEFT_U32, WEFT_MAX, buckets->comm);
    if (status == WEFT_OK && !failed) {
        status = weft_allreduce(buckets->came, buckets->came, count, WEFT_U32, WEFT_MAX, buckets->comm);
        for (uint32_t i = 0; i < count; i++)
            latest[i] = (struct latest){i, buckets->came[i]};
        qsort(latest, count, sizeof *latest, compare_latest);
        for (uint32_t i = 0; status == WEFT_OK && i < count; i++)
            buckets->order[i] = latest[i].range;
        gradient_buckets_lay_out(buckets);
    }
    free(latest);
    return status;
}

/* ---- a pass ---- */

void gradient_buckets_begin(struct gradient_buckets *buckets)
{
    for (uint32_t b = 0; b < buckets->bucket_count; b++)
        buckets->buckets[b].waiting = buckets->buckets[b].count;
    buckets->next = buckets->came_count = 0;
    buckets->disordered = false;
    buckets->in_flight = 0;
    buckets->status = WEFT_OK;
}

static void start_run(struct gradient_buckets *buckets, size_t first, size_t end)
{
    if (buckets->status != WEFT_OK || first == end)
        return;
    char *run = buckets->array + first * weft_type_size(buckets->type);
    buckets->status = weft_allreduce_start(run, run, end - first, buckets->type, WEFT_SUM, buckets->comm,
                                           &buckets->requests[buckets->in_flight]);
    if (buckets->status == WEFT_OK)
        buckets->in_flight++;
}

static void gradient_buckets_start(struct gradient_buckets *buckets, const struct gradient_bucket *bucket)
{
    size_t first = 0, end = 0; /* of the run under way */
    for (uint32_t i = 0; i < bucket->count; i++) {
        const struct gradient_range *range = &buckets->ranges[buckets->members[bucket->first + i]];
        if (range->stays)
            continue;
        if (range->first != end) {
            start_run(buckets, first, end);
            first = range->first;
        }
        end = range->first + range->count;
    }
    start_run(buckets, first, end);
}

void gradient_buckets_ready(struct gradient_buckets *buckets, uint32_t range)
{
    const uint32_t number = buckets->bucket_of[range];
    buckets->came[range] = buckets->came_count++;
    if (--buckets->buckets[number].waiting > 0)
        return;
    if (number != buckets->next)
        buckets->disordered = true;
    while (buckets->next < buckets->bucket_count && buckets->buckets[buckets->next].waiting == 0)
        gradient_buckets_start(buckets, &buckets->buckets[buckets->next++]);
}

weft_status gradient_buckets_finish(struct gradient_buckets *buckets)
{
    uint64_t begin = clock_now();
    weft_status status = weft_wait_all(buckets->requests, buckets->in_flight);
    buckets->in_flight = 0;
    buckets->wait_seconds += (double)(clock_now() - begin) * 1e-9;
    return buckets->status != WEFT_OK ? buckets->status : status;
}
