/* SPDX-License-Identifier: Apache-2.0 */
/* Removing a directory tree by descriptors, so that a concurrent change of the tree cannot redirect it elsewhere. */
#include "base/file/file.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define DEPTH_MOST 2048 /* each costs a descriptor: no deeper than a path can name */
#define TRIES      8

/* Remove the entry `name` of an open directory. Returns false, with errno, if it still exists. */
static bool remove_entry(int parent, const char *name, int depth);

/* Remove everything in an open directory, and close it. */
static bool empty_directory(DIR *listing, int depth)
{
    bool good = true, any = true;
    while (good && any) { /* again, because removing entries may hide later ones */
        any = false;
        rewinddir(listing);
        for (const char *name; good && (name = file_listing_next(listing)); any = true)
            good = remove_entry(dirfd(listing), name, depth);
    }
    file_listing_close(listing);
    return good;
}

/* The same, once: an entry that is meanwhile replaced by one of another kind, or gains new content, remains. */
static bool try_to_remove(int parent, const char *name, int depth)
{
    if (unlinkat(parent, name, 0) == 0 || errno == ENOENT)
        return true;
    if (errno != EISDIR)
        return false;
    if (unlinkat(parent, name, AT_REMOVEDIR) == 0 || errno == ENOENT)
        return true;
    if (depth == DEPTH_MOST) {
        errno = ENAMETOOLONG;
        return false;
    }
    DIR *inner = file_listing_open(parent, name, O_NOFOLLOW);
    return inner && empty_directory(inner, depth + 1) && (unlinkat(parent, name, AT_REMOVEDIR) == 0 || errno == ENOENT);
}

static bool remove_entry(int parent, const char *name, int depth)
{
    bool done = false, changes = true;
    for (int tries = 0; !done && changes && tries < TRIES; tries++) {
        done = try_to_remove(parent, name, depth);
        changes = errno == ELOOP || errno == ENOTDIR || errno == ENOTEMPTY;
    }
    return done;
}

weft_status file_remove_tree(const char *path, struct error *error)
{
    char name[FILE_PATH_BYTES];
    size_t length = strlen(path);
    while (length > 1 && path[length - 1] == '/') /* with a trailing slash a link would be followed */
        length--;
    int written = snprintf(name, sizeof name, "%.*s", (int)length, path);
    if (written >= (int)sizeof name || !remove_entry(AT_FDCWD, name, 0))
        return error_system(error, "cannot remove '%s'", path);
    return WEFT_OK;
}
