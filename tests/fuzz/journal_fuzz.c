/* SPDX-License-Identifier: Apache-2.0 */
/* Any bytes as what an agent sends: what is taken for a record is written again as the same bytes. */
#include "platform/agent/journal/journal.h"

#include "base/hash.h"

#include <endian.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void read_all(const uint8_t *data, size_t size)
{
    struct journal_record record;
    size_t used;
    while (size > 0 && journal_get(data, size, &record, &used) == JOURNAL_FOUND) {
        struct buffer again = {0};
        if (used > size || used < JOURNAL_HEADER_BYTES || record.sequence == 0)
            abort();
        journal_put(&again, &record);
        bool known = strcmp(journal_kind_name(record.kind), "unknown") != 0;
        if (known && (buffer_size(&again) != used || memcmp(buffer_begin(&again), data, used) != 0))
            abort();
        buffer_free(&again);
        data += used;
        size -= used;
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    read_all(data, size);
    /* The check keeps changed bytes out: once more with checks that are right. */
    uint8_t *right = malloc(size + 1);
    memcpy(right, data, size);
    for (size_t at = 0; size - at >= JOURNAL_HEADER_BYTES;) {
        uint32_t payload;
        memcpy(&payload, right + at, sizeof payload);
        payload = le32toh(payload);
        if (payload > size - at - JOURNAL_HEADER_BYTES)
            break;
        uint64_t check = htole64(hash_bytes(right + at + JOURNAL_HEADER_BYTES, payload, hash_bytes(right + at, 24, 0)));
        memcpy(right + at + 24, &check, sizeof check);
        at += JOURNAL_HEADER_BYTES + payload;
    }
    read_all(right, size);
    free(right);
    return 0;
}
