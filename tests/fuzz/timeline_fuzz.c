/* SPDX-License-Identifier: Apache-2.0 */
/* Any bytes as a timeline: refused with a message, or its sums are about the ranks and operations that it has. */
#include "fuzz_file.h"

#include "observe/inspect/timeline.h"

#include <math.h>
#include <string.h>

static void check(const struct timeline *timeline)
{
    uint64_t operations = 0, calls = 0;
    for (uint32_t r = 0; r < timeline->rank_count; r++) {
        const struct timeline_rank *rank = &timeline->ranks[r];
        if ((r > 0 && rank->rank <= rank[-1].rank) || !memchr(rank->host, 0, sizeof rank->host) ||
            !isfinite(rank->inside) || !isfinite(rank->waited) || !isfinite(rank->last - rank->first) ||
            !isfinite(rank->late_mean) || !(rank->late_most >= 0) || rank->late_operations > rank->operations ||
            rank->late_last > rank->late_operations)
            abort();
        operations += rank->operations;
    }
    for (uint32_t k = 0; k < timeline->kind_count; k++) {
        const struct timeline_kind *kind = &timeline->kinds[k];
        if (kind->calls < 1 || !isfinite(kind->time) || !isfinite(kind->waited) || !isfinite(kind->inner) ||
            !isfinite(kind->outer) || !isfinite(kind->overlapped))
            abort();
        calls += kind->calls;
    }
    if (calls != operations)
        abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char path[FUZZ_PATH_BYTES];
    struct timeline timeline = {0};
    struct error error = {0};
    int descriptor = fuzz_file(data, size, path);
    weft_status status = timeline_read(path, &timeline, &error);
    close(descriptor);
    if (status != WEFT_OK) {
        if (!*error.text || timeline.ranks || timeline.kinds)
            abort();
        return 0;
    }
    check(&timeline);
    timeline_free(&timeline);
    return 0;
}
