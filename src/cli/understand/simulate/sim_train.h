/* SPDX-License-Identifier: Apache-2.0 */
/** `weft sim train`. */
#ifndef WEFT_CLI_UNDERSTAND_SIM_TRAIN_H
#define WEFT_CLI_UNDERSTAND_SIM_TRAIN_H

#include "cli/frame/command.h"

extern const struct command command_sim_train;

#endif
