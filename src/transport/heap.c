/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The books: every byte below `touched` belongs to one block, free or handed out; blocks know their neighbours in
 * address order, so that free ones are always joined. Free blocks hang in bins by size (four bins to a power of two),
 * found through a bitmap; blocks handed out hang in a hash table by address. What lies above `touched` was never used:
 * it is zero and needs no clearing. After M. Masmano et al., "TLSF: a new dynamic memory allocator for real-time
 * systems", ECRTS 2004, with the headers moved out.
 */
#include "transport/heap.h"

#include "base/text.h"
#include "topology/limits.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23
#endif

#define GRANULE    128u
#define PAGE       4096u
#define BINS       256u
#define BIN_WORDS  (BINS / 64)
#define LEAST_HEAP (UINT64_C(1) << 20)
#define LOOK_FROM  (UINT64_C(4) << 20)  /* growth from this size on asks the machine what is left */
#define SPARE      (UINT64_C(64) << 20) /* left to the rest of the machine when growing */

struct block {
    uint64_t offset, bytes;
    bool is_free;
    const void *owner;             /* of one handed out; NULL: nobody is named */
    struct block *before, *after;  /* in address order */
    struct block *next, *previous; /* in the bin, the hash chain (next only) or the spare list (next only) */
};

struct attachment {
    uint64_t identity, bytes;
    char *base;
    uint32_t users;
    struct attachment *next;
};

struct heap_books {
    pthread_mutex_t lock;
    uint64_t touched; /* bytes below this have been handed out once */
    uint64_t in_use;
    struct block *last; /* the block that ends at `touched` */
    struct block *bins[BINS];
    uint64_t bin_used[BIN_WORDS];
    struct block **handed_out; /* hash table by offset */
    uint64_t handed_out_count, handed_out_size;
    struct block *spare; /* block records for the next use */
    struct attachment *attachments;
};

/* ---- bins and the table ---------------------------------------------------------------------------------------- */

/* The bin whose blocks all have at least the size that begins it: bin 4 k + q begins at (4 + q) 2^(k - 2) granules. */
static unsigned bin_of(uint64_t bytes)
{
    uint64_t granules = bytes / GRANULE;
    if (granules < 4)
        return (unsigned)granules;
    unsigned exponent = 63u - (unsigned)__builtin_clzll(granules);
    return 4 * (exponent - 1) + (unsigned)((granules >> (exponent - 2)) & 3);
}

static void bin_insert(struct heap_books *books, struct block *block)
{
    unsigned bin = bin_of(block->bytes);
    block->is_free = true;
    block->previous = NULL;
    block->next = books->bins[bin];
    if (block->next)
        block->next->previous = block;
    books->bins[bin] = block;
    books->bin_used[bin / 64] |= UINT64_C(1) << bin % 64;
}

static void bin_remove(struct heap_books *books, struct block *block)
{
    unsigned bin = bin_of(block->bytes);
    if (block->previous)
        block->previous->next = block->next;
    else
        books->bins[bin] = block->next;
    if (block->next)
        block->next->previous = block->previous;
    if (!books->bins[bin])
        books->bin_used[bin / 64] &= ~(UINT64_C(1) << bin % 64);
    block->is_free = false;
}

static uint64_t slot_of(const struct heap_books *books, uint64_t offset)
{
    return (offset / GRANULE * UINT64_C(0x9e3779b97f4a7c15) >> 20) & (books->handed_out_size - 1);
}

static void table_insert(struct heap_books *books, struct block *block)
{
    struct block **slot = &books->handed_out[slot_of(books, block->offset)];
    block->next = *slot;
    *slot = block;
    books->handed_out_count++;
    books->in_use += block->bytes;
}

static struct block *table_take(struct heap_books *books, uint64_t offset)
{
    struct block **link = &books->handed_out[slot_of(books, offset)];
    while (*link && (*link)->offset != offset)
        link = &(*link)->next;
    struct block *block = *link;
    if (!block)
        return NULL;
    *link = block->next;
    books->handed_out_count--;
    books->in_use -= block->bytes;
    block->owner = NULL;
    return block;
}

/* Keep chains short; a table that cannot grow only becomes slower. */
static void table_grow(struct heap_books *books)
{
    if (books->handed_out_count < books->handed_out_size)
        return;
    uint64_t old_size = books->handed_out_size;
    struct block **old = books->handed_out, **table = calloc(4 * old_size, sizeof *table);
    if (!table)
        return;
    books->handed_out = table;
    books->handed_out_size = 4 * old_size;
    for (uint64_t i = 0; i < old_size; i++)
        for (struct block *block = old[i], *next; block; block = next) {
            next = block->next;
            struct block **slot = &table[slot_of(books, block->offset)];
            block->next = *slot;
            *slot = block;
        }
    free(old);
}

