/* SPDX-License-Identifier: Apache-2.0 */
/** `weft bench train`. */
#ifndef WEFT_CLI_MEASURE_BENCH_TRAIN_H
#define WEFT_CLI_MEASURE_BENCH_TRAIN_H

#include "cli/frame/command.h"

extern const struct command command_bench_train;

#endif
