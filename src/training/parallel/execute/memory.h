/* SPDX-License-Identifier: Apache-2.0 */
/**
 * The memory of an executor, before it is opened.
 *
 * executor_open() allocates by the same layout: stages, schedules, rows and groups are computed as for a run, and each
 * part is counted by the functions that size it (value_groups_memory(), gradient_groups_memory(), model_memory()).
 */
#ifndef WEFT_TRAINING_PARALLEL_EXECUTE_MEMORY_H
#define WEFT_TRAINING_PARALLEL_EXECUTE_MEMORY_H

#include "training/parallel/execute/executor.h"

/**
 * Bytes of one rank.
 *
 * With E elements in the flat array of the rank's layers (its stages' parameters and the gaps between them), D ranks on
 * the data axis, S = E / D (at most a block more for each group), G the elements of the largest unit's groups, and L the elements
 * of the largest group:
 *
 *     weights        4 E; ZeRO-3: 4 S
 *     gathered       ZeRO-3: 4 G for each unit that is gathered at a time; with activations in bf16 or f16 2 G more, and
 *                    4 for each element of a vector
 *     gradients      ZeRO-0, 1: 4 E, with the head's part of a tied table where both users are on this rank and no part
 *                    is sparse; ZeRO-2, 3: 4 G for each moving buffer
 *     optimizer      4 E for each of the optimizer's moments; ZeRO-1 to 3: 4 S
 *     partial sums   ZeRO-0, 1: 4 E, without layers that are frozen and without a tied table on a first pipeline rank that
 *                    has a sparse part of it, for each array of canonical_stack_room() of the rank's micro-batches but
 *                    the last;
 *                    ZeRO-2, 3: 4 S for each of that of all micro-batches
 *     exchanges      where gradients do not move in place, for two reductions at a time: the roots of the largest group
 *                    as they are sent, and the roots of its slice from all ranks (ZeRO-2, 3: from the others), as they move and
 *                    as f32; for reduce-scatters a slice of the largest group, as it moves and as f32, and that group as it is
 *                    sent, unless it is of f32 and divides into equal slices;
 *                    for all-reduces in bf16 2 E; of a tied table whose users are on two ranks, without a sparse part, the
 *                    other's total; of synchronized batch norms two vectors of the widest one for each rank of the data axis
 *     table rows     of a sparse part of a tied table's gradient: a number and a row for each token of a global batch
 *     copy           activations in bf16 or f16: 2 E; ZeRO-3: 2 S
 *     activations    model_memory() of this rank's layers, with the schedule's slots
 *     pieces         on a tensor axis, the layout of state_pieces.h: a cell for each range of a divided tensor on each of
 *                    its ranks, for weights and each of the moments; this rank's list; and the records of all ranks while they are opened
 *     rows           rows between two layers: the schedule's inputs, and two outputs and three gradients, or without a
 *                    pipeline one gradient
 */
struct executor_memory {
    uint64_t weights;
    uint64_t gathered;
    uint64_t gradients;
    uint64_t optimizer;
    uint64_t partial_sums;
    uint64_t exchanges;
    uint64_t table_rows;
    uint64_t copy;
    uint64_t activations;
    uint64_t pieces;
    uint64_t rows;
};

/**
 * One network as the ranks of tensor axes have it, divided for the estimates so far. Zeroed: none. For the estimates of
 * one description, which must not change, by one thread.
 */
struct executor_networks {
    struct model_description **divided; /**< restricted to the layers of the last estimate */
    size_t count, room;
};
void executor_networks_free(struct executor_networks *networks);

/**
 * What the rank at `point` of the mesh will allocate. Of `config`, context, communicator, placement and `sums` are not
 * used, and of `device` only its types. The description is that of the whole network; it does not change. Local.
 *
 * Dividing the description takes most of the time. With `networks`, estimates that follow each other do it once for each place
 * on a tensor axis; it may be NULL.
 *
 * Errors: ARGUMENT as for executor_open(); MEMORY.
 */
weft_status executor_memory_of(const struct executor_config *config, const uint32_t point[MESH_AXES],
                               struct executor_networks *networks, struct executor_memory *memory, struct error *error);

uint64_t executor_memory_total(const struct executor_memory *memory);

#endif
