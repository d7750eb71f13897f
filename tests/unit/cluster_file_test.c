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

#define DEVICES                                                                                                        \
    "devices:\n"                                                                                                       \
    "  fast: {memory: 80 GiB, memory_bandwidth: 2039 GB/s, f32: 19.5 TFLOP/s, bf16: 312 TFLOP/s, launch: 5 us,\n"      \
    "         product_share: 0.8, product_half: 2 GFLOP, processors: 108, product_fill: 200,\n"                        \
    "         source: a data sheet}\n"                                                                                 \
    "  slow: {memory: 16 GB, memory_bandwidth: 900 GB/s, f16: 125 TFLOP/s}\n"
#define GROUPS                                                                                                         \
    "groups:\n"                                                                                                        \
    "  - {hosts: 3, ranks: 8, device: fast, interfaces: 4, bandwidth: 800 Gbit/s}\n"                                   \
    "  - {hosts: 2, ranks: 4, device: slow}\n"
#define LEVELS                                                                                                         \
    "levels:\n"                                                                                                        \
    "  - {latency: 2 us, bandwidth: 300 GB/s}\n"                                                                       \
    "  - {size: 2, latency: 4 us, overhead: 1.5 us, bandwidth: 100 Gbit/s}\n"                                          \
    "  - {latency: 5 us, oversubscription: 2}\n"
#define YAML_OF(devices, groups, levels) "weft_cluster: 2\nname: test\n" devices groups levels

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

static void devices_and_groups_are_read_with_units(void **state)
{
    struct cluster_file cluster;
    struct error error = {0};
    if (parse(YAML_OF(DEVICES, GROUPS, LEVELS), &cluster, &error) != WEFT_OK)
        fail_msg("%s", error.text);
    assert_int_equal(cluster.device_count, 2);
    assert_string_equal(cluster.devices[0].kind, "fast");
    assert_string_equal(cluster.devices[0].source, "a data sheet");
    assert_int_equal(cluster.devices[0].memory_bytes, (uint64_t)80 << 30);
    assert_true(cluster.devices[0].memory_bandwidth == 2039e9);
    assert_true(cluster.devices[0].flops[CLUSTER_F32] == 19.5e12 && cluster.devices[0].flops[CLUSTER_F16] == 0);
    assert_true(cluster.devices[0].product_share == 0.8 && cluster.devices[0].product_half == 2e9);
    assert_true(cluster.devices[0].processors == 108 && cluster.devices[0].product_fill == 200);
    assert_int_equal(cluster.devices[1].memory_bytes, 16000000000);
    assert_int_equal(cluster.group_count, 2);
    assert_int_equal(cluster.groups[0].interfaces, 4);
    assert_true(cluster.groups[0].bandwidth == 100e9 && cluster.groups[1].bandwidth == 0);
    assert_true(cluster.levels[2].cost.bytes_per_second == 2 * 12.5e9 / 2); /* two hosts, shared two to one */
    assert_int_equal(cluster.levels[0].size, 8);                            /* the largest hosts */
    assert_int_equal(cluster.levels[2].size, 3);                            /* 5 hosts, 2 under each leaf */
    assert_int_equal(cluster_file_ranks(&cluster), 3 * 8 + 2 * 4);
    assert_int_equal(cluster_file_hosts(&cluster), 5);
    assert_int_equal(cluster_file_group(&cluster, 2).device, 0);
    assert_int_equal(cluster_file_group(&cluster, 3).device, 1);
    assert_int_equal(cluster_file_group(&cluster, 4).ranks, 4);
    assert_int_equal(cluster_file_resize(&cluster, 8, &error), WEFT_ERROR_ARGUMENT);
    cluster_file_free(&cluster);
}

static void the_number_of_hosts_can_be_chosen(void **state)
{
    struct error error = {0};
    for (uint32_t hosts = 1; hosts <= 20; hosts++) {
        struct cluster_file cluster;
        assert_int_equal(parse(FILE_OF(NODE ", " LEAF ", " POD ", " POD, ""), &cluster, &error), WEFT_OK);
        assert_int_equal(cluster_file_hosts(&cluster), 18);
        assert_int_equal(cluster_file_group(&cluster, 0).ranks, 2);
        assert_int_equal(cluster_file_resize(&cluster, hosts, &error), WEFT_OK);
        assert_int_equal(cluster_file_hosts(&cluster), hosts);
        assert_int_equal(cluster_file_ranks(&cluster), 2 * hosts);
        assert_int_equal(cluster.level_count, hosts <= 2 ? 2 : hosts <= 6 ? 3 : 4); /* 2 in a leaf, 6 in a pod */
        assert_int_equal(cluster.levels[cluster.level_count - 1].size, hosts <= 2   ? hosts
                                                                       : hosts <= 6 ? (hosts + 1) / 2
                                                                                    : (hosts + 5) / 6);
        cluster_file_free(&cluster);
    }
}

