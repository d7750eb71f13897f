/* SPDX-License-Identifier: Apache-2.0 */
#include "platform/snapshot/internal/objects.h"

#include "base/sha256.h"
#include "platform/snapshot/store.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#define SYNCED_EACH 16 /* new objects; for more, one sync of the whole file system is faster */

weft_status snapshot_objects_begin(struct snapshot_objects *objects, const char *store, struct error *error)
{
    uint64_t random = 0;
    *objects = (struct snapshot_objects){.store = store};
    if (getrandom(&random, sizeof random, 0) != sizeof random)
        return error_system(error, "cannot draw a random name");
    snprintf(objects->token, sizeof objects->token, "%016" PRIx64, random);
    return snapshot_store_make(store, error);
}

/* The name that an object has until it is safe on disk. */
static weft_status object_partial_path(char path[FILE_PATH_BYTES], const struct snapshot_objects *objects,
                                       const char *hash, struct error *error)
{
    char name[100];
    snprintf(name, sizeof name, "partial-%s-%s", objects->token, hash + 2);
    return snapshot_object_path(path, objects->store, hash, name, error);
}

weft_status snapshot_objects_put(struct snapshot_objects *objects, const char *hash, const void *bytes, size_t size,
                                 struct error *error)
{
    char directory[FILE_PATH_BYTES], partial[FILE_PATH_BYTES];
    struct file_writer writer;
    weft_status status = object_partial_path(partial, objects, hash, error);
    if (status == WEFT_OK)
        status = snapshot_object_path(directory, objects->store, hash, NULL, error);
    if (status != WEFT_OK || file_exists(partial) || snapshot_object_find(objects->store, hash, size))
        return status;
    if (mkdir(directory, 0700) != 0 && errno != EEXIST)
        return error_system(error, "cannot make the directory '%s'", directory);
    buffer_put(&objects->pending, hash, SHA256_TEXT_BYTES);
    if (objects->pending.failed)
        return error_memory(error, SHA256_TEXT_BYTES, "the list of new objects");
    status = file_writer_open(&writer, partial, size, error);
    if (status != WEFT_OK)
        return status;
    fchmod(writer.descriptor, 0400);
    status = file_writer_append(&writer, bytes, size, error);
    if (close(writer.descriptor) != 0 && status == WEFT_OK) /* it is synced with all the others */
        status = error_system(error, "cannot write '%s'", partial);
    objects->count++;
    objects->bytes += size;
    return status;
}

/* Sync the new objects, or the directories that they are in: each if they are few, else the whole file system. */
static weft_status objects_sync(const struct snapshot_objects *objects, bool directories, struct error *error)
{
    weft_status status = WEFT_OK;
    const char *hash = (const char *)buffer_begin(&objects->pending);
    if (objects->count > SYNCED_EACH)
        return snapshot_store_sync(objects->store, error);
    for (size_t i = 0; status == WEFT_OK && i < objects->count; i++, hash += SHA256_TEXT_BYTES) {
        char path[FILE_PATH_BYTES];
        status = directories ? snapshot_object_path(path, objects->store, hash, NULL, error)
                             : object_partial_path(path, objects, hash, error);
        int file = status == WEFT_OK ? open(path, O_RDONLY | O_CLOEXEC) : -1;
        if (status == WEFT_OK && (file < 0 || fsync(file) != 0))
            status = error_system(error, "cannot sync '%s'", path);
        file_close(file);
    }
    return status;
}

weft_status snapshot_objects_commit(struct snapshot_objects *objects, struct error *error)
{
    char partial[FILE_PATH_BYTES], object[FILE_PATH_BYTES];
    if (objects->count == 0)
        return WEFT_OK;
    weft_status status = objects_sync(objects, false, error);
    const char *hash = (const char *)buffer_begin(&objects->pending);
    for (size_t i = 0; status == WEFT_OK && i < objects->count; i++, hash += SHA256_TEXT_BYTES)
        if ((status = object_partial_path(partial, objects, hash, error)) == WEFT_OK &&
            (status = snapshot_object_path(object, objects->store, hash, hash + 2, error)) == WEFT_OK &&
            rename(partial, object) != 0)
            status = error_system(error, "cannot rename '%s' to '%s'", partial, object);
    if (status == WEFT_OK)
        status = objects_sync(objects, true, error);
    if (status == WEFT_OK)
        status = file_join(object, objects->store, "objects", error);
    if (status == WEFT_OK)
        status = file_sync_directory(object, error);
    if (status == WEFT_OK)
        buffer_consume(&objects->pending, buffer_size(&objects->pending));
    return status;
}

void snapshot_objects_end(struct snapshot_objects *objects)
{
    for (; buffer_size(&objects->pending) > 0; buffer_consume(&objects->pending, SHA256_TEXT_BYTES)) {
        char partial[FILE_PATH_BYTES];
        if (object_partial_path(partial, objects, (const char *)buffer_begin(&objects->pending), NULL) == WEFT_OK)
            unlink(partial);
    }
    buffer_free(&objects->pending);
}
