/* SPDX-License-Identifier: Apache-2.0 */
/* Any bytes as patterns, and the line after the last newline as a path: refused with a message, or matched. */
#include "platform/snapshot/internal/ignore.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct ignore ignore = {0};
    struct error error = {0};
    const uint8_t *newline = size ? memrchr(data, '\n', size) : NULL;
    size_t patterns = newline ? (size_t)(newline - data) : size;
    char path[300];
    snprintf(path, sizeof path, "%.*s", (int)(newline ? size - patterns - 1 : 0),
             newline ? (const char *)newline + 1 : "");
    weft_status status = ignore_add(&ignore, (const char *)data, patterns, "input", &error);
    if (status != WEFT_OK && !strstr(error.text, "input"))
        abort();
    enum ignore_answer as_file = ignore_match(&ignore, path, false, NULL);
    size_t which = SIZE_MAX;
    if (ignore_match(&ignore, path, true, &which) != IGNORE_UNNAMED && which >= ignore.count)
        abort();
    /* Taking everything out after all patterns takes it out, and taking it in again takes it in. */
    bool proper = *path && path[strlen(path) - 1] != '/', directory = as_file != IGNORE_UNNAMED;
    if (ignore_add(&ignore, "**", 2, "input", NULL) == WEFT_OK && proper &&
        ignore_match(&ignore, path, directory, NULL) != IGNORE_LEFT_OUT)
        abort();
    if (ignore_add(&ignore, "!**", 3, "input", NULL) == WEFT_OK && proper &&
        ignore_match(&ignore, path, directory, NULL) != IGNORE_TAKEN)
        abort();
    ignore_free(&ignore);
    return 0;
}
