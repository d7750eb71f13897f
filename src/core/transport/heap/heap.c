/* SPDX-License-Identifier: Apache-2.0 */
#include "core/transport/heap/heap.h"

#include "base/text.h"
#include "core/topology/limits.h"
#include "core/transport/heap/internal/blocks.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23
#endif

#define PAGE            4096u
#define LEAST_HEAP      (UINT64_C(1) << 20)
#define LOOK_FROM       (UINT64_C(4) << 20)  /* growth from this size on checks the machine's free memory */
#define SPARE           (UINT64_C(64) << 20) /* left to the rest of the machine when growing */
#define TOUCHED_AT_ONCE (UINT64_C(4) << 20)
#define PRIVATE_USUAL   (UINT64_C(256) << 20) /* address space that libraries, stacks and malloc's arenas take */

struct attachment {
    uint64_t identity, bytes;
    char *base;
    uint32_t users;
    struct attachment *next;
};

struct heap_books {
    pthread_mutex_t lock;
    struct heap_blocks blocks;
    uint64_t touching; /* bytes that threads are about to touch */
    struct attachment *attachments;
};

/* ---- growing ---- */

static weft_status out_of_heap(const struct heap *heap, uint64_t bytes, struct error *error)
{
    char wanted[32], size[32], used[32], space[32], why[160] = "";
    struct limits limits;
    if (limits_read(&limits, NULL) == WEFT_OK && limits.address_space_limit != LIMITS_NONE)
        snprintf(why, sizeof why,
                 "the heap's size follows from the limit of the address space, %s: raise that (ulimit -v), or ",
                 text_bytes(limits.address_space_limit, space, sizeof space));
    return error_set(error, WEFT_ERROR_MEMORY,
                     "cannot allocate %s of shared memory: %s of this process's %s are handed out and no free piece is "
                     "large enough; %suse less, or raise the heap's size (WEFT_HEAP, or heap_bytes in weft_config)",
                     text_bytes(bytes, wanted, sizeof wanted),
                     text_bytes(heap->books->blocks.in_use, used, sizeof used),
                     text_bytes(heap->size, size, sizeof size), why);
}

/*
 * Touch [offset, offset + bytes), which has been handed out: a failure now is a message, a failure later would be
 * SIGBUS. `others`: bytes that other threads are about to touch. Without the lock, as it may take seconds, and other
 * threads (a helper that sends heartbeats) need memory meanwhile. Piece by piece, because the kernel holds up other
 * changes of the address space during each.
 */
static weft_status touch(const struct heap *heap, uint64_t offset, uint64_t bytes, uint64_t others, struct error *error)
{
    if (bytes >= LOOK_FROM) {
        struct limits limits;
        weft_status status = limits_read(&limits, error);
        if (status == WEFT_OK)
            status = limits_check(&limits, 0, bytes + others + SPARE, "an allocation of shared memory", error);
        if (status != WEFT_OK)
            return status;
    }
    char wanted[32];
    const uint64_t first = offset & ~(uint64_t)(PAGE - 1), last = heap_align_up(offset + bytes, PAGE);
    for (uint64_t at = first, piece; at < last; at += piece) {
        piece = last - at < TOUCHED_AT_ONCE ? last - at : TOUCHED_AT_ONCE;
        if (madvise(heap->base + at, piece, MADV_POPULATE_WRITE) == 0)
            continue;
        if (errno != EINVAL)
            return error_set(
                error, WEFT_ERROR_MEMORY,
                "cannot allocate %s of shared memory: the system refused the pages (%s); use less, or raise the "
                "memory limit",
                text_bytes(bytes, wanted, sizeof wanted), strerror(errno));
        for (volatile char *page = heap->base + heap_align_up(offset, PAGE); page < heap->base + offset + bytes;
             page += PAGE)
            *page = 0; /* a kernel older than 5.14; a page that is begun already has been touched */
        break;
    }
    return WEFT_OK;
}

/* Hand out memory above all blocks used so far. */
static weft_status grow(struct heap *heap, uint64_t bytes, uint64_t alignment, struct heap_block **block,
                        uint64_t *dirty, struct error *error)
{
    struct heap_blocks *blocks = &heap->books->blocks;
    uint64_t offset = heap_blocks_above(blocks, alignment);
    if (bytes > heap->size || offset > heap->size - bytes)
        return out_of_heap(heap, bytes, error);
    *block = heap_blocks_grow(blocks, bytes, alignment, dirty);
    return WEFT_OK;
}

