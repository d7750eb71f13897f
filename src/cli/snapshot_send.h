/* SPDX-License-Identifier: Apache-2.0 */
/** The code that a run is started from, on its way to the server. */
#ifndef WEFT_CLI_SNAPSHOT_SEND_H
#define WEFT_CLI_SNAPSHOT_SEND_H

#include "platform/snapshot.h"
#include "server/client.h"

/** Take a snapshot of `folder` and send it to the project, which need not have it yet; `*id` names it. */
weft_status snapshot_send(struct client *client, const char *project, const char *folder, char id[SNAPSHOT_ID_BYTES],
                          struct error *error);

#endif
