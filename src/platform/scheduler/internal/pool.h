/* SPDX-License-Identifier: Apache-2.0 */
/**
 * What there is: Pods of hosts, their slots (GPUs, or CPU slots), who has them and for whom a host is reserved.
 *
 * Placing asks where a gang fits; nothing changes until pool_take(). Fits are the tightest there are: the host with the
 * least free slots that suffice, of Pods the one with the fewest such hosts, so that whole hosts stay whole. Memory and
 * CPU of a host go with its slots in proportion, so slots are all that is counted.
 *
 * Not thread-safe; a pool belongs to one scheduler.
 */
#ifndef WEFT_PLATFORM_SCHEDULER_INTERNAL_POOL_H
#define WEFT_PLATFORM_SCHEDULER_INTERNAL_POOL_H

#include "base/error.h"

#include <stdbool.h>
#include <stdint.h>

#define POOL_NOBODY     UINT32_MAX
#define POOL_SLOTS_MOST 64 /**< slots of a host */

struct pool_host {
    uint32_t pod;
    uint16_t slots, free;
    bool open;             /**< takes new runs; a drained host does not */
    uint32_t reserved_for; /**< the run for which it is being emptied, or POOL_NOBODY: others take it only at need */
    bool exclusive;        /**< and not even then */
    uint32_t occupants;    /**< nodes of runs on it */
    uint32_t occupant[POOL_SLOTS_MOST];       /**< whose they are */
    uint16_t occupant_slots[POOL_SLOTS_MOST]; /**< and how many slots each has */
};

struct pool_pod {
    uint32_t first, count;                       /**< its hosts, one after another */
    uint32_t with_free[POOL_SLOTS_MOST + 1];     /**< open hosts that are not reserved, by free slots */
    uint32_t reserved_free[POOL_SLOTS_MOST + 1]; /**< the reserved ones, without exclusive ones */
};

struct pool {
    struct pool_host *hosts;
    struct pool_pod *pods;
    uint32_t host_count, pod_count;
    size_t host_room, pod_room;
    uint32_t largest;     /**< slots of the largest host */
    uint64_t slots, free; /**< of open hosts */
};

/** Shape of a gang: so many nodes, each with so many slots of a host of its own, all in one Pod unless it spans them.
 */
struct gang {
    uint32_t nodes;
    uint16_t slots; /**< per node */
    bool spans;     /**< may have hosts of several Pods, where no single one has enough */
};

static inline bool gang_equal(struct gang a, struct gang b)
{
    return a.nodes == b.nodes && a.slots == b.slots && a.spans == b.spans;
}

/** One more Pod of `hosts` hosts; host i has `slots[i]` slots, at most POOL_SLOTS_MOST. */
weft_status pool_add_pod(struct pool *pool, uint32_t hosts, const uint32_t *slots, struct error *error);
void pool_free(struct pool *pool);

/**
 * The places where a gang may run, and their number: each Pod and, for a gang that spans Pods, a last place that is all
 * Pods together, as if they were one, which is built in `all`.
 */
uint32_t pool_places(const struct pool *pool, struct gang gang);
const struct pool_pod *pool_place_of(const struct pool *pool, uint32_t place, struct pool_pod *all);

/** Let a host take runs, or no new ones; those on it stay. */
void pool_open(struct pool *pool, uint32_t host, bool open);

/** Hold a host for a run, or (POOL_NOBODY) for nobody. */
void pool_reserve(struct pool *pool, uint32_t host, uint32_t run);

/** Keep a reserved host from all others, or leave it to them at need again. */
void pool_set_exclusive(struct pool *pool, uint32_t host, bool exclusive);

/**
 * Where a gang of `run` fits now: its hosts into `hosts[gang.nodes]`. A host that is reserved for another run is taken only
 * where nothing else fits. False if it fits nowhere.
 */
bool pool_place(const struct pool *pool, struct gang gang, uint32_t run, uint32_t *hosts);

/** Give `slots` slots of a host to a run, or take back what it has there. */
void pool_take(struct pool *pool, uint32_t host, uint32_t run, uint16_t slots);
void pool_give_back(struct pool *pool, uint32_t host, uint32_t run);

/* ---- shapes ---- */

/**
 * A set of gang shapes that did not fit in a pass, to save time. A shape that is not in the set has not been tried, or
 * could not be added for lack of memory: "not in the set" does not mean "fits".
 *
 * A zeroed struct is an empty set. Not thread-safe.
 */
struct shapes {
    struct gang *cells; /**< a hash table with open addressing; an empty cell has 0 nodes */
    uint32_t room;      /**< cells: a power of two, at least twice `count` */
    uint32_t count;
};

bool shapes_have(const struct shapes *shapes, struct gang gang);

/** Add a shape with at least one node. Without memory for it, the set stays as it is. */
void shapes_add(struct shapes *shapes, struct gang gang);

/** Empty the set, and keep its memory. */
void shapes_clear(struct shapes *shapes);
void shapes_free(struct shapes *shapes);

#endif
