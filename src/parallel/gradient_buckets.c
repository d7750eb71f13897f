/* SPDX-License-Identifier: Apache-2.0 */
#include "parallel/gradient_buckets.h"

#include "base/clock.h"

void gradient_buckets_open(struct gradient_buckets *buckets, weft_comm *comm, weft_type type, void *array,
                           size_t elements, size_t bucket_bytes)
{
    size_t least = (elements + GRADIENT_BUCKETS_MOST - 1) / GRADIENT_BUCKETS_MOST;
    size_t bucket_elements = bucket_bytes / weft_type_size(type);
    *buckets = (struct gradient_buckets){
        .comm = comm,
        .type = type,
        .array = array,
        .elements = elements,
        .bucket_elements = bucket_elements > least ? bucket_elements : least,
    };
    gradient_buckets_begin(buckets);
}

void gradient_buckets_begin(struct gradient_buckets *buckets)
{
    buckets->ready = buckets->started = buckets->elements;
    buckets->count = 0;
    buckets->status = WEFT_OK;
}

static void start(struct gradient_buckets *buckets)
{
    size_t count = buckets->started - buckets->ready;
    char *bucket = buckets->array + buckets->ready * weft_type_size(buckets->type);
    if (buckets->status == WEFT_OK)
        buckets->status = weft_allreduce_start(bucket, bucket, count, buckets->type, WEFT_SUM, buckets->comm,
                                               &buckets->requests[buckets->count]);
    if (buckets->status == WEFT_OK)
        buckets->count++;
    buckets->started = buckets->ready;
}

void gradient_buckets_ready(struct gradient_buckets *buckets, size_t first, size_t count)
{
    buckets->ready = first;
    if (buckets->started - buckets->ready >= buckets->bucket_elements)
        start(buckets);
}

weft_status gradient_buckets_finish(struct gradient_buckets *buckets)
{
    uint64_t begin = clock_now();
    if (buckets->started > buckets->ready)
        start(buckets);
    weft_status status = weft_wait_all(buckets->requests, buckets->count);
    buckets->count = 0;
    buckets->wait_seconds += (double)(clock_now() - begin) * 1e-9;
    return buckets->status != WEFT_OK ? buckets->status : status;
}
