/* SPDX-License-Identifier: Apache-2.0 */
#include "training/parallel/partition.h"

#include "base/library_error.h"
#include "training/tensor/tree.h"

#include <stdlib.h>

/* ---- micro-batches ---- */

static bool is_power_of_two(uint32_t n)
{
    return n && !(n & (n - 1));
}

weft_status micro_batches_lay_out(uint32_t total, uint32_t rank, uint32_t ranks, struct micro_batches *result,
                                  struct error *error)
{
    if (!total || total % ranks)
        return error_set(
            error, WEFT_ERROR_ARGUMENT,
            "a global batch of %u micro-batches cannot be divided over %u ranks; choose a batch whose number of "
            "micro-batches is a multiple of %u",
            total, ranks, ranks);
    const uint32_t share = total / ranks;
    if (ranks > 1 && !is_power_of_two(share) && !is_power_of_two(ranks))
        return error_set(
            error, WEFT_ERROR_ARGUMENT,
            "%u micro-batches over %u ranks would be summed in another order than on one rank; let the number of "
            "ranks or the micro-batches of a rank (%u) be a power of two",
            total, ranks, share);
    *result = (struct micro_batches){
        .layout = ranks == 1 || is_power_of_two(share) ? MICRO_BATCHES_IN_RUNS : MICRO_BATCHES_IN_TURNS,
        .total = total,
        .share = share,
        .rank = rank,
        .ranks = ranks,
    };
    return WEFT_OK;
}

/* ---- shards ---- */

weft_status shards_open(struct shards *shards, weft_context *context, weft_comm *comm, size_t elements, bool sharded,
                        struct error *error)
{
    *shards = (struct shards){.context = context,
                              .comm = comm,
                              .rank = (uint32_t)weft_comm_rank(comm),
                              .ranks = (uint32_t)weft_comm_size(comm),
                              .elements = elements,
                              .count = elements};
    shards->sharded = sharded && shards->ranks > 1;
    if (!shards->sharded)
        return WEFT_OK;
    shards->firsts = calloc(4 * shards->ranks, sizeof *shards->firsts);
    if (!shards->firsts)
        return error_memory(error, 4 * shards->ranks * sizeof *shards->firsts, "a list of shards");
    shards->counts = shards->firsts + shards->ranks;
    shards->block_firsts = shards->counts + shards->ranks;
    shards->block_counts = shards->block_firsts + shards->ranks;
    const size_t blocks = tree_blocks(elements), each = blocks / shards->ranks, more = blocks % shards->ranks;
    for (size_t r = 0, block = 0; r < shards->ranks; block += shards->block_counts[r++]) {
        shards->block_firsts[r] = block;
        shards->block_counts[r] = each + (r < more);
        size_t first = block * DEVICE_SQUARES_BLOCK, last = first + shards->block_counts[r] * DEVICE_SQUARES_BLOCK;
        shards->firsts[r] = first < elements ? first : elements;
        shards->counts[r] = (last < elements ? last : elements) - shards->firsts[r];
    }
    shards->first = shards->firsts[shards->rank];
    shards->count = shards->counts[shards->rank];
    return WEFT_OK;
}

void shards_close(struct shards *shards)
{
    free(shards->firsts); /* the other lists are in the same block */
    *shards = (struct shards){0};
}

weft_status shards_all_gather(const struct shards *shards, float *array, struct error *error)
{
    if (!shards->sharded)
        return WEFT_OK;
    return library_error(
        shards->context,
        weft_allgatherv(array + shards->first, array, shards->counts, shards->firsts, WEFT_F32, shards->comm), error);
}

weft_status shards_all_gather_sums(const struct shards *shards, double *sums, struct error *error)
{
    if (!shards->sharded)
        return WEFT_OK;
    return library_error(shards->context,
                         weft_allgatherv(sums + shards->block_firsts[shards->rank], sums, shards->block_counts,
                                         shards->block_firsts, WEFT_F64, shards->comm),
                         error);
}
