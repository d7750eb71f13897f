/* SPDX-License-Identifier: Apache-2.0 */
/* Any bytes as the record of a run: refused with a sentence, or its texts end and its state has a name. */
#include "fuzz_file.h"

#include "platform/run_record.h"

#include <string.h>
#include <sys/stat.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static char folder[FILE_PATH_BYTES], path[FILE_PATH_BYTES + 32];
    struct run_record record = {0};
    struct error error = {0};
    if (!*folder) {
        snprintf(folder, sizeof folder, "/dev/shm/weft-record-fuzz-%d", (int)getpid());
        mkdir(folder, 0700);
        snprintf(path, sizeof path, "%s/run.json", folder);
    }
    char source[FUZZ_PATH_BYTES];
    int descriptor = fuzz_file(data, size, source);
    unlink(path);
    if (symlink(source, path) != 0)
        abort();
    if (run_record_load(folder, "run", &record, &error) != WEFT_OK) {
        if (!*error.text)
            abort();
    } else if (!run_state_name(record.state) || !memchr(record.command, 0, sizeof record.command) ||
               !memchr(record.reason, 0, sizeof record.reason)) {
        abort();
    }
    close(descriptor);
    unlink(path);
    return 0;
}
