/* SPDX-License-Identifier: Apache-2.0 */
/* Which blocks of which files are held, and where: a table by hash, and a clock that finds what makes room. */
#include "platform/store/internal/page_cache_internal.h"

#include "base/hash.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#define NOWHERE UINT32_MAX

struct block {
    struct cached_file *file; /* NULL: a free one */
    uint64_t number;          /* in the file */
    uint32_t next;            /* with the same hash; of a free one the next free */
    uint16_t length;          /* bytes held */
    bool used;                /* since the clock's hand went by */
};

struct cached_file {
    struct cached_file *next;
    struct page_cache *cache;
    unsigned handles;
    uint64_t moment; /* grows with every write */
    char name[];
};

struct page_cache {
    pthread_mutex_t lock; /* of all that follows */
    struct page_cache_vfs *vfs;
    unsigned char *memory;
    struct block *blocks;
    uint32_t *heads; /* by hash: the first of a list of blocks */
    uint32_t count, head_mask, free, hand;
    struct cached_file *files;
    struct page_cache_counts counts;
};

static uint32_t *head_of(const struct page_cache *cache, const struct cached_file *file, uint64_t number)
{
    return &cache->heads[hash_number(number, (uintptr_t)file) & cache->head_mask];
}

static struct block *page_cache_find(struct page_cache *cache, const struct cached_file *file, uint64_t number)
{
    for (uint32_t at = *head_of(cache, file, number); at != NOWHERE; at = cache->blocks[at].next)
        if (cache->blocks[at].file == file && cache->blocks[at].number == number)
            return &cache->blocks[at];
    return NULL;
}

static unsigned char *page_cache_bytes_of(const struct page_cache *cache, const struct block *block)
{
    return cache->memory + (size_t)(block - cache->blocks) * CACHE_BLOCK;
}

static void page_cache_drop(struct page_cache *cache, struct block *block)
{
    const uint32_t index = (uint32_t)(block - cache->blocks);
    uint32_t *link = head_of(cache, block->file, block->number);
    while (*link != index)
        link = &cache->blocks[*link].next;
    *link = block->next;
    block->file = NULL;
    block->next = cache->free;
    cache->free = index;
    cache->counts.bytes -= CACHE_BLOCK;
}

/* Blocks from number `from` on. */
static void drop_from(struct cached_file *file, uint64_t from)
{
    struct page_cache *cache = file->cache;
    for (uint32_t i = 0; i < cache->count; i++)
        if (cache->blocks[i].file == file && cache->blocks[i].number >= from)
            page_cache_drop(cache, &cache->blocks[i]);
}

/* Room for one more block: what the hand finds unused since it last went by. */
static void page_cache_make_room(struct page_cache *cache)
{
    for (;;) {
        struct block *block = &cache->blocks[cache->hand];
        cache->hand = (cache->hand + 1) % cache->count;
        if (block->file && !block->used) {
            page_cache_drop(cache, block);
            return;
        }
        block->used = false;
    }
}

static struct block *page_cache_add(struct page_cache *cache, struct cached_file *file, uint64_t number)
{
    if (cache->free == NOWHERE)
        page_cache_make_room(cache);
    struct block *block = &cache->blocks[cache->free];
    uint32_t *head = head_of(cache, file, number);
    const uint32_t index = cache->free;
    cache->free = block->next;
    *block = (struct block){.file = file, .number = number, .next = *head};
    *head = index;
    cache->counts.bytes += CACHE_BLOCK;
    return block;
}

/* The part of a range of bytes that lies in the block where it begins. */
static size_t part(uint64_t offset, size_t size)
{
    const size_t room = CACHE_BLOCK - offset % CACHE_BLOCK;
    return size < room ? size : room;
}

/* Hold bytes: those that follow what is held of a block, or replace some of it. Others would leave a gap. */
static void page_cache_hold(struct cached_file *file, const void *buffer, size_t size, uint64_t offset)
{
    struct page_cache *cache = file->cache;
    const unsigned char *from = buffer;
    for (size_t now; size > 0; size -= now, offset += now, from += now) {
        const size_t within = offset % CACHE_BLOCK;
        struct block *block = page_cache_find(cache, file, offset / CACHE_BLOCK);
        now = part(offset, size);
        if (block)
            block->used = true;
        else if (within ==
                 0) /* not used before it is asked for again, so that what is read but once makes room first */
            block = page_cache_add(cache, file, offset / CACHE_BLOCK);
        if (!block || within > block->length)
            continue;
        memcpy(page_cache_bytes_of(cache, block) + within, from, now);
        if (within + now > block->length)
            block->length = (uint16_t)(within + now);
    }
}

bool cached_file_read(struct cached_file *file, void *buffer, size_t size, uint64_t offset, uint64_t *moment)
{
    struct page_cache *cache = file->cache;
    unsigned char *to = buffer;
    bool held = true;
    pthread_mutex_lock(&cache->lock);
    for (size_t now; size > 0 && held; size -= now, offset += now, to += now) {
        const size_t within = offset % CACHE_BLOCK;
        struct block *block = page_cache_find(cache, file, offset / CACHE_BLOCK);
        now = part(offset, size);
        held = block && within + now <= block->length;
        if (!held)
            break;
        memcpy(to, page_cache_bytes_of(cache, block) + within, now);
        block->used = true;
    }
    cache->counts.hits += held;
    cache->counts.misses += !held;
    *moment = file->moment;
    pthread_mutex_unlock(&cache->lock);
    return held;
}

