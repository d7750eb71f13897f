/* SPDX-License-Identifier: Apache-2.0 */
#include "platform/snapshot/receive.h"

#include "base/text.h"
#include "platform/snapshot/list.h"
#include "platform/snapshot/pack.h"
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

static weft_status sync_store(const char *store, struct error *error)
{
    int directory = open(store, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    weft_status status =
        directory >= 0 && syncfs(directory) == 0 ? WEFT_OK : error_system(error, "cannot sync '%s'", store);
    if (directory >= 0)
        close(directory);
    return status;
}

/* ---- objects ---- */

/* Whether the store has an object of that size; it is marked as used. */
static weft_status find_object(const char *store, const char *hash, uint64_t size, bool *there, struct error *error)
{
    char path[FILE_PATH_BYTES];
    struct stat found;
    weft_status status = snapshot_object_path(path, store, hash, hash + 2, error);
    *there = status == WEFT_OK && stat(path, &found) == 0 && S_ISREG(found.st_mode) &&
             (uint64_t)found.st_size == size && snapshot_mark(path);
    return status;
}

static weft_status snapshot_receive_check_object(const struct snapshot_object *object, struct error *error)
{
    uint8_t digest[SHA256_BYTES];
    char hash[SHA256_TEXT_BYTES];
    weft_status status = sha256_of(object->bytes, object->size, digest, error);
    if (status == WEFT_OK && strcmp(sha256_text(digest, hash), object->hash) != 0)
        status = error_set(error, WEFT_ERROR_DATA,
                           "an object came damaged: its SHA-256 is %s, and %s was announced; send it again", hash,
                           object->hash);
    return status;
}

/* The name of an object until its content is safe on disk. */
static weft_status snapshot_receive_partial_path(char path[FILE_PATH_BYTES], const char *store, uint64_t token,
                                                 const char *hash, struct error *error)
{
    char name[100];
    snprintf(name, sizeof name, "partial-%016" PRIx64 "-%.62s", token, hash + 2);
    return snapshot_object_path(path, store, hash, name, error);
}

static weft_status write_partial(const char *store, uint64_t token, const struct snapshot_object *object,
                                 struct error *error)
{
    char path[FILE_PATH_BYTES];
    struct file_writer writer;
    weft_status status = snapshot_receive_partial_path(path, store, token, object->hash, error);
    if (status == WEFT_OK)
        status = snapshot_object_create(&writer, store, object->hash, path, object->size, error);
    if (status != WEFT_OK)
        return status;
    fchmod(writer.descriptor, 0400);
    status = file_writer_append(&writer, object->bytes, object->size, error);
    if (status != WEFT_OK)
        file_writer_discard(&writer);
    else if (close(writer.descriptor) != 0) /* it is synced with all the others */
        status = error_system(error, "cannot write '%s'", path);
    return status;
}

/* What is done with each object of a pack that was checked. */
enum step { WRITE, NAME, DROP };

static weft_status each_object(const char *store, uint64_t token, const uint8_t *pack, size_t size, enum step step,
                               uint64_t *count, struct error *error)
{
    struct snapshot_object object;
    bool found = true, there;
    size_t at = 0;
    weft_status status = WEFT_OK;
    while (status == WEFT_OK) {
        char partial[FILE_PATH_BYTES], path[FILE_PATH_BYTES];
        status = snapshot_pack_next(pack, size, &at, &object, &found, error);
        if (status != WEFT_OK || !found)
            break;
        status = snapshot_receive_partial_path(partial, store, token, object.hash, error);
        if (status != WEFT_OK)
            break;
        if (step == DROP) {
            unlink(partial);
        } else if (step == NAME && file_exists(partial)) {
            status = snapshot_object_path(path, store, object.hash, object.hash + 2, error);
            if (status == WEFT_OK && rename(partial, path) != 0)
                status = error_system(error, "cannot rename '%s' to '%s'", partial, path);
            ++*count;
        } else if (step == WRITE && !file_exists(partial)) { /* the same twice in a pack is no harm */
            status = find_object(store, object.hash, object.size, &there, error);
            if (status == WEFT_OK && !there)
                status = write_partial(store, token, &object, error);
        }
    }
    return status;
}

weft_status snapshot_receive_objects(const char *store, const void *pack, size_t size, uint64_t *count,
                                     struct error *error)
{
    struct snapshot_object object;
    bool found = true;
    size_t at = 0;
    uint64_t token, named = 0;
    weft_status status = WEFT_OK;
    while (status == WEFT_OK && found) {
        status = snapshot_pack_next(pack, size, &at, &object, &found, error);
        if (status == WEFT_OK && found)
            status = snapshot_receive_check_object(&object, error);
    }
    if (status == WEFT_OK && getrandom(&token, sizeof token, 0) != sizeof token)
        status = error_system(error, "cannot draw a random name");
    if (status == WEFT_OK)
        status = snapshot_store_make(store, error);
    if (status != WEFT_OK)
        return status;
    status = each_object(store, token, pack, size, WRITE, &named, error);
    if (status == WEFT_OK)
        status = sync_store(store, error);
    if (status == WEFT_OK)
        status = each_object(store, token, pack, size, NAME, &named, error);
    if (status != WEFT_OK)
        each_object(store, token, pack, size, DROP, &named, NULL);
    else
        *count = named;
    return status;
}

/* ---- lists ---- */

static weft_status check_limits(const struct snapshot_offer *offer, const struct snapshot_entry *entry,
                                const struct snapshot_limits *limits, struct error *error)
{
    char has[32], most[32];
    if (offer->entries > limits->entries)
        return error_set(error, WEFT_ERROR_ARGUMENT,
                         "the snapshot has more than the %" PRIu64 " files and directories that it may have here; name "
                         "what the run does not need in .weftignore",
                         limits->entries);
    if (entry->size > limits->file_bytes)
        return error_set(error, WEFT_ERROR_ARGUMENT,
                         "'%.200s' has %s, and a file of a snapshot may have %s here; name it in .weftignore",
                         entry->path, text_bytes(entry->size, has, sizeof has),
                         text_bytes(limits->file_bytes, most, sizeof most));
    if (offer->bytes > limits->bytes)
        return error_set(error, WEFT_ERROR_ARGUMENT,
                         "the files of the snapshot have more than the %s that they may have here; name what the run "
                         "does not need in .weftignore",
                         text_bytes(limits->bytes, most, sizeof most));
    return WEFT_OK;
}

static int by_text(const void *left, const void *right)
{
    return memcmp(left, right, SHA256_TEXT_BYTES);
}

/* Name each missing object once, though several files have its content. */
static void sort_missing(struct snapshot_offer *offer)
{
    char *first = (char *)buffer_begin(&offer->hashes);
    size_t count = buffer_size(&offer->hashes) / SHA256_TEXT_BYTES, kept = 0;
    if (count > 1)
        qsort(first, count, SHA256_TEXT_BYTES, by_text);
    for (size_t i = 0; i < count; i++)
        if (kept == 0 ||
            memcmp(first + (kept - 1) * SHA256_TEXT_BYTES, first + i * SHA256_TEXT_BYTES, SHA256_TEXT_BYTES) != 0)
            memmove(first + kept++ * SHA256_TEXT_BYTES, first + i * SHA256_TEXT_BYTES, SHA256_TEXT_BYTES);
    offer->hashes.end = offer->hashes.start + kept * SHA256_TEXT_BYTES;
    offer->missing = kept;
}

static weft_status look_through(const char *store, const void *bytes, size_t size, const struct snapshot_limits *limits,
                                struct snapshot_offer *offer, struct error *error)
{
    struct snapshot_list list;
    struct snapshot_entry entry;
    bool found = true, there;
    weft_status status = snapshot_list_open(&list, bytes, size, "what was sent", error);
    while (status == WEFT_OK) {
        status = snapshot_list_next(&list, &entry, &found, error);
        if (status != WEFT_OK || !found)
            break;
        offer->entries++;
        if (!snapshot_entry_is_file(&entry))
            entry.size = 0;
        offer->bytes += entry.size;
        status = check_limits(offer, &entry, limits, error);
        if (status != WEFT_OK || !snapshot_entry_is_file(&entry))
            continue;
        status = find_object(store, entry.hash, entry.size, &there, error);
        if (status == WEFT_OK && !there)
            buffer_put(&offer->hashes, entry.hash, SHA256_TEXT_BYTES);
    }
    if (status == WEFT_OK && offer->hashes.failed)
        status = error_memory(error, buffer_size(&offer->hashes), "the list of missing objects");
    if (status == WEFT_OK)
        sort_missing(offer);
    return status;
}

weft_status snapshot_receive_list(const char *store, const void *bytes, size_t size,
                                  const struct snapshot_limits *limits, struct snapshot_offer *offer,
                                  struct error *error)
{
    static const struct snapshot_limits standard = {SNAPSHOT_BYTES_MOST, SNAPSHOT_FILE_MOST, SNAPSHOT_ENTRIES_MOST};
    uint8_t digest[SHA256_BYTES];
    char path[FILE_PATH_BYTES];
    *offer = (struct snapshot_offer){0};
    weft_status status = sha256_of(bytes, size, digest, error);
    if (status == WEFT_OK)
        status = look_through(store, bytes, size, limits ? limits : &standard, offer, error);
    sha256_text(digest, offer->id);
    if (status != WEFT_OK || offer->missing || snapshot_is_there(store, offer->id))
        return status;
    status = snapshot_store_make(store, error);
    if (status == WEFT_OK)
        status = snapshot_list_path(path, store, offer->id, error);
    if (status == WEFT_OK) /* the names of its objects, which were synced before they had them */
        status = sync_store(store, error);
    return status == WEFT_OK ? snapshot_list_write(path, bytes, size, error) : status;
}

bool snapshot_is_there(const char *store, const char *id)
{
    char path[FILE_PATH_BYTES];
    return snapshot_list_path(path, store, id, NULL) == WEFT_OK && snapshot_mark(path);
}
