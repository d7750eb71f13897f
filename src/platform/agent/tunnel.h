/* SPDX-License-Identifier: Apache-2.0 */
/** What weft forward runs in a node: a connection to a port there. */
#ifndef WEFT_PLATFORM_AGENT_TUNNEL_H
#define WEFT_PLATFORM_AGENT_TUNNEL_H

/**
 * Connect to `port` (a number, as text) of this host's loopback, by IPv4 or else IPv6, and carry standard input to it
 * and what comes from it to standard output, until it closes its side. The end of standard input is passed on and ends
 * nothing else. Returns the exit code of the process: 0, or 1 after a message on standard error.
 */
int node_tunnel_main(const char *port);

#endif
