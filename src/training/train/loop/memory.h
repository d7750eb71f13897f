/* SPDX-License-Identifier: Apache-2.0 */
/**
 * A run's memory from its configuration, before any of it is allocated.
 *
 * What a rank takes is the sum of
 *
 *     training        weights, gradients, optimizer, activations and what moves: executor_memory_of() of the rank's place in
 *                     the mesh (training/parallel/execute/memory.h has the formulas)
 *     checkpoint      where checkpoints are written, room to copy what a rank writes of one: weights and
 *                     optimizer state divided by the ranks, or all on rank 0 where they are smaller than
 *                     --checkpoint-part
 *     copies          where ranks keep copies of each other's state: twice this rank's weights and optimizer state, and twice
 *                     those of the rank that has most, which may be the neighbor
 *     rank 0          transient: weights that are read to begin with, or the model that samples, with all weights where
 *                     the rank does not have them, and MEMORY_OF_SAMPLE
 *     data            what the source of samples holds: texts that are encoded when it is opened, the pixels of idx files,
 *                     lists of images (sample_source_bytes())
 *     rest            MEMORY_OF_PROCESS; where other ranks are on the node, its share of the staging memory
 *                     (copy_forgotten_after() of core/transport/copy.h); where there is more than one node, MEMORY_OF_NETWORK and
 *                     scratch of the reduce-scatters of gradients that are under way at a time, MEMORY_OF_SUMS at least;
 *                     operands of the largest product where they are cast, in f16 and in bf16 without AVX-512, and
 *                     MEMORY_OF_CASTS
 *
 * Other data is read from its files when it is needed; the system's page cache is not counted, nor are images that are
 * decoded ahead.
 */
#ifndef WEFT_TRAINING_TRAIN_LOOP_MEMORY_H
#define WEFT_TRAINING_TRAIN_LOOP_MEMORY_H

#include "training/parallel/execute/memory.h"
#include "training/train/loop/parallel_choice.h"

struct memory_estimate {
    struct executor_memory training;
    uint64_t checkpoint;
    uint64_t copies;
    uint64_t first_rank; /**< 0 on all others */
    uint64_t data;
    uint64_t rest;
};

/* Measured: they hardly change with the model. */
#define MEMORY_OF_PROCESS ((uint64_t)13 << 20) /**< code, oneDNN's primitives, the scratch of kernels */
#define MEMORY_OF_SAMPLE  ((uint64_t)4 << 20)  /**< oneDNN's primitives for the products of single rows */
#define MEMORY_OF_CASTS   ((uint64_t)3 << 20)  /**< oneDNN's copies of operands that were cast */
#define MEMORY_OF_NETWORK ((uint64_t)6 << 20)  /**< a fabric's buffers */
#define MEMORY_OF_SUMS    ((uint64_t)1 << 20)  /**< scratch of collectives over it, at least */

/** What estimates of one network share, kept by a caller that makes many: this makes them cheaper. Zeroed: nothing yet.
 * Belongs to one thread. */
struct memory_kept {
    struct executor_networks networks;
    uint64_t staging; /**< copy_forgotten_after() */
};
void memory_kept_free(struct memory_kept *kept);

/** The ranks of a run. */
struct memory_ranks {
    uint32_t count;
    const uint32_t *nodes;    /**< of each rank */
    uint64_t data;            /**< bytes that the source of samples holds on each of them */
    bool casts_bf16;          /**< their kernels cast operands of bf16: kernel_set_casts() */
    struct memory_kept *kept; /**< NULL: nothing */
};

/**
 * The estimate of `rank`, at `point` of the choice's mesh. `config` is complete and valid, `sequence` included.
 * `description` is the whole network's, with the rules applied. Errors: those of executor_memory_of().
 */
weft_status memory_estimate_of(const struct train_config *config, const struct model_description *description,
                               const struct parallel_choice *choice, const struct memory_ranks *ranks, uint32_t rank,
                               const uint32_t point[MESH_AXES], struct memory_estimate *estimate, struct error *error);

uint64_t memory_estimate_total(const struct memory_estimate *estimate);

#define MEMORY_TEXT_BYTES 512

/** Write "1.9 GiB a rank: weights 474.7 MiB, gradients ..." of what is not 0; returns `text`. */
const char *memory_estimate_describe(const struct memory_estimate *estimate, char text[MEMORY_TEXT_BYTES]);

/**
 * Data ranks that need about the same at any place in the pipeline: alike[d] is the first one that has as many micro-batches
 * and partial sums as data rank d. Where state is sharded, d needs at most what that one does, but for a block of 4,096 elements of
 * each group of parameters with few blocks. The first rank of all, which may be a parameter server, is like no other.
 */
void memory_alike_data_ranks(const struct parallel_choice *choice, uint32_t *alike);

/**
 * What the ranks of each node take together: needs[node]. Data ranks that are alike are taken to need the same. Errors: as
 * above.
 */
weft_status memory_needs_of_nodes(const struct train_config *config, const struct model_description *description,
                                  const struct parallel_choice *choice, const struct memory_ranks *ranks,
                                  uint64_t *needs, struct error *error);

/**
 * Check that the ranks of the node of `rank` together fit into `available` bytes (limits_touchable() of
 * core/topology/limits.h, read before any rank takes any of it). *estimate receives that of `rank`.
 *
 * Errors: MEMORY; the message says how much is needed and available, which mesh and ZeRO stage would fit, and which
 * other options would need less.
 */
weft_status memory_check(const struct train_config *config, const struct model_description *description,
                         const struct parallel_choice *choice, const struct memory_ranks *ranks, uint32_t rank,
                         uint64_t available, struct memory_estimate *estimate, struct error *error);

#endif
