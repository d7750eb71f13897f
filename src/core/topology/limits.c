/* SPDX-License-Identifier: Apache-2.0 */
#include "core/topology/limits.h"

#include "base/file/file.h"
#include "base/hash.h"
#include "base/text.h"
#include "core/topology/internal/control_group.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

/* The number of kibibytes in the line "key:   12345 kB" of `text`, in bytes; `otherwise` if there is none. */
static uint64_t find_kibibytes(const char *text, const char *key, uint64_t otherwise)
{
    uint64_t value;
    const char *line = text ? strstr(text, key) : NULL;
    if (!line || sscanf(line + strlen(key), ": %" SCNu64, &value) != 1 || value > UINT64_MAX / 1024)
        return otherwise;
    return value * 1024;
}

static uint64_t resource_limit(int resource)
{
    struct rlimit limit;
    if (getrlimit(resource, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY)
        return LIMITS_NONE;
    return limit.rlim_cur;
}

/* The affinity set's size and hash, also on machines with more processors than a cpu_set_t holds. */
static uint32_t affinity_processors(uint64_t *hash)
{
    for (int room = 1024; room <= 1 << 20; room *= 4) {
        cpu_set_t *set = CPU_ALLOC((size_t)room);
        if (!set)
            break;
        size_t size = CPU_ALLOC_SIZE((size_t)room);
        int result = sched_getaffinity(0, size, set);
        uint32_t count = result == 0 ? (uint32_t)CPU_COUNT_S(size, set) : 0;
        *hash = result == 0 ? hash_bytes(set, size, 0) : 0;
        CPU_FREE(set);
        if (count)
            return count;
        if (result != 0 && errno != EINVAL)
            break;
    }
    long online = sysconf(_SC_NPROCESSORS_ONLN);
    return online > 0 ? (uint32_t)online : 1;
}

weft_status limits_read_below(const char *root, struct limits *limits, struct error *error)
{
    char path[FILE_PATH_BYTES];
    char *text = NULL;
    size_t size = 0;
    struct control_group group;
    uint64_t set = 0;

    weft_status status = file_join(path, root, "proc/meminfo", error);
    if (status == WEFT_OK)
        status = file_read(path, 1u << 20, &text, &size, error);
    if (status != WEFT_OK)
        return status;
    *limits = (struct limits){
        .address_space_limit = resource_limit(RLIMIT_AS),
        .locked_limit = resource_limit(RLIMIT_MEMLOCK),
        .processors = affinity_processors(&set),
        .processor_set = set,
    };
    limits->memory_total = find_kibibytes(text, "MemTotal", LIMITS_NONE);
    limits->memory_available = find_kibibytes(text, "MemAvailable", limits->memory_total);
    free(text);

    text = NULL;
    if (file_join(path, root, "proc/self/status", NULL) == WEFT_OK && file_exists(path) &&
        file_read(path, 1u << 20, &text, &size, NULL) == WEFT_OK)
        limits->address_space_used = find_kibibytes(text, "VmSize", 0);
    free(text);

    control_group_read(root, &group);
    limits->group_limit = group.memory_limit;
    limits->group_available = group.memory_available;
    limits->processor_quota = group.processor_quota;
    return WEFT_OK;
}

weft_status limits_read(struct limits *limits, struct error *error)
{
    return limits_read_below("", limits, error);
}

uint64_t limits_mappable(const struct limits *limits)
{
    if (limits->address_space_limit == LIMITS_NONE)
        return LIMITS_NONE;
    return limits->address_space_limit > limits->address_space_used
               ? limits->address_space_limit - limits->address_space_used
               : 0;
}

uint64_t limits_touchable(const struct limits *limits)
{
    uint64_t least = limits->memory_available;
    if (limits->group_available < least)
        least = limits->group_available;
    return least;
}

uint32_t limits_processors(const struct limits *limits)
{
    uint32_t count = limits->processors;
    if (limits->processor_quota > 0 && ceil(limits->processor_quota) < count)
        count = (uint32_t)ceil(limits->processor_quota);
    return count ? count : 1;
}

weft_status limits_check(const struct limits *limits, uint64_t bytes, uint64_t touched, const char *what,
                         struct error *error)
{
    char wanted[32], have[32], limit[32];
    uint64_t mappable = limits_mappable(limits);
    if (bytes > mappable)
        return error_set(error, WEFT_ERROR_MEMORY,
                         "%s needs %s of address space, but only %s of the limit of %s are left; raise it (ulimit -v "
                         "unlimited) or ask for less",
                         what, text_bytes(bytes, wanted, sizeof wanted), text_bytes(mappable, have, sizeof have),
                         text_bytes(limits->address_space_limit, limit, sizeof limit));
    if (touched > limits->group_available)
        return error_set(
            error, WEFT_ERROR_MEMORY,
            "%s needs %s of memory, but only %s of the control group's limit of %s are left; raise the limit "
            "of the container or job, or ask for less",
            what, text_bytes(touched, wanted, sizeof wanted), text_bytes(limits->group_available, have, sizeof have),
            text_bytes(limits->group_limit, limit, sizeof limit));
    if (touched > limits->memory_available)
        return error_set(
            error, WEFT_ERROR_MEMORY,
            "%s needs %s of memory, but only %s of this machine's %s are free; ask for less or end other programs",
            what, text_bytes(touched, wanted, sizeof wanted), text_bytes(limits->memory_available, have, sizeof have),
            text_bytes(limits->memory_total, limit, sizeof limit));
    return WEFT_OK;
}
