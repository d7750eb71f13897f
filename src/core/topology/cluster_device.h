/* SPDX-License-Identifier: Apache-2.0 */
/**
 * Devices of a cluster as cluster files describe them: what one rank computes with. A device is a GPU, or a core of a
 * CPU cluster. core/topology/cluster_file.h reads them; training/simulate/device_time.h says what they take for a layer.
 */
#ifndef WEFT_CORE_TOPOLOGY_CLUSTER_DEVICE_H
#define WEFT_CORE_TOPOLOGY_CLUSTER_DEVICE_H

#include <stdint.h>

#define CLUSTER_NAME_BYTES   64
#define CLUSTER_TEXT_BYTES   512
#define CLUSTER_DEVICES_MOST 8
#define CLUSTER_GROUPS_MOST  32

enum cluster_precision { CLUSTER_F32, CLUSTER_BF16, CLUSTER_F16, CLUSTER_PRECISIONS };

/** A kind of device. Zeroed fields are unspecified unless they say otherwise. */
struct cluster_device {
    char kind[CLUSTER_NAME_BYTES];   /**< "A100-80GB"; its name in the file */
    char source[CLUSTER_TEXT_BYTES]; /**< where the numbers come from */
    uint64_t memory_bytes;
    double memory_bandwidth;          /**< bytes/s, of a data sheet or measured */
    double flops[CLUSTER_PRECISIONS]; /**< peak of dense matrix products, operations/s; 0: it cannot */
    double launch_seconds;            /**< fixed cost of an operation (a kernel); 0 on a CPU */
    double product_share;             /**< share of the peak that large products reach; 0: a default is used */
    double product_half; /**< operations of a product at which half of that share is reached; smaller ones are slower */
    uint32_t
        processors; /**< that compute tiles of a product side by side, such as a GPU's; 0: products have no tiles */
    double product_fill; /**< elements of the inner dimension that a tile takes longer; unused without processors */
    double memory_share; /**< share of memory_bandwidth that passes over memory reach; 0: a default is used */
};

/** Hosts that are alike. The groups of a file are in the order of its hosts. */
struct cluster_group {
    uint32_t hosts;
    uint32_t ranks;      /**< devices of each host, one rank each */
    uint32_t device;     /**< index into the file's devices */
    uint32_t interfaces; /**< of each host; its devices share them evenly, or have several each. 0: unspecified, one */
    double bandwidth;    /**< bytes/s of all interfaces of a host together, each way; 0: that of the level */
};

#endif
