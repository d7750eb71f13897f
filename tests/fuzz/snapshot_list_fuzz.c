/* SPDX-License-Identifier: Apache-2.0 */
/* Any bytes as the list of a snapshot: refused with a message, or written again as the same bytes. */
#include "platform/snapshot/list.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct snapshot_list list;
    struct snapshot_entry entry;
    struct error error = {0};
    struct buffer again = {0};
    bool found = true;
    weft_status status = snapshot_list_open(&list, (const char *)data, size, "input", &error);
    snapshot_list_begin(&again);
    while (status == WEFT_OK && found) {
        status = snapshot_list_next(&list, &entry, &found, &error);
        if (status != WEFT_OK || !found)
            break;
        if (entry.path[0] == '/' || strstr(entry.path, "/../") || strncmp(entry.path, "../", 3) == 0)
            abort();
        snapshot_list_put(&again, &entry);
    }
    if (status != WEFT_OK && !strstr(error.text, "input"))
        abort();
    /* A number may be written with zeros in front, so only the length can differ. */
    if (status == WEFT_OK && buffer_size(&again) > size)
        abort();
    buffer_free(&again);
    return 0;
}
