/* SPDX-License-Identifier: Apache-2.0 */
#include "training/parallel/internal/gradient_sum.h"

#include "base/library_error.h"

#include <stdlib.h>
#include <string.h>

/* ---- the micro-batches of one rank ---- */

weft_status gradient_accumulator_open(struct gradient_accumulator *sum, struct device *device, size_t elements,
                                      uint32_t expected, struct error *error)
{
    *sum = (struct gradient_accumulator){.device = device, .elements = elements};
    /* The highest level that is filled before the last array n - 1 arrives is that of the highest bit of n - 1. */
    for (uint32_t n = expected - 1; n; n >>= 1) {
        void *array = device->allocate(device, elements * weft_type_size(device->type), "accumulated gradients", error);
        if (!array) {
            gradient_accumulator_close(sum);
            return WEFT_ERROR_MEMORY;
        }
        sum->arrays[sum->levels++] = array;
    }
    return WEFT_OK;
}

void gradient_accumulator_close(struct gradient_accumulator *sum)
{
    for (uint32_t l = 0; l < sum->levels; l++)
        sum->device->release(sum->device, sum->arrays[l]);
    sum->levels = 0;
}

void gradient_accumulator_add(struct gradient_accumulator *sum, void *array)
{
    struct device *device = sum->device;
    uint32_t level = 0;
    for (; sum->added >> level & 1; level++) {
        /* The last addition writes the level that receives the carry, which saves the copy. */
        const bool last = !(sum->added >> (level + 1) & 1);
        void *result = last ? sum->arrays[level + 1] : array;
        device->add(device, sum->elements, sum->arrays[level], array, result);
        if (sum->round)
            sum->round(sum->context, result, 0, sum->elements);
    }
    if (level == 0)
        device->copy(device, sum->arrays[0], array, sum->elements * weft_type_size(device->type));
    sum->added++;
}

void gradient_accumulator_complete(const struct gradient_accumulator *sum, void *array, size_t first, size_t count)
{
    const size_t offset = first * weft_type_size(sum->device->type);
    void *range = (char *)array + offset;
    for (uint32_t level = 0; level < sum->levels; level++) {
        if (!(sum->added >> level & 1))
            continue;
        sum->device->add(sum->device, count, (char *)sum->arrays[level] + offset, range, range);
        if (sum->round)
            sum->round(sum->context, array, first, count);
    }
}

/* ---- opening and closing ---- */

/* Round gradients in place, and store them in the type in which they move between ranks. Metrics are not rounded. */
static void round_gradients(void *context, float *array, size_t first, size_t count)
{
    struct gradient_sum *sum = context;
    struct device *device = sum->device;
    const size_t skipped = first < GRADIENT_METRICS ? GRADIENT_METRICS - first : 0;
    if (skipped >= count)
        return;
    uint16_t *rounded = sum->bf16 + (first + skipped - GRADIENT_METRICS);
    device->to_activations(device, count - skipped, array + first + skipped, rounded);
    device->from_activations(device, count - skipped, rounded, array + first + skipped);
}

/* Buckets over the array that moves between ranks: f32 gradients, then the metrics; or bf16 gradients alone. */
static weft_status open_buckets(struct gradient_sum *sum, size_t bucket_bytes, struct error *error)
{
    const struct model_description *description = sum->description;
    const size_t count = description->parameter_count;
    const weft_type type = sum->bf16 ? WEFT_BF16 : WEFT_F32;
    char *base = sum->bf16 ? (char *)sum->bf16 : (char *)sum->gradients;
    struct gradient_range *ranges = calloc(count + 1, sizeof *ranges);
    if (!ranges)
        return error_memory(error, (count + 1) * sizeof *ranges, "a list of gradients");
    for (size_t i = 0; i < count; i++) {
        const struct model_parameter *parameter = &description->parameters[i];
        ranges[i] = (struct gradient_range){.begin = base + parameter->offset * weft_type_size(type),
                                            .count = model_parameter_end(description, i) - parameter->offset,
                                            .frozen = parameter->frozen};
    }
    if (!sum->bf16)
        ranges[count] = (struct gradient_range){.begin = (char *)sum->metrics, .count = GRADIENT_METRICS};
    return gradient_buckets_open(&sum->buckets, sum->comm, type, ranges, (uint32_t)(count + !sum->bf16), bucket_bytes,
                                 error);
}

