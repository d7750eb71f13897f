/* SPDX-License-Identifier: Apache-2.0 */
/* Any bytes as a tar archive: refused with a message, or members that lie within it. */
#include "fuzz_file.h"
#include "training/data/image/tar.h"

#include <string.h>

static weft_status check_member(void *context, const struct tar_member *member, struct error *error)
{
    const size_t *size = context;
    if (member->size > *size || member->offset > *size - member->size || strlen(member->name) >= TAR_NAME_BYTES)
        abort();
    return WEFT_OK;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char path[FUZZ_PATH_BYTES];
    struct error error = {0};
    const int descriptor = fuzz_file(data, size, path);
    const struct tar_visitor visitor = {check_member, &size};
    if (tar_read(descriptor, path, size, &visitor, &error) != WEFT_OK && !*error.text)
        abort();
    close(descriptor);
    return 0;
}
