/* SPDX-License-Identifier: Apache-2.0 */
/* A machine as JSON. One table of members for each struct serves writing and reading. */
#include "core/topology/machine_json.h"

#include "base/file/file.h"

#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define FILE_MOST  (64u << 20)
#define COUNT_MOST (1 << 20) /* most threads, nodes or devices accepted */

enum machine_member_kind {
    MEMBER_TEXT,
    MEMBER_NUMBER, /* 32 bits, signed or not */
    MEMBER_UNSIGNED,
    MEMBER_LIMIT, /* null stands for none */
    MEMBER_BOOL,
    MEMBER_REAL,
    MEMBER_DEVICE_KIND,
    MEMBER_OBJECT,
    MEMBER_ARRAY,  /* allocated */
    MEMBER_CACHES, /* MACHINE_CACHE_LEVELS entries in the struct; further ones are dropped */
};

/* A member of an object, in the order in which they are written. */
struct machine_member {
    const char *key; /* NULL ends the table */
    enum machine_member_kind kind;
    size_t offset;                        /* in its struct */
    size_t size;                          /* bytes of a text or of an array's entry */
    int64_t least, most;                  /* of a number */
    size_t count;                         /* of an array: where its length is in the struct */
    const struct machine_member *members; /* of an object, or of an array's entries */
};

#define SIZE_OF(type, field) (sizeof((struct type *)0)->field)
#define MEMBER(key, kind, type, field)                                                                                 \
    {                                                                                                                  \
        key, kind, offsetof(struct type, field), SIZE_OF(type, field), 0, 0, 0, NULL                                   \
    }
#define NUMBER(key, type, field, low, high)                                                                            \
    {                                                                                                                  \
        key, MEMBER_NUMBER, offsetof(struct type, field), 0, low, high, 0, NULL                                        \
    }
#define ARRAY(key, kind, type, field, length, table)                                                                   \
    {                                                                                                                  \
        key, kind, offsetof(struct type, field), sizeof *((struct type *)0)->field, 0, 0,                              \
            offsetof(struct type, length), table                                                                       \
    }

static const struct machine_member thread_members[] = {
    NUMBER("processor", machine_thread, processor, 0, COUNT_MOST),
    NUMBER("core", machine_thread, core, 0, COUNT_MOST),
    NUMBER("package", machine_thread, package, 0, COUNT_MOST),
    NUMBER("numa", machine_thread, numa, 0, COUNT_MOST),
    NUMBER("last_cache", machine_thread, last_cache, -1, COUNT_MOST),
    MEMBER("usable", MEMBER_BOOL, machine_thread, usable),
    {0},
};

static const struct machine_member cache_members[] = {
    NUMBER("level", machine_cache, level, 1, MACHINE_CACHE_LEVELS),
    NUMBER("count", machine_cache, count, 1, COUNT_MOST),
    MEMBER("bytes", MEMBER_UNSIGNED, machine_cache, bytes),
    NUMBER("cores", machine_cache, cores, 0, COUNT_MOST),
    {0},
};

static const struct machine_member numa_members[] = {
    NUMBER("index", machine_numa, index, 0, COUNT_MOST),
    MEMBER("bytes", MEMBER_UNSIGNED, machine_numa, bytes),
    NUMBER("cores", machine_numa, cores, 0, COUNT_MOST),
    {0},
};

static const struct machine_member limits_members[] = {
    MEMBER("memory_total", MEMBER_LIMIT, limits, memory_total),
    MEMBER("memory_available", MEMBER_LIMIT, limits, memory_available),
    MEMBER("group_limit", MEMBER_LIMIT, limits, group_limit),
    MEMBER("group_available", MEMBER_LIMIT, limits, group_available),
    MEMBER("address_space_limit", MEMBER_LIMIT, limits, address_space_limit),
    MEMBER("address_space_used", MEMBER_LIMIT, limits, address_space_used),
    MEMBER("locked_limit", MEMBER_LIMIT, limits, locked_limit),
    NUMBER("processors", limits, processors, 1, COUNT_MOST),
    MEMBER("processor_quota", MEMBER_REAL, limits, processor_quota),
    {0},
};

static const struct machine_member address_members[] = {
    MEMBER("text", MEMBER_TEXT, machine_address, text),
    NUMBER("prefix", machine_address, prefix, 0, 128),
    MEMBER("ipv6", MEMBER_BOOL, machine_address, is_ipv6),
    MEMBER("link_local", MEMBER_BOOL, machine_address, is_link_local),
    {0},
};

