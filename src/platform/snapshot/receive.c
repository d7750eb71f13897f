/* SPDX-License-Identifier: Apache-2.0 */
#include "platform/snapshot/receive.h"

#include "base/text.h"
#include "platform/snapshot/internal/objects.h"
#include "platform/snapshot/list.h"
#include "platform/snapshot/pack.h"
#include "platform/snapshot/store.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

/* ---- objects ---- */

static weft_status check_object(const struct snapshot_object *object, struct error *error)
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

weft_status snapshot_receive_objects(const char *store, const void *pack, size_t size, uint64_t *count,
                                     struct error *error)
{
    struct snapshot_objects objects;
    struct snapshot_object object;
    bool found = true;
    size_t at = 0;
    weft_status status = snapshot_objects_begin(&objects, store, error);
    while (status == WEFT_OK && (status = snapshot_pack_next(pack, size, &at, &object, &found, error)) == WEFT_OK &&
           found) {
        status = check_object(&object, error);
        if (status == WEFT_OK)
            status = snapshot_objects_put(&objects, object.hash, object.bytes, object.size, error);
    }
    if (status == WEFT_OK)
        status = snapshot_objects_commit(&objects, error);
    if (status == WEFT_OK)
        *count = objects.count;
    snapshot_objects_end(&objects);
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
    bool found = true;
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
        if (!snapshot_object_find(store, entry.hash, entry.size))
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
        status = snapshot_store_sync(store, error);
    return status == WEFT_OK ? snapshot_list_write(path, bytes, size, error) : status;
}