static void what_is_written_reads_back(void **state)
{
    const char *texts[] = {
        FILE_OF(NODE, ""),
        FILE_OF(NODE ", " LEAF, ", \"hosts\": [\"a\", \"b\", \"c\"], \"cores\": 8"),
        FILE_OF(NODE ", " LEAF ", " POD, ", \"hosts\": [[\"a\", \"b\"], [\"c\"]], \"cache_bytes\": 1e6"),
        FILE_OF(NODE ", " LEAF ", " POD ", " POD,
                ", \"hosts\": [[[\"a\"], [\"b\", \"c\"]], [[\"d\"]]], \"measured\": 1700000000"),
        YAML_OF(DEVICES, GROUPS, LEVELS),
        YAML_OF(DEVICES, "source: \"'a' \\\"b\\\" \\\\ #c\"\noverlap_slowdown: 0.123456789\n",
                "levels: [{size: 2, latency: 0, bandwidth: 123456789.123}]\n"),
    };
    const char *directory = temporary_directory(), *path = temporary_path(directory, "deep/cluster.yaml");
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
        {"[]", "text, line 1: this is not a cluster file"},
        {"{\"weft_cluster\": 3, \"levels\": []}", "text, line 1: this is a cluster file of version 3"},
        {FILE_OF("", ""), "no levels"},
        {FILE_OF("{\"size\": 2}", ""), "must give its 'latency'"},
        {FILE_OF("{\"latency\": -1, \"bytes_per_second\": 1}", ""), "'latency' is -1"},
        {FILE_OF("{\"latency\": 1, \"bytes_per_second\": 0}", ""), "'bytes_per_second' is 0"},
        {FILE_OF("{\"latency\": 1, \"bytes_per_second\": 1}, " LEAF, ""), "must give its 'size'"},
        {FILE_OF(NODE ", " LEAF ", " POD ", " POD ", " POD, ""), "more than 4 levels"},
        {FILE_OF(NODE ", " LEAF ", " POD, ", \"hosts\": [\"a\"]"), "2 deep"},
        {FILE_OF(NODE ", " LEAF, ", \"hosts\": [[\"a\"]]"), "not a host name"},
        {FILE_OF(NODE, ", \"cores\": -3"), "'cores' is -3"},
        {FILE_OF(NODE, ", \"cores\": 2.5"), "'cores' is 2.5; it must be a whole number"},
        {"weft_cluster: 2\nname: test\n", "the file has no 'levels'"},
        {YAML_OF("", "", "level: []\n"), "text, line 3: 'level' is not a key of a cluster file; do you mean 'levels'?"},
        {YAML_OF("devices:\n  d:\n    memory: 80 GO\n", "", LEVELS), "text, line 5: 'memory' is '80 GO', and 'GO'"},
        {YAML_OF("devices:\n  d:\n    memory: 80 Gbit/s\n", "", LEVELS), "text, line 5: 'memory' is '80 Gbit/s'"},
        {YAML_OF("devices:\n  d:\n    memory: 4 kB\n", "", LEVELS),
         "'memory' is 4 kB; it must be from 1 MB to 1000 TB"},
        {YAML_OF("devices:\n  d:\n    memory: 8 GB\n", "", LEVELS), "text, line 5: the device 'd' must give 'memory'"},
        {YAML_OF("devices:\n  d: {flops: 3}\n", "", LEVELS), "'flops' is not a key of a device"},
        {YAML_OF(DEVICES, "groups: [{hosts: 2, ranks: 8}]\n", LEVELS), "must name its 'device'"},
        {YAML_OF(DEVICES, "groups: [{hosts: 2, ranks: 8, device: x}]\n", LEVELS), "'device' is 'x', which is not one"},
        {YAML_OF(DEVICES, "groups: [{hosts: 2, device: fast}]\n", LEVELS), "must give its 'ranks'"},
        {YAML_OF(DEVICES, "groups: [{ranks: 2, device: fast}]\n", LEVELS), "the number of its 'hosts'"},
        {YAML_OF("", "groups: [{hosts: 2, ranks: 8, interfaces: 3}]\n", LEVELS), "cannot share 3 interfaces evenly"},
        {YAML_OF("", "groups: [{hosts: 2, ranks: 2}]\n", "levels: [{latency: 0, bandwidth: 1 GB/s}]\n"),
         "have room for 1"},
        {YAML_OF("", "", "levels: [{size: 2, latency: 0, oversubscription: 2}]\n"), "it needs their number"},
        {YAML_OF("", "hosts: [a]\ngroups: [{hosts: 2, ranks: 2}]\n",
                 "levels: [{latency: 0, bandwidth: 1}, {latency: 0, bandwidth: 1}]\n"),
         "2 hosts together, but 'hosts' names 1"},
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
        cmocka_unit_test(devices_and_groups_are_read_with_units),
        cmocka_unit_test(the_number_of_hosts_can_be_chosen),
        cmocka_unit_test(what_is_written_reads_back),
        cmocka_unit_test(what_cannot_be_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
