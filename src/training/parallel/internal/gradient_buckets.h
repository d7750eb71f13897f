/* SPDX-License-Identifier: Apache-2.0 */
/**
 * Gradient buckets: sum an array over ranks while the backward pass is still writing other parts of it.
 *
 * The array is made of ranges, one per parameter. Ranges are put into buckets in one order that all ranks agree on. When
 * all ranges of a bucket are ready, and the buckets before it have started, its all-reduces start in place and proceed
 * while the pass goes on: one all-reduce for each run of neighboring ranges. Every rank starts the same buckets in the
 * same order, so ranges may become ready in any order on each rank. Sums are elementwise in the canonical order, so
 * neither the size of buckets nor their order changes the result.
 *
 * The first order is from the end of the array to its beginning, as a backward pass goes. Where a bucket had to wait for
 * one before it, the ranks can agree on a better order: ranges are sorted by their latest position on any rank.
 */
#ifndef WEFT_TRAINING_PARALLEL_INTERNAL_GRADIENT_BUCKETS_H
#define WEFT_TRAINING_PARALLEL_INTERNAL_GRADIENT_BUCKETS_H

#include "base/error.h"

#define GRADIENT_BUCKETS_MOST 256

/** Neighboring elements of the array. */
struct gradient_range {
    char *begin;
    size_t count;      /**< elements */
    bool frozen;       /**< not summed: each rank keeps its own values */
    uint32_t bucket;   /**< set by the buckets: the one that it belongs to */
    uint32_t position; /**< set by the buckets: the latest position on any rank, when the order was agreed on */
};

struct gradient_bucket {
    uint32_t first, count; /**< its ranges: order[first] and on */
    uint32_t waiting;      /**< ranges of it that are not ready in this pass */
};

struct gradient_buckets {
    weft_comm *comm; /**< used by nothing else while buckets are in flight */
    weft_type type;
    struct gradient_range *ranges;
    uint32_t range_count;
    size_t bucket_elements;
    struct gradient_range **order; /**< bucket by bucket; within a bucket by address */
    uint32_t *positions;           /**< of each range: its position in the order in which they became ready */
    uint32_t ready_count;
    struct gradient_bucket *buckets;
    uint32_t bucket_count;
    uint32_t next;   /**< bucket to start next */
    bool disordered; /**< in this pass a bucket waited for one before it */
    weft_request **requests;
    int in_flight;
    weft_status status;  /**< first failure to start one; finish returns it */
    double wait_seconds; /**< total time that finish has waited */
};

/**
 * `ranges` were allocated with malloc() and belong to the buckets from here on, whatever this returns. `bucket_bytes` is
 * raised where there would be more than GRADIENT_BUCKETS_MOST buckets. Local.
 */
weft_status gradient_buckets_open(struct gradient_buckets *buckets, weft_comm *comm, weft_type type,
                                  struct gradient_range *ranges, uint32_t range_count, size_t bucket_bytes,
                                  struct error *error);
void gradient_buckets_close(struct gradient_buckets *buckets);

/** Begin a pass. Nothing may be in flight. */
void gradient_buckets_begin(struct gradient_buckets *buckets);

/** Range number `range` is ready; once in a pass. */
void gradient_buckets_ready(struct gradient_buckets *buckets, uint32_t range);

/** All ranges are ready: wait until the whole array is summed. On failure the message is the context's
 * weft_message(). */
weft_status gradient_buckets_finish(struct gradient_buckets *buckets);

/** Lay the buckets out again for the order in which ranges became ready in the last pass. Collective. */
weft_status gradient_buckets_agree(struct gradient_buckets *buckets);

#endif
