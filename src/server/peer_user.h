/* SPDX-License-Identifier: Apache-2.0 */
/** Whose process is at the other end of a connection within this machine. Thread-safe. */
#ifndef WEFT_SERVER_PEER_USER_H
#define WEFT_SERVER_PEER_USER_H

#include <stdbool.h>
#include <sys/types.h>

/**
 * The user that owns the other end's socket: `descriptor` is a connected TCP socket whose peer is in this network
 * namespace. The kernel is asked by sock_diag(7), and where that is not there, by /proc/net/tcp and tcp6. False: it is
 * not known, as for peers elsewhere, and connections that the peer has closed.
 */
bool peer_user(int descriptor, uid_t *user);

#endif
