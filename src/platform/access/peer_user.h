/* SPDX-License-Identifier: Apache-2.0 */
/** Which user owns the other end of a connection within this machine. Thread-safe. */
#ifndef WEFT_PLATFORM_ACCESS_PEER_USER_H
#define WEFT_PLATFORM_ACCESS_PEER_USER_H

#include <stdbool.h>
#include <sys/types.h>

/**
 * The user that owns the other end's socket: `descriptor` is a connected TCP socket whose peer is in this network
 * namespace. The answer comes from sock_diag(7), or from /proc/net/tcp and tcp6 if that is missing. False: it is unknown,
 * as for peers on other machines and connections that the peer has closed.
 */
bool peer_user(int descriptor, uid_t *user);

/**
 * The same for a client that has just connected. If the server has not accepted the connection yet, it belongs to the
 * listening socket, and *user is the owner of that. Such connections end with their listener, so no other user can come
 * to own them.
 */
bool peer_server(int descriptor, uid_t *user);

/** Whether both ends are on this machine: the peer's address is loopback, or the same as this end's. */
bool peer_is_here(int descriptor);

#endif