static void record_give_back(struct heap_books *books, struct block *block)
{
    block->next = books->spare;
    books->spare = block;
}

/* Have `count` block records in reserve, so that no step of an allocation can fail half-way. */
static bool records_reserve(struct heap_books *books, unsigned count)
{
    unsigned have = 0;
    for (struct block *block = books->spare; block && have < count; block = block->next)
        have++;
    for (; have < count; have++) {
        struct block *block = malloc(sizeof *block);
        if (!block)
            return false;
        record_give_back(books, block);
    }
    return true;
}

static struct block *record_take(struct heap_books *books, uint64_t offset, uint64_t bytes)
{
    struct block *block = books->spare;
    books->spare = block->next;
    *block = (struct block){.offset = offset, .bytes = bytes};
    return block;
}

/* ---- splitting and joining --------------------------------------------------------------------------------------- */

/* Cut `block` at `bytes` from its beginning; the rest becomes a block after it, returned. Neither is in a bin. */
static struct block *block_cut(struct heap_books *books, struct block *block, uint64_t bytes)
{
    struct block *rest = record_take(books, block->offset + bytes, block->bytes - bytes);
    block->bytes = bytes;
    rest->before = block;
    rest->after = block->after;
    if (rest->after)
        rest->after->before = rest;
    else
        books->last = rest;
    block->after = rest;
    return rest;
}

/* Join `block` with the one after it. */
static void block_join(struct heap_books *books, struct block *block)
{
    struct block *gone = block->after;
    block->bytes += gone->bytes;
    block->after = gone->after;
    if (block->after)
        block->after->before = block;
    else
        books->last = block;
    record_give_back(books, gone);
}

static void block_release(struct heap_books *books, struct block *block)
{
    if (block->after && block->after->is_free) {
        bin_remove(books, block->after);
        block_join(books, block);
    }
    if (block->before && block->before->is_free) {
        block = block->before;
        bin_remove(books, block);
        block_join(books, block);
    }
    bin_insert(books, block);
}

static uint64_t align_up(uint64_t value, uint64_t alignment)
{
    return (value + alignment - 1) & ~(alignment - 1);
}

/* Room that `block` has for `bytes` at the alignment: where it would begin, or HEAP_NOWHERE. */
static uint64_t block_place(const struct block *block, uint64_t bytes, uint64_t alignment)
{
    uint64_t offset = align_up(block->offset, alignment);
    return offset + bytes <= block->offset + block->bytes ? offset : HEAP_NOWHERE;
}

/* The smallest free block of the first bin that has one in which `bytes` fit. */
static struct block *find_free(const struct heap_books *books, uint64_t bytes, uint64_t alignment)
{
    unsigned bin = bin_of(bytes);
    for (unsigned word = bin / 64; word < BIN_WORDS; word++) {
        uint64_t used = books->bin_used[word];
        if (word == bin / 64)
            used &= ~UINT64_C(0) << bin % 64;
        for (; used; used &= used - 1) {
            struct block *best = NULL;
            for (struct block *block = books->bins[word * 64 + (unsigned)__builtin_ctzll(used)]; block;
                 block = block->next)
                if (block_place(block, bytes, alignment) != HEAP_NOWHERE && (!best || block->bytes < best->bytes)) {
                    best = block;
                    if (best->bytes == bytes)
                        break;
                }
            if (best)
                return best;
        }
    }
    return NULL;
}

/* Hand out `bytes` at the alignment from a free block that has room for them. */
static struct block *take_from(struct heap_books *books, struct block *block, uint64_t bytes, uint64_t alignment)
{
    uint64_t offset = block_place(block, bytes, alignment);
    bin_remove(books, block);
    if (offset > block->offset) {
        struct block *front = block;
        block = block_cut(books, front, offset - front->offset);
        bin_insert(books, front);
    }
    if (block->bytes > bytes)
        bin_insert(books, block_cut(books, block, bytes));
    return block;
}

/* ---- growing ---- */

