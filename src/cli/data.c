/* SPDX-License-Identifier: Apache-2.0 */
/* `weft data`: texts to tokens, before training. */
#include "cli/data.h"

static volatile sig_atomic_t stop_asked;

static void ask_to_stop(int signal_number)
{
    stop_asked = 1;
    signal(signal_number, SIG_DFL);
}

const volatile sig_atomic_t *data_catch_interrupts(void)
{
    signal(SIGINT, ask_to_stop);
    signal(SIGTERM, ask_to_stop);
    signal(SIGHUP, ask_to_stop);
    return &stop_asked;
}

static const struct command *const subcommands[] = {
    &command_data_pack,
    &command_data_show,
    &command_data_tokenizer,
};

const struct command command_data = {
    .name = "data",
    .group = COMMAND_TRAIN,
    .summary = "make tokenizers and token shards from texts",
    .subcommands = subcommands,
    .subcommand_count = sizeof subcommands / sizeof *subcommands,
};
