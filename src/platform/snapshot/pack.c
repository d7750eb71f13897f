/* SPDX-License-Identifier: Apache-2.0 */
#include "platform/snapshot/pack.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define DIGITS_MOST 18 /* of a size */

void snapshot_pack_put(struct buffer *pack, const char *hash, uint64_t size)
{
    char line[SHA256_TEXT_BYTES + 32];
    int length = snprintf(line, sizeof line, "%s %" PRIu64 "\n", hash, size);
    buffer_put(pack, line, (size_t)length);
}

size_t snapshot_content_parse(const char *text, size_t size, char end, char hash[SHA256_TEXT_BYTES], uint64_t *bytes)
{
    uint64_t read = 0;
    size_t used = SHA256_TEXT_BYTES, first = used;
    if (size < used || text[used - 1] != ' ' || strspn(text, "0123456789abcdef") != used - 1)
        return 0;
    while (used < size && used < first + DIGITS_MOST && text[used] >= '0' && text[used] <= '9')
        read = read * 10 + (uint64_t)(text[used++] - '0');
    if (used == first || used == size || text[used] != end)
        return 0;
    memcpy(hash, text, SHA256_TEXT_BYTES - 1);
    hash[SHA256_TEXT_BYTES - 1] = '\0';
    *bytes = read;
    return used + 1;
}

weft_status snapshot_pack_next(const uint8_t *pack, size_t size, size_t *at, struct snapshot_object *object,
                               bool *found, struct error *error)
{
    struct snapshot_object read = {0};
    const char *text = (const char *)pack + *at;
    size_t left = size - *at, used = snapshot_content_parse(text, left, '\n', read.hash, &read.size);
    *found = false;
    if (left == 0)
        return WEFT_OK;
    if (!used || read.size > left - used)
        return error_set(error, WEFT_ERROR_DATA,
                         "what begins at byte %zu of the pack is no object: \"SHA256 SIZE\", a line end and that many "
                         "bytes",
                         *at);
    read.bytes = (const uint8_t *)text + used;
    *at += used + read.size;
    *object = read;
    *found = true;
    return WEFT_OK;
}
