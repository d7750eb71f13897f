/* SPDX-License-Identifier: Apache-2.0 */
/**
 * The identity of this machine, as a string: two ranks may share memory only if their strings are equal.
 *
 * The string is the kernel's boot id and the inode of the network namespace. Containers and test clusters with their
 * own network count as separate machines, because abstract sockets (the proof of locality in core/transport/shm/shm.h)
 * do not cross that boundary. Configuration may add a string; it can only make identities more different, never equal,
 * so no environment variable can make two machines look like one. Thread-safe; takes microseconds.
 */
#ifndef WEFT_CORE_TOPOLOGY_IDENTITY_H
#define WEFT_CORE_TOPOLOGY_IDENTITY_H

#include "base/error.h"

#define IDENTITY_BYTES 96 /**< room for any identity, its final NUL included */

/**
 * Write this process's identity: "BOOT-ID/net:INODE", then "/HASH" of `added` unless that is NULL or "". Errors: SYSTEM
 * if the kernel does not provide them (no /proc): guessing could make two machines one.
 */
weft_status identity_read(const char *added, char identity[IDENTITY_BYTES], struct error *error);

#endif
