/* SPDX-License-Identifier: Apache-2.0 */
/**
 * The settings of a run that decide its bits, besides model, seed, batch and optimizer. Checkpoints store them, and a
 * resumed run must have the same ones, except those that the user names.
 *
 * Not compared, as they change no bit: ranks, threads, --zero, --bucket, --recompute, and all options of reports.
 */
#ifndef WEFT_TRAINING_TRAIN_STATE_INTERNAL_SETTINGS_H
#define WEFT_TRAINING_TRAIN_STATE_INTERNAL_SETTINGS_H

#include "training/data/dataset.h"
#include "training/train/state/config.h"

#include <cjson/cJSON.h>

#define SETTINGS_TEXT_BYTES 640

/**
 * The settings as an object for a checkpoint, which the caller deletes; incomplete or NULL without memory. `data` may
 * be NULL: not known.
 */
cJSON *settings_describe(const struct train_config *config, const struct dataset_identity *data);

/** Errors: ARGUMENT where `names` (with commas between them; NULL: none) has a name that is no such setting's. */
weft_status settings_check_names(const char *names, struct error *error);

/**
 * Compare the settings in a checkpoint's configuration `there` (NULL: it has none) with those of `config`. Settings
 * that the checkpoint lacks, such as those added after it was written, are not compared.
 *
 * `changes` receives the differences that are accepted ("--steps from 200 to 400"; "" if there are none): --steps, as a
 * finished run is trained longer that way, and those that config->resume_change names. Errors: DATA for any other
 * difference; the message has all of them with both values.
 */
weft_status settings_match(const cJSON *there, const struct train_config *config, const struct dataset_identity *data,
                           const char *checkpoint, char changes[SETTINGS_TEXT_BYTES], struct error *error);

#endif
