/* SPDX-License-Identifier: Apache-2.0 */
/** Files of layer times: what the layers of a network take on some machine, measured there once (weft profile layers) and
 * used by plans, simulated steps and paced steps anywhere. JSON. */
#ifndef WEFT_TRAINING_PLAN_RUN_LAYER_TIMES_H
#define WEFT_TRAINING_PLAN_RUN_LAYER_TIMES_H

#include "training/plan/machine_costs.h"

#define LAYER_TIMES_VERSION 1

/** Write all measurements; `model` is its name, for messages. Errors: IO, MEMORY. */
weft_status layer_times_save(const struct machine_costs *costs, const char *model, const char *path,
                             struct error *error);

/**
 * The measurements of a file become those of `costs`, whose description and sequence they must be of. Errors: IO, MEMORY;
 * DATA, with the key; ARGUMENT if they are of another network or length.
 */
weft_status layer_times_read(struct machine_costs *costs, const char *path, struct error *error);

#endif
