/* SPDX-License-Identifier: Apache-2.0 */
/* Synchronized batch norms: one small all-gather over the data axis in each pass of a norm. */
#include "base/clock.h"
#include "training/parallel/execute/internal/layout.h"

static const void *norms_gather(void *context, const void *own, size_t bytes)
{
    struct executor *executor = context;
    if (executor_begin_exchange(executor)) {
        const uint64_t begin = clock_now();
        executor_end_exchange(executor, begin,
                              weft_allgather(own, executor->norm_statistics, bytes, WEFT_U8, executor->norms));
    }
    return executor->norm_statistics;
}

weft_status executor_open_norms(struct executor *executor, struct error *error)
{
    executor->norm_group.context = executor;
    executor->norm_group.gather = norms_gather;
    return executor->norm_group.ranks
               ? library_error(executor->config.context,
                               weft_comm_duplicate(executor->comms.axes[MESH_DATA], &executor->norms), error)
               : WEFT_OK;
}

weft_status executor_open_norm_memory(struct executor *executor, struct error *error)
{
    const size_t bytes = executor_norm_bytes(executor);
    if (!bytes)
        return WEFT_OK;
    executor->norm_statistics = weft_alloc(executor->config.context, bytes);
    return executor->norm_statistics ? WEFT_OK : library_error(executor->config.context, WEFT_ERROR_MEMORY, error);
}
