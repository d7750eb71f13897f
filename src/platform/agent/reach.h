/* SPDX-License-Identifier: Apache-2.0 */
/**
 * The remote shell between the nodes of an attempt: what `weft run` on one node reaches the others by, in place of ssh,
 * so that the ranks there belong to their node: its cgroup, its environment, its end.
 */
#ifndef WEFT_PLATFORM_AGENT_REACH_H
#define WEFT_PLATFORM_AGENT_REACH_H

/**
 * Run `words` (ends with NULL), joined by blanks, by a shell on the node that is on `host`, of the attempt that the
 * node in `directory` belongs to; with the standard input, output and error of this process, until it has ended. Returns
 * its exit code, 128 + number for a signal; 255, after a message on standard error, if it could not be run. A node
 * that has not begun is waited for, 30 s at most. `host` is one of WEFT_NODE_HOSTS. This is the contract of `weft run
 * --agent` (launch/README.md).
 */
int node_reach_main(const char *directory, const char *host, char *const *words);

#endif
