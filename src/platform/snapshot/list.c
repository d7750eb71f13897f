/* SPDX-License-Identifier: Apache-2.0 */
#include "platform/snapshot/list.h"

#include "platform/snapshot/pack.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define MAGIC     "weft-snapshot 1\n"
#define PATH_MOST 4095

/* ---- writing ---- */

void snapshot_list_begin(struct buffer *buffer)
{
    buffer_put(buffer, MAGIC, sizeof MAGIC - 1);
}

void snapshot_list_put(struct buffer *buffer, const struct snapshot_entry *entry)
{
    char line[128];
    int length = 0;
    if (snapshot_entry_is_file(entry))
        length = snprintf(line, sizeof line, "%c %s %" PRIu64 " ", entry->kind, entry->hash, entry->size);
    else
        length = snprintf(line, sizeof line, "%c ", entry->kind);
    buffer_put(buffer, line, (size_t)length);
    if (entry->kind == 'l')
        buffer_put(buffer, entry->target, strlen(entry->target) + 1);
    buffer_put(buffer, entry->path, strlen(entry->path) + 1);
}

/* The order of paths: by their parts, so that a directory stands right before what is in it. */
static int list_path_compare(const char *left, const char *right)
{
    while (*left && *left == *right) {
        left++;
        right++;
    }
    /* The end of a path comes first, then a slash, then any other character. */
    int a = *left == '/' ? 1 : *left ? (uint8_t)*left + 1 : 0, b = *right == '/' ? 1 : *right ? (uint8_t)*right + 1 : 0;
    return a - b;
}

/* ---- reading ---- */

static weft_status snapshot_list_refuse(const struct snapshot_list *list, const char *what, struct error *error)
{
    return error_set(error, WEFT_ERROR_DATA, "%s is no list of a snapshot, or damaged: %s at byte %zu", list->where,
                     what, list->at);
}

weft_status snapshot_list_open(struct snapshot_list *list, const char *bytes, size_t size, const char *where,
                               struct error *error)
{
    *list = (struct snapshot_list){.bytes = bytes, .size = size, .where = where};
    if (size < sizeof MAGIC - 1 || memcmp(bytes, MAGIC, sizeof MAGIC - 1) != 0)
        return snapshot_list_refuse(list, "it does not begin as one", error);
    list->at = sizeof MAGIC - 1;
    return WEFT_OK;
}

/* The text at the reader's place that ends with NUL; NULL if none does. */
static const char *snapshot_list_take_text(struct snapshot_list *list)
{
    const char *text = list->bytes + list->at;
    const char *end = memchr(text, 0, list->size - list->at);
    if (!end)
        return NULL;
    list->at += (size_t)(end - text) + 1;
    return text;
}

static bool is_proper(const char *path)
{
    char framed[PATH_MOST + sizeof "//"];
    return strlen(path) <= PATH_MOST && snprintf(framed, sizeof framed, "/%s/", path) > 0 && !strstr(framed, "//") &&
           !strstr(framed, "/./") && !strstr(framed, "/../");
}

/* Whether the directory that `path` is in is the last directory of the list, or one that it is in. */
static bool has_directory(const struct snapshot_list *list, const char *path)
{
    const char *slash = strrchr(path, '/');
    size_t length = slash ? (size_t)(slash - path) : 0;
    return length == 0 || (strncmp(list->directory, path, length) == 0 &&
                           (list->directory[length] == '\0' || list->directory[length] == '/'));
}

weft_status snapshot_list_next(struct snapshot_list *list, struct snapshot_entry *entry, bool *found,
                               struct error *error)
{
    struct snapshot_entry read = {0};
    if (list->at == list->size) {
        *found = false;
        return WEFT_OK;
    }
    size_t begin = list->at;
    const char *text = list->bytes + begin;
    read.kind = text[0];
    if (!strchr("dfxpql", read.kind) || !read.kind || list->size - begin < 2 || text[1] != ' ')
        return snapshot_list_refuse(list, "an entry of no known kind", error);
    list->at += 2;
    if (snapshot_entry_is_file(&read)) {
        size_t used = snapshot_content_parse(text + 2, list->size - list->at, ' ', read.hash, &read.size);
        if (!used)
            return snapshot_list_refuse(list, "a file without hash and size", error);
        list->at += used;
    }
    if (read.kind == 'l' &&
        (!(read.target = snapshot_list_take_text(list)) || !*read.target || strlen(read.target) > PATH_MOST))
        return snapshot_list_refuse(list, "a link that points nowhere", error);
    read.path = snapshot_list_take_text(list);
    if (!read.path || !is_proper(read.path))
        return snapshot_list_refuse(list, "a path that is not one within a directory", error);
    if (list->before && list_path_compare(list->before, read.path) >= 0)
        return snapshot_list_refuse(list, "a path that is not sorted after the one before it", error);
    if (!has_directory(list, read.path))
        return snapshot_list_refuse(list, "a path in a directory that is not there", error);
    if (read.kind == 'd')
        memcpy(list->directory, read.path, strlen(read.path) + 1);
    list->before = read.path;
    *entry = read;
    *found = true;
    return WEFT_OK;
}

#define NAMED_MOST 3

weft_status snapshot_list_private(const char *bytes, size_t size, const char *where, uint64_t *count, char *names,
                                  size_t room, struct error *error)
{
    struct snapshot_list list;
    struct snapshot_entry entry;
    bool found = true;
    size_t used = 0;
    uint64_t seen = 0;
    *names = '\0';
    weft_status status = snapshot_list_open(&list, bytes, size, where, error);
    while (status == WEFT_OK && (status = snapshot_list_next(&list, &entry, &found, error)) == WEFT_OK && found)
        if (snapshot_entry_is_private(&entry) && seen++ < NAMED_MOST && used < room)
            used += (size_t)snprintf(names + used, room - used, "%s'%.100s'", used ? ", " : "", entry.path);
    if (seen > NAMED_MOST && used < room)
        snprintf(names + used, room - used, " and %" PRIu64 " more", seen - NAMED_MOST);
    if (status == WEFT_OK)
        *count = seen;
    return status;
}
