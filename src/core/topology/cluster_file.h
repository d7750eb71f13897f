/* SPDX-License-Identifier: Apache-2.0 */
/**
 * Cluster files: the hosts, devices and links of a cluster, in one format for all uses. A file describes a machine
 * elsewhere (share/clusters/), overrides measurements (WEFT_TOPOLOGY), or stores the measurements of these hosts.
 * docs/cluster-files.md is the manual of the format: YAML; JSON of version 1 is read, too.
 *
 * Levels go from the inside out: a *node* joins ranks, a *leaf* joins nodes, a *pod* joins leaves, the *core* joins
 * pods. The outermost level joins everything, so a file may have fewer levels: two for a flat network, one for a single
 * machine. A level's cost is that of a message between units of the level below within one unit of this one. Its
 * bandwidth is that of one of those units in each direction: a rank's, a node's interfaces, a leaf's uplinks, a pod's.
 */
#ifndef WEFT_CORE_TOPOLOGY_CLUSTER_FILE_H
#define WEFT_CORE_TOPOLOGY_CLUSTER_FILE_H

#include "base/error.h"
#include "core/topology/cluster_device.h"
#include "core/topology/links.h"

#include <stdint.h>
#include <stdio.h>

#define CLUSTER_LEVELS     4
#define CLUSTER_MAPS       (CLUSTER_LEVELS - 2) /**< leaves and pods */
#define CLUSTER_HOSTS_MOST 65536
#define CLUSTER_UNITS_MOST 65536

struct cluster_level {
    char name[CLUSTER_NAME_BYTES]; /**< "node", "leaf", "pod", "core"; any word */
    uint32_t size;                 /**< units of the level below in each; of the outermost, 0: unspecified */
    struct link_cost cost;
    char source[CLUSTER_TEXT_BYTES]; /**< where the numbers come from; "" if unspecified */
};

struct cluster_host {
    char name[CLUSTER_NAME_BYTES];
    uint32_t units[CLUSTER_MAPS]; /**< its leaf and its pod, numbered from 0 over the whole file */
};

struct cluster_file {
    char name[CLUSTER_NAME_BYTES];
    char source[CLUSTER_TEXT_BYTES];
    uint32_t level_count; /**< at least 1 */
    struct cluster_level levels[CLUSTER_LEVELS];
    uint32_t cores;          /**< of a node; 0: unspecified, also below */
    uint64_t cache_bytes;    /**< of the last level, a node */
    double copy_bandwidth;   /**< bytes/s that a rank copies within the cache */
    double memory_bandwidth; /**< ... and beyond it */
    struct cluster_host *hosts;
    size_t host_room;
    uint32_t host_count;   /**< 0: any hosts, in order, filling leaf after leaf */
    uint32_t device_count; /**< 0: only links are described */
    struct cluster_device devices[CLUSTER_DEVICES_MOST];
    uint32_t group_count; /**< 0: all hosts are alike; sizes are those of the levels, and the device is the first one */
    struct cluster_group groups[CLUSTER_GROUPS_MOST];
    double collective_launch; /**< seconds that every collective takes besides its messages: to start its kernel, say.
                                 Not a part of what the simulator of collectives returns */
    double overlap_slowdown;  /**< a rank computes (1 + this) times as long while its collectives progress */
    int64_t measured;         /**< seconds since 1970; 0: described, not measured */
};

/**
 * Read a file; cluster_file_free() frees the memory that it points to. Errors: SYSTEM; DATA, with file, line, key and
 * value.
 */
weft_status cluster_file_load(const char *path, struct cluster_file *cluster, struct error *error);

/** The same from `size` bytes of text; `where` names them in messages. */
weft_status cluster_file_parse(const char *text, size_t size, const char *where, struct cluster_file *cluster,
                               struct error *error);

/** Write it to `path` as YAML, atomically, making its directory. */
weft_status cluster_file_save(const struct cluster_file *cluster, const char *path, struct error *error);

/** Write the same text to `out`. */
void cluster_file_write(const struct cluster_file *cluster, FILE *out);

void cluster_file_free(struct cluster_file *cluster);

/** The host that the file lists as `name`; NULL if it lists none. */
const struct cluster_host *cluster_file_find_host(const struct cluster_file *cluster, const char *name);

/** The number of levels above nodes: 0, 1 (leaves) or 2 (pods, too). */
uint32_t cluster_file_maps(const struct cluster_file *cluster);

/**
 * The units of `nodes` nodes: units[k][n] is the leaf (k = 0) or pod (k = 1) of node n, for k below
 * cluster_file_maps(); numbers are those of the file. `hosts[n]` is the node's host name; NULL: the nodes are the
 * file's first ones. Errors: ARGUMENT when the file lists hosts and one of these is not among them.
 */
weft_status cluster_file_place(const struct cluster_file *cluster, const char *const *hosts, uint32_t nodes,
                               uint32_t *const units[CLUSTER_MAPS], struct error *error);

/** Total ranks, and hosts, that the file describes; 0 when unspecified. */
uint64_t cluster_file_ranks(const struct cluster_file *cluster);
uint32_t cluster_file_hosts(const struct cluster_file *cluster);

/** What host `host` (from 0, in the file's order) is like. Where the file has no groups, all hosts are one. */
struct cluster_group cluster_file_group(const struct cluster_file *cluster, uint32_t host);

/**
 * Make it a cluster of `hosts` (at least 1) hosts like its own. Levels that would have a single unit are left out.
 * Errors: ARGUMENT where the file names its hosts or has groups of different ones.
 */
weft_status cluster_file_resize(struct cluster_file *cluster, uint32_t hosts, struct error *error);

/** The file in which measurements of the cluster with this hash are kept: ~/.cache/weft/clusters/HASH.yaml. */
weft_status cluster_file_cache_path(uint64_t hash, char path[FILE_PATH_BYTES], struct error *error);

#endif
