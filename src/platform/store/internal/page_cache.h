/* SPDX-License-Identifier: Apache-2.0 */
/**
 * Pages of databases in this process's own memory, for all of its handles on them.
 *
 * A handle of SQLite's has a cache of its own, which a reader loses with each commit of the writer: what it reads next
 * comes from the operating system. That keeps files in memory only as long as nobody needs the memory for something
 * else. Training does: programs on the same machine that stream their data through it, or a host that takes back what
 * its guests do not use. Then a look at an old run waits for a disk that is busy with writes, for some 100 ms, and with
 * it everybody whom the same thread serves.
 *
 * So the files of a database (it and its write-ahead log) are read through this cache by those who open it with
 * database_open_cached(); what is written through it stays in it. The rule: while anybody in this process has a
 * database open through a cache, nobody writes to it but through the same cache. The lock of its writer
 * (database.h) sees to other processes.
 *
 *     page_cache_new(64 << 20, &cache, error);
 *     database_open_cached(cache, path, &schema, DATABASE_WRITER, &database, error);
 *     ... and the same with DATABASE_READER, in other threads
 *     database_close(...);
 *     page_cache_free(cache);
 *
 * A cache belongs to all threads at once; the functions here lock it for themselves.
 */
#ifndef WEFT_PLATFORM_STORE_INTERNAL_PAGE_CACHE_H
#define WEFT_PLATFORM_STORE_INTERNAL_PAGE_CACHE_H

#include "base/error.h"

#include <stddef.h>
#include <stdint.h>

struct page_cache;

/** A cache of at most `bytes`, which take memory as they are filled; what was not used for longest, about, makes room.
 * Errors: MEMORY. */
weft_status page_cache_new(size_t bytes, struct page_cache **cache, struct error *error);

/** When all databases that were opened through it are closed; NULL is harmless. */
void page_cache_free(struct page_cache *cache);

/** What it has done. */
struct page_cache_counts {
    uint64_t hits, misses; /**< reads that it has answered, and those that the operating system has */
    uint64_t bytes;        /**< that it holds */
};
struct page_cache_counts page_cache_counts(struct page_cache *cache);

#endif
