/* SPDX-License-Identifier: Apache-2.0 */
/** `weft profile machine`: this machine, measured, as a cluster file. */
#ifndef WEFT_CLI_MEASURE_MACHINE_PROFILE_MACHINE_H
#define WEFT_CLI_MEASURE_MACHINE_PROFILE_MACHINE_H

#include "cli/frame/command.h"

extern const struct command profile_machine;

#endif
