/* SPDX-License-Identifier: Apache-2.0 */
#include "core/topology/links.h"

#include "base/format/json_put.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define LINKS_VERSION 2
#define COUNT_MOST    4096 /* most entries that are kept */

static const char *link_level_name(enum link_level level)
{
    static const char *const names[LINK_LEVELS] = {[LINK_NEAR] = "near", [LINK_FAR] = "far"};
    return (unsigned)level < LINK_LEVELS ? names[level] : "unknown";
}

weft_status links_default_path(char path[FILE_PATH_BYTES], struct error *error)
{
    char directory[FILE_PATH_BYTES];
    const char *cache = getenv("XDG_CACHE_HOME");
    const char *home = getenv("HOME");
    if (cache && cache[0] == '/')
        return file_join(path, cache, "weft/links.json", error);
    if (!home || home[0] != '/')
        return error_set(error, WEFT_ERROR_ARGUMENT,
                         "there is no directory for measured links: set HOME or XDG_CACHE_HOME");
    weft_status status = file_join(directory, home, ".cache", error);
    return status == WEFT_OK ? file_join(path, directory, "weft/links.json", error) : status;
}

static weft_status links_add(struct links *links, const struct link_entry *entry, struct error *error)
{
    weft_status status = ARRAY_RESERVE(links->entries, links->room, links->count + 1, "measured links", error);
    if (status == WEFT_OK)
        links->entries[links->count++] = *entry;
    return status;
}

static struct link_entry *link_entry_find(const struct links *links, enum link_level level, const char *key)
{
    for (size_t i = 0; i < links->count; i++)
        if (links->entries[i].level == level && strcmp(links->entries[i].key, key) == 0)
            return &links->entries[i];
    return NULL;
}

/* A cost that a measurement can have. */
static bool plausible(const struct link_cost *cost)
{
    return cost->latency >= 0 && cost->latency < 60 && cost->overhead >= 0 && cost->overhead < 60 &&
           cost->bytes_per_second > 0 && cost->bytes_per_second < 1e15;
}

static weft_status links_read_entry(const cJSON *object, const char *path, struct link_entry *entry,
                                    struct error *error)
{
    const char *level = NULL, *key = NULL;
    weft_status status = json_get_text(object, "level", path, &level, error);
    if (status == WEFT_OK)
        status = json_get_text(object, "key", path, &key, error);
    if (status == WEFT_OK)
        status = json_get_number(object, "latency", path, &entry->cost.latency, error);
    if (status == WEFT_OK)
        status = json_get_number(object, "overhead", path, &entry->cost.overhead, error);
    if (status == WEFT_OK)
        status = json_get_number(object, "bytes_per_second", path, &entry->cost.bytes_per_second, error);
    if (status == WEFT_OK)
        status = json_get_integer(object, "measured", path, 0, JSON_EXACT, &entry->measured, error);
    if (status == WEFT_OK)
        status = json_get_integer(object, "samples", path, 1, JSON_EXACT, &entry->samples, error);
    if (status != WEFT_OK)
        return status;
    bool is_near = strcmp(level, link_level_name(LINK_NEAR)) == 0;
    if ((!is_near && strcmp(level, link_level_name(LINK_FAR)) != 0) || strlen(key) >= sizeof entry->key ||
        !plausible(&entry->cost))
        return error_set(error, WEFT_ERROR_DATA, "%s: the link '%s' of level '%s' has implausible values", path, key,
                         level);
    entry->level = is_near ? LINK_NEAR : LINK_FAR;
    snprintf(entry->key, sizeof entry->key, "%s", key);
    return WEFT_OK;
}

static weft_status links_read_all(const cJSON *root, const char *path, struct links *links, struct error *error)
{
    const cJSON *array = NULL, *object;
    int64_t version = 0;
    weft_status status = json_get_integer(root, "version", path, 0, INT32_MAX, &version, error);
    if (status == WEFT_OK && version != LINKS_VERSION)
        return error_set(error, WEFT_ERROR_DATA, "%s is of version %d, but this Weft writes version %d", path,
                         (int)version, LINKS_VERSION);
    if (status == WEFT_OK)
        status = json_get_array(root, "links", path, &array, error);
    cJSON_ArrayForEach(object, array) {
        struct link_entry entry = {0};
        if (status == WEFT_OK && links->count < COUNT_MOST)
            status = links_read_entry(object, path, &entry, error);
        if (status == WEFT_OK && links->count < COUNT_MOST)
            status = links_add(links, &entry, error);
    }
    return status;
}

