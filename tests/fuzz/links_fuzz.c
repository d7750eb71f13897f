/* SPDX-License-Identifier: Apache-2.0 */
/* Any bytes as the cache of measured links: all of it is used, or none with a message; costs are such as can be used.
 */
#include "fuzz_file.h"

#include "core/topology/links.h"

#include <math.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char path[FUZZ_PATH_BYTES];
    int descriptor = fuzz_file(data, size, path);
    struct links links;
    struct error warning = {0};
    links_load(path, &links, &warning);
    close(descriptor);
    if (warning.status != WEFT_OK && (links.count || !*warning.text))
        abort();
    for (size_t i = 0; i < links.count; i++) {
        const struct link_entry *entry = &links.entries[i];
        const struct link_entry *found = links_find(&links, entry->level, entry->key);
        if (found && strcmp(found->key, entry->key) != 0) /* what is too old is not found */
            abort();
        if (entry->samples < 1)
            abort();
        if (!(entry->cost.latency >= 0 && entry->cost.overhead >= 0 && entry->cost.bytes_per_second > 0) ||
            isinf(entry->cost.latency) || isinf(entry->cost.overhead) || isinf(entry->cost.bytes_per_second))
            abort();
    }
    links_free(&links);
    return 0;
}