/* A block that has just been handed out; nobody else knows it yet. If its memory cannot be had it is free again. */
static weft_status warm_up(struct heap *heap, struct heap_block *block, uint64_t others, struct error *error)
{
    struct heap_books *books = heap->books;
    const uint64_t cold = block->cold;
    weft_status status = touch(heap, block->offset + block->bytes - cold, cold, others, error);
    pthread_mutex_lock(&books->lock);
    books->touching -= cold;
    if (status == WEFT_OK)
        block->cold = 0;
    else
        heap_blocks_free(&books->blocks, block);
    pthread_mutex_unlock(&books->lock);
    return status;
}

weft_status heap_alloc(struct heap *heap, uint64_t bytes, void **pointer, struct error *error)
{
    struct heap_books *books = heap->books;
    if (bytes > heap->size)
        return out_of_heap(heap, bytes, error);
    uint64_t alignment = bytes >= PAGE ? PAGE : HEAP_GRANULE;
    bytes = heap_align_up(bytes ? bytes : 1, HEAP_GRANULE);

    pthread_mutex_lock(&books->lock);
    if (!heap_blocks_reserve(&books->blocks)) {
        pthread_mutex_unlock(&books->lock);
        return error_memory(error, sizeof(struct heap_block), "the shared heap's metadata");
    }
    uint64_t dirty = bytes; /* leading bytes that were used before */
    weft_status status = WEFT_OK;
    struct heap_block *block = heap_blocks_take(&books->blocks, bytes, alignment);
    if (!block)
        status = grow(heap, bytes, alignment, &block, &dirty, error);
    if (status == WEFT_OK)
        heap_blocks_hand_out(&books->blocks, block);
    char *place = status == WEFT_OK ? heap->base + block->offset : NULL;
    const bool is_cold = status == WEFT_OK && block->cold;
    const uint64_t others = books->touching;
    if (is_cold)
        books->touching += block->cold;
    pthread_mutex_unlock(&books->lock);
    if (is_cold)
        status = warm_up(heap, block, others, error);
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
    struct heap_block *block = heap_blocks_find(&books->blocks, offset);
    if (block)
        heap_blocks_free(&books->blocks, block);
    pthread_mutex_unlock(&books->lock);
    return block != NULL;
}

void heap_assign(struct heap *heap, void *pointer, const void *owner)
{
    struct heap_books *books = heap->books;
    uint64_t offset = heap_offset(heap, pointer, 1);
    pthread_mutex_lock(&books->lock);
    struct heap_block *block = heap_blocks_find(&books->blocks, offset);
    if (block)
        block->owner = owner;
    pthread_mutex_unlock(&books->lock);
}

void heap_free_assigned(struct heap *heap, const void *owner)
{
    struct heap_books *books = heap->books;
    pthread_mutex_lock(&books->lock);
    for (struct heap_block *block = books->blocks.last, *before; block; block = before) {
        before = block->before; /* survives: when two are merged, the later one is removed */
        if (!block->is_free && block->owner == owner)
            heap_blocks_free(&books->blocks, block);
    }
    pthread_mutex_unlock(&books->lock);
}

uint64_t heap_in_use(const struct heap *heap)
{
    pthread_mutex_lock(&heap->books->lock);
    uint64_t bytes = heap->books->blocks.in_use;
    pthread_mutex_unlock(&heap->books->lock);
    return bytes;
}

uint64_t heap_touched(const struct heap *heap)
{
    pthread_mutex_lock(&heap->books->lock);
    uint64_t bytes = heap->books->blocks.reached;
    pthread_mutex_unlock(&heap->books->lock);
    return bytes;
}

/* ---- opening and closing ---- */

