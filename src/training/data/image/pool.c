/* SPDX-License-Identifier: Apache-2.0 */
#include "training/data/image/internal/pool.h"
#include "base/thread.h"

#include <stdlib.h>

/* Reads that are held at once: the one that is being copied, and those ahead of it. */
#define POOL_READS 3u

enum slot_state {
    SLOT_FREE,
    SLOT_WANTED,
    SLOT_MAKING,
    SLOT_READY,
};

struct image_slot {
    enum slot_state state;
    enum dataset_split split;
    uint64_t number;
    uint64_t round, order; /* when it was last expected: in which read, and as which group in all */
    struct image_group group;
    weft_status status;
    struct error error;
};

struct image_pool {
    struct image_group_maker maker;
    size_t floats;
    size_t most; /* slots that memory allows */
    uint64_t round, order;
    struct image_slot **slots; /* each allocated by itself, for threads hold on to them */
    size_t count, room;
    struct image_slot *taken;
    struct image_maker own; /* the reader's */
    pthread_mutex_t mutex;
    pthread_cond_t wanted, made;
    bool stopping;
    pthread_t *threads;
    uint32_t thread_count;
};

/* ---- slots; the mutex is held ---- */

static struct image_slot *slot_find(const struct image_pool *pool, enum dataset_split split, uint64_t number)
{
    for (size_t i = 0; i < pool->count; i++) {
        struct image_slot *slot = pool->slots[i];
        if (slot->number == number && slot->split == split && slot->state != SLOT_FREE)
            return slot;
    }
    return NULL;
}

/* A slot to use: one that is free, or else the one that was expected in the earliest read before this one. */
static struct image_slot *slot_choose(const struct image_pool *pool)
{
    struct image_slot *oldest = NULL;
    for (size_t i = 0; i < pool->count; i++) {
        struct image_slot *slot = pool->slots[i];
        if (slot->state == SLOT_FREE)
            return slot;
        if (slot->state != SLOT_MAKING && slot != pool->taken && slot->round < pool->round &&
            (!oldest || slot->order < oldest->order))
            oldest = slot;
    }
    return oldest;
}

/* The group that is needed next: of the newest read, the one that was expected first. */
static struct image_slot *slot_next(const struct image_pool *pool)
{
    struct image_slot *next = NULL;
    for (size_t i = 0; i < pool->count; i++) {
        struct image_slot *slot = pool->slots[i];
        if (slot->state == SLOT_WANTED &&
            (!next || slot->round > next->round || (slot->round == next->round && slot->order < next->order)))
            next = slot;
    }
    return next;
}

static weft_status slot_add(struct image_pool *pool, struct error *error)
{
    weft_status status = ARRAY_RESERVE(pool->slots, pool->room, pool->count + 1, "a list of samples", error);
    if (status != WEFT_OK)
        return status;
    struct image_slot *slot = calloc(1, sizeof *slot);
    float *pixels = malloc(pool->floats * sizeof *pixels);
    if (!slot || !pixels) {
        free(slot);
        free(pixels);
        return error_memory(error, pool->floats * sizeof *pixels, "the pixels of a sample");
    }
    slot->group.pixels = pixels;
    pool->slots[pool->count++] = slot;
    return WEFT_OK;
}

/* Make the group of a slot, without the mutex meanwhile. */
static void slot_make(struct image_pool *pool, struct image_slot *slot, struct image_maker *maker)
{
    slot->state = SLOT_MAKING;
    pthread_mutex_unlock(&pool->mutex);
    error_clear(&slot->error);
    slot->group.skipped = 0;
    slot->status = pool->maker.make(pool->maker.context, maker, slot->split, slot->number, &slot->group, &slot->error);
    pthread_mutex_lock(&pool->mutex);
    slot->state = SLOT_READY;
    pthread_cond_broadcast(&pool->made);
}

static void *pool_run(void *context)
{
    struct image_pool *pool = context;
    struct image_maker maker = {0};
    pthread_mutex_lock(&pool->mutex);
    while (!pool->stopping) {
        struct image_slot *slot = slot_next(pool);
        if (slot)
            slot_make(pool, slot, &maker);
        else
            pthread_cond_wait(&pool->wanted, &pool->mutex);
    }
    pthread_mutex_unlock(&pool->mutex);
    image_maker_free(&maker);
    return NULL;
}

/* ---- the reader ---- */

