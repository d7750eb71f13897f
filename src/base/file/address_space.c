/* SPDX-License-Identifier: Apache-2.0 */
#include "base/file/address_space.h"

#include "base/file/file.h"
#include "base/text.h"

#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <sys/resource.h>
#include <unistd.h>

bool address_space_is_limited(void)
{
    struct rlimit limit;
    return getrlimit(RLIMIT_AS, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY;
}

weft_status address_space_check(uint64_t bytes, const char *what, struct error *error)
{
    struct rlimit limit;
    char text[128], wanted[32], have[32], most[32];
    uint64_t pages;
    if (getrlimit(RLIMIT_AS, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY)
        return WEFT_OK;
    if (file_read_small(AT_FDCWD, "/proc/self/statm", text, sizeof text) < 0 || sscanf(text, "%" SCNu64, &pages) != 1)
        return WEFT_OK; /* the allocation itself reports it */
    const uint64_t used = pages * (uint64_t)sysconf(_SC_PAGESIZE),
                   left = limit.rlim_cur > used ? limit.rlim_cur - used : 0;
    if (bytes <= left)
        return WEFT_OK;
    return error_set(
        error, WEFT_ERROR_MEMORY,
        "%s needs %s of address space, but only %s of the limit of %s are left; raise the limit (ulimit -v "
        "unlimited) or use less memory",
        what, text_bytes(bytes, wanted, sizeof wanted), text_bytes(left, have, sizeof have),
        text_bytes(limit.rlim_cur, most, sizeof most));
}
