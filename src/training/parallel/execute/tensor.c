/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The tensor axis: the collectives within layers. Sums are in the canonical order of the axis's coordinates on any
 * placement. A failure is kept until the pass is over, as layers cannot return it; later collectives do nothing.
 */
#include "training/parallel/execute/internal/executor_parts.h"

/* Wait for the kernels that write the array; false after a failure. */
static bool tensor_ready(struct executor *executor)
{
    struct device *device = executor->config.device;
    struct error *failure = &executor->tensor_failure;
    return failure->status == WEFT_OK && device->finish(device, failure) == WEFT_OK;
}

/* After a collective that began at `begin`. */
static void tensor_note(struct executor *executor, uint64_t begin, weft_status status)
{
    library_error(executor->config.context, status, &executor->tensor_failure);
    waiting_add(&executor->wait_seconds, begin);
}

static void tensor_sum(void *context, weft_type type, size_t count, void *array)
{
    struct executor *executor = context;
    if (!tensor_ready(executor))
        return;
    const uint64_t begin = clock_now();
    tensor_note(executor, begin, weft_allreduce(array, array, count, type, WEFT_SUM, executor->layers));
}

static void tensor_sum_part(void *context, weft_type type, size_t count, void *array)
{
    struct executor *executor = context;
    if (!tensor_ready(executor))
        return;
    const uint64_t begin = clock_now();
    char *own = (char *)array + executor->tensor_rank * count * weft_type_size(type);
    tensor_note(executor, begin, weft_reduce_scatter(array, own, count, type, WEFT_SUM, executor->layers));
}

static void tensor_gather(void *context, size_t bytes, void *array)
{
    struct executor *executor = context;
    if (!tensor_ready(executor))
        return;
    const uint64_t begin = clock_now();
    const char *own = (const char *)array + executor->tensor_rank * bytes;
    tensor_note(executor, begin, weft_allgather(own, array, bytes, WEFT_U8, executor->layers));
}

weft_status executor_open_tensor(struct executor *executor, struct error *error)
{
    const struct executor_config *config = &executor->config;
    executor->tensor_group = (struct tensor_group){.ranks = executor->tensor,
                                                   .rank = executor->tensor_rank,
                                                   .divides_rows = config->sequence_parallel && executor->tensor > 1,
                                                   .context = executor,
                                                   .sum = tensor_sum,
                                                   .sum_part = tensor_sum_part,
                                                   .gather = tensor_gather};
    if (executor->tensor == 1)
        return WEFT_OK;
    weft_status status = weft_comm_duplicate(executor->comms.axes[MESH_TENSOR], &executor->layers);
    if (status == WEFT_OK)
        status = weft_comm_set_reproducible(executor->layers, true);
    return library_error(config->context, status, error);
}

weft_status executor_finish_pass(struct executor *executor, struct error *error)
{
    struct device *device = executor->config.device;
    if (executor->tensor_failure.status != WEFT_OK)
        return error_set(error, executor->tensor_failure.status, "%s", executor->tensor_failure.text);
    return device->finish(device, error);
}
