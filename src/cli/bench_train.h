/* SPDX-License-Identifier: Apache-2.0 */
/** `weft bench train`. */
#ifndef WEFT_CLI_BENCH_TRAIN_H
#define WEFT_CLI_BENCH_TRAIN_H

#include "cli/command.h"

extern const struct command command_bench_train;

#endif
