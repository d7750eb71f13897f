/* SPDX-License-Identifier: Apache-2.0 */
/* Which rank is where: points, bytes between nodes, communicators. */
#include "training/parallel/mesh/mesh.h"

#include <stdlib.h>
#include <string.h>

/* Ranks in the order in which places are given out: node by node, by rank within each. */
static weft_status sort_by_node(const uint32_t *nodes, uint32_t ranks, uint32_t **sorted, struct error *error)
{
    uint32_t nodes_end = 0;
    for (uint32_t rank = 0; rank < ranks; rank++)
        nodes_end = nodes[rank] + 1 > nodes_end ? nodes[rank] + 1 : nodes_end;
    const size_t numbers = (size_t)ranks + nodes_end + 1;
    *sorted = calloc(numbers, sizeof **sorted);
    if (!*sorted)
        return error_memory(error, numbers * sizeof **sorted, "the placement of ranks");
    uint32_t *next = *sorted + ranks; /* of each node: the place of its next rank */
    for (uint32_t rank = 0; rank < ranks; rank++)
        next[nodes[rank] + 1]++;
    for (uint32_t node = 0; node < nodes_end; node++)
        next[node + 1] += next[node];
    for (uint32_t rank = 0; rank < ranks; rank++)
        (*sorted)[next[nodes[rank]]++] = rank;
    return WEFT_OK;
}

weft_status mesh_place(const struct mesh *mesh, const struct mesh_placement *placement, const uint32_t *nodes,
                       uint32_t *points, struct error *error)
{
    const uint32_t ranks = mesh_ranks(mesh);
    uint32_t *sorted;
    const weft_status status = sort_by_node(nodes, ranks, &sorted, error);
    if (status != WEFT_OK)
        return status;
    for (uint32_t place = 0; place < ranks; place++) {
        uint32_t rest = place;
        for (unsigned i = 0; i < MESH_AXES; i++) {
            const enum mesh_axis axis = placement->order[i];
            points[sorted[place] * MESH_AXES + axis] = rest % mesh->extent[axis];
            rest /= mesh->extent[axis];
        }
    }
    free(sorted);
    return WEFT_OK;
}

/* Whether two ranks belong to one group along an axis. */
static bool are_together(const uint32_t *points, uint32_t a, uint32_t b, enum mesh_axis axis)
{
    for (unsigned other = 0; other < MESH_AXES; other++)
        if (other != axis && points[a * MESH_AXES + other] != points[b * MESH_AXES + other])
            return false;
    return true;
}

/* How many times the group of `rank` along an axis sends its bytes from one node to another on behalf of this rank. */
static uint32_t crossings(const struct mesh *mesh, const uint32_t *points, const uint32_t *nodes, uint32_t rank,
                          enum mesh_axis axis)
{
    bool is_first_of_node = true, is_first_of_group = true;
    uint32_t next = rank;
    for (uint32_t other = 0; other < mesh_ranks(mesh); other++) {
        if (!are_together(points, rank, other, axis))
            continue;
        is_first_of_group = is_first_of_group && other >= rank;
        is_first_of_node = is_first_of_node && (other >= rank || nodes[other] != nodes[rank]);
        if (points[other * MESH_AXES + axis] == points[rank * MESH_AXES + axis] + 1)
            next = other;
    }
    if (axis == MESH_PIPELINE)
        return nodes[next] != nodes[rank];
    return is_first_of_node && !is_first_of_group;
}

weft_status mesh_placement_bytes(const struct mesh *mesh, const struct mesh_placement *placement, const uint32_t *nodes,
                                 const double bytes[MESH_AXES], double *between_nodes, struct error *error)
{
    const uint32_t ranks = mesh_ranks(mesh);
    uint32_t *points = malloc(ranks * MESH_AXES * sizeof *points);
    if (!points)
        return error_memory(error, ranks * MESH_AXES * sizeof *points, "the points of a mesh");
    const weft_status status = mesh_place(mesh, placement, nodes, points, error);
    *between_nodes = 0;
    for (uint32_t rank = 0; status == WEFT_OK && rank < ranks; rank++)
        for (unsigned axis = 0; axis < MESH_AXES; axis++)
            *between_nodes += bytes[axis] * crossings(mesh, points, nodes, rank, (enum mesh_axis)axis);
    free(points);
    return status;
}

weft_status mesh_placement_choose(const struct mesh *mesh, const uint32_t *nodes, const double bytes[MESH_AXES],
                                  struct mesh_placement *placement, struct error *error)
{
    static const struct mesh_placement candidates[] = {
        {{MESH_TENSOR, MESH_DATA, MESH_PIPELINE}}, {{MESH_TENSOR, MESH_PIPELINE, MESH_DATA}},
        {{MESH_DATA, MESH_TENSOR, MESH_PIPELINE}}, {{MESH_PIPELINE, MESH_TENSOR, MESH_DATA}},
        {{MESH_DATA, MESH_PIPELINE, MESH_TENSOR}}, {{MESH_PIPELINE, MESH_DATA, MESH_TENSOR}},
    };
    double fewest = 0;
    for (size_t i = 0; i < ARRAY_SIZE(candidates); i++) {
        double between_nodes;
        const weft_status status = mesh_placement_bytes(mesh, &candidates[i], nodes, bytes, &between_nodes, error);
        if (status != WEFT_OK)
            return status;
        if (i == 0 || between_nodes < fewest) {
            fewest = between_nodes;
            *placement = candidates[i];
        }
    }
    return WEFT_OK;
}

/* ---- communicators ---- */

/* A group's number: the point with the axis' coordinate left out. */
static int group_of(const struct mesh *mesh, const uint32_t point[MESH_AXES], enum mesh_axis axis)
{
    uint32_t group = 0;
    for (unsigned other = 0; other < MESH_AXES; other++)
        if (other != axis)
            group = group * mesh->extent[other] + point[other];
    return (int)group;
}

weft_status mesh_comms_open(weft_comm *comm, const struct mesh *mesh, const struct mesh_placement *placement,
                            struct mesh_comms *comms, struct error *error)
{
    const uint32_t ranks = mesh_ranks(mesh);
    *comms = (struct mesh_comms){0};
    uint32_t *nodes = malloc(ranks * (1 + MESH_AXES) * sizeof *nodes);
    if (!nodes)
        return error_memory(error, ranks * (1 + MESH_AXES) * sizeof *nodes, "the points of a mesh");
    for (uint32_t rank = 0; rank < ranks; rank++)
        nodes[rank] = (uint32_t)weft_comm_node_of(comm, (int)rank);
    weft_status status = mesh_place(mesh, placement, nodes, nodes + ranks, error);
    if (status == WEFT_OK)
        memcpy(comms->point, nodes + ranks + (size_t)weft_comm_rank(comm) * MESH_AXES, sizeof comms->point);
    free(nodes);
    for (unsigned axis = 0; status == WEFT_OK && axis < MESH_AXES; axis++) {
        status = weft_comm_split(comm, group_of(mesh, comms->point, (enum mesh_axis)axis), (int)comms->point[axis],
                                 &comms->axes[axis]);
        if (status != WEFT_OK)
            error_set(error, status, "%s", weft_message(weft_comm_context(comm)));
    }
    if (status != WEFT_OK)
        mesh_comms_close(comms);
    return status;
}

void mesh_comms_close(struct mesh_comms *comms)
{
    for (unsigned axis = 0; axis < MESH_AXES; axis++)
        if (comms->axes[axis])
            weft_comm_free(comms->axes[axis]);
    *comms = (struct mesh_comms){0};
}
