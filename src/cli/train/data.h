/* SPDX-License-Identifier: Apache-2.0 */
/** The commands of `weft data`, and what they have in common. */
#ifndef WEFT_CLI_TRAIN_DATA_H
#define WEFT_CLI_TRAIN_DATA_H

#include "cli/frame/command.h"

extern const struct command command_data_pack;
extern const struct command command_data_show;
extern const struct command command_data_tokenizer;

#define DATA_TEXTS_MOST 4096 /* words of a command line that name texts */

#endif
