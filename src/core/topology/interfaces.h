/* SPDX-License-Identifier: Apache-2.0 */
/** The network interfaces of this process's network namespace. */
#ifndef WEFT_CORE_TOPOLOGY_INTERFACES_H
#define WEFT_CORE_TOPOLOGY_INTERFACES_H

#include "core/topology/machine.h"

/**
 * List them in the system's order, the loopback last. Speed and driver are asked of the interface itself (ethtool's
 * ioctl): sysfs may still show another namespace. `*interfaces` is the caller's: interfaces_free(). Thread-safe.
 */
weft_status interfaces_read(struct machine_interface **interfaces, uint32_t *count, struct error *error);
void interfaces_free(struct machine_interface *interfaces, uint32_t count);

#endif
