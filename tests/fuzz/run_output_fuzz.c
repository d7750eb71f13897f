/* SPDX-License-Identifier: Apache-2.0 */
/* Any bytes as a line that a program prints: a text that can be shown, no longer than they are. */
#include "base/text.h"
#include "platform/runs/internal/output_scan.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char *line = malloc(size + 1);
    if (!line)
        return 0;
    memcpy(line, data, size);
    size_t length = run_output_text(line, size);
    if (length > size || strlen(line) != length || !text_is_printable(line, true) || strchr(line, '\n'))
        abort();
    /* What can be shown stays as it is. */
    char *again = strdup(line);
    if (again && (run_output_text(again, length) != length || strcmp(again, line) != 0))
        abort();
    free(again);
    free(line);
    return 0;
}
