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

/* Add everything in an open directory, and close that. */
static bool add_directory(int directory, dev_t device, int depth, const atomic_bool *stop, uint64_t *bytes)
{
    DIR *listing = fdopendir(directory);
    bool good = true;
    if (!listing)
        close(directory);
    for (struct dirent *entry; listing && good && (entry = readdir(listing));) {
        struct stat found;
        if (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0)
            continue;
        if (stop && atomic_load(stop)) {
            good = false;
            break;
        }
        if (fstatat(dirfd(listing), entry->d_name, &found, AT_SYMLINK_NOFOLLOW) != 0 || found.st_dev != device)
            continue; /* it was just removed, or is on another file system */
        *bytes += bytes_of(&found);
        if (!S_ISDIR(found.st_mode) || depth == DEPTH_MOST)
            continue;
        const int inner = openat(dirfd(listing), entry->d_name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
        if (inner >= 0)
            good = add_directory(inner, device, depth + 1, stop, bytes);
    }
    if (listing)
        closedir(listing);
    return good;
}

bool file_tree_bytes(const char *path, const atomic_bool *stop, uint64_t *bytes)
{
    struct stat found;
    *bytes = 0;
    const int directory = open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (directory < 0)
        return errno == ENOENT;
    if (fstat(directory, &found) != 0) {
        close(directory);
        return false;
    }
    *bytes = bytes_of(&found);
    return add_directory(directory, found.st_dev, 0, stop, bytes);
}
