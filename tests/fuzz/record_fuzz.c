/* SPDX-License-Identifier: Apache-2.0 */
/* Any bytes as the record of a run: refused with a message, or its texts end and its state has a name. */
#include "fuzz_file.h"

#include "platform/runs/record.h"

#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char directory[] = "/tmp/weft-fuzz-XXXXXX", path[64], source[FUZZ_PATH_BYTES];
    struct run_record record = {0};
    struct error error = {0};
    int descriptor = fuzz_file(data, size, source);
    if (!mkdtemp(directory))
        abort();
    snprintf(path, sizeof path, "%s/run.json", directory);
    if (symlink(source, path) != 0)
        abort();
    weft_status status = run_record_load(directory, "run", &record, &error);
    unlink(path);
    rmdir(directory);
    close(descriptor);
    if (status != WEFT_OK) {
        if (!*error.text)
            abort();
    } else if (!run_record_state_name(record.state) || !memchr(record.command, 0, sizeof record.command) ||
               !memchr(record.reason, 0, sizeof record.reason)) {
        abort();
    }
    return 0;
}
