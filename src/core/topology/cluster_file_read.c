/* SPDX-License-Identifier: Apache-2.0 */
#include "base/array.h"
#include "base/format/yaml.h"
#include "base/text.h"
#include "core/topology/internal/cluster_keys.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- maps of keys ---- */

static weft_status cluster_refuse_key(const struct yaml_value *value, const struct cluster_keys *keys,
                                      struct error *error)
{
    const char *names[32], *nearest;
    for (size_t i = 0; i < keys->count; i++)
        names[i] = keys->keys[i].name;
    nearest = text_nearest(value->key, names, keys->count);
    return yaml_value_fail(value, error, "'%.100s' is not a key of %s%s%s%s", value->key, keys->what,
                           nearest ? "; do you mean '" : "", nearest ? nearest : "", nearest ? "'?" : "");
}

static weft_status cluster_read_text(const struct yaml_value *value, char *text, size_t size, struct error *error)
{
    const char *given = NULL;
    weft_status status = yaml_value_get_text(value, &given, error);
    if (status == WEFT_OK && strlen(given) >= size)
        return yaml_value_fail(value, error, "'%s' is longer than %zu bytes", value->key ? value->key : "a name",
                               size - 1);
    if (status == WEFT_OK)
        snprintf(text, size, "%s", given);
    return status;
}

static weft_status cluster_read_key(const struct yaml_value *value, const struct cluster_key *key, void *to,
                                    struct error *error)
{
    void *field = (char *)to + key->offset;
    double number = 0;
    if (key->store == CLUSTER_STORE_NONE)
        return WEFT_OK;
    if (key->store == CLUSTER_STORE_TEXT)
        return cluster_read_text(value, field, key->size, error);
    weft_status status = yaml_value_get_quantity(value, key->quantity, key->least, key->most, &number, error);
    if (status != WEFT_OK)
        return status;
    if (key->store != CLUSTER_STORE_DOUBLE && key->quantity == QUANTITY_NUMBER && number != (double)(int64_t)number)
        return yaml_value_fail(value, error, "'%s' is %.100s; it must be a whole number", value->key, value->text);
    switch (key->store) {
    case CLUSTER_STORE_DOUBLE:
        *(double *)field = number;
        break;
    case CLUSTER_STORE_U32:
        *(uint32_t *)field = (uint32_t)number;
        break;
    case CLUSTER_STORE_U64:
        *(uint64_t *)field = (uint64_t)number;
        break;
    default:
        *(int64_t *)field = (int64_t)number;
    }
    return WEFT_OK;
}

/* Fill `to` from a map. Keys that have a function of their own are left to it; any others are refused. */
static weft_status cluster_read_map(const struct yaml_value *map, const struct cluster_keys *keys, void *to,
                                    struct error *error)
{
    if (map->kind != YAML_MAP)
        return yaml_value_fail(map, error, "%s must be a map, such as {%s: ...}", keys->what, keys->keys[0].name);
    for (const struct yaml_value *value = map->child; value; value = value->next) {
        const struct cluster_key *found = NULL;
        for (size_t i = 0; i < keys->count && !found; i++)
            if (strcmp(keys->keys[i].name, value->key) == 0 ||
                (keys->keys[i].old && strcmp(keys->keys[i].old, value->key) == 0))
                found = &keys->keys[i];
        weft_status status = found ? cluster_read_key(value, found, to, error) : cluster_refuse_key(value, keys, error);
        if (status != WEFT_OK)
            return status;
    }
    return WEFT_OK;
}

/* ---- devices and groups ---- */

static weft_status cluster_read_devices(const struct yaml_value *map, struct cluster_file *cluster, struct error *error)
{
    if (map->kind != YAML_MAP)
        return yaml_value_fail(map, error, "'devices' must be a map from kinds of devices to what they can do");
    for (const struct yaml_value *value = map->child; value; value = value->next) {
        if (cluster->device_count == CLUSTER_DEVICES_MOST)
            return yaml_value_fail(value, error, "more than %d kinds of devices are not supported",
                                   CLUSTER_DEVICES_MOST);
        if (strlen(value->key) >= CLUSTER_NAME_BYTES)
            return yaml_value_fail(value, error, "the name of a device is longer than %d bytes",
                                   CLUSTER_NAME_BYTES - 1);
        struct cluster_device *device = &cluster->devices[cluster->device_count++];
        snprintf(device->kind, sizeof device->kind, "%s", value->key);
        weft_status status = cluster_read_map(value, &cluster_keys_of_device, device, error);
        if (status != WEFT_OK)
            return status;
        bool computes = false;
        for (size_t precision = 0; precision < CLUSTER_PRECISIONS; precision++)
            computes |= device->flops[precision] > 0;
        if (!computes || !(device->memory_bandwidth > 0) || !device->memory_bytes)
            return yaml_value_fail(value, error,
                                   "the device '%s' must give 'memory', 'memory_bandwidth' and its peak in at least "
                                   "one of 'f32', 'bf16' and 'f16'",
                                   device->kind);
    }
    return WEFT_OK;
}

