/* SPDX-License-Identifier: Apache-2.0 */
/**
 * The launcher's helper on one host, this machine included: a fork of the launcher here, `weft run
 * --node` elsewhere, which nobody types. It starts the host's
 * ranks, forwards their output, passes signals on, reports their ends, and kills everything, down to grandchildren, the
 * moment its connection to the launcher closes, in whatever way the launcher ended.
 */
#ifndef WEFT_LAUNCH_NODE_H
#define WEFT_LAUNCH_NODE_H

/** Serve the launcher at `input` and `output` (see order.h); returns the exit code for the process. */
int node_main(int input, int output);

#endif
