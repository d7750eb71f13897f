/* SPDX-License-Identifier: Apache-2.0 */
#include "training/data/new_directory.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* An existing `path` must be an empty directory, which rename(2) replaces. */
static weft_status check_free(const char *path, struct error *error)
{
    struct stat status;
    if (lstat(path, &status) != 0)
        return errno == ENOENT ? WEFT_OK : error_system(error, "cannot read the status of '%s'", path);
    bool is_directory = S_ISDIR(status.st_mode), has_something = true;
    DIR *entries = is_directory ? opendir(path) : NULL;
    if (entries) {
        int names = 0; /* "." and ".." among them */
        while (names <= 2 && readdir(entries))
            names++;
        has_something = names > 2;
        closedir(entries);
    }
    if (!has_something)
        return WEFT_OK;
    return error_set(error, WEFT_ERROR_ARGUMENT,
                     "'%s' is there already%s; choose another directory to write to, or remove it first", path,
                     is_directory ? " and is not empty" : "");
}

weft_status new_directory_open(struct new_directory *directory, const char *path, struct error *error)
{
    directory->partial[0] = '\0';
    size_t length = strlen(path);
    while (length > 1 && path[length - 1] == '/')
        length--;
    if (length == 0 || length + 32 > sizeof directory->path)
        return error_set(error, WEFT_ERROR_ARGUMENT, "the name of the directory to write to is %s",
                         length ? "too long" : "empty");
    snprintf(directory->path, sizeof directory->path, "%.*s", (int)length, path);
    weft_status status = check_free(directory->path, error);
    if (status == WEFT_OK)
        status = file_make_directory_of(directory->path, error);
    if (status != WEFT_OK)
        return status;
    const char *name = file_name(directory->path);
    snprintf(directory->partial, sizeof directory->partial, "%.*s.%s.partial-XXXXXX", (int)(name - directory->path),
             directory->path, name);
    mode_t mask = umask(0);
    umask(mask);
    if (!mkdtemp(directory->partial)) {
        error_system(error, "cannot create a directory next to '%s'", directory->path);
        directory->partial[0] = '\0';
        return WEFT_ERROR_SYSTEM;
    }
    chmod(directory->partial, 0777 & ~mask);
    return WEFT_OK;
}

weft_status new_directory_close(struct new_directory *directory, struct error *error)
{
    weft_status status = file_sync_directory(directory->partial, error);
    if (status == WEFT_OK && rename(directory->partial, directory->path) != 0)
        status = error_system(error, "cannot rename '%s' to '%s'", directory->partial, directory->path);
    if (status != WEFT_OK) {
        new_directory_discard(directory);
        return status;
    }
    directory->partial[0] = '\0';
    char above[FILE_PATH_BYTES];
    size_t length = (size_t)(file_name(directory->path) - directory->path);
    snprintf(above, sizeof above, "%.*s", length ? (int)length : 1, length ? directory->path : ".");
    return file_sync_directory(above, error);
}

void new_directory_discard(struct new_directory *directory)
{
    if (directory->partial[0] != '\0')
        file_remove_tree(directory->partial, NULL);
    directory->partial[0] = '\0';
}
