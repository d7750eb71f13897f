/* SPDX-License-Identifier: Apache-2.0 */
/**
 * The event files of TensorBoard that a program writes somewhere below its directory, found and read as they grow.
 *
 * Where they are looked for: in the directory that is chosen; or, if none is, in the directories "runs", "logs", "tensorboard"
 * and "lightning_logs" of the program's directory and of each directory in that (as "output/runs"). From there
 * EVENTS_DIRECTORY_DEPTH directories down. Symbolic links are not followed. A scan is bounded: EVENTS_DIRECTORY_ENTRIES
 * entries of directories, EVENTS_DIRECTORY_FILES files. The rest is not found, and events_directory_trouble() returns a
 * message about it.
 *
 * Data that was in a file when the directory was opened is skipped: it is of an earlier attempt, or came with the code.
 *
 * Names: TensorBoard shows each directory that has event files as a curve of its own, under one tag. Here a scalar is
 * called for its tag alone where that is enough: the highest directory that has event files is a *run directory*, and those
 * of a directory below it get the path from there in front ("Loss_train/Loss"). A run directory called train, training, val,
 * valid, validation, test or eval gives its name ("validation/epoch_loss"); of the others the first that is found gives
 * none, and later ones their paths, so that two of them are two curves.
 *
 * A struct belongs to one thread at a time. Nothing in a file is believed.
 */
#ifndef WEFT_PLATFORM_METRICS_READ_EVENTS_DIRECTORY_H
#define WEFT_PLATFORM_METRICS_READ_EVENTS_DIRECTORY_H

#include "platform/metrics/read/internal/tensorboard_events.h"

#define EVENTS_DIRECTORY_DEPTH   5
#define EVENTS_DIRECTORY_ENTRIES 5000
#define EVENTS_DIRECTORY_FILES   500

struct events_directory;

/** Look in `directory`, an absolute path, for the first time. `chosen`: a path, or one from `directory`; NULL: see above.
 * Nothing need be there yet. Errors: MEMORY. */
weft_status events_directory_open(const char *directory, const char *chosen, struct events_directory **opened,
                                  struct error *error);
void events_directory_close(struct events_directory *directory);

/**
 * Look again: pass on what has come in all files. The names that `take` gets are whole ("validation/loss"). Errors:
 * those of `take`, and MEMORY; what cannot be read is tried again at the next look.
 */
weft_status events_directory_look(struct events_directory *directory, events_take *take, void *state,
                                  struct error *error);

/** What was left out, as a message: too many files or entries; ""  if nothing was. */
const char *events_directory_trouble(const struct events_directory *directory);

#endif
