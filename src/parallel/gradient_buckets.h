/* SPDX-License-Identifier: Apache-2.0 */
/**
 * Gradient buckets: sums an array over ranks while the backward pass is still writing its front.
 *
 * A backward pass finishes its gradients from the last element to the first. Finished ranges are fused until they make
 * a bucket, whose all-reduce is then started in place and moves while the pass goes on. Sums are elementwise in the
 * canonical order, so the size of buckets changes when bytes move, never the result.
 */
#ifndef WEFT_PARALLEL_GRADIENT_BUCKETS_H
#define WEFT_PARALLEL_GRADIENT_BUCKETS_H

#include "base/error.h"

#define GRADIENT_BUCKETS_MOST 256

struct gradient_buckets {
    weft_comm *comm; /**< used by nothing else while buckets are in flight */
    weft_type type;
    char *array;
    size_t elements;
    size_t bucket_elements;
    size_t ready;   /**< elements from here on are ready */
    size_t started; /**< elements from here on are on their way */
    int count;      /**< requests in flight */
    weft_request *requests[GRADIENT_BUCKETS_MOST];
    weft_status status;  /**< first failure to start one; told by finish */
    double wait_seconds; /**< that finish has waited, since the beginning; the caller may reset it */
};

/** `bucket_bytes` is raised where the array would need more than GRADIENT_BUCKETS_MOST buckets. `array` is borrowed. */
void gradient_buckets_open(struct gradient_buckets *buckets, weft_comm *comm, weft_type type, void *array,
                           size_t elements, size_t bucket_bytes);

/** Begin a pass. Nothing may be in flight. */
void gradient_buckets_begin(struct gradient_buckets *buckets);

/** Elements [first, first + count) are ready; ranges come without gaps from the end of the array to its beginning. */
void gradient_buckets_ready(struct gradient_buckets *buckets, size_t first, size_t count);

/** Start what remains and wait until the whole array is summed. On failure the sentence is the context's
 * weft_message(). */
weft_status gradient_buckets_finish(struct gradient_buckets *buckets);

#endif
