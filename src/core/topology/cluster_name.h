/* SPDX-License-Identifier: Apache-2.0 */
/**
 * Clusters by name: "dgx-a100-128" is 128 hosts of the kind that share/clusters/dgx-a100.yaml describes. For commands;
 * the library knows files only. Thread-safe.
 */
#ifndef WEFT_CORE_TOPOLOGY_CLUSTER_NAME_H
#define WEFT_CORE_TOPOLOGY_CLUSTER_NAME_H

#include "core/topology/cluster_file.h"

/**
 * Load the cluster that an option names: KIND-HOSTS, KIND (with as many hosts as its file says) or the path of a file. A
 * file of that path takes precedence. cluster_file_free() frees what `*cluster` points to. Errors: SYSTEM, DATA as
 * cluster_file_load(); ARGUMENT for a name that is not known, with the kinds that are.
 */
weft_status cluster_name_load(const char *text, struct cluster_file *cluster, struct error *error);

/**
 * The directory of described kinds: where they are installed (DATADIR/weft/clusters) or share/clusters (in the source
 * tree), below the nearest directory above this program that has one. Errors: SYSTEM if there is none.
 */
weft_status cluster_name_directory(char path[FILE_PATH_BYTES], struct error *error);

#endif
