/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The cache as SQLite sees it: a way to files (sqlite3_vfs) that is the operating system's but for reads and writes of
 * databases and their logs. Locks and shared memory are the operating system's own, so handles that go through the
 * cache and others work on the same database, within the rule of page_cache.h.
 */
#include "platform/store/internal/page_cache_internal.h"

#include <inttypes.h>
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>

struct page_cache_vfs {
    sqlite3_vfs vfs;
    sqlite3_vfs *real;
    struct page_cache *cache;
    char name[40];
};

/* A file that is cached; the operating system's lies behind it in the same memory. */
struct page_cache_vfs_file {
    sqlite3_file base;
    struct cached_file *cached;
    sqlite3_file real[];
};

static struct page_cache_vfs_file *of(sqlite3_file *file)
{
    return (struct page_cache_vfs_file *)file;
}

/* ---- files ---- */

static int file_close(sqlite3_file *file)
{
    int code = of(file)->real->pMethods->xClose(of(file)->real);
    cached_file_close(of(file)->cached);
    return code;
}

static int page_cache_vfs_file_read(sqlite3_file *file, void *buffer, int size, sqlite3_int64 offset)
{
    sqlite3_file *real = of(file)->real;
    uint64_t moment;
    if (cached_file_read(of(file)->cached, buffer, (size_t)size, (uint64_t)offset, &moment))
        return SQLITE_OK;
    int code = real->pMethods->xRead(real, buffer, size, offset);
    if (code == SQLITE_OK)
        cached_file_keep(of(file)->cached, buffer, (size_t)size, (uint64_t)offset, moment);
    return code;
}

static int page_cache_vfs_file_write(sqlite3_file *file, const void *buffer, int size, sqlite3_int64 offset)
{
    sqlite3_file *real = of(file)->real;
    int code = real->pMethods->xWrite(real, buffer, size, offset);
    cached_file_written(of(file)->cached, buffer, (size_t)size, (uint64_t)offset, code == SQLITE_OK);
    return code;
}

static int file_truncate(sqlite3_file *file, sqlite3_int64 size)
{
    sqlite3_file *real = of(file)->real;
    int code = real->pMethods->xTruncate(real, size);
    cached_file_truncated(of(file)->cached, code == SQLITE_OK ? (uint64_t)size : 0);
    return code;
}

static int file_sync(sqlite3_file *file, int flags)
{
    return of(file)->real->pMethods->xSync(of(file)->real, flags);
}

static int file_size(sqlite3_file *file, sqlite3_int64 *size)
{
    return of(file)->real->pMethods->xFileSize(of(file)->real, size);
}

static int file_lock(sqlite3_file *file, int lock)
{
    return of(file)->real->pMethods->xLock(of(file)->real, lock);
}

static int file_unlock(sqlite3_file *file, int lock)
{
    return of(file)->real->pMethods->xUnlock(of(file)->real, lock);
}

static int file_check_lock(sqlite3_file *file, int *locked)
{
    return of(file)->real->pMethods->xCheckReservedLock(of(file)->real, locked);
}

static int file_control(sqlite3_file *file, int operation, void *argument)
{
    return of(file)->real->pMethods->xFileControl(of(file)->real, operation, argument);
}

static int file_sector_size(sqlite3_file *file)
{
    return of(file)->real->pMethods->xSectorSize(of(file)->real);
}

static int file_characteristics(sqlite3_file *file)
{
    return of(file)->real->pMethods->xDeviceCharacteristics(of(file)->real);
}

static int page_cache_vfs_file_map(sqlite3_file *file, int region, int size, int extend, void volatile **memory)
{
    return of(file)->real->pMethods->xShmMap(of(file)->real, region, size, extend, memory);
}

static int file_lock_map(sqlite3_file *file, int offset, int count, int flags)
{
    return of(file)->real->pMethods->xShmLock(of(file)->real, offset, count, flags);
}

static void file_barrier(sqlite3_file *file)
{
    of(file)->real->pMethods->xShmBarrier(of(file)->real);
}

static int page_cache_vfs_file_unmap(sqlite3_file *file, int remove)
{
    return of(file)->real->pMethods->xShmUnmap(of(file)->real, remove);
}

