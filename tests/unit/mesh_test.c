/* SPDX-License-Identifier: Apache-2.0 */
/* Meshes as text, points of ranks, and the placement that sends the fewest bytes between nodes. */
#include "training/parallel/mesh/mesh.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

static void meshes_are_read(void **state)
{
    const struct {
        const char *text;
        uint32_t ranks, data, pipeline, tensor;
        const char *printed;
    } cases[] = {
        {"data=2,pipeline=2,tensor=2", 8, 2, 2, 2, "data=2,pipeline=2,tensor=2"},
        {"tensor=4", 4, 1, 1, 4, "tensor=4"},
        {"pipeline=3,data=auto", 12, 4, 3, 1, "data=4,pipeline=3"},
        {NULL, 5, 5, 1, 1, "data=5"},
        {"", 1, 1, 1, 1, "data=1"},
    };
    for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
        struct mesh mesh;
        struct error error = {0};
        char text[MESH_TEXT_BYTES];
        if (mesh_parse(cases[i].text, cases[i].ranks, &mesh, &error) != WEFT_OK)
            fail_msg("'%s': %s", cases[i].text, error.text);
        assert_int_equal(mesh.extent[MESH_DATA], cases[i].data);
        assert_int_equal(mesh.extent[MESH_PIPELINE], cases[i].pipeline);
        assert_int_equal(mesh.extent[MESH_TENSOR], cases[i].tensor);
        assert_string_equal(mesh_print(&mesh, text), cases[i].printed);
    }
}

static void impossible_meshes_are_refused(void **state)
{
    const struct {
        const char *text, *says;
    } cases[] = {
        {"data=2,pipeline=2", "has 4 ranks, but there are 8; possible are data=4,pipeline=2, data=2,pipeline=4, "
                              "data=2,pipeline=2,tensor=2"},
        {"data=3,tensor=5", "possible are data=8, pipeline=8, tensor=8"},
        {"data=3,tensor=auto", "has 3 ranks"},
        {"tensors=8", "did you mean 'tensor'?"},
        {"data=8,data=1", "twice"},
        {"data=auto,tensor=auto", "only one"},
        {"data=0", "write a number of ranks"},
        {"data", "write a number of ranks"},
        {"data=8x", "'8x'"},
        {"data=8,", "ends in a comma"},
    };
    for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
        struct mesh mesh;
        struct error error = {0};
        assert_int_equal(mesh_parse(cases[i].text, 8, &mesh, &error), WEFT_ERROR_ARGUMENT);
        if (!strstr(error.text, cases[i].says))
            fail_msg("'%s' does not say '%s'", error.text, cases[i].says);
    }
}

static void placements_are_read(void **state)
{
    struct mesh_placement placement;
    struct error error = {0};
    char text[MESH_TEXT_BYTES];
    assert_int_equal(mesh_placement_parse("pipeline", &placement, &error), WEFT_OK);
    assert_string_equal(mesh_placement_print(&placement, text), "pipeline,tensor,data");
    assert_int_equal(mesh_placement_parse("data,tensor,pipeline", &placement, &error), WEFT_OK);
    assert_string_equal(mesh_placement_print(&placement, text), "data,tensor,pipeline");
    assert_int_equal(mesh_placement_parse("data,data", &placement, &error), WEFT_ERROR_ARGUMENT);
}

/* Each point has one rank, and the closest axis stays on a node even where launchers deal out ranks in turns. */
static void closest_axis_stays_on_a_node(void **state)
{
    const struct mesh mesh = {.extent = {[MESH_DATA] = 2, [MESH_PIPELINE] = 3, [MESH_TENSOR] = 2}};
    const uint32_t ranks = mesh_ranks(&mesh);
    uint32_t nodes[12], points[12 * MESH_AXES];
    struct mesh_placement placement;
    struct error error = {0};
    assert_int_equal(mesh_placement_parse("tensor,pipeline,data", &placement, &error), WEFT_OK);
    for (uint32_t rank = 0; rank < ranks; rank++)
        nodes[rank] = rank % 6;
    assert_int_equal(mesh_place(&mesh, &placement, nodes, points, &error), WEFT_OK);
    for (uint32_t a = 0; a < ranks; a++)
        for (uint32_t b = 0; b < a; b++) {
            assert_true(memcmp(points + a * MESH_AXES, points + b * MESH_AXES, MESH_AXES * sizeof *points) != 0);
            const bool neighbors = points[a * MESH_AXES + MESH_DATA] == points[b * MESH_AXES + MESH_DATA] &&
                                   points[a * MESH_AXES + MESH_PIPELINE] == points[b * MESH_AXES + MESH_PIPELINE];
            if (neighbors)
                assert_int_equal(nodes[a], nodes[b]);
        }
}

static void slow_links_carry_the_fewest_bytes(void **state)
{
    static const uint32_t nodes[] = {0, 0, 1, 1};
    const struct {
        struct mesh mesh;
        double bytes[MESH_AXES];
        const char *chosen;
        double between_nodes;
    } cases[] = {
        /* Two groups of the farther axis cross, each once. */
        {{{[MESH_DATA] = 2, [MESH_PIPELINE] = 1, [MESH_TENSOR] = 2}}, {10, 1, 100}, "tensor,data,pipeline", 20},
        {{{[MESH_DATA] = 2, [MESH_PIPELINE] = 1, [MESH_TENSOR] = 2}}, {100, 1, 10}, "data,tensor,pipeline", 20},
        {{{[MESH_DATA] = 2, [MESH_PIPELINE] = 2, [MESH_TENSOR] = 1}}, {100, 1, 1}, "tensor,data,pipeline", 2},
        {{{[MESH_DATA] = 2, [MESH_PIPELINE] = 2, [MESH_TENSOR] = 1}}, {1, 100, 1}, "tensor,pipeline,data", 2},
        {{{[MESH_DATA] = 4, [MESH_PIPELINE] = 1, [MESH_TENSOR] = 1}}, {10, 1, 1}, "tensor,data,pipeline", 10},
    };
    for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
        struct mesh_placement placement;
        struct error error = {0};
        char text[MESH_TEXT_BYTES];
        double between_nodes;
        assert_int_equal(mesh_placement_choose(&cases[i].mesh, nodes, cases[i].bytes, &placement, &error), WEFT_OK);
        assert_string_equal(mesh_placement_print(&placement, text), cases[i].chosen);
        assert_int_equal(
            mesh_placement_bytes(&cases[i].mesh, &placement, nodes, cases[i].bytes, &between_nodes, &error), WEFT_OK);
        assert_float_equal(between_nodes, cases[i].between_nodes, 1e-9);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(meshes_are_read),
        cmocka_unit_test(impossible_meshes_are_refused),
        cmocka_unit_test(placements_are_read),
        cmocka_unit_test(closest_axis_stays_on_a_node),
        cmocka_unit_test(slow_links_carry_the_fewest_bytes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
