/* SPDX-License-Identifier: Apache-2.0 */
#include "core/topology/machine_json.h"

#include "base/file/file.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define FILE_MOST  (64u << 20)
#define COUNT_MOST (1 << 20) /* most threads, nodes or devices that are believed */

/* ---- writing ---- */

/* A limit: null stands for none. */
static void put_limit(struct json_writer *writer, const char *key, uint64_t limit)
{
    if (limit == LIMITS_NONE)
        json_put_text(writer, key, NULL);
    else
        json_put_unsigned(writer, key, limit);
}

static void write_limits(const struct limits *limits, struct json_writer *writer)
{
    json_open_object(writer, "limits");
    put_limit(writer, "memory_total", limits->memory_total);
    put_limit(writer, "memory_available", limits->memory_available);
    put_limit(writer, "group_limit", limits->group_limit);
    put_limit(writer, "group_available", limits->group_available);
    put_limit(writer, "address_space_limit", limits->address_space_limit);
    put_limit(writer, "address_space_used", limits->address_space_used);
    put_limit(writer, "locked_limit", limits->locked_limit);
    json_put_integer(writer, "processors", limits->processors);
    json_put_number(writer, "processor_quota", limits->processor_quota);
    json_close(writer);
}

static void write_hardware(const struct machine *machine, struct json_writer *writer)
{
    json_open_array(writer, "threads");
    for (uint32_t i = 0; i < machine->thread_count; i++) {
        const struct machine_thread *thread = &machine->threads[i];
        json_open_object(writer, NULL);
        json_put_integer(writer, "processor", thread->processor);
        json_put_integer(writer, "core", thread->core);
        json_put_integer(writer, "package", thread->package);
        json_put_integer(writer, "numa", thread->numa);
        json_put_integer(writer, "last_cache", thread->last_cache);
        json_put_bool(writer, "usable", thread->usable);
        json_close(writer);
    }
    json_close(writer);
    json_open_array(writer, "caches");
    for (uint32_t i = 0; i < machine->cache_count; i++) {
        json_open_object(writer, NULL);
        json_put_integer(writer, "level", machine->caches[i].level);
        json_put_integer(writer, "count", machine->caches[i].count);
        json_put_unsigned(writer, "bytes", machine->caches[i].bytes);
        json_put_integer(writer, "cores", machine->caches[i].cores);
        json_close(writer);
    }
    json_close(writer);
    json_open_array(writer, "numa");
    for (uint32_t i = 0; i < machine->numa_count; i++) {
        json_open_object(writer, NULL);
        json_put_integer(writer, "index", machine->numas[i].index);
        json_put_unsigned(writer, "bytes", machine->numas[i].bytes);
        json_put_integer(writer, "cores", machine->numas[i].cores);
        json_close(writer);
    }
    json_close(writer);
}

static void write_interface(const struct machine_interface *interface, struct json_writer *writer)
{
    json_open_object(writer, NULL);
    json_put_text(writer, "name", interface->name);
    json_put_text(writer, "driver", interface->driver);
    json_put_bool(writer, "up", interface->up);
    json_put_bool(writer, "loopback", interface->loopback);
    json_put_unsigned(writer, "bytes_per_second", interface->bytes_per_second);
    json_put_integer(writer, "mtu", interface->mtu);
    json_open_array(writer, "addresses");
    for (uint32_t i = 0; i < interface->address_count; i++) {
        json_open_object(writer, NULL);
        json_put_text(writer, "text", interface->addresses[i].text);
        json_put_integer(writer, "prefix", interface->addresses[i].prefix);
        json_put_bool(writer, "ipv6", interface->addresses[i].is_ipv6);
        json_put_bool(writer, "link_local", interface->addresses[i].is_link_local);
        json_close(writer);
    }
    json_close(writer);
    json_close(writer);
}

static void write_device(const struct machine_device *device, struct json_writer *writer)
{
    json_open_object(writer, NULL);
    json_put_text(writer, "kind", machine_device_kind_name(device->kind));
    json_put_text(writer, "name", device->name);
    json_put_text(writer, "model", device->model);
    json_put_text(writer, "pci", device->pci);
    json_put_integer(writer, "numa", device->numa);
    json_close(writer);
}

