/* SPDX-License-Identifier: Apache-2.0 */
#include "core/topology/cluster_name.h"

#include "base/array.h"
#include "base/file/file.h"
#include "base/text.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define CLUSTER_ENDING ".yaml"

static bool cluster_path_is(const char *path, mode_t kind)
{
    struct stat information;
    return stat(path, &information) == 0 && (information.st_mode & S_IFMT) == kind;
}

weft_status cluster_name_directory(char path[FILE_PATH_BYTES], struct error *error)
{
    static const char *const places[] = {"share/weft/clusters", "share/clusters"};
    char above[FILE_PATH_BYTES];
    ssize_t length = readlink("/proc/self/exe", above, sizeof above - 1);
    if (length < 0)
        return error_system(error, "cannot find this program's file by /proc/self/exe");
    above[length] = '\0';
    for (char *slash; (slash = strrchr(above, '/'));) {
        *slash = '\0';
        for (size_t i = 0; i < ARRAY_SIZE(places); i++)
            if (file_join(path, *above ? above : "/", places[i], NULL) == WEFT_OK && cluster_path_is(path, S_IFDIR))
                return WEFT_OK;
    }
    return error_set(error, WEFT_ERROR_SYSTEM,
                     "the described clusters are not installed: no directory above this program has '%s' or '%s'",
                     places[0], places[1]);
}

/* The file of a kind of `length` letters, if there is one. */
static bool cluster_find_kind(const char *directory, const char *kind, size_t length, char path[FILE_PATH_BYTES])
{
    char name[CLUSTER_NAME_BYTES + sizeof CLUSTER_ENDING];
    if (!length || length >= CLUSTER_NAME_BYTES || memchr(kind, '/', length) || *kind == '.')
        return false;
    snprintf(name, sizeof name, "%.*s" CLUSTER_ENDING, (int)length, kind);
    return file_join(path, directory, name, NULL) == WEFT_OK && cluster_path_is(path, S_IFREG);
}

static int cluster_names_compare(const void *first, const void *second)
{
    const char *a = *(char *const *)first, *b = *(char *const *)second;
    return text_compare_natural(a, strlen(a), b, strlen(b));
}

static weft_status cluster_refuse_name(const char *text, const char *directory, struct error *error)
{
    char *names[64], list[ERROR_TEXT_BYTES / 2] = "";
    size_t count = 0, used = 0;
    DIR *stream = opendir(directory);
    for (struct dirent *entry; stream && count < ARRAY_SIZE(names) && (entry = readdir(stream));)
        if (text_ends_in(entry->d_name, CLUSTER_ENDING) && (names[count] = strdup(entry->d_name)))
            count++;
    if (stream)
        closedir(stream);
    qsort(names, count, sizeof *names, cluster_names_compare);
    for (size_t i = 0; i < count; i++) {
        int added = snprintf(list + used, sizeof list - used, "%s%.*s", i ? ", " : "",
                             (int)(strlen(names[i]) - strlen(CLUSTER_ENDING)), names[i]);
        used = used + (size_t)added < sizeof list ? used + (size_t)added : sizeof list - 1;
        free(names[i]);
    }
    return error_set(
        error, WEFT_ERROR_ARGUMENT,
        "there is no cluster file '%.100s', and no kind of cluster has that name; kinds, which a number of "
        "hosts may follow (as in dgx-a100-128): %s",
        text, list);
}

weft_status cluster_name_load(const char *text, struct cluster_file *cluster, struct error *error)
{
    char directory[FILE_PATH_BYTES], path[FILE_PATH_BYTES];
    if (strchr(text, '/') || text_ends_in(text, CLUSTER_ENDING) || text_ends_in(text, ".json") ||
        cluster_path_is(text, S_IFREG))
        return cluster_file_load(text, cluster, error);
    weft_status status = cluster_name_directory(directory, error);
    if (status != WEFT_OK)
        return status;
    const char *dash = strrchr(text, '-');
    int64_t hosts = 0;
    if (!cluster_find_kind(directory, text, strlen(text), path)) {
        if (!dash || !dash[1] || strspn(dash + 1, "0123456789") != strlen(dash + 1) ||
            !cluster_find_kind(directory, text, (size_t)(dash - text), path))
            return cluster_refuse_name(text, directory, error);
        status = text_parse_integer(dash + 1, "the number of hosts", 1, CLUSTER_HOSTS_MOST, &hosts, error);
    }
    if (status == WEFT_OK)
        status = cluster_file_load(path, cluster, error);
    if (status != WEFT_OK)
        return status;
    if (hosts)
        status = cluster_file_resize(cluster, (uint32_t)hosts, error);
    /* The name that people typed finds the cluster again, so it comes first in the cluster's name. */
    char title[CLUSTER_NAME_BYTES];
    memcpy(title, cluster->name, sizeof title);
    int used = snprintf(cluster->name, sizeof cluster->name, "%.*s", CLUSTER_NAME_BYTES - 1, text);
    snprintf(cluster->name + used, sizeof cluster->name - (size_t)used, ": %s", title);
    if (status != WEFT_OK)
        cluster_file_free(cluster);
    return status;
}
