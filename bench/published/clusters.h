/* SPDX-License-Identifier: Apache-2.0 */
/** The described clusters that rows ran on, with some of their figures changed by parameters. */
#ifndef BENCH_PUBLISHED_CLUSTERS_H
#define BENCH_PUBLISHED_CLUSTERS_H

#include "core/topology/cluster_file.h"
#include "training/plan/cluster.h"
#include "training/simulate/step_costs.h"

/** What may be fitted. Everything else is in the cluster files or follows from the work of the layers. */
enum parameter {
    PARAMETER_PRODUCT_SHARE,
    PARAMETER_PRODUCT_FILL,
    PARAMETER_NODE_BANDWIDTH,
    PARAMETER_COLLECTIVE_LAUNCH,
    PARAMETER_INTERFACE_SHARE,
    PARAMETERS
};

/** Those before it are of devices and change no price of a collective. */
#define PARAMETER_FIRST_OF_LINKS PARAMETER_NODE_BANDWIDTH

struct parameter_facts {
    const char *name, *unit;
    double unfitted; /**< from data sheets and other people's measurements alone */
    double least, most;
    const char *source; /**< of the unfitted value */
};
extern const struct parameter_facts parameter_facts[PARAMETERS];

/** The unfitted values. */
void parameters_reset(double parameters[PARAMETERS]);

/** Belongs to one thread. Must not move while it is open. */
struct published_cluster {
    char kind[CLUSTER_NAME_BYTES];
    uint32_t ranks;
    struct step_cluster step;
    struct step_prices *prices; /**< of `step`; kept as long as no parameter of links changes */

    struct cluster_file described, file; /**< without and with the parameters */
    struct simulated_cluster links;
    struct cluster_map map;
    double parameters[PARAMETERS];
};

/** Hosts of 8 devices. Errors: those of cluster_name_load(); MEMORY. Close it also after an error. */
weft_status published_cluster_open(const char *kind, uint32_t ranks, struct published_cluster *cluster,
                                   struct error *error);
void published_cluster_close(struct published_cluster *cluster);

/** Change the cluster's figures. Errors: MEMORY. */
weft_status published_cluster_apply(struct published_cluster *cluster, const double parameters[PARAMETERS],
                                    struct error *error);

#endif
