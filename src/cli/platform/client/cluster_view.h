/* SPDX-License-Identifier: Apache-2.0 */
/** Pods and hosts: as the server describes them (GET /cluster), for `weft nodes` and `weft pods`; as --pods does. */
#ifndef WEFT_CLI_PLATFORM_CLIENT_CLUSTER_VIEW_H
#define WEFT_CLI_PLATFORM_CLIENT_CLUSTER_VIEW_H

#include "cli/platform/client/client.h"

#define CLUSTER_MAP_BYTES 257

/** Ask the server; cJSON_Delete() frees *cluster. */
weft_status cluster_get(struct platform *platform, cJSON **cluster, struct error *error);

/** The number of slots of a host that are taken. */
int64_t cluster_taken(const cJSON *host);

/** Whether runs may start on a host: it is up, neither drained nor cordoned nor lost. */
bool cluster_is_up(const cJSON *host);

/** Whether a host does not answer, drained or not. */
bool cluster_is_lost(const cJSON *host);

/** Whether the platform has taken a host out of use after repeated failures or because a GPU is ill, lost or not. */
bool cluster_is_cordoned(const cJSON *host);

/** Write a character for each slot of a host, 256 at most: 'a' for the first run, 'b' ... 'z', then from 'a' again; '.'
 * for a free slot. Returns `map`. */
char *cluster_map(const cJSON *host, char map[CLUSTER_MAP_BYTES]);

/** The runs of a host in the order of their letters: "12, 14 and 3 of others". Returns `buffer`. */
char *cluster_runs(const cJSON *host, char *buffer, size_t size);

/** The size of a cluster, written "4x16x8". */
struct pod_shape {
    uint32_t pods, hosts, slots; /**< hosts of a Pod, slots of a host */
};

/** Read the value of --pods, of up to 65,536 hosts. Errors: ARGUMENT with a message that shows how to write it. */
weft_status pod_shape_parse(const char *text, struct pod_shape *shape, struct error *error);

#endif
