/* SPDX-License-Identifier: Apache-2.0 */
#include "core/topology/cluster_file.h"

#include "base/format/json_put.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define VERSION 1

/* ---- reading ---- */

static weft_status cluster_file_read_text(const cJSON *object, const char *key, const char *where, char *text,
                                          size_t size, struct error *error)
{
    const char *value = NULL;
    text[0] = '\0';
    if (!cJSON_GetObjectItemCaseSensitive(object, key))
        return WEFT_OK;
    weft_status status = json_get_text(object, key, where, &value, error);
    if (status == WEFT_OK && strlen(value) >= size)
        return error_set(error, WEFT_ERROR_DATA, "%s: '%s' is longer than %zu characters", where, key, size - 1);
    if (status == WEFT_OK)
        snprintf(text, size, "%s", value);
    return status;
}

/* An optional number; *value is unchanged if it is missing. */
static weft_status cluster_file_read_number(const cJSON *object, const char *key, const char *where, double least,
                                            double most, double *value, struct error *error)
{
    double number = 0;
    if (!cJSON_GetObjectItemCaseSensitive(object, key))
        return WEFT_OK;
    weft_status status = json_get_number(object, key, where, &number, error);
    if (status == WEFT_OK && !(number >= least && number <= most))
        return error_set(error, WEFT_ERROR_DATA, "%s: '%s' is %g; it must be from %g to %g", where, key, number, least,
                         most);
    if (status == WEFT_OK)
        *value = number;
    return status;
}

static weft_status read_level(const cJSON *object, const char *path, uint32_t depth, struct cluster_level *level,
                              struct error *error)
{
    char where[FILE_PATH_BYTES + 32];
    double size = 0, rate = -1, latency = -1;
    snprintf(where, sizeof where, "%s: level %u", path, depth);
    if (!cJSON_IsObject(object))
        return error_set(error, WEFT_ERROR_DATA, "%s is not an object of latency, bytes_per_second and so on", where);
    weft_status status = cluster_file_read_text(object, "name", where, level->name, sizeof level->name, error);
    if (status == WEFT_OK)
        status = cluster_file_read_text(object, "source", where, level->source, sizeof level->source, error);
    if (status == WEFT_OK)
        status = cluster_file_read_number(object, "size", where, 1, CLUSTER_UNITS_MOST, &size, error);
    if (status == WEFT_OK)
        status = cluster_file_read_number(object, "latency", where, 0, 60, &latency, error);
    if (status == WEFT_OK)
        status = cluster_file_read_number(object, "overhead", where, 0, 60, &level->cost.overhead, error);
    if (status == WEFT_OK)
        status = cluster_file_read_number(object, "bytes_per_second", where, 1, 1e15, &rate, error);
    if (status == WEFT_OK && (latency < 0 || rate < 0))
        status = error_set(error, WEFT_ERROR_DATA, "%s must give 'latency' (seconds) and 'bytes_per_second'", where);
    level->size = (uint32_t)size;
    level->cost.latency = latency;
    level->cost.bytes_per_second = rate;
    return status;
}

static weft_status read_levels(const cJSON *root, const char *path, struct cluster_file *cluster, struct error *error)
{
    static const char *const names[CLUSTER_LEVELS] = {"node", "leaf", "pod", "core"};
    const cJSON *array = NULL, *object;
    weft_status status = json_get_array(root, "levels", path, &array, error);
    cJSON_ArrayForEach(object, array) {
        if (status == WEFT_OK && cluster->level_count == CLUSTER_LEVELS)
            status = error_set(error, WEFT_ERROR_DATA,
                               "%s has more than %d levels (node, leaf, pod, core): join the outermost", path,
                               CLUSTER_LEVELS);
        if (status != WEFT_OK)
            return status;
        struct cluster_level *level = &cluster->levels[cluster->level_count];
        status = read_level(object, path, cluster->level_count, level, error);
        if (status == WEFT_OK && !level->name[0])
            snprintf(level->name, sizeof level->name, "%s", names[cluster->level_count]);
        cluster->level_count++;
    }
    if (status == WEFT_OK && !cluster->level_count)
        status = error_set(error, WEFT_ERROR_DATA,
                           "%s has no levels: at least the level that joins the ranks of a node is required", path);
    return status;
}

