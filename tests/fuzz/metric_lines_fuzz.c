/* SPDX-License-Identifier: Apache-2.0 */
/* Any bytes as a line of output: no metrics, or values with names that can be kept; the same again, and from a copy
 * that ends where the line ends. */
#include "fuzz_file.h"

#include "base/text.h"
#include "platform/metrics/read/lines.h"

#include <math.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static struct metric_line first, second;
    char *line = malloc(size + 1);
    if (!line)
        abort();
    memcpy(line, data, size);
    const bool metrics = metric_line_read(line, size, &first);
    line[size] = '7';
    if (metric_line_read(line, size, &second) != metrics)
        abort();
    free(line);
    if (!metrics)
        return 0;
    const struct metric_progress *progress = &first.progress;
    if ((first.count == 0 && !progress->known) || progress->known != second.progress.known)
        abort();
    if (progress->known &&
        !(progress->done >= 0 && progress->done <= progress->total && progress->total > 0 &&
          isfinite(progress->total) && progress->seconds_left >= -1 && isfinite(progress->seconds_left)))
        abort();
    if (first.count > METRIC_LINE_VALUES || first.rank < -1 || first.time < -1 || first.step > ((int64_t)1 << 53) ||
        first.step < -((int64_t)1 << 53) || second.count != first.count)
        abort();
    for (size_t i = 0; i < first.count; i++) {
        char name[sizeof first.values[i].name];
        const size_t length = strnlen(first.values[i].name, sizeof name);
        if (length == 0 || length > METRIC_NAME_MOST || strcmp(first.values[i].name, second.values[i].name) != 0)
            abort();
        if (strcmp(text_printable(strcpy(name, first.values[i].name)), first.values[i].name) != 0)
            abort();
    }
    return 0;
}
