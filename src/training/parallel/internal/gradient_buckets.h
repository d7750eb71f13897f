/* SPDX-License-Identifier: Apache-2.0 */
/**
 * Gradient buckets: sums an array over ranks while the backward pass is still writing parts of it.
 *
 * The array is made of ranges (a parameter each). Ranges are put into buckets in one agreed order; when all ranges of a
 * bucket are ready, and the buckets before it have started, its all-reduces are started in place and move while the
 * pass goes on: one all-reduce for each run of neighbouring ranges. As every rank starts the same buckets in the same
 * order, it does not matter in which order ranges become ready where. Sums are elementwise in the canonical order, so
 * neither the size of buckets nor their order changes the result.
 *
 * The first order is from the last range to the first, as a backward pass goes. Where a bucket was ready before one
 * that precedes it, the ranks can agree on a better one: each range at its latest place on any rank.
 */
#ifndef WEFT_TRAINING_PARALLEL_INTERNAL_GRADIENT_BUCKETS_H
#define WEFT_TRAINING_PARALLEL_INTERNAL_GRADIENT_BUCKETS_H

#include "base/error.h"

#define GRADIENT_BUCKETS_MOST 256

/** Neighbouring elements of the array. */
struct gradient_range {
    size_t first, count;
    bool stays; /**< it is not summed: each rank keeps what it has there */
};

struct gradient_bucket {
    uint32_t first, count; /**< its ranges: members[first] and on */
    uint32_t waiting;      /**< of these, not ready in this pass */
};

struct gradient_buckets {
    weft_comm *comm; /**< used by nothing else while buckets are in flight */
    weft_type type;
    char *array;
    const struct gradient_range *ranges;
    uint32_t range_count;
    size_t bucket_elements;
    uint32_t *order;     /**< the ranges in the agreed order */
    uint32_t *members;   /**< the same, those of one bucket by place */
    uint32_t *bucket_of; /**< of each range */
    uint32_t *came;      /**< of each range: its place in the order in which they became ready in this pass */
    uint32_t came_count;
    struct gradient_bucket *buckets;
    uint32_t bucket_count;
    uint32_t next;   /**< bucket to start next */
    bool disordered; /**< in this pass a bucket waited for one that precedes it */
    weft_request **requests;
    int in_flight;
    weft_status status;  /**< first failure to start one; told by finish */
    double wait_seconds; /**< that finish has waited, since the beginning */
};

/**
 * `ranges`, borrowed as `array` is, cover the array in rising order without gaps. `bucket_bytes` is raised where there
 * would be more than GRADIENT_BUCKETS_MOST buckets.
 */
weft_status gradient_buckets_open(struct gradient_buckets *buckets, weft_comm *comm, weft_type type, void *array,
                                  const struct gradient_range *ranges, uint32_t range_count, size_t bucket_bytes,
                                  struct error *error);
void gradient_buckets_close(struct gradient_buckets *buckets);

/** Begin a pass. Nothing may be in flight. */
void gradient_buckets_begin(struct gradient_buckets *buckets);

/** Range number `range` is ready; once in a pass. */
void gradient_buckets_ready(struct gradient_buckets *buckets, uint32_t range);

/** All ranges are ready: wait until the whole array is summed. On failure the message is the context's
 * weft_message(). */
weft_status gradient_buckets_finish(struct gradient_buckets *buckets);

/** Lay the buckets out anew for the order in which ranges became ready in the last pass. Collective. */
weft_status gradient_buckets_agree(struct gradient_buckets *buckets);

#endif
