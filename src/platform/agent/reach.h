/* SPDX-License-Identifier: Apache-2.0 */
/**
 * The remote shell between the nodes of an attempt. `weft run` on one node uses it instead of ssh to start ranks on the
 * others, so that these run in their node's cgroup and environment and end with it.
 */
#ifndef WEFT_PLATFORM_AGENT_REACH_H
#define WEFT_PLATFORM_AGENT_REACH_H

/**
 * Run `words` (ends with NULL), joined by spaces, in a shell on the node at `host`, of the same attempt as the node in
 * `directory`, with this process's standard input, output and error. Waits up to 30 s for the node to start, and then
 * for the end of the command. Returns its exit code, or 128 + number for a signal; 255, after a message on standard
 * error, if it could not be run. `host` is one of WEFT_NODE_HOSTS. A node on another machine is reached by srun, in a job
 * of Slurm. `weft run --agent` expects this (launch/README.md).
 */
int node_reach_main(const char *directory, const char *host, char *const *words);

#endif
