/* SPDX-License-Identifier: Apache-2.0 */
/* One writer a database: a lock on a file beside it, which the kernel takes back when the process ends. */
#include "store/database_internal.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <unistd.h>

/* The sentence about who is there already, as that process wrote it. */
static weft_status held_by_another(const char *path, int descriptor, struct error *error)
{
    char owner[256] = "";
    ssize_t length = pread(descriptor, owner, sizeof owner - 1, 0);
    owner[length > 0 ? strcspn(owner, "\n") : 0] = '\0';
    return error_set(error, WEFT_ERROR_STATE,
                     "'%s' is in use by another process%s%s%s; stop that one, or choose another folder", path,
                     owner[0] ? " (" : "", owner, owner[0] ? ")" : "");
}

weft_status writer_lock_take(const char *path, int *descriptor, struct error *error)
{
    char lock[FILE_PATH_BYTES + 8], owner[256], host[128] = "";
    snprintf(lock, sizeof lock, "%s.writer", path);
    int opened = open(lock, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    if (opened < 0)
        return error_system(error, "cannot create '%s', which says who writes to '%s'", lock, path);
    gethostname(host, sizeof host - 1);
    int length = snprintf(owner, sizeof owner, "process %ld on %s\n", (long)getpid(), host);
    weft_status status = WEFT_OK;
    if (flock(opened, LOCK_EX | LOCK_NB) != 0)
        status =
            errno == EWOULDBLOCK ? held_by_another(path, opened, error) : error_system(error, "cannot lock '%s'", lock);
    else if (ftruncate(opened, 0) != 0 || pwrite(opened, owner, (size_t)length, 0) != length)
        status = error_system(error, "cannot write '%s'", lock);
    if (status != WEFT_OK) {
        close(opened);
        return status;
    }
    *descriptor = opened;
    return WEFT_OK;
}