static weft_status cluster_read_group(const struct yaml_value *value, struct cluster_file *cluster,
                                      struct cluster_group *group, struct error *error)
{
    weft_status status = cluster_read_map(value, &cluster_keys_of_group, group, error);
    const struct yaml_value *device = status == WEFT_OK ? yaml_value_find(value, "device") : NULL;
    const char *kind = NULL;
    if (device)
        status = yaml_value_get_text(device, &kind, error);
    if (status != WEFT_OK)
        return status;
    if (!group->hosts)
        return yaml_value_fail(value, error, "a group of hosts must give the number of its 'hosts'");
    while (kind && group->device < cluster->device_count && strcmp(cluster->devices[group->device].kind, kind) != 0)
        group->device++;
    if (kind && group->device == cluster->device_count)
        return yaml_value_fail(device, error, "'device' is '%.60s', which is not one of the file's 'devices'", kind);
    if (!kind && cluster->device_count > 1)
        return yaml_value_fail(value, error,
                               "a group of hosts must name its 'device', as the file describes %u kinds of them",
                               cluster->device_count);
    if (!group->ranks)
        group->ranks = cluster->levels[0].size;
    if (!group->ranks)
        return yaml_value_fail(value, error,
                               "a group of hosts must give its 'ranks' (devices of each host), as the innermost level "
                               "has no 'size'");
    if (group->interfaces > 1 && group->ranks % group->interfaces && group->interfaces % group->ranks)
        return yaml_value_fail(value, error, "%u devices cannot share %u interfaces evenly", group->ranks,
                               group->interfaces);
    return WEFT_OK;
}

/* Also gives sizes to the levels that the groups imply: the innermost one's, and the outermost one's. */
static weft_status cluster_read_groups(const struct yaml_value *list, struct cluster_file *cluster, struct error *error)
{
    uint32_t hosts = 0, ranks = 0;
    if (list->kind != YAML_LIST)
        return yaml_value_fail(list, error, "'groups' must be a list of groups of hosts that are alike");
    for (const struct yaml_value *value = list->child; value; value = value->next) {
        if (cluster->group_count == CLUSTER_GROUPS_MOST)
            return yaml_value_fail(value, error, "more than %d groups of hosts are not supported", CLUSTER_GROUPS_MOST);
        struct cluster_group *group = &cluster->groups[cluster->group_count++];
        weft_status status = cluster_read_group(value, cluster, group, error);
        if (status != WEFT_OK)
            return status;
        hosts += group->hosts; /* at most 32 * 65536 */
        ranks = group->ranks > ranks ? group->ranks : ranks;
    }
    if (cluster->levels[0].size && cluster->group_count && ranks != cluster->levels[0].size)
        return yaml_value_fail(list, error,
                               "the innermost level has a 'size' of %u, but the largest hosts have %u ranks: leave the "
                               "'size' out",
                               cluster->levels[0].size, ranks);
    if (hosts > CLUSTER_HOSTS_MOST)
        return yaml_value_fail(list, error, "%u hosts are more than the %d that are supported", hosts,
                               CLUSTER_HOSTS_MOST);
    if (cluster->group_count)
        cluster->levels[0].size = ranks;
    return WEFT_OK;
}

/* ---- levels ---- */

