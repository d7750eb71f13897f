/* SPDX-License-Identifier: Apache-2.0 */
#include "platform/snapshot/internal/objects.h"

#include "platform/snapshot/snapshot.h"
#include "platform/snapshot/store.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#define SYNCED_EACH 16 /* new objects; above that one sync of the file system takes less time */

weft_status snapshot_objects_begin(struct snapshot_objects *objects, const char *store, const char *named,
                                   struct error *error)
{
    uint64_t random = 0;
    *objects = (struct snapshot_objects){.store = store, .named = named};
    if (getrandom(&random, sizeof random, 0) != sizeof random)
        return error_system(error, "cannot draw a random name");
    snprintf(objects->token, sizeof objects->token, "%016" PRIx64, random);
    objects->piece = malloc(SNAPSHOT_PIECE_BYTES);
    return objects->piece ? WEFT_OK : error_memory(error, SNAPSHOT_PIECE_BYTES, "reading files");
}

/* Hash, and pass what is read on to `writer` if that is not NULL. */
static weft_status hash_into(struct snapshot_objects *objects, int file, const char *path, uint64_t most,
                             struct file_writer *writer, char hash[SHA256_TEXT_BYTES], uint64_t *size,
                             struct error *error)
{
    struct sha256 state;
    uint8_t digest[SHA256_BYTES];
    weft_status status = sha256_begin(&state, error);
    if (status != WEFT_OK)
        return status;
    *size = 0;
    while (*size <= most) {
        ssize_t n = pread(file, objects->piece, SNAPSHOT_PIECE_BYTES, (off_t)*size);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            status = error_system(error, "cannot read '%s/%s'", objects->named, path);
        if (n <= 0)
            break;
        sha256_update(&state, objects->piece, (size_t)n);
        *size += (uint64_t)n;
        if (writer)
            status = file_writer_append(writer, objects->piece, (size_t)n, error);
        if (status != WEFT_OK)
            break;
    }
    weft_status ended = sha256_end(&state, digest, error);
    sha256_text(digest, hash);
    return status != WEFT_OK ? status : ended;
}

weft_status snapshot_objects_hash(struct snapshot_objects *objects, int file, const char *path, uint64_t most,
                                  char hash[SHA256_TEXT_BYTES], uint64_t *size, struct error *error)
{
    return hash_into(objects, file, path, most, NULL, hash, size, error);
}

/* The name under which an object is written before it is safe on disk. */
static weft_status objects_partial_path(char path[FILE_PATH_BYTES], const struct snapshot_objects *objects,
                                        const char *hash, struct error *error)
{
    char name[100];
    snprintf(name, sizeof name, "partial-%s-%s", objects->token, hash + 2);
    return snapshot_object_path(path, objects->store, hash, name, error);
}

static bool objects_is_there(const char *path, uint64_t size)
{
    struct stat there;
    return stat(path, &there) == 0 && S_ISREG(there.st_mode) && (uint64_t)there.st_size == size;
}

weft_status snapshot_objects_keep(struct snapshot_objects *objects, int file, const char *path,
                                  const struct snapshot_entry *entry, bool *same, struct error *error)
{
    char object[FILE_PATH_BYTES], partial[FILE_PATH_BYTES], hash[SHA256_TEXT_BYTES];
    uint64_t size;
    *same = true;
    weft_status status = snapshot_object_path(object, objects->store, entry->hash, entry->hash + 2, error);
    if (status == WEFT_OK)
        status = objects_partial_path(partial, objects, entry->hash, error);
    if (status != WEFT_OK || objects_is_there(partial, entry->size))
        return status;
    if (objects_is_there(object, entry->size) && snapshot_mark(object)) /* used: platform/snapshot/collect.h */
        return WEFT_OK;
    struct file_writer writer;
    status = snapshot_object_create(&writer, objects->store, entry->hash, partial, entry->size, error);
    if (status != WEFT_OK)
        return status;
    fchmod(writer.descriptor, 0400);
    status = hash_into(objects, file, path, entry->size, &writer, hash, &size, error);
    *same = status == WEFT_OK && strcmp(hash, entry->hash) == 0;
    if (!*same) {
        file_writer_discard(&writer);
        return status;
    }
    buffer_put(&objects->pending, entry->hash, SHA256_TEXT_BYTES);
    if (objects->pending.failed)
        status = error_memory(error, SHA256_TEXT_BYTES, "the list of new objects");
    if (close(writer.descriptor) != 0 && status == WEFT_OK) /* it is synced with all the others */
        status = error_system(error, "cannot write '%s'", partial);
    if (status != WEFT_OK)
        unlink(partial);
    objects->new_bytes += entry->size;
    return status;
}

/* Have the disk keep all new objects: by their names if they are few, else the file system as a whole. */
static weft_status sync_objects(const struct snapshot_objects *objects, bool directories, struct error *error)
{
    size_t count = buffer_size(&objects->pending) / SHA256_TEXT_BYTES;
    const char *hash = (const char *)buffer_begin(&objects->pending);
    weft_status status = WEFT_OK;
    for (size_t i = 0; count <= SYNCED_EACH && status == WEFT_OK && i < count; i++, hash += SHA256_TEXT_BYTES) {
        char path[FILE_PATH_BYTES];
        status = directories ? snapshot_object_path(path, objects->store, hash, NULL, error)
                             : objects_partial_path(path, objects, hash, error);
        int file = status == WEFT_OK ? open(path, O_RDONLY | O_CLOEXEC) : -1;
        if (status == WEFT_OK && (file < 0 || fsync(file) != 0))
            status = error_system(error, "cannot sync '%s'", path);
        if (file >= 0)
            close(file);
    }
    if (count <= SYNCED_EACH)
        return status;
    int store = open(objects->store, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (store < 0 || syncfs(store) != 0)
        status = error_system(error, "cannot sync '%s'", objects->store);
    if (store >= 0)
        close(store);
    return status;
}

weft_status snapshot_objects_name(struct snapshot_objects *objects, struct error *error)
{
    size_t count = buffer_size(&objects->pending) / SHA256_TEXT_BYTES;
    const char *hash = (const char *)buffer_begin(&objects->pending);
    weft_status status = sync_objects(objects, false, error);
    for (size_t i = 0; status == WEFT_OK && i < count; i++, hash += SHA256_TEXT_BYTES) {
        char partial[FILE_PATH_BYTES], object[FILE_PATH_BYTES];
        if ((status = objects_partial_path(partial, objects, hash, error)) == WEFT_OK &&
            (status = snapshot_object_path(object, objects->store, hash, hash + 2, error)) == WEFT_OK &&
            rename(partial, object) != 0)
            status = error_system(error, "cannot rename '%s' to '%s'", partial, object);
    }
    return status == WEFT_OK && count > 0 ? sync_objects(objects, true, error) : status;
}

static void drop_objects(const struct snapshot_objects *objects)
{
    size_t count = buffer_size(&objects->pending) / SHA256_TEXT_BYTES;
    const char *hash = (const char *)buffer_begin(&objects->pending);
    for (size_t i = 0; i < count; i++, hash += SHA256_TEXT_BYTES) {
        char partial[FILE_PATH_BYTES];
        if (objects_partial_path(partial, objects, hash, NULL) == WEFT_OK)
            unlink(partial);
    }
}

void snapshot_objects_end(struct snapshot_objects *objects, bool drop)
{
    if (drop)
        drop_objects(objects);
    buffer_free(&objects->pending);
    free(objects->piece);
}
