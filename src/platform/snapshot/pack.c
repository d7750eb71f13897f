/* SPDX-License-Identifier: Apache-2.0 */
#include "platform/snapshot/pack.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define DIGITS_MOST 9 /* of a size; no object is that large */

void snapshot_pack_put(struct buffer *pack, const char *hash, uint64_t size)
{
    char line[SHA256_TEXT_BYTES + 32];
    int length = snprintf(line, sizeof line, "%s %" PRIu64 "\n", hash, size);
    buffer_put(pack, line, (size_t)length);
}

weft_status snapshot_pack_next(const uint8_t *pack, size_t size, size_t *at, struct snapshot_object *object,
                               bool *found, struct error *error)
{
    struct snapshot_object read = {0};
    size_t left = size - *at, used = SHA256_TEXT_BYTES, digits = 0;
    const char *text = (const char *)pack + *at;
    *found = false;
    if (left == 0)
        return WEFT_OK;
    bool good = left > used && text[used - 1] == ' ';
    if (good) {
        memcpy(read.hash, text, used - 1);
        good = strspn(read.hash, "0123456789abcdef") == used - 1;
    }
    while (good && used < left && digits < DIGITS_MOST && text[used] >= '0' && text[used] <= '9') {
        read.size = read.size * 10 + (uint64_t)(text[used++] - '0');
        digits++;
    }
    good = good && digits > 0 && used < left && text[used] == '\n' && read.size <= left - used - 1;
    if (!good)
        return error_set(error, WEFT_ERROR_DATA,
                         "what begins at byte %zu of the pack is no object: \"SHA256 SIZE\", a line end and that many "
                         "bytes",
                         *at);
    read.bytes = (const uint8_t *)text + used + 1;
    *at += used + 1 + read.size;
    *object = read;
    *found = true;
    return WEFT_OK;
}