static const struct machine_member interface_members[] = {
    MEMBER("name", MEMBER_TEXT, machine_interface, name),
    MEMBER("driver", MEMBER_TEXT, machine_interface, driver),
    MEMBER("up", MEMBER_BOOL, machine_interface, up),
    MEMBER("loopback", MEMBER_BOOL, machine_interface, loopback),
    MEMBER("bytes_per_second", MEMBER_UNSIGNED, machine_interface, bytes_per_second),
    NUMBER("mtu", machine_interface, mtu, 0, INT32_MAX),
    ARRAY("addresses", MEMBER_ARRAY, machine_interface, addresses, address_count, address_members),
    {0},
};

static const struct machine_member device_members[] = {
    MEMBER("kind", MEMBER_DEVICE_KIND, machine_device, kind), MEMBER("name", MEMBER_TEXT, machine_device, name),
    MEMBER("model", MEMBER_TEXT, machine_device, model),      MEMBER("pci", MEMBER_TEXT, machine_device, pci),
    NUMBER("numa", machine_device, numa, -1, COUNT_MOST),     {0},
};

static const struct machine_member machine_members[] = {
    MEMBER("host", MEMBER_TEXT, machine, host),
    MEMBER("identity", MEMBER_TEXT, machine, identity),
    MEMBER("system", MEMBER_TEXT, machine, system),
    MEMBER("processor", MEMBER_TEXT, machine, processor),
    NUMBER("packages", machine, packages, 1, COUNT_MOST),
    NUMBER("cores", machine, cores, 1, COUNT_MOST),
    ARRAY("threads", MEMBER_ARRAY, machine, threads, thread_count, thread_members),
    ARRAY("caches", MEMBER_CACHES, machine, caches, cache_count, cache_members),
    ARRAY("numa", MEMBER_ARRAY, machine, numas, numa_count, numa_members),
    {"limits", MEMBER_OBJECT, offsetof(struct machine, limits), 0, 0, 0, 0, limits_members},
    ARRAY("interfaces", MEMBER_ARRAY, machine, interfaces, interface_count, interface_members),
    ARRAY("devices", MEMBER_ARRAY, machine, devices, device_count, device_members),
    {0},
};

/* ---- writing ---- */

static void write_members(struct json_writer *writer, const struct machine_member *members, const void *from)
{
    for (const struct machine_member *member = members; member->key; member++) {
        const char *field = (const char *)from + member->offset;
        const char *entries = member->kind == MEMBER_ARRAY ? *(const char *const *)field : field;
        switch (member->kind) {
        case MEMBER_TEXT:
            json_put_text(writer, member->key, field);
            break;
        case MEMBER_NUMBER:
            json_put_integer(writer, member->key, *(const int32_t *)field);
            break;
        case MEMBER_LIMIT:
            if (*(const uint64_t *)field == LIMITS_NONE) {
                json_put_text(writer, member->key, NULL);
                break;
            }
            __attribute__((fallthrough));
        case MEMBER_UNSIGNED:
            json_put_unsigned(writer, member->key, *(const uint64_t *)field);
            break;
        case MEMBER_BOOL:
            json_put_bool(writer, member->key, *(const bool *)field);
            break;
        case MEMBER_REAL:
            json_put_number(writer, member->key, *(const double *)field);
            break;
        case MEMBER_DEVICE_KIND:
            json_put_text(writer, member->key, machine_device_kind_name(*(const enum machine_device_kind *)field));
            break;
        case MEMBER_OBJECT:
            json_open_object(writer, member->key);
            write_members(writer, member->members, field);
            json_close(writer);
            break;
        case MEMBER_ARRAY:
        case MEMBER_CACHES:
            json_open_array(writer, member->key);
            for (uint32_t i = 0; i < *(const uint32_t *)((const char *)from + member->count); i++) {
                json_open_object(writer, NULL);
                write_members(writer, member->members, entries + i * member->size);
                json_close(writer);
            }
            json_close(writer);
            break;
        }
    }
}

void machine_write_members(const struct machine *machine, struct json_writer *writer)
{
    write_members(writer, machine_members, machine);
}

void machine_write(const struct machine *machine, struct json_writer *writer, const char *key)
{
    json_open_object(writer, key);
    machine_write_members(machine, writer);
    json_close(writer);
}

/* ---- reading ---- */

static weft_status read_members(const cJSON *object, const struct machine_member *members, const char *where, void *to,
                                struct error *error);

