/* SPDX-License-Identifier: Apache-2.0 */
/**
 * What a rank knows about operations, by name: the operation of its own that waits, what ranks have announced, and the
 * description on which all agreed in an earlier round ("known"). Ranks keep the known ones alike: they number and forget
 * them at the same points of the same rounds. Guarded by the negotiator's lock.
 */
#ifndef WEFT_CORE_COLLECTIVE_NEGOTIATION_INTERNAL_NAMES_H
#define WEFT_CORE_COLLECTIVE_NEGOTIATION_INTERNAL_NAMES_H

#include "core/collective/negotiation/internal/description.h"

struct named_entry {
    struct named_entry *chain; /**< of its bucket */
    uint64_t hash;
    weft_operation *operation; /**< this rank's, from submission to end */

    struct description *known; /**< NULL: not known */
    int number;                /**< of a known one */
    uint64_t used;             /**< the last round that used it */

    struct description **announced; /**< [ranks], NULL where a rank has not; NULL: nobody has */
    uint64_t since;                 /**< of clock_now(): the first submission */
    uint64_t warned;

    int row; /**< of the timeline; 0: it has none yet */
    char name[];
};

struct names {
    struct named_entry **buckets; /**< [bucket_count] */
    size_t bucket_count, count;
    struct named_entry **known;     /**< [capacity], by number; NULL: free */
    int capacity, known_end;        /**< numbers in use are below `known_end` */
    struct named_entry **announced; /**< in the order of their first announcement */
    size_t announced_count, announced_room;
    int ranks;
};

weft_status names_open(struct names *names, int capacity, int ranks, struct error *error);
void names_close(struct names *names);

/** The entry of a name, made if there is none. NULL with an error: memory ran out. */
struct named_entry *names_get(struct names *names, const char *name, size_t length, struct error *error);

/** Free the entry if nothing is known of it any more. */
void names_drop_unused(struct names *names, struct named_entry *entry);

/** Note that `rank` has announced this; takes the reference. Ranks that announce again replace what they said. */
weft_status names_announce(struct names *names, struct named_entry *entry, int rank, struct description *description,
                           uint64_t since, struct error *error);

/** Remove all announcements of the entry at `index` of `announced`. */
void names_withdraw(struct names *names, size_t index);

/** Make the entry known, with the lowest free number. If none is free, the one that was not used longest is forgotten. */
void names_learn(struct names *names, struct named_entry *entry, struct description *description, uint64_t round);

/** The opposite. */
void names_forget(struct names *names, struct named_entry *entry);

#endif