weft_status image_pool_open(const struct image_group_maker *maker, uint32_t threads, size_t floats, uint64_t memory,
                            struct image_pool **pool, struct error *error)
{
    struct image_pool *opened = calloc(1, sizeof *opened);
    pthread_t *handles = calloc(threads + 1, sizeof *handles);
    if (!opened || !handles) {
        free(opened);
        free(handles);
        return error_memory(error, sizeof *opened, "threads that decode images");
    }
    *opened = (struct image_pool){.maker = *maker, .floats = floats, .threads = handles};
    opened->most = memory / (floats * sizeof(float));
    pthread_mutex_init(&opened->mutex, NULL);
    pthread_cond_init(&opened->wanted, NULL);
    pthread_cond_init(&opened->made, NULL);
    weft_status status = WEFT_OK;
    while (opened->thread_count < threads && status == WEFT_OK) {
        errno = thread_start(&handles[opened->thread_count], pool_run, opened);
        if (errno)
            status = error_system(error, "cannot start a thread that decodes images");
        else
            opened->thread_count++;
    }
    if (status != WEFT_OK) {
        image_pool_close(opened);
        return status;
    }
    *pool = opened;
    return WEFT_OK;
}

void image_pool_close(struct image_pool *pool)
{
    if (!pool)
        return;
    pthread_mutex_lock(&pool->mutex);
    pool->stopping = true;
    pthread_cond_broadcast(&pool->wanted);
    pthread_mutex_unlock(&pool->mutex);
    for (uint32_t i = 0; i < pool->thread_count; i++)
        pthread_join(pool->threads[i], NULL);
    for (size_t i = 0; i < pool->count; i++) {
        free(pool->slots[i]->group.pixels);
        free(pool->slots[i]);
    }
    image_maker_free(&pool->own);
    pthread_cond_destroy(&pool->wanted);
    pthread_cond_destroy(&pool->made);
    pthread_mutex_destroy(&pool->mutex);
    free(pool->slots);
    free(pool->threads);
    free(pool);
}

void image_pool_begin(struct image_pool *pool, uint64_t groups)
{
    const uint64_t asked = pool->thread_count ? POOL_READS * groups + pool->thread_count : 1;
    const size_t slots = asked < pool->most ? (size_t)asked : pool->most;
    pthread_mutex_lock(&pool->mutex);
    pool->round++;
    /* Without memory for more, fewer are made ahead. One is needed, and image_pool_take() reports if there is none. */
    while (pool->count < slots && slot_add(pool, NULL) == WEFT_OK)
        ;
    pthread_mutex_unlock(&pool->mutex);
}

/* Find or choose a slot for a group, and have it made. NULL: there is no room. */
static struct image_slot *slot_want(struct image_pool *pool, enum dataset_split split, uint64_t number)
{
    struct image_slot *slot = slot_find(pool, split, number);
    if (!slot) {
        slot = slot_choose(pool);
        if (!slot)
            return NULL;
        slot->state = SLOT_WANTED;
        slot->split = split;
        slot->number = number;
    }
    slot->round = pool->round;
    slot->order = pool->order++;
    return slot;
}

void image_pool_expect(struct image_pool *pool, enum dataset_split split, uint64_t first, uint64_t groups)
{
    if (!pool->thread_count)
        return;
    pthread_mutex_lock(&pool->mutex);
    for (uint64_t i = 0; i < groups && slot_want(pool, split, first + i); i++)
        ;
    pthread_cond_broadcast(&pool->wanted);
    pthread_mutex_unlock(&pool->mutex);
}

weft_status image_pool_take(struct image_pool *pool, enum dataset_split split, uint64_t number,
                            const struct image_group **group, struct error *error)
{
    weft_status status = WEFT_OK;
    pthread_mutex_lock(&pool->mutex);
    if (pool->count == 0)
        status = slot_add(pool, error);
    struct image_slot *slot = NULL;
    while (status == WEFT_OK && !(slot = slot_want(pool, split, number))) {
        /* All slots hold what comes after this group. */
        struct image_slot *last = NULL;
        for (size_t i = 0; i < pool->count; i++)
            if (pool->slots[i]->state != SLOT_MAKING && (!last || pool->slots[i]->order > last->order))
                last = pool->slots[i];
        if (last)
            last->state = SLOT_FREE;
        else
            pthread_cond_wait(&pool->made, &pool->mutex);
    }
    if (slot && slot->state == SLOT_WANTED)
        slot_make(pool, slot, &pool->own);
    while (slot && slot->state == SLOT_MAKING)
        pthread_cond_wait(&pool->made, &pool->mutex);
    pool->taken = slot;
    pthread_mutex_unlock(&pool->mutex);
    if (status == WEFT_OK && slot->status != WEFT_OK) {
        status = error_set(error, slot->status, "%s", slot->error.text);
        image_pool_release(pool, false);
    }
    if (status == WEFT_OK)
        *group = &slot->group;
    return status;
}

void image_pool_release(struct image_pool *pool, bool again)
{
    pthread_mutex_lock(&pool->mutex);
    pool->taken->group.skipped = 0; /* it has been counted */
    if (!again)
        pool->taken->state = SLOT_FREE;
    pool->taken = NULL;
    pthread_mutex_unlock(&pool->mutex);
}
