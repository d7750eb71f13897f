/* SPDX-License-Identifier: Apache-2.0 */
#include "training/simulate/step_reductions.h"

#include "training/parallel/sharding/slices.h"

struct step_reductions step_reductions_of(const struct implementation *implementation, uint32_t zero,
                                          const struct micro_batch_division *division, weft_type gradients)
{
    const bool runnable = implementation->runnable,
               in_place = !zero && (!runnable || micro_batch_runs_are_subtrees(division));
    return (struct step_reductions){
        .runnable = runnable,
        .in_place = in_place,
        .scatters = !in_place && (!runnable || micro_batch_sums_scatter(zero, division)),
        .gathers = !zero && !in_place,
        .ranks = division->ranks,
        .roots = runnable && zero < 2 ? canonical_roots_of_runs(division) : 1,
        .last = runnable && zero >= 2 ? division->total % division->ranks : 0,
        .element_bytes = runnable ? (double)weft_type_size(gradients) : implementation->gradient_wire_bytes,
    };
}

static enum collective collective_of(const struct step_reductions *reductions, double bytes)
{
    const struct group_range range = {.count = (size_t)(bytes / reductions->element_bytes)};
    if (reductions->in_place)
        return COLLECTIVE_ALLREDUCE;
    if (!reductions->scatters || (reductions->runnable && !group_even_slice(&range, reductions->ranks)))
        return COLLECTIVE_ALLTOALL;
    return COLLECTIVE_REDUCE_SCATTER;
}

weft_status step_reductions_add(const struct step_reductions *reductions, struct step_prices *prices,
                                const struct step_placement *placement, double bytes, struct step_transfer *transfer,
                                struct error *error)
{
    const struct step_request sum = {.collective = collective_of(reductions, bytes),
                                     .bytes = bytes * reductions->roots,
                                     .reproducible = reductions->runnable},
                              gather = {.collective = COLLECTIVE_ALLGATHER,
                                        .bytes = bytes,
                                        .reproducible = reductions->runnable};
    weft_status status = step_prices_add(prices, placement, &sum, transfer, error);
    if (status == WEFT_OK && reductions->gathers)
        status = step_prices_add(prices, placement, &gather, transfer, error);
    return status;
}

double step_reductions_last_share(const struct step_reductions *reductions, const struct step_placement *placement)
{
    const struct schedule_shape *shape = &placement->shape;
    uint32_t hosts = 0, most = 0, most_senders = 0;
    for (uint32_t first = 0; first < shape->ranks && reductions->last; first++) {
        uint32_t members = 0, senders = 0;
        if (shape_node(shape, first) != hosts)
            continue; /* hosts are numbered in the order of their first ranks */
        for (uint32_t rank = first; rank < shape->ranks; rank++) {
            const bool is_here = shape_node(shape, rank) == hosts;
            members += is_here;
            senders += is_here && rank < reductions->last;
        }
        most = members > most ? members : most;
        most_senders = senders > most_senders ? senders : most_senders;
        hosts++;
    }
    return most ? (double)most_senders / most : 0;
}

weft_status step_reductions_add_last(const struct step_reductions *reductions, struct step_prices *prices,
                                     const struct step_placement *placement, double bytes, double share,
                                     struct step_transfer *transfer, struct error *error)
{
    const struct step_request request = {
        .collective = COLLECTIVE_ALLTOALL, .bytes = bytes * share, .reproducible = reductions->runnable};
    return step_prices_add(prices, placement, &request, transfer, error);
}
