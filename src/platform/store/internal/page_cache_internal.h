/* SPDX-License-Identifier: Apache-2.0 */
/**
 * What page_cache.c does for page_cache_vfs.c: files as blocks of CACHE_BLOCK bytes, some of which are held.
 *
 * A block is held from its beginning, for as many bytes as are known (`length`; a write-ahead log grows by pieces). A
 * read is answered if all of its bytes are held. Otherwise it is read from the file, and kept if nothing was written
 * to the file meanwhile: a reader must not put back what a writer has just replaced.
 */
#ifndef WEFT_PLATFORM_STORE_INTERNAL_PAGE_CACHE_INTERNAL_H
#define WEFT_PLATFORM_STORE_INTERNAL_PAGE_CACHE_INTERNAL_H

#include "platform/store/internal/page_cache.h"

#include <stdbool.h>

#define CACHE_BLOCK 4096

struct cached_file;

/** The file of that name, for one more handle; what is held of it is dropped where it is the first. NULL: no memory. */
struct cached_file *cached_file_open(struct page_cache *cache, const char *name);
void cached_file_close(struct cached_file *file);

/** Copy what was asked for if it is held; otherwise false, and `*moment` is for cached_file_keep(). */
bool cached_file_read(struct cached_file *file, void *buffer, size_t size, uint64_t offset, uint64_t *moment);

/** Keep what was read from the file since `moment`, unless something has been written since. */
void cached_file_keep(struct cached_file *file, const void *buffer, size_t size, uint64_t offset, uint64_t moment);

/** Something has been written: it is held, in place of what was kept meanwhile; or nobody knows what is there now
 * (`good` is false). Call this behind the write. */
void cached_file_written(struct cached_file *file, const void *buffer, size_t size, uint64_t offset, bool good);

/** The file ends at `size` now. */
void cached_file_truncated(struct cached_file *file, uint64_t size);

/** The name by which SQLite knows the cache's way to files (sqlite3_open_v2), and making it known and unknown. */
const char *page_cache_vfs_name(const struct page_cache *cache);
struct page_cache_vfs;
weft_status page_cache_vfs_new(struct page_cache *cache, struct page_cache_vfs **vfs, struct error *error);
void page_cache_vfs_free(struct page_cache_vfs *vfs);
const char *page_cache_vfs_text(const struct page_cache_vfs *vfs);

#endif
