/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/understand/topo_links.h"

#include "base/format/quantity.h"
#include "base/text.h"
#include "cli/frame/moments.h"

#include <dirent.h>
#include <stdlib.h>
#include <string.h>

/* "2026-11-22 01:03": without the seconds. */
static char *date_text(int64_t seconds, char text[MOMENT_BYTES])
{
    moment_clock(seconds * 1000, text)[strlen("2026-11-22 01:03")] = '\0';
    return text;
}

static void print_cost(FILE *output, const char *name, const struct link_cost *cost)
{
    fprintf(output, "  %-10s  %8.2f us, %6.2f us a message, %9.3f GB/s", name, cost->latency * 1e6,
            cost->overhead * 1e6, cost->bytes_per_second * 1e-9);
}

/* "host0 host1 | host2 host3": a bar between leaves, two between pods. */
static void print_hosts(FILE *output, const struct cluster_file *cluster)
{
    fprintf(output, "  %-10s ", "hosts");
    for (uint32_t i = 0; i < cluster->host_count; i++) {
        const struct cluster_host *host = &cluster->hosts[i], *before = i ? host - 1 : host;
        for (uint32_t map = 0; map < cluster_file_maps(cluster); map++)
            if (before->units[map] != host->units[map])
                fprintf(output, "%s", map ? "|" : " |");
        fprintf(output, " %s", host->name);
    }
    fputc('\n', output);
}

/* "A100-80GB   80 GiB at 2.039 TB/s, f32 19.5 TFLOP/s, bf16 312 TFLOP/s" */
static void print_device(FILE *output, const struct cluster_device *device)
{
    static const char *const names[CLUSTER_PRECISIONS] = {"f32", "bf16", "f16"};
    char first[QUANTITY_TEXT_BYTES], second[QUANTITY_TEXT_BYTES];
    fprintf(output, "  %-10s  %s: %s at %s", "device", device->kind,
            text_bytes(device->memory_bytes, first, sizeof first),
            quantity_text(device->memory_bandwidth, QUANTITY_BYTES_PER_SECOND, second));
    for (size_t precision = 0; precision < CLUSTER_PRECISIONS; precision++)
        if (device->flops[precision] > 0)
            fprintf(output, ", %s %s", names[precision],
                    quantity_text(device->flops[precision], QUANTITY_OPERATIONS_PER_SECOND, first));
    fputc('\n', output);
    if (device->product_share > 0) {
        fprintf(output, "  %-10s    large products reach %.0f %% of the peak", "", device->product_share * 100);
        if (device->product_half > 0)
            fprintf(output, ", half of that at %s", quantity_text(device->product_half, QUANTITY_OPERATIONS, first));
        if (device->processors)
            fprintf(output, ", in tiles on %u processors", device->processors);
        fputc('\n', output);
    }
    if (device->source[0])
        fprintf(output, "  %-10s    %s\n", "", device->source);
}

/* "hosts       16 of 8 A100-80GB, 8 interfaces, 200 GB/s together" */
static void print_alike_hosts(FILE *output, const struct cluster_file *cluster, const struct cluster_group *group)
{
    const char *kind = cluster->device_count ? cluster->devices[group->device].kind : "ranks";
    double bandwidth = group->bandwidth > 0       ? group->bandwidth
                       : cluster->level_count > 1 ? cluster->levels[1].cost.bytes_per_second
                                                  : 0;
    char text[QUANTITY_TEXT_BYTES];
    fprintf(output, "  %-10s  %u of %u %s", "hosts", group->hosts, group->ranks, kind);
    if (group->interfaces)
        fprintf(output, ", %u interface%s", group->interfaces, group->interfaces == 1 ? "" : "s");
    if (bandwidth > 0)
        fprintf(output, ", %s%s", quantity_text(bandwidth, QUANTITY_BYTES_PER_SECOND, text),
                group->interfaces > 1 ? " together" : "");
    fputc('\n', output);
}

void topo_print_cluster(FILE *output, const struct cluster_file *cluster)
{
    static const char *const within[CLUSTER_LEVELS] = {"ranks", "nodes", "leaves", "pods"};
    static const char *const single[CLUSTER_LEVELS] = {"rank", "node", "leaf", "pod"};
    char date[MOMENT_BYTES];
    fprintf(output, "%s", cluster->name[0] ? cluster->name : "Cluster");
    if (cluster->measured)
        fprintf(output, ", measured %s", date_text(cluster->measured, date));
    fputc('\n', output);
    if (cluster->source[0])
        fprintf(output, "  %-10s  %s\n", "source", cluster->source);
    for (uint32_t i = 0; i < cluster->device_count; i++)
        print_device(output, &cluster->devices[i]);
    for (uint32_t i = 0; i < cluster->group_count; i++)
        print_alike_hosts(output, cluster, &cluster->groups[i]);
    for (uint32_t level = 0; level < cluster->level_count; level++) {
        const struct cluster_level *at = &cluster->levels[level];
        print_cost(output, at->name, &at->cost);
        if (at->size)
            fprintf(output, " each of its %u%s %s\n", at->size,
                    level == 0 && cluster->group_count > 1 ? " or fewer" : "",
                    at->size == 1 ? single[level] : within[level]);
        else
            fprintf(output, " each of its %s\n", within[level]);
        if (at->source[0])
            fprintf(output, "  %-10s    %s\n", "", at->source);
    }
    if (cluster->host_count)
        print_hosts(output, cluster);
}

static void print_near(FILE *output, const struct machine *machine)
{
    struct links links;
    char kind[LINK_KEY_BYTES - 64], key[LINK_KEY_BYTES], date[MOMENT_BYTES];
    links_load(NULL, &links, NULL);
    snprintf(key, sizeof key, LINKS_KEY_NEAR, machine_kind(machine, kind, sizeof kind));
    const struct link_entry *near = links_find(&links, LINK_NEAR, key);
    if (near) {
        print_cost(output, "near", &near->cost);
        fprintf(output, ", best of %d measured since %s\n", (int)near->samples, date_text(near->measured, date));
    } else {
        fprintf(output, "  near        not measured yet: a job of two ranks does\n");
    }
    links_free(&links);
}

void topo_print_links(FILE *output, const struct machine *machine)
{
    char path[FILE_PATH_BYTES], directory[FILE_PATH_BYTES];
    fprintf(output, "Links\n");
    print_near(output, machine);
    if (cluster_file_cache_path(0, directory, NULL) != WEFT_OK)
        return;
    directory[file_name(directory) - directory] = '\0';
    DIR *clusters = opendir(directory);
    for (struct dirent *entry; clusters && (entry = readdir(clusters));) {
        struct cluster_file cluster;
        if (entry->d_name[0] == '.' || file_join(path, directory, entry->d_name, NULL) != WEFT_OK ||
            cluster_file_load(path, &cluster, NULL) != WEFT_OK)
            continue;
        if (cluster_file_find_host(&cluster, machine->host)) {
            fprintf(output, "Cluster ");
            topo_print_cluster(output, &cluster);
            fprintf(output, "  %-10s  %s\n", "kept in", path);
        }
        cluster_file_free(&cluster);
    }
    if (clusters)
        closedir(clusters);
}
