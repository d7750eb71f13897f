/* SPDX-License-Identifier: Apache-2.0 */
/**
 * The mesh: ranks as points of a grid with named axes, and which rank is where.
 *
 * Along the *data* axis ranks compute different micro-batches, along *pipeline* different layers, along *tensor*
 * different parts of each layer. A *placement* is an order of the axes, from the one whose neighbors are closest (the
 * same node) to the one whose neighbors are farthest. Ranks are taken node by node, so the first axis of the order
 * stays within a node as far as the node has ranks.
 *
 * Pure functions, thread-safe, except for mesh_comms_open().
 */
#ifndef WEFT_TRAINING_PARALLEL_MESH_MESH_H
#define WEFT_TRAINING_PARALLEL_MESH_MESH_H

#include "base/error.h"

#include <stdint.h>

enum mesh_axis { MESH_DATA, MESH_PIPELINE, MESH_TENSOR, MESH_AXES };

struct mesh {
    uint32_t extent[MESH_AXES]; /**< ranks along each axis, from 1 */
};

struct mesh_placement {
    enum mesh_axis order[MESH_AXES]; /**< from the closest neighbors to the farthest; a permutation */
};

#define MESH_TEXT_BYTES 96

/**
 * Read "data=2,pipeline=2,tensor=2". An axis that is not named has 1 rank; one may be "auto", which takes what the others
 * leave. NULL or "" is "data=auto".
 *
 * Errors: ARGUMENT, for an unknown axis (with the nearest one), an axis that is named twice, and a mesh that does not
 * have `ranks` points (with meshes that do).
 */
weft_status mesh_parse(const char *text, uint32_t ranks, struct mesh *mesh, struct error *error);

/** Write "data=2,tensor=2" (axes of one rank are left out; "data=1" where all are); returns `text`. */
const char *mesh_print(const struct mesh *mesh, char text[MESH_TEXT_BYTES]);

uint32_t mesh_ranks(const struct mesh *mesh);

/** Read "tensor,data,pipeline", closest first; axes that are not named follow. Errors: ARGUMENT. */
weft_status mesh_placement_parse(const char *text, struct mesh_placement *placement, struct error *error);
const char *mesh_placement_print(const struct mesh_placement *placement, char text[MESH_TEXT_BYTES]);

/**
 * Points of the ranks: points[rank * MESH_AXES + axis] receives the coordinate. `nodes[rank]` is the number of the
 * node that a rank is on. Errors: MEMORY.
 */
weft_status mesh_place(const struct mesh *mesh, const struct mesh_placement *placement, const uint32_t *nodes,
                       uint32_t *points, struct error *error);

/**
 * The placement that sends the fewest bytes between nodes. `bytes[axis]` is what a rank sends along the axis in a step.
 * Groups of the data and the tensor axis send them once for each node beyond their first (a two-level collective),
 * neighbors on the pipeline axis once wherever they are on two nodes. Ties go to the placement with tensor closest, then
 * data. Errors: MEMORY.
 */
weft_status mesh_placement_choose(const struct mesh *mesh, const uint32_t *nodes, const double bytes[MESH_AXES],
                                  struct mesh_placement *placement, struct error *error);

/** Bytes between nodes of a placement, as mesh_placement_choose() compares them. Errors: MEMORY. */
weft_status mesh_placement_bytes(const struct mesh *mesh, const struct mesh_placement *placement, const uint32_t *nodes,
                                 const double bytes[MESH_AXES], double *between_nodes, struct error *error);

/** This rank's communicators: its group along each axis, in the order of coordinates. */
struct mesh_comms {
    uint32_t point[MESH_AXES];
    weft_comm *axes[MESH_AXES];
};

/** Collective over `comm`, whose ranks are those of the mesh. mesh_comms_close() frees the communicators. */
weft_status mesh_comms_open(weft_comm *comm, const struct mesh *mesh, const struct mesh_placement *placement,
                            struct mesh_comms *comms, struct error *error);
void mesh_comms_close(struct mesh_comms *comms);

#endif
