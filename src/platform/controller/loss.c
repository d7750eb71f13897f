/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Nodes that an attempt can do without. A run says how many of its nodes suffice (`min_nodes`). The rest of it is up to its
 * program: ranks that recover go on with those that are left, and a program that cannot ends the attempt by its own exit.
 */
#include "platform/controller/internal/state.h"

/*
 * Whether enough nodes are left without one that ended so. Those after a first one that leads run no program of their own:
 * however they end before it, they were lost.
 */
static bool loss_leaves_enough(const struct controlled_run *run, const struct registry_node *ended)
{
    uint32_t left = 0;
    for (uint32_t i = 0; i < run->nodes; i++)
        left += !run->node[i].dropped && i != ended->node; /* those that have ended are done */
    if (!run->min_nodes || left < run->min_nodes || run->leaving || run->to_stop || run->stop_told)
        return false;
    return run->first_leads ? ended->node > 0 && !run->node[0].ended : ended->how == RUN_EXIT_LOST;
}

weft_status loss_drop(struct controller *controller, struct controlled_run *run, const struct registry_node *ended,
                      int64_t moment, bool *dropped, struct error *error)
{
    struct controlled_node *node = &run->node[ended->node];
    *dropped = false;
    if (!loss_leaves_enough(run, ended))
        return WEFT_OK;
    weft_status status =
        registry_node_drop(controller->config.registry, run->run, run->epoch, ended, moment, dropped, error);
    if (status != WEFT_OK || !*dropped)
        return status;
    node->ended = node->dropped = true;
    controller->hosts[node->host].used &= ~node->slots;
    if (run->place == CONTROLLED_ON_HOSTS && !run->promised)
        scheduler_lose(controller->scheduler, run->name, node->host);
    controller->exhausts_at = 0; /* what is held for it lasts longer */
    controlled_change(controller);
    return WEFT_OK;
}
