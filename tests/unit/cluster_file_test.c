/* SPDX-License-Identifier: Apache-2.0 */
/* Cluster files: read, placed, written and read again; wrong ones refused by a message. */
#include "core/topology/cluster_file.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "temporary.h"

#define NODE                  "{\"name\": \"node\", \"size\": 2, \"latency\": 1e-7, \"bytes_per_second\": 1e10}"
#define LEAF                  "{\"size\": 2, \"latency\": 1e-5, \"overhead\": 1e-6, \"bytes_per_second\": 1.2e8}"
#define POD                   "{\"size\": 3, \"latency\": 2e-5, \"bytes_per_second\": 1e8}"
#define FILE_OF(levels, rest) "{\"weft_cluster\": 1, \"name\": \"test\", \"levels\": [" levels "]" rest "}"

static weft_status parse(const char *text, struct cluster_file *cluster, struct error *error)
{
    return cluster_file_parse(text, strlen(text), "text", cluster, error);
}

static void sizes_place_any_nodes(void **state)
{
    struct cluster_file cluster;
    struct error error = {0};
    assert_int_equal(parse(FILE_OF(NODE ", " LEAF ", " POD ", " POD, ""), &cluster, &error), WEFT_OK);
    assert_int_equal(cluster.level_count, 4);
    assert_string_equal(cluster.levels[1].name, "leaf");
    assert_string_equal(cluster.levels[3].name, "core");
    assert_int_equal(cluster_file_maps(&cluster), 2);
    assert_int_equal(cluster_file_ranks(&cluster), 2 * 2 * 3 * 3);
    uint32_t leaves[9], pods[9], *units[CLUSTER_MAPS] = {leaves, pods};
    assert_int_equal(cluster_file_place(&cluster, NULL, 9, units, &error), WEFT_OK);
    for (uint32_t node = 0; node < 9; node++) {
        assert_int_equal(leaves[node], node / 2);
        assert_int_equal(pods[node], node / 6);
    }
    cluster_file_free(&cluster);
}

static void hosts_are_placed_by_name(void **state)
{
    const char *text = FILE_OF(NODE ", " LEAF ", " POD, ", \"hosts\": [[\"a\", \"b\"], [\"c\"]]");
    static const char *const names[] = {"c", "a", "b"}, *const stranger[] = {"a", "x"};
    struct cluster_file cluster;
    struct error error = {0};
    assert_int_equal(parse(text, &cluster, &error), WEFT_OK);
    assert_int_equal(cluster.host_count, 3);
    assert_int_equal(cluster_file_ranks(&cluster), 6);
    uint32_t leaves[3], *units[CLUSTER_MAPS] = {leaves, NULL};
    assert_int_equal(cluster_file_place(&cluster, names, 3, units, &error), WEFT_OK);
    assert_int_equal(leaves[0], 1);
    assert_int_equal(leaves[1], 0);
    assert_int_equal(leaves[2], 0);
    assert_int_equal(cluster_file_place(&cluster, stranger, 2, units, &error), WEFT_ERROR_ARGUMENT);
    assert_non_null(strstr(error.text, "x is not one of them"));
    cluster_file_free(&cluster);
}

static void what_is_written_reads_back(void **state)
{
    const char *texts[] = {
        FILE_OF(NODE, ""),
        FILE_OF(NODE ", " LEAF, ", \"hosts\": [\"a\", \"b\", \"c\"], \"cores\": 8"),
        FILE_OF(NODE ", " LEAF ", " POD, ", \"hosts\": [[\"a\", \"b\"], [\"c\"]], \"cache_bytes\": 1e6"),
        FILE_OF(NODE ", " LEAF ", " POD ", " POD,
                ", \"hosts\": [[[\"a\"], [\"b\", \"c\"]], [[\"d\"]]], \"measured\": 1700000000"),
    };
    const char *directory = temporary_directory(), *path = temporary_path(directory, "deep/cluster.json");
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        struct cluster_file first, second;
        struct error error = {0};
        assert_int_equal(parse(texts[i], &first, &error), WEFT_OK);
        assert_int_equal(cluster_file_save(&first, path, &error), WEFT_OK);
        if (cluster_file_load(path, &second, &error) != WEFT_OK)
            fail_msg("%s", error.text);
        assert_memory_equal(first.hosts, second.hosts, first.host_count * sizeof *first.hosts);
        struct cluster_host *hosts = second.hosts;
        second.hosts = first.hosts;
        assert_memory_equal(&first, &second, sizeof first);
        second.hosts = hosts;
        cluster_file_free(&first);
        cluster_file_free(&second);
    }
    file_remove_tree(directory, NULL);
}

static void what_cannot_be_is_refused(void **state)
{
    static const struct {
        const char *text, *says;
    } cases[] = {
        {"[]", "weft_cluster"},
        {"{\"weft_cluster\": 2, \"levels\": []}", "version 2"},
        {FILE_OF("", ""), "no levels"},
        {FILE_OF("{\"size\": 2}", ""), "must give 'latency'"},
        {FILE_OF("{\"latency\": -1, \"bytes_per_second\": 1}", ""), "'latency' is -1"},
        {FILE_OF("{\"latency\": 1, \"bytes_per_second\": 0}", ""), "'bytes_per_second' is 0"},
        {FILE_OF("{\"latency\": 1, \"bytes_per_second\": 1}, " LEAF, ""), "must give its 'size'"},
        {FILE_OF(NODE ", " LEAF ", " POD ", " POD ", " POD, ""), "more than 4 levels"},
        {FILE_OF(NODE ", " LEAF ", " POD, ", \"hosts\": [\"a\"]"), "2 deep"},
        {FILE_OF(NODE ", " LEAF, ", \"hosts\": [[\"a\"]]"), "not a host name"},
        {FILE_OF(NODE, ", \"cores\": -3"), "'cores' is -3"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct cluster_file cluster;
        struct error error = {0};
        assert_int_equal(parse(cases[i].text, &cluster, &error), WEFT_ERROR_DATA);
        if (!strstr(error.text, cases[i].says))
            fail_msg("'%s' does not say '%s'", error.text, cases[i].says);
        assert_null(cluster.hosts);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sizes_place_any_nodes),
        cmocka_unit_test(hosts_are_placed_by_name),
        cmocka_unit_test(what_is_written_reads_back),
        cmocka_unit_test(what_cannot_be_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
