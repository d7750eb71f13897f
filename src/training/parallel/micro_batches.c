/* SPDX-License-Identifier: Apache-2.0 */
#include "training/parallel/micro_batches.h"

static bool power_of_two(uint32_t n)
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
    uint32_t share = total / ranks;
    if (ranks > 1 && !power_of_two(share) && !power_of_two(ranks))
        return error_set(
            error, WEFT_ERROR_ARGUMENT,
            "%u micro-batches over %u ranks would be summed in another order than on one rank; let the number of "
            "ranks or the micro-batches of a rank (%u) be a power of two",
            total, ranks, share);
    bool runs = ranks == 1 || power_of_two(share);
    *result = (struct micro_batches){
        .layout = runs ? MICRO_BATCHES_IN_RUNS : MICRO_BATCHES_IN_TURNS,
        .total = total,
        .share = share,
        .rank = rank,
        .ranks = ranks,
    };
    return WEFT_OK;
}
