/* SPDX-License-Identifier: Apache-2.0 */
/*
 * An exchange among all ranks, through the tree. Each rank holds the blobs of its subtree until all have arrived and
 * sends them up as one frame; the table comes down as one frame over each link. So no rank handles more frames than it
 * has neighbors, and the longest chain of frames grows with the depth of the tree. Rank 0, which gathers, receives
 * nothing from a subtree until it is complete: after its time limit it asks for the blobs held below, to name the
 * missing ranks.
 */
#include "core/control/internal/plane.h"

#include <stdlib.h>
#include <string.h>

/* This rank's part of its subtree under one key. */
struct gathering {
    struct gathering *next;
    uint64_t key;
    uint32_t count, size; /* by the first frame of the subtree */
    uint32_t entries;     /* held: rank (4), blob (size) each */
    struct buffer held;
    bool hurried; /* nothing is held back any more */
};

static struct gathering *control_gather_find_or_make(struct control *control, uint64_t key)
{
    for (struct gathering *gathering = control->gatherings; gathering; gathering = gathering->next)
        if (gathering->key == key)
            return gathering;
    struct gathering *gathering = calloc(1, sizeof *gathering);
    if (!gathering)
        return NULL;
    gathering->key = key;
    gathering->next = control->gatherings;
    control->gatherings = gathering;
    return gathering;
}

void gather_forget(struct control *control, uint64_t key)
{
    for (struct gathering **place = &control->gatherings; *place; place = &(*place)->next) {
        struct gathering *gathering = *place;
        if (gathering->key != key)
            continue;
        *place = gathering->next;
        buffer_free(&gathering->held);
        free(gathering);
        return;
    }
}

void gather_free_all(struct control *control)
{
    while (control->gatherings)
        gather_forget(control, control->gatherings->key);
}

/* Entries of one count and size, for the parent; at the root, for the exchange. */
static bool control_gather_pass_up(struct control *control, uint64_t key, uint32_t count, uint32_t size,
                                   uint32_t entries, const uint8_t *bytes)
{
    if (control->tree.parent == TREE_NONE) {
        bool good = true;
        struct reader reader = {bytes, (size_t)entries * (4 + size), false};
        for (uint32_t i = 0; i < entries && good; i++) {
            uint32_t rank = reader_u32(&reader);
            good = exchange_receive_blob(control, rank, key, rank, count, size, reader_bytes(&reader, size));
        }
        return good;
    }
    struct buffer payload = {0};
    buffer_put_u64(&payload, key);
    buffer_put_u32(&payload, count);
    buffer_put_u32(&payload, size);
    buffer_put_u32(&payload, entries);
    buffer_put(&payload, bytes, (size_t)entries * (4 + size));
    plane_send(control, &control->links[0], CONTROL_GATHER, buffer_begin(&payload), buffer_size(&payload));
    buffer_free(&payload);
    return true;
}

static bool control_gather_pass_held(struct control *control, struct gathering *gathering)
{
    bool good =
        !gathering->entries || control_gather_pass_up(control, gathering->key, gathering->count, gathering->size,
                                                      gathering->entries, buffer_begin(&gathering->held));
    buffer_consume(&gathering->held, buffer_size(&gathering->held));
    gathering->entries = 0;
    return good;
}

/* Entries of this subtree: held until it is complete. */
static bool control_gather_take(struct control *control, uint64_t key, uint32_t count, uint32_t size, uint32_t entries,
                                const uint8_t *bytes)
{
    struct gathering *gathering = control->tree.parent == TREE_NONE ? NULL : control_gather_find_or_make(control, key);
    if (!gathering) /* the root, where the exchange itself holds it; or without memory to do so */
        return control_gather_pass_up(control, key, count, size, entries, bytes);
    if (gathering->entries && (gathering->count != count || gathering->size != size)) {
        gathering->hurried = true; /* they contradict each other: the root must see all of them */
        if (!control_gather_pass_held(control, gathering))
            return false;
    }
    gathering->count = count;
    gathering->size = size;
    gathering->entries += entries;
    buffer_put(&gathering->held, bytes, (size_t)entries * (4 + size));
    if (!gathering->hurried && gathering->entries < control->tree.below)
        return true;
    bool good = !gathering->held.failed && control_gather_pass_held(control, gathering);
    if (!gathering->hurried)
        gather_forget(control, key);
    return good;
}

bool gather_contribute(struct control *control, uint64_t key, uint32_t count, uint32_t size, const void *blob)
{
    struct buffer entry = {0};
    buffer_put_u32(&entry, control->config.rank);
    buffer_put(&entry, blob, size);
    bool good = !entry.failed && control_gather_take(control, key, count, size, 1, buffer_begin(&entry));
    buffer_free(&entry);
    return good;
}

bool gather_receive(struct control *control, struct reader reader)
{
    uint64_t key = reader_u64(&reader);
    uint32_t count = reader_u32(&reader), size = reader_u32(&reader), entries = reader_u32(&reader);
    if (reader.bad || size > EXCHANGE_BLOB_MOST || !entries || entries > control->config.ranks ||
        reader.left != (size_t)entries * (4 + (size_t)size))
        return false;
    return control_gather_take(control, key, count, size, entries, reader.bytes);
}

void gather_flush(struct control *control, uint64_t key)
{
    struct buffer payload = {0};
    buffer_put_u64(&payload, key);
    plane_flood(control, CONTROL_FLUSH, buffer_begin(&payload), buffer_size(&payload), NULL);
    buffer_free(&payload);
}

bool gather_receive_flush(struct control *control, const struct link *from, struct reader reader)
{
    const uint8_t *bytes = reader.bytes;
    uint64_t key = reader_u64(&reader);
    if (reader.bad)
        return false;
    plane_flood(control, CONTROL_FLUSH, bytes, 8, from);
    struct gathering *gathering = control_gather_find_or_make(control, key);
    if (!gathering)
        return true;
    gathering->hurried = true;
    return control_gather_pass_held(control, gathering);
}
