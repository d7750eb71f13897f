/* SPDX-License-Identifier: Apache-2.0 */
/** The keys of cluster files, as tables that reading and writing share. */
#ifndef WEFT_CORE_TOPOLOGY_INTERNAL_CLUSTER_KEYS_H
#define WEFT_CORE_TOPOLOGY_INTERNAL_CLUSTER_KEYS_H

#include "base/format/quantity.h"
#include "core/topology/cluster_file.h"

#define CLUSTER_FILE_VERSION 2
#define CLUSTER_LINK_MOST    1e15 /**< bytes/s of a link */

enum cluster_store {
    CLUSTER_STORE_NONE, /**< read and written by a function of its own */
    CLUSTER_STORE_TEXT,
    CLUSTER_STORE_DOUBLE,
    CLUSTER_STORE_U32,
    CLUSTER_STORE_U64,
    CLUSTER_STORE_I64,
};

/** A key of a map, and the field of the struct that it fills. A field that is 0 or "" is not written. */
struct cluster_key {
    const char *name;
    const char *old; /**< its name in version 1; NULL: the same */
    enum cluster_store store;
    size_t offset;
    size_t size; /**< of a text */
    enum quantity quantity;
    double least, most; /**< in the base unit */
};

struct cluster_keys {
    const char *what; /**< "a device", for messages */
    const struct cluster_key *keys;
    size_t count;
};

/** Those of the whole file, of a level, a device and a group. */
extern const struct cluster_keys cluster_keys_of_file, cluster_keys_of_level, cluster_keys_of_device,
    cluster_keys_of_group;

#endif
