/* SPDX-License-Identifier: Apache-2.0 */
#include "training/data/new_folder.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* What is at `path` must not be replaced, unless it is an empty folder, which rename(2) takes the place of. */
static weft_status check_free(const char *path, struct error *error)
{
    struct stat status;
    if (lstat(path, &status) != 0)
        return errno == ENOENT ? WEFT_OK : error_system(error, "cannot look at '%s'", path);
    bool is_folder = S_ISDIR(status.st_mode), has_something = true;
    DIR *entries = is_folder ? opendir(path) : NULL;
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
                     "'%s' is there already%s; choose another folder to write to, or remove it first", path,
                     is_folder ? " and is not empty" : "");
}

weft_status new_folder_open(struct new_folder *folder, const char *path, struct error *error)
{
    folder->partial[0] = '\0';
    size_t length = strlen(path);
    while (length > 1 && path[length - 1] == '/')
        length--;
    if (length == 0 || length + 32 > sizeof folder->path)
        return error_set(error, WEFT_ERROR_ARGUMENT, "the name of the folder to write to is %s",
                         length ? "too long" : "empty");
    snprintf(folder->path, sizeof folder->path, "%.*s", (int)length, path);
    weft_status status = check_free(folder->path, error);
    if (status == WEFT_OK)
        status = file_make_folder_of(folder->path, error);
    if (status != WEFT_OK)
        return status;
    const char *name = file_name(folder->path);
    snprintf(folder->partial, sizeof folder->partial, "%.*s.%s.partial-XXXXXX", (int)(name - folder->path),
             folder->path, name);
    mode_t mask = umask(0);
    umask(mask);
    if (!mkdtemp(folder->partial)) {
        error_system(error, "cannot make a folder beside '%s'", folder->path);
        folder->partial[0] = '\0';
        return WEFT_ERROR_SYSTEM;
    }
    chmod(folder->partial, 0777 & ~mask);
    return WEFT_OK;
}

weft_status new_folder_close(struct new_folder *folder, struct error *error)
{
    weft_status status = file_sync_folder(folder->partial, error);
    if (status == WEFT_OK && rename(folder->partial, folder->path) != 0)
        status = error_system(error, "cannot rename '%s' to '%s'", folder->partial, folder->path);
    if (status != WEFT_OK) {
        new_folder_discard(folder);
        return status;
    }
    folder->partial[0] = '\0';
    char above[FILE_PATH_BYTES];
    size_t length = (size_t)(file_name(folder->path) - folder->path);
    snprintf(above, sizeof above, "%.*s", length ? (int)length : 1, length ? folder->path : ".");
    return file_sync_folder(above, error);
}

void new_folder_discard(struct new_folder *folder)
{
    if (folder->partial[0] != '\0')
        file_remove_tree(folder->partial, NULL);
    folder->partial[0] = '\0';
}
