/* SPDX-License-Identifier: Apache-2.0 */
/** Paths, objects and lists of a store of snapshots (platform/snapshot/snapshot.h). Thread-safe. */
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

/** Make the store if it is missing; other users cannot read it. Errors: SYSTEM. */
weft_status snapshot_store_make(const char *store, struct error *error);

/** Sync the file system that the store is on. */
weft_status snapshot_store_sync(const char *store, struct error *error);

/**
 * The path of the store within `store` for snapshots of the user `owner` that have owner-only files. Their lists and
 * objects are nowhere else. Makes nothing.
 */
weft_status snapshot_store_private(char path[FILE_PATH_BYTES], const char *store, const char *owner,
                                   struct error *error);

/** The same, and make both stores. */
weft_status snapshot_store_make_private(char path[FILE_PATH_BYTES], const char *store, const char *owner,
                                        struct error *error);

/** Which store has the snapshot `id` for `owner`: `store` or the private one. False: neither. Marks it as used. */
bool snapshot_store_find(char path[FILE_PATH_BYTES], const char *store, const char *owner, const char *id);

/** Write the list of a snapshot to `path` (snapshot_list_path()), with an owner-only mode. */
weft_status snapshot_list_write(const char *path, const void *list, size_t size, struct error *error);

/** Whether the store has the object `hash` with that size; marks it as used. */
bool snapshot_object_find(const char *store, const char *hash, uint64_t size);

/** Read the object `hash`; the caller frees `*content`. Errors: SYSTEM; DATA if the content does not have that hash. */
weft_status snapshot_object_read(const char *store, const char *hash, char **content, size_t *size,
                                 struct error *error);

/** The path of the list of the snapshot `id`. Errors: ARGUMENT if `id` is not 64 hexadecimal digits. */
weft_status snapshot_list_path(char path[FILE_PATH_BYTES], const char *store, const char *id, struct error *error);

/** Whether a store has the snapshot `id`, which may be any text; marks it as used. */
bool snapshot_is_there(const char *store, const char *id);

/** Mark the file at `path` as used, by its access time; snapshot_collect() keeps it. False: it is missing. */
bool snapshot_mark(const char *path);

/** Read the list of the snapshot `id`; the caller frees `*text`. Errors: SYSTEM; DATA if it is damaged. */
weft_status snapshot_list_load(const char *store, const char *id, char path[FILE_PATH_BYTES], char **text, size_t *size,
                               struct error *error);

#endif