static weft_status read_text(const cJSON *object, const struct machine_member *member, const char *where, char *field,
                             struct error *error)
{
    const char *text = "";
    weft_status status = json_get_text(object, member->key, where, &text, error);
    if (status == WEFT_OK && strlen(text) >= member->size)
        return error_set(error, WEFT_ERROR_DATA, "%s: \"%s\" is longer than %zu bytes", where, member->key,
                         member->size - 1);
    if (status == WEFT_OK)
        snprintf(field, member->size, "%s", text);
    return status;
}

static weft_status read_device_kind(const cJSON *object, const char *key, const char *where,
                                    enum machine_device_kind *kind, struct error *error)
{
    const char *name = "";
    weft_status status = json_get_text(object, key, where, &name, error);
    for (*kind = MACHINE_GPU; status == WEFT_OK && *kind <= MACHINE_FABRIC; (*kind)++)
        if (strcmp(name, machine_device_kind_name(*kind)) == 0)
            return WEFT_OK;
    return status != WEFT_OK
               ? status
               : error_set(error, WEFT_ERROR_DATA, "%s: \"kind\" of a device is '%s', which is unknown", where, name);
}

static weft_status read_array(const cJSON *object, const struct machine_member *member, const char *where, void *to,
                              struct error *error)
{
    const cJSON *array = NULL, *entry;
    weft_status status = json_get_array(object, member->key, where, &array, error);
    if (status != WEFT_OK)
        return status;
    uint32_t length = (uint32_t)cJSON_GetArraySize(array), i = 0;
    if (length > COUNT_MOST)
        return error_set(error, WEFT_ERROR_DATA, "%s: \"%s\" has %u entries; the limit is %d", where, member->key,
                         length, COUNT_MOST);
    char *entries = length ? calloc(length, member->size) : NULL;
    if (length && !entries)
        return error_memory(error, length * member->size, member->key);
    const bool fixed = member->kind == MEMBER_CACHES;
    if (fixed && length > MACHINE_CACHE_LEVELS)
        length = MACHINE_CACHE_LEVELS;
    *(uint32_t *)((char *)to + member->count) = length;
    if (!fixed)
        *(void **)((char *)to + member->offset) = entries;
    cJSON_ArrayForEach(entry, array)
        if (status == WEFT_OK)
            status = read_members(entry, member->members, where, entries + i++ * member->size, error);
    if (fixed && length)
        memcpy((char *)to + member->offset, entries, length * member->size);
    if (fixed)
        free(entries);
    return status;
}

static weft_status read_member(const cJSON *object, const struct machine_member *member, const char *where, void *to,
                               struct error *error)
{
    void *field = (char *)to + member->offset;
    const cJSON *inner = NULL;
    int64_t number = 0;
    weft_status status;
    switch (member->kind) {
    case MEMBER_TEXT:
        return read_text(object, member, where, field, error);
    case MEMBER_NUMBER:
        status = json_get_integer(object, member->key, where, member->least, member->most, &number, error);
        *(int32_t *)field = (int32_t)number;
        return status;
    case MEMBER_LIMIT:
        if (cJSON_IsNull(cJSON_GetObjectItemCaseSensitive(object, member->key))) {
            *(uint64_t *)field = LIMITS_NONE;
            return WEFT_OK;
        }
        __attribute__((fallthrough));
    case MEMBER_UNSIGNED:
        return json_get_unsigned(object, member->key, where, field, error);
    case MEMBER_BOOL:
        return json_get_bool(object, member->key, where, field, error);
    case MEMBER_REAL:
        return json_get_number(object, member->key, where, field, error);
    case MEMBER_DEVICE_KIND:
        return read_device_kind(object, member->key, where, field, error);
    case MEMBER_OBJECT:
        status = json_get_object(object, member->key, where, &inner, error);
        return status == WEFT_OK ? read_members(inner, member->members, where, field, error) : status;
    default:
        return read_array(object, member, where, to, error);
    }
}

static weft_status read_members(const cJSON *object, const struct machine_member *members, const char *where, void *to,
                                struct error *error)
{
    weft_status status = WEFT_OK;
    for (const struct machine_member *member = members; member->key && status == WEFT_OK; member++)
        status = read_member(object, member, where, to, error);
    return status;
}

weft_status machine_read(const cJSON *object, const char *where, struct machine **machine, struct error *error)
{
    if (!cJSON_IsObject(object))
        return error_set(error, WEFT_ERROR_DATA, "%s is not a machine: an object was expected", where);
    struct machine *made = calloc(1, sizeof *made);
    if (!made)
        return error_memory(error, sizeof *made, "the description of a machine");
    weft_status status = read_members(object, machine_members, where, made, error);
    if (status == WEFT_OK)
        *machine = made;
    else
        machine_free(made);
    return status;
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
