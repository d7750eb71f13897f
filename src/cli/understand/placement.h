/* SPDX-License-Identifier: Apache-2.0 */
/** Ranks on nodes, as commands that look at plans describe them: "--ranks 8 --nodes 2", or "--cluster dgx-a100-16". */
#ifndef WEFT_CLI_UNDERSTAND_PLACEMENT_H
#define WEFT_CLI_UNDERSTAND_PLACEMENT_H

#include "training/plan/cluster.h"

/** What the options say; the table's entries are PLACEMENT_OPTIONS. */
struct placement_options {
    int64_t ranks, nodes;
    const char *cluster;
};

#define PLACEMENT_OPTIONS(chosen)                                                                                      \
    CLI_INTEGER("ranks", 'n', "N", &(chosen).ranks, "0", 0, 65536, "number of ranks",                                  \
                .default_text = "all of the cluster file, or 4"),                                                      \
        CLI_INTEGER("nodes", 'N', "N", &(chosen).nodes, "0", 0, 65536,                                                 \
                    "number of nodes, with equally many ranks each",                                                   \
                    .default_text = "that of the cluster file, or 1"),                                                 \
        CLI_TEXT("cluster", 'c', "NAME", &(chosen).cluster, NULL,                                                      \
                 "a cluster: a kind and a number of hosts (dgx-a100-16), or a file")

/** Where the ranks lie. Zeroed, it is nowhere. */
struct placement {
    uint32_t ranks;
    struct cluster_file file; /**< level_count 0: none was given */
    struct cluster_map map;
};

/** Load the cluster file, if one is given, and place the ranks. placement_close() frees it. Errors: ARGUMENT, DATA. */
weft_status placement_open(struct placement *placement, const struct placement_options *options, struct error *error);
void placement_close(struct placement *placement);

/** Fill in what a shape says of ranks and levels; the maps stay the placement's. */
void placement_apply(const struct placement *placement, struct schedule_shape *shape);

#endif
