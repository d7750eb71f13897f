/* SPDX-License-Identifier: Apache-2.0 */
/**
 * The machine's topology: a plain struct that owns everything it points to, discovered by hwloc and the kernel, or
 * loaded.
 */
#ifndef WEFT_CORE_TOPOLOGY_MACHINE_H
#define WEFT_CORE_TOPOLOGY_MACHINE_H

#include "base/error.h"
#include "core/topology/identity.h"
#include "core/topology/limits.h"

#include <stdbool.h>
#include <stdint.h>

#define MACHINE_NAME_BYTES    80
#define MACHINE_TEXT_BYTES    128
#define MACHINE_ADDRESS_BYTES 48 /**< an IPv6 address as text */
#define MACHINE_CACHE_LEVELS  5

/** A hardware thread, and what it shares with others: equal numbers share. Numbers are hwloc's logical ones, from 0. */
struct machine_thread {
    uint32_t processor; /**< the operating system's number, as in sched_setaffinity() */
    uint32_t core, package, numa;
    int32_t last_cache; /**< its last-level cache; -1 if unknown */
    bool usable;        /**< this process may run on it */
};

/** The data or unified caches of one level. */
struct machine_cache {
    uint32_t level;
    uint32_t count; /**< how many there are */
    uint64_t bytes; /**< of one */
    uint32_t cores; /**< cores that share one */
};

struct machine_numa {
    uint32_t index; /**< the operating system's number */
    uint64_t bytes; /**< local memory */
    uint32_t cores;
};

struct machine_address {
    char text[MACHINE_ADDRESS_BYTES];
    bool is_ipv6, is_link_local;
    uint32_t prefix; /**< bits of the network part */
};

struct machine_interface {
    char name[MACHINE_NAME_BYTES];
    char driver[MACHINE_NAME_BYTES]; /**< "ena", "mlx5_core", "veth"; "" if unknown */
    bool up, loopback;               /**< up: configured up and with a carrier */
    uint64_t bytes_per_second;       /**< as reported by the link; 0: unknown */
    uint32_t mtu;
    struct machine_address *addresses;
    uint32_t address_count;
};

enum machine_device_kind {
    MACHINE_GPU,         /**< draws or computes */
    MACHINE_ACCELERATOR, /**< computes only */
    MACHINE_FABRIC,      /**< a verbs or other OS-bypass network device */
};

struct machine_device {
    enum machine_device_kind kind;
    char name[MACHINE_NAME_BYTES];  /**< "cuda0", "mlx5_0", or the PCI address where no driver names it */
    char model[MACHINE_TEXT_BYTES]; /**< vendor and model; "" if unknown */
    char pci[MACHINE_NAME_BYTES];   /**< "0000:3b:00.0"; "" if it is not on PCI */
    int32_t numa;                   /**< logical number of the nearest NUMA node; -1 if unknown */
};

struct machine {
    char host[MACHINE_NAME_BYTES];
    char identity[IDENTITY_BYTES];
    char system[MACHINE_TEXT_BYTES];    /**< "Linux 6.1.0-30-amd64 x86_64" */
    char processor[MACHINE_TEXT_BYTES]; /**< the processor's model name */
    uint32_t packages, cores;
    struct machine_thread *threads;
    uint32_t thread_count;
    struct machine_cache caches[MACHINE_CACHE_LEVELS]; /**< from level 1 up */
    uint32_t cache_count;
    struct machine_numa *numas;
    uint32_t numa_count;
    struct machine_interface *interfaces; /**< the loopback last */
    uint32_t interface_count;
    struct machine_device *devices;
    uint32_t device_count;
    struct limits limits;
};

/** Discover this machine. `*machine` is the caller's: machine_free(). */
weft_status machine_discover(struct machine **machine, struct error *error);

/** The same without looking for devices, which is quicker and wakes no driver. */
weft_status machine_discover_processors(struct machine **machine, struct error *error);

/**
 * A machine elsewhere: hwloc's XML (from `lstopo FILE.xml`) or a synthetic description ("pack:2 [numa] l3:4 core:8
 * pu:2"). It has no interfaces, no identity, and no limits except its memory.
 */
weft_status machine_from_hwloc_xml(const char *path, struct machine **machine, struct error *error);
weft_status machine_from_synthetic(const char *description, struct machine **machine, struct error *error);

/** Free it; NULL is allowed. */
void machine_free(struct machine *machine);

/** The processor model, numbers and last-level cache in a line: equal for machines on which measurements may be shared.
 */
char *machine_kind(const struct machine *machine, char *buffer, size_t size);

/** "gpu", "accelerator", "fabric"; a static string. */
const char *machine_device_kind_name(enum machine_device_kind kind);

#endif
