/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/platform/client/cluster_view.h"

#include "base/text.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#define HOSTS_MOST 65536 /* a week of jobs takes seconds with so many, minutes with a million */

weft_status cluster_get(struct platform *platform, cJSON **cluster, struct error *error)
{
    struct platform_path path;
    platform_path_begin(&path, "cluster");
    return platform_get(platform, &path, cluster, error);
}

/* Read the next range of a set of slots, "0-3,6", and move *text past it. False: there are no more. */
static bool next_range(const char **text, long *first, long *last)
{
    char *end;
    *first = strtol(*text, &end, 10);
    if (end == *text || *first < 0)
        return false;
    *last = *first;
    if (*end == '-')
        *last = strtol(end + 1, &end, 10);
    *text = *end == ',' ? end + 1 : end;
    return *last >= *first;
}

int64_t cluster_taken(const cJSON *host)
{
    int64_t taken = 0;
    const cJSON *use;
    cJSON_ArrayForEach(use, field(host, "taken")) {
        const char *slots = field_text(use, "slots");
        long first, last;
        while (next_range(&slots, &first, &last))
            taken += last - first + 1;
    }
    return taken;
}

bool cluster_is_up(const cJSON *host)
{
    return strcmp(field_text(host, "state"), "up") == 0;
}

bool cluster_is_lost(const cJSON *host)
{
    return strncmp(field_text(host, "state"), "lost", 4) == 0;
}

bool cluster_is_cordoned(const cJSON *host)
{
    return strstr(field_text(host, "state"), "cordoned") != NULL;
}

char *cluster_map(const cJSON *host, char map[CLUSTER_MAP_BYTES])
{
    int64_t slots = field_integer(host, "slots");
    int64_t shown = slots < 0 ? 0 : slots < CLUSTER_MAP_BYTES - 1 ? slots : CLUSTER_MAP_BYTES - 1;
    int letter = 0;
    const cJSON *use;
    memset(map, '.', (size_t)shown);
    map[shown] = '\0';
    cJSON_ArrayForEach(use, field(host, "taken")) {
        const char *ranges = field_text(use, "slots");
        long first, last;
        while (next_range(&ranges, &first, &last))
            for (long slot = first; slot <= last && slot < shown; slot++)
                map[slot] = (char)('a' + letter % 26);
        letter++;
    }
    return map;
}

char *cluster_runs(const cJSON *host, char *buffer, size_t size)
{
    int others = 0;
    size_t length = 0;
    const cJSON *use;
    *buffer = '\0';
    cJSON_ArrayForEach(use, field(host, "taken")) {
        if (!field_present(use, "run"))
            others++;
        else if (length < size)
            length += (size_t)snprintf(buffer + length, size - length, "%s%" PRId64, length ? ", " : "",
                                       field_integer(use, "run"));
    }
    if (others && length < size)
        snprintf(buffer + length, size - length, "%s%d of others", length ? " and " : "", others);
    return buffer;
}

weft_status pod_shape_parse(const char *text, struct pod_shape *shape, struct error *error)
{
    struct pod_shape read;
    uint32_t *parts[] = {&read.pods, &read.hosts, &read.slots};
    const int64_t most[] = {4096, HOSTS_MOST, 64};
    const char *at = text;
    for (int i = 0; i < 3; i++) {
        size_t length = strcspn(at, "x");
        char part[24];
        int64_t value;
        if (length >= sizeof part || (at[length] == 'x') != (i < 2))
            return error_set(error, WEFT_ERROR_ARGUMENT,
                             "--pods is '%s'; it must be three numbers, such as 4x16x8: Pods, hosts of a Pod, GPUs of "
                             "a host",
                             text);
        memcpy(part, at, length);
        part[length] = 0;
        weft_status status = text_parse_integer(part, "a number of --pods", 1, most[i], &value, error);
        if (status != WEFT_OK)
            return status;
        *parts[i] = (uint32_t)value;
        at += length + 1;
    }
    const uint64_t hosts = (uint64_t)read.pods * read.hosts;
    if (hosts > HOSTS_MOST)
        return error_set(error, WEFT_ERROR_ARGUMENT,
                         "--pods is '%s': these are %" PRIu64 " hosts, but at most %d are allowed", text, hosts,
                         HOSTS_MOST);
    *shape = read;
    return WEFT_OK;
}
