/* SPDX-License-Identifier: Apache-2.0 */
#include "control/tree.h"

#include <stdlib.h>
#include <string.h>

/* The parent of each rank. `leaders` has room for a rank a node. */
static void find_parents(const struct card *cards, uint32_t ranks, uint32_t *parents, uint32_t *leaders)
{
    uint32_t nodes = 0;
    for (uint32_t rank = 0; rank < ranks; rank++) {
        uint32_t node = 0;
        while (node < nodes && strcmp(cards[leaders[node]].machine, cards[rank].machine) != 0)
            node++;
        if (node < nodes) {
            parents[rank] = leaders[node];
            continue;
        }
        leaders[nodes++] = rank;
        parents[rank] = node == 0 ? TREE_NONE : leaders[(node - 1) / 2];
    }
}

weft_status tree_build(const struct card *cards, uint32_t ranks, uint32_t rank, struct tree *tree, struct error *error)
{
    uint32_t *parents = calloc(ranks, sizeof *parents), *leaders = malloc(ranks * sizeof *leaders);
    *tree = (struct tree){.toward = malloc(ranks * sizeof *tree->toward),
                          .children = malloc(ranks * sizeof *tree->children)};
    if (!parents || !leaders || !tree->toward || !tree->children) {
        free(parents);
        free(leaders);
        tree_free(tree);
        return error_memory(error, 4 * ranks * sizeof *parents, "the control plane's tree");
    }
    find_parents(cards, ranks, parents, leaders);
    tree->parent = parents[rank];
    for (uint32_t other = 0; other < ranks; other++) {
        if (parents[other] == rank)
            tree->children[tree->count++] = other;
        /* Climb from `other`: whoever stands below this rank when it is met leads there; if it is not met, the parent
         * does. */
        uint32_t below = other, above = parents[other];
        while (above != rank && above != TREE_NONE) {
            below = above;
            above = parents[above];
        }
        tree->toward[other] = other == rank ? rank : above == rank ? below : tree->parent;
    }
    free(parents);
    free(leaders);
    return WEFT_OK;
}

void tree_free(struct tree *tree)
{
    free(tree->children);
    free(tree->toward);
    *tree = (struct tree){0};
}
