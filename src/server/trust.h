/* SPDX-License-Identifier: Apache-2.0 */
/**
 * Whom a client trusts to serve on its own machine, where any user may listen at a port that is free: root, the
 * client's own user, and the user that WEFT_SERVER_USER names or numbers ("*": everybody). The kernel says who owns the
 * other end (peer_user.h), so this holds before a byte is sent. Thread-safe.
 */
#ifndef WEFT_SERVER_TRUST_H
#define WEFT_SERVER_TRUST_H

#include "base/error.h"

/** Whether the server at the other end of `descriptor`, a connected TCP socket within this machine, is trusted. Errors:
 * STATE: it is not, or nobody can tell whose it is. NETWORK: it has ended the connection. */
weft_status trust_server(int descriptor, struct error *error);

#endif