static weft_status cluster_read_level(const struct yaml_value *value, struct cluster_file *cluster,
                                      struct cluster_level *level, struct error *error)
{
    weft_status status = cluster_read_map(value, &cluster_keys_of_level, level, error);
    if (status != WEFT_OK)
        return status;
    const struct yaml_value *over = yaml_value_find(value, "oversubscription");
    if (!yaml_value_find(value, "latency"))
        return yaml_value_fail(value, error, "level %u (%s) must give its 'latency'", cluster->level_count,
                               level->name);
    if (level->cost.bytes_per_second > 0 && !over)
        return WEFT_OK;
    const struct cluster_level *below = cluster->level_count ? level - 1 : NULL;
    if (!over || level->cost.bytes_per_second > 0)
        return yaml_value_fail(value, error, "level %u (%s) must give either 'bandwidth' or 'oversubscription'",
                               cluster->level_count, level->name);
    if (cluster->level_count < 2 || !below->size)
        return yaml_value_fail(over, error,
                               "'oversubscription' says how much the units below this level could send together, as a "
                               "multiple of what it carries: it needs their number ('size') at a level above nodes");
    double ratio = 0;
    status = yaml_value_get_number(over, 0.01, 1000, &ratio, error);
    level->cost.bytes_per_second = below->cost.bytes_per_second * below->size / ratio;
    if (status == WEFT_OK && !(level->cost.bytes_per_second >= 1 && level->cost.bytes_per_second <= CLUSTER_LINK_MOST))
        return yaml_value_fail(over, error,
                               "'oversubscription' gives a bandwidth of %g bytes/s; it must be from 1 to %g",
                               level->cost.bytes_per_second, CLUSTER_LINK_MOST);
    return status;
}

static weft_status cluster_read_levels(const struct yaml_value *list, struct cluster_file *cluster, struct error *error)
{
    static const char *const names[CLUSTER_LEVELS] = {"node", "leaf", "pod", "core"};
    if (list->kind != YAML_LIST || !list->child)
        return yaml_value_fail(list, error,
                               "'levels' has no levels: at least the level that joins the ranks of a node is required");
    for (const struct yaml_value *value = list->child; value; value = value->next) {
        if (cluster->level_count == CLUSTER_LEVELS)
            return yaml_value_fail(value, error,
                                   "there are more than %d levels (node, leaf, pod, core): join the outermost",
                                   CLUSTER_LEVELS);
        struct cluster_level *level = &cluster->levels[cluster->level_count];
        snprintf(level->name, sizeof level->name, "%s", names[cluster->level_count]);
        weft_status status = cluster_read_level(value, cluster, level, error);
        if (status != WEFT_OK)
            return status;
        cluster->level_count++;
    }
    return WEFT_OK;
}

/* ---- hosts by name ---- */

static weft_status cluster_read_host(const struct yaml_value *value, const uint32_t units[CLUSTER_MAPS],
                                     struct cluster_file *cluster, struct error *error)
{
    if (value->kind != YAML_TEXT || !value->text[0] || strlen(value->text) >= CLUSTER_NAME_BYTES)
        return yaml_value_fail(value, error, "'hosts' contains an entry that is not a host name of up to %d letters",
                               CLUSTER_NAME_BYTES - 1);
    if (cluster->host_count == CLUSTER_HOSTS_MOST)
        return yaml_value_fail(value, error, "there are more than %d hosts", CLUSTER_HOSTS_MOST);
    weft_status status = ARRAY_RESERVE(cluster->hosts, cluster->host_room, cluster->host_count + 1,
                                       "the hosts of a cluster file", error);
    if (status != WEFT_OK)
        return status;
    struct cluster_host *host = &cluster->hosts[cluster->host_count++];
    *host = (struct cluster_host){0};
    snprintf(host->name, sizeof host->name, "%s", value->text);
    memcpy(host->units, units, sizeof host->units);
    return WEFT_OK;
}

/* Hosts nest as deep as there are levels between node and outermost; `units` counts the units of each level. */
static weft_status cluster_read_hosts(const struct yaml_value *list, uint32_t depth, uint32_t units[CLUSTER_MAPS],
                                      struct cluster_file *cluster, struct error *error)
{
    if (list->kind != YAML_LIST)
        return yaml_value_fail(
            list, error,
            "'hosts' must be lists %u deep, as there are %u levels: a list of each unit's units, in the innermost the "
            "names of nodes",
            cluster_file_maps(cluster) + 1, cluster->level_count);
    for (const struct yaml_value *value = list->child; value; value = value->next) {
        weft_status status = depth ? cluster_read_hosts(value, depth - 1, units, cluster, error)
                                   : cluster_read_host(value, units, cluster, error);
        if (status != WEFT_OK)
            return status;
        if (depth)
            units[depth - 1]++;
    }
    return WEFT_OK;
}

