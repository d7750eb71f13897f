/* SPDX-License-Identifier: Apache-2.0 */
/* The tables of functions of each rail's completion queue and endpoint are replaced by ones that lead here first. */
#include "fabric_shuffle.h"

#include "base/random.h"
#include "core/transport/fabric/internal/state.h"

#include <stdio.h>
#include <stdlib.h>

/* One call of fi_writedata(). */
struct chunk_write {
    struct fid_ep *endpoint;
    const void *data;
    size_t bytes;
    void *descriptor, *context;
    uint64_t immediate, address, key;
    fi_addr_t peer;
};

/* What is kept back on a rail. The tables are first: they lead from libfabric's objects to this. */
struct shuffled_rail {
    struct fi_ops_cq queue;
    struct fi_ops_rma memory;
    const struct fi_ops_cq *real_queue;
    const struct fi_ops_rma *real_memory;
    struct fabric_shuffle *shuffle;
    struct shuffled_entry {
        struct fi_cq_data_entry entry;
        uint64_t number;
    } * entries;
    struct shuffled_write {
        struct chunk_write write;
        uint64_t number;
    } * writes;
    size_t entry_count, entry_room, write_count, write_room;
};

struct fabric_shuffle {
    uint64_t seed, drawn, numbered;
    uint64_t completions_overtaking, chunks_overtaking;
    struct shuffled_rail rails[FABRIC_RAILS];
};

/* Room for `more` entries of `size` bytes beside the `count` that are there. */
static void *make_room(void *entries, size_t count, size_t more, size_t *room, size_t size)
{
    if (count + more <= *room)
        return entries;
    *room = 2 * (*room + more);
    entries = realloc(entries, *room * size);
    if (!entries)
        abort();
    return entries;
}

static bool draw_next(struct fabric_shuffle *shuffle, size_t count, size_t *which)
{
    if (!count || random_below(shuffle->seed, shuffle->drawn++, 3) != 0)
        return false;
    *which = random_below(shuffle->seed, shuffle->drawn++, count);
    return true;
}

static bool entry_overtakes(const struct shuffled_rail *rail, size_t which)
{
    for (size_t i = 0; i < rail->entry_count; i++)
        if (rail->entries[i].number < rail->entries[which].number)
            return true;
    return false;
}

static bool write_overtakes(const struct shuffled_rail *rail, size_t which)
{
    for (size_t i = 0; i < rail->write_count; i++)
        if (rail->writes[i].number < rail->writes[which].number)
            return true;
    return false;
}

/* Hand on some chunks. Where the provider has no room for one, it stays. */
static void write_some(struct shuffled_rail *rail)
{
    for (size_t which; draw_next(rail->shuffle, rail->write_count, &which);) {
        const struct chunk_write *write = &rail->writes[which].write;
        ssize_t status =
            rail->real_memory->writedata(write->endpoint, write->data, write->bytes, write->descriptor,
                                         write->immediate, write->peer, write->address, write->key, write->context);
        if (status == -FI_EAGAIN)
            return;
        if (status != 0) {
            fprintf(stderr, "fabric_shuffle: writing a chunk failed with %zd\n", status);
            abort();
        }
        rail->shuffle->chunks_overtaking += write_overtakes(rail, which);
        rail->writes[which] = rail->writes[--rail->write_count];
    }
}

static ssize_t shuffled_read(struct fid_cq *queue, void *result, size_t count)
{
    struct shuffled_rail *rail = (struct shuffled_rail *)(void *)queue->ops;
    if (!count && (rail->entry_count || rail->write_count))
        return 0; /* there is something to do */
    if (!count)
        return rail->real_queue->read(queue, result, count);
    write_some(rail);
    struct fi_cq_data_entry *entries = result;
    ssize_t arrived = rail->real_queue->read(queue, entries, count);
    if (arrived < 0 && arrived != -FI_EAGAIN)
        return arrived;
    rail->entries = make_room(rail->entries, rail->entry_count, arrived > 0 ? (size_t)arrived : 0, &rail->entry_room,
                              sizeof *rail->entries);
    for (ssize_t i = 0; i < arrived; i++)
        rail->entries[rail->entry_count++] = (struct shuffled_entry){entries[i], rail->shuffle->numbered++};
    size_t taken = 0;
    for (size_t which; taken < count && draw_next(rail->shuffle, rail->entry_count, &which);) {
        rail->shuffle->completions_overtaking += entry_overtakes(rail, which);
        entries[taken++] = rail->entries[which].entry;
        rail->entries[which] = rail->entries[--rail->entry_count];
    }
    return taken ? (ssize_t)taken : -FI_EAGAIN;
}

static ssize_t shuffled_writedata(struct fid_ep *endpoint, const void *data, size_t bytes, void *descriptor,
                                  uint64_t immediate, fi_addr_t peer, uint64_t address, uint64_t key, void *context)
{
    struct shuffled_rail *rail =
        (struct shuffled_rail *)(void *)((char *)endpoint->rma - offsetof(struct shuffled_rail, memory));
    rail->writes = make_room(rail->writes, rail->write_count, 1, &rail->write_room, sizeof *rail->writes);
    rail->writes[rail->write_count++] = (struct shuffled_write){
        {endpoint, data, bytes, descriptor, context, immediate, address, key, peer}, rail->shuffle->numbered++};
    return 0;
}

struct fabric_shuffle *fabric_shuffle_open(struct fabric *fabric, uint64_t seed)
{
    struct fabric_shuffle *shuffle = calloc(1, sizeof *shuffle);
    if (!shuffle)
        abort();
    shuffle->seed = seed;
    for (uint32_t i = 0; i < fabric->rail_count; i++) {
        struct shuffled_rail *rail = &shuffle->rails[i];
        struct fid_cq *queue = fabric->rails[i].queue;
        struct fid_ep *endpoint = fabric->rails[i].bulk;
        *rail = (struct shuffled_rail){.queue = *queue->ops,
                                       .memory = *endpoint->rma,
                                       .real_queue = queue->ops,
                                       .real_memory = endpoint->rma,
                                       .shuffle = shuffle};
        rail->queue.read = shuffled_read;
        rail->memory.writedata = shuffled_writedata;
        queue->ops = &rail->queue;
        endpoint->rma = &rail->memory;
    }
    return shuffle;
}

void fabric_shuffle_overtakes(const struct fabric_shuffle *shuffle, uint64_t *completions, uint64_t *chunks)
{
    *completions = shuffle->completions_overtaking;
    *chunks = shuffle->chunks_overtaking;
}

void fabric_shuffle_close(struct fabric_shuffle *shuffle)
{
    for (uint32_t i = 0; shuffle && i < FABRIC_RAILS; i++) {
        free(shuffle->rails[i].entries);
        free(shuffle->rails[i].writes);
    }
    free(shuffle);
}