weft_status gradient_sum_open(struct gradient_sum *sum, weft_context *context, weft_comm *comm, struct device *device,
                              const struct model_description *description, uint32_t micro_batches, bool bf16,
                              size_t bucket_bytes, struct error *error)
{
    const uint32_t rank = (uint32_t)weft_comm_rank(comm), ranks = (uint32_t)weft_comm_size(comm);
    const size_t length = GRADIENT_METRICS + description->elements;
    *sum = (struct gradient_sum){.context = context, .device = device, .description = description};
    weft_status status = micro_batches_lay_out(micro_batches, rank, ranks, &sum->layout, error);
    if (status != WEFT_OK)
        return status;
    status = library_error(context, weft_comm_duplicate(comm, &sum->comm), error);
    /* Launchers may place ranks unevenly (srun -N 2 -n 4: 3 and 1): the sum must be the same there. */
    if (status == WEFT_OK)
        status = library_error(context, weft_comm_set_reproducible(sum->comm, true), error);
    if (status == WEFT_OK && !(sum->metrics = weft_alloc(context, (GRADIENT_METRICS + description->gradient_elements) *
                                                                      sizeof *sum->metrics)))
        status = library_error(context, WEFT_ERROR_MEMORY, error);
    if (status == WEFT_OK && bf16 && !(sum->bf16 = weft_alloc(context, description->elements * sizeof *sum->bf16)))
        status = library_error(context, WEFT_ERROR_MEMORY, error);
    if (status == WEFT_OK) {
        sum->gradients = sum->metrics + GRADIENT_METRICS;
        status = gradient_accumulator_open(&sum->local, device, length, sum->layout.share, error);
        sum->local.round = bf16 ? round_gradients : NULL;
        sum->local.context = sum;
    }
    if (status == WEFT_OK)
        status = open_buckets(sum, bucket_bytes, error);
    if (status != WEFT_OK)
        gradient_sum_close(sum);
    return status;
}

void gradient_sum_close(struct gradient_sum *sum)
{
    gradient_buckets_close(&sum->buckets);
    gradient_accumulator_close(&sum->local);
    if (sum->metrics)
        weft_free(sum->context, sum->metrics);
    if (sum->bf16)
        weft_free(sum->context, sum->bf16);
    if (sum->comm)
        weft_comm_free(sum->comm);
    *sum = (struct gradient_sum){0};
}

/* ---- a micro-batch ---- */

static bool in_turns(const struct gradient_sum *sum)
{
    return sum->layout.layout == MICRO_BATCHES_IN_TURNS;
}

/* Whether the current micro-batch is summed over ranks while it is computed. */
static bool communicates(const struct gradient_sum *sum)
{
    return sum->layout.ranks > 1 && (in_turns(sum) || gradient_sum_is_last(sum));
}

void gradient_sum_begin(struct gradient_sum *sum)
{
    if (sum->index == 0)
        sum->local.added = 0;
    gradient_buckets_begin(&sum->buckets);
}

/* Elements [first, first + count) of metrics and gradients are complete on this rank, before they move. */
static void complete_locally(struct gradient_sum *sum, size_t first, size_t count)
{
    if (sum->bf16)
        round_gradients(sum, sum->metrics, first, count);
    if (!in_turns(sum) && gradient_sum_is_last(sum))
        gradient_accumulator_complete(&sum->local, sum->metrics, first, count);
}

void gradient_sum_ready(struct gradient_sum *sum, size_t parameter)
{
    const size_t first = sum->description->parameters[parameter].offset;
    complete_locally(sum, GRADIENT_METRICS + first, model_parameter_end(sum->description, parameter) - first);
    if (communicates(sum))
        gradient_buckets_ready(&sum->buckets, (uint32_t)parameter);
}

/* Wait for the all-reduces. */
static weft_status finish_communication(struct gradient_sum *sum)
{
    weft_request *request = NULL;
    weft_status status = WEFT_OK;
    if (sum->bf16)
        status =
            weft_allreduce_start(sum->metrics, sum->metrics, GRADIENT_METRICS, WEFT_F32, WEFT_SUM, sum->comm, &request);
    else
        gradient_buckets_ready(&sum->buckets, (uint32_t)sum->description->parameter_count);
    const weft_status finished = gradient_buckets_finish(&sum->buckets);
    if (request)
        status = weft_wait(&request);
    if (status != WEFT_OK || finished != WEFT_OK)
        return status != WEFT_OK ? status : finished;
    if (sum->bf16)
        sum->device->from_activations(sum->device, sum->description->elements, sum->bf16, sum->gradients);
    return WEFT_OK;
}

weft_status gradient_sum_end(struct gradient_sum *sum, const float *metrics, struct error *error)
{
    const bool last = gradient_sum_is_last(sum);
    memcpy(sum->metrics, metrics, GRADIENT_METRICS * sizeof *metrics);
    complete_locally(sum, 0, GRADIENT_METRICS);
    if (communicates(sum)) {
        weft_status status = library_error(sum->context, finish_communication(sum), error);
        if (status != WEFT_OK)
            return status;
    }
    if (!last)
        gradient_accumulator_add(&sum->local, sum->metrics);
    else if (in_turns(sum))
        gradient_accumulator_complete(&sum->local, sum->metrics, 0, sum->local.elements);
    sum->index = last ? 0 : sum->index + 1;
    return WEFT_OK;
}
