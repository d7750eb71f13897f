/* SPDX-License-Identifier: Apache-2.0 */
/* Measured links in their file: kept, merged, and ignored with a warning when the file is unusable. */
#include "base/file/file.h"
#include "core/topology/links.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "temporary.h"

static const struct link_cost memory = {.latency = 7e-8, .overhead = 1e-8, .bytes_per_second = 1.5e10};
static const struct link_cost network = {.latency = 4.4e-6, .overhead = 1e-6, .bytes_per_second = 2.4e9};
static const char *directory;

static int make(void **state)
{
    directory = temporary_directory();
    return 0;
}

static int clean(void **state)
{
    return file_remove_tree(directory, NULL);
}

static void saved_links_are_found_again(void **state)
{
    struct links links = {0}, loaded;
    struct error error = {0};
    const char *path = temporary_path(directory, "deep/weft/links.json");
    assert_int_equal(links_put(&links, LINK_NEAR, "epyc", &memory, &error), WEFT_OK);
    assert_int_equal(links_put(&links, LINK_FAR, "net/epyc/epyc", &network, &error), WEFT_OK);
    assert_int_equal(links_put(&links, LINK_FAR, "net/epyc/epyc", &network, &error), WEFT_OK);
    assert_int_equal(links.count, 2);
    assert_int_equal(links_save(&links, path, &error), WEFT_OK);
    links_load(path, &loaded, &error);
    assert_string_equal(error.text, "");
    const struct link_entry *entry = links_find(&loaded, LINK_NEAR, "epyc");
    assert_non_null(entry);
    assert_memory_equal(&entry->cost, &memory, sizeof memory); /* all bits */
    assert_null(links_find(&loaded, LINK_FAR, "epyc"));
    assert_non_null(links_find(&loaded, LINK_FAR, "net/epyc/epyc"));
    links_free(&links);
    links_free(&loaded);
}

static void what_another_process_saved_is_kept(void **state)
{
    struct links first = {0}, second = {0}, loaded;
    const char *path = temporary_path(directory, "links.json");
    links_put(&first, LINK_NEAR, "a", &memory, NULL);
    links_put(&second, LINK_NEAR, "b", &network, NULL);
    assert_int_equal(links_save(&first, path, NULL), WEFT_OK);
    assert_int_equal(links_save(&second, path, NULL), WEFT_OK);
    links_load(path, &loaded, NULL);
    assert_int_equal(loaded.count, 2);
    links_free(&first);
    links_free(&second);
    links_free(&loaded);
}

static void an_unusable_file_is_ignored_with_a_warning(void **state)
{
    static const char *const bad[] = {
        "",
        "{",
        "[]",
        "{}",
        "{\"version\": 99, \"links\": []}",
        "{\"version\": 2, \"links\": [{}]}",
        "{\"version\":2,\"links\":[{\"level\":\"near\",\"key\":\"k\",\"latency\":-1,\"overhead\":0,"
        "\"bytes_per_second\":1,\"measured\":0,\"samples\":1}]}",
        "{\"version\":2,\"links\":[{\"level\":\"sideways\",\"key\":\"k\",\"latency\":1,\"overhead\":0,"
        "\"bytes_per_second\":1,\"measured\":0,\"samples\":1}]}",
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        struct links links;
        struct error warning = {0};
        const char *path = temporary_file(directory, "links.json", bad[i], strlen(bad[i]));
        links_load(path, &links, &warning);
        assert_int_equal(links.count, 0);
        assert_int_not_equal(warning.status, WEFT_OK);
        assert_non_null(strstr(warning.text, "measured links are ignored"));
        assert_non_null(strstr(warning.text, "links.json"));
        /* and the next save mends it */
        assert_int_equal(links_put(&links, LINK_NEAR, "k", &memory, NULL), WEFT_OK);
        assert_int_equal(links_save(&links, path, NULL), WEFT_OK);
        links_free(&links);
        error_clear(&warning);
        links_load(path, &links, &warning);
        assert_int_equal(links.count, 1);
        assert_int_equal(warning.status, WEFT_OK);
        links_free(&links);
    }
}

static void a_missing_file_is_no_warning(void **state)
{
    struct links links;
    struct error warning = {0};
    links_load(temporary_path(directory, "absent"), &links, &warning);
    assert_int_equal(links.count, 0);
    assert_int_equal(warning.status, WEFT_OK);
}

/* What was measured under load is forgotten for something better; what is old for anything. */
static void the_best_of_several_measurements_is_kept_for_a_while(void **state)
{
    struct links links = {0};
    struct link_cost loaded = {.latency = 5e-6, .overhead = 1e-6, .bytes_per_second = 1e9};
    assert_int_equal(links_improve(&links, LINK_NEAR, "k", &loaded, NULL), WEFT_OK);
    assert_int_equal(links_improve(&links, LINK_NEAR, "k", &memory, NULL), WEFT_OK);
    assert_int_equal(links_improve(&links, LINK_NEAR, "k", &loaded, NULL), WEFT_OK);
    const struct link_entry *entry = links_find(&links, LINK_NEAR, "k");
    assert_non_null(entry);
    assert_memory_equal(&entry->cost, &memory, sizeof memory);
    assert_int_equal(entry->samples, 3);
    links.entries[0].measured -= LINKS_LIFE_SECONDS;
    assert_null(links_find(&links, LINK_NEAR, "k"));
    assert_int_equal(links_improve(&links, LINK_NEAR, "k", &loaded, NULL), WEFT_OK);
    entry = links_find(&links, LINK_NEAR, "k");
    assert_non_null(entry);
    assert_memory_equal(&entry->cost, &loaded, sizeof loaded);
    assert_int_equal(entry->samples, 1);
    links_free(&links);
}

static void impossible_costs_are_refused(void **state)
{
    struct links links = {0};
    struct link_cost cost = memory;
    cost.bytes_per_second = 0;
    assert_int_equal(links_put(&links, LINK_NEAR, "k", &cost, NULL), WEFT_ERROR_ARGUMENT);
    cost = memory;
    cost.latency = -1;
    assert_int_equal(links_put(&links, LINK_NEAR, "k", &cost, NULL), WEFT_ERROR_ARGUMENT);
    assert_int_equal(links.count, 0);
}

static void the_place_follows_the_environment(void **state)
{
    char path[FILE_PATH_BYTES];
    struct error error = {0};
    setenv("XDG_CACHE_HOME", "/caches", 1);
    assert_int_equal(links_default_path(path, &error), WEFT_OK);
    assert_string_equal(path, "/caches/weft/links.json");
    setenv("XDG_CACHE_HOME", "relative", 1); /* to be ignored, says the standard */
    setenv("HOME", "/home/ada", 1);
    assert_int_equal(links_default_path(path, &error), WEFT_OK);
    assert_string_equal(path, "/home/ada/.cache/weft/links.json");
    unsetenv("HOME");
    assert_int_equal(links_default_path(path, &error), WEFT_ERROR_ARGUMENT);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(saved_links_are_found_again),
        cmocka_unit_test(what_another_process_saved_is_kept),
        cmocka_unit_test(an_unusable_file_is_ignored_with_a_warning),
        cmocka_unit_test(a_missing_file_is_no_warning),
        cmocka_unit_test(the_best_of_several_measurements_is_kept_for_a_while),
        cmocka_unit_test(impossible_costs_are_refused),
        cmocka_unit_test(the_place_follows_the_environment),
    };
    return cmocka_run_group_tests(tests, make, clean);
}
