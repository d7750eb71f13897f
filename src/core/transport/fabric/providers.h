/* SPDX-License-Identifier: Apache-2.0 */
/** The libfabric providers that could carry messages here, for display; fabric/ makes its own choice. Thread-safe. */
#ifndef WEFT_CORE_TRANSPORT_FABRIC_PROVIDERS_H
#define WEFT_CORE_TRANSPORT_FABRIC_PROVIDERS_H

#include "base/error.h"

#include <stdint.h>

#define PROVIDER_NAME_BYTES 64

/** A provider on one network device. */
struct provider {
    char name[PROVIDER_NAME_BYTES];    /**< "net", "tcp;ofi_rxm", "efa" */
    char device[PROVIDER_NAME_BYTES];  /**< libfabric's domain: "eth0", "rdmap0s6-rdm" */
    char network[PROVIDER_NAME_BYTES]; /**< libfabric's fabric: "192.0.2.0/24" */
    uint64_t bytes_per_second;         /**< nominal rate of the device; 0: unknown */
    uint64_t message_most;             /**< bytes of the longest message */
};

/**
 * List those that Weft can use (reliable datagrams, messages and remote writes), in order of preference. Takes 0.1 to
 * 0.7 s: libfabric opens every provider at the first query of a process. `*providers` is freed with free(). An empty
 * list is not an error.
 */
weft_status providers_list(struct provider **providers, uint32_t *count, struct error *error);

/** libfabric's version, as "1.17"; "none" where it cannot be loaded. */
char *providers_version(char *buffer, size_t size);

#endif
