/* SPDX-License-Identifier: Apache-2.0 */
#include "training/parallel/sharded_update.h"

#include "base/waiting.h"

#include <stdlib.h>

static weft_status add_over(const struct sharded_ranks *ranks, weft_comm *comm, double *numbers, size_t count,
                            struct error *error)
{
    const uint64_t begin = clock_now();
    if (!comm || !count)
        return WEFT_OK;
    const weft_status status =
        library_error(ranks->context, weft_allreduce(numbers, numbers, count, WEFT_F64, WEFT_SUM, comm), error);
    waiting_add(ranks->waited, begin);
    return status;
}

/* Tensors that are divided have the sum of their parts; of others every rank has the norms already. */
static weft_status add_over_tensor_ranks(const struct sharded_ranks *ranks, const struct model_description *description,
                                         struct optimizer_norms *norms, size_t count, double *numbers,
                                         struct error *error)
{
    size_t used = 0;
    for (size_t n = 0; n < count; n++)
        if (description->parameters[norms[n].parameter].division.segments) {
            numbers[used++] = norms[n].parameters;
            numbers[used++] = norms[n].direction;
        }
    const weft_status status = add_over(ranks, ranks->tensor, numbers, used, error);
    used = 0;
    for (size_t n = 0; n < count; n++)
        if (description->parameters[norms[n].parameter].division.segments) {
            norms[n].parameters = numbers[used++];
            norms[n].direction = numbers[used++];
        }
    return status;
}

static weft_status update_with_norms(const struct sharded_ranks *ranks, const struct model_description *description,
                                     struct device *device, const struct optimizer *optimizer,
                                     const struct optimizer_step *step, struct optimizer_range range,
                                     struct optimizer_range own, const struct optimizer_arrays *arrays,
                                     struct error *error)
{
    const size_t sum_count = optimizer_sum_count(description, range);
    double *sums = calloc(sum_count + 1, sizeof *sums);
    struct optimizer_norms *norms = calloc(description->parameter_count, sizeof *norms);
    weft_status status =
        sums && norms ? WEFT_OK : error_memory(error, sum_count * sizeof *sums, "the norms of an optimizer");
    if (status == WEFT_OK) {
        optimizer_direct(description, device, optimizer, step, range, own, arrays, sums);
        status = device->finish(device, error);
    }
    if (status == WEFT_OK)
        status = add_over(ranks, ranks->slices, sums, sum_count, error);
    if (status == WEFT_OK) {
        const size_t count = optimizer_add_sums(description, range, sums, norms);
        status = add_over_tensor_ranks(ranks, description, norms, count, sums, error);
        if (status == WEFT_OK)
            optimizer_follow(description, device, optimizer, step, own, arrays, norms, count);
    }
    free(norms);
    free(sums);
    return status;
}

weft_status sharded_update(const struct sharded_ranks *ranks, const struct model_description *description,
                           struct device *device, const struct optimizer *optimizer, const struct optimizer_step *step,
                           struct optimizer_range range, struct optimizer_range own,
                           const struct optimizer_arrays *arrays, struct error *error)
{
    if (optimizer_needs_norms(optimizer->kind) && (ranks->slices || ranks->tensor))
        return update_with_norms(ranks, description, device, optimizer, step, range, own, arrays, error);
    optimizer_update(description, device, optimizer, step, own.first, own.count, arrays);
    return WEFT_OK;
}
