/* SPDX-License-Identifier: Apache-2.0 */
/* The table of names: a hash table with chains, the known entries by number, the announced ones in order. */
#include "core/collective/negotiation/internal/names.h"

#include "base/hash.h"

#include <stdlib.h>
#include <string.h>

weft_status names_open(struct names *names, int capacity, int ranks, struct error *error)
{
    *names = (struct names){.bucket_count = 1024, .capacity = capacity, .ranks = ranks};
    names->buckets = calloc(names->bucket_count, sizeof *names->buckets);
    names->known = calloc((size_t)capacity + 1, sizeof *names->known);
    return names->buckets && names->known ? WEFT_OK : error_memory(error, (size_t)capacity * 8, "names of operations");
}

static void named_entry_free(struct names *names, struct named_entry *entry)
{
    for (int r = 0; entry->announced && r < names->ranks; r++)
        description_release(entry->announced[r]);
    free(entry->announced);
    description_release(entry->known);
    free(entry);
}

void names_close(struct names *names)
{
    for (size_t i = 0; names->buckets && i < names->bucket_count; i++)
        for (struct named_entry *entry = names->buckets[i], *next; entry; entry = next) {
            next = entry->chain;
            named_entry_free(names, entry);
        }
    free(names->buckets);
    free(names->known);
    free(names->announced);
    *names = (struct names){0};
}

/* Chains stay short. If memory runs out, they grow longer, which is only slower. */
static void names_grow(struct names *names)
{
    const size_t count = names->bucket_count * 4;
    struct named_entry **buckets = calloc(count, sizeof *buckets);
    if (!buckets)
        return;
    for (size_t i = 0; i < names->bucket_count; i++)
        for (struct named_entry *entry = names->buckets[i], *next; entry; entry = next) {
            next = entry->chain;
            entry->chain = buckets[entry->hash & (count - 1)];
            buckets[entry->hash & (count - 1)] = entry;
        }
    free(names->buckets);
    names->buckets = buckets;
    names->bucket_count = count;
}

struct named_entry *names_get(struct names *names, const char *name, size_t length, struct error *error)
{
    const uint64_t hash = hash_bytes(name, length, 0);
    struct named_entry *entry = names->buckets[hash & (names->bucket_count - 1)];
    while (entry && (entry->hash != hash || strlen(entry->name) != length || memcmp(entry->name, name, length) != 0))
        entry = entry->chain;
    if (entry)
        return entry;
    if (!(entry = calloc(1, sizeof *entry + length + 1))) {
        error_memory(error, sizeof *entry + length + 1, "the name of an operation");
        return NULL;
    }
    memcpy(entry->name, name, length);
    entry->hash = hash;
    entry->number = -1;
    if (++names->count > 2 * names->bucket_count)
        names_grow(names);
    struct named_entry **bucket = &names->buckets[hash & (names->bucket_count - 1)];
    entry->chain = *bucket;
    *bucket = entry;
    return entry;
}

void names_drop_unused(struct names *names, struct named_entry *entry)
{
    if (entry->operation || entry->known || entry->announced)
        return;
    struct named_entry **place = &names->buckets[entry->hash & (names->bucket_count - 1)];
    while (*place != entry)
        place = &(*place)->chain;
    *place = entry->chain;
    names->count--;
    named_entry_free(names, entry);
}

weft_status names_announce(struct names *names, struct named_entry *entry, int rank, struct description *description,
                           uint64_t since, struct error *error)
{
    if (!entry->announced) {
        if (ARRAY_RESERVE(names->announced, names->announced_room, names->announced_count + 1, "announcements",
                          error) != WEFT_OK ||
            !(entry->announced = calloc((size_t)names->ranks, sizeof(struct description *)))) {
            description_release(description);
            return error_memory(error, (size_t)names->ranks * 8, "announcements");
        }
        names->announced[names->announced_count++] = entry;
        entry->since = since;
        entry->warned = 0;
    }
    if (since < entry->since)
        entry->since = since;
    description_release(entry->announced[rank]);
    entry->announced[rank] = description;
    return WEFT_OK;
}

void names_withdraw(struct names *names, size_t index)
{
    struct named_entry *entry = names->announced[index];
    for (int r = 0; r < names->ranks; r++)
        description_release(entry->announced[r]);
    free(entry->announced);
    entry->announced = NULL;
    names->announced_count--;
    memmove(names->announced + index, names->announced + index + 1,
            (names->announced_count - index) * sizeof *names->announced);
}

void names_learn(struct names *names, struct named_entry *entry, struct description *description, uint64_t round)
{
    if (names->capacity == 0)
        return;
    int number = 0;
    while (number < names->known_end && names->known[number])
        number++;
    if (number == names->capacity) {
        struct named_entry *oldest = names->known[0];
        for (int i = 1; i < names->capacity; i++)
            if (names->known[i]->used < oldest->used)
                oldest = names->known[i];
        number = oldest->number;
        names_forget(names, oldest);
        names_drop_unused(names, oldest);
    }
    entry->known = description_keep(description);
    entry->number = number;
    entry->used = round;
    names->known[number] = entry;
    if (number >= names->known_end)
        names->known_end = number + 1;
}

void names_forget(struct names *names, struct named_entry *entry)
{
    if (!entry->known)
        return;
    names->known[entry->number] = NULL;
    while (names->known_end > 0 && !names->known[names->known_end - 1])
        names->known_end--;
    description_release(entry->known);
    entry->known = NULL;
    entry->number = -1;
}
