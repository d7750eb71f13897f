/* SPDX-License-Identifier: Apache-2.0 */
#include "training/plan/auto_plan.h"

#include "training/parallel/agreement.h"
#include "training/plan/machine_costs.h"
#include "training/plan/planner/planner.h"

#include <stdio.h>
#include <stdlib.h>

/* What rank 0 plans with. */
struct auto_planning {
    struct machine *machine;
    struct links links;
    struct cluster cluster;
    struct cluster_device device;
    struct planner_cluster planned;
    struct machine_costs costs;
    struct planner *planner;
    struct search_result result;
};

/* The hosts of the ranks, as the job has placed them, numbered in order of first appearance. */
static void take_hosts(weft_comm *comm, struct planner_cluster *planned)
{
    const uint32_t ranks = planned->step.ranks;
    planned->hosts = (uint32_t)weft_comm_nodes(comm);
    planned->ranks_per_host = 0;
    for (uint32_t rank = 0; rank < ranks; rank++)
        planned->map.nodes[rank] = (uint32_t)weft_comm_node_of(comm, (int)rank);
    for (uint32_t rank = 0; rank < ranks; rank++) {
        uint32_t together = 0;
        for (uint32_t other = 0; other < ranks; other++)
            together += planned->map.nodes[other] == planned->map.nodes[rank];
        planned->ranks_per_host = together > planned->ranks_per_host ? together : planned->ranks_per_host;
    }
}

static weft_status auto_open(const struct train_config *config, const struct model_description *description,
                             weft_comm *comm, struct auto_planning *planning, struct error *error)
{
    const uint32_t ranks = (uint32_t)weft_comm_size(comm), nodes = (uint32_t)weft_comm_nodes(comm);
    weft_status status = machine_discover(&planning->machine, error);
    if (status != WEFT_OK)
        return status;
    links_load(NULL, &planning->links, NULL);
    cluster_describe(planning->machine, &planning->links, nodes, (ranks + nodes - 1) / nodes, &planning->cluster);
    status = machine_costs_device(&config->activations, 1, (int)config->threads, &planning->cluster.links,
                                  &planning->device, error);
    if (status == WEFT_OK)
        status = planner_cluster_open(&planning->cluster, ranks, &planning->device, &planning->planned, error);
    if (status != WEFT_OK)
        return status;
    take_hosts(comm, &planning->planned);
    planning->costs = (struct machine_costs){
        .description = description, .sequence = (size_t)config->sequence, .threads = (int)config->threads};
    const struct planner_setting setting = {
        .description = description,
        .config = config,
        .cluster = &planning->planned,
        .space = {.precisions = {config->activations}, .precision_count = 1},
        .measure = machine_costs_measure,
        .context = &planning->costs,
    };
    return planner_open(&setting, &planning->planner, error);
}

static void auto_close(struct auto_planning *planning)
{
    search_result_free(&planning->result);
    planner_close(planning->planner);
    planner_cluster_close(&planning->planned);
    machine_costs_free(&planning->costs);
    links_free(&planning->links);
    machine_free(planning->machine);
}

/* On rank 0. */
static weft_status auto_search(const struct train_config *config, const struct model_description *description,
                               weft_comm *comm, struct plan *plan, struct error *error)
{
    struct auto_planning planning = {0};
    uint64_t available;
    weft_status status = auto_open(config, description, comm, &planning, error);
    if (status == WEFT_OK)
        status = planner_search(planning.planner, &planning.result, error);
    if (status == WEFT_OK && !planning.result.count)
        status =
            error_set(error, WEFT_ERROR_MEMORY,
                      "no strategy for these ranks fits into memory; use more machines or a smaller model (weft plan "
                      "says what would fit)");
    if (status == WEFT_OK) {
        plan->strategy = planning.result.plans[0].strategy;
        plan->price = planning.result.plans[0].price;
        status = planner_memory(planning.planner, &plan->strategy, &plan->memory, &available, error);
    }
    if (status == WEFT_OK)
        status = planner_stages(planning.planner, &plan->strategy, &plan->first_unit, error);
    auto_close(&planning);
    return status;
}

static weft_status share_bytes(weft_context *context, weft_comm *comm, void *bytes, size_t size, struct error *error)
{
    const weft_status status = weft_broadcast(bytes, size, WEFT_U8, 0, comm);
    return status == WEFT_OK ? status : error_set(error, status, "%s", weft_message(context));
}

weft_status auto_plan_reach(const struct train_config *config, const struct model_description *description,
                            weft_context *context, weft_comm *comm, struct plan *plan, bool *speaks,
                            struct error *error)
{
    const bool first = weft_comm_rank(comm) == 0;
    weft_status status = WEFT_OK;
    *plan = (struct plan){.model_hash = plan_model_hash(description),
                          .batch = (uint32_t)config->batch,
                          .sequence = (uint32_t)config->sequence,
                          .gradients = config->gradients};
    snprintf(plan->model, sizeof plan->model, "%s", config->model);
    snprintf(plan->cluster, sizeof plan->cluster, "this machine");
    snprintf(plan->optimizer, sizeof plan->optimizer, "%s", optimizer_names[config->optimizer.kind]);
    if (first)
        status = auto_search(config, description, comm, plan, error);
    status = agreement_reach(context, comm, status, error, speaks);
    if (status == WEFT_OK)
        status = share_bytes(context, comm, &plan->strategy, sizeof plan->strategy, error);
    if (status == WEFT_OK)
        status = share_bytes(context, comm, &plan->price, sizeof plan->price, error);
    const size_t units = (size_t)plan->strategy.stages * plan->strategy.mesh.extent[MESH_PIPELINE] + 1;
    if (status == WEFT_OK && !first && !(plan->first_unit = calloc(units, sizeof *plan->first_unit)))
        status = error_memory(error, units * sizeof *plan->first_unit, "the stages of a plan");
    if (status == WEFT_OK)
        status = share_bytes(context, comm, plan->first_unit, units * sizeof *plan->first_unit, error);
    return status;
}