static weft_status out_of_heap(const struct heap *heap, uint64_t bytes, struct error *error)
{
    char wanted[32], size[32], used[32];
    return error_set(
        error, WEFT_ERROR_MEMORY,
        "cannot allocate %s of shared memory: %s of this process's %s are handed out and no free piece is large "
        "enough; free some, or raise the heap's size (heap_bytes in weft_config)",
        text_bytes(bytes, wanted, sizeof wanted), text_bytes(heap->books->in_use, used, sizeof used),
        text_bytes(heap->size, size, sizeof size));
}

/* Touch [offset, offset + bytes): a failure now is a sentence, a failure later would be SIGBUS. */
static weft_status touch(const struct heap *heap, uint64_t offset, uint64_t bytes, struct error *error)
{
    if (bytes >= LOOK_FROM) {
        struct limits limits;
        weft_status status = limits_read(&limits, error);
        if (status == WEFT_OK)
            status = limits_check(&limits, 0, bytes + SPARE, "an allocation of shared memory", error);
        if (status != WEFT_OK)
            return status;
    }
    char wanted[32];
    uint64_t first = offset & ~(uint64_t)(PAGE - 1), last = align_up(offset + bytes, PAGE);
    if (madvise(heap->base + first, last - first, MADV_POPULATE_WRITE) == 0)
        return WEFT_OK;
    if (errno != EINVAL)
        return error_set(
            error, WEFT_ERROR_MEMORY,
            "cannot allocate %s of shared memory: the system refused the pages (%s); use less, or raise the "
            "memory limit",
            text_bytes(bytes, wanted, sizeof wanted), strerror(errno));
    for (volatile char *page = heap->base + align_up(offset, PAGE); page < heap->base + offset + bytes; page += PAGE)
        *page = 0; /* a kernel older than 5.14; a page that is begun already has been touched */
    return WEFT_OK;
}

/* Hand out memory from above `touched`, together with the free block that may lie just below it. */
static weft_status grow(struct heap *heap, uint64_t bytes, uint64_t alignment, struct block **block, uint64_t *dirty,
                        struct error *error)
{
    struct heap_books *books = heap->books;
    struct block *below = books->last && books->last->is_free ? books->last : NULL;
    uint64_t begin = below ? below->offset : books->touched;
    uint64_t offset = align_up(begin, alignment);
    if (bytes > heap->size || offset > heap->size - bytes)
        return out_of_heap(heap, bytes, error);
    uint64_t end = offset + bytes;
    weft_status status = touch(heap, books->touched, end - books->touched, error);
    if (status != WEFT_OK)
        return status;

    if (below) {
        bin_remove(books, below);
        below->bytes = end - begin;
    } else {
        struct block *fresh = record_take(books, begin, end - begin);
        fresh->before = books->last;
        if (fresh->before)
            fresh->before->after = fresh;
        books->last = fresh;
        below = fresh;
    }
    *dirty = books->touched > offset ? books->touched - offset : 0;
    books->touched = end;
    *block = below;
    if (offset > begin) {
        *block = block_cut(books, below, offset - begin);
        bin_insert(books, below);
    }
    return WEFT_OK;
}

weft_status heap_alloc(struct heap *heap, uint64_t bytes, void **pointer, struct error *error)
{
    struct heap_books *books = heap->books;
    if (bytes > heap->size)
        return out_of_heap(heap, bytes, error);
    uint64_t alignment = bytes >= PAGE ? PAGE : GRANULE;
    bytes = align_up(bytes ? bytes : 1, GRANULE);

    pthread_mutex_lock(&books->lock);
    if (!records_reserve(books, 3)) {
        pthread_mutex_unlock(&books->lock);
        return error_memory(error, 3 * sizeof(struct block), "the shared heap's books");
    }
    uint64_t dirty = bytes; /* leading bytes that were used before */
    weft_status status = WEFT_OK;
    struct block *block = find_free(books, bytes, alignment);
    if (block)
        block = take_from(books, block, bytes, alignment);
    else
        status = grow(heap, bytes, alignment, &block, &dirty, error);
    if (status == WEFT_OK) {
        table_grow(books);
        table_insert(books, block);
    }
    char *place = status == WEFT_OK ? heap->base + block->offset : NULL;
    pthread_mutex_unlock(&books->lock);
    if (status != WEFT_OK)
        return status;
    memset(place, 0, dirty < bytes ? dirty : bytes);
    *pointer = place;
    return WEFT_OK;
}

