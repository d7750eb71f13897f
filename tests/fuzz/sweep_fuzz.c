/* SPDX-License-Identifier: Apache-2.0 */
/* Any bytes as the record of sweeps: figures that can be used, or none. */
#include "fuzz_file.h"

#include "cli/measure/sweep_record.h"

#include <math.h>
#include <string.h>
#include <sys/stat.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char home[] = "/tmp/weft-fuzz-XXXXXX", directory[64], path[FILE_PATH_BYTES], source[FUZZ_PATH_BYTES];
    int descriptor = fuzz_file(data, size, source);
    struct sweep_record sweep = {.place = {"allreduce", 4, 2, "a kind"}};
    if (!mkdtemp(home))
        abort();
    snprintf(directory, sizeof directory, "%s/weft", home);
    setenv("XDG_CACHE_HOME", home, 1);
    if (mkdir(directory, 0700) != 0 || sweep_record_path(path, NULL) != WEFT_OK || symlink(source, path) != 0)
        abort();
    sweep_record_load(&sweep);
    unlink(path);
    rmdir(directory);
    rmdir(home);
    close(descriptor);
    for (size_t i = 0; i < sweep.count; i++) {
        const struct sweep_record_figure *figure = &sweep.figures[i];
        if (!memchr(figure->algorithm, 0, sizeof figure->algorithm) || !isfinite(figure->seconds) ||
            !(figure->seconds > 0) || !(sweep_record_find(&sweep, figure->block_bytes, figure->algorithm) > 0))
            abort();
    }
    sweep_record_free(&sweep);
    return 0;
}
