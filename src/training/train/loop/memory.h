/* SPDX-License-Identifier: Apache-2.0 */
/**
 * An estimate of a run's memory from its configuration, before any of it is allocated.
 *
 * With E elements in the flat array of weights (the model's parameters and the gaps between tensors), R ranks, and n
 * micro-batches a rank, a rank takes, in bytes:
 *
 *     weights         4 E
 *     gradients       4 E, and 2 E more where they are summed in bf16
 *     optimizer       8 E for adamw and lamb, 4 E for sgd and lars; with --zero 1 divided by R
 *     partial sums    4 E for each that is kept at a time: training/parallel/sharding/gradient_groups.h
 *     bf16 copy       2 E with activations in bf16: a copy of the weights
 *     activations     model_memory() of the micro-batch: rows of all layers, kept from forward to backward (frozen layers
 *                     before the first trained one keep nothing)
 *     rest            MEMORY_OF_PROCESS, and MEMORY_OF_NETWORK where there is more than one node
 *     checkpoint      where checkpoints are written, room to copy what a rank writes of one: weights and
 *                     optimizer state divided by R, or all on rank 0 where they are smaller than
 *                     --checkpoint-part
 *     rank 0          the model that samples, transient
 *
 * Within a node gradients are summed in place, so ranks of one node need nothing for it. Data is read from its
 * files when it is needed; the system's page cache is not counted.
 */
#ifndef WEFT_TRAINING_TRAIN_LOOP_MEMORY_H
#define WEFT_TRAINING_TRAIN_LOOP_MEMORY_H

#include "training/train/state/config.h"

struct memory_estimate {
    uint64_t weights;
    uint64_t gradients;
    uint64_t optimizer;
    uint64_t partial_sums;
    uint64_t bf16_copy;
    uint64_t activations;
    uint64_t checkpoint;
    uint64_t rest;
    uint64_t first_rank; /**< 0 on all others */
};

/* Measured: they hardly change with the model. */
#define MEMORY_OF_PROCESS ((uint64_t)12 << 20) /**< code, oneDNN's primitives, the scratch of kernels */
#define MEMORY_OF_NETWORK ((uint64_t)20 << 20) /**< a fabric's buffers, and staging of messages in flight */

/** The estimate of `rank` of `ranks` on `nodes`. `config` is complete and valid, `sequence` included.
 * Its rules have been applied to `description`. */
struct memory_estimate memory_estimate_of(const struct train_config *config,
                                          const struct model_description *description, uint32_t rank, uint32_t ranks,
                                          uint32_t nodes);

uint64_t memory_estimate_total(const struct memory_estimate *estimate);

#define MEMORY_TEXT_BYTES 320

/** Write "1.9 GiB a rank: weights 474.7 MiB, gradients ..." of what is not 0; returns `text`. */
const char *memory_estimate_describe(const struct memory_estimate *estimate, char text[MEMORY_TEXT_BYTES]);

/**
 * Check that the ranks of this node together fit into `available` bytes (limits_touchable() of
 * core/topology/limits.h, read before any rank takes any of it). Errors: MEMORY; the message says how much is
 * needed and available, and which options would need less.
 */
weft_status memory_check(const struct train_config *config, const struct model_description *description,
                         const weft_comm *comm, uint64_t available, struct error *error);

#endif
