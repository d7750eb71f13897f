/* SPDX-License-Identifier: Apache-2.0 */
/* For parsers that read a file: the input as a file in memory. */
#ifndef WEFT_TESTS_FUZZ_FILE_H
#define WEFT_TESTS_FUZZ_FILE_H

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#define FUZZ_PATH_BYTES 32

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* A descriptor to close; `path` names it for as long as it is open. */
static inline int fuzz_file(const uint8_t *data, size_t size, char path[FUZZ_PATH_BYTES])
{
    int descriptor = memfd_create("fuzz", MFD_CLOEXEC);
    if (descriptor < 0 || write(descriptor, data, size) != (ssize_t)size)
        abort();
    snprintf(path, FUZZ_PATH_BYTES, "/proc/self/fd/%d", descriptor);
    return descriptor;
}

#endif
