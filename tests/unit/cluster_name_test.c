/* SPDX-License-Identifier: Apache-2.0 */
/* Clusters by name: every described kind loads with any number of hosts, and says where its figures come from. */
#include "core/topology/cluster_name.h"

#include "base/text.h"

#include <dirent.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "temporary.h"

static void check_kind(const char *kind)
{
    static const uint32_t counts[] = {1, 2, 16, 33, 4096};
    for (size_t i = 0; i < sizeof counts / sizeof *counts; i++) {
        char name[CLUSTER_NAME_BYTES];
        struct cluster_file cluster;
        struct error error = {0};
        snprintf(name, sizeof name, "%s-%u", kind, counts[i]);
        if (cluster_name_load(name, &cluster, &error) != WEFT_OK)
            fail_msg("%s", error.text);
        assert_int_equal(cluster_file_hosts(&cluster), counts[i]);
        assert_int_equal(cluster_file_ranks(&cluster), (uint64_t)counts[i] * cluster.levels[0].size);
        assert_non_null(strstr(cluster.name, name));
        assert_true(cluster.source[0]);
        for (uint32_t device = 0; device < cluster.device_count; device++)
            assert_true(cluster.devices[device].source[0]);
        for (uint32_t level = 0; level < cluster.level_count; level++)
            assert_true(cluster.levels[level].source[0]);
        cluster_file_free(&cluster);
    }
}

static void every_kind_has_any_number_of_hosts(void **state)
{
    char directory[FILE_PATH_BYTES];
    struct error error = {0};
    int seen = 0;
    if (cluster_name_directory(directory, &error) != WEFT_OK)
        fail_msg("%s", error.text);
    DIR *stream = opendir(directory);
    assert_non_null(stream);
    for (struct dirent *entry; (entry = readdir(stream));) {
        if (!text_ends_in(entry->d_name, ".yaml"))
            continue;
        entry->d_name[strlen(entry->d_name) - strlen(".yaml")] = '\0';
        check_kind(entry->d_name);
        seen++;
    }
    closedir(stream);
    assert_true(seen >= 8);
}

static void a_kind_alone_has_the_hosts_of_its_file(void **state)
{
    struct cluster_file cluster;
    struct error error = {0};
    assert_int_equal(cluster_name_load("dgx-a100", &cluster, &error), WEFT_OK);
    assert_int_equal(cluster_file_hosts(&cluster), 40);
    assert_string_equal(cluster.devices[0].kind, "A100-80GB");
    assert_int_equal(cluster.groups[0].interfaces, 8);
    cluster_file_free(&cluster);
}

static void paths_are_files(void **state)
{
    const char *directory = temporary_directory(), *path = temporary_path(directory, "own-3.yaml");
    struct cluster_file cluster;
    struct error error = {0};
    assert_int_equal(cluster_name_load("p3dn-2", &cluster, &error), WEFT_OK);
    assert_int_equal(cluster_file_save(&cluster, path, &error), WEFT_OK);
    cluster_file_free(&cluster);
    assert_int_equal(cluster_name_load(path, &cluster, &error), WEFT_OK);
    assert_int_equal(cluster_file_hosts(&cluster), 2);
    cluster_file_free(&cluster);
    file_remove_tree(directory, NULL);
    assert_int_equal(cluster_name_load(path, &cluster, &error), WEFT_ERROR_SYSTEM);
}

static void unknown_names_are_refused(void **state)
{
    static const struct {
        const char *name, *says;
    } cases[] = {
        {"dgx", "kinds, which a number of hosts may follow (as in dgx-a100-128): dgx-1v, dgx-a100"},
        {"dgx-a100-", "there is no cluster file 'dgx-a100-'"},
        {"dgx-a100-x", "there is no cluster file 'dgx-a100-x'"},
        {"dgx-a100--2", "there is no cluster file 'dgx-a100--2'"},
        {"dgx-a100-0", "the number of hosts is 0"},
        {"dgx-a100-70000", "the number of hosts is 70000"},
        {"", "there is no cluster file ''"},
        {"..", "there is no cluster file '..'"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct cluster_file cluster;
        struct error error = {0};
        assert_int_equal(cluster_name_load(cases[i].name, &cluster, &error), WEFT_ERROR_ARGUMENT);
        if (!strstr(error.text, cases[i].says))
            fail_msg("'%s' does not say '%s'", error.text, cases[i].says);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_kind_has_any_number_of_hosts),
        cmocka_unit_test(a_kind_alone_has_the_hosts_of_its_file),
        cmocka_unit_test(paths_are_files),
        cmocka_unit_test(unknown_names_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