/* Of version 2: without xFetch, by which SQLite would read past the cache. */
static const sqlite3_io_methods methods = {.iVersion = 2,
                                           .xClose = file_close,
                                           .xRead = page_cache_vfs_file_read,
                                           .xWrite = page_cache_vfs_file_write,
                                           .xTruncate = file_truncate,
                                           .xSync = file_sync,
                                           .xFileSize = file_size,
                                           .xLock = file_lock,
                                           .xUnlock = file_unlock,
                                           .xCheckReservedLock = file_check_lock,
                                           .xFileControl = file_control,
                                           .xSectorSize = file_sector_size,
                                           .xDeviceCharacteristics = file_characteristics,
                                           .xShmMap = page_cache_vfs_file_map,
                                           .xShmLock = file_lock_map,
                                           .xShmBarrier = file_barrier,
                                           .xShmUnmap = page_cache_vfs_file_unmap};

/* ---- the way to them ---- */

static struct page_cache_vfs *way(sqlite3_vfs *vfs)
{
    return vfs->pAppData;
}

static int way_open(sqlite3_vfs *vfs, const char *name, sqlite3_file *file, int flags, int *out)
{
    sqlite3_vfs *real = way(vfs)->real;
    struct page_cache_vfs_file *opened = of(file);
    if (!name || !(flags & (SQLITE_OPEN_MAIN_DB | SQLITE_OPEN_WAL)))
        return real->xOpen(real, name, file, flags, out);
    opened->base.pMethods = NULL;
    opened->real->pMethods = NULL;
    opened->cached = cached_file_open(way(vfs)->cache, name);
    if (!opened->cached)
        return SQLITE_NOMEM;
    int code = real->xOpen(real, name, opened->real, flags, out);
    if (opened->real->pMethods) /* then it is to be closed, also where it could not be opened */
        opened->base.pMethods = &methods;
    else
        cached_file_close(opened->cached);
    return code;
}

static int way_delete(sqlite3_vfs *vfs, const char *name, int sync)
{
    return way(vfs)->real->xDelete(way(vfs)->real, name, sync);
}

static int way_access(sqlite3_vfs *vfs, const char *name, int flags, int *result)
{
    return way(vfs)->real->xAccess(way(vfs)->real, name, flags, result);
}

static int way_full_path(sqlite3_vfs *vfs, const char *name, int room, char *path)
{
    return way(vfs)->real->xFullPathname(way(vfs)->real, name, room, path);
}

static int way_random(sqlite3_vfs *vfs, int size, char *bytes)
{
    return way(vfs)->real->xRandomness(way(vfs)->real, size, bytes);
}

static int way_sleep(sqlite3_vfs *vfs, int microseconds)
{
    return way(vfs)->real->xSleep(way(vfs)->real, microseconds);
}

static int way_last_error(sqlite3_vfs *vfs, int room, char *text)
{
    return way(vfs)->real->xGetLastError(way(vfs)->real, room, text);
}

static int way_time(sqlite3_vfs *vfs, sqlite3_int64 *milliseconds)
{
    return way(vfs)->real->xCurrentTimeInt64(way(vfs)->real, milliseconds);
}

weft_status page_cache_vfs_new(struct page_cache *cache, struct page_cache_vfs **vfs, struct error *error)
{
    struct page_cache_vfs *made = calloc(1, sizeof *made);
    if (!made)
        return error_memory(error, sizeof *made, "a cache of pages");
    made->real = sqlite3_vfs_find(NULL);
    made->cache = cache;
    snprintf(made->name, sizeof made->name, "weft-pages-%" PRIxPTR, (uintptr_t)made);
    made->vfs =
        (sqlite3_vfs){.iVersion = 2,
                      .szOsFile = (int)sizeof(struct page_cache_vfs_file) + (made->real ? made->real->szOsFile : 0),
                      .mxPathname = made->real ? made->real->mxPathname : 0,
                      .zName = made->name,
                      .pAppData = made,
                      .xOpen = way_open,
                      .xDelete = way_delete,
                      .xAccess = way_access,
                      .xFullPathname = way_full_path,
                      .xRandomness = way_random,
                      .xSleep = way_sleep,
                      .xGetLastError = way_last_error,
                      .xCurrentTimeInt64 = way_time};
    if (!made->real || made->real->iVersion < 2 || sqlite3_vfs_register(&made->vfs, 0) != SQLITE_OK) {
        free(made);
        return error_set(error, WEFT_ERROR_SYSTEM, "SQLite does not take a cache of pages");
    }
    *vfs = made;
    return WEFT_OK;
}

void page_cache_vfs_free(struct page_cache_vfs *vfs)
{
    if (!vfs)
        return;
    sqlite3_vfs_unregister(&vfs->vfs);
    free(vfs);
}

const char *page_cache_vfs_text(const struct page_cache_vfs *vfs)
{
    return vfs->name;
}
