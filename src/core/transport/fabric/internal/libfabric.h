/* SPDX-License-Identifier: Apache-2.0 */
/**
 * libfabric, loaded when first needed: loading its providers takes 0.2 s in every process that is linked to it, and
 * most jobs have no remote rank. Functions that are not in this table are inline functions of libfabric's headers,
 * which call through its objects. Thread-safe.
 */
#ifndef WEFT_CORE_TRANSPORT_FABRIC_INTERNAL_LIBFABRIC_H
#define WEFT_CORE_TRANSPORT_FABRIC_INTERNAL_LIBFABRIC_H

#include "base/error.h"

#include <rdma/fabric.h>

/** The functions that the library exports and Weft calls, by their own names without fi_. */
struct libfabric {
    int (*getinfo)(uint32_t version, const char *node, const char *service, uint64_t flags, const struct fi_info *hints,
                   struct fi_info **info);
    void (*freeinfo)(struct fi_info *info);
    struct fi_info *(*dupinfo)(const struct fi_info *info); /**< NULL: an empty one */
    int (*fabric)(struct fi_fabric_attr *attributes, struct fid_fabric **fabric, void *context);
    const char *(*strerror)(int number);
    uint32_t (*version)(void);
};

/** Load it unless it is loaded; it stays for the life of the process. Errors: NETWORK. */
weft_status libfabric_load(struct libfabric *library, struct error *error);

#endif
