/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/snapshot_send.h"

#include "service/snapshot_upload.h"

#include <string.h>

weft_status snapshot_send(struct client *client, const char *project, const char *folder, char id[SNAPSHOT_ID_BYTES],
                          struct error *error)
{
    struct snapshot taken;
    weft_status status = snapshot_upload(client, project, folder, &taken, error);
    if (status == WEFT_OK)
        memcpy(id, taken.id, sizeof taken.id);
    return status;
}
