/* SPDX-License-Identifier: Apache-2.0 */
/**
 * Addresses: "host:port" as people write it ("[::1]:4711" for IPv6), listeners, connections, and which of this host's
 * addresses others can reach. Sockets made here are non-blocking, closed on exec, and send without delay. Thread-safe.
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

/** Divide "host:port"; `host` has room for ADDRESS_TEXT_BYTES. Errors: ARGUMENT. */
weft_status address_parse(const char *text, char *host, uint16_t *port, struct error *error);

/** "address:port" in digits; "this machine" for what is no internet address. Returns `text`. */
char *address_format(const struct sockaddr *address, char *text, size_t room);

/**
 * Listen at `host` (digits or a name; NULL: every interface) and `port` (0: any free one, told in *bound).
 * Errors: RENDEZVOUS with address and port when it is in use; SYSTEM.
 */
weft_status address_listen(const char *host, uint16_t port, int *descriptor, uint16_t *bound, struct error *error);

/**
 * Begin to connect to `host`:`port` and wait until it has succeeded, at most `limit_seconds`. Errors: RENDEZVOUS with
 * address and reason; ETIMEDOUT, ECONNREFUSED ... in `*reason` (may be NULL), so that the caller can decide to try
 * again.
 */
weft_status address_connect(const char *host, uint16_t port, double limit_seconds, int *descriptor, int *reason,
                            struct error *error);

/**
 * Begin to connect to `host` (digits):`port` without waiting: 0 and *descriptor, or -1 with the reason in errno.
 * address_answered() tells how it went: 1 it stands, 0 not yet, -1 with *reason (an errno) it will not.
 */
int address_call(const char *host, uint16_t port, int *descriptor);
int address_answered(int descriptor, int *reason);

/** The address (digits) of this end of a connection. */
weft_status address_local(int descriptor, char *text, size_t room, struct error *error);

/**
 * Listen at, or connect to, a name among the abstract UNIX sockets: only processes of the same network namespace, so of
 * the same kernel, find each other there, and the name goes with its last socket. -1 with the reason in errno:
 * EADDRINUSE where the name is taken, ECONNREFUSED where nobody listens.
 */
int address_listen_unix(const char *name);
int address_connect_unix(const char *name);

/** Whether the other end of such a connection is, or listens as, a process of the same user. */
bool address_is_of_same_user(int descriptor);

/** Make a socket that accept() gave like those made here. */
void address_prepare(int descriptor);

/**
 * The address (digits) of the network interface `interface`, or `interface` itself where it is an address. NULL: the
 * one that reaches other hosts (that of the default route, else the first that is up), or loopback if there is no
 * other.
 */
weft_status address_of_interface(const char *interface, char *text, size_t room, struct error *error);

/** All addresses of this host but loopback and link-local ones, as "a:port,b:port", those of the default route first.
 */
char *address_list(uint16_t port, char *text, size_t room);

#endif
