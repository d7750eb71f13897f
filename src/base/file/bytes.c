/* SPDX-License-Identifier: Apache-2.0 */
/* Disk use of a directory tree. It is walked by descriptors and links are not followed, so that changes made meanwhile
 * cannot lead out of it. */
#include "base/file/file.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define BLOCK_BYTES 512u
#define DEPTH_MOST  512 /* each costs a descriptor */

/* Each name of a file with N links counts 1/N of its size, which adds up to once if all of them are in the tree. */
static uint64_t bytes_of(const struct stat *found)
{
    const uint64_t names = S_ISDIR(found->st_mode) || found->st_nlink < 1 ? 1 : found->st_nlink;
    return (uint64_t)found->st_blocks * BLOCK_BYTES / names;
}

/* Add everything in an open directory, and close that. NULL: nothing. */
static bool add_directory(DIR *listing, dev_t device, int depth, const atomic_bool *stop, uint64_t *bytes)
{
    bool good = true;
    for (const char *name; good && (name = file_listing_next(listing));) {
        struct stat found;
        if (stop && atomic_load(stop)) {
            good = false;
            break;
        }
        if (fstatat(dirfd(listing), name, &found, AT_SYMLINK_NOFOLLOW) != 0 || found.st_dev != device)
            continue; /* it was just removed, or is on another file system */
        *bytes += bytes_of(&found);
        if (S_ISDIR(found.st_mode) && depth < DEPTH_MOST)
            good = add_directory(file_listing_open(dirfd(listing), name, O_NOFOLLOW), device, depth + 1, stop, bytes);
    }
    good = good && (!listing || errno == 0);
    file_listing_close(listing);
    return good;
}

bool file_tree_bytes(const char *path, const atomic_bool *stop, uint64_t *bytes)
{
    struct stat found;
    *bytes = 0;
    DIR *listing = file_listing_open(AT_FDCWD, path, O_NOFOLLOW);
    if (!listing)
        return errno == ENOENT;
    if (fstat(dirfd(listing), &found) != 0) {
        file_listing_close(listing);
        return false;
    }
    *bytes = bytes_of(&found);
    return add_directory(listing, found.st_dev, 0, stop, bytes);
}
