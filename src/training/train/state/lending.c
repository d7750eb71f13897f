/* SPDX-License-Identifier: Apache-2.0 */
#include "training/train/state/internal/lending.h"

#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#define TOUCH_BYTES ((uint64_t)2 << 20)

struct array {
    const char *bytes;
    uint64_t size;
    uint64_t read;    /* bytes from its beginning that the reader has given back */
    const char *copy; /* of the bytes from `copied` on, once withdrawn */
    uint64_t copied;
};

struct lending {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    struct array *arrays; /* by address, once the reader runs */
    size_t count;
    bool sorted;
    bool taken; /* the reader is in an array */
    bool withdrawn, given_up, ended;
    char *memory; /* for copies; NULL: there is none */
    uint64_t memory_size, copied;
};

weft_status lending_open(size_t room, uint64_t bytes, struct lending **result, struct error *error)
{
    struct lending *lending = calloc(1, sizeof *lending);
    if (lending)
        lending->arrays = calloc(room + 1, sizeof *lending->arrays);
    if (!lending || !lending->arrays) {
        free(lending);
        return error_memory(error, (room + 1) * sizeof(struct array), "a checkpoint's list of arrays");
    }
    void *memory = bytes ? mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0) : MAP_FAILED;
    if (memory != MAP_FAILED) {
        madvise(memory, bytes, MADV_HUGEPAGE); /* fewer first touches */
        lending->memory = memory;
        lending->memory_size = bytes;
    }
    pthread_mutex_init(&lending->lock, NULL);
    pthread_cond_init(&lending->changed, NULL);
    *result = lending;
    return WEFT_OK;
}

void lending_close(struct lending *lending)
{
    if (!lending)
        return;
    if (lending->memory)
        munmap(lending->memory, lending->memory_size);
    pthread_cond_destroy(&lending->changed);
    pthread_mutex_destroy(&lending->lock);
    free(lending->arrays);
    free(lending);
}

void lending_warm(struct lending *lending, const atomic_bool *stop)
{
    for (uint64_t touched = 0; touched < lending->memory_size && !atomic_load(stop); touched += TOUCH_BYTES) {
        uint64_t left = lending->memory_size - touched;
        memset(lending->memory + touched, 0, left < TOUCH_BYTES ? left : TOUCH_BYTES);
    }
}

void lending_begin(struct lending *lending)
{
    lending->count = lending->copied = 0;
    lending->sorted = lending->taken = lending->withdrawn = lending->given_up = lending->ended = false;
}

void lending_add(struct lending *lending, const void *bytes, uint64_t size)
{
    if (size)
        lending->arrays[lending->count++] = (struct array){.bytes = bytes, .size = size};
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

/* The array that holds `bytes`; NULL: none that was lent. */
static struct array *lending_find(struct lending *lending, const void *bytes)
{
    if (!lending->sorted && lending->count)
        qsort(lending->arrays, lending->count, sizeof *lending->arrays, by_address);
    lending->sorted = true;
    return bsearch(bytes, lending->arrays, lending->count, sizeof *lending->arrays, in_array);
}

static const void *state_lending_take(void *owner, const void *bytes, uint64_t size)
{
    struct lending *lending = owner;
    const void *place = bytes;
    pthread_mutex_lock(&lending->lock);
    struct array *array = lending_find(lending, bytes);
    if (lending->given_up)
        place = NULL;
    else if (array && lending->withdrawn)
        place = array->copy + ((const char *)bytes - array->bytes - (ptrdiff_t)array->copied);
    else if (array)
        lending->taken = true;
    pthread_mutex_unlock(&lending->lock);
    return place;
}

static void state_lending_give_back(void *owner, const void *bytes, uint64_t size)
{
    struct lending *lending = owner;
    pthread_mutex_lock(&lending->lock);
    struct array *array = lending_find(lending, bytes);
    if (array)
        array->read = (uint64_t)((const char *)bytes - array->bytes) + size;
    lending->taken = false;
    pthread_cond_broadcast(&lending->changed);
    pthread_mutex_unlock(&lending->lock);
}

struct byte_source lending_source(struct lending *lending)
{
    return (struct byte_source){.owner = lending, .take = state_lending_take, .give_back = state_lending_give_back};
}

void lending_end(struct lending *lending)
{
    pthread_mutex_lock(&lending->lock);
    lending->ended = true;
    pthread_cond_broadcast(&lending->changed);
    pthread_mutex_unlock(&lending->lock);
}

/* ---- the owner ---- */

static uint64_t unread(const struct lending *lending)
{
    uint64_t bytes = 0;
    for (size_t i = 0; i < lending->count; i++)
        bytes += lending->arrays[i].size - lending->arrays[i].read;
    return bytes;
}

/* Copy what the reader has not read. False: there is no memory for that. */
static bool copy_the_rest(struct lending *lending)
{
    uint64_t bytes = unread(lending), used = 0;
    if (bytes > lending->memory_size)
        return false;
    for (size_t i = 0; i < lending->count; i++) {
        struct array *array = &lending->arrays[i];
        uint64_t left = array->size - array->read;
        if (!left)
            continue;
        array->copy = lending->memory + used;
        array->copied = array->read;
        memcpy(lending->memory + used, array->bytes + array->read, left);
        used += left;
    }
    lending->copied = used;
    return true;
}

void lending_withdraw(struct lending *lending)
{
    pthread_mutex_lock(&lending->lock);
    while (lending->taken && !lending->withdrawn)
        pthread_cond_wait(&lending->changed, &lending->lock);
    if (!lending->withdrawn && !lending->ended && !lending->given_up && !copy_the_rest(lending))
        while (!lending->ended && !(unread(lending) == 0 && !lending->taken))
            pthread_cond_wait(&lending->changed, &lending->lock);
    lending->withdrawn = true;
    pthread_mutex_unlock(&lending->lock);
}

void lending_give_up(struct lending *lending)
{
    pthread_mutex_lock(&lending->lock);
    lending->given_up = true;
    pthread_mutex_unlock(&lending->lock);
}

uint64_t lending_copied(const struct lending *lending)
{
    return lending->copied;
}
