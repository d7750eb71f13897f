/* SPDX-License-Identifier: Apache-2.0 */
#include "training/plan/run/auto_plan.h"

#include "training/parallel/agreement.h"
#include "training/plan/planning.h"

#include <stdio.h>
#include <stdlib.h>

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

static weft_status auto_search(const struct planner_setting *setting, struct plan *plan, struct error *error)
{
    struct planner *planner;
    struct search_result result = {0};
    uint64_t available;
    weft_status status = planner_open(setting, &planner, error);
    if (status != WEFT_OK)
        return status;
    status = planner_search(planner, &result, error);
    if (status == WEFT_OK && !result.count)
        status =
            error_set(error, WEFT_ERROR_MEMORY,
                      "no strategy for these ranks fits into memory; use more machines or a smaller model (weft plan "
                      "says what would fit)");
    if (status == WEFT_OK) {
        plan->strategy = result.plans[0].strategy;
        plan->price = result.plans[0].price;
        status = planner_memory(planner, &plan->strategy, &plan->memory, &available, error);
    }
    if (status == WEFT_OK)
        status = planner_stages(planner, &plan->strategy, &plan->first_unit, error);
    search_result_free(&result);
    planner_close(planner);
    return status;
}

/* On rank 0. */
static weft_status auto_plan(const struct train_config *config, const struct model_description *description,
                             weft_comm *comm, struct plan *plan, struct error *error)
{
    struct planning planning = {0};
    struct planner_setting setting = {.description = description,
                                      .config = config,
                                      .space = {.precisions = {config->activations}, .precision_count = 1}};
    const uint32_t ranks = (uint32_t)weft_comm_size(comm), nodes = (uint32_t)weft_comm_nodes(comm);
    weft_status status = planning_describe(&planning, NULL, nodes, ranks, error);
    if (status == WEFT_OK)
        status = planning_open(&planning, ranks, (int)config->threads, &setting, error);
    if (status == WEFT_OK) {
        take_hosts(comm, &planning.planned);
        status = auto_search(&setting, plan, error);
    }
    planning_close(&planning);
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
                          .optimizer = config->optimizer.kind,
                          .gradients = config->gradients};
    snprintf(plan->model, sizeof plan->model, "%s", config->model);
    snprintf(plan->cluster, sizeof plan->cluster, "this machine");
    if (first)
        status = auto_plan(config, description, comm, plan, error);
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
