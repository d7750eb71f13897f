/* SPDX-License-Identifier: Apache-2.0 */
/* Ranks of the data axis compare their replicated state: faulty memory or processors have changed a bit that differs. */
#include "base/hash.h"
#include "training/parallel/agreement.h"
#include "training/parallel/execute/internal/executor_parts.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum replica_part { REPLICA_GRADIENT, REPLICA_WEIGHTS, REPLICA_MOMENTS, REPLICA_PARTS };

static const char *const replica_part_names[REPLICA_PARTS] = {"sums of gradients", "weights", "moments"};

/* Sent as bytes. */
struct replica {
    uint64_t hashes[REPLICA_PARTS];
    uint64_t rank; /* its number when the job began */
};

static void add_elements(struct replica *replica, enum replica_part part, const float *elements, size_t count)
{
    if (elements)
        replica->hashes[part] = hash_bytes(elements, count * sizeof *elements, replica->hashes[part]);
}

/* What all ranks of the data axis have: under ZeRO-0 everything, under ZeRO-1 and 2 the weights. */
static struct replica replica_of(struct executor *executor)
{
    const struct model_description *description = executor->description;
    const weft_comm *comm = executor->config.comm;
    struct replica replica = {.rank = (uint64_t)weft_comm_first_rank(comm, weft_comm_rank(comm))};
    for (uint32_t g = 0; g < description->group_count; g++) {
        const struct model_group *group = &description->groups[g];
        struct group_slice range;
        if (!group->count)
            continue;
        add_elements(&replica, REPLICA_WEIGHTS, value_groups_values(executor->values, g, UINT32_MAX, 0), group->count);
        if (executor->config.zero)
            continue;
        const struct value_slice slice = value_groups_slice(executor->values, g);
        float *total = gradient_groups_total(executor->gradients, g, &range);
        optimizer_clear_frozen(description, executor->config.sums, group->offset + range.first, range.count, total);
        add_elements(&replica, REPLICA_GRADIENT, total, range.count);
        add_elements(&replica, REPLICA_MOMENTS, slice.first_moments, slice.count);
        add_elements(&replica, REPLICA_MOMENTS, slice.second_moments, slice.count);
    }
    return replica;
}

/* How many ranks have the same of one part as rank `index`. */
static uint32_t count_same(const struct replica *all, uint32_t ranks, uint32_t index, enum replica_part part)
{
    uint32_t count = 0;
    for (uint32_t r = 0; r < ranks; r++)
        count += all[r].hashes[part] == all[index].hashes[part];
    return count;
}

static weft_status compare_part(const struct executor *executor, const struct replica *all, enum replica_part part,
                                struct error *error)
{
    const weft_comm *axis = executor->comms.axes[MESH_DATA];
    const uint32_t ranks = executor->data;
    uint32_t most = 0, least = 0;
    for (uint32_t r = 1; r < ranks; r++) {
        most = count_same(all, ranks, r, part) > count_same(all, ranks, most, part) ? r : most;
        least = count_same(all, ranks, r, part) < count_same(all, ranks, least, part) ? r : least;
    }
    if (count_same(all, ranks, most, part) == ranks)
        return WEFT_OK;
    if (least == most) { /* the two halves differ */
        for (least = 0; all[least].hashes[part] == all[most].hashes[part];)
            least++;
        return error_set(
            error, WEFT_ERROR_DATA,
            "the %s of rank %" PRIu64 " on host %s differ from those of rank %" PRIu64
            " on host %s, with no majority; the memory or processor of some rank is probably faulty; resume "
            "without it, from a checkpoint of the last comparison or earlier",
            replica_part_names[part], all[most].rank, weft_comm_host(axis, (int)most), all[least].rank,
            weft_comm_host(axis, (int)least));
    }
    return error_set(error, WEFT_ERROR_DATA,
                     "rank %" PRIu64
                     " on host %s: its %s differ from those of %u other ranks; its memory or processor is "
                     "probably faulty; resume without it, from a checkpoint of the last comparison or earlier",
                     all[least].rank, weft_comm_host(axis, (int)least), replica_part_names[part],
                     count_same(all, ranks, most, part));
}

/* Over the data axis. */
static weft_status compare_replicas(struct executor *executor, struct replica *all, struct error *error)
{
    const struct executor_config *config = &executor->config;
    const struct replica mine = replica_of(executor);
    weft_status status = config->sums->finish(config->sums, error);
    if (status == WEFT_OK)
        status = library_error(
            config->context, weft_allgather(&mine, all, sizeof mine, WEFT_U8, executor->comms.axes[MESH_DATA]), error);
    for (int part = 0; status == WEFT_OK && part < REPLICA_PARTS; part++)
        status = compare_part(executor, all, (enum replica_part)part, error);
    return status;
}

weft_status executor_compare_replicas(struct executor *executor, bool *speaks, struct error *error)
{
    const struct executor_config *config = &executor->config;
    struct replica *all = calloc(executor->data, sizeof *all);
    weft_status status = all ? executor_settle(executor, error)
                             : error_memory(error, executor->data * sizeof *all, "the hashes of the ranks");
    status = agreement_reach(config->context, config->comm, status, error, speaks);
    if (status == WEFT_OK)
        status = agreement_reach(config->context, config->comm, compare_replicas(executor, all, error), error, speaks);
    free(all);
    return status;
}