static uint64_t least_of(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

/* The part of `mappable` bytes that the heap of one of `processes` may take. */
static uint64_t share_of(uint64_t mappable, uint32_t processes)
{
    const uint64_t parts = least_of(processes, HEAP_SHARERS_MOST) + 1, least = mappable / (HEAP_SHARERS_MOST + 1);
    const uint64_t share = mappable > PRIVATE_USUAL ? (mappable - PRIVATE_USUAL) / parts : 0;
    return share > least ? share : least;
}

uint64_t heap_default_bytes(uint32_t processes)
{
    struct limits limits;
    struct rlimit file;
    if (limits_read(&limits, NULL) != WEFT_OK)
        return 0;
    uint64_t bytes = least_of(limits.memory_total, limits.group_limit);
    if (limits.address_space_limit != LIMITS_NONE)
        bytes = least_of(bytes, share_of(limits_mappable(&limits), processes));
    return getrlimit(RLIMIT_FSIZE, &file) == 0 ? least_of(bytes, file.rlim_max) : bytes;
}

/*
 * Set the memfd's size. The file size limit applies to memfds, too, and exceeding it kills the process (SIGXFSZ). In a
 * run of the platform the soft limit is the disk quota, which does not concern memory: raise it meanwhile.
 */
static weft_status set_size(const struct heap *heap, struct error *error)
{
    char size[32], most[32];
    struct rlimit limit, raised;
    const bool known = getrlimit(RLIMIT_FSIZE, &limit) == 0;
    if (known && limit.rlim_max < heap->size)
        return error_set(
            error, WEFT_ERROR_MEMORY,
            "a shared heap of %s is larger than the limit of file sizes, %s, which counts for shared memory: "
            "raise it (ulimit -f unlimited), or lower heap_bytes in weft_config",
            text_bytes(heap->size, size, sizeof size), text_bytes(limit.rlim_max, most, sizeof most));
    const bool raise = known && limit.rlim_cur < heap->size;
    raised = (struct rlimit){limit.rlim_max, limit.rlim_max};
    if (raise)
        setrlimit(RLIMIT_FSIZE, &raised);
    weft_status status = WEFT_OK;
    if (ftruncate(heap->descriptor, (off_t)heap->size) != 0)
        status = error_system(error, "cannot size shared memory to %s", text_bytes(heap->size, size, sizeof size));
    if (raise)
        setrlimit(RLIMIT_FSIZE, &limit);
    return status;
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
    heap->descriptor = memfd_create("weft-heap", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    if (heap->descriptor < 0)
        return error_system(error, "cannot create shared memory (memfd_create)");
    weft_status status = set_size(heap, error);
    if (status != WEFT_OK)
        return status;
    /* A peer that shrank it would kill this process with SIGBUS. */
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
    weft_status status = limits_read(&limits, error); /* the message says why there is no default */
    if (status != WEFT_OK)
        return status;
    if (bytes == 0)
        bytes = heap_default_bytes(HEAP_SHARERS_MOST);
    if (bytes < LEAST_HEAP)
        return error_set(
            error, WEFT_ERROR_MEMORY,
            "a shared heap of %s is too small, at least %s are needed: raise WEFT_HEAP or heap_bytes in weft_config, "
            "the control group's memory limit or the address-space limit (ulimit -v)",
            text_bytes(bytes, size, sizeof size), text_bytes(LEAST_HEAP, least, sizeof least));
    if (bytes > (UINT64_C(1) << 46))
        return error_set(error, WEFT_ERROR_ARGUMENT,
                         "a shared heap of %s is larger than an address space (at most 64 TiB)",
                         text_bytes(bytes, size, sizeof size));
    struct heap *made = calloc(1, sizeof *made);
    struct heap_books *books = calloc(1, sizeof *books);
    if (!made || !books || !heap_blocks_open(&books->blocks)) {
        free(made);
        free(books);
        return error_memory(error, sizeof *made + sizeof *books, "the shared heap's metadata");
    }
    pthread_mutex_init(&books->lock, NULL);
    made->books = books;
    made->size = heap_align_up(bytes, PAGE);
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
    if (heap->base)
        munmap(heap->base, heap->size);
    if (heap->descriptor >= 0)
        close(heap->descriptor);
    pthread_mutex_destroy(&books->lock);
    heap_blocks_close(&books->blocks);
    free(books);
    free(heap);
}

/* ---- peers' heaps ---- */

static weft_status attach_new(int descriptor, uint64_t identity, uint64_t bytes, struct attachment **attachment,
                              struct error *error)
{
    struct stat about;
    if (fstat(descriptor, &about) != 0)
        return error_system(error, "cannot examine a peer's shared memory");
    int seals = fcntl(descriptor, F_GET_SEALS);
    if (seals < 0 || !(seals & F_SEAL_SHRINK) || (uint64_t)about.st_size < bytes || bytes == 0)
        return error_set(error, WEFT_ERROR_DATA,
                         "a peer's shared memory is not as announced: %llu bytes instead of %llu, seals %d",
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
            error_set(error, WEFT_ERROR_DATA, "a peer's shared memory is not as announced: %llu bytes instead of %llu",
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