void links_load(const char *path, struct links *links, struct error *warning)
{
    char standard[FILE_PATH_BYTES];
    struct error found = {0};
    cJSON *root = NULL;
    *links = (struct links){0};
    if (!path && links_default_path(standard, &found) == WEFT_OK)
        path = standard;
    if (path && !file_exists(path))
        return;
    if (path && json_read(path, &root, &found) == WEFT_OK)
        links_read_all(root, path, links, &found);
    cJSON_Delete(root);
    if (found.status == WEFT_OK)
        return;
    links_free(links);
    error_set(warning, found.status, "measured links are ignored and will be measured again: %s", found.text);
}

void links_free(struct links *links)
{
    free(links->entries);
    *links = (struct links){0};
}

static bool is_young(const struct link_entry *entry)
{
    int64_t age = (int64_t)time(NULL) - entry->measured;
    return age >= 0 && age < LINKS_LIFE_SECONDS;
}

const struct link_entry *links_find(const struct links *links, enum link_level level, const char *key)
{
    const struct link_entry *entry = link_entry_find(links, level, key);
    return entry && is_young(entry) ? entry : NULL;
}

weft_status links_put(struct links *links, enum link_level level, const char *key, const struct link_cost *cost,
                      struct error *error)
{
    if (strlen(key) >= LINK_KEY_BYTES || !plausible(cost))
        return error_set(
            error, WEFT_ERROR_ARGUMENT,
            "a link of latency %g s, overhead %g s and %g bytes/s is not plausible, and is not stored as '%s'",
            cost->latency, cost->overhead, cost->bytes_per_second, key);
    struct link_entry entry = {.level = level, .cost = *cost, .measured = (int64_t)time(NULL), .samples = 1};
    snprintf(entry.key, sizeof entry.key, "%s", key);
    struct link_entry *kept = link_entry_find(links, level, key);
    if (!kept)
        return links_add(links, &entry, error);
    *kept = entry;
    return WEFT_OK;
}

weft_status links_improve(struct links *links, enum link_level level, const char *key, const struct link_cost *cost,
                          struct error *error)
{
    struct link_entry *kept = link_entry_find(links, level, key);
    if (!kept || !is_young(kept) || !plausible(cost))
        return links_put(links, level, key, cost, error);
    if (cost->latency + 2 * cost->overhead < kept->cost.latency + 2 * kept->cost.overhead) {
        kept->cost.latency = cost->latency;
        kept->cost.overhead = cost->overhead;
    }
    if (cost->bytes_per_second > kept->cost.bytes_per_second)
        kept->cost.bytes_per_second = cost->bytes_per_second;
    kept->samples++;
    return WEFT_OK;
}

static void write_entry(const struct link_entry *entry, struct json_writer *writer)
{
    JSON_PUT_OBJECT(writer, NULL, "level", link_level_name(entry->level), "key", entry->key, "latency",
                    entry->cost.latency, "overhead", entry->cost.overhead, "bytes_per_second",
                    entry->cost.bytes_per_second, "measured", entry->measured, "samples", entry->samples);
}

weft_status links_save(const struct links *links, const char *path, struct error *error)
{
    char standard[FILE_PATH_BYTES];
    struct links others;
    struct json_writer writer;
    weft_status status = WEFT_OK;
    if (!path) {
        status = links_default_path(standard, error);
        path = standard;
    }
    if (status == WEFT_OK)
        status = file_make_directory_of(path, error);
    if (status != WEFT_OK)
        return status;
    links_load(path, &others, NULL);
    json_begin(&writer, JSON_INDENTED);
    json_open_object(&writer, NULL);
    json_put_integer(&writer, "version", LINKS_VERSION);
    json_open_array(&writer, "links");
    for (size_t i = 0; i < links->count; i++)
        write_entry(&links->entries[i], &writer);
    for (size_t i = 0; i < others.count; i++)
        if (!link_entry_find(links, others.entries[i].level, others.entries[i].key))
            write_entry(&others.entries[i], &writer);
    json_close(&writer);
    json_close(&writer);
    const char *text = json_text(&writer);
    status =
        text ? file_write(path, text, strlen(text), error) : error_memory(error, json_size(&writer), "measured links");
    json_end(&writer);
    links_free(&others);
    return status;
}
