/* SPDX-License-Identifier: Apache-2.0 */
/** Uploads snapshots of directories of this machine to a server; platform/service/routes/snapshot.c is the other side. */
#ifndef WEFT_PLATFORM_CLIENT_SNAPSHOT_UPLOAD_H
#define WEFT_PLATFORM_CLIENT_SNAPSHOT_UPLOAD_H

#include "platform/client/client.h"
#include "platform/snapshot/snapshot.h"

/**
 * Take a snapshot of `directory` and upload what the server does not have of it yet for `project`. Objects are kept in
 * ${XDG_CACHE_HOME:-~/.cache}/weft/snapshots for a week or a little more: the server gets what was hashed even if the
 * directory changes meanwhile, and the next snapshot is fast. Only objects that this snapshot names are sent, whatever
 * else the cache holds. Files that were left out are added to `omissions`.
 * Errors: those of snapshot_place_check(), snapshot_take() and client_ask().
 */
weft_status snapshot_upload(struct client *client, const char *project, const char *directory,
                            struct snapshot_omissions *omissions, struct snapshot *snapshot, struct error *error);

#endif