void machine_write_members(const struct machine *machine, struct json_writer *writer)
{
    json_put_text(writer, "host", machine->host);
    json_put_text(writer, "identity", machine->identity);
    json_put_text(writer, "system", machine->system);
    json_put_text(writer, "processor", machine->processor);
    json_put_integer(writer, "packages", machine->packages);
    json_put_integer(writer, "cores", machine->cores);
    write_hardware(machine, writer);
    write_limits(&machine->limits, writer);
    json_open_array(writer, "interfaces");
    for (uint32_t i = 0; i < machine->interface_count; i++)
        write_interface(&machine->interfaces[i], writer);
    json_close(writer);
    json_open_array(writer, "devices");
    for (uint32_t i = 0; i < machine->device_count; i++)
        write_device(&machine->devices[i], writer);
    json_close(writer);
}

void machine_write(const struct machine *machine, struct json_writer *writer, const char *key)
{
    json_open_object(writer, key);
    machine_write_members(machine, writer);
    json_close(writer);
}

/* ---- reading ---- */

/*
 * A reader goes on after the first error without harm: every getter returns a zero from then on, and the message of
 * the first error stays. That keeps the lists of members below readable.
 */
struct machine_json_reader {
    const char *where;
    struct error *error;
    weft_status status;
};

static uint32_t machine_json_take_number(struct machine_json_reader *reader, const cJSON *object, const char *key,
                                         int64_t least, int64_t most)
{
    int64_t value = 0;
    if (reader->status == WEFT_OK)
        reader->status = json_get_integer(object, key, reader->where, least, most, &value, reader->error);
    return (uint32_t)(int32_t)value;
}

static uint64_t take_unsigned(struct machine_json_reader *reader, const cJSON *object, const char *key)
{
    uint64_t value = 0;
    if (reader->status == WEFT_OK)
        reader->status = json_get_unsigned(object, key, reader->where, &value, reader->error);
    return value;
}

static bool take_bool(struct machine_json_reader *reader, const cJSON *object, const char *key)
{
    bool value = false;
    if (reader->status == WEFT_OK)
        reader->status = json_get_bool(object, key, reader->where, &value, reader->error);
    return value;
}

static void machine_json_take_text(struct machine_json_reader *reader, const cJSON *object, const char *key,
                                   char *destination, size_t size)
{
    const char *text = "";
    if (reader->status == WEFT_OK)
        reader->status = json_get_text(object, key, reader->where, &text, reader->error);
    if (reader->status == WEFT_OK && strlen(text) >= size)
        reader->status = error_set(reader->error, WEFT_ERROR_DATA, "%s: \"%s\" is longer than %zu bytes", reader->where,
                                   key, size - 1);
    snprintf(destination, size, "%s", reader->status == WEFT_OK ? text : "");
}

static uint64_t take_limit(struct machine_json_reader *reader, const cJSON *object, const char *key)
{
    if (cJSON_IsNull(cJSON_GetObjectItemCaseSensitive(object, key)))
        return LIMITS_NONE;
    return take_unsigned(reader, object, key);
}

/* The array `key`, with room for its entries of `size` bytes in *entries; NULL after an error. */
static const cJSON *machine_json_take_array(struct machine_json_reader *reader, const cJSON *object, const char *key,
                                            size_t size, void **entries, uint32_t *count)
{
    const cJSON *array = NULL;
    if (reader->status == WEFT_OK)
        reader->status = json_get_array(object, key, reader->where, &array, reader->error);
    if (reader->status != WEFT_OK)
        return NULL;
    int length = cJSON_GetArraySize(array);
    if (length > COUNT_MOST) {
        reader->status = error_set(reader->error, WEFT_ERROR_DATA, "%s: \"%s\" has %d entries; the most is %d",
                                   reader->where, key, length, COUNT_MOST);
        return NULL;
    }
    *entries = length ? calloc((size_t)length, size) : NULL;
    if (length && !*entries) {
        reader->status = error_memory(reader->error, (size_t)length * size, key);
        return NULL;
    }
    *count = (uint32_t)length;
    return array;
}