bool heap_free(struct heap *heap, void *pointer)
{
    if (!pointer)
        return true;
    uint64_t offset = heap_offset(heap, pointer, 1);
    if (offset == HEAP_NOWHERE)
        return false;
    struct heap_books *books = heap->books;
    pthread_mutex_lock(&books->lock);
    struct block *block = table_take(books, offset);
    if (block)
        block_release(books, block);
    pthread_mutex_unlock(&books->lock);
    return block != NULL;
}

void heap_assign(struct heap *heap, void *pointer, const void *owner)
{
    struct heap_books *books = heap->books;
    uint64_t offset = heap_offset(heap, pointer, 1);
    pthread_mutex_lock(&books->lock);
    struct block *block = books->handed_out[slot_of(books, offset)];
    while (block && block->offset != offset)
        block = block->next;
    if (block)
        block->owner = owner;
    pthread_mutex_unlock(&books->lock);
}

void heap_free_assigned(struct heap *heap, const void *owner)
{
    struct heap_books *books = heap->books;
    pthread_mutex_lock(&books->lock);
    for (struct block *block = books->last, *before; block; block = before) {
        before = block->before; /* survives: when two are joined, it is the one behind that goes */
        if (!block->is_free && block->owner == owner)
            block_release(books, table_take(books, block->offset));
    }
    pthread_mutex_unlock(&books->lock);
}

uint64_t heap_in_use(const struct heap *heap)
{
    pthread_mutex_lock(&heap->books->lock);
    uint64_t bytes = heap->books->in_use;
    pthread_mutex_unlock(&heap->books->lock);
    return bytes;
}

uint64_t heap_touched(const struct heap *heap)
{
    pthread_mutex_lock(&heap->books->lock);
    uint64_t bytes = heap->books->touched;
    pthread_mutex_unlock(&heap->books->lock);
    return bytes;
}

/* ---- opening and closing ---- */

static uint64_t least_of(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

/* The size for a heap whose user named none: all the memory that this process may have, and an eighth of a limited
 * address space. */
static uint64_t default_size(const struct limits *limits)
{
    uint64_t bytes = least_of(limits->memory_total, limits->group_limit);
    return limits->address_space_limit == LIMITS_NONE ? bytes : least_of(bytes, limits_mappable(limits) / 8);
}

static weft_status map_shared(int descriptor, uint64_t bytes, const char *what, char **base, struct error *error)
{
    char size[32];
    struct limits limits;
    weft_status status = limits_read(&limits, error);
    if (status == WEFT_OK)
        status = limits_check(&limits, bytes, 0, what, error);
    if (status != WEFT_OK)
        return status;
    void *place = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, descriptor, 0);
    if (place == MAP_FAILED)
        return error_system(error, "cannot map %s for %s; a smaller heap (heap_bytes in weft_config) may do",
                            text_bytes(bytes, size, sizeof size), what);
    madvise(place, bytes, MADV_DONTDUMP);
    *base = place;
    return WEFT_OK;
}

