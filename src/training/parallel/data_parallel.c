/* SPDX-License-Identifier: Apache-2.0 */
#include "training/parallel/internal/data_parallel.h"

#include "training/parallel/internal/library_error.h"

#include <stdlib.h>
#include <string.h>

/* The extras' range, and behind it the tensors'. */
static weft_status list_ranges(struct data_parallel *parallel, const struct gradient_range *tensors, uint32_t count,
                               struct error *error)
{
    parallel->ranges = calloc(2 * (size_t)count + 1, sizeof *parallel->ranges);
    if (!parallel->ranges)
        return error_memory(error, (2 * (size_t)count + 1) * sizeof *parallel->ranges, "a list of gradients");
    parallel->tensors = memcpy(parallel->ranges + count + 1, tensors, count * sizeof *tensors);
    parallel->ranges[0] = (struct gradient_range){.count = DATA_PARALLEL_EXTRAS};
    for (uint32_t i = 0; i < count; i++)
        parallel->ranges[i + 1] = (struct gradient_range){
            .first = DATA_PARALLEL_EXTRAS + tensors[i].first, .count = tensors[i].count, .stays = tensors[i].stays};
    return WEFT_OK;
}

/* Round gradients in place, and keep them as they will move. Of the extras nothing is rounded. */
static void round_gradients(void *context, float *array, size_t first, size_t count)
{
    struct data_parallel *parallel = context;
    struct device *device = parallel->device;
    const size_t skipped = first < DATA_PARALLEL_EXTRAS ? DATA_PARALLEL_EXTRAS - first : 0;
    if (skipped >= count)
        return;
    uint16_t *rounded = parallel->rounded + (first + skipped - DATA_PARALLEL_EXTRAS);
    device->narrow(device, count - skipped, array + first + skipped, rounded);
    device->widen(device, count - skipped, rounded, array + first + skipped);
}

/* Room for gradients as they move, and what moves: f32 with the extras before them, or bf16 alone. */
static weft_status open_buckets(struct data_parallel *parallel, uint32_t count, bool rounded, size_t bucket_bytes,
                                struct error *error)
{
    const struct gradient_range *last = &parallel->tensors[count - 1];
    if (!rounded)
        return gradient_buckets_open(&parallel->buckets, parallel->comm, WEFT_F32, parallel->extras, parallel->ranges,
                                     count + 1, bucket_bytes, error);
    parallel->rounded = weft_alloc(parallel->context, (last->first + last->count) * sizeof *parallel->rounded);
    if (!parallel->rounded)
        return library_error(parallel->context, WEFT_ERROR_MEMORY, error);
    parallel->sums.round = round_gradients;
    parallel->sums.context = parallel;
    return gradient_buckets_open(&parallel->buckets, parallel->comm, WEFT_BF16, parallel->rounded, parallel->tensors,
                                 count, bucket_bytes, error);
}

weft_status data_parallel_open(struct data_parallel *parallel, weft_context *context, weft_comm *comm,
                               struct device *device, const struct gradient_range *tensors, uint32_t count,
                               uint32_t micro_batches, bool rounded, size_t bucket_bytes, struct error *error)
{
    *parallel = (struct data_parallel){.context = context, .device = device};
    uint32_t rank = (uint32_t)weft_comm_rank(comm), ranks = (uint32_t)weft_comm_size(comm);
    weft_status status = micro_batches_lay_out(micro_batches, rank, ranks, &parallel->layout, error);
    if (status != WEFT_OK)
        return status;
    if ((status = list_ranges(parallel, tensors, count, error)) != WEFT_OK)
        return status;
    const size_t length = parallel->ranges[count].first + parallel->ranges[count].count;
    status = library_error(parallel->context, weft_comm_duplicate(comm, &parallel->comm), error);
    if (status != WEFT_OK)
        goto fail;
    /* Launchers may deal out ranks unevenly (srun -N 2 -n 4: 3 and 1): the sum is what one rank would get there, too.
     */
    status = library_error(parallel->context, weft_comm_set_reproducible(parallel->comm, true), error);
    if (status != WEFT_OK)
        goto fail;
    parallel->extras = weft_alloc(context, length * sizeof *parallel->extras);
    if (!parallel->extras) {
        status = library_error(parallel->context, WEFT_ERROR_MEMORY, error);
        goto fail;
    }
    parallel->gradients = parallel->extras + DATA_PARALLEL_EXTRAS;
    status = partial_sums_open(&parallel->sums, device, length, parallel->layout.share, error);
    if (status == WEFT_OK)
        status = open_buckets(parallel, count, rounded, bucket_bytes, error);
    if (status != WEFT_OK)
        goto fail;
    return WEFT_OK;

fail:
    data_parallel_close(parallel);
    return status;
}