static void read_hardware(struct machine_json_reader *reader, const cJSON *object, struct machine *machine)
{
    const cJSON *entry;
    uint32_t i = 0;
    const cJSON *array = machine_json_take_array(reader, object, "threads", sizeof *machine->threads,
                                                 (void **)&machine->threads, &machine->thread_count);
    cJSON_ArrayForEach(entry, array) machine->threads[i++] = (struct machine_thread){
        .processor = machine_json_take_number(reader, entry, "processor", 0, COUNT_MOST),
        .core = machine_json_take_number(reader, entry, "core", 0, COUNT_MOST),
        .package = machine_json_take_number(reader, entry, "package", 0, COUNT_MOST),
        .numa = machine_json_take_number(reader, entry, "numa", 0, COUNT_MOST),
        .last_cache = (int32_t)machine_json_take_number(reader, entry, "last_cache", -1, COUNT_MOST),
        .usable = take_bool(reader, entry, "usable"),
    };

    struct machine_cache *caches = NULL;
    uint32_t cache_count = 0;
    i = 0;
    array = machine_json_take_array(reader, object, "caches", sizeof *caches, (void **)&caches, &cache_count);
    cJSON_ArrayForEach(entry, array) caches[i++] = (struct machine_cache){
        .level = machine_json_take_number(reader, entry, "level", 1, MACHINE_CACHE_LEVELS),
        .count = machine_json_take_number(reader, entry, "count", 1, COUNT_MOST),
        .bytes = take_unsigned(reader, entry, "bytes"),
        .cores = machine_json_take_number(reader, entry, "cores", 0, COUNT_MOST),
    };
    machine->cache_count = cache_count < MACHINE_CACHE_LEVELS ? cache_count : MACHINE_CACHE_LEVELS;
    if (machine->cache_count)
        memcpy(machine->caches, caches, machine->cache_count * sizeof *caches);
    free(caches);

    i = 0;
    array = machine_json_take_array(reader, object, "numa", sizeof *machine->numas, (void **)&machine->numas,
                                    &machine->numa_count);
    cJSON_ArrayForEach(entry, array) machine->numas[i++] = (struct machine_numa){
        .index = machine_json_take_number(reader, entry, "index", 0, COUNT_MOST),
        .bytes = take_unsigned(reader, entry, "bytes"),
        .cores = machine_json_take_number(reader, entry, "cores", 0, COUNT_MOST),
    };
}

static void read_limits(struct machine_json_reader *reader, const cJSON *object, struct limits *limits)
{
    const cJSON *from = NULL;
    if (reader->status == WEFT_OK)
        reader->status = json_get_object(object, "limits", reader->where, &from, reader->error);
    if (reader->status != WEFT_OK)
        return;
    limits->memory_total = take_limit(reader, from, "memory_total");
    limits->memory_available = take_limit(reader, from, "memory_available");
    limits->group_limit = take_limit(reader, from, "group_limit");
    limits->group_available = take_limit(reader, from, "group_available");
    limits->address_space_limit = take_limit(reader, from, "address_space_limit");
    limits->address_space_used = take_limit(reader, from, "address_space_used");
    limits->locked_limit = take_limit(reader, from, "locked_limit");
    limits->processors = machine_json_take_number(reader, from, "processors", 1, COUNT_MOST);
    if (reader->status == WEFT_OK)
        reader->status =
            json_get_number(from, "processor_quota", reader->where, &limits->processor_quota, reader->error);
}

static void read_interface(struct machine_json_reader *reader, const cJSON *object, struct machine_interface *interface)
{
    const cJSON *entry;
    uint32_t i = 0;
    machine_json_take_text(reader, object, "name", interface->name, sizeof interface->name);
    machine_json_take_text(reader, object, "driver", interface->driver, sizeof interface->driver);
    interface->up = take_bool(reader, object, "up");
    interface->loopback = take_bool(reader, object, "loopback");
    interface->bytes_per_second = take_unsigned(reader, object, "bytes_per_second");
    interface->mtu = machine_json_take_number(reader, object, "mtu", 0, INT32_MAX);
    const cJSON *array = machine_json_take_array(reader, object, "addresses", sizeof *interface->addresses,
                                                 (void **)&interface->addresses, &interface->address_count);
    cJSON_ArrayForEach(entry, array)
    {
        struct machine_address *address = &interface->addresses[i++];
        machine_json_take_text(reader, entry, "text", address->text, sizeof address->text);
        address->prefix = machine_json_take_number(reader, entry, "prefix", 0, 128);
        address->is_ipv6 = take_bool(reader, entry, "ipv6");
        address->is_link_local = take_bool(reader, entry, "link_local");
    }
}

