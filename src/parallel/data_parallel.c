/* SPDX-License-Identifier: Apache-2.0 */
#include "parallel/data_parallel.h"

#include <string.h>

/* The library's own sentence, passed on. */
static weft_status library_error(const struct data_parallel *parallel, weft_status status, struct error *error)
{
    return status == WEFT_OK ? WEFT_OK : error_set(error, status, "%s", weft_message(parallel->context));
}

weft_status data_parallel_open(struct data_parallel *parallel, weft_context *context, weft_comm *comm,
                               struct device *device, size_t elements, uint32_t micro_batches, size_t bucket_bytes,
                               struct error *error)
{
    *parallel = (struct data_parallel){.context = context, .device = device, .elements = elements};
    uint32_t rank = (uint32_t)weft_comm_rank(comm), ranks = (uint32_t)weft_comm_size(comm);
    size_t length = elements + DATA_PARALLEL_EXTRAS;
    weft_status status = micro_batches_lay_out(micro_batches, rank, ranks, &parallel->layout, error);
    if (status != WEFT_OK)
        return status;
    status = library_error(parallel, weft_comm_duplicate(comm, &parallel->comm), error);
    if (status != WEFT_OK)
        return status;
    /* Launchers may deal out ranks unevenly (srun -N 2 -n 4: 3 and 1): the sum is what one rank would get there, too.
     */
    status = library_error(parallel, weft_comm_set_reproducible(parallel->comm, true), error);
    if (status != WEFT_OK)
        goto fail;
    parallel->gradients = weft_alloc(context, length * sizeof *parallel->gradients);
    if (!parallel->gradients) {
        status = library_error(parallel, WEFT_ERROR_MEMORY, error);
        goto fail;
    }
    status = partial_sums_open(&parallel->sums, device, length, parallel->layout.share, error);
    if (status != WEFT_OK)
        goto fail;
    gradient_buckets_open(&parallel->buckets, parallel->comm, WEFT_F32, parallel->gradients, length, bucket_bytes);
    return WEFT_OK;

fail:
    data_parallel_close(parallel);
    return status;
}

void data_parallel_close(struct data_parallel *parallel)
{
    partial_sums_close(&parallel->sums);
    if (parallel->gradients)
        weft_free(parallel->context, parallel->gradients);
    if (parallel->comm)
        weft_comm_free(parallel->comm);
    *parallel = (struct data_parallel){0};
}

static bool in_turns(const struct data_parallel *parallel)
{
    return parallel->layout.layout == MICRO_BATCHES_IN_TURNS;
}

/* Whether the micro-batch under way is summed over ranks while it is computed. */
static bool communicates(const struct data_parallel *parallel)
{
    bool last = parallel->index + 1 == parallel->layout.share;
    return parallel->layout.ranks > 1 && (in_turns(parallel) || last);
}

void data_parallel_begin(struct data_parallel *parallel, const float *extras)
{
    if (parallel->index == 0)
        partial_sums_begin(&parallel->sums);
    gradient_buckets_begin(&parallel->buckets);
    memcpy(parallel->gradients + parallel->elements, extras, DATA_PARALLEL_EXTRAS * sizeof *extras);
    data_parallel_ready(parallel, parallel->elements, DATA_PARALLEL_EXTRAS);
}

void data_parallel_ready(void *context, size_t first, size_t count)
{
    struct data_parallel *parallel = context;
    if (!in_turns(parallel) && partial_sums_last_is_next(&parallel->sums))
        partial_sums_complete(&parallel->sums, parallel->gradients, first, count);
    if (communicates(parallel))
        gradient_buckets_ready(&parallel->buckets, first, count);
}

weft_status data_parallel_end(struct data_parallel *parallel, struct error *error)
{
    bool last = parallel->index + 1 == parallel->layout.share;
    if (communicates(parallel)) {
        weft_status status = library_error(parallel, gradient_buckets_finish(&parallel->buckets), error);
        if (status != WEFT_OK)
            return status;
    }
    if (!last)
        partial_sums_add(&parallel->sums, parallel->gradients);
    else if (in_turns(parallel))
        partial_sums_complete(&parallel->sums, parallel->gradients, 0, parallel->sums.elements);
    parallel->index = last ? 0 : parallel->index + 1;
    return WEFT_OK;
}
