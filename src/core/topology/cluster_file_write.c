/* SPDX-License-Identifier: Apache-2.0 */
#include "base/file/file.h"
#include "base/text.h"
#include "core/topology/internal/cluster_keys.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* In double quotes, so that any word is text. What a reader would refuse becomes '?'. */
static void cluster_write_text(FILE *out, const char *text)
{
    char copy[CLUSTER_TEXT_BYTES];
    snprintf(copy, sizeof copy, "%s", text);
    fputc('"', out);
    for (const char *at = text_printable(copy); *at; at++)
        fprintf(out, "%s%c", *at == '"' || *at == '\\' ? "\\" : "", *at);
    fputc('"', out);
}

/* With its unit if that is exact, otherwise as a plain number that reads back as the same one. */
static void cluster_write_number(FILE *out, double value, enum quantity quantity)
{
    char text[QUANTITY_TEXT_BYTES], plain[TEXT_NUMBER_BYTES];
    double read = 0;
    quantity_text(value, quantity, text);
    bool exact = quantity_parse(text, "", quantity, value, value, &read, NULL) == WEFT_OK;
    fputs(exact ? text : text_number_exact(value, plain), out);
}

/* A line for every key that has a value, each after `indent`. */
static void cluster_write_map(FILE *out, const char *indent, const struct cluster_keys *keys, const void *from)
{
    for (size_t i = 0; i < keys->count; i++) {
        const struct cluster_key *key = &keys->keys[i];
        const void *field = (const char *)from + key->offset;
        double value = key->store == CLUSTER_STORE_DOUBLE ? *(const double *)field
                       : key->store == CLUSTER_STORE_U32  ? *(const uint32_t *)field
                       : key->store == CLUSTER_STORE_U64  ? (double)*(const uint64_t *)field
                       : key->store == CLUSTER_STORE_I64  ? (double)*(const int64_t *)field
                                                          : 0;
        bool text = key->store == CLUSTER_STORE_TEXT && *(const char *)field;
        if (!text && value == 0)
            continue;
        fprintf(out, "%s%s: ", indent, key->name);
        if (text)
            cluster_write_text(out, field);
        else
            cluster_write_number(out, value, key->quantity);
        fputc('\n', out);
    }
}

static void cluster_write_devices(FILE *out, const struct cluster_file *cluster)
{
    if (cluster->device_count)
        fprintf(out, "devices:\n");
    for (uint32_t i = 0; i < cluster->device_count; i++) {
        fprintf(out, "  ");
        cluster_write_text(out, cluster->devices[i].kind);
        fprintf(out, ":\n");
        cluster_write_map(out, "    ", &cluster_keys_of_device, &cluster->devices[i]);
    }
}

static void cluster_write_groups(FILE *out, const struct cluster_file *cluster)
{
    if (cluster->group_count)
        fprintf(out, "groups:\n");
    for (uint32_t i = 0; i < cluster->group_count; i++) {
        fprintf(out, "  -\n");
        if (cluster->device_count) {
            fprintf(out, "    device: ");
            cluster_write_text(out, cluster->devices[cluster->groups[i].device].kind);
            fputc('\n', out);
        }
        cluster_write_map(out, "    ", &cluster_keys_of_group, &cluster->groups[i]);
    }
}

static void cluster_write_levels(FILE *out, const struct cluster_file *cluster)
{
    fprintf(out, "levels:\n");
    for (uint32_t depth = 0; depth < cluster->level_count; depth++) {
        const struct cluster_level *level = &cluster->levels[depth];
        fprintf(out, "  -\n");
        cluster_write_map(out, "    ", &cluster_keys_of_level, level);
        if (level->cost.latency == 0) /* required, even if 0 */
            fprintf(out, "    latency: 0\n");
    }
}

static void cluster_write_hosts(FILE *out, const struct cluster_file *cluster)
{
    uint32_t maps = cluster_file_maps(cluster);
    if (cluster->host_count)
        fprintf(out, "hosts: [");
    for (uint32_t i = 0; i < cluster->host_count; i++) {
        const struct cluster_host *host = &cluster->hosts[i], *before = i ? host - 1 : NULL;
        uint32_t changed = 0; /* lists that end before this host */
        for (uint32_t map = 0; map < maps; map++)
            if (!before || before->units[map] != host->units[map])
                changed = map + 1;
        for (uint32_t list = 0; before && list < changed; list++)
            fputc(']', out);
        fprintf(out, "%s", before ? ", " : "");
        for (uint32_t list = 0; list < changed; list++)
            fputc('[', out);
        cluster_write_text(out, host->name);
    }
    for (uint32_t list = 0; cluster->host_count && list < maps; list++)
        fputc(']', out);
    if (cluster->host_count)
        fprintf(out, "]\n");
}

void cluster_file_write(const struct cluster_file *cluster, FILE *out)
{
    fprintf(out, "weft_cluster: %d\n", CLUSTER_FILE_VERSION);
    cluster_write_map(out, "", &cluster_keys_of_file, cluster);
    cluster_write_devices(out, cluster);
    cluster_write_groups(out, cluster);
    cluster_write_levels(out, cluster);
    cluster_write_hosts(out, cluster);
}

weft_status cluster_file_save(const struct cluster_file *cluster, const char *path, struct error *error)
{
    char *text = NULL;
    size_t size = 0;
    FILE *out = open_memstream(&text, &size);
    if (!out)
        return error_memory(error, 4096, "a cluster file");
    cluster_file_write(cluster, out);
    weft_status status =
        fclose(out) == 0 ? file_make_directory_of(path, error) : error_memory(error, size, "a cluster file");
    if (status == WEFT_OK)
        status = file_write(path, text, size, error);
    free(text);
    return status;
}
