/* SPDX-License-Identifier: Apache-2.0 */
/**
 * Parameters that the optimizer treats differently: frozen ones, those without weight decay, those with a learning rate
 * of their own. Users name them by patterns, as a list with commas:
 *
 *     wte.weight            one tensor
 *     h.0                   all tensors whose name begins so, up to a dot: "h.0.ln_1.weight", but not "h.01..." or
 * "h.10..." h.0-5                 numbers from 0 to 5 between two dots
 *     *.bias                as a shell matches files; '*' matches dots too
 *     h.[02].attn,ln_f      several
 *
 * A frozen tensor keeps its bits: it has no gradient (it does not count in the gradient's norm, as with PyTorch's
 * requires_grad=False), no weight decay, and its moments stay as they are.
 *
 * The groups of a description belong to whoever opened them, do not change, and may be read by any thread.
 */
#ifndef WEFT_TRAINING_OPTIMIZER_PARAMETER_GROUPS_H
#define WEFT_TRAINING_OPTIMIZER_PARAMETER_GROUPS_H

#include "training/model/model.h"

#define PARAMETER_RATES_MOST 64

/** What the user said. Texts are borrowed; NULL: nothing. */
struct parameter_rules {
    const char *freeze;                      /**< patterns of tensors that stay as they are */
    const char *no_decay;                    /**< of tensors without weight decay, besides gains and biases */
    const char *rates[PARAMETER_RATES_MOST]; /**< "PATTERNS=FACTOR": the learning rate of these is multiplied */
    size_t rate_count;
};

/** How one parameter is treated. */
struct parameter_group {
    double rate; /**< factor of the learning rate; 0 for frozen ones */
    bool frozen;
    bool decays;
};

struct parameter_groups {
    struct parameter_group *of; /**< one for each parameter of the description */
    size_t first_trainable;     /**< number of the first parameter that is not frozen */
    size_t frozen_weights;      /**< elements that are frozen */
};

/** Whether `pattern` (one, without commas) is that of tensor `name`. */
bool parameter_pattern_matches(const char *pattern, const char *name);

/**
 * The groups of `description` under `rules`; the last rate that names a tensor counts. Errors: ARGUMENT for a pattern
 * that no tensor matches (the message names the nearest), a factor that is no number from 0 to 1000, and when nothing
 * is left to train. Free with parameter_groups_close().
 */
weft_status parameter_groups_open(struct parameter_groups *groups, const struct model_description *description,
                                  const struct parameter_rules *rules, struct error *error);
void parameter_groups_close(struct parameter_groups *groups);

/** The last parameter of those from `i` on that are treated alike, plus one. */
size_t parameter_groups_run(const struct parameter_groups *groups, const struct model_description *description,
                            size_t i);

/** Set what frozen parameters have in elements [first, first + count) of a flat array to 0; `array` addresses element
 * `first`. */
void parameter_groups_clear_frozen(const struct parameter_groups *groups, const struct model_description *description,
                                   struct device *device, size_t first, size_t count, void *array);

#endif
