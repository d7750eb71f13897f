/* SPDX-License-Identifier: Apache-2.0 */
/* A hash table of nodes by run, epoch and number, for thousands of nodes and many lookups per second. */
#include "platform/engine/local/internal/state.h"

#include "base/hash.h"

#include <stdlib.h>

#define PLACES_LEAST 64

static uint64_t local_nodes_hash_of(const struct attempt *attempt, uint32_t number)
{
    return hash_text(attempt->run, hash_number(number, hash_number(attempt->epoch, 0)));
}

struct local_node *local_nodes_find(const struct local_nodes *nodes, const struct attempt *attempt, uint32_t number)
{
    struct local_node *node = nodes->places ? nodes->lists[local_nodes_hash_of(attempt, number) % nodes->places] : NULL;
    while (node && (node->node != number || !attempt_same(&node->attempt, attempt)))
        node = node->next;
    return node;
}

static void local_nodes_put(struct local_node **lists, uint32_t places, struct local_node *node)
{
    struct local_node **list = &lists[local_nodes_hash_of(&node->attempt, node->node) % places];
    node->next = *list;
    *list = node;
}

weft_status local_nodes_add(struct local_nodes *nodes, struct local_node *node, struct error *error)
{
    if (nodes->count == nodes->places) {
        const uint32_t places = nodes->places ? 2 * nodes->places : PLACES_LEAST;
        struct local_node **lists = calloc(places, sizeof(struct local_node *));
        if (!lists)
            return error_memory(error, places * sizeof(struct local_node *), "the nodes of this machine");
        for (struct local_node *each = local_nodes_first(nodes), *next; each; each = next) {
            next = local_nodes_next(nodes, each); /* before the node moves to another list */
            local_nodes_put(lists, places, each);
        }
        free(nodes->lists);
        nodes->lists = lists;
        nodes->places = places;
    }
    local_nodes_put(nodes->lists, nodes->places, node);
    nodes->count++;
    return WEFT_OK;
}

void local_nodes_take_out(struct local_nodes *nodes, struct local_node *node)
{
    struct local_node **at = &nodes->lists[local_nodes_hash_of(&node->attempt, node->node) % nodes->places];
    while (*at != node)
        at = &(*at)->next;
    *at = node->next;
    nodes->count--;
}

/* The first node in list number `list` or a later one. */
static struct local_node *first_from(const struct local_nodes *nodes, uint32_t list)
{
    while (list < nodes->places && !nodes->lists[list])
        list++;
    return list < nodes->places ? nodes->lists[list] : NULL;
}

struct local_node *local_nodes_first(const struct local_nodes *nodes)
{
    return first_from(nodes, 0);
}

struct local_node *local_nodes_next(const struct local_nodes *nodes, const struct local_node *node)
{
    return node->next
               ? node->next
               : first_from(nodes, (uint32_t)(local_nodes_hash_of(&node->attempt, node->node) % nodes->places) + 1);
}
