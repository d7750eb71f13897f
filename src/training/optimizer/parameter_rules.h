/* SPDX-License-Identifier: Apache-2.0 */
/**
 * Rules for parameters that the optimizer treats differently: frozen ones, those without weight decay, those with their
 * own learning rate. Users select parameters by comma-separated patterns:
 *
 *     wte.weight            one tensor
 *     h.0                   all tensors whose name begins with it, up to a dot: "h.0.ln_1.weight", but not "h.01..."
 *     h.0-5                 numbers from 0 to 5 between two dots
 *     *.bias                as a shell matches files; '*' matches dots too
 *     h.[02].attn,ln_f      several
 *
 * A frozen tensor keeps its bits: it has no gradient (it does not count in the gradient's norm, as with PyTorch's
 * requires_grad=False), no weight decay, and its moments stay as they are. A frozen running statistic is also what its
 * batch norm uses in training, in place of the micro-batch's: '*.running_mean,*.running_var' freezes all batch norms.
 */
#ifndef WEFT_TRAINING_OPTIMIZER_PARAMETER_RULES_H
#define WEFT_TRAINING_OPTIMIZER_PARAMETER_RULES_H

#include "training/model/model.h"

#define PARAMETER_RATES_MOST 64

/** The rules that the user gave. Strings are borrowed; NULL: none. */
struct parameter_rules {
    const char *freeze;                      /**< patterns of tensors that are not trained */
    const char *no_decay;                    /**< of tensors without weight decay, besides gains and biases */
    const char *rates[PARAMETER_RATES_MOST]; /**< "PATTERNS=FACTOR": their learning rate is multiplied */
    size_t rate_count;
};

/** Whether `pattern` (one, without commas) matches tensor `name`. */
bool parameter_pattern_matches(const char *pattern, const char *name);

/**
 * Apply `rules` to the parameters of `description`; the last rate that names a tensor counts. Errors: ARGUMENT for a
 * pattern that no tensor matches (the message names the nearest), a factor that is not a number from 0 to 1000, and when
 * nothing is left to train. Then the description is as before.
 */
weft_status parameter_rules_apply(const struct parameter_rules *rules, struct model_description *description,
                                  struct error *error);

#endif
