/* SPDX-License-Identifier: Apache-2.0 */
#include "base/file/lock.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <time.h>
#include <unistd.h>

#define OWNER_BYTES 256
#define HOST_BYTES  128
#define HEIRS_WAIT  200 /* times 10 ms */

/* Read the holder of the lock, as that process wrote it. */
static void read_owner(int descriptor, char owner[OWNER_BYTES])
{
    ssize_t length = pread(descriptor, owner, OWNER_BYTES - 1, 0);
    owner[length > 0 ? length : 0] = '\0';
    owner[strcspn(owner, "\n")] = '\0';
}

static void name_host(char host[HOST_BYTES])
{
    memset(host, 0, HOST_BYTES);
    gethostname(host, HOST_BYTES - 1);
}

/* Whether the holder was a process of this host that no longer exists. */
static bool owner_is_gone(int descriptor)
{
    char owner[OWNER_BYTES], here[HOST_BYTES], host[HOST_BYTES];
    long process;
    read_owner(descriptor, owner);
    name_host(here);
    return sscanf(owner, "process %ld on %127s", &process, host) == 2 && strcmp(host, here) == 0 && process > 0 &&
           kill((pid_t)process, 0) != 0 && errno == ESRCH;
}

/*
 * Lock, or find that another process holds the lock. A child shares its parent's lock between fork() and exec(): if the
 * owner was killed in between, wait for the child.
 */
static bool try_lock(int descriptor)
{
    for (int i = 0; i < HEIRS_WAIT; i++) {
        if (flock(descriptor, LOCK_EX | LOCK_NB) == 0)
            return true;
        if (errno != EWOULDBLOCK || !owner_is_gone(descriptor))
            break;
        nanosleep(&(struct timespec){.tv_nsec = 10000000}, NULL);
    }
    return flock(descriptor, LOCK_EX | LOCK_NB) == 0;
}

static weft_status held_by_another(int descriptor, const char *use, struct error *error)
{
    char owner[OWNER_BYTES];
    read_owner(descriptor, owner);
    return error_set(error, WEFT_ERROR_STATE, "another process%s%s%s is %s; stop it or choose another directory",
                     owner[0] ? " (" : "", owner, owner[0] ? ")" : "", use);
}

/*
 * Write this process's identity, for the error messages of other processes. Overwriting the old content works even on a
 * full disk.
 */
static weft_status sign(int descriptor, const char *path, struct error *error)
{
    char host[HOST_BYTES], owner[OWNER_BYTES];
    name_host(host);
    int length = snprintf(owner, sizeof owner, "process %ld on %s\n", (long)getpid(), host);
    if (write(descriptor, owner, (size_t)length) != length || ftruncate(descriptor, length) != 0)
        return error_system(error, "cannot write '%s'", path);
    return WEFT_OK;
}

weft_status lock_take(const char *path, unsigned mode, const char *use, int *descriptor, struct error *error)
{
    int opened = open(path, O_RDWR | O_CREAT | O_CLOEXEC, mode);
    if (opened < 0)
        return error_system(error, "cannot create '%s'", path);
    weft_status status = WEFT_OK;
    if (try_lock(opened))
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
