/* SPDX-License-Identifier: Apache-2.0 */
/* The communicators of a mesh: each rank's groups along the axes, in the order of coordinates. */
#include "../world.h"
#include "training/parallel/mesh/mesh.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#define RANKS 8

/* The point of a rank as one number. */
static int32_t number_of(const uint32_t point[MESH_AXES])
{
    return (int32_t)(point[MESH_DATA] * 100 + point[MESH_PIPELINE] * 10 + point[MESH_TENSOR]);
}

static int open_mesh(weft_context *context, int rank, void *argument)
{
    static const int32_t steps[MESH_AXES] = {[MESH_DATA] = 100, [MESH_PIPELINE] = 10, [MESH_TENSOR] = 1};
    const struct mesh mesh = {.extent = {[MESH_DATA] = 2, [MESH_PIPELINE] = 2, [MESH_TENSOR] = 2}};
    struct mesh_placement placement;
    struct mesh_comms comms;
    struct error error = {0};
    CHECK(mesh_placement_parse("tensor,pipeline,data", &placement, &error) == WEFT_OK);
    CHECK(mesh_comms_open(weft_world(context), &mesh, &placement, &comms, &error) == WEFT_OK);
    const int32_t own = number_of(comms.point);
    for (unsigned axis = 0; axis < MESH_AXES; axis++) {
        int32_t members[2];
        CHECK(weft_comm_size(comms.axes[axis]) == 2);
        CHECK(weft_comm_rank(comms.axes[axis]) == (int)comms.point[axis]);
        CHECK(weft_allgather(&own, members, 1, WEFT_I32, comms.axes[axis]) == WEFT_OK);
        CHECK(members[0] == own - (int32_t)comms.point[axis] * steps[axis]);
        CHECK(members[1] == members[0] + steps[axis]);
    }
    CHECK(weft_comm_nodes(comms.axes[MESH_TENSOR]) == 1);
    mesh_comms_close(&comms);
    return 0;
}

static void groups_follow_the_axes(void **state)
{
    static const int in_turns[RANKS] = {0, 1, 0, 1, 0, 1, 0, 1};
    assert_int_equal(world_run(&(struct world){.ranks = RANKS}, open_mesh, NULL), 0);
    assert_int_equal(world_run(&(struct world){.ranks = RANKS, .node_of = in_turns}, open_mesh, NULL), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(groups_follow_the_axes)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