/* Hosts nest as deep as there are levels between node and outermost; `units` counts the units of each level. */
static weft_status read_hosts(const cJSON *array, const char *path, uint32_t depth, uint32_t units[CLUSTER_MAPS],
                              struct cluster_file *cluster, struct error *error)
{
    const cJSON *item;
    if (!cJSON_IsArray(array))
        return error_set(
            error, WEFT_ERROR_DATA,
            "%s: 'hosts' must be lists %u deep, as there are %u levels: a list of each unit's units, in the "
            "innermost the names of nodes",
            path, cluster_file_maps(cluster) + 1, cluster->level_count);
    cJSON_ArrayForEach(item, array) {
        if (depth) {
            weft_status status = read_hosts(item, path, depth - 1, units, cluster, error);
            if (status != WEFT_OK)
                return status;
            units[depth - 1]++;
            continue;
        }
        if (!cJSON_IsString(item) || !item->valuestring[0] || strlen(item->valuestring) >= CLUSTER_NAME_BYTES)
            return error_set(error, WEFT_ERROR_DATA,
                             "%s: 'hosts' contains an entry that is not a host name of up to %d letters", path,
                             CLUSTER_NAME_BYTES - 1);
        if (cluster->host_count == CLUSTER_HOSTS_MOST)
            return error_set(error, WEFT_ERROR_DATA, "%s lists more than %d hosts", path, CLUSTER_HOSTS_MOST);
        weft_status status = ARRAY_RESERVE(cluster->hosts, cluster->host_room, cluster->host_count + 1,
                                           "the hosts of a cluster file", error);
        if (status != WEFT_OK)
            return status;
        struct cluster_host *host = &cluster->hosts[cluster->host_count++];
        *host = (struct cluster_host){0};
        snprintf(host->name, sizeof host->name, "%s", item->valuestring);
        memcpy(host->units, units, sizeof host->units);
    }
    return WEFT_OK;
}

static weft_status cluster_file_read_root(const cJSON *root, const char *path, struct cluster_file *cluster,
                                          struct error *error)
{
    int64_t version = 0;
    double cores = 0, cache = 0, measured = 0;
    weft_status status = json_get_integer(root, "weft_cluster", path, 0, INT32_MAX, &version, error);
    if (status == WEFT_OK && version != VERSION)
        return error_set(error, WEFT_ERROR_DATA, "%s is a cluster file of version %d, but this Weft reads version %d",
                         path, (int)version, VERSION);
    if (status == WEFT_OK)
        status = cluster_file_read_text(root, "name", path, cluster->name, sizeof cluster->name, error);
    if (status == WEFT_OK)
        status = cluster_file_read_text(root, "source", path, cluster->source, sizeof cluster->source, error);
    if (status == WEFT_OK)
        status = cluster_file_read_number(root, "cores", path, 0, 1e6, &cores, error);
    if (status == WEFT_OK)
        status = cluster_file_read_number(root, "cache_bytes", path, 0, 1e15, &cache, error);
    if (status == WEFT_OK)
        status =
            cluster_file_read_number(root, "copy_bytes_per_second", path, 1e6, 1e15, &cluster->copy_bandwidth, error);
    if (status == WEFT_OK)
        status = cluster_file_read_number(root, "memory_bytes_per_second", path, 1e6, 1e15, &cluster->memory_bandwidth,
                                          error);
    if (status == WEFT_OK)
        status = cluster_file_read_number(root, "measured", path, 0, 1e12, &measured, error);
    cluster->cores = (uint32_t)cores;
    cluster->cache_bytes = (uint64_t)cache;
    cluster->measured = (int64_t)measured;
    if (status == WEFT_OK)
        status = read_levels(root, path, cluster, error);
    uint32_t maps = cluster_file_maps(cluster), units[CLUSTER_MAPS] = {0};
    const cJSON *hosts = cJSON_GetObjectItemCaseSensitive(root, "hosts");
    if (status == WEFT_OK && hosts)
        status = read_hosts(hosts, path, maps, units, cluster, error);
    for (uint32_t depth = 0; status == WEFT_OK && !cluster->host_count && depth + 1 < cluster->level_count; depth++)
        if (!cluster->levels[depth].size)
            status =
                error_set(error, WEFT_ERROR_DATA, "%s: level %u (%s) must give its 'size', as the file lists no hosts",
                          path, depth, cluster->levels[depth].name);
    return status;
}

/* `status` is that of reading `root`, which is freed. */
static weft_status cluster_file_take_root(cJSON *root, const char *where, weft_status status,
                                          struct cluster_file *cluster, struct error *error)
{
    *cluster = (struct cluster_file){0};
    if (status == WEFT_OK)
        status = cluster_file_read_root(root, where, cluster, error);
    cJSON_Delete(root);
    if (status != WEFT_OK)
        cluster_file_free(cluster);
    return status;
}

weft_status cluster_file_parse(const char *text, size_t size, const char *where, struct cluster_file *cluster,
                               struct error *error)
{
    cJSON *root = NULL;
    weft_status status = json_parse(text, size, where, &root, error);
    return cluster_file_take_root(root, where, status, cluster, error);
}

weft_status cluster_file_load(const char *path, struct cluster_file *cluster, struct error *error)
{
    cJSON *root = NULL;
    weft_status status = json_read(path, &root, error);
    return cluster_file_take_root(root, path, status, cluster, error);
}

void cluster_file_free(struct cluster_file *cluster)
{
    free(cluster->hosts);
    *cluster = (struct cluster_file){0};
}

/* ---- using ---- */

uint32_t cluster_file_maps(const struct cluster_file *cluster)
{
    return cluster->level_count > 2 ? cluster->level_count - 2 : 0;
}

