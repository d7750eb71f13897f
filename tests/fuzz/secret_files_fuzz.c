/* SPDX-License-Identifier: Apache-2.0 */
/* Any bytes as a file that is searched for keys: what is found stays found when a line of text precedes it. */
#include "platform/snapshot/internal/secret_files.h"

#include "fuzz_file.h"

#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const struct secret_kind kind = {"x", "token", {"_auth"}};
    static const char before[] = "a line of text\n";
    uint8_t piece[4096];
    char path[FUZZ_PATH_BYTES];
    int file = fuzz_file(data, size, path);
    bool found = secret_content(file, NULL, piece, sizeof piece) != NULL;
    if (found && !secret_content(file, &kind, piece, sizeof piece))
        abort();
    close(file);
    uint8_t *longer = malloc(sizeof before - 1 + size);
    if (!longer)
        abort();
    memcpy(longer, before, sizeof before - 1);
    memcpy(longer + sizeof before - 1, data, size);
    file = fuzz_file(longer, sizeof before - 1 + size, path);
    if (size < 3000 && found && data[0] != 0xEF && data[0] != 0xBF && !secret_content(file, NULL, piece, sizeof piece))
        abort();
    close(file);
    free(longer);
    return 0;
}
