/* SPDX-License-Identifier: Apache-2.0 */
/**
 * Which machine this is, as a text: two ranks may share memory only where their texts are equal.
 *
 * The text is the kernel's boot id and the inode of the network namespace: containers and test clusters that have a
 * network of their own count as machines of their own, as abstract sockets (the proof of locality in core/transport/shm/shm.h)
 * do not cross that border either. A text may be added by configuration; it can only make identities more different,
 * never equal, so that no environment variable can talk two machines into one. Thread-safe; takes microseconds.
 */
#ifndef WEFT_CORE_TOPOLOGY_IDENTITY_H
#define WEFT_CORE_TOPOLOGY_IDENTITY_H

#include "base/error.h"

#define IDENTITY_BYTES 96 /**< room for any identity, its final NUL included */

/**
 * Write this process's identity: "BOOT-ID/net:INODE", then "/HASH" of `added` unless that is NULL or "". Errors: SYSTEM
 * if the kernel does not tell (no /proc): guessing could make two machines one.
 */
weft_status identity_read(const char *added, char identity[IDENTITY_BYTES], struct error *error);

#endif