void cached_file_keep(struct cached_file *file, const void *buffer, size_t size, uint64_t offset, uint64_t moment)
{
    pthread_mutex_lock(&file->cache->lock);
    if (file->moment == moment)
        page_cache_hold(file, buffer, size, offset);
    pthread_mutex_unlock(&file->cache->lock);
}

void cached_file_written(struct cached_file *file, const void *buffer, size_t size, uint64_t offset, bool good)
{
    struct page_cache *cache = file->cache;
    pthread_mutex_lock(&cache->lock);
    file->moment++;
    if (good)
        page_cache_hold(file, buffer, size, offset);
    for (uint64_t number = offset / CACHE_BLOCK; !good && number * CACHE_BLOCK < offset + size; number++) {
        struct block *block = page_cache_find(cache, file, number);
        if (block)
            page_cache_drop(cache, block);
    }
    pthread_mutex_unlock(&cache->lock);
}

void cached_file_truncated(struct cached_file *file, uint64_t size)
{
    struct page_cache *cache = file->cache;
    pthread_mutex_lock(&cache->lock);
    file->moment++;
    drop_from(file, (size + CACHE_BLOCK - 1) / CACHE_BLOCK);
    struct block *last = page_cache_find(cache, file, size / CACHE_BLOCK);
    if (last && last->length > size % CACHE_BLOCK)
        last->length = (uint16_t)(size % CACHE_BLOCK);
    pthread_mutex_unlock(&cache->lock);
}

/* ---- files ---- */

static struct cached_file *page_cache_find_file(const struct page_cache *cache, const char *name)
{
    for (struct cached_file *file = cache->files; file; file = file->next)
        if (strcmp(file->name, name) == 0)
            return file;
    return NULL;
}

struct cached_file *cached_file_open(struct page_cache *cache, const char *name)
{
    pthread_mutex_lock(&cache->lock);
    struct cached_file *file = page_cache_find_file(cache, name);
    if (!file && (file = calloc(1, sizeof *file + strlen(name) + 1))) {
        file->cache = cache;
        strcpy(file->name, name);
        file->next = cache->files;
        cache->files = file;
    }
    if (file && file->handles++ == 0) /* while nobody here had it open, anybody may have changed it */
        drop_from(file, 0);
    pthread_mutex_unlock(&cache->lock);
    return file;
}

void cached_file_close(struct cached_file *file)
{
    pthread_mutex_lock(&file->cache->lock);
    file->handles--;
    pthread_mutex_unlock(&file->cache->lock);
}

/* ---- the cache ---- */

static weft_status make_tables(struct page_cache *cache, size_t bytes, struct error *error)
{
    cache->count = (uint32_t)(bytes / CACHE_BLOCK);
    uint32_t heads = 1;
    while (heads < cache->count)
        heads *= 2;
    cache->head_mask = heads - 1;
    cache->blocks = calloc(cache->count, sizeof *cache->blocks);
    cache->heads = malloc(heads * sizeof *cache->heads);
    void *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    cache->memory = memory == MAP_FAILED ? NULL : memory;
    if (!cache->blocks || !cache->heads || !cache->memory)
        return error_memory(error, bytes, "a cache of pages");
    memset(cache->heads, 0xff, heads * sizeof *cache->heads);
    for (uint32_t i = 0; i < cache->count; i++)
        cache->blocks[i].next = i + 1 < cache->count ? i + 1 : NOWHERE;
    return WEFT_OK;
}

weft_status page_cache_new(size_t bytes, struct page_cache **cache, struct error *error)
{
    struct page_cache *made = calloc(1, sizeof *made);
    if (!made)
        return error_memory(error, sizeof *made, "a cache of pages");
    bytes = bytes < CACHE_BLOCK ? CACHE_BLOCK : bytes / CACHE_BLOCK * CACHE_BLOCK;
    pthread_mutex_init(&made->lock, NULL);
    weft_status status = make_tables(made, bytes, error);
    if (status == WEFT_OK)
        status = page_cache_vfs_new(made, &made->vfs, error);
    if (status != WEFT_OK) {
        page_cache_free(made);
        return status;
    }
    *cache = made;
    return WEFT_OK;
}

void page_cache_free(struct page_cache *cache)
{
    if (!cache)
        return;
    page_cache_vfs_free(cache->vfs);
    for (struct cached_file *file = cache->files, *next; file; file = next) {
        next = file->next;
        free(file);
    }
    if (cache->memory)
        munmap(cache->memory, (size_t)cache->count * CACHE_BLOCK);
    free(cache->blocks);
    free(cache->heads);
    pthread_mutex_destroy(&cache->lock);
    free(cache);
}

struct page_cache_counts page_cache_counts(struct page_cache *cache)
{
    pthread_mutex_lock(&cache->lock);
    struct page_cache_counts counts = cache->counts;
    pthread_mutex_unlock(&cache->lock);
    return counts;
}

const char *page_cache_vfs_name(const struct page_cache *cache)
{
    return page_cache_vfs_text(cache->vfs);
}
