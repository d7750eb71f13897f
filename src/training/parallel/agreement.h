/* SPDX-License-Identifier: Apache-2.0 */
/**
 * Agreement of all ranks before they continue: whether everything succeeded, and which kernels they use.
 *
 * A preparation step that may fail on some ranks (a file that is missing on one host) fails on all, with the message of
 * the first failed rank. Otherwise the other ranks would wait for a rank that has exited.
 */
#ifndef WEFT_TRAINING_PARALLEL_AGREEMENT_H
#define WEFT_TRAINING_PARALLEL_AGREEMENT_H

#include "base/error.h"
#include "training/tensor/kernel_set.h"

#include <stdbool.h>

/**
 * Collective. Returns WEFT_OK when `status` is WEFT_OK on all ranks; otherwise the status of the lowest rank with a
 * failure, whose message is in `error` on every rank. On failure *speaks is true on that rank alone, which should
 * print the message. Whatever this returns, a rank may exit right after it.
 */
weft_status agreement_reach(weft_context *context, weft_comm *comm, weft_status status, struct error *error,
                            bool *speaks);

/* ---- kernels ---- */

/**
 * All ranks use the same kernel set (training/tensor/kernel_set.h). Different sets compute gradients with different bits,
 * so the weights would depend on which rank computes which micro-batch.
 *
 * --kernels is KERNELS_COMMON, KERNELS_SAME, or KERNELS_NAMED plus a kernel set.
 */
enum kernel_rule {
    KERNELS_COMMON, /**< the highest set that all ranks can use */
    KERNELS_SAME,   /**< the same, but an error if some rank could use a higher one */
    KERNELS_NAMED,  /**< this set; an error if some rank cannot use it */
};

/** "common", "same", and the names of sets; ends with NULL. */
extern const char *const kernel_rule_names[KERNELS_NAMED + KERNEL_SETS + 1];

/** The chosen set, and why. */
struct kernel_choice {
    enum kernel_set set;
    enum kernel_set best; /**< the highest that any rank could use */
    int lowest;           /**< the first rank that can use no more than the lowest */
    int better;           /**< ranks that could use a higher set than `set` */
};

/**
 * Choose the set for kernels of `activations` (WEFT_F32, WEFT_BF16 or WEFT_F16) by `rule`. Collective; the same result on all
 * ranks. Errors: ARGUMENT if the rule cannot be satisfied, or ranks have different rules; *speaks as for
 * agreement_reach().
 */
weft_status kernel_choice_reach(weft_context *context, weft_comm *comm, int rule, weft_type activations,
                                struct kernel_choice *choice, bool *speaks, struct error *error);

#define KERNEL_CHOICE_TEXT_BYTES 320

/** Why the set is lower than what some rank could use; "" where all ranks use their highest. */
const char *kernel_choice_describe(const struct kernel_choice *choice, const weft_comm *comm,
                                   char text[KERNEL_CHOICE_TEXT_BYTES]);

#endif
