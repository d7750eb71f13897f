/* SPDX-License-Identifier: Apache-2.0 */
#include "core/topology/internal/cluster_keys.h"

#include "base/array.h"

#include <stddef.h>

/* clang-format off */
#define TEXT(name, type, field) \
    {name, NULL, CLUSTER_STORE_TEXT, offsetof(struct type, field), sizeof ((struct type *)0)->field, QUANTITY_NUMBER, 0, 0}
#define VALUE(name, old, kind, type, field, quantity, ...) \
    {name, old, CLUSTER_STORE_##kind, offsetof(struct type, field), 0, QUANTITY_##quantity, __VA_ARGS__}
#define OTHER(name) {name, NULL, CLUSTER_STORE_NONE, 0, 0, QUANTITY_NUMBER, 0, 0}

#define RATES   1e6, 1e15  /* bytes/s of a memory */
#define LINKS   1, CLUSTER_LINK_MOST
#define SPEEDS  1e6, 1e18  /* operations/s */
#define SHARES  1e-3, 1
#define TIMES   0, 60

static const struct cluster_key keys_of_file[] = {
    OTHER("weft_cluster"),
    TEXT("name", cluster_file, name),
    TEXT("source", cluster_file, source),
    VALUE("measured", NULL, I64, cluster_file, measured, NUMBER, 0, 1e12),
    VALUE("cores", NULL, U32, cluster_file, cores, NUMBER, 0, 1e6),
    VALUE("cache", "cache_bytes", U64, cluster_file, cache_bytes, BYTES, 0, 1e15),
    VALUE("copy_bandwidth", "copy_bytes_per_second", DOUBLE, cluster_file, copy_bandwidth, BYTES_PER_SECOND, RATES),
    VALUE("memory_bandwidth", "memory_bytes_per_second", DOUBLE, cluster_file, memory_bandwidth, BYTES_PER_SECOND, RATES),
    VALUE("collective_launch", NULL, DOUBLE, cluster_file, collective_launch, SECONDS, 0, 1),
    VALUE("overlap_slowdown", NULL, DOUBLE, cluster_file, overlap_slowdown, NUMBER, 0, 100),
    OTHER("devices"),
    OTHER("groups"),
    OTHER("levels"),
    OTHER("hosts"),
};

static const struct cluster_key keys_of_level[] = {
    TEXT("name", cluster_level, name),
    VALUE("size", NULL, U32, cluster_level, size, NUMBER, 1, CLUSTER_UNITS_MOST),
    VALUE("latency", NULL, DOUBLE, cluster_level, cost.latency, SECONDS, TIMES),
    VALUE("overhead", NULL, DOUBLE, cluster_level, cost.overhead, SECONDS, TIMES),
    VALUE("bandwidth", "bytes_per_second", DOUBLE, cluster_level, cost.bytes_per_second, BYTES_PER_SECOND, LINKS),
    OTHER("oversubscription"),
    TEXT("source", cluster_level, source),
};

static const struct cluster_key keys_of_device[] = {
    VALUE("memory", NULL, U64, cluster_device, memory_bytes, BYTES, RATES),
    VALUE("memory_bandwidth", NULL, DOUBLE, cluster_device, memory_bandwidth, BYTES_PER_SECOND, RATES),
    VALUE("f32", NULL, DOUBLE, cluster_device, flops[CLUSTER_F32], OPERATIONS_PER_SECOND, SPEEDS),
    VALUE("bf16", NULL, DOUBLE, cluster_device, flops[CLUSTER_BF16], OPERATIONS_PER_SECOND, SPEEDS),
    VALUE("f16", NULL, DOUBLE, cluster_device, flops[CLUSTER_F16], OPERATIONS_PER_SECOND, SPEEDS),
    VALUE("launch", NULL, DOUBLE, cluster_device, launch_seconds, SECONDS, 0, 1),
    VALUE("product_share", NULL, DOUBLE, cluster_device, product_share, NUMBER, SHARES),
    VALUE("product_half", NULL, DOUBLE, cluster_device, product_half, OPERATIONS, 0, 1e15),
    VALUE("processors", NULL, U32, cluster_device, processors, NUMBER, 1, 1e6),
    VALUE("product_fill", NULL, DOUBLE, cluster_device, product_fill, NUMBER, 0, 1e6),
    VALUE("memory_share", NULL, DOUBLE, cluster_device, memory_share, NUMBER, SHARES),
    TEXT("source", cluster_device, source),
};

static const struct cluster_key keys_of_group[] = {
    VALUE("hosts", NULL, U32, cluster_group, hosts, NUMBER, 1, CLUSTER_HOSTS_MOST),
    VALUE("ranks", NULL, U32, cluster_group, ranks, NUMBER, 1, CLUSTER_UNITS_MOST),
    OTHER("device"),
    VALUE("interfaces", NULL, U32, cluster_group, interfaces, NUMBER, 1, 1024),
    VALUE("bandwidth", NULL, DOUBLE, cluster_group, bandwidth, BYTES_PER_SECOND, LINKS),
};
/* clang-format on */

const struct cluster_keys cluster_keys_of_file = {"a cluster file", keys_of_file, ARRAY_SIZE(keys_of_file)};
const struct cluster_keys cluster_keys_of_level = {"a level", keys_of_level, ARRAY_SIZE(keys_of_level)};
const struct cluster_keys cluster_keys_of_device = {"a device", keys_of_device, ARRAY_SIZE(keys_of_device)};
const struct cluster_keys cluster_keys_of_group = {"a group of hosts", keys_of_group, ARRAY_SIZE(keys_of_group)};
