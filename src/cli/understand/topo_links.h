/* SPDX-License-Identifier: Apache-2.0 */
/** The part of `weft topo` that tells of links: what was measured, and what cluster files describe. */
#ifndef WEFT_CLI_UNDERSTAND_TOPO_LINKS_H
#define WEFT_CLI_UNDERSTAND_TOPO_LINKS_H

#include "core/topology/cluster_file.h"
#include "core/topology/machine.h"

#include <stdio.h>

/** Levels, links, hosts, and where the numbers come from. */
void topo_print_cluster(FILE *output, const struct cluster_file *cluster);

/** What was measured earlier of this kind of machine, and of clusters that this host is part of. */
void topo_print_links(FILE *output, const struct machine *machine);

#endif
