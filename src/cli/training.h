/* SPDX-License-Identifier: Apache-2.0 */
/** What the commands that train have in common. */
#ifndef WEFT_CLI_TRAINING_H
#define WEFT_CLI_TRAINING_H

#include "cli/command.h"

/** "f32", "bf16": choices of --precision. */
extern const char *const training_precisions[];

/** Whether `precision` asks for train_config.mixed. */
bool training_is_mixed(const char *precision);

/**
 * Leave the job after a training that ended with `status`. Where another rank has told the user why it failed
 * (`speaks` is false), only the exit code says so here.
 */
weft_status training_leave(struct command_call *call, weft_context *context, weft_status status, bool speaks,
                           struct error *error);

#endif
