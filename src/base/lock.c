/* SPDX-License-Identifier: Apache-2.0 */
#include "base/lock.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <unistd.h>

#define OWNER_BYTES 256

/* The sentence about who is there already, as that process wrote it. */
static weft_status held_by_another(int descriptor, const char *use, struct error *error)
{
    char owner[OWNER_BYTES] = "";
    ssize_t length = pread(descriptor, owner, sizeof owner - 1, 0);
    owner[length > 0 ? strcspn(owner, "\n") : 0] = '\0';
    return error_set(error, WEFT_ERROR_STATE, "another process%s%s%s is %s; stop it or choose another folder",
                     owner[0] ? " (" : "", owner, owner[0] ? ")" : "", use);
}

/* Say who we are, for the sentence that another process would print. */
static weft_status sign(int descriptor, const char *path, struct error *error)
{
    char host[128] = "", owner[OWNER_BYTES];
    gethostname(host, sizeof host - 1);
    int length = snprintf(owner, sizeof owner, "process %ld on %s\n", (long)getpid(), host);
    if (ftruncate(descriptor, 0) != 0 || write(descriptor, owner, (size_t)length) != length)
        return error_system(error, "cannot write '%s'", path);
    return WEFT_OK;
}

weft_status lock_take(const char *path, unsigned mode, const char *use, int *descriptor, struct error *error)
{
    int opened = open(path, O_RDWR | O_CREAT | O_CLOEXEC, mode);
    if (opened < 0)
        return error_system(error, "cannot create '%s'", path);
    weft_status status = WEFT_OK;
    if (flock(opened, LOCK_EX | LOCK_NB) == 0)
        status = sign(opened, path, error);
    else if (errno == EWOULDBLOCK)
        status = held_by_another(opened, use, error);
    else
        status = error_system(error, "cannot lock '%s'", path);
    if (status != WEFT_OK) {
        close(opened);
        return status;
    }
    *descriptor = opened;
    return WEFT_OK;
}
