/* SPDX-License-Identifier: Apache-2.0 */
/**
 * Which users a client accepts as the server on its own machine, where any user can listen on a free port: root, the
 * client's own user, and the user in WEFT_SERVER_USER, a name or a number ("*": any user). The kernel reports the owner
 * of the other end (peer_user.h) before a byte is sent. Thread-safe.
 */
#ifndef WEFT_PLATFORM_ACCESS_TRUST_H
#define WEFT_PLATFORM_ACCESS_TRUST_H

#include "base/error.h"

/** Whether the server at the other end of `descriptor`, a TCP connection within this machine, is trusted. Errors: STATE
 * if it is not, or if its owner is unknown; NETWORK if it has ended the connection. */
weft_status trust_server(int descriptor, struct error *error);

#endif