static enum machine_device_kind take_device_kind(struct machine_json_reader *reader, const cJSON *object)
{
    char name[MACHINE_NAME_BYTES];
    machine_json_take_text(reader, object, "kind", name, sizeof name);
    for (int kind = MACHINE_GPU; kind <= MACHINE_FABRIC; kind++)
        if (strcmp(name, machine_device_kind_name((enum machine_device_kind)kind)) == 0)
            return (enum machine_device_kind)kind;
    if (reader->status == WEFT_OK)
        reader->status = error_set(reader->error, WEFT_ERROR_DATA, "%s: \"kind\" of a device is '%s', which is unknown",
                                   reader->where, name);
    return MACHINE_GPU;
}

static void read_device(struct machine_json_reader *reader, const cJSON *object, struct machine_device *device)
{
    device->kind = take_device_kind(reader, object);
    machine_json_take_text(reader, object, "name", device->name, sizeof device->name);
    machine_json_take_text(reader, object, "model", device->model, sizeof device->model);
    machine_json_take_text(reader, object, "pci", device->pci, sizeof device->pci);
    device->numa = (int32_t)machine_json_take_number(reader, object, "numa", -1, COUNT_MOST);
}

static void read_members(struct machine_json_reader *reader, const cJSON *object, struct machine *machine)
{
    const cJSON *entry;
    uint32_t i = 0;
    machine_json_take_text(reader, object, "host", machine->host, sizeof machine->host);
    machine_json_take_text(reader, object, "identity", machine->identity, sizeof machine->identity);
    machine_json_take_text(reader, object, "system", machine->system, sizeof machine->system);
    machine_json_take_text(reader, object, "processor", machine->processor, sizeof machine->processor);
    machine->packages = machine_json_take_number(reader, object, "packages", 1, COUNT_MOST);
    machine->cores = machine_json_take_number(reader, object, "cores", 1, COUNT_MOST);
    read_hardware(reader, object, machine);
    read_limits(reader, object, &machine->limits);
    const cJSON *array = machine_json_take_array(reader, object, "interfaces", sizeof *machine->interfaces,
                                                 (void **)&machine->interfaces, &machine->interface_count);
    cJSON_ArrayForEach(entry, array) read_interface(reader, entry, &machine->interfaces[i++]);
    i = 0;
    array = machine_json_take_array(reader, object, "devices", sizeof *machine->devices, (void **)&machine->devices,
                                    &machine->device_count);
    cJSON_ArrayForEach(entry, array) read_device(reader, entry, &machine->devices[i++]);
}

weft_status machine_read(const cJSON *object, const char *where, struct machine **machine, struct error *error)
{
    struct machine_json_reader reader = {where, error, WEFT_OK};
    if (!cJSON_IsObject(object))
        return error_set(error, WEFT_ERROR_DATA, "%s is no machine: an object was expected", where);
    struct machine *made = calloc(1, sizeof *made);
    if (!made)
        return error_memory(error, sizeof *made, "the description of a machine");
    read_members(&reader, object, made);
    if (reader.status != WEFT_OK) {
        machine_free(made);
        return reader.status;
    }
    *machine = made;
    return WEFT_OK;
}

weft_status machine_load(const char *path, struct machine **machine, struct error *error)
{
    char *text = NULL;
    size_t size = 0;
    cJSON *root = NULL;
    weft_status status = file_read(path, FILE_MOST, &text, &size, error);
    if (status != WEFT_OK)
        return status;
    if (text[strspn(text, " \t\r\n")] == '<') {
        status = machine_from_hwloc_xml(path, machine, error);
    } else {
        status = json_parse(text, size, path, &root, error);
        if (status == WEFT_OK)
            status = machine_read(root, path, machine, error);
    }
    cJSON_Delete(root);
    free(text);
    return status;
}
