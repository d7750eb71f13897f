/* SPDX-License-Identifier: Apache-2.0 */
/** The links that `weft topo` shows: measured ones, and those of cluster files. */
#ifndef WEFT_CLI_UNDERSTAND_TOPO_LINKS_H
#define WEFT_CLI_UNDERSTAND_TOPO_LINKS_H

#include "core/topology/cluster_file.h"
#include "core/topology/machine.h"

#include <stdio.h>

/** Print devices, hosts, levels of links, and the source of the numbers. */
void topo_print_cluster(FILE *output, const struct cluster_file *cluster);

/** Print measurements of this kind of machine, and of clusters that this host is part of. */
void topo_print_links(FILE *output, const struct machine *machine);

#endif
