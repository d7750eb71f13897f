/* SPDX-License-Identifier: Apache-2.0 */
/** A snapshot of a directory of this machine, in a project of a server: the command's side of platform/service/routes/snapshot.c. */
#ifndef WEFT_PLATFORM_SERVICE_RUNS_SNAPSHOT_UPLOAD_H
#define WEFT_PLATFORM_SERVICE_RUNS_SNAPSHOT_UPLOAD_H

#include "platform/client/client.h"
#include "platform/snapshot/snapshot.h"

/**
 * Take a snapshot of `directory` and see that the server has it for `project`: only what it lacks is sent. What was taken
 * is kept in ${XDG_CACHE_HOME:-~/.cache}/weft/snapshots for a week or a little more, so that the server gets what was
 * hashed, whatever happens to the directory meanwhile, and the next one is soon taken. The server gets only what the
 * snapshot names: what was left out this time does not come from there. What was left out is added to `omissions`.
 * Errors: those of snapshot_place_check(), snapshot_take() and client_ask().
 */
weft_status snapshot_upload(struct client *client, const char *project, const char *directory,
                            struct snapshot_omissions *omissions, struct snapshot *snapshot, struct error *error);

#endif
