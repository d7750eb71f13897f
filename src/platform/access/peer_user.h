/* SPDX-License-Identifier: Apache-2.0 */
/** Whose process is at the other end of a connection within this machine. Thread-safe. */
#ifndef WEFT_PLATFORM_ACCESS_PEER_USER_H
#define WEFT_PLATFORM_ACCESS_PEER_USER_H

#include <stdbool.h>
#include <sys/types.h>

/**
 * The user that owns the other end's socket: `descriptor` is a connected TCP socket whose peer is in this network
 * namespace. The kernel is asked by sock_diag(7), and where that is not there, by /proc/net/tcp and tcp6. False: it is
 * not known, as for peers elsewhere, and connections that the peer has closed.
 */
bool peer_user(int descriptor, uid_t *user);

/**
 * The same for a client that has just connected, whose server may not have accepted the connection yet: it then belongs
 * to the listening socket, and *user is that one's owner. A listener that ends takes such connections with it, so
 * nobody else can come to own them.
 */
bool peer_server(int descriptor, uid_t *user);

/** Whether both ends are on this machine: the peer's address is loopback, or the same as this end's. */
bool peer_is_here(int descriptor);

#endif
