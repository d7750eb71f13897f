/* SPDX-License-Identifier: Apache-2.0 */
#include "training/train/state/internal/array_snapshot.h"

#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#define TOUCH_BYTES ((uint64_t)2 << 20)

struct array {
    const char *bytes;
    uint64_t size;
    uint64_t read;    /* bytes from its beginning that the reader has released */
    const char *copy; /* of the bytes from `copied` on, once detached */
    uint64_t copied;
};

struct array_snapshot {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    struct array *arrays; /* by address, once the reader runs */
    size_t count;
    bool sorted;
    bool taken; /* the reader is in an array */
    bool detached, canceled, ended;
    char *memory; /* for copies; NULL: there is none */
    uint64_t memory_size, copied;
};

weft_status array_snapshot_open(size_t room, uint64_t bytes, struct array_snapshot **result, struct error *error)
{
    struct array_snapshot *snapshot = calloc(1, sizeof *snapshot);
    if (snapshot)
        snapshot->arrays = calloc(room + 1, sizeof *snapshot->arrays);
    if (!snapshot || !snapshot->arrays) {
        free(snapshot);
        return error_memory(error, (room + 1) * sizeof(struct array), "a checkpoint's list of arrays");
    }
    void *memory = bytes ? mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0) : MAP_FAILED;
    if (memory != MAP_FAILED) {
        madvise(memory, bytes, MADV_HUGEPAGE); /* fewer first touches */
        snapshot->memory = memory;
        snapshot->memory_size = bytes;
    }
    pthread_mutex_init(&snapshot->lock, NULL);
    pthread_cond_init(&snapshot->changed, NULL);
    *result = snapshot;
    return WEFT_OK;
}

void array_snapshot_close(struct array_snapshot *snapshot)
{
    if (!snapshot)
        return;
    if (snapshot->memory)
        munmap(snapshot->memory, snapshot->memory_size);
    pthread_cond_destroy(&snapshot->changed);
    pthread_mutex_destroy(&snapshot->lock);
    free(snapshot->arrays);
    free(snapshot);
}

void array_snapshot_touch(struct array_snapshot *snapshot, const atomic_bool *stop)
{
    for (uint64_t touched = 0; touched < snapshot->memory_size && !atomic_load(stop); touched += TOUCH_BYTES) {
        uint64_t left = snapshot->memory_size - touched;
        memset(snapshot->memory + touched, 0, left < TOUCH_BYTES ? left : TOUCH_BYTES);
    }
}

void array_snapshot_begin(struct array_snapshot *snapshot)
{
    snapshot->count = snapshot->copied = 0;
    snapshot->sorted = snapshot->taken = snapshot->detached = snapshot->canceled = snapshot->ended = false;
}

void array_snapshot_add(struct array_snapshot *snapshot, const void *bytes, uint64_t size)
{
    if (size)
        snapshot->arrays[snapshot->count++] = (struct array){.bytes = bytes, .size = size};
}

/* ---- the reader ---- */

static int by_address(const void *left, const void *right)
{
    const struct array *a = left, *b = right;
    return a->bytes < b->bytes ? -1 : a->bytes > b->bytes;
}

static int in_array(const void *key, const void *element)
{
    const char *bytes = key;
    const struct array *array = element;
    return bytes < array->bytes ? -1 : bytes >= array->bytes + array->size;
}

/* The array that holds `bytes`, or NULL. */
static struct array *array_snapshot_find(struct array_snapshot *snapshot, const void *bytes)
{
    if (!snapshot->sorted && snapshot->count)
        qsort(snapshot->arrays, snapshot->count, sizeof *snapshot->arrays, by_address);
    snapshot->sorted = true;
    return bsearch(bytes, snapshot->arrays, snapshot->count, sizeof *snapshot->arrays, in_array);
}

static const void *array_snapshot_acquire(void *owner, const void *bytes, uint64_t size)
{
    struct array_snapshot *snapshot = owner;
    const void *place = bytes;
    pthread_mutex_lock(&snapshot->lock);
    struct array *array = array_snapshot_find(snapshot, bytes);
    if (snapshot->canceled)
        place = NULL;
    else if (array && snapshot->detached)
        place = array->copy + ((const char *)bytes - array->bytes - (ptrdiff_t)array->copied);
    else if (array)
        snapshot->taken = true;
    pthread_mutex_unlock(&snapshot->lock);
    return place;
}

static void array_snapshot_release(void *owner, const void *bytes, uint64_t size)
{
    struct array_snapshot *snapshot = owner;
    pthread_mutex_lock(&snapshot->lock);
    struct array *array = array_snapshot_find(snapshot, bytes);
    if (array)
        array->read = (uint64_t)((const char *)bytes - array->bytes) + size;
    snapshot->taken = false;
    pthread_cond_broadcast(&snapshot->changed);
    pthread_mutex_unlock(&snapshot->lock);
}

struct byte_source array_snapshot_source(struct array_snapshot *snapshot)
{
    return (struct byte_source){
        .owner = snapshot, .acquire = array_snapshot_acquire, .release = array_snapshot_release};
}

void array_snapshot_reader_ended(struct array_snapshot *snapshot)
{
    pthread_mutex_lock(&snapshot->lock);
    snapshot->ended = true;
    pthread_cond_broadcast(&snapshot->changed);
    pthread_mutex_unlock(&snapshot->lock);
}

/* ---- the owner ---- */

static uint64_t unread(const struct array_snapshot *snapshot)
{
    uint64_t bytes = 0;
    for (size_t i = 0; i < snapshot->count; i++)
        bytes += snapshot->arrays[i].size - snapshot->arrays[i].read;
    return bytes;
}

/* Copy the part that the reader has not read; false without memory. */
static bool copy_the_rest(struct array_snapshot *snapshot)
{
    uint64_t bytes = unread(snapshot), used = 0;
    if (bytes > snapshot->memory_size)
        return false;
    for (size_t i = 0; i < snapshot->count; i++) {
        struct array *array = &snapshot->arrays[i];
        uint64_t left = array->size - array->read;
        if (!left)
            continue;
        array->copy = snapshot->memory + used;
        array->copied = array->read;
        memcpy(snapshot->memory + used, array->bytes + array->read, left);
        used += left;
    }
    snapshot->copied = used;
    return true;
}

void array_snapshot_detach(struct array_snapshot *snapshot)
{
    pthread_mutex_lock(&snapshot->lock);
    while (snapshot->taken && !snapshot->detached)
        pthread_cond_wait(&snapshot->changed, &snapshot->lock);
    if (!snapshot->detached && !snapshot->ended && !snapshot->canceled && !copy_the_rest(snapshot))
        while (!snapshot->ended && !(unread(snapshot) == 0 && !snapshot->taken))
            pthread_cond_wait(&snapshot->changed, &snapshot->lock);
    snapshot->detached = true;
    pthread_mutex_unlock(&snapshot->lock);
}

void array_snapshot_cancel(struct array_snapshot *snapshot)
{
    pthread_mutex_lock(&snapshot->lock);
    snapshot->canceled = true;
    pthread_mutex_unlock(&snapshot->lock);
}

uint64_t array_snapshot_copied(const struct array_snapshot *snapshot)
{
    return snapshot->copied;
}