void data_parallel_close(struct data_parallel *parallel)
{
    gradient_buckets_close(&parallel->buckets);
    partial_sums_close(&parallel->sums);
    if (parallel->extras)
        weft_free(parallel->context, parallel->extras);
    if (parallel->rounded)
        weft_free(parallel->context, parallel->rounded);
    if (parallel->comm)
        weft_comm_free(parallel->comm);
    free(parallel->ranges);
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

void data_parallel_begin(struct data_parallel *parallel)
{
    if (parallel->index == 0)
        partial_sums_begin(&parallel->sums);
    gradient_buckets_begin(&parallel->buckets);
}

static void ready(struct data_parallel *parallel, uint32_t number)
{
    const struct gradient_range *range = &parallel->ranges[number];
    if (parallel->rounded)
        round_gradients(parallel, parallel->extras, range->first, range->count);
    if (!in_turns(parallel) && partial_sums_last_is_next(&parallel->sums))
        partial_sums_complete(&parallel->sums, parallel->extras, range->first, range->count);
    if (!communicates(parallel))
        return;
    if (!parallel->rounded)
        gradient_buckets_ready(&parallel->buckets, number);
    else if (number > 0)
        gradient_buckets_ready(&parallel->buckets, number - 1);
}

void data_parallel_ready(struct data_parallel *parallel, uint32_t tensor)
{
    ready(parallel, tensor + 1);
}

/* What the last buckets still lack; then all of it is in `extras` and `gradients`. */
static weft_status data_parallel_finish(struct data_parallel *parallel)
{
    weft_request *request = NULL;
    weft_status status = WEFT_OK;
    if (parallel->rounded)
        status = weft_allreduce_start(parallel->extras, parallel->extras, DATA_PARALLEL_EXTRAS, WEFT_F32, WEFT_SUM,
                                      parallel->comm, &request);
    weft_status finished = gradient_buckets_finish(&parallel->buckets);
    if (request)
        status = weft_wait(&request);
    if (status != WEFT_OK || finished != WEFT_OK)
        return status != WEFT_OK ? status : finished;
    if (parallel->rounded)
        parallel->device->widen(parallel->device, parallel->sums.elements - DATA_PARALLEL_EXTRAS, parallel->rounded,
                                parallel->gradients);
    return WEFT_OK;
}

weft_status data_parallel_end(struct data_parallel *parallel, const float *extras, struct error *error)
{
    bool last = parallel->index + 1 == parallel->layout.share;
    memcpy(parallel->extras, extras, DATA_PARALLEL_EXTRAS * sizeof *extras);
    ready(parallel, 0);
    if (communicates(parallel)) {
        weft_status status = library_error(parallel->context, data_parallel_finish(parallel), error);
        if (status != WEFT_OK)
            return status;
    }
    if (!last)
        partial_sums_add(&parallel->sums, parallel->extras);
    else if (in_turns(parallel))
        partial_sums_complete(&parallel->sums, parallel->extras, 0, parallel->sums.elements);
    parallel->index = last ? 0 : parallel->index + 1;
    return WEFT_OK;
}
