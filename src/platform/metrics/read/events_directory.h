/* SPDX-License-Identifier: Apache-2.0 */
/**
 * The event files of TensorBoard that a program writes somewhere below its folder, found and read as they grow.
 *
 * Where they are looked for: in the folder that is chosen; or, if none is, in the folders "runs", "logs", "tensorboard"
 * and "lightning_logs" of the program's folder and of each folder in that (as "output/runs"). From there
 * EVENTS_FOLDER_DEPTH folders down. What is behind symbolic links is not looked at. A look is bounded:
 * EVENTS_FOLDER_ENTRIES entries of folders, EVENTS_FOLDER_FILES files; what lies beyond is not found, of which
 * events_folder_trouble() tells.
 *
 * What was in a file when the folder was opened is passed by: it is of an earlier attempt, or came with the code.
 *
 * Names: TensorBoard shows each folder that has event files as a curve of its own, under one tag. Here a scalar is
 * called for its tag alone where that is enough: the highest folder that has event files is a *run folder*, and those
 * of a folder below it get the path from there in front ("Loss_train/Loss"). A run folder called train, training, val,
 * valid, validation, test or eval gives its name ("validation/epoch_loss"); of the others the first that is found gives
 * none, and later ones their paths, so that two of them are two curves.
 *
 * A struct belongs to one thread at a time. Nothing in a file is believed.
 */
#ifndef WEFT_PLATFORM_METRICS_READ_EVENTS_DIRECTORY_H
#define WEFT_PLATFORM_METRICS_READ_EVENTS_DIRECTORY_H

#include "platform/metrics/read/internal/tensorboard_events.h"

#define EVENTS_FOLDER_DEPTH   5
#define EVENTS_FOLDER_ENTRIES 5000
#define EVENTS_FOLDER_FILES   500

struct events_folder;

/** Look in `folder`, an absolute path, for the first time. `chosen`: a path, or one from `folder`; NULL: see above.
 * Nothing need be there yet. Errors: MEMORY. */
weft_status events_folder_open(const char *folder, const char *chosen, struct events_folder **opened,
                               struct error *error);
void events_folder_close(struct events_folder *folder);

/**
 * Look again: pass on what has come in all files. The names that `take` gets are whole ("validation/loss"). Errors:
 * those of `take`, and MEMORY; what cannot be read is tried again at the next look.
 */
weft_status events_folder_look(struct events_folder *folder, events_take *take, void *state, struct error *error);

/** What was left out, as a sentence: too many files or entries; ""  if nothing was. */
const char *events_folder_trouble(const struct events_folder *folder);

#endif
