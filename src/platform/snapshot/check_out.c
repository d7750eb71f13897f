/* SPDX-License-Identifier: Apache-2.0 */
#include "platform/snapshot/list.h"
#include "platform/snapshot/snapshot.h"
#include "platform/snapshot/store.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/fs.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <unistd.h>

/* Copy the object of `entry` to `path`, once its content is known to be what its name says. */
static weft_status check_out_file(const char *store, const struct snapshot_entry *entry, const char *path,
                                  struct error *error)
{
    char object[FILE_PATH_BYTES], *content;
    size_t size;
    struct file_writer writer = {.expected = entry->size};
    weft_status status = snapshot_object_path(object, store, entry->hash, entry->hash + 2, error);
    if (status != WEFT_OK)
        return status;
    int from = open(object, O_RDONLY | O_CLOEXEC);
    if (from < 0)
        return error_system(error, "cannot open '%s', which a snapshot needs", object);
    status = snapshot_object_read(store, entry->hash, &content, &size, error);
    if (status != WEFT_OK) {
        close(from);
        return status;
    }
    mode_t mode = (snapshot_entry_is_program(entry) ? 0777 : 0666) & (snapshot_entry_is_private(entry) ? 0700 : 0777);
    snprintf(writer.path, sizeof writer.path, "%s", path);
    writer.descriptor = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, mode);
    if (writer.descriptor < 0)
        status = error_system(error, "cannot create '%s'", path);
    else if (size > 0 && ioctl(writer.descriptor, FICLONE, from) != 0) /* some file systems can share the blocks */
        status = file_writer_append(&writer, content, size, error);
    if (writer.descriptor >= 0 && close(writer.descriptor) != 0 && status == WEFT_OK)
        status = error_system(error, "cannot write '%s'", path);
    close(from);
    free(content);
    return status;
}

static weft_status check_out_entries(const char *store, struct snapshot_list *list, const char *target,
                                     struct error *error)
{
    char path[FILE_PATH_BYTES];
    struct snapshot_entry entry;
    bool found = true;
    for (;;) {
        weft_status status = snapshot_list_next(list, &entry, &found, error);
        if (status == WEFT_OK && found)
            status = file_join(path, target, entry.path, error);
        if (status != WEFT_OK || !found)
            return status;
        if (entry.kind == 'd' && mkdir(path, 0777) != 0)
            return error_system(error, "cannot make the directory '%s'", path);
        if (entry.kind == 'l' && symlink(entry.target, path) != 0)
            return error_system(error, "cannot make the link '%s'", path);
        if (snapshot_entry_is_file(&entry))
            status = check_out_file(store, &entry, path, error);
        if (status != WEFT_OK)
            return status;
    }
}

weft_status snapshot_check_out(const char *store, const char *id, const char *target, struct error *error)
{
    char path[FILE_PATH_BYTES], *text;
    size_t size;
    struct snapshot_list list;
    weft_status status = snapshot_list_load(store, id, path, &text, &size, error);
    if (status != WEFT_OK)
        return status;
    status = snapshot_list_open(&list, text, size, path, error);
    if (status == WEFT_OK)
        status = file_make_directory_of(target, error);
    if (status == WEFT_OK && rmdir(target) != 0 && errno != ENOENT)
        status = error_system(error, "cannot check out a snapshot to '%s'", target);
    if (status == WEFT_OK && mkdir(target, 0777) != 0)
        status = error_system(error, "cannot make the directory '%s'", target);
    if (status == WEFT_OK) {
        status = check_out_entries(store, &list, target, error);
        if (status != WEFT_OK)
            file_remove_tree(target, NULL);
    }
    free(text);
    return status;
}