uint64_t cluster_file_ranks(const struct cluster_file *cluster)
{
    uint64_t ranks = cluster->levels[0].size;
    if (cluster->host_count)
        return ranks * cluster->host_count;
    for (uint32_t depth = 1; depth < cluster->level_count; depth++)
        ranks *= cluster->levels[depth].size;
    return ranks;
}

const struct cluster_host *cluster_file_find_host(const struct cluster_file *cluster, const char *name)
{
    for (uint32_t i = 0; i < cluster->host_count; i++)
        if (strcmp(cluster->hosts[i].name, name) == 0)
            return &cluster->hosts[i];
    return NULL;
}

weft_status cluster_file_place(const struct cluster_file *cluster, const char *const *hosts, uint32_t nodes,
                               uint32_t *const units[CLUSTER_MAPS], struct error *error)
{
    for (uint32_t node = 0; node < nodes; node++) {
        const struct cluster_host *host = NULL;
        if (cluster->host_count && hosts)
            host = cluster_file_find_host(cluster, hosts[node]);
        else if (cluster->host_count && node < cluster->host_count)
            host = &cluster->hosts[node];
        if (cluster->host_count && !host)
            return error_set(error, WEFT_ERROR_ARGUMENT,
                             "the cluster file '%s' lists %u hosts, and %s is not one of them: add it, or use the file "
                             "of these hosts",
                             cluster->name, cluster->host_count, hosts ? hosts[node] : "another one");
        uint32_t unit = node;
        for (uint32_t map = 0; map < cluster_file_maps(cluster); map++) {
            unit = host ? host->units[map] : unit / cluster->levels[map + 1].size;
            units[map][node] = unit;
        }
    }
    return WEFT_OK;
}

/* ---- writing ---- */

static void cluster_file_write_hosts(const struct cluster_file *cluster, struct json_writer *writer)
{
    uint32_t maps = cluster_file_maps(cluster);
    json_open_array(writer, "hosts");
    for (uint32_t i = 0; i < cluster->host_count; i++) {
        const struct cluster_host *host = &cluster->hosts[i], *before = i ? host - 1 : NULL;
        uint32_t changed = 0; /* lists that end before this host */
        for (uint32_t map = 0; map < maps; map++)
            if (!before || before->units[map] != host->units[map])
                changed = map + 1;
        for (uint32_t list = 0; before && list < changed; list++)
            json_close(writer);
        for (uint32_t list = 0; list < changed; list++)
            json_open_array(writer, NULL);
        json_put_text(writer, NULL, host->name);
    }
    for (uint32_t list = 0; cluster->host_count && list < maps; list++)
        json_close(writer);
    json_close(writer);
}

static void cluster_file_put_known(struct json_writer *writer, const char *key, double value)
{
    if (value > 0)
        json_put_number(writer, key, value);
}

weft_status cluster_file_save(const struct cluster_file *cluster, const char *path, struct error *error)
{
    struct json_writer writer;
    json_begin(&writer, JSON_INDENTED);
    json_open_object(&writer, NULL);
    JSON_PUT(&writer, "weft_cluster", VERSION, "name", cluster->name);
    if (cluster->source[0])
        json_put_text(&writer, "source", cluster->source);
    cluster_file_put_known(&writer, "measured", (double)cluster->measured);
    cluster_file_put_known(&writer, "cores", cluster->cores);
    cluster_file_put_known(&writer, "cache_bytes", (double)cluster->cache_bytes);
    cluster_file_put_known(&writer, "copy_bytes_per_second", cluster->copy_bandwidth);
    cluster_file_put_known(&writer, "memory_bytes_per_second", cluster->memory_bandwidth);
    json_open_array(&writer, "levels");
    for (uint32_t depth = 0; depth < cluster->level_count; depth++) {
        const struct cluster_level *level = &cluster->levels[depth];
        json_open_object(&writer, NULL);
        json_put_text(&writer, "name", level->name);
        cluster_file_put_known(&writer, "size", level->size);
        JSON_PUT(&writer, "latency", level->cost.latency, "overhead", level->cost.overhead, "bytes_per_second",
                 level->cost.bytes_per_second);
        if (level->source[0])
            json_put_text(&writer, "source", level->source);
        json_close(&writer);
    }
    json_close(&writer);
    if (cluster->host_count)
        cluster_file_write_hosts(cluster, &writer);
    json_close(&writer);
    const char *text = json_text(&writer);
    weft_status status =
        text ? file_make_directory_of(path, error) : error_memory(error, json_size(&writer), "a cluster file");
    if (status == WEFT_OK)
        status = file_write(path, text, strlen(text), error);
    json_end(&writer);
    return status;
}

weft_status cluster_file_cache_path(uint64_t hash, char path[FILE_PATH_BYTES], struct error *error)
{
    char links[FILE_PATH_BYTES], name[64];
    weft_status status = links_default_path(links, error);
    if (status != WEFT_OK)
        return status;
    links[file_name(links) - links] = '\0'; /* beside the cache of links */
    snprintf(name, sizeof name, "clusters/%016" PRIx64 ".json", hash);
    return file_join(path, links, name, error);
}