/* ---- the whole ---- */

/* What the parts must be to each other. */
static weft_status cluster_check_sizes(const struct yaml_value *root, struct cluster_file *cluster, struct error *error)
{
    uint32_t outermost = cluster->level_count - 1, hosts = cluster_file_hosts(cluster);
    for (uint32_t depth = 0; !cluster->host_count && depth < outermost; depth++)
        if (!cluster->levels[depth].size)
            return yaml_value_fail(yaml_value_find(root, "levels"), error,
                                   "level %u (%s) must give its 'size', as the file lists no hosts", depth,
                                   cluster->levels[depth].name);
    if (!cluster->group_count)
        return WEFT_OK;
    const struct yaml_value *groups = yaml_value_find(root, "groups");
    if (cluster->host_count && cluster->host_count != hosts)
        return yaml_value_fail(groups, error, "the groups have %u hosts together, but 'hosts' names %u", hosts,
                               cluster->host_count);
    if (cluster->host_count)
        return WEFT_OK;
    uint64_t below = 1; /* hosts in each unit below the outermost level */
    for (uint32_t depth = 1; depth < outermost; depth++)
        below *= cluster->levels[depth].size;
    uint64_t most = outermost ? below * cluster->levels[outermost].size : 1;
    if (outermost && !cluster->levels[outermost].size)
        cluster->levels[outermost].size = (uint32_t)((hosts + below - 1) / below);
    else if (hosts > most)
        return yaml_value_fail(groups, error, "the groups have %u hosts together, but the levels have room for %llu",
                               hosts, (unsigned long long)most);
    return WEFT_OK;
}

static weft_status cluster_read_root(const struct yaml_value *root, struct cluster_file *cluster, struct error *error)
{
    const struct yaml_value *version = yaml_value_find(root, "weft_cluster"), *part;
    int64_t number = 0;
    if (!version)
        return yaml_value_fail(root, error, "this is not a cluster file: it has no key 'weft_cluster'");
    weft_status status = yaml_value_get_whole(version, 0, INT32_MAX, &number, error);
    if (status == WEFT_OK && (number < 1 || number > CLUSTER_FILE_VERSION))
        return yaml_value_fail(version, error,
                               "this is a cluster file of version %d, but this Weft reads versions 1 to %d",
                               (int)number, CLUSTER_FILE_VERSION);
    if (status == WEFT_OK)
        status = cluster_read_map(root, &cluster_keys_of_file, cluster, error);
    if (status == WEFT_OK && !(part = yaml_value_find(root, "levels")))
        status = yaml_value_fail(root, error, "the file has no 'levels'");
    else if (status == WEFT_OK)
        status = cluster_read_levels(part, cluster, error);
    if (status == WEFT_OK && (part = yaml_value_find(root, "devices")))
        status = cluster_read_devices(part, cluster, error);
    if (status == WEFT_OK && (part = yaml_value_find(root, "groups")))
        status = cluster_read_groups(part, cluster, error);
    uint32_t units[CLUSTER_MAPS] = {0};
    if (status == WEFT_OK && (part = yaml_value_find(root, "hosts")))
        status = cluster_read_hosts(part, cluster_file_maps(cluster), units, cluster, error);
    return status == WEFT_OK ? cluster_check_sizes(root, cluster, error) : status;
}

/* `status` is that of parsing `tree`, which is freed. */
static weft_status cluster_read_tree(struct yaml_tree *tree, weft_status status, struct cluster_file *cluster,
                                     struct error *error)
{
    *cluster = (struct cluster_file){0};
    if (status == WEFT_OK)
        status = cluster_read_root(yaml_tree_root(tree), cluster, error);
    yaml_tree_free(tree);
    if (status != WEFT_OK)
        cluster_file_free(cluster);
    return status;
}

weft_status cluster_file_parse(const char *text, size_t size, const char *where, struct cluster_file *cluster,
                               struct error *error)
{
    struct yaml_tree *tree = NULL;
    weft_status status = yaml_tree_parse(text, size, where, &tree, error);
    return cluster_read_tree(tree, status, cluster, error);
}

weft_status cluster_file_load(const char *path, struct cluster_file *cluster, struct error *error)
{
    struct yaml_tree *tree = NULL;
    weft_status status = yaml_tree_read(path, &tree, error);
    return cluster_read_tree(tree, status, cluster, error);
}
