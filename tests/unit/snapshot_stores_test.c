/* SPDX-License-Identifier: Apache-2.0 */
/* The stores of all projects: what runs name stays, each project's for itself; the rest goes when it is old. */
#include "platform/service/internal/snapshot_stores.h"
#include "platform/snapshot/receive.h"
#include "platform/snapshot/snapshot.h"
#include "platform/snapshot/store.h"
#include "registry_support.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

/* Let everything below `path` look as if it was used last an hour ago. */
static void grow_old(const char *path)
{
    DIR *listing = opendir(path);
    const struct timespec times[2] = {{.tv_sec = time(NULL) - 3600}, {.tv_sec = time(NULL) - 3600}};
    for (struct dirent *entry; listing && (entry = readdir(listing));) {
        char inner[FILE_PATH_BYTES];
        if (entry->d_name[0] == '.' || file_join(inner, path, entry->d_name, NULL) != WEFT_OK)
            continue;
        if (file_is_directory(inner))
            grow_old(inner);
        else
            assert_int_equal(utimensat(AT_FDCWD, inner, times, 0), 0);
    }
    closedir(listing);
}

static void take(const struct controller_directories *directories, const char *project, const char *tree,
                 struct snapshot *snapshot)
{
    char store[FILE_PATH_BYTES];
    assert_int_equal(snapshot_store_of(directories, project, store, NULL), WEFT_OK);
    assert_int_equal(snapshot_take(store, tree, NULL, snapshot, NULL), WEFT_OK);
}

static bool has(const struct controller_directories *directories, const char *project, const char *id)
{
    char store[FILE_PATH_BYTES];
    assert_int_equal(snapshot_store_of(directories, project, store, NULL), WEFT_OK);
    return snapshot_is_there(store, id);
}

static void what_runs_name_stays(void **state)
{
    const char *directory = temporary_directory();
    char snapshots[600], tree[600], text[512];
    struct snapshot one, other;
    struct snapshot_collected collected;
    struct error error = {0};
    snprintf(snapshots, sizeof snapshots, "%s/snapshots", directory);
    snprintf(tree, sizeof tree, "%s/tree", directory);
    assert_int_equal(mkdir(tree, 0777), 0);
    const struct controller_directories directories = {NULL, snapshots};
    struct database *registry = registry_with_people(directory);
    const int64_t before = ((int64_t)time(NULL) - 1800) * 1000;
    /* No store at all. */
    assert_int_equal(snapshot_stores_collect(&directories, registry, before, &collected, &error), WEFT_OK);
    temporary_file(tree, "main.py", "one", 3);
    take(&directories, "vision", tree, &one);
    take(&directories, "speech", tree, &one);
    temporary_file(tree, "main.py", "other", 5);
    take(&directories, "vision", tree, &other);
    take(&directories, "nobody", tree, &other); /* a project that there is not, and so has no runs */
    for (int i = 0; i < 2; i++) {
        snprintf(text, sizeof text,
                 "{\"project\":\"vision\",\"owner\":\"ada\",\"command\":[\"x\"],\"snapshot\":\"%s\"}", one.id);
        submit(registry, text, 1000);
    }
    submit(registry, "{\"project\":\"speech\",\"owner\":\"carl\",\"command\":[\"x\"]}", 1000);
    assert_int_equal(snapshot_stores_collect(&directories, registry, before, &collected, &error), WEFT_OK);
    assert_int_equal(collected.snapshots, 0); /* all are young */
    grow_old(snapshots);
    if (snapshot_stores_collect(&directories, registry, before, &collected, &error) != WEFT_OK)
        fail_msg("%s", error.text);
    assert_int_equal(collected.snapshots, 3);
    assert_int_equal(collected.objects, 3);
    assert_true(has(&directories, "vision", one.id));
    assert_false(has(&directories, "vision", other.id));
    assert_false(has(&directories, "speech", one.id)); /* that another project's run names it is not enough */
    assert_false(has(&directories, "nobody", other.id));
    /* Trouble in one store is reported, and the others are still looked after. */
    take(&directories, "speech", tree, &other);
    grow_old(snapshots);
    char path[FILE_PATH_BYTES];
    snprintf(path, sizeof path, "%s/vision/snapshots/%s", snapshots, one.id);
    assert_int_equal(truncate(path, 5), 0);
    assert_int_equal(snapshot_stores_collect(&directories, registry, before, &collected, &error), WEFT_ERROR_DATA);
    assert_non_null(strstr(error.text, one.id));
    assert_int_equal(collected.snapshots, 1);
    database_close(registry);
    assert_int_equal(file_remove_tree(directory, NULL), WEFT_OK);
}

/* The stores of files that only their owner may read: found by the owner alone, and collected likewise. */
static void private_stores_are_their_owners(void **state)
{
    const char *directory = temporary_directory();
    char snapshots[600], tree[600], text[512], store[FILE_PATH_BYTES], path[FILE_PATH_BYTES];
    struct snapshot one, other;
    struct snapshot_collected collected;
    struct error error = {0};
    snprintf(snapshots, sizeof snapshots, "%s/snapshots", directory);
    snprintf(tree, sizeof tree, "%s/tree", directory);
    assert_int_equal(mkdir(tree, 0777), 0);
    const struct controller_directories directories = {NULL, snapshots};
    struct database *registry = registry_with_people(directory);
    const int64_t before = ((int64_t)time(NULL) - 1800) * 1000;
    assert_int_equal(snapshot_store_of(&directories, "vision", store, NULL), WEFT_OK);
    assert_int_equal(snapshot_store_make_private(path, store, "ada", &error), WEFT_OK);
    assert_int_equal(chmod(temporary_file(tree, "own", "one", 3), 0600), 0);
    assert_int_equal(snapshot_take(path, tree, NULL, &one, NULL), WEFT_OK);
    assert_int_equal(one.owner_only, 1);
    temporary_file(tree, "own", "other", 5);
    assert_int_equal(snapshot_take(path, tree, NULL, &other, NULL), WEFT_OK);
    snprintf(text, sizeof text, "{\"project\":\"vision\",\"owner\":\"ada\",\"command\":[\"x\"],\"snapshot\":\"%s\"}",
             one.id);
    submit(registry, text, 1000);
    assert_int_equal(snapshot_stores_find(&directories, "vision", "ada", one.id, 0, path, &error), WEFT_OK);
    assert_int_equal(snapshot_stores_find(&directories, "vision", "carl", one.id, 7, path, &error), WEFT_ERROR_STATE);
    assert_non_null(strstr(error.text, "run 7 has 1 file that only ada may read ('own')"));
    error_clear(&error);
    assert_int_equal(snapshot_stores_find(&directories, "speech", "ada", one.id, 0, path, &error), WEFT_ERROR_ARGUMENT);
    error_clear(&error);
    grow_old(snapshots);
    assert_int_equal(snapshot_stores_collect(&directories, registry, before, &collected, &error), WEFT_OK);
    assert_int_equal(collected.snapshots, 1);
    assert_int_equal(collected.objects, 1);
    assert_int_equal(snapshot_stores_find(&directories, "vision", "ada", one.id, 0, path, &error), WEFT_OK);
    assert_int_equal(snapshot_stores_find(&directories, "vision", "ada", other.id, 0, path, &error),
                     WEFT_ERROR_ARGUMENT);
    error_clear(&error);
    database_close(registry);
    assert_int_equal(file_remove_tree(directory, NULL), WEFT_OK);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_runs_name_stays),
        cmocka_unit_test(private_stores_are_their_owners),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
