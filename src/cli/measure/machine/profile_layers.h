/* SPDX-License-Identifier: Apache-2.0 */
/** `weft profile layers`: what a network's layers take on this machine, as a file of layer times. */
#ifndef WEFT_CLI_MEASURE_MACHINE_PROFILE_LAYERS_H
#define WEFT_CLI_MEASURE_MACHINE_PROFILE_LAYERS_H

#include "cli/frame/command.h"

extern const struct command profile_layers;

#endif
