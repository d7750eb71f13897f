/* SPDX-License-Identifier: Apache-2.0 */
/** Where things are in a store of snapshots (snapshot.h): for those who write there and those who read. */
#ifndef WEFT_PLATFORM_SNAPSHOT_STORE_H
#define WEFT_PLATFORM_SNAPSHOT_STORE_H

#include "base/file/file.h"

#include <stdbool.h>

/**
 * The path of the object `hash` in `store`. `name` is the file's name, usually the rest of the hash (`hash` + 2); NULL:
 * the path of its directory.
 */
weft_status snapshot_object_path(char path[FILE_PATH_BYTES], const char *store, const char *hash, const char *name,
                                 struct error *error);

/** Make the store, which others cannot read. */
weft_status snapshot_store_make(const char *store, struct error *error);

/** Sync the file system that the store is on. */
weft_status snapshot_store_sync(const char *store, struct error *error);

/**
 * The store within `store` for the snapshots of `owner`, a name, that have files which nobody else may read: their
 * lists and objects are there and nowhere else. Nothing is made.
 */
weft_status snapshot_store_private(char path[FILE_PATH_BYTES], const char *store, const char *owner,
                                   struct error *error);

/** The same, and make both. */
weft_status snapshot_store_make_private(char path[FILE_PATH_BYTES], const char *store, const char *owner,
                                        struct error *error);

/** Where `owner` finds the snapshot `id`: `store`, or its private one. False: neither has it. Marks it as used. */
bool snapshot_store_find(char path[FILE_PATH_BYTES], const char *store, const char *owner, const char *id);

/** Write the list of a snapshot to `path` (snapshot_list_path()), for this user alone. */
weft_status snapshot_list_write(const char *path, const void *list, size_t size, struct error *error);

/** Whether the store has the object `hash` with that size; marks it as used. */
bool snapshot_object_find(const char *store, const char *hash, uint64_t size);

/** Read the object `hash`; the caller frees `*content`. Errors: SYSTEM; DATA if the content does not have that hash. */
weft_status snapshot_object_read(const char *store, const char *hash, char **content, size_t *size,
                                 struct error *error);

/** Where the list of the snapshot `id` is. Errors: ARGUMENT for what is no name of one. */
weft_status snapshot_list_path(char path[FILE_PATH_BYTES], const char *store, const char *id, struct error *error);

/** Whether a store has the snapshot `id`; what is no name of one is not there. Marks it as used. */
bool snapshot_is_there(const char *store, const char *id);

/** Note in its time of access that what is at `path` is used; false where it is not there. */
bool snapshot_mark(const char *path);

/** The list of the snapshot `id`, whole and as its name says; `*text` is to be freed. */
weft_status snapshot_list_load(const char *store, const char *id, char path[FILE_PATH_BYTES], char **text, size_t *size,
                               struct error *error);

#endif
