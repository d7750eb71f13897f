/* SPDX-License-Identifier: Apache-2.0 */
/**
 * The launcher's helper on one host, this machine included. Locally it is a fork of the launcher, on other hosts
 * `weft run --node`, an internal command. It starts the host's ranks, and others in place of those that fail, forwards
 * their output and signals, and reports their ends. When its connection to the launcher closes, it kills all
 * descendants, however the launcher ended; or its order says that the ranks outlive the launcher (vacancy.h), and another
 * launcher may take over (takeover/succession.h).
 */
#ifndef WEFT_LAUNCH_NODE_H
#define WEFT_LAUNCH_NODE_H

/** Serve the launcher at `input` and `output` (see order.h); returns the exit code for the process. */
int node_main(int input, int output);

#endif
