/* SPDX-License-Identifier: Apache-2.0 */
#include "core/transport/shm/internal/match.h"

#include <stdlib.h>
#include <string.h>

#define FIRST_BUCKETS 16u
#define FIRST_HANDLES 32u
#define NO_HANDLE     UINT32_MAX
#define SMALL_PAYLOAD 192u
#define LARGE_PAYLOAD 4096u

/* ---- channels ---- */

static uint32_t channel_bucket(const struct shm_channel_table *table, uint32_t communicator, uint8_t number)
{
    uint32_t key = (communicator << 8 | number) * 0x9e3779b1u;
    return (key ^ key >> 15) & (table->size - 1);
}

/* Drop idle channels (perhaps of communicators long freed); the others go into a table with room. */
static bool channel_table_rebuild(struct shm_channel_table *table)
{
    struct shm_channel *kept = NULL;
    uint32_t count = 0;
    for (uint32_t i = 0; i < table->size; i++)
        for (struct shm_channel *channel = table->buckets[i], *next; channel; channel = next) {
            next = channel->next;
            if (!channel->first_receive && !channel->first_early) {
                free(channel);
                continue;
            }
            channel->next = kept;
            kept = channel;
            count++;
        }
    free(table->buckets);
    uint32_t size = FIRST_BUCKETS;
    while (size < 2 * count)
        size *= 2;
    *table = (struct shm_channel_table){.buckets = calloc(size, sizeof *table->buckets), .size = size, .count = count};
    if (!table->buckets) {
        table->size = 0;
        return false;
    }
    for (struct shm_channel *channel = kept, *next; channel; channel = next) {
        next = channel->next;
        struct shm_channel **bucket = &table->buckets[channel_bucket(table, channel->communicator, channel->number)];
        channel->next = *bucket;
        *bucket = channel;
    }
    return true;
}

struct shm_channel *channel_find(struct shm_channel_table *table, uint32_t communicator, uint8_t number)
{
    struct shm_channel *channel = table->recent;
    if (channel && channel->communicator == communicator && channel->number == number)
        return channel;
    if (table->size) {
        channel = table->buckets[channel_bucket(table, communicator, number)];
        while (channel && (channel->communicator != communicator || channel->number != number))
            channel = channel->next;
        if (channel)
            return table->recent = channel;
    }
    if (table->count >= table->size && !channel_table_rebuild(table))
        return NULL;
    channel = calloc(1, sizeof *channel);
    if (!channel)
        return NULL;
    struct shm_channel **bucket = &table->buckets[channel_bucket(table, communicator, number)];
    *channel = (struct shm_channel){.next = *bucket, .communicator = communicator, .number = number};
    *bucket = channel;
    table->count++;
    return table->recent = channel;
}

void channel_table_close(struct shm_channel_table *table, struct early_pool *pool)
{
    for (uint32_t i = 0; i < table->size; i++)
        for (struct shm_channel *channel = table->buckets[i], *next; channel; channel = next) {
            next = channel->next;
            while (channel->first_early)
                early_give_back(pool, channel_pop_early(channel));
            free(channel);
        }
    free(table->buckets);
    *table = (struct shm_channel_table){0};
}

void channel_push_receive(struct shm_channel *channel, struct transfer *receive)
{
    receive->next = NULL;
    if (channel->last_receive)
        channel->last_receive->next = receive;
    else
        channel->first_receive = receive;
    channel->last_receive = receive;
}

struct transfer *channel_pop_receive(struct shm_channel *channel)
{
    struct transfer *receive = channel->first_receive;
    if (receive && !(channel->first_receive = receive->next))
        channel->last_receive = NULL;
    return receive;
}

void channel_push_early(struct shm_channel *channel, struct early *early)
{
    early->next = NULL;
    if (channel->last_early)
        channel->last_early->next = early;
    else
        channel->first_early = early;
    channel->last_early = early;
}

struct early *channel_pop_early(struct shm_channel *channel)
{
    struct early *early = channel->first_early;
    if (early && !(channel->first_early = early->next))
        channel->last_early = NULL;
    return early;
}

bool transfer_unlink(struct transfer **first, struct transfer **last, struct transfer *transfer)
{
    struct transfer *before = NULL, *here = *first;
    while (here && here != transfer) {
        before = here;
        here = here->next;
    }
    if (!here)
        return false;
    if (before)
        before->next = here->next;
    else
        *first = here->next;
    if (*last == here)
        *last = before;
    here->next = NULL;
    return true;
}

/* ---- early messages ---- */

struct early *early_take(struct early_pool *pool, uint64_t payload)
{
    struct early **list = payload <= SMALL_PAYLOAD ? &pool->small : &pool->large;
    struct early *early = *list;
    if (early) {
        *list = early->next;
        return early;
    }
    uint64_t room = payload <= SMALL_PAYLOAD ? SMALL_PAYLOAD : LARGE_PAYLOAD;
    if (room < payload)
        return NULL;
    early = malloc(sizeof *early + room);
    if (early)
        early->room = room;
    return early;
}

void early_give_back(struct early_pool *pool, struct early *early)
{
    struct early **list = early->room <= SMALL_PAYLOAD ? &pool->small : &pool->large;
    early->next = *list;
    *list = early;
}

static void early_list_free(struct early *early)
{
    while (early) {
        struct early *next = early->next;
        free(early);
        early = next;
    }
}

void early_pool_close(struct early_pool *pool)
{
    early_list_free(pool->small);
    early_list_free(pool->large);
    *pool = (struct early_pool){0};
}

/* ---- handles ---- */

static bool handle_table_grow(struct handle_table *table)
{
    uint32_t size = table->size ? 2 * table->size : FIRST_HANDLES;
    struct handle_slot *slots = realloc(table->slots, size * sizeof *slots);
    if (!slots)
        return false;
    for (uint32_t i = table->size; i < size; i++)
        slots[i] = (struct handle_slot){.generation = 1, .next_free = i + 1 < size ? i + 1 : NO_HANDLE};
    table->first_free = table->size;
    table->slots = slots;
    table->size = size;
    return true;
}

uint64_t handle_open(struct handle_table *table, struct transfer *transfer)
{
    if ((table->size == 0 || table->first_free == NO_HANDLE) && !handle_table_grow(table))
        return 0;
    uint32_t index = table->first_free;
    struct handle_slot *slot = &table->slots[index];
    table->first_free = slot->next_free;
    slot->transfer = transfer;
    return (uint64_t)slot->generation << 32 | index;
}

struct transfer *handle_find(const struct handle_table *table, uint64_t handle)
{
    uint32_t index = (uint32_t)handle;
    if (index >= table->size || table->slots[index].generation != handle >> 32)
        return NULL;
    return table->slots[index].transfer;
}

void handle_close(struct handle_table *table, uint64_t handle)
{
    if (!handle_find(table, handle))
        return;
    uint32_t index = (uint32_t)handle;
    struct handle_slot *slot = &table->slots[index];
    slot->transfer = NULL;
    if (++slot->generation == 0)
        slot->generation = 1;
    slot->next_free = table->first_free;
    table->first_free = index;
}

void handle_table_close(struct handle_table *table)
{
    free(table->slots);
    *table = (struct handle_table){0};
}
