/* SPDX-License-Identifier: Apache-2.0 */
/**
 * Measured links, stored in a file between runs: the tuner measures once and uses the numbers from then on.
 *
 * An entry is found by its level and a key, which names everything that a measurement depends on: for near links the
 * kind of machine (machine_kind()), for far links the provider and the kinds at both ends. (The links of a particular
 * cluster are stored in a file of their own: core/topology/cluster_file.h.) The file is
 * ${XDG_CACHE_HOME:-~/.cache}/weft/links.json. It is a cache: one that is missing, corrupt or of another version counts
 * as empty, with a message about it as a warning, never as an error. A struct links belongs to one thread at a time.
 */
#ifndef WEFT_CORE_TOPOLOGY_LINKS_H
#define WEFT_CORE_TOPOLOGY_LINKS_H

#include "base/error.h"
#include "base/file/file.h"

#include <stddef.h>
#include <stdint.h>

enum link_level {
    LINK_NEAR, /**< between ranks of one machine, through shared memory */
    LINK_FAR,  /**< between machines, through a network */
};
#define LINK_LEVELS 2

#define LINK_KEY_BYTES 384

/** Keys: near links by machine_kind(); far ones by transport and machine_kind(). */
#define LINKS_KEY_NEAR "near/%s"
#define LINKS_KEY_FAR  "%s/%s"

/** Time of a message of n bytes: latency + n / bytes_per_second; a rank can start one every `overhead`. */
struct link_cost {
    double latency;          /**< seconds, one way, until the first byte is seen */
    double overhead;         /**< seconds of processor time a message */
    double bytes_per_second; /**< of a large message */
};

struct link_entry {
    enum link_level level;
    char key[LINK_KEY_BYTES];
    struct link_cost cost;
    int64_t measured; /**< when it was first measured; seconds since 1970 */
    int64_t samples;  /**< measurements since then: the cost is the best of all */
};

struct links {
    struct link_entry *entries;
    size_t count, room;
};

/** The file's default path. Errors: ARGUMENT if neither XDG_CACHE_HOME nor HOME is set. */
weft_status links_default_path(char path[FILE_PATH_BYTES], struct error *error);

/**
 * Load the file at `path` (NULL: the default). A file that cannot be used leaves `*links` empty and its message in
 * `warning` (may be NULL), whose status is then not WEFT_OK; a missing file is no warning. links_free() frees it.
 */
void links_load(const char *path, struct links *links, struct error *warning);
void links_free(struct links *links);

/** Measurements expire after this time and are then repeated. */
#define LINKS_LIFE_SECONDS (7 * 24 * 3600)

/** Number of measurements taken, each in another run: the best one is kept, because a busy machine disturbs some. */
#define LINKS_SAMPLES 8

/** The entry kept for `level` and `key`, or NULL if there is none or it is too old; valid until `links` changes. */
const struct link_entry *links_find(const struct links *links, enum link_level level, const char *key);

/** Store `cost`, measured now, replacing the entry for `level` and `key`. */
weft_status links_put(struct links *links, enum link_level level, const char *key, const struct link_cost *cost,
                      struct error *error);

/**
 * Store the better of `cost`, measured now, and the existing entry: the lowest latency and overhead, the highest
 * bandwidth. Load can only make a link look worse than it is. Expired entries are replaced. Errors: ARGUMENT, MEMORY.
 */
weft_status links_improve(struct links *links, enum link_level level, const char *key, const struct link_cost *cost,
                          struct error *error);

/**
 * Write to `path` (NULL: the default), atomically, making its directory. Entries that another process saved since, for
 * other keys, are kept.
 */
weft_status links_save(const struct links *links, const char *path, struct error *error);

#endif
