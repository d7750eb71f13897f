/* SPDX-License-Identifier: Apache-2.0 */
#include "core/control/wire/tree.h"

#include "base/hash.h"
#include "base/text.h"
#include "core/control/wire/address.h"
#include "core/control/wire/endpoint_info.h"
#include "core/topology/identity.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

uint32_t tree_places_below(uint32_t place, uint32_t count)
{
    uint32_t below = 0;
    /* Level by level: the places below a run of places are a run, too. */
    for (uint64_t first = place, last = place; first < count;
         first = TREE_ARITY * first + 1, last = TREE_ARITY * last + TREE_ARITY)
        below += (uint32_t)((last < count ? last : count - 1) - first + 1);
    return below;
}

/* A node, during the pass over the ranks in order. */
struct wire_tree_node {
    uint32_t leader, last;     /* its first rank, and its last so far */
    uint32_t parent, children; /* the parent of the next rank, and the number of its children on this node */
};

/* State for finding the parents, by node and by rank. */
struct scratch {
    struct wire_tree_node *nodes;
    uint32_t *next;  /* the next rank of the same node */
    uint32_t *table; /* of nodes by the hash of their names: index + 1; open addressing */
    uint32_t mask;
};

/* The node's place in the table: its own, or the free one where it belongs. */
static uint32_t *tree_find_place(const struct scratch *scratch, const struct endpoint_info *endpoints,
                                 const char *machine)
{
    uint32_t place = (uint32_t)hash_text(machine, 0) & scratch->mask;
    while (scratch->table[place] &&
           strcmp(endpoints[scratch->nodes[scratch->table[place] - 1].leader].machine, machine) != 0)
        place = (place + 1) & scratch->mask;
    return &scratch->table[place];
}

/* The parent of each rank. */
static void tree_parents_find(const struct endpoint_info *endpoints, uint32_t ranks, uint32_t *parents,
                              const struct scratch *scratch)
{
    uint32_t nodes = 0;
    for (uint32_t rank = 0; rank < ranks; rank++) {
        uint32_t *place = tree_find_place(scratch, endpoints, endpoints[rank].machine);
        if (!*place) {
            parents[rank] = nodes == 0 ? TREE_NONE : scratch->nodes[tree_place_parent(nodes)].leader;
            scratch->nodes[nodes] = (struct wire_tree_node){rank, rank, rank, 0};
            *place = ++nodes;
            continue;
        }
        struct wire_tree_node *node = &scratch->nodes[*place - 1];
        scratch->next[node->last] = rank;
        node->last = rank;
        if (node->children == TREE_ARITY) {
            node->parent = scratch->next[node->parent];
            node->children = 0;
        }
        node->children++;
        parents[rank] = node->parent;
    }
}

/* Fill in `rank`'s view of the tree. */
static void tree_neighbors_fill(const uint32_t *parents, uint32_t ranks, uint32_t rank, struct tree *tree)
{
    tree->parent = parents[rank];
    for (uint32_t other = 0; other < ranks; other++) {
        if (parents[other] == rank)
            tree->children[tree->count++] = other;
        /* Climb from `other`: if the path meets this rank, the child below leads there, otherwise the parent. */
        uint32_t below = other, above = parents[other];
        while (above != rank && above != TREE_NONE) {
            below = above;
            above = parents[above];
        }
        tree->toward[other] = other == rank ? rank : above == rank ? below : tree->parent;
        tree->below += tree->toward[other] != tree->parent;
    }
}

weft_status tree_build(const struct endpoint_info *endpoints, uint32_t ranks, uint32_t rank, struct tree *tree,
                       struct error *error)
{
    uint32_t size = 2;
    while (size < 2 * ranks)
        size *= 2;
    uint32_t *parents = calloc(ranks, sizeof *parents);
    const struct scratch scratch = {calloc(ranks, sizeof(struct wire_tree_node)), calloc(ranks, sizeof(uint32_t)),
                                    calloc(size, sizeof(uint32_t)), size - 1};
    *tree = (struct tree){.toward = malloc(ranks * sizeof *tree->toward),
                          .children = malloc(ranks * sizeof *tree->children)};
    bool room = parents && scratch.nodes && scratch.next && scratch.table && tree->toward && tree->children;
    if (room) {
        tree_parents_find(endpoints, ranks, parents, &scratch);
        tree_neighbors_fill(parents, ranks, rank, tree);
    }
    free(parents);
    free(scratch.nodes);
    free(scratch.next);
    free(scratch.table);
    if (room)
        return WEFT_OK;
    tree_free(tree);
    return error_memory(error, ranks * sizeof(struct wire_tree_node), "the control plane's tree");
}

void tree_free(struct tree *tree)
{
    free(tree->children);
    free(tree->toward);
    *tree = (struct tree){0};
}

_Static_assert(ENDPOINT_MACHINE_BYTES == IDENTITY_BYTES, "an endpoint info holds any identity");

void endpoint_info_end_texts(struct endpoint_info *endpoint)
{
    endpoint->host[ENDPOINT_HOST_BYTES - 1] = '\0';
    endpoint->machine[ENDPOINT_MACHINE_BYTES - 1] = '\0';
    endpoint->control[ENDPOINT_LINK_BYTES - 1] = '\0';
    text_printable(endpoint->host);
    text_printable(endpoint->control);
}

weft_status endpoint_info_begin(struct endpoint_info *endpoint, uint32_t rank, const char *node, struct error *error)
{
    *endpoint = (struct endpoint_info){.rank = rank, .process = (int32_t)getpid()};
    address_host_name(endpoint->host, sizeof endpoint->host);
    return identity_read(node, endpoint->machine, error);
}
