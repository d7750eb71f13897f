/* SPDX-License-Identifier: Apache-2.0 */
/** What a run that does not fit into memory could do. */
#ifndef WEFT_TRAINING_TRAIN_LOOP_INTERNAL_MEMORY_SEARCH_H
#define WEFT_TRAINING_TRAIN_LOOP_INTERNAL_MEMORY_SEARCH_H

#include "training/train/loop/memory.h"

struct memory_problem {
    const struct train_config *config;
    const struct model_description *description;
    const struct parallel_choice *choice;
    const struct memory_ranks *ranks;
    uint64_t available; /**< bytes on each node */
};

/** How many nodes the ranks are on. */
uint32_t memory_node_count(const struct memory_ranks *ranks);

#define MEMORY_REMEDIES_BYTES 384

/**
 * Write "--mesh data=2,pipeline=2 --zero 3 (5.1 GiB, which fits), --micro-batch 1 (9.0 GiB), ": the nearest mesh and ZeRO
 * stage with which every node has enough memory, and single options with which `node` would need less than `need`.
 *
 * Meshes are tried on the same ranks first, and then on 2, 4, 8 and 16 times as many nodes with as many ranks each. On
 * each number of ranks the present mesh comes first, then others from the fewest pipeline ranks on, and for each the
 * ZeRO stages from 0.
 */
void memory_remedies(const struct memory_problem *problem, uint64_t need, uint32_t node,
                     char text[MEMORY_REMEDIES_BYTES]);

#endif
