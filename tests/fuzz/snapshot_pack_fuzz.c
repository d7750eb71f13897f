/* SPDX-License-Identifier: Apache-2.0 */
/* Any bytes as a pack of objects: refused with a message, or objects that lie in it one after the other. */
#include "platform/snapshot/pack.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct snapshot_object object;
    struct error error = {0};
    struct buffer again = {0};
    bool found = true;
    size_t at = 0, before = 0;
    weft_status status = WEFT_OK;
    while (status == WEFT_OK && found) {
        status = snapshot_pack_next(data, size, &at, &object, &found, &error);
        if (status != WEFT_OK || !found)
            break;
        if (at <= before || at > size || object.bytes + object.size != data + at || strlen(object.hash) != 64)
            abort();
        before = at;
        snapshot_pack_put(&again, object.hash, object.size);
        buffer_put(&again, object.bytes, object.size);
    }
    if (status != WEFT_OK && (!*error.text || at != before))
        abort();
    /* A number may be written with zeros in front, so only the length can differ. */
    if (status == WEFT_OK && buffer_size(&again) > size)
        abort();
    buffer_free(&again);
    return 0;
}
