/* SPDX-License-Identifier: Apache-2.0 */
/**
 * The choice of kernels: all ranks use the same kernel set (training/tensor/kernel_set.h), as ranks with different ones would
 * add up gradients of different bits, and the weights would depend on which rank computes which micro-batch.
 */
#ifndef WEFT_TRAINING_PARALLEL_KERNEL_CHOICE_H
#define WEFT_TRAINING_PARALLEL_KERNEL_CHOICE_H

#include "base/error.h"
#include "training/tensor/kernel_set.h"

#include <stdbool.h>

/** What a run is told: KERNELS_COMMON, KERNELS_SAME, or KERNELS_NAMED plus a kernel set. */
enum kernel_rule {
    KERNELS_COMMON, /**< the highest set that all ranks can use */
    KERNELS_SAME,   /**< the same, and refuse if some rank could use a higher one */
    KERNELS_NAMED,  /**< this very set; refuse if some rank cannot use it */
};

/** "common", "same", and the names of sets; ends with NULL. */
extern const char *const kernel_rule_names[KERNELS_NAMED + KERNEL_SETS + 1];

/** What was chosen, and why. */
struct kernel_choice {
    enum kernel_set set;
    enum kernel_set best; /**< the highest that any rank could use */
    int lowest;           /**< the first rank that can use no more than the lowest */
    int better;           /**< ranks that could use a higher set than `set` */
};

/**
 * Choose the set for kernels of `activations` (WEFT_F32 or WEFT_BF16) by `rule`, as enum kernel_rule says. Collective.
 * The same outcome on all ranks. Errors: ARGUMENT where the rule cannot be kept, or not all ranks were given the same
 * one; *speaks, and what a rank may do then, as in training/parallel/agreement.h.
 */
weft_status kernel_choice_reach(weft_context *context, weft_comm *comm, int rule, weft_type activations,
                                struct kernel_choice *choice, bool *speaks, struct error *error);

#define KERNEL_CHOICE_TEXT_BYTES 320

/** Why the set is below what some rank could use: "avx2, the highest set that every rank can use (...)"; "" where all
 * ranks use their highest. */
const char *kernel_choice_describe(const struct kernel_choice *choice, const weft_comm *comm,
                                   char text[KERNEL_CHOICE_TEXT_BYTES]);

#endif
