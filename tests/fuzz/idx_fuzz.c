/* SPDX-License-Identifier: Apache-2.0 */
/* Any bytes as an idx file: refused with a message, or as many values as its sizes give. */
#include "base/hash.h"
#include "training/data/image/idx.h"

#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct idx idx;
    struct error error = {0};
    if (idx_parse(data, size, "input", &idx, &error) != WEFT_OK) {
        if (!*error.text || idx.values)
            abort();
        return 0;
    }
    size_t count = 1;
    if (idx.dimensions < 1 || idx.dimensions > IDX_DIMENSIONS_MOST)
        abort();
    for (uint32_t i = 0; i < idx.dimensions; i++)
        count *= idx.sizes[i];
    hash_bytes(idx.values, count, 0);
    idx_free(&idx);
    return 0;
}
