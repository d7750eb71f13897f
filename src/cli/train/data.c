/* SPDX-License-Identifier: Apache-2.0 */
/* `weft data`: texts to tokens, before training. */
#include "cli/train/data.h"

static const struct command *const subcommands[] = {
    &command_data_pack,
    &command_data_show,
    &command_data_tokenizer,
};

const struct command command_data = {
    .name = "data",
    .group = COMMAND_TRAIN,
    .summary = "make tokenizers and token shards from texts",
    COMMAND_SUBCOMMANDS(subcommands),
};