static weft_status make_memory(struct heap *heap, struct error *error)
{
    char size[32];
    heap->descriptor = memfd_create("weft-heap", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    if (heap->descriptor < 0)
        return error_system(error, "cannot create shared memory (memfd_create)");
    if (ftruncate(heap->descriptor, (off_t)heap->size) != 0)
        return error_system(error, "cannot size shared memory to %s", text_bytes(heap->size, size, sizeof size));
    /* A peer that could shrink it would kill us with SIGBUS. */
    if (fcntl(heap->descriptor, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) != 0)
        return error_system(error, "cannot seal shared memory");
    while (heap->identity == 0)
        if (getrandom(&heap->identity, sizeof heap->identity, 0) != sizeof heap->identity)
            return error_system(error, "cannot get random bits");
    return map_shared(heap->descriptor, heap->size, "this process's shared heap", &heap->base, error);
}

weft_status heap_open(uint64_t bytes, struct heap **heap, struct error *error)
{
    char size[32], least[32];
    struct limits limits;
    weft_status status = limits_read(&limits, error);
    if (status != WEFT_OK)
        return status;
    if (bytes == 0)
        bytes = default_size(&limits);
    if (bytes < LEAST_HEAP)
        return error_set(
            error, WEFT_ERROR_MEMORY,
            "a shared heap of %s is too small, at least %s are needed: raise heap_bytes in weft_config, the "
            "control group's memory limit or the address-space limit (ulimit -v)",
            text_bytes(bytes, size, sizeof size), text_bytes(LEAST_HEAP, least, sizeof least));
    if (bytes > (UINT64_C(1) << 46))
        return error_set(error, WEFT_ERROR_ARGUMENT,
                         "a shared heap of %s is larger than an address space (at most 64 TiB)",
                         text_bytes(bytes, size, sizeof size));
    struct heap *made = calloc(1, sizeof *made);
    struct heap_books *books = calloc(1, sizeof *books);
    struct block **table = calloc(256, sizeof(struct block *));
    if (!made || !books || !table) {
        free(made);
        free(books);
        free(table);
        return error_memory(error, sizeof *made + sizeof *books, "the shared heap's books");
    }
    books->handed_out = table;
    books->handed_out_size = 256;
    pthread_mutex_init(&books->lock, NULL);
    made->books = books;
    made->size = align_up(bytes, PAGE);
    made->descriptor = -1;
    status = make_memory(made, error);
    if (status != WEFT_OK) {
        heap_close(made);
        return status;
    }
    *heap = made;
    return WEFT_OK;
}

void heap_close(struct heap *heap)
{
    if (!heap)
        return;
    struct heap_books *books = heap->books;
    for (struct attachment *attachment = books->attachments, *next; attachment; attachment = next) {
        next = attachment->next;
        munmap(attachment->base, attachment->bytes);
        free(attachment);
    }
    struct block *block = books->last;
    while (block) {
        struct block *before = block->before;
        free(block);
        block = before;
    }
    for (block = books->spare; block;) {
        struct block *next = block->next;
        free(block);
        block = next;
    }
    if (heap->base)
        munmap(heap->base, heap->size);
    if (heap->descriptor >= 0)
        close(heap->descriptor);
    pthread_mutex_destroy(&books->lock);
    free(books->handed_out);
    free(books);
    free(heap);
}

/* ---- peers' heaps ---- */

static weft_status attach_new(int descriptor, uint64_t identity, uint64_t bytes, struct attachment **attachment,
                              struct error *error)
{
    struct stat about;
    if (fstat(descriptor, &about) != 0)
        return error_system(error, "cannot look at a peer's shared memory");
    int seals = fcntl(descriptor, F_GET_SEALS);
    if (seals < 0 || !(seals & F_SEAL_SHRINK) || (uint64_t)about.st_size < bytes || bytes == 0)
        return error_set(error, WEFT_ERROR_DATA,
                         "a peer's shared memory is not what it says: %llu bytes instead of %llu, seals %d",
                         (unsigned long long)about.st_size, (unsigned long long)bytes, seals);
    struct attachment *made = calloc(1, sizeof *made);
    if (!made)
        return error_memory(error, sizeof *made, "a peer's shared memory");
    weft_status status = map_shared(descriptor, bytes, "the shared heap of a local peer", &made->base, error);
    if (status != WEFT_OK) {
        free(made);
        return status;
    }
    made->identity = identity;
    made->bytes = bytes;
    *attachment = made;
    return WEFT_OK;
}

weft_status heap_attach(struct heap *heap, int descriptor, uint64_t identity, uint64_t bytes, char **base,
                        struct error *error)
{
    struct heap_books *books = heap->books;
    weft_status status = WEFT_OK;
    pthread_mutex_lock(&books->lock);
    struct attachment *attachment = books->attachments;
    while (attachment && attachment->identity != identity)
        attachment = attachment->next;
    if (!attachment) {
        status = attach_new(descriptor, identity, bytes, &attachment, error);
        if (status == WEFT_OK) {
            attachment->next = books->attachments;
            books->attachments = attachment;
        }
    }
    if (status == WEFT_OK && attachment->bytes < bytes)
        status =
            error_set(error, WEFT_ERROR_DATA, "a peer's shared memory is not what it says: %llu bytes instead of %llu",
                      (unsigned long long)attachment->bytes, (unsigned long long)bytes);
    if (status == WEFT_OK) {
        attachment->users++;
        *base = attachment->base;
    }
    pthread_mutex_unlock(&books->lock);
    return status;
}

void heap_detach(struct heap *heap, uint64_t identity)
{
    struct heap_books *books = heap->books;
    pthread_mutex_lock(&books->lock);
    struct attachment **link = &books->attachments;
    while (*link && (*link)->identity != identity)
        link = &(*link)->next;
    struct attachment *gone = *link && --(*link)->users == 0 ? *link : NULL;
    if (gone)
        *link = gone->next;
    pthread_mutex_unlock(&books->lock);
    if (gone) {
        munmap(gone->base, gone->bytes);
        free(gone);
    }
}
