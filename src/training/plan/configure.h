/* SPDX-License-Identifier: Apache-2.0 */
/** A strategy as the configuration of a run. Pure. */
#ifndef WEFT_TRAINING_PLAN_CONFIGURE_H
#define WEFT_TRAINING_PLAN_CONFIGURE_H

#include "training/plan/strategy.h"
#include "training/train/loop/parallel_choice.h"

/** Text that a configuration points to. */
struct strategy_words {
    char mesh[MESH_TEXT_BYTES], placement[MESH_TEXT_BYTES];
};

/** Have `config` train by `strategy`: all that a strategy chooses is set, nothing else. `words` is filled in and must live as
 * long as the configuration. */
void strategy_configure(const struct strategy *strategy, struct strategy_words *words, struct train_config *config);

/** The strategy of a configuration, for `choice`, which was made for it. */
struct strategy strategy_of(const struct train_config *config, const struct parallel_choice *choice);

#endif
