/* SPDX-License-Identifier: Apache-2.0 */
#include "observe/telemetry/cpu_power.h"

#include "base/file/file.h"
#include "observe/telemetry/internal/counter.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define ZONES_MOST      256    /* packages and memories of a machine */
#define ZONE_BYTES      64     /* "intel-rapl:0:2" and longer */
#define POWER_MOST      2000.0 /* watts: a package that took more would have melted */
#define CLASS_DIRECTORY "sys/class/powercap"

struct zone {
    char directory[ZONE_BYTES];
    char name[MEASURED_PART_BYTES];
    uint64_t range; /* in microjoules: values are below it */
    struct counter energy;
};

struct cpu_power {
    int root;
    struct zone *zones;
    uint32_t count;
    size_t room;
    uint64_t at; /* of the sample before; 0: none */
    char trouble[256];
};

/* ---- finding ---- */

static bool cpu_power_read_text(int root, const char *directory, const char *name, char *text, size_t size)
{
    char path[ZONE_BYTES + 64];
    snprintf(path, sizeof path, CLASS_DIRECTORY "/%.*s/%s", ZONE_BYTES, directory, name);
    const ssize_t length = file_read_small(root, path, text, size);
    text[strcspn(text, "\n")] = '\0';
    errno = length == 0 ? EINVAL : errno;
    return length > 0;
}

/* errno tells why not. */
static bool cpu_power_read_number(int root, const char *directory, const char *name, uint64_t *number)
{
    char text[32], *end;
    if (!cpu_power_read_text(root, directory, name, text, sizeof text))
        return false;
    errno = 0;
    const unsigned long long value = strtoull(text, &end, 10);
    if (*text < '0' || *text > '9' || *end)
        errno = EINVAL;
    if (errno)
        return false;
    *number = value;
    return true;
}

/* "intel-rapl:0" is a package, or the platform; "intel-rapl:0:1" a part of it. What lies elsewhere
 * ("intel-rapl-mmio:0") shows the same packages again. */
static bool name_zone(int root, const char *directory, char name[MEASURED_PART_BYTES])
{
    unsigned package, part;
    int end = 0;
    char text[MEASURED_PART_BYTES];
    if (strlen(directory) >= ZONE_BYTES || !cpu_power_read_text(root, directory, "name", text, sizeof text))
        return false;
    if (sscanf(directory, "intel-rapl:%3u%n", &package, &end) == 1 && !directory[end]) {
        measured_name_part(text, name);
        return strncmp(text, "package-", strlen("package-")) == 0;
    }
    if (sscanf(directory, "intel-rapl:%3u:%3u%n", &package, &part, &end) == 2 && !directory[end] &&
        strcmp(text, "dram") == 0) {
        snprintf(name, MEASURED_PART_BYTES, "dram-%u", package);
        return true;
    }
    return false;
}

static weft_status take_zone(struct cpu_power *power, const char *directory, struct error *error)
{
    struct zone zone = {0};
    uint64_t range = 0;
    if (power->count == ZONES_MOST || !name_zone(power->root, directory, zone.name))
        return WEFT_OK;
    snprintf(zone.directory, sizeof zone.directory, "%s", directory);
    cpu_power_read_number(power->root, directory, "max_energy_range_uj", &range);
    zone.range = range && range < UINT64_MAX ? range + 1 : 0;
    if (ARRAY_RESERVE(power->zones, power->room, power->count + 1, "counters of energy", error) != WEFT_OK)
        return WEFT_ERROR_MEMORY;
    power->zones[power->count++] = zone;
    return WEFT_OK;
}

static int by_directory(const void *left, const void *right)
{
    return strcmp(((const struct zone *)left)->directory, ((const struct zone *)right)->directory);
}

weft_status cpu_power_open(const char *root, struct cpu_power **power, struct error *error)
{
    struct cpu_power *made = calloc(1, sizeof *made);
    weft_status status = WEFT_OK;
    if (!made)
        return error_memory(error, sizeof *made, "counters of energy");
    made->root = open(root, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (made->root < 0) {
        status = error_system(error, "cannot look at the machine below '%s'", root);
        free(made);
        return status;
    }
    DIR *listing = file_listing_open(made->root, CLASS_DIRECTORY, 0);
    for (const char *name; status == WEFT_OK && (name = file_listing_next(listing));)
        status = take_zone(made, name, error);
    file_listing_close(listing);
    if (status != WEFT_OK) {
        cpu_power_close(made);
        return status;
    }
    if (made->count)
        qsort(made->zones, made->count, sizeof *made->zones, by_directory);
    *power = made;
    return WEFT_OK;
}

void cpu_power_close(struct cpu_power *power)
{
    if (!power)
        return;
    close(power->root);
    free(power->zones);
    free(power);
}

uint32_t cpu_power_count(const struct cpu_power *power)
{
    return power->count;
}

const char *cpu_power_trouble(const struct cpu_power *power)
{
    return power->trouble;
}

/* ---- sampling ---- */

/* Microjoules since the sample before; false: not known. */
static bool read_zone(struct cpu_power *power, struct zone *zone, uint64_t now, struct counter_step *step)
{
    uint64_t energy;
    if (!cpu_power_read_number(power->root, zone->directory, "energy_uj", &energy)) {
        if (!*power->trouble)
            snprintf(power->trouble, sizeof power->trouble,
                     "the processors' energy is counted in /" CLASS_DIRECTORY
                     "/%.*s/energy_uj, which cannot be read: %s%s",
                     ZONE_BYTES, zone->directory, strerror(errno),
                     errno == EACCES ? "; run Weft as root, or let its group read the file" : "");
        zone->energy.known = false;
        return false;
    }
    if (!counter_read(&zone->energy, energy, zone->range, now, step))
        return false;
    /* It may have wrapped more than once in a long time, or have been set back. */
    if (zone->range && step->seconds * POWER_MOST * 1e6 >= (double)zone->range)
        return false;
    return (double)step->increase <= step->seconds * POWER_MOST * 1e6;
}

weft_status cpu_power_sample(struct cpu_power *power, uint64_t now, struct measured_values *values,
                             struct cpu_energy *energy, struct error *error)
{
    weft_status status = WEFT_OK;
    bool known = power->count > 0;
    *energy = (struct cpu_energy){0};
    *power->trouble = '\0';
    if (power->at && now > power->at)
        energy->seconds = (double)(now - power->at) * 1e-9;
    power->at = now;
    for (uint32_t i = 0; i < power->count; i++) {
        struct counter_step step;
        if (!read_zone(power, &power->zones[i], now, &step)) {
            known = false;
            continue;
        }
        const double joules = (double)step.increase * 1e-6;
        energy->joules += joules;
        if (status == WEFT_OK)
            status =
                measured_values_add(values, joules / step.seconds, error, "machine/power/%s", power->zones[i].name);
    }
    if (!known)
        energy->joules = NAN;
    return status;
}
