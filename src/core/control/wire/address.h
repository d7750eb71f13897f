/* SPDX-License-Identifier: Apache-2.0 */
/**
 * Addresses: "host:port" as text ("[::1]:4711" for IPv6), listeners, connections, and this host's addresses that others
 * can reach. Sockets made here are non-blocking, closed on exec, and send without delay. Thread-safe.
 */
#ifndef WEFT_CORE_CONTROL_WIRE_ADDRESS_H
#define WEFT_CORE_CONTROL_WIRE_ADDRESS_H

#include "base/error.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>

#define ADDRESS_TEXT_BYTES 300

/** This host's name, for people; WEFT_HOST overrides it (a launcher gives the name that the user wrote). */
char *address_host_name(char *text, size_t room);

/** Split "host:port"; `host` has room for ADDRESS_TEXT_BYTES. Errors: ARGUMENT. */
weft_status address_parse(const char *text, char *host, uint16_t *port, struct error *error);

/** Numeric "address:port"; "this machine" for anything but an internet address. Returns `text`. */
char *address_format(const struct sockaddr *address, char *text, size_t room);

/**
 * Listen at `host` (numeric or a name; NULL: every interface) and `port` (0: any free one; *bound is the port). Errors:
 * RENDEZVOUS with address and port when it is in use; SYSTEM.
 */
weft_status address_listen(const char *host, uint16_t port, int *descriptor, uint16_t *bound, struct error *error);

/**
 * Connect to `host`:`port` within `limit_seconds`. Errors: RENDEZVOUS with address and reason; `*reason` (may be NULL)
 * is ETIMEDOUT, ECONNREFUSED ..., so that the caller can decide to retry.
 */
weft_status address_connect(const char *host, uint16_t port, double limit_seconds, int *descriptor, int *reason,
                            struct error *error);

/**
 * Begin to connect to `host` (numeric):`port` without waiting: 0 and *descriptor, or -1 with the reason in errno.
 * address_connect_result() returns 1 when connected, 0 while pending, -1 with *reason (an errno) on failure.
 */
int address_connect_begin(const char *host, uint16_t port, int *descriptor);
int address_connect_result(int descriptor, int *reason);

/** The numeric address of this end of a connection. */
weft_status address_local(int descriptor, char *text, size_t room, struct error *error);

/**
 * Listen at, or connect to, an abstract UNIX socket: only processes of the same network namespace, and so of the same
 * kernel, find each other, and the name disappears with its last socket. -1 with the reason in errno: EADDRINUSE where
 * the name is taken, ECONNREFUSED where no process listens.
 */
int address_listen_unix(const char *name);
int address_connect_unix(const char *name);

/** Whether the peer of such a connection is, or listens as, a process of the same user. */
bool address_is_of_same_user(int descriptor);

/** Set up a socket from accept() like those made here. */
void address_prepare(int descriptor);

/**
 * The numeric address of network interface `interface`, or `interface` itself if it is an address. NULL: the one that
 * reaches other hosts (that of the default route, else the first that is up), or loopback if there is no other.
 */
weft_status address_of_interface(const char *interface, char *text, size_t room, struct error *error);

/**
 * All addresses of this host except loopback and link-local ones, as "a:port,b:port", those of the default route first.
 */
char *address_list(uint16_t port, char *text, size_t room);

#endif
